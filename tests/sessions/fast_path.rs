//! The fast path: statements by key give what they give through DataFusion, and do not go there.

#![expect(clippy::disallowed_methods, reason = "a test waits until another session waits")]

use crate::database::{Session, TestDatabase};
use cellar_sql::Parameter::{self, Integer, List, Null, Text};

const TABLES: &[&str] = &[
    "create table sbtest1 (id int primary key, k int default 0 not null, c varchar(120) default '' \
     not null, pad varchar(60) default '' not null)",
    "create index k_1 on sbtest1 (k)",
    "insert into sbtest1 select value, value * 7 % 50, 'c' || value % 13, 'pad' || value \
     from generate_series(1, 200)",
    "create table pgbench_accounts (aid int primary key, bid int, abalance int, filler char(84))",
    "create table pgbench_tellers (tid int primary key, bid int, tbalance int, filler char(84))",
    "create table pgbench_branches (bid int primary key, bbalance int, filler char(88))",
    "create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, \
     filler char(22)) using heap",
    "insert into pgbench_accounts values (1, 1, 0, ''), (2, 1, 0, ''), (3, 1, 0, '')",
    "insert into pgbench_tellers values (1, 1, 0, '')",
    "insert into pgbench_branches values (1, 0, '')",
    "create table mixed (a bigint, b text, n numeric(12, 2), d date, t timestamp, f double precision, \
     s smallint check (s < 100), y boolean default true, primary key (a, b), unique (n))",
    "insert into mixed values (1, 'x', 1.50, '2020-01-01', '2020-01-01 10:00:00', 1.5, 1, true), \
     (1, 'y', 2.50, null, null, 'NaN', null, null), (2, 'x', -3, '1999-12-31', null, -0.0, 7, false)",
];

/// How many statements of a session's database went the fast path so far.
fn executions(session: &Session<'_>) -> u64 {
    session.run("select coalesce(sum(executions), 0) from v$sql").parse().unwrap()
}

/// Two databases with the same tables, and a session each: one without the fast path.
fn both(test: impl FnOnce(&Session<'_>, &Session<'_>)) {
    let (fast, slow) = (TestDatabase::new(), TestDatabase::new());
    let (fast, slow) = (fast.session(), slow.session());
    slow.run("set cellar.fast_path = off");
    for sql in TABLES {
        let told = fast.run(sql);
        assert!(!told.starts_with("CELLAR"), "{sql}: {told}");
        assert_eq!(told, slow.run(sql), "{sql}");
    }
    test(&fast, &slow);
    assert_eq!(executions(&slow), 0);
}

/// Runs statements in both: each goes the fast path, and gives the same.
#[track_caller]
fn same((fast, slow): (&Session<'_>, &Session<'_>), statements: &[&str]) {
    for sql in statements {
        let before = executions(fast);
        let told = fast.run(sql);
        assert!(!told.starts_with("CELLAR"), "{sql}: {told}");
        assert_eq!(told, slow.run(sql), "{sql}");
        assert_eq!(executions(fast), before + 1, "{sql}: not by the fast path: {told}");
    }
}

/// Runs statements in both, whichever way they go.
#[track_caller]
fn alike((fast, slow): (&Session<'_>, &Session<'_>), statements: &[&str]) {
    for sql in statements {
        assert_eq!(fast.run(sql), slow.run(sql), "{sql}");
    }
}

#[test]
fn statements_of_sysbench_go_the_fast_path() {
    both(|fast, slow| {
        same(
            (fast, slow),
            &[
                "SELECT c FROM sbtest1 WHERE id=17",
                "SELECT c FROM sbtest1 WHERE id=1700",
                "SELECT c FROM sbtest1 WHERE id BETWEEN 20 AND 60",
                "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 20 AND 119",
                "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 2000 AND 2119",
                "SELECT c FROM sbtest1 WHERE id BETWEEN 20 AND 119 ORDER BY c",
                "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 20 AND 119 ORDER BY c",
                "UPDATE sbtest1 SET k=k+1 WHERE id=23",
                "UPDATE sbtest1 SET c='11-22' WHERE id=24",
                "UPDATE sbtest1 SET k=k-1 WHERE id=1000",
                "DELETE FROM sbtest1 WHERE id=25",
                "INSERT INTO sbtest1 (id, k, c, pad) VALUES (25, 3, 'it''s', 'new')",
                "INSERT INTO sbtest1 (id) VALUES (300), (301)",
                "SELECT id, k, c, pad FROM sbtest1 WHERE k = 3 ORDER BY id",
                "SELECT * FROM sbtest1 WHERE id IN (23, 24, 25, 25, 300, 4000) ORDER BY id",
            ],
        );
        alike((fast, slow), &["select count(*), sum(k), min(c), max(pad) from sbtest1"]);
    });
}

