//! Views by SQL through the program: kept as they were made, over what is kept with them.

#![cfg(feature = "sql")]

use std::path::Path;

use crate::program::{answers, database, done, refused, sql};

/// Statements that are refused, each with words of its message, and change nothing.
fn all_refused(at: &Path, statements: &[(&str, &str)]) {
    for (statement, words) in statements {
        let text = refused(at, statement);
        assert!(text.contains(words), "{statement}: {text}");
    }
}

/// A database with goods and what was sold of them.
fn shop() -> tempfile::TempDir {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table goods (id int primary key, name text, price numeric(8, 2));
         insert into goods values (1, 'pen', 2), (2, 'ink', 5.5), (3, 'book', 20);
         create table sold (id serial primary key, good int, count int);
         insert into sold (good, count) values (1, 10), (2, 2), (1, 5), (3, 1)",
    );
    dir
}

#[test]
fn a_view_is_kept_and_shows_what_its_tables_have_now() {
    let dir = shop();
    let at = dir.path();
    let made = sql(
        at,
        "create view takings (good, \"Sum\") as -- what came in
         select g.name, sum(s.count * g.price)
         from goods g join sold s on s.good = g.id group by g.name",
    );
    assert!(made.contains("View takings created"), "{made}");
    let query = "select good, \"Sum\" from takings order by good";
    answers(at, &[(query, "book,20.00 ink,11.00 pen,30.00")]);
    sql(at, "insert into sold (good, count) values (3, 2)");
    answers(
        at,
        &[
            (query, "book,60.00 ink,11.00 pen,30.00"),
            ("select count(*) from takings where \"Sum\" > 20", "2"),
            ("select t.good from takings t join goods g on g.name = t.good where g.id = 2", "ink"),
            (
                "select table_type from information_schema.tables where table_name = 'takings'",
                "VIEW",
            ),
        ],
    );
    // Over another one, and in one transaction with its table.
    sql(
        at,
        "create view best as select * from takings where \"Sum\" > 20; create view one as select 1 as a",
    );
    answers(at, &[("select count(*) from best", "2"), ("select a from one", "1")]);
    sql(at, "begin; create table t (a int) using heap; create view v as select a from t; rollback");
    all_refused(at, &[("select * from v", "does not exist"), ("drop view v", "does not exist")]);
    sql(
        at,
        "begin; create table t (a int) using heap; create view v as select a + 1 as b from t;
         insert into t values (1); commit",
    );
    answers(at, &[("select b from v", "2")]);
    assert!(sql(at, "drop view if exists nothing").contains("no such view"));
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn columns_of_a_view_stay_what_they_were() {
    let dir = shop();
    let at = dir.path();
    sql(at, "create view everything as select *, price * 2 as twice from goods");
    sql(at, "alter table goods add column made date default date '2026-01-01'");
    answers(at, &[("select * from everything where id = 1", "1,pen,2.00,4.00")]);
    sql(
        at,
        "create or replace view everything as select id, name, price, price * 3 as twice, made from goods",
    );
    answers(at, &[("select * from everything where id = 1", "1,pen,2.00,6.00,2026-01-01")]);
    all_refused(
        at,
        &[
            ("create view everything as select 1 as a", "already a view \"everything\""),
            ("create or replace view everything as select id from goods", "cannot be dropped"),
            (
                "create or replace view everything as select id, name as n, price, price as twice, made from goods",
                "cannot be changed to \"n\"",
            ),
            (
                "create or replace view everything as select id, name, price, 'a' as twice, made from goods",
                "data type of view column \"twice\"",
            ),
            ("create or replace view goods as select 1 as a", "CELLAR-00955"),
            ("create view two as select 1 as a, 2 as a", "CELLAR-00957"),
            ("create view two (a, b) as select 1", "more names"),
            ("create materialized view two as select 1 as a", "MATERIALIZED VIEW"),
            ("create view two as select * from nothing", "does not exist"),
            ("create view two as insert into goods values (9)", "CELLAR-00900"),
            (
                "create or replace view everything as select id, name, price, twice, made from everything",
                "read itself",
            ),
            ("create table everything (a int primary key)", "CELLAR-00955"),
            ("create sequence everything", "already a view"),
        ],
    );
}

#[test]
fn what_a_view_reads_does_not_go_away_under_it() {
    let dir = shop();
    let at = dir.path();
    sql(
        at,
        "create view cheap as select name from goods where price < 10;
         create view few as select c.name from cheap c;
         create view counts as select good, count from sold",
    );
    all_refused(
        at,
        &[
            ("drop table goods", "view \"cheap\" needs it"),
            ("drop view cheap", "view \"few\" needs it"),
            ("alter table goods drop column price", "view \"cheap\" needs it"),
            ("alter table goods rename column name to label", "needs it"),
            ("alter table goods rename to things", "needs it"),
            ("alter table goods alter column price type numeric(10, 3)", "needs it"),
            ("drop table cheap", "is a view"),
            ("drop view goods", "is a table"),
            ("alter table cheap add column a int", "is a view"),
            ("truncate cheap", "a view: \"cheap\""),
            ("insert into cheap values ('x')", "a view: \"cheap\""),
            ("update cheap set name = 'x'", "a view: \"cheap\""),
            ("delete from cheap", "a view: \"cheap\""),
            ("create index on cheap (name)", "is a view"),
        ],
    );
    // What no view reads may change.
    sql(at, "alter table sold rename column id to number");
    let told = sql(at, "alter table goods drop column price cascade");
    assert!(told.contains("altered"), "{told}");
    all_refused(
        at,
        &[("select * from few", "does not exist"), ("select * from cheap", "does not exist")],
    );
    sql(
        at,
        "create view names as select name from goods; create view upper_names as select upper(name) as n from names",
    );
    let told = sql(at, "drop table goods cascade");
    assert!(told.contains("view names was dropped") && told.contains("upper_names"), "{told}");
    sql(at, "drop table sold, t cascade".replace(", t", "").as_str());
    all_refused(at, &[("select * from counts", "does not exist")]);
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn views_over_files_and_columns_need_no_heap_and_temporary_ones_end_with_their_session() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table c (a int, b text) using columnar; insert into c values (1, 'x'), (2, 'y')",
    );
    sql(at, "create view v as select b, a * 10 as ten from c where a > 1");
    answers(at, &[("select * from v", "y,20")]);
    sql(at, "copy (select 7 as seven) to '+DATA/seven.parquet'");
    sql(at, "create view f as select seven from '+DATA/seven.parquet'");
    answers(at, &[("select seven from f", "7"), ("select count(*) from v", "1")]);
    all_refused(at, &[("drop table c", "view \"v\" needs it")]);
    let told = sql(at, "create temp view t as select 1 as a; select a from t");
    assert!(told.contains("as long as this session"), "{told}");
    all_refused(at, &[("select * from t", "does not exist")]);
    // With the first table in the heap the views go there, too.
    sql(at, "create table h (a int primary key); drop view f");
    answers(at, &[("select * from v", "y,20")]);
    sql(at, "drop table c cascade");
    all_refused(at, &[("select * from v", "does not exist")]);
    assert!(done(at, &["validate", "db"]).status.success());
}
