//! Definitions as part of a transaction: seen by it alone until it commits, gone with it, and taken back to
//! a savepoint.

use crate::database::{Session, TestDatabase};

/// A database with a table of some goods.
fn goods(session: &Session<'_>) {
    session.run("create table goods (id int primary key, name text, price int)");
    session.run("insert into goods select value, 'good ' || value, value * 10 from generate_series(1, 20) s(value)");
}

#[test]
fn a_table_is_seen_by_its_transaction_alone_until_it_commits() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    goods(&one);
    one.answers(&[
        ("begin", "Transaction begun."),
        ("create table t (id int primary key, v text)", "Table t created."),
        ("insert into t values (1, 'a'), (2, 'b')", "2 rows inserted."),
        ("select count(*) from t", "2"),
        ("update goods set price = 0 where id = 1", "1 row updated."),
    ]);
    two.refuses(&[("select * from t", "CELLAR-00942"), ("drop table t", "CELLAR-00942")]);
    one.answers(&[("commit", "Transaction committed.")]);
    two.answers(&[
        ("select * from t order by id", "1,a 2,b"),
        ("select price from goods where id = 1", "0"),
    ]);
}

#[test]
fn what_is_rolled_back_is_as_it_was() {
    let database = TestDatabase::new();
    let at = database.session();
    goods(&at);
    at.answers(&[
        ("begin", "Transaction begun."),
        ("create table t (id int primary key)", "Table t created."),
        ("insert into t values (1)", "1 row inserted."),
        ("create index on goods (price)", "Index goods_price_idx created."),
        ("alter table goods add column made int default 7", "Table goods altered."),
        ("alter table goods drop column name", "Table goods altered."),
        ("select * from goods where id = 2", "2,20,7"),
        ("alter table goods rename to things", "Table goods altered."),
        ("delete from things where id > 2", "18 rows deleted."),
        ("select count(*) from things", "2"),
        ("rollback", "Transaction rolled back."),
        ("select * from goods where id = 2", "2,good 2,20"),
        ("select count(*), sum(price) from goods", "20,2100"),
    ]);
    at.refuses(&[("select * from t", "CELLAR-00942"), ("select * from things", "CELLAR-00942")]);
    at.answers(&[
        ("create index on goods (price)", "Index goods_price_idx created."),
        ("begin", "Transaction begun."),
        ("drop table goods", "Table goods dropped."),
    ]);
    at.refuses(&[("select * from goods", "CELLAR-00942")]);
    at.answers(&[
        ("rollback", "Transaction rolled back."),
        ("select count(*) from goods where price > 100", "10"),
    ]);
}

#[test]
fn a_savepoint_takes_definitions_back_with_the_rows() {
    let database = TestDatabase::new();
    let at = database.session();
    goods(&at);
    at.answers(&[
        ("begin", "Transaction begun."),
        ("create table t (id int primary key)", "Table t created."),
        ("insert into t values (1)", "1 row inserted."),
        ("savepoint a", "Savepoint a created."),
        ("truncate t", "Table t truncated."),
        ("insert into t values (2), (3)", "2 rows inserted."),
        ("drop table goods", "Table goods dropped."),
        ("create table goods (only int primary key)", "Table goods created."),
        ("insert into goods values (77)", "1 row inserted."),
        ("select * from goods", "77"),
        ("rollback to a", "Rolled back to savepoint a."),
        ("select * from t", "1"),
        ("select count(*) from goods", "20"),
    ]);
    at.refuses(&[
        ("create table t (id int primary key)", "CELLAR-00955"),
        ("select 1", "CELLAR-70170"),
    ]);
    at.answers(&[
        ("rollback to a", "Rolled back to savepoint a."),
        ("truncate goods", "Table goods truncated."),
        ("insert into goods values (5, 'five', 1)", "1 row inserted."),
        ("commit", "Transaction committed."),
        ("select * from goods", "5,five,1"),
        ("select * from t", "1"),
    ]);
}

