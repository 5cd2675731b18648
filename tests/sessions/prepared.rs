//! Prepared statements: their parameters and columns are known beforehand, and executions give what statements
//! with the values in their text give, by the fast path and by the common way.

use crate::database::{Session, TestDatabase};
use arrow::datatypes::DataType;
use cellar_sql::Parameter::{self, Boolean, Integer, List, Null, Real, Text};

fn text(text: &str) -> Parameter {
    Text(text.to_owned())
}

fn filled(session: &Session<'_>) {
    for sql in [
        "create table t (id int primary key, k bigint, c varchar(10), n numeric(10, 2), d date, \
         b boolean)",
        "create index t_k on t (k)",
        "insert into t select value, value % 5, 'c' || value, value * 1.5, date '2020-01-01', \
         value > 5 from generate_series(1, 10)",
    ] {
        let told = session.run(sql);
        assert!(!told.starts_with("CELLAR"), "{sql}: {told}");
    }
}

/// Runs the same with and without the fast path, in a database each.
fn both_ways(test: impl Fn(&Session<'_>)) {
    for way in ["on", "off"] {
        let database = TestDatabase::new();
        let session = database.session();
        filled(&session);
        session.run(&format!("set cellar.fast_path = {way}"));
        test(&session);
        if way == "off" {
            session.answers(&[("select count(*) from v$sql", "0")]);
        }
    }
}

#[test]
fn parameters_and_columns_are_known_beforehand() {
    both_ways(|at| {
        let prepared = at.prepare("select id, c as name from t where id = $1 and k > $2").unwrap();
        assert_eq!(prepared.parameters(), [DataType::Int32, DataType::Int64]);
        let columns = prepared.columns().unwrap();
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["id", "name"]);
        assert_eq!(*columns.field(0).data_type(), DataType::Int32);
        let prepared = at.prepare("insert into t (id, n, d) values ($1, $2, $3)").unwrap();
        assert_eq!(
            prepared.parameters(),
            [DataType::Int32, DataType::Decimal128(10, 2), DataType::Date32]
        );
        assert!(prepared.columns().is_none());
        let prepared = at.prepare("update t set k = k + $2 where id = $1 returning k").unwrap();
        assert_eq!(prepared.parameters(), [DataType::Int32, DataType::Int64]);
        assert_eq!(prepared.columns().unwrap().field(0).name(), "k");
        let prepared = at.prepare("select count(*) from t where id = any($1)").unwrap();
        assert!(matches!(&prepared.parameters()[0],
            DataType::List(item) if *item.data_type() == DataType::Int32));
        let prepared = at.prepare("begin").unwrap();
        assert!(prepared.parameters().is_empty() && prepared.columns().is_none());
        let error = at.prepare("select nothing from t where id = $1").unwrap_err();
        assert_eq!(error.sqlstate, "42703", "{error}");
        assert!(at.prepare("selec 1").is_err());
    });
}

#[test]
fn executions_give_what_statements_give() {
    both_ways(|at| {
        let cases: &[(&str, &[Parameter], &str)] = &[
            ("select c from t where id = $1", &[Integer(3)], "c3"),
            ("select c from t where id = $1", &[text("4")], "c4"),
            ("select c from t where id = $1", &[Null], ""),
            (
                "select c from t where id = any($1) order by id",
                &[List(vec![Integer(9), Integer(2), Null])],
                "c2 c9",
            ),
            ("select c from t where id = any($1)", &[List(vec![])], ""),
            (
                "select c from t where id between $1 and $2 order by id limit $3",
                &[Integer(2), Integer(8), Integer(2)],
                "c2 c3",
            ),
            (
                "select sum(k), count(*) from t where id in ($1, $2, 7)",
                &[Integer(1), Integer(2)],
                "5,3",
            ),
            ("select id from t where k = $1 and c = $2", &[Integer(1), text("c6")], "6"),
            ("select upper(c) from t where id = $1", &[Integer(3)], "C3"),
            ("select id from t where n = $1 and id > 0", &[text("4.50")], "3"),
            ("select id from t where n = $1 and id > 0", &[Real(4.5)], "3"),
            ("select id from t where b = $1 and id < 7", &[Boolean(true)], "6"),
            ("select id from t where d = $1 and id < 2", &[text("2020-01-01")], "1"),
            ("select c from t where c = $1 and id = 1", &[text("it's")], ""),
            (
                "insert into t (id, c, n) values ($1, $2, $3), ($1 + 1, 'x', 2.5)",
                &[Integer(20), text("it's"), text("1.25")],
                "2 rows inserted.",
            ),
            (
                "update t set c = c || $2, k = $3 where id = $1 returning c, k",
                &[Integer(20), text("!"), Null],
                "it's!,",
            ),
            ("delete from t where id >= $1 returning id, n", &[Integer(20)], "20,1.25 21,2.50"),
            (
                "update t set k = k + $1 where id = $2 and upper(c) = 'C1'",
                &[Integer(5), Integer(1)],
                "1 row updated.",
            ),
            ("select k from t where id = $1", &[Integer(1)], "6"),
        ];
        for (sql, parameters, wanted) in cases {
            let prepared = at.prepare(sql).unwrap();
            for _ in 0..2 {
                let told = at.execute(&prepared, parameters);
                if sql.starts_with("select") {
                    assert_eq!(told, *wanted, "{sql} {parameters:?}");
                } else {
                    assert_eq!(told, *wanted, "{sql} {parameters:?}");
                    break;
                }
            }
        }
    });
}

