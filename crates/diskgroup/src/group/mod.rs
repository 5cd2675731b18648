//! A mounted disk group: its files, its disks, its figures.

mod disks;
mod exchange;
mod files;
mod handle;
pub(crate) mod inner;
mod online;
mod operations;
mod probe;
pub(crate) mod repair;
pub(crate) mod report;
mod resize;
mod template;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, Io, SharedEnv};
use cellar_wait::Session;
use futures_util::future::join_all;

use crate::base::free_space::FreeSpace;
use crate::base::{Base, BaseParts};
use crate::data::access::Access;
use crate::data::checksum::Checksums;
use crate::data::dirty_log::DirtyLog;
use crate::data::region::{Caps, Regions};
use crate::data::unflushed_history::UnflushedHistory;
use crate::data::{Data, clean, resync};
use crate::disk::lock;
use crate::error::Error;
use crate::meta::attributes::check_attribute;
use crate::meta::commit::Committer;
use crate::meta::found::FoundDisk;
use crate::meta::labels::{relabel, write_labels};
use crate::meta::mount::{self, Start, region_cap};
use crate::meta::mount_history;
use crate::meta::options::MountOptions;
use crate::meta::rules;
use crate::meta::usable::Gone;
use crate::moves::rebalance;
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::label::LabelStatus;
use crate::scrub;
use crate::state::{GroupState, Op};
use inner::Inner;

pub use disks::{AlterDisks, DropDisk, Work};
#[cfg(feature = "object-store")]
pub(crate) use files::parts_of;
pub use files::{FileSpec, Listed, PublishIf};
pub use handle::{File, STOPPED};
pub use probe::{ProbeSpec, ProbeTarget, Rates};

pub use online::OnlineHow;
pub use repair::OfflineDisk;
pub use report::{Copied, DiskInfo, FileInfo, GroupInfo, Loss, OlderFiles, Resync, aus_of};
pub use resize::ResizeDisk;
pub use template::{Protection, Template, TemplateChange, TemplateWords};

/// A mounted disk group. Clones share it.
#[derive(Clone)]
pub struct Group {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({})", self.inner.name)
    }
}

impl Group {
    /// Mounts the group called `name` (upper-case) from those disks among `found` that belong to it.
    ///
    /// `session` is the session on which the group's own waits are counted.
    ///
    /// # Errors
    /// Disks are missing or damaged beyond what the redundancy covers, or it cannot be proven that
    /// what is here is the newest.
    #[boxed]
    pub async fn mount(
        env: &SharedEnv,
        session: Session,
        name: &str,
        found: Vec<FoundDisk>,
        options: MountOptions,
    ) -> Result<Group, Error> {
        let start = mount::start(env, name, found, &options).await?;
        let room = room_of(&start.state)?;
        let dirty_log = DirtyLog::new(start.dirty.clone(), options.dirty_block_entries);
        let marked = dirty_log.entries();
        let aged = start.disks.values().any(|disk| disk.is_aged());
        let dirty = match start.dirty.lost.is_empty() && !aged {
            true => dirty_pieces(&start.state, &marked),
            false => all_pieces(&start.state),
        };
        for key in marked.iter().filter(|key| !dirty.contains_key(key)) {
            dirty_log.remove(key);
        }
        let checksums = Checksums::new(options.checksum_cache_bytes);
        let caps = Caps {
            resync: region_cap(start.regions_per_second, options.resync_target),
            by_owner: checksums.regions_max(start.state.header.redundancy.copies()),
        };
        let now = env.now();
        let base = Arc::new(Base::new(BaseParts {
            env: Arc::clone(env),
            session,
            state: start.state.clone(),
            space: room,
            disks: start.disks.clone(),
            read_only: options.read_only,
            holds_catalog: start.holds_catalog,
            mount_id: env.random(),
            strict: options.rescue.as_ref().is_some_and(|rescue| rescue.strict),
            disk_timeout: options.disk_timeout,
            detach_timeout: options.detach_timeout,
        }));
        let inner = Arc::new(Inner::new(Data::new(
            base,
            Regions::new(caps, &dirty, now),
            dirty_log,
            checksums,
        )));
        let group = Group { inner };
        // From here on a disk that does not answer is failed, also while the mount goes on.
        group.watch();
        let unmounted = StopUnlessMounted(Some(&group.inner));
        if !options.read_only {
            group.take_over(start, options.force).await?;
        }
        unmounted.mounted();
        Ok(group)
    }

