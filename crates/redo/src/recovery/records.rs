//! Assembly of records from the payload of blocks.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::Damage;
use crate::on_disk::block::{BLOCK_HEADER, BlockHeader, INCARNATION_START};
use crate::on_disk::record::{RECORD_HEADER, RecordHeader};

/// A record that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it begins.
    pub lsn: Lsn,
    /// As it was given to `commit`.
    pub kind: u8,
    /// As it was given to `commit`.
    pub flags: u8,
    /// As it was given to `commit`.
    pub body: Bytes,
}

/// Assembles records, block after block.
pub(crate) struct Assembler {
    /// Records before this are not returned.
    from: Lsn,
    /// Whether the position in the stream is known: only from the first record that begins.
    synced: bool,
    lsn: Lsn,
    head: [u8; RECORD_HEADER],
    /// How much of the header is there.
    have: usize,
    header: Option<RecordHeader>,
    body: BytesMut,
    ready: VecDeque<Record>,
}

impl Assembler {
    pub fn new(from: Lsn) -> Assembler {
        Assembler {
            from,
            synced: false,
            lsn: from,
            head: [0; RECORD_HEADER],
            have: 0,
            header: None,
            body: BytesMut::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next record that is whole.
    pub fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }

    /// Bytes of the record in progress that are still to come, as far as is known.
    fn missing(&self) -> Option<usize> {
        match &self.header {
            Some(header) => Some(header.length as usize - self.body.len()),
            None if self.have > 0 => None,
            None => Some(0),
        }
    }

    /// Takes in the next block.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the block does not go with those before it.
    pub fn feed(&mut self, header: &BlockHeader, block: &[u8]) -> Result<(), Error> {
        if header.is(INCARNATION_START) {
            // The record in progress was never finished, and never acknowledged.
            (self.have, self.header, self.synced) = (0, None, true);
            self.body.clear();
        }
        let used = usize::from(header.used);
        let mut at = BLOCK_HEADER;
        if !self.synced {
            let Some(first) = header.first_record else { return Ok(()) };
            at = usize::from(first);
            self.synced = true;
        } else if let Some(missing) = self.missing() {
            // The header must agree with the stream.
            let next = BLOCK_HEADER + missing;
            let expected = (next < used).then_some(next);
            if header.first_record.map(usize::from) != expected {
                return Err(corrupt(header.abn, "first record", header.first_record));
            }
        }
        while at < used {
            at += self.take(header.abn, at, &block[at..used])?;
        }
        Ok(())
    }

    /// Takes some of the bytes that begin at `at` of a block, and says how many.
    fn take(&mut self, abn: Abn, at: usize, bytes: &[u8]) -> Result<usize, Error> {
        let Some(header) = self.header else {
            if self.have == 0 {
                self.lsn = Lsn(abn.lsn().0 + at as u64);
            }
            let count = bytes.len().min(RECORD_HEADER - self.have);
            self.head[self.have..self.have + count].copy_from_slice(&bytes[..count]);
            self.have += count;
            if self.have == RECORD_HEADER {
                let header = RecordHeader::decode(self.head);
                let header = header.map_err(|damage| Error::Corrupt { abn, damage })?;
                self.header = Some(header);
                self.finish(header);
            }
            return Ok(count);
        };
        let count = bytes.len().min(header.length as usize - self.body.len());
        self.body.extend_from_slice(&bytes[..count]);
        self.finish(header);
        Ok(count)
    }

    /// Gives the record out, if it is whole.
    fn finish(&mut self, header: RecordHeader) {
        if self.body.len() < header.length as usize {
            return;
        }
        (self.have, self.header) = (0, None);
        let body = self.body.split().freeze();
        if self.lsn >= self.from {
            let RecordHeader { kind, flags, .. } = header;
            self.ready.push_back(Record { lsn: self.lsn, kind, flags, body });
        }
    }
}

fn corrupt(abn: Abn, field: &'static str, value: Option<u16>) -> Error {
    let value = value.map_or(u64::MAX, u64::from);
    Error::Corrupt { abn, damage: Damage::Field { field, value } }
}
