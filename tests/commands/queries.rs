//! The 22 queries of TPC-H at scale 1 against the standard's answers, over a mirrored group, also while
//! one of its disks is gone; and queries that have less memory than they need.
//!
//! `tests/tpch/` has the queries with the standard's constants for validation, and their answers: those
//! DuckDB 2.0 gives over the same rows, which are those that the standard publishes.

use std::path::Path;

use crate::program::{done, json, out, refused, rows, sql};

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields.last_mut().unwrap().push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    fields
}

/// What a query gives: its rows, each with its fields.
fn answer(dir: &Path, query: &str) -> Vec<Vec<String>> {
    let text = out(&done(dir, &["sql", "db", "-c", query, "--format", "csv"]));
    text.lines().skip(1).map(fields).collect()
}

fn decimals(number: &str) -> Option<usize> {
    number.parse::<f64>().ok()?;
    number.split_once('.').map(|(_, digits)| digits.len())
}

/// Whether two fields say the same: of numbers with digits behind the point, as far as both have them, and
/// ours has four, or all of the other's.
fn is_same(own: &str, wanted: &str) -> bool {
    let (Some(a), Some(b)) = (decimals(own), decimals(wanted)) else { return own == wanted };
    let (own, wanted) = (own.parse::<f64>().unwrap(), wanted.parse::<f64>().unwrap());
    if a < b.min(4) {
        return false;
    }
    let last = 10f64.powi(-(a.min(b) as i32));
    (own - wanted).abs() <= last.max(wanted.abs() * 1e-14)
}

/// Runs all 22 and holds each against its answer.
fn check_queries(dir: &Path, when: &str) {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tpch");
    for number in 1..=22 {
        let query = std::fs::read_to_string(format!("{own}/q{number:02}.sql")).unwrap();
        let wanted = std::fs::read_to_string(format!("{own}/q{number:02}.csv")).unwrap();
        let rows = answer(dir, &query);
        let (head, wanted) = wanted.split_once('\n').unwrap();
        let count = head.split(' ').nth(1).unwrap();
        assert_eq!(rows.len().to_string(), count, "{when}, query {number}: rows");
        for (at, (row, wanted)) in rows.iter().zip(wanted.lines()).enumerate() {
            let wanted: Vec<&str> = wanted.split('|').collect();
            let same = row.len() == wanted.len()
                && row.iter().zip(&wanted).all(|(own, wanted)| is_same(own, wanted));
            assert!(same, "{when}, query {number}, row {at}: {row:?}, not {wanted:?}");
        }
        // Of the longest answer only the first rows are kept, and a sum of all.
        if let Some((_, rest)) = head.split_once("the last column of all is ") {
            let sum: i64 = rows.iter().map(|row| row.last().unwrap().parse::<i64>().unwrap()).sum();
            assert!(rest.starts_with(&format!("{sum},")), "{when}, query {number}: {sum}");
        }
    }
}

#[test]
fn all_queries_of_tpch_equal_the_published_answers_also_with_a_disk_gone() {
    let dir = tempfile::tempdir().unwrap();
    done(dir.path(), &["init", "db", "--disks", "4", "--disk-size", "384M"]);
    done(dir.path(), &["load", "db", "--tpch", "1"]);
    check_queries(dir.path(), "all disks");
    std::fs::remove_file(dir.path().join("db/disks/disk3")).unwrap();
    check_queries(dir.path(), "a disk gone");
}

#[test]
fn what_has_no_room_in_memory_goes_to_the_disk_group_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(dir, &["init", "db", "--disks", "3", "--disk-size", "512M", "--au-size", "1M"]);
    done(dir, &["load", "db", "--tpch", "0.1"]);
    // A sum of products by rank says whether each row came back, and at its place.
    let query = "select count(*) as n, sum(place * key) as s from (select l_orderkey as key, \
         row_number() over (order by l_comment, l_orderkey, l_linenumber) as place from lineitem)";
    let groups = "select count(*) as n, sum(c) as c from (select l_comment, count(*) as c, \
         max(l_shipdate) as d from lineitem group by l_comment having count(*) > 0)";
    let (wanted, wanted_groups) = (rows(dir, query), rows(dir, groups));
    assert!(wanted[0]["n"].as_u64().unwrap() > 600_000, "{wanted:?}");
    let free = json(dir, &["asm", "db", "lsdg"])[0]["free_mb"].clone();
    sql(dir, "alter system set memory_target = 96M");
    let temp = "select name, value from v$sysstat where name like '%temp%' order by name";
    let waits =
        "select event from v$system_event where event like 'direct path%temp' order by event";
    let mut words = vec!["sql", "db", "--format", "json", "-c", query, "-c", groups, "-c", waits];
    // Files go a moment after the last who had them.
    let left = "select sum(free_mb) as free_mb from v$asm_diskgroup";
    words.extend(["-c", temp]);
    (0..500).for_each(|_| words.extend(["-c", left]));
    let text = out(&done(dir, &words));
    let mut answers =
        serde_json::Deserializer::from_str(&text).into_iter::<Vec<serde_json::Value>>();
    let mut next = || answers.next().unwrap().unwrap();
    assert_eq!((next(), next()), (wanted, wanted_groups));
    let waits: Vec<_> = next().iter().map(|row| row["event"].clone()).collect();
    assert!(waits.contains(&"direct path read temp".into()), "{waits:?}");
    let statistics = next();
    let value = |at: usize| statistics[at]["value"].as_u64().unwrap();
    assert_eq!(statistics[0]["name"], "physical reads direct temporary tablespace");
    assert!(value(0) > 1000 && value(1) >= value(0) / 2, "{statistics:?}");
    assert_eq!(value(2), 0, "room is given back: {statistics:?}");
    let last: Vec<_> = answers.map(|rows| rows.unwrap()[0]["free_mb"].clone()).collect();
    assert_eq!((last.len(), last.last()), (500, Some(&free)), "files are gone: {last:?}");
}