    /// Makes this mount the one that writes: brings lagging members up to date, commits a new
    /// epoch without the disks that are missing, and starts the tasks.
    async fn take_over(&self, start: Start, force: bool) -> Result<(), Error> {
        let inner = &self.inner;
        let Start {
            position,
            missing,
            current,
            members,
            lagging,
            committed,
            generations,
            creating,
            former,
            dirty,
            tried,
            ..
        } = start;
        let data = Arc::clone(&inner.data);
        let mut committer = Committer::new(data, position, members, committed, generations);
        let stop = |why: String| Error::Stopped { group: inner.name.clone(), why: why.into() };
        committer.catch_up(lagging).await;
        committer.tried_life = tried;
        // After that: the mount id of a record is noted on no member that lacks the record.
        let aged = inner.disks_in_sync().iter().any(|disk| disk.is_aged());
        let goes_on = |marked: &_| !force && !aged && committer.may_go_on_with(marked);
        mount_history::mark(inner, position.previous_mount, &goes_on).await;
        // A disk without a mark must leave with the very first record, or the next mount would take it for
        // an older image; so it must be one that can be done without.
        let missing = committer.with_unmarked(missing).map_err(stop)?;
        dirty.level(&inner.data).await;
        let gone = Gone { missing: &missing, current: &current };
        committer.new_epoch(gone, force).await.map_err(stop)?;
        committer.correct_labels(&creating).await;
        // FORCE continues from a state that may be old: it proves nothing about which disks left.
        if !force {
            let request_timeout = inner.request_timeout();
            let labelled =
                former.iter().map(|(device, label)| write_labels(device, label, request_timeout));
            // A disk that does not take it has left all the same.
            join_all(labelled).await;
        }
        inner.env.spawn("metadata log", Box::pin(committer.run()));
        self.take_back(&current).await?;
        if !dirty.lost.is_empty() || aged {
            self.resync_all().await?;
        }
        self.delete_temporaries().await?;
        inner.env.spawn("cleaner", Box::pin(clean::run(Arc::clone(&inner.data))));
        inner.env.spawn("resync", Box::pin(resync::run(Arc::clone(&inner.data))));
        let rebuild = Box::pin(resync::run_rebuild(Arc::clone(&inner.data)));
        inner.env.spawn("rebuild checksums", rebuild);
        inner.env.spawn("rebalance", Box::pin(rebalance::run(Arc::clone(&inner.rebalance))));
        self.return_all();
        inner.env.spawn("repair time", Box::pin(repair::run(self.clone())));
        inner.env.spawn("scrub", Box::pin(scrub::run(Arc::clone(&inner.scrub))));
        Ok(())
    }

    /// Brings back disks that missed nothing and hold the only copy of something. Until then the group is
    /// as clean as it was left, so that an interrupted mount does the same again.
    async fn take_back(&self, current: &[u16]) -> Result<(), Error> {
        if current.is_empty() {
            return Ok(());
        }
        let away: Vec<(String, FoundDisk)> = {
            let core = lock(&self.inner.core);
            let found = |no: &u16| {
                let here = self.inner.disk(*no)?;
                let device = Arc::clone(here.device());
                let name = core.state.disks.get(no)?.name.clone();
                Some((name, FoundDisk { device, path: here.path.clone() }))
            };
            current.iter().filter_map(found).collect()
        };
        for (name, found) in away {
            self.online_disk(&name, found, OnlineHow::default()).await?;
        }
        self.wait_returned().await?;
        self.inner.change_inside(&[Op::Clean { clean: false }]).await
    }

