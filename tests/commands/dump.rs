//! pg_dump and pg_restore, as they come with PostgreSQL 15: what is dumped and restored is the same.

#![cfg(feature = "sql")]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wire::{self, Served, served};

/// What is dumped.
const OBJECTS: &str = include_str!("../dump/objects.sql");

/// Runs one of PostgreSQL's programs against a server, in the directory of that; `None`: it is not installed.
fn tried(served: &Served, program: &str, words: &[&str]) -> Option<Output> {
    let port = served.port.to_string();
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &port]).args(words).current_dir(served.dir.path());
    command.env("PGUSER", "cellar").env("PGDATABASE", "cellar");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("SKIPPED: {program} ({error}; Debian package postgresql-client)");
            None
        }
    }
}

/// The same; it must be well, and say nothing on stderr.
#[track_caller]
fn done(served: &Served, program: &str, words: &[&str]) -> Option<String> {
    let output = tried(served, program, words)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{program} {words:?}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[track_caller]
fn psql(served: &Served, words: &[&str]) -> Option<String> {
    let words = [&["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"], words].concat();
    done(served, "psql", &words)
}

/// A server with what is to be dumped.
fn filled() -> Option<Served> {
    let served = served();
    let file = served.dir.path().join("objects.sql");
    std::fs::write(&file, OBJECTS).unwrap();
    psql(&served, &["-f", file.to_str().unwrap()])?;
    Some(served)
}

/// A dump without the lines that no two dumps have alike.
fn plain(text: &str) -> String {
    let is_kept =
        |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

fn put(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Dumps with these words, restores it into a new database, and dumps that: it is the same. The new database.
fn there_and_back(served: &Served, words: &[&str]) -> Served {
    let dump = done(served, "pg_dump", words).unwrap();
    let other = wire::served();
    let file = put(&other.dir.path().join("dump.sql"), &dump);
    psql(&other, &["-f", &file]);
    let again = done(&other, "pg_dump", words).unwrap();
    assert_eq!(plain(&again), plain(&dump), "{words:?}");
    other
}

#[test]
fn what_is_dumped_as_text_is_restored() {
    let Some(served) = filled() else { return };
    let other = there_and_back(&served, &[]);
    let told = psql(&other, &["-c", "select nextval('q'), nextval('never_called')"]);
    assert_eq!(told.unwrap(), "9|1\n");
    let told = psql(&other, &["-c", "insert into s.u (b) values ('z') returning a, c, d"]);
    assert_eq!(told.unwrap(), "4|4|115\n");
    let told = psql(&other, &["-c", "select * from s.a_view_of_a_view"]);
    assert_eq!(told.unwrap(), "1|a\n");
    let told = psql(&other, &["-c", "select obj_description('t_name'::regclass)"]);
    assert_eq!(told.unwrap(), "an index\n");
    let wrong = tried(&other, "psql", &["-X", "-c", "insert into t values (9, 'a', -1)"]).unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("amount_check"), "{wrong:?}");
    other.end();
    served.end();
}

#[test]
fn rows_are_dumped_as_inserts_and_parts_alone() {
    let Some(served) = filled() else { return };
    there_and_back(&served, &["--inserts"]).end();
    there_and_back(&served, &["--column-inserts", "--rows-per-insert=2"]).end();
    there_and_back(&served, &["-t", "t", "-t", "kinds"]).end();
    there_and_back(&served, &["--quote-all-identifiers", "--no-owner", "--no-comments"]).end();
    // Schema and rows one after the other.
    let other = wire::served();
    for words in [["--schema-only"], ["--data-only"]] {
        let dump = done(&served, "pg_dump", &words).unwrap();
        let file = put(&other.dir.path().join("part.sql"), &dump);
        psql(&other, &["-f", &file]);
    }
    let whole = |served: &Served| plain(&done(served, "pg_dump", &[]).unwrap());
    assert_eq!(whole(&other), whole(&served));
    // What is there is taken away first.
    let dump = done(&served, "pg_dump", &["--clean", "--if-exists"]).unwrap();
    let file = put(&other.dir.path().join("clean.sql"), &dump);
    psql(&other, &["-f", &file]);
    assert_eq!(whole(&other), whole(&served));
    other.end();
    served.end();
}

#[test]
fn archives_are_restored() {
    let Some(served) = filled() else { return };
    let archive = served.dir.path().join("archive");
    let archive = archive.to_str().unwrap();
    done(&served, "pg_dump", &["-Fc", "-f", archive]).unwrap();
    let other = wire::served();
    done(&other, "pg_restore", &["-d", "cellar", "--exit-on-error", archive]).unwrap();
    let whole = |served: &Served| plain(&done(served, "pg_dump", &[]).unwrap());
    assert_eq!(whole(&other), whole(&served));
    let own = wire::served();
    let words = ["-d", "cellar", "--exit-on-error", "--single-transaction", "-t", "kinds", archive];
    done(&own, "pg_restore", &words).unwrap();
    assert_eq!(psql(&own, &["-c", "select count(*) from kinds"]).unwrap(), "5\n");
    own.end();
    other.end();
    served.end();
}

#[test]
fn a_dump_is_of_one_time() {
    let served = served();
    let mut client = served.client();
    client.sql("create table a (id int primary key, n int)");
    client.sql("create table z (id int primary key, n int)");
    let fill = "select g, 1000 from generate_series(1, 300) as s(g)";
    client.sql(&format!("insert into a {fill}"));
    client.sql(&format!("insert into z {fill}"));
    let is_over = AtomicBool::new(false);
    let dump = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = served.client();
            for at in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (id, sum) = (at % 300 + 1, at % 7 + 1);
                let told = writer.sql(&format!(
                    "begin; update a set n = n - {sum} where id = {id}; \
                     update z set n = n + {sum} where id = {id}; commit"
                ));
                assert_eq!(told, "BEGIN UPDATE 1 UPDATE 1 COMMIT");
            }
        });
        let dump = done(&served, "pg_dump", &[]);
        is_over.store(true, Ordering::Relaxed);
        dump
    });
    let Some(dump) = dump else { return };
    let other = wire::served();
    let file = put(&other.dir.path().join("dump.sql"), &dump);
    psql(&other, &["-f", &file]);
    let both = "select count(*), sum(n) from (select * from a union all select * from z) b";
    assert_eq!(psql(&other, &["-c", both]).unwrap(), "600|600000\n");
    other.end();
    served.end();
}

