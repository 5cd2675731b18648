//! Definitions of tables in the heap, by SQL through the program: indexes, ALTER TABLE, sequences, views.

#![cfg(feature = "sql")]

use std::path::Path;

use crate::program::{answers, database, done, out, refused, sql};

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
    assert!(again.contains("already exists"), "{again}");
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
    assert!(text.contains("key (price)=(0.00) is duplicated"), "{text}");
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
        ],
    );
    // Names that are made up are those of nothing else.
    sql(at, "create table it_pkey (a int primary key)");
    sql(at, "create table it (a int primary key)");
    let text = refused(at, "insert into it values (1), (1)");
    assert!(text.contains("it_pkey1"), "{text}");
}

#[test]
fn columns_are_added_without_a_new_table_and_rows_of_before_have_their_values() {
    let dir = goods(3000);
    let at = dir.path();
    let told = sql(
        at,
        "alter table goods add column stock int default 7 not null, add note varchar(10), \
         add seen timestamp default now()",
    );
    assert!(told.contains("Table goods altered"), "{told}");
    answers(
        at,
        &[
            (
                "select count(*), sum(stock), count(note), count(distinct seen) from goods",
                "3000,21000,0,1",
            ),
            ("select stock from goods where id = 2999", "7"),
        ],
    );
    // What rows of before have stays, whatever the default is from now on.
    sql(at, "alter table goods alter stock set default 9, alter column note set default 'new'");
    sql(at, "insert into goods (id) values (4000)");
    sql(at, "update goods set note = 'x' where id = 1");
    sql(at, "alter table goods alter stock drop default, alter stock drop not null");
    sql(at, "insert into goods (id) values (4001)");
    let some = "select id, stock, note from goods where id in (1, 2, 4000, 4001) order by id";
    answers(at, &[(some, "1,7,x 2,7, 4000,9,new 4001,,new")]);
    // An index of it has rows of before, too.
    sql(at, "create index on goods (stock)");
    assert!(plan(at, "select count(*) from goods where stock = 7").contains("goods_stock_idx"));
    answers(
        at,
        &[
            ("select count(*) from goods where stock = 7", "3000"),
            ("select id from goods where stock = 9", "4000"),
        ],
    );
    assert!(sql(at, "alter table goods add if not exists stock int").contains("already exists"));
    sql(at, "delete from goods where id between 101 and 3999");
    // A long default, and one that differs from row to row, are in the rows.
    sql(
        at,
        "alter table goods add long text default repeat('ab', 5000), add dice double default random()",
    );
    answers(
        at,
        &[
            ("select count(*), min(length(long)), max(length(long)) from goods", "102,10000,10000"),
            ("select count(distinct dice) > 90 from goods", "true"),
            (some, "1,7,x 2,7, 4000,9,new 4001,,new"),
        ],
    );
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn a_column_that_was_dropped_is_gone_and_does_not_come_back() {
    let dir = goods(500);
    let at = dir.path();
    sql(at, "alter table goods add secret text default 'before'");
    sql(
        at,
        "create index both on goods (name, price); create index prices on goods (price desc, id)",
    );
    sql(
        at,
        "alter table goods add constraint few check (price < 1000 and secret <> ''), add unique (name)",
    );
    sql(at, "alter table goods drop column secret, drop column if exists nosuch");
    sql(at, "alter table goods add secret text");
    answers(
        at,
        &[
            ("select count(*), count(secret) from goods", "500,0"),
            ("select id, name, price from goods where id = 77", "77,good 77,115.50"),
        ],
    );
    // The check went with it, and what other columns are in stays.
    sql(at, "update goods set price = 5000 where id = 1");
    assert!(
        refused(at, "update goods set name = 'good 3' where id = 2").contains("goods_name_key")
    );
    sql(at, "alter table goods drop name cascade");
    assert!(refused(at, "drop index both").contains("CELLAR-01418"));
    let by_price = "select id from goods where price = 5000";
    assert!(plan(at, by_price).contains("by index prices"), "{}", plan(at, by_price));
    answers(at, &[(by_price, "1"), ("select count(*) from goods where price = 3", "5")]);
    sql(at, "insert into goods (id, price, secret) values (600, 5000, 'new')");
    answers(at, &[("select id, secret from goods where price = 5000 order by id", "1, 600,new")]);
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn names_types_and_constraints_change() {
    let dir = goods(300);
    let at = dir.path();
    sql(at, "alter table goods add constraint dear check (price >= 0 and price < 500)");
    sql(
        at,
        "alter table goods rename column price to \"Price\"; alter table goods rename to wares",
    );
    assert!(refused(at, "select * from goods").contains("CELLAR-00942"));
    assert!(refused(at, "update wares set \"Price\" = -1").contains("dear"));
    assert!(refused(at, "insert into wares (id) values (1)").contains("goods_pkey"));
    sql(at, "alter table wares rename constraint goods_pkey to wares_pkey");
    sql(at, "create index by_date on wares (made); alter index by_date rename to by_day");
    // Longer texts need no new rows; other types do.
    sql(at, "alter table wares alter name type varchar(40)");
    sql(at, "update wares set name = repeat('n', 40) where id = 3");
    sql(
        at,
        "alter table wares alter column id type int, alter made type timestamp, alter name type text",
    );
    let other_price =
        "alter table wares alter \"Price\" type int using cast(\"Price\" * 10 as int) + id";
    assert!(refused(at, other_price).contains("dear"), "conditions are asked of the new rows");
    sql(at, &format!("alter table wares drop constraint dear; {other_price}"));
    answers(
        at,
        &[
            (
                "select id, \"Price\", made, length(name) from wares where id = 3",
                "3,48,2026-01-04 00:00:00,40",
            ),
            ("select count(*) from wares where made = timestamp '2026-01-04 00:00:00'", "1"),
        ],
    );
    assert!(plan(at, "select id from wares where id = 3").contains("wares_pkey"));
    sql(at, "alter table wares drop constraint wares_pkey, drop constraint if exists nosuch");
    sql(at, "insert into wares (id, name) values (1, 'twice')");
    let text = refused(at, "alter table wares add primary key (id)");
    assert!(text.contains("CELLAR-01452") && text.contains("(id)=(1)"), "{text}");
    sql(at, "delete from wares where name = 'twice'; alter table wares add primary key (id)");
    assert!(refused(at, "insert into wares (id) values (1)").contains("wares_pkey"));
    sql(at, "alter table wares alter name set not null");
    assert!(refused(at, "update wares set name = null").contains("CELLAR-01400"));
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn what_a_table_cannot_become_is_told_and_nothing_changes() {
    let dir = goods(200);
    let at = dir.path();
    sql(at, "insert into goods (id) values (900)");
    sql(at, "create table kept as select 1 as a");
    all_refused(
        at,
        &[
            ("alter table goods alter price set not null", "CELLAR-01400", "900"),
            ("alter table goods add n int not null", "CELLAR-01400", "\"n\""),
            ("alter table goods add check (price < 100)", "CELLAR-02290", "goods_price_check"),
            (
                "alter table goods add n int check (n > 0) default 0",
                "CELLAR-02290",
                "goods_n_check",
            ),
            ("alter table goods add unique (price)", "CELLAR-01452", "goods_price_key"),
            ("alter table goods add primary key (name)", "CELLAR-02260", ""),
            ("alter table goods add name int", "CELLAR-00957", "name"),
            ("alter table goods add n nosuch", "CELLAR-", ""),
            ("alter table goods add n int default 'x'", "CELLAR-", "x"),
            ("alter table goods rename name to price", "CELLAR-00957", "price"),
            ("alter table goods rename to kept", "CELLAR-00955", "kept"),
            ("alter table goods drop nosuch", "CELLAR-00904", "its columns are"),
            ("alter table goods drop constraint nosuch", "CELLAR-02443", "goods_pkey"),
            ("alter table goods alter id drop not null", "CELLAR-01451", "primary key"),
            ("alter table goods alter name type int", "CELLAR-00932", "using"),
            ("alter table goods alter name type int using cast(name as int)", "CELLAR-", "good 1"),
            ("alter table goods alter name type varchar(5)", "CELLAR-12899", "5"),
            (
                "alter table goods drop price, alter id set default 1, drop nosuch",
                "CELLAR-00904",
                "",
            ),
            ("alter table goods add constraint goods_pkey check (id > 0)", "CELLAR-02264", ""),
            ("alter table nosuch add a int", "CELLAR-00942", "nosuch"),
            ("alter table kept add b int", "CELLAR-03001", "columnar"),
        ],
    );
    assert!(sql(at, "alter table if exists nosuch add a int").contains("no such table"));
    answers(
        at,
        &[
            ("select count(*), count(price), max(id) from goods", "201,200,900"),
            ("select * from goods where id = 7", "7,good 7,10.50,2026-01-08"),
        ],
    );
}
