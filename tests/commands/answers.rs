//! Answers that databases are known to get wrong: each query with its right result.

use crate::program::{answers, database, done, out, refused, sql};

const FLOATS: &str = "(values (1, 'NaN'::double), (1, 2), (2, 'inf'::double), (3, '-inf'::double), \
     (4, 0.0), (4, '-0.0'::double))";

#[test]
fn floating_point_numbers_have_one_order_everywhere() {
    let dir = database();
    let at = dir.path();
    sql(at, &format!("create table f as select * from {FLOATS} t(g, x)"));
    sql(at, "copy (select g as id, x from f) to 'f.parquet'");
    answers(
        at,
        &[
            (
                "select g, max(x), min(x) from f where g < 4 group by g order by g",
                "1,NaN,2.0 2,inf,inf 3,-inf,-inf",
            ),
            (
                "select g, max(x::real) from f where g < 4 group by g order by g",
                "1,NaN 2,inf 3,-inf",
            ),
            ("select case '-0.0'::double when 0 then 'eq' else 'ne' end", "eq"),
            ("select nullif('-0.0'::double, 0.0) is null", "true"),
            (
                "select distinct rank() over (order by x), count(*) over (partition by x) from f \
                 where g = 4",
                "1,2",
            ),
            (
                "select count(*) from 'f.parquet' a where a.x in \
                 (select x from f where g = 4 and cast(x as varchar) = '-0.0')",
                "2",
            ),
            ("select count(*) from 'f.parquet' a join 'f.parquet' b on a.x = b.x", "8"),
        ],
    );
}

#[test]
fn a_cast_is_compared_as_what_it_gives() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table n as select * from (values (1.4, 70000), (1.5, 1), (2.5, -1)) t(d, i)");
    answers(
        at,
        &[
            ("select d::int, d::int = 2 from n order by d", "1,false 2,true 3,false"),
            ("select d from n where d::int = 2", "1.5"),
            ("select d from n where d::decimal(5, 0) = 2", "1.5"),
            ("select count(*) from n where d::bigint in (1, 3)", "2"),
            ("select i from n where try_cast(i as smallint) > 0", "1"),
            ("select 1.5::int, 2.5::double::int, 3.5::double::int, -1.5::int", "2,2,4,-2"),
            ("select ceil(9.5), floor(-9.9), ceil(d) from n order by d limit 1", "10,-10,2"),
        ],
    );
    for query in [
        "select count(*) from n where i::smallint > 0",
        "select sum(v) from (values (interval '2147483647 days'), (interval '1 day')) t(v)",
        "select sum(v) over () from (values (interval '2147483647 months'), (interval '1 month')) t(v)",
    ] {
        assert!(refused(at, query).contains("CELLAR-01426"), "{query}: {}", refused(at, query));
    }
    sql(at, "create table whole (k int)");
    sql(at, "insert into whole values (1.5), (2.4)");
    answers(at, &[("select sum(k) from whole", "4")]);
}

#[test]
fn what_is_written_without_blanks_is_read_all_the_same() {
    let dir = database();
    let at = dir.path();
    answers(
        at,
        &[
            (
                "select 1>-1, 1<>-1, 1!=-1, 1>=-1, 2*-1, 1<-1, 1=+1",
                "true,true,true,true,-2,false,true",
            ),
            ("select '\\x80ff'::bytea = X'80ff'", "true"),
            (
                "select count(*) from (values (1, 1), (2, null)) o(x, g) \
                 where not ((x, g) in (values (1, null), (2, 2)))",
                "0",
            ),
        ],
    );
    sql(at, "create table w as select a.*, a.k + 1 as next from (select 1 as k, 2 as l) a");
    sql(at, "copy (select w.*, next + 1 as third from w) to 'w.csv'");
    answers(at, &[("select k, l, next from w", "1,2,2"), ("select third, l from 'w.csv'", "3,2")]);
    assert!(refused(at, "create table v as select w.*, 1 as k from w").contains("CELLAR-00957"));
    std::fs::write(at.join("f.csv"), "a,b\n1,2\n").unwrap();
    for (query, wanted) in [
        ("select nocol from 'f.csv'", "no column \"nocol\""),
        ("select nofunction(a) from 'f.csv'", "nofunction"),
        ("copy (select 1 as a) to 'o[1].csv'", "pattern"),
        ("copy (select 1 as a) to '/proc/nowhere/o.csv'", "/proc/nowhere"),
    ] {
        let told = refused(at, query);
        assert!(told.contains(wanted) && !told.contains("CELLAR-00600"), "{query}: {told}");
    }
}

