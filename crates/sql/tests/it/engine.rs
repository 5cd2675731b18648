//! Statements over a host in memory: external tables, views, dialect, errors.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use cellar_instance::administration::{Command, Reply};
use cellar_sql::output::{Format, Writer};
use cellar_sql::view::{Column, Kind, Value, ViewSource};
use cellar_sql::{Engine, EngineOptions, Error, Host, Outcome, TableDefinition};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

/// A host whose group DATA is a directory.
#[derive(Debug)]
pub struct TestHost {
    store: Arc<dyn ObjectStore>,
    tables: Mutex<BTreeMap<String, TableDefinition>>,
    pub commands: Mutex<Vec<Command>>,
}

impl TestHost {
    pub fn new(dir: &Path) -> Arc<TestHost> {
        let store = LocalFileSystem::new_with_prefix(dir).unwrap();
        Arc::new(TestHost {
            store: Arc::new(store),
            tables: Mutex::default(),
            commands: Mutex::default(),
        })
    }
}

#[async_trait]
impl Host for TestHost {
    fn store(&self, group: &str) -> Option<Arc<dyn ObjectStore>> {
        (group == "DATA").then(|| Arc::clone(&self.store))
    }
    fn groups(&self) -> Vec<String> {
        vec!["DATA".into()]
    }
    fn tables(&self) -> Vec<TableDefinition> {
        self.tables.lock().unwrap().values().cloned().collect()
    }
    async fn put_table(&self, table: TableDefinition) -> Result<(), Error> {
        self.tables.lock().unwrap().insert(table.name.clone(), table);
        Ok(())
    }
    async fn drop_table(&self, name: &str) -> Result<bool, Error> {
        Ok(self.tables.lock().unwrap().remove(name).is_some())
    }
    async fn run(&self, command: Command) -> Result<Reply, Error> {
        self.commands.lock().unwrap().push(command);
        Ok(Reply { message: "Diskgroup altered.".into(), notices: vec![] })
    }
}

#[derive(Debug)]
struct Parameters;

impl ViewSource for Parameters {
    fn name(&self) -> &'static str {
        "v$parameter"
    }
    fn columns(&self) -> &'static [Column] {
        &[
            Column { name: "name", kind: Kind::Text },
            Column { name: "value", kind: Kind::Text },
            Column { name: "group#", kind: Kind::Integer },
        ]
    }
    fn rows(&self) -> Vec<Vec<Value>> {
        vec![
            vec![Value::Text("disk_asynch_io".into()), Value::Text("TRUE".into()), Value::Null],
            vec![Value::Text("memory_target".into()), Value::Null, Value::Integer(7)],
        ]
    }
}

pub async fn open(host: &Arc<TestHost>) -> Engine {
    let options = EngineOptions { memory_limit: 256 << 20, target_partitions: 2 };
    Engine::open(Arc::clone(host) as Arc<dyn Host>, vec![Arc::new(Parameters)], &options)
        .await
        .unwrap()
}

pub async fn batches(engine: &Engine, sql: &str) -> Vec<RecordBatch> {
    match engine.execute(sql).await {
        Ok(Outcome::Rows(stream)) => stream.try_collect().await.unwrap(),
        other => panic!("{sql}: {other:?}"),
    }
}

async fn csv(engine: &Engine, sql: &str) -> String {
    let Ok(Outcome::Rows(stream)) = engine.execute(sql).await else {
        panic!("{sql}: {:?}", engine.execute(sql).await)
    };
    let schema = stream.schema();
    let rows: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Format::Csv, &schema, 80).unwrap();
    for batch in &rows {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    String::from_utf8(out).unwrap()
}

async fn message(engine: &Engine, sql: &str) -> String {
    match engine.execute(sql).await {
        Ok(Outcome::Done { message, .. }) => message,
        Ok(changed @ (Outcome::Changed(..) | Outcome::Filled { .. })) => {
            changed.message().unwrap().into_owned()
        }
        other => panic!("{sql}: {other:?}"),
    }
}

async fn error(engine: &Engine, sql: &str) -> Error {
    match engine.execute(sql).await {
        Err(error) => error,
        Ok(Outcome::Rows(stream)) => match stream.try_collect::<Vec<_>>().await {
            Err(e) => cellar_sql::failure::from_datafusion(&e),
            Ok(rows) => panic!("{sql} gave {rows:?}"),
        },
        Ok(done) => panic!("{sql} gave {done:?}"),
    }
}

