//! The server: PostgreSQL's protocol, spoken well and badly, to the real program.

#![expect(clippy::disallowed_methods, reason = "a test of the program waits as a user would")]
#![cfg(feature = "sql")]

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::program::{cellar, out};
use crate::wire::{
    self, Wire, bind, describe, execute, first, message, parse, query, served, shown, sync,
};

#[test]
fn statements_are_run_and_tagged() {
    let served = served();
    let mut client = served.client();
    for (sql, wanted) in [
        ("create table t (id int primary key, name text, n numeric(8,2))", "CREATE TABLE"),
        ("insert into t values (1, 'a', 1.5), (2, null, 2)", "INSERT 0 2"),
        ("select * from t order by id", "(1,a,1.50) (2,NULL,2.00) SELECT 2"),
        ("update t set name = 'b' where id = 2", "UPDATE 1"),
        ("insert into t (id) values (3) returning id", "(3) INSERT 0 1"),
        ("with x as (select 3 as id) delete from t using x where t.id = x.id", "DELETE 1"),
        ("select count(*) filter (where name = 'b'), true from t", "(1,t) SELECT 1"),
        ("", "empty"),
        ("-- nothing", "empty"),
        ("select 1; select 2", "(1) SELECT 1 (2) SELECT 1"),
        ("insert into t values (1, 'again', 0)", "23505"),
        ("select nosuch from t", "42703"),
        ("selec 1", "42601"),
        ("begin", "BEGIN T"),
        ("select 1/0", "22012 E"),
        ("select 1", "25P02 E"),
        ("commit", "ROLLBACK"),
        ("set application_name = 'me'", "SET"),
        ("show application_name", "(me) SHOW"),
        ("explain select 1", "(fast path"),
        ("truncate t", "TRUNCATE TABLE"),
        ("listen x", "0A000"),
        ("drop table t", "DROP TABLE"),
    ] {
        let told = client.sql(sql);
        match sql.starts_with("explain") {
            true => assert!(told.ends_with("EXPLAIN"), "{told}"),
            false => assert_eq!(told, wanted, "{sql}"),
        }
    }
    served.end();
}

#[test]
fn statements_of_one_text_are_one_transaction() {
    let served = served();
    let mut client = served.client();
    assert_eq!(client.sql("create table t (id int primary key)"), "CREATE TABLE");
    let told = client.sql("insert into t values (1); insert into t values (2); select 1/0");
    assert_eq!(told, "INSERT 0 1 INSERT 0 1 22012");
    assert_eq!(client.sql("select count(*) from t"), "(0) SELECT 1");
    let told = client.sql("insert into t values (1); begin; insert into t values (2)");
    assert_eq!(told, "INSERT 0 1 BEGIN INSERT 0 1 T");
    assert_eq!(client.sql("rollback; select count(*) from t"), "ROLLBACK (0) SELECT 1");
    // The same of messages before one Sync.
    let insert =
        |value: &'static [u8]| [bind(("", "s"), (0, &[Some(value)]), 0), execute("", 0)].concat();
    let kinds = client.kinds(&[parse("s", "insert into t values ($1)", &[]), insert(b"1"), sync()]);
    assert_eq!(kinds, "12CZ");
    let kinds = client.kinds(&[insert(b"2"), insert(b"1"), insert(b"3"), sync()]);
    assert_eq!(kinds, "2C2EZ");
    assert_eq!(client.sql("select id from t"), "(1) SELECT 1");
    assert_eq!(client.kinds(&[insert(b"2"), insert(b"3"), sync()]), "2C2CZ");
    assert_eq!(client.sql("select count(*) from t"), "(3) SELECT 1");
}

#[test]
fn values_go_both_ways_in_binary() {
    let served = served();
    let mut client = served.client();
    client.sql(
        "create table t (a int, b bigint, c text, d numeric(10,3), e timestamp, f date, g boolean, \
         h double precision, i bytea)",
    );
    let (micros, days) = (86_400_000_001i64.to_be_bytes(), 1i32.to_be_bytes());
    let numeric = [2u16, 0, 0, 3, 12, 3450].map(u16::to_be_bytes).concat();
    let real = 1.5f64.to_be_bytes();
    let values: [Option<&[u8]>; 9] = [
        Some(&[0, 0, 0, 7]),
        None,
        Some(b"\xc3\xa9"),
        Some(&numeric),
        Some(&micros),
        Some(&days),
        Some(&[1]),
        Some(&real),
        Some(&[0, 255]),
    ];
    let sql = "insert into t values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let kinds = client.kinds(&[
        parse("", sql, &[]),
        bind(("", ""), (1, &values), 1),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(kinds, "12CZ");
    let row = "(7,NULL,é,12.345,2000-01-02 00:00:00.000001,2000-01-02,t,1.5,\\x00ff) SELECT 1";
    assert_eq!(client.sql("select * from t"), row);
    client.send(&[
        parse("", "select * from t where a = $1", &[]),
        describe(b'S', ""),
        bind(("", ""), (1, &[Some(&[0, 0, 0, 7])]), 1),
        execute("", 0),
        sync(),
    ]);
    let answers = client.answers();
    let described = answers.iter().find(|own| own.kind == b't').unwrap();
    assert_eq!(described.body, [0, 1, 0, 0, 0, 23]);
    let row = answers.iter().find(|own| own.kind == b'D').unwrap();
    let wanted: Vec<_> = values.iter().map(|own| own.map(<[u8]>::to_vec)).collect();
    assert_eq!(row.bytes(), wanted);
}

