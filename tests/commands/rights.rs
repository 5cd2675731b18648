//! Rights: owners, GRANT and REVOKE, and what somebody with few rights tries.

#![cfg(feature = "sql")]

use std::process::Command;

use crate::wire::{self, Served, Wire, first, served};

const DENIED: &str = "42501";

/// A session of a role: the owner of the directory may be any role that may log in.
fn session(served: &Served, role: &str) -> Wire {
    let mut session = Wire::connect(served.port);
    session.send(&[first(3 << 16, format!("user\0{role}\0database\0cellar\0\0").as_bytes())]);
    session.answers();
    assert_eq!(session.sql("select current_user"), format!("({role}) SELECT 1"));
    session
}

/// What a session's statements tell.
fn tells(session: &mut Wire, statements: &[(&str, &str)]) {
    for (sql, wanted) in statements {
        assert_eq!(session.sql(sql), *wanted, "{sql}");
    }
}

/// Tables of `olga`, of which `anna` may do some things, `bert` others by way of a role, and `eve` nothing.
fn with_roles() -> Served {
    let served = served();
    let mut owner = served.client();
    for role in ["olga", "anna", "bert", "eve"] {
        tells(&mut owner, &[(&format!("create role {role} login"), "CREATE ROLE")]);
    }
    tells(
        &mut owner,
        &[
            ("create role readers", "CREATE ROLE"),
            ("grant readers to bert", "GRANT"),
            ("create table t (a int primary key, b int, c text) using heap", "CREATE TABLE"),
            ("create table k (a int, b int)", "CREATE TABLE"),
            ("insert into t values (1, 10, 'x'), (2, 20, 'y')", "INSERT 0 2"),
            ("create sequence s", "CREATE SEQUENCE"),
            ("create view v as select a, b from t", "CREATE VIEW"),
            ("create schema hidden", "CREATE SCHEMA"),
            ("create table hidden.h (a int) using heap", "CREATE TABLE"),
            ("create type mood as enum ('sad', 'glad')", "CREATE TYPE"),
            ("alter table t owner to olga", "ALTER TABLE"),
            ("alter table k owner to olga", "ALTER TABLE"),
            ("alter sequence s owner to olga", "ALTER SEQUENCE"),
            ("alter view v owner to olga", "ALTER VIEW"),
            ("alter type mood owner to olga", "ALTER TYPE"),
            ("alter schema hidden owner to olga", "ALTER SCHEMA"),
            ("alter table hidden.h owner to olga", "ALTER TABLE"),
        ],
    );
    served
}

