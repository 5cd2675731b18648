//! Decision 8, model-checked: whatever the order in which disks go and come back, writes are
//! acknowledged, commits are cut off and mounts are tried, no mount believes a history that lacks
//! an acknowledged write or a committed epoch, and no mount is refused while the committed set
//! can be read.
//!
//! Each disk is a failure group of its own and holds a copy of everything. What a disk holds is
//! reduced to what decides: its newest record (epoch, position, the set it names, the disks it
//! counts on), whether that history has everything committed, and whether its copy has everything
//! acknowledged.

use std::collections::BTreeSet;

use cellar_diskgroup::Redundancy;
use cellar_diskgroup::rules::{Candidate, choose, is_proven, is_proven_change, may_continue};

type Mask = u8;

/// The newest record of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Tip {
    /// Tells histories apart; 0 is none.
    id: u8,
    epoch: u8,
    lsn: u8,
    members: Mask,
    online: Mask,
    /// The set before this record, if this record changed it; else 0.
    before: Mask,
    /// Whether everything committed is in it.
    knows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct State {
    tips: [Tip; 5],
    /// Disks whose copy has every acknowledged write.
    fresh: Mask,
    /// The committed set.
    committed: Mask,
    /// Whether a record behind it says so.
    confirmed: bool,
    /// The history that the running mount goes on from, and the disks it can use.
    running: Option<(Tip, Mask)>,
    next: u8,
}

/// Where a commit is cut off: at which record, and which of its targets have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    record: u8,
    has: Mask,
}

#[derive(Debug)]
enum Outcome {
    Went(State),
    /// The cut was never reached: the same as without it.
    Same,
    Refused,
    /// Refused although the committed set is here: other records were cut off half-way, more than
    /// once, and the rules cannot tell. Nothing is lost; FORCE mounts.
    Unlucky(&'static str),
    Broken(String),
}

struct Model {
    redundancy: Redundancy,
    disks: u8,
}

fn bits(mask: Mask) -> impl Iterator<Item = u8> {
    (0..8).filter(move |i| mask >> i & 1 == 1)
}

fn size(mask: Mask) -> usize {
    mask.count_ones() as usize
}

/// A record under way: `Err` is a crash in the middle of it.
struct Commit {
    cut: Option<Cut>,
    done: u8,
}

impl Commit {
    /// Writes the record that leads from `from` to all of `targets`.
    fn write(&mut self, s: &mut State, tip: &mut Tip, next: Tip, targets: Mask) -> Result<(), ()> {
        s.next += 1;
        let before = if next.members == tip.members { 0 } else { tip.members };
        let record = Tip { id: s.next, lsn: tip.lsn + 1, before, ..next };
        self.done += 1;
        let cut = self.cut.filter(|c| c.record == self.done);
        let has = cut.map_or(targets, |c| c.has & targets);
        for d in bits(has) {
            s.tips[usize::from(d)] = record;
        }
        if cut.is_some() {
            s.running = None;
            return Err(());
        }
        for d in 0..5 {
            let t = &mut s.tips[d];
            t.knows = t.id == record.id;
        }
        *tip = Tip { knows: true, ..record };
        for d in bits(targets) {
            s.tips[usize::from(d)] = *tip;
        }
        s.committed = record.members;
        s.confirmed = before == 0;
        Ok(())
    }
}

impl Model {
    fn choose(&self, current: Mask, in_sync: Mask) -> Mask {
        let candidates: Vec<Candidate> = bits(in_sync)
            .map(|d| Candidate { disk: d.into(), failgroup: format!("F{d}") })
            .collect();
        let current: Vec<u16> = bits(current).map(u16::from).collect();
        let chosen = choose(self.redundancy, &current, &candidates);
        chosen.iter().fold(0, |mask, d| mask | 1 << d)
    }

    fn start(&self) -> State {
        let all = (1 << self.disks) - 1;
        let members = self.choose(0, all);
        let tip = Tip { id: 1, epoch: 1, lsn: 0, members, online: all, before: 0, knows: true };
        let mut s =
            State { fresh: all, committed: members, confirmed: true, next: 1, ..State::default() };
        for d in bits(members) {
            s.tips[usize::from(d)] = tip;
        }
        s
    }

    /// Brings the set back to size, as the committer does.
    fn regrow(&self, s: &mut State, tip: &mut Tip, here: Mask, c: &mut Commit) -> Result<(), ()> {
        let wanted = self.choose(tip.members, tip.online & here);
        if size(wanted) <= size(tip.members) {
            return Ok(());
        }
        for d in bits(wanted & !tip.members) {
            s.tips[usize::from(d)] = *tip;
        }
        let next = Tip { epoch: tip.epoch + 1, members: wanted, ..*tip };
        c.write(s, tip, next, wanted)
    }

