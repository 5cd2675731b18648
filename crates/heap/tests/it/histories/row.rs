//! Rows that hold lists. A key of the first ones has a parent, which is always there, and a row of its own while
//! it lives: then the row holds the list, else the parent does. An orphan has no parent: who appends to it first
//! inserts its row, which nobody deletes.

use bytes::Bytes;
use cellar_heap::{Key, RowKey};

/// The table of the rows, by two indexes.
pub const ROWS: u32 = 1;
/// The table of the parents, which are found by their places.
pub const PARENTS: u32 = 2;
/// By key: unique.
pub const BY_KEY: u32 = 3;
/// By key and the number that was appended when the row last got another key of this index.
pub const BY_EPOCH: u32 = 4;

/// How many keys have no parent: few at a time are used, by all clients.
pub const ORPHANS: u8 = 30;

/// More numbers than this are not appended to a list: a row must fit a page.
pub const LIST_MAX: usize = 1500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: u8,
    /// Of a parent: the list is in the row of its own. Of that row: always.
    pub is_live: bool,
    pub epoch: u32,
    pub list: Vec<u32>,
}

impl Row {
    /// Its bytes, and some more, so that it outgrows its page now and then.
    pub fn encode(&self, padding: usize) -> Bytes {
        let mut bytes = vec![self.key, u8::from(self.is_live)];
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend((self.list.len() as u16).to_le_bytes());
        self.list.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.resize(bytes.len() + padding, self.key);
        bytes.into()
    }

    pub fn decode(bytes: &[u8]) -> Row {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let count = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
        let list = (0..count).map(|place| number(8 + 4 * place)).collect();
        Row { key: bytes[0], is_live: bytes[1] == 1, epoch: number(2), list }
    }

    pub fn by_key(&self) -> RowKey {
        let key = Key { index: BY_KEY, bytes: vec![self.key].into() };
        RowKey { key, is_unique: true }
    }

    pub fn by_epoch(&self) -> RowKey {
        let mut bytes = vec![self.key];
        bytes.extend(self.epoch.to_be_bytes());
        RowKey { key: Key { index: BY_EPOCH, bytes: bytes.into() }, is_unique: false }
    }

    pub fn keys(&self) -> Vec<RowKey> {
        vec![self.by_key(), self.by_epoch()]
    }
}
