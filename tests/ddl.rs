//! What defines tables in the heap, by SQL through the program: indexes, ALTER TABLE, sequences, views.

#![cfg(feature = "sql")]

mod program;

use std::path::Path;

use program::{answers, database, done, out, refused, sql};

/// Statements that are refused, each with its number and words of its message, and change nothing.
fn all_refused(at: &Path, statements: &[(&str, &str, &str)]) {
    for (statement, number, words) in statements {
        let text = refused(at, statement);
        assert!(text.contains(number) && text.contains(words), "{statement}: {text}");
    }
}

/// How a query reads.
fn plan(at: &Path, query: &str) -> String {
    out(&done(at, &["sql", "db", "-c", &format!("explain {query}")]))
}

/// A database with a table of so many goods.
fn goods(count: u64) -> tempfile::TempDir {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table goods (id bigint primary key, name varchar(20), price numeric(8, 2), made date)",
    );
    sql(
        at,
        &format!(
            "insert into goods select value, 'good ' || value, (value % 100) * 1.5, date '2026-01-01' + \
             cast(value % 365 as int) from generate_series(1, {count}) s(value)"
        ),
    );
    dir
}

#[test]
fn an_index_is_built_of_the_rows_that_are_there_and_is_used() {
    let dir = goods(5000);
    let at = dir.path();
    assert!(sql(at, "create index on goods (price, name desc)").contains("goods_price_name_idx"));
    let by_price = "select count(*) from goods where price = 3";
    assert!(plan(at, by_price).contains("by index goods_price_name_idx"), "{}", plan(at, by_price));
    answers(at, &[(by_price, "50"), ("select count(*) from goods where price > 147", "50")]);
    // Changes that come behind it are in it.
    sql(at, "insert into goods values (9001, 'new', 3, null), (9002, null, null, null)");
    sql(at, "update goods set price = 3 where id = 1");
    sql(at, "delete from goods where id = 2");
    answers(at, &[(by_price, "51")]);
    let name = "select id from goods where price = 3 and name = 'new'";
    answers(at, &[(name, "9001")]);
    // A second of the same columns has the next name.
    assert!(sql(at, "create index on goods (price, name)").contains("goods_price_name_idx1"));
    let notice =
        sql(at, "create index concurrently if not exists made on goods using btree (made)");
    assert!(notice.contains("Index made created") && notice.contains("CONCURRENTLY"), "{notice}");
    let again = sql(at, "create index if not exists made on goods (id)");
    assert!(again.contains("there already"), "{again}");
    answers(at, &[("select count(*) from goods where made = date '2026-01-03'", "13")]);
    assert!(sql(at, "drop index made, goods_price_name_idx").contains("dropped"));
    assert!(sql(at, "drop index if exists made").contains("no such index"));
    assert!(plan(at, by_price).contains("goods_price_name_idx1"));
    answers(at, &[(by_price, "51")]);
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn a_unique_index_refuses_rows_that_are_the_same_and_takes_nulls() {
    let dir = goods(1000);
    let at = dir.path();
    sql(at, "insert into goods select id + 1000, name, price, made from goods where id in (7, 8)");
    let text = refused(at, "create unique index one on goods (price, made)");
    assert!(text.contains("CELLAR-01452") && text.contains("one"), "{text}");
    sql(at, "delete from goods where id > 1000");
    let text = refused(at, "create unique index one on goods (price)");
    assert!(text.contains("key (price)=(0.00) is there twice"), "{text}");
    assert!(refused(at, "drop index one").contains("CELLAR-01418"), "nothing is left of it");
    sql(at, "insert into goods (id) values (2001), (2002), (2003)");
    sql(at, "create unique index one on goods (name)");
    all_refused(
        at,
        &[
            ("insert into goods values (3000, 'good 7')", "CELLAR-00001", "one"),
            ("update goods set name = 'good 8' where id = 9", "CELLAR-00001", "(name)=(good 8)"),
        ],
    );
    sql(at, "insert into goods (id) values (2004)");
    answers(at, &[("select id from goods where name = 'good 77'", "77")]);
}

#[test]
fn what_cannot_be_indexed_is_told() {
    let dir = goods(10);
    let at = dir.path();
    sql(at, "create index name on goods (name)");
    sql(at, "create table kept as select 1 as a");
    sql(at, "create table long (a text) using heap");
    sql(at, "insert into long values (repeat('x', 9000))");
    all_refused(
        at,
        &[
            ("create index name on goods (id)", "CELLAR-00955", "an index"),
            ("create index kept on goods (id)", "CELLAR-00955", "a table"),
            ("create table name (a int primary key)", "CELLAR-00955", "an index"),
            ("create table c (a int constraint name primary key)", "CELLAR-00955", "an index"),
            ("create index on goods (nosuch)", "CELLAR-00904", "id, name, price, made"),
            ("create index on nosuch (a)", "CELLAR-00942", "nosuch"),
            ("create index on kept (a)", "CELLAR-03001", "USING heap"),
            ("create index on goods (lower(name))", "CELLAR-03001", "expression"),
            ("create index on goods (name) where id > 3", "CELLAR-03001", "WHERE"),
            ("create index on goods using gin (name)", "CELLAR-03001", "GIN"),
            ("create index on goods (id asc nulls first)", "CELLAR-03001", "NULLS FIRST"),
            ("create index on long (a)", "CELLAR-01450", "too long"),
            ("drop index goods_pkey", "CELLAR-02429", "drop constraint goods_pkey"),
            ("drop index goods", "CELLAR-01418", "no index"),
            ("begin; create index on goods (id)", "CELLAR-03001", "in a transaction"),
        ],
    );
    // Names that are made up are those of nothing else.
    sql(at, "create table it_pkey (a int primary key)");
    sql(at, "create table it (a int primary key)");
    let text = refused(at, "insert into it values (1), (1)");
    assert!(text.contains("it_pkey1"), "{text}");
}
