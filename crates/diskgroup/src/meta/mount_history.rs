//! Mount marks in disk labels: they tell an older image of a disk from the disk itself, by the mount
//! that used it last.
//!
//! Each mount has a random number, its *mount id*, which stands in every record of the metadata log that
//! it writes. Before the first of them it writes its own mount id, and that of the mount before, into the
//! label of every disk in sync. So a disk that took part in the last mount that wrote anything has that
//! mount's id in its label, wherever a crash came between:
//!
//! - before the record, the label has the new mount id and the last one, or still the last one alone;
//! - after it, every disk that the record counts on has the new mount id.
//!
//! A clean dismount does the same with a mount id that only its last record has, so that an image made
//! while the group was in use is detected, too; after a crash of that very mount it is not.
//!
//! A label without the mount id of the newest record belongs to a restored snapshot, or to a disk that was
//! used apart from the others. Such a disk may lack acknowledged writes: it is taken out.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use crate::base::Base;
use crate::disk::lock;
use crate::meta::labels::rewrite_label;
use crate::meta::rules::goes_on_without;
use crate::on_disk::label::Label;

/// The marks of the disks found, as a history that ends with the record of one mount sees them.
pub(crate) struct Marks {
    last: u64,
    /// Whether any disk was there in that mount. If none was, a version without marks wrote last.
    tell: bool,
    /// Whether any disk has that mount as its newest mark. If none has, labels without a mark may be those
    /// that an interrupted first mount had still to write.
    newest: bool,
}

impl Marks {
    /// Of the disks with these labels, seen from a history whose newest record has the mount id `last`.
    pub fn of<'a>(labels: impl Iterator<Item = &'a Label> + Clone, last: u64) -> Marks {
        Marks {
            last,
            tell: labels.clone().any(|label| label.mount_ids.contains(&last)),
            newest: labels.clone().any(|label| label.mount_ids[0] == last),
        }
    }

    /// Whether a disk with this label was there in the last mount that wrote anything.
    pub fn is_current(&self, label: &Label) -> bool {
        let unmarked = label.mount_ids == [0, 0] && !self.newest;
        !self.tell || label.mount_ids.contains(&self.last) || unmarked
    }
}

/// The id of a mount that came after the one of the newest record, `last`, and was interrupted before its
/// own first record; 0 if no label shows one.
pub(crate) fn tried<'a>(labels: impl Iterator<Item = &'a Label>, last: u64) -> u64 {
    let after = |label: &&Label| label.mount_ids[1] == last && label.mount_ids[0] != last;
    let mut tried = labels.filter(after).map(|label| label.mount_ids[0]);
    tried.next().unwrap_or(0)
}

/// Marks every disk in sync as used by this mount, durably. One that does not take it fails, and
/// leaves with the first record. `goes_on` says whether the mount can with those that are marked.
pub(crate) async fn mark(base: &Base, last: u64, goes_on: GoesOn<'_>) {
    mark_all(base, [base.mount_id, last], goes_on).await;
}

/// Whether these disks are enough.
type GoesOn<'a> = &'a (dyn Fn(&BTreeSet<u16>) -> bool + Send + Sync);

/// Marks every disk in sync as having taken part to the end of this mount; the record that ends it comes
/// after.
pub(crate) async fn mark_end(base: &Base) {
    let end = base.env.random();
    base.end_life.store(end, Ordering::SeqCst);
    mark_all(base, [end, base.mount_id], &|_| true).await;
    // One that did not take it has the id of this mount, which the last record then has, too.
    if base.disks_in_sync().iter().all(|disk| disk.is_alive()) {
        base.log_mount_id.store(end, Ordering::SeqCst);
    }
}

async fn mark_all(base: &Base, mount_ids: [u64; 2], goes_on: GoesOn<'_>) {
    let states = lock(&base.core).state.disks.clone();
    // A failed disk lacks what came before, and is out by the next record.
    let disks = base.disks_in_sync();
    let disks: Vec<_> = disks.into_iter().filter(|disk| disk.is_alive()).collect();
    let known = disks.iter().filter_map(|disk| Some((disk, states.get(&disk.no)?)));
    // A disk that hangs is abandoned as soon as on the data path, if the others have been marked by then.
    let marked: Mutex<BTreeSet<u16>> = Mutex::default();
    let may = || {
        let marked = lock(&marked);
        let goes = |no| !marked.contains(&no);
        !marked.is_empty() && goes_on(&marked) && goes_on_without(&lock(&base.core).state, goes)
    };
    let request_timeout = base.request_timeout().sooner(base.detach_timeout, &may);
    let marks = known.map(|(disk, state)| async {
        // What went wrong is known to the disk itself.
        if rewrite_label(disk, state, Some(mount_ids), request_timeout).await.is_ok() {
            lock(&marked).insert(disk.no);
        }
    });
    join_all(marks).await;
}
