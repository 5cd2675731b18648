//! EXPLAIN as users see it: lines that fit, numbers that are true, nothing done that is only explained.

use std::collections::BTreeSet;
use std::path::Path;

use crate::program::{self, cellar, done, json, out, refused, rows, sql, told};
use serde_json::Value;

fn database(size: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words = ["init", "db", "--disks", "2", "--redundancy", "external", "--au-size", "1M"];
    done(dir.path(), &[&words[..], &["--disk-size", size]].concat());
    dir
}

/// What a statement prints, for people.
fn printed(dir: &Path, statement: &str) -> String {
    out(&done(dir, &["sql", "db", "-c", statement]))
}

/// The document of an EXPLAIN (FORMAT JSON).
fn document(dir: &Path, statement: &str) -> Value {
    let text = out(&done(dir, &["sql", "db", "-c", statement, "--format", "json"]));
    let mut document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document.as_array().map(Vec::len), Some(1), "{statement}: {text}");
    document[0].take()
}

/// All operators of a document.
fn operators(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten();
    std::iter::once(plan).chain(below.flat_map(operators)).collect()
}

/// The only operator of that type.
fn only<'a>(document: &'a Value, node_type: &str) -> &'a Value {
    let all = operators(&document["Plan"]);
    let found: Vec<&&Value> = all.iter().filter(|one| one["Node Type"] == node_type).collect();
    assert_eq!(found.len(), 1, "{node_type}: {document:#}");
    found[0]
}

fn tpch_query(number: usize) -> String {
    std::fs::read_to_string(format!("tests/tpch/q{number:02}.sql")).unwrap()
}

/// Checks the shape of a plan's text; the numbers of its operators.
fn check_shape(query: usize, text: &str) {
    let wide = |line: &&str| line.chars().count() > 80;
    assert_eq!(text.lines().find(wide), None, "q{query}: {text}");
    assert!(!text.contains("Exec"), "q{query} has names of DataFusion: {text}");
    assert!(!text.contains("\\n") && !text.contains('@'), "q{query}: {text}");
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with(" Id  Operation"), "q{query}: {text}");
    let number = |line: &str| line.get(..3).and_then(|n| n.trim().parse::<usize>().ok());
    let tree: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let ids: Vec<usize> = tree.iter().filter_map(|line| number(line)).collect();
    assert!(ids.iter().copied().eq(0..tree.len()), "q{query}: {text}");
    let operation = |id: usize| tree[id][5..].trim_start();
    let mut told = BTreeSet::new();
    for line in lines.take_while(|line| !line.starts_with(" Time ")) {
        if let Some(id) = number(line) {
            assert!(id < tree.len() && told.insert(id), "q{query}: {line}: {text}");
        }
        // Who makes a filter at run time is an operator that does.
        if let Some((_, id)) = line.split_once(" in the keys of ") {
            let id: usize = id.split(':').next().unwrap().trim().parse().unwrap();
            assert!(operation(id).contains("join"), "q{query}: {line}: {text}");
        }
    }
    // Of each scan it is told what it reads.
    for id in 0..tree.len() {
        if operation(id).starts_with("cell scan") {
            assert!(told.contains(&id), "q{query}: nothing of {id}: {text}");
        }
    }
}

