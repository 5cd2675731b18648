//! Reading tables in the heap: by pages and by indexes, as they are stored and as DataFusion decodes them, the answers
//! are the same.

use crate::database::{Session, TestDatabase};

/// Columns of all types, with NULLs, NaN, both zeros, long values, and a column that came later.
const TABLE: &str = "create table t (id bigint primary key, i int, s smallint, n numeric(10, 2), d date, \
     at timestamp, b boolean, f double precision, r real, txt varchar, raw bytea, long varchar)";

const INDEXES: [&str; 7] = [
    "create index t_i on t (i)",
    "create index t_n on t (n desc)",
    "create index t_txt on t (txt, i)",
    "create index t_d on t (d, i desc)",
    "create index t_f on t (f)",
    "create index t_at on t (at)",
    "create index t_b on t (b, s)",
];

/// So many rows from a number on, of which every eleventh has NULLs.
fn rows(from: usize, count: usize) -> String {
    let value = |text: String, is_null: bool| if is_null { "null".to_owned() } else { text };
    let row = |id: usize| {
        let is_null = id.is_multiple_of(11);
        let float = match id % 13 {
            0 => "'NaN'".to_owned(),
            1 => "-0.0".to_owned(),
            2 => "0.0".to_owned(),
            other => format!("{}.25", other as i64 - 7),
        };
        let long = match id % 97 {
            0 => "repeat('long ', 900)".to_owned(),
            _ => format!("'l{}'", id % 50),
        };
        let columns = [
            id.to_string(),
            value((id as i64 % 40 - 20).to_string(), is_null),
            value((id % 7).to_string(), id.is_multiple_of(5)),
            value(format!("{}.{:02}", id * 7919 % 1000, id % 100), is_null),
            value(format!("date '2024-01-01' + interval '{} days'", id % 60), is_null),
            value(format!("timestamp '2024-01-01 00:00:00' + interval '{id} seconds'"), false),
            value(id.is_multiple_of(3).to_string(), id.is_multiple_of(17)),
            value(format!("cast({float} as double precision)"), id.is_multiple_of(19)),
            value(format!("cast({float} as real)"), is_null),
            value(format!("'t{}'", id % 50), id.is_multiple_of(23)),
            value(format!("cast('b{}' as bytea)", id % 9), is_null),
            value(long, id.is_multiple_of(29)),
        ];
        format!("({})", columns.join(", "))
    };
    let rows: Vec<String> = (from..from + count).map(row).collect();
    format!("insert into t values {}", rows.join(", "))
}

const CONDITIONS: [&str; 38] = [
    "id = 17",
    "id in (3, 4, 5, 900, 100000)",
    "id = 3 or id = 900",
    "id between 100 and 220",
    "id > 890",
    "i = 5",
    "i = 5 and s = 3",
    "i in (1, 2, 3, 4, 19, null)",
    "i not in (1, 2)",
    "i is null",
    "i is not null and i < -15",
    "n < 100.5",
    "n >= 900.00 and n < 950",
    "n = 7.19",
    "d = date '2024-01-05'",
    "d in (date '2024-01-05', date '2024-02-01') and i > 0",
    "d > date '2024-02-20'",
    "d > date '2024-01-10' and d <= date '2024-01-12' and i <= 3",
    "at < timestamp '2024-01-01 00:01:40'",
    "b",
    "not b",
    "b and s = 6",
    "b is null",
    "f = 0",
    "f > 3",
    "f = 'NaN'",
    "f < -1 or f is null",
    "r >= 0.25",
    "txt = 't7'",
    "txt in ('t7', 't8', 'none')",
    "txt like 't1%'",
    "txt > 't3' and txt < 't4' and i = 4",
    "length(long) > 100",
    "long = 'l7'",
    "long like '%ong %'",
    "long is null and i > 0",
    "long > 'lo' or i = 3",
    "s * 2 = 6 and i < s",
];

fn database() -> TestDatabase {
    let database = TestDatabase::new();
    let session = database.session();
    session.run(TABLE);
    INDEXES.iter().for_each(|index| assert!(session.run(index).contains("created"), "{index}"));
    for from in (1..=900).step_by(300) {
        assert_eq!(session.run(&rows(from, 300)), "300 rows inserted.");
    }
    database
}

/// Whether each condition has the same rows where rows are asked as they are stored, and where DataFusion asks them.
#[track_caller]
fn are_same(session: &Session<'_>, when: &str) {
    for condition in CONDITIONS {
        let of = |condition: &str| {
            let query = "select count(*), sum(id), count(txt), sum(length(long)), sum(n)";
            session.run(&format!("{query} from t where {condition}"))
        };
        let (own, other) = (of(condition), of(&format!("coalesce(({condition}), false)")));
        assert!(!own.starts_with("CELLAR-"), "{condition}: {own}");
        assert_eq!(own, other, "{when}: {condition}");
    }
}

#[test]
fn rows_are_the_same_however_they_are_asked() {
    let database = database();
    let session = database.session();
    are_same(&session, "as they were inserted");
    // Rows that move, go and come; a column that rows lack.
    session.answers(&[
        ("update t set txt = repeat('m', 300) where id % 10 = 3", "90 rows updated."),
        ("delete from t where id % 10 = 4", "90 rows deleted."),
    ]);
    are_same(&session, "changed");
    session.run("alter table t add column later int default 7");
    session.run("insert into t (id, later) values (2001, 8), (2002, null)");
    session.answers(&[
        ("select count(*) from t where later = 7", "810"),
        ("select count(*) from t where later is null", "1"),
        ("select id, later from t where later > 7", "2001,8"),
    ]);
    are_same(&session, "with another column");
}

