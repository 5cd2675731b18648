//! Disks that leave for a while: OFFLINE, ONLINE and REPLACE DISK.
//!
//! The return of a disk: 1. it is shown to be the one that left ([`lineage`]). 2. Its dirty log is
//! emptied, and its label gets the id of this mount. 3. From here on every write and flush goes to it.
//! When everyone who may not know that has left the files, earlier writes that are not yet recorded as
//! missed are recorded. 4. DiskReturning. 5. What it missed is copied, piece by piece, flushed, and no
//! longer counts as missed. 6. When nothing is left, a new epoch says that it is in sync
//! ([`crate::returning`]).
//!
//! Stopped before 4 it is away as before. Stopped after, the next mount notes that it is away, with
//! what is still missed, and begins again.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, Io};
use futures_util::future::join_all;

use crate::base::request_timeout::within;
use crate::data::clean;
use crate::disk::{Disk, DiskIdentity, lock};
use crate::error::{Error, no_such_disk};
use crate::group::Group;
use crate::group::disks::{blank, check_not_here, mark_former};
use crate::group::inner::Inner;
use crate::group::report::single_on;
use crate::meta::create::{NewDisk, Planned, check_label, check_sector};
use crate::meta::found::FoundDisk;
use crate::meta::labels::{blank_range, rewrite_label, write_labels};
use crate::meta::lineage;
use crate::moves::rebalance::check_power;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::{AU_START, BLOCK, DIRTY_LOG, DIRTY_LOG_BYTES, SUPERBLOCKS};
use crate::returning::RESYNC_POWER_DEFAULT;
use crate::state::{DiskState, DiskStatus, OfflineBy, Op, Stale};

/// How long a disk that is taken offline has to show that it is there.
const ASKED_FOR: Duration = Duration::from_secs(2);

/// How a disk is to come back.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnlineHow {
    /// All of it is copied anew, whatever it says of itself.
    pub force: bool,
    /// POWER; `None` takes the default.
    pub power: Option<u32>,
}

impl Group {
    /// OFFLINE DISK: disks leave for a while. What they miss from now on is copied when they return.
    /// `drop_after` is the time after which they are dropped instead, in seconds.
    ///
    /// # Errors
    /// No such disk, or something would be lost, before anything is changed.
    #[boxed]
    pub async fn offline_disks(
        &self,
        names: &[String],
        drop_after: Option<u32>,
    ) -> Result<(), Error> {
        let (group, names) = (self.clone(), names.to_vec());
        let offline = async move { group.offline_to_the_end(&names, drop_after).await };
        self.inner.run("offline disks", offline).await
    }

