//! Columnar tables as users see them: the same answers as DataFusion gives over the same rows in a
//! Parquet file, whatever is asked; made, added to, emptied, dropped.

use std::fmt::Write;
use std::path::Path;

use crate::program::{self, done, json, out, refused, rows, sql};

/// Rows of every kind of column, with what is hard in each: nulls, NaN, -0, empty and long strings,
/// letters of several bytes, numbers of more than 64 bits.
const ROWS: &str = "
copy (
  select i as k,
    case when i % 7 = 0 then null else cast((i * 7919) % 1000 as int) end as n,
    cast(((i * 104729) % 1000000) as decimal(15, 2)) / 100 as d0,
    cast(cast((i * 104729) % 1000000 as decimal(15, 2)) / 100 as decimal(15, 2)) as d,
    cast(cast((i % 13) as decimal(15, 2)) / 100 as decimal(15, 2)) as disc,
    cast(i as decimal(38, 3)) * 100000000000000000000 as w,
    case i % 11 when 0 then null when 1 then cast('NaN' as double) when 2 then cast('-0' as double)
      when 3 then cast('inf' as double) else cast(i - 5000 as double) / 3 end as f,
    date '1992-01-01' + cast((i * 31) % 2500 as int) as day,
    case when i % 5 = 0 then null else to_timestamp_micros(i * 1000003) end as ts,
    case when i % 9 = 0 then null else substr('RANFO', 1 + cast(i % 5 as int), 1) end as flag,
    case when i % 17 = 0 then '' else 'name ' || md5(cast(i as varchar)) end as name,
    case when i % 3 = 0 then repeat('ä', cast(i % 40 as int)) || 'x%_y' || cast(i % 100 as varchar)
      else 'special ' || cast((i * 7) % 1000 as varchar) || ' requests' end as text,
    i % 4 = 1 as b,
    cast(null as int) as nothing
  from (select value as i from generate_series(1, 50000))
) to '+DATA/rows.parquet' stored as parquet";

struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// A condition, as DataFusion reads it.
fn condition(chance: &mut Chance, depth: usize) -> String {
    if depth > 0 && chance.below(3) == 0 {
        let (a, b) = (condition(chance, depth - 1), condition(chance, depth - 1));
        return format!("({a} {} {b})", chance.one(&["and", "or"]));
    }
    if depth > 0 && chance.below(6) == 0 {
        return format!("not ({})", condition(chance, depth - 1));
    }
    let relation = chance.one(&["=", "<>", "<", "<=", ">", ">="]);
    let number = chance.below(1200) as i64 - 100;
    match chance.below(16) {
        0 => format!("k {relation} {}", number * 50),
        1 => format!("n {relation} {number}"),
        2 => format!("n in ({number}, {}, {}, 7, 900, 12, null)", number + 1, number + 50),
        3 => format!("n not in ({number}, {}, {}, 3, 600)", number + 1, number + 50),
        4 => format!("d {relation} {number}.25"),
        5 => format!("w {relation} {}00000000000000000000.5", number * 40),
        6 => {
            let float = chance.one(&["0", "'-0'", "'inf'", "-1666.5", "12", "'-inf'"]);
            format!("f {relation} cast({float} as double)")
        }
        7 => format!("day {relation} date '199{}-03-0{}'", chance.below(9), 1 + chance.below(9)),
        8 => format!("ts {relation} timestamp '1970-01-01T0{}:00:00'", chance.below(9)),
        9 => format!("flag {relation} '{}'", chance.one(&["R", "A", "N", "", "Z", "FF"])),
        10 => format!("flag in ('{}', 'O', 'none')", chance.one(&["R", "A", "N"])),
        11 => format!("name {relation} 'name {:x}'", chance.below(256)),
        12 => {
            let column = chance.one(&["name", "text", "flag"]);
            let pattern = chance.one(&[
                "name a%",
                "%special%requests%",
                "%ff%",
                "special 1_ requests",
                "%",
                "",
                "R",
                "%x\\%\\_y4",
                "_%ä%",
                "name",
            ]);
            format!("{column} {} '{pattern}'", chance.one(&["like", "not like", "ilike"]))
        }
        13 => {
            let column =
                chance.one(&["k", "n", "d", "w", "f", "day", "ts", "flag", "name", "b", "nothing"]);
            format!("{column} is {}null", chance.one(&["", "not "]))
        }
        14 => chance
            .one(&[
                "b",
                "not b",
                "d * (1 - disc) > 5000",
                "n > disc",
                "d > disc * 100000",
                "k % 10 = 3",
                "length(text) > 20",
                "upper(flag) = 'R'",
                "nothing = 1",
                "b is not true",
                "k between 100 and 30",
                "n + 1 > 500",
            ])
            .to_owned(),
        _ => format!("k between {} and {}", number * 40, number * 40 + 3000),
    }
}