    /// No member could tell which regions are dirty: nothing is written to any before all of them
    /// are known to be clean.
    async fn resync_all(&self) -> Result<(), Error> {
        let inner = &self.inner;
        resync::run(Arc::clone(&inner.data)).await;
        self.clean_all().await?;
        inner.check_running()?;
        let held = inner.data.regions.all_held();
        if inner.data.regions.count() > held.len() {
            let why = "regions that may be dirty could not be made equal".into();
            return Err(Error::Stopped { group: inner.name.clone(), why });
        }
        // Those wait for a disk that is away, and no block may name them yet.
        for key in held {
            if inner.data.dirty_log.add(key).is_none() {
                let why = "too many regions wait for disks that are away".into();
                return Err(Error::Stopped { group: inner.name.clone(), why });
            }
        }
        DirtyLog::found_again(&inner.data).await
    }

    /// Cleans every region that can be cleaned.
    async fn clean_all(&self) -> Result<(), Error> {
        let inner = &self.inner;
        loop {
            while clean::round(&inner.data, Duration::ZERO).await? > 0 {}
            // Regions that the cleaner is working on are handled or left by the cleaner.
            inner.data.regions.not_cleaning().await;
            if !inner.data.regions.may_clean() {
                return Ok(());
            }
        }
    }

    /// Fails disks that leave requests unanswered, and starts their departure; detects slow disks.
    fn watch(&self) {
        let inner = Arc::clone(&self.inner);
        let env = Arc::clone(&inner.env);
        let task = async move {
            // After the end too, as long as somebody waits for a disk.
            let mut watch = watch::Watch::new(&inner);
            while !inner.is_stopped() || inner.disks.all().values().any(|d| d.load() > 0) {
                watch.look(&inner);
                inner.env.sleep(watch::EVERY).await;
            }
        };
        env.spawn("disk watch", Box::pin(task));
    }

    /// Dismounts the group: makes everything durable and clean, and releases the disks. Waits for writes
    /// and for a resync that are under way; later requests are refused. Runs to its end even if the
    /// future is dropped.
    ///
    /// # Errors
    /// The group has stopped, and needs recovery at the next mount; or it is being dismounted already.
    #[boxed]
    pub async fn dismount(&self) -> Result<(), Error> {
        let inner = &self.inner;
        if inner.read_only {
            inner.end_tasks();
            inner.stop("dismounted");
            return Ok(());
        }
        inner.check_running()?;
        let group = self.clone();
        let dismounted = inner.run("dismount", async move {
            let closed = group.inner.close_work().await;
            // A disk that is being added has joined, or has not.
            let _labels = group.inner.labels.lock().await;
            let done = group.dismount_quiet().await;
            if done.is_err() && group.check_running().is_ok() {
                group.inner.open_work(&closed);
            }
            done
        });
        dismounted.await
    }

    /// Nothing is moved any more.
    async fn dismount_quiet(&self) -> Result<(), Error> {
        self.delete_temporaries().await?;
        self.inner.data.close_to_changes().await?;
        let done = self.dismount_closed().await;
        if done.is_err() && self.check_running().is_ok() {
            // It goes on, and is not clean any more if it was said to be.
            self.inner.change_inside(&[Op::Clean { clean: false }]).await?;
            self.inner.open_to_changes();
        }
        done
    }

