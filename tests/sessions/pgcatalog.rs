//! Queries of clients to PostgreSQL's catalogs, as they send them, and the answers.
//!
//! `tests/pgcatalog/CLIENT/NAME.sql` has the queries of one command, each with a semicolon at the end of a line;
//! `{t}` stands for the number of table `t`. `NAME.txt` has the answers, in PostgreSQL's own way of writing values.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::database::{Reply, Session, TestDatabase};
use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// What the queries are about.
const TABLES: [&str; 9] = [
    "create schema s",
    "create table t (id int primary key, name varchar(20) not null default 'x', \
     amount numeric(10,2), at timestamptz, ok boolean, constraint amount_check check (amount > 0))",
    "create unique index t_name on t (name, amount desc)",
    "create table s.u (a bigint generated always as identity, b text unique, c serial)",
    "create sequence q start with 5 increment by 2",
    "create view v as select id, name from t where ok",
    "comment on table t is 'a table'",
    "comment on column t.name is 'a name'",
    "comment on schema s is 'a schema'",
];

fn value(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return String::new();
    }
    match array.data_type() {
        DataType::Boolean => if array.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        DataType::List(_) => {
            let inner = array.as_list::<i32>().value(row);
            let all: Vec<String> = (0..inner.len()).map(|at| value(&inner, at)).collect();
            format!("{{{}}}", all.join(","))
        }
        _ => {
            let options = FormatOptions::default();
            ArrayFormatter::try_new(array, &options).unwrap().value(row).to_string()
        }
    }
}

/// The rows of a query, or its error.
fn rows(session: &Session<'_>, sql: &str) -> String {
    match session.tried(sql) {
        Ok(Reply::Rows(_, batches)) => {
            let mut text = String::new();
            for batch in batches {
                for row in 0..batch.num_rows() {
                    let all: Vec<String> =
                        batch.columns().iter().map(|column| value(column, row)).collect();
                    writeln!(text, "{}", all.join("|")).unwrap();
                }
            }
            text
        }
        Ok(other) => format!("{other:?}\n"),
        Err(error) => format!("{error}\n"),
    }
}

/// A query with the numbers of the objects that it names between braces.
fn with_numbers(session: &Session<'_>, sql: &str) -> String {
    let mut made = String::new();
    let mut rest = sql;
    while let Some((before, behind)) = rest.split_once('{') {
        let name = behind.split('}').next().unwrap();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
        made.push_str(before);
        match is_name {
            true => {
                let number = session.run(&format!("select '{name}'::regclass::oid"));
                made.push_str(&number);
                rest = &behind[name.len() + 1..];
            }
            false => {
                made.push('{');
                rest = behind;
            }
        }
    }
    made + rest
}

/// The same, the other way round.
fn with_names(session: &Session<'_>, text: &str) -> String {
    let known = "select c.oid, case nspname when 'public' then '' else nspname || '.' end || relname \
                 from pg_class c join pg_namespace n on n.oid = relnamespace \
                 where nspname in ('public', 's')";
    let names: std::collections::BTreeMap<String, String> = rows(session, known)
        .lines()
        .map(|line| line.split_once('|').unwrap())
        .map(|(number, name)| (number.to_owned(), format!("{{{name}}}")))
        .collect();
    let mut made = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        match names.get(digits) {
            Some(name) => made.push_str(&word.replace(digits, name)),
            None => made.push_str(word),
        }
    }
    made
}

fn files(client: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pgcatalog").join(client);
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|ending| ending == "sql")).collect();
    all.sort();
    all
}

/// Asks all queries of a client; what is answered otherwise than it must be.
fn wrong_answers(session: &Session<'_>, client: &str) -> String {
    let mut wrong = String::new();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pgcatalog").join(client);
    std::fs::create_dir_all(&scratch).unwrap();
    for file in files(client) {
        let text = std::fs::read_to_string(&file).unwrap();
        let queries = text.trim_end().trim_end_matches(';').split(";\n");
        let answers: Vec<String> =
            queries.map(|query| rows(session, &with_numbers(session, query))).collect();
        let found = with_names(session, &answers.join(";\n"));
        std::fs::write(scratch.join(file.with_extension("txt").file_name().unwrap()), &found)
            .unwrap();
        let wanted = std::fs::read_to_string(file.with_extension("txt")).unwrap_or_default();
        if found != wanted {
            write!(wrong, "-- {}\n{found}-- instead of\n{wanted}\n", file.display()).unwrap();
        }
    }
    wrong
}