/// What is asked of groups.
const CALLS: &[&str] = &[
    "count(*)",
    "count(n)",
    "count(f)",
    "count(nothing)",
    "sum(k)",
    "sum(n)",
    "sum(d)",
    "sum(w)",
    "sum(d * (1 - disc))",
    "sum(d * (1 - disc) * (1 + disc))",
    "avg(d)",
    "avg(n)",
    "avg(w)",
    "avg(cast(d + 0 as int))",
    "sum(cast(disc * 100 as smallint))",
    "min(day)",
    "max(day)",
    "min(name)",
    "max(text)",
    "min(w)",
    "max(w)",
    "min(f)",
    "max(f)",
    "min(flag)",
    "max(ts)",
    "sum(nothing)",
    "min(nothing)",
    "count(distinct flag)",
    "sum(n) filter (where b)",
    "min(b)",
    "round(sum(case when f < cast(1e9 as double) and f > cast(-1e9 as double) then f end))",
];

/// A query over `t`, whose rows come in any order.
fn query(chance: &mut Chance) -> String {
    let filter = match chance.below(5) {
        0 => String::new(),
        _ => format!(" where ({})", condition(chance, 2)),
    };
    let columns = ["n", "d", "disc", "w", "day", "ts", "flag", "name", "text", "b", "nothing"];
    if chance.below(3) == 0 {
        let mut wanted: Vec<&str> = columns.to_vec();
        wanted.push("f");
        wanted.retain(|_| chance.below(3) == 0);
        wanted.push("k");
        return format!("select {} from t{filter} order by k limit 1000", wanted.join(", "));
    }
    let mut wanted: Vec<&str> = Vec::new();
    for _ in 0..1 + chance.below(5) {
        let call = chance.one(CALLS);
        if !wanted.contains(&call) {
            wanted.push(call);
        }
    }
    // Where there is a NaN, DataFusion's least and greatest depend on the order of rows, and on what
    // Parquet tells of its numbers.
    let has_ends = wanted.iter().any(|call| matches!(*call, "min(f)" | "max(f)"));
    let filter = match has_ends {
        true if filter.is_empty() => " where f < cast('inf' as double)".to_owned(),
        true => format!("{filter} and f < cast('inf' as double)"),
        false => filter,
    };
    let keys = ["n", "flag", "day", "b", "name", "w", "nothing", "f", "k", "ts"];
    let mut by: Vec<&str> = Vec::new();
    for _ in 0..chance.below(4) {
        let key = chance.one(&keys);
        if !by.contains(&key) {
            by.push(key);
        }
    }
    let names: Vec<String> = (0..wanted.len()).map(|at| format!("c{at}")).collect();
    let calls: Vec<String> =
        wanted.iter().zip(&names).map(|(call, name)| format!("{call} as {name}")).collect();
    if by.is_empty() {
        return format!("select {} from t{filter}", calls.join(", "));
    }
    let by = by.join(", ");
    format!("select {by}, {} from t{filter} group by {by}", calls.join(", "))
}