#[test]
fn owners_and_rights_are_dumped_and_restored() {
    let roles =
        "create role olga; create role \"An na\"; create role readers; grant readers to \"An na\";";
    let made = "create schema s; create type mood as enum ('sad'); create sequence q;
        create table t (a int primary key, b int generated always as identity, c serial) using heap;
        create table s.k (a int, m mood) using heap; create view v as select a from t;
        alter table t owner to olga; alter view v owner to \"An na\"; alter schema s owner to olga;
        alter type mood owner to olga; alter sequence q owner to olga; alter table s.k owner to \"An na\";
        grant select, insert on t to readers with grant option; grant update (a, b) on t to \"An na\";
        grant select on v to public; revoke delete on s.k from \"An na\"; grant usage on sequence q to readers;
        grant usage, create on schema s to readers; revoke usage on type mood from public;
        grant create on schema public to readers; revoke usage on schema public from public;";
    let (served, other) = (served(), wire::served());
    let before = put(&served.dir.path().join("made.sql"), &format!("{roles}{made}"));
    if psql(&served, &["-f", &before]).is_none() {
        return;
    }
    psql(&other, &["-c", roles]).unwrap();
    let dump = done(&served, "pg_dump", &[]).unwrap();
    for line in [
        "ALTER TABLE public.t OWNER TO olga;",
        "GRANT SELECT,INSERT ON TABLE public.t TO readers WITH GRANT OPTION;",
        "GRANT UPDATE(a) ON TABLE public.t TO \"An na\";",
        "REVOKE ALL ON TYPE public.mood FROM PUBLIC;",
    ] {
        assert!(dump.contains(line), "{line}\n{dump}");
    }
    let file = put(&other.dir.path().join("dump.sql"), &dump);
    psql(&other, &["-f", &file]).unwrap();
    let again = done(&other, "pg_dump", &[]).unwrap();
    assert_eq!(plain(&again), plain(&dump));
    // By pg_restore, into one more.
    let third = wire::served();
    psql(&third, &["-c", roles]).unwrap();
    let custom = served.dir.path().join("custom").display().to_string();
    done(&served, "pg_dump", &["-Fc", "-f", &custom]).unwrap();
    done(&third, "pg_restore", &["-d", "cellar", &custom]).unwrap();
    assert_eq!(plain(&done(&third, "pg_dump", &[]).unwrap()), plain(&dump));
    third.end();
    other.end();
    served.end();
}