#[test]
fn portals_give_as_many_rows_as_are_asked_for() {
    let served = served();
    let mut client = served.client();
    assert_eq!(client.sql("begin"), "BEGIN T");
    let sql = "select * from generate_series(1, 5) as s(n)";
    client.send(&[
        parse("s", sql, &[]),
        bind(("p", "s"), (0, &[]), 0),
        describe(b'P', "p"),
        execute("p", 2),
        sync(),
    ]);
    assert_eq!(shown(&client.answers()), "(1) (2) suspended T");
    client.send(&[execute("p", 2), execute("p", 0), execute("p", 0), sync()]);
    assert_eq!(shown(&client.answers()), "(3) (4) suspended (5) SELECT 1 SELECT 0 T");
    // A portal ends with its transaction.
    client.send(&[bind(("q", "s"), (0, &[]), 0), execute("q", 1), sync()]);
    assert_eq!(shown(&client.answers()), "(1) suspended T");
    assert_eq!(client.sql("commit"), "COMMIT");
    client.send(&[execute("q", 1), sync()]);
    assert_eq!(shown(&client.answers()), "34000");
    // And cursors of SQL; one that is described as a portal and then fetched by a simple query tells its columns.
    assert_eq!(client.sql("begin; declare d cursor for select 7"), "BEGIN DECLARE CURSOR T");
    assert_eq!(client.kinds(&[describe(b'P', "d"), sync()]), "TZ");
    assert_eq!(client.kinds(&[query("fetch d")]), "TDCZ");
    let fetch = [parse("", "fetch d", &[]), bind(("", ""), (0, &[]), 0), describe(b'P', "")];
    assert_eq!(client.kinds(&[fetch.concat(), execute("", 0), sync()]), "12TCZ");
    assert_eq!(client.sql("rollback"), "ROLLBACK");
    assert_eq!(client.sql("declare c cursor for select 1"), "25P01");
    for (sql, wanted) in [
        ("begin", "BEGIN T"),
        ("declare c cursor for select * from generate_series(1, 5) as s(n)", "DECLARE CURSOR T"),
        ("fetch 2 from c", "(1) (2) FETCH 2 T"),
        ("move c", "MOVE 1 T"),
        ("fetch all from c", "(4) (5) FETCH 2 T"),
        ("fetch c", "FETCH 0 T"),
        ("close c", "CLOSE CURSOR T"),
        ("fetch c", "34000 E"),
        ("rollback", "ROLLBACK"),
        (
            "declare h cursor with hold for select * from generate_series(1, 3) as s(n)",
            "DECLARE CURSOR",
        ),
        ("fetch 2 from h", "(1) (2) FETCH 2"),
        ("close all", "CLOSE CURSOR ALL"),
    ] {
        assert_eq!(client.sql(sql), wanted, "{sql}");
    }
}

