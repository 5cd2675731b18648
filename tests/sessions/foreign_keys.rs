//! Foreign keys beside other sessions, definitions, loads and the end of the process: no row is left whose key is not
//! there.

#![expect(clippy::disallowed_methods, reason = "a test waits until another session waits")]

use std::time::Duration;

use crate::database::{Session, TestDatabase};

const INSERTED: &str = "1 row inserted.";
const DELETED: &str = "1 row deleted.";
const COMMITTED: &str = "Transaction committed.";

/// A parent with three rows, and children of four kinds.
fn family(at: &Session<'_>) {
    at.done(&[
        "create table p (id int primary key, v int)",
        "insert into p values (1, 0), (2, 0), (3, 0)",
        "create table c (id int primary key, pid int references p)",
        "create table gone (id int primary key, pid int references p on delete cascade on update cascade)",
        "create table kept (id int primary key, pid int references p on delete set null)",
        "create index on gone (pid)",
    ]);
}

/// Time for another session to come to where it waits.
fn a_while() {
    std::thread::sleep(Duration::from_millis(150));
}

#[test]
fn who_deletes_a_key_waits_for_who_refers_to_it() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    family(&one);
    one.done(&["begin", "insert into c values (10, 1)"]);
    let waiting = two.begin("delete from p where id = 1");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    let told = waiting.soon();
    assert!(told.starts_with("CELLAR-02292"), "{told}");
    // Who has referred to it, and does not any more.
    one.done(&["begin", "insert into c values (11, 2)"]);
    let waiting = two.begin("delete from p where id = 2");
    a_while();
    one.done(&["rollback"]);
    assert_eq!(waiting.soon(), DELETED);
    two.answers(&[("select id from p order by 1", "1 3")]);
}

#[test]
fn who_refers_to_a_key_waits_for_who_deletes_it() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    family(&one);
    one.done(&["begin", "delete from p where id = 1"]);
    let waiting = two.begin("insert into c values (10, 1)");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    let told = waiting.soon();
    assert!(told.starts_with("CELLAR-02291"), "{told}");
    one.done(&["begin", "update p set id = 9 where id = 2"]);
    let waiting = two.begin("insert into c values (10, 2)");
    a_while();
    one.done(&["rollback"]);
    assert_eq!(waiting.soon(), INSERTED);
    // And for who makes it.
    one.done(&["begin", "insert into p values (50, 0)"]);
    let waiting = two.begin("insert into c values (50, 50)");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    assert_eq!(waiting.soon(), INSERTED);
}

#[test]
fn who_changes_another_column_of_the_parent_waits_for_nobody() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    family(&one);
    one.done(&["begin", "insert into c values (10, 1)"]);
    two.answers(&[("set lock_timeout = '2s'", "lock_timeout is 2s.")]);
    two.answers(&[
        ("update p set v = v + 1 where id = 1", "1 row updated."),
        ("update p set v = v + 1, id = id where id = 1", "1 row updated."),
        ("insert into c values (11, 1)", INSERTED),
    ]);
    one.answers(&[("commit", COMMITTED), ("select v from p where id = 1", "2")]);
}

#[test]
fn a_snapshot_does_not_hide_who_refers_to_a_key() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    family(&one);
    let begin = "begin isolation level repeatable read";
    one.done(&[begin, "select count(*) from c"]);
    two.answers(&[
        ("insert into c values (10, 1)", INSERTED),
        ("insert into gone values (10, 2)", INSERTED),
    ]);
    one.answers(&[("select count(*) from c", "0")]);
    one.refuses(&[("delete from p where id = 1", "CELLAR-02292")]);
    one.done(&["rollback", begin, "select count(*) from c"]);
    two.answers(&[("insert into gone values (11, 2)", INSERTED)]);
    // It deletes no row that it does not see.
    one.refuses(&[("delete from p where id = 2", "CELLAR-08177")]);
    one.done(&["rollback"]);
    two.answers(&[
        ("select id from gone order by 1", "10 11"),
        ("delete from p where id = 2", DELETED),
    ]);
    two.answers(&[("select count(*) from gone", "0")]);
    // And refers to a key that others have made.
    one.done(&[begin, "select count(*) from c"]);
    two.answers(&[("insert into p values (60, 0)", INSERTED)]);
    one.answers(&[("insert into c values (60, 60)", INSERTED), ("commit", COMMITTED)]);
}

