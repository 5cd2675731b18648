//! Changes of rows by SQL in all their forms: what they return, what they do where a key is there already, what
//! they lock, and what a savepoint takes back.

use crate::database::{Session, TestDatabase};

/// A database with two tables.
fn stock(session: &Session<'_>) {
    session.run(
        "create table stock (id int primary key, name text default 'new' unique, \
         amount int default 10 check (amount >= 0))",
    );
    session.run("insert into stock values (1, 'nail', 100), (2, 'screw', 50), (3, 'bolt', 7)");
    session.run("create table orders (id int primary key, item int, amount int)");
    session.run("insert into orders values (10, 1, 5), (11, 2, 1), (12, 9, 3)");
}

#[test]
fn changes_return_rows() {
    let database = TestDatabase::new();
    let at = database.session();
    stock(&at);
    at.answers(&[
        (
            "insert into stock values (4, default, 1), (5, 'nut', default) returning *",
            "4,new,1 5,nut,10",
        ),
        (
            "insert into stock (id, name) values (6, 'pin') returning id as number, amount * 2",
            "6,20",
        ),
        ("insert into stock select 7, 'peg' returning stock.name", "peg"),
        (
            "update stock set amount = amount + 1 where id <= 2 returning id, amount, \
              (select count(*) from orders)",
            "1,101,3 2,51,3",
        ),
        (
            "update stock s set amount = s.amount - o.amount from orders o where o.item = s.id \
              returning s.id, s.amount, o.id, o.amount",
            "1,96,10,5 2,50,11,1",
        ),
        ("update stock set (amount, name) = (1, 'rivet') where id = 3 returning *", "3,rivet,1"),
        (
            "delete from stock using orders o where o.item = stock.id and o.id = 11 \
              returning *",
            "2,screw,50,11,2,1",
        ),
        ("delete from stock where id > 100 returning *", ""),
        ("delete from stock where id in (6, 7) returning upper(name)", "PIN PEG"),
    ]);
    assert!(at.run("insert into stock values (1, 'x', 1) returning *").contains("00001"));
    assert!(at.run("delete from stock returning nothing").contains("CELLAR-00904"));
    at.answers(&[("select count(*) from stock", "4")]);
}

#[test]
fn what_changes_rows_is_a_part_of_a_query() {
    let database = TestDatabase::new();
    let at = database.session();
    stock(&at);
    at.answers(&[
            ("with gone as (delete from orders where item = 9 returning *) \
              insert into stock select id, 'of order ' || id, amount from gone returning id, amount",
             "12,3"),
            ("with a as (update stock set amount = 0 where id = 1 returning amount), \
              b as (insert into orders values (20, 1, 100) returning item) \
              select a.amount, b.item, (select amount from stock where id = 1) from a, b",
             "0,1,100"),
            ("with more(item, n) as (select item, sum(amount) from orders group by item) \
              update stock set amount = stock.amount + more.n from more where more.item = stock.id \
              and stock.id < 3 returning stock.id, stock.amount", "1,105 2,51"),
            ("with few as (select id from stock where amount < 10) \
              delete from stock where id in (select id from few) returning id", "3 12"),
        ],
    );
    // All of it or nothing.
    let text =
        "with a as (delete from orders returning *) insert into stock select id, 'x', 1 from a";
    assert!(at.run(text).contains("stock_name_key"));
    at.answers(&[("select count(*) from orders", "3")]);
    assert!(at.run("with a as (delete from orders) select * from a").contains("CELLAR-00942"));
}