#[tokio::test]
async fn tables_in_the_group_outlive_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let host = TestHost::new(dir.path());
    let engine = open(&host).await;
    let copy = "copy (select * from (values (1, 'a'), (2, null)) as t(n, s)) \
                to '+DATA/sub/T 1.parquet' stored as parquet";
    assert_eq!(message(&engine, copy).await, "2 rows copied.");
    assert!(dir.path().join("sub/T 1.parquet").is_file());
    let create = "create external table t stored as parquet location '+data/sub/T 1.parquet'";
    assert_eq!(message(&engine, create).await, "Table t created.");
    assert_eq!(error(&engine, create).await.number, 955);

    let engine = open(&host).await;
    assert_eq!(csv(&engine, "select * from t order by n").await, "n,s\n1,a\n2,\n");
    assert_eq!(message(&engine, "drop table t").await, "Table t dropped.");
    assert_eq!(error(&engine, "select * from t").await.number, 942);
    assert_eq!(error(&engine, "drop table t").await.number, 942);
}

#[tokio::test]
async fn a_file_that_is_gone_breaks_its_table_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "x\n1\n").unwrap();
    std::fs::write(dir.path().join("b.csv"), "x\n2\n").unwrap();
    let host = TestHost::new(dir.path());
    let engine = open(&host).await;
    for name in ["a", "b"] {
        let sql = format!(
            "create external table {name} stored as csv location '+DATA/{name}.csv' \
             options ('format.has_header' 'true')"
        );
        message(&engine, &sql).await;
    }
    std::fs::remove_file(dir.path().join("a.csv")).unwrap();
    let engine = open(&host).await;
    assert_eq!(csv(&engine, "select x from b").await, "x\n2\n");
    let error = error(&engine, "select x from a").await;
    let numbers: Vec<u32> = error.stack().map(|e| e.number).collect();
    assert_eq!(numbers, [29913, 15012], "{error}");
    message(&engine, "drop table a").await;
    assert!(engine.broken_tables().is_empty());
}

#[tokio::test]
async fn views_have_two_names_and_oracle_words_work() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&TestHost::new(dir.path())).await;
    let rows = "name,group#\nmemory_target,7\n";
    for view in ["v$parameter", "V$PARAMETER", "cellar.parameter"] {
        let sql = format!("select name, group# from {view} where group# = 7");
        assert_eq!(csv(&engine, &sql).await, rows);
    }
    assert_eq!(csv(&engine, "show parameter asynch").await, "name,value\ndisk_asynch_io,TRUE\n");
    let sql = "select cast('1.50' as number(5,2)) as n, cast(7 as varchar2(10)) as s, \
               cast(1 as number) > 0 as b from dual";
    assert_eq!(csv(&engine, sql).await, "n,s,b\n1.50,7,true\n");
    let now = csv(&engine, "select sysdate from dual").await;
    assert!(now.starts_with("sysdate\n2") && now.len() == "sysdate\n".len() + 20, "{now}");
    let sum = "select 0.06 + 0.01 = 0.07 as exact";
    assert_eq!(csv(&engine, sql_only(sum)).await, "exact\ntrue\n");
    let host = TestHost::new(dir.path());
    let engine = open(&host).await;
    assert_eq!(message(&engine, "alter diskgroup data mount").await, "Diskgroup altered.");
    assert_eq!(host.commands.lock().unwrap().len(), 1);
}

fn sql_only(sql: &str) -> &str {
    sql
}

