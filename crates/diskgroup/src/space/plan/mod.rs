//! The rebalance planner: which leg goes where, decided before anything is copied.
//!
//! A pure function from what is ([`PlanInput`]) to what is to be done ([`Plan`]): no I/O, no clock,
//! the same answer for the same question. It runs in these steps:
//! 1. `target` says how many AUs each disk is to hold: each failure group as full as the others,
//!    as far as copies that must lie apart allow it.
//! 2. `choose` picks the legs that leave and where they go, evenly within each file.
//! 3. `augment` finds chains of moves for what could not go directly, the shortest first.
//! 4. `order` makes every prefix of the list safe: copies apart, no disk over-full.
//!
//! Nothing of a plan need be kept: after any part of it was done, planning again gives the rest,
//! because the targets depend on the disks and the number of extents, not on where these lie (but
//! for the one AU that rounding leaves open, which goes to a disk that has it already).

mod augment;
mod bound;
mod choose;
mod forecast;
mod order;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use forecast::{Forecast, PowerTime, capacity};

use super::{COPIES_MAX, DiskNo, FailGroupNo, PARTNERS_MAX, PartnerDisk, partners};
use crate::state::{Leg, Striping};

/// What a disk is to the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRole {
    /// Takes and gives.
    Active,
    /// Is to end empty; readable until then.
    Dropping,
    /// May come back: what lies on it stays, nothing goes to it.
    Offline,
    /// Gone for good (DROP FORCE): its legs are made again from their other copies.
    Lost,
}

/// A disk as the planner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanDisk {
    /// Its number.
    pub disk: DiskNo,
    /// The failure group it is in.
    pub failgroup: FailGroupNo,
    /// AUs of files it may hold: without our own metadata, after a RESIZE the new number.
    pub capacity: u32,
    /// AUs with this index or a higher one must go: the new end of a disk that shrinks.
    pub end: u32,
    /// What it is to the plan.
    pub role: DiskRole,
}

/// A file as the planner sees it.
#[derive(Clone, Copy, Debug)]
pub struct PlanFile<'a> {
    /// Its number.
    pub number: u32,
    /// Tells files of one number apart.
    pub incarnation: u32,
    /// Copies of each extent: 1, 2 or 3.
    pub copies: u8,
    /// The failure group the file is confined to, if any; then it has one copy.
    pub placement: Option<FailGroupNo>,
    /// How its bytes go round its extents. Moves are taken evenly from the length of a file, which
    /// keeps neighbours on different disks under both kinds.
    pub striping: Striping,
    /// Copies of extent 0, then of extent 1, ...: `copies` each. A leg on a disk that is not in
    /// [`PlanInput::disks`] counts as lost.
    pub legs: &'a [Leg],
}

/// All that a plan depends on. Disks and files in any order; it decides between equal choices.
#[derive(Clone, Debug, Default)]
pub struct PlanInput<'a> {
    /// The disks, as they are to be after the change.
    pub disks: Vec<PlanDisk>,
    /// All files of the group.
    pub files: Vec<PlanFile<'a>>,
}

/// One leg that changes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The file's number.
    pub file: u32,
    /// The file's incarnation.
    pub incarnation: u32,
    /// The extent set.
    pub extent: u32,
    /// Which leg of it, 0 the primary.
    pub leg: u8,
    /// Where it lies; nothing if that copy is lost and is made again from another.
    pub from: Option<DiskNo>,
    /// Where it goes. The same disk as `from` where a disk shrinks and has room below its new end.
    pub to: DiskNo,
}

/// What the plan does to one disk, in AUs of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPlan {
    /// The disk.
    pub disk: DiskNo,
    /// Its failure group.
    pub failgroup: FailGroupNo,
    /// What it may hold after the change; 0 where it may hold nothing.
    pub capacity: u64,
    /// What it holds now (nothing if lost).
    pub before: u64,
    /// What it should hold.
    pub target: u64,
    /// What it will hold: the target, unless copies that must lie apart prevent it.
    pub after: u64,
    /// AUs that the plan writes to it.
    pub incoming: u64,
    /// AUs that the plan takes from it.
    pub outgoing: u64,
}

/// Why legs that must go somewhere cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// No disk where they may lie has a free AU.
    Room,
    /// Their copies need more failure groups than there are, or the failure group of their
    /// placement is going.
    FailGroups,
    /// No copy of them can be read.
    Copy,
}

/// Legs of one file that have to move and have nowhere to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The file's number.
    pub file: u32,
    /// How many AUs lack a place.
    pub aus: u64,
    /// What is missing.
    pub lack: Lack,
}

/// What a rebalance will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The moves, in an order in which each prefix leaves the group sound: lost copies first.
    pub moves: Vec<Move>,
    /// What becomes of each disk, by number.
    pub disks: Vec<DiskPlan>,
    /// Legs that must move and cannot. If this is not empty, a DROP or RESIZE is to be refused;
    /// after the loss of a disk the moves are done as far as possible.
    pub unplaced: Vec<Unplaced>,
    /// The least number of legs that any plan must move to reach the targets: what the disks are
    /// short of, and what copies that must lie apart add to it.
    pub minimum: u64,
    /// Moves left out because full disks wait for one another; 0 unless a group is brim-full.
    pub blocked: u64,
}