#[test]
fn plans_of_tpch_are_readable_and_their_counts_are_true() {
    if !program::has_groups() {
        return;
    }
    let dir = database("128M");
    let at = dir.path();
    done(at, &["load", "db", "--tpch", "0.01"]);
    for number in 1..=22 {
        let query = tpch_query(number);
        check_shape(number, &printed(at, &format!("explain {query}")));
        let text = printed(at, &format!("explain analyze {query}"));
        check_shape(number, &text);
        let last = text.lines().rev().find(|line| line.starts_with(" Time ")).unwrap();
        assert!(last.contains(" ms: planning "), "q{number}: {text}");
        let document = document(at, &format!("explain (analyze, format json) {query}"));
        let count = rows(at, &query).len();
        assert_eq!(document["Plan"]["Actual Rows"], count, "q{number}: {document:#}");
        for scan in operators(&document["Plan"]).iter().filter(|o| o["Node Type"] == "Cell Scan") {
            if scan["Executed"] == true {
                let left_out = scan["Row Groups Pruned"].as_u64().unwrap()
                    + scan["Row Groups By Header"].as_u64().unwrap();
                assert!(left_out <= scan["Row Groups"].as_u64().unwrap(), "q{number}: {scan:#}");
                assert_eq!(scan["Actual Rows"], scan["Rows Passed"], "q{number}: {scan:#}");
            }
        }
    }
    // What passes the conditions of query 6 is what a count of them says.
    let query = tpch_query(6);
    let condition = query.split_once("where").unwrap().1;
    let count = rows(at, &format!("select count(*) as n from lineitem where {condition}"));
    let document = document(at, &format!("explain (analyze, format json) {query}"));
    assert_eq!(only(&document, "Cell Scan")["Actual Rows"], count[0]["n"], "{document:#}");
    assert_eq!(only(&document, "Aggregate")["In Cell"], true);
    let join = printed(at, &format!("explain {}", tpch_query(12)));
    assert!(join.contains("in the keys of") && join.contains("not in the cell: "), "{join}");
    let exists = printed(at, &format!("explain {}", tpch_query(21)));
    assert!(exists.contains("anti join") && exists.contains("semi join"), "{exists}");
    let top = printed(at, &format!("explain {}", tpch_query(3)));
    assert!(top.contains("top 10 by sum(l_extendedprice * (1 - l_discount)) desc"), "{top}");
}

#[test]
fn row_groups_left_out_are_counted_as_the_view_counts_them() {
    if !program::has_groups() {
        return;
    }
    let dir = database("96M");
    let at = dir.path();
    sql(
        at,
        "create table t as select value as k, value % 1000 as n, md5(cast(value as varchar)) as s \
             from generate_series(1, 400000) order by value",
    );
    let query = "select k, s from t where k between 1000 and 2000 and length(s) > 3";
    std::fs::write(
        at.join("q.sql"),
        format!(
            "explain (analyze, format json) {query};
             select row_groups, row_groups_pruned, rows_scanned, rows_returned, disk_bytes,
               cache_bytes, returned_bytes from v$cell_scan;"
        ),
    )
    .unwrap();
    let text = out(&done(at, &["sql", "db", "-f", "q.sql", "--format", "json"]));
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (document, view) = (&all[0][0], &all[1][0]);
    let scan = only(document, "Cell Scan");
    for (own, viewed) in [
        ("Row Groups", "row_groups"),
        ("Row Groups Pruned", "row_groups_pruned"),
        ("Rows Scanned", "rows_scanned"),
        ("Rows Returned", "rows_returned"),
        ("Disk Bytes", "disk_bytes"),
        ("Cache Bytes", "cache_bytes"),
        ("Returned Bytes", "returned_bytes"),
    ] {
        assert_eq!(scan[own], view[viewed], "{own}: {document:#}");
    }
    let groups = scan["Row Groups"].as_u64().unwrap();
    assert!(groups > 5 && scan["Row Groups Pruned"].as_u64().unwrap() >= groups - 2, "{scan:#}");
    assert_eq!((&scan["Actual Rows"], &scan["Rows Passed"]), (&1001.into(), &1001.into()));
    assert_eq!(scan["Offloaded"].as_array().unwrap().len(), 2, "{scan:#}");
    assert!(scan["Residual"][0]["Filter"].as_str().unwrap().contains("length(s) > 3"), "{scan:#}");
    // Foretold from the headers alone, and told in words after the run.
    let foretold = printed(at, &format!("explain {query}"));
    let pruned = scan["Row Groups Pruned"].as_u64().unwrap();
    let left = format!("read {} of {groups} row groups: {pruned} pruned by", groups - pruned);
    assert!(foretold.contains(&left), "{left}: {foretold}");
    assert!(printed(at, &format!("explain analyze {query}")).contains(&left));
    assert!(foretold.contains("filter k >= 1000\n") && foretold.contains("filter k <= 2000\n"));
    assert!(foretold.contains("residual ") && foretold.contains("columns k s"), "{foretold}");
    // Rows are left out by the keys of a join, which are known only when it runs.
    let join = "select count(*) from t a join (select k from t where n = 7 and k < 3000) b \
                on a.k = b.k";
    let document = self::document(at, &format!("explain (analyze, format json) {join}"));
    let all = operators(&document["Plan"]);
    let probe = all.iter().find(|o| o["Runtime Filters"].as_array().is_some_and(|f| !f.is_empty()));
    let probe = probe.unwrap_or_else(|| panic!("{document:#}"));
    assert!(probe["Row Groups Pruned By Runtime Filters"].as_u64() > Some(0), "{probe:#}");
    assert_eq!(probe["Actual Rows"], 3, "{probe:#}");
    let (came, dropped) = (&probe["Runtime Filter Rows"], &probe["Runtime Filter Rows Dropped"]);
    assert_eq!(came.as_u64().unwrap() - dropped.as_u64().unwrap(), 3, "{probe:#}");
    let text = printed(at, &format!("explain analyze {join}"));
    assert!(text.contains("filter k in the keys of ") && text.contains(" % of "), "{text}");
}

