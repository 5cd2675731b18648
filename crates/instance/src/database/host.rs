//! The database as the host of its storage: sessions, memory and views of what is mounted.

use std::sync::Arc;

use cellar_storage::disks::Disks;
use cellar_storage::{Background, Host, Mounted, OpenStorage, Surroundings};

use super::OpenMode;
use crate::budget::Consumer;
use crate::directory::Directory;
use crate::groups::MountedGroup;
use crate::instance::Instance;

/// What the storage of an instance is opened with.
pub(super) fn opening(
    instance: &Arc<Instance>,
    directory: &Directory,
    disks: Arc<dyn Disks>,
    mode: OpenMode,
) -> OpenStorage {
    let around = Surroundings {
        env: Arc::clone(instance.env()),
        disks,
        settings: instance.settings(),
        host: Arc::clone(instance) as Arc<dyn Host>,
    };
    let directory = directory.path().to_owned();
    OpenStorage { around, directory, mode, redo: instance.redo().clone() }
}

impl Host for Instance {
    fn background(&self, program: &str) -> Background {
        let session = self.sessions().background(program);
        Background::new(session.waits().clone(), Box::new(session))
    }

    fn checksum_bytes(&self) -> u64 {
        self.budget().limit(Consumer::Checksums)
    }

    fn mounted(&self, name: &str, mounted: &Mounted) {
        let rows = MountedGroup::new(mounted.group.clone(), mounted.number, "cellar")
            .with_disks(mounted.disks.clone());
        self.add_group(name, Arc::new(rows));
    }

    fn release(&self, name: &str) {
        self.scans().release(name, None);
    }

    fn gone(&self, name: &str) {
        self.remove_group(name);
    }
}
