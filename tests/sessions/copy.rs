//! COPY as PostgreSQL has it: text and CSV, files and streams, and what is refused, with its line.

use crate::database::{Session, TestDatabase};

fn made(session: &Session<'_>) {
    session.answers(&[(
        "create table t (a int primary key, b text, c numeric(10, 2) default 7, d date) using heap",
        "Table t created.",
    )]);
}

#[test]
fn texts_are_read_as_postgresql_has_them() {
    let database = TestDatabase::new();
    let session = database.session();
    made(&session);
    session.answers(&[
        (
            "copy t from stdin;\n1\tone\t1.5\t2024-02-29\n2\t\\N\t\\N\t\\N\n\
             3\ta\\tb\\\\c\\nd\\101\t2.25\t1999-12-31\n4\t\t0\t2000-01-01\n\\.\nselect",
            "4 rows copied.",
        ),
        (
            "select a, b is null, b = '', c, d from t where a in (1, 2, 4) order by a",
            "1,false,false,1.50,2024-02-29 2,true,,, 4,false,true,0.00,2000-01-01",
        ),
        ("select b = E'a\\tb\\\\c\\ndA' from t where a = 3", "true"),
        // Columns in another order; a DEFAULT.
        ("copy t (b, a) from stdin;\nfive\t5\nsix\t6", "2 rows copied."),
        ("select a, b, c, d from t where a > 4 order by a", "5,five,7.00, 6,six,7.00,"),
        (
            "copy t (b, a) from stdin with (delimiter '|', null 'nil');\nnil|7\n\\||8\n",
            "2 rows copied.",
        ),
        ("select a, b from t where a in (7, 8) order by a", "7, 8,|"),
        ("copy t (a) from stdin;\r\n9\r\n10\r\n\\.\r\n", "2 rows copied."),
        ("select count(*), sum(a) from t", "10,55"),
        (
            "copy (select a, b, c, d from t where a < 4 order by a) to stdout",
            "1\tone\t1.50\t2024-02-29\n2\t\\N\t\\N\t\\N\n3\ta\\tb\\\\c\\ndA\t2.25\t1999-12-31\n",
        ),
    ]);
}

#[test]
fn csv_is_read_and_written_as_postgresql_has_it() {
    let database = TestDatabase::new();
    let session = database.session();
    made(&session);
    session.answers(&[
        (
            "copy t from stdin with (format csv, header);\na,b,c,d\n1,\"x,y\",1,2024-01-01\n\
             2,\"say \"\"hi\"\"\nthere\",2,\n3,,3,\n4,\"\",4,\n5,un\"quo\"ted,5,\n",
            "5 rows copied.",
        ),
        (
            "select a, b is null, length(b) from t order by a",
            "1,false,3 2,false,14 3,true, 4,false,0 5,false,8",
        ),
        (
            "copy t to stdout with (format csv, header, force_quote (b))",
            "a,b,c,d\n1,\"x,y\",1.00,2024-01-01\n2,\"say \"\"hi\"\"\nthere\",2.00,\n3,,3.00,\n\
          4,\"\",4.00,\n5,\"unquoted\",5.00,\n",
        ),
        (
            "copy t (b) to stdout csv header delimiter ';' null as '-' escape as '\\'",
            "b\nx,y\n\"say \\\"hi\\\"\nthere\"\n-\n\nunquoted\n",
        ),
        ("truncate t", "Table t truncated."),
        ("copy t (a, b) from stdin csv force not null b;\n1,\n2,\"\"", "2 rows copied."),
        ("select count(b) from t where b = ''", "2"),
        ("copy t (a, b) from stdin with (format csv, force_null (b));\n3,\"\"\n", "1 row copied."),
        ("select b is null from t where a = 3", "true"),
        (
            "copy t (a, b) from stdin with (format csv, header match);\na,b\n4,x\n\\.\n",
            "1 row copied.",
        ),
        ("copy t (a, b) from stdin (format csv, encoding 'latin1');\n5,y", "1 row copied."),
    ]);
    session.refuses(&[
        (
            "copy t (a, b) from stdin with (format csv, header match);\na,c\n4,x\n",
            "COPY t, line 1: field 2 of the header is \"c\", the column \"b\"",
        ),
        (
            "copy t (a, b) from stdin csv;\n9,\"open\n",
            "COPY t, line 1: a quote opens and is never closed",
        ),
    ]);
    assert_eq!(session.run("select count(*) from t where a = 9"), "0");
}