#[test]
fn what_is_only_explained_is_not_done() {
    if !program::has_groups() {
        return;
    }
    let dir = database("64M");
    let at = dir.path();
    sql(at, "create table t as select value as k from generate_series(1, 1000)");
    for (statement, line) in [
        ("insert into t select k + 1 from t", "insert into t (columnar)"),
        ("create table u as select k from t", "create table u (columnar)"),
        ("create table u using columnar as select k from t", "create table u (columnar)"),
        ("copy (select k from t) to '+DATA/u.parquet'", "copy to +DATA/u.parquet (parquet)"),
    ] {
        let text = printed(at, &format!("explain {statement}"));
        assert!(text.contains(&format!(" 0  {line}")), "{statement}: {text}");
        assert!(text.contains(" 1   cell scan t"), "{statement}: {text}");
        // What changes rows is done where it is analyzed; what makes something is refused.
        if !statement.starts_with("insert") {
            let refused = refused(at, &format!("explain analyze {statement}"));
            assert!(refused.contains("CELLAR-03001") && refused.contains("Next: explain without"));
        }
    }
    assert_eq!(rows(at, "select count(*) as n from t")[0]["n"], 1000);
    let analyzed = printed(at, "explain analyze insert into t select k + 1 from t");
    assert!(analyzed.contains("1000 rows written.") && analyzed.contains("time: "), "{analyzed}");
    assert_eq!(rows(at, "select count(*) as n from t")[0]["n"], 2000);
    assert!(refused(at, "select * from u").contains("CELLAR-00942"));
    let files = out(&done(at, &["asm", "db", "find", "+DATA", "u.parquet"]));
    assert_eq!(files, "", "nothing was copied");
    // What would fail fails.
    for (statement, number) in [
        ("select nothing from t", "CELLAR-00904"),
        ("select * from nowhere", "CELLAR-00942"),
        ("create table t as select 1 as a", "CELLAR-00955"),
        ("insert into v$parameter values (1)", "CELLAR-02030"),
        ("drop table t", "CELLAR-00900"),
        ("explain select 1", "CELLAR-00900"),
        ("", "CELLAR-00900"),
    ] {
        let told = refused(at, &format!("explain {statement}"));
        assert!(told.contains(number), "{statement}: {told}");
    }
    assert!(refused(at, "explain analyze select 1 / (k - 5) from t").contains("divi"));
}