/// The answers to queries over `table`, each with its rows in order of their text.
fn answers(dir: &Path, queries: &[String], table: &str) -> Vec<Vec<String>> {
    let mut text = String::new();
    for query in queries {
        let query = query.replace(" from t", &format!(" from {table}"));
        writeln!(text, "{query};\nselect '-- end' as mark;").unwrap();
    }
    let file = dir.join(format!("{table}.sql"));
    std::fs::write(&file, text).unwrap();
    let output = done(dir, &["sql", "db", "-f", file.to_str().unwrap(), "--format", "csv"]);
    let mut all = vec![Vec::new()];
    for line in out(&output).lines() {
        match line {
            "-- end" => all.push(Vec::new()),
            "mark" => {}
            line => all.last_mut().unwrap().push(line.to_owned()),
        }
    }
    all.pop();
    all.iter_mut().for_each(|answer| answer.sort());
    all
}

fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = ["--disk-size", "192M", "--au-size", "1M"];
    done(dir.path(), &[&["init", "db", "--disks", "3"][..], &size].concat());
    dir
}

#[test]
fn every_question_has_the_answer_that_datafusion_gives() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(at, ROWS);
    sql(at, "create external table e stored as parquet location '+DATA/rows.parquet'");
    assert!(sql(at, "create table c using columnar as select * from e").contains("50000 rows"));
    let seed = std::env::var("CELLAR_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    let count = std::env::var("CELLAR_QUERIES").ok().and_then(|s| s.parse().ok()).unwrap_or(300);
    let mut chance = Chance(seed);
    let queries: Vec<String> = (0..count).map(|_| query(&mut chance)).collect();
    let (expected, found) = (answers(at, &queries, "e"), answers(at, &queries, "c"));
    assert_eq!((expected.len(), found.len()), (queries.len(), queries.len()));
    let mut count = 0;
    for ((query, expected), found) in queries.iter().zip(&expected).zip(&found) {
        count += expected.len();
        let first = expected.iter().zip(found).find(|(a, b)| a != b);
        assert!(
            expected == found,
            "seed {seed}: {query}\n{} rows, not {}; the first that differs: {first:?}",
            found.len(),
            expected.len()
        );
    }
    assert!(count > queries.len() * 10, "{count} rows of {} queries say little", queries.len());
    // What a Parquet file tells of its numbers leaves NaN out, and DataFusion believes it.
    let nan = "select count(*) as n from c where f = cast('NaN' as double)";
    assert_eq!(rows(at, nan)[0]["n"], 4546);
    assert_eq!(
        answers(at, &["select * from t order by k".into()], "e"),
        answers(at, &["select * from t order by k".into()], "c")
    );
}

#[test]
fn rows_that_are_stored_in_order_need_no_sort() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table o as select value as k, value / 3 as third, md5(cast(value as varchar)) as h \
             from generate_series(1, 400000) order by value",
    );
    let plan = |order: &str| {
        let explain = format!("explain select * from o order by {order}");
        out(&done(at, &["sql", "db", "-c", &explain, "--format", "csv"]))
    };
    let numbers = |query: &str| {
        let text = out(&done(at, &["sql", "db", "-c", query, "--format", "csv"]));
        text.lines().skip(1).map(|line| line.parse::<i64>().unwrap()).collect::<Vec<_>>()
    };
    sql(at, "insert into o values (400001, 133334, 'x')");
    for order in ["k", "k, h desc", "third"] {
        let plan = plan(order);
        assert!(plan.contains("in order of ") && !plan.contains("sort by"), "{order}: {plan}");
    }
    for order in ["third, h", "k desc", "h", "k + 1"] {
        assert!(plan(order).contains("sort by"), "{order}: {}", plan(order));
    }
    assert!(numbers("select k from o order by k").into_iter().eq(1..=400_001));
    assert_eq!(numbers("select k from o where k > 7 order by k limit 3"), [8, 9, 10]);
    assert_eq!(numbers("select k from o order by k limit 2 offset 300000"), [300_001, 300_002]);
    let steps = "select max(d) from (select k - lag(k) over (order by k) as d from o)";
    assert_eq!(numbers(steps), [1]);
    sql(at, "insert into o values (5, 1, 'x')");
    assert!(plan("k").contains("sort by k"), "a 5 stands behind the end: {}", plan("k"));
    assert_eq!(numbers("select k from o order by k limit 7"), [1, 2, 3, 4, 5, 5, 6]);
}

