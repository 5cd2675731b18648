//! Findings of a check: each names the page, the object or the row that is wrong.

use cellar_page::{Damage, Kind};

use crate::row_id::RowId;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A page is not what was written.
    #[error("page {page} is damaged: {damage}")]
    PageDamaged {
        /// The page.
        page: u32,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A page was changed by a record that the log does not have.
    #[error("page {page} has LSN {lsn}, and the log ends at {end}")]
    PageNewer {
        /// The page.
        page: u32,
        /// The record that changed it.
        lsn: u64,
        /// The end of the log.
        end: u64,
    },
    /// A page is of another kind or belongs to another object than the reference to it says.
    #[error(
        "page {page} should be {} of object {object}, and is {} of object {owner}",
        kind_name(Some(*expected)), kind_name(*found)
    )]
    WrongPage {
        /// The page.
        page: u32,
        /// The object whose it should be.
        object: u32,
        /// What it should be.
        expected: Kind,
        /// What it is.
        found: Option<Kind>,
        /// Whose it says it is.
        owner: u32,
    },
    /// An entry of the extent map is impossible.
    #[error("page {page} of the extent map has an entry for extent {extent} that cannot be")]
    MapEntry {
        /// The page of the extent map.
        page: u32,
        /// The extent.
        extent: u32,
    },
    /// The extent map and the space page of an extent do not agree.
    #[error(
        "page {map} of the extent map gives extent {extent} to object {object}, and its first page {page} is \
         {} of object {owner}", kind_name(*found)
    )]
    Extent {
        /// The page of the extent map.
        map: u32,
        /// The extent.
        extent: u32,
        /// Whose it is by the extent map.
        object: u32,
        /// The first page of the extent.
        page: u32,
        /// What that is.
        found: Option<Kind>,
        /// Whose that is.
        owner: u32,
    },
    /// An object has no first extent, or several.
    #[error("object {object} has {count} first extents, and should have one")]
    FirstExtents {
        /// The table or index.
        object: u32,
        /// How many it has.
        count: usize,
    },
    /// A table or index that the caller knows is not there.
    #[error("object {object} is no {expected}")]
    NotThere {
        /// Its number.
        object: u32,
        /// What it should be.
        expected: &'static str,
    },
    /// A space page has an impossible state for a page.
    #[error("the space page {space} has state {state} for page {page}, which cannot be")]
    State {
        /// The space page.
        space: u32,
        /// The page whose state it is.
        page: u32,
        /// The state.
        state: u8,
    },
    /// A page is in use, and its space page says that it is free.
    #[error(
        "page {page} of object {object} is in use, and its space page {space} says that it is free"
    )]
    MarkedFree {
        /// The page.
        page: u32,
        /// The space page.
        space: u32,
        /// The table or index.
        object: u32,
    },
    /// A page is marked as in use, but nothing refers to it.
    #[error(
        "page {page} is leaked: space page {space} says it is in use, and nothing in index {index} leads to it"
    )]
    Leaked {
        /// The page.
        page: u32,
        /// The space page.
        space: u32,
        /// The index.
        index: u32,
    },
    /// A page of a long value is marked as one of rows: rows would be put into it.
    #[error(
        "page {page} of object {object} is of a long value, and its space page {space} does not say so"
    )]
    NotMarkedLong {
        /// The page.
        page: u32,
        /// The space page.
        space: u32,
        /// The table.
        object: u32,
    },
    /// A page of a long value is not there.
    #[error("page {page} of table {table} is no part of {}, which leads to it", value_of(*row))]
    LongLost {
        /// The table.
        table: u32,
        /// The row that has the value, where it is known.
        row: Option<RowId>,
        /// The page that should be a part of it.
        page: u32,
    },
    /// A page belongs to another long value, or twice to this one.
    #[error("page {page} of table {table} is of {}, and another way leads to it too", value_of(*row))]
    LongShared {
        /// The table.
        table: u32,
        /// The row that has the value that came second, where it is known.
        row: Option<RowId>,
        /// The page.
        page: u32,
    },
    /// A long value is shorter or longer than its row says.
    #[error(
        "{row} of table {table} has a long value of {length} bytes in page {page} and others, and these have {bytes}"
    )]
    LongLength {
        /// The table.
        table: u32,
        /// The row.
        row: RowId,
        /// The first page of the value.
        page: u32,
        /// The length that the row has, in bytes.
        length: u32,
        /// The length that its pages have.
        bytes: usize,
    },
    /// A page is marked as in use by a long value, and no row leads to it.
    #[error(
        "page {page} is leaked: space page {space} says that a long value has it, and no row of table {table} leads \
         to it"
    )]
    LongLeaked {
        /// The table.
        table: u32,
        /// The page.
        page: u32,
        /// The space page.
        space: u32,
    },
    /// A slot or its cell cannot be in such a page.
    #[error("slot {slot} of page {page} of object {object} cannot be")]
    Cell {
        /// The page.
        page: u32,
        /// The slot.
        slot: u16,
        /// The table or index.
        object: u32,
    },
    /// A forward cell does not lead to its row.
    #[error("{row} of table {table} leads to {there}, where no such row is")]
    Forward {
        /// The table.
        table: u32,
        /// Where the row is known.
        row: RowId,
        /// Where the cell leads.
        there: RowId,
    },
    /// A moved row cannot be found from its original place.
    #[error(
        "{there} of table {table} has a row that is known as {home}, which does not lead to it"
    )]
    Moved {
        /// The table.
        table: u32,
        /// Where the row is.
        there: RowId,
        /// Where it says that it is known.
        home: RowId,
    },
    /// A row is not valid for its table.
    #[error("{row} of table {table} cannot be read as a row of this table")]
    RowUnreadable {
        /// The table.
        table: u32,
        /// The row.
        row: RowId,
    },
    /// An inner page leads to a page that is none of the index.
    #[error(
        "page {above} of index {index} leads to page {page}, which is in no extent of the index"
    )]
    Outside {
        /// The index.
        index: u32,
        /// The inner page.
        above: u32,
        /// Where it leads.
        page: u32,
    },
    /// Two inner pages, or one twice, lead to a page.
    #[error("page {above} of index {index} leads to page {page}, where another way leads too")]
    ReachedTwice {
        /// The index.
        index: u32,
        /// The inner page that came second.
        above: u32,
        /// Where it leads.
        page: u32,
    },
    /// A page of an index is on another level than the page above says.
    #[error("page {page} of index {index} is on level {level}, and should be on level {expected}")]
    Level {
        /// The index.
        index: u32,
        /// The page.
        page: u32,
        /// Its level.
        level: u32,
        /// The level below the page above.
        expected: u32,
    },
    /// A page of an index other than the root has no cells.
    #[error("page {page} of index {index} is empty, and should have been given back")]
    Empty {
        /// The index.
        index: u32,
        /// The page.
        page: u32,
    },
    /// The cells of a page of an index are not in order.
    #[error("slot {slot} of page {page} of index {index} does not come behind the one before")]
    Order {
        /// The index.
        index: u32,
        /// The page.
        page: u32,
        /// The first slot that is out of order.
        slot: u16,
    },
    /// A cell of an index is outside the bounds set by a separator above.
    #[error(
        "slot {slot} of page {page} of index {index} is outside of the separators of page {above}"
    )]
    Bounds {
        /// The index.
        index: u32,
        /// The page.
        page: u32,
        /// The first slot that is outside.
        slot: u16,
        /// The inner page with the separator.
        above: u32,
    },
    /// An entry leads to no row.
    #[error("page {page} of index {index} has an entry for {row}, where table {table} has no row")]
    EntryWithoutRow {
        /// The index.
        index: u32,
        /// The leaf.
        page: u32,
        /// The table.
        table: u32,
        /// Where the entry leads.
        row: RowId,
    },
    /// An entry has a key that its row does not have.
    #[error(
        "page {page} of index {index} has an entry for {row} with a key that the row does not have"
    )]
    WrongKey {
        /// The index.
        index: u32,
        /// The leaf.
        page: u32,
        /// The row.
        row: RowId,
    },
    /// A row is not found in an index.
    #[error("{row} has no entry in index {index}{}", leaf_name(*page))]
    MissingEntry {
        /// The index.
        index: u32,
        /// The row.
        row: RowId,
        /// The leaf where its entry should be, if the key is known.
        page: Option<u32>,
    },
    /// A row has several entries in an index.
    #[error("{row} has {count} entries in index {index}, and should have one")]
    EntryTwice {
        /// The index.
        index: u32,
        /// The row.
        row: RowId,
        /// How many it has.
        count: u32,
    },
    /// Two rows have the same key of an index where each has its own.
    #[error("page {page} of index {index} has the same unique key for {row} and for {other}")]
    Duplicate {
        /// The index.
        index: u32,
        /// The leaf with the second entry.
        page: u32,
        /// The row of the second entry.
        row: RowId,
        /// That of the entry before.
        other: RowId,
    },
}