#[tokio::test]
async fn errors_carry_numbers_states_and_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&TestHost::new(dir.path())).await;
    let cases = [
        ("select * from v", 942, "42P01", "cellar.asm_disk"),
        ("select * from v$parametre", 942, "42P01", "v$parameter"),
        ("select nam from v$parameter", 904, "42703", "the columns here are name"),
        ("select 1/0", 1476, "22012", "division by zero"),
        ("select cast('x' as int)", 1722, "22P02", "x"),
        ("select a.name from v$parameter a, v$parameter b where name = ''", 918, "42702", "name"),
        ("copy dual to '+NONE/x.parquet'", 15001, "42704", "the mounted groups are DATA"),
        (
            "create external table t stored as parquet location '+DATA/none.parquet'",
            15012,
            "58P01",
            "none.parquet",
        ),
        ("create table t (a int)", 3001, "0A000", "create external table"),
        ("selct 1", 900, "42601", "selct"),
        ("select nothing(1)", 904, "42883", "nothing"),
    ];
    for (sql, number, sqlstate, part) in cases {
        let error = error(&engine, sql).await;
        assert_eq!((error.number, error.sqlstate), (number, sqlstate), "{sql}: {error}");
        assert!(error.to_string().contains(part), "{sql}: {error}");
        assert!(!error.to_string().contains("DataFusion"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn statements_without_a_lasting_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&TestHost::new(dir.path())).await;
    for (sql, part) in [
        ("create database x", "cellar init"),
        ("create schema s", "rows change"),
        ("comment on table dual is 'x'", "rows change"),
        ("create function f() returns int return 1", "CREATE FUNCTION"),
        ("create index i on dual (dummy)", "rows change"),
        ("begin", "each statement is durable"),
        ("commit", "each statement is durable"),
        ("delete from dual", "files read in place"),
        ("update dual set dummy = 'y'", "files read in place"),
        ("select 1 as a into x", "create external table"),
        ("explain analyze create schema s", "CREATE SCHEMA name"),
        ("listen news", "LISTEN and NOTIFY"),
    ] {
        let error = error(&engine, sql).await;
        assert_eq!((error.number, error.sqlstate), (3001, "0A000"), "{sql}: {error}");
        assert!(error.to_string().contains(part), "{sql}: {error}");
    }
    for sql in ["drop schema public cascade", "drop schema cellar"] {
        let error = error(&engine, sql).await;
        assert_eq!((error.number, error.sqlstate), (1922, "2BP01"), "{sql}: {error}");
    }
    for sql in [
        "drop view v$parameter",
        "drop table v$parameter",
        "drop table cellar.parameter",
        "drop table dual",
        "truncate table dual",
        "drop view if exists dual",
        "insert into dual values ('y')",
        "prepare p as insert into dual values ('y')",
        "explain analyze insert into dual values ('y')",
        "create or replace view v$parameter as select 1",
        "create or replace external table dual stored as csv location '+DATA/x.csv'",
    ] {
        let error = error(&engine, sql).await;
        assert_eq!(error.number, 2030, "{sql}: {error}");
        assert!(error.to_string().contains("Next: select * from "), "{sql}: {error}");
    }
    assert_eq!(csv(&engine, "select * from dual").await, "dummy\nX\n");
    assert_eq!(csv(&engine, "select count(*) as n from v$parameter").await, "n\n2\n");
}

#[tokio::test]
async fn views_come_and_go_and_hide_no_table() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&TestHost::new(dir.path())).await;
    message(&engine, "copy (select 1 as a) to '+DATA/t.parquet'").await;
    message(&engine, "create external table t stored as parquet location '+DATA/t.parquet'").await;
    assert_eq!(error(&engine, "create or replace view t as select 2 as a").await.number, 955);
    assert_eq!(error(&engine, "drop view t").await.number, 942);
    assert_eq!(message(&engine, "create view w as select 2 as a").await, "View created.");
    assert_eq!(error(&engine, "drop table w").await.number, 942);
    assert_eq!(error(&engine, "drop table t, nosuch").await.number, 942);
    assert_eq!(csv(&engine, "select t.a + w.a as s from t, w").await, "s\n3\n");
    message(&engine, "drop view w").await;
    assert_eq!(error(&engine, "drop view w").await.number, 942);
    message(&engine, "drop view if exists w").await;
}

#[tokio::test]
async fn what_a_table_reads_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&TestHost::new(dir.path())).await;
    for sql in [
        "copy (select 1 as a) to '+DATA/t.parquet'",
        "create external table t stored as parquet location '+DATA/t.parquet'",
        "copy (select 1 as a) to '+DATA/days/1.parquet'",
        "create external table days stored as parquet location '+DATA/days/'",
        "copy (select 2 as a) to '+DATA/days/2.parquet'",
    ] {
        message(&engine, sql).await;
    }
    for sql in [
        "copy (select 9 as a) to '+DATA/t.parquet'",
        "copy t to '+data/t.parquet'",
        "explain analyze copy (select 9 as a) to '+DATA/t.parquet'",
        "copy (select 9 as a) to '+DATA/days/1.parquet'",
    ] {
        let error = error(&engine, sql).await;
        assert_eq!((error.number, error.sqlstate), (15028, "55006"), "{sql}: {error}");
        assert!(error.to_string().contains("or drop table "), "{error}");
    }
    assert_eq!(csv(&engine, "select a from t").await, "a\n1\n");
    message(&engine, "insert into days values (3)").await;
    assert_eq!(csv(&engine, "select sum(a) as s from days").await, "s\n6\n");

    let refused = error(&engine, "insert into t values (2)").await;
    assert_eq!(refused.number, 3001);
    let text = refused.to_string();
    assert!(text.contains("files read in place") && text.contains("cellar load"), "{text}");
    let taken = error(&engine, "create table t as select 1").await;
    assert_eq!(taken.number, 955, "{taken}");
    // A table whose file is gone gets one again by the same name.
    std::fs::remove_file(dir.path().join("t.parquet")).unwrap();
    message(&engine, "copy (select 5 as a) to '+DATA/t.parquet'").await;
    message(&engine, "drop table t").await;
    message(&engine, "copy (select 6 as a) to '+DATA/t.parquet'").await;
}

