//! Chains of moves for what could not go directly.
//!
//! A leg of disk A may be barred from disk C by its sibling while one of disk B is not: then A gives
//! to B and B gives to C. The disks are the nodes of a graph, an edge is a leg that may go, and the
//! shortest way from a disk with too much to one with too little is taken each time. A leg that moves
//! already can change its destination at no cost, which takes back what was chosen badly before.

use std::collections::{BTreeMap, VecDeque};

use super::{NOWHERE, Work};

/// Legs that have the same edges: on one disk, barred from the same failure groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    disk: u16,
    barred: [u16; 2],
    pinned: bool,
    /// Whether it is on the move already, so that another destination costs nothing.
    moves: bool,
}

/// What a way may end at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// A disk short of its target.
    Target,
    /// A disk with a free AU.
    Room,
}

struct Chains {
    shelves: BTreeMap<Kind, Vec<u32>>,
    /// Shelves of each disk.
    kinds: Vec<Vec<Kind>>,
}

#[derive(Clone, Copy)]
enum Start {
    Leg(usize),
    Disk(usize),
}

impl Work {
    pub(super) fn augment(&mut self) {
        let waiting: Vec<usize> = (0..self.now.len()).filter(|&l| self.is_waiting(l)).collect();
        let is_even = self.disks.iter().all(|d| d.excess() == 0);
        if waiting.is_empty() && (is_even || self.disks.iter().all(|d| d.short() == 0)) {
            return;
        }
        let mut chains = Chains::new(self);
        for goal in [Goal::Target, Goal::Room] {
            for &leg in &waiting {
                if self.now[leg] == NOWHERE {
                    chains.run(self, Start::Leg(leg), goal);
                }
            }
        }
        loop {
            let mut any = false;
            for disk in 0..self.disks.len() {
                while self.disks[disk].excess() > 0
                    && chains.run(self, Start::Disk(disk), Goal::Target)
                {
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    }

    fn is_end(&self, disk: usize, goal: Goal) -> bool {
        let d = &self.disks[disk];
        match goal {
            Goal::Target => d.short() > 0,
            Goal::Room => d.takes() && d.have < d.capacity,
        }
    }

    fn kind_of(&self, leg: usize) -> Option<Kind> {
        let disk = self.now[leg];
        if disk == NOWHERE || !self.disks[usize::from(disk)].takes() {
            return None;
        }
        let barred = self.barred(leg);
        let pinned = self.files[self.file_of[leg] as usize].pinned.is_some();
        let moves = self.loose[leg] || disk != self.home[leg];
        Some(Kind { disk, barred, pinned, moves })
    }
}

impl Chains {
    fn new(work: &Work) -> Chains {
        let kinds = vec![Vec::new(); work.disks.len()];
        let mut chains = Chains { shelves: BTreeMap::new(), kinds };
        for leg in (0..work.now.len()).rev() {
            chains.shelve(work, leg);
        }
        chains
    }

    fn shelve(&mut self, work: &Work, leg: usize) {
        if let Some(kind) = work.kind_of(leg) {
            let kinds = &mut self.kinds[usize::from(kind.disk)];
            let shelf = self.shelves.entry(kind).or_insert_with(|| {
                kinds.push(kind);
                Vec::new()
            });
            shelf.push(leg as u32);
        }
    }

    /// A leg of this kind. Shelves are tidied here only: a leg may stand on old ones too.
    fn top(&mut self, work: &Work, kind: Kind) -> Option<usize> {
        let shelf = self.shelves.get_mut(&kind)?;
        while let Some(&leg) = shelf.last() {
            if work.kind_of(leg as usize) == Some(kind) {
                return Some(leg as usize);
            }
            shelf.pop();
        }
        None
    }

    fn put(&mut self, work: &mut Work, leg: usize, disk: usize) {
        work.put(leg, disk);
        for member in work.set_of(leg) {
            self.shelve(work, member);
        }
    }

    /// Moves one leg, or a chain of them; whether there was a way.
    fn run(&mut self, work: &mut Work, start: Start, goal: Goal) -> bool {
        let Some(way) = self.shortest(work, start, goal) else { return false };
        // From the end backwards, so that each step has room. A step can bar the next one only if
        // both are legs of one set; then all is taken back.
        let mut done: Vec<(usize, usize)> = Vec::new();
        for &(kind, to) in way.iter().rev() {
            let leg = match (kind, start) {
                (Some(kind), _) => self.top(work, kind),
                (None, Start::Leg(leg)) => Some(leg),
                (None, Start::Disk(_)) => None,
            };
            match leg.filter(|&leg| work.may_lie(leg, to)) {
                Some(leg) => {
                    done.push((leg, usize::from(work.now[leg])));
                    self.put(work, leg, to);
                }
                None => {
                    for &(leg, back) in done.iter().rev() {
                        self.put(work, leg, back);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// The steps of the way with fewest additional moves: the kind of leg (none: the one that has
    /// no place yet) and the disk it goes to.
    fn shortest(
        &mut self,
        work: &Work,
        start: Start,
        goal: Goal,
    ) -> Option<Vec<(Option<Kind>, usize)>> {
        let count = work.disks.len();
        let mut cost = vec![u32::MAX; count];
        let mut before: Vec<Option<(Option<usize>, Option<Kind>)>> = vec![None; count];
        let mut closed = vec![false; count];
        let mut queue = VecDeque::new();
        match start {
            Start::Disk(disk) => {
                cost[disk] = 0;
                queue.push_back(disk);
            }
            Start::Leg(leg) => {
                for disk in (0..count).filter(|&disk| work.may_lie(leg, disk)) {
                    cost[disk] = 0;
                    before[disk] = Some((None, None));
                    queue.push_back(disk);
                }
            }
        }
        while let Some(disk) = queue.pop_front() {
            if std::mem::replace(&mut closed[disk], true) {
                continue;
            }
            if work.is_end(disk, goal) {
                return Some(trace(&before, disk));
            }
            for at in 0..self.kinds[disk].len() {
                let kind = self.kinds[disk][at];
                let step = u32::from(!kind.moves);
                let is_better = |to: usize| cost[disk] + step < cost[to] && reaches(work, kind, to);
                let better: Vec<usize> = (0..count).filter(|&to| is_better(to)).collect();
                if better.is_empty() || self.top(work, kind).is_none() {
                    continue;
                }
                for to in better {
                    cost[to] = cost[disk] + step;
                    before[to] = Some((Some(disk), Some(kind)));
                    if kind.moves { queue.push_front(to) } else { queue.push_back(to) }
                }
            }
        }
        None
    }
}

fn reaches(work: &Work, kind: Kind, to: usize) -> bool {
    let (from, disk) = (&work.disks[usize::from(kind.disk)], &work.disks[to]);
    disk.takes()
        && !kind.barred.contains(&disk.failgroup)
        && (!kind.pinned || from.failgroup == disk.failgroup)
}

fn trace(
    before: &[Option<(Option<usize>, Option<Kind>)>],
    end: usize,
) -> Vec<(Option<Kind>, usize)> {
    let mut way = Vec::new();
    let mut at = end;
    while let Some((from, kind)) = before[at] {
        way.push((kind, at));
        match from {
            Some(disk) => at = disk,
            None => break,
        }
    }
    way.reverse();
    way
}