#[test]
fn rows_come_go_and_come_back() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let count = |table: &str| {
        rows(at, &format!("select count(*) as n, sum(a) as s from {table}"))[0].clone()
    };
    std::fs::write(at.join("one.csv"), "a,b\n1,x\n2,y\n").unwrap();
    std::fs::write(at.join("two.csv"), "a,b\n3,z\n").unwrap();
    std::fs::write(at.join("other.csv"), "b,a\nz,3\n").unwrap();
    done(at, &["load", "db", "one.csv", "--table", "t"]);
    done(at, &["load", "db", "two.csv", "--table", "t", "--append"]);
    assert_eq!((&count("t")["n"], &count("t")["s"]), (&3.into(), &6.into()));
    let other = program::cellar(at, &["load", "db", "other.csv", "--table", "t", "--append"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(program::told(&other).contains("the columns of table \"t\" are a,b"));
    assert!(
        sql(at, "insert into t (b, a) select 'q', 10 union all select 'r', 20").contains("2 rows")
    );
    assert_eq!((&count("t")["n"], &count("t")["s"]), (&5.into(), &36.into()));
    // What looks like a number in the file, where the table has letters.
    std::fs::write(at.join("three.csv"), "a,b\n4,1.10\n").unwrap();
    done(at, &["load", "db", "three.csv", "--table", "t", "--append"]);
    assert_eq!(rows(at, "select b from t where a = 4")[0]["b"], "1.10");
    for statement in ["update t set a = 1", "delete from t where a = 1"] {
        assert!(refused(at, statement).contains("not in this version"), "{statement}");
    }
    assert_eq!(&count("t")["n"], &6);
    assert!(refused(at, "create table t as select 1 as x").contains("CELLAR-00955"));
    assert!(sql(at, "truncate table t").contains("6 rows removed"));
    assert_eq!(&count("t")["n"], &0);
    sql(at, "insert into t values (7, 'back')");
    assert_eq!(&count("t")["s"], &7);
    sql(at, "create table u compress for query high as select a * 2 as a from t");
    sql(at, "select a + 1 as a into w from u");
    sql(at, "create table v (a int, \"Weird/Näme%\" varchar(10), c decimal(20, 3)) using columnar");
    sql(at, "insert into v values (1, null, 2.5), (null, 'ä', null)");
    assert_eq!(rows(at, "select cast(c as varchar) as c from v where c > 2")[0]["c"], "2.500");
    assert_eq!((&count("w")["s"], &count("v")["n"]), (&15.into(), &2.into()));
    let segment = json(at, &["asm", "db", "find", "+DATA", "t_*.seg"]);
    let segment = segment[0]["path"].as_str().unwrap_or_else(|| panic!("{segment:?}")).to_owned();
    for words in
        [&["rm", &segment][..], &["cp", "one.csv", &segment], &["rm", "-r", "+DATA/cellar"]]
    {
        let refused = program::cellar(at, &[&["asm", "db"][..], words].concat());
        assert!(program::told(&refused).contains("CELLAR-15028"), "{words:?}");
    }
    done(at, &["asm", "db", "cp", &segment, "copy.seg"]);
    done(at, &["load", "db", "copy.seg", "--table", "copied"]);
    assert_eq!(count("copied"), count("t"));
    let before = json(at, &["asm", "db", "lsdg"])[0]["free_mb"].as_u64().unwrap();
    sql(
        at,
        "create table big as select value as k, md5(cast(value as varchar)) as h \
             from generate_series(1, 300000)",
    );
    let after = json(at, &["asm", "db", "lsdg"])[0]["free_mb"].as_u64().unwrap();
    assert!(after < before, "{after} {before}");
    sql(at, "drop table big");
    assert_eq!(json(at, &["asm", "db", "lsdg"])[0]["free_mb"].as_u64().unwrap(), before);
    assert!(refused(at, "select * from big").contains("does not exist"));
    done(at, &["validate", "db"]);
}

#[test]
fn a_scan_tells_what_it_left_out_and_why() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select value as k, value % 100 as g, \
             'some text ' || cast(value % 1000 as varchar) as s from generate_series(1, 2000000)",
    );
    let script = "select sum(g) from t where k between 1000 and 2000 and length(s) > 3;
                  select count(*), min(k) from t;
                  select * from v$cell_scan; select * from v$cell_scan_filter; select * from v$sysstat;";
    std::fs::write(at.join("s.sql"), script).unwrap();
    let output = done(at, &["sql", "db", "-f", "s.sql", "--format", "json"]);
    let all: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&out(&output))
        .into_iter()
        .map(|value| value.unwrap())
        .collect();
    let scan = &all[2][0];
    assert!(scan["row_groups"].as_u64().unwrap() > 5, "{scan}");
    assert_eq!(
        scan["row_groups_pruned"].as_u64().unwrap() + 1,
        scan["row_groups"].as_u64().unwrap(),
        "{scan}"
    );
    assert_eq!(scan["rows_returned"], 1, "{scan}");
    let filters = all[3].as_array().unwrap();
    let residual: Vec<_> = filters.iter().filter(|f| f["offloaded"] == "NO").collect();
    assert_eq!(residual.len(), 1, "{filters:?}");
    assert!(
        residual[0]["filter"].as_str().unwrap().contains("length")
            || residual[0]["filter"].as_str().unwrap().contains("character"),
        "{residual:?}"
    );
    let stat = |name: &str| {
        let row = all[4].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row["value"].as_u64().unwrap()
    };
    assert!(stat("cell physical IO bytes saved by storage index") > 0);
    let eligible = stat("cell physical IO bytes eligible for predicate offload");
    assert!(stat("cell physical IO interconnect bytes returned by smart scan") * 1000 < eligible);
    let plan = rows(at, "explain select sum(g) from t where k < 10 and length(s) > 3");
    let plan: Vec<&str> = plan.iter().map(|row| row["plan"].as_str().unwrap()).collect();
    assert!(plan.iter().any(|line| line.contains("cell scan t")), "{plan:#?}");
    assert!(plan.iter().any(|line| line.ends_with(" filter k < 10")), "{plan:#?}");
    assert!(plan.iter().any(|line| line.trim().starts_with("residual ")), "{plan:#?}");
}

