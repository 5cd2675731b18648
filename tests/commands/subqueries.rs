//! Subqueries, and results that depend on the order of one: each query with its right result.

use crate::program::{answers, database, refused, sql};

const PAIRS: &str = "create table t as select * from (values (1, 10), (2, 20), (3, null), (null, 40), \
     (null, null), (2, 20)) v(x, g)";
const OTHERS: &str = "create table n as select * from (values (1, 10), (2, 99), (5, null)) v(y, h)";

#[test]
fn rows_in_subqueries_have_three_values() {
    let dir = database();
    let at = dir.path();
    sql(at, PAIRS);
    sql(at, OTHERS);
    let all = "order by x, g";
    answers(
        at,
        &[
            (
                &format!("select x, g, (x, g) in (select y, h from n) from t {all}"),
                "1,10,true 2,20,false 2,20,false 3,,false ,40, ,,",
            ),
            (
                &format!("select x, g, (x, g) not in (select y, h from n) from t {all}"),
                "1,10,false 2,20,true 2,20,true 3,,true ,40, ,,",
            ),
            (
                &format!("select ((x, g) in (select y, h from n)) is null from t {all}"),
                "false false false false true true",
            ),
            (&format!("select x from t where (x, g) not in (select y, h from n) {all}"), "2 2 3"),
            (&format!("select x from t where not ((x, g) in (select y, h from n)) {all}"), "2 2 3"),
            ("select count(*) from t where (x, g) not in (select y, h from n where y > 9)", "6"),
            (
                "select count(*) from t where case when (x, g) in (select y, h from n) then 1 \
                 when not ((x, g) in (select y, h from n)) then 2 else 3 end = 3",
                "2",
            ),
        ],
    );
}

#[test]
fn subqueries_stand_wherever_a_value_may() {
    let dir = database();
    let at = dir.path();
    sql(at, PAIRS);
    sql(at, OTHERS);
    answers(
        at,
        &[
            (
                "select sum(case when x in (select y from n) then 1 else 0 end), \
                 count(*) filter (where x not in (select y from n)) from t",
                "3,1",
            ),
            (
                "select x in (select y from n) b, count(*) from t group by x in (select y from n) \
                 order by 1",
                "false,1 true,3 ,2",
            ),
            ("select x from t order by x in (select y from n), x limit 4", "3 1 2 2"),
            (
                "select t.x, n.y from t left join n on n.y = t.x and n.h not in (select g from t \
                 where g = 10) where t.x is not null order by 1",
                "1, 2,2 2,2 3,",
            ),
            ("select t.x from t join n on n.y = t.x and t.g in (select h from n) order by 1", "1"),
            (
                "select x, exists (select 1 from n where n.y < t.x) from t order by x",
                "1,false 2,true 2,true 3,true ,false ,false",
            ),
            // As many rows as there are outside, also where two of them are the same.
            (
                "select x, (select count(*) from n where n.y < t.x) from t order by x",
                "1,0 2,1 2,1 3,2 ,0 ,0",
            ),
            (
                "select x, (select sum(h) + 1 from n where n.y <= t.x and h < 50) from t \
                 where x > 0 order by x",
                "1,11 2,11 2,11 3,11",
            ),
            ("select x from t a where (select count(*) from t b where b.x < a.x) = 1", "2 2"),
            (
                "select x, (select y from n where n.y <= t.x order by y desc limit 1) from t \
                 order by x",
                "1,1 2,2 2,2 3,2 , ,",
            ),
            (
                "select t.x, l.y from t, lateral (select y from n where n.y < t.x order by y desc \
                 limit 1) l order by 1",
                "2,1 2,1 3,2",
            ),
            (
                "select t.x, l.c from t, lateral (select count(*) c from n where n.y < t.x) l \
                 where l.c > 0 order by 1",
                "2,1 2,1 3,2",
            ),
        ],
    );
}

#[test]
fn functions_of_the_order_take_that_of_a_subquery() {
    let dir = database();
    let at = dir.path();
    // More rows than one part of a plan has.
    sql(
        at,
        "create table t as select (i * 7919) % 300007 as x, i as y from generate_series(1, 300000) g(i)",
    );
    answers(
        at,
        &[
            (
                "select min(d), max(d) from \
                 (select x - lag(x) over () as d from (select x from t order by x) s) q",
                "1,2",
            ),
            (
                "select first_value(x), last_value(x) from (select x from t order by x) s",
                "1,300006",
            ),
            (
                "select string_agg(x::text, ';') from \
                 (select x from t where y < 4 order by y desc) s",
                "23757;15838;7919",
            ),
            (
                "select array_agg(a) from (select x as a from (select x, y from t order by y) i \
                 where x < 60000 limit 3) s",
                "\"{7919,15838,23757}\"",
            ),
            (
                "select g, string_agg(y::text, '') from (select y % 2 as g, y from t where y < 7 \
                 order by y desc) s group by g order by g",
                "0,642 1,531",
            ),
            (
                "select max(r) from (select rank() over () as r from (select x from t order by x))",
                "1",
            ),
            (
                "select array_agg(y order by y) from (select y from t where y < 4 order by y desc)",
                "\"{1,2,3}\"",
            ),
        ],
    );
}