#[test]
fn options_are_taken_or_refused_in_words() {
    if !program::has_groups() {
        return;
    }
    let dir = database("64M");
    let at = dir.path();
    sql(at, "create table t as select value as k, value % 10 as g from generate_series(1, 1000)");
    let query = "select g, count(*) from t where k > 5 group by g order by g";
    let text = |options: &str| printed(at, &format!("explain {options} {query}"));
    let plain = text("");
    for same in ["(format text)", "(analyze off, costs on)", "plan for", "(buffers, verbose 0)"] {
        assert_eq!(text(same), plain, "{same}");
    }
    assert!(!text("(costs off)").contains("Rows"));
    let untimed = text("(analyze, timing off, summary off)");
    assert!(!untimed.contains("Time") && untimed.contains("est/actual"), "{untimed}");
    assert!(text("analyze").contains(" Time "));
    for verbose in ["verbose", "(verbose)", "(format indent)"] {
        let text = text(verbose);
        assert!(text.lines().count() > 4 && text.contains("CellScanExec: table=t"), "{text}");
    }
    assert!(text("analyze verbose").contains("row_groups_pruned_storage_index="));
    assert!(text("(format tree)").contains("┌"));
    for (options, part) in [
        ("(format xml)", "format json"),
        ("(format nothing)", "TEXT, JSON"),
        ("(wal)", "ANALYZE, VERBOSE"),
        ("(nothing)", "ANALYZE, VERBOSE"),
        ("(timing)", "needs ANALYZE"),
        ("(analyze maybe)", "ON or OFF"),
        ("(analyze", "a closing parenthesis"),
    ] {
        let told = refused(at, &format!("explain {options} {query}"));
        assert!(told.contains(part), "{options}: {told}");
    }
    // A query in parentheses is no list of options.
    assert!(printed(at, "explain (select k from t) union all (select g from t)").contains("union"));
    // Rows of text for programs, and the document as it is.
    let csv = out(&done(at, &["sql", "db", "-c", &format!("explain {query}"), "--format", "csv"]));
    assert_eq!(csv.lines().next(), Some("plan"));
    assert_eq!(csv.lines().count(), 1 + plain.lines().count());
    let lines = json(at, &["sql", "db", "-c", &format!("explain {query}")]);
    let lines: Vec<&str> = lines.iter().map(|row| row["plan"].as_str().unwrap()).collect();
    assert!(plain.lines().eq(lines.iter().copied()), "{lines:#?}");
    let people = printed(at, &format!("explain (format json) {query}"));
    let whole: Value = serde_json::from_str(&people).unwrap();
    assert_eq!(whole[0], document(at, &format!("explain (format json) {query}")));
    assert_eq!(whole[0]["Plan"]["Sort Key"], serde_json::json!(["g"]));
    // As wide as whoever reads says.
    let long = "explain select * from t where k = 111 or g * 7 > 1200 or k * 3 = 90001 or \
                g * 11 = 100002 or k + g = 100003 or g - k = 100004";
    let width = |columns: &str| {
        let mut command = program::command(at, &["sql", "db", "-c", long]);
        let output = command.env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        out(&output).lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(width("60") <= 60 && width("80") <= 80 && width("200") > 80);
}

#[test]
fn files_views_and_values_have_their_names() {
    if !program::has_groups() {
        return;
    }
    let dir = database("96M");
    let at = dir.path();
    sql(
        at,
        "copy (select value as k, 'name ' || cast(value as varchar) as s from \
             generate_series(1, 300000) order by value) to '+DATA/t.parquet' stored as parquet \
             options (max_row_group_size 50000)",
    );
    sql(at, "create external table t stored as parquet location '+DATA/t.parquet'");
    std::fs::write(at.join("c.csv"), "a,b\n1,x\n2,y\n").unwrap();
    sql(
        at,
        "create external table c stored as csv location 'c.csv' options (format.has_header true)",
    );
    let query = "select s from t where k between 60000 and 60009";
    let text = printed(at, &format!("explain {query}"));
    assert!(text.contains("file scan t (parquet)"), "{text}");
    assert!(text.contains("+DATA/t.parquet") && text.contains("filter k >= 60000"), "{text}");
    let document = document(at, &format!("explain (analyze, format json) {query}"));
    let scan = only(&document, "File Scan");
    assert_eq!((&scan["Relation Name"], &scan["Format"]), (&"t".into(), &"parquet".into()));
    assert_eq!(
        (&scan["Row Groups"], &scan["Row Groups Pruned"]),
        (&6.into(), &5.into()),
        "{scan:#}"
    );
    assert_eq!(scan["Actual Rows"], 10);
    assert!(scan["Bytes Scanned"].as_u64() > Some(0));
    let text = printed(at, &format!("explain analyze {query}"));
    assert!(text.contains("read 1 of 6 row groups: 5 pruned by statistics"), "{text}");
    let text = printed(at, "explain select b from c where a > 1");
    assert!(text.contains("file scan c (csv)") && text.contains("/c.csv"), "{text}");
    for (query, part) in [
        ("select name from v$parameter where name like 'a%'", "view scan v$parameter"),
        ("select name from cellar.parameter", "view scan cellar.parameter"),
        ("select * from dual", "memory scan dual"),
        ("values (1), (2)", "values"),
        ("select 1", "one row"),
        ("select * from generate_series(1, 9)", "rows of generate_series"),
        ("select k, row_number() over (partition by s order by k) from t", "window row_number()"),
        ("select distinct k from t", "distinct k"),
        ("select * from t a, c b", "cross join"),
        ("select * from t left join c on t.k = c.a", "join"),
        ("select * from t join c on t.k > c.a", "nested loop join"),
        ("select k from t order by k limit 3 offset 2", "limit 3 after 2"),
        ("select k from t union all select a from c", "union all"),
        ("select grouping(k), count(*) from t group by rollup (k)", "sets of keys"),
        (
            "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) \
          select * from r",
            "recursive r",
        ),
    ] {
        let text = printed(at, &format!("explain {query}"));
        assert!(text.contains(part), "{query}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{query}: {text}");
        let ran = cellar(at, &["sql", "db", "-c", &format!("explain analyze {query}")]);
        assert!(ran.status.success(), "{query}: {}", told(&ran));
    }
}

#[test]
fn memory_and_what_is_spilled_are_told() {
    if !program::has_groups() {
        return;
    }
    let dir = database("256M");
    let at = dir.path();
    sql(at, "alter system set memory_target = 128M scope = spfile");
    sql(
        at,
        "create table t as select value as k, md5(cast(value as varchar)) as a, \
             md5(cast(value + 7 as varchar)) as b from generate_series(1, 500000)",
    );
    let query = "select max(r) from (select a, b, row_number() over (order by b, a) as r from t)";
    let document = document(at, &format!("explain (analyze, format json) {query}"));
    let sort = only(&document, "Sort");
    assert!(sort["Spilled Bytes"].as_u64() > Some(1 << 20), "{document:#}");
    assert!(sort["Memory Bytes"].as_u64() > Some(1 << 20), "{document:#}");
    assert!(document["Peak Memory Bytes"].as_u64() >= sort["Memory Bytes"].as_u64());
    assert_eq!(sort["Actual Rows"], 500_000);
    let text = printed(at, &format!("explain analyze {query}"));
    assert!(text.lines().next().unwrap().ends_with("Spilled"), "{text}");
    let join = "select count(*) from t x join t y on x.a = y.b where x.k < 50000";
    let document = self::document(at, &format!("explain (analyze, format json) {join}"));
    assert!(only(&document, "Hash Join")["Memory Bytes"].as_u64() > Some(1 << 20), "{document:#}");
    assert_eq!(
        only(&document, "Hash Join")["Actual Rows"],
        rows(at, &join.replace("*", "x.a"))[0]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .clone()
    );
}