/// What is built of the rows in the heap lacks what the transaction has changed: rows are written anew then.
#[test]
fn an_index_has_what_its_transaction_has_changed() {
    let database = TestDatabase::new();
    let (at, other) = (database.session(), database.session());
    goods(&at);
    at.answers(&[
        ("begin", "Transaction begun."),
        ("insert into goods values (21, 'new', 5)", "1 row inserted."),
        ("delete from goods where id = 3", "1 row deleted."),
        ("update goods set price = 6 where id = 4", "1 row updated."),
        ("create index on goods (price)", "Index goods_price_idx created."),
        ("select id from goods where price < 10 order by id", "4 21"),
        ("insert into goods values (22, 'more', 4)", "1 row inserted."),
        ("select id from goods where price < 10 order by id", "4 21 22"),
        ("update goods set price = 9000 where id = 21", "1 row updated."),
        ("commit", "Transaction committed."),
    ]);
    other.answers(&[
        ("select id from goods where price < 10 order by id", "4 22"),
        ("select id from goods where price = 9000", "21"),
        ("select count(*) from goods where price = 30 or price = 40", "0"),
        ("select count(*) from goods where id between 1 and 100", "21"),
    ]);
    at.answers(&[
        ("begin", "Transaction begun."),
        ("update goods set name = 'same' where id in (1, 2)", "2 rows updated."),
    ]);
    at.refuses(&[("create unique index on goods (name)", "CELLAR-01452")]);
    at.answers(&[
        ("rollback", "Transaction rolled back."),
        ("create unique index on goods (name)", "Index goods_name_idx created."),
    ]);
}

#[test]
fn who_wants_the_same_name_waits() {
    let database = TestDatabase::new();
    let (one, two, three) = (database.session(), database.session(), database.session());
    goods(&one);
    one.answers(&[
        ("begin", "Transaction begun."),
        ("create table t (id int primary key)", "Table t created."),
        ("insert into t values (1)", "1 row inserted."),
    ]);
    let waiting = two.begin("create table t (other text primary key)");
    let free = three.begin("create table u (id int primary key)");
    assert_eq!(free.get(), "Table u created.");
    one.answers(&[("commit", "Transaction committed.")]);
    assert!(waiting.get().contains("CELLAR-00955"));
    // Both tables: what others have defined meanwhile stays.
    two.answers(&[("select * from t", "1"), ("select count(*) from u", "0")]);

    one.answers(&[
        ("begin", "Transaction begun."),
        ("create table w (id int primary key)", "Table w created."),
    ]);
    let waiting = two.begin("create table w (other text primary key)");
    one.answers(&[("rollback", "Transaction rolled back.")]);
    assert_eq!(waiting.get(), "Table w created.");
    two.answers(&[("insert into w values ('x')", "1 row inserted."), ("select * from w", "x")]);
}

#[test]
fn others_wait_for_a_table_that_is_altered() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    goods(&one);
    one.answers(&[
        ("begin", "Transaction begun."),
        ("alter table goods add column stock int default 1", "Table goods altered."),
        ("update goods set stock = 2 where id = 1", "1 row updated."),
    ]);
    let insert = two.begin("insert into goods (id, name) values (30, 'thirty')");
    one.answers(&[("commit", "Transaction committed.")]);
    assert!(insert.get().contains("1 row inserted."), "it is planned with the table as it is then");
    two.answers(&[("select id, stock from goods where id in (1, 30) order by id", "1,2 30,1")]);
}

#[test]
fn a_session_that_goes_away_leaves_nothing() {
    let database = TestDatabase::new();
    let at = database.session();
    goods(&at);
    let gone = database.session();
    gone.answers(&[
        ("begin", "Transaction begun."),
        ("create table t (id int primary key)", "Table t created."),
        ("insert into t values (1)", "1 row inserted."),
        ("alter table goods drop column name", "Table goods altered."),
    ]);
    drop(gone);
    at.answers(&[
        ("select name from goods where id = 1", "good 1"),
        ("create table t (id int primary key)", "Table t created."),
        ("select count(*) from t", "0"),
    ]);
}

#[test]
fn a_snapshot_is_told_what_it_cannot_do() {
    let database = TestDatabase::new();
    let at = database.session();
    goods(&at);
    at.answers(&[
        ("begin isolation level repeatable read", "Transaction begun."),
        ("select count(*) from goods", "20"),
        ("create table t (id int primary key)", "Table t created."),
        ("insert into t select id from goods", "20 rows inserted."),
        ("select count(*) from t", "20"),
        ("create index on goods (name)", "Index goods_name_idx created."),
        ("select id from goods where name = 'good 7'", "7"),
    ]);
    at.refuses(&[("alter table goods alter column price type text", "CELLAR-70218")]);
    at.answers(&[("rollback", "Transaction rolled back.")]);
    at.answers(&[("begin read only", "Transaction begun.")]);
    at.refuses(&[("create table x (id int primary key)", "CELLAR-01456")]);
    at.answers(&[("rollback", "Transaction rolled back.")]);
}

