//! RECOVER FORCE, as somebody meets it whose log is lost: what is told before and after, and the way of the tables
//! into a new database.

#![cfg(feature = "sql")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program::{self, cellar, done, out, refused, told};
use crate::wire::{self, Served, Wire};

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Makes a database whose log is in two directories, and runs a text of statements; the directories.
fn on_two_media(at: &Path, statements: &str) -> (PathBuf, PathBuf) {
    done(at, &["init", "db", "--disks", "1", "--redundancy", "external", "--disk-size", "256M"]);
    let media = [at.join("one"), at.join("two")];
    for medium in &media {
        std::fs::create_dir(medium).unwrap();
    }
    program::sql(at, "alter database add logfile group 1 ('one', 'two') size 4M, group 2 size 4M");
    program::sql(at, statements);
    media.into()
}

/// A database whose log has two media, of which one is gone and the other is as it was before the last commits, or
/// is gone too.
fn without_its_log(is_one_left: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = dir.path();
    let (one, two) = on_two_media(
        at,
        "create table t (id int primary key, v text) using heap;
         insert into t select g, 'v' || g from generate_series(1, 100) as s(g);
         create table u (id serial primary key, j jsonb) using heap; insert into u (j) values ('{\"a\": 1}')",
    );
    copied(&two, &at.join("kept"));
    let (mut child, port) = wire::start(at);
    let mut client = Wire::session(port);
    client.sql("insert into t select g, 'v' || g from generate_series(101, 3000) as s(g)");
    client.sql("create table w using columnar as select * from t");
    client.sql("create view seen as select id from t where id > 2990");
    assert_eq!(client.sql("checkpoint"), "CHECKPOINT");
    drop(client);
    child.kill().unwrap();
    child.wait().unwrap();
    for medium in [&one, &two] {
        std::fs::remove_dir_all(medium).unwrap();
    }
    if is_one_left {
        std::fs::rename(at.join("kept"), &two).unwrap();
    }
    dir
}

#[test]
fn nothing_is_called_missing_while_the_catalog_cannot_be_read() {
    if !program::has_groups() {
        return;
    }
    let dir = without_its_log(true);
    let statements = [
        "select * from t",
        "select * from u_id_seq",
        "drop table t",
        "copy t to stdout",
        "truncate t",
        "alter table t rename to x",
        "comment on table t is 'x'",
        "create index on t (v)",
        "drop sequence u_id_seq",
        "drop schema s",
        "delete from nosuch",
    ];
    for statement in statements {
        let error = refused(dir.path(), statement);
        assert!(error.starts_with("CELLAR-70162"), "{statement}: {error}");
    }
    let error = refused(dir.path(), "select * from t");
    assert!(error.contains("RECOVER FORCE"), "{error}");
}

/// Runs a program of PostgreSQL's; `None`: it is not installed.
fn postgres(program: &str, port: u16, words: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(words);
    match command.env("PGUSER", "cellar").env("PGDATABASE", "cellar").output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED: {program} ({error}; Debian package postgresql-client)");
            None
        }
    }
}

/// What a transaction reads, and what it is refused.
fn read_in_transactions(client: &mut Wire) {
    let all = "begin; select count(*), max(id) from t; savepoint a; select last_value, is_called from u_id_seq; \
               rollback to a; lock table t, w in access share mode; commit";
    let told = client.sql(all);
    let expected = "BEGIN (3000,3000) SELECT 1 SAVEPOINT (1,t) SELECT 1 ROLLBACK LOCK TABLE COMMIT";
    assert_eq!(told, expected);
    client.sql("begin isolation level repeatable read, read only");
    assert_eq!(client.sql("select id from seen order by id limit 1"), "(2991) SELECT 1 T");
    assert_eq!(client.sql("insert into t values (-1, 'x')"), "25006 E");
    assert_eq!(client.sql("select 1"), "25P02 E");
    assert_eq!(client.sql("rollback"), "ROLLBACK");
    assert_eq!(client.sql("select count(*) from w"), "(3000) SELECT 1");
    for statement in [
        "begin read write",
        "insert into t values (-1, 'x')",
        "update t set v = 'x' where id = 5",
        "select * from t where id = 5 for update",
        "insert into w values (1, 'x')",
        "select nextval('u_id_seq')",
        "create table n (a int) using heap",
        "create table n as select 1 as a",
        "create temp table n (a int)",
        "drop table t",
        "drop table w",
        "truncate t",
        "create role joe",
        "select pg_advisory_lock(1)",
    ] {
        assert_eq!(client.sql(statement), "25006", "{statement}");
    }
    assert_eq!(client.sql("show transaction_read_only"), "(on) SHOW");
}

