//! Types of columns beyond those of Arrow: uuid, json, jsonb, and Oracle's names of texts and bytes.

#![expect(clippy::disallowed_methods, reason = "a test of the real clock")]

use crate::database::TestDatabase;
use cellar_sql::Parameter;

/// Each as PostgreSQL 15 answers it.
const ANSWERS: &[(&str, &str)] = &[
    (
        "select * from t",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,\
         \"{\"\"a\"\": [1, 2.50, {\"\"x\"\": null}], \"\"bb\"\": 3}\",1.01,x",
    ),
    (
        "select doc->'a'->0, doc->>'bb', doc #>> '{a,1}', doc #> '{a,2}', doc->'a' -> -1, \
         doc->'a'->2->>'x' from t",
        "1,3,2.50,\"{\"\"x\"\": null}\",\"{\"\"x\"\": null}\",",
    ),
    (
        "select doc @> '{\"bb\":3}', doc ? 'a', doc ?| array['z','a'], doc ?& '{z,a}', \
         '{\"a\":[1]}'::jsonb <@ doc from t",
        "true,true,true,false,true",
    ),
    (
        "select jsonb_typeof(doc), jsonb_array_length(doc->'a'), \
         jsonb_extract_path_text(doc,'a','0') from t",
        "object,3,1",
    ),
    (
        "select doc || '{\"c\": true}'::jsonb from t",
        "\"{\"\"a\"\": [1, 2.50, {\"\"x\"\": null}], \"\"c\"\": true, \"\"bb\"\": 3}\"",
    ),
    (
        "update t set doc = doc || '{\"a\": 0}'::jsonb returning doc",
        "\"{\"\"a\"\": 0, \"\"bb\"\": 3}\"",
    ),
    (
        "select '[1,2]'::jsonb || '3'::jsonb, '{\"a\":1}'::jsonb = '{ \"a\" : 1 }'::jsonb",
        "\"[1, 2, 3]\",true",
    ),
    (
        "select jsonb '{\"b\":1,\"a\":1.10}', json '{\"b\":1, \"a\":1}'",
        "\"{\"\"a\"\": 1.10, \"\"b\"\": 1}\",\"{\"\"b\"\":1, \"\"a\"\":1}\"",
    ),
    ("insert into t (note) values ('y') returning doc, length(id::text)", "{},36"),
    ("select count(*) from t where doc->>'a' = '0'", "1"),
    ("select note from t where id = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "x"),
];

#[test]
fn uuid_and_jsonb_are_kept_in_one_form_and_asked() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run(
        "create table t (id uuid primary key default gen_random_uuid(), \
         doc jsonb default '{}'::jsonb, n numeric(10,2), note text)",
    );
    at.answers(&[(
        "insert into t values ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', \
         '{\"bb\":1, \"a\":[1,2.50,{\"x\":null}], \"bb\":3}', 1.005, 'x')",
        "1 row inserted.",
    )]);
    at.answers(ANSWERS);
    at.refuses(&[
        ("insert into t (doc) values ('{\"a\":}')", "character 6"),
        ("insert into t (id) values ('A0EEBC999C0B4EF8BB6D6BB9BD380A11')", "CELLAR-00001"),
        ("update t set id = 'x'", "invalid input syntax for type uuid: \"x\""),
        ("select '{1}'::jsonb", "invalid input syntax for type json"),
        ("select 'x'::uuid", "invalid input syntax for type uuid: \"x\""),
        ("select jsonb_array_length('{}')", "cannot get array length"),
    ]);
    let insert = at.prepare("insert into t (id, doc) values ($1, $2) returning doc").unwrap();
    let text = |text: &str| Parameter::Text(text.to_owned());
    let id = "B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
    assert_eq!(at.execute(&insert, &[text(id), text("[ 1,2 ]")]), "\"[1, 2]\"");
    at.answers(&[
        (
            "copy t (id, doc) from stdin;\nc0eebc999c0b4ef8bb6d6bb9bd380a11\t{\"k\":[]}\n\\.\n",
            "1 row copied.",
        ),
        (
            "copy (select id, doc from t where doc->'k' = '[]') to stdout",
            "c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\t{\"k\": []}\n",
        ),
        ("alter table t add column more json default '[1]'", "Table t altered."),
        ("select distinct more from t", "[1]"),
    ]);
    at.refuses(&[("copy t (doc) from stdin;\n{\n\\.\n", "invalid input syntax for type json")]);
}

