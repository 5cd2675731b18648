//! Files outside of the columnar tables as users see them: what a statement that fails leaves, what a
//! source says of itself, empty texts and nulls, CSV in place and loaded, columns of every type.

#![expect(clippy::disallowed_methods, reason = "this test watches a process, by the true clock")]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{self, cellar, database, done, out, refused, sql, told};

fn csv(dir: &Path, query: &str) -> String {
    out(&done(dir, &["sql", "db", "--format", "csv", "-c", query]))
}

/// What a load that cannot be told.
fn not_loaded(dir: &Path, words: &[&str]) -> String {
    let output = cellar(dir, &[&["load", "db"], words].concat());
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", told(&output));
    told(&output)
}

/// The names in a directory, hidden ones too.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A query that gives many rows and then fails.
const FAILS: &str = "select id, 1 / (id - 200000) as x from generate_series(1, 200010) t(id)";

#[test]
fn a_statement_that_fails_leaves_its_target_as_it_was() {
    let dir = database();
    let at = dir.path();
    let files = at.join("files");
    fs::create_dir(&files).unwrap();
    for (name, format) in [("k.csv", "csv"), ("k.parquet", "parquet"), ("k.json", "json")] {
        let host = files.join(name);
        let group = format!("+DATA/{name}");
        fs::write(&host, "keep me\n").unwrap();
        done(at, &["asm", "db", "cp", host.to_str().unwrap(), &group]);
        for target in [host.to_str().unwrap(), &group] {
            let text = refused(at, &format!("copy ({FAILS}) to '{target}' stored as {format}"));
            assert!(text.contains("division by zero"), "{target}: {text}");
        }
        assert_eq!(fs::read_to_string(&host).unwrap(), "keep me\n");
        done(at, &["asm", "db", "cp", &group, "back"]);
        assert_eq!(fs::read_to_string(at.join("back")).unwrap(), "keep me\n");
        fs::remove_file(at.join("back")).unwrap();
    }
    assert_eq!(names(&files), ["k.csv", "k.json", "k.parquet"]);
    // Nothing new appears either, in a directory or under a name.
    refused(at, &format!("copy ({FAILS}) to '+DATA/new.parquet' stored as parquet"));
    refused(at, &format!("copy ({FAILS}) to 'new/' stored as csv"));
    assert!(names(&at.join("new")).is_empty());
    let listed = out(&done(at, &["asm", "db", "ls", "+DATA"]));
    assert!(!listed.contains("new.parquet"), "{listed}");
}

#[test]
fn an_insert_that_fails_leaves_no_rows_in_a_directory() {
    let dir = database();
    let at = dir.path();
    fs::create_dir(at.join("days")).unwrap();
    for (name, location) in [("h", "days/"), ("g", "+DATA/days/")] {
        for format in ["csv", "parquet"] {
            let table = format!("{name}_{format}");
            let location = format!("{location}{format}/");
            if name == "h" {
                fs::create_dir(at.join(&location)).unwrap();
            } else {
                sql(at, &format!("copy (select 0 as id, 0 as x) to '{location}0.{format}'"));
            }
            let columns = "(id bigint, x bigint)";
            sql(
                at,
                &format!(
                    "create external table {table} {columns} stored as {format} location \
                     '{location}'"
                ),
            );
            refused(at, &format!("insert into {table} {FAILS}"));
            let before = if name == "h" { 0 } else { 1 };
            let count = format!("select count(*) as n from {table}");
            assert_eq!(csv(at, &count), format!("n\n{before}\n"));
            sql(at, &format!("insert into {table} values (1, 2), (3, null)"));
            assert_eq!(csv(at, &count), format!("n\n{}\n", before + 2));
            // From now on a file is missing if there is none.
            if name == "h" {
                let found = at.join(&location);
                fs::remove_file(found.join(&names(&found)[0])).unwrap();
                let text = refused(at, &count);
                assert!(text.contains("CELLAR-27037"), "{text}");
            }
        }
    }
}