#[test]
fn wrong_values_are_refused() {
    both_ways(|at| {
        let prepared = at.prepare("select c from t where id = $1").unwrap();
        let cases: &[(&[Parameter], &str)] = &[
            (&[], "1 parameters, and 0 values"),
            (&[Integer(1), Integer(2)], "1 parameters, and 2 values"),
            (&[text("one")], "cannot be 'one'"),
            (&[Integer(5_000_000_000)], "cannot be 5000000000"),
            (&[Boolean(true)], "cannot be true"),
        ];
        for (parameters, wanted) in cases {
            let told = at.execute(&prepared, parameters);
            assert!(told.starts_with("CELLAR-") && told.contains(wanted), "{parameters:?}: {told}");
        }
        let prepared = at.prepare("insert into t (id, c) values ($1, $2)").unwrap();
        let told = at.execute(&prepared, &[Integer(3), text("x")]);
        assert!(told.contains("t_pkey") && told.contains("(id)=(3)"), "{told}");
        let told = at.execute(&prepared, &[Integer(30), text("eleven chars")]);
        assert!(told.starts_with("CELLAR-"), "{told}");
        let prepared = at.prepare("update t set k = $2 / $3 where id = $1").unwrap();
        let told = at.execute(&prepared, &[Integer(3), Integer(1), Integer(0)]);
        assert!(told.starts_with("CELLAR-"), "{told}");
        at.answers(&[("select count(*), sum(k) from t", "10,20")]);
    });
}

#[test]
fn prepare_execute_and_deallocate() {
    both_ways(|at| {
        at.answers(&[
            ("prepare one as select c from t where id = $1", "Statement one prepared."),
            ("execute one(5)", "c5"),
            ("execute one('6')", "c6"),
            ("execute one(3 + 4)", "c7"),
            (
                "prepare add (int, text) as insert into t (id, c) values ($1, $2) returning id, c",
                "Statement add prepared.",
            ),
            ("execute add(50, 'fifty')", "50,fifty"),
            ("prepare all_of as select count(*) from t", "Statement all_of prepared."),
            ("execute all_of", "11"),
            ("deallocate one", "Statement one deallocated."),
        ]);
        at.refuses(&[
            ("execute one(5)", "does not exist"),
            ("prepare add as select 1", "already exists"),
            ("execute add(1)", "2 parameters, and 1 values"),
            ("execute add('x', 'y')", "CELLAR-"),
            ("prepare other as select nothing from t", "CELLAR-00904"),
        ]);
        at.answers(&[("deallocate all", "All statements deallocated.")]);
        at.refuses(&[("execute all_of", "does not exist")]);
    });
}

#[test]
fn a_change_of_the_table_under_a_prepared_statement() {
    both_ways(|at| {
        let all = at.prepare("select * from t where id = $1").unwrap();
        let some = at.prepare("select id, k from t where id = $1").unwrap();
        let gone = at.prepare("select c from t where id = $1").unwrap();
        let insert = at.prepare("insert into t (id, k) values ($1, $2)").unwrap();
        assert_eq!(at.execute(&some, &[Integer(2)]), "2,2");
        at.run("alter table t drop column c");
        let told = at.execute(&all, &[Integer(2)]);
        assert!(told.contains("cached plan must not change result type"), "{told}");
        let told = at.execute(&gone, &[Integer(2)]);
        assert!(told.starts_with("CELLAR-00904"), "{told}");
        assert_eq!(at.execute(&some, &[Integer(2)]), "2,2");
        assert_eq!(at.execute(&insert, &[Integer(77), Integer(1)]), "1 row inserted.");
        at.run("drop index t_k");
        at.run("truncate table t");
        assert_eq!(at.execute(&some, &[Integer(2)]), "");
        at.run("drop table t");
        let told = at.execute(&some, &[Integer(2)]);
        assert!(told.starts_with("CELLAR-00942"), "{told}");
    });
}

#[test]
fn definitions_of_the_own_transaction_are_seen() {
    let database = TestDatabase::new();
    let (one, two) = (database.session(), database.session());
    filled(&one);
    let query = "select * from t where id = 2";
    one.answers(&[(query, "2,2,c2,3.00,2020-01-01,false"), ("begin", "Transaction begun.")]);
    one.run("alter table t drop column n");
    let waiting = two.begin(query);
    one.answers(&[(query, "2,2,c2,2020-01-01,false"), ("rollback", "Transaction rolled back.")]);
    assert_eq!(waiting.get(), "2,2,c2,3.00,2020-01-01,false");
    one.answers(&[(query, "2,2,c2,3.00,2020-01-01,false")]);
    two.answers(&[(query, "2,2,c2,3.00,2020-01-01,false")]);
}
