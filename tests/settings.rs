//! Settings of a session, and its clock: SET, RESET, SHOW, what of it a transaction takes back.

#![cfg(feature = "sql")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod sessions;

use sessions::TestDatabase;

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
        ("set search_path = \"$user\", public", "search_path is \"$user\", public."),
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
    one.run("commit");
    other.answers(&[
        ("reset statement_timeout", "statement_timeout is 0."),
        ("select b from t", "2"),
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