/// Groups of every number: few, as many as there are rows, of keys close to each other (summed at
/// places) and far from each other, one after the other in the table and all over it.
#[test]
fn many_groups_are_summed_whatever_their_keys() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select value as k, value * 7919 % 10000 as near, \
             case when value % 7 = 0 then null else value * 104729 % 1000003 * 1000003 end as far, \
             value / 4 as run, cast(value % 1000 as decimal(15, 2)) / 8 as d, \
             cast(value % 77 as double) / 4 as f, 'name ' || cast(value % 3000 as varchar) as name \
             from generate_series(1, 120000)",
    );
    sql(at, "copy t to '+DATA/t.parquet' stored as parquet");
    sql(at, "create external table e stored as parquet location '+DATA/t.parquet'");
    let calls = "count(*) as n, count(far) as m, sum(d) as s, sum(d * k) as p, avg(k) as a, min(d) as l, \
                 max(far) as g, sum(f) as fs";
    let keys = ["near", "far", "run", "name", "near, name", "run, near", "k", "d", "f, near"];
    let queries: Vec<String> = keys
        .iter()
        .flat_map(|key| {
            let grouped = format!("select {key}, {calls} from t group by {key}");
            let some =
                format!("select {key}, {calls} from t where k % 5 = 2 and d > 3 group by {key}");
            [grouped, some]
        })
        .collect();
    let (expected, found) = (answers(at, &queries, "e"), answers(at, &queries, "t"));
    for ((query, expected), found) in queries.iter().zip(&expected).zip(&found) {
        assert!(expected.len() > 500 || query.contains("by d"), "{query}: {}", expected.len());
        let first = expected.iter().zip(found).find(|(a, b)| a != b);
        assert!(expected == found, "{query}: {} and {}: {first:?}", expected.len(), found.len());
    }
}