#[test]
fn a_columnar_table_that_is_locked_stays_as_it_is() {
    let served = served();
    let (mut one, mut two) = (served.client(), served.client());
    one.sql("create table w using columnar as select g as a from generate_series(1, 100) as s(g)");
    two.sql("set lock_timeout = '300ms'");
    one.sql("begin; lock table w in access share mode");
    for statement in ["truncate w", "drop table w"] {
        assert_eq!(two.sql(statement), "55P03", "{statement}");
    }
    assert_eq!(two.sql("insert into w values (101)"), "INSERT 0 1");
    assert_eq!(
        two.sql("begin; lock table w in access share mode; commit"),
        "BEGIN LOCK TABLE COMMIT"
    );
    assert_eq!(one.sql("lock table w in exclusive mode"), "0A000 E");
    assert_eq!(one.sql("rollback; begin; drop table w"), "ROLLBACK BEGIN DROP TABLE T");
    two.sql("set lock_timeout = 0");
    assert_eq!(two.sql("begin; lock table w in access share mode nowait"), "BEGIN 55P03 E");
    assert_eq!(two.sql("rollback"), "ROLLBACK");
    assert_eq!(one.sql("rollback"), "ROLLBACK");
    assert_eq!(two.sql("truncate w"), "TRUNCATE TABLE");
    assert_eq!(one.sql("select count(*) from w"), "(0) SELECT 1");
    drop((one, two));
    served.end();
}

#[test]
fn external_tables_are_dumped_and_restored() {
    let (served, other) = (served(), wire::served());
    let file = put(&served.dir.path().join("it's.csv"), "a;b\n1;x\n2;y\n");
    let made = format!(
        "create external table ex stored as csv location '{}' options ('format.has_header' 'true', \
         'format.delimiter' ';'); comment on table ex is 'outside'; create view over as select b from ex where a = 2;
         create table own (a int)",
        file.replace('\'', "''")
    );
    if psql(&served, &["-c", &made]).is_none() {
        return;
    }
    let dump = done(&served, "pg_dump", &[]).unwrap();
    assert!(dump.contains("CREATE FOREIGN TABLE public.ex"), "{dump}");
    let file = put(&other.dir.path().join("dump.sql"), &dump);
    psql(&other, &["-f", &file]);
    assert_eq!(plain(&done(&other, "pg_dump", &[]).unwrap()), plain(&dump));
    assert_eq!(psql(&other, &["-c", "select b from over"]).unwrap(), "y\n");
    let mut client = other.client();
    assert_eq!(client.sql("drop foreign table own"), "42809");
    let csv = put(&other.dir.path().join("y.csv"), "a\n1\n");
    client.sql(&format!("create external table \"Ex\" stored as csv location '{csv}'"));
    assert_eq!(client.sql("select count(*) from \"Ex\""), "(1) SELECT 1");
    assert_eq!(client.sql("drop foreign table \"Ex\""), "DROP FOREIGN TABLE");
    assert_eq!(client.sql("drop foreign table ex"), "2BP01");
    assert_eq!(client.sql("drop foreign table if exists ex, nosuch cascade"), "DROP FOREIGN TABLE");
    assert_eq!(client.sql("select * from ex"), "42P01");
    drop(client);
    other.end();
    served.end();
}
