//! The catalog: names are unique, changes are whole, damage is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cellar_instance::Error;
use cellar_instance::catalog::{Catalog, CatalogStore, Segment, SharedCatalog, StoreFuture, Table};
use proptest::prelude::*;

use crate::env::block_on;

/// Keeps bytes in memory; fails when told to, and gives up its turn in between.
#[derive(Default)]
struct Memory {
    bytes: Mutex<Option<Vec<u8>>>,
    fails: Mutex<bool>,
    /// Fails when all is done: nothing is lost by it but the room of the old one.
    fails_late: Mutex<bool>,
}

impl CatalogStore for Memory {
    fn load(&self) -> StoreFuture<'_, Option<Catalog>> {
        let bytes = self.bytes.lock().unwrap().clone();
        Box::pin(async { bytes.map(|bytes| Catalog::decode(&bytes)).transpose() })
    }

    fn replace<'a>(&'a self, _now: &'a Catalog, next: &'a Catalog) -> StoreFuture<'a, ()> {
        Box::pin(async {
            let bytes = next.encode()?;
            std::thread::yield_now();
            if *self.fails.lock().unwrap() {
                return Err(Error::new(15041, "disk group \"DATA\" has no room"));
            }
            *self.bytes.lock().unwrap() = Some(bytes);
            match *self.fails_late.lock().unwrap() {
                true => Err(Error::new(15041, "no room to note that the old one is deleted")),
                false => Ok(()),
            }
        })
    }
}

fn table(name: &str) -> Table {
    let location = format!("+DATA/{name}.parquet");
    Table::external(
        name,
        "parquet",
        location,
        "{}",
        BTreeMap::from([("header".into(), "true".into())]),
    )
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
    *store.fails_late.lock().unwrap() = true;
    block_on(catalog.add(table("w"))).expect("the disk has it: RAM must not say otherwise");
    assert_eq!(*catalog.current(), *open(&store).current());
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
    let text = String::from_utf8(good).unwrap().replacen("catalog 1 ", "catalog 3 ", 1);
    assert_eq!(Catalog::decode(text.as_bytes()).unwrap_err().number(), 70109);
    let text = text.replacen("catalog 3 ", "catalog 2 ", 1);
    assert_eq!(Catalog::decode(text.as_bytes()).unwrap_err().number(), 70108);
    let twice = Catalog { tables: vec![table("t"), table("t")], ..Catalog::default() };
    let error = Catalog::decode(&twice.encode().unwrap()).unwrap_err();
    assert!(error.to_string().contains("two tables are called \"t\""), "{error}");
}

fn segment(file: &str) -> Segment {
    Segment { file: file.into(), rows: 7, row_groups: 2, bytes: 100, created: 1 }
}

fn columnar(name: &str, id: u64, files: &[&str]) -> Table {
    let segments = files.iter().map(|file| segment(file)).collect();
    Table { segments, ..Table::columnar(name, id, "data", "{}") }
}

/// What programs that know no columnar tables wrote, and read.
const VERSION_1: &str = r#"cellar catalog 1 247 73a482dd
{
  "version": 1,
  "serial": 1,
  "tables": [
    {
      "name": "t",
      "kind": "external",
      "format": "parquet",
      "location": "+DATA/t.parquet",
      "schema": "{}",
      "options": {
        "header": "true"
      }
    }
  ]
}"#;

const VERSION_2: &str = r#"cellar catalog 2 413 171afbc5
{
  "version": 2,
  "serial": 2,
  "tables": [
    {
      "name": "c",
      "kind": "columnar",
      "format": "",
      "location": "+DATA",
      "schema": "{}",
      "options": {},
      "id": 18446744073709551615,
      "segments": [
        {
          "file": "cellar/tables/c",
          "rows": 7,
          "row_groups": 2,
          "bytes": 100,
          "created": 1
        }
      ]
    }
  ]
}"#;

