//! Temporary tables: of one session alone, as long as that, and as their ON COMMIT says.

use crate::database::TestDatabase;

#[test]
fn a_temporary_table_is_of_its_session() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.answers(&[
        ("create temp table t (id serial primary key, v text unique)", "Table t created."),
        ("insert into t (v) values ('a'), ('b')", "2 rows inserted."),
        ("create index t_v on t (v, id)", "Index t_v created."),
        ("select id from t where v = 'b'", "2"),
        ("update t set v = 'c' where id = 1", "1 row updated."),
        ("delete from pg_temp.t where t.id = 2", "1 row deleted."),
        ("select id, v from pg_temp.t", "1,c"),
    ]);
    two.states(&[("select * from t", "42P01"), ("select * from pg_temp.t", "42P01")]);
    two.answers(&[
        ("create temporary table t as select 7 as n", "Table t created, 1 row."),
        ("select n from t", "7"),
    ]);
    one.answers(&[("select id from t", "1")]);
    // One before a table that lasts, and after it.
    two.done(&["create table lasts (n int primary key)", "insert into lasts values (1)"]);
    one.answers(&[
        ("select n from lasts where n = 1", "1"),
        ("create temp table lasts (n int primary key)", "Table lasts created."),
        ("select n from lasts where n = 1", ""),
        ("select n from public.lasts where n = 1", "1"),
        ("insert into lasts values (2)", "1 row inserted."),
        ("select n from lasts", "2"),
        ("drop table lasts", "Table lasts dropped."),
        ("select n from lasts where n = 1", "1"),
        ("create table pg_temp.more (k int primary key)", "Table more created."),
        ("create temp sequence q", "Sequence q created."),
        ("select nextval('q')", "1"),
    ]);
    two.states(&[("select * from more", "42P01")]);
    two.refuses(&[("select nextval('q')", "\"q\" does not exist")]);
    one.states(&[
        ("create temp table t (a int)", "42P07"),
        ("create temp table public.u (a int)", "42P16"),
        ("create table u (a int primary key) on commit drop", "42P16"),
        ("create table u (a int references t)", "42P16"),
        ("insert into t (id, v) values (1, 'again')", "23505"),
        ("alter table t set schema public", "0A000"),
    ]);
    one.answers(&[("create temp table if not exists t (a int)", "Table t already exists.")]);
}

#[test]
fn it_goes_with_its_session() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&["create temp table t (k int primary key)", "insert into t values (1)"]);
    let two = database.session();
    let left = "select count(*) from information_schema.schemata where schema_name like 'pg_temp%'";
    two.answers(&[(left, "0")]);
    assert_eq!(database.temporary(), 1);
    drop(one);
    database.wait_for(|database| database.temporary() == 0);
    two.answers(&[("create temp table t (k int primary key)", "Table t created.")]);
    two.answers(&[("select count(*) from t", "0")]);
}

#[test]
fn rows_and_tables_go_when_a_transaction_commits() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create temp table kept (k int primary key) on commit preserve rows",
        "create temp table emptied (k int primary key) on commit delete rows",
        "insert into emptied values (1)",
    ]);
    one.answers(&[("select count(*) from emptied", "0")]);
    one.done(&[
        "begin",
        "create temp table gone on commit drop as select 1 as k",
        "insert into kept values (1)",
        "insert into emptied values (1), (2)",
    ]);
    one.answers(&[
        ("select (select count(*) from gone), (select count(*) from emptied)", "1,2"),
        ("commit", "Transaction committed."),
        ("select (select count(*) from kept), (select count(*) from emptied)", "1,0"),
    ]);
    one.states(&[("select * from gone", "42P01")]);
    one.done(&["create temp table gone (k int) on commit drop"]);
    one.states(&[("select * from gone", "42P01")]);
    one.done(&["begin", "create temp table t (k int primary key)", "rollback"]);
    one.states(&[("select * from t", "42P01")]);
}

#[test]
fn a_view_over_one_is_of_the_session() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.done(&[
        "create temp table t (k int primary key)",
        "insert into t values (3)",
        "create view v as select k + 1 as k from t",
    ]);
    one.answers(&[("select k from v", "4")]);
    two.states(&[("select * from v", "42P01")]);
    one.answers(&[
        (
            "select table_name from information_schema.tables where table_schema like 'pg_temp%'",
            "t",
        ),
        ("drop view v", "View v dropped."),
        ("drop table t", "Table t dropped."),
    ]);
}