#[test]
fn statements_of_pgbench_go_the_fast_path() {
    both(|fast, slow| {
        fast.run("begin");
        slow.run("begin");
        same(
            (fast, slow),
            &[
                "UPDATE pgbench_accounts SET abalance = abalance + -42 WHERE aid = 2;",
                "SELECT abalance FROM pgbench_accounts WHERE aid = 2;",
                "UPDATE pgbench_tellers SET tbalance = tbalance + -42 WHERE tid = 1;",
                "UPDATE pgbench_branches SET bbalance = bbalance + -42 WHERE bid = 1;",
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 2, -42, \
                 CURRENT_TIMESTAMP);",
            ],
        );
        alike(
            (fast, slow),
            &[
                "end",
                "commit",
                "select tid, bid, aid, delta, filler, mtime > timestamp '2020-01-01' \
                 from pgbench_history",
                "select * from pgbench_accounts order by 1",
            ],
        );
    });
}

#[test]
fn queries_by_a_range_give_the_same() {
    both(|fast, slow| {
        same(
            (fast, slow),
            &[
                "select id from sbtest1 where id > 190 order by id desc limit 3",
                "select id from sbtest1 where id > 190 and id <= 199 order by id limit 3 offset 2",
                "select id, k as number from sbtest1 s where s.k = 7 and s.id > 60 order by number, s.id",
                "select k, id from sbtest1 where k between 10 and 12 order by 1 desc, 2",
                "select distinct k from sbtest1 where k >= 45 order by k desc limit 2",
                "select count(*), count(k), min(c), max(c), sum(k), min(id) from sbtest1 where k < 5",
                "select count(*) from sbtest1 where k = 49 and c <> 'c5'",
                "select id + 1, k * 2 - id from sbtest1 where id in (5, 7) order by id",
                "select a, b from mixed where a = 1 order by b desc",
                "select * from mixed where a = 1 and b = 'y'",
                "select * from mixed where a = 1 and b >= 'x' and b < 'y'",
                "select b from mixed where n = 1.5",
                "select b, n from mixed where n in (1.50, 2.5) order by n",
                "select n from mixed where a = 2 and b in ('x', 'q') and s is not null",
                "select sum(n), max(d), min(t) from mixed where a >= 1",
                "select id from sbtest1 where 5 = id",
                "select id from sbtest1 where id = -5",
                "select c || '-' || pad from sbtest1 where id = 8",
                "select id from sbtest1 where (id = 9) and (k = 13 or c = 'x')",
                "select id from sbtest1 where id between 30 and 20",
            ],
        );
    });
}

#[test]
fn what_the_fast_path_declines_gives_the_same() {
    both(|fast, slow| {
        alike(
            (fast, slow),
            &[
                "select id from sbtest1 where id = 1.5",
                "select id from sbtest1 where id = '17'",
                "select id from sbtest1 where id = 99999999999",
                "select id from sbtest1 where id = null",
                "select id from sbtest1 where id = 5 and k / 0 = 1",
                "select nothing from sbtest1 where id = 5",
                "select c from missing where id = 5",
                "select id from sbtest1 where id = 5 and upper(c) = 'C5'",
                "select k, count(*) from sbtest1 where id < 9 group by k order by k",
                "select a.id from sbtest1 a, sbtest1 b where a.id = 4 and b.id = 5",
                "select id from sbtest1 where id in (select 3)",
                "select avg(k) from sbtest1 where id < 9",
                "select f, f > 1 from mixed where a = 1 and b = 'y'",
                "select max(f) from mixed where a >= 1",
                "select b from mixed where d = '2020-01-01' and a = 1",
                "select x.id from sbtest1 where id = 1",
                "select id from sbtest1 where id = 1 limit 0",
                "select 'a', 5, id from sbtest1 where id = 1",
                "select distinct f from mixed where a >= 1 order by f",
            ],
        );
    });
}