#[tokio::test]
async fn a_csv_table_that_would_lose_rows_or_columns_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(&TestHost::new(dir.path())).await;
    for (name, text, part) in [
        ("open", "a,b\n1,x\n2,\"y\n3,z\n", "line 3, column 2: a quote opens"),
        ("two", "a,b,a\n1,2,3\n", "columns 1 and 3 both have the name \"a\""),
        ("row", "1,2024-01-02\n2,2024-01-03\n", "line 1 looks like a row"),
    ] {
        std::fs::write(dir.path().join(format!("{name}.csv")), text).unwrap();
        let local = dir.path().join(format!("{name}.csv")).display().to_string();
        for location in [format!("+DATA/{name}.csv"), local] {
            let sql = format!("create external table t stored as csv location '{location}'");
            let error = error(&engine, &sql).await;
            assert_eq!(error.number, 29913, "{error}");
            let text = error.to_string();
            assert!(text.contains(&location) && text.contains(part), "{text}");
        }
    }
    std::fs::create_dir(dir.path().join("mixed")).unwrap();
    std::fs::write(dir.path().join("mixed/1.csv"), "a,b\n1,2\n").unwrap();
    std::fs::write(dir.path().join("mixed/2.csv"), "b,a\n3,4\n").unwrap();
    let mixed = "create external table m stored as csv location '+DATA/mixed/'";
    let text = error(&engine, mixed).await.to_string();
    assert!(text.contains("2.csv\" are b,a, those of \"+DATA/mixed/1.csv\" are a,b"), "{text}");
    let sql = "create external table t (x int, y int, z int) stored as csv \
               location '+DATA/two.csv'";
    message(&engine, sql).await;
    assert_eq!(csv(&engine, "select x, z from t").await, "x,z\n1,3\n");
    // Also where the statement names the columns, the first row would be gone.
    let sql = "create external table r (n int, d date) stored as csv location '+DATA/row.csv'";
    let text = error(&engine, sql).await.to_string();
    assert!(
        text.contains("1,2024-01-02") && text.contains("'format.has_header' 'false'"),
        "{text}"
    );
    message(&engine, &format!("{sql} options ('format.has_header' 'false')")).await;
    assert_eq!(csv(&engine, "select count(*) as n from r").await, "n\n2\n");
    // Rows whose values hold line ends are whole, however large the file is.
    let row = format!("1,\"{}\"\n", "x\n".repeat(500));
    std::fs::write(dir.path().join("long.csv"), format!("a,b\n{}", row.repeat(20_000))).unwrap();
    let sql = "create external table l stored as csv location '+DATA/long.csv'";
    message(&engine, sql).await;
    let named = sql.replace("table l stored", "table k (a int, b varchar) stored");
    message(&engine, &named).await;
    for table in ["l", "k"] {
        let query = format!("select count(*) as n, sum(a) as a, min(length(b)) as l from {table}");
        assert_eq!(csv(&engine, &query).await, "n,a,l\n20000,20000,1000\n", "{table}");
    }
}

#[tokio::test]
async fn a_query_beyond_its_memory_spills_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = EngineOptions { memory_limit: 1 << 20, target_partitions: 2 };
    let engine = Engine::open(TestHost::new(dir.path()), vec![], &options).await.unwrap();
    let sql = "select a.value, array_agg(b.value) from generate_series(1, 3000) a \
               cross join generate_series(1, 1000) b group by a.value";
    assert_eq!(error(&engine, sql).await.number, 4030);
    assert_eq!(csv(&engine, "select 1 as one").await, "one\n1\n");
}

#[tokio::test]
async fn local_files_are_used_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("x.csv");
    std::fs::write(&path, "a,b\n1,x\n").unwrap();
    let host = TestHost::new(dir.path());
    let engine = open(&host).await;
    let sql = format!(
        "create external table f stored as csv location '{}' options ('format.has_header' 'true')",
        path.display()
    );
    message(&engine, &sql).await;
    let engine = open(&host).await;
    assert_eq!(csv(&engine, "select * from f").await, "a,b\n1,x\n");
    let there = open(&host).await.in_directory(other.path().to_owned());
    message(&there, "create external table g stored as csv location 'x.csv'").await;
    assert_eq!(message(&there, "copy g to 'deep/g.csv'").await, "1 row copied.");
    assert!(other.path().join("deep/g.csv").is_file());
    let out = other.path().join("out.parquet");
    let sql = format!("copy f to '{}'", out.display());
    assert_eq!(message(&engine, &sql).await, "1 row copied.");
    assert!(out.is_file());
}