#[test]
fn a_key_that_is_there_already_is_passed_by_or_changed() {
    let database = TestDatabase::new();
    let at = database.session();
    stock(&at);
    assert!(
        at.run("insert into stock values (1, 'x', 1), (4, 'y', 1) on conflict do nothing")
            .contains("1 row inserted")
    );
    at.answers(&[
        (
            "insert into stock values (4, 'z', 5), (5, 'q', 6) on conflict (id) do update \
              set amount = stock.amount + excluded.amount returning id, name, amount",
            "4,y,6 5,q,6",
        ),
        (
            "insert into stock as s values (9, 'nail', 5) on conflict (name) do update \
              set amount = s.amount + 1 where s.amount < 50 returning *",
            "",
        ),
        (
            "insert into stock values (9, 'nail', 5) on conflict on constraint stock_name_key \
              do update set id = excluded.id, amount = default returning *",
            "9,nail,10",
        ),
        ("select id from stock order by id", "2 3 4 5 9"),
    ]);
    let other = at.run("insert into stock values (8, 'bolt', 1) on conflict (id) do nothing");
    assert!(other.contains("stock_name_key"), "{other}");
    let twice = "insert into stock values (8, 'a', 1), (8, 'b', 1) on conflict (id) \
                 do update set amount = 3";
    assert!(at.run(twice).contains("a second time"));
    let none = at.run("insert into stock values (8, 'a', 1) on conflict (amount) do nothing");
    assert!(none.contains("stock_pkey (id), stock_name_key (name)"), "{none}");
    let check = "insert into stock values (9, 'a', 1) on conflict (id) do update set amount = -1";
    assert!(at.run(check).contains("stock_amount_check"));
    let key = "insert into stock values (9, 'a', 1) on conflict (id) do update set name = 'bolt'";
    assert!(at.run(key).contains("stock_name_key"));
    let query = "insert into stock values (9, 'a', 1) on conflict (id) do update \
                 set amount = (select 1)";
    assert!(at.run(query).contains("CELLAR-03001"));
    at.answers(&[("select name, amount from stock where id = 9", "nail,10")]);
}

#[test]
fn too_many_values_and_too_few_are_told() {
    let database = TestDatabase::new();
    let at = database.session();
    stock(&at);
    let many = at.run("insert into stock values (4, 'a', 1, 2)");
    assert!(many.contains("CELLAR-00913") && many.contains("id, name, amount"), "{many}");
    assert!(at.run("insert into stock select 4, 'a', 1, 2").contains("CELLAR-00913"));
    assert!(at.run("insert into stock (id, name) values (4)").contains("CELLAR-00947"));
    assert!(at.run("insert into stock (id, nme) values (4, 'a')").contains("CELLAR-00904"));
    at.answers(&[("select count(*) from stock", "3")]);
}

#[test]
fn a_savepoint_takes_back_what_came_behind_it() {
    let database = TestDatabase::new();
    let session = database.session();
    stock(&session);
    session.run("begin");
    session.run("update stock set amount = 1 where id = 1");
    session.run("savepoint a");
    session.run("update stock set amount = 2 where id = 1");
    session.run("savepoint b");
    assert!(session.run("insert into stock values (1, 'x', 1)").contains("CELLAR-00001"));
    assert!(session.run("select 1").contains("CELLAR-70170"));
    session.run("rollback to b");
    assert!(session.run("select amount from stock where id = 1").contains('2'));
    session.run("rollback to savepoint a");
    assert!(session.run("release b").contains("savepoint \"b\" does not exist"));
    session.run("rollback to a");
    session.run("release savepoint a");
    session.run("commit");
    assert!(session.run("savepoint c").contains("CELLAR-70172"));
    session.answers(&[("select amount from stock where id = 1", "1")]);
}

#[test]
fn a_read_only_transaction_changes_nothing() {
    let database = TestDatabase::new();
    let session = database.session();
    stock(&session);
    session.run("begin read only");
    assert!(session.run("select count(*) from stock").contains('3'));
    assert!(session.run("delete from stock").contains("CELLAR-01456"));
    session.run("rollback");
    session.answers(&[("select count(*) from stock", "3")]);
}

/// The rows that a session has locked are passed by, or told, or waited for, by others.
#[test]
fn rows_are_locked_for_others() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    stock(&one);
    one.run("begin");
    assert!(one.run("select * from stock where id = 1 for update").contains("nail"));
    let next = "select id from stock order by id limit 1 for update skip locked";
    two.run("begin");
    assert!(two.run(next).contains('2'));
    let busy = two.run("select * from stock where id = 1 for update nowait");
    assert!(busy.contains("CELLAR-00054"), "{busy}");
    two.run("rollback");
    two.run("begin");
    assert!(two.run("select id from stock where id = 2 for share").contains('2'));
    assert!(one.run("select id from stock where id = 2 for key share").contains('2'));
    // Who waits sees what the other one has made of the row.
    let waiting = two.begin("update stock set amount = amount + 1 where id = 1");
    one.run("update stock set amount = 500 where id = 1");
    one.run("commit");
    assert!(waiting.get().contains("1 row updated"));
    two.run("commit");
    one.answers(&[("select amount from stock where id = 1", "501")]);
}

