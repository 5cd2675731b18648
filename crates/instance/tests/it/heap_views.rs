//! Views of the heap: what was done to each table and index, its buffer cache, its next opening.

use std::collections::{BTreeMap, BTreeSet};

use cellar_instance::Database;
use cellar_instance::views::{self, Value};
use cellar_storage::OpenMode;

use crate::machine::Machine;
use crate::row_tables::{create, insert};

const OF_HEAP: [&str; 3] =
    ["v$segment_statistics", "v$buffer_pool_statistics", "v$instance_recovery"];

type Row = BTreeMap<&'static str, Value>;

fn rows(database: &Database, view: &str) -> Vec<Row> {
    let view = views::find(view).unwrap();
    let row = |values: Vec<Value>| {
        assert_eq!(values.len(), view.columns.len(), "{}", view.name);
        view.columns.iter().map(|column| column.name).zip(values).collect()
    };
    database.rows(view).unwrap().into_iter().map(row).collect()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Int(value) => *value as f64,
        Value::Float(value) => *value,
        other => panic!("{other:?} is no number"),
    }
}

/// A number of the only row of a view.
fn of(database: &Database, view: &str, column: &str) -> f64 {
    let rows = rows(database, view);
    assert_eq!(rows.len(), 1, "{view}");
    number(&rows[0][column])
}

fn text(row: &Row, column: &str) -> String {
    match &row[column] {
        Value::Text(text) => text.clone(),
        Value::Null => "NULL".to_owned(),
        other => panic!("{other:?} is no text"),
    }
}

/// A statistic of a table or an index in the schema that is always there.
fn statistic(database: &Database, object: &str, name: &str) -> f64 {
    let rows = rows(database, OF_HEAP[0]);
    let is_it = |row: &&Row| {
        let found = [text(row, "owner"), text(row, "object_name"), text(row, "statistic_name")];
        found == ["public", object, name]
    };
    number(&rows.iter().find(is_it).unwrap()["value"])
}

#[test]
fn what_is_done_to_each_table_and_index_is_shown_by_its_name() {
    let machine = Machine::new(90);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t").await;
        create(&database, "u").await;
        let objects = ["t", "t_one", "t_two"];
        let changes = |object| statistic(&database, object, "db block changes");
        let before = objects.map(changes);
        let other = changes("u");
        insert(&database, "t", 0..50, 100).await.unwrap();
        for (object, before) in objects.into_iter().zip(before) {
            assert!(changes(object) >= before + 50.0, "{object}");
            assert!(statistic(&database, object, "logical reads") > 0.0, "{object}");
            assert!(statistic(&database, object, "row lock waits") == 0.0, "{object}");
        }
        assert!(changes("u") == other, "nobody has changed it");

        let all = rows(&database, OF_HEAP[0]);
        let named = |row: &Row| ["owner", "object_name", "object_type"].map(|c| text(row, c));
        let names: BTreeSet<[String; 3]> = all.iter().map(named).collect();
        for name in [
            ["public", "t", "TABLE"],
            ["public", "t_one", "INDEX"],
            ["SYS", "objects", "TABLE"],
            ["SYS", "objects_schema_name", "INDEX"],
            ["SYS", "segments", "TABLE"],
            ["SYS", "segments_table_place", "INDEX"],
            ["SYS", "counters", "TABLE"],
        ] {
            assert!(names.contains(&name.map(str::to_owned)), "{name:?} of {names:?}");
        }
        let is_unknown = |name: &&[String; 3]| name[1].starts_with("object ");
        assert_eq!(names.iter().find(is_unknown), None);
        let kinds: BTreeSet<String> = all.iter().map(|row| text(row, "statistic_name")).collect();
        assert_eq!(all.len(), names.len() * kinds.len(), "each has each statistic once");
        database.close().await.unwrap();
    });
}

#[test]
fn a_checkpoint_leaves_little_for_the_next_opening() {
    let machine = Machine::new(91);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t").await;
        for part in 0..20 {
            insert(&database, "t", part * 10..part * 10 + 10, 1000).await.unwrap();
        }
        let [pool, recovery] = [OF_HEAP[1], OF_HEAP[2]];
        let of = |view, column| of(&database, view, column);
        let (redo, time) = (of(recovery, "actual_redo_blks"), of(recovery, "estimated_mttr"));
        assert!(redo >= 45.0, "200 KB are as many blocks: {redo}");
        assert!(of(recovery, "recovery_estimated_ios") >= of(pool, "dirty"));
        assert!(of(recovery, "target_redo_blks") >= redo && time > 0.0);
        let (dirty, written) = (of(pool, "dirty"), of(recovery, "ckpt_block_writes"));
        assert!(dirty > 0.0 && dirty <= of(pool, "used"));
        database.storage().redo().checkpoint().await.unwrap();
        let after = of(recovery, "actual_redo_blks");
        assert!(after < redo / 2.0, "{after} of {redo}");
        assert!(of(recovery, "estimated_mttr") < time);
        assert!(of(pool, "dirty") == 0.0);
        assert!(of(recovery, "ckpt_block_writes") >= written + dirty);

        assert!(of(pool, "block_size") == 8192.0 && of(pool, "free_buffer_wait") == 0.0);
        assert!(of(pool, "used") <= of(pool, "set_msize"));
        let ratio = of(pool, "hit_ratio");
        assert!(of(pool, "logical_reads") > 0.0 && (0.0..=1.0).contains(&ratio), "{ratio}");
        database.close().await.unwrap();
    });
}

#[test]
fn the_recovery_target_is_obeyed_at_once_and_after_a_restart() {
    let machine = Machine::new(92);
    machine.run(async {
        let database = machine.open().await;
        let set = |value| database.alter_system_set("recovery_target", value, None);
        set("6").await.unwrap();
        create(&database, "t").await;
        let target = || of(&database, "v$instance_recovery", "target_mttr");
        assert!(target() == 6.0, "it was set before there was a heap");
        set("1").await.unwrap();
        assert!(target() == 1.0);
        for (value, number) in [("0", 68), ("3601", 68), ("1.5", 2017), ("soon", 2017)] {
            let error = set(value).await.unwrap_err();
            assert!(error.number() == number && error.has(2097), "{value}: {error}");
            assert!(error.to_string().contains("1 to 3600 s"), "{value}: {error}");
        }
        assert!(target() == 1.0);
        database.close().await.unwrap();
        let database = machine.open().await;
        let target = || of(&database, "v$instance_recovery", "target_mttr");
        assert!(target() == 1.0, "it is in cellar.toml");
        database.alter_system_reset("recovery_target", None).await.unwrap();
        assert!(target() == 5.0);
        database.close().await.unwrap();
    });
}

#[test]
fn a_heap_that_is_not_open_or_only_read_has_no_rows() {
    let machine = Machine::new(93);
    machine.run(async {
        let are_empty = |database: &Database| {
            for view in OF_HEAP {
                assert!(rows(database, view).is_empty(), "{view}");
            }
        };
        let database = machine.open().await;
        are_empty(&database);
        create(&database, "t").await;
        assert!(OF_HEAP.iter().all(|view| !rows(&database, view).is_empty()));
        database.close().await.unwrap();
        are_empty(&database);
        let mode = OpenMode { read_only: true, ..OpenMode::default() };
        let database = machine.open_as(mode).await;
        assert!(database.heap().only_read().is_some());
        are_empty(&database);
        database.close().await.unwrap();
    });
}
