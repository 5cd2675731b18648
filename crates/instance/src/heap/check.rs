//! A check of all tables whose rows change, as they are at one moment: their pages, and whether each of their
//! indexes has an entry for each row and no others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_heap::{Finding, Known, LongValue, RowKey, TableOf};
use cellar_wait::Session;

use super::catalog_rows::{OWN_TABLES, keys_of, longs_of};
use super::transaction::row_key;
use super::{Heap, HeapCatalog, IndexKey, from_heap};
use crate::catalog::{Catalog, Index, RowTable, Table, name};
use crate::error::Result;

/// The keys of a row of a table, one for each of its indexes; `None`: it cannot be read as a row of that.
pub type KeysOfRow = Arc<dyn Fn(&[u8]) -> Option<Vec<IndexKey>> + Send + Sync>;

/// The long values of a row of a table: the first page and the length in bytes of each. `None` as above.
pub type LongsOfRow = Arc<dyn Fn(&[u8]) -> Option<Vec<(u32, u32)>> + Send + Sync>;

/// What reads the rows of a table.
#[derive(Clone)]
pub struct RowReader {
    /// Their keys.
    pub keys: KeysOfRow,
    /// Their long values.
    pub longs: LongsOfRow,
}

impl std::fmt::Debug for RowReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowReader")
    }
}

/// Knows how to read the rows of a table; `None`: the catalog does not say what its columns are.
pub type KnowsRows<'a> =
    dyn Fn(&Catalog, &Table, &RowTable) -> Option<RowReader> + Send + Sync + 'a;

/// The most findings that are reported for a table.
const TOLD_MAX: usize = 3;

/// What a check of the tables has looked at, and what it has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsChecked {
    /// Tables whose rows change.
    pub tables: u64,
    /// Their rows, and those of the catalog.
    pub rows: u64,
    /// Entries of indexes.
    pub entries: u64,
    /// Whether keys were compared, and not only counted.
    pub keys_compared: bool,
    /// What is wrong, by table.
    pub wrong: Vec<WrongRows>,
}

/// What is wrong with a table or its indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRows {
    /// The table; empty if the finding belongs to no known one.
    pub table: String,
    /// Whether it is of the catalog, which nobody makes anew.
    pub is_catalog: bool,
    /// Its indexes that disagree with it; other faults are of the table itself.
    pub indexes: Vec<String>,
    /// Whether there are findings that are of none of its indexes.
    pub is_table: bool,
    /// Some of the findings, in words.
    pub words: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

/// What the objects of the heap are called: each its table, and its own name where it is an index.
type Names = HashMap<u32, (String, Option<String>)>;

fn names_of(catalog: &Catalog) -> Names {
    let mut names = Names::new();
    for (table, index) in OWN_TABLES {
        names.insert(table, ("the catalog".to_owned(), None));
        names.insert(index, ("the catalog".to_owned(), Some("its index".to_owned())));
    }
    for table in &catalog.tables {
        let shown = || name::shown(&table.name).into_owned();
        if let Some(rows) = &table.rows {
            names.insert(rows.object, (shown(), None));
            let index =
                |own: &Index| (own.object, (shown(), Some(name::shown(&own.name).into_owned())));
            names.extend(rows.indexes.iter().map(index));
        }
    }
    names
}

fn tables_of(catalog: &Catalog) -> Vec<TableOf> {
    let own = OWN_TABLES.map(|(table, index)| TableOf { table, indexes: vec![index] });
    let rows = catalog.tables.iter().filter_map(|table| table.rows.as_ref());
    let of = |rows: &RowTable| TableOf {
        table: rows.object,
        indexes: rows.indexes.iter().map(|index| index.object).collect(),
    };
    own.into_iter().chain(rows.map(of)).collect()
}