#[test]
fn a_queue_gives_each_its_own_row() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    stock(&one);
    let next = "update orders set item = 0 where id = (select id from orders where item > 0 \
                order by id limit 1 for update skip locked) returning id";
    one.run("begin");
    two.run("begin");
    one.answers(&[(next, "10")]);
    two.answers(&[(next, "11"), (next, "12"), (next, "")]);
    one.run("rollback");
    two.run("commit");
    let with = "with next as (select id from orders where item > 0 for update) \
                delete from orders using next where next.id = orders.id returning orders.id";
    one.answers(&[(with, "10"), ("select id from orders order by id", "11 12")]);
}

#[test]
fn two_that_wait_for_each_other_are_told() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    stock(&one);
    one.run("begin");
    two.run("begin");
    one.run("update stock set amount = 1 where id = 1");
    two.run("update stock set amount = 2 where id = 2");
    let first = one.begin("update stock set amount = 1 where id = 2");
    let second = two.run("update stock set amount = 2 where id = 1");
    match second.contains("CELLAR-00060") {
        true => assert!(first.get().contains("1 row updated")),
        false => {
            assert!(second.contains("1 row updated"), "{second}");
            assert!(first.get().contains("CELLAR-00060"));
        }
    }
    one.run("rollback");
    two.run("rollback");
    one.answers(&[("select id, amount from stock order by id", "1,100 2,50 3,7")]);
}

#[test]
fn what_cannot_be_locked_is_told() {
    let database = TestDatabase::new();
    let at = database.session();
    stock(&at);
    at.refuses(&[
        ("select count(*) from stock for update", "02014"),
        ("select distinct name from stock for update", "02014"),
        ("select amount from stock group by amount for share", "02014"),
        ("select row_number() over () from stock for update", "02014"),
        ("select id from stock union select id from orders for update", "02014"),
        ("select * from (select * from stock) s for update", "03001"),
        ("select * from stock s for update of stock", "00942"),
        ("select * from nothing for update", "00942"),
    ]);
}

/// The modes of LOCK TABLE, the weakest first, and for each whether another transaction may hold each. Source:
/// PostgreSQL's manual, "Explicit Locking", conflicting lock modes.
const LOCKS: [(&str, &str); 8] = [
    ("access share", "yyyyyyyn"),
    ("row share", "yyyyyynn"),
    ("row exclusive", "yyyynnnn"),
    ("share update exclusive", "yyynnnnn"),
    ("share", "yynnynnn"),
    ("share row exclusive", "yynnnnnn"),
    ("exclusive", "ynnnnnnn"),
    ("access exclusive", "nnnnnnnn"),
];

#[test]
fn tables_are_locked_as_postgres_has_it() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.run("create table t (id int primary key)");
    one.run("insert into t values (1)");
    for (held, may) in LOCKS {
        for ((wanted, _), may) in LOCKS.into_iter().zip(may.chars()) {
            assert!(one.run("begin").contains("begun"));
            assert_eq!(one.run(&format!("lock table t in {held} mode")), "Table t locked.");
            two.run("begin");
            let told = two.run(&format!("lock table t in {wanted} mode nowait"));
            match may {
                'y' => assert_eq!(told, "Table t locked.", "{held}, {wanted}"),
                _ => assert!(told.contains("55P03") || told.contains("CELLAR-00054"), "{told}"),
            }
            two.run("rollback");
            one.run("rollback");
        }
    }
    // A lock is waited for; what was committed meanwhile is seen then, also by REPEATABLE READ.
    one.run("begin");
    one.run("update t set id = 2");
    two.run("begin isolation level repeatable read");
    let waits = two.begin("lock table t in share mode");
    assert!(one.run("commit").contains("committed"));
    assert_eq!(waits.get(), "Table t locked.");
    two.answers(&[("select id from t", "2")]);
    one.run("set lock_timeout = '50ms'");
    let told = one.run("update t set id = 3");
    assert!(told.contains("CELLAR-30006"), "{told}");
    two.run("rollback");
    // One that is dropped meanwhile is told.
    one.run("set lock_timeout = 0");
    one.run("begin");
    one.run("drop table t");
    two.run("begin");
    let waits = two.begin("lock table t in share mode");
    one.run("commit");
    let told = waits.get();
    assert!(told.contains("CELLAR-00942"), "{told}");
}

