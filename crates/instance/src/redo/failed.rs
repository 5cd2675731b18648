//! Media that have failed on disks that are away: their files are given up, so that the disk can leave its
//! group and what else it held can be mirrored again.

use super::log::RedoLog;
use super::media::Place;
use super::open::decoded;
use crate::database::{Database, Mounted};

impl Database {
    /// Removes the files of media in this group that have failed, durably, where a disk of theirs is not
    /// in sync. Nobody believes what is in them: a medium that returns gets everything anew.
    pub(crate) async fn give_up_failed_media(&self, mounted: &Mounted) {
        let redo = self.instance().redo();
        let Some(log) = redo.log() else { return };
        // Looked at often, so first without waiting for anybody.
        if log.log().media().iter().all(|medium| medium.active) || self.check_writable().is_err() {
            return;
        }
        let Some(_changing) = redo.changing.try_lock() else { return };
        for place in self.failed_places(&log, mounted.group.name()) {
            log.let_go(&place, None);
            for group in log.log().groups() {
                // One that cannot be removed now is tried again with the next look.
                let _ = self.remove_redo_file(&place, group.group).await;
            }
        }
    }

    fn failed_places(&self, log: &RedoLog, group: &str) -> Vec<Place> {
        let Ok(data) = decoded(log.control()) else { return Vec::new() };
        let failed = data.media.iter().filter(|medium| !medium.state.is_active());
        let places = failed.map(|medium| Place::of_name(&medium.name));
        let is_here =
            |place: &Place| matches!(place, Place::Group { group: own, .. } if own == group);
        places.filter(|place| is_here(place) && !self.is_well(place)).collect()
    }
}
