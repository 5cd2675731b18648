//! The reader of archives, one after the other: every CRC, the chain and the ends are checked.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::{Buf, BytesMut};
use cellar_io::IoErrorKind;

use crate::archive::{ArchiveStore, archive_name};
use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::archive::{
    ARCHIVE_HEADER, ArchiveEnd, ArchiveHeader, ChunkHeader, PIECE_HEADER, Piece, restore,
};
use crate::on_disk::block::{BlockHeader, SWITCH};
use crate::on_disk::{Damage, DatabaseId};
use crate::recovery::{Assembler, Record};

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// Returns the records of consecutive archives, as recovery would.
pub struct ArchiveReader {
    store: Arc<dyn ArchiveStore>,
    database: DatabaseId,
    sequences: RangeInclusive<u64>,
    current: Option<Current>,
    /// CRC of the last block and number of the next, once an archive has been read.
    before: Option<(u32, Abn)>,
    records: Assembler,
}

/// The archive that is being read.
struct Current {
    name: String,
    header: ArchiveHeader,
    /// Bytes that were read but not used yet, and where they begin in the archive.
    buffer: BytesMut,
    offset: u64,
    /// What the end must say.
    seen: ArchiveEnd,
    switched: bool,
    incarnation: u32,
}

impl ArchiveReader {
    /// Reads the archives of `sequences`, all of which must exist. Records that begin before `from`
    /// are not returned, nor is one that began before the first archive.
    pub fn new(
        store: Arc<dyn ArchiveStore>,
        database: DatabaseId,
        sequences: RangeInclusive<u64>,
        from: Lsn,
    ) -> ArchiveReader {
        let records = Assembler::new(from);
        ArchiveReader { store, database, sequences, current: None, before: None, records }
    }

    /// The next record; `None` after the last one that ends in these archives.
    ///
    /// # Errors
    /// [`Error::ArchiveMissing`], where a group was cleared before it was archived;
    /// [`Error::ArchiveDamaged`], [`Error::ArchiveForeign`]; [`Error::Archive`] from the store.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.records.pop() {
                return Ok(Some(record));
            }
            let Some(mut current) = self.current.take() else {
                let Some(sequence) = self.sequences.next() else { return Ok(None) };
                self.current = Some(self.open(sequence).await?);
                continue;
            };
            let head = current.take(&*self.store, PIECE_HEADER).await?;
            let at = current.offset;
            match Piece::decode(&head).map_err(|damage| current.damaged(damage))? {
                Piece::Chunk(chunk) => {
                    let body = current.take(&*self.store, chunk.stored as usize).await?;
                    let whole = [&head[..], &body[..]].concat();
                    self.feed(&mut current, at, &chunk, &whole)?;
                    self.current = Some(current);
                }
                Piece::End(end) => {
                    current.check_end(&*self.store, &end).await?;
                    self.before = Some((end.last_crc, current.header.end));
                }
            }
        }
    }

    async fn open(&self, sequence: u64) -> Result<Current, Error> {
        let seen = ArchiveEnd { chunks: 0, blocks: 0, last_crc: 0, behind: Abn(0) };
        let header = ArchiveHeader {
            database: self.database,
            block_size: 512,
            sequence,
            first: Abn(0),
            end: Abn(0),
            chain: 0,
        };
        let mut current = Current {
            name: archive_name(sequence),
            header,
            buffer: BytesMut::new(),
            offset: 0,
            seen,
            switched: false,
            incarnation: 0,
        };
        let head =
            current.take(&*self.store, ARCHIVE_HEADER).await.map_err(|error| match error {
                Error::Archive { archive, error }
                    if matches!(error.kind, IoErrorKind::NotFound) =>
                {
                    Error::ArchiveMissing { archive, sequence }
                }
                other => other,
            })?;
        let header = ArchiveHeader::decode(&head);
        let header = header.map_err(|damage| current.damaged_at(0, damage))?;
        let foreign = |what| Error::ArchiveForeign { archive: archive_name(sequence), what };
        if header.database != self.database {
            return Err(foreign("another database"));
        }
        if header.sequence != sequence {
            return Err(foreign("another sequence"));
        }
        if self.before.is_some_and(|before| before != (header.chain, header.first)) {
            return Err(foreign("it does not follow the archive before it"));
        }
        current.header = header;
        (current.seen.last_crc, current.seen.behind) = (header.chain, header.first);
        Ok(current)
    }

    /// Takes in the blocks of a chunk that lies at `at`.
    fn feed(
        &mut self,
        current: &mut Current,
        at: u64,
        chunk: &ChunkHeader,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let at = at - PIECE_HEADER as u64;
        let field = |field, value| Damage::Field { field, value };
        let raw = chunk.unpack(bytes).map_err(|damage| current.damaged_at(at, damage))?;
        if chunk.number != current.seen.chunks || chunk.first != current.seen.behind {
            let damage = field("number of the chunk", chunk.number.into());
            return Err(current.damaged_at(at, damage));
        }
        current.seen.chunks += 1;
        let mut block = vec![0; current.header.block_size as usize];
        let mut rest = &raw[..];
        for _ in 0..chunk.blocks {
            let used = restore(rest, &mut block).map_err(|d| current.damaged_at(at, d))?;
            rest = &rest[used..];
            let header = current.check_block(&block).map_err(|d| current.damaged_at(at, d))?;
            self.records.feed(&header, &block).map_err(|error| match error {
                Error::Corrupt { damage, .. } => current.damaged_at(at, damage),
                other => other,
            })?;
        }
        match rest.is_empty() {
            true => Ok(()),
            false => Err(current.damaged_at(at, field("blocks of the chunk", chunk.blocks.into()))),
        }
    }
}

