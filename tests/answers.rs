//! Answers that databases are known to get wrong: each query with its right result.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod program;

use std::path::Path;

use program::{done, out, refused, sql};

fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    done(dir.path(), &["init", "db", "--disks", "2", "--disk-size", "96M", "--au-size", "1M"]);
    dir
}

fn check(at: &Path, answers: &[(&str, &str)]) {
    let mut words = vec!["sql", "db", "--format", "csv"];
    answers.iter().for_each(|(query, _)| words.extend(["-c", query, "-c", "select '--' as mark"]));
    let text = out(&done(at, &words));
    let mut found = text.split("mark\n--\n");
    for (query, wanted) in answers {
        let rows: Vec<&str> = found.next().unwrap().lines().skip(1).collect();
        assert_eq!(rows.join(" "), *wanted, "{query}");
    }
}

const FLOATS: &str = "(values (1, 'NaN'::double), (1, 2), (2, 'inf'::double), (3, '-inf'::double), \
     (4, 0.0), (4, '-0.0'::double))";

#[test]
fn floating_point_numbers_have_one_order_everywhere() {
    let dir = database();
    let at = dir.path();
    sql(at, &format!("create table f as select * from {FLOATS} t(g, x)"));
    sql(at, "copy (select g as id, x from f) to 'f.parquet'");
    check(
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
    check(
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
    check(at, &[("select sum(k) from whole", "4")]);
}

#[test]
fn what_is_written_without_blanks_is_read_all_the_same() {
    let dir = database();
    let at = dir.path();
    check(
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
    check(at, &[("select k, l, next from w", "1,2,2"), ("select third, l from 'w.csv'", "3,2")]);
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
    check(
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
    check(
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
fn quotients_have_digits_enough_and_numbers_keep_theirs() {
    let dir = database();
    let at = dir.path();
    check(
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
    check(
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
    check(
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
        ],
    );
    let said = refused(
        at,
        "select a1.id, l.k from a1, lateral (select count(*) over () k from b1 where b1.id = a1.id) l",
    );
    assert!(said.contains("03001"), "{said}");
}

#[test]
fn intervals_are_compared_by_their_length_and_patterns_by_all_of_a_text() {
    let dir = database();
    let at = dir.path();
    check(
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
            ("select sum(x) / 3 from (values (1), (1)) v(x)", "0.666667"),
            (
                "select i from (values (interval '1 month'), (interval '40 days'), (interval \
                 '800 hours')) v(i) order by i",
                "1 mons 800 hours 40 days",
            ),
            (
                "select row_number() over (order by i desc), i from (values (interval '1 month'), \
                 (interval '40 days')) v(i) order by 1",
                "1,40 days 2,1 mons",
            ),
            (
                "select max(i), min(i), count(distinct i) from (values (interval '1 month'), \
                 (interval '40 days'), (interval '30 days'), (interval '800 hours')) v(i)",
                "40 days,1 mons,3",
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
    check(
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
    check(at, &[("select x from made order by x", "10 20 30")]);
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
    check(
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
                "\"[7919, 15838, 23757]\"",
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
                "\"[1, 2, 3]\"",
            ),
        ],
    );
}

#[test]
fn what_differs_by_a_cast_or_a_subquery_has_names_of_its_own() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (1, 10), (2, 20), (2, 30)) v(x, y)");
    check(
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
fn subqueries_refer_to_queries_further_out() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table s as select * from (values (1), (2), (3)) v(id); \
         create table p as select * from (values (1), (2)) v(id); \
         create table sp as select * from (values (1, 1), (1, 2), (2, 1)) v(sid, pid)",
    );
    check(
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
fn lateral_gives_the_first_rows_of_each() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table d as select * from (values (1), (2), (3)) v(id); \
         create table e as select * from (values (1, 10), (1, 30), (1, 20), (2, 5)) v(dep, pay)",
    );
    let of = "lateral (select e.pay from e where e.dep = d.id order by e.pay desc";
    check(
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
    check(
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
