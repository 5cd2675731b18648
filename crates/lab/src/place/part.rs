//! A part of a disk, used as a disk: so that one device can hold several groups without a partition
//! table.

use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, DeviceExt, Discard, Durability, Geometry, Io, IoError, IoFuture, Op,
    check_request,
};

/// Bytes `start..start + size` of a device.
pub(crate) struct Part {
    inner: Arc<dyn Device>,
    start: u64,
    geometry: Geometry,
}

impl Part {
    /// Start and size are multiples of 4096 and within the device.
    pub(crate) fn new(inner: Arc<dyn Device>, name: &str, start: u64, size: u64) -> Part {
        let whole = inner.geometry();
        assert!(start + size <= whole.size, "a part lies inside its disk");
        assert!(start.is_multiple_of(4096), "a part starts on a sector");
        assert!(size.is_multiple_of(4096), "a part ends on a sector");
        Part { inner, start, geometry: Geometry { name: name.into(), size, ..whole } }
    }

    fn check(&self, op: Op, offset: u64, bytes: u64) -> Result<u64, IoError> {
        check_request(&self.geometry, op, offset, [bytes as usize])?;
        Ok(self.start + offset)
    }

    /// Removes all traces of membership in a group: its first and its last MiB become zeros.
    pub(crate) async fn wipe(&self) -> Result<(), IoError> {
        const MIB: usize = 1 << 20;
        for at in [0, self.geometry.size - MIB as u64] {
            let zeros = Buffer::zeroed(MIB).freeze();
            self.inner.write_at(Io::SCAN, self.start + at, zeros, Durability::Cached).await?;
        }
        self.inner.flush(Io::SCAN).await
    }
}

impl Device for Part {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let bytes = buffers.iter().map(|b| b.len() as u64).sum();
        match self.check(Op::Read, offset, bytes) {
            Ok(at) => self.inner.read(io, at, buffers),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        let bytes = data.iter().map(|d| d.len() as u64).sum();
        match self.check(Op::Write, offset, bytes) {
            Ok(at) => self.inner.write(io, at, data, durability),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.inner.flush(io)
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        match self.check(Op::Discard, offset, length) {
            Ok(at) => self.inner.discard(io, at, length, how),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::place::thin::Thin;

    #[test]
    fn a_part_reaches_its_own_bytes_and_no_others() {
        let whole: Arc<dyn Device> = Arc::new(Thin::new("whole", 8 << 20, 4096));
        let part = Part::new(Arc::clone(&whole), "part", 2 << 20, 4 << 20);
        let data = Bytes::from(vec![7; 4096]);
        let write =
            |at| part.write_at(Io::SCAN, at, data.clone(), Durability::Cached).now_or_never();
        assert!(write(0).unwrap().is_ok());
        assert!(write((4 << 20) - 4096).unwrap().is_ok());
        assert!(write(4 << 20).unwrap().is_err(), "behind its end");
        let read = |at| whole.read_at(Io::SCAN, at, 4096).now_or_never().unwrap().unwrap();
        for (at, byte) in [(0, 0), (2 << 20, 7), ((6 << 20) - 4096, 7), (6 << 20, 0)] {
            assert_eq!(read(at)[0], byte, "{at}");
        }
        part.wipe().now_or_never().unwrap().unwrap();
        assert_eq!([read(2 << 20)[0], read((6 << 20) - 4096)[0]], [0, 0]);
    }
}
