//! Block devices: loop devices with sectors of 512 and 4096 bytes, where root may make them.

use std::path::{Path, PathBuf};
use std::process::Command;

use cellar_io::Device;
use cellar_io::real::{OpenOptions, open_disk};

use crate::roundtrip::exercise_on_every_engine;
use crate::support::{directory, disk_file, runtime};

/// A loop device, detached when dropped.
pub struct Loop(PathBuf);

impl Loop {
    pub fn over(file: &Path, sector: u32) -> Option<Loop> {
        let output = Command::new("losetup")
            .args(["-f", "--show", "--direct-io=on", "-b", &sector.to_string()])
            .arg(file)
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Loop(path.trim().into()))
    }
}

impl Loop {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
fn loop_devices_of_both_sectors_work_on_every_engine() {
    let directory = directory();
    for sector in [512, 4096] {
        let file = disk_file(&directory, "backing", 16 << 20);
        let Some(device) = Loop::over(&file, sector) else {
            eprintln!("not run: loop devices need root and losetup");
            return;
        };
        exercise_on_every_engine(&device.0, None);
        let runtime = runtime();
        let disk = open_disk(runtime.real_env(), &device.0, &OpenOptions::default()).unwrap();
        assert_eq!(disk.geometry().logical_sector, sector);
        assert!(disk.effective().direct && disk.identity().is_block);
        assert_eq!(disk.geometry().size, 16 << 20);
        let refused = OpenOptions { sector: Some(512), ..Default::default() };
        let outcome = open_disk(runtime.real_env(), &device.0, &refused);
        assert_eq!(outcome.is_err(), sector == 4096, "512 on a 4096 disk is refused");
    }
}
