//! The catalog: names are unique, changes are whole, damage is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cellar_instance::Error;
use cellar_instance::catalog::{
    Catalog, CatalogStore, SharedCatalog, StoreFuture, Table, TableKind,
};
use proptest::prelude::*;

use crate::env::block_on;

/// Keeps bytes in memory; fails when told to, and gives up its turn in between.
#[derive(Default)]
struct Memory {
    bytes: Mutex<Option<Vec<u8>>>,
    fails: Mutex<bool>,
}

impl CatalogStore for Memory {
    fn read(&self) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(async { Ok(self.bytes.lock().unwrap().clone()) })
    }

    fn replace(&self, bytes: Vec<u8>) -> StoreFuture<'_, ()> {
        Box::pin(async {
            std::thread::yield_now();
            if *self.fails.lock().unwrap() {
                return Err(Error::new(15041, "disk group \"DATA\" has no room"));
            }
            *self.bytes.lock().unwrap() = Some(bytes);
            Ok(())
        })
    }
}

fn table(name: &str) -> Table {
    Table {
        name: name.into(),
        kind: TableKind::External,
        format: "parquet".into(),
        location: format!("+DATA/{name}.parquet"),
        schema: "{}".into(),
        options: BTreeMap::from([("header".into(), "true".into())]),
    }
}

fn open(store: &Arc<Memory>) -> SharedCatalog {
    let store: Arc<dyn CatalogStore> = Arc::clone(store) as _;
    block_on(SharedCatalog::open(store)).unwrap()
}

#[test]
fn tables_are_there_after_a_restart() {
    let store = Arc::new(Memory::default());
    let catalog = open(&store);
    block_on(catalog.add(table("b"))).unwrap();
    block_on(catalog.add_all(vec![table("a"), table("c")])).unwrap();
    block_on(catalog.drop_table("b")).unwrap();
    let again = open(&store).current();
    assert_eq!(again.serial, 3);
    assert_eq!(again.tables, [table("a"), table("c")]);
    assert_eq!(again.table("a"), Some(&table("a")));
}

#[test]
fn a_name_is_used_once_and_a_missing_one_is_told() {
    let store = Arc::new(Memory::default());
    let catalog = open(&store);
    block_on(catalog.add(table("t"))).unwrap();
    let error = block_on(catalog.add(table("t"))).unwrap_err();
    assert_eq!((error.number(), error.sqlstate()), (955, "42P07"));
    let error = block_on(catalog.add_all(vec![table("u"), table("t")])).unwrap_err();
    assert_eq!(error.number(), 955);
    assert_eq!(catalog.current().tables.len(), 1, "all or none");
    let error = block_on(catalog.drop_table("x")).unwrap_err();
    assert_eq!(error.number(), 942);
    assert!(error.to_string().contains("tables there are: t"), "{error}");
    let other = Table { location: "/elsewhere".into(), ..table("t") };
    block_on(catalog.add_or_replace(other.clone())).unwrap();
    assert_eq!(catalog.current().tables, [other]);
}

#[test]
fn a_store_that_fails_changes_nothing() {
    let store = Arc::new(Memory::default());
    let catalog = open(&store);
    block_on(catalog.add(table("t"))).unwrap();
    *store.fails.lock().unwrap() = true;
    assert_eq!(block_on(catalog.add(table("u"))).unwrap_err().number(), 15041);
    assert_eq!(catalog.current().tables, [table("t")]);
    *store.fails.lock().unwrap() = false;
    block_on(catalog.add(table("v"))).unwrap();
    assert_eq!(open(&store).current().serial, 2);
}

#[test]
fn changes_at_the_same_time_are_all_kept() {
    let store = Arc::new(Memory::default());
    let catalog = open(&store);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let catalog = &catalog;
            scope.spawn(move || {
                for i in 0..10 {
                    block_on(catalog.add(table(&format!("t{n}_{i}")))).unwrap();
                }
            });
        }
    });
    assert_eq!(open(&store).current().tables.len(), 80);
    assert_eq!(catalog.current().serial, 80);
}

#[test]
fn damage_is_told_and_a_newer_version_is_not_damage() {
    let catalog = Catalog { tables: vec![table("t")], ..Catalog::default() };
    let good = catalog.encode().unwrap();
    let mut longer = good.clone();
    longer.extend([0; 5000]);
    assert_eq!(Catalog::decode(&longer).unwrap(), catalog, "a file may be longer");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x11;
        let error = Catalog::decode(&bad).unwrap_err();
        assert!([70108, 70109].contains(&error.number()), "byte {at}: {error}");
        assert_eq!(Catalog::decode(&good[..at]).unwrap_err().number(), 70108, "cut at {at}");
    }
    let text = String::from_utf8(good).unwrap().replacen("catalog 1 ", "catalog 2 ", 1);
    assert_eq!(Catalog::decode(text.as_bytes()).unwrap_err().number(), 70109);
    let twice = Catalog { tables: vec![table("t"), table("t")], ..Catalog::default() };
    let error = Catalog::decode(&twice.encode().unwrap()).unwrap_err();
    assert!(error.to_string().contains("two tables are called \"t\""), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_catalog_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Catalog::decode(&bytes);
        let mut headed = b"cellar catalog 1 9 00000000\n".to_vec();
        headed.extend(bytes);
        let _ = Catalog::decode(&headed);
    }
}
