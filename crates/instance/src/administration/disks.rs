//! Disks that join and leave: `ALTER DISKGROUP` and `EXPLAIN WORK` as calls of storage, and messages
//! about what they started.

use std::collections::BTreeSet;
use std::time::Duration;

use cellar_diskgroup::names::DiskName;
use cellar_diskgroup::space::plan::Lack;
use cellar_diskgroup::{DiskStatus, Error as GroupError};
use cellar_storage::Mounted;
use cellar_storage::groups::{Changed, Explained, PROBE_TIME};
use cellar_storage::request::{ChangeRequest, Probe, Rebalance, WorkRequest};

use super::Administrator;
use super::waiting::{Waiting, What};
use crate::commands;
use crate::database::Database;
use crate::error::{Error, NextStep, Result};

/// What helps where a DROP leaves no room.
const NO_PLACE: &str = "add disks where it may lie in the same statement, drop fewer, or leave \
                        them larger";

impl Administrator {
    pub(super) async fn undrop_disks(
        &self,
        mounted: &Mounted,
        rebalance: Rebalance,
    ) -> Result<String> {
        let group = &mounted.group;
        // Before anything is done: what stays is not dropped again.
        let power = self.groups().power(rebalance.power)?;
        let count = group.undrop_disks().await?;
        if count > 0 {
            group.rebalance(power).await?;
        }
        if count == 0 {
            check_not_forced(mounted)?;
        }
        let kept = match count {
            0 => "no disk of it was being dropped".to_owned(),
            1 => "1 disk stays".to_owned(),
            _ => format!("{} stay", disks(count)),
        };
        let now = match count {
            0 => kept.clone(),
            _ => format!("{kept}, {}", self.under_way(mounted)),
        };
        let then = format!("{kept}; rebalanced");
        self.waited(mounted, rebalance, Message { now, then }).await
    }

    pub(super) async fn rebalance(&self, mounted: &Mounted, how: Rebalance) -> Result<String> {
        let power = self.groups().power(how.power)?;
        mounted.group.rebalance(power).await?;
        let told = Message { now: self.under_way(mounted), then: "rebalanced".to_owned() };
        self.waited(mounted, how, told).await
    }

    pub(super) async fn modify_power(
        &self,
        mounted: &Mounted,
        power: Option<u32>,
    ) -> Result<String> {
        if mounted.group.operation().is_none() {
            return Ok("no rebalance is under way".to_owned());
        }
        let power = self.groups().power(power)?;
        mounted.group.rebalance(power).await?;
        Ok(self.under_way(mounted))
    }