    async fn offline_to_the_end(
        &self,
        names: &[String],
        drop_after: Option<u32>,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let _labels = inner.labels.lock().await;
        inner.check_writable()?;
        let mut disks = Vec::new();
        {
            let core = lock(&inner.core);
            for name in names {
                let name = name.to_uppercase();
                let (no, disk) = core.state.disk_named(&name).ok_or_else(|| no_such_disk(&name))?;
                let unusable = |why: &str, number| Error::DiskUnusable {
                    disk: name.clone(),
                    why: why.to_owned(),
                    number,
                };
                match disk.status {
                    DiskStatus::Online | DiskStatus::Returning => disks.push(no),
                    DiskStatus::Offline => return Err(unusable("it is offline already", 15281)),
                    DiskStatus::Dropping | DiskStatus::Forcing => {
                        return Err(unusable("it is being dropped", 15071));
                    }
                }
            }
        }
        // What is clean when they leave need not be copied when they return.
        match clean::round(&inner.data, Duration::ZERO).await {
            Ok(_) | Err(Error::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
        // One that answers now is believed when it returns.
        let leaving = disks.iter().filter_map(|no| inner.disk(*no));
        join_all(leaving.map(|disk| async move {
            let asked = disk.read_at(Io::FOREGROUND, 0, BLOCK);
            let answered = within(&inner.env, ASKED_FOR, asked).await;
            disk.answered_last(matches!(answered, Some(Ok(_))));
        }))
        .await;
        inner.take_out(disks.clone()).await?;
        if let Some(seconds) = drop_after {
            let ops = disks.iter().map(|disk| Op::DropAfter { disk: *disk, seconds });
            inner.change_inside(&ops.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    /// Whether the disk of that name is away, and may come back.
    ///
    /// # Errors
    /// It is not, or there is none.
    pub fn check_away(&self, name: &str) -> Result<(), Error> {
        self.away(&name.to_uppercase()).map(|_| ())
    }

    /// The names of the disks that are away because they failed or were not found.
    pub fn offline_names(&self) -> Vec<String> {
        let core = lock(&self.inner.core);
        let by_itself =
            |d: &&DiskState| d.status == DiskStatus::Offline && d.offline.by == OfflineBy::Itself;
        core.state.disks.values().filter(by_itself).map(|d| d.name.clone()).collect()
    }

    /// Lets go of the device of a disk that is away, so that it can be opened again.
    pub fn close_disk(&self, name: &str) {
        let inner = &self.inner;
        let core = lock(&inner.core);
        let away = core.state.disk_named(&name.to_uppercase());
        if let Some((no, _)) = away.filter(|(_, d)| d.status == DiskStatus::Offline)
            && inner.disk(no).is_some_and(|disk| !disk.takes_part())
        {
            inner.disks.remove(no);
        }
    }

    /// ONLINE DISK: a disk that is away comes back by this device. Done when it gets every write; the
    /// copying of what it missed goes on in the background ([`Group::wait_returned`]).
    ///
    /// # Errors
    /// No such disk, or it is not away; the device is not it, or is not as it was when it left, or
    /// fails.
    #[boxed]
    pub async fn online_disk(
        &self,
        name: &str,
        found: FoundDisk,
        how: OnlineHow,
    ) -> Result<(), Error> {
        check_power(how.power.unwrap_or(RESYNC_POWER_DEFAULT))?;
        let (group, name) = (self.clone(), name.to_uppercase());
        let online = async move {
            let back = group.online_to_the_end(&name, &found, how).await;
            if let Ok((no, _)) = group.away(&name) {
                // A disk that is back after all, or that a dismount holds, is not reported.
                let told = back.as_ref().err().filter(|_| group.inner.returning.may_work());
                group.inner.returning.came(no, told.cloned());
            }
            back
        };
        self.inner.run("online disk", online).await
    }

    async fn online_to_the_end(
        &self,
        name: &str,
        found: &FoundDisk,
        how: OnlineHow,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let Some(working) = inner.returning.begin_return() else {
            return Err(inner.being_dismounted());
        };
        let labels = inner.labels.lock().await;
        inner.check_writable()?;
        let (no, state) = self.away(name)?;
        self.has_left(no).await?;
        let request_timeout = inner.request_timeout();
        let device = &found.device;
        let (group, sector) = (inner.uuid, inner.sector_size);
        let known =
            lineage::look(device, &found.path, group, sector, &state, request_timeout).await?;
        let anew = match known.diverged {
            Some(why) if !how.force => {
                return Err(Error::Diverged { disk: name.to_owned(), why });
            }
            diverged => diverged.is_some() || how.force,
        };
        // Old marks must not reappear, nor, on a disk that was used apart, its history.
        let from = if anew { SUPERBLOCKS[0] } else { DIRTY_LOG[0] };
        let to = if anew { AU_START } else { DIRTY_LOG[1] + DIRTY_LOG_BYTES };
        let wait = request_timeout.wait(device, cellar_io::Op::Flush, async {
            blank_range(device, from..to, request_timeout).await?;
            device.flush(Io::FOREGROUND).await
        });
        wait.await.map_err(Error::Io)?;
        if !anew
            && known.mount_id == state.offline.tried
            && state.offline.tried != state.offline.mount_id
        {
            // Only one such mount id is known at a time.
            let disk = open(inner, no, &state, found);
            let mount_ids = [state.offline.mount_id, 0];
            rewrite_label(&disk, &state, Some(mount_ids), request_timeout)
                .await
                .map_err(Error::Io)?;
        }
        if !anew {
            // Before the label has it: an unknown mount id in a label means that a mount elsewhere
            // used the disk.
            let op = Op::DiskTried { disk: no, mount_id: inner.mount_id };
            inner.change(|core| still_away(core, no).map(|()| ((), vec![op]))).await?;
        }
        let disk = open(inner, no, &state, found);
        let mount_ids = [inner.mount_id, if anew { 0 } else { state.offline.mount_id }];
        rewrite_label(&disk, &state, Some(mount_ids), request_timeout).await.map_err(Error::Io)?;
        let first =
            if anew { vec![Op::StaleAll { disk: no, mount_id: inner.mount_id }] } else { vec![] };
        let superblock = if anew { None } else { known.superblock };
        let begun = self.begin_return(&disk, superblock, first, how.power).await;
        drop(labels);
        drop(working);
        begun
    }

    /// REPLACE DISK: another device takes the place of a disk that is away, under its name and number,
    /// and all that the disk held is copied to it.
    ///
    /// # Errors
    /// No such disk, or it is not away; the device will not do or fails.
    #[boxed]
    pub async fn replace_disk(
        &self,
        name: &str,
        new: NewDisk,
        power: Option<u32>,
    ) -> Result<(), Error> {
        check_power(power.unwrap_or(RESYNC_POWER_DEFAULT))?;
        let (group, name) = (self.clone(), name.to_uppercase());
        let replace = async move { group.replace_to_the_end(&name, new, power).await };
        self.inner.run("replace disk", replace).await
    }

    async fn replace_to_the_end(
        &self,
        name: &str,
        new: NewDisk,
        power: Option<u32>,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let Some(working) = inner.returning.begin_return() else {
            return Err(inner.being_dismounted());
        };
        let labels = inner.labels.lock().await;
        inner.check_writable()?;
        inner.rebalance.end_probes().await;
        let (no, state) = self.away(name)?;
        self.has_left(no).await?;
        // Here already, and not only with the record: nothing is wiped for what is refused.
        check_not_single(&lock(&inner.core), no)?;
        let uuid = crate::meta::create::new_uuid(&inner.env);
        let planned = self.plan_replacement(no, &state, new, uuid)?;
        let request_timeout = inner.request_timeout();
        check_label(&planned, request_timeout).await?;
        check_not_here(inner, &planned, request_timeout).await?;
        let header = lock(&inner.core).state.header.clone();
        let label = planned.label(&header, LabelStatus::Member, inner.holds_catalog);
        let label = Label { mount_ids: [inner.mount_id, 0], ..label };
        let device = &planned.disk.device;
        let written = async {
            blank(device, request_timeout).await?;
            write_labels(device, &label, request_timeout).await
        };
        written.await.map_err(Error::Io)?;
        let found = FoundDisk { device: Arc::clone(device), path: planned.disk.path.clone() };
        let state = DiskState { uuid, ..state };
        let disk = open(inner, no, &state, &found);
        let first = vec![Op::DiskReplace { disk: no, uuid, mount_id: inner.mount_id }];
        let begun = self.begin_return(&disk, None, first, power).await;
        let taken = lock(&inner.core).state.disks.get(&no).is_some_and(|d| d.uuid == uuid);
        if begun.is_err() && !taken && inner.check_running().is_ok() {
            // It took nobody's place: nobody needs FORCE to take it.
            mark_former(&[(Arc::clone(&found.device), label)], request_timeout).await;
        }
        drop(labels);
        drop(working);
        begun
    }

    fn plan_replacement(
        &self,
        no: u16,
        state: &DiskState,
        disk: NewDisk,
        uuid: crate::on_disk::Uuid,
    ) -> Result<Planned, Error> {
        let unusable =
            |why: String, number| Err(Error::DiskUnusable { disk: disk.path.clone(), why, number });
        let geometry = disk.device.geometry();
        if geometry.size < state.bytes {
            let mb = |bytes: u64| bytes >> 20;
            return unusable(
                format!("it has {} MB, and {} {}", mb(geometry.size), state.name, mb(state.bytes)),
                15036,
            );
        }
        check_sector(&disk.device, &disk.path, self.inner.sector_size)?;
        Ok(Planned {
            no,
            name: state.name.clone(),
            failgroup: state.failgroup.clone(),
            bytes: state.bytes,
            uuid,
            disk,
        })
    }

    /// The disk of that name, if it is away and may come back.
    fn away(&self, name: &str) -> Result<(u16, DiskState), Error> {
        let core = lock(&self.inner.core);
        let (no, disk) = core.state.disk_named(name).ok_or_else(|| no_such_disk(name))?;
        let unusable = |why: &str, number| Error::DiskUnusable {
            disk: name.to_owned(),
            why: why.to_owned(),
            number,
        };
        match disk.status {
            DiskStatus::Offline => Ok((no, disk.clone())),
            DiskStatus::Online => Err(unusable("it is online", 15281)),
            DiskStatus::Returning => Err(unusable("it is on its way back already", 15281)),
            DiskStatus::Dropping | DiskStatus::Forcing => {
                Err(unusable("it is being dropped", 15071))
            }
        }
    }

    /// Waits until the epoch without a disk that is away is committed, and nobody uses it any more.
    async fn has_left(&self, no: u16) -> Result<(), Error> {
        match self.inner.disk(no) {
            Some(disk) => self.inner.wait_offline(&disk).await,
            None => Ok(()),
        }
    }

    /// From here on every write goes to the disk; what it lacks is known, and copied by a task.
    async fn begin_return(
        &self,
        disk: &Arc<Disk>,
        superblock: Option<(u64, u8)>,
        first: Vec<Op>,
        power: Option<u32>,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let no = disk.no;
        inner.returning.forget(no);
        if !first.is_empty() {
            let replaces = first.iter().any(|op| matches!(op, Op::DiskReplace { .. }));
            let plan = |core: &mut crate::base::core::Core| {
                still_away(core, no)?;
                if replaces {
                    check_not_single(core, no)?;
                }
                Ok(((), first))
            };
            inner.change(plan).await?;
        }
        inner.data.checksums.forget_disk(no);
        disk.come_back(superblock);
        inner.disks.insert(disk);
        let begun = async {
            // Whoever is inside a file may have looked before the disk was back.
            join_all(inner.data.open_files().iter().map(|file| file.turn_over())).await;
            clean::missed(&inner.data, &self.not_recorded(no), &|away| away == no).await?;
            let op = Op::DiskReturning { disk: no, mount_id: inner.mount_id };
            let (all, own) = (Arc::clone(inner), Arc::clone(disk));
            let make = move |core: &mut crate::base::core::Core| {
                still_away(core, own.no)?;
                match own.is_alive() && own.is_returning() && all.is_current(&own) {
                    true => Ok(vec![op]),
                    false => Err(failure_of(&own)),
                }
            };
            inner.change_disks(make).await
        };
        if let Err(error) = begun.await {
            // Nothing says that it is back: it lacks what was not recorded.
            if inner.check_running().is_ok() {
                disk.left();
                inner.log.moved.notify(usize::MAX);
            }
            return Err(error);
        }
        let total = lock(&inner.core).state.stale_pieces(no);
        let power = power.unwrap_or(RESYNC_POWER_DEFAULT);
        inner.returning.start(no, inner.env.now(), power, total);
        inner.returning.came(no, None);
        inner.returning.spawn_catch_up(disk);
        Ok(())
    }

    /// Pieces that were written and may not be on a disk that was away, beyond those that are
    /// recorded as such.
    fn not_recorded(&self, disk: u16) -> Vec<(RegionKey, u64)> {
        let inner = &self.inner;
        let mut pieces = inner.data.regions.all_touched();
        pieces.extend(inner.data.unflushed.lacked_by(disk));
        for file in inner.data.open_files() {
            let fresh = file.fresh();
            pieces.extend(fresh.into_iter().map(|(region, bits)| (file.key(region), bits)));
        }
        inner.data.forget_unflushed(disk);
        pieces
    }

    /// After a mount: disks that are away, and whose devices are here as they were when they left,
    /// return by themselves, except those that a user took offline.
    pub(super) fn return_all(&self) {
        let inner = &self.inner;
        let away: Vec<(u16, String, FoundDisk)> = {
            let core = lock(&inner.core);
            let comes = |d: &&DiskState| {
                d.status == DiskStatus::Offline
                    && d.offline.by == OfflineBy::Itself
                    && d.stale == Stale::Mapped
            };
            let disks = core.state.disks.iter().filter(|(_, d)| comes(d));
            disks
                .filter_map(|(no, d)| {
                    let here = inner.disk(*no).filter(|disk| disk.is_alive())?;
                    let device: Arc<dyn Device> = Arc::clone(here.device());
                    Some((*no, d.name.clone(), FoundDisk { device, path: here.path.clone() }))
                })
                .collect()
        };
        // Told from the first moment: who looks, or ends soon, knows that they are about to.
        inner.returning.expect(away.iter().map(|(no, ..)| *no));
        let group = self.clone();
        let task = async move {
            for (no, name, found) in away {
                // Why one does not come back is told to who asks for it.
                let back = group.online_disk(&name, found, OnlineHow::default()).await;
                if back.is_err() {
                    group.inner.returning.unexpect(no);
                }
            }
        };
        inner.env.spawn("disks that return", Box::pin(task));
    }
}

fn still_away(core: &crate::base::core::Core, disk: u16) -> Result<(), Error> {
    match core.state.disks.get(&disk) {
        Some(d) if d.status == DiskStatus::Offline => Ok(()),
        Some(d) => Err(Error::DiskUnusable {
            disk: d.name.clone(),
            why: "it is not away any more".to_owned(),
            number: 15281,
        }),
        None => Err(no_such_disk(&format!("disk {disk}"))),
    }
}

/// A disk with the only copy of anything cannot be replaced: that copy would be read from the new
/// device.
fn check_not_single(core: &crate::base::core::Core, disk: u16) -> Result<(), Error> {
    match single_on(&core.state, disk) {
        Some((file, aus)) => Err(Error::Lost { file, aus }),
        None => Ok(()),
    }
}

fn failure_of(disk: &Disk) -> Error {
    match disk.failure() {
        Some(why) => Error::Io(why.clone()),
        None => no_such_disk(&disk.name),
    }
}

fn open(inner: &Inner, no: u16, state: &DiskState, found: &FoundDisk) -> Arc<Disk> {
    let identity = DiskIdentity {
        no,
        uuid: state.uuid,
        name: state.name.clone(),
        failgroup: state.failgroup.clone(),
        path: found.path.clone(),
    };
    let disk = Disk::new(identity, Arc::clone(&found.device), Arc::clone(&inner.env));
    disk.left();
    Arc::new(disk)
}