fn asked_as(client: &str) {
    let database = TestDatabase::new();
    let session = database.session();
    session.done(&TABLES);
    let wrong = wrong_answers(&session, client);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn psql_is_answered() {
    asked_as("psql");
}

#[test]
fn an_object_keeps_its_number() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&TABLES);
    one.done(&["create table c using columnar as select 1 as x", "create temp table p (a int)"]);
    let numbers = |names: [&str; 7]| {
        names
            .map(|name| one.run(&format!("select '{name}'::regclass::oid")).parse::<u32>().unwrap())
    };
    let before = numbers(["t", "t_pkey", "t_name", "q", "v", "c", "s.u"]);
    let mut all = before.to_vec();
    all.extend(numbers(["p", "s.u_a_seq", "s.u_c_seq", "pg_class", "pg_tables", "s.u_b_key", "t"]));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 13, "{all:?}");
    let schema = one.run("select oid from pg_namespace where nspname = 's'");
    one.done(&[
        "insert into t (id) values (1)",
        "truncate t",
        "alter table t alter column amount type double precision using 1",
        "alter table t drop column at",
        "alter table t add column more text",
        "drop view v",
        "alter index t_name rename to t_other",
        "alter table t rename to t2",
        "alter table t2 set schema s",
        "alter schema s rename to s2",
        "truncate c",
        "alter sequence q set schema s2",
    ]);
    let after = numbers(["s2.t2", "s2.t_pkey", "s2.t_other", "s2.q", "c", "c", "s2.u"]);
    for at in [0, 1, 2, 3, 5, 6] {
        assert_eq!(before[at], after[at], "number {at} of {before:?}");
    }
    assert_eq!(one.run("select oid from pg_namespace where nspname = 's2'"), schema);
    // What others see is the same, and what is not committed is seen by one alone.
    let other = database.session();
    assert_eq!(other.run("select 's2.t2'::regclass::oid"), before[0].to_string());
    one.done(&["begin", "create table new (a int)"]);
    let own = one.run("select 'new'::regclass::oid");
    other.refuses(&[
        ("select 'new'::regclass::oid", "relation \"new\" does not exist"),
        ("select 'p'::regclass", "relation \"p\" does not exist"),
    ]);
    one.done(&["commit"]);
    assert_eq!(other.run("select 'new'::regclass::oid"), own);
}

