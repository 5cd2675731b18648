//! Aggregations that a scan of the heap does on rows as they are stored: the same answers as DataFusion's.

use crate::database::{Session, TestDatabase};

/// A table with values of all kinds, many of them NULL, some of them extreme.
fn fill(session: &Session<'_>) {
    session.run(
        "create table t (id int primary key, a smallint, b int, c bigint, r real, d double precision, \
         n numeric(12, 2), w numeric(38, 0), s text, l text, f boolean, day date, at timestamp)",
    );
    session.run(
        "insert into t select i, case when i % 5 > 0 then i % 7 end, \
         case when i % 11 > 0 then i * 31 % 1000 - 500 end, \
         i * 4000000000 - 900, case when i % 3 > 0 then i / 4.0 end, i * 0.5 - 100, \
         case when i % 4 > 0 then i * 1.25 - 300 end, \
         case when i % 2 = 0 then 12345678901234567890123456789 * (i % 9) else i end, \
         case when i % 6 > 0 then 'k' || (i % 4) end, repeat('long ', (i % 5)::int) || (i % 13), \
         case when i % 7 > 0 then i % 2 = 0 end, date '2020-01-01' + (i % 40)::int, \
         timestamp '2020-01-01 00:00:00' + interval '1 second' * (i % 100) \
         from generate_series(1, 6000) as g(i)",
    );
}

/// What aggregations give where the scan does them, and where it may not: of rows that are limited.
#[track_caller]
fn same(session: &Session<'_>, calls: &str, rest: &str) {
    let own = session.run(&format!("select {calls} from t {rest}"));
    let limited = format!("select {calls} from (select * from t limit 1000000) as u {rest}");
    assert_eq!(own, session.run(&limited), "select {calls} from t {rest}");
    assert!(!own.starts_with("CELLAR-"), "{own}");
}

const CALLS: [&str; 6] = [
    "count(*), count(b), count(s), sum(b), sum(c), sum(n), sum(w)",
    "avg(b), avg(n), min(n), max(n), min(w), max(w), min(a), max(c)",
    "min(s), max(s), min(l), max(l), min(day), max(day), min(at), max(at)",
    "sum(r), sum(d), avg(d), min(r), max(d)",
    "sum(n * (1 - n)), sum(n * n + 3), sum(b * 2), sum(a + b), sum(b - 7)",
    "max(f::int), count(f), sum(n * (1 - n) * (1 + n))",
];

#[test]
fn a_scan_sums_up_rows_as_datafusion_does() {
    let database = TestDatabase::new();
    let session = database.session();
    fill(&session);
    for calls in CALLS {
        for rest in ["", "where b > 100", "where id < 0", "where n < 50 and s in ('k1', 'k2')"] {
            same(&session, calls, rest);
        }
    }
    for keys in
        ["a", "s", "f", "a, s", "day", "at", "l", "s, l", "n, f", "w", "r", "c", "id", "a, b"]
    {
        for calls in CALLS {
            let of = format!("{keys}, {calls}");
            same(&session, &of, &format!("group by {keys} order by {keys}"));
            same(&session, &of, &format!("where b < 0 group by {keys} order by {keys}"));
        }
    }
    let plan = session.run("explain select s, count(*), sum(n) from t where b > 3 group by s");
    assert!(plan.contains("count(*), sum(n) group by s"), "{plan}");
    same(&session, "s, count(distinct a), sum(n)", "group by s having sum(n) > 0 order by s");
}

#[test]
fn a_scan_sums_up_what_its_transaction_has_changed() {
    let database = TestDatabase::new();
    let (session, other) = (database.session(), database.session());
    fill(&session);
    let before = other.run("select count(*), sum(b), max(l) from t");
    session.run("begin");
    session.run("update t set b = 1000000, l = repeat('x', 5000) where id <= 3");
    session.run("delete from t where id between 4 and 1003");
    session.run("insert into t (id, b, s) values (10001, null, 'new'), (10002, 5, 'new')");
    let sums =
        "select count(*), count(b), max(b), max(length(l)) from t where id <= 3 or id > 10000";
    session.answers(&[
        (sums, "5,4,1000000,5000"),
        ("select count(*), max(l) = repeat('x', 5000) from t", "5002,true"),
        ("select s, count(*), sum(b) from t where s = 'new' group by s", "new,2,5"),
        (
            "select max(l) = repeat('x', 5000), count(*) from t group by l having count(*) = 3",
            "true,3",
        ),
    ]);
    same(&session, "s, count(*), sum(b), min(l)", "group by s order by s");
    assert_eq!(other.run("select count(*), sum(b), max(l) from t"), before);
    session.run("rollback");
    assert_eq!(session.run("select count(*), sum(b), max(l) from t"), before);
}