#[test]
fn columnar_and_external_tables_are_parts_of_a_transaction() {
    let database = TestDatabase::new();
    let (at, other) = (database.session(), database.session());
    // Before there is any table whose rows change.
    at.answers(&[
        ("begin", "Transaction begun."),
        (
            "create table c as select value as n from generate_series(1, 1000) s(value)",
            "Table c created, 1000 rows.",
        ),
        (
            "insert into c select value from generate_series(1001, 1010) s(value)",
            "10 rows written.",
        ),
        ("create table h (n bigint primary key)", "Table h created."),
        ("insert into h select n from c", "1010 rows inserted."),
        ("select count(*), sum(n) from c", "1010,510555"),
    ]);
    other.refuses(&[("select * from c", "CELLAR-00942")]);
    at.answers(&[("commit", "Transaction committed.")]);
    other.answers(&[("select count(*) from c join h on c.n = h.n", "1010")]);
    at.answers(&[
        ("begin", "Transaction begun."),
        ("savepoint a", "Savepoint a created."),
        ("truncate c", "Table c truncated, 1010 rows removed."),
        ("insert into c values (5)", "1 row written."),
        ("select * from c", "5"),
    ]);
    // Rows that others add meanwhile stay: the transaction adds to them, or is told.
    other.answers(&[
        ("select count(*) from c", "1010"),
        ("insert into c select value from generate_series(1, 2000) s(value)", "2000 rows written."),
    ]);
    at.answers(&[
        ("rollback to a", "Rolled back to savepoint a."),
        ("insert into c values (7)", "1 row written."),
        ("commit", "Transaction committed."),
        ("select count(*) from c", "3011"),
        ("begin", "Transaction begun."),
        ("drop table c", "Table c dropped."),
        ("create table c (n int primary key)", "Table c created."),
        ("insert into c values (1)", "1 row inserted."),
        ("rollback", "Transaction rolled back."),
        ("select count(*) from c", "3011"),
        ("begin", "Transaction begun."),
        ("truncate c", "Table c truncated, 3011 rows removed."),
    ]);
    other.answers(&[("insert into c values (8)", "1 row written.")]);
    at.refuses(&[("commit", "CELLAR-08177")]);
    at.answers(&[("select count(*) from c", "3012")]);
}

#[test]
fn other_tables_beside_the_heap_wait_for_their_names_as_well() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    goods(&one);
    one.answers(&[
        ("create table c as select 1 as n", "Table c created, 1 row."),
        ("insert into c values (2)", "1 row written."),
        ("begin", "Transaction begun."),
        ("create table d (id int primary key)", "Table d created."),
        ("drop table c", "Table c dropped."),
    ]);
    let made = two.begin("create table d as select 5 as n");
    one.answers(&[("commit", "Transaction committed.")]);
    assert!(made.get().contains("CELLAR-00955"));
    two.answers(&[("select count(*) from d", "0"), ("create table c (n int)", "Table c created.")]);
    one.answers(&[
        ("drop table c", "Table c dropped."),
        ("begin", "Transaction begun."),
        ("create table c (id int primary key)", "Table c created."),
    ]);
    let made = two.begin("create table c as select 5 as n");
    one.answers(&[("rollback", "Transaction rolled back.")]);
    assert_eq!(made.get(), "Table c created, 1 row.");
    one.answers(&[
        ("select * from c", "5"),
        ("drop table c, d, goods", "Table c, d, goods dropped."),
    ]);
}

#[test]
fn who_waits_for_a_table_that_is_written_anew_changes_the_new_one() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.run("create table t (id int primary key, v int)");
    one.run("insert into t values (1, 1)");
    for (round, definition) in [
        "truncate t",
        "alter table t alter column v type bigint",
        "alter table t alter column v type int",
        "truncate t",
    ]
    .into_iter()
    .enumerate()
    {
        let before: i64 = one.run("select count(*) from t").parse().unwrap();
        one.run("begin");
        one.run(definition);
        let waiting = two.begin(&format!("insert into t values ({}, 0)", round + 10));
        let waits =
            "select count(*) from v$session where event like 'enq: TM%' and state = 'WAITING'";
        database.wait_for(|_| one.run(waits) == "1");
        one.run("commit");
        assert_eq!(waiting.get(), "1 row inserted.");
        let kept = if definition.starts_with("truncate") { 0 } else { before };
        assert_eq!(one.run("select count(*) from t"), (kept + 1).to_string(), "{definition}");
    }
}

