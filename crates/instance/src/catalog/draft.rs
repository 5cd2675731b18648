//! The catalog as a transaction sees it: the catalog it began with, and its own changes. What others have
//! changed meanwhile, and the transaction has not, is taken from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Catalog, Grants, Table, name};
use crate::error::{Error, Result};

/// A catalog and the changes made to it.
#[derive(Clone)]
pub(crate) struct Draft {
    was: Arc<Catalog>,
    now: Arc<Catalog>,
}

/// Heap numbers of tables: before the changes, and after them.
pub(crate) struct Objects {
    /// What only the original catalog names.
    pub left: BTreeSet<u32>,
    /// What the catalog names now, of all that changed.
    pub named: BTreeSet<u32>,
}

/// The difference between two lists of named things.
fn differing<'a, T: PartialEq>(
    was: &'a [T],
    now: &'a [T],
    name: impl Fn(&T) -> &str,
) -> Vec<(Option<&'a T>, Option<&'a T>)> {
    let mut all: BTreeMap<String, (Option<&T>, Option<&T>)> = BTreeMap::new();
    for one in was {
        all.entry(name(one).to_owned()).or_default().0 = Some(one);
    }
    for one in now {
        all.entry(name(one).to_owned()).or_default().1 = Some(one);
    }
    all.into_values().filter(|(was, now)| was != now).collect()
}

/// The same changes applied to another list. If others have changed a thing as well, `both` may say what
/// that makes of it; otherwise its name is the error.
fn merged<T: PartialEq + Clone>(
    changes: &[(Option<&T>, Option<&T>)],
    current: &[T],
    name: impl Fn(&T) -> &str,
    both: impl Fn(&T, &T, &T) -> Option<T>,
) -> std::result::Result<Vec<T>, String> {
    let mut next: BTreeMap<String, T> =
        current.iter().map(|one| (name(one).to_owned(), one.clone())).collect();
    for (was, now) in changes {
        let Some(own) = was.or(*now).map(|one| name(one).to_owned()) else { continue };
        if next.get(&own) != *was {
            let both = match (was, now, next.get(&own)) {
                (Some(was), Some(now), Some(current)) => both(was, now, current),
                _ => None,
            };
            match both {
                Some(both) => drop(next.insert(own, both)),
                None => return Err(own),
            }
            continue;
        }
        match now {
            Some(now) => drop(next.insert(own, (*now).clone())),
            None => drop(next.remove(&own)),
        }
    }
    Ok(next.into_values().collect())
}

/// A columnar table to which a transaction has added rows, with what others have made of its segments.
fn both_added(was: &Table, now: &Table, current: &Table) -> Option<Table> {
    let new = now.segments.strip_prefix(&was.segments[..])?;
    let plain = |table: &Table| Table { segments: Vec::new(), ..table.clone() };
    if plain(was) != plain(now) || plain(was) != plain(current) {
        return None;
    }
    let segments = current.segments.iter().chain(new).cloned().collect();
    Some(Table { segments, ..current.clone() })
}

/// A table of which one has changed the rights, and the other something else.
pub(crate) fn both_changed(was: &Table, now: &Table, current: &Table) -> Option<Table> {
    let rest = |table: &Table| Table { owner: 0, grants: Grants::default(), ..table.clone() };
    let has_rights_of =
        |one: &Table, other: &Table| one.owner == other.owner && one.grants == other.grants;
    let with_rights_of = |of: &Table, table: &Table| {
        Some(Table { owner: of.owner, grants: of.grants.clone(), ..table.clone() })
    };
    if has_rights_of(was, current) && rest(was) == rest(now) {
        return with_rights_of(now, current);
    }
    if has_rights_of(was, now) && rest(was) == rest(current) {
        return with_rights_of(current, now);
    }
    both_added(was, now, current)
}

fn table_name(table: &Table) -> &str {
    &table.name
}

impl Draft {
    /// One that changes nothing.
    pub fn of(was: Arc<Catalog>) -> Draft {
        Draft { now: Arc::clone(&was), was }
    }

