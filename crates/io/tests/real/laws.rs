//! Real disks keep the laws of a device, on every engine, direct and buffered.

use std::sync::Arc;

use cellar_io::Device;
use cellar_io::real::{Access, EngineChoice, OpenOptions, Runtime, RuntimeOptions, open_disk};

#[test]
fn a_file_keeps_the_laws_of_a_device() {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for engine in [EngineChoice::IoUring, EngineChoice::LibAio, EngineChoice::Sync] {
        for access in [Access::Direct, Access::Buffered] {
            let path = dir.path().join(format!("{engine}-{access:?}"));
            std::fs::write(&path, vec![0u8; 16 << 20]).unwrap();
            let options = OpenOptions { engine, access, ..OpenOptions::default() };
            let disk = open_disk(runtime.real_env(), &path, &options).unwrap();
            let device = disk as Arc<dyn Device>;
            runtime.block_on(cellar_io::laws::check_device(&runtime.env(), device, 1, 2));
        }
    }
}