#[test]
fn a_copy_that_is_killed_leaves_its_target_and_its_remains_go() {
    let dir = database();
    let at = dir.path();
    let files = at.join("out");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("t.csv"), "a\n1\n").unwrap();
    let long = "select id, id * 2 as b from generate_series(1, 2000000000) t(id)";
    let statement = format!("copy ({long}) to 'out/t.csv' stored as csv");
    let mut child = program::command(at, &["sql", "db", "-c", &statement])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // Until something of it is there.
    while !names(&files).iter().any(|name| {
        name.starts_with('.') && fs::metadata(files.join(name)).is_ok_and(|m| m.len() > 0)
    }) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(files.join("t.csv")).unwrap(), "a\n1\n");
    assert_eq!(names(&files).len(), 2);
    // What is left is no data of a table over the directory.
    sql(at, "create external table d stored as csv location 'out/'");
    assert_eq!(csv(at, "select * from d"), "a\n1\n");
    sql(at, "copy (select 7 as a) to 'out/u.csv'");
    assert_eq!(names(&files), ["t.csv", "u.csv"]);
    assert_eq!(csv(at, "select sum(a) as s from d"), "s\n8\n");
}

#[test]
fn a_file_that_is_gone_is_an_error_and_not_without_rows() {
    let dir = database();
    let at = dir.path();
    fs::create_dir(at.join("many")).unwrap();
    for name in ["one.csv", "many/1.csv", "many/2.csv"] {
        fs::write(at.join(name), "a\n1\n2\n").unwrap();
    }
    sql(at, "copy (select 1 as a) to 'p.parquet'");
    for (table, of_type, location) in [
        ("one", "csv", "one.csv"),
        ("dir", "csv", "many/"),
        ("pattern", "csv", "many/*.csv"),
        ("p", "parquet", "p.parquet"),
    ] {
        let options = if of_type == "csv" { "options ('format.has_header' 'true')" } else { "" };
        sql(
            at,
            &format!(
                "create external table {table} stored as {of_type} location '{location}' {options}"
            ),
        );
    }
    assert_eq!(csv(at, "select count(*) as n from pattern"), "n\n4\n");
    // While the database is open, and afterwards.
    let mut child = program::command(at, &["sql", "db", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"select count(*) as n from one;\n").unwrap();
    stdin.flush().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    for name in ["one.csv", "many/1.csv", "many/2.csv", "p.parquet"] {
        fs::remove_file(at.join(name)).unwrap();
    }
    stdin.write_all(b"select count(*) as n from one;\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(out(&output), "n\n2\n");
    assert!(told(&output).contains("CELLAR-27037"), "{}", told(&output));
    for table in ["one", "dir", "pattern", "p"] {
        let text = refused(at, &format!("select count(*) from {table}"));
        assert!(text.contains("CELLAR-27037"), "{table}: {text}");
        let text = refused(at, &format!("create table kept as select * from {table}"));
        assert!(text.contains("CELLAR-27037"), "{table}: {text}");
        refused(at, "select * from kept");
    }
    // Commands that do not use them say nothing of them; status does.
    let other = done(at, &["sql", "db", "-c", "select 1"]);
    assert_eq!(told(&other), "");
    let status = told(&done(at, &["status", "db"]));
    assert!(status.contains("table one cannot be used now"), "{status}");
}

#[test]
fn an_empty_text_and_a_null_stay_what_they_are() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t as select * from (values (1, ''), (2, null), (3, 'x')) t(id, s)");
    sql(at, "copy (select * from t order by id) to 'o.csv' stored as csv");
    assert_eq!(fs::read_to_string(at.join("o.csv")).unwrap(), "id,s\n1,\"\"\n2,\n3,x\n");
    fs::write(at.join("p.csv"), csv(at, "select * from t order by id")).unwrap();
    sql(at, "copy (select * from t order by id) to 'q.csv' options ('format.null' '\\N')");
    assert_eq!(fs::read_to_string(at.join("q.csv")).unwrap(), "id,s\n1,\"\"\n2,\\N\n3,x\n");
    done(at, &["load", "db", "o.csv"]);
    done(at, &["load", "db", "p.csv"]);
    done(at, &["load", "db", "q.csv", "--null", "\\N"]);
    sql(at, "create external table e stored as csv location 'o.csv'");
    sql(at, "create external table f stored as csv location 'q.csv' options ('null' '\\N')");
    let wanted = "id,n,e\n1,false,true\n2,true,\n3,false,false\n";
    for table in ["t", "o", "p", "q", "e", "f"] {
        let query = format!("select id, s is null as n, s = '' as e from {table} order by id");
        assert_eq!(csv(at, &query), wanted, "{table}");
    }
    // One column, where a line without a byte is a row.
    sql(at, "copy (select s from t order by id) to 'one.csv'");
    done(at, &["load", "db", "one.csv"]);
    let query = "select count(*) as n, count(s) as s from one";
    assert_eq!(csv(at, query), "n,s\n3,2\n");
}

#[test]
fn a_column_without_any_value_is_text() {
    let dir = database();
    let at = dir.path();
    fs::write(at.join("e.csv"), "a,b\n1,\n2,\n").unwrap();
    fs::write(at.join("h.csv"), "a,b\n").unwrap();
    done(at, &["load", "db", "e.csv"]);
    done(at, &["load", "db", "h.csv"]);
    assert_eq!(
        csv(at, "select a, b, b is null as n from e order by a"),
        "a,b,n\n1,,true\n2,,true\n"
    );
    assert_eq!(csv(at, "select * from h"), "a,b\n");
    sql(at, "create external table x stored as csv location 'h.csv' options (has_header true)");
    assert_eq!(csv(at, "select count(*) as n from x"), "n\n0\n");
    assert_eq!(csv(at, "select null as x, 1 as z"), "x,z\n,1\n");
    let json = out(&done(at, &["sql", "db", "--format", "json", "-c", "select null as x"]));
    assert_eq!(json, "[{\"x\":null}]\n");
    sql(at, "create table n as select null as x, 1 as y");
    assert_eq!(csv(at, "select * from n where x is null"), "x,y\n,1\n");
}

#[test]
fn values_hold_line_ends_wherever_a_file_is() {
    let dir = database();
    let at = dir.path();
    let mut text = String::from("id,v,note\n");
    for id in 1..=5000 {
        let note = format!("first line\nsecond, of {id}\r\n\n\"\"quoted\"\"");
        text.push_str(&format!("{id},{},\"{note}\"\n", id * 2));
    }
    fs::write(at.join("n.csv"), &text).unwrap();
    done(at, &["asm", "db", "cp", "n.csv", "+DATA/n.csv"]);
    sql(at, "create external table host stored as csv location 'n.csv'");
    sql(at, "create external table grp stored as csv location '+DATA/n.csv'");
    done(at, &["load", "db", "n.csv", "--table", "loaded"]);
    for table in ["host", "grp", "loaded"] {
        let query = format!(
            "select count(*) as n, sum(id) as i, sum(v) as v, min(length(note)) as l, \
             count(distinct note) as d from {table}"
        );
        assert_eq!(csv(at, &query), "n,i,v,l,d\n5000,12502500,25005000,34,5000\n", "{table}");
        let types = format!(
            "select data_type from information_schema.columns where table_name = '{table}' \
             and column_name = 'id'"
        );
        assert_eq!(csv(at, &types), "data_type\nbigint\n", "{table}");
    }
    // A type is that of all values, not of the first ones.
    let mut text = String::from("a\n");
    (0..100_000).for_each(|i| text.push_str(&format!("{i}\n")));
    text.push_str("x\n");
    fs::write(at.join("late.csv"), text).unwrap();
    sql(at, "create external table late stored as csv location 'late.csv'");
    assert_eq!(csv(at, "select max(a) as a, count(*) as n from late"), "a,n\nx,100001\n");
}

#[test]
fn a_value_that_is_none_is_told_with_its_line_and_ways_out() {
    let dir = database();
    let at = dir.path();
    fs::write(at.join("t.csv"), "id,s,d\n1,\"a\nb\nc\nd\",2024-01-01\n\n3,x,2024-02-30\n").unwrap();
    let text = not_loaded(at, &["t.csv"]);
    assert!(text.contains("line 7, column d: \"2024-02-30\" is not date"), "{text}");
    assert!(text.contains("--type d=varchar") && text.contains("--reject FILE"), "{text}");
    done(at, &["load", "db", "t.csv", "--type", "d=varchar"]);
    assert_eq!(csv(at, "select d from t where id = 3"), "d\n2024-02-30\n");
    let rejected = done(at, &["load", "db", "t.csv", "--table", "u", "--reject", "bad.csv"]);
    assert!(told(&rejected).contains("1 rejected row is in bad.csv"), "{}", told(&rejected));
    assert!(told(&rejected).contains("line 7, column d"), "{}", told(&rejected));
    assert_eq!(csv(at, "select id, d from u"), "id,d\n1,2024-01-01\n");
    assert_eq!(fs::read_to_string(at.join("bad.csv")).unwrap(), "id,s,d\n3,x,2024-02-30\n");
    // In place, the rows before it can be read, and the column as text.
    sql(at, "create external table e stored as csv location 't.csv'");
    let text = refused(at, "select * from e");
    assert!(text.contains("line 7, column d") && text.contains("'d=varchar'"), "{text}");
    let way = "create or replace external table e stored as csv location 't.csv' \
               options ('format.types' 'd=varchar')";
    sql(at, way);
    assert_eq!(csv(at, "select max(d) as d from e"), "d\n2024-02-30\n");
    // Rows of another width go the same way.
    fs::write(at.join("w.csv"), "a,b\n1,2\n3\n4,5,6\n7,8\n").unwrap();
    let text = not_loaded(at, &["w.csv"]);
    assert!(text.contains("line 3: 1 field, and the first line has 2 fields"), "{text}");
    done(at, &["load", "db", "w.csv", "--reject", "wide.csv"]);
    assert_eq!(csv(at, "select sum(a) as a, sum(b) as b from w"), "a,b\n8,10\n");
    assert_eq!(fs::read_to_string(at.join("wide.csv")).unwrap(), "a,b\n3\n4,5,6\n");
}

#[test]
fn nothing_of_a_time_or_a_number_is_lost_in_silence() {
    let dir = database();
    let at = dir.path();
    let load = |text: &str, table: &str| {
        fs::write(at.join("x.csv"), text).unwrap();
        told(&done(at, &["load", "db", "x.csv", "--table", table]))
    };
    load("id,t\n1,2024-01-02 24:00:00\n", "midnight");
    assert_eq!(csv(at, "select t from midnight"), "t\n2024-01-03 00:00:00\n");
    load("t\n2024-01-02 03:04:05.123456789\n", "nanos");
    assert_eq!(csv(at, "select t from nanos"), "t\n2024-01-02 03:04:05.123456789\n");
    let text = load("t\n2024-01-02 03:04:05.123456789\n9999-12-31 00:00:00\n", "far");
    assert!(text.contains("column t is read as text"), "{text}");
    assert_eq!(csv(at, "select max(t) as t from far"), "t\n9999-12-31 00:00:00\n");
    let text = load("t\n2024-01-02 03:04:05+02:00\n2024-01-02 01:04:05Z\n", "zone");
    assert!(text.contains("UTC"), "{text}");
    assert_eq!(csv(at, "select count(distinct t) as n from zone"), "n\n1\n");
    load("n\n12345678901234567890\n1\n", "large");
    assert_eq!(csv(at, "select max(n) as n from large"), "n\n12345678901234567890\n");
    load("n\n3.14159265358979323846\n", "pi");
    assert_eq!(csv(at, "select n from pi"), "n\n3.14159265358979323846\n");
    load("n\n007\n8.5\n", "zeros");
    assert_eq!(csv(at, "select min(n) as n from zeros"), "n\n007\n");
    let text = not_loaded(at, &["x.csv", "--table", "y", "--type", "n=int"]);
    assert!(text.contains("line 3, column n: \"8.5\" is not int"), "{text}");
}

#[test]
fn files_are_queried_by_their_paths() {
    let dir = database();
    let at = dir.path();
    fs::create_dir(at.join("d")).unwrap();
    sql(at, "copy (select 1 as a, 'x' as b) to 'd/1.parquet'");
    sql(at, "copy (select 2 as a, 'y' as b) to 'd/2.parquet'");
    sql(at, "copy (select 3 as a, 'z' as b) to '+DATA/d/3.parquet'");
    sql(at, "copy (select 3 as a, 'z' as b) to 'c.csv.gz'");
    sql(at, "copy (select 3 as a, 'z' as b) to 'c.csv.zst'");
    fs::write(at.join("t.tsv"), "a\tb\n3\tz\n").unwrap();
    fs::write(at.join("l.csv"), b"a,b\n3,\xe4\n").unwrap();
    let packed = fs::read(at.join("c.csv.gz")).unwrap();
    assert_eq!(&packed[..2], &[0x1f, 0x8b]);
    let whole = at.join("d/1.parquet");
    for (path, wanted) in [
        (whole.to_str().unwrap(), 1),
        ("d/1.parquet", 1),
        ("./d/2.parquet", 2),
        ("d/*.parquet", 3),
        ("d/", 3),
        ("./d", 3),
        ("+DATA/d/3.parquet", 3),
        ("+data/d/*.parquet", 3),
        ("+DATA/d/", 3),
        ("c.csv.gz", 3),
        ("c.csv.zst", 3),
        ("t.tsv", 3),
    ] {
        assert_eq!(csv(at, &format!("select sum(a) as s from '{path}'")), format!("s\n{wanted}\n"));
    }
    let both = "select l.b, r.b as c from 'd/1.parquet' l join 'd/*.parquet' r on l.a < r.a";
    assert_eq!(csv(at, both), "b,c\nx,y\n");
    let text = refused(at, "select * from 'd/none.parquet'");
    assert!(text.contains("CELLAR-27037") && text.contains("none.parquet"), "{text}");
    let text = refused(at, "select * from '+DATA/none.csv'");
    assert!(text.contains("CELLAR-15012"), "{text}");
    let text = refused(at, "select * from 'l.csv'");
    assert!(text.contains("line 2, column b") && text.contains("encoding"), "{text}");
    done(at, &["load", "db", "l.csv", "--encoding", "latin1"]);
    assert_eq!(csv(at, "select b from l"), "b\nä\n");
    sql(at, "create external table e stored as csv location 'l.csv' options (encoding 'latin1')");
    assert_eq!(csv(at, "select b from e"), "b\nä\n");
    sql(at, "create external table z stored as csv location 'c.csv.gz'");
    assert_eq!(csv(at, "select a, b from z"), "a,b\n3,z\n");
    done(at, &["load", "db", "c.csv.zst"]);
    assert_eq!(csv(at, "select a, b from c"), "a,b\n3,z\n");
}

/// Columns of types that have no kernel.
const NESTED: &str = "
copy (
  select i as k,
    case when i % 7 = 0 then null else make_array(i, null, i * 2) end as list,
    case when i % 5 = 0 then null else named_struct('n', i, 't', cast(i as varchar)) end as st,
    make_array(named_struct('n', i), named_struct('n', i + 1)) as lists,
    map(make_array('a', 'b'), make_array(i, null)) as m,
    arrow_cast(i, 'Float16') as half,
    arrow_cast(cast(i as varchar), 'Dictionary(Int32, Utf8)') as dict,
    arrow_cast(cast(i as varchar), 'Decimal256(50, 3)') as wide,
    arrow_cast(i, 'Decimal256(30, 3)') as fits,
    arrow_cast(arrow_cast('0123456789abcdef', 'Binary'), 'FixedSizeBinary(16)') as id,
    cast('10:11:12' as time) as t
  from (select value as i from generate_series(1, 3000))
) to 'nested.parquet' stored as parquet";

#[test]
fn columns_of_every_type_are_loaded_and_come_out_as_they_are() {
    let dir = database();
    let at = dir.path();
    sql(at, NESTED);
    done(at, &["load", "db", "nested.parquet", "--table", "n"]);
    for query in [
        "select k, list, st, lists, m, dict, wide, fits, id, t from {} order by k",
        "select sum(arrow_cast(half, 'Float32')) as h from {}",
        "select k, list from {} where list is null order by k",
        "select sum(list[1]) as a, sum(list[3]) as b, count(list) as c from {}",
        "select sum(st['n']) as s, count(st) as c from {} where k % 2 = 0",
        "select k, m['a'] as v from {} where k > 2990 order by k",
        "select st, count(*) as n from {} where k < 20 group by st order by n desc, st",
        "select k from {} where list = make_array(3, null, 6)",
        "select max(wide) as w, min(fits) as f from {}",
        "select count(distinct dict) as d, count(distinct id) as i from {}",
        "select k from {} where t = time '10:11:12' and k = 7",
        "select k from {} order by list desc nulls last, k limit 3",
    ] {
        let of = |table: &str| csv(at, &query.replace("{}", table));
        assert_eq!(of("n"), of("'nested.parquet'"), "{query}");
    }
    let plan = csv(at, "explain select k from n where list = make_array(3, null, 6)");
    assert!(plan.contains("decoded rows") || plan.contains("list"), "{plan}");
    // Added to, and copied.
    sql(at, "create table m as select * from n where k <= 10");
    sql(at, "insert into m select * from n where k = 14");
    assert_eq!(
        csv(at, "select k, list, lists from m order by k"),
        csv(at, "select k, list, lists from n where k <= 10 or k = 14 order by k")
    );
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

#[test]
fn what_a_parquet_file_says_of_itself_is_checked() {
    let dir = database();
    let at = dir.path();
    let whole = fixture("checksums.parquet");
    fs::write(at.join("c.parquet"), &whole).unwrap();
    done(at, &["load", "db", "c.parquet"]);
    assert_eq!(csv(at, "select sum(v) as s from c"), "s\n44850\n");
    assert_eq!(csv(at, "select sum(v) as s from 'c.parquet'"), "s\n44850\n");
    // A bit of a page that rotted, which any number could be.
    let mut rotten = whole.clone();
    rotten[1000] ^= 1;
    fs::write(at.join("r.parquet"), &rotten).unwrap();
    let text = not_loaded(at, &["r.parquet"]);
    assert!(text.contains("r.parquet") && text.contains("column v"), "{text}");
    let text = not_loaded(at, &["r.parquet", "--parquet"]);
    assert!(text.contains("r.parquet") && text.contains("column v"), "{text}");
    refused(at, "select sum(v) from 'r.parquet'");
    done(at, &["asm", "db", "cp", "r.parquet", "+DATA/r.parquet"]);
    sql(at, "create external table g stored as parquet location '+DATA/r.parquet'");
    refused(at, "select sum(v) from g");
    refused(at, "create table kept as select * from g");
    // Rows that the footer denies.
    fs::write(at.join("f.parquet"), fixture("footer.parquet")).unwrap();
    let text = not_loaded(at, &["f.parquet"]);
    assert!(text.contains("0 rows in all, 3 in its row groups"), "{text}");
    let text = refused(at, "create external table f stored as parquet location 'f.parquet'");
    assert!(text.contains("0 rows in all, 3 in its row groups"), "{text}");
    refused(at, "select count(*) from 'f.parquet'");
    // Nothing at all, and half of it.
    fs::write(at.join("e.parquet"), "").unwrap();
    fs::write(at.join("h.parquet"), &whole[..whole.len() / 2]).unwrap();
    fs::write(at.join("e.csv"), "").unwrap();
    for name in ["e.parquet", "h.parquet", "e.csv"] {
        assert!(not_loaded(at, &[name]).contains("CELLAR-29913"), "{name}");
        let text = refused(at, &format!("select * from '{name}'"));
        assert!(text.contains("CELLAR-29913") && text.contains(name), "{name}: {text}");
    }
    // Also beside files that are right, and where the columns are named.
    fs::create_dir(at.join("some")).unwrap();
    fs::write(at.join("some/1.csv"), "a\n1\n").unwrap();
    fs::write(at.join("some/2.csv"), "").unwrap();
    refused(at, "create external table s stored as csv location 'some/'");
    refused(at, "create external table s (a int) stored as csv location 'some/'");
}

#[test]
fn a_file_of_all_types_that_others_write_is_loaded() {
    let dir = database();
    let at = dir.path();
    fs::write(at.join("types.parquet"), fixture("types.parquet")).unwrap();
    done(at, &["load", "db", "types.parquet"]);
    for query in [
        "select nothing, arrow_cast(half, 'Float32') as half, uuid, l, ll from {}",
        "select s, m, d, d256, t32, t64 from {}",
        "select ts, ls, fl, big from {}",
        "select t32, l from {} where l is not null",
        "select count(nothing) as n, max(d256) as d, max(big) as b from {}",
    ] {
        let of = |table: &str| csv(at, &query.replace("{}", table));
        assert_eq!(of("types"), of("'types.parquet'"), "{query}");
    }
}

/// In place, as a table made of that, and loaded.
fn in_every_way(at: &Path, name: &str) -> [String; 3] {
    fs::write(at.join("own.parquet"), fixture(name)).unwrap();
    sql(at, "drop table if exists made");
    sql(at, "drop table if exists own");
    sql(at, "create table made as select * from 'own.parquet'");
    done(at, &["load", "db", "own.parquet"]);
    ["'own.parquet'", "made", "own"].map(str::to_owned)
}

#[test]
fn what_writers_leave_out_or_once_did_wrong_is_not_believed() {
    let dir = database();
    let at = dir.path();
    for table in in_every_way(at, "no_null_count.parquet") {
        let counts = csv(at, &format!("select count(*) as a, count(i) as b from {table}"));
        assert_eq!(counts, "a,b\n4,2\n", "{table}");
        let nulls = csv(at, &format!("select s from {table} where i is null order by s"));
        assert_eq!(nulls, "s\nb\nd\n", "{table}");
    }
    for table in in_every_way(at, "dictionary_of_fixed.parquet") {
        let hex = csv(at, &format!("select encode(d, 'hex') as d from {table} limit 1"));
        assert_eq!(hex, "d\n0400000041414141\n", "{table}");
    }
    for table in in_every_way(at, "dictionary_of_booleans.parquet") {
        let rows = csv(at, &format!("select count(*) as a from {table}"));
        assert_eq!(rows, "a\n2\n", "{table}");
    }
    for table in in_every_way(at, "int96.parquet") {
        let column = csv(at, &format!("select * from {table} limit 2"));
        let values: Vec<&str> = column.lines().skip(1).collect();
        assert_eq!(values, ["0001-01-01 00:00:00", "9999-12-31 23:59:59"], "{table}");
    }
    for table in in_every_way(at, "old_bounds.parquet") {
        assert_eq!(csv(at, &format!("select min(u) as u from {table}")), "u\n0\n", "{table}");
        let zeros = csv(at, &format!("select count(*) as a from {table} where u = 0"));
        assert_eq!(zeros, "a\n1\n", "{table}");
    }
    // Days of years that cannot be written are numbers, and the others are there.
    for table in in_every_way(at, "far_days.parquet") {
        let days = csv(at, &format!("select * from {table}"));
        assert!(days.contains("+10183-09-21") && days.contains("-2147483648"), "{table}: {days}");
    }
}

#[test]
fn damaged_and_odd_files_are_refused_in_words() {
    let dir = database();
    let at = dir.path();
    for (name, words) in [
        ("column_beyond_end.parquet", "a place outside of it"),
        ("column_before_begin.parquet", "a place outside of it"),
        ("footer_too_long.parquet", "too few for the footer"),
    ] {
        fs::write(at.join("bad.parquet"), fixture(name)).unwrap();
        let text = refused(at, "select * from 'bad.parquet'");
        assert!(text.contains("29913"), "{name}: {text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{name}: {text}");
        not_loaded(at, &["bad.parquet"]);
    }
    fs::write(at.join("odd.parquet"), fixture("odd_field.parquet")).unwrap();
    let text = refused(at, "create table odd as select * from 'odd.parquet'");
    assert!(text.contains("00902"), "a table that could not be opened again: {text}");
}

#[test]
fn json_has_every_column_key_and_value() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "copy (select * from (values (1, null, 'nan'::double, 'a\"b', 1.10), \
         (2, null, '-inf'::double, null, 2.25)) v(id, none, x, s, d) order by id) to 'v.json'",
    );
    let lines = fs::read_to_string(at.join("v.json")).unwrap();
    assert_eq!(
        lines,
        "{\"id\":1,\"none\":null,\"x\":\"NaN\",\"s\":\"a\\\"b\",\"d\":1.10}\n\
         {\"id\":2,\"none\":null,\"x\":\"-Infinity\",\"s\":null,\"d\":2.25}\n"
    );
    assert_eq!(csv(at, "select none, s from 'v.json' where id = 2"), "none,s\n,\n");
    sql(
        at,
        "copy (select map(['a', 'b'], [1, null]) as m, [null, 2] as l, \
         named_struct('p', null::int, 'q', 'z') as s) to 'n.json'",
    );
    assert_eq!(
        fs::read_to_string(at.join("n.json")).unwrap(),
        "{\"m\":{\"a\":1,\"b\":null},\"l\":[null,2],\"s\":{\"p\":null,\"q\":\"z\"}}\n"
    );
    let json =
        out(&done(at, &["sql", "db", "--format", "json", "-c", "select 'inf'::double as x"]));
    assert_eq!(json, "[{\"x\":\"Infinity\"}]\n");
    sql(at, "copy (select [null] as b) to 'l.json'");
    assert_eq!(fs::read_to_string(at.join("l.json")).unwrap(), "{\"b\":[null]}\n");
}

#[test]
fn the_types_of_json_are_those_of_all_rows() {
    let dir = database();
    let at = dir.path();
    let text = "{\"v\":1}\n".repeat(1200) + "{\"v\":2.9}\n";
    fs::write(at.join("late.json"), text).unwrap();
    assert_eq!(csv(at, "select max(v), count(*) from 'late.json'"), "max,count\n2.9,1201\n");
}

#[test]
fn files_are_not_divided_by_what_a_row_does_not_have() {
    let dir = database();
    let at = dir.path();
    let text = refused(
        at,
        "copy (select * from (values (1, 10), (2, null)) v(k, x)) to 'p' \
         stored as parquet partitioned by (x)",
    );
    assert!(text.contains("01400") && text.contains("\"x\""), "{text}");
    sql(
        at,
        "copy (select * from (values (1, 10), (2, 20)) v(k, x)) to 'p' \
         stored as parquet partitioned by (x)",
    );
    assert_eq!(names(&at.join("p")), ["x=10", "x=20"]);
}
