//! Schemas, and the search path of a session: in all statements, in transactions, and for several sessions.

use crate::database::TestDatabase;

#[test]
fn schemas_are_made_and_dropped() {
    let database = TestDatabase::new();
    let one = database.session();
    one.answers(&[
        ("create schema s", "Schema s created."),
        ("create schema if not exists s", "Schema s already exists."),
        ("create schema \"Odd one\"", "Schema Odd one created."),
        ("drop schema \"Odd one\" restrict", "Schema Odd one dropped."),
        ("drop schema if exists nowhere", "There was no such schema."),
        ("create table s.t (id serial primary key, a int unique)", "Table s.t created."),
        ("insert into s.t (a) values (7), (8)", "2 rows inserted."),
        ("select * from s.t order by id", "1,7 2,8"),
        ("select t.a, s.t.id from s.t where s.t.a > 7", "8,2"),
        ("select s.t.* from s.t where t.id = 1", "1,7"),
        ("select count(*) from s.t x where exists (select 1 from s.t where s.t.a = x.a + 1)", "1"),
        ("with t as (select a from s.t) select max(a) from t", "8"),
        ("select nextval('s.t_id_seq')", "3"),
    ]);
    one.states(&[
        ("create schema s", "42P06"),
        ("create schema public", "42P06"),
        ("create schema information_schema", "42P06"),
        ("create schema pg_mine", "42939"),
        ("drop schema nowhere", "3F000"),
        ("drop schema public", "2BP01"),
        ("drop schema s", "2BP01"),
        ("create table nowhere.t (a int)", "3F000"),
        ("create view nowhere.v as select 1 as a", "3F000"),
        ("create sequence nowhere.q", "3F000"),
        ("create table s.t (a int)", "42P07"),
        ("select * from t", "42P01"),
        ("select * from nowhere.t", "42P01"),
        ("insert into t values (1, 2)", "42P01"),
        ("alter schema nowhere rename to n", "3F000"),
        ("alter schema s rename to public", "42P06"),
        ("alter schema s rename to pg_s", "42939"),
    ]);
    one.states(&[
        ("drop table nowhere.t", "3F000"),
        ("drop view nowhere.v", "3F000"),
        ("drop index nowhere.i", "3F000"),
        ("drop sequence nowhere.q", "3F000"),
        ("truncate nowhere.t", "3F000"),
        ("alter table nowhere.t add column x int", "3F000"),
        ("create index i on nowhere.t (a)", "3F000"),
        ("insert into nowhere.t values (1)", "42P01"),
        ("update nowhere.t set a = 1", "42P01"),
    ]);
    one.answers(&[
        ("drop table if exists nowhere.t", "There was no such table."),
        ("drop view if exists nowhere.v", "There was no such view."),
        ("drop index if exists nowhere.i", "There was no such index."),
        ("drop sequence if exists nowhere.q", "There was no such sequence."),
        ("alter table if exists nowhere.t add column x int", "There was no such table."),
    ]);
    one.refuses(&[("select nextval('nowhere.q')", "schema \"nowhere\" does not exist")]);
    one.refuses(&[("drop schema s", "table \"t\" is in it"), ("drop table s.u", "\"s.u\"")]);
    one.answers(&[
        ("create view over_t as select a from s.t", "View over_t created."),
        ("drop schema s cascade", "Schema s dropped."),
    ]);
    one.states(&[("select * from s.t", "42P01"), ("select * from over_t", "42P01")]);
    one.answers(&[
        ("create schema s", "Schema s created."),
        ("drop schema s", "Schema s dropped."),
    ]);
}