#[test]
fn quotients_have_digits_enough_and_numbers_keep_theirs() {
    let dir = database();
    let at = dir.path();
    answers(
        at,
        &[
            ("select 2.0 / 3, -2.0 / 3", "0.6666666666666667,-0.6666666666666667"),
            ("select 1 / 3.0, 1e5 / 3", "0.3333333333333333,33333.3333333333333333"),
            ("select cast('1e5' as decimal(10, 2)), '1.5e-2'::decimal(5, 3)", "100000.00,0.015"),
            ("select try_cast('1e400' as double) is null, 'inf'::double", "true,inf"),
            (
                "select avg(x), avg(-x), avg(distinct x) from (values (1.00), (1.00), (0.00)) v(x)",
                "0.666667,-0.666667,0.500000",
            ),
            (
                "select g, avg(x) from (values (1, 2.00), (1, 2.00), (1, 1.00), (2, 5.00)) v(g, x) \
                 group by g order by g",
                "1,1.666667 2,5.000000",
            ),
            (
                "select avg(x) over (order by n rows 2 preceding) from (values (1, 1.0), (2, 1.0), \
                 (3, 0.0)) v(n, x) order by n",
                "1.00000 1.00000 0.66667",
            ),
            (
                "select x, arrow_typeof(x) from (values (1.5::double), (2.5), ('3')) v(x) order by 1",
                "1.5,Float64 2.5,Float64 3.0,Float64",
            ),
        ],
    );
    for query in [
        "select '3000000000'::int",
        "select '1e400'::double",
        "select 1e39::real",
        "select abs((-32768)::smallint)",
        "select 1e37 * 1 / 1e-30",
    ] {
        let said = refused(at, query);
        assert!(said.contains("01426"), "{query}: {said}");
    }
    for query in
        ["select sqrt(-1.0)", "select make_date(2020, 2, 30)", "select substr('abc', 2, -1)"]
    {
        let said = refused(at, query);
        assert!(said.contains("CELLAR-01428: argument out of range"), "{query}: {said}");
    }
}

#[test]
fn points_in_time_are_read_written_and_counted() {
    let dir = database();
    let at = dir.path();
    answers(
        at,
        &[
            (
                "select timestamp '2024-02-01 12:00', timestamp '2024-02-01 24:00:00'",
                "2024-02-01 12:00:00,2024-02-02 00:00:00",
            ),
            (
                "select date '2024-01-01' + 400000, date '3119-03-02' - 400000",
                "3119-03-02,2024-01-01",
            ),
            ("select to_timestamp(253402300799)", "9999-12-31 23:59:59"),
            (
                "select to_char(timestamp '2024-03-05 14:07:09', 'DD.MM.YYYY HH24:MI:SS'), \
                 to_char(date '2024-03-05', '%Y/%m')",
                "05.03.2024 14:07:09,2024/03",
            ),
            ("select to_date('05.03.2024', 'DD.MM.YYYY')", "2024-03-05"),
            (
                "select date '2500-01-01' in (timestamp '2500-01-01'), date '2500-01-01' between \
                 timestamp '2400-01-01' and timestamp '2600-01-01'",
                "true,true",
            ),
            ("select coalesce(null::date, '2025-01-01') + 1", "2025-01-02"),
            (
                "select timestamp '2024-01-01' + interval '1 day 02:03:04' * 2",
                "2024-01-03 04:06:08",
            ),
            ("select interval '90 minutes' / 2 = interval '45 minutes'", "true"),
            (
                "select extract(second from timestamp '2020-01-01 00:00:05.123456') = 5.123456, \
                 extract(seconds from interval '1 minute 2.5 seconds'), date_part('second', time \
                 '10:00:01.25'), extract(ms from timestamp '1969-12-31 23:59:59.5'), \
                 extract(second from null::timestamp) is null",
                "true,2.5,1.25,59500.0,true",
            ),
        ],
    );
    let said = refused(at, "select to_char(date '2024-01-01', 'XX')");
    assert!(said.contains("stands for no part"), "{said}");
}