#[test]
fn an_error_passes_over_what_follows_up_to_sync() {
    let served = served();
    let mut client = served.client();
    let kinds = client.kinds(&[
        parse("", "select nosuch", &[]),
        bind(("", ""), (0, &[]), 0),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(kinds, "EZ");
    // More values than parameters, none of a statement, a format that there is not.
    for (messages, wanted) in [
        (vec![parse("", "select $1::int", &[]), bind(("", ""), (0, &[]), 0)], "1EZ"),
        (vec![bind(("", "nosuch"), (0, &[]), 0)], "EZ"),
        (vec![parse("", "select $1::int", &[]), bind(("", ""), (7, &[Some(b"1")]), 0)], "1EZ"),
        (vec![parse("", "select 1; select 2", &[])], "EZ"),
        (vec![parse("", "", &[]), bind(("", ""), (0, &[]), 0), execute("", 0)], "12IZ"),
        (vec![describe(b'S', "nosuch")], "EZ"),
        (vec![message(b'C', b"Snosuch\0")], "3Z"),
        (vec![parse("x", "select 1", &[]), parse("x", "select 1", &[])], "1EZ"),
    ] {
        let messages = [messages, vec![sync()]].concat();
        assert_eq!(client.kinds(&messages), wanted);
    }
    client.send(&[query("select\n nosuch")]);
    let error = client.answers().into_iter().find(|own| own.kind == b'E').unwrap();
    assert_eq!((&*error.field(b'S'), &*error.field(b'C')), ("ERROR", "42703"));
    assert!(error.field(b'M').starts_with("CELLAR-00904"), "{}", error.field(b'M'));
}

#[test]
fn rows_are_copied_in_and_out() {
    let served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key, name text)");
    let data = |text: &str| message(b'd', text.as_bytes());
    let done = || message(b'c', b"");
    client.send(&[query("copy t from stdin"), data("1\ta\n2\t"), data("\\N\n"), done()]);
    assert_eq!(shown(&client.answers()), "COPY 2");
    client.send(&[query("copy t to stdout")]);
    let lines = client.answers().into_iter().filter(|own| own.kind == b'd').map(|own| own.body);
    assert_eq!(lines.collect::<Vec<_>>().concat(), b"1\ta\n2\t\\N\n");
    // A row that is there already, and the client that gives up: nothing stays.
    client.send(&[query("copy t from stdin"), data("3\tc\n1\tz\n"), done()]);
    assert_eq!(shown(&client.answers()), "23505");
    let fail = message(b'f', b"no more\0");
    client.send(&[query("copy t from stdin"), data("3\tc\n"), fail]);
    assert_eq!(shown(&client.answers()), "57014");
    // What is wrong with the statement is told before the client is asked for rows.
    assert_eq!(client.kinds(&[query("copy nosuch from stdin")]), "EZ");
    assert_eq!(client.sql("select count(*) from t"), "(2) SELECT 1");
    // By an extended query, whose Sync comes before the rows.
    client.send(&[
        parse("", "copy t from stdin with (format csv)", &[]),
        bind(("", ""), (0, &[]), 0),
        execute("", 0),
        sync(),
        data("3,c\n"),
        done(),
        sync(),
    ]);
    assert_eq!(shown(&client.answers()), "COPY 1");
    assert_eq!(client.sql("select count(*) from t"), "(3) SELECT 1");
}

#[test]
fn what_is_no_message_ends_its_connection_alone() {
    let served = served();
    let mut other = served.client();
    let startup = |bytes: &[u8]| first(3 << 16, bytes);
    for (bytes, wanted) in [
        (first(2 << 16, b"user\0cellar\0\0"), "0A000"),
        (first(4 << 16, b"user\0cellar\0\0"), "0A000"),
        ([&0x4000_0000u32.to_be_bytes()[..], &[0; 8]].concat(), "08P01"),
        ([&7u32.to_be_bytes()[..], &[0; 8]].concat(), "08P01"),
        (startup(b"\0"), "28000"),
        (startup(b"user\0cellar"), "08P01"),
        (startup(b"user\0\xff\xfe\0\0"), "22021"),
        (startup(b"user\0nobody\0\0"), "28000"),
        (startup(b"user\0cellar\0database\0nosuch\0\0"), "3D000"),
        (startup(b"user\0cellar\0client_encoding\0LATIN1\0\0"), "22023"),
        (startup(b"user\0cellar\0nosuch\0x\0\0"), "42704"),
        (startup(b"user\0cellar\0replication\0true\0\0"), "0A000"),
    ] {
        let mut wire = Wire::connect(served.port);
        wire.send(&[bytes]);
        let told = loop {
            let next = wire.next().expect("an error is told");
            if next.kind == b'E' {
                break next;
            }
        };
        assert_eq!((&*told.field(b'S'), &*told.field(b'C')), ("FATAL", wanted));
        assert_eq!(wire.next(), None);
    }
    // Encryption is asked for first, of the kind that there is not, and a newer minor version.
    let mut wire = Wire::connect(served.port);
    wire.send(&[first(80_877_104, b"")]);
    let mut answer = [0];
    std::io::Read::read_exact(&mut wire.socket, &mut answer).unwrap();
    assert_eq!(&answer, b"N");
    wire.send(&[first(3 << 16 | 2, b"user\0cellar\0_pq_.x\0y\0\0")]);
    assert_eq!(wire.next().map(|own| own.kind), Some(b'v'));
    for bytes in [
        vec![b'Q', 0x7f, 0xff, 0xff, 0xff],
        vec![b'Q', 0, 0, 0, 0],
        vec![b'@', 0, 0, 0, 4],
        message(b'Q', b"no end"),
        message(b'B', b"\0\0\xff\xff"),
        message(b'D', b"Zx\0"),
        message(b'p', b"x\0"),
    ] {
        let mut wire = served.client();
        wire.send(std::slice::from_ref(&bytes));
        let told = wire.next().unwrap();
        assert_eq!((told.kind, &*told.field(b'S')), (b'E', "FATAL"), "{bytes:?}");
        assert_eq!(wire.next(), None, "{bytes:?}");
    }
    assert_eq!(other.sql("select 1"), "(1) SELECT 1");
    // A text that is none is told, and the session goes on.
    other.send(&[message(b'Q', b"select '\xff'\0")]);
    assert_eq!(shown(&other.answers()), "22021");
    assert_eq!(other.sql("select 1"), "(1) SELECT 1");
}

#[test]
fn a_commit_that_is_stopped_tells_what_became_of_it() {
    let mut served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key)");
    let (key, port) = (client.key.clone(), served.port);
    let cancels = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let storm = std::thread::spawn({
        let cancels = std::sync::Arc::clone(&cancels);
        move || {
            while cancels.load(std::sync::atomic::Ordering::Relaxed) {
                let mut wire = Wire::connect(port);
                wire.send(&[first(80_877_102, &key)]);
                assert_eq!(wire.next(), None);
            }
        }
    });
    let mut told = Vec::new();
    for id in 0..300 {
        let sql = match id % 2 {
            0 => format!("insert into t values ({id})"),
            _ => format!("begin; insert into t values ({id}); commit"),
        };
        let answer = client.sql(&sql);
        match &*answer {
            "INSERT 0 1" | "BEGIN INSERT 0 1 COMMIT" => told.push(id),
            _ => {
                assert!(answer.contains("57014"), "{answer}");
                // Where it was within the block, that goes on as failed.
                while client.sql("rollback") != "ROLLBACK" {}
            }
        }
    }
    cancels.store(false, std::sync::atomic::Ordering::Relaxed);
    storm.join().unwrap();
    let mut late = served.client();
    late.sql("set statement_timeout = '1ms'");
    for id in 300..400 {
        match &*late.sql(&format!("insert into t values ({id})")) {
            "INSERT 0 1" => told.push(id),
            answer => assert_eq!(answer, "57014"),
        }
    }
    served.again();
    let mut client = served.client();
    client.send(&[query("select id from t order by id")]);
    let rows = client.answers().into_iter().filter(|own| own.kind == b'D');
    let found: Vec<i32> =
        rows.map(|own| own.values()[0].as_ref().unwrap().parse().unwrap()).collect();
    assert_eq!(found, told);
}

