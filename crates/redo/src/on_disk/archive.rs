//! An archive: the blocks of a finished group without their padding, in compressed chunks.

use super::block::BLOCK_HEADER;
use super::header::{FEATURES_KNOWN, FORMAT_VERSION, check_version};
use super::{Damage, DatabaseId, Fields, check_abn, check_head, crc_without_field, put};
use crate::lsn::Abn;

const MAGIC: u32 = u32::from_le_bytes(*b"CLRA");
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CLRK");
const END_MAGIC: u32 = u32::from_le_bytes(*b"CLRE");

/// Bytes of the header of an archive.
pub const ARCHIVE_HEADER: usize = 80;
/// Bytes of the header of a chunk, and of the end of an archive.
pub const PIECE_HEADER: usize = 32;
/// A chunk is at most so many bytes before compression: some 0.5 ms of work.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// What an archive is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveHeader {
    /// The database.
    pub database: DatabaseId,
    /// 512 or 4096.
    pub block_size: u32,
    /// The sequence that the group had.
    pub sequence: u64,
    /// Number of its first block.
    pub first: Abn,
    /// Where the log continues: first block of the next sequence.
    pub end: Abn,
    /// The CRC of the block before the first.
    pub chain: u32,
}

impl ArchiveHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; ARCHIVE_HEADER] {
        let mut bytes = [0; ARCHIVE_HEADER];
        let b = &mut bytes;
        put(b, 0, MAGIC.to_le_bytes());
        put(b, 8, FORMAT_VERSION.to_le_bytes());
        put(b, 12, self.block_size.to_le_bytes());
        put(b, 24, self.database.0.to_le_bytes());
        put(b, 40, self.sequence.to_le_bytes());
        put(b, 48, self.first.0.to_le_bytes());
        put(b, 56, self.end.0.to_le_bytes());
        put(b, 64, self.chain.to_le_bytes());
        let crc = crc_without_field(b);
        put(b, 4, crc.to_le_bytes());
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<ArchiveHeader, Damage> {
        let b = bytes.get(..ARCHIVE_HEADER).ok_or(Damage::Truncated)?;
        check_head(b, MAGIC)?;
        check_version(b.u16_at(8))?;
        let unknown = b.u64_at(16) & !FEATURES_KNOWN;
        if unknown != 0 {
            return Err(Damage::Features { bits: unknown });
        }
        let field = |field, value: u64| Damage::Field { field, value };
        if [10..12, 68..ARCHIVE_HEADER].into_iter().any(|r| b[r].iter().any(|b| *b != 0)) {
            return Err(field("reserved", 1));
        }
        let block_size = b.u32_at(12);
        if block_size != 512 && block_size != 4096 {
            return Err(field("block size", block_size.into()));
        }
        let (first, end) = (check_abn("first abn", b.u64_at(48))?, b.u64_at(56));
        if check_abn("end abn", end)? <= first {
            return Err(field("end abn", end));
        }
        Ok(ArchiveHeader {
            database: DatabaseId(b.u128_at(24)),
            block_size,
            sequence: b.u64_at(40),
            first,
            end: Abn(end),
            chain: b.u32_at(64),
        })
    }
}

/// What stands before the bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Counts the chunks of the archive, from 0.
    pub number: u32,
    /// Blocks in it.
    pub blocks: u32,
    /// Its bytes before compression.
    pub raw: u32,
    /// Its stored bytes: LZ4, or uncompressed where that is not longer.
    pub stored: u32,
    /// Number of its first block.
    pub first: Abn,
}

/// The last bytes of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveEnd {
    /// How many chunks there are.
    pub chunks: u32,
    /// How many blocks there are.
    pub blocks: u64,
    /// The CRC of the last block.
    pub last_crc: u32,
    /// The number behind the last block.
    pub behind: Abn,
}

/// What can follow the header of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// `stored` bytes follow; [`ChunkHeader::unpack`] checks them and this.
    Chunk(ChunkHeader),
    /// Nothing follows.
    End(ArchiveEnd),
}