#[test]
fn columns_of_one_name_are_not_taken_for_each_other() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table a1 as select * from (values (1, 10), (2, null), (3, 30)) v(id, y)");
    sql(at, "create table b1 as select * from (values (1, 10), (2, 20), (4, null)) v(id, y)");
    sql(at, "create table c1 as select * from (values (7, 1), (8, 3)) v(id, k)");
    answers(
        at,
        &[
            (
                "select a1.y, b1.y from a1 right join b1 on a1.id = b1.id \
                 where a1.y is distinct from b1.y",
                ",20",
            ),
            (
                "select count(*) from a1 right join b1 on a1.id = b1.id \
                 where coalesce(a1.y, 0) <> coalesce(b1.y, 0)",
                "1",
            ),
            (
                "select a1.y, b1.y from a1 right join b1 on a1.id = b1.id \
                 order by b1.y desc nulls last limit 1",
                ",20",
            ),
            (
                "select id from a1 where exists (select b1.id from b1, c1 where c1.id = a1.id + 6) \
                 order by id",
                "1 2",
            ),
            (
                "select id from a1 where exists (select * from b1, c1 where c1.k = b1.id and \
                 c1.id = a1.id + 6)",
                "1",
            ),
            (
                "select a1.id, l.id from a1, lateral (select b1.id from b1 join c1 on true \
                 where c1.id = a1.id + 5) l order by 1, 2",
                "2,1 2,2 2,4 3,1 3,2 3,4",
            ),
            (
                "select a1.id, l.y from a1, lateral (select b1.id as y from b1 where b1.y = a1.y) l",
                "1,1",
            ),
            (
                "select id, (select sum(y) from b1 where b1.id = a1.id having count(*) = 0) from a1 \
                 order by id",
                "1, 2, 3,",
            ),
            ("select id from a1 where (id, id) in (select id, id from b1) order by id", "1 2"),
            (
                "select id, exists (select 1 from b1 where a1.y = a1.y) from a1 order by id",
                "1,true 2,false 3,true",
            ),
            (
                "select (select b1.y from b1 where b1.id = a1.id limit 1) from a1 order by 1",
                "10 20 ",
            ),
            (
                "select a1.id, l.k from a1, lateral (select count(*) over () k from b1 \
                 where b1.id = a1.id) l order by 1",
                "1,1 2,1",
            ),
        ],
    );
}

#[test]
fn intervals_are_compared_by_their_length_and_patterns_by_all_of_a_text() {
    let dir = database();
    let at = dir.path();
    answers(
        at,
        &[
            (
                "select interval '40 days' > interval '1 month', interval '1 day' = interval \
                 '24 hours', interval '25 hours' between interval '1 day' and interval '2 days'",
                "true,true,true",
            ),
            ("select timestamp '2020-01-10' - timestamp '2020-01-01' > interval '1 day'", "true"),
            (
                "select date '2020-01-01' + interval '36 hours', date '2020-01-01' - interval \
                 '1 minute', date '2020-01-31' + interval '1 month'",
                "2020-01-02 12:00:00,2019-12-31 23:59:00,2020-02-29",
            ),
            (
                "select 'abc' similar to 'a%', 'abc' similar to 'b', 'a_c' similar to 'a_c', \
                 'abc' not similar to '(a|b)%', 'a.c' similar to 'a.c'",
                "true,false,true,false,true",
            ),
            (
                "select x like y || '!%' escape '!', x ilike upper(y) || '!%B' escape '!', \
                 x like y || '\\%' escape '!' from (values ('a%b', 'a')) v(x, y)",
                "false,true,false",
            ),
            // A sum of integers is a bigint, one of bigints a numeric.
            ("select sum(x) / 3, sum(x::bigint) / 3 from (values (1), (1)) v(x)", "0,0.666667"),
            (
                "select i from (values (interval '1 month'), (interval '40 days'), (interval \
                 '800 hours')) v(i) order by i",
                "1 mon 800:00:00 40 days",
            ),
            (
                "select row_number() over (order by i desc), i from (values (interval '1 month'), \
                 (interval '40 days')) v(i) order by 1",
                "1,40 days 2,1 mon",
            ),
            (
                "select max(i), min(i), count(distinct i) from (values (interval '1 month'), \
                 (interval '40 days'), (interval '30 days'), (interval '800 hours')) v(i)",
                "40 days,1 mon,3",
            ),
        ],
    );
}