#[test]
fn what_cascades_takes_rows_that_others_change_meanwhile() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    family(&one);
    one.done(&[
        "insert into gone values (10, 1), (11, 1), (12, 2)",
        "insert into kept values (10, 1)",
    ]);
    one.done(&["begin", "update gone set id = 20 where id = 10"]);
    let waiting = two.begin("delete from p where id = 1");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    assert_eq!(waiting.soon(), DELETED);
    two.answers(&[("select * from gone", "12,2"), ("select * from kept", "10,")]);
    // Who is about to give a row the key that goes.
    one.done(&["begin", "update gone set pid = 3 where id = 12"]);
    let waiting = two.begin("update p set id = 30 where id = 3");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    assert_eq!(waiting.soon(), "1 row updated.");
    two.answers(&[("select * from gone", "12,30")]);
}

#[test]
fn plans_know_keys_that_came_behind_them() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.done(&[
        "create table p (id int primary key)",
        "create table c (id int primary key, pid int)",
        "insert into p values (1), (2)",
        "insert into c values (1, 1)",
    ]);
    let delete = two.prepare("delete from p where id = $1").unwrap();
    let insert = two.prepare("insert into c values ($1, $2)").unwrap();
    let of =
        |one, other| [cellar_sql::Parameter::Integer(one), cellar_sql::Parameter::Integer(other)];
    assert_eq!(two.execute(&delete, &of(2, 0)[..1]), DELETED);
    assert_eq!(two.execute(&insert, &of(2, 1)), INSERTED);
    one.done(&["alter table c add foreign key (pid) references p"]);
    assert!(two.execute(&delete, &of(1, 0)[..1]).starts_with("CELLAR-02292"));
    assert!(two.execute(&insert, &of(3, 2)).starts_with("CELLAR-02291"));
    // A transaction that has deleted a key before there was the foreign key.
    one.done(&[
        "alter table c drop constraint c_pid_fkey",
        "delete from c",
        "begin",
        "delete from p where id = 1",
    ]);
    let adding = two.begin("alter table c add foreign key (pid) references p");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    assert_eq!(adding.soon(), "Table c altered.");
    two.refuses(&[("insert into c values (1, 1)", "CELLAR-02291")]);
}

#[test]
fn keys_are_kept_by_definitions() {
    let database = TestDatabase::new();
    let at = database.session();
    family(&at);
    at.done(&["create unique index p_v on p (id, v)", "create table two (a int, b int)"]);
    at.refuses(&[
        ("alter table two add foreign key (a) references p not enforced", "CELLAR-03001"),
        (
            "alter table two add foreign key (a) references p not deferrable initially deferred",
            "must be DEFERRABLE",
        ),
        ("create temporary table x (id int references p)", "CELLAR-14450"),
        ("create table x (a int, b int, foreign key (a, a) references p (id, v))", "twice"),
        ("create table x (a int, foreign key (a) references p (id, v))", "CELLAR-02256"),
        ("alter table p alter column id type bigint", "CELLAR-03001"),
        ("alter table c alter column pid type bigint", "CELLAR-03001"),
        ("alter table p drop column id", "CELLAR-02449"),
    ]);
    at.done(&["alter table two add constraint k foreign key (b, a) references p (v, id)"]);
    at.refuses(&[
        ("drop index p_v", "CELLAR-02449"),
        ("insert into two values (1, 1)", "CELLAR-02291"),
    ]);
    at.answers(&[("insert into two values (1, 0)", INSERTED)]);
    // Rows that are written anew keep their foreign keys, also where columns before theirs go.
    at.done(&[
        "alter table c add column more double precision default random()",
        "alter table c drop column id",
        "alter table c rename column pid to parent",
        "alter table p add column first int",
        "alter table p rename to q",
    ]);
    at.refuses(&[("insert into c (parent) values (77)", "CELLAR-02291")]);
    at.answers(&[("insert into c (parent) values (1)", INSERTED)]);
    at.refuses(&[("delete from q where id = 1", "CELLAR-02292")]);
    at.answers(&[("select count(*) from pg_constraint where contype = 'f'", "4")]);
    at.done(&[
        "create table like_c (like c including all)",
        "insert into like_c (parent) values (77)",
    ]);
    at.done(&[
        "create table of_c as select * from c",
        "drop table c, gone, kept, two",
        "drop table q",
    ]);
}

#[test]
fn rows_that_are_copied_refer_to_keys() {
    let database = TestDatabase::new();
    let at = database.session();
    family(&at);
    at.refuses(&[("copy c from stdin with (format csv);\n1,1\n2,9\n", "CELLAR-02291")]);
    at.answers(&[("select count(*) from c", "0")]);
    at.answers(&[("copy c from stdin with (format csv);\n1,1\n2,\n", "2 rows copied.")]);
    at.done(&["insert into p select v, 0 from generate_series(100, 20099) s(v)"]);
    at.answers(&[
        (
            "insert into gone select v, v from generate_series(100, 20099) s(v)",
            "20000 rows inserted.",
        ),
        ("delete from p where id >= 100", "20000 rows deleted."),
        ("select count(*) from gone", "0"),
    ]);
}

