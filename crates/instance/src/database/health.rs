//! The health of a database's groups.

use async_recursion::async_recursion as boxed;
use cellar_storage::Mounted;

use super::Database;
use crate::health::{self, GroupHealth, note_spares};

impl Database {
    /// How every group is, by number, and behind them those that are not mounted. Hot spares are looked at.
    #[boxed]
    pub async fn health(&self) -> Vec<GroupHealth> {
        let groups = self.storage.groups();
        let delay = groups.hot_spare_delay();
        let mut all = Vec::new();
        for mounted in self.by_number() {
            let mut health = self.health_of(&mounted);
            note_spares(&mut health, &mounted, &groups.judged_spares(&mounted).await, delay);
            all.push(health);
        }
        all.extend(self.unmounted());
        all
    }

    /// As [`Database::health`], without hot spares: nothing is opened.
    pub(super) fn health_now(&self) -> Vec<GroupHealth> {
        let mounted = self.by_number().into_iter().map(|mounted| self.health_of(&mounted));
        mounted.chain(self.unmounted()).collect()
    }

    /// How a mounted group is, without its hot spares.
    pub fn health_of(&self, mounted: &Mounted) -> GroupHealth {
        let (redo, no_disks) = (self.instance.redo(), self.storage.groups().no_disks());
        health::of(mounted, (redo, self.heap()), no_disks, self.directory.path())
    }

    fn by_number(&self) -> Vec<Mounted> {
        let mut groups = self.groups();
        groups.sort_by_key(|mounted| mounted.number);
        groups
    }

    fn unmounted(&self) -> Vec<GroupHealth> {
        let errors = health::not_mounted(self.storage.groups(), self.directory.path());
        errors.iter().map(health::of_unmounted).collect()
    }
}