/// Each statement by each of them: `olga` owns everything, `anna` and `bert` were granted something.
const MAY: &[(&str, [&str; 4])] = &[
    // Statement, and what olga, anna, bert and eve are told.
    ("select a from t where a = 1", ["(1) SELECT 1", "(1) SELECT 1", "(1) SELECT 1", DENIED]),
    ("select count(*) from t", ["(2) SELECT 1", "(2) SELECT 1", "(2) SELECT 1", DENIED]),
    ("select * from t limit 0", ["SELECT 0", "SELECT 0", "SELECT 0", DENIED]),
    ("select 1 from t where false", ["SELECT 0", "SELECT 0", "SELECT 0", DENIED]),
    ("select count(*) from k", ["(0) SELECT 1", DENIED, "(0) SELECT 1", DENIED]),
    ("select a from v where a = 2", ["(2) SELECT 1", "(2) SELECT 1", DENIED, DENIED]),
    ("insert into t values (3, 30, 'z')", ["INSERT 0 1", "23505", DENIED, DENIED]),
    (
        "insert into t values (3, 0, '') on conflict do nothing",
        ["INSERT 0 0", "INSERT 0 0", DENIED, DENIED],
    ),
    (
        "insert into t values (3, 0, '') on conflict (a) do update set b = 31",
        ["INSERT 0 1", DENIED, DENIED, DENIED],
    ),
    ("insert into k values (1, 1)", ["INSERT 0 1", "INSERT 0 1", DENIED, DENIED]),
    ("insert into k select a, b from t where a = 9", ["INSERT 0 0", "INSERT 0 0", DENIED, DENIED]),
    ("update t set b = 11 where a = 1", ["UPDATE 1", DENIED, "UPDATE 1", DENIED]),
    (
        "update t set b = k.b from k where k.a = t.a and false",
        ["UPDATE 0", DENIED, "UPDATE 0", DENIED],
    ),
    (
        "update t set b = 11 where a = 1 returning c",
        ["(x) UPDATE 1", DENIED, "(x) UPDATE 1", DENIED],
    ),
    ("delete from t where a = 3", ["DELETE 1", DENIED, DENIED, DENIED]),
    ("delete from t using k where k.a = t.a and false", ["DELETE 0", DENIED, DENIED, DENIED]),
    ("select a from t where a = 1 for update", ["(1) SELECT 1", DENIED, "(1) SELECT 1", DENIED]),
    (
        "begin; lock table t; rollback",
        ["BEGIN LOCK TABLE ROLLBACK", "BEGIN 42501", "BEGIN LOCK TABLE ROLLBACK", "BEGIN 42501"],
    ),
    (
        "with x as (select * from t) select count(*) from x",
        ["(2) SELECT 1", "(2) SELECT 1", "(2) SELECT 1", DENIED],
    ),
    ("select (select max(a) from t)", ["(2) SELECT 1", "(2) SELECT 1", "(2) SELECT 1", DENIED]),
    (
        "select 1 where exists (select 1 from t)",
        ["(1) SELECT 1", "(1) SELECT 1", "(1) SELECT 1", DENIED],
    ),
    (
        "select 1 where 1 in (select a from t)",
        ["(1) SELECT 1", "(1) SELECT 1", "(1) SELECT 1", DENIED],
    ),
    ("create table eigen as select * from t", [DENIED, DENIED, DENIED, DENIED]),
    (
        "create temp table own (a int); drop table own",
        [
            "CREATE TABLE DROP TABLE",
            "CREATE TABLE DROP TABLE",
            "CREATE TABLE DROP TABLE",
            "CREATE TABLE DROP TABLE",
        ],
    ),
    ("truncate t", ["TRUNCATE TABLE", DENIED, DENIED, DENIED]),
    ("insert into t values (1, 10, 'x'), (2, 20, 'y')", ["INSERT 0 2", "23505", DENIED, DENIED]),
    ("select nextval('s') > 0", ["(t) SELECT 1", "(t) SELECT 1", DENIED, DENIED]),
    ("select setval('s', 7)", ["(7) SELECT 1", DENIED, DENIED, DENIED]),
    ("select last_value from s", ["(7) SELECT 1", DENIED, "(7) SELECT 1", DENIED]),
    ("select * from hidden.h", ["SELECT 0", DENIED, "SELECT 0", DENIED]),
    (
        "create table hidden.x (a int) using heap; drop table hidden.x",
        ["CREATE TABLE DROP TABLE", DENIED, DENIED, DENIED],
    ),
    ("create index on t (b)", ["CREATE INDEX", DENIED, DENIED, DENIED]),
    ("drop index t_b_idx", ["DROP INDEX", DENIED, DENIED, DENIED]),
    ("alter table t add column d int", ["ALTER TABLE", DENIED, DENIED, DENIED]),
    ("alter table t drop column d", ["ALTER TABLE", DENIED, DENIED, DENIED]),
    ("comment on table t is 'of olga'", ["COMMENT", DENIED, DENIED, DENIED]),
    ("alter table t owner to eve", [DENIED, DENIED, DENIED, DENIED]),
    ("alter sequence s increment 1", ["ALTER SEQUENCE", DENIED, DENIED, DENIED]),
    ("alter type mood add value 'mad'", ["ALTER TYPE", DENIED, DENIED, DENIED]),
    ("drop table t", ["2BP01", DENIED, DENIED, DENIED]),
    ("drop schema hidden", ["2BP01", DENIED, DENIED, DENIED]),
    ("create role more", [DENIED, DENIED, DENIED, DENIED]),
    ("create schema mine", [DENIED, DENIED, DENIED, DENIED]),
    ("create table mine (a int)", [DENIED, DENIED, DENIED, DENIED]),
    ("create view mine as select 1 as x", [DENIED, DENIED, DENIED, DENIED]),
    ("create sequence mine", [DENIED, DENIED, DENIED, DENIED]),
    ("create type mine as enum ('a')", [DENIED, DENIED, DENIED, DENIED]),
];