#[test]
fn what_cannot_be_done_in_the_cell_is_done_right_all_the_same() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select value as k, cast(value as double) + 0.9 as f, \
             cast(case value when 1 then '100000000000000000000' else '1' end as decimal(38, 0)) as a, \
             cast(case value when 2 then '100000000000000000000' else '1' end as decimal(38, 0)) as b, \
             cast(value as decimal(38, 3)) as w from generate_series(1, 200000)",
    );
    let one = |query: &str| rows(at, query)[0]["x"].clone();
    // The cast is of each row, which it rounds, not of the average.
    assert_eq!(one("select avg(cast(f as int)) as x from t where k in (1, 2)"), 2.5);
    // An average of 38 digits is summed in 256 bits.
    assert_eq!(one("select cast(avg(w) as varchar) as x from t"), "100000.5000000");
    // What might go beyond 128 bits does not: no row group is damaged.
    assert_eq!(one("select count(*) as x from t where a * b > 5"), 2);
    assert_eq!(one("select cast(sum(a * b) as varchar) as x from t where k > 2"), "199998");
    assert!(refused(at, "select count(*) from t where 10 / (k - 7) > 1").contains("CELLAR-01476"));
    // Run twice in one plan: the left side of a join by comparison, when memory is short.
    let pairs = "select count(*) as x from t a join t b on a.k < b.k and b.k < 12";
    assert_eq!(one(pairs), 55);
    assert!(refused(at, "create table n (a int not null) using columnar").contains("NOT NULL"));
    let columns: Vec<String> = (0..1601).map(|at| format!("c{at} int")).collect();
    let wide = format!("create table wide ({}) using columnar", columns.join(", "));
    assert!(refused(at, &wide).contains("CELLAR-01792"));
}

#[test]
fn a_table_made_anew_is_not_read_with_the_old_columns() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let script = "create table t (a int, b int) using columnar; insert into t values (1, 2);
                  create temp view v as select a from t; drop table t;
                  create table t (b int, a int) using columnar; insert into t values (20, 10);
                  select a from v;";
    std::fs::write(at.join("s.sql"), script).unwrap();
    let output = program::command(at, &["sql", "db", "-f", "s.sql"]).output().unwrap();
    let told = program::told(&output);
    assert!(told.contains("CELLAR-00942") && told.contains("other columns"), "{told}");
}

