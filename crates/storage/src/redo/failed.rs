//! Media that have failed on disks that are away: their files are given up, so that the disk can leave its
//! group and what else it held can be mirrored again.

use super::RedoManager;
use super::log::RedoLog;
use super::media::Place;
use super::open::decoded;
use crate::mounted::Mounted;

impl RedoManager {
    /// Removes the files of media in this group that have failed, durably, where a disk of theirs is not
    /// in sync. Nobody believes what is in them: a medium that returns gets everything anew.
    /// In a task of its own: who looks at the disks must not wait for one.
    pub(crate) fn give_up_failed_media(&self, mounted: &Mounted) {
        let Some(log) = self.shared().log() else { return };
        if log.log().media().iter().all(|medium| medium.active) || self.check_writable().is_err() {
            return;
        }
        if self.failed_places(&log, mounted.group.name()).is_empty() {
            return;
        }
        let (this, mounted) = (self.clone(), mounted.clone());
        let give_up = async move { this.give_up(&log, &mounted).await };
        self.env().spawn("redo medium given up", Box::pin(give_up));
    }

    async fn give_up(&self, log: &RedoLog, mounted: &Mounted) {
        // Whoever changes the log now is followed by another look.
        let Some(_changing) = self.shared().changing.try_lock() else { return };
        for place in self.failed_places(log, mounted.group.name()) {
            log.release(&place, None);
            for group in log.log().groups() {
                // One that cannot be removed now is tried again with the next look.
                let _ = self.remove_redo_file(&place, group.group, None).await;
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