#[test]
fn each_role_may_do_what_it_was_granted() {
    let served = with_roles();
    let mut olga = session(&served, "olga");
    tells(
        &mut olga,
        &[
            ("grant select, insert on table t to anna", "GRANT"),
            ("grant select on t to readers with grant option", "GRANT"),
            ("grant update on t to readers", "GRANT"),
            ("grant insert on k to anna; grant select on k to readers", "GRANT GRANT"),
            ("grant select on v to anna", "GRANT"),
            (
                "grant usage on sequence s to anna; grant select on sequence s to readers",
                "GRANT GRANT",
            ),
            ("grant usage on schema hidden to readers", "GRANT"),
            ("grant select on all tables in schema hidden to readers", "GRANT"),
        ],
    );
    let roles = ["olga", "anna", "bert", "eve"];
    let mut sessions: Vec<Wire> = roles.iter().map(|role| session(&served, role)).collect();
    for (sql, wanted) in MAY {
        for ((session, role), wanted) in sessions.iter_mut().zip(roles).zip(wanted) {
            // What only olga may must be tried by the others first.
            if role == "olga" {
                continue;
            }
            let _ = session.sql("rollback");
            if *wanted == DENIED {
                assert_eq!(session.sql(sql), DENIED, "{role}: {sql}");
            }
        }
        for ((session, role), wanted) in sessions.iter_mut().zip(roles).zip(wanted) {
            let _ = session.sql("rollback");
            if role != "olga" && *wanted == DENIED {
                continue;
            }
            let told = session.sql(sql);
            assert_eq!(told.trim_end_matches(" E"), *wanted, "{role}: {sql}");
        }
    }
    // What was granted is there behind a crash.
    let mut served = served;
    drop(sessions);
    served.again();
    tells(
        &mut session(&served, "anna"),
        &[("select count(*) from t", "(2) SELECT 1"), ("delete from t", DENIED)],
    );
    tells(&mut session(&served, "eve"), &[("select count(*) from t", DENIED)]);
    served.end();
}

#[test]
fn a_revoke_holds_for_what_was_prepared_in_another_session() {
    let served = with_roles();
    let (mut olga, mut anna) = (session(&served, "olga"), session(&served, "anna"));
    tells(&mut olga, &[("grant select, update on t to anna", "GRANT")]);
    // By the fast path, by DataFusion, and one that changes rows.
    let statements = [
        ("fast", "select b from t where a = 1"),
        ("slow", "select count(*) from t x join t y on x.a = y.a"),
        ("change", "update t set b = b where a = 1"),
    ];
    for (name, sql) in statements {
        assert_eq!(anna.kinds(&[wire::parse(name, sql, &[]), wire::sync()]), "1Z", "{name}");
    }
    tells(&mut anna, &[("prepare p as select b from t where a = 2", "PREPARE")]);
    let run = |session: &mut Wire, name: &str| {
        let bind = wire::bind(("", name), (0, &[]), 0);
        session.kinds(&[bind, wire::execute("", 0), wire::sync()])
    };
    for _ in 0..2 {
        assert_eq!(run(&mut anna, "fast"), "2DCZ");
        assert_eq!(run(&mut anna, "slow"), "2DCZ");
        assert_eq!(run(&mut anna, "change"), "2CZ");
        tells(&mut anna, &[("execute p", "(20) SELECT 1")]);
    }
    // What a transaction revokes others notice when it is committed; and not if it is rolled back.
    tells(&mut olga, &[("begin; revoke all on t from anna", "BEGIN REVOKE T")]);
    assert_eq!(run(&mut anna, "fast"), "2DCZ");
    tells(&mut olga, &[("rollback", "ROLLBACK")]);
    assert_eq!(run(&mut anna, "fast"), "2DCZ");
    tells(&mut olga, &[("begin; revoke all on t from anna; commit", "BEGIN REVOKE COMMIT")]);
    for (name, _) in statements {
        assert!(run(&mut anna, name).ends_with("EZ"), "{name}");
    }
    tells(&mut anna, &[("execute p", DENIED)]);
    tells(&mut olga, &[("grant select on t to public", "GRANT")]);
    assert_eq!(run(&mut anna, "fast"), "2DCZ");
    assert_eq!(run(&mut anna, "slow"), "2DCZ");
    assert!(run(&mut anna, "change").ends_with("EZ"));
    // A superuser's statement is not one of who it acts as then.
    let mut owner = served.client();
    tells(
        &mut owner,
        &[
            ("prepare q as select count(*) from k", "PREPARE"),
            ("execute q", "(0) SELECT 1"),
            ("set role eve; select current_user", "SET (eve) SELECT 1"),
            ("execute q", DENIED),
            ("delete from t", DENIED),
            ("reset role; execute q", "RESET (0) SELECT 1"),
        ],
    );
    served.end();
}