/// The keys of one side of a join go down to the scan of the other: the answers stay the same, also
/// where null equals null and where rows without a partner are wanted.
#[test]
fn joins_leave_out_what_has_no_partner() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let facts = "select value as k, case when value % 11 = 0 then null else value * 7919 % 20000 end as p, \
                 cast(value * 31 % 997 as int) as q from generate_series(1, 150000)";
    let parts = "select case when value = 20 then null else value * 13 % 20000 end as p, value % 50 as kind, \
                 cast(value % 1200 as int) as q from generate_series(1, 20000)";
    for (name, rows) in [("facts", facts), ("parts", parts)] {
        sql(at, &format!("create table c_{name} as {rows}"));
        sql(at, &format!("copy c_{name} to '+DATA/{name}.parquet' stored as parquet"));
        let place = format!("'+DATA/{name}.parquet'");
        sql(at, &format!("create external table e_{name} stored as parquet location {place}"));
    }
    let few = "kind = 7 and b.p % 3 = 0";
    let queries: Vec<String> = [
        format!("select a.k from t_facts a join t_parts b on a.p = b.p where {few}"),
        "select a.k from t_facts a join t_parts b on a.p is not distinct from b.p \
         where b.kind in (7, 20)"
            .into(),
        "select sum(a.k) as s, b.kind from t_facts a join t_parts b on a.p = b.p and a.q = b.q \
         group by b.kind"
            .into(),
        format!("select count(*) as n from t_facts a left join t_parts b on a.p = b.p and {few}"),
        format!("select b.p from t_parts b left join t_facts a on a.p = b.p where {few}"),
        "select count(*) as n from t_facts a where a.p in (select p from t_parts where kind < 20)"
            .into(),
        "select count(*) as n from t_facts a \
         where not exists (select 1 from t_parts b where a.p = b.p and b.kind < 20)"
            .into(),
        "select b.kind, count(*) as n from t_facts a join t_parts b on a.q = b.q \
         where b.kind > 40 group by b.kind"
            .into(),
        "select count(*) as n from t_facts a join t_parts b on a.p = b.p where b.kind = 99".into(),
        // What has no partner is kept by one side, by both, or asked for.
        format!("select count(a.k) as a, count(b.p) as b from t_facts a right join t_parts b on a.p = b.p and {few}"),
        "select count(*) as n, count(a.k) as a, count(b.p) as b \
         from (select * from t_facts where k < 70000) a \
         full join (select * from t_parts where kind < 9) b on a.p = b.p"
            .into(),
        "select count(*) as n from t_facts where p not in (select p from t_parts where kind = 7)".into(),
        "select count(*) as n from t_facts where p not in (select p from t_parts where kind = 20)".into(),
        "select count(*) as n from t_parts b where b.p in (select p from t_facts where k < 900)".into(),
        "select count(*) as n from t_parts b \
         where not exists (select 1 from t_facts a where a.p = b.p and a.k < 900)"
            .into(),
    ]
    .to_vec();
    let over = |side: &str| -> Vec<String> {
        queries.iter().map(|query| query.replace("t_", side)).collect()
    };
    let (expected, found) = (answers(at, &over("e_"), "e"), answers(at, &over("c_"), "c"));
    for ((query, expected), found) in queries.iter().zip(&expected).zip(&found) {
        let first = expected.iter().zip(found).find(|(a, b)| a != b);
        assert!(expected == found, "{query}: {} and {}: {first:?}", expected.len(), found.len());
    }
    let script = format!("{}; select * from v$cell_scan;", over("c_")[0]);
    std::fs::write(at.join("s.sql"), script).unwrap();
    let output = done(at, &["sql", "db", "-f", "s.sql", "--format", "json"]);
    let text = out(&output);
    let mut all = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    let rows = all.next().unwrap().unwrap().as_array().unwrap().len();
    let scans = all.next().unwrap().unwrap();
    let scan = scans.as_array().unwrap().iter().find(|scan| scan["table_name"] == "c_facts");
    let returned = scan.unwrap()["rows_returned"].as_u64().unwrap();
    assert!(rows > 0 && returned == rows as u64, "{returned} rows returned for {rows}");
}