#[test]
fn rows_of_a_client_that_dies_in_a_copy_are_gone() {
    let served = served();
    let mut client = served.client();
    client.sql("create table t (id int); create table c (id int) using columnar");
    for table in ["t", "c"] {
        for round in 0..20 {
            let mut dies = served.client();
            let rows = message(b'd', format!("{round}1\n{round}2\n{round}3").as_bytes());
            dies.send(&[query(&format!("copy {table} from stdin")), rows]);
            if round % 2 == 0 {
                // The server has asked for rows by then.
                assert_eq!(dies.next().map(|own| own.kind), Some(b'G'));
            }
            drop(dies);
        }
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(client.sql(&format!("insert into {table} values (0)")).len(), 10);
        assert_eq!(client.sql(&format!("select count(*) from {table}")), "(1) SELECT 1");
    }
}

#[test]
fn definitions_of_a_text_that_fails_are_taken_back() {
    let served = served();
    let mut client = served.client();
    client.sql("create table u (id int); insert into u values (1)");
    assert_eq!(client.sql("truncate u; insert into u values ('x')"), "TRUNCATE TABLE 22P02");
    assert_eq!(client.sql("create table v (a int); drop table u; selec 1"), "42601");
    assert_eq!(client.sql("select id from u"), "(1) SELECT 1");
    assert_eq!(client.sql("select * from v"), "42P01");
    // The same before one Sync, which comes in a write of its own.
    client.send(&[
        parse("", "create table v (a int)", &[]),
        bind(("", ""), (0, &[]), 0),
        execute("", 0),
    ]);
    std::thread::sleep(Duration::from_millis(100));
    client.send(&[parse("", "select 1/0", &[]), bind(("", ""), (0, &[]), 0), execute("", 0)]);
    std::thread::sleep(Duration::from_millis(100));
    client.send(&[sync()]);
    assert!(shown(&client.answers()).ends_with("22012"));
    assert_eq!(client.sql("select * from v"), "42P01");
    // Cursors end with their transaction, and with what it takes back.
    let told = client.sql("begin; insert into u values (2); declare h cursor with hold for select id from u; rollback");
    assert_eq!(told, "BEGIN INSERT 0 1 DECLARE CURSOR ROLLBACK");
    assert_eq!(client.sql("fetch h"), "34000");
    let told = client.sql("begin; declare c cursor for select 1; commit; fetch c");
    assert_eq!(told, "BEGIN DECLARE CURSOR COMMIT 34000");
    assert_eq!(client.sql("begin; declare c cursor for select 1"), "BEGIN DECLARE CURSOR T");
    assert_eq!(client.sql("select 1/0"), "22012 E");
    assert_eq!(client.sql("fetch c"), "25P02 E");
    assert_eq!(client.sql("rollback"), "ROLLBACK");
}

