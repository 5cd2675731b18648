//! Tables whose rows change, by SQL: made, filled, changed, in transactions, over restarts and kills.

#![cfg(feature = "sql")]
#![expect(clippy::disallowed_methods, reason = "a test of the real clock")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::program::{self, answers, cellar, command, database, done, out, refused, sql, told};

/// A database with a table of people.
fn people() -> tempfile::TempDir {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table people (id int primary key, name varchar(10) not null, born date, \
         height numeric(5, 2) default 1.70 check (height > 0), unique (name))",
    );
    sql(at, "insert into people (id, name, born) values (1, 'Ada', date '1815-12-10')");
    sql(
        at,
        "insert into people values (2, 'Grace', date '1906-12-09', 1.68), (3, 'Alan', null, null)",
    );
    dir
}

#[test]
fn rows_are_inserted_updated_and_deleted_and_stay() {
    let dir = people();
    let at = dir.path();
    let all = "select id, name, height from people order by id";
    answers(at, &[(all, "1,Ada,1.70 2,Grace,1.68 3,Alan,")]);
    assert!(
        sql(at, "update people set height = height + 1 where born is not null")
            .contains("2 rows updated")
    );
    assert!(sql(at, "delete from people where name like 'Al%'").contains("1 row deleted"));
    answers(at, &[(all, "1,Ada,2.70 2,Grace,2.68"), ("select count(*) from people", "2")]);
    // What is chosen by another table.
    sql(at, "create table taller (who int primary key, more numeric(5, 2))");
    sql(at, "insert into taller values (1, 0.30), (9, 5)");
    sql(at, "update people p set height = p.height + t.more from taller t where t.who = p.id");
    sql(at, "delete from taller using people p where p.id = taller.who and p.height = 3");
    answers(at, &[(all, "1,Ada,3.00 2,Grace,2.68"), ("select who from taller", "9")]);
    assert!(sql(at, "update people set name = default where id = 7").contains("0 rows"));
    assert!(done(at, &["validate", "db"]).status.success());
    sql(at, "truncate table people");
    answers(at, &[("select count(*) from people", "0")]);
    sql(at, "insert into people (id, name) values (1, 'Ada')");
    sql(at, "drop table people");
    assert!(refused(at, "select * from people").contains("CELLAR-00942"));
}

#[test]
fn what_a_row_cannot_be_is_told_and_changes_nothing() {
    let dir = people();
    let at = dir.path();
    for (statement, number, words) in [
        ("insert into people values (4, 'Ada')", "CELLAR-00001", "people_name_key"),
        ("insert into people values (4, 'Kay'), (1, 'Joan')", "CELLAR-00001", "key (id)=(1)"),
        ("update people set id = 2 where id = 1", "CELLAR-00001", "people_pkey"),
        ("insert into people values (4, null)", "CELLAR-01400", "\"name\""),
        ("insert into people values (4, 'Kay', null, -1)", "CELLAR-02290", "people_height_check"),
        ("update people set height = id - 2", "CELLAR-02290", "people_height_check"),
        ("insert into people values (4, 'a name of many letters')", "CELLAR-12899", "at most 10"),
        ("update people set nosuch = 1", "CELLAR-00904", "its columns are id, name"),
        ("update nosuch set a = 1", "CELLAR-00942", "nosuch"),
        ("update people set height = 1 / (id - id)", "CELLAR-", ""),
        ("create table people (a int primary key)", "CELLAR-00955", "people"),
        ("create table b (a int primary key, primary key (a))", "CELLAR-02260", ""),
        ("create table b (a int unique deferrable)", "CELLAR-03001", "DEFERRABLE"),
    ] {
        let text = refused(at, statement);
        assert!(text.contains(number) && text.contains(words), "{statement}: {text}");
    }
    let all = "select id, name, height from people order by id";
    answers(at, &[(all, "1,Ada,1.70 2,Grace,1.68 3,Alan,")]);
    let plan = out(&done(at, &["sql", "db", "-c", "explain select name from people where id = 2"]));
    assert!(plan.contains("people by index people_pkey: id = 2"), "{plan}");
    // Keys that rows hand on to each other, also in a circle.
    sql(at, "update people set id = 3 - id where id < 3");
    sql(at, "update people set id = 3 - id where id < 3");
    sql(at, "update people set id = id + 1");
    sql(at, "update people set id = id - 1");
    answers(at, &[(all, "1,Ada,1.70 2,Grace,1.68 3,Alan,")]);
}