#[test]
fn an_aggregation_that_is_used_twice_is_computed_once() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t as select value % 1000 as g, value * 3 as v, value as k \
             from generate_series(1, 200000)",
    );
    let sums = "with sums as (select g, sum(v) as s from t where k > 17 group by g)";
    let twice = format!("{sums} select g, s from sums where s = (select max(s) from sums)");
    let expected = rows(at, "select g, sum(v) as s from t where k > 17 group by g order by s desc");
    assert_eq!(rows(at, &twice), expected[..1]);
    let plan = |query: &str| {
        let plan = rows(at, &format!("explain {query}"));
        plan.iter().map(|row| row["plan"].as_str().unwrap().to_owned() + "\n").collect::<String>()
    };
    // Told once, and where it is used again.
    assert_eq!(plan(&twice).matches("computed once").count(), 1, "{}", plan(&twice));
    assert_eq!(plan(&twice).matches("cell scan t").count(), 1, "{}", plan(&twice));
    // One run of the scan is told, not two.
    std::fs::write(at.join("s.sql"), format!("{twice}; select count(*) as n from v$cell_scan;"))
        .unwrap();
    let told = out(&done(at, &["sql", "db", "-f", "s.sql", "--format", "csv"]));
    assert_eq!(told.lines().last(), Some("1"), "{told}");
    let both = format!(
        "{sums} select a.g, a.s, b.s as t from sums a join sums b on a.g = b.g where a.g < 3 order by a.g"
    );
    let each = rows(
        at,
        "select g, sum(v) as s, sum(v) as t from t where k > 17 and g < 3 group by g order by g",
    );
    assert_eq!(rows(at, &both), each);
    // What differs in one thing only is not shared.
    let others = [
        ("sum(v)", "sum(k)", "k > 5", "k > 5"),
        ("sum(v)", "min(v)", "k > 5", "k > 5"),
        ("count(v)", "count(distinct v)", "k > 5", "k > 5"),
        ("sum(v)", "sum(v) filter (where k > 9)", "k > 5", "k > 5"),
        ("sum(v)", "sum(v)", "k > 5", "k > 6"),
        ("sum(v)", "sum(v)", "k > 5", "k > 5 and v > 6"),
    ];
    for (one, other, here, there) in others {
        let query = format!(
            "select * from (select g, {one} as s from t where {here} group by g) a \
                 join (select g, {other} as s from t where {there} group by g) b on a.g = b.g"
        );
        assert!(!plan(&query).contains("computed once"), "{}", plan(&query));
    }
    let chance = "with r as (select g, sum(v) as s from t where k > random() group by g) \
                  select count(*) from r a join r b on a.g = b.g";
    assert!(!plan(chance).contains("computed once"), "{}", plan(chance));
    // A few rows of it, and more groups than there is memory to keep: 400,000 of 16 bytes in an eighth of
    // what queries have of 96 MB.
    let few = "with r as (select k, sum(v) as s from t group by k) \
               select count(*) as n from (select a.k from r a join r b on a.k = b.k limit 7)";
    assert_eq!(rows(at, few)[0]["n"], 7);
    sql(
        at,
        "insert into t select value % 1000, value * 3, value from generate_series(200001, 400000)",
    );
    let many = "with r as (select k, sum(v) as s from t group by k) \
                select k, s from r where s = (select max(s) from r)";
    let top = rows(at, "select 400000 as k, 1200000 as s");
    assert_eq!(rows(at, many), top);
    sql(at, "alter system set memory_target = 96M");
    assert_eq!(rows(at, many), top);
    std::fs::write(at.join("m.sql"), format!("{many}; select count(*) as n from v$cell_scan;"))
        .unwrap();
    let told = out(&done(at, &["sql", "db", "-f", "m.sql", "--format", "csv"]));
    assert_eq!(told.lines().last(), Some("3"), "once, and once for each use: {told}");
}

#[test]
fn keys_of_a_join_narrow_the_scan_of_its_other_side() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    // Keys far from each other, of which every hundredth has a name.
    sql(
        at,
        "create table names as select value as n, cast(value * 100 as bigint) * 1000003 as k, \
             'name ' || cast(value % 7 as varchar) as name from generate_series(1, 5000)",
    );
    sql(
        at,
        "create table facts as select cast((value * 7919) % 500000 as bigint) * 1000003 as k, \
             value as v from generate_series(1, 500000)",
    );
    let returned = |query: &str| {
        let script = format!(
            "{query};\nselect max(rows_returned) as n from v$cell_scan where table_name = 'facts';"
        );
        std::fs::write(at.join("s.sql"), script).unwrap();
        let told = out(&done(at, &["sql", "db", "-f", "s.sql", "--format", "csv"]));
        let lines: Vec<&str> = told.lines().collect();
        (lines[1].to_owned(), lines[3].parse::<u64>().unwrap())
    };
    let join = "select count(*) as c, sum(v) as s from facts join names on facts.k = names.k";
    let (answer, rows_returned) = returned(&format!("{join} where name <> 'name 3'"));
    let matching = rows(
        at,
        "select count(*) as c, sum(v) as s from facts where k % 100000300 = 0 and k > 0 \
             and (k / 100000300) % 7 <> 3",
    );
    assert_eq!(answer, format!("{},{}", matching[0]["c"], matching[0]["s"]));
    assert!(rows_returned < 10_000, "{rows_returned} of 500000 rows, 4286 have a partner");
    // A filter that all rows pass is given up, and the answer is the same.
    let all =
        "select count(*) as c from facts a join (select k from facts where v > 0) b on a.k = b.k";
    assert_eq!(returned(all).0, "500000");
}