#[test]
fn explain_analyze_changes_rows() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (id int primary key, k int)");
    let told = at.run("explain analyze insert into t values (1, 1), (2, 2)");
    assert!(told.contains("2 rows inserted") && told.contains("time: "), "{told}");
    let told = at.run("explain analyze update t set k = k + 1 where id = 1");
    assert!(told.contains("fast path") && told.contains("1 row updated"), "{told}");
    at.answers(&[("select k from t order by id", "2 2")]);
    let told = at.run("explain analyze delete from t where k = 2 returning id");
    assert!(told.contains("2 rows returned"), "{told}");
    at.run("begin");
    at.run("explain analyze insert into t values (5, 5)");
    at.run("rollback");
    at.answers(&[("select count(*) from t", "0")]);
    at.run("explain analyze insert into t values (1, 1)");
    assert!(at.run("explain analyze insert into t values (1, 1)").contains("CELLAR-00001"));
}

#[test]
fn a_snapshot_lives_through_more_changes_than_memory_has_room_for() {
    // A buffer cache of 10 MB, of which 2 MB are for older images.
    let database = TestDatabase::with_memory("36M");
    let (reader, writer) = (database.session(), database.session());
    writer.run("create table t (id int primary key, v int, pad text)");
    writer.run("insert into t select i, i, repeat('x', 900) from generate_series(1, 20000) g(i)");
    writer.run("create index on t (v)");
    let seen = [
        ("select count(*), sum(v), min(v), max(v) from t", "20000,200010000,1,20000"),
        ("select v from t where id = 777", "777"),
        ("select id from t where v between 5000 and 5003 order by v", "5000 5001 5002 5003"),
    ];
    reader.run("begin isolation level repeatable read");
    reader.answers(&seen);
    for _ in 0..2 {
        for first in (1..20_000).step_by(1000) {
            let last = first + 999;
            let update = format!("update t set v = v + 20000 where id between {first} and {last}");
            assert_eq!(writer.run(&update), "1000 rows updated.");
        }
        reader.answers(&seen);
    }
    writer.answers(&[("select count(*), min(v) from t", "20000,40001")]);
    let statistic = "select value from v$sysstat where name = ";
    let count =
        |name: &str| -> u64 { reader.run(&format!("{statistic}'{name}'")).trim().parse().unwrap() };
    assert!(count("physical writes direct temporary tablespace") > 4000);
    assert!(count("physical reads direct temporary tablespace") > 4000);
    assert!(count("temp space allocated (bytes)") > 0);
    reader.run("commit");
    database.wait_for(|database| {
        let session = database.session();
        session.run(&format!("{statistic}'temp space allocated (bytes)'")) == "0"
    });
}

#[test]
fn what_changes_and_locks_do_to_a_table_is_counted() {
    let database = TestDatabase::new();
    let (one, other) = (database.session(), database.session());
    one.run("create table counted (id int primary key, n int)");
    one.run("insert into counted select value, 0 from generate_series(1, 100)");
    let value = |object: &str, statistic: &str| -> u64 {
        let query = format!(
            "select value from v$segment_statistics where owner = 'public' and object_name = '{object}' \
             and statistic_name = '{statistic}'"
        );
        one.run(&query).parse().unwrap()
    };
    let changes = |object: &str| value(object, "db block changes");
    let (table, index) = (changes("counted"), changes("counted_pkey"));
    assert!(table >= 100 && index >= 100, "{table} of the table, {index} of the index");
    for id in 1..=50 {
        assert_eq!(
            one.run(&format!("update counted set n = n + 1 where id = {id}")),
            "1 row updated."
        );
    }
    assert_eq!(changes("counted") - table, 50);
    assert_eq!(changes("counted_pkey"), index, "no key was changed");
    assert_eq!(value("counted", "row lock waits"), 0);
    one.run("begin");
    one.run("update counted set n = 0 where id = 1");
    let waiting = other.begin("update counted set n = n + 5 where id = 1");
    database.wait_for(|_| value("counted", "row lock waits") == 1);
    one.run("commit");
    assert_eq!(waiting.get(), "1 row updated.");
    one.answers(&[
        ("select n from counted where id = 1", "5"),
        ("select count(*) from v$buffer_pool_statistics where used > 0 and hit_ratio between 0 and 1", "1"),
    ]);
}
