//! A transaction that changes rows and defines tables of each kind is one: the power cut at every I/O of it leaves
//! all of it, or nothing, and no file or object without a name; so does a rollback, and whoever goes away.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use cellar_instance::Database;
use cellar_instance::catalog::{Grants, Table, name};
use cellar_instance::database::Definitions;
use cellar_instance::heap::{Begin, IndexKey, Transaction};
use cellar_io::EnvExt;

use crate::machine::{self, Machine, written};
use crate::row_tables::{count_now, create, insert, objects, plain_table, row, rows_of, session};

/// Rows that come to a table.
async fn add(
    definitions: &Definitions,
    own: &mut Transaction,
    name: &str,
    numbers: std::ops::Range<u64>,
) {
    let catalog = definitions.catalog().unwrap();
    let (_, table) = catalog.row_table(name).unwrap();
    own.lock_to_read(table).await.unwrap();
    own.statement().await.unwrap();
    for number in numbers {
        let key =
            IndexKey { bytes: Bytes::copy_from_slice(&number.to_be_bytes()), has_null: false };
        own.insert(table, row(number, 100), &[key.clone(), key]).await.unwrap();
    }
}

/// A transaction that makes a table with rows, drops another one, empties a third, adds rows to a columnar table and
/// makes one, and takes part of that back.
async fn define(database: &Database) -> (Definitions, Transaction) {
    let (definitions, of) = (database.definitions(), session(database));
    let mut own = database.heap().begin(&of, Begin::default()).unwrap();
    definitions.create_table(&mut own, &of, plain_table("new")).await.unwrap();
    add(&definitions, &mut own, "new", 0..30).await;
    definitions.drop_table(&mut own, "dropped").await.unwrap();
    definitions.truncate_table(&mut own, &of, "emptied").await.unwrap();
    add(&definitions, &mut own, "emptied", 50..53).await;
    let columns = definitions.catalog().unwrap().table("columns").unwrap().clone();
    let (file, figures) = written(database, "DATA", 2).await;
    definitions.append_segment("columns", columns.id, file, figures).await.unwrap();
    let more = machine::new_table(database, "more", "DATA");
    definitions.add_columnar(more, Some(written(database, "DATA", 3).await)).await.unwrap();
    let inside = name::key_of("made", "new");
    definitions.create_schema(&mut own, "made").await.unwrap();
    definitions.create_table(&mut own, &of, plain_table(&inside)).await.unwrap();
    add(&definitions, &mut own, &inside, 0..4).await;
    assert!(definitions.lock_schema(&mut own, "gone").await.unwrap().is_empty());
    definitions.drop_schema("gone").unwrap();
    let (rows, defined) = (own.savepoint(), definitions.savepoint());
    definitions.create_table(&mut own, &of, plain_table("back")).await.unwrap();
    add(&definitions, &mut own, "back", 0..5).await;
    definitions.drop_other("columns").unwrap();
    own.back_to(rows);
    definitions.back_to(&defined);
    (definitions, own)
}

async fn set_up(database: &Database) {
    create(database, "dropped").await;
    create(database, "emptied").await;
    insert(database, "dropped", 0..10, 100).await.unwrap();
    insert(database, "emptied", 0..20, 100).await.unwrap();
    machine::create(database, "columns", "DATA", 1).await;
    let definitions = database.definitions();
    let mut own = database.heap().begin(&session(database), Begin::default()).unwrap();
    definitions.create_schema(&mut own, "gone").await.unwrap();
    definitions.commit(own).await.unwrap();
}

/// Whether the transaction was committed: all of it, or nothing.
async fn was_committed(database: &Database) -> bool {
    let columnar = |name: &'static str| async move {
        match database.catalog().current().table(name) {
            Some(_) => Some(machine::rows(database, name).await),
            None => None,
        }
    };
    let inside = name::key_of("made", "new");
    let heap = ["new", "dropped", "emptied", "back", &inside];
    let mut rows = Vec::new();
    for name in heap {
        rows.push(count_now(database, name).await);
    }
    let seen = (rows, columnar("columns").await, columnar("more").await);
    let before = (vec![None, Some(10), Some(20), None, None], Some(vec![1]), None);
    let after = (vec![Some(30), None, Some(3), None, Some(4)], Some(vec![1, 2]), Some(vec![3]));
    assert!(seen == before || seen == after, "{seen:?}");
    let catalog = database.catalog().current();
    let schemas = if seen == after { ["public", "made"] } else { ["public", "gone"] };
    assert_eq!(catalog.schemas(), schemas);
    seen == after
}

fn check_nothing_is_left(database: &Database) {
    assert_eq!(objects(database), crate::row_tables::named(database));
    assert_eq!(machine::files(database, "DATA"), machine::named(database, "DATA"));
}