#[test]
fn joins_that_have_no_room_in_memory_spill() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(dir, &["init", "db", "--disks", "3", "--disk-size", "512M", "--au-size", "1M"]);
    done(dir, &["load", "db", "--tpch", "0.1"]);
    let both = "a.l_orderkey = b.l_orderkey and a.l_linenumber = b.l_linenumber";
    let texts = "count(*) as n, max(a.l_comment || a.l_shipinstruct || a.l_shipmode || \
         b.l_comment || b.l_shipinstruct || b.l_shipmode) as most, sum(length(a.l_comment) * length(b.l_comment)) as s";
    let queries = [
        format!("select {texts} from lineitem a join lineitem b on {both}"),
        format!(
            "select {texts} from lineitem a left join lineitem b on {both} \
             and a.l_quantity > 10 and b.l_comment > 'c'"
        ),
        format!("select {texts} from lineitem a full join lineitem b on {both} and b.l_tax > 0.02"),
        format!(
            "select count(*) as n, max(l_comment) as most from lineitem a where exists \
             (select 1 from lineitem b where {both} and a.l_comment <= b.l_comment \
             and b.l_comment like '%a%')"
        ),
        "select count(*) as n from lineitem a right join orders o \
         on a.l_orderkey = o.o_orderkey and a.l_comment = o.o_comment"
            .to_owned(),
    ];
    let wanted: Vec<_> = queries.iter().map(|query| rows(dir, query)).collect();
    assert_eq!(wanted[0][0]["n"], 600_572);
    for memory in ["160M", "64M"] {
        sql(dir, &format!("alter system set memory_target = {memory}"));
        for (query, wanted) in queries.iter().zip(&wanted) {
            assert_eq!(&rows(dir, query), wanted, "{memory}: {query}");
        }
    }
    let plan = out(&done(dir, &["sql", "db", "-c", &format!("explain analyze {}", queries[0])]));
    assert!(plan.contains("merge join"), "{plan}");
    // What is made of such rows is whole, too.
    sql(
        dir,
        &format!(
            "create table made as select a.l_comment, a.l_orderkey, b.l_comment as other \
             from lineitem a join lineitem b on {both}"
        ),
    );
    assert_eq!(
        rows(dir, "select count(*) as n from made where other = l_comment")[0]["n"],
        600_572
    );
}

#[test]
fn what_has_room_neither_in_memory_nor_in_the_group_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(dir, &["init", "db", "--disks", "3", "--disk-size", "64M", "--au-size", "1M"]);
    done(dir, &["load", "db", "--tpch", "0.1"]);
    std::fs::write(dir.join("f"), vec![7; 30 << 20]).unwrap();
    done(dir, &["asm", "db", "cp", "f", "+DATA/f"]);
    let free = json(dir, &["asm", "db", "lsdg"])[0]["free_mb"].clone();
    sql(dir, "alter system set memory_target = 96M");
    let told = refused(
        dir,
        "select sum(l_orderkey * place) from (select *, row_number() over \
         (order by l_comment, l_shipinstruct, l_orderkey) as place from lineitem)",
    );
    assert!(told.contains("CELLAR-01652") && told.contains("CELLAR-15041"), "{told}");
    // What a program left that ended with an error goes when the next one opens the database.
    assert_eq!(rows(dir, "select count(*) as n from lineitem")[0]["n"], 600_572);
    assert_eq!(json(dir, &["asm", "db", "lsdg"])[0]["free_mb"], free);
}

#[test]
fn as_many_parts_run_at_once_as_the_parameter_says() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(dir, &["init", "db", "--disks", "2", "--disk-size", "64M", "--au-size", "1M"]);
    let query = "explain verbose select value % 10 as g, count(*) from generate_series(1, 100000) group by 1";
    let plan = |partitions: u32| {
        let set = format!("alter system set target_partitions = {partitions}");
        out(&done(dir, &["sql", "db", "-c", &set, "-c", query]))
    };
    assert!(plan(3).contains("], 3)"), "{}", plan(3));
    assert!(!plan(1).contains("RepartitionExec"), "{}", plan(1));
}
