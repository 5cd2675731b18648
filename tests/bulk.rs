//! Statements that add many rows at once: by the direct path, all of them or none.

#![cfg(feature = "sql")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod sessions;

use sessions::TestDatabase;

/// Rows that are far more than a transaction takes here.
const MANY: &str = "generate_series(1, 300000) g(i)";

#[test]
fn many_rows_are_inserted_into_an_empty_table_with_indexes() {
    let database = TestDatabase::new();
    let session = database.session();
    session.answers(&[
        ("create table t (a int primary key, b text not null, c int, unique (c), check (a > 0)) using heap",
         "Table t created."),
        ("create index t_b on t (b)", "Index t_b created."),
        (&format!("insert into t select i, repeat('x', 100) || (i % 1000), nullif(i, i / 2 * 2) from {MANY}"),
         "300000 rows inserted."),
        ("select count(*), sum(a), count(c) from t", "300000,45000150000,150000"),
        ("select a from t where a = 123456", "123456"),
        ("select a from t where c = 77777", "77777"),
        ("select count(*) from t where b = repeat('x', 100) || 7", "300"),
        // They change as any others.
        ("update t set c = 2 where a = 300000", "1 row updated."),
        ("delete from t where a = 5", "1 row deleted."),
        ("insert into t values (5, 'again', 5)", "1 row inserted."),
    ]);
    session.refuses(&[
        ("insert into t values (300000, 'x', null)", "key (a)=(300000) is there already"),
        ("insert into t values (300001, 'x', 3)", "key (c)=(3) is there already"),
    ]);
}

#[test]
fn a_failure_in_any_row_leaves_nothing() {
    let database = TestDatabase::new();
    let session = database.session();
    session.answers(&[
        (
            "create table t (a int primary key, b text not null, check (a <> 299999)) using heap",
            "Table t created.",
        ),
        ("create table u (a int unique, b text) using heap", "Table u created."),
    ]);
    let text = "repeat('y', 100)";
    session.refuses(&[
        (&format!("insert into t select i, {text} from {MANY}"), "violates check constraint"),
        (
            &format!(
                "insert into t select i, nullif({text}, repeat('y', i - 299898)) \
                from generate_series(1, 299998) g(i)"
            ),
            "column \"b\" of table \"t\" cannot be NULL",
        ),
        (
            &format!(
                "insert into t select 1 / (299997 - i), {text} from generate_series(1, 299998) g(i)"
            ),
            "CELLAR-",
        ),
        (
            &format!("insert into u select nullif(i, 299999) % 299998, {text} from {MANY}"),
            "unique constraint \"u_a_key\" is violated: key (a)=(2)",
        ),
    ]);
    session.answers(&[
        ("select count(*) from t", "0"),
        ("select count(*) from u", "0"),
        (
            &format!("insert into u select nullif(i % 2, 0) * i, {text} from {MANY}"),
            "300000 rows inserted.",
        ),
        ("select count(*), count(a) from u", "300000,150000"),
    ]);
}

#[test]
fn many_rows_are_added_to_a_table_that_has_others() {
    let database = TestDatabase::new();
    let (session, other) = (database.session(), database.session());
    session.answers(&[
        ("create table t (a int primary key, b text) using heap", "Table t created."),
        ("insert into t values (0, 'first'), (150000, 'taken')", "2 rows inserted."),
    ]);
    let insert = |from: &str| format!("insert into t select i, repeat('z', 100) from {from}");
    session.refuses(&[
        (&insert("generate_series(100000, 200000) g(i)"), "key (a)=(150000) is there already"),
        (
            &insert("(select i / 2 + 200000 i from generate_series(1, 100000) h(i)) g"),
            "unique constraint \"t_pkey\" is violated: key (a)=(2",
        ),
    ]);
    session.answers(&[
        ("select count(*) from t", "2"),
        (&insert("generate_series(1, 149999) g(i)"), "149999 rows inserted."),
        ("select count(*), sum(a) from t", "150001,11250075000"),
        ("select b from t where a = 150000", "taken"),
        ("select count(*) from t where a between 70000 and 70009", "10"),
        // Twice as many as there are, of themselves.
        ("insert into t select a + 1000000, b from t", "150001 rows inserted."),
        ("select count(*) from t", "300002"),
    ]);
    other.answers(&[("select count(*) from t where a >= 1000000", "150001")]);
    // A transaction sees its rows, and takes no more of them than a commit does.
    session.answers(&[
        ("begin", "Transaction begun."),
        (
            "insert into t select i, 'few' from generate_series(2000001, 2001000) g(i)",
            "1000 rows inserted.",
        ),
        ("select count(*) from t where a > 2000000", "1000"),
        ("rollback", "Transaction rolled back."),
        ("begin", "Transaction begun."),
    ]);
    session.refuses(&[(
        "insert into t select i, repeat('w', 1900) from generate_series(2000001, 2300000) g(i)",
        "is too large",
    )]);
    session
        .answers(&[("rollback", "Transaction rolled back."), ("select count(*) from t", "300002")]);
    let begun = session.begin("select max(a) from t");
    assert_eq!(begun.get(), "1150000");
}

#[test]
fn a_table_of_a_query_is_made_in_the_heap() {
    let database = TestDatabase::new();
    let session = database.session();
    session.answers(&[
        (
            &format!("create table t using heap as select i a, repeat('q', 100) b from {MANY}"),
            "Table t created, 300000 rows.",
        ),
        ("select count(*), sum(a) from t", "300000,45000150000"),
        ("update t set b = 'changed' where a = 17", "1 row updated."),
        ("select b from t where a = 17", "changed"),
        ("create table if not exists t using heap as select 1 a", "Table t is there already."),
        ("begin", "Transaction begun."),
        (
            "create table u using heap as select a, b from t where a < 100",
            "Table u created, 99 rows.",
        ),
        ("select count(*) from u", "99"),
        ("rollback", "Transaction rolled back."),
    ]);
    session.refuses(&[
        ("select * from u", "does not exist"),
        (
            "create table w using heap as select 1 / (i - 5) a from generate_series(1, 9) g(i)",
            "CELLAR-",
        ),
        ("select * from w", "does not exist"),
    ]);
    let begun = session.begin("select count(*) from t");
    assert_eq!(begun.get(), "300000");
}