#[test]
fn a_transaction_sees_its_own_rows_and_nobody_elses() {
    let database = database();
    let (one, other) = (database.session(), database.session());
    let seen = other.run("select count(*), sum(i), sum(id) from t");
    one.run("begin");
    one.answers(&[
        ("update t set i = i + 1, txt = 'own' where id < 50", "49 rows updated."),
        ("delete from t where id between 100 and 120", "21 rows deleted."),
    ]);
    one.run(&rows(3000, 40));
    are_same(&one, "in the transaction");
    are_same(&other, "beside it");
    other.answers(&[("select count(*), sum(i), sum(id) from t", &seen)]);
    one.answers(&[
        ("select count(*) from t where txt = 'own'", "49"),
        ("select max(id) from t", "3039"),
        ("select min(id) from t where id >= 100", "121"),
        ("select id from t order by id desc limit 2", "3039 3038"),
    ]);
    other
        .answers(&[("select max(id) from t", "900"), ("select count(*) from t where i = 5", "20")]);
    one.run("rollback");
    one.answers(&[("select count(*), sum(i), sum(id) from t", &seen)]);
    one.refuses(&[("select count(*) from t where i / (id - id) = 1", "zero")]);
    // A snapshot stays as it is, whatever others commit.
    one.run("begin isolation level repeatable read");
    one.answers(&[("select count(*), sum(i), sum(id) from t", &seen)]);
    assert_eq!(other.begin("delete from t where id % 2 = 0").get(), "450 rows deleted.");
    one.answers(&[("select count(*), sum(i), sum(id) from t", &seen)]);
    are_same(&one, "behind its snapshot");
    one.run("commit");
    one.answers(&[("select count(*) from t", "450")]);
}

#[test]
fn the_first_of_an_order_come_by_index() {
    let database = database();
    let session = database.session();
    let plan = |query: &str| session.run(&format!("explain {query}"));
    for (query, index) in [
        ("select id, n from t order by id limit 5", "t_pkey"),
        ("select id, n from t order by id desc limit 5", "t_pkey"),
        ("select id from t where id > 100 order by id desc limit 3", "t_pkey"),
        ("select n from t order by n desc limit 7", "t_n"),
        ("select n from t order by n limit 7", "t_n"),
        ("select d, i from t order by d, i desc limit 9", "t_d"),
        ("select i from t where d = date '2024-01-05' order by i limit 4", "t_d"),
        ("select at from t where s > 3 order by at desc limit 4", "t_at"),
        ("select txt from t where txt > 't2' order by txt limit 6", "t_txt"),
        ("select i from t order by i limit 3 offset 2", "t_i"),
        ("select min(i) from t", "t_i"),
        ("select max(i) from t", "t_i"),
        ("select min(n) from t", "t_n"),
        ("select max(n) from t", "t_n"),
        ("select max(i) from t where d = date '2024-01-05'", "t_d"),
        ("select max(id) from t where id < 500", "t_pkey"),
        ("select max(i) from t where i is null", "t_i"),
    ] {
        let told = plan(query);
        assert!(told.contains(&format!("Some((\"{index}\", ")), "{query}: {told}");
        let plain = query.replace("from t", "from (select * from t limit 100000)");
        assert_eq!(session.run(query), session.run(&plain), "{query}");
    }
    // Floating-point numbers have two zeros, which a key does not tell apart; NULLs are where an index has them.
    for query in [
        "select f from t order by f limit 3",
        "select i from t order by i nulls first limit 3",
        "select max(f) from t",
    ] {
        let told = plan(query);
        assert!(!told.contains("index: Some"), "{query}: {told}");
    }
}

#[test]
fn keys_tell_what_rows_need_not_be_read_for() {
    let database = database();
    let session = database.session();
    let only = |query: &str| session.run(&format!("explain {query}")).contains("without rows");
    for query in [
        "select count(*) from t where id < 100",
        "select i from t where i = 3",
        "select txt, i from t where txt = 't7'",
        "select n from t where n > 990",
        "select b, s from t where b and s in (1, 2)",
        "select d, i from t where d = date '2024-01-05'",
    ] {
        assert!(only(query), "{query}");
    }
    assert!(!only("select f from t where f > 3"));
    assert!(!only("select s from t where i = 3"));
    session.answers(&[
        ("select n from t where n > 990 and n < 992", "991.89 990.10"),
        ("select distinct txt from t where txt = 't7'", "t7"),
        ("select count(*) from t where i = 3", "20"),
    ]);
}

#[test]
fn joins_ask_the_other_side_for_their_keys() {
    let database = database();
    let session = database.session();
    session.run("create table few (k bigint primary key, word varchar)");
    session.run("insert into few values (5, 'five'), (77, 'many'), (899, 'more'), (5000, 'none')");
    session.answers(&[
        ("select word, t.id from few join t on t.id = few.k order by 2", "five,5 many,77 more,899"),
        ("select count(*) from few join t on t.i = few.k", "20"),
        ("select count(*) from t where id in (select k from few)", "3"),
        ("select count(*) from t where id not in (select k from few)", "897"),
        ("select word from few left join t on t.id = few.k where t.id is null", "none"),
        ("select count(*) from few a join t on t.id = a.k join few b on b.k = t.id", "3"),
    ]);
    session.run("begin");
    session.run("insert into t (id, i) values (5000, 1)");
    session.answers(&[("select word from few join t on t.id = few.k where i = 1", "none")]);
    session.run("rollback");
}