#[test]
fn a_pattern_may_not_end_with_its_escape() {
    let dir = database();
    for pattern in ["'a!'", "y || '!'"] {
        let query = format!("select x like {pattern} escape '!' from (values ('a', 'a')) v(x, y)");
        let said = refused(dir.path(), &query);
        assert!(said.contains("CELLAR-01424"), "{query}: {said}");
    }
}

#[test]
fn an_offset_skips_the_first_rows_of_the_order_that_it_follows() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select value as n, 1000 - value as k from generate_series(1, 999)");
    answers(
        at,
        &[
            ("select min(x), max(x) from (select n + 0 as x from t order by k offset 990)", "1,9"),
            (
                "select max(x) from (select x from (select n * 2 as x, k from t order by k) offset 998)",
                "2",
            ),
            (
                "select min(x) from (select n || '' as x from t order by k desc offset 997 limit 1)",
                "998",
            ),
            ("select x from (select n + 0 as x from t order by k) limit 2", "999 998"),
            ("select x from (select n as x, k from t order by k) v limit 2 offset 1", "998 997"),
            (
                "with v as (select n as x from t order by k desc) select x from v \
                 fetch first 2 rows only",
                "1 2",
            ),
            ("select count(*), max(x) from (select n as x from t order by k)", "999,999"),
            (
                "select x from (select n as x from t order by k) where x % 100 = 0 limit 2",
                "900 800",
            ),
        ],
    );
    sql(at, "create table made as select n * 10 as x from t order by k, n offset 996");
    answers(at, &[("select x from made order by x", "10 20 30")]);
}

#[test]
fn what_differs_by_a_cast_or_a_subquery_has_names_of_its_own() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (1, 10), (2, 20), (2, 30)) v(x, y)");
    answers(
        at,
        &[
            ("select sum(y), sum(y::double), sum(t.y::numeric(9,1)) from t", "60,60.0,60.0"),
            (
                "select x, x::text, count(*), count(x::text) from t group by x, x::text \
                 having max(x::double) > 1 order by max(x::double) desc",
                "2,2,2,2",
            ),
            (
                "select x + 1, x::double + 1 from t group by x + 1, x::double + 1 order by 2",
                "2,2.0 3,3.0",
            ),
            (
                "select lag(y) over (order by y), lag(y::double) over (order by y) from t order by y",
                ", 10,10.0 20,20.0",
            ),
            (
                "select count(*) filter (where exists (select 1 where x = 1)), \
                 count(*) filter (where exists (select 1 where x = 2)) from t",
                "1,2",
            ),
            ("select sum((select 1)), sum((select 2)) from t", "3,6"),
        ],
    );
    let explained =
        out(&done(at, &["sql", "db", "-c", "explain select sum(y), sum(y::double) from t"]));
    assert!(!explained.contains("__apart"), "{explained}");
}

#[test]
fn ties_of_the_last_row_are_fetched_too() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select * from (values (1, 5), (2, 5), (3, 4), (4, 5), (5, 9)) v(id, x)",
    );
    answers(
        at,
        &[
            (
                "select id from (select id from t order by x fetch first 2 rows with ties) q order by id",
                "1 2 3 4",
            ),
            ("select id, x as y from t order by y desc fetch first row with ties", "5,9"),
            ("select x from t order by 1 desc fetch first 2 rows with ties", "9 5 5 5"),
            ("select x from t order by x offset 1 row fetch next 1 row with ties", "5 5 5"),
            (
                "select max(x), min(x) from (select x, count(*) as n from t group by x order by n \
                 fetch first 1 row with ties) q",
                "9,4",
            ),
            (
                "select count(*) from (select id from t order by x fetch first 2 rows with ties)",
                "4",
            ),
        ],
    );
    let said = refused(at, "select id from t fetch first 2 rows with ties");
    assert!(said.contains("WITH TIES without ORDER BY"), "{said}");
}