#[test]
fn errors_are_the_same_and_change_nothing() {
    both(|fast, slow| {
        alike(
            (fast, slow),
            &[
                "insert into sbtest1 values (5, 1, 'a', 'b')",
                "insert into sbtest1 values (500, 1, 'a', 'b'), (6, 1, 'a', 'b')",
                "insert into sbtest1 values (500, null, 'a', 'b')",
                "insert into sbtest1 values (5000000000, 1, 'a', 'b')",
                "insert into sbtest1 (id, nothing) values (500, 1)",
                "insert into sbtest1 (id, k) values (500)",
                "insert into sbtest1 values (500, 1, 'a', 'b', 5)",
                "insert into sbtest1 (id, id) values (500, 1)",
                "update sbtest1 set k = k + 2147483647 where id = 5",
                "update sbtest1 set k = k / 0 where id between 5 and 8",
                "update sbtest1 set k = null where id = 5",
                "update sbtest1 set id = 6 where id = 5",
                "update sbtest1 set id = id + 1 where id between 5 and 7",
                "update sbtest1 set c = 5 where id = 5",
                "update mixed set s = 100 where a = 1",
                "update mixed set s = s + 1, b = b || 'z' where a = 2",
                "insert into mixed (a, b, s) values (9, 'q', 100)",
                "insert into mixed (a, b, n) values (9, 'q', 1.5)",
                "insert into mixed (a, b, n) values (9, 'q', 12345678901.5)",
                "insert into mixed (a, b, d) values (9, 'q', 'soon')",
                "update pgbench_accounts set filler = 'x' where aid = 1",
                "update v$sql set sql_id = 'x' where sql_id = 'y'",
                "select * from mixed order by a, b",
                "select count(*), sum(k), sum(id) from sbtest1",
            ],
        );
    });
}

#[test]
fn changes_return_what_they_change() {
    both(|fast, slow| {
        same(
            (fast, slow),
            &[
                "insert into mixed (a, b, d) values (5, 'five', '2021-05-05'), (6, 'six', null) \
                 returning *",
                "update mixed set n = n * 2, t = '2022-02-02 02:02:02' where a = 1 and b = 'x' \
                 returning a, n as twice, t",
                "update mixed set b = b || '!' where a = 5 returning b",
                "update mixed set y = default, s = -5 where a = 2 returning y, s",
                "delete from mixed where a >= 5 returning b, d",
                "update mixed set f = 2 where a = 1 and n > 1 and s is null",
            ],
        );
        alike((fast, slow), &["select * from mixed order by a, b"]);
    });
}