impl Plan {
    /// Whether all that has to move does.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unplaced.is_empty() && self.blocked == 0
    }

    /// Bytes that will be copied.
    #[must_use]
    pub fn bytes(&self, au_size: u64) -> u64 {
        self.moves.len() as u64 * au_size
    }
}

/// No disk, no failure group: a leg that has no place.
const NOWHERE: u16 = u16::MAX;

struct WorkDisk {
    no: DiskNo,
    /// Index into the failure groups.
    failgroup: u16,
    capacity: u64,
    role: DiskRole,
    target: u64,
    /// Legs that lie here, or will.
    have: u64,
    /// AUs it was short of before the first leg moved.
    need: u64,
}

impl WorkDisk {
    fn takes(&self) -> bool {
        self.role == DiskRole::Active && self.capacity > 0
    }

    fn excess(&self) -> u64 {
        if self.takes() { self.have.saturating_sub(self.target) } else { 0 }
    }

    fn short(&self) -> u64 {
        if self.takes() { self.target.saturating_sub(self.have) } else { 0 }
    }
}

struct WorkFile {
    first: usize,
    legs: usize,
    copies: usize,
    /// Index of the failure group it is confined to; some index that no disk has if that is gone.
    pinned: Option<u16>,
}

/// The group as tables, one entry a leg.
struct Work {
    disks: Vec<WorkDisk>,
    files: Vec<WorkFile>,
    /// Where a leg lies; [`NOWHERE`] if lost.
    home: Vec<u16>,
    /// Where it will lie; [`NOWHERE`] while it has no place.
    now: Vec<u16>,
    /// Whether it must leave its home.
    loose: Vec<bool>,
    /// Legs of extent sets that cannot be read: left as they are.
    unreadable: Vec<bool>,
    file_of: Vec<u32>,
    /// Whether two disks are partners, by index; empty where all are.
    partner: Vec<bool>,
}

/// Plans a rebalance.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut work = Work::new(input);
    let groups = work.set_targets();
    let minimum = work.least_moves();
    work.choose(&groups);
    work.augment();
    work.settle();
    let mut plan = Plan { minimum, ..Plan::default() };
    work.order(input, &mut plan);
    work.report(input, &mut plan);
    plan
}

impl Work {
    fn new(input: &PlanInput<'_>) -> Work {
        let mut known = input.disks.clone();
        known.sort_by_key(|d| d.disk);
        known.dedup_by_key(|d| d.disk);
        let mut failgroups: Vec<FailGroupNo> = known.iter().map(|d| d.failgroup).collect();
        failgroups.sort_unstable();
        failgroups.dedup();
        let group_of =
            |no: FailGroupNo| failgroups.binary_search(&no).map_or(NOWHERE, |i| i as u16);
        let disks: Vec<WorkDisk> = known
            .iter()
            .map(|d| WorkDisk {
                no: d.disk,
                failgroup: group_of(d.failgroup),
                capacity: u64::from(d.capacity),
                role: d.role,
                target: 0,
                have: 0,
                need: 0,
            })
            .collect();
        let mut work = Work {
            partner: partner_table(&known),
            disks,
            files: Vec::with_capacity(input.files.len()),
            home: Vec::new(),
            now: Vec::new(),
            loose: Vec::new(),
            unreadable: Vec::new(),
            file_of: Vec::new(),
        };
        let mut index_of = vec![NOWHERE; known.last().map_or(0, |d| usize::from(d.disk.0) + 1)];
        for (index, disk) in known.iter().enumerate() {
            index_of[usize::from(disk.disk.0)] = index as u16;
        }
        for file in &input.files {
            let copies = usize::from(file.copies).clamp(1, COPIES_MAX);
            let pinned = file.placement.map(group_of);
            let first = work.home.len();
            work.files.push(WorkFile { first, legs: file.legs.len(), copies, pinned });
            for set in file.legs.chunks(copies) {
                work.add_set(set, pinned, &known, &index_of);
            }
        }
        work
    }

