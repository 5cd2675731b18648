//! Settings of a session, its clock and its time zone: SET, RESET, SHOW, what of it a transaction takes back.

#![expect(clippy::disallowed_methods, reason = "a test of the real clock")]

use crate::database::TestDatabase;

#[test]
fn settings_are_set_shown_and_reset() {
    let database = TestDatabase::new();
    let at = database.session();
    at.answers(&[
        ("show timezone", "UTC"),
        ("set time zone 'Europe/Berlin'", "TimeZone is Europe/Berlin."),
        ("show time zone", "Europe/Berlin"),
        ("set session timezone to -7", "TimeZone is <-07>+07."),
        ("set time zone interval '+05:30' hour to minute", "TimeZone is <+05:30>-05:30."),
        ("set time zone local", "TimeZone is UTC."),
        ("set lock_timeout = '1500ms'", "lock_timeout is 1500ms."),
        ("set lock_timeout to 2000", "lock_timeout is 2s."),
        ("reset lock_timeout", "lock_timeout is 0."),
        ("set application_name = 'psql'", "application_name is psql."),
        ("select current_setting('application_name')", "psql"),
        ("select current_setting('no_such', true) is null", "true"),
        ("select set_config('application_name', 'x', false)", "x"),
        ("show application_name", "x"),
        ("set names 'utf8'", "client_encoding is UTF8."),
        ("set my.own = 'a'", "my.own is a."),
        ("show my.own", "a"),
        ("set session characteristics as transaction isolation level repeatable read, read only",
         "default_transaction_isolation is repeatable read. default_transaction_read_only is on."),
        ("show transaction isolation level", "repeatable read"),
        ("show transaction_read_only", "on"),
        ("reset all", "All settings have their defaults."),
        ("show default_transaction_isolation", "read committed"),
    ]);
    assert!(at.run("show all").contains("TimeZone,UTC,"));
    at.refuses(&[
        ("set no_such = 1", "unrecognized configuration parameter \"no_such\""),
        ("show no_such", "unrecognized configuration parameter"),
        ("set lock_timeout = 'soon'", "invalid value for parameter \"lock_timeout\""),
        ("set client_encoding = latin1", "UTF8"),
        ("set timezone = 'Europe/Nowhere'", "Europe/Berlin"),
        ("set default_transaction_isolation = serializable", "repeatable read"),
        ("set server_encoding = 'UTF8'", "cannot be changed"),
        ("set lock_timeout", "= or TO"),
    ]);
    at.run("create table t (a int primary key)");
    at.run("set default_transaction_read_only = on");
    at.refuses(&[("insert into t values (1)", "read-only")]);
    at.answers(&[
        ("begin read write", "Transaction begun."),
        ("insert into t values (1)", "1 row inserted."),
        ("commit", "Transaction committed."),
        ("select a from t", "1"),
    ]);
}

#[test]
fn how_long_an_opening_may_take_is_a_parameter() {
    let database = TestDatabase::new();
    let at = database.session();
    let target = "select target_mttr from v$instance_recovery";
    at.answers(&[("show parameter recovery_target", "recovery_target,5")]);
    at.run("create table t (a int primary key)");
    at.answers(&[(target, "5")]);
    at.done(&["alter system set recovery_target = 20"]);
    at.answers(&[(target, "20"), ("show parameter recovery_target", "recovery_target,20")]);
    at.refuses(&[
        ("alter system set recovery_target = 0", "must be between 1 and 3600 s"),
        ("alter system set recovery_target = 'soon'", "is no integer"),
        ("alter system set fast_start_mttr_target = 5", "that is recovery_target"),
        ("select * from v$mttr_target_advice", "v$instance_recovery"),
    ]);
    at.done(&["alter system reset recovery_target"]);
    at.answers(&[(target, "5")]);
}