#[test]
fn functions_of_texts_and_numbers_go_the_fast_path() {
    both(|fast, slow| {
        same(
            (fast, slow),
            &[
                "update sbtest1 set c = repeat('ab', 5) || lpad(pad, 8, '-') where id = 3 returning c",
                "update sbtest1 set c = left(upper(c), 3), k = length(pad) + abs(-k) where id = 4 \
                 returning c, k",
                "select length(c), char_length(pad), octet_length('a' || c) from sbtest1 where id = 5",
                "select id from sbtest1 where id between 10 and 20 and upper(c) = 'C5' order by id",
                "select replace(c, 'c', 'd'), substr(pad, 2, 3), rtrim(pad || ' ') from sbtest1 where id = 6",
                "select nullif(k, 42), greatest(k, id), least(k, 3), md5(c) from sbtest1 where id in (6, 7) \
                 order by id",
                "select abs(n), abs(s) from mixed where a = 2",
                "insert into sbtest1 (id, k, c) values (400, abs(-3), reverse('abc')) returning k, c",
                "insert into sbtest1 (id, k, c) values (401, 2 + length('four'), left('eleven', 4))",
                "select c || id::text, k::bigint, k::numeric from sbtest1 where id = 401",
            ],
        );
        alike(
            (fast, slow),
            &[
                "select left(c, k) from sbtest1 where id = 5",
                "select repeat(c, -1), substr(c, 0), lpad(c, 0) from sbtest1 where id = 5",
                "select abs(f) from mixed where a = 2",
                "update sbtest1 set c = repeat('x', 121) where id = 7",
                "update sbtest1 set k = length(null) where id = 7",
                "select greatest(c, 5) from sbtest1 where id = 7",
                "select '5'::int + k, '2020-01-01'::date from sbtest1 where id = 7",
                "update mixed set d = '2020-02-02'::date, s = '7'::smallint where a = 2 returning d, s",
                "update mixed set s = 70000::bigint where a = 2",
                "select f::int, (f * 3)::int, n::int from mixed where a = 1",
                "select c::varchar(1), c::char(3), k::smallint from sbtest1 where id = 7",
                "select * from mixed order by a, b",
                "select max(c), max(k) from sbtest1",
            ],
        );
    });
}

/// A statement, and its values with what it tells.
type Case<'a> = (&'a str, &'a [(&'a [Parameter], &'a str)]);

/// Casts around parameters, as SQLAlchemy and others write them.
const CAST: &[Case<'_>] = &[
    (
        "insert into mixed (a, b, d) values ($1::BIGINT, $2::VARCHAR, $3::DATE)",
        &[
            (&[Integer(7), Text(String::new()), Null], "1 row inserted."),
            (&[Integer(8), Null, Null], "CELLAR-01400"),
        ],
    ),
    (
        "select k from sbtest1 where id = $1::INTEGER",
        &[(&[Integer(7)], "49"), (&[Integer(7000)], ""), (&[Integer(5_000_000_000)], "CELLAR")],
    ),
    ("select id from sbtest1 where id = any($1::INTEGER[]) order by id", &[(&[List(vec![])], "")]),
    (
        "select id from sbtest1 where id > $1::INTEGER order by id limit $2::INTEGER offset $3::INTEGER",
        &[
            (&[Integer(190), Integer(2), Integer(1)], "192 193"),
            (&[Integer(190), Integer(-2), Integer(1)], "CELLAR"),
        ],
    ),
    (
        "update sbtest1 set k = $1::INTEGER, c = $2::VARCHAR where id = $3::INTEGER returning k",
        &[(&[Integer(5), Null, Integer(9)], "CELLAR-01400")],
    ),
    (
        "delete from mixed where a = $1::BIGINT and b = $2::VARCHAR",
        &[
            (&[Integer(7), Text(String::new())], "1 row deleted."),
            (&[Integer(7), Text(String::new())], "0 rows deleted."),
        ],
    ),
];

#[test]
fn casts_of_parameters_go_the_fast_path() {
    both(|fast, slow| {
        for (sql, cases) in CAST {
            let (one, other) = (fast.prepare(sql).unwrap(), slow.prepare(sql).unwrap());
            for (values, wanted) in *cases {
                let before = executions(fast);
                let told = fast.execute(&one, values);
                assert_eq!(told, slow.execute(&other, values), "{sql} {values:?}");
                match told.starts_with("CELLAR") {
                    true => assert!(told.starts_with(wanted), "{sql} {values:?}: {told}"),
                    false => {
                        assert_eq!(told, *wanted, "{sql} {values:?}");
                        assert_eq!(executions(fast), before + 1, "{sql}: not by the fast path");
                    }
                }
            }
        }
    });
}

#[test]
fn values_of_sequences_are_taken_on_the_fast_path() {
    both(|fast, slow| {
        alike(
            (fast, slow),
            &[
                "create table auto (id serial primary key, k int default 4 + 3, c text default lower('ABC'), \
                 at timestamp default now(), n numeric(8, 2) default 1.5)",
                "create table numbered (id bigint generated always as identity primary key, \
                 own int generated by default as identity (start with 100), c text)",
            ],
        );
        same((fast, slow), &["INSERT INTO auto (k, c) VALUES (1, 'one'), (2, 'two')"]);
    });
}

