//! Failures: each ends in an error with number and SQLSTATE, and the session and the data are as before.

use std::fmt::Write;

use crate::database::{Session, TestDatabase};
use cellar_instance::heap::Begin;

/// Whether the transaction has failed, and nothing but its end is left.
#[track_caller]
fn has_failed(at: &Session<'_>, statement: &str) {
    for next in
        ["select 1", "select a from t", "set cellar.fast_path = on", "insert into t values (9)"]
    {
        let error = at.tried(next).unwrap_err();
        assert_eq!(error.sqlstate, "25P02", "{next} behind {statement}: {error}");
    }
    assert_eq!(at.run("commit"), "Transaction rolled back.", "{statement}");
    assert_eq!(at.run("select a from t"), "1", "{statement}");
}

#[test]
fn whatever_fails_in_a_transaction_fails_it() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (a int primary key)");
    at.run("create table c using columnar as select 1 as a");
    at.run("insert into t values (1)");
    at.run("prepare one (int) as select a from t where a = $1");
    for statement in [
        "selec 1",
        "select 1 where",
        "select nothing from t",
        "select 1 / 0",
        "execute one",
        "execute one (1, 2)",
        "execute nobody (1)",
        "deallocate nobody",
        "prepare one as select 1",
        "prepare two as select nothing from t",
        "copy t from stdin (format nonsense)",
        "copy nosuch from stdin",
        "copy t from stdin",
        "copy t from stdin;\nx\n",
        "copy t from '/no/such/file'",
        "copy (select 1 / (a - 1) from t) to stdout",
        "set cellar.fast_path = maybe",
        "savepoint",
        "rollback to nowhere",
        "release nowhere",
        "begin isolation level serializable",
        "insert into c select 'x'",
        "create sequence s increment 0",
        "explain selec 1",
        "explain execute nobody (1)",
        "alter diskgroup nosuch mount",
        "show parameter 1 2 3",
        "vacuum nosuch",
    ] {
        at.run("begin");
        assert_eq!(at.run("insert into t values (2)"), "1 row inserted.");
        assert!(at.tried(statement).is_err(), "{statement}");
        has_failed(&at, statement);
    }
    // Also what is prepared and executed by the library.
    at.run("begin");
    at.run("insert into t values (2)");
    assert!(at.prepare("selec 1").is_err());
    has_failed(&at, "prepare");
    let prepared = at.prepare("select a from t where a = $1").unwrap();
    at.run("begin");
    at.run("insert into t values (2)");
    assert!(at.execute(&prepared, &[]).contains("CELLAR-"));
    has_failed(&at, "execute with too few values");
    at.run("begin");
    assert!(at.run("selec 1").contains("CELLAR-"));
    assert!(
        at.execute(&prepared, &[cellar_sql::Parameter::Text("1".into())]).contains("CELLAR-70170")
    );
    assert!(at.prepare("select 1").unwrap_err().sqlstate == "25P02");
    at.run("rollback");
}

#[test]
fn a_savepoint_is_gone_back_to_behind_a_failure_of_any_kind() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (a int primary key)");
    for statement in
        ["selec 1", "execute nobody", "copy t from stdin (format nonsense)", "rollback to x"]
    {
        at.answers(&[
            ("begin", "Transaction begun."),
            ("insert into t values (1)", "1 row inserted."),
            ("savepoint s", "Savepoint s created."),
            ("insert into t values (2)", "1 row inserted."),
        ]);
        assert!(at.tried(statement).is_err(), "{statement}");
        assert_eq!(at.tried("select 1").unwrap_err().sqlstate, "25P02");
        at.answers(&[
            ("rollback to s", "Rolled back to savepoint s."),
            ("select a from t", "1"),
            ("insert into t values (3)", "1 row inserted."),
            ("commit", "Transaction committed."),
            ("select a from t order by a", "1 3"),
            ("delete from t", "2 rows deleted."),
        ]);
    }
    // Outside of a transaction nothing is failed.
    assert!(at.tried("selec 1").is_err());
    at.answers(&[("select 1", "1"), ("commit", "No transaction was open.")]);
}