#[test]
fn a_transaction_is_whole_or_not_at_all() {
    let dir = people();
    let at = dir.path();
    let count = "select count(*) as n, max(id) as m from people";
    sql(
        at,
        "begin; insert into people values (4, 'Kay'); update people set id = 40 where id = 4; commit",
    );
    answers(at, &[(count, "4,40")]);
    sql(at, "begin; delete from people; rollback");
    answers(at, &[(count, "4,40")]);
    // It sees its own changes, and nobody else does.
    let script = "begin; insert into people values (5, 'Joan'); select count(*) as own from people; rollback";
    let output = done(at, &["sql", "db", "--format", "csv", "-c", script]);
    assert_eq!(out(&output), "own\n5\n");
    // What is left open is rolled back, and that is told.
    let left = done(at, &["sql", "db", "-c", "begin; delete from people"]);
    assert!(told(&left).contains("rolled back"), "{}", told(&left));
    answers(at, &[(count, "4,40")]);
    // A failure takes all of it back, and what follows is refused until it ends.
    let script =
        "begin;\ninsert into people values (6, 'Mary');\ninsert into people values (1, 'Twice');\n";
    let mut shell = command(at, &["sql", "db", "-f", "-"]);
    let mut shell =
        shell.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(!output.status.success());
    answers(at, &[(count, "4,40")]);
    assert!(refused(at, "begin isolation level serializable").contains("CELLAR-03001"));
    assert!(refused(at, "begin; copy (select 1) to '+DATA/x.csv'").contains("in a transaction"));
}

#[test]
fn long_texts_and_many_rows_are_kept_in_room_that_grows() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t (id bigint primary key, text varchar) using heap");
    for from in [1, 5001, 10001, 15001] {
        let values = format!("generate_series({from}, {})", from + 4999);
        sql(at, &format!("insert into t select value, repeat('x', 100) from {values} s(value)"));
    }
    let many = "insert into t select value, '' from generate_series(30001, 99999) s(value)";
    assert!(refused(at, many).contains("CELLAR-70207"));
    sql(
        at,
        "insert into t select 100000 + value, repeat('long', 5000) from generate_series(1, 20) s(value)",
    );
    answers(
        at,
        &[
            ("select count(*), sum(id), sum(length(text)) from t", "20020,202010210,2400000"),
            ("select length(text) from t where id = 100007", "20000"),
        ],
    );
    sql(at, "update t set text = text || '!' where id > 100000");
    sql(at, "delete from t where id % 2 = 0");
    answers(at, &[("select count(*), max(length(text)) from t", "10010,20001")]);
    assert!(done(at, &["validate", "db"]).status.success());
}

/// Rows that were acknowledged to somebody outside of the process.
fn insert_until_killed(at: &Path, from: u64) -> u64 {
    let mut shell = command(at, &["sql", "db", "--format", "csv", "-f", "-"]);
    let mut shell =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut to_shell = shell.stdin.take().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    let mut acknowledged = from;
    for id in from.. {
        let statement = format!(
            "insert into t values ({id}); update t set n = {id} where id = {id};\nselect {id} as done;\n"
        );
        if to_shell.write_all(statement.as_bytes()).is_err() {
            break;
        }
        let said = lines.by_ref().take(2).map_while(Result::ok).last();
        if said.as_deref() != Some(&id.to_string()) {
            break;
        }
        acknowledged = id + 1;
        if id == from + 20 {
            shell.kill().unwrap();
            break;
        }
    }
    let _ = shell.kill();
    shell.wait().unwrap();
    acknowledged
}