#[test]
fn least_and_greatest_of_a_cast_are_of_what_it_gives() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table m as select * from (values ('9'), ('10'), ('2')) v(t); \
         create table bad as select * from (values ('9'), ('3abc')) v(t)",
    );
    answers(
        at,
        &[
            ("select max(t::int), min(t::int) from m", "10,2"),
            ("select max(t), min(t) from m", "9,10"),
        ],
    );
    assert!(refused(at, "select max(t::int) from bad").contains("01722"));
}

#[test]
fn joins_are_on_what_a_cast_gives() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select * from (values (-2.25::double), (10.0), (0.5), (1.5), (null)) v(f); \
         create table n as select * from (values (0), (2), (10)) v(k)",
    );
    answers(
        at,
        &[
            ("select f, k from t join n on n.k = t.f::int order by k", "0.5,0 1.5,2 10.0,10"),
            ("select count(*) from t join n on n.k = t.f::bigint", "3"),
            ("select count(*) from t join n on n.k = t.f::numeric", "1"),
            ("select count(*) from t where f::int in (select k from n)", "3"),
            ("select count(*) from t where f::int not in (select k from n)", "1"),
        ],
    );
}

#[test]
fn a_merged_column_is_that_of_the_side_that_has_all_rows() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table l as select * from (values (1, 'a'), (2, 'b')) v(k, v); \
         create table a as select * from (values (1, 'x'), (3, 'y')) v(k, w); \
         create table c as select * from (values (3)) v(k)",
    );
    answers(
        at,
        &[
            ("select * from l left join a using (k) order by k", "1,a,x 2,b,"),
            ("select * from l right join a using (k) order by k", "1,a,x 3,,y"),
            ("select * from a left join l using (k) order by k", "1,x,a 3,y,"),
            ("select k, v, w from l full join a using (k) order by 1", "1,a,x 2,b, 3,,y"),
            (
                "select k, count(*), max(w) from l full join a using (k) group by k \
                 having k > 1 order by k desc",
                "3,1,y 2,1,",
            ),
            ("select k + 1 as more from l full join a using (k) where k > 2", "4"),
            (
                "select k, c.k is null from l full join a using (k) left join c using (k) order by k",
                "1,true 2,true 3,false",
            ),
            ("select l.*, w from l left join a using (k) order by k", "1,a,x 2,b,"),
            ("select k as v from l full join a using (k) order by v desc", "3 2 1"),
        ],
    );
    assert!(refused(at, "select * from l natural left join a").contains("say USING"));
}

#[test]
fn windows_are_named_once_and_used_often() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (1, 'a'), (2, 'a'), (3, 'b')) v(id, g)");
    answers(
        at,
        &[
            (
                "select id, row_number() over (w order by id desc), count(*) over w from t \
                 window w as (partition by g) order by id",
                "1,2,2 2,1,2 3,1,1",
            ),
            (
                "select id from t qualify row_number() over w = 1 \
                 window w as (partition by g order by id desc) order by id",
                "2 3",
            ),
        ],
    );
}

#[test]
fn groups_are_told_apart_however_they_are_written() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (1, 10), (2, 20), (2, 30)) v(x, y)");
    let pairs = "1,1.0,1 2,2.0,2";
    answers(
        at,
        &[
            ("select sum((x + y) * 2), sum(x + y * 2) from t", "130,125"),
            ("select x::text a, x::double b, count(*) from t group by 1, 2 order by 1", pairs),
            ("select x::text a, x::double b, count(*) from t group by a, b order by 1", pairs),
            (
                "select cast(x as text), X::double, count(*) from t \
                 group by t.x::text, (x)::double order by 1",
                pairs,
            ),
            (
                "select x::text, x::double, count(*) from t group by rollup (x::text, x::double) \
                 order by 1 nulls last, 2 nulls last",
                "1,1.0,1 1,,1 2,2.0,2 2,,2 ,,3",
            ),
            (
                "select distinct on (x::text, x::double) y from t \
                 order by x::text, x::double, y desc",
                "10 30",
            ),
            (
                "select distinct on ((select max(u.y) from t u where u.x = t.x)) y from t \
                 order by (select max(u.y) from t u where u.x = t.x) desc, y",
                "20 10",
            ),
            (
                "select count(*) filter (where x = any (select x from t where y < 20)), \
                 count(*) filter (where x = any (select x from t where y > 10)) from t",
                "1,2",
            ),
        ],
    );
}