impl Current {
    /// The next `count` bytes.
    async fn take(&mut self, store: &dyn ArchiveStore, count: usize) -> Result<BytesMut, Error> {
        while self.buffer.len() < count {
            let at = self.offset + self.buffer.len() as u64;
            let read = store.read(&self.name, at, READ_BYTES).await;
            let more =
                read.map_err(|error| Error::Archive { archive: self.name.clone(), error })?;
            if !more.has_remaining() {
                return Err(self.damaged_at(at, Damage::Truncated));
            }
            self.buffer.extend_from_slice(&more);
        }
        self.offset += count as u64;
        Ok(self.buffer.split_to(count))
    }

    /// A block with its padding restored.
    fn check_block(&mut self, block: &[u8]) -> Result<BlockHeader, Damage> {
        let (header, crc) = BlockHeader::open(block, self.header.database)?;
        let field = |field, value| Err(Damage::Field { field, value });
        if header.abn != self.seen.behind || self.switched {
            return field("abn", header.abn.0);
        }
        if header.chain != self.seen.last_crc {
            return field("chain", header.chain.into());
        }
        if header.incarnation < self.incarnation {
            return field("incarnation", header.incarnation.into());
        }
        let behind = Abn(header.abn.0 + 1);
        self.incarnation = header.incarnation;
        self.switched = header.is(SWITCH) || behind == self.header.end;
        (self.seen.last_crc, self.seen.behind) = (crc, behind);
        self.seen.blocks += 1;
        Ok(header)
    }

    async fn check_end(&mut self, store: &dyn ArchiveStore, end: &ArchiveEnd) -> Result<(), Error> {
        if *end != self.seen || !self.switched {
            let damage = Damage::Field { field: "blocks of the archive", value: end.blocks };
            return Err(self.damaged(damage));
        }
        let read = store.read(&self.name, self.offset, 1).await;
        let more = read.map_err(|error| Error::Archive { archive: self.name.clone(), error })?;
        match self.buffer.len() + more.len() {
            0 => Ok(()),
            count => {
                let damage = Damage::Field { field: "bytes behind the end", value: count as u64 };
                Err(self.damaged_at(self.offset, damage))
            }
        }
    }

    /// The piece whose header was taken last is damaged.
    fn damaged(&self, damage: Damage) -> Error {
        self.damaged_at(self.offset - PIECE_HEADER as u64, damage)
    }

    fn damaged_at(&self, offset: u64, damage: Damage) -> Error {
        Error::ArchiveDamaged { archive: self.name.clone(), offset, damage }
    }
}
