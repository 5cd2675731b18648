//! The relations of PostgreSQL's catalogs: their names, oids and columns.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One relation a line: schema (`p` or `i`), name, oid, kind, and its columns with their types; `!`
/// follows those that are never NULL.
static TEXT: &str = include_str!("data/relations.txt");

/// A column of such a relation.
#[derive(Debug)]
pub(super) struct Column {
    pub name: &'static str,
    /// The name of its type.
    pub of: &'static str,
    pub not_null: bool,
}

/// One of PostgreSQL's own relations.
#[derive(Debug)]
pub(super) struct Relation {
    /// It belongs to the information schema.
    pub is_information: bool,
    pub name: &'static str,
    pub oid: u32,
    /// `r` or `v`.
    pub kind: &'static str,
    pub columns: Vec<Column>,
}

fn column(text: &'static str) -> Option<Column> {
    let (name, of) = text.split_once(':')?;
    let not_null = of.ends_with('!');
    Some(Column { name, of: of.trim_end_matches('!'), not_null })
}

fn relation(line: &'static str) -> Option<Relation> {
    let mut words = line.split(' ');
    let is_information = words.next()? == "i";
    let (name, oid, kind) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let columns = words.filter_map(column).collect();
    Some(Relation { is_information, name, oid, kind, columns })
}

/// The relations of one schema, by name.
fn of_schema(is_information: bool) -> BTreeMap<&'static str, Relation> {
    let all = TEXT.lines().filter_map(relation);
    let own = all.filter(|own| own.is_information == is_information);
    own.map(|own| (own.name, own)).collect()
}

static CATALOG: LazyLock<BTreeMap<&'static str, Relation>> = LazyLock::new(|| of_schema(false));
static INFORMATION: LazyLock<BTreeMap<&'static str, Relation>> = LazyLock::new(|| of_schema(true));

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Relation> {
    CATALOG.values().chain(INFORMATION.values())
}

/// The relation with a name.
pub(super) fn find(is_information: bool, name: &str) -> Option<&'static Relation> {
    if is_information { INFORMATION.get(name) } else { CATALOG.get(name) }
}

/// The relation with an oid.
pub(super) fn by_oid(oid: u32) -> Option<&'static Relation> {
    all().find(|own| own.oid == oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_relation_with_a_number_of_its_own() {
        assert_eq!(all().count(), TEXT.lines().count());
        let numbers: std::collections::BTreeSet<u32> = all().map(|own| own.oid).collect();
        assert_eq!(numbers.len(), all().count());
        assert!(all().all(|own| !own.columns.is_empty() && own.oid < 16_384));
        assert_eq!(find(false, "pg_class").map(|own| own.oid), Some(1259));
        assert_eq!(find(true, "tables").map(|own| own.columns.len()), Some(12));
    }
}