#[test]
fn a_division_by_zero_in_row_900000_changes_nothing() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (id int primary key, a int default 7)");
    at.run("insert into t select value, value % 100 from generate_series(1, 900100) s(value)");
    let sum = at.run("select count(*), sum(a), sum(id) from t");
    for statement in [
        "update t set a = 1 / (id - 900000)",
        "update t set a = a + 1 where 1 / (id - 900000) < 5",
        "delete from t where 1 / (id - 900000) < 5",
        "insert into t select id + 1000000, 1 / (id - 900000) from t where id > 899000",
    ] {
        at.fails(&[(statement, 1476, "22012", "")]);
        assert_eq!(at.run("select count(*), sum(a), sum(id) from t"), sum, "{statement}");
    }
    at.answers(&[
        ("begin", "Transaction begun."),
        ("update t set a = 0 where id = 5", "1 row updated."),
        ("savepoint s", "Savepoint s created."),
    ]);
    at.fails(&[("update t set a = 1 / (id - 900000)", 1476, "22012", "")]);
    at.answers(&[
        ("rollback to s", "Rolled back to savepoint s."),
        ("select a from t where id in (5, 6)", "0 6"),
        ("rollback", "Transaction rolled back."),
    ]);
    assert_eq!(at.run("select count(*), sum(a), sum(id) from t"), sum);
}

#[test]
fn a_column_dropped_under_a_prepared_statement_is_told() {
    let database = TestDatabase::new();
    let (at, other) = (database.session(), database.session());
    for fast_path in ["on", "off"] {
        at.run(&format!("set cellar.fast_path = {fast_path}"));
        at.run("drop table if exists t");
        at.run("create table t (id int primary key, a int, b text)");
        at.run("insert into t values (1, 10, 'x'), (2, 20, 'y')");
        for statement in [
            "prepare reads (int) as select a, b from t where id = $1",
            "prepare all_of (int) as select * from t where id = $1",
            "prepare adds (int, int) as insert into t (id, a) values ($1, $2)",
            "prepare sets (int, int) as update t set a = $2 where id = $1",
            "prepare goes (int) as delete from t where id = $1 returning b",
        ] {
            assert!(at.run(statement).contains("prepared"), "{statement}");
        }
        let by_library = at.prepare("select a from t where id = $1").unwrap();
        let one = || [cellar_sql::Parameter::Text("1".into())];
        at.answers(&[("execute reads (1)", "10,x"), ("execute sets (1, 11)", "1 row updated.")]);
        assert_eq!(at.execute(&by_library, &one()), "11");
        assert_eq!(other.run("alter table t drop column a"), "Table t altered.");
        at.fails(&[
            ("execute reads (1)", 904, "42703", "\"a\""),
            ("execute all_of (1)", 4068, "0A000", "result type"),
            ("execute adds (3, 30)", 904, "42703", "no column a"),
            ("execute sets (1, 12)", 904, "42703", "no column a"),
        ]);
        assert!(at.execute(&by_library, &one()).contains("CELLAR-00904"));
        at.answers(&[
            ("execute goes (2)", "y"),
            ("select * from t", "1,x"),
            ("deallocate all", "All statements deallocated."),
        ]);
    }
}

#[test]
fn a_list_of_a_million_works() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (id int primary key, a int)");
    at.run("insert into t select value, value % 10 from generate_series(1, 2000) s(value)");
    let mut list = String::new();
    for number in 0..1_000_000 {
        write!(list, "{}{}", if number == 0 { "" } else { ", " }, number * 2).unwrap();
    }
    assert_eq!(
        at.run(&format!("select count(*), sum(id) from t where id in ({list})")),
        "1000,1001000"
    );
    assert_eq!(at.run(&format!("update t set a = -1 where id in ({list})")), "1000 rows updated.");
    at.answers(&[("select count(*) from t where a = -1", "1000"), ("select 1", "1")]);
}

