//! The direct moves of a plan: the legs that leave, and the disks that take them without a detour.
//!
//! The first pass goes file by file: legs leave disks that hold more than their target and more than
//! their share of the file, evenly along the file, for disks that are short of both. The second pass
//! goes over all files and moves what is still above target.

use super::target::Group;
use super::{NOWHERE, Work};

/// What of one file is where, and should be, by disk.
struct FileShare {
    have: Vec<u64>,
    due: Vec<f64>,
}

impl FileShare {
    fn is_short(&self, disk: usize) -> bool {
        (self.have[disk] as f64) < self.due[disk]
    }
}

/// Takes `leave` of `all` legs of a disk, evenly.
#[derive(Clone, Copy, Default)]
struct Pace {
    leave: u64,
    all: u64,
    credit: u64,
}

impl Pace {
    /// Whether the next leg is one to leave.
    fn is_due(&mut self) -> bool {
        self.credit += self.leave;
        self.leave > 0 && self.credit >= self.all
    }

    fn left(&mut self) {
        self.credit -= self.all;
    }
}

impl Work {
    pub(super) fn choose(&mut self, groups: &[Group]) {
        for file in 0..self.files.len() {
            self.choose_in_file(file, groups);
        }
        self.choose_anywhere();
    }

    fn choose_in_file(&mut self, file: usize, groups: &[Group]) {
        if self.disks.iter().all(|d| d.short() == 0) {
            return;
        }
        let mut share = self.share_of(file, groups);
        let range = self.files[file].first..self.files[file].first + self.files[file].legs;
        let waiting = range.clone().filter(|&leg| self.is_waiting(leg)).count() as u64;
        let mut pace = vec![Pace::default(); self.disks.len()];
        let (mut leaving, mut room) = (0, 0);
        for (index, disk) in self.disks.iter().enumerate() {
            let over = (share.have[index] as f64 - share.due[index]).max(0.0) as u64;
            let leave = over.min(disk.excess());
            pace[index] = Pace { leave, all: share.have[index], credit: 0 };
            leaving += leave;
            let under = (share.due[index] - share.have[index] as f64).max(0.0).ceil() as u64;
            room += under.min(disk.short());
        }
        let room = room.saturating_sub(waiting);
        for pace in pace.iter_mut().filter(|_| leaving > room) {
            let scaled = u128::from(pace.leave) * u128::from(room) / u128::from(leaving);
            pace.leave = scaled as u64;
        }
        for leg in range {
            let from = usize::from(self.now[leg]);
            if self.is_waiting(leg) {
                if let Some(to) = self.best_place(leg, Some(&share), false) {
                    self.put(leg, to);
                    share.have[to] += 1;
                }
            } else if self.now[leg] != NOWHERE
                && self.now[leg] == self.home[leg]
                && pace[from].is_due()
                && self.disks[from].excess() > 0
                && let Some(to) = self.best_place(leg, Some(&share), true)
            {
                self.put(leg, to);
                pace[from].left();
                share.have[from] -= 1;
                share.have[to] += 1;
            }
        }
    }

    /// What each disk should hold of a file: by the targets, at most one copy a failure group.
    fn share_of(&self, file: usize, groups: &[Group]) -> FileShare {
        let work = &self.files[file];
        let mut share =
            FileShare { have: vec![0; self.disks.len()], due: vec![0.0; self.disks.len()] };
        for leg in work.first..work.first + work.legs {
            if self.now[leg] != NOWHERE {
                share.have[usize::from(self.now[leg])] += 1;
            }
        }
        let of_all: u64 = groups.iter().map(|g| g.target.saturating_sub(g.pinned)).sum();
        let sets = work.legs.div_ceil(work.copies) as f64;
        for group in groups.iter().filter(|g| g.target > 0) {
            let part = match work.pinned {
                Some(only) if only == group.failgroup => sets,
                Some(_) => 0.0,
                None => {
                    let open = group.target.saturating_sub(group.pinned) as f64;
                    (work.legs as f64 * open / of_all.max(1) as f64).min(sets)
                }
            };
            for &disk in &group.disks {
                share.due[disk] = part * self.disks[disk].target as f64 / group.target as f64;
            }
        }
        share
    }

    /// What is too much still leaves, evenly over all that lies on the disk.
    fn choose_anywhere(&mut self) {
        let mut pace = vec![Pace::default(); self.disks.len()];
        for (leg, &disk) in self.now.iter().enumerate() {
            if disk != NOWHERE && disk == self.home[leg] {
                pace[usize::from(disk)].all += 1;
            }
        }
        for (pace, disk) in pace.iter_mut().zip(&self.disks) {
            pace.leave = disk.excess();
        }
        for leg in 0..self.now.len() {
            let from = usize::from(self.now[leg]);
            if self.is_waiting(leg) {
                if let Some(to) = self.best_place(leg, None, false) {
                    self.put(leg, to);
                }
            } else if self.now[leg] != NOWHERE
                && self.now[leg] == self.home[leg]
                && pace[from].is_due()
                && self.disks[from].excess() > 0
                && let Some(to) = self.best_place(leg, None, false)
            {
                self.put(leg, to);
                pace[from].left();
            }
        }
    }

    /// The disk short of its target that suits best: a partner, one that the file is short on, the
    /// one that is furthest from done.
    fn best_place(&self, leg: usize, share: Option<&FileShare>, only_short: bool) -> Option<usize> {
        let mut best: Option<(usize, (bool, bool, f64))> = None;
        for (index, disk) in self.disks.iter().enumerate() {
            if disk.short() == 0 {
                continue;
            }
            let file_is_full = share.is_some_and(|share| !share.is_short(index));
            if only_short && file_is_full || !self.may_lie(leg, index) {
                continue;
            }
            let done = 1.0 - disk.short() as f64 / disk.need.max(1) as f64;
            let rank = (self.is_strange(leg, index), file_is_full, done);
            if best.is_none_or(|(_, best_rank)| rank < best_rank) {
                best = Some((index, rank));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Whether a sibling lies on a disk that is no partner of this one.
    fn is_strange(&self, leg: usize, disk: usize) -> bool {
        !self.partner.is_empty()
            && self.set_of(leg).any(|other| {
                other != leg
                    && self.now[other] != NOWHERE
                    && !self.partner[disk * self.disks.len() + usize::from(self.now[other])]
            })
    }
}
