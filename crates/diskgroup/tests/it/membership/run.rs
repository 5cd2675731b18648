//! A model of a mount, record by record, as `meta/commit.rs` does it.

use super::{Event, Mask, Model, Seen, State, Tip, bits, digest, list, masks, may_go_on, subsets};

/// A mount under way or in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The history so far.
    pub tip: Tip,
    /// Disks that answer.
    pub alive: Mask,
    /// The disks that get every record.
    pub members: Mask,
    /// Sets of which each may be the committed one.
    pub committed: u32,
    pub phase: Phase,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing is under way.
    Idle,
    CatchUp {
        lagging: Mask,
        missing: Mask,
    },
    NewEpoch {
        missing: Mask,
    },
    /// Failed disks leave; then the set grows; then perhaps a record, and a write is acknowledged.
    TakeOut {
        logged: bool,
        acknowledge: bool,
    },
    Regrow {
        logged: bool,
        acknowledge: bool,
    },
    Record {
        acknowledge: bool,
    },
    /// Who takes part becomes this, perhaps behind a record that was queued.
    Change {
        online: Mask,
        leaving: Mask,
        queued: bool,
        logged: bool,
    },
}

impl Phase {
    pub fn code(self) -> [u8; 3] {
        match self {
            Phase::Idle => [0, 0, 0],
            Phase::CatchUp { lagging, missing } => [1, lagging, missing],
            Phase::NewEpoch { missing } => [2, missing, 0],
            Phase::TakeOut { logged, acknowledge } => [3, logged.into(), acknowledge.into()],
            Phase::Regrow { logged, acknowledge } => [4, logged.into(), acknowledge.into()],
            Phase::Record { acknowledge } => [5, acknowledge.into(), 0],
            Phase::Change { online, leaving, queued, logged } => {
                [6 | u8::from(queued) << 3 | u8::from(logged) << 4, online, leaving]
            }
        }
    }
}

impl Model {
    /// Goes on from `begun` in every way until nothing is under way; tells each end once that is
    /// not in `seen`.
    pub fn to_the_end(&self, begun: Vec<State>, seen: &mut Seen, end: &mut dyn FnMut(State)) {
        let mut todo = begun;
        while let Some(s) = todo.pop() {
            if !seen.insert(digest(&s)) {
                continue;
            }
            match s.running {
                Some(run) if run.phase != Phase::Idle => self.step(&s, run, &mut todo),
                _ => end(s),
            }
        }
    }

    /// Every end of an event.
    pub fn ends_of(&self, event: Event, seen: &mut Seen, end: &mut dyn FnMut(State)) {
        let Event { begun, former, .. } = event;
        if former == 0 {
            return self.to_the_end(begun, seen, end);
        }
        self.to_the_end(begun, &mut Seen::default(), &mut |s| {
            end(s);
            if s.running.is_some() {
                let mut s = s;
                bits(former).for_each(|d| s.tips[usize::from(d)] = Tip::default());
                end(s);
            }
        });
    }

    fn step(&self, s: &State, run: Run, todo: &mut Vec<State>) {
        match run.phase {
            Phase::Idle => unreachable!("the end"),
            Phase::CatchUp { lagging, missing } => {
                // Each may fail before or after it got what it lacks.
                for has in subsets(lagging) {
                    let mut s = *s;
                    bits(has).for_each(|d| s.tips[usize::from(d)] = run.tip);
                    todo.push(State { running: None, ..s });
                    for failed in subsets(lagging).filter(|f| has | f == lagging) {
                        let members = (run.members | has) & !failed;
                        let run = Run { members, alive: run.alive & !failed, ..run };
                        todo.push(at(&s, run, Phase::NewEpoch { missing }));
                    }
                }
            }
            Phase::NewEpoch { missing } => {
                let members = run.members & run.alive;
                let run = Run { members, ..run };
                if !run.may_go_on(members) {
                    todo.push(State { running: None, ..*s });
                    return;
                }
                let online = run.tip.online & !missing;
                let leaving = run.tip.leaving & !missing;
                let next = Tip { epoch: run.tip.epoch + 1, members, online, leaving, ..run.tip };
                let phase = Phase::TakeOut { logged: false, acknowledge: false };
                write(s, run, next, members, phase, todo);
            }
            Phase::TakeOut { logged, acknowledge } => {
                let failed = run.tip.online & !run.alive;
                if failed == 0 {
                    todo.push(at(s, run, Phase::Regrow { logged, acknowledge }));
                    return;
                }
                let members = run.members & !failed;
                let run = Run { members, ..run };
                let online = run.tip.online & !failed;
                if online == 0 || !run.may_go_on(members) {
                    todo.push(State { running: None, ..*s });
                    return;
                }
                let leaving = run.tip.leaving & !failed;
                let next = Tip { epoch: run.tip.epoch + 1, members, online, leaving, ..run.tip };
                write(s, run, next, members, run.phase, todo);
            }
            Phase::Regrow { logged, acknowledge } => {
                self.regrow(s, run, (logged, acknowledge), todo)
            }
            Phase::Record { acknowledge } => {
                let phase = Phase::TakeOut { logged: false, acknowledge };
                write(s, run, run.tip, run.members, phase, todo);
            }
            Phase::Change { online, leaving, queued: true, logged } => {
                let phase = Phase::Change { online, leaving, queued: false, logged };
                write(s, run, run.tip, run.members, phase, todo);
            }
            Phase::Change { online, leaving, queued: false, logged } => {
                let next = Tip { online, leaving, ..run.tip };
                let phase = Phase::TakeOut { logged, acknowledge: false };
                write(s, run, next, run.members, phase, todo);
            }
        }
    }