#[test]
fn rows_are_locked_on_the_fast_path() {
    both(|fast, slow| {
        same(
            (fast, slow),
            &[
                "select k from sbtest1 where id = 7 for update",
                "select k from sbtest1 where id = 7 for share nowait",
                "select id from sbtest1 where id in (9, 8, 7) order by id desc for update skip locked",
                "select id from sbtest1 where k = 7 order by c, id for share",
                "select id from sbtest1 where id > 50 order by id limit 2 offset 1 for update",
                "select id from sbtest1 where id > 5000 for update",
            ],
        );
        alike(
            (fast, slow),
            &[
                "select count(*) from sbtest1 where id = 7 for update",
                "select distinct k from sbtest1 where id = 7 for update",
                "select id from sbtest1 where id < 9 order by c limit 1 for update",
                "select s.id from sbtest1 s where s.id = 7 for update of s",
                "select s.id from sbtest1 s where s.id = 7 for update of t",
                "begin read only",
                "select k from sbtest1 where id = 7 for update",
                "rollback",
            ],
        );
    });
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    for sql in TABLES {
        one.run(sql);
    }
    one.run("begin");
    one.answers(&[("select k from sbtest1 where id = 10 for update", "20")]);
    two.refuses(&[("select k from sbtest1 where id = 10 for share nowait", "00054")]);
    let next = "select id from sbtest1 where id >= 10 order by id limit 2 for update skip locked";
    two.run("begin");
    two.answers(&[(next, "11 12"), ("select k from sbtest1 where id = 10", "20")]);
    one.answers(&[(next, "10 13")]);
    let waiting = two.begin("select k from sbtest1 where id = 10 for update");
    std::thread::sleep(std::time::Duration::from_millis(100));
    one.answers(&[
        ("update sbtest1 set k = 21 where id = 10", "1 row updated."),
        ("commit", "Transaction committed."),
    ]);
    assert_eq!(waiting.get(), "21");
    one.refuses(&[("select k from sbtest1 where id = 10 for update nowait", "00054")]);
    two.run("commit");
    one.answers(&[("select k from sbtest1 where id = 10 for update nowait", "21")]);
}

#[test]
fn transactions_see_and_keep_what_they_should() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    for sql in TABLES {
        one.run(sql);
    }
    one.answers(&[("begin isolation level repeatable read", "Transaction begun.")]);
    one.answers(&[("select k from sbtest1 where id = 10", "20")]);
    two.answers(&[("update sbtest1 set k = 99 where id = 10", "1 row updated.")]);
    one.answers(&[
        ("select k from sbtest1 where id = 10", "20"),
        ("update sbtest1 set k = 5 where id = 11", "1 row updated."),
        ("select id from sbtest1 where k = 5 and id = 11", "11"),
        ("insert into sbtest1 (id, c) values (1000, 'own')", "1 row inserted."),
        ("select c from sbtest1 where id = 1000", "own"),
    ]);
    two.answers(&[("select c from sbtest1 where id = 1000", "")]);
    one.refuses(&[("update sbtest1 set k = 1 where id = 10", "08177")]);
    one.refuses(&[("select k from sbtest1 where id = 10", "70170")]);
    one.answers(&[
        ("rollback", "Transaction rolled back."),
        ("select k from sbtest1 where id = 11", "27"),
    ]);
    // A row that another one has changed meanwhile: the statement sees what is there then.
    two.answers(&[("begin", "Transaction begun.")]);
    two.answers(&[("update sbtest1 set k = k + 1 where id = 10", "1 row updated.")]);
    let waiting = one.begin("update sbtest1 set k = k * 2 where id = 10 returning k");
    std::thread::sleep(std::time::Duration::from_millis(100));
    two.answers(&[("commit", "Transaction committed.")]);
    assert_eq!(waiting.get(), "200");
    one.answers(&[("begin read only", "Transaction begun.")]);
    one.refuses(&[("update sbtest1 set k = 1 where id = 10", "read-only")]);
    one.answers(&[("rollback", "Transaction rolled back.")]);
}

