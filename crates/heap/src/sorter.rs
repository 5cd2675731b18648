//! Sorting of entries in bounded memory: what does not fit is sorted and set aside in runs, which are
//! merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An entry in memory: its first bytes, so that most comparisons look no further, and where all are.
struct Item {
    prefix: u64,
    at: usize,
    length: usize,
}

/// Entries in memory.
pub(crate) struct Sorter {
    bytes: Vec<u8>,
    items: Vec<Item>,
    memory: usize,
}

impl Sorter {
    /// An empty one, which is full with about so many bytes.
    pub fn new(memory: usize) -> Sorter {
        Sorter { bytes: Vec::new(), items: Vec::new(), memory }
    }

    /// Adds an entry, which is shorter than 64 KB.
    pub fn add(&mut self, parts: &[&[u8]]) {
        let at = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let mut prefix = [0; 8];
        let length = self.bytes.len() - at;
        let first = length.min(8);
        prefix[..first].copy_from_slice(&self.bytes[at..at + first]);
        self.items.push(Item { prefix: u64::from_be_bytes(prefix), at, length });
    }

    /// Whether its contents should be set aside.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + self.items.len() * size_of::<Item>() >= self.memory
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sorts what it has.
    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        let of = |item: &Item| &bytes[item.at..item.at + item.length];
        self.items.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| of(a).cmp(of(b))));
    }

    /// The entry at a place of its order.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        self.items.get(at).map(|item| &self.bytes[item.at..item.at + item.length])
    }

    /// What it has, in its order.
    pub fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.items.iter().map(|item| &self.bytes[item.at..item.at + item.length])
    }

    /// Forgets what it has.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }
}

/// The least of the next entries of several runs.
#[derive(Default)]
pub(crate) struct Merge(BinaryHeap<Reverse<(Vec<u8>, usize)>>);

impl Merge {
    /// Adds the next entry of a run.
    pub fn add(&mut self, run: usize, entry: Vec<u8>) {
        self.0.push(Reverse((entry, run)));
    }

    /// Takes the least entry; the next one of its run is then to be added.
    pub fn take(&mut self) -> Option<(Vec<u8>, usize)> {
        self.0.pop().map(|Reverse(least)| least)
    }
}