    /// The same with other changes.
    pub fn with(&self, now: Catalog) -> Draft {
        Draft { was: Arc::clone(&self.was), now: Arc::new(now) }
    }

    /// The catalog with the changes applied.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.now
    }

    /// The catalog that it was made from.
    pub fn before(&self) -> &Arc<Catalog> {
        &self.was
    }

    /// Whether it was made from this one.
    pub fn is_of(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.was, catalog)
    }

    /// Whether it changes anything.
    pub fn is_changed(&self) -> bool {
        self.was.tables != self.now.tables
    }

    /// Its changes, applied to a newer catalog.
    ///
    /// # Errors
    /// 08177 others have changed the same.
    pub fn onto(&self, current: &Arc<Catalog>) -> Result<Draft> {
        let changes = differing(&self.was.tables, &self.now.tables, table_name);
        let tables = merged(&changes, &current.tables, table_name, both_changed);
        let tables = tables.map_err(|name| {
            let text = format!("others have made or changed \"{name}\" since this transaction did");
            Error::new(8177, text).hint("run the transaction again")
        })?;
        let serial = current.serial + u64::from(!changes.is_empty());
        let mut now = Catalog { tables, serial, ..Catalog::clone(current) };
        if let Some(key) = now.without_its_schema() {
            let (schema, name) = name::parts(key);
            let text = format!(
                "others have dropped schema \"{schema}\", or made \"{name}\" in it, since this transaction looked"
            );
            return Err(Error::new(8177, text).hint("run the transaction again"));
        }
        if let Some(table) = now.without_its_enum() {
            let text = format!(
                "others have dropped a type that \"{}\" uses since this transaction looked",
                table.name
            );
            return Err(Error::new(8177, text).hint("run the transaction again"));
        }
        if let Some(own) = now.without_its_key() {
            let text = format!(
                "others have dropped the key to which \"{}\" of table \"{}\" refers since this transaction looked",
                own.key.name, own.table.name
            );
            return Err(Error::new(8177, text).hint("run the transaction again"));
        }
        if let Some(table) = now.without_its_roles() {
            let text = format!(
                "others have dropped a role that has rights on \"{}\" since this transaction looked",
                table.name
            );
            return Err(Error::new(8177, text).hint("run the transaction again"));
        }
        now.version = now.version_needed();
        Ok(Draft { was: Arc::clone(current), now: Arc::new(now) })
    }

    /// The names of what it adds and removes.
    pub fn names(&self) -> BTreeSet<String> {
        let changes = differing(&self.was.tables, &self.now.tables, table_name);
        let one = changes.into_iter().filter(|(was, now)| was.is_none() || now.is_none());
        one.filter_map(|(was, now)| was.or(now)).map(|table| table.name.clone()).collect()
    }

    /// What is in the heap for the tables that it changes.
    pub fn objects(&self) -> Objects {
        let changes = differing(&self.was.tables, &self.now.tables, table_name);
        let of = |tables: Vec<Option<&Table>>| -> BTreeSet<u32> {
            tables.into_iter().flatten().flat_map(Table::objects).collect()
        };
        let (was, now): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let (was, named) = (of(was), of(now));
        Objects { left: was.difference(&named).copied().collect(), named }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::RowTable;

    fn catalog(tables: &[(&str, u32)]) -> Arc<Catalog> {
        let table = |(name, object): &(&str, u32)| {
            Table::in_heap(*name, String::new(), RowTable::plain(*object))
        };
        let mut tables: Vec<Table> = tables.iter().map(table).collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Arc::new(Catalog { tables, ..Catalog::default() })
    }

    fn draft(was: &[(&str, u32)], now: &[(&str, u32)]) -> Draft {
        Draft { was: catalog(was), now: catalog(now) }
    }

    fn names(draft: &Draft) -> Vec<&str> {
        draft.catalog().tables.iter().map(|table| table.name.as_str()).collect()
    }

    #[test]
    fn changes_of_others_stay() {
        let own = draft(&[("a", 1), ("b", 2)], &[("b", 2), ("c", 3)]);
        let others = catalog(&[("a", 1), ("b", 9), ("d", 4)]);
        let merged = own.onto(&others).ok();
        let merged = merged.as_ref().map(|draft| (names(draft), draft.catalog().serial));
        assert_eq!(merged, Some((vec!["b", "c", "d"], 1)));
    }

    #[test]
    fn rights_and_other_changes_of_one_table_are_both_kept() {
        let own = draft(&[("a", 1)], &[("a", 2)]);
        let with_owner = |catalog: &Arc<Catalog>| {
            let role = crate::catalog::Role::default();
            let catalog = catalog.with_role("r", role).unwrap_or_default();
            let oid = catalog.who("r").map_or(0, |who| who.oid);
            Arc::new(catalog.with_rights("a", |table| table.owned_by(oid)).unwrap_or_default())
        };
        let merged = own.onto(&with_owner(&own.was)).map(|draft| {
            let table = draft.catalog().table("a").cloned();
            table.map(|own| (own.owner() >= 1 << 30, own.rows.map(|rows| rows.object)))
        });
        assert_eq!(merged.ok(), Some(Some((true, Some(2)))));
        // And the other way round.
        let now = with_owner(&own.was);
        let own = Draft { was: Arc::clone(&own.was), now };
        let merged = own.onto(&catalog(&[("a", 2)])).map(|draft| {
            let table = draft.catalog().table("a").cloned();
            table.map(|own| (own.owner() >= 1 << 30, own.rows.map(|rows| rows.object)))
        });
        assert_eq!(merged.ok(), Some(Some((true, Some(2)))));
        // A role that is gone by then has no rights.
        let lost = Draft { was: Arc::clone(&own.now), now: Arc::clone(&own.now) };
        let was = Arc::new(lost.was.without_role("r").unwrap_or_default());
        let gone = Draft { was: Arc::clone(&was), now: was };
        assert!(gone.onto(&lost.was).is_ok());
    }

    #[test]
    fn two_changes_of_one_table_are_told() {
        let own = draft(&[("a", 1)], &[("a", 2)]);
        assert!(own.onto(&catalog(&[("a", 3)])).is_err_and(|error| error.has(8177)));
        assert!(own.onto(&catalog(&[])).is_err());
        let new = draft(&[], &[("a", 2)]);
        assert!(new.onto(&catalog(&[("a", 2)])).is_err());
    }

    #[test]
    fn rows_that_others_add_to_a_columnar_table_stay() {
        let of = |files: &[&str]| {
            let segment = |file: &&str| crate::catalog::Segment {
                file: (*file).to_owned(),
                rows: 1,
                row_groups: 1,
                bytes: 1,
                created: 0,
            };
            let mut table = Table::columnar("c", 7, "DATA", "");
            table.segments = files.iter().map(segment).collect();
            Arc::new(Catalog { tables: vec![table], ..Catalog::default() })
        };
        let own = Draft { was: of(&["a"]), now: of(&["a", "own"]) };
        let files = |draft: Draft| -> Vec<String> {
            let segments = draft.catalog().tables[0].segments.iter();
            segments.map(|segment| segment.file.clone()).collect()
        };
        assert_eq!(
            own.onto(&of(&["a", "b"])).map(files).ok(),
            Some(vec!["a".into(), "b".into(), "own".into()])
        );
        assert_eq!(own.onto(&of(&["ab"])).map(files).ok(), Some(vec!["ab".into(), "own".into()]));
        let emptied = Draft { was: of(&["a"]), now: of(&[]) };
        assert!(emptied.onto(&of(&["a", "b"])).is_err());
    }

    #[test]
    fn a_table_with_another_name_keeps_what_it_has() {
        let own = draft(&[("a", 1), ("b", 2)], &[("c", 1)]);
        let Objects { left, named } = own.objects();
        assert_eq!((left, named), (BTreeSet::from([2]), BTreeSet::from([1])));
    }
}
