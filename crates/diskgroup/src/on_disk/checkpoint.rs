//! A checkpoint: the whole metadata as one run of bytes, cut into chunks that check themselves.

use super::layout::CHUNK_BYTES;
use super::{Damage, Fields, FieldsMut, Uuid, check_head, magic, seal};

const MAGIC: u32 = magic(b"CLCP");
/// Bytes of a chunk before its content.
pub const CHUNK_HEADER: usize = 64;
/// Content bytes in a chunk.
pub const CHUNK_CONTENT: usize = CHUNK_BYTES - CHUNK_HEADER;

/// A checkpoint ready to be written: chunks one behind the other, and the CRC over their CRCs.
pub struct EncodedCheckpoint {
    /// A multiple of [`CHUNK_BYTES`].
    pub bytes: Vec<u8>,
    /// CRC-32C over the CRCs of all chunks, in order.
    pub chunks_crc: u32,
    /// Bytes of the content.
    pub content_bytes: u64,
}

impl EncodedCheckpoint {
    /// Number of chunks.
    pub fn chunks(&self) -> u32 {
        u32::try_from(self.bytes.len() / CHUNK_BYTES).expect("a checkpoint is far below 256 TiB")
    }
}

/// How many chunks `content_bytes` need.
pub fn chunks_for(content_bytes: u64) -> u64 {
    content_bytes.div_ceil(CHUNK_CONTENT as u64).max(1)
}

/// Cuts `content` into chunks for the checkpoint at log position `lsn`.
pub fn encode(group: Uuid, lsn: u64, content: &[u8]) -> EncodedCheckpoint {
    let chunks = chunks_for(content.len() as u64) as usize;
    let mut bytes = vec![0; chunks * CHUNK_BYTES];
    let mut crcs = 0;
    for (i, chunk) in bytes.chunks_exact_mut(CHUNK_BYTES).enumerate() {
        let start = i * CHUNK_CONTENT;
        let piece = &content[start.min(content.len())..(start + CHUNK_CONTENT).min(content.len())];
        chunk.put_u32(0, MAGIC);
        chunk.put_u32(8, u32::try_from(i).expect("as above"));
        chunk.put_u32(12, u32::try_from(piece.len()).expect("a chunk"));
        chunk.put_u64(16, lsn);
        chunk.put_uuid(24, group);
        chunk[CHUNK_HEADER..CHUNK_HEADER + piece.len()].copy_from_slice(piece);
        seal(chunk, 4);
        crcs = crc32c::crc32c_append(crcs, &chunk[4..8]);
    }
    EncodedCheckpoint { bytes, chunks_crc: crcs, content_bytes: content.len() as u64 }
}

/// What a chunk says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Its place in the content.
    pub number: u32,
    /// Bytes of content in it.
    pub length: u32,
    /// The checkpoint is the state as of here.
    pub lsn: u64,
    /// The group.
    pub group: Uuid,
    /// Its checksum.
    pub crc: u32,
}

/// Whether a block may be the first of a chunk: worth reading the rest.
pub fn may_be_chunk(block: &[u8]) -> bool {
    block.starts_with(&MAGIC.to_le_bytes())
}

/// Reads one chunk by itself, without knowing of which checkpoint it is.
///
/// # Errors
/// What is wrong with it.
pub fn chunk(bytes: &[u8]) -> Result<(ChunkHead, &[u8]), Damage> {
    assert_eq!(bytes.len(), CHUNK_BYTES, "one chunk");
    check_head(bytes, MAGIC)?;
    let length = bytes.u32_at(12);
    if length as usize > CHUNK_CONTENT {
        return Err(Damage::Field { field: "length", value: length.into() });
    }
    let head = ChunkHead {
        number: bytes.u32_at(8),
        length,
        lsn: bytes.u64_at(16),
        group: bytes.uuid_at(24),
        crc: bytes.u32_at(4),
    };
    Ok((head, &bytes[CHUNK_HEADER..CHUNK_HEADER + length as usize]))
}

/// Puts the content together again from chunks as read.
///
/// # Errors
/// What is wrong with the first bad chunk.
pub fn decode(
    group: Uuid,
    lsn: u64,
    chunks_crc: u32,
    content_bytes: u64,
    bytes: &[u8],
) -> Result<Vec<u8>, Damage> {
    // Compared as chunks: a damaged count of bytes may be anything.
    let whole = bytes.len().is_multiple_of(CHUNK_BYTES);
    if !whole || chunks_for(content_bytes) != (bytes.len() / CHUNK_BYTES) as u64 {
        return Err(Damage::Field { field: "content_bytes", value: content_bytes });
    }
    let mut content = Vec::with_capacity(content_bytes as usize);
    let mut crcs = 0;
    for (i, chunk) in bytes.chunks_exact(CHUNK_BYTES).enumerate() {
        check_head(chunk, MAGIC)?;
        let what = if chunk.uuid_at(24) != group {
            "another group"
        } else if chunk.u64_at(16) != lsn || chunk.u32_at(8) as usize != i {
            "another checkpoint"
        } else {
            ""
        };
        if !what.is_empty() {
            return Err(Damage::Foreign { what });
        }
        let length = chunk.u32_at(12) as usize;
        let wanted = (content_bytes as usize - content.len()).min(CHUNK_CONTENT);
        if length != wanted {
            return Err(Damage::Field { field: "length", value: length as u64 });
        }
        content.extend_from_slice(&chunk[CHUNK_HEADER..CHUNK_HEADER + length]);
        crcs = crc32c::crc32c_append(crcs, &chunk[4..8]);
    }
    if crcs != chunks_crc {
        return Err(Damage::Checksum);
    }
    Ok(content)
}