    pub(super) async fn change_disks(
        &self,
        mounted: &Mounted,
        change: &ChangeRequest,
    ) -> Result<String> {
        let making = self.waiting.for_what(What::Making(0, 0));
        let wrote = |done, total| making.now(What::Making(done, total));
        let made = self.groups().alter_disks(mounted.group.name(), change, &wrote).await;
        drop(making);
        let changed = made.map_err(|error| match error.number() {
            // Dropping files is not the only way out here; where the log is in the way it says which is.
            15041 if !error.has(15028) => error.hint(format!(
                "{NO_PLACE}; EXPLAIN WORK FOR the statement tells what lacks a place"
            )),
            _ => error,
        })?;
        let parts = |dropping: &str| {
            let counts = [
                (changed.added.len(), "added"),
                (changed.dropped.len(), dropping),
                (changed.resized.len(), "resized"),
            ];
            let parts = counts.into_iter().filter(|(count, _)| *count > 0);
            let parts = parts.map(|(count, verb)| format!("{} {verb}", disks(count)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let told = Message {
            now: format!("{}; {}", parts("being dropped"), self.moves(&changed)),
            then: format!("{}; rebalanced", parts("dropped")),
        };
        let told = self.waited(mounted, change.rebalance, told).await?;
        Ok(match changed.sparse.is_empty() {
            true => told,
            false => format!(
                "{told}; {} sparse: the file system has less room than that, and a disk that finds \
                 none there leaves",
                changed.sparse.join(", ")
            ),
        })
    }

    fn moves(&self, changed: &Changed) -> String {
        match (changed.aus, changed.power) {
            (0, _) => "nothing is to be moved".to_owned(),
            (aus, 0) => format!(
                "{aus} AU are to be moved, and power 0 moves none: REBALANCE POWER 1 begins with it"
            ),
            (aus, power) => {
                format!("rebalance of {aus} AU under way at power {power}; {}", self.shows())
            }
        }
    }

    /// What is known of the rebalance just requested.
    fn under_way(&self, mounted: &Mounted) -> String {
        match mounted.group.operation() {
            None => "rebalanced".to_owned(),
            Some(operation) if operation.power == 0 => {
                "rebalance stopped until REBALANCE POWER n".to_owned()
            }
            Some(operation) => {
                format!("rebalance under way at power {}; {}", operation.power, self.shows())
            }
        }
    }

    pub(super) fn shows(&self) -> String {
        let dir = self.database.directory().path();
        format!("see how far it is: {}", commands::asm(dir, "lsop"))
    }

    /// What is under way, or after the rebalance, where WAIT asks for it, what was done.
    pub(super) async fn waited(
        &self,
        mounted: &Mounted,
        rebalance: Rebalance,
        told: Message,
    ) -> Result<String> {
        if !rebalance.wait {
            return Ok(told.now);
        }
        let waiting = self.waiting.for_what(What::Rebalance(mounted.group.clone()));
        mounted.group.wait_rebalanced().await?;
        drop(waiting);
        if mounted.group.operation().is_some() {
            return Ok(format!("{} (not waited for: it is stopped)", told.now));
        }
        Ok(told.then)
    }
}

/// What a statement reports about the disks that it changes.
pub(super) struct Message {
    /// While the rebalance is under way.
    pub now: String,
    /// When it is over.
    pub then: String,
}

pub(super) fn disks(count: usize) -> String {
    if count == 1 { "1 disk".to_owned() } else { format!("{count} disks") }
}

/// `RENAME DISK`: all of them, or none.
pub(super) async fn rename_disks(mounted: &Mounted, names: &[(String, String)]) -> Result<String> {
    let group = &mounted.group;
    let now = group.disks().into_iter().map(|disk| disk.name).collect();
    check_renames(now, names)?;
    for (old, new) in names {
        group.rename_disk(old, new).await?;
    }
    Ok(format!("{} renamed", disks(names.len())))
}

/// Refuses to take back what cannot be taken back.
fn check_not_forced(mounted: &Mounted) -> Result<()> {
    let disks = mounted.group.disks().into_iter();
    let forced = disks.filter(|disk| disk.status == DiskStatus::Forcing).map(|disk| disk.name);
    let forced: Vec<String> = forced.collect();
    if forced.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} left with DROP DISK ... FORCE, which cannot be taken back: its copies are being made \
         again elsewhere",
        forced.join(", ")
    );
    Err(Error::new(15071, text).hint(
        NextStep::from("wait until it is gone: ")
            .cellar("asm", "lsop")
            .then("; then ADD DISK '...' FORCE takes it anew"),
    ))
}

/// Whether all of `renames` can be applied, one after the other, to a group whose disks are named
/// `names`: if one cannot, none is.
fn check_renames(
    mut names: BTreeSet<String>,
    renames: &[(String, String)],
) -> std::result::Result<(), GroupError> {
    let unusable = |disk: &str, why: &str, number| {
        Err(GroupError::DiskUnusable { disk: disk.to_owned(), why: why.to_owned(), number })
    };
    for (old, new) in renames {
        let bad = |e: String| GroupError::BadName { name: new.clone(), why: e };
        let new = DiskName::new(new).map_err(|e| bad(e.to_string()))?;
        let old = old.to_uppercase();
        if !names.contains(&old) {
            return unusable(&old, "the group has no disk of that name", 15054);
        }
        if !names.insert(new.as_str().to_owned()) {
            let why = "a disk of the group has that name already, or gets it by this statement";
            return unusable(new.as_str(), why, 15010);
        }
        names.remove(&old);
    }
    Ok(())
}

/// The plan of a change, with the time it would take.
pub(super) async fn explain(
    database: &Database,
    waiting: &Waiting,
    work: &WorkRequest,
) -> Result<Explained> {
    let groups = database.storage().groups();
    let time = match work.probe {
        Probe::No => return groups.explain_work(&work.group, &work.change),
        Probe::Usual => PROBE_TIME,
        Probe::For(ms) => Duration::from_millis(ms),
    };
    let _probed = waiting.for_what(What::Probe(database.group(&work.group)?.group));
    groups.estimate_work(&work.group, &work.change, time).await
}

/// What the change itself would be refused with: something that must move has no place.
pub fn refusal(group: &str, explained: &Explained) -> Option<Error> {
    let unplaced = explained.work.plan.unplaced.iter().filter(|u| u.lack != Lack::Copy);
    let aus: u64 = unplaced.map(|u| u.aus).sum();
    (aus > 0).then(|| {
        let mb = (aus * explained.work.au_size) >> 20;
        let text = format!("disk group \"{group}\" has no place for {mb} MB that must move");
        Error::new(15041, text).hint(NO_PLACE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_are_refused_as_a_whole() {
        let number = |renames: &[(&str, &str)]| {
            let names = ["A", "B", "C"].map(str::to_owned).into();
            let renames: Vec<(String, String)> =
                renames.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
            check_renames(names, &renames).map_err(|error| error.number())
        };
        assert_eq!(number(&[("A", "X"), ("B", "Y")]), Ok(()));
        assert_eq!(number(&[("B", "X"), ("A", "B")]), Ok(()), "one behind the other");
        assert_eq!(number(&[("A", "X"), ("D", "Y")]), Err(15054), "no such disk");
        assert_eq!(number(&[("A", "X"), ("A", "Y")]), Err(15054), "it is called X by then");
        assert_eq!(number(&[("A", "X"), ("B", "C")]), Err(15010), "taken");
        assert_eq!(number(&[("A", "X"), ("B", "x")]), Err(15010), "given twice");
        assert_eq!(number(&[("A", "A")]), Err(15010));
        assert_eq!(number(&[("A", "X"), ("B", "Y-Z")]), Err(15124), "not a name");
    }
}