#[test]
fn what_a_definition_has_waited_for_is_in_what_it_makes() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.run("create table t (id int primary key, v int)");
    let waits = "select count(*) from v$session where event like 'enq: TM%' and state = 'WAITING'";
    for round in 0..6 {
        one.run("begin");
        one.run(&format!("insert into t values ({round}, {round})"));
        let definition = match round % 3 {
            0 => "alter table t alter column v type bigint",
            1 => "alter table t alter column v type int",
            _ => "create index t_v on t (v)",
        };
        let waiting = two.begin(definition);
        database.wait_for(|_| one.run(waits) == "1");
        one.run("commit");
        waiting.get();
        one.answers(&[
            ("select count(*) from t", &*(round + 1).to_string()),
            (&format!("select id from t where v = {round}"), &round.to_string()),
        ]);
        one.run("drop index if exists t_v");
    }
}

#[test]
fn a_table_that_is_made_of_one_that_was_waited_for_is_made_once() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.run("create table t (id int primary key)");
    let waits = "select count(*) from v$session where event like 'enq: TM%' and state = 'WAITING'";
    for (make, made) in [
        ("create table c as select * from t", "Table c created, 1 row."),
        ("create table if not exists d as select * from t", "Table d created, 1 row."),
    ] {
        one.answers(&[
            ("begin", "Transaction begun."),
            ("truncate t", "Table t truncated."),
            ("insert into t values (7)", "1 row inserted."),
        ]);
        let making = two.begin(&make.replace(" as ", " using heap as "));
        database.wait_for(|_| one.run(waits) == "1");
        one.run("commit");
        assert_eq!(making.get(), made);
    }
    one.answers(&[("select * from c", "7"), ("select * from d", "7")]);
}

#[test]
fn who_wants_a_table_for_himself_is_not_passed_by_those_who_change_it() {
    let database = TestDatabase::new();
    let (one, two, three) = (database.session(), database.session(), database.session());
    one.answers(&[
        ("create table t (id int primary key, v int)", "Table t created."),
        ("insert into t values (1, 0), (2, 0)", "2 rows inserted."),
        ("begin", "Transaction begun."),
        ("update t set v = 1 where id = 1", "1 row updated."),
    ]);
    two.run("begin");
    let waits = "select count(*) from v$session where event like 'enq: TM%' and state = 'WAITING'";
    let locks = two.begin("lock table t in exclusive mode");
    database.wait_for(|_| one.run(waits) == "1");
    let changes = three.begin("update t set v = 3 where id = 2");
    database.wait_for(|_| one.run(waits) == "2");
    // Who is waited for goes on.
    one.answers(&[
        ("update t set v = 2 where id = 1", "1 row updated."),
        ("insert into t values (3, 0)", "1 row inserted."),
        ("commit", "Transaction committed."),
    ]);
    assert_eq!(locks.get(), "Table t locked.");
    two.answers(&[
        ("select v from t where id = 2", "0"),
        ("update t set v = v + 10 where id = 2", "1 row updated."),
        ("commit", "Transaction committed."),
    ]);
    assert_eq!(changes.get(), "1 row updated.");
    one.answers(&[("select id, v from t order by id", "1,2 2,3 3,0")]);
}

#[test]
fn who_defines_what_can_no_longer_be_changes_no_rows() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.run("create type mood as enum ('glad', 'sad')");
    one.run("create table t (id int, v int)");
    one.run("begin");
    one.answers(&[("create table x (m mood)", "Table x created.")]);
    two.answers(&[("drop type mood", "Type mood dropped.")]);
    two.answers(&[("create unique index t_v on t (v)", "Index t_v created.")]);
    one.refuses(&[("insert into t values (1, 1)", "CELLAR-08177")]);
    one.run("rollback");
    one.answers(&[("insert into t values (1, 1)", "1 row inserted.")]);
    two.answers(&[("select id from t where v = 1", "1")]);
}

const WAITS: &str =
    "select count(*) from v$session where event like 'enq: T%' and state = 'WAITING'";