#[test]
fn names_are_looked_for_along_the_path() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create schema a",
        "create schema b",
        "create table t (k int primary key, v text)",
        "create table a.t (k int primary key, v text)",
        "create table b.u (k int primary key, v text)",
        "insert into t values (1, 'public')",
        "insert into a.t values (1, 'a')",
        "insert into b.u values (1, 'b')",
    ]);
    one.answers(&[
        ("show search_path", "\"\"\"$user\"\", public\""),
        ("select current_schema()", "public"),
        ("select v from t where k = 1", "public"),
        ("set search_path to a, public", "search_path is a, public."),
        ("show search_path", "\"a, public\""),
        ("select current_schema(), current_schemas(false)", "a,\"{a,public}\""),
        // The same statement, whose plan was kept.
        ("select v from t where k = 1", "a"),
        ("select v from public.t where k = 1", "public"),
        ("select x.v, y.v from t x, public.t y", "a,public"),
        ("update t set v = 'A' where k = 1 returning v", "A"),
        (
            "insert into t values (1, 'x') on conflict (k) do update set v = t.v || excluded.v",
            "1 row inserted.",
        ),
        ("select v from t", "Ax"),
        ("delete from t where t.k = 1", "1 row deleted."),
        ("select count(*) from t", "0"),
        ("select count(*) from public.t", "1"),
        ("copy t from stdin;\n1\tcopied\n\\.\n", "1 row copied."),
        ("copy t to stdout", "1\tcopied\n"),
        ("create table made (k int primary key)", "Table a.made created."),
        ("create index made_again on made (k)", "Index a.made_again created."),
        ("create sequence q", "Sequence a.q created."),
        ("select nextval('q'), currval('a.q')", "1,1"),
        ("set search_path = b", "search_path is b."),
        ("select v from u", "b"),
        ("set search_path to default", "search_path is \"$user\", public."),
        ("select v from t where k = 1", "public"),
        ("reset search_path", "search_path is \"$user\", public."),
    ]);
    one.run("set search_path to b");
    one.states(&[
        ("select v from t", "42P01"),
        ("drop table t", "42P01"),
        ("insert into t values (2, 'x')", "42P01"),
        ("set search_path to (select 1)", "22023"),
    ]);
    one.run("set search_path to nowhere");
    one.states(&[("create table x (a int)", "3F000")]);
    one.answers(&[("select current_schema()", "")]);
    one.run("set search_path to b, a");
    one.answers(&[
        ("drop index made_again", "Index a.made_again dropped."),
        ("drop table made, u", "Table a.made, b.u dropped."),
        ("drop sequence q", "Sequence a.q dropped."),
    ]);
    // Each session has its own.
    let two = database.session();
    two.answers(&[("select v from t", "public")]);
}

#[test]
fn a_path_goes_with_its_transaction() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&["create schema a", "create table a.t (k int primary key)"]);
    one.done(&["begin", "set local search_path to a", "insert into t values (1)", "commit"]);
    one.answers(&[("show search_path", "\"\"\"$user\"\", public\"")]);
    one.done(&["set local search_path to a"]);
    one.answers(&[("show search_path", "\"\"\"$user\"\", public\"")]);
    one.done(&["begin", "set search_path to a", "select * from t", "rollback"]);
    one.states(&[("select * from t", "42P01")]);
    one.done(&["begin", "set search_path to a", "commit"]);
    one.answers(&[("select k from t", "1")]);
    // And so do schemas, with all in them.
    one.done(&["begin", "create schema b", "create table b.t (k int primary key)"]);
    one.done(&["insert into b.t values (5)"]);
    let two = database.session();
    two.states(&[("select * from b.t", "42P01")]);
    one.answers(&[("select k from b.t", "5"), ("rollback", "Transaction rolled back.")]);
    one.states(&[("select * from b.t", "42P01"), ("drop schema b", "3F000")]);
    one.done(&["begin", "drop schema a cascade", "rollback"]);
    two.answers(&[("select k from a.t", "1")]);
}

#[test]
fn sessions_wait_for_each_others_schemas() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.states(&[("create table a.t (k int primary key)", "3F000")]);
    one.done(&["create schema a", "begin", "create table a.t (k int primary key)"]);
    let dropped = two.begin("drop schema a");
    one.done(&["commit"]);
    let dropped = dropped.get();
    assert!(dropped.contains("table \"t\" is in it"), "{dropped}");
    one.done(&["begin", "drop schema a cascade"]);
    let made = two.begin("create table a.u (k int primary key)");
    one.done(&["commit"]);
    let made = made.get();
    assert!(made.contains("schema \"a\" does not exist"), "{made}");
    one.done(&["begin", "create schema c"]);
    let made = two.begin("create schema c");
    one.done(&["commit"]);
    assert!(made.get().contains("already exists"));
}

#[test]
fn views_read_what_they_read_when_they_were_made() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create schema a",
        "create table t (v text)",
        "create table a.t (v text not null)",
        "insert into t values ('public')",
        "insert into a.t values ('a')",
        "create view plain as select v from t",
        "set search_path to a, public",
        "create view v as with x as (select v from t) select x.v, s.v as w from x, public.t s",
        "create view a.w as select * from v",
    ]);
    one.answers(&[("select * from a.v", "a,public"), ("select v from plain", "public")]);
    one.run("reset search_path");
    one.answers(&[
        ("select * from a.v", "a,public"),
        ("select * from a.w", "a,public"),
        ("select v from plain", "public"),
        ("alter schema a rename to \"B b\"", "Schema a is B b now."),
        ("select * from \"B b\".w", "a,public"),
        ("select v from \"B b\".t", "a"),
    ]);
    one.states(&[
        ("select * from a.v", "42P01"),
        ("drop table \"B b\".t", "2BP01"),
        ("alter table \"B b\".t set schema public", "2BP01"),
        ("drop view v", "42P01"),
    ]);
    one.answers(&[
        ("drop schema \"B b\" cascade", "Schema B b dropped."),
        ("select * from plain", "public"),
    ]);
}