    /// Takes up one extent set: what stays, what must go, what is lost.
    fn add_set(&mut self, set: &[Leg], pinned: Option<u16>, known: &[PlanDisk], index_of: &[u16]) {
        let first = self.home.len();
        let mut readable = false;
        for leg in set {
            let index = index_of.get(usize::from(leg.disk)).copied().unwrap_or(NOWHERE);
            let disk = known.get(usize::from(index));
            let role = disk.map_or(DiskRole::Lost, |d| d.role);
            let home = if role == DiskRole::Lost { NOWHERE } else { index };
            readable |= matches!(role, DiskRole::Active | DiskRole::Dropping);
            let group = disk.map_or(NOWHERE, |_| self.disks[usize::from(index)].failgroup);
            let beside = self.now[first..]
                .iter()
                .any(|&o| o != NOWHERE && self.disks[usize::from(o)].failgroup == group);
            let astray = pinned.is_some_and(|only| only != group);
            let loose = match role {
                DiskRole::Active => disk.is_some_and(|d| leg.au >= d.end) || beside || astray,
                DiskRole::Dropping | DiskRole::Lost => true,
                DiskRole::Offline => false,
            };
            let now = if loose { NOWHERE } else { home };
            if now != NOWHERE {
                self.disks[usize::from(now)].have += 1;
            }
            self.home.push(home);
            self.now.push(now);
            self.loose.push(loose);
            self.file_of.push(self.files.len() as u32 - 1);
        }
        self.unreadable.resize(self.home.len(), !readable);
    }

    /// All legs of the extent set that a leg belongs to.
    fn set_of(&self, leg: usize) -> std::ops::Range<usize> {
        let file = &self.files[self.file_of[leg] as usize];
        let start = leg - (leg - file.first) % file.copies;
        start..(start + file.copies).min(file.first + file.legs)
    }

    /// Whether a leg may lie on a disk, its siblings lying as planned.
    fn may_lie(&self, leg: usize, disk: usize) -> bool {
        let on = &self.disks[disk];
        let pinned = self.files[self.file_of[leg] as usize].pinned;
        on.takes()
            && pinned.is_none_or(|only| only == on.failgroup)
            && self.set_of(leg).all(|other| {
                other == leg
                    || self.now[other] == NOWHERE
                    || self.disks[usize::from(self.now[other])].failgroup != on.failgroup
            })
    }

    /// Whether the leg has no place and could have one.
    fn is_waiting(&self, leg: usize) -> bool {
        self.now[leg] == NOWHERE && !self.unreadable[leg]
    }

    /// Plans a leg onto a disk.
    fn put(&mut self, leg: usize, disk: usize) {
        if self.now[leg] != NOWHERE {
            self.disks[usize::from(self.now[leg])].have -= 1;
        }
        self.now[leg] = disk as u16;
        self.disks[disk].have += 1;
    }

    /// Says what becomes of the disks, and what has no place.
    fn report(&self, input: &PlanInput<'_>, plan: &mut Plan) {
        let mut rows: Vec<DiskPlan> = self
            .disks
            .iter()
            .map(|d| DiskPlan {
                disk: d.no,
                failgroup: FailGroupNo(0),
                capacity: if d.takes() { d.capacity } else { 0 },
                before: 0,
                target: d.target,
                after: 0,
                incoming: 0,
                outgoing: 0,
            })
            .collect();
        let index: BTreeMap<DiskNo, usize> =
            rows.iter().enumerate().map(|(i, row)| (row.disk, i)).collect();
        for disk in &input.disks {
            rows[index[&disk.disk]].failgroup = disk.failgroup;
        }
        for &home in self.home.iter().filter(|&&home| home != NOWHERE) {
            rows[usize::from(home)].before += 1;
        }
        for step in &plan.moves {
            rows[index[&step.to]].incoming += 1;
            if let Some(from) = step.from {
                rows[index[&from]].outgoing += 1;
            }
        }
        for row in &mut rows {
            row.after = row.before + row.incoming - row.outgoing;
        }
        plan.disks = rows;
        for (work, file) in self.files.iter().zip(&input.files) {
            let mut counts: BTreeMap<Lack, u64> = BTreeMap::new();
            for leg in work.first..work.first + work.legs {
                if self.now[leg] == NOWHERE {
                    *counts.entry(self.lack_of(leg)).or_default() += 1;
                }
            }
            let lacks = counts.into_iter();
            plan.unplaced.extend(lacks.map(|(lack, aus)| Unplaced {
                file: file.number,
                aus,
                lack,
            }));
        }
    }

    fn lack_of(&self, leg: usize) -> Lack {
        if self.unreadable[leg] {
            Lack::Copy
        } else if (0..self.disks.len()).any(|disk| self.may_lie(leg, disk)) {
            Lack::Room
        } else {
            Lack::FailGroups
        }
    }
}

/// Who is whose partner, by index, of the disks that take extents.
fn partner_table(disks: &[PlanDisk]) -> Vec<bool> {
    let taking: Vec<PartnerDisk> = disks
        .iter()
        .filter(|d| d.role == DiskRole::Active && d.capacity > 0)
        .map(|d| PartnerDisk { disk: d.disk, failgroup: d.failgroup, aus: d.capacity })
        .collect();
    if taking.len() <= PARTNERS_MAX + 1 {
        return Vec::new();
    }
    let lists = partners(&taking);
    let mut table = vec![false; disks.len() * disks.len()];
    for (row, disk) in disks.iter().enumerate() {
        let list = lists.get(&disk.disk).map_or(&[][..], Vec::as_slice);
        for (column, other) in disks.iter().enumerate() {
            table[row * disks.len() + column] = list.binary_search(&other.disk).is_ok();
        }
    }
    table
}