/// What waits for an object's name does so before it has the turn to change the catalog: nobody else waits for it, and
/// it ends as other waits do.
#[test]
fn who_drops_what_another_has_changed_waits_and_holds_up_nobody_else() {
    let database = TestDatabase::new();
    let (one, two, three) = (database.session(), database.session(), database.session());
    one.done(&["create role r"]);
    for (round, (change, drops)) in [
        ("grant select on t to r", "drop table t"),
        ("grant select on t to r", "alter table t rename to s"),
        ("grant select on t to r", "alter table t set schema other"),
        ("alter table t owner to r", "begin; drop table t"),
        ("grant create on schema other to r", "drop schema other"),
        ("grant select on v to r", "drop view v"),
        ("grant usage on sequence q to r", "drop sequence q"),
        ("grant select on k to r", "drop table k"),
        ("grant usage on sequence n_id_seq to r", "drop table n"),
    ]
    .into_iter()
    .enumerate()
    {
        one.done(&[
            "create schema if not exists other",
            "create table t (id int primary key)",
            "create view v as select 1 as a",
            "create sequence q",
            "create table k (id int) using columnar",
            "create table n (id serial primary key)",
            "begin",
            change,
        ]);
        let (first, second) = drops.split_once("; ").unwrap_or(("", drops));
        two.run(first);
        for way in ["waits no longer", "goes away", "waits"] {
            match way {
                "waits" => {}
                _ if !first.is_empty() => continue,
                "goes away" => {
                    let drops = two.begin(second);
                    database.wait_for(|_| three.run(WAITS) == "1");
                    drops.give_up();
                    database.wait_for(|_| three.run(WAITS) == "0");
                }
                _ => {
                    two.done(&["set lock_timeout = '200ms'"]);
                    let told = two.begin(second).soon();
                    assert!(told.contains("30006"), "{second}: {told}");
                    two.done(&["set lock_timeout = 0"]);
                }
            }
        }
        let drops = two.begin(second);
        database.wait_for(|_| three.run(WAITS) == "1");
        let made = three.begin(&format!("create table u{round} (id int primary key)"));
        assert_eq!(made.soon(), format!("Table u{round} created."), "{second}");
        one.done(&["create table w (id int)", "drop table w"]);
        assert_eq!(one.begin("commit").soon(), "Transaction committed.");
        let told = drops.soon();
        assert!(!told.starts_with("CELLAR-"), "{second}: {told}");
        if !first.is_empty() {
            assert_eq!(two.begin("commit").soon(), "Transaction committed.");
        }
        let clean =
            ["drop table if exists t", "drop table if exists s", "drop table if exists other.t"];
        three.done(&clean);
        three.done(&["drop view if exists v", "drop sequence if exists q"]);
        three.done(&["drop table if exists k", "drop table if exists n"]);
    }
}

/// Who waits for each other by way of names is told, as of other locks.
#[test]
fn a_circle_by_way_of_names_is_found() {
    let database = TestDatabase::new();
    let (one, two, three) = (database.session(), database.session(), database.session());
    one.done(&["create role r", "create table t (id int primary key)", "begin"]);
    one.done(&["grant select on t to r"]);
    let drops = two.begin("drop table t");
    database.wait_for(|_| three.run(WAITS) == "1");
    let told = one.begin("select count(*) from t").soon();
    assert!(told.contains("CELLAR-00060"), "{told}");
    one.run("rollback");
    assert_eq!(drops.soon(), "Table t dropped.");
}

#[test]
fn an_index_is_built_anew_and_stays_what_it_is() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (a int primary key, b text)");
    at.run("create index t_b on t (b)");
    at.run("create schema s");
    at.run("create table s.u (a int primary key)");
    at.run("create table empty (a int)");
    at.run("insert into t select i, 'n' || i from generate_series(1, 5000) g(i)");
    let oids = "select oid, relname from pg_class where relname in ('t_b', 't_pkey') order by 2";
    let before = at.run(oids);
    at.answers(&[
        ("reindex index t_b", "1 index built anew."),
        ("reindex table t", "2 indexes built anew."),
        ("reindex table empty", "0 indexes built anew."),
        ("reindex schema s", "1 index built anew."),
        ("reindex database", "3 indexes built anew."),
        ("reindex database cellar", "3 indexes built anew."),
        (oids, &before),
        ("select a from t where b = 'n4321'", "4321"),
        ("select count(*) from t where a between 100 and 199", "100"),
    ]);
    assert!(at.run("explain select a from t where b = 'n4321'").contains("t_b"));
    at.fails(&[("reindex schema nosuch", 1435, "3F000", "does not exist")]);
}