    fn regrow(&self, s: &State, run: Run, after: (bool, bool), todo: &mut Vec<State>) {
        let (logged, acknowledge) = after;
        let mut grows = false;
        for wanted in self.next_sets(&run) {
            grows = true;
            // Each new one may fail before or after it got its checkpoint.
            let new = wanted & !run.members;
            for has in subsets(new) {
                let mut s = *s;
                // A checkpoint does not tell what is in doubt; nothing is.
                let tip = Tip { before: 0, ..run.tip };
                bits(has).for_each(|d| s.tips[usize::from(d)] = tip);
                todo.push(State { running: None, ..s });
                for failed in subsets(new).filter(|f| has | f == new) {
                    let run = Run { alive: run.alive & !failed, ..run };
                    let phase = Phase::TakeOut { logged, acknowledge };
                    if failed != 0 {
                        todo.push(at(&s, run, phase));
                        continue;
                    }
                    // Who leaves has the record, too.
                    let run = Run { members: run.members | wanted, ..run };
                    let next = Tip { epoch: run.tip.epoch + 1, members: wanted, ..run.tip };
                    write(&s, run, next, run.members, phase, todo);
                }
            }
        }
        if grows {
            return;
        }
        if logged {
            todo.push(at(s, run, Phase::Record { acknowledge }));
            return;
        }
        let mut s = at(s, run, Phase::Idle);
        if acknowledge {
            s.fresh = run.tip.online;
        }
        todo.push(s);
    }
}

fn at(s: &State, run: Run, phase: Phase) -> State {
    State { running: Some(Run { phase, ..run }), ..*s }
}

impl Run {
    fn may_go_on(&self, left: Mask) -> bool {
        let sets: Vec<Vec<u16>> = masks(self.committed).map(list).collect();
        may_go_on(&sets, &list(left))
    }
}

/// Writes a record to `targets` and goes on with `phase`: each target has it, fails without it, or
/// fails with it; or there is a crash, and any of them have it. A target that failed before does
/// not get it.
fn write(s: &State, run: Run, next: Tip, targets: Mask, phase: Phase, todo: &mut Vec<State>) {
    let before = |tip: &Tip| match next.members == tip.members {
        false => tip.before | 1 << tip.members,
        // A record that names the set confirms nothing.
        true if next.epoch != tip.epoch => tip.before,
        true => 0,
    };
    let record = Tip { id: s.next + 1, lsn: run.tip.lsn + 1, before: before(&run.tip), ..next };
    let answer = targets & run.alive;
    for has in subsets(answer) {
        let mut s = State { next: s.next + 1, ..*s };
        for d in bits(has) {
            // A disk whose checkpoint is newer may have less in doubt than others.
            let own = &mut s.tips[usize::from(d)];
            assert_eq!(own.id, run.tip.id, "a record follows the one before");
            *own = Tip { before: before(own), ..record };
        }
        todo.push(State { running: None, ..s });
        for failed in subsets(answer).filter(|f| has | f == answer) {
            let mut s = s;
            let mut run = Run { tip: record, alive: run.alive & !failed, ..run };
            if failed == 0 && answer == targets {
                for tip in &mut s.tips {
                    tip.knows = tip.id == record.id;
                }
                run.committed = 1 << next.members;
            }
            // Who leaves the set gets no more records, whether or not this one came through.
            run.members &= next.members;
            todo.push(at(&s, run, phase));
        }
    }
}