/// What somebody is told who may read two columns, set one, and give both to new rows.
const BY_COLUMNS: &[(&str, &str)] = &[
    ("select count(*) from v", "(2) SELECT 1"),
    ("select a, b from t where a = 1", "(1,10) SELECT 1"),
    ("select a from t x where b > 5 order by a", "(1) (2) SELECT 2"),
    ("select count(*) from t", "(2) SELECT 1"),
    ("select c from t", DENIED),
    ("select * from t", DENIED),
    ("select a from t where c = 'x'", DENIED),
    ("select a from t order by c", DENIED),
    ("select x.a from t x join t y on x.c = y.c", DENIED),
    ("select t from t", "42703"),
    ("update t set b = 12 where a = 1", "UPDATE 1"),
    ("update t set b = length(c)", DENIED),
    ("update t set c = '' where a = 1", DENIED),
    ("update t set b = 10 where a = 1 returning a", "(1) UPDATE 1"),
    ("update t set b = 12 where a = 1 returning *", DENIED),
    ("insert into t (a, b) values (5, 5) returning a", "(5) INSERT 0 1"),
    ("insert into t (a, b) values (6, 5) returning c", DENIED),
    ("insert into t values (6, 6, 'y')", DENIED),
    (
        "insert into t (a, b) values (5, 6) on conflict (a) do update set b = excluded.b + t.b",
        "INSERT 0 1",
    ),
    ("insert into t (a, b) values (5, 6) on conflict (a) do update set b = length(t.c)", DENIED),
    ("copy t (a, b) to stdout", "COPY 3"),
    ("copy t to stdout", DENIED),
    ("copy (select c from t) to stdout", DENIED),
    ("delete from t where a = 5", DENIED),
    (
        "select has_column_privilege('t', 'c', 'select'), has_column_privilege('t', 'a', 'select')",
        "(f,t) SELECT 1",
    ),
    (
        "select has_table_privilege('t', 'select'), has_any_column_privilege('t', 'select')",
        "(f,t) SELECT 1",
    ),
];

#[test]
fn views_read_what_their_owner_may_and_columns_are_granted() {
    let served = with_roles();
    let (mut olga, mut eve) = (session(&served, "olga"), session(&served, "eve"));
    tells(
        &mut olga,
        &[
            ("grant select on v to eve", "GRANT"),
            ("grant select (a, b), update (b), insert (a, b) on t to eve", "GRANT"),
        ],
    );
    tells(&mut eve, BY_COLUMNS);
    // A column that gets another name keeps its rights, and one that goes takes them along.
    tells(
        &mut olga,
        &[
            ("alter table t rename column b to bb", "2BP01"),
            ("drop view v; alter table t rename column b to bb", "DROP VIEW ALTER TABLE"),
        ],
    );
    tells(
        &mut eve,
        &[
            ("select bb from t where a = 1", "(10) SELECT 1"),
            ("update t set bb = 1 where a = 1", "UPDATE 1"),
        ],
    );
    tells(
        &mut olga,
        &[(
            "alter table t drop column bb; alter table t add column bb int",
            "ALTER TABLE ALTER TABLE",
        )],
    );
    tells(&mut eve, &[("select bb from t where a = 1", DENIED)]);
    // What a table is revoked, so are its columns.
    tells(&mut olga, &[("revoke select on t from eve", "REVOKE")]);
    tells(&mut eve, &[("select a from t", DENIED)]);
    served.end();
}