#[test]
fn types_are_written_and_read_as_postgresql_has_them() {
    let database = TestDatabase::new();
    let session = database.session();
    session.answers(&[
        ("create table v (b boolean, f double precision, r real, t timestamp, z timestamptz, x bytea, \
          s smallint, l bigint) using heap", "Table v created."),
        ("copy v from stdin;\ntrue\t1\t0.5\t2024-02-29 12:00:00.25\t2024-01-01 02:00:00+02\t\\\\x00ff\t1\t2\n\
          n\t1e20\tNaN\t2024-02-29\t2024-01-01\t\\\\x\t-1\t-9223372036854775808\n", "2 rows copied."),
        ("copy v to stdout",
         "t\t1\t0.5\t2024-02-29 12:00:00.25\t2024-01-01 00:00:00+00\t\\\\x00ff\t1\t2\n\
          f\t1e+20\tNaN\t2024-02-29 00:00:00\t2024-01-01 00:00:00+00\t\\\\x\t-1\t-9223372036854775808\n"),
    ]);
    session.refuses(&[
        (
            "copy v (b) from stdin;\nt\nperhaps\n",
            "COPY v, line 2, column b: \"perhaps\" is no boolean",
        ),
        (
            "copy v (s) from stdin;\n32768\n",
            "COPY v, line 1, column s: \"32768\" is beyond the ends of smallint",
        ),
        (
            "copy v (t) from stdin;\n2024-02-30\n",
            "line 1, column t: \"2024-02-30\" is no timestamp",
        ),
        ("copy v (x) from stdin;\n\\\\x0\n", "line 1, column x"),
        ("copy v (f) from stdin;\n1e999\n", "is beyond the ends of double"),
    ]);
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_changes_nothing() {
    let database = TestDatabase::new();
    let session = database.session();
    made(&session);
    session.refuses(&[
        (
            "copy t from stdin;\n1\ta\t1\t\\N\n2\tb\t1\t\\N\nx\tc\t1\t\\N\n",
            "COPY t, line 3, column a: \"x\" is no int",
        ),
        ("copy t from stdin;\n1\ta\t1\t\\N\n2\tb\n", "COPY t, line 2: no field for column \"c\""),
        (
            "copy t from stdin;\n1\ta\t1\t\\N\tmore\n",
            "COPY t, line 1: more fields than the 4 columns",
        ),
        ("copy t from stdin;\n1\ta\t1\t\\N\n1\tb\t1\t\\N\n", "\"t_pkey\" is violated: key (a)=(1)"),
        ("copy t (b) from stdin;\na\n", "column \"a\" of table \"t\" cannot be NULL"),
        ("copy t (a, z) from stdin;\n1\t2\n", "table \"t\" has no column \"z\""),
        ("copy t (a, a) from stdin;\n1\t2\n", "column \"a\" is copied twice"),
        ("copy u from stdin;\n1\n", "table \"u\" does not exist"),
        ("copy dual from stdin;\n1\n", "is a system view"),
        ("copy t from stdin with (format csv, delimiter 'ab');\n1\n", "of more than one byte"),
        ("copy t from stdin with (quote 'x');\n1\n", "COPY QUOTE is of CSV"),
        ("copy t from stdin with (format csv, format text);\n1\n", "FORMAT is said twice"),
        ("copy t from stdin with (fromat csv);\n1\n", "COPY has no option FROMAT"),
        ("copy t from stdin with (format binary);\n1\n", "signature not recognized"),
        ("copy t from stdin with (format binary, delimiter ';')", "cannot specify DELIMITER"),
        ("copy t from stdin where a > 1;\n1\n", "COPY .. WHERE"),
        ("copy t from program 'ls'", "COPY with PROGRAM"),
        ("copy t from stdin", "nothing is given to it"),
        ("copy t from '/nowhere/t.csv'", "there is no file"),
    ]);
    assert_eq!(session.run("select count(*) from t"), "0");
    // In a transaction it is part of that.
    session.answers(&[
        ("begin", "Transaction begun."),
        ("copy t (a) from stdin;\n1\n2\n", "2 rows copied."),
        ("select count(*) from t", "2"),
        ("copy t (a) to stdout", "1\n2\n"),
        ("rollback", "Transaction rolled back."),
        ("select count(*) from t", "0"),
        ("begin read only", "Transaction begun."),
    ]);
    session.refuses(&[("copy t (a) from stdin;\n1\n", "the transaction is read-only")]);
    session.answers(&[("rollback", "Transaction rolled back.")]);
}

#[test]
fn files_are_read_and_written_whole() {
    let database = TestDatabase::new();
    let session = database.session();
    made(&session);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.txt").display().to_string();
    session.answers(&[
        (
            "insert into t select i, 'row ' || i, i, null from generate_series(1, 20000) g(i)",
            "20000 rows inserted.",
        ),
        (&format!("copy t to '{file}' with (format text)"), "20000 rows copied."),
        ("truncate t", "Table t truncated."),
        (&format!("copy t from '{file}'"), "20000 rows copied."),
        ("select count(*), sum(a), max(b) from t", "20000,200010000,row 9999"),
        ("copy t (a, b) to '+DATA/t.txt' (format csv, header)", "20000 rows copied."),
        ("truncate t", "Table t truncated."),
        ("copy t (a, b) from '+DATA/t.txt' (format csv, header)", "20000 rows copied."),
        ("select count(*), sum(c) from t", "20000,140000.00"),
        // A columnar table takes them too.
        ("create table k (a int, b text) using columnar", "Table k created."),
        ("copy k from '+DATA/t.txt' csv header", "20000 rows copied."),
        ("copy k (a) from stdin;\n-1\n", "1 row copied."),
        ("select count(*), sum(a), count(b) from k", "20001,200009999,20000"),
    ]);
    let begun = session.begin("copy (select count(*) from k) to stdout");
    assert_eq!(begun.get(), "20001\n");
    session.refuses(&[
        ("copy k from stdin;\n1\tx\ny\tx\n", "COPY k, line 2, column a: \"y\" is no int"),
        (&format!("copy (select a / 0 from t) to '{file}.2' csv"), "CELLAR-"),
    ]);
    assert!(!directory.path().join("t.txt.2").exists());
    assert_eq!(session.run("select count(*) from k"), "20001");
}

#[test]
fn binary_files_are_written_and_read() {
    let (database, directory) = (TestDatabase::new(), tempfile::tempdir().unwrap());
    let session = database.session();
    let path = directory.path().join("t.bin").to_string_lossy().into_owned();
    let columns = "a int primary key, b text, c numeric(10, 2), d date, e timestamptz, f bytea, g uuid, h jsonb, \
                   i int[], j text[], k double precision, l boolean, m smallint, n bigint, o time, p varchar(5)";
    session.done(&[
        &format!("create table t ({columns})"),
        "insert into t values (1, 'one', -1.5, '1999-12-31', '2026-01-02 03:04:05.000006+00', '\\x00ff', \
         'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": [1]}', '{1,null,3}', array['x', null, 'q\"'], 2.5, true, 3, \
         4, '01:02:03.000004', 'five'), (2, '', 0, '2000-01-01', null, '', null, null, '{}', '{}', null, false, \
         null, null, null, '')",
        "insert into t (a) values (3)",
        &format!("copy t to '{path}' with (format binary)"),
        &format!("create table u ({columns})"),
    ]);
    let bytes = std::fs::read(&path).unwrap();
    assert!(
        bytes.starts_with(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\x04\0\0\0\x01"),
        "{bytes:?}"
    );
    assert!(bytes.ends_with(b"\xff\xff"));
    session.answers(&[
        (&format!("copy u from '{path}' with (format binary)"), "3 rows copied."),
        ("select count(*) from (select * from t except select * from u) x", "0"),
        ("select count(*) from u where b = '' and i = '{}' and f = ''", "1"),
        (&format!("copy (select a, b from t) to '{path}' (format binary)"), "3 rows copied."),
    ]);
    session.refuses(&[
        (&format!("copy u from '{path}' (format binary)"), "row field count is 2, expected 16"),
        (&format!("copy u (b, a) from '{path}' (format binary)"), "line 1, column b"),
        (&format!("copy u (a, b) from '{path}' (format binary)"), "u_pkey"),
    ]);
    // One that was cut off is taken as a whole or not at all.
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    session.done(&["delete from u"]);
    session.refuses(&[(&format!("copy u from '{path}' (format binary)"), "unexpected EOF")]);
    session.answers(&[("select count(*) from u", "0")]);
}