#[test]
fn a_transaction_takes_back_what_was_set_in_it() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (a int primary key)");
    at.answers(&[
        ("set lock_timeout = 1", "lock_timeout is 1ms."),
        ("set local lock_timeout = 2", "Nothing is set."),
        ("show lock_timeout", "1ms"),
        ("begin", "Transaction begun."),
        ("set local lock_timeout = 2", "lock_timeout is 2ms."),
        ("show lock_timeout", "2ms"),
        ("commit", "Transaction committed."),
        ("show lock_timeout", "1ms"),
        ("begin", "Transaction begun."),
        ("set lock_timeout = 3", "lock_timeout is 3ms."),
        ("savepoint a", "Savepoint a created."),
        ("set lock_timeout = 4", "lock_timeout is 4ms."),
        ("select set_config('statement_timeout', '1h', true)", "1h"),
        ("rollback to a", "Rolled back to savepoint a."),
        ("show lock_timeout", "3ms"),
        ("show statement_timeout", "0"),
        ("rollback", "Transaction rolled back."),
        ("show lock_timeout", "1ms"),
        ("begin", "Transaction begun."),
        ("set lock_timeout = 5", "lock_timeout is 5ms."),
        ("commit", "Transaction committed."),
        ("show lock_timeout", "5ms"),
        ("begin", "Transaction begun."),
        ("set lock_timeout = 6", "lock_timeout is 6ms."),
    ]);
    at.refuses(&[
        ("select a / 0 from nosuch", "nosuch"),
        ("set lock_timeout = 7", "the transaction has failed"),
    ]);
    at.answers(&[("commit", "Transaction rolled back."), ("show lock_timeout", "5ms")]);
}

#[test]
fn locks_and_statements_take_the_time_that_is_set() {
    let database = TestDatabase::new();
    let (one, other) = (database.session(), database.session());
    one.run("create table t (a int primary key, b int)");
    one.run("insert into t values (1, 1)");
    one.run("begin");
    one.run("update t set b = 2");
    other.run("set lock_timeout = '50ms'");
    other.refuses(&[("update t set b = 3", "CELLAR-30006")]);
    other.run("set lock_timeout = 0");
    other.run("set statement_timeout = '50ms'");
    other.refuses(&[
        ("update t set b = 3 where a = 1", "50 ms"),
        ("update t set b = b + 1", "50 ms"),
    ]);
    // In a transaction it fails, and the rest is ignored.
    other.run("begin");
    other.refuses(&[
        ("update t set b = 3 where a = 1", "50 ms"),
        ("select b from t", "the transaction has failed"),
    ]);
    other.run("rollback");
    other.refuses(&[(
        "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a.value + b.value < 0",
        "50 ms",
    )]);
    other.run("set statement_timeout = 0");
    let waiting = other.begin("update t set b = b + 10 where a = 1");
    one.run("commit");
    assert_eq!(waiting.get(), "1 row updated.");
    other.answers(&[
        ("reset statement_timeout", "statement_timeout is 0."),
        ("select b from t", "12"),
        ("update t set b = 3 where a = 1", "1 row updated."),
    ]);
}

#[test]
fn now_is_when_the_transaction_began() {
    for way in ["on", "off"] {
        let database = TestDatabase::new();
        let at = database.session();
        at.run(&format!("set cellar.fast_path = {way}"));
        at.run("create table t (a int primary key, made timestamptz default now(), plain timestamp default now())");
        at.run("begin");
        let began = at.run("select now()");
        at.run("insert into t (a) values (1)");
        at.run("insert into t (a, made) values (2, now())");
        std::thread::sleep(std::time::Duration::from_millis(2));
        let insert = at.prepare("insert into t (a, made) values ($1, now())").unwrap();
        at.execute(&insert, &[cellar_sql::Parameter::Integer(3)]);
        at.answers(&[
            ("select now() = transaction_timestamp(), now() = current_timestamp", "true,true"),
            (
                "select now() < statement_timestamp(), statement_timestamp() <= clock_timestamp()",
                "true,true",
            ),
            ("select count(*) from t where made = now() and plain = now()", "3"),
            ("select now()", &began),
            ("commit", "Transaction committed."),
            ("select count(*) from t where made < now()", "3"),
        ]);
        assert_ne!(at.run("select now()"), began);
    }
}