#[test]
fn an_answer_does_not_wait_for_the_statement_behind_it() {
    let served = served();
    let (mut holder, mut client) = (served.client(), served.client());
    holder.sql("create table t (id int primary key); insert into t values (1)");
    assert_eq!(holder.sql("begin; update t set id = 1 where id = 1"), "BEGIN UPDATE 1 T");
    client.send(&[query("select 11"), query("update t set id = 1 where id = 1")]);
    assert_eq!(shown(&client.answers()), "(11) SELECT 1");
    assert_eq!(holder.sql("commit"), "COMMIT");
    assert_eq!(shown(&client.answers()), "UPDATE 1");
}

#[test]
fn a_statement_has_one_name_in_sql_and_in_messages() {
    let served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key); insert into t values (1), (2)");
    assert_eq!(client.sql("prepare a (int) as select id from t where id >= $1"), "PREPARE");
    // Made in SQL, executed by messages.
    client.send(&[bind(("", "a"), (0, &[Some(b"2")]), 0), execute("", 0), sync()]);
    assert_eq!(shown(&client.answers()), "(2) SELECT 1");
    client.send(&[describe(b'S', "a"), sync()]);
    let described = client.answers();
    assert_eq!(described[0].body, [0, 1, 0, 0, 0, 23], "one parameter, an int4");
    // Made by a message, executed in SQL.
    client.kinds(&[parse("b", "insert into t values ($1)", &[23]), sync()]);
    assert_eq!(client.sql("execute b (3)"), "INSERT 0 1");
    assert_eq!(
        client.sql(
            "select name, from_sql, parameter_types, statement from pg_prepared_statements order by 1"
        ),
        "(a,t,{23},prepare a (int) as select id from t where id >= $1) (b,f,{23},insert into t values ($1)) SELECT 2"
    );
    // A name is taken, whoever took it.
    assert_eq!(client.sql("prepare b as select 1"), "42P05");
    client.send(&[parse("a", "select 1", &[]), sync()]);
    assert_eq!(shown(&client.answers()), "42P05");
    // Given up here, gone there.
    assert_eq!(client.sql("deallocate b"), "DEALLOCATE");
    client.send(&[bind(("", "b"), (0, &[Some(b"4")]), 0), sync()]);
    assert_eq!(shown(&client.answers()), "26000");
    assert_eq!(client.kinds(&[message(b'C', b"Sa\0"), sync()]), "3Z");
    assert_eq!(client.sql("execute a (1)"), "26000");
    client.kinds(&[parse("c", "select 1", &[]), sync()]);
    assert_eq!(client.sql("deallocate all"), "DEALLOCATE ALL");
    assert_eq!(client.sql("select count(*) from pg_prepared_statements"), "(0) SELECT 1");
    client.send(&[bind(("", "c"), (0, &[]), 0), sync()]);
    assert_eq!(shown(&client.answers()), "26000");
    served.end();
}

