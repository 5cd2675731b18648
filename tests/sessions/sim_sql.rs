//! SQL over disks that lose power: at many I/Os of a life of statements. What was acknowledged is there, the statement
//! under way is there whole or not at all, indexes have what tables have, and no value of a sequence comes again.

#[path = "../../crates/instance/tests/it/machine.rs"]
#[allow(dead_code, reason = "of the tests of the instance, which use all of it")]
mod machine;

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use cellar_instance::Database;
use cellar_sql::host::instance::{InstanceHost, views};
use cellar_sql::output::{Format, Writer};
use cellar_sql::{Engine, EngineOptions, Error, Outcome};
use futures_util::TryStreamExt;
use machine::Machine;

/// Statements before the power is cut.
const BEFORE: [&str; 5] = [
    "create table t (id int primary key, u int unique, a text)",
    "insert into t select value, value + 100, 'row ' || value from generate_series(1, 40) s(value)",
    "create table other (id int primary key, b int)",
    "insert into other values (1, 1), (2, 2), (3, 3)",
    "create sequence s",
];

/// The life: each statement is acknowledged before the next is asked.
const LIFE: [&str; 24] = [
    "update t set a = 'changed' where id between 5 and 9",
    "begin",
    "insert into t values (50, 500, 'fifty'), (51, 501, null)",
    "delete from other where id = 1",
    "savepoint x",
    "update other set b = b + 1",
    "rollback to x",
    "insert into other values (9, 9)",
    "commit",
    "create index t_a on t (a)",
    "copy t from stdin",
    "alter table t add column n int default 7",
    "begin",
    "create table made (id int primary key, c int)",
    "insert into made select id, u from t",
    "truncate other",
    "insert into other values (20, 20)",
    "commit",
    "insert into t (id, u) values (60, 600) on conflict (id) do nothing",
    "alter table made drop column c",
    "delete from t where u > 110 returning id",
    "drop index t_a",
    "drop table made",
    "create table big using heap as select id, a, n from t",
];

/// The rows of the COPY: more than go the common way.
fn copied() -> Vec<Bytes> {
    let row = |id: u32| Bytes::from(format!("{id}\t{}\ttext {id}\n", id + 1000));
    (100..160).map(row).collect()
}

async fn engine(database: &Arc<Database>) -> Engine {
    let session = database.instance().sessions().user("test", "tester");
    let host = Arc::new(InstanceHost::new(Arc::clone(database), session));
    let options = EngineOptions { memory_limit: 64 << 20, target_partitions: 1 };
    Engine::open(host, views(database), &options).await.unwrap()
}

async fn rows(engine: &Engine, sql: &str) -> Result<Vec<RecordBatch>, Error> {
    let outcome = match sql {
        "copy t from stdin" => {
            let input = futures_util::stream::iter(copied().into_iter().map(Ok));
            engine.copy_in(sql, Box::pin(input)).await?
        }
        _ => engine.execute(sql).await?,
    };
    match outcome {
        Outcome::Rows(rows) => {
            let rows: Result<Vec<RecordBatch>, _> = rows.try_collect().await;
            rows.map_err(|error| cellar_sql::failure::from_datafusion(&error))
        }
        _ => Ok(Vec::new()),
    }
}

async fn text(engine: &Engine, sql: &str) -> String {
    let rows = match rows(engine, sql).await {
        Ok(rows) => rows,
        Err(error) if error.sqlstate == "42P01" => return "none".to_owned(),
        Err(error) => panic!("{sql}: {error}"),
    };
    let Some(first) = rows.first() else { return String::new() };
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Format::Csv, &first.schema(), 80).unwrap();
    rows.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    String::from_utf8(out).unwrap()
}