#[test]
fn a_power_cut_anywhere_leaves_all_of_a_transaction_or_nothing() {
    let mut counts = [0; 2];
    for point in 1.. {
        let machine = Machine::new(7000 + point);
        machine.run(async {
            let database = machine.open().await;
            set_up(&database).await;
            database.close().await.unwrap();
        });
        let under_way = Cell::new(false);
        let done = machine.sim.run(async {
            let database = machine.open().await;
            under_way.set(true);
            machine.sim.crash_after(point * 3);
            let (definitions, own) = define(&database).await;
            definitions.commit(own).await.unwrap();
            machine.sim.crash_never();
            check_nothing_is_left(&database);
            assert!(was_committed(&database).await);
            database.close().await.unwrap();
        });
        assert!(under_way.get());
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            let database = machine.open().await;
            let committed = was_committed(&database).await;
            assert!(committed || done.is_none());
            counts[usize::from(committed)] += 1;
            check_nothing_is_left(&database);
            database.close().await.unwrap();
        });
        if done.is_some() {
            assert!(counts[0] > 5 && counts[1] > 0, "{counts:?}");
            return;
        }
    }
}

#[test]
fn nothing_is_left_of_what_is_rolled_back_or_given_up() {
    let machine = Machine::new(7900);
    machine.run(async {
        let database = machine.open().await;
        set_up(&database).await;
        let (definitions, own) = define(&database).await;
        assert_ne!(machine::files(&database, "DATA"), machine::named(&database, "DATA"));
        definitions.roll_back(Some(own)).await;
        check_nothing_is_left(&database);
        assert!(!was_committed(&database).await);
        let given_up = define(&database).await;
        drop(given_up);
        database.env().sleep(Duration::from_secs(2)).await;
        check_nothing_is_left(&database);
        assert!(!was_committed(&database).await);
        let (definitions, own) = define(&database).await;
        definitions.commit(own).await.unwrap();
        check_nothing_is_left(&database);
        assert!(was_committed(&database).await);
        database.close().await.unwrap();
    });
}

#[test]
fn what_others_define_meanwhile_stays_and_what_both_change_is_told() {
    let machine = Machine::new(7901);
    machine.run(async {
        let database = machine.open().await;
        set_up(&database).await;
        let (definitions, own) = define(&database).await;
        let id = database.catalog().current().table("columns").unwrap().id;
        machine::append(&database, "columns", id, 9).await.unwrap();
        create(&database, "others").await;
        assert!(definitions.catalog().unwrap().row_table("others").is_some());
        definitions.commit(own).await.unwrap();
        assert_eq!(machine::rows(&database, "columns").await, [1, 9, 2]);
        assert_eq!(count_now(&database, "new").await, Some(30));
        assert!(rows_of(&database, "others").is_some());

        let (definitions, of) = (database.definitions(), session(&database));
        let mut own = database.heap().begin(&of, Begin::default()).unwrap();
        definitions.create_table(&mut own, &of, plain_table("late")).await.unwrap();
        definitions.drop_other("more").unwrap();
        database.tables().drop_columnar("more").await.unwrap();
        let told = definitions.commit(own).await.unwrap_err();
        assert_eq!((told.number(), told.sqlstate()), (8177, "40001"), "{told}");
        assert!(rows_of(&database, "late").is_none());
        check_nothing_is_left(&database);
        database.close().await.unwrap();
    });
}

/// Who changes rights does not use the table: that may come while another one writes it anew.
#[test]
fn a_table_keeps_the_rights_that_it_got_while_it_was_altered() {
    let machine = Machine::new(7902);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t").await;
        let (definitions, of) = (database.definitions(), session(&database));
        let mut own = database.heap().begin(&of, Begin::default()).unwrap();
        let alteration = definitions.alter(&mut own, &of, "t").await.unwrap();
        let rights = database.definitions();
        let mut other = database.heap().begin(&of, Begin::default()).unwrap();
        rights.lock_rights(&mut other, ["t".to_owned()].into()).await.unwrap();
        let grants = Grants { own: Some(Vec::new()), ..Grants::default() };
        let revoked = |was: &Table| Table { grants: grants.clone(), ..was.clone() };
        rights.put_rights("t", revoked).unwrap();
        rights.commit(other).await.unwrap();
        let mut table = alteration.table().clone();
        table.name = "s".to_owned();
        alteration.finish(&mut own, table).await.unwrap();
        definitions.commit(own).await.unwrap();
        let catalog = database.catalog().current();
        assert!(catalog.table("t").is_none());
        assert_eq!(catalog.table("s").unwrap().grants, grants);
        database.close().await.unwrap();
    });
}

#[test]
fn what_was_to_last_as_long_as_a_session_is_gone_behind_a_power_cut() {
    let machine = Machine::new(7950);
    let key = name::key_of(&name::temporary_schema(3), "t");
    machine.sim.run(async {
        let database = machine.open().await;
        create(&database, &key).await;
        create(&database, "stays").await;
        insert(&database, &key, 0..5, 100).await.unwrap();
        machine.sim.crash_after(0);
        let _ = database.close().await;
    });
    machine.sim.restart();
    machine.run(async {
        let database = machine.open().await;
        let names: Vec<String> =
            database.catalog().current().tables.iter().map(|table| table.name.clone()).collect();
        assert_eq!(names, ["stays", "stays_seq"]);
        database.env().sleep(Duration::from_secs(2)).await;
        check_nothing_is_left(&database);
        database.close().await.unwrap();
    });
}