/// A view of somebody over what that one may not read gives nothing to anybody.
#[test]
fn a_view_has_no_more_rights_than_its_owner() {
    let served = with_roles();
    let mut owner = served.client();
    tells(&mut owner, &[("grant create on schema public to eve, anna", "GRANT")]);
    let mut eve = session(&served, "eve");
    tells(
        &mut eve,
        &[
            ("create view trap as select * from t", "CREATE VIEW"),
            ("select count(*) from trap", DENIED),
            ("grant select on trap to anna, public", "GRANT"),
            ("create view other as select count(*) as n from v", "CREATE VIEW"),
            ("select * from other", DENIED),
            (
                "create table own (a int) using heap; insert into own values (1)",
                "CREATE TABLE INSERT 0 1",
            ),
            ("create view fine as select * from own", "CREATE VIEW"),
            ("grant select on fine to anna", "GRANT"),
        ],
    );
    // Not even who may do everything.
    tells(
        &mut owner,
        &[("select count(*) from trap", DENIED), ("select * from fine", "(1) SELECT 1")],
    );
    let mut anna = session(&served, "anna");
    tells(
        &mut anna,
        &[
            ("select count(*) from trap", DENIED),
            ("select * from fine", "(1) SELECT 1"),
            ("select * from own", DENIED),
            ("create view mine as select * from fine", "CREATE VIEW"),
            ("select a from mine where a = 1", "(1) SELECT 1"),
        ],
    );
    tells(
        &mut owner,
        &[("grant select on t to eve", "GRANT"), ("select count(*) from trap", "(2) SELECT 1")],
    );
    tells(&mut anna, &[("select count(*) from trap", "(2) SELECT 1")]);
    tells(&mut eve, &[("revoke select on fine from anna", "REVOKE")]);
    tells(&mut anna, &[("select a from mine where a = 1", DENIED)]);
    served.end();
}

/// What somebody tries who has no rights but to connect.
const TRIES: &[&str] = &[
    "explain select * from t",
    "explain analyze select * from t",
    "explain verbose select * from t",
    "explain analyze update t set b = 1",
    "explain update t set b = 1 where a = 1",
    "declare c cursor for select * from t; fetch c",
    "prepare x as select * from t; execute x",
    "copy t to stdout",
    "copy (table t) to stdout",
    "copy t to '/tmp/cellar-eve.csv'",
    "copy (select 1) to '/tmp/cellar-eve.csv'",
    "copy (select 1 as a) to '/tmp/cellar-eve.parquet'",
    "copy t from '/etc/passwd'",
    "select * from '/etc/passwd'",
    "select count(*) from of_file",
    "select * from (values (1)) x (a), lateral (select * from t where t.a = x.a) y",
    "select array(select a from t)",
    "values ((select max(b) from t))",
    "select 1 from dual where (select count(*) from t) > 0",
    "with recursive r as (select 1 as n union all select a from t) select * from r",
    "select * from t union all select * from t",
    "insert into t select * from t",
    "with x as (delete from t returning *) select * from x",
    "with x as (update t set b = 0 returning a) select * from x",
    "update t set b = 0",
    "table t",
    "select * from \"t\"",
    "select * from public.t",
    "select * from hidden.h",
    "select * from v$session",
    "select * from cellar.session",
    "select * from v$sql",
    "select * from v$parameter",
    "show parameter cache",
    "alter system set sessions = 10",
    "alter system checkpoint",
    "alter diskgroup data mount",
    "drop diskgroup data",
    "create external table x stored as csv location '/etc/passwd'",
    "set role cellar",
    "set role olga",
    "set session authorization cellar",
    "set session authorization olga",
    "alter role eve superuser",
    "alter role eve createrole",
    "alter role cellar password 'x'",
    "alter role olga password 'x'",
    "alter role eve rename to cellar2",
    "grant olga to eve",
    "grant all on t to eve",
    "alter schema public owner to eve",
    "alter table t owner to eve",
    "reassign owned by olga to eve",
    "drop owned by olga",
    "drop role anna",
    "drop view v",
    "drop sequence s",
    "drop type mood",
    "drop table k",
    "create or replace view v as select 1 as a, 2 as b",
    "create index i on t (b)",
    "alter index t_pkey rename to x",
    "alter table t rename to u",
    "alter table t set schema hidden",
    "alter view v set schema hidden",
    "create table public.x (like t)",
    "create temp table x (like t)",
    "create temp table x as select * from t",
    "select * into temp x from t",
    "select currval('s')",
    "select * from s",
    "truncate t, k",
    "vacuum t; select * from t",
    "begin; lock table t in access share mode",
    "select t.a from t tablesample system (50)",
];