impl Finding {
    /// The table or index that it is about; `None`: a page of which that is not known.
    pub fn object(&self) -> Option<u32> {
        match *self {
            Finding::PageDamaged { .. }
            | Finding::PageNewer { .. }
            | Finding::MapEntry { .. }
            | Finding::State { .. } => None,
            Finding::WrongPage { object, .. }
            | Finding::Extent { object, .. }
            | Finding::FirstExtents { object, .. }
            | Finding::NotThere { object, .. }
            | Finding::MarkedFree { object, .. }
            | Finding::NotMarkedLong { object, .. }
            | Finding::Cell { object, .. } => Some(object),
            Finding::Forward { table, .. }
            | Finding::Moved { table, .. }
            | Finding::LongLost { table, .. }
            | Finding::LongShared { table, .. }
            | Finding::LongLength { table, .. }
            | Finding::LongLeaked { table, .. }
            | Finding::RowUnreadable { table, .. } => Some(table),
            Finding::Leaked { index, .. }
            | Finding::Outside { index, .. }
            | Finding::ReachedTwice { index, .. }
            | Finding::Level { index, .. }
            | Finding::Empty { index, .. }
            | Finding::Order { index, .. }
            | Finding::Bounds { index, .. }
            | Finding::EntryWithoutRow { index, .. }
            | Finding::WrongKey { index, .. }
            | Finding::MissingEntry { index, .. }
            | Finding::EntryTwice { index, .. }
            | Finding::Duplicate { index, .. } => Some(index),
        }
    }
}

fn kind_name(kind: Option<Kind>) -> &'static str {
    kind.map_or("of no kind,", |kind| match kind {
        Kind::Heap => "a heap page",
        Kind::Leaf => "an index leaf",
        Kind::Inner => "an index inner page",
        Kind::Overflow => "an overflow page",
        Kind::ExtentMap => "an extent map page",
        Kind::Space => "a space page",
        Kind::Free => "a free page",
    })
}

fn value_of(row: Option<RowId>) -> String {
    row.map_or_else(|| "a long value".to_owned(), |row| format!("the long value of {row}"))
}

fn leaf_name(page: Option<u32>) -> String {
    page.map_or_else(String::new, |page| format!(": it should be in page {page}"))
}
