//! Sequences by SQL through the program: their values, columns that have one, what goes with what.

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

#[test]
fn a_sequence_gives_each_value_once_and_goes_on_after_a_close() {
    let dir = database();
    let at = dir.path();
    assert!(sql(at, "create sequence s").contains("Sequence s created"));
    answers(at, &[("select nextval('s')", "1"), ("select nextval('s')", "2")]);
    // One for each row, and none for rows that there are not.
    answers(
        at,
        &[
            ("select count(distinct nextval('s')) from generate_series(1, 1000)", "1000"),
            ("select nextval('s') from generate_series(1, 10) where false", ""),
            ("select s.nextval", "1003"),
            ("select nextval('public.S')", "1004"),
            ("select nextval(null)", ""),
        ],
    );
    sql(
        at,
        "create sequence down as smallint increment -5 minvalue -12 maxvalue 10 start with 3 cache 7",
    );
    answers(
        at,
        &[
            ("select nextval('down')", "3"),
            ("select nextval('down')", "-2"),
            ("select nextval('down')", "-7"),
            ("select nextval('down')", "-12"),
        ],
    );
    let text = refused(at, "select nextval('down')");
    assert!(text.contains("CELLAR-08004") && text.contains("minimum value of sequence"), "{text}");
    sql(at, "alter sequence down cycle");
    answers(at, &[("select nextval('down')", "10"), ("select nextval('down')", "5")]);
    assert!(sql(at, "create sequence if not exists s").contains("already exists"));
    assert!(sql(at, "drop sequence s, down").contains("dropped"));
    assert!(sql(at, "drop sequence if exists s").contains("no such sequence"));
    let text = refused(at, "select nextval('s')");
    assert!(text.contains("CELLAR-02289") && text.contains("\"s\" does not exist"), "{text}");
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn sequences_are_set_restarted_and_read_in_the_session() {
    let dir = database();
    let at = dir.path();
    sql(at, "create sequence s; create sequence other start 100");
    all_refused(
        at,
        &[
            ("select currval('s')", "not yet defined in this session"),
            ("select lastval()", "lastval is not yet defined"),
            ("select currval('none')", "does not exist"),
            ("select setval('s', 0)", "out of bounds for sequence \"s\" (1..9223372036854775807)"),
            ("create sequence s", "already a sequence \"s\""),
            ("create sequence z increment 0", "INCREMENT must not be zero"),
            ("create sequence z minvalue 5 maxvalue 4", "must be less than MAXVALUE"),
            ("create sequence z start 0", "START value (0) cannot be less than MINVALUE (1)"),
            ("create sequence z cycle cycle", "redundant"),
            ("create sequence z as text", "smallint, integer or bigint"),
            ("alter sequence none restart", "does not exist"),
            ("drop sequence none", "does not exist"),
            ("create temp sequence public.z", "in the schema of its session"),
        ],
    );
    answers(
        at,
        &[
            ("select nextval('s'), nextval('s')", "1,2"),
            ("select nextval('other')", "100"),
            ("select currval('s'), lastval()", "2,100"),
            ("select setval('s', 50), lastval()", "50,100"),
            ("select nextval('s'), currval('s')", "51,51"),
        ],
    );
    sql(at, "select setval('s', 70, false)");
    answers(at, &[("select nextval('s')", "70")]);
    sql(at, "alter sequence s increment by 10");
    answers(at, &[("select nextval('s')", "80")]);
    sql(at, "alter sequence s restart with 7");
    answers(at, &[("select nextval('s')", "7")]);
    sql(at, "alter sequence s restart");
    answers(at, &[("select nextval('s')", "1")]);
    let text = refused(at, "alter sequence s maxvalue 20 restart with 21");
    assert!(text.contains("RESTART value (21) cannot be greater than MAXVALUE (20)"), "{text}");
    sql(at, "alter sequence s increment 1 no minvalue maxvalue 3");
    answers(at, &[("select nextval('s')", "2"), ("select nextval('s')", "3")]);
    assert!(refused(at, "select nextval('s')").contains("maximum value of sequence \"s\" (3)"));
}

#[test]
fn serial_columns_and_their_sequences_belong_together() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t (id serial primary key, small smallserial, big bigserial, a text)");
    sql(
        at,
        "insert into t (a) values ('x'), ('y'); insert into t values (default, 9, default, 'z')",
    );
    answers(
        at,
        &[
            ("select sum(id), sum(small), sum(big) from t", "6,12,6"),
            ("select id from t where a = 'z'", "3"),
        ],
    );
    // As PostgreSQL's: a value of one's own leaves the sequence where it is.
    sql(at, "insert into t (id, a) values (1000, 'own')");
    sql(at, "insert into t (a) select 'row ' || value from generate_series(1, 500) s(value)");
    answers(at, &[("select count(distinct id), max(id) from t where id < 1000", "503,503")]);
    answers(at, &[("insert into t (a) values ('r') returning id, big", "504,505")]);
    sql(at, "update t set id = default where a = 'own'");
    answers(at, &[("select id from t where a = 'own'", "505")]);
    all_refused(
        at,
        &[
            ("drop sequence t_id_seq", "a DEFAULT of table \"t\" needs it"),
            ("create table t_id_seq (a int primary key)", "already used by a sequence"),
            ("insert into t (id, a) values (null, 'n')", "CELLAR-01400"),
            ("create table u (id serial default 5)", "more than one of DEFAULT"),
            ("select * from t_small_seqq", "does not exist"),
        ],
    );
    sql(at, "drop sequence t_small_seq cascade");
    assert!(refused(at, "insert into t (a) values ('q')").contains("CELLAR-01400"));
    sql(at, "alter table t drop column small; insert into t (a) values ('q')");
    // The sequence of a column goes with it, and those of a table with that.
    sql(at, "alter table t drop column big");
    assert!(refused(at, "select nextval('t_big_seq')").contains("does not exist"));
    sql(at, "alter table t rename to other; alter table other rename column id to number");
    sql(at, "insert into other (a) values ('renamed'); truncate other");
    sql(at, "insert into other (a) values ('goes on'); truncate table other restart identity");
    sql(at, "insert into other (a) values ('first')");
    answers(at, &[("select number, a from other", "1,first")]);
    sql(at, "drop table other");
    assert!(refused(at, "select nextval('t_id_seq')").contains("does not exist"));
    assert!(sql(at, "create sequence t_id_seq").contains("created"));
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn identity_columns_keep_their_values_for_themselves() {
    let dir = database();
    let at = dir.path();
    sql(
        at,
        "create table t (id int generated always as identity (start with 10 increment by 5) primary key, a text)",
    );
    sql(at, "insert into t (a) values ('x'), ('y'); insert into t values (default, 'z')");
    answers(at, &[("select string_agg(cast(id as text), ' ' order by id) from t", "10 15 20")]);
    all_refused(
        at,
        &[
            ("insert into t values (1, 'n')", "cannot be inserted into column \"id\""),
            ("insert into t (id, a) values (default, 'm'), (1, 'n')", "CELLAR-32795"),
            ("insert into t select 1, 'n'", "cannot be inserted"),
            ("update t set id = 4", "can only be updated to DEFAULT"),
            ("drop sequence t_id_seq cascade", "identity column \"id\""),
            ("alter table t alter column id drop default", "is an identity column"),
            ("alter table t alter column id drop not null", "is an identity column"),
            ("create table u (id text generated always as identity)", "must be smallint"),
            ("create table u (id int generated always as identity default 1)", "more than one"),
        ],
    );
    answers(at, &[("select count(*) from t", "3")]);
    sql(at, "insert into t overriding system value values (1, 'one')");
    sql(at, "insert into t (id, a) overriding user value values (1, 'not one')");
    sql(at, "update t set id = default where a = 'z'");
    answers(
        at,
        &[("select string_agg(id || a, ' ' order by id) from t", "1one 10x 15y 25not one 30z")],
    );
    sql(at, "create table d (a text, id bigint generated by default as identity)");
    sql(at, "insert into d values ('x', 7); insert into d (a) values ('y')");
    sql(at, "insert into d overriding user value values ('z', 99)");
    answers(at, &[("select string_agg(id || a, ' ' order by id) from d", "1y 2z 7x")]);
    // Added to a table that has rows.
    sql(at, "create table r (a text) using heap; insert into r values ('x'), ('y'), ('z')");
    sql(at, "alter table r add column id int generated always as identity, add column n serial");
    answers(at, &[("select count(distinct id), max(id), max(n) from r", "3,3,3")]);
    sql(at, "alter table r add column k int not null default 4");
    sql(at, "alter table r alter column k drop default");
    sql(at, "alter table r alter column k add generated by default as identity (start 5)");
    sql(at, "insert into r (a) values ('new')");
    answers(at, &[("select id, n, k from r where a = 'new'", "4,4,5")]);
}

#[test]
fn sequences_go_with_transactions_and_their_values_do_not() {
    let dir = database();
    let at = dir.path();
    sql(at, "create table t (id serial primary key, a text)");
    sql(
        at,
        "begin; insert into t (a) values ('x'); create sequence s; select nextval('s'); rollback",
    );
    assert!(refused(at, "select nextval('s')").contains("does not exist"));
    sql(at, "insert into t (a) values ('y')");
    answers(at, &[("select id from t", "2")]);
    sql(
        at,
        "begin; alter sequence t_id_seq restart with 100; rollback; insert into t (a) values ('z')",
    );
    answers(at, &[("select max(id) from t", "3")]);
    sql(at, "begin; create table u (id serial, a text); insert into u (a) values ('u'); commit");
    answers(at, &[("select id, a from u", "1,u")]);
    sql(at, "create sequence owned owned by u.a");
    sql(at, "drop table u");
    assert!(refused(at, "drop sequence owned").contains("does not exist"));
    sql(at, "create sequence free owned by t.a; alter sequence free owned by none; drop table t");
    answers(at, &[("select nextval('free')", "1")]);
    assert!(done(at, &["validate", "db"]).status.success());
}