#[test]
fn sessions_beside_each_other_leave_no_row_without_its_key() {
    let database = TestDatabase::new();
    let at = database.session();
    family(&at);
    let sessions: Vec<Session<'_>> = (0..4).map(|_| database.session()).collect();
    std::thread::scope(|scope| {
        for (number, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                let mut seed = number as u64 * 7 + 1;
                let mut next = |below: u64| {
                    seed = seed
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 33) % below
                };
                for turn in 0..150u64 {
                    let (key, other, own) = (next(8), next(8), turn * 10 + number as u64);
                    let statement = match next(7) {
                        0 => format!("insert into p values ({key}, 0) on conflict do nothing"),
                        1 => format!("delete from p where id = {key}"),
                        2 => format!("update p set id = {other} where id = {key}"),
                        3 => format!("insert into c values ({own}, {key})"),
                        4 => format!("insert into gone values ({own}, {key})"),
                        5 => format!("insert into kept values ({own}, {key})"),
                        _ => format!("delete from c where pid = {key}"),
                    };
                    // Refused, or the victim of a deadlock: whatever becomes of it is whole.
                    if next(3) == 0 {
                        let _ = session.run("begin");
                        let _ = session.run(&statement);
                        let _ = session
                            .run(&format!("update gone set pid = {other} where pid = {key}"));
                        let _ = session.run(if next(4) == 0 { "rollback" } else { "commit" });
                    } else {
                        let told = session.run(&statement);
                        assert!(!told.contains("CELLAR-00600"), "{statement}: {told}");
                    }
                }
            });
        }
    });
    for child in ["c", "gone", "kept"] {
        let lost = format!(
            "select count(*) from {child} where pid is not null and pid not in (select id from p)"
        );
        at.answers(&[(&lost, "0")]);
    }
    at.answers(&[("select count(*) > 0 from c", "true")]);
}

#[test]
fn many_rows_refer_to_keys_too() {
    let database = TestDatabase::new();
    let at = database.session();
    family(&at);
    at.done(&[
        "create table many (id int primary key, pid int references p, own int references many)",
    ]);
    at.refuses(&[
        ("insert into c select v, 999 from generate_series(1, 70000) s(v)", "CELLAR-02291"),
        ("insert into c select v, v % 4 from generate_series(1, 70000) s(v)", "CELLAR-02291"),
        ("insert into many select v, 1, v + 1 from generate_series(1, 70000) s(v)", "CELLAR-02291"),
    ]);
    at.answers(&[
        ("select count(*) from c", "0"),
        (
            "insert into c select v, 1 + v % 3 from generate_series(1, 70000) s(v)",
            "70000 rows inserted.",
        ),
        (
            "insert into many select v, 1, greatest(v - 1, 1) from generate_series(1, 70000) s(v)",
            "70000 rows inserted.",
        ),
    ]);
    at.refuses(&[("delete from p where id = 2", "CELLAR-02292")]);
}

#[test]
fn who_waits_for_a_definition_finds_its_foreign_keys() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    let anew = [
        "create table p (id int primary key)",
        "insert into p values (1), (2)",
        "create table c (pid int)",
        "insert into c values (1)",
    ];
    let cases = [
        ("alter table c add foreign key (pid) references p", "delete from p where id = 1"),
        ("alter table c add foreign key (pid) references p", "update p set id = 9 where id = 1"),
        ("alter table c add foreign key (pid) references p", "truncate p"),
        (
            "create table d (pid int references p); insert into d values (1)",
            "delete from p where id = 1",
        ),
        ("create table d (pid int references p); insert into d values (1)", "truncate p"),
        ("create table d (pid int references p); insert into d values (1)", "drop table p"),
    ];
    for (defines, waits) in cases {
        one.done(&["drop table if exists d", "drop table if exists c, p"]);
        one.done(&anew);
        one.done(&["begin"]);
        one.done(&defines.split("; ").collect::<Vec<_>>());
        let waiting = two.begin(waits);
        a_while();
        one.answers(&[("commit", COMMITTED)]);
        let told = waiting.soon();
        assert!(told.starts_with("CELLAR-"), "{defines}, {waits}: {told}");
        one.answers(&[("select count(*) from p", "2")]);
    }
}