/// What it sees.
const SEEN: &[(&str, &str)] = &[
    (
        "select count(*) from pg_stat_activity where query like '%secret%' and usename <> 'eve'",
        "(0) SELECT 1",
    ),
    (
        "select distinct query from pg_stat_activity where usename = 'cellar'",
        "(<insufficient privilege>) SELECT 1",
    ),
    ("select count(*) > 0 from pg_class", "(t) SELECT 1"),
    ("select rolpassword is null from pg_authid where rolname = 'cellar'", "(t) SELECT 1"),
    (
        "select count(*) from information_schema.table_privileges where table_schema = 'public'",
        "(0) SELECT 1",
    ),
    ("alter role eve password 'new'", "ALTER ROLE"),
    ("select * from generate_series(1, 2)", "(1) (2) SELECT 2"),
    (
        "select has_table_privilege('t', 'select'), has_table_privilege('olga', 't', 'select')",
        "(f,t) SELECT 1",
    ),
    (
        "select has_schema_privilege('public', 'create'), has_schema_privilege('public', 'usage'), \
         has_schema_privilege('hidden', 'usage')",
        "(f,t,f) SELECT 1",
    ),
    (
        "select has_database_privilege('cellar', 'connect'), has_database_privilege('cellar', 'create')",
        "(t,f) SELECT 1",
    ),
    (
        "select has_sequence_privilege('s', 'usage'), has_type_privilege('mood', 'usage')",
        "(f,t) SELECT 1",
    ),
    (
        "select pg_has_role('olga', 'member'), pg_has_role('bert', 'readers', 'usage')",
        "(f,t) SELECT 1",
    ),
    ("select has_table_privilege('nosuch', 't', 'select')", "42704"),
    ("select has_table_privilege('nosuch', 'select')", "42P01"),
    ("select has_table_privilege('t', 'eat')", "22023"),
];

#[test]
fn somebody_with_no_rights_gets_nothing() {
    let served = with_roles();
    let mut owner = served.client();
    std::fs::write(served.dir.path().join("secret.csv"), "a,b\n1,2\n").unwrap();
    let file = served.dir.path().join("secret.csv").display().to_string();
    tells(
        &mut owner,
        &[
            (&format!("create view of_file as select * from '{file}'"), "CREATE VIEW"),
            ("select * from of_file", "(1,2) SELECT 1"),
            ("grant select on of_file to anna", "GRANT"),
        ],
    );
    tells(&mut session(&served, "anna"), &[("select * from of_file", "(1,2) SELECT 1")]);
    let mut eve = session(&served, "eve");
    for sql in TRIES {
        let told = eve.sql(sql);
        let last = told.trim_end_matches(" E");
        let is_refused =
            last.ends_with(DENIED) || last.ends_with("0A000") || last.ends_with("42601");
        assert!(is_refused, "{sql}: {told}");
        eve.sql("rollback");
    }
    assert!(!std::path::Path::new("/tmp/cellar-eve.csv").exists());
    assert!(!std::path::Path::new("/tmp/cellar-eve.parquet").exists());
    // Names of its own that look like those by which views are known.
    assert_eq!(eve.sql("select * from (select * from t) as \"\u{1f}view \u{1f}v\""), DENIED);
    // What others do is not shown.
    tells(&mut owner, &[("select count(*) >= 0 from k -- a secret", "(t) SELECT 1")]);
    tells(&mut eve, SEEN);
    // A table that is dropped, and made again by another one, is another one's.
    tells(&mut owner, &[("grant select on k to eve", "GRANT")]);
    tells(&mut eve, &[("select count(*) from k", "(0) SELECT 1")]);
    tells(&mut owner, &[("drop table k; create table k (a int)", "DROP TABLE CREATE TABLE")]);
    tells(&mut eve, &[("select count(*) from k", DENIED)]);
    served.end();
}

const ACL: &str = "select relacl::text from pg_class where relname = 't'";