async fn number(engine: &Engine, sql: &str) -> i64 {
    let rows = rows(engine, sql).await.unwrap();
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// All that is committed, as a new session reads it.
async fn state(database: &Arc<Database>) -> String {
    let engine = engine(database).await;
    let mut all = String::new();
    for table in ["t", "other", "made", "big"] {
        all += &format!(
            "{table}: {}",
            text(&engine, &format!("select * from {table} order by id")).await
        );
        all += "\n";
    }
    all
}

/// Each row is found by each of its keys, and no key leads anywhere else.
async fn check_indexes(database: &Arc<Database>) {
    let engine = engine(database).await;
    for key in ["id", "u"] {
        let whole = text(&engine, "select * from t order by id").await;
        let by_key = format!("select * from t where {key} > -5 and {key} < 100000 order by id");
        assert_eq!(text(&engine, &by_key).await, whole, "{key}");
        let count = format!("select count(*) from t where {key} > -5 and {key} < 100000");
        let entries = number(&engine, &count).await;
        assert_eq!(entries, number(&engine, "select count(id + 0) from t").await, "{key}");
        let min = format!("select {key} from t order by {key} limit 1");
        let least = format!("select min({key} + 0) as {key} from t");
        assert_eq!(text(&engine, &min).await, text(&engine, &least).await, "{key}");
    }
}

async fn set_up(database: &Arc<Database>) {
    let engine = engine(database).await;
    for sql in BEFORE {
        rows(&engine, sql).await.unwrap();
    }
}

/// Lives; `acknowledged`: of how many statements, `value`: the last one of the sequence that was told.
async fn live(database: &Arc<Database>, acknowledged: &Cell<usize>, value: &Cell<i64>) {
    let engine = engine(database).await;
    for (at, sql) in LIFE.iter().enumerate() {
        rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        acknowledged.set(at + 1);
        value.set(number(&engine, "select nextval('s')").await);
    }
}

/// What is committed behind each statement.
fn states() -> Vec<String> {
    let machine = Machine::new(8000);
    machine.run(async {
        let database = Arc::new(machine.open().await);
        set_up(&database).await;
        let engine = engine(&database).await;
        let (mut states, mut in_block) = (vec![state(&database).await], false);
        for sql in LIFE {
            rows(&engine, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            in_block = sql == "begin" || (in_block && sql != "commit");
            if in_block {
                // Nobody sees it, and who reads what it empties waits.
                states.push(states[states.len() - 1].clone());
                continue;
            }
            states.push(state(&database).await);
            check_indexes(&database).await;
        }
        drop(engine);
        database.close().await.unwrap();
        states
    })
}

#[test]
fn a_power_cut_leaves_what_was_acknowledged_and_nothing_by_half() {
    let states = states();
    let step = std::env::var("CELLAR_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(17);
    let (mut seen, mut cuts) = (std::collections::BTreeSet::new(), 0);
    for point in (3..).step_by(step) {
        let machine = Machine::new(8000 + point);
        machine.run(async {
            let database = Arc::new(machine.open().await);
            set_up(&database).await;
            database.close().await.unwrap();
        });
        let (acknowledged, value) = (Cell::new(0), Cell::new(0));
        let done = machine.sim.run(async {
            let database = Arc::new(machine.open().await);
            machine.sim.crash_after(point);
            live(&database, &acknowledged, &value).await;
            machine.sim.crash_never();
            database.close().await.unwrap();
        });
        let (count, value) = (acknowledged.get(), value.get());
        if done.is_none() {
            machine.sim.restart();
            cuts += 1;
        }
        machine.run(async {
            let database = Arc::new(machine.open().await);
            let found = state(&database).await;
            let whole = states.get(count + 1).is_some_and(|next| *next == found);
            let sql = LIFE.get(count).unwrap_or(&"nothing");
            assert!(
                found == states[count] || whole,
                "cut at {point}, {count} statements acknowledged, at work: {sql}\n{found}\nbefore it:\n{}",
                states[count]
            );
            seen.insert((count, whole));
            check_indexes(&database).await;
            let engine = engine(&database).await;
            let next = number(&engine, "select nextval('s')").await;
            assert!(next > value, "cut at {point}: {next} comes again behind {value}");
            // It goes on.
            rows(&engine, "insert into t (id, u) values (1000000, 1000000)").await.unwrap();
            drop(engine);
            database.close().await.unwrap();
        });
        if done.is_some() {
            println!("{cuts} cuts, {} of {} statements", seen.len(), LIFE.len());
            assert!(cuts > 10 && seen.len() > 8, "{cuts} cuts, {seen:?}");
            return;
        }
    }
}