#[test]
fn subqueries_refer_to_queries_further_out() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table s as select * from (values (1), (2), (3)) v(id); \
         create table p as select * from (values (1), (2)) v(id); \
         create table sp as select * from (values (1, 1), (1, 2), (2, 1)) v(sid, pid)",
    );
    answers(
        at,
        &[
            // Who supplies all parts: relational division.
            (
                "select id from s where not exists (select 1 from p where not exists \
                 (select 1 from sp where sp.sid = s.id and sp.pid = p.id)) order by id",
                "1",
            ),
            (
                "select id, (select count(*) from p where s.id in \
                 (select sp.sid from sp where sp.pid = p.id)) from s order by id",
                "1,2 2,1 3,0",
            ),
            (
                "select id from s where exists (select 1 from p where p.id >= all \
                 (select sp.pid from sp where sp.sid = s.id and sp.pid <> p.id)) order by id",
                "1 2 3",
            ),
            (
                "select id, exists (select 1 from p where not exists (select 1 from sp) \
                 or p.id > s.id) from s order by id",
                "1,true 2,false 3,false",
            ),
            (
                "select id from s where exists (select 1 from p where exists (select 1 from sp \
                 where exists (select 1 from s s2 where s2.id = s.id and sp.pid = p.id \
                 and sp.sid = s2.id))) order by id",
                "1 2",
            ),
        ],
    );
}

#[test]
fn a_column_that_is_called_as_a_table_outside_does_not_hide_it() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table dept as select * from (values (1), (2), (3)) v(id); \
         create table emp as select * from (values (1, 10), (1, 30), (2, 5)) v(dept, pay)",
    );
    answers(
        at,
        &[
            (
                "select id from dept where exists (select 1 from emp where emp.dept = dept.id) \
                 order by dept.id",
                "1 2",
            ),
            (
                "select dept.id, t.pay from public.dept, lateral (select pay from emp \
                 where dept = dept.id order by pay desc limit 1) t order by dept.id",
                "1,30 2,5",
            ),
            (
                "select id, (select max(emp.pay) from emp where emp.dept = dept.id) from dept \
                 order by id",
                "1,30 2,5 3,",
            ),
            ("select dept.dept from emp dept where dept.dept > 1", "2"),
            (
                "select id from dept where id in (select dept from emp where pay > dept.id * 4 \
                 order by pay) order by id",
                "1",
            ),
            ("select (s).id from (select named_struct('id', 7) as s) t", "7"),
            ("select s.id from (select named_struct('id', 7) as s) t", "7"),
        ],
    );
}

#[test]
fn lateral_gives_the_first_rows_of_each() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table d as select * from (values (1), (2), (3)) v(id); \
         create table e as select * from (values (1, 10), (1, 30), (1, 20), (2, 5)) v(dep, pay)",
    );
    let of = "lateral (select e.pay from e where e.dep = d.id order by e.pay desc";
    answers(
        at,
        &[
            (&format!("select d.id, t.pay from d, {of} limit 2) t order by 1, 2"), "1,20 1,30 2,5"),
            (
                &format!("select d.id, t.pay from d, {of} limit 2 offset 1) t order by 1, 2"),
                "1,10 1,20",
            ),
            (
                &format!("select d.id, t.pay from d left join {of} limit 1) t on true order by 1"),
                "1,30 2,5 3,",
            ),
            (
                "select d.id, t.dep from d, lateral (select e.dep from e where e.pay > d.id * 10 \
                 order by e.pay limit 1) t where d.id > 1 order by 1",
                "2,1",
            ),
            (
                "select id from d order by (select max(pay) from e where e.dep = d.id) desc nulls last",
                "1 2 3",
            ),
            (
                "select 1 as one from d order by exists (select 1 from e where e.dep = d.id), id",
                "1 1 1",
            ),
            (
                "select sum((select max(pay) from e where e.dep = d.id)) over () from d limit 1",
                "35",
            ),
        ],
    );
}

#[test]
fn any_and_all_stand_wherever_a_value_may() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table n as select * from (values (1), (2), (null)) v(x)");
    answers(
        at,
        &[
            ("select 1 = any (select x from n), 3 = any (select x from n)", "true,"),
            ("select 0 < all (select x from n), 2 < all (select x from n)", ",false"),
            ("select 5 > all (select x from n where x is not null)", "true"),
            (
                "select 5 > all (select x from n where x > 9), 5 > any (select x from n where x > 9)",
                "true,false",
            ),
            ("select count(*) filter (where x <= all (select x from n where x > 0)) from n", "1"),
            ("select count(*) from n group by x < any (select x from n) order by 1", "1 2"),
            ("select x from n where x <> all (select x from n where x = 1)", "2"),
        ],
    );
}