/// What the owner of a table says first, and later.
const FIRST: &[(&str, &str)] = &[
    ("select relacl is null from pg_class where relname = 't'", "(t) SELECT 1"),
    ("grant select, update on t to anna with grant option", "GRANT"),
    (ACL, "({olga=arwdDxt/olga,anna=r*w*/olga}) SELECT 1"),
    ("grant all on t to public with grant option", "0LP01"),
    ("grant usage on t to anna", "0LP01"),
    ("grant select on sequence t to anna", "42809"),
    ("grant select on nosuch to anna", "42P01"),
    ("grant select on t to nosuch", "42704"),
    ("grant eat on t to anna", "42601"),
    ("grant execute on function f() to anna", "0A000"),
    ("grant select (nosuch) on t to anna", "42703"),
    ("grant delete (a) on t to anna", "0LP01"),
];
const REVOKED: &[(&str, &str)] = &[
    ("revoke select on t from anna", "2BP01"),
    ("revoke grant option for select on t from anna cascade", "REVOKE"),
    (ACL, "({olga=arwdDxt/olga,anna=rw*/olga}) SELECT 1"),
    ("revoke all on t from anna", "REVOKE"),
    ("revoke update on t from olga", "REVOKE"),
    ("update t set b = 1", DENIED),
    ("grant update on t to olga; update t set b = 10 where a = 1", "GRANT UPDATE 1"),
    ("grant select (a) on t to anna", "GRANT"),
    (
        "select attacl::text from pg_attribute where attrelid = 't'::regclass and attname = 'a'",
        "({anna=r/olga}) SELECT 1",
    ),
    ("grant select, usage on s to anna", "GRANT"),
    (
        "select relacl::text from pg_class where relname = 's'",
        "({olga=rwU/olga,anna=rU/olga}) SELECT 1",
    ),
    ("grant usage on schema hidden to public", "GRANT"),
    (
        "select nspacl::text from pg_namespace where nspname = 'hidden'",
        "({olga=UC/olga,=U/olga}) SELECT 1",
    ),
    ("revoke usage on type mood from public", "REVOKE"),
    ("select typacl::text from pg_type where typname = 'mood'", "({olga=U/olga}) SELECT 1"),
];

#[test]
fn grants_are_passed_on_and_revoked_as_in_postgresql() {
    let served = with_roles();
    let (mut olga, mut anna) = (session(&served, "olga"), session(&served, "anna"));
    let mut owner = served.client();
    tells(&mut olga, FIRST);
    tells(
        &mut anna,
        &[
            ("grant select on t to eve with grant option", "GRANT"),
            ("grant delete on t to eve", "GRANT"),
            ("grant select on t to olga with grant option", "GRANT"),
            (ACL, "({olga=arwdDxt/olga,anna=r*w*/olga,eve=r*/anna,olga=r*/anna}) SELECT 1"),
        ],
    );
    let mut eve = session(&served, "eve");
    tells(
        &mut eve,
        &[
            ("grant select on t to bert", "GRANT"),
            ("grant select on t to anna with grant option", "0LP01"),
        ],
    );
    tells(&mut olga, REVOKED);
    tells(
        &mut owner,
        &[
            (
                "grant create on schema public to anna; grant temp on database cellar to anna",
                "GRANT GRANT",
            ),
            (
                "select nspacl::text from pg_namespace where nspname = 'public'",
                "({pg_database_owner=UC/pg_database_owner,=U/pg_database_owner,anna=C/pg_database_owner}) SELECT 1",
            ),
            (
                "select datacl::text from pg_database",
                "({=Tc/cellar,cellar=CTc/cellar,anna=T/cellar}) SELECT 1",
            ),
            ("revoke connect on database cellar from public", "REVOKE"),
            (
                "grant select on t to anna; revoke all on all tables in schema public from anna",
                "GRANT REVOKE",
            ),
            (
                "select grantee, privilege_type, is_grantable from information_schema.role_table_grants \
                 where table_name = 't' and privilege_type = 'SELECT'",
                "(olga,SELECT,YES) SELECT 1",
            ),
        ],
    );
    tells(
        &mut anna,
        &[
            ("create table feels (m mood) using heap", DENIED),
            ("create table x (a int) using heap", "CREATE TABLE"),
            (
                "select pg_get_userbyid(relowner) from pg_class where relname = 'x'",
                "(anna) SELECT 1",
            ),
            ("select tableowner from pg_tables where tablename = 'x'", "(anna) SELECT 1"),
        ],
    );
    served.end();
}

