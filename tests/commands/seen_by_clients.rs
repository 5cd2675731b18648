//! Results as clients see them beside rows: the names and types of columns, and the ends of sessions.

#![cfg(feature = "sql")]

use crate::program::{cellar, out};
use crate::wire::{
    Message, Wire, bind, describe, execute, message, parse, query, served, shown, sync,
};

/// Columns of a RowDescription, with the oids of their types.
fn columns(message: &Message) -> Vec<(String, u32)> {
    let mut rest = &message.body[2..];
    let mut found = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let name = String::from_utf8(rest[..end].to_vec()).unwrap();
        let behind = &rest[end + 1..];
        found.push((name, u32::from_be_bytes(behind[6..10].try_into().unwrap())));
        rest = &behind[18..];
    }
    found
}

/// The columns of a statement, asked before it runs and told when it does.
fn described(client: &mut Wire, sql: &str) -> Vec<(String, u32)> {
    client.send(&[parse("", sql, &[]), describe(b'S', ""), sync()]);
    let asked = client.answers().into_iter().find(|own| own.kind == b'T').unwrap();
    client.send(&[query(sql)]);
    let told = client.answers().into_iter().find(|own| own.kind == b'T').unwrap();
    assert_eq!(columns(&asked), columns(&told), "{sql}");
    columns(&told)
}

const INT8: u32 = 20;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const NUMERIC: u32 = 1700;

#[test]
fn columns_have_the_names_and_types_of_postgresql() {
    let served = served();
    let mut client = served.client();
    client.sql(
        "create table t (id int primary key, x int, name text); insert into t values (1, 2, 'a')",
    );
    for (sql, wanted) in [
        ("select 1, 3000000000", vec![("?column?", INT4), ("?column?", INT8)]),
        (
            "select count(*), x::text, x + 1 from t group by x",
            vec![("count", INT8), ("x", TEXT), ("?column?", INT4)],
        ),
        (
            "select sum(x), case when true then 1 end, coalesce(x, 0) from t group by x",
            vec![("sum", INT8), ("case", INT4), ("coalesce", INT4)],
        ),
        // By the fast path.
        (
            "select lower(name), upper(name), 5, coalesce(x, 0) from t where id = 1",
            vec![("lower", TEXT), ("upper", TEXT), ("?column?", INT4), ("coalesce", INT4)],
        ),
        ("select count(*), max(x) from t where id = 1", vec![("count", INT8), ("max", INT4)]),
        (
            "select 1::int, '1'::int8, 'a'::text",
            vec![("int4", INT4), ("int8", INT8), ("text", TEXT)],
        ),
        (
            "select *, count(*) over () from (select count(*) from t) q",
            vec![("count", INT8), ("count", INT8)],
        ),
        ("values (1)", vec![("column1", INT4)]),
        ("select sum(x::bigint), avg(x) from t", vec![("sum", NUMERIC), ("avg", NUMERIC)]),
    ] {
        let wanted: Vec<_> = wanted.into_iter().map(|(name, oid)| (name.to_owned(), oid)).collect();
        assert_eq!(described(&mut client, sql), wanted, "{sql}");
    }
    let shown = cellar(
        served.dir.path(),
        &["sql", "db", "-c", "select count(*), 1 + 1 from t", "--format", "csv"],
    );
    assert_eq!(out(&shown), "count,?column?\n1,2\n");
}

/// The number and the serial number of a client's session.
fn numbers(client: &mut Wire) -> String {
    let told =
        client.sql("select sid || ',' || serial# from v$session where sid = pg_backend_pid()");
    told.trim_start_matches('(').split(')').next().unwrap().to_owned()
}