#[test]
fn a_subquery_without_rows_or_with_a_limit_keeps_the_rows_outside() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select * from (values (1, 1), (2, 7), (3, 1)) v(id, x); \
         create table n as select * from (values (1), (1), (2)) v(x)",
    );
    answers(
        at,
        &[
            (
                "select id, (select count(*) from n where n.x = t.x limit 1) from t order by id",
                "1,2 2,0 3,2",
            ),
            (
                "select id, z.c from t, lateral (select count(*) as c from n where n.x = t.x limit 1) z \
                 order by id",
                "1,2 2,0 3,2",
            ),
            (
                "select id, z.x from t left join lateral (select x from n where n.x = t.x limit 0) z \
                 on true order by id",
                "1, 2, 3,",
            ),
        ],
    );
}

#[test]
fn an_order_reaches_what_is_beside_others_and_what_is_computed() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (1, 3, 7), (2, 1, 5), (3, 2, 6)) v(id, x, y)");
    let ordered = "(select * from t order by id desc)";
    answers(
        at,
        &[
            (
                &format!(
                    "select id, row_number() over (), sum(x) over (order by y range between \
                     1 preceding and current row) from {ordered} q order by id"
                ),
                "1,3,5 2,2,1 3,1,3",
            ),
            (
                &format!(
                    "select id, row_number() over (), count(*) over (order by y), rank() over () \
                     from {ordered} q order by id"
                ),
                "1,3,3,1 2,2,1,1 3,1,2,1",
            ),
            (
                "select array_agg(x) from (select distinct on (x) x from t order by x desc) q",
                "\"{3,2,1}\"",
            ),
            (
                "select array_agg(id) from (select id from t order by abs(y - id - 3), id) q",
                "\"{2,3,1}\"",
            ),
            (
                "select array_agg(id) from (select id from t \
                 order by exists (select 1 from t u where u.x = t.id and u.id = 3), id) q",
                "\"{1,3,2}\"",
            ),
            (
                &format!(
                    "select string_agg(id::text, ','), string_agg(id::text, ',' order by id) \
                     from {ordered} q"
                ),
                "\"3,2,1\",\"1,2,3\"",
            ),
            (
                "select id, row_number() over (partition by x > 1 order by abs(y - id), id) from t \
                 order by id",
                "1,2 2,1 3,1",
            ),
        ],
    );
}

#[test]
fn a_subquery_without_a_row_is_null() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table n as select * from (values (1), (2)) v(y)");
    answers(
        at,
        &[
            (
                "select (select 5 where false) is null, coalesce((select 5 where false), 7), \
                 ((select 'a' where false) || 'b') is null",
                "true,7,true",
            ),
            ("select y from n where (select 5 from n where y = -1) is null order by y", "1 2"),
            ("select y from n where (select 5 from n where y = -1) is not null", ""),
            (
                "select count(a), count(*) from (select (select 5 from n where y = -1) a) q \
                 where a is null",
                "0,1",
            ),
            ("select (select count(*) from n where false), (select 5 from n where y = 1)", "0,5"),
        ],
    );
}

#[test]
fn a_subquery_looks_up_the_one_row_of_each() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table d as select * from (values (1, 'a'), (2, 'b')) v(id, name)");
    sql(
        at,
        "create table e as select * from (values (1, 1), (2, 2), (3, 9), (4, null)) v(id, did)",
    );
    let name = "(select name from d where d.id = e.did)";
    answers(
        at,
        &[
            (&format!("select id, {name} from e order by id"), "1,a 2,b 3, 4,"),
            (&format!("select id, coalesce({name}, 'no') from e order by id"), "1,a 2,b 3,no 4,no"),
            (&format!("select id from e where {name} = 'a'"), "1"),
            (&format!("select {name} n, count(*) from e group by 1 order by 1"), "a,1 b,1 ,2"),
            (&format!("select id from e order by {name} desc nulls last, id"), "2 1 3 4"),
            (
                "select id, (select 1 from d where d.id = e.did) is null from e order by id",
                "1,false 2,false 3,true 4,true",
            ),
            (
                "select id, (select name from d where d.id < e.did) from e where id < 3 order by id",
                "1, 2,a",
            ),
            (
                "select id, (select distinct name from d where d.id = e.did) from e order by id",
                "1,a 2,b 3, 4,",
            ),
            (
                "select id, (select (select name from d where d.id = e.did)) from e order by id",
                "1,a 2,b 3, 4,",
            ),
            (
                "select upper((select name from d where d.id = e.did)) n, count(*), \
                 max((select name from d where d.id = e.did)) from e group by 1 order by 1",
                "A,1,a B,1,b ,2,",
            ),
            (
                "select (select name from d where d.id = e.did) n, sum(id) from e group by 1 \
                 having sum(id) > 1 order by 1",
                "b,2 ,7",
            ),
            // The value is wider than the column, which also ties the subquery.
            (
                "select id from e where did * 1 in (select d.id from d where d.id = e.did) order by id",
                "1 2",
            ),
        ],
    );
    let two = refused(at, "select id, (select name from d where d.id <> e.did) from e");
    assert!(two.contains("CELLAR-01427"), "{two}");
    let two = refused(at, "select (select name from d)");
    assert!(two.contains("CELLAR-01427"), "{two}");
}