#[test]
fn a_killed_process_loses_no_row_that_was_acknowledged() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t (id bigint primary key, n bigint default 0)");
    let mut next = 0;
    for round in 0..4 {
        next = insert_until_killed(at, next);
        let query = format!(
            "select count(*) as n, sum(case when id < {next} and n <> id then 1 else 0 end) as lost from t"
        );
        let rows = program::rows(at, &query);
        let count = rows[0]["n"].as_u64().unwrap();
        assert!(count == next || count == next + 1, "round {round}: {count} of {next}");
        assert!(next > 0 && rows[0]["lost"] == 0, "{rows:?}");
        next = count;
    }
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn tables_of_before_are_there_when_the_first_row_table_is_made() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table old as select value as a from generate_series(1, 1000) s(value)");
    std::fs::write(at.join("e.csv"), "a\n1\n2\n").unwrap();
    sql(
        at,
        "create external table e stored as csv location 'e.csv' options ('format.has_header' 'true')",
    );
    let made = sql(at, "create table new (a int primary key)");
    assert!(made.contains("created"), "{made}");
    sql(at, "insert into new select a from old where a <= 3");
    sql(at, "insert into old select 7 from generate_series(1, 5)");
    answers(
        at,
        &[
            ("select count(*) from old", "1005"),
            ("select count(*) from e", "2"),
            ("select count(*) from new n join old o on n.a = o.a", "3"),
        ],
    );
    // The log is needed from now on, and what is in the heap is nobody's to remove.
    assert!(refused(at, "alter database drop logfile all").contains("CELLAR-01531"));
    let gone = cellar(at, &["asm", "db", "rm", "+DATA/cellar/heap"]);
    assert_eq!(gone.status.code(), Some(1), "{}", told(&gone));
    assert!(done(at, &["status", "db"]).status.success());
}

/// Runs transactions of five rows each, and definitions between them, until another thread kills the process at any
/// moment; how many were acknowledged.
fn transact_until_killed(at: &Path, from: u64, after: Duration) -> u64 {
    let mut shell = command(at, &["sql", "db", "--format", "csv", "-f", "-"]);
    let mut shell =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut to_shell = shell.stdin.take().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    // It is at work from its first answer on.
    to_shell.write_all(b"select 1 as ready;\n").unwrap();
    assert!(lines.by_ref().take(2).count() == 2);
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        shell.kill().unwrap();
        shell.wait().unwrap();
    });
    let mut acknowledged = from;
    for id in from.. {
        let (first, last) = (id * 5, id * 5 + 4);
        let define = match id % 3 {
            0 => format!("create index t_n{id} on t (n); drop index t_n{id};"),
            1 => "alter table t alter n set default 1;".to_owned(),
            _ => String::new(),
        };
        let statement = format!(
            "begin; insert into t select value, 0 from generate_series({first}, {last}) s(value); \
             update t set n = {id} where id between {first} and {last}; commit; {define}\n\
             select {id} as done;\n"
        );
        if to_shell.write_all(statement.as_bytes()).is_err() {
            break;
        }
        let said = lines.by_ref().take(2).map_while(Result::ok).last();
        if said.as_deref() != Some(&id.to_string()) {
            break;
        }
        acknowledged = id + 1;
    }
    killer.join().unwrap();
    acknowledged
}

#[test]
fn a_process_killed_at_any_moment_keeps_transactions_whole() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t (id bigint primary key, n bigint default 0)");
    let mut next = 0;
    for round in 0..4 {
        next = transact_until_killed(at, next, Duration::from_millis(150 + 97 * round));
        let query = "select count(*) as rows, count(case when n <> id / 5 then 1 end) as wrong, \
                     coalesce(max(id), -1) as last from t";
        let found = &program::rows(at, query)[0];
        let rows = found["rows"].as_u64().unwrap();
        assert_eq!((found["wrong"].as_u64(), rows % 5), (Some(0), 0), "round {round}: {found:?}");
        assert!(rows == next * 5 || rows == next * 5 + 5, "round {round}: {rows}, {next} told");
        assert_eq!(found["last"].as_i64().unwrap() + 1, rows as i64, "round {round}");
        next = rows / 5;
    }
    assert!(next > 4, "{next} transactions in four rounds");
    assert!(done(at, &["validate", "db"]).status.success());
}