#[test]
fn what_leaves_a_window_leaves_nothing_behind() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table w as select * from (values (1, 1e300::double), (2, 1), (3, 2), (4, null), \
         (5, 'NaN'), (6, 0.25), (7, -0.25)) v(id, v)",
    );
    let over = "over (order by id rows 1 preceding)";
    answers(
        at,
        &[
            (
                &format!("select id, sum(v) {over} from w"),
                "1,1e300 2,1e300 3,3.0 4,2.0 5,NaN 6,NaN 7,0.0",
            ),
            (
                &format!("select id, avg(v) {over} from w"),
                "1,1e300 2,5e299 3,1.5 4,2.0 5,NaN 6,NaN 7,0.0",
            ),
            (
                "select id, sum(v) over (order by id rows between 1 following and 2 following) \
                 from w order by id",
                "1,3.0 2,2.0 3,NaN 4,NaN 5,0.0 6,-0.25 7,",
            ),
            (&format!("select id, var_pop(v) {over} from w where id in (2, 3)"), "2,0.0 3,0.25"),
            (
                &format!(
                    "select id, bool_and(v > 1) {over}, bit_or(id) {over} from w where id < 4"
                ),
                "1,true,1 2,false,3 3,false,3",
            ),
        ],
    );
}

#[test]
fn a_negative_nan_is_above_all_numbers_too() {
    let dir = database();
    let numbers = "(values ('NaN'::double), (1), ('inf')) t(v)";
    answers(
        dir.path(),
        &[
            (&format!("select -v from {numbers} where -v > 'inf'"), "NaN"),
            (&format!("select max(-v), min(-v) from {numbers}"), "NaN,-inf"),
            (&format!("select count(*) from {numbers} where -v in ('NaN', 0)"), "1"),
            (&format!("select count(*) from {numbers} where sin(v) = 'NaN'"), "2"),
        ],
    );
}

#[test]
fn a_condition_guards_those_behind_it() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (0), (2), (5), (null)) v(x)");
    answers(
        at,
        &[
            ("select x from t where case when x = 0 then false else 10/x > 3 end", "2"),
            ("select x from t where not case when x = 0 then true else 10/x > 3 end", "5"),
            (
                "select count(*) from t where case when x = 0 then null else 10/x > 3 end is null",
                "2",
            ),
            ("select x from t where x = 0 or 10/x > 3 order by x", "0 2"),
            ("select x from t where (x <> 0 and 10/x > 3) or x = 0 order by x", "0 2"),
            ("select x, x <> 0 and 10/x > 3 from t order by x", "0,false 2,true 5,false ,"),
            ("select x from t group by x having case when x = 0 then false else 10/x > 3 end", "2"),
            (
                "select s from (values ('7'), ('a')) v(s) \
                 where case when s = 'a' then false else s::int > 5 end",
                "7",
            ),
        ],
    );
    assert!(refused(at, "select x from t where 10/x > 3").contains("01476"));
}

#[test]
fn instants_of_all_years_and_rows_are_compared_everywhere() {
    let dir = database();
    answers(
        dir.path(),
        &[
            (
                "select d from (values (date '0001-01-01'), (date '2000-01-01')) v(d) \
                 where d between timestamp '1999-01-01' and '2020-12-31'",
                "2000-01-01",
            ),
            (
                "select count(*) from (values (timestamp '0001-01-01')) v(t) \
                 where t is not distinct from '9999-12-31 23:59:59.999999'",
                "0",
            ),
            (
                "select (3, null::int, 1) between (1, 1, 1) and (3, 3, 3), \
                 (1, 2) between (1, 1) and (1, 3), (1, 4) not between (1, 1) and (1, 3)",
                ",true,true",
            ),
            ("select (-2 ^ 2)::int, (-(2 ^ 2))::int, (-2 ^ 3 ^ 2)::int", "4,-4,64"),
        ],
    );
}