#[test]
fn only_a_catalog_with_columnar_tables_is_of_version_2() {
    let store = Arc::new(Memory::default());
    let stored = || String::from_utf8(store.bytes.lock().unwrap().clone().unwrap()).unwrap();
    let catalog = open(&store);
    block_on(catalog.add(table("t"))).unwrap();
    assert_eq!(stored(), VERSION_1);
    assert_eq!(*catalog.current(), *open(&store).current());

    *store.bytes.lock().unwrap() = None;
    let catalog = open(&store);
    block_on(catalog.add(columnar("c", u64::MAX, &[]))).unwrap();
    block_on(catalog.append("c", u64::MAX, segment("cellar/tables/c"))).unwrap();
    assert_eq!(stored(), VERSION_2);
    assert_eq!(*catalog.current(), *open(&store).current());
    assert_eq!(open(&store).current().table("c").unwrap().rows(), 7);

    block_on(catalog.drop_table("c")).unwrap();
    assert!(stored().starts_with("cellar catalog 1 "), "older programs read it again");
}

#[test]
fn segments_come_to_the_table_they_were_made_for() {
    let store = Arc::new(Memory::default());
    let catalog = open(&store);
    block_on(catalog.add_all(vec![columnar("c", 1, &["a"]), table("t")])).unwrap();
    block_on(catalog.append("c", 1, segment("b"))).unwrap();
    assert_eq!(*open(&store).current().table("c").unwrap(), columnar("c", 1, &["a", "b"]));
    for (name, id) in [("c", 2), ("t", 0), ("x", 1)] {
        let error = block_on(catalog.append(name, id, segment("d"))).unwrap_err();
        assert_eq!(error.number(), 942, "{name}");
        assert!(error.to_string().contains("was dropped or made anew meanwhile"), "{error}");
    }
    let twice = block_on(catalog.append("c", 1, segment("b"))).unwrap_err();
    assert_eq!(twice.number(), 600, "what could not be read again is not written: {twice}");
    let error = block_on(catalog.add_or_replace(table("c"))).unwrap_err();
    assert_eq!(error.number(), 955, "its files would be nobody's");

    assert_eq!(block_on(catalog.truncate("c")).unwrap(), columnar("c", 1, &["a", "b"]));
    assert_eq!(*open(&store).current().table("c").unwrap(), columnar("c", 1, &[]));
    assert_eq!(block_on(catalog.truncate("t")).unwrap_err().number(), 70118);
    assert_eq!(block_on(catalog.drop_columnar("t")).unwrap_err().sqlstate(), "42809");
    assert_eq!(block_on(catalog.truncate("x")).unwrap_err().number(), 942);
    assert_eq!(block_on(catalog.drop_columnar("c")).unwrap(), columnar("c", 1, &[]));
}

#[test]
fn tables_that_contradict_themselves_are_damage() {
    let told = |tables: Vec<Table>| {
        let catalog = Catalog { version: 2, tables, ..Catalog::default() };
        Catalog::decode(&catalog.encode().unwrap()).unwrap_err().to_string()
    };
    let with = |segment: Segment| Table { segments: vec![segment], ..columnar("c", 1, &[]) };
    let elsewhere = Table { location: "/data".into(), ..columnar("c", 1, &[]) };
    for (tables, fault) in [
        (vec![columnar("c", 0, &[])], "columnar table \"c\" has no id"),
        (vec![columnar("c", 1, &[]), columnar("d", 1, &[])], "\"d\" has the id of another"),
        (vec![columnar("c", 1, &["a", "a"])], "file a is in two segments"),
        (vec![columnar("c", 1, &["a"]), columnar("d", 2, &["a"])], "file a is in two segments"),
        (vec![with(Segment { rows: 0, ..segment("a") })], "0 rows in 2 row groups"),
        (vec![with(Segment { row_groups: 0, ..segment("a") })], "7 rows in 0 row groups"),
        (vec![with(segment("/a"))], "has no file: \"/a\""),
        (vec![elsewhere], "is in no disk group"),
        (vec![columnar("c", 1, &[]), Table { id: 3, ..table("t") }], "\"t\" has segments"),
    ] {
        assert!(told(tables).contains(fault), "{fault}");
    }
    let empty = Segment { rows: 0, row_groups: 0, ..segment("a") };
    let other = Table { location: "+MORE".into(), ..columnar("d", 2, &["a"]) };
    let fine = Catalog { version: 2, tables: vec![with(empty), other], ..Catalog::default() };
    assert_eq!(Catalog::decode(&fine.encode().unwrap()).unwrap(), fine);
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