#[test]
fn functions_are_as_in_postgresql() {
    let database = TestDatabase::new();
    let one = database.session();
    one.done(&TABLES);
    one.answers(&[
        ("select current_database(), current_user, session_user", "cellar,cellar,cellar"),
        ("select current_schemas(true)", "\"{pg_catalog,public}\""),
        ("select version() like 'PostgreSQL 15%'", "true"),
        ("select 't'::regclass", "t"),
        ("select 's.u'::regclass::text, 's.u'::regclass::oid = 's.u'::pg_catalog.regclass", "s.u,true"),
        ("select 'int4'::regtype, 'character varying'::regtype::oid", "integer,1043"),
        ("select '0'::regclass, 'pg_class'::regclass::oid, 11::regnamespace", "-,1259,pg_catalog"),
        ("select to_regclass('nothing') is null, to_regclass('t')::regclass", "true,t"),
        ("select format_type(1700, 655366), format_type(23, null), format_type(0, 0)", "\"numeric(10,2)\",integer,-"),
        (
            "select pg_get_indexdef('t_name'::regclass)",
            "\"CREATE UNIQUE INDEX t_name ON public.t USING btree (name, amount DESC)\"",
        ),
        ("select pg_get_indexdef('t_name'::regclass, 2, false)", "amount"),
        ("select pg_get_serial_sequence('s.u', 'a'), pg_get_serial_sequence('t', 'id')", "s.u_a_seq,"),
        ("select pg_get_userbyid(10), pg_get_userbyid(77)", "cellar,unknown (OID=77)"),
        ("select obj_description('t'::regclass), obj_description('t'::regclass, 'pg_class')", "a table,a table"),
        ("select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = 's'", "a schema"),
        ("select col_description('t'::regclass, 2), col_description('t'::regclass, 1)", "a name,"),
        ("select has_table_privilege('t', 'select'), has_schema_privilege('s', 'usage')", "true,true"),
        ("select pg_table_is_visible('t'::regclass), pg_table_is_visible('s.u'::regclass)", "true,false"),
        ("select pg_table_size('t') >= 0, pg_relation_size('t'::regclass) >= 0", "true,true"),
        ("select pg_size_pretty(10239::bigint), pg_size_pretty(10240::bigint)", "10239 bytes,10 kB"),
        ("select pg_size_pretty(1536000::bigint), pg_size_pretty(-20971520::bigint)", "1500 kB,-20 MB"),
        ("select quote_ident('a B'), quote_literal('it''s'), quote_nullable(null)", "\"\"\"a B\"\"\",'it''s',NULL"),
        ("select pg_typeof(1::int), pg_typeof('x'::text), pg_typeof(1.5::numeric(4,2))", "integer,text,numeric"),
        ("select format('%s %I %L %%', 'a', 'b c', 'd')", "\"a \"\"b c\"\" 'd' %\""),
        ("select pg_is_in_recovery(), pg_backend_pid() > 0, inet_server_addr() is null", "false,true,true"),
        ("select pg_encoding_to_char(6), pg_char_to_encoding('UTF8')", "UTF8,6"),
        (
            "select json_build_object('a', 1, 'b', true, 'c', null, 'd', 'e\"f')",
            "\"{\"\"a\"\" : 1, \"\"b\"\" : true, \"\"c\"\" : null, \"\"d\"\" : \"\"e\\\"\"f\"\"}\"",
        ),
        ("select count(*) from unnest('{1259,1247}'::pg_catalog.oid[]) as src(of)", "2"),
        (
            "select a.attname from pg_constraint con join pg_attribute a on \
             a.attrelid = con.conrelid and a.attnum = con.conkey[1] where con.conname = 't_pkey'",
            "id",
        ),
        (
            "select unnest(i.indkey), generate_subscripts(i.indkey, 1) from pg_index i \
             where i.indexrelid = 't_name'::regclass",
            "2,0 3,1",
        ),
        ("select indkey, indkey[0] from pg_index where indexrelid = 't_name'::regclass", "2 3,2"),
        ("select array_upper(array['a', 'b'], 1), array_lower(array[7], 1)", "2,1"),
        ("select array(select id from t), array(select x from (values (2), (1)) v(x) order by 1)", "{},\"{1,2}\""),
        ("select count(*) from pg_class where relname = 't' and relkind = any (array['r', 'p'])", "1"),
        ("select 'a' OPERATOR(pg_catalog.=) 'a' collate pg_catalog.\"default\"", "true"),
        ("select relname from pg_class where oid = 'pg_catalog.pg_type'::regclass", "pg_type"),
        ("select c.tableoid::regclass, c.relname from pg_class c where relname = 't'", "pg_class,t"),
        ("select count(*) from information_schema.columns where table_name = 't'", "5"),
        (
            "select columns.column_name from information_schema.columns where table_name = 't' and \
             ordinal_position = 2",
            "name",
        ),
    ]);
    one.refuses(&[
        ("select 'nothing'::regclass", "relation \"nothing\" does not exist"),
        ("select 'nothing'::regtype", "type \"nothing\" does not exist"),
        ("select has_table_privilege('nothing', 'select')", "\"nothing\" does not exist"),
        ("create table pg_catalog.x (a int)", "pg_catalog"),
        ("insert into pg_class (oid) values (1)", "pg_class"),
        ("drop table pg_catalog.pg_class", "pg_class"),
    ]);
}