#[test]
fn a_change_of_a_table_makes_its_plans_again() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    for sql in TABLES {
        one.run(sql);
    }
    let query = "select * from mixed where a = 2";
    one.answers(&[(query, "2,x,-3.00,1999-12-31,,0.0,7,false")]);
    two.run("alter table mixed add column z int default 8");
    one.answers(&[(query, "2,x,-3.00,1999-12-31,,0.0,7,false,8")]);
    two.run("alter table mixed drop column f");
    one.answers(&[(query, "2,x,-3.00,1999-12-31,,7,false,8")]);
    two.run("alter table mixed rename column z to zz");
    one.answers(&[("select zz from mixed where a = 2", "8")]);
    let by_k = "select id from sbtest1 where k = 49 order by id limit 1";
    one.answers(&[(by_k, "7")]);
    two.run("drop index k_1");
    one.answers(&[(by_k, "7")]);
    two.run("truncate table sbtest1");
    one.answers(&[(by_k, ""), ("insert into sbtest1 values (7, 49, 'x', 'y')", "1 row inserted.")]);
    two.run("create index k_2 on sbtest1 (k)");
    one.answers(&[(by_k, "7")]);
    two.run("drop table sbtest1");
    one.refuses(&[(by_k, "00942")]);
    let cache = one.run("select gets = gethits + misses, invalidations > 3 from v$librarycache");
    assert_eq!(cache, "true,true");
}

#[test]
fn the_library_shows_statements_without_their_constants() {
    let database = TestDatabase::new();
    let at = database.session();
    for sql in TABLES {
        at.run(sql);
    }
    for number in 0..5 {
        at.run(&format!("select c from sbtest1 where id = {number}"));
    }
    at.answers(&[
        (
            "select sql_text, executions, rows_processed, hits, loads, elapsed_time > 0 from v$sql \
             where sql_text like 'select c%'",
            "select c from sbtest1 where id = $10000,5,4,4,1,true",
        ),
        ("set cellar.fast_path = off", "cellar.fast_path is off."),
        ("select c from sbtest1 where id = 3", "c3"),
        ("select executions from v$sql where sql_text like 'select c%'", "5"),
        ("set cellar.fast_path to on", "cellar.fast_path is on."),
    ]);
    at.refuses(&[("set cellar.fast_path = maybe", "on or off")]);
}

#[test]
fn explain_tells_of_the_fast_path_and_its_index() {
    let database = TestDatabase::new();
    let at = database.session();
    for sql in TABLES {
        at.run(sql);
    }
    let head = |sql: &str, wanted: &str| {
        let told = at.run(sql);
        assert!(told.contains(wanted), "{sql}: {told}");
    };
    head(
        "explain select c from sbtest1 where id = 17",
        "fast path: sbtest1 by index sbtest1_pkey (id = 17)",
    );
    head(
        "explain update sbtest1 set c = 'x' where k = -3 and id > 5",
        "fast path: sbtest1 by index k_1 (k = -3)",
    );
    head("explain insert into sbtest1 (id) values (9)", "fast path: rows of sbtest1");
    at.run("set cellar.fast_path = off");
    assert!(!at.run("explain select c from sbtest1 where id = 17").contains("fast path"));
    // What changes or locks rows is a query first, by the index where that is less.
    for (sql, wanted) in [
        ("explain update sbtest1 set c = 'x' where id = 17", "verb: \"update\""),
        (
            "explain delete from sbtest1 using sbtest1 b where sbtest1.id = b.k",
            "verb: \"delete from\"",
        ),
        ("explain insert into sbtest1 select * from sbtest1 where k = 3", "verb: \"insert into\""),
        ("explain select * from sbtest1 where k < 3 for update", "verb: \"lock\""),
    ] {
        let told = at.run(sql);
        assert!(told.contains(wanted) && told.contains("sbtest1"), "{sql}: {told}");
    }
    at.states(&[("explain update sbtest1 set nothing = 1", "42703")]);
}