/// How what roles own goes, or goes to others.
const GONE: &[(&str, &str)] = &[
    (
        "create table serials (id serial primary key, n int generated always as identity) using heap",
        "CREATE TABLE",
    ),
    ("alter table serials owner to anna", "ALTER TABLE"),
    (
        "select count(*) from pg_class where relkind = 'S' and pg_get_userbyid(relowner) = 'anna'",
        "(2) SELECT 1",
    ),
    ("alter sequence serials_id_seq owner to olga", "0A000"),
    ("alter sequence serials_id_seq owner to anna", "ALTER SEQUENCE"),
    ("grant insert on serials to bert", "GRANT"),
    ("drop role anna", "2BP01"),
    ("drop role bert", "2BP01"),
    ("begin; drop owned by bert; drop role bert; rollback", "BEGIN DROP OWNED DROP ROLE ROLLBACK"),
    ("reassign owned by anna to olga", "REASSIGN OWNED"),
    (
        "select distinct pg_get_userbyid(relowner) from pg_class where relname like 'serials%'",
        "(olga) SELECT 1",
    ),
    ("drop role anna", "DROP ROLE"),
    ("drop owned by bert; drop role bert", "DROP OWNED DROP ROLE"),
    ("drop owned by olga", "DROP OWNED"),
    (
        "select count(*) from pg_class where relname in ('t', 'k', 'v', 's', 'serials', 'h')",
        "(0) SELECT 1",
    ),
    ("drop role olga", "DROP ROLE"),
    ("create schema authorization eve", "CREATE SCHEMA"),
    ("create schema more authorization eve", "CREATE SCHEMA"),
    (
        "select nspname from pg_namespace where pg_get_userbyid(nspowner) = 'eve' order by 1",
        "(eve) (more) SELECT 2",
    ),
];

#[test]
fn roles_that_own_something_are_not_dropped() {
    let served = with_roles();
    let mut owner = served.client();
    tells(&mut owner, GONE);
    let mut eve = session(&served, "eve");
    tells(
        &mut eve,
        &[
            (
                "create table eve.t (id int generated always as identity, a int) using heap",
                "CREATE TABLE",
            ),
            ("insert into eve.t (a) values (1) returning id", "(1) INSERT 0 1"),
            (
                "set search_path = eve; create view v as select * from t; select * from v",
                "SET CREATE VIEW (1,1) SELECT 1",
            ),
            ("drop schema more", "DROP SCHEMA"),
            ("alter schema eve rename to evil", DENIED),
        ],
    );
    // The owner of a schema may drop what others have in it.
    tells(&mut owner, &[("create table eve.others (a int) using heap", "CREATE TABLE")]);
    tells(
        &mut eve,
        &[
            ("select * from others", DENIED),
            ("alter table others add column b int", DENIED),
            ("drop table others", "DROP TABLE"),
        ],
    );
    // Who may not connect does not get in.
    tells(&mut owner, &[("revoke connect on database cellar from public", "REVOKE")]);
    let mut late = Wire::connect(served.port);
    late.send(&[first(3 << 16, b"user\0eve\0database\0cellar\0\0")]);
    let told = std::iter::from_fn(|| late.next()).find(|message| message.kind == b'E').unwrap();
    assert_eq!(told.field(b'C'), DENIED);
    served.end();
}

#[test]
fn psql_shows_rights_as_of_postgresql() {
    if Command::new("psql").arg("--version").output().is_err() {
        eprintln!("SKIPPED: it takes psql (Debian package postgresql-client)");
        return;
    }
    let served = with_roles();
    let mut olga = session(&served, "olga");
    tells(
        &mut olga,
        &[
            (
                "grant select on t to anna with grant option; grant update (b, c) on t to eve",
                "GRANT GRANT",
            ),
            ("grant usage on schema hidden to anna", "GRANT"),
        ],
    );
    let psql = |text: &str| {
        let target = format!(
            "host=127.0.0.1 port={} user=cellar dbname=cellar sslmode=disable",
            served.port
        );
        let output =
            Command::new("psql").args([&target, "-X", "-A", "-t", "-c", text]).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let told = psql("\\dp t");
    assert_eq!(
        told,
        "public|t|table|olga=arwdDxt/olga\nanna=r*/olga|b:\n  eve=w/olga\nc:\n  eve=w/olga|\n"
    );
    assert_eq!(psql("\\dt t"), "public|t|table|olga\n");
    let told = psql("\\dn+ hidden");
    assert_eq!(told, "hidden|olga|olga=UC/olga\nanna=U/olga|\n");
    let told = psql("\\dn+ public");
    assert!(
        told.starts_with("public|pg_database_owner|pg_database_owner=UC/pg_database_owner\n=U/"),
        "{told}"
    );
    assert_eq!(psql("\\ddp"), "");
    served.end();
}