#[test]
fn a_result_beyond_its_type_is_an_error_where_the_scan_computes_it() {
    let database = TestDatabase::new();
    let session = database.session();
    session.run("create table t (id int primary key, b int, w numeric(38, 0))");
    session.run(
        "insert into t values (1, 2147483647, 99999999999999999999999999999999999999), (2, 1, 7)",
    );
    let told = session.run("select sum(b + b) from t");
    assert!(told.contains("CELLAR-01426"), "{told}");
}

#[test]
fn few_keys_of_a_join_are_looked_up_in_an_index() {
    let database = TestDatabase::new();
    let session = database.session();
    fill(&session);
    session.run("create index on t (c)");
    session.run("create table few (k bigint primary key, what text)");
    session.run("insert into few select i * 997, 'w' || i from generate_series(1, 9) as g(i)");
    session.run(
        "insert into few values (40000000000 - 900, 'c'), (-5, 'none'), (5000000000000, 'far')",
    );
    let by_id = "from few join t on t.id = few.k where few.what like 'w%'";
    let by_c = "from t join few on t.c = few.k";
    session.answers(&[
        (&format!("select few.what, t.id {by_id} and t.id < 2500 order by t.id"), "w1,997 w2,1994"),
        (&format!("select count(*), sum(t.id), min(t.l) {by_c}"), "1,10,10"),
        (&format!("select count(*), sum(t.id) {by_id}"), "6,20937"),
    ]);
    // Where the types are the same EXPLAIN says that the index may be probed.
    let plan = session.run(&format!("explain select count(*), min(t.l) {by_c}"));
    assert!(plan.contains("probed: Some(\"t_c_idx\")"), "{plan}");
}

#[test]
fn a_join_asks_only_for_the_groups_that_it_needs() {
    let database = TestDatabase::new();
    let session = database.session();
    session.run("create table entry (account int, day int, amount int)");
    session.run(
        "insert into entry select a, d, a + d from generate_series(1, 2000) as x(a), \
         generate_series(1, 20) as y(d)",
    );
    session.run("create index on entry (account, day)");
    session.run("create table account (id int primary key, branch int, day int)");
    session.run(
        "insert into account select a, a % 400, a % 20 + 1 from generate_series(1, 2000) as g(a)",
    );
    let by_account = "select account, sum(amount) as total from entry group by account";
    let by_account = format!(
        "select id, total from account join ({by_account}) as e on e.account = id \
         where branch = 7 order by id"
    );
    let by_day = "select account, day, sum(amount) as total from entry group by account, day";
    let by_day = format!(
        "select id, total from account as a join ({by_day}) as e \
         on e.account = id and e.day = a.day where branch = 7 order by id"
    );
    session.answers(&[
        (&by_account, "7,350 407,8350 807,16350 1207,24350 1607,32350"),
        (&by_day, "7,15 407,415 807,815 1207,1215 1607,1615"),
        (
            "select count(*) from entry as o where amount > (select avg(amount) + 5 from entry as i \
             where i.account = o.account) and account in (select id from account where branch = 7)",
            "25",
        ),
        // Those that have no group keep their row.
        (
            "select id, (select count(*) from entry where account = id + 1990) from account \
             where branch = 7 order by id",
            "7,20 407,0 807,0 1207,0 1607,0",
        ),
        (
            "select count(*), sum(total) from account join (select account, sum(amount) as total \
             from entry group by rollup (account)) as e on e.account = id where branch = 7",
            "5,81750",
        ),
    ]);
    // Where NULL is a key like others, its group is asked for too.
    session.run("insert into entry values (null, 1, 3), (null, 2, 4)");
    session.run("create table few (account int)");
    session.run("insert into few values (null), (7)");
    session.answers(&[
        (
            "select few.account, total from few join (select account, sum(amount) as total \
             from entry group by account) as e on e.account is not distinct from few.account \
             order by total",
            ",7 7,350",
        ),
        ("select account from few intersect select account from entry order by 1", "7 "),
    ]);
    for query in [by_account, by_day] {
        let plan = session.run(&format!("explain {query}"));
        assert!(plan.contains("sum(amount) group by account"), "{plan}");
        assert!(plan.contains("probed: Some(\"entry_account_day_idx\")"), "{plan}");
    }
}

#[test]
fn groups_that_a_statement_has_twice_are_made_once() {
    let database = TestDatabase::new();
    let session = database.session();
    fill(&session);
    session.run("create view v as select a, sum(b) as total from t group by a");
    let query = "select a from v where total = (select max(total) from v)";
    assert_eq!(session.run(query), session.run("select a from v order by total desc limit 1"));
    let plan = session.run(&format!("explain {query}"));
    assert!(plan.contains("Shared"), "{plan}");
    // Not where one of them has other rows.
    let other = "select v.a, v.total from v join (select a, sum(b) as total from t where b > 0 \
                 group by a) as u on u.a = v.a and u.total = v.total";
    assert!(!session.run(&format!("explain {other}")).contains("Shared"));
}