#[test]
fn tables_move_with_what_is_theirs() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create schema a",
        "create table t (id serial primary key, v text unique, check (id < 100))",
        "create index t_both on t (id, v)",
        "insert into t (v) values ('x')",
        "create table a.taken (id int primary key)",
        "create table taken (id int primary key)",
        "create sequence q",
    ]);
    one.answers(&[
        ("alter table t set schema a", "t is in schema a now."),
        ("insert into a.t (v) values ('y') returning id", "2"),
        ("select id from a.t where v = 'x'", "1"),
        ("alter table a.t set schema a", "a.t is in schema a already."),
        ("alter sequence q set schema a", "q is in schema a now."),
        ("select nextval('a.q')", "1"),
        ("alter schema a rename to b", "Schema a is b now."),
        ("insert into b.t (v) values ('z') returning id", "3"),
        ("alter table b.t add constraint mine unique (id, v)", "Table b.t altered."),
        ("alter table b.t rename constraint mine to ours", "Table b.t altered."),
        ("alter table b.t drop constraint ours", "Table b.t altered."),
        ("alter index b.t_both rename to t_two", "Index b.t_both is b.t_two now."),
        ("alter table b.t rename to u", "Table b.t altered."),
        ("select max(id) from b.u", "3"),
        ("alter table if exists nowhere set schema b", "There was no such table."),
        ("truncate b.u restart identity", "Table b.u truncated."),
        ("insert into b.u (v) values ('new') returning id", "1"),
    ]);
    one.states(&[
        ("alter table taken set schema b", "42P07"),
        ("alter table b.u set schema nowhere", "3F000"),
        ("alter table nowhere set schema b", "42P01"),
        ("alter sequence b.t_id_seq set schema public", "0A000"),
        ("alter view b.u set schema public", "42809"),
        ("insert into b.u values (500, 'far')", "23514"),
    ]);
}

#[test]
fn views_of_the_system_tell_the_schema() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create schema a",
        "create table a.t (k int primary key, v text)",
        "create table t (k int primary key)",
        "create table a.c as select 1 as x",
    ]);
    one.answers(&[
        (
            "select table_schema, table_name from information_schema.tables \
             where table_schema in ('a', 'public') and table_name in ('t', 'c') order by 1, 2",
            "a,c a,t public,t",
        ),
        (
            "select column_name from information_schema.columns where table_schema = 'a' \
             and table_name = 't' order by ordinal_position",
            "k v",
        ),
        ("select x from a.c", "1"),
        ("insert into a.c values (2)", "1 row written."),
        ("select sum(x) from a.c", "3"),
        ("select count(*) from information_schema.schemata where schema_name = 'a'", "1"),
        ("create view a.w as select k from a.t", "View a.w created."),
        (
            "select view_definition from information_schema.views where table_schema = 'a'",
            "\" SELECT k FROM \"\"a\"\".\"\"t\"\" AS \"\"t\"\";\"",
        ),
    ]);
}

#[test]
fn prepared_statements_follow_the_path() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create schema a",
        "create table t (k int primary key, v text)",
        "insert into t values (1, 'public')",
        "create table a.t (k int primary key, v text)",
        "insert into a.t values (1, 'a')",
    ]);
    let by_key = one.prepare("select v from t where k = $1").unwrap();
    let scan = one.prepare("select v from t where k + $1 > 0").unwrap();
    let key = [cellar_sql::Parameter::Text("1".into())];
    for _ in 0..2 {
        assert_eq!(one.execute(&by_key, &key), "public");
        assert_eq!(one.execute(&scan, &key), "public");
    }
    one.run("set search_path to a");
    for _ in 0..2 {
        assert_eq!(one.execute(&by_key, &key), "a");
        assert_eq!(one.execute(&scan, &key), "a");
    }
    // What comes before what was found.
    one.done(&["create schema b", "set search_path to b, a"]);
    assert_eq!(one.execute(&by_key, &key), "a");
    one.done(&["create table b.t (k int primary key, v text)"]);
    assert_eq!(one.execute(&by_key, &key), "");
    one.done(&["insert into t values (1, 'b')"]);
    assert_eq!(one.execute(&by_key, &key), "b");
}

#[test]
fn tables_of_one_name_stand_beside_each_other() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&[
        "create schema a",
        "create schema b",
        "create table a.t (k int, v text not null)",
        "create table b.t (k int, v text not null)",
        "insert into a.t values (1, 'a')",
        "insert into b.t values (1, 'b')",
    ]);
    one.answers(&[
        ("select a.t.v, b.t.v from a.t join b.t on a.t.k = b.t.k", "a,b"),
        ("update a.t set v = b.t.v from b.t where a.t.k = b.t.k", "1 row updated."),
        ("select v from a.t", "b"),
        ("delete from a.t using b.t x where t.v = x.v", "1 row deleted."),
        ("select count(*) from a.t", "0"),
    ]);
}
