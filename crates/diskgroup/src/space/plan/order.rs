//! An order of the moves in which each prefix leaves the group sound.

use std::collections::VecDeque;

use super::{Move, NOWHERE, Plan, PlanInput, Work};

impl Work {
    /// Gives the legs of a set that move their destinations anew, each its own failure group if one
    /// of them goes there.
    ///
    /// Then no leg goes to a failure group that another one leaves, so the moves of a set may be
    /// done in any order, or some of them not at all; and who would go where another comes from stays.
    pub(super) fn settle(&mut self) {
        for file in 0..self.files.len() {
            let (first, copies) = (self.files[file].first, self.files[file].copies);
            let end = first + self.files[file].legs;
            for start in (first..end).step_by(copies) {
                self.settle_set(start..(start + copies).min(end));
            }
        }
    }

    fn settle_set(&mut self, set: std::ops::Range<usize>) {
        let changes = |leg: &usize| self.loose[*leg] || self.now[*leg] != self.home[*leg];
        let mut legs: Vec<usize> = set.filter(changes).collect();
        if legs.len() < 2 {
            return;
        }
        let mut places: Vec<u16> =
            legs.iter().map(|&leg| self.now[leg]).filter(|&d| d != NOWHERE).collect();
        for &leg in &legs {
            if self.now[leg] != NOWHERE {
                self.disks[usize::from(self.now[leg])].have -= 1;
            }
            self.now[leg] = NOWHERE;
        }
        let group_of = |disk: u16| self.disks[usize::from(disk)].failgroup;
        let mut given = Vec::new();
        legs.retain(|&leg| {
            let home = self.home[leg];
            let own = (home != NOWHERE)
                .then(|| places.iter().position(|&p| group_of(p) == group_of(home)))
                .flatten();
            if let Some(at) = own {
                given.push((leg, places.remove(at)));
            }
            own.is_none()
        });
        legs.sort_by_key(|&leg| !self.loose[leg]);
        let mut places = places.into_iter();
        for leg in legs {
            let stays = if self.loose[leg] { NOWHERE } else { self.home[leg] };
            given.push((leg, places.next().unwrap_or(stays)));
        }
        for (leg, place) in given {
            self.now[leg] = place;
            if place != NOWHERE {
                self.disks[usize::from(place)].have += 1;
            }
        }
    }

    /// Writes the moves down: lost copies first, then along the files, each when there is room.
    pub(super) fn order(&mut self, input: &PlanInput<'_>, plan: &mut Plan) {
        let mut held = vec![0_u64; self.disks.len()];
        for (leg, &home) in self.home.iter().enumerate() {
            if home != NOWHERE && !self.loose[leg] {
                held[usize::from(home)] += 1;
            }
        }
        let moves = |leg: &usize| {
            self.now[*leg] != NOWHERE && (self.loose[*leg] || self.now[*leg] != self.home[*leg])
        };
        let all: Vec<usize> = (0..self.now.len()).filter(moves).collect();
        let (lost, rest): (Vec<usize>, Vec<usize>) =
            all.into_iter().partition(|&leg| self.home[leg] == NOWHERE);
        let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); self.disks.len()];
        let mut ready = VecDeque::new();
        for leg in lost.into_iter().chain(rest) {
            ready.push_back(leg);
            while let Some(leg) = ready.pop_front() {
                let to = usize::from(self.now[leg]);
                if held[to] >= self.disks[to].capacity {
                    waiting[to].push_back(leg);
                    continue;
                }
                held[to] += 1;
                plan.moves.push(self.as_move(leg, input));
                if self.home[leg] != NOWHERE && !self.loose[leg] {
                    let from = usize::from(self.home[leg]);
                    held[from] -= 1;
                    ready.extend(waiting[from].pop_front());
                }
            }
        }
        for leg in waiting.into_iter().flatten() {
            plan.blocked += 1;
            self.disks[usize::from(self.now[leg])].have -= 1;
            self.now[leg] = self.home[leg];
            if self.home[leg] != NOWHERE {
                self.disks[usize::from(self.home[leg])].have += 1;
            }
        }
    }

    fn as_move(&self, leg: usize, input: &PlanInput<'_>) -> Move {
        let index = self.file_of[leg] as usize;
        let (work, file) = (&self.files[index], &input.files[index]);
        let at = leg - work.first;
        let number = |disk: u16| self.disks[usize::from(disk)].no;
        Move {
            file: file.number,
            incarnation: file.incarnation,
            extent: (at / work.copies) as u32,
            leg: (at % work.copies) as u8,
            from: (self.home[leg] != NOWHERE).then(|| number(self.home[leg])),
            to: number(self.now[leg]),
        }
    }
}