#[test]
fn keys_of_many_rows_go_to_those_that_were_meant() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table p (id int primary key)",
        "create table c (was int, pid int references p on update cascade)",
        "insert into p select v from generate_series(1, 3000) s(v)",
        "insert into c select v, v from generate_series(1, 3000) s(v)",
    ]);
    at.answers(&[
        ("update p set id = id + 1", "3000 rows updated."),
        ("select count(*) from c where pid = was + 1", "3000"),
        ("update p set id = 3003 - id", "3000 rows updated."),
        ("select count(*) from c where pid = 3002 - was", "3000"),
    ]);
    // A circle of keys comes to an end.
    at.done(&[
        "create table r (id int primary key references r on update cascade)",
        "insert into r values (1), (2)",
    ]);
    let told = at.begin("update r set id = 3 - id").soon();
    assert_eq!(told, "2 rows updated.");
    at.answers(&[("select count(distinct id), sum(id) from r", "2,3")]);
    // A value that the other column does not have.
    at.done(&[
        "create table wide (id bigint primary key)",
        "create table narrow (pid int references wide on update cascade)",
        "insert into wide values (1)",
        "insert into narrow values (1)",
    ]);
    at.refuses(&[("update wide set id = 5000000000", "CELLAR-01438")]);
    at.answers(&[("select * from narrow", "1")]);
}

#[test]
fn what_refuses_is_asked_behind_what_cascades() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create table p (id int primary key)",
        "create table m (id int primary key, pid int references p on delete cascade)",
        "create table a (pid int references p, mid int references m on delete cascade)",
        "insert into p values (1)",
        "insert into m values (1, 1)",
        "insert into a values (1, 1)",
    ]);
    at.answers(&[("delete from p", DELETED), ("select count(*) from a", "0")]);
}

#[test]
fn definitions_keep_what_rows_refer_to() {
    let database = TestDatabase::new();
    let at = database.session();
    at.done(&[
        "create schema s",
        "create table s.p (id int primary key)",
        "create table c (pid int references s.p)",
        "insert into s.p values (1)",
        "insert into c values (1)",
        "alter schema s rename to t",
    ]);
    at.refuses(&[
        ("insert into c values (2)", "CELLAR-02291"),
        ("alter table c alter column pid type int using pid + 1000", "CELLAR-02298"),
    ]);
    at.done(&["create table u (id uuid primary key)"]);
    at.refuses(&[("create table x (u text references u)", "CELLAR-02267")]);
    at.done(&[
        "create temporary table x (id int primary key, own int references x) on commit delete rows",
    ]);
    at.answers(&[("insert into x values (1, 1)", INSERTED)]);
    at.refuses(&[("create temporary table y (own int references x)", "ON COMMIT")]);
    at.done(&[
        "create role maker login",
        "grant create, usage on schema public, t to maker",
        "grant references on t.p to maker",
        "set role maker",
        "create table of_maker (pid int references t.p)",
        "alter table of_maker add constraint again foreign key (pid) references t.p",
        "insert into of_maker values (1)",
    ]);
    at.refuses(&[("insert into of_maker values (7)", "CELLAR-02291")]);
}

#[test]
fn who_waits_for_a_table_that_refers_finds_its_columns() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    for (changes, pid) in [
        ("alter table c drop column a", "pid"),
        ("alter table c rename to d", "pid"),
        ("alter table c rename column pid to own", "own"),
    ] {
        one.done(&["drop table if exists c, d", "drop table if exists p"]);
        one.done(&[
            "create table p (id int primary key)",
            "create table c (a int, pid int references p on delete cascade, b int)",
            "insert into p values (1), (2)",
            "insert into c values (0, 1, 7), (0, null, 1), (0, 2, 1)",
            "begin",
            changes,
        ]);
        let waiting = two.begin("delete from p where id = 1");
        a_while();
        one.answers(&[("commit", COMMITTED)]);
        assert_eq!(waiting.soon(), DELETED, "{changes}");
        let table = if changes.contains(" d") && !changes.contains("drop") { "d" } else { "c" };
        let left = format!("select {pid}, b from {table} order by 1");
        one.answers(&[(&left, "2,1 ,1")]);
    }
    // With the key nothing follows it any more.
    one.done(&["begin", "alter table c drop constraint c_pid_fkey"]);
    let waiting = two.begin("delete from p where id = 2");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    assert_eq!(waiting.soon(), DELETED);
    one.answers(&[("select count(*) from c", "2")]);
}