/// Findings by table.
fn sorted(findings: &[Finding], names: &Names) -> Vec<WrongRows> {
    let mut wrong: BTreeMap<String, WrongRows> = BTreeMap::new();
    for finding in findings {
        let found = finding.object().and_then(|object| names.get(&object));
        let (table, index) = found.cloned().unwrap_or_default();
        let is_own = |object| OWN_TABLES.iter().any(|(t, index)| [*t, *index].contains(&object));
        let own = wrong.entry(table.clone()).or_insert_with(|| WrongRows {
            table: table.clone(),
            is_catalog: finding.object().is_some_and(is_own),
            indexes: Vec::new(),
            is_table: false,
            words: Vec::new(),
            more: 0,
        });
        let of = match (&index, table.is_empty()) {
            (Some(index), _) => format!("index {index} of {table}: "),
            (None, false) => format!("{table}: "),
            (None, true) => String::new(),
        };
        match index {
            Some(index) if own.indexes.contains(&index) => {}
            Some(index) => own.indexes.push(index),
            None => own.is_table = true,
        }
        match own.words.len() < TOLD_MAX {
            true => own.words.push(format!("{of}{finding}")),
            false => own.more += 1,
        }
    }
    wrong.into_values().collect()
}

impl Heap {
    /// Checks all tables whose rows change, as they are now; `None`: there are none yet. Without `knows`,
    /// only the number of entries is compared, not their keys, and long values are not followed from
    /// their rows. `progress` is called with the bytes examined so far, and the total.
    ///
    /// # Errors
    /// The heap is not open; 01555 so much was changed meanwhile that what it looks at is gone; the device.
    #[boxed]
    pub async fn check(
        &self,
        session: &Session,
        knows: Option<&KnowsRows<'_>>,
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Option<RowsChecked>> {
        let view = self.view()?;
        let Some(catalog) = HeapCatalog(self.clone()).at(&view).await? else { return Ok(None) };
        let (names, tables) = (names_of(&catalog), tables_of(&catalog));
        let mut known: HashMap<u32, (&RowTable, Option<RowReader>)> = HashMap::new();
        for (table, rows) in
            catalog.tables.iter().filter_map(|table| Some((table, table.rows.as_ref()?)))
        {
            let reader = knows.and_then(|knows| knows(&catalog, table, rows));
            known.insert(rows.object, (rows, reader));
        }
        let keys_of_row = |table: u32, row: &[u8]| -> Option<Vec<RowKey>> {
            match known.get(&table) {
                Some((rows, Some(reader))) => {
                    let keys = (reader.keys)(row)?;
                    Some(
                        rows.indexes
                            .iter()
                            .zip(&keys)
                            .map(|(index, key)| row_key(index, key))
                            .collect(),
                    )
                }
                Some((_, None)) => None,
                None => keys_of(table, row),
            }
        };
        let longs_of_row = |table: u32, row: &[u8]| -> Option<Vec<LongValue>> {
            match known.get(&table) {
                Some((_, reader)) => {
                    let longs = (reader.as_ref()?.longs)(row)?;
                    Some(
                        longs
                            .into_iter()
                            .map(|(page, length)| LongValue { page, length })
                            .collect(),
                    )
                }
                None => longs_of(table, row),
            }
        };
        let total = view.bytes();
        let read = |bytes: u64| progress(bytes, total);
        let keys = knows.map(|_| &keys_of_row as &cellar_heap::KeysOf<'_>);
        let longs = knows.map(|_| &longs_of_row as &cellar_heap::LongsOf<'_>);
        let report = view.verify_with(session, &tables, Known { keys, longs }, &read).await;
        let report = report.map_err(from_heap)?;
        let mut wrong = sorted(&report.findings, &names);
        if let Some(last) = wrong.last_mut() {
            last.more += report.left_out;
        }
        Ok(Some(RowsChecked {
            tables: known.len() as u64,
            rows: report.rows,
            entries: report.entries,
            keys_compared: knows.is_some(),
            wrong,
        }))
    }
}