#[test]
fn after_recover_force_tables_are_read_and_go_into_a_new_database() {
    if program::has_groups() {
        recovered_by_force(&without_its_log(true));
    }
}

#[test]
fn tables_are_read_without_any_medium_of_the_log() {
    if program::has_groups() {
        recovered_by_force(&without_its_log(false));
    }
}

fn recovered_by_force(dir: &tempfile::TempDir) {
    let at = dir.path();
    let reply = cellar(at, &["sql", "db", "-c", "alter database recover force"]);
    assert!(reply.status.success(), "{reply:?}");
    assert!(told(&reply).contains("tables can only be read"), "{reply:?}");
    let status = cellar(at, &["status", "db"]);
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    let words = out(&status).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("DAMAGED tables can only be read: the redo log was opened by force"),
        "{words}"
    );
    assert!(words.contains("copy the tables out"), "{words}");
    // At this opening, and at the next ones.
    for _ in 0..2 {
        let (child, port) = wire::start(at);
        let served = Served { dir: tempfile::tempdir().unwrap(), child, port };
        read_in_transactions(&mut served.client());
        let Some(dump) = postgres("pg_dump", port, &[]) else { return };
        assert!(dump.status.success() && dump.stderr.is_empty(), "{dump:?}");
        let file = at.join("dump.sql");
        std::fs::write(&file, &dump.stdout).unwrap();
        let other = wire::served();
        let words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file.to_str().unwrap()];
        let restored = postgres("psql", other.port, &words).unwrap();
        assert!(restored.status.success() && restored.stderr.is_empty(), "{restored:?}");
        let mut client = other.client();
        let both = "select (select count(*) from t), (select count(*) from w), (select count(*) from seen)";
        assert_eq!(client.sql(both), "(3000,3000,10) SELECT 1");
        assert_eq!(client.sql("insert into u (j) values (null) returning id"), "(2) INSERT 0 1");
        other.end();
        served.end();
    }
}

/// Deletes and inserts rows one by one, as far as it comes.
fn load(at: &Path, number: u64) -> std::process::Child {
    let mut text = String::new();
    for id in (1..=6000u64).filter(|id| id % 2 == number) {
        let new = 10_000 + id;
        text +=
            &format!("delete from r where id = {id}; insert into r values ({new}, 'n{new}');\n");
        if id % 50 == 0 {
            text += &format!(
                "create table h{id} (a int primary key, b text) using heap; drop table h{id};\n"
            );
        }
    }
    let name = format!("load{number}.sql");
    std::fs::write(at.join(&name), text).unwrap();
    let mut command = program::command(at, &["sql", "db", "-f", &name]);
    let quiet = || std::process::Stdio::null();
    command.stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().unwrap()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a process is killed in real time")]
fn what_a_kill_under_load_leaves_is_read_to_its_end() {
    if !program::has_groups() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = dir.path();
    let (one, two) = on_two_media(
        at,
        "create table r (id int primary key, v text) using heap;
         insert into r select g, 'v' || g from generate_series(1, 6000) as s(g)",
    );
    copied(&two, &at.join("kept"));
    let (mut child, _) = wire::start(at);
    let loads = [0, 1].map(|number| load(at, number));
    std::thread::sleep(std::time::Duration::from_millis(2500));
    child.kill().unwrap();
    child.wait().unwrap();
    for mut load in loads {
        let _ = load.kill();
        load.wait().unwrap();
    }
    for medium in [&one, &two] {
        std::fs::remove_dir_all(medium).unwrap();
    }
    std::fs::rename(at.join("kept"), &two).unwrap();
    done(at, &["sql", "db", "-c", "alter database recover force"]);
    // Rows that a lost transaction has deleted or inserted may be there or not; each that is there is found.
    let rows = program::rows(
        at,
        "select (select count(*) from r) as all_rows, (select count(*) from r where id between 0 and 99999) as by_key, \
         (select count(*) from r where v <> 'v' || id and v <> 'n' || id) as wrong",
    );
    let number = |name: &str| rows[0][name].as_u64().unwrap();
    assert!(number("all_rows") > 4000 && number("wrong") == 0, "{rows:?}");
    assert_eq!(number("all_rows"), number("by_key"), "{rows:?}");
    let copied = cellar(at, &["sql", "db", "-c", "copy r to 'r.csv'"]);
    assert!(copied.status.success(), "{copied:?}");
}