#[test]
fn what_was_loaded_is_not_lost_where_a_cascade_begins_anew() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    family(&one);
    one.done(&["insert into gone values (10, 1)", "create table archive (id int primary key)"]);
    one.done(&["begin", "update gone set id = 20 where id = 10"]);
    let both = "with d as (delete from p where id = 1) \
                insert into archive select v from generate_series(1, 100000) s(v)";
    let (waiting, looks) = (two.begin(both), database.session());
    let waits = "select count(*) from v$session_wait where event like 'enq: TX%'";
    database.wait_for(|_| looks.run(waits) != "0");
    one.answers(&[("commit", COMMITTED)]);
    let told = waiting.soon();
    assert!(told.starts_with("CELLAR-08177"), "{told}");
    two.answers(&[("select count(*) from archive", "0"), ("select count(*) from p", "3")]);
    two.answers(&[(both, "100000 rows inserted."), ("select count(*) from archive", "100000")]);
}

#[test]
fn a_commit_looks_at_what_others_have_done_to_keys_that_it_has_put_off() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.done(&[
        "create table p (id int primary key)",
        "insert into p values (1), (2)",
        "create table c (id int primary key, pid int references p deferrable initially deferred)",
    ]);
    // Until the commit nobody is kept from taking the key away.
    one.done(&["begin", "insert into c values (1, 1)"]);
    two.answers(&[("delete from p where id = 1", DELETED)]);
    one.refuses(&[("commit", "CELLAR-02291")]);
    one.answers(&[("select count(*) from c", "0")]);
    // A commit waits for who is about to take it away, and for who is about to make it.
    two.done(&["begin", "delete from p where id = 2"]);
    one.done(&["begin", "insert into c values (2, 2)"]);
    let waiting = one.begin("commit");
    a_while();
    two.done(&["rollback"]);
    assert_eq!(waiting.soon(), COMMITTED);
    two.done(&["begin", "insert into p values (3)"]);
    one.done(&["begin", "insert into c values (3, 3)"]);
    let waiting = one.begin("commit");
    a_while();
    two.done(&["commit"]);
    assert_eq!(waiting.soon(), COMMITTED);
    // A key that is taken away is kept from new rows, and the commit sees those that came before.
    two.done(&["begin", "insert into c values (4, 2)"]);
    one.done(&["begin", "delete from c where pid = 2", "delete from p where id = 2"]);
    let waiting = two.begin("commit");
    a_while();
    one.answers(&[("commit", COMMITTED)]);
    assert!(waiting.soon().starts_with("CELLAR-02291"));
    two.answers(&[("select c.id, p.id from c full join p on c.pid = p.id", "3,3")]);
    // A REPEATABLE READ that does not see the row which refers to its key.
    two.done(&["begin isolation level repeatable read", "select count(*) from p"]);
    one.done(&["insert into c values (5, 3)"]);
    two.done(&["delete from c where id = 3", "delete from p where id = 3"]);
    two.refuses(&[("commit", "CELLAR-02292")]);
    one.answers(&[("select c.id, p.id from c join p on c.pid = p.id order by 1", "3,3 5,3")]);
}

#[test]
fn what_is_put_off_is_checked_whatever_becomes_of_names() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    one.done(&[
        "create table p (id int constraint own primary key)",
        "insert into p values (1)",
        "create table c (id int primary key, pid int references p deferrable initially deferred)",
    ]);
    one.done(&["begin", "insert into c values (1, 1)", "insert into c values (2, 2)"]);
    two.done(&["alter table p rename to parents", "alter index own rename to its_own"]);
    one.refuses(&[("commit", "CELLAR-02291"), ("insert into c values (3, 3)", "CELLAR-02291")]);
    one.done(&["begin", "insert into c values (1, 1)"]);
    two.done(&["alter index its_own rename to own_again"]);
    one.answers(&[("commit", COMMITTED)]);
    // Neither a change of its own loses what is put off.
    one.done(&["begin", "insert into c values (4, 4)"]);
    one.refuses(&[("truncate c", "CELLAR-70230")]);
    one.done(&["rollback"]);
    one.done(&["begin", "delete from parents"]);
    one.refuses(&[("alter table parents add column x int", "CELLAR-70230")]);
    one.done(&["rollback"]);
    one.answers(&[("select * from c", "1,1")]);
    one.done(&[
        "create schema s",
        "create table s.c (id int references parents deferrable initially deferred)",
        "begin",
        "insert into s.c values (9)",
        "alter schema s rename to t",
    ]);
    one.refuses(&[("commit", "CELLAR-"), ("select * from t.c", "CELLAR-00942")]);
    one.answers(&[("select count(*) from s.c", "0")]);
}