    /// The members that can be read, and those of them that lag, if the history is proven.
    fn proven(s: &State, tip: Tip, here: Mask) -> Result<(Mask, Mask), &'static str> {
        let (mut whole, mut lagging) = (0, 0);
        for d in bits(tip.members & here) {
            let own = s.tips[usize::from(d)];
            if own.id == tip.id {
                whole |= 1 << d;
            } else if (own.epoch, own.lsn) == (tip.epoch, tip.lsn) {
                return Err("different histories");
            } else if own.id != 0 {
                lagging |= 1 << d;
            }
        }
        let readable = whole | lagging;
        let proven = if tip.before == 0 {
            is_proven(size(tip.members), size(readable))
        } else {
            let present = bits(tip.before & here)
                .map(|d| s.tips[usize::from(d)])
                .filter(|t| t.id == tip.id)
                .count();
            let behind = bits(tip.before & here)
                .map(|d| s.tips[usize::from(d)])
                .filter(|t| t.id != 0 && (t.epoch, t.lsn) < (tip.epoch, tip.lsn))
                .count();
            is_proven_change(
                (size(tip.before), present + behind),
                (size(tip.members), size(readable)),
                size(whole),
            )
        };
        if proven { Ok((readable, lagging)) } else { Err("not proven") }
    }

    fn mount(&self, s: &State, here: Mask, cut: Option<Cut>) -> Outcome {
        let mut s = *s;
        s.running = None;
        let tips = bits(here).map(|d| s.tips[usize::from(d)]).filter(|t| t.id != 0);
        // The furthest; of equals the first.
        let best = tips.rev_max();
        let Some(mut tip) = best else { return Outcome::Refused };
        // Of equals, the one that can be proven.
        let equals = bits(here).map(|d| s.tips[usize::from(d)]);
        let equals: BTreeSet<Tip> =
            equals.filter(|t| (t.epoch, t.lsn) == (tip.epoch, tip.lsn)).collect();
        if equals.len() > 1
            && let Some(proven) = equals.iter().find(|t| Model::proven(&s, **t, here).is_ok())
        {
            tip = *proven;
        }
        let must = is_proven(size(s.committed), size(s.committed & here))
            && (s.confirmed || s.committed & !here == 0)
            // A record cut off half-way that names a smaller set may be refused: whether it was
            // committed cannot be known without the others of that set.
            && tip.knows
            && tip.members == s.committed;
        let refuse = |why| match must {
            true => Outcome::Unlucky(why),
            false => Outcome::Refused,
        };
        let (readable, lagging) = match Model::proven(&s, tip, here) {
            Ok(found) => found,
            Err(why) => return refuse(why),
        };
        if tip.online & here == 0 {
            return refuse("no copy");
        }
        if !tip.knows {
            return Outcome::Broken("a proven mount lacks a committed epoch".into());
        }
        if tip.online & here & !s.fresh != 0 {
            return Outcome::Broken("a proven mount lacks an acknowledged write".into());
        }
        let old = size(tip.members);
        if size(readable) != old && !may_continue(old, size(readable)) {
            return refuse("too few");
        }
        for d in bits(lagging) {
            s.tips[usize::from(d)] = tip;
        }
        let mut c = Commit { cut, done: 0 };
        let online = tip.online & here;
        let next = Tip { epoch: tip.epoch + 1, members: readable, online, ..tip };
        if c.write(&mut s, &mut tip, next, readable).is_err()
            || self.regrow(&mut s, &mut tip, here, &mut c).is_err()
        {
            return Outcome::Went(s);
        }
        s.running = Some((tip, here));
        if cut.is_some() { Outcome::Same } else { Outcome::Went(s) }
    }

    /// Disks `gone` vanish, then a write is acknowledged, with a record if `logged`.
    fn write(&self, s: &State, gone: Mask, logged: bool, cut: Option<Cut>) -> Outcome {
        let mut s = *s;
        let Some((mut tip, mut here)) = s.running else { return Outcome::Same };
        here &= !gone;
        let mut c = Commit { cut, done: 0 };
        let failed = tip.online & gone;
        if failed != 0 {
            let left = tip.members & !failed;
            let stops = (left != tip.members && !may_continue(size(tip.members), size(left)))
                || tip.online & here == 0;
            if stops {
                s.running = None;
                return if cut.is_some() { Outcome::Same } else { Outcome::Went(s) };
            }
            let online = tip.online & !failed;
            let next = Tip { epoch: tip.epoch + 1, members: left, online, ..tip };
            if c.write(&mut s, &mut tip, next, left).is_err()
                || self.regrow(&mut s, &mut tip, here, &mut c).is_err()
            {
                return Outcome::Went(s);
            }
        }
        let next = tip;
        if logged && c.write(&mut s, &mut tip, next, next.members).is_err() {
            return Outcome::Went(s);
        }
        s.fresh = tip.online & here;
        s.running = Some((tip, here));
        if cut.is_some() { Outcome::Same } else { Outcome::Went(s) }
    }

    /// Everything that can happen next.
    fn events(&self, s: &State) -> Vec<(String, Outcome)> {
        let all: Mask = (1 << self.disks) - 1;
        let mut cuts = vec![None];
        for record in 1..=3 {
            cuts.extend((0..all).map(|has| Some(Cut { record, has })));
        }
        let mut out = Vec::new();
        for cut in &cuts {
            for here in 1..=all {
                out.push((format!("mount {here:05b} {cut:?}"), self.mount(s, here, *cut)));
            }
            let Some((_, here)) = s.running else { continue };
            for gone in 0..=all {
                if gone & !here == 0 {
                    for logged in [false, true] {
                        let what = format!("lose {gone:05b}, write, logged {logged}, {cut:?}");
                        out.push((what, self.write(s, gone, logged, *cut)));
                    }
                }
            }
        }
        out
    }

