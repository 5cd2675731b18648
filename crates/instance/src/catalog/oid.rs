//! Object numbers as PostgreSQL's clients know them: each stays the same for as long as the object
//! exists.
//!
//! An object in the heap keeps the number that it first had there, above [`FIRST`]. All others have one
//! at [`GIVEN`] or above; the two ranges never meet, because the heap counts up from below. Views and
//! schemas get a number from the catalog when they are made, columnar tables one from their id, and
//! external tables one from their name, which they keep.

use std::collections::BTreeSet;

use super::{Catalog, Index, Table, TableKind, name};

/// What is below is PostgreSQL's own.
pub const FIRST: u32 = 16_384;

/// Numbers from here on are for objects that are not in the heap.
const GIVEN: u32 = 1 << 30;

/// A number for a text, at [`GIVEN`] or above, and not negative if it is read as a signed one.
fn number_for(text: &str) -> u32 {
    GIVEN | (crc32c::crc32c(text.as_bytes()) & (GIVEN - 1))
}

/// Half of the bits, made of all.
fn mixed(id: u64) -> u32 {
    crc32c::crc32c(&id.to_le_bytes())
}

/// The first number from this one on that is not among those.
fn free(from: u32, used: &BTreeSet<u32>) -> u32 {
    let mut number = from;
    while used.contains(&number) {
        number = GIVEN | (number.wrapping_add(1) & (GIVEN - 1));
    }
    number
}

impl Index {
    /// The number by which clients know it.
    pub fn oid(&self) -> u32 {
        FIRST.saturating_add(if self.number == 0 { self.object } else { self.number })
    }
}

impl Table {
    /// Its number in the heap, or that of its first one.
    fn in_heap_number(&self) -> Option<u32> {
        let now = self.rows.as_ref().map(|rows| rows.object);
        let rows = now.map(|now| if self.number == 0 { now } else { self.number });
        rows.or_else(|| self.sequence.as_ref().map(|sequence| sequence.id))
    }

    /// Whether nothing else tells it from others, whatever its name is.
    fn has_number(&self) -> bool {
        use TableKind::{Database, Enum, Role, Schema, View};
        matches!(self.kind, View | Schema | Role | Enum | Database)
    }

    /// The number by which clients know it.
    pub fn oid(&self) -> u32 {
        match (self.in_heap_number(), self.number) {
            (Some(number), _) => FIRST.saturating_add(number),
            (None, 0) if self.id != 0 => GIVEN | (mixed(self.id) & (GIVEN - 1)),
            // Of files; or of a catalog from before there were numbers.
            (None, 0) => number_for(&self.name),
            (None, number) => number,
        }
    }
}

impl Table {
    /// The number of the type of arrays of an enum type.
    pub fn array_oid(&self) -> u32 {
        array_of(self.oid())
    }
}

/// The number of the arrays of a type that has this one, and the other way round.
pub fn array_of(oid: u32) -> u32 {
    oid ^ (GIVEN >> 1)
}

impl Catalog {
    /// The schema `public`, which has a catalog entry only if something was recorded about it.
    pub fn oid_of_schema(&self, schema: &str) -> Option<u32> {
        match schema {
            name::PUBLIC => Some(PUBLIC_OID),
            _ => self.table(&name::schema_key(schema)).map(Table::oid),
        }
    }

    /// A table with the numbers that it keeps: those of the table it replaces, or new ones.
    pub(super) fn numbered(&self, mut table: Table, was: Option<&Table>) -> Table {
        if let (Some(rows), Some(before)) = (&mut table.rows, was) {
            let known = before.rows.iter().flat_map(|rows| &rows.indexes);
            let known: Vec<&Index> = known.collect();
            for index in rows.indexes.iter_mut().filter(|index| index.number == 0) {
                let own = known.iter().find(|own| own.name == index.name);
                let first = own.map_or(0, |own| own.oid() - FIRST);
                index.number = if first == index.object { 0 } else { first };
            }
        }
        let heap = table.rows.as_ref().map(|rows| rows.object);
        match (was, heap) {
            (Some(was), Some(now)) if table.number == 0 => {
                let first = was.in_heap_number().unwrap_or(now);
                table.number = if first == now { 0 } else { first };
            }
            (Some(was), None) if table.number == 0 && table.has_number() => {
                table.number = was.oid();
            }
            (None, None) if table.number == 0 && table.has_number() => {
                let own = self.tables.iter().map(Table::oid);
                let used = own.flat_map(|oid| [oid, array_of(oid)]).collect();
                let text = format!("{}\u{1f}{}", table.name, self.serial);
                table.number = free(number_for(&text), &used);
            }
            _ => {}
        }
        table
    }
}

/// The schema `public`, as in PostgreSQL.
const PUBLIC_OID: u32 = 2_200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{RowTable, View};

    fn view(name: &str) -> Table {
        let view = View {
            query: "select 1".into(),
            columns: Vec::new(),
            uses: std::collections::BTreeMap::new(),
        };
        Table::of_view(name, "", view)
    }

    #[test]
    fn an_object_keeps_its_number_whatever_becomes_of_it() {
        let catalog = Catalog::default();
        let table = Table::in_heap("t", "", RowTable::plain(70));
        let catalog = catalog.with(table, false).and_then(|c| c.with(view("v"), false));
        let catalog = catalog.unwrap_or_default();
        let oid = |catalog: &Catalog, name: &str| catalog.table(name).map(Table::oid);
        assert_eq!(oid(&catalog, "t"), Some(FIRST + 70));
        let of_view = oid(&catalog, "v");
        assert!(of_view.is_some_and(|oid| oid >= GIVEN));
        // Emptied, and renamed.
        let was = catalog.table("t").cloned().unwrap_or_else(|| view("none"));
        let emptied = Table { rows: Some(RowTable::plain(90)), name: "u".into(), ..was.clone() };
        let catalog = catalog.altered(&was, emptied).unwrap_or_default();
        assert_eq!(oid(&catalog, "u"), Some(FIRST + 70));
        let catalog = catalog.with_view(view("v")).unwrap_or_default();
        assert_eq!(oid(&catalog, "v"), of_view);
    }

    #[test]
    fn numbers_in_use_are_not_given_again() {
        let first = number_for("t");
        let used = BTreeSet::from([first, GIVEN | ((first + 1) & (GIVEN - 1))]);
        assert!(!used.contains(&free(first, &used)));
    }
}