#[test]
fn names_and_numbers_that_do_not_do_are_told() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (id int primary key, a smallint, b numeric(5, 2), c bigint)");
    at.run("create table u (id int primary key, a int)");
    at.run("insert into t values (1, 32767, 999.99, 9223372036854775807), (2, 0, 0, 0)");
    at.run("insert into u values (1, 1)");
    at.fails(&[
        ("select id from t, u", 918, "42702", "\"id\""),
        ("select t.id from t join u on id = 1", 918, "42702", "\"id\""),
        ("update t set b = a from u where t.id = u.id", 918, "42702", "\"a\""),
        ("delete from t using u where id = 1", 918, "42702", "\"id\""),
        ("insert into t (id) select id from t, u", 918, "42702", "\"id\""),
        ("update t set a = a + 1", 1426, "22003", ""),
        ("update t set b = b + 0.01", 1426, "22003", ""),
        ("update t set c = c + 1", 1426, "22003", ""),
        ("update t set id = id * 2147483647 + 1", 1426, "22003", ""),
        ("insert into t values (3, 32768)", 1426, "22003", ""),
        ("insert into t values (3, 1, 1000)", 1426, "22003", ""),
        ("insert into t values (3, 1, 1, 9223372036854775808)", 1426, "22003", ""),
        ("insert into t values (99999999999)", 1426, "22003", ""),
        ("insert into t values (3, 'x')", 1722, "22P02", "x"),
        ("select nothing from t", 904, "42703", "\"nothing\""),
        ("select * from nosuch", 942, "42P01", "nosuch"),
        ("select nosuch(1)", 904, "42883", "nosuch"),
        ("select id from t where", 900, "42601", ""),
        ("select id frm t where id = 1", 900, "42601", "line 1, column 15"),
        ("select id, nothing from t", 904, "42703", "line 1, column 12"),
        ("select 'nothing' as nothing from t where t.nothing = 1", 904, "42703", "column 42"),
        ("select id from t, u where t.id = u.id", 918, "42702", "line 1, column 8"),
        ("select id\nfrom public.nosuch", 942, "42P01", "line 2, column 6"),
        ("update t set a = nosuch(id)", 904, "42883", "line 1, column 18"),
        ("delete from nosuch where id = 1", 942, "42P01", "line 1, column 13"),
        ("insert into t (id, nosuch) values (1, 2)", 904, "42703", "line 1, column 20"),
        ("update t set nosuch = 1", 904, "42703", "line 1, column 14"),
        ("select id::nosuch from t", 902, "42704", "line 1, column 12"),
    ]);
    at.answers(&[
        ("select * from t order by id", "1,32767,999.99,9223372036854775807 2,0,0.00,0"),
        ("select * from u", "1,1"),
    ]);
}

#[test]
fn a_default_that_is_none_any_more_is_told_and_rows_are_read() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table made (id int primary key, a int default 7)");
    // As a catalog of another program could have it.
    let known = database.database().catalog().current();
    let (mut table, _) = known.row_table("made").map(|(t, r)| (t.clone(), r.clone())).unwrap();
    table.name = "t".to_owned();
    table.schema = table.schema.replace("\"7\"", "\"nosuch(7)\"");
    table.rows.as_mut().unwrap().indexes.clear();
    database.wait(async {
        let (definitions, of) = (
            database.database().definitions(),
            database.database().instance().sessions().user("test", "tester"),
        );
        let mut own = database.database().heap().begin(of.waits(), Begin::default()).unwrap();
        definitions.create_table(&mut own, of.waits(), table).await.unwrap();
        definitions.commit(own).await.unwrap();
    });
    at.answers(&[("insert into t values (1, 2)", "1 row inserted."), ("select * from t", "1,2")]);
    for statement in [
        "insert into t (id) values (2)",
        "insert into t (id) select 2",
        "insert into t values (2, default)",
        "insert into t default values",
        "copy t (id) from stdin;\n2\n",
        "update t set a = default",
    ] {
        let error = at.tried(statement).unwrap_err();
        assert!(error.to_string().contains("nosuch"), "{statement}: {error}");
    }
    at.answers(&[
        ("select * from t", "1,2"),
        ("alter table t alter a set default 8", "Table t altered."),
        ("insert into t (id) values (2)", "1 row inserted."),
        ("select * from t order by id", "1,2 2,8"),
    ]);
}

#[test]
fn a_check_may_name_its_table() {
    let database = TestDatabase::new();
    let at = database.session();
    at.answers(&[
        (
            "create table t (id int primary key check (t.id > 0), a int, check (t.a < id))",
            "Table t created.",
        ),
        ("insert into t values (5, 1)", "1 row inserted."),
        ("alter table t add check (t.a > 0)", "Table t altered."),
        ("alter table t add column b int check (\"t\".b is null or T.b <> a)", "Table t altered."),
        ("alter table t rename to u", "Table t altered."),
        ("alter table u rename column a to c", "Table u altered."),
        ("insert into u values (6, 2)", "1 row inserted."),
    ]);
    at.fails(&[
        ("insert into u values (-1, -2)", 2290, "23514", "t_id_check"),
        ("insert into u values (7, 0)", 2290, "23514", "t_a_check"),
        ("insert into u values (7, 8)", 2290, "23514", "t_check"),
        ("insert into u values (7, 1, 1)", 2290, "23514", "t_check1"),
        ("alter table u add check (other.c > 0)", 904, "42703", "c"),
    ]);
    at.answers(&[("select * from u order by id", "5,1, 6,2,")]);
}