/// Each as PostgreSQL 15 answers it.
const ZONED: &[(&str, &str)] = &[
    (
        "select a, at from t order by at",
        "1,2024-01-15 13:00:00+01 3,2024-03-31 03:30:00+02 2,2024-07-15 12:00:00+02",
    ),
    ("select a from t where at = '2024-07-15 10:00:00Z'", "2"),
    ("select a from t where at >= timestamp '2024-03-31 03:30' order by a", "2 3"),
    ("select a from t where at between '2024-01-15 13:00' and '2024-01-15 14:00'", "1"),
    (
        "select at::timestamp, at::date, at::text from t where a = 2",
        "2024-07-15 12:00:00,2024-07-15,2024-07-15 12:00:00+02",
    ),
    ("select plain::timestamptz from t where a = 1", "2024-01-15 12:00:00+01"),
    ("select date '2024-07-01'::timestamptz", "2024-07-01 00:00:00+02"),
    ("select extract(hour from at) from t where a = 1", "13"),
    (
        "select date_trunc('day', at), date_trunc('hour', at) from t where a = 2",
        "2024-07-15 00:00:00+02,2024-07-15 12:00:00+02",
    ),
    (
        "select at + interval '1 month', at + interval '1 day', at - interval '2 hours' from t \
         where a = 1",
        "2024-02-15 13:00:00+01,2024-01-16 13:00:00+01,2024-01-15 11:00:00+01",
    ),
    (
        "select timestamptz '2024-03-30 12:00' + interval '1 day', \
         timestamptz '2024-03-30 12:00' + interval '24 hours'",
        "2024-03-31 12:00:00+02,2024-03-31 13:00:00+02",
    ),
    (
        "select at at time zone 'America/New_York', plain at time zone 'America/New_York' from t \
         where a = 1",
        "2024-01-15 07:00:00,2024-01-15 18:00:00+01",
    ),
    ("select timestamptz '2024-01-15 12:00:00 America/New_York'", "2024-01-15 18:00:00+01"),
    ("select to_char(at, 'YYYY-MM-DD HH24:MI') from t where a = 1", "2024-01-15 13:00"),
    ("select min(at), max(at) from t", "2024-01-15 13:00:00+01,2024-07-15 12:00:00+02"),
    (
        "copy (select a, at from t order by a) to stdout",
        "1\t2024-01-15 13:00:00+01\n2\t2024-07-15 12:00:00+02\n3\t2024-03-31 03:30:00+02\n",
    ),
    ("set time zone 'Asia/Kolkata'", "TimeZone is Asia/Kolkata."),
    ("select at from t where a = 1", "2024-01-15 17:30:00+05:30"),
    ("select count(*) from t where at = '2024-01-15 17:30'", "1"),
    ("select timestamptz '1800-01-01 00:00+00'", "1800-01-01 05:53:28+05:53:28"),
    ("set time zone 'UTC'", "TimeZone is UTC."),
    (
        "select a, at from t order by a",
        "1,2024-01-15 12:00:00+00 2,2024-07-15 10:00:00+00 3,2024-03-31 01:30:00+00",
    ),
];

#[test]
fn timestamps_are_read_and_shown_in_the_time_zone_of_the_session() {
    let database = TestDatabase::new();
    let at = database.session();
    for columns in [
        "(a int primary key, at timestamptz not null, plain timestamp)",
        "(a int, at timestamp with time zone, plain timestamp) using columnar",
    ] {
        at.run("set time zone 'Europe/Berlin'");
        at.run(&format!("create table t {columns}"));
        if columns.contains("key") {
            at.run("create index t_at on t (at)");
        }
        at.run(
            "insert into t values (1, '2024-01-15 12:00:00+00', '2024-01-15 12:00'), \
             (2, '2024-07-15 12:00', '2024-07-15 12:00')",
        );
        at.run("copy t from stdin;\n3\t2024-03-31 02:30:00\t2024-03-31 02:30:00\n\\.\n");
        at.answers(ZONED);
        at.run("drop table t");
    }
    at.run("create table t (a int primary key, at timestamptz default '2024-01-01 00:00')");
    at.run("set time zone 'Europe/Berlin'");
    let insert = at.prepare("insert into t values ($1, $2)").unwrap();
    let text = |text: &str| cellar_sql::Parameter::Text(text.to_owned());
    at.execute(&insert, &[cellar_sql::Parameter::Integer(1), text("2024-01-15 12:00")]);
    at.execute(&insert, &[cellar_sql::Parameter::Integer(2), text("2024-01-15 12:00-05")]);
    at.run("insert into t (a) values (3)");
    at.answers(&[
        ("update t set at = at + interval '1 day' where at = '2024-01-15 12:00'", "1 row updated."),
        (
            "select a, at from t order by a",
            "1,2024-01-16 12:00:00+01 2,2024-01-15 18:00:00+01 3,2024-01-01 00:00:00+01",
        ),
    ]);
    let found = at.prepare("select a from t where at = $1").unwrap();
    assert_eq!(at.execute(&found, &[text("2024-01-15 17:00Z")]), "2");
    // Prepared in one zone, executed in another.
    let shown = at.prepare("select at from t where at > $1 and a = 2").unwrap();
    at.run("set time zone 'Asia/Kolkata'");
    assert_eq!(at.execute(&shown, &[text("2024-01-15 22:00")]), "2024-01-15 22:30:00+05:30");
    assert_eq!(at.execute(&shown, &[text("2024-01-15 22:30")]), "");
}
