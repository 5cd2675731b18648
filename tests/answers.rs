//! Answers that other systems have got wrong, or we once had: each query with what it gives.

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