#[test]
fn sessions_are_killed_by_their_numbers() {
    let served = served();
    let (mut admin, mut client) = (served.client(), served.client());
    admin.sql("create table t (id int primary key); insert into t values (1)");
    let (own, other) = (numbers(&mut admin), numbers(&mut client));
    assert_eq!(client.sql("begin; update t set id = 2 where id = 1"), "BEGIN UPDATE 1 T");
    let (sid, serial) = other.split_once(',').unwrap();
    let serial: u32 = serial.parse().unwrap();
    for (named, sqlstate) in [
        (format!("{sid},{}", serial + 1), "42704"),
        ("4000000000,1".to_owned(), "42704"),
        (own, "55006"),
        (sid.to_owned(), "22023"),
        ("x,y".to_owned(), "22023"),
    ] {
        assert_eq!(admin.sql(&format!("alter system kill session '{named}'")), sqlstate, "{named}");
    }
    let told =
        cellar(served.dir.path(), &["sql", "db", "-c", "alter system kill session '4000000,1'"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("00030") && told.contains("Next: select sid, serial#"), "{told}");
    // One that may end its transaction goes on until it has.
    let disconnect = format!("alter system disconnect session '{other}'");
    assert_eq!(admin.sql(&disconnect), "42601");
    assert_eq!(admin.sql(&format!("{disconnect} post_transaction")), "ALTER SYSTEM");
    assert_eq!(client.sql("insert into t values (3)"), "INSERT 0 1 T");
    assert_eq!(client.sql("commit"), "COMMIT");
    assert_eq!(shown(&[client.next().unwrap()]), "57P01");
    assert_eq!(client.next(), None);
    assert_eq!(admin.sql("select id from t order by id"), "(2) (3) SELECT 2");
    // One that is killed has its transaction undone, and lets its locks go.
    let mut client = served.client();
    assert_eq!(client.sql("begin; update t set id = 9 where id = 2"), "BEGIN UPDATE 1 T");
    let mut again = served.client();
    let other = {
        let sql = "select sid || ',' || serial# from v$session where sid = ";
        let pid = u32::from_be_bytes(client.key[..4].try_into().unwrap());
        let told = again.sql(&format!("{sql}{pid}"));
        told.trim_start_matches('(').split(')').next().unwrap().to_owned()
    };
    assert_eq!(
        admin.sql(&format!("alter system kill session '{other}' immediate")),
        "ALTER SYSTEM"
    );
    assert_eq!(shown(&[client.next().unwrap()]), "57P01");
    assert_eq!(client.next(), None);
    assert_eq!(admin.sql("update t set id = 4 where id = 2"), "UPDATE 1");
    // Who is no superuser may not.
    admin.sql("create role anna");
    assert_eq!(again.sql("set role anna"), "SET");
    let own = numbers(&mut admin);
    assert_eq!(again.sql(&format!("alter system kill session '{own}'")), "42501");
}

/// An uuid, as its text.
const ONE: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

#[test]
fn parameters_of_uuid_columns_are_uuids() {
    const UUID: u32 = 2950;
    const UUIDS: u32 = 2951;
    let served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key, u uuid); create table s (u uuid, id int)");
    for (sql, wanted) in [
        ("insert into t values ($1, $2)", vec![INT4, UUID]),
        ("update t set u = $1 where u = $2", vec![UUID, UUID]),
        ("select id from t where u = any($1)", vec![UUIDS]),
        ("select $1::uuid", vec![UUID]),
        ("select t.id from t join s on t.id = s.id where s.u = $1", vec![UUID]),
        ("select id from t where id = $1 and u::text = $2", vec![INT4, TEXT]),
        ("select relname from pg_class where relkind = any($1)", vec![1009]),
    ] {
        client.send(&[parse("", sql, &[]), describe(b'S', ""), sync()]);
        let told = client.answers().into_iter().find(|own| own.kind == b't').unwrap();
        let oids = told.body[2..].chunks(4).map(|own| u32::from_be_bytes(own.try_into().unwrap()));
        assert_eq!(oids.collect::<Vec<_>>(), wanted, "{sql}");
    }
    // In binary, and as a text.
    let digits = ONE.replace('-', "");
    let bytes: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
    let id = 7u32.to_be_bytes();
    client.send(&[
        parse("", "insert into t values ($1, $2)", &[]),
        bind(("", ""), (1, &[Some(&id), Some(&bytes)]), 0),
        execute("", 0),
        parse("", "select id, u from t where u = $1", &[]),
        bind(("", ""), (0, &[Some(ONE.to_uppercase().as_bytes())]), 0),
        execute("", 0),
        parse("", "select id from t where u = $1", &[]),
        bind(("", ""), (1, &[Some(&bytes)]), 0),
        execute("", 0),
        sync(),
    ]);
    let wanted = format!("INSERT 0 1 (7,{ONE}) SELECT 1 (7) SELECT 1");
    assert_eq!(shown(&client.answers()), wanted);
    client.send(&[
        parse("", "select id from t where u = $1", &[]),
        bind(("", ""), (0, &[Some(b"a0eebc99")]), 0),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(shown(&client.answers()), "22P02");
}

#[test]
fn a_copy_in_binary_may_end_without_its_mark() {
    let served = served();
    let mut client = served.client();
    client.sql("create table t (id int primary key, name text)");
    let header = [&b"PGCOPY\n\xff\r\n\0"[..], &[0; 8]].concat();
    let row = |id: u8| [&b"\0\x02\0\0\0\x04\0\0\0"[..], &[id], b"\0\0\0\x01a"].concat();
    let mut copied = |data: &[u8]| {
        client.send(&[
            query("copy t from stdin (format binary)"),
            message(b'd', data),
            message(b'c', b""),
        ]);
        shown(&client.answers())
    };
    assert_eq!(copied(&[&*header, &row(1), &row(2)].concat()), "COPY 2");
    assert_eq!(copied(&header), "COPY 0");
    assert_eq!(copied(&[&*header, &row(3), b"\xff\xff"].concat()), "COPY 1");
    // Within a row it may not.
    let cut = row(4);
    assert_eq!(copied(&[&*header, &cut[..cut.len() - 1]].concat()), "22P04");
    assert_eq!(copied(b""), "22P04");
    assert_eq!(client.sql("select count(*) from t"), "(3) SELECT 1");
}