#[test]
fn columns_have_the_types_of_oracle_too() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run(
        "create table t (a number(10) primary key, b varchar2(10) default 'x', c clob, d raw(16), \
         e number(8, 2), f blob, g number, h interval, i time, j date)",
    );
    at.answers(&[
        (
            "insert into t values (1, 'b', 'long', decode('00ff', 'hex'), 1.5, decode('01', 'hex'), 2, \
             interval '1 day', '12:00', '2024-02-29')",
            "1 row inserted.",
        ),
        ("insert into t (a) values (2)", "1 row inserted."),
        ("update t set d = decode('0a', 'hex'), c = c || '!' where a = 1", "1 row updated."),
        (
            "copy (select a, b, c, d, e, f from t order by a desc) to stdout",
            "2\tx\t\\N\t\\N\t\\N\t\\N\n1\tb\tlong!\t\\\\x0a\t1.50\t\\\\x01\n",
        ),
        ("select a from t where d = decode('0a', 'hex')", "1"),
        ("select count(*) from t where c is not null and j = date '2024-02-29'", "1"),
    ]);
    at.refuses(&[("insert into t (a, b) values (3, 'more than ten')", "CELLAR-12899")]);
}

#[test]
fn arrays_are_kept_given_and_copied() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table t (id int primary key, n int[] default '{1}', note text[])");
    let insert = at.prepare("insert into t (id, n) values ($1, $2) returning n").unwrap();
    let (one, list) = (Parameter::Integer(1), vec![Parameter::Integer(7), Parameter::Null]);
    assert_eq!(at.execute(&insert, &[one, Parameter::List(list)]), "\"{7,NULL}\"");
    let text = Parameter::Text("{3,4}".to_owned());
    assert_eq!(at.execute(&insert, &[Parameter::Integer(2), text]), "\"{3,4}\"");
    let long = "x".repeat(9_000);
    at.answers(&[
        ("copy t from stdin;\n3\t{5,NULL}\t{a,\"b c\"}\n4\t\\N\t{}\n\\.\n", "2 rows copied."),
        ("select id from t where 4 = any(n)", "2"),
        ("select x from t, unnest(note) as x", "a b c"),
        (&format!("update t set note = note || '{long}'::text where id = 3"), "1 row updated."),
        ("select cardinality(note), length(note[3]) from t where id = 3", "3,9000"),
        ("update t set id = 5 where id = 3", "1 row updated."),
        ("select length(note[3]) from t where id = 5", "9000"),
        ("alter table t add column more bigint[] default '{8}'", "Table t altered."),
        ("select more[1] from t where id = 1", "8"),
        ("delete from t where n && '{7}'", "1 row deleted."),
    ]);
    at.refuses(&[
        ("create index on t (n)", "column n has arrays, of which there is no index"),
        ("create table u (n int[] primary key)", "column n has arrays, of which there is no index"),
        ("create table u (n int[][])", "CELLAR-00902"),
        ("insert into t values (9, '{{1,2}}')", "an array of arrays as a text"),
        ("copy t from stdin;\n9\t{x}\t{}\n\\.\n", "line 1"),
    ]);
}