#[test]
fn tags_are_those_of_what_was_done() {
    let served = served();
    let mut client = served.client();
    for (sql, wanted) in [
        ("create table t (id int primary key)", "CREATE TABLE"),
        ("insert into t values (1), (2), (3)", "INSERT 0 3"),
        ("prepare s as select id from t order by id", "PREPARE"),
        ("execute s", "(1) (2) (3) SELECT 3"),
        ("prepare u as update t set id = id + 10", "PREPARE"),
        ("execute u", "UPDATE 3"),
        ("create table c as select * from t", "SELECT 3"),
        ("create table d as select * from t with no data", "CREATE TABLE AS"),
        ("create table if not exists d as select 1", "CREATE TABLE AS"),
        ("select * into e from t where id > 11", "SELECT 2"),
        ("declare w cursor with hold for select id from t order by id", "DECLARE CURSOR"),
        ("fetch 2 from w", "(11) (12) FETCH 2"),
        ("move w", "MOVE 1"),
        ("fetch w", "FETCH 0"),
    ] {
        assert_eq!(client.sql(sql), wanted, "{sql}");
    }
    client.send(&[
        parse("", "execute s", &[]),
        bind(("p", ""), (0, &[]), 0),
        execute("p", 2),
        execute("p", 2),
        sync(),
    ]);
    assert_eq!(shown(&client.answers()), "(11) (12) suspended (13) SELECT 1");
    served.end();
}

#[test]
fn errors_name_what_they_are_about() {
    let served = served();
    let mut client = served.client();
    client.sql(
        "create table t (id int primary key, n int constraint small check (n < 9), m int not null)",
    );
    client.sql("create schema s; create table s.u (a int unique)");
    client.sql("insert into t values (1, 1, 1); insert into s.u values (1)");
    for (sql, state, about) in [
        ("insert into t values (1, 1, 1)", "23505", ["public", "t", "", "t_pkey"]),
        ("insert into t values (2, 9, 1)", "23514", ["public", "t", "", "small"]),
        ("insert into t values (2, 1, null)", "23502", ["public", "t", "m", ""]),
        ("insert into s.u values (1)", "23505", ["s", "u", "", "u_a_key"]),
        ("update s.u set b = 1", "42703", ["", "", "", ""]),
    ] {
        client.send(&[query(sql)]);
        let answers = client.answers();
        let error = answers.iter().find(|own| own.kind == b'E').unwrap();
        assert_eq!(error.field(b'C'), state, "{sql}");
        assert_eq!([b's', b't', b'c', b'n'].map(|code| error.field(code)), about, "{sql}");
    }
    served.end();
}

#[test]
fn a_session_that_is_discarded_is_as_a_new_one() {
    let served = served();
    let mut client = Wire::connect(served.port);
    let startup = b"user\0cellar\0database\0cellar\0TimeZone\0Asia/Tokyo\0\0";
    client.send(&[first(3 << 16, startup)]);
    client.answers();
    assert_eq!(client.sql("show timezone"), "(Asia/Tokyo) SHOW");
    client.sql("create temp table few (a int); prepare one as select 1; set timezone = 'UTC'");
    client.sql("declare c cursor with hold for select 1");
    assert_eq!(client.kinds(&[parse("s", "select 1", &[]), sync()]), "1Z");
    // What is set is told, and nothing where nothing is.
    client.send(&[query("set timezone = 'Europe/Berlin'")]);
    assert_eq!(client.answers().iter().filter(|own| own.kind == b'S').count(), 1);
    client.send(&[query("select 1")]);
    assert_eq!(client.answers().iter().filter(|own| own.kind == b'S').count(), 0);
    assert_eq!(client.sql("begin; discard all"), "BEGIN 25001 E");
    assert_eq!(client.sql("rollback"), "ROLLBACK");
    assert_eq!(client.sql("discard all"), "DISCARD ALL");
    for (sql, wanted) in [
        ("select * from few", "42P01"),
        ("execute one", "26000"),
        ("fetch c", "34000"),
        ("show timezone", "(Asia/Tokyo) SHOW"),
        ("select 1", "(1) SELECT 1"),
    ] {
        assert_eq!(client.sql(sql), wanted, "{sql}");
    }
    assert_eq!(client.kinds(&[describe(b'S', "s"), sync()]), "EZ");
}

#[test]
fn texts_for_parameters_are_read_as_literals_are() {
    let served = served();
    let mut client = served.client();
    client.sql("create table t (b bytea, a int[], d date, g boolean)");
    let insert = |values: &[Option<&[u8]>]| {
        let bound = bind(("", ""), (0, values), 0);
        [parse("", "insert into t values ($1, $2, $3, $4)", &[]), bound, execute("", 0), sync()]
    };
    let good = [b"\\x00ff".as_slice(), b"{1,NULL,3}", b"2024-05-06", b"t"].map(Some);
    assert_eq!(client.kinds(&insert(&good)), "12CZ");
    assert_eq!(client.sql("select * from t"), "(\\x00ff,{1,NULL,3},2024-05-06,t) SELECT 1");
    for (at, wrong, state) in
        [(0, "\\x0g", "22023"), (1, "{1,", "22P02"), (1, "{x}", "22P02"), (3, "perhaps", "22P02")]
    {
        let mut values = good;
        values[at] = Some(wrong.as_bytes());
        client.send(&insert(&values));
        assert_eq!(shown(&client.answers()), state, "{wrong}");
    }
}

