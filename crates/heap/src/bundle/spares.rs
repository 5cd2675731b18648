//! Free pages that a commit may take, and those that it gives back.

use std::collections::BTreeMap;

/// Free pages that belong to a write set, by object.
#[derive(Default, Clone)]
pub(crate) struct Spares {
    pages: BTreeMap<u32, Vec<u32>>,
    /// Pages that it gives back, each with its object.
    pub freed: Vec<(u32, u32)>,
    /// Pages that it frees as they are, each with its table.
    pub rested: Vec<(u32, u32)>,
    /// Pages that have room again, each with its table.
    pub opened: Vec<(u32, u32)>,
}

impl Spares {
    /// A free page of the object.
    pub fn take(&mut self, object: u32) -> Option<u32> {
        self.pages.get_mut(&object)?.pop()
    }

    /// Adds free pages of the object.
    pub fn add(&mut self, object: u32, pages: impl IntoIterator<Item = u32>) {
        self.pages.entry(object).or_default().extend(pages);
    }

    /// All free pages that are left, each with its object.
    pub fn left(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let all = self.pages.iter();
        all.flat_map(|(object, pages)| pages.iter().map(|page| (*object, *page)))
    }
}
