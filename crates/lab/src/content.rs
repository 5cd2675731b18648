//! Known content of files under test: noise, stamped with its offset.

use bytes::Bytes;
use cellar_io::Buffer;

/// One read of a scan, in bytes.
pub(crate) const STEP: u64 = 1 << 20;
/// Each block of this size begins with its file offset.
pub(crate) const STAMPED: usize = 4096;

/// Incompressible bytes.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    let mut random = Chance(4);
    for chunk in buffer.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    }
    buffer
}

/// The content of the file from `offset` on.
pub(crate) fn stamped(noise: &[u8], offset: u64) -> Bytes {
    let mut buffer = Buffer::copy_of(noise, noise.len());
    for (i, block) in buffer.chunks_exact_mut(STAMPED).enumerate() {
        let at = offset + (i * STAMPED) as u64;
        block[..8].copy_from_slice(&at.to_le_bytes());
    }
    buffer.freeze()
}

/// Splitmix64: the same numbers on every machine.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// One of `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