#[test]
fn a_statement_is_stopped_by_its_key_alone() {
    let served = served();
    let mut client = served.client();
    let key = client.key.clone();
    let cancel = |key: &[u8]| {
        let mut wire = Wire::connect(served.port);
        wire.send(&[first(80_877_102, key)]);
        assert_eq!(wire.next(), None);
    };
    let long =
        "select count(*) from generate_series(1, 100000) a(x), generate_series(1, 100000) b(y)";
    client.send(&[query(long)]);
    let mut wrong = key.clone();
    wrong[7] ^= 1;
    cancel(&wrong);
    std::thread::sleep(Duration::from_millis(300));
    cancel(&key);
    assert_eq!(shown(&client.answers()), "57014");
    // With nothing at work there is nothing to stop.
    cancel(&key);
    assert_eq!(client.sql("select 1"), "(1) SELECT 1");
    // One that waits for a lock; its transaction has failed.
    client.sql("create table t (id int primary key); insert into t values (1)");
    let mut holder = served.client();
    assert_eq!(holder.sql("begin; update t set id = 1 where id = 1"), "BEGIN UPDATE 1 T");
    assert_eq!(client.sql("begin"), "BEGIN T");
    client.send(&[query("update t set id = 1 where id = 1")]);
    std::thread::sleep(Duration::from_millis(200));
    cancel(&key);
    assert_eq!(shown(&client.answers()), "57014 E");
}

#[test]
fn a_session_is_stopped_and_ended_by_another() {
    let served = served();
    let (mut client, mut other) = (served.client(), served.client());
    let pid = u32::from_be_bytes(client.key[..4].try_into().unwrap());
    assert_eq!(client.sql("select pg_backend_pid()"), format!("({pid}) SELECT 1"));
    let known = format!("select count(*) from pg_stat_activity where pid = {pid}");
    assert_eq!(other.sql(&known), "(1) SELECT 1");
    let (cancel, end) =
        (format!("select pg_cancel_backend({pid})"), format!("select pg_terminate_backend({pid})"));
    let long =
        "select count(*) from generate_series(1, 100000) a(x), generate_series(1, 100000) b(y)";
    client.send(&[query(long)]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(other.sql(&cancel), "(t) SELECT 1");
    assert_eq!(shown(&client.answers()), "57014");
    // With nothing at work there is nothing to stop.
    assert_eq!(other.sql(&cancel), "(t) SELECT 1");
    assert_eq!(client.sql("select 1"), "(1) SELECT 1");
    // One in a transaction: its locks go with it.
    client.sql("create table t (id int primary key); insert into t values (1)");
    assert_eq!(client.sql("begin; update t set id = 2 where id = 1"), "BEGIN UPDATE 1 T");
    assert_eq!(other.sql(&end), "(t) SELECT 1");
    assert_eq!(shown(&[client.next().unwrap()]), "57P01");
    assert_eq!(client.next(), None);
    assert_eq!(other.sql("update t set id = 3 where id = 1"), "UPDATE 1");
    // One at work.
    let mut client = served.client();
    let pid = u32::from_be_bytes(client.key[..4].try_into().unwrap());
    client.send(&[query(long)]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(other.sql(&format!("select pg_terminate_backend({pid})")), "(t) SELECT 1");
    let last = std::iter::from_fn(|| client.next()).last().unwrap();
    assert_eq!(shown(&[last]), "57P01");
    assert_eq!(other.sql("select pg_terminate_backend(2000000000)"), "(f) SELECT 1");
}

#[test]
fn a_client_that_dies_leaves_no_locks() {
    let served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key); insert into t values (1), (2)");
    let mut dies = served.client();
    assert_eq!(dies.sql("begin; update t set id = 3 where id = 1"), "BEGIN UPDATE 1 T");
    // Another that waits when it dies.
    let mut waits = served.client();
    assert_eq!(waits.sql("begin; update t set id = 4 where id = 2"), "BEGIN UPDATE 1 T");
    waits.send(&[query("update t set id = 5 where id = 1")]);
    std::thread::sleep(Duration::from_millis(100));
    drop((dies, waits));
    let begun = Instant::now();
    assert_eq!(client.sql("update t set id = id + 10"), "UPDATE 2");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(client.sql("select id from t order by id"), "(11) (12) SELECT 2");
    // One that sits in its transaction is ended when it was told so.
    let mut idle = served.client();
    idle.sql("set idle_in_transaction_session_timeout = '200ms'");
    assert_eq!(idle.sql("begin; update t set id = 1 where id = 11"), "BEGIN UPDATE 1 T");
    let told = idle.next().unwrap();
    assert_eq!((&*told.field(b'S'), &*told.field(b'C')), ("FATAL", "25P03"));
    assert_eq!(client.sql("update t set id = 1 where id = 11"), "UPDATE 1");
}

#[test]
fn the_server_ends_in_order_and_survives_its_end() {
    let mut served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key)");
    let mut last = 0;
    for id in 1..=200 {
        assert_eq!(client.sql(&format!("insert into t values ({id})")), "INSERT 0 1");
        last = id;
    }
    served.again();
    let mut client = served.client();
    assert_eq!(client.sql("select count(*), max(id) from t"), format!("({last},{last}) SELECT 1"));
    // Another command goes through the same process.
    let status = cellar(
        served.dir.path(),
        &["sql", "db", "-c", "select count(*) from t", "--format", "csv"],
    );
    assert_eq!(out(&status), "count\n200\n");
    // TERM: who is in no transaction goes, who is in one may end it.
    let mut idle = served.client();
    assert_eq!(client.sql("begin; insert into t values (1000)"), "BEGIN INSERT 0 1 T");
    served.signal("-TERM");
    let told = idle.next().unwrap();
    assert_eq!((&*told.field(b'S'), &*told.field(b'C')), ("FATAL", "57P01"));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(client.sql("insert into t values (1001)"), "INSERT 0 1 T");
    assert_eq!(client.sql("commit"), "COMMIT");
    assert_eq!(client.next().unwrap().field(b'C'), "57P01");
    assert!(served.child.wait().unwrap().success());
    (served.child, served.port) = wire::start(served.dir.path());
    let mut client = served.client();
    assert_eq!(client.sql("select count(*) from t"), "(202) SELECT 1");
    // Twice: at once.
    assert_eq!(client.sql("begin; insert into t values (2000)"), "BEGIN INSERT 0 1 T");
    served.signal("-TERM");
    std::thread::sleep(Duration::from_millis(200));
    served.signal("-TERM");
    assert!(served.child.wait().unwrap().success());
}