    /// Nobody writes any more: what is left is made durable and clean.
    async fn dismount_closed(&self) -> Result<(), Error> {
        let inner = &self.inner;
        resync::run(Arc::clone(&inner.data)).await;
        resync::rebuild(&inner.data).await?;
        let mut no_room = Ok(());
        for file in inner.data.open_files() {
            // A file that is gone needs no flush.
            let Ok(_entered) = file.enter().await else { continue };
            match Access::new(&inner.data, &file, Io::FOREGROUND).flush_inside().await {
                // What has no copy any more is not made durable by staying mounted.
                Ok(()) | Err(Error::NoCopy { .. } | Error::WritesLost { .. }) => {}
                // Nor what there is no room to record; the rest is released cleanly.
                Err(error @ Error::NoSpace { .. }) => no_room = Err(error),
                Err(error) => return Err(error),
            }
        }
        self.clean_all().await?;
        Checksums::write_back_all(&inner.data).await?;
        inner.flush_disks(Io::FOREGROUND).await?;
        let mut is_clean = true;
        match UnflushedHistory::record(&inner.data).await {
            // What a failed disk may lack cannot be recorded. That does not keep the group mounted.
            Err(error @ Error::NoSpace { .. }) => (no_room, is_clean) = (Err(error), false),
            done => done?,
        }
        if inner.data.dirty_log.is_behind() {
            let ticket = inner.data.dirty_log.ticket();
            DirtyLog::sync(&inner.data, ticket).await?;
        }
        // A region that could not be made clean is dealt with by the next mount.
        if is_clean && inner.data.regions.count() == 0 {
            mount_history::mark_end(inner).await;
            inner.change_inside(&[Op::Clean { clean: true }]).await?;
        }
        // A disk may have failed at the last.
        match UnflushedHistory::record(&inner.data).await {
            Err(error @ Error::NoSpace { .. }) => no_room = Err(error),
            done => done?,
        }
        inner.end_tasks();
        // The committer ends when nothing is left to write.
        inner.wait_stopped().await;
        inner.data.wait_left().await;
        no_room
    }

    /// Releases the disks as a crash would: nothing more is written. For tests, and for groups that cannot
    /// be dismounted cleanly.
    pub fn abandon(&self) {
        self.inner.stop("abandoned");
        self.inner.end_tasks();
    }

    /// DROP DISKGROUP: labels every disk as free to be taken, and ends the mount.
    ///
    /// # Errors
    /// The group has files and `including_contents` is not set, or a disk fails.
    #[boxed]
    pub async fn drop_group(&self, including_contents: bool) -> Result<(), Error> {
        self.inner.check_writable()?;
        // A task of its own: a caller that goes away must not leave the group closed to changes.
        let group = self.clone();
        let dropped = self.inner.run("drop group", async move {
            let closed = group.inner.close_work().await;
            // Nobody labels a disk that comes or goes meanwhile. Only now: who lets go of a disk
            // wants this too, and is waited for above.
            let _labels = group.inner.labels.lock().await;
            let refused = |_: &Error| group.inner.open_work(&closed);
            group.inner.data.close_to_changes().await.inspect_err(refused)?;
            let done = group.drop_closed(including_contents).await;
            if done.is_err() && group.check_running().is_ok() {
                group.inner.open_to_changes();
                group.inner.open_work(&closed);
            }
            done
        });
        dropped.await
    }

    async fn drop_closed(&self, including_contents: bool) -> Result<(), Error> {
        let inner = &self.inner;
        let files = lock(&inner.core).state.files.values().filter(|f| !f.temporary).count();
        if files > 0 && !including_contents {
            return Err(Error::HasFiles { group: inner.name.clone(), files });
        }
        inner.stop("dropped");
        inner.end_tasks();
        inner.data.wait_left().await;
        // All of them, even if one fails: as few labels as possible should still say member.
        let request_timeout = inner.request_timeout();
        let all = inner.disks.all();
        let disks = all.values().filter(|d| d.is_alive());
        let labelled =
            join_all(disks.map(|d| relabel(d, LabelStatus::Former, request_timeout))).await;
        labelled.into_iter().collect::<Result<(), _>>().map_err(Error::Io)
    }

    /// Reads a block of every disk in sync, so that a disk that went away is noticed even if nobody uses
    /// it. Returns whether the group is still mounted.
    #[boxed]
    pub async fn probe_disks(&self) -> bool {
        let inner = &self.inner;
        for disk in inner.disks_taking_part() {
            if disk.is_alive() {
                let block = crate::on_disk::layout::BLOCK;
                // What a failure means is noted by the disk itself.
                let _ = disk.read_at(Io::FOREGROUND, 0, block).await;
            }
            if !disk.is_alive() {
                inner.log.wanted.notify(1);
            }
        }
        !inner.is_ending()
    }