impl Piece {
    /// Reads the first [`PIECE_HEADER`] bytes of a piece. The numbers of a chunk are checked
    /// against their bounds, but not against its CRC, which needs the bytes of the chunk.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Piece, Damage> {
        let b = bytes.get(..PIECE_HEADER).ok_or(Damage::Truncated)?;
        if b.u32_at(0) == END_MAGIC {
            check_head(b, END_MAGIC)?;
            return Ok(Piece::End(ArchiveEnd {
                chunks: b.u32_at(8),
                last_crc: b.u32_at(12),
                blocks: b.u64_at(16),
                behind: check_abn("abn behind the last block", b.u64_at(24))?,
            }));
        }
        if b.u32_at(0) != CHUNK_MAGIC {
            return Err(Damage::Magic { found: b.u32_at(0) });
        }
        let field = |field, value: u32| Damage::Field { field, value: value.into() };
        let (blocks, raw, stored) = (b.u32_at(12), b.u32_at(16), b.u32_at(20));
        if raw as usize > CHUNK_BYTES_MAX || raw == 0 {
            return Err(field("bytes before compression", raw));
        }
        if stored > raw || stored == 0 {
            return Err(field("bytes of the chunk", stored));
        }
        if blocks == 0 || blocks as usize * BLOCK_HEADER > raw as usize {
            return Err(field("blocks of the chunk", blocks));
        }
        let first = check_abn("first abn of the chunk", b.u64_at(24))?;
        Ok(Piece::Chunk(ChunkHeader { number: b.u32_at(8), blocks, raw, stored, first }))
    }
}

impl ArchiveEnd {
    /// Its bytes.
    pub fn encode(&self) -> [u8; PIECE_HEADER] {
        let mut b = [0; PIECE_HEADER];
        put(&mut b, 0, END_MAGIC.to_le_bytes());
        put(&mut b, 8, self.chunks.to_le_bytes());
        put(&mut b, 12, self.last_crc.to_le_bytes());
        put(&mut b, 16, self.blocks.to_le_bytes());
        put(&mut b, 24, self.behind.0.to_le_bytes());
        let crc = crc_without_field(&b);
        put(&mut b, 4, crc.to_le_bytes());
        b
    }
}

/// The bytes of a chunk: its header, then `raw` compressed.
pub fn pack(number: u32, first: Abn, blocks: u32, raw: &[u8]) -> Vec<u8> {
    assert!(!raw.is_empty() && raw.len() <= CHUNK_BYTES_MAX, "a chunk is cut before it is full");
    let compressed = lz4_flex::block::compress(raw);
    let stored = if compressed.len() < raw.len() { &compressed } else { raw };
    let mut b = vec![0; PIECE_HEADER];
    put(&mut b, 0, CHUNK_MAGIC.to_le_bytes());
    put(&mut b, 8, number.to_le_bytes());
    put(&mut b, 12, blocks.to_le_bytes());
    put(&mut b, 16, (raw.len() as u32).to_le_bytes());
    put(&mut b, 20, (stored.len() as u32).to_le_bytes());
    put(&mut b, 24, first.0.to_le_bytes());
    b.extend_from_slice(stored);
    let crc = crc_without_field(&b);
    put(&mut b, 4, crc.to_le_bytes());
    b
}

impl ChunkHeader {
    /// Checks a chunk, header included, and gives its bytes before compression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn unpack(&self, bytes: &[u8]) -> Result<Vec<u8>, Damage> {
        let length = PIECE_HEADER + self.stored as usize;
        let b = bytes.get(..length).ok_or(Damage::Truncated)?;
        check_head(b, CHUNK_MAGIC)?;
        let stored = &b[PIECE_HEADER..];
        if self.stored == self.raw {
            return Ok(stored.to_vec());
        }
        let mut raw = vec![0; self.raw as usize];
        match lz4_flex::block::decompress_into(stored, &mut raw) {
            Ok(count) if count == raw.len() => Ok(raw),
            Ok(count) => Err(Damage::Field { field: "LZ4 bytes", value: count as u64 }),
            Err(_) => Err(Damage::Field { field: "LZ4 bytes", value: self.stored.into() }),
        }
    }
}

/// Restores the padding of the first block in `raw`, into `block`, which has the length of a block.
/// Returns how many bytes of `raw` it used.
///
/// # Errors
/// What is wrong with it.
pub fn restore(raw: &[u8], block: &mut [u8]) -> Result<usize, Damage> {
    let head = raw.get(..BLOCK_HEADER).ok_or(Damage::Truncated)?;
    let used = usize::from(head.u16_at(36));
    if !(BLOCK_HEADER..=block.len()).contains(&used) {
        return Err(Damage::Field { field: "bytes used", value: used as u64 });
    }
    block[..used].copy_from_slice(raw.get(..used).ok_or(Damage::Truncated)?);
    block[used..].fill(0);
    Ok(used)
}
