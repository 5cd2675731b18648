//! Columnar tables as they are made and filled: single rows, lengths of texts, groups that are named.

use std::fmt::Write;

use crate::program::{self, done, json, out, refused, rows, sql};

fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = ["--disk-size", "192M", "--au-size", "1M"];
    done(dir.path(), &[&["init", "db", "--disks", "3"][..], &size].concat());
    dir
}

#[test]
fn single_rows_take_no_more_room_than_they_hold() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(at, "create table t (k bigint, s varchar, l bigint[]) using columnar");
    let free = || json(at, &["asm", "db", "lsdg"])[0]["free_mb"].as_u64().unwrap();
    let before = free();
    let mut script = String::new();
    for k in 0..200 {
        writeln!(script, "insert into t values ({k}, 'row {k}', [{k}, null]);").unwrap();
    }
    script.push_str("insert into t select value, 'more', null from generate_series(200, 90000);");
    for k in 90_001..=90_020 {
        writeln!(script, "insert into t values ({k}, null, []);").unwrap();
    }
    std::fs::write(at.join("rows.sql"), script).unwrap();
    done(at, &["sql", "db", "-f", "rows.sql"]);
    assert!(before - free() <= 24, "{} MB of {before} are left", free());
    let sums = "select count(*) as n, sum(k) as k, count(s) as s, count(l) as l, \
         sum(l[1]) as first, count(distinct s) as d from t";
    let row = &rows(at, sums)[0];
    let whole: u64 = (0..=90_020).sum();
    assert_eq!((&row["n"], &row["s"], &row["l"]), (&90_021.into(), &90_001.into(), &220.into()));
    assert_eq!(row["k"].to_string().trim_matches('"'), whole.to_string());
    assert_eq!(row["first"].to_string().trim_matches('"'), (0..200).sum::<u64>().to_string());
    assert_eq!(row["d"], 201);
    let order = rows(at, "select k from t where k < 200 or k > 90000 order by k");
    assert!(order.iter().zip((0..200).chain(90_001..)).all(|(row, k)| row["k"] == k), "{order:?}");
    done(at, &["validate", "db"]);
}

#[test]
fn a_text_has_at_most_the_characters_that_its_column_takes() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t (a varchar(3), b varchar2(5), c varchar, n number(4, 1)) using columnar",
    );
    sql(at, "insert into t values ('äöü', 'fünf!', 'as long as it is', 1.5), (null, '', null, 2)");
    for values in ["('abcd', null, null, 1)", "(null, 'sechs!', null, 1)"] {
        let told = refused(at, &format!("insert into t values {values}"));
        assert!(told.contains("CELLAR-12899") && told.contains("at most"), "{told}");
    }
    assert!(refused(at, "insert into t values (null, null, null, 12345)").contains("CELLAR-"));
    let many = "insert into t select 'abc', case when value = 150000 then 'too long' else 'x' end, \
         null, 1 from generate_series(1, 200000)";
    assert!(refused(at, many).contains("CELLAR-12899"));
    assert_eq!(rows(at, "select count(*) as n from t")[0]["n"], 2);
    let row = &rows(
        at,
        "select 'abcdef'::varchar(3) as a, cast(12345 as varchar2(2)) as b, \
         cast(null as varchar(2)) as c, 'äöü'::char(2) as d",
    )[0];
    assert_eq!((&row["a"], &row["b"]), (&"abc".into(), &"12".into()));
    assert_eq!((&row["c"], &row["d"]), (&serde_json::Value::Null, &"äö".into()));
}

#[test]
fn a_table_is_made_in_the_group_that_is_named() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    sql(at, "create diskgroup other external redundancy disk 'other.img' size 64M");
    sql(at, "create table a (k int) in '+OTHER'");
    sql(at, "create table b tablespace other as select value as k from generate_series(1, 10)");
    sql(at, "create table c (k int) using columnar tablespace data");
    sql(at, "insert into a values (1), (2)");
    for (table, group) in [("a", "OTHER"), ("b", "OTHER")] {
        let found =
            out(&done(at, &["asm", "db", "find", &format!("+{group}"), &format!("{table}_*")]));
        assert!(found.contains(&format!("+{group}/")), "{table}: {found}");
    }
    sql(at, "insert into c values (7)");
    assert!(!out(&done(at, &["asm", "db", "find", "+OTHER", "c_*"])).contains("+OTHER/"));
    assert_eq!(
        rows(at, "select sum(a.k) as s from a join b on a.k = b.k")[0]["s"]
            .to_string()
            .trim_matches('"'),
        "3"
    );
    let told = refused(at, "create table d (k int) in '+NOWHERE'");
    assert!(told.contains("CELLAR-15001") && told.contains("DATA"), "{told}");
    assert!(
        out(&done(
            at,
            &["sql", "db", "-c", "explain create table e tablespace other as select 1 as k"]
        ))
        .contains("create table e")
    );
    let told = refused(at, "create table '+OTHER/obj' as select 1 as k");
    assert!(told.contains("IN '+") || told.contains("in '+"), "{told}");
}