    /// Goes through all orders of up to `depth` events; returns how many states there are, or the
    /// events that lead to a broken promise.
    fn check(&self, depth: usize) -> Result<(usize, usize), String> {
        let mut unlucky = 0;
        let mut seen = BTreeSet::from([self.start().plain()]);
        let mut edge = vec![(self.start().plain(), String::new())];
        for _ in 0..depth {
            let mut next = Vec::new();
            for (state, path) in &edge {
                for (what, outcome) in self.events(state) {
                    match outcome {
                        Outcome::Went(to) => {
                            let to = to.plain();
                            if seen.insert(to) {
                                next.push((to, format!("{path}\n  {what}")));
                            }
                        }
                        Outcome::Broken(why) => {
                            return Err(format!(
                                "{:?}, {} disks: {why}, after{path}\n  {what}\n{state:?}",
                                self.redundancy, self.disks
                            ));
                        }
                        Outcome::Unlucky(why) => {
                            assert!(!why.is_empty(), "a refusal says why");
                            unlucky += 1;
                        }
                        Outcome::Same | Outcome::Refused => {}
                    }
                }
            }
            edge = next;
        }
        Ok((seen.len(), unlucky))
    }
}

/// The furthest history, of equals the first.
trait RevMax {
    fn rev_max(self) -> Option<Tip>;
}

impl<I: Iterator<Item = Tip>> RevMax for I {
    fn rev_max(self) -> Option<Tip> {
        let mut best: Option<Tip> = None;
        for t in self {
            if best.is_none_or(|b| (t.epoch, t.lsn) > (b.epoch, b.lsn)) {
                best = Some(t);
            }
        }
        best
    }
}

impl State {
    /// The same state with the smallest numbers that tell the same.
    fn plain(mut self) -> State {
        let mut tips: Vec<&mut Tip> = self.tips.iter_mut().filter(|t| t.id != 0).collect();
        if let Some((tip, _)) = &mut self.running {
            tips.push(tip);
        }
        let epoch = tips.iter().map(|t| t.epoch).min().unwrap_or(0);
        let lsn = tips.iter().map(|t| t.lsn).min().unwrap_or(0);
        let mut ids = vec![0u8];
        for tip in tips {
            tip.epoch -= epoch;
            tip.lsn -= lsn;
            let id = tip.id;
            let at = ids.iter().position(|i| *i == id).unwrap_or_else(|| {
                ids.push(id);
                ids.len() - 1
            });
            tip.id = at as u8;
        }
        self.next = ids.len() as u8;
        self
    }
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let deeper = std::env::var("CELLAR_MODEL_DEPTH").ok().and_then(|v| v.parse().ok());
    for redundancy in [Redundancy::Normal, Redundancy::High] {
        for (disks, depth) in [(1, 6), (2, 6), (3, 4), (4, 2), (5, 2)] {
            let depth = if disks < 3 { depth } else { deeper.unwrap_or(depth) };
            match (Model { redundancy, disks }).check(depth) {
                Ok((states, unlucky)) => eprintln!(
                    "{redundancy:?}, {disks} disks, {depth} events: {states} states, \
                     {unlucky} times refused without need"
                ),
                Err(why) => panic!("{why}"),
            }
        }
    }
}

#[test]
fn a_smaller_set_cut_off_half_way_is_not_believed_by_its_own_majority() {
    let model = Model { redundancy: Redundancy::High, disks: 5 };
    let went = |outcome| match outcome {
        Outcome::Went(s) => s,
        other => panic!("{other:?}"),
    };
    // A alone has the record that makes the set ABC; CDE, a majority of the old set, go on.
    let s = went(model.mount(&model.start(), 0b00111, Some(Cut { record: 1, has: 1 })));
    let s = went(model.mount(&s, 0b11100, None));
    // A and B are two of ABC, and know nothing of that.
    assert!(matches!(model.mount(&s, 0b00011, None), Outcome::Refused));
}

#[test]
fn a_lone_member_of_two_without_the_survivors_record_never_mounts() {
    let model = Model { redundancy: Redundancy::Normal, disks: 2 };
    let Outcome::Went(s) = model.mount(&model.start(), 0b11, None) else { panic!("all are here") };
    // A is lost, B goes on alone and acknowledges a write.
    let Outcome::Went(s) = model.write(&s, 0b01, false, None) else { panic!("B goes on") };
    assert!(matches!(model.mount(&s, 0b01, None), Outcome::Refused), "A alone");
    assert!(matches!(model.mount(&s, 0b10, None), Outcome::Went(_)), "B alone has the record");
    assert!(matches!(model.mount(&s, 0b11, None), Outcome::Went(_)), "both: the newest wins");
}
