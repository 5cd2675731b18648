//! Enum types: for several sessions, in transactions, in the catalogs.

use crate::database::TestDatabase;
use cellar_sql::Parameter;

#[test]
fn types_change_under_other_sessions() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.answers(&[
        ("create type mood as enum ('sad', 'ok')", "Type mood created."),
        ("create table t (id int primary key, m mood)", "Table t created."),
        ("insert into t values (1, 'ok'), (2, 'sad')", "2 rows inserted."),
    ]);
    let query = "select id, m from t where m >= 'sad' order by m";
    two.answers(&[(query, "2,sad 1,ok"), ("insert into t values (3, 'sad')", "1 row inserted.")]);
    // What one plans with changes under it: the same statement means the new values.
    one.answers(&[
        ("alter type mood add value 'bad' before 'ok'", "Type mood altered."),
        ("insert into t values (4, 'bad')", "1 row inserted."),
    ]);
    two.answers(&[
        (query, "2,sad 3,sad 4,bad 1,ok"),
        ("select m from t where id = 4", "bad"),
        ("insert into t values (5, 'bad')", "1 row inserted."),
    ]);
    one.answers(&[("alter type mood rename value 'bad' to 'low'", "Type mood altered.")]);
    two.answers(&[("select id from t where m = 'low' order by id", "4 5")]);
    two.states(&[("insert into t values (6, 'bad')", "22P02")]);
    // A table of a type that goes meanwhile.
    two.answers(&[
        ("begin", "Transaction begun."),
        ("create table u (m mood)", "Table u created."),
    ]);
    one.answers(&[("drop table t", "Table t dropped."), ("drop type mood", "Type mood dropped.")]);
    two.states(&[("commit", "40001"), ("select * from u", "42P01")]);
}

#[test]
fn parameters_are_values_of_types() {
    let database = TestDatabase::new();
    let one = database.session();
    one.answers(&[
        ("create type mood as enum ('sad', 'ok')", "Type mood created."),
        ("create table t (id int primary key, m mood)", "Table t created."),
    ]);
    let text = |text: &str| Parameter::Text(text.to_owned());
    let insert = one.prepare("insert into t values ($1, $2)").unwrap();
    assert_eq!(one.execute(&insert, &[Parameter::Integer(1), text("ok")]), "1 row inserted.");
    assert_eq!(one.execute(&insert, &[Parameter::Integer(2), Parameter::Null]), "1 row inserted.");
    for sql in [
        "select id from t where m = $1",
        "select id from t where m >= $1",
        "select id from t where m = $1::mood",
        "select id from t where m in ($1, 'sad')",
    ] {
        let query = one.prepare(sql).unwrap();
        assert_eq!(one.execute(&query, &[text("ok")]), "1", "{sql}");
        assert_eq!(one.execute(&query, &[Parameter::Null]), "", "{sql}");
        assert!(one.execute(&query, &[text("angry")]).contains("invalid input value"), "{sql}");
    }
}

#[test]
fn the_catalogs_tell_of_types() {
    let database = TestDatabase::new();
    let one = database.session();
    one.answers(&[
        ("create type mood as enum ('sad', 'ok')", "Type mood created."),
        ("comment on type mood is 'how it goes'", "Comment created."),
        ("create schema s", "Schema s created."),
        ("create type s.size as enum ('small')", "Type s.size created."),
        ("create table t (id int, m mood default 'ok', l mood[], s s.size)", "Table t created."),
        (
            "select typname, typtype, typcategory from pg_type where typname like '%mood' order by 1",
            "_mood,b,A mood,e,E",
        ),
        (
            "select e.enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid \
             where t.typname = 'mood' order by e.enumsortorder",
            "sad ok",
        ),
        (
            "select format_type(atttypid, atttypmod) from pg_attribute \
             where attrelid = 't'::regclass and attnum > 1 order by attnum",
            "mood mood[] s.size",
        ),
        (
            "select data_type, udt_schema, udt_name from information_schema.columns \
             where table_name = 't' and column_name <> 'id' order by ordinal_position",
            "USER-DEFINED,public,mood ARRAY,public,_mood USER-DEFINED,s,size",
        ),
        ("select 'mood'::regtype, pg_typeof('ok'::mood), pg_typeof('{ok}'::mood[])", "mood,mood,mood[]"),
        ("select obj_description('mood'::regtype, 'pg_type')", "how it goes"),
        ("drop schema s cascade", "Schema s dropped."),
        ("select * from t", ""),
    ]);
    one.states(&[("select s from t", "42703")]);
}

#[test]
fn types_are_refused_in_words() {
    let database = TestDatabase::new();
    let one = database.session();
    one.answers(&[
        ("create type mood as enum ('sad', 'ok')", "Type mood created."),
        ("create table t (id int, m mood)", "Table t created."),
        ("insert into t values (1, 'ok')", "1 row inserted."),
        ("create table c as select m from t", "Table c created, 1 row."),
        ("select * from c where m > 'sad'", "ok"),
        ("create view v as select 'sad'::mood as m", "View v created."),
        ("select * from v where m < 'ok'", "sad"),
    ]);
    one.states(&[
        ("create table d using columnar as select m from t", "0A000"),
        ("create domain d as int", "0A000"),
        ("create type d as (a int)", "0A000"),
        ("alter type mood rename to humour", "2BP01"),
        ("alter type nowhere add value 'x'", "42704"),
        ("create table d (a nowhere)", "42704"),
        ("create table mood (a int)", "42P07"),
    ]);
}