#[test]
fn a_client_that_reads_nothing_does_not_keep_the_server() {
    let mut served = served();
    let mut stuck = served.client();
    stuck.send(&[query("select repeat('x', 1000) from generate_series(1, 1000000) as s(n)")]);
    std::thread::sleep(Duration::from_millis(500));
    let mut other = served.client();
    assert_eq!(other.sql("select 1"), "(1) SELECT 1");
    served.signal("-TERM");
    std::thread::sleep(Duration::from_millis(200));
    served.signal("-TERM");
    let begun = Instant::now();
    assert!(served.child.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Runs psql, where it is installed.
fn psql(served: &wire::Served, host: &str, input: &str) -> Option<String> {
    let port = served.port.to_string();
    let mut child = Command::new("psql")
        .args(["-h", host, "-p", &port, "-X", "-A", "-t", "-v", "VERBOSITY=verbose"])
        .current_dir(served.dir.path())
        .env_remove("PGUSER")
        .env("PGDATABASE", "cellar")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (told, errors) = (output.stdout, output.stderr);
    Some(format!("{}{}", String::from_utf8(told).unwrap(), String::from_utf8(errors).unwrap()))
}

#[test]
fn psql_connects_by_tcp_and_by_the_socket_in_the_directory() {
    let served = served();
    let Some(told) =
        psql(&served, "127.0.0.1", "create table t (a int);\ninsert into t values (1);\n")
    else {
        eprintln!("SKIPPED: psql is not installed (Debian package postgresql-client)");
        return;
    };
    assert_eq!(told, "CREATE TABLE\nINSERT 0 1\n");
    let directory = served.dir.path().join("db");
    let told = psql(
        &served,
        directory.to_str().unwrap(),
        "\\copy t from stdin\n2\n3\n\\.\nselect * from t;\n\\copy t to stdout\n",
    );
    assert_eq!(told.unwrap(), "COPY 3\n1\n2\n3\n1\n2\n3\n".replace("COPY 3", "COPY 2"));
    let told =
        psql(&served, "127.0.0.1", "\\set FETCH_COUNT 2\nselect * from t;\nselect nosuch;\n");
    let told = told.unwrap();
    assert!(told.starts_with("1\n2\n3\n"), "{told}");
    assert!(told.contains("42703") && told.contains("CELLAR-00904"), "{told}");
}
