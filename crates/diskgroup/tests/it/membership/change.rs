//! Disks that somebody adds, drops and wants back, as `group/disks.rs`, `moves/rebalance.rs` and
//! `meta/commit.rs` do it.

use super::{Event, Mask, Model, Phase, Run, State, bits, size, subsets, target_size};

impl Model {
    /// What the committer's rule chooses, whatever the numbers of the disks are.
    fn choices(&self, current: Mask, in_sync: Mask) -> Vec<Mask> {
        let kept = current & in_sync;
        let wanted = target_size(self.redundancy, size(in_sync));
        if size(kept) >= wanted {
            return subsets(kept).filter(|s| size(*s) == wanted).collect();
        }
        let more = wanted - size(kept);
        subsets(in_sync & !kept).filter(|s| size(*s) == more).map(|s| kept | s).collect()
    }

    /// The sets of which one is the next: one that is larger, or one without a disk that is being
    /// dropped. None: the set stays what it is.
    pub fn next_sets(&self, run: &Run) -> Vec<Mask> {
        let current = run.members;
        let stay = run.tip.online & run.alive & !run.tip.leaving;
        let go = current & run.tip.leaving;
        if go == 0 || stay == 0 {
            let mut sets = self.choices(current, stay);
            sets.retain(|set| size(*set) > size(current));
            return sets;
        }
        if size(current) == 1 {
            // Nobody knows of a set that a lone member has left.
            return bits(stay).map(|d| current | 1 << d).collect();
        }
        bits(go).flat_map(|first| self.choices(current, stay | (go & !(1 << first)))).collect()
    }

    /// All changes of who takes part that can be asked for next.
    pub fn changes(&self, s: &State) -> Vec<Event> {
        let Some(run) = s.running.filter(|_| self.changes) else { return Vec::new() };
        let all: Mask = (1 << self.disks) - 1;
        let stay = run.tip.online & !run.tip.leaving;
        let strangers = all & !s.known() & run.alive;
        let mut out = Vec::new();
        // Strangers are all alike.
        let mut joining = vec![0];
        joining.extend(bits(strangers).scan(0, |sum, d| {
            *sum |= 1 << d;
            Some(*sum)
        }));
        for join in joining {
            for leave in subsets(stay & run.alive).filter(|l| join | (stay & !l) != 0) {
                if join | leave != 0 {
                    let what = format!("join {join:05b}, leave {leave:05b}");
                    let (online, leaving) = (run.tip.online | join, run.tip.leaving | leave);
                    self.change(s, run, (what, online, leaving), 0, &mut out);
                }
            }
        }
        for d in bits(run.tip.leaving & !run.members) {
            let (online, leaving) = (run.tip.online & !(1 << d), run.tip.leaving & !(1 << d));
            let what = format!("disk {d} is gone");
            self.change(s, run, (what, online, leaving), 1 << d, &mut out);
        }
        if run.tip.leaving != 0 {
            self.change(s, run, ("undrop".into(), run.tip.online, 0), 0, &mut out);
        }
        out
    }

    /// The promise that a state breaks, if it does.
    pub fn broken(s: &State) -> Option<&'static str> {
        let run = s.running?;
        let others = run.tip.online & run.alive & !run.tip.leaving;
        (run.members & run.tip.leaving != 0 && others != 0)
            .then_some("a disk that is being dropped stays in the set")
    }

    /// A change with and without a record queued before it and one behind it.
    fn change(
        &self,
        s: &State,
        run: Run,
        (what, online, leaving): (String, Mask, Mask),
        former: Mask,
        out: &mut Vec<Event>,
    ) {
        let ways: &[(bool, bool)] = match self.uses {
            1 => &[(false, false)],
            _ => &[(false, false), (false, true), (true, true)],
        };
        for (queued, logged) in ways.iter().copied() {
            let phase = Phase::Change { online, leaving, queued, logged };
            let run = Run { phase, ..run };
            // Nothing lies on a new disk yet, so it lacks nothing.
            let fresh = s.fresh | (online & !run.tip.online);
            let what = format!("{what}, queued {queued}, confirmed {logged}");
            out.push(Event {
                what,
                begun: vec![State { running: Some(run), fresh, ..*s }],
                former,
            });
        }
    }
}