#[test]
fn advisory_locks_belong_to_sessions_and_to_transactions() {
    let database = TestDatabase::new();
    let (one, other) = (database.session(), database.session());
    one.run("create table t (a int primary key, b int)");
    one.run("insert into t values (1, 1)");
    one.answers(&[
        ("select pg_advisory_lock(7)", "\"\""),
        ("select pg_try_advisory_lock(7)", "true"),
    ]);
    other.answers(&[
        ("select pg_try_advisory_lock(7)", "false"),
        ("select pg_try_advisory_lock(0, 7)", "true"),
        ("select pg_try_advisory_lock_shared(7)", "false"),
        ("select pg_try_advisory_lock_shared(8)", "true"),
        ("select pg_advisory_unlock(7)", "false"),
    ]);
    one.answers(&[
        ("select pg_try_advisory_lock_shared(8)", "true"),
        ("select pg_try_advisory_lock(8)", "false"),
        ("select pg_advisory_unlock(7)", "true"),
    ]);
    // It was locked twice.
    other.answers(&[("select pg_try_advisory_lock(7)", "false")]);
    let waiting = other.begin("select pg_advisory_lock(7)");
    std::thread::sleep(std::time::Duration::from_millis(50));
    one.answers(&[("select pg_advisory_unlock(7)", "true")]);
    assert_eq!(waiting.get(), "\"\"");
    other.answers(&[("select pg_advisory_unlock_all()", "\"\"")]);
    // Of a transaction, until that ends.
    one.run("begin");
    one.answers(&[("select pg_advisory_xact_lock(9)", "\"\"")]);
    other.run("set lock_timeout = '30ms'");
    other.answers(&[("select pg_try_advisory_xact_lock(9)", "false")]);
    other.refuses(&[("select pg_advisory_lock(9)", "30006")]);
    one.run("commit");
    other.answers(&[("select pg_try_advisory_lock(9)", "true")]);
    other.run("set lock_timeout = 0");
    // A circle of a row and a lock.
    one.run("begin");
    one.run("update t set b = 2");
    other.run("begin");
    let waiting = one.begin("select pg_advisory_lock(9)");
    std::thread::sleep(std::time::Duration::from_millis(100));
    other.refuses(&[("update t set b = 3", "CELLAR-00060")]);
    other.run("rollback");
    other.answers(&[("select pg_advisory_unlock(9)", "true")]);
    assert_eq!(waiting.get(), "\"\"");
    one.run("commit");
    // The end of a session lets go.
    drop(one);
    other.answers(&[("select pg_try_advisory_lock(9)", "true")]);
}

#[test]
fn a_statement_sleeps_as_long_as_it_asks_and_can_be_stopped() {
    let database = TestDatabase::new();
    let (one, other) = (database.session(), database.session());
    let began = std::time::Instant::now();
    one.answers(&[
        ("select pg_sleep(0.1)", "\"\""),
        ("select pg_sleep(0), pg_sleep(-1), pg_sleep(null) is null", "\"\",\"\",true"),
        ("select pg_sleep_for('100 milliseconds')", "\"\""),
        ("select pg_sleep_until(clock_timestamp() + interval '0.1 s')", "\"\""),
        ("select pg_sleep_until('2001-01-01')", "\"\""),
        ("select count(pg_sleep(0.01)) from generate_series(1, 5)", "5"),
    ]);
    assert!(began.elapsed() >= std::time::Duration::from_millis(350));
    let asleep = one.begin("select pg_sleep(100000000)");
    database.wait_for(|_| {
        other.run("select count(*) from v$session where event = 'PL/SQL lock timer'") == "1"
    });
    asleep.give_up();
    database.wait_for(|_| {
        other.run("select count(*) from v$session where event = 'PL/SQL lock timer' and state = 'WAITING'") == "0"
    });
    one.answers(&[("select 1", "1")]);
}

/// What would lose digits is refused: numeric without digits keeps ten behind the point.
#[test]
fn a_number_finer_than_numeric_is_refused_and_not_rounded() {
    let database = TestDatabase::new();
    let at = database.session();
    at.run("create table f (id int primary key, n numeric, m numeric(6, 2)) using heap");
    let sqls = [
        "insert into f values (1, 0.000000000049, null)",
        "insert into f values (1, '0.000000000049', null)",
        "insert into f values (1, '4.9e-11', null)",
        "insert into f select 1, 0.000000000049, null",
        "select '0.000000000049'::numeric",
    ];
    at.states(&sqls[..4].iter().map(|sql| (*sql, "22003")).collect::<Vec<_>>());
    at.refuses(&sqls.map(|sql| (sql, "10 digits behind the point")));
    at.done(&["insert into f values (1, 0.0000000001, 0.005)", "update f set n = 1.5"]);
    at.states(&[("update f set n = 0.00000000001 where id = 1", "22003")]);
}