    /// Checks that the group has not stopped itself.
    ///
    /// # Errors
    /// It has stopped; the error says why.
    pub fn check_running(&self) -> Result<(), Error> {
        self.inner.check_running()
    }

    /// Its identity.
    pub fn uuid(&self) -> crate::on_disk::Uuid {
        self.inner.uuid
    }

    /// Whether it was mounted read-only: work that was under way does not resume.
    pub fn is_read_only(&self) -> bool {
        self.inner.read_only
    }

    /// The group's name, upper-case.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The environment it runs in.
    pub fn env(&self) -> &SharedEnv {
        &self.inner.env
    }

    /// Sets an attribute of the group.
    ///
    /// # Errors
    /// The attribute is fixed at creation, or unknown, or the value is not allowed.
    #[boxed]
    pub async fn set_attribute(&self, name: &str, value: &str) -> Result<(), Error> {
        let name = name.to_lowercase();
        check_attribute(&name, value)?;
        let op = Op::Attribute { name, value: value.to_owned() };
        self.inner.change(|_| Ok(((), vec![op]))).await
    }
}

fn room_of(state: &GroupState) -> Result<FreeSpace, Error> {
    FreeSpace::of(state).map_err(|error| Error::Damaged {
        group: state.header.name.clone(),
        what: format!("the extent map ({error})"),
        damage: crate::on_disk::Damage::Field { field: "leg", value: 0 },
    })
}

/// The pieces of each dirty region that were ever written; regions of files that are gone need
/// nothing.
fn dirty_pieces(state: &GroupState, dirty: &[RegionKey]) -> BTreeMap<RegionKey, u64> {
    dirty
        .iter()
        .filter_map(|key| {
            let file = state.files.get(&key.file)?;
            let same = file.incarnation == key.incarnation && !file.temporary;
            same.then(|| (*key, file.pieces_of(key.index.into())))
        })
        .collect()
}

/// The written pieces of every region of every file.
fn all_pieces(state: &GroupState) -> BTreeMap<RegionKey, u64> {
    let files = state.files.values().filter(|f| !f.temporary);
    files
        .flat_map(|file| {
            let (number, incarnation) = (file.number, file.incarnation);
            let regions = (0u32..).zip(&file.pieces).filter(|(_, pieces)| **pieces != 0);
            regions.map(move |(index, pieces)| {
                (RegionKey { file: number, incarnation, index }, *pieces)
            })
        })
        .collect()
}

/// Stops a group whose mount does not complete, so that its tasks release the disks.
struct StopUnlessMounted<'a>(Option<&'a Inner>);

impl StopUnlessMounted<'_> {
    fn mounted(mut self) {
        self.0 = None;
    }
}

impl Drop for StopUnlessMounted<'_> {
    fn drop(&mut self) {
        if let Some(inner) = self.0 {
            inner.stop("it could not be mounted");
        }
    }
}

/// Suspended work, by who must resume it.
struct Closed {
    rebalance: bool,
    returns: bool,
    scrub: bool,
}

impl Inner {
    /// Suspends rebalance, returns and scrub, and waits until none is at work.
    async fn close_work(&self) -> Closed {
        Closed {
            scrub: self.scrub.close().await,
            rebalance: self.rebalance.close().await,
            returns: self.returning.close().await,
        }
    }

    /// Resumes them.
    fn open_work(&self, closed: &Closed) {
        if closed.rebalance {
            self.rebalance.open();
        }
        if closed.returns {
            self.returning.open();
        }
        if closed.scrub {
            self.scrub.open();
        }
    }

    /// Ends the background tasks.
    pub fn end_tasks(&self) {
        self.log.end.store(true, Ordering::Release);
        self.log.wanted.notify(usize::MAX);
        self.data.cleaner_wanted.notify(usize::MAX);
        self.data.unknown.found.notify(usize::MAX);
        self.rebalance.wake();
        self.returning.wake();
        self.scrub.wake();
    }
}

/// Whether a set of members of that size may be believed; for inspection tools.
pub fn is_proven(members: usize, present: usize) -> bool {
    rules::is_proven(members, present)
}
