//! The part of `validate` about tables whose rows change: checks their pages, and their indexes against them.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_instance::heap::{RowsChecked, WrongRows};
use cellar_storage::size::show_count;
use cellar_storage::words::some;
use serde_json::{Value, json};

use super::super::database::Database;
use super::super::output;
use super::super::progress::Progress;

/// Checks their current state; `None`: there are none, or they cannot be checked, which is reported.
pub async fn checked(database: &Database, quiet: bool) -> Option<RowsChecked> {
    let heap = database.inner.heap();
    if !heap.is_open() {
        return None;
    }
    let bar = std::sync::OnceLock::new();
    let done = AtomicU64::new(0);
    let progress = |bytes: u64, total: u64| {
        let bar = bar.get_or_init(|| Progress::new("tables", total, quiet));
        bar.set(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
    };
    #[cfg(feature = "sql")]
    let knows = Some(&cellar_sql::rows::reader_of_rows as &cellar_instance::heap::KnowsRows<'_>);
    #[cfg(not(feature = "sql"))]
    let knows = None;
    let found = heap.check(database.session.waits(), knows, &progress).await;
    bar.get().into_iter().for_each(Progress::finish);
    found.unwrap_or_else(|error| {
        output::notice(&format!(
            "Notice: tables whose rows change were not checked to their end: {error}"
        ));
        None
    })
}

/// Lines of a report.
pub fn lines(rows: &RowsChecked) -> Vec<String> {
    if rows.wrong.is_empty() {
        let tables = if rows.tables == 1 { "table" } else { "tables" };
        return vec![format!(
            "{} {tables} whose rows change: {} rows, and {} entries of indexes, agree",
            show_count(rows.tables),
            show_count(rows.rows),
            show_count(rows.entries)
        )];
    }
    let mut lines = Vec::new();
    for wrong in &rows.wrong {
        lines.extend(wrong.words.iter().cloned());
        if wrong.more > 0 {
            lines.push(format!("  and {} more like these", show_count(wrong.more)));
        }
    }
    lines
}

/// The action for what is wrong.
pub fn next(rows: &RowsChecked) -> Vec<String> {
    let mut words = Vec::new();
    let has_name = |wrong: &WrongRows| !wrong.table.is_empty() && !wrong.is_catalog;
    let is_index = |wrong: &&WrongRows| !wrong.is_table && has_name(wrong);
    let indexes: Vec<String> =
        rows.wrong.iter().filter(is_index).flat_map(|wrong| wrong.indexes.clone()).collect();
    if !indexes.is_empty() {
        let each = indexes.iter().map(|index| format!("REINDEX INDEX {index}")).collect::<Vec<_>>();
        words.push(format!(
            "indexes do not agree with their tables, so writes of one or the other were lost: look whether rows are \
             missing, then {}",
            each.join("; ")
        ));
    }
    let tables: Vec<String> = rows
        .wrong
        .iter()
        .filter(|wrong| wrong.is_table && has_name(wrong))
        .map(|wrong| wrong.table.clone())
        .collect();
    if !tables.is_empty() {
        words.push(format!(
            "copy out what can be read (COPY .. TO), DROP TABLE, and load it again: {}",
            some(&tables)
        ));
    }
    if rows.wrong.iter().any(|wrong| !has_name(wrong)) {
        words.push("pages of the heap are wrong that are the catalog's, or of which it is not known whose they are: \
                    take all tables out (pg_dump), and load them into a new database"
            .to_owned());
    }
    words
}

/// The report for programs.
pub fn as_json(rows: &RowsChecked) -> Value {
    let wrong = rows.wrong.iter().map(|wrong| {
        json!({
            "table": wrong.table,
            "is_catalog": wrong.is_catalog,
            "indexes": wrong.indexes,
            "is_table": wrong.is_table,
            "words": wrong.words,
            "more": wrong.more,
        })
    });
    json!({
        "tables": rows.tables,
        "rows": rows.rows,
        "entries": rows.entries,
        "keys_compared": rows.keys_compared,
        "wrong": wrong.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_what_to_do() {
        let index = WrongRows {
            table: "t".into(),
            is_catalog: false,
            indexes: vec!["t_pkey".into(), "s.i".into()],
            is_table: false,
            words: vec!["index t_pkey of t: page 7 of index 70 has an entry".into()],
            more: 1200,
        };
        let table =
            WrongRows { table: "u".into(), indexes: vec![], is_table: true, ..index.clone() };
        let nobody = WrongRows { table: String::new(), is_table: true, ..table.clone() };
        let mut rows =
            RowsChecked { tables: 1, rows: 12_000, entries: 24_000, ..RowsChecked::default() };
        assert_eq!(
            lines(&rows),
            ["1 table whose rows change: 12 000 rows, and 24 000 entries of indexes, agree"]
        );
        assert!(next(&rows).is_empty());
        let catalog = WrongRows { table: "the catalog".into(), is_catalog: true, ..index.clone() };
        rows.wrong = vec![catalog];
        assert_eq!(next(&rows).len(), 1, "nobody can make its indexes anew");
        rows.wrong = vec![nobody, index, table];
        assert_eq!(lines(&rows).len(), 6);
        assert!(lines(&rows)[3].contains("and 1 200 more"), "{:?}", lines(&rows));
        let next = next(&rows);
        assert!(next[0].ends_with("then REINDEX INDEX t_pkey; REINDEX INDEX s.i"), "{next:?}");
        assert!(next[1].ends_with("load it again: u"), "{next:?}");
        assert!(next[2].contains("pg_dump"), "{next:?}");
    }
}
