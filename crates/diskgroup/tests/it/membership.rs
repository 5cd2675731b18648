//! Decision 8, model-checked: whatever the order in which disks go and come back, join the group or
//! leave it for good because somebody wants it, fail in the middle of a record with or without having
//! it, writes are acknowledged, commits are cut off and mounts are tried, no mount believes a history
//! that lacks an acknowledged write or a committed epoch, and no mount is refused for its disks'
//! histories while a confirmed set can be read.
//!
//! Each disk is a failure group of its own and holds a copy of everything. What a disk holds is
//! reduced to what decides: its newest record (epoch, position, the set it names, the disks it
//! counts on, the older sets that may still be the committed one), whether that history has
//! everything committed, and whether its copy has everything acknowledged.
//!
//! An event is a mount, a write or a change of who takes part, from its beginning to its end or to a
//! crash, with every way in which the disks can fail meanwhile. States that differ in the disks'
//! numbers only count as one.
//!
//! Covered are all orders of 6 events without changes, for one to four disks, and of 5 for five (6 are
//! some ten times as many states, and half an hour). With changes a group begins mounted and in use. A
//! change adds disks, drops any number of them, or both in one record
//! (`DiskJoin`, `DiskLeaving`; then the set follows, record by record), takes drops back, or lets go
//! of a disk (`DiskGone`), which then is labelled "former" or is unplugged before that and comes back
//! as it was. Covered are all orders of 4 events for three disks, 3 for four, and for five one change
//! or write and then 2 mounts (1 with high redundancy). `CELLAR_MODEL_DEPTH` goes deeper, or less
//! deep.
//!
//! What a disk that left knows ends before the record by which it left: that such disks alone are
//! never believed, and that with others they make no mount worse, follows from the promises above. A
//! disk that is being dropped is out of the set once its change is through, if any other is left.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use cellar_diskgroup::Redundancy;
use cellar_diskgroup::rules::{
    Candidate, choose, is_proven, is_proven_change, may_go_on, target_size,
};

mod change;
mod run;

use run::{Phase, Run};

type Mask = u8;

/// The newest record of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Tip {
    epoch: u8,
    lsn: u8,
    /// Tells histories apart; 0 is none.
    id: u8,
    members: Mask,
    /// Disks in sync, those that are being dropped among them.
    online: Mask,
    /// Disks in sync that are being dropped.
    leaving: Mask,
    /// Sets before `members` that may still be the committed one: bit n is the set with mask n.
    before: u32,
    /// Whether everything committed is in it.
    knows: bool,
}

impl Tip {
    fn place(&self) -> (u8, u8) {
        (self.epoch, self.lsn)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
struct State {
    tips: [Tip; 5],
    /// Disks whose copy has every acknowledged write.
    fresh: Mask,
    /// The running mount.
    running: Option<Run>,
    next: u8,
}

/// A state that was not seen before, the number of the one it comes from, and by which event.
struct Found {
    state: State,
    number: u32,
    event: u16,
}

/// What can come next: its name, how it begins, and the disk that is labelled as none of the
/// group's once it is through, or is unplugged before that.
struct Event {
    what: String,
    begun: Vec<State>,
    former: Mask,
}

struct Model {
    redundancy: Redundancy,
    /// All disks there are.
    disks: u8,
    /// Those that the group is created of.
    at_first: u8,
    /// Disks also come and go because somebody wants it.
    changes: bool,
    /// The number of the last event that may be other than a mount.
    uses: usize,
}

fn bits(mask: Mask) -> impl Iterator<Item = u8> {
    (0..8).filter(move |i| mask >> i & 1 == 1)
}

fn size(mask: Mask) -> usize {
    mask.count_ones() as usize
}

/// All subsets of a mask.
fn subsets(mask: Mask) -> impl Iterator<Item = Mask> {
    (0..=mask).filter(move |s| s & !mask == 0)
}

fn masks(mut sets: u32) -> impl Iterator<Item = Mask> {
    std::iter::from_fn(move || {
        let next = sets.trailing_zeros();
        sets &= sets.wrapping_sub(1);
        (next < 32).then_some(next as Mask)
    })
}

fn list(mask: Mask) -> Vec<u16> {
    bits(mask).map(u16::from).collect()
}

impl Model {
    fn start(&self) -> State {
        let all: Mask = (1 << self.at_first) - 1;
        let candidates: Vec<Candidate> =
            bits(all).map(|d| Candidate { disk: d.into(), failgroup: format!("F{d}") }).collect();
        let chosen = choose(self.redundancy, &[], &candidates);
        let members = chosen.iter().fold(0, |mask, d| mask | 1 << d);
        let tip = Tip { id: 1, epoch: 1, members, online: all, knows: true, ..Tip::default() };
        let mut s = State { fresh: all, next: 1, ..State::default() };
        for d in bits(members) {
            s.tips[usize::from(d)] = tip;
        }
        if !self.changes {
            return s;
        }
        // In use already: all of them answered, and nothing was under way when they were mounted.
        let begun = self.mount(&s, (1 << self.disks) - 1).expect("nothing happened yet");
        let mut whole = None;
        self.to_the_end(begun, &mut Seen::default(), &mut |end| {
            whole = whole.or(end.running.filter(|r| r.alive & all == all).map(|_| end));
        });
        whole.expect("a group can be mounted")
    }

    /// The members that have the history and those that lag, if it is proven. Who knows more, or
    /// something else, proves nothing.
    fn proven(s: &State, tip: &Tip, here: Mask) -> Result<(Mask, Mask), &'static str> {
        let (mut whole, mut lagging) = (0, 0);
        for d in bits(tip.members & here) {
            let own = &s.tips[usize::from(d)];
            if own.id == tip.id {
                whole |= 1 << d;
            } else if own.id != 0 && own.place() == tip.place() {
                return Err("different histories");
            } else if own.id != 0 && own.place() < tip.place() {
                lagging |= 1 << d;
            }
        }
        let olds: Vec<(usize, usize)> = masks(tip.before)
            .map(|set| {
                let knows_no_more = bits(set & here)
                    .map(|d| &s.tips[usize::from(d)])
                    .filter(|t| t.id == tip.id || (t.id != 0 && t.place() < tip.place()));
                (size(set), knows_no_more.count())
            })
            .collect();
        let new = (size(tip.members), size(whole | lagging));
        match is_proven_change(&olds, new, size(whole)) {
            true => Ok((whole, lagging)),
            false => Err("not proven"),
        }
    }

    /// Whether a mount has no reason to doubt: nothing is further than the committed history, which
    /// a later record confirmed, and enough of its members are here.
    fn must_mount(s: &State, here: Mask) -> bool {
        let tips = || bits(here).map(|d| &s.tips[usize::from(d)]).filter(|t| t.id != 0);
        let Some(best) = tips().max_by_key(|t| t.place()) else { return false };
        let readable = bits(best.members & here).filter(|d| s.tips[usize::from(*d)].id != 0);
        best.knows
            && tips()
                .filter(|t| t.place() == best.place())
                .all(|t| t.id == best.id && t.before == 0)
            && is_proven(size(best.members), readable.count())
            && best.online & here != 0
    }

    /// A mount begins: where it may go on from.
    fn mount(&self, s: &State, here: Mask) -> Result<Vec<State>, String> {
        let tips = || bits(here).map(|d| s.tips[usize::from(d)]).filter(|t| t.id != 0);
        // Disks may tell the same history and know more or less of what is in doubt. A shorter one is
        // gone on from where the others have parted from it, which these tips do not tell: each that is
        // proven must have everything.
        let candidates: BTreeSet<Tip> = tips().collect();
        let mut out = Vec::new();
        for tip in candidates {
            let Ok((whole, lagging)) = Model::proven(s, &tip, here) else { continue };
            if tip.online & here == 0 {
                continue;
            }
            if !tip.knows {
                return Err("a proven mount lacks a committed epoch".into());
            }
            if tip.online & here & !s.fresh != 0 {
                return Err("a proven mount lacks an acknowledged write".into());
            }
            let committed = match whole == tip.members {
                true => 1 << tip.members,
                false => tip.before | 1 << tip.members,
            };
            let phase = Phase::CatchUp { lagging, missing: tip.online & !here };
            let run = Run { tip, alive: here, members: whole, committed, phase };
            out.push(State { running: Some(run), ..*s });
        }
        if out.is_empty() && Model::must_mount(s, here) {
            return Err("a mount was refused without need".into());
        }
        Ok(out)
    }

    /// All mounts that can be tried next.
    fn mounts(&self, s: &State) -> Result<Vec<Event>, String> {
        let all: Mask = (1 << self.disks) - 1;
        // Disks that nobody knows make no difference.
        let strangers = all & !s.known();
        let mut out = Vec::new();
        for here in subsets(all & !strangers).filter(|here| *here != 0) {
            let what = format!("mount {here:05b}");
            let begun =
                self.mount(s, here | strangers).map_err(|why| format!("  {what}\n{why}"))?;
            out.push(Event::new(what, begun));
        }
        Ok(out)
    }

    /// All writes that can be tried next.
    fn writes(&self, s: &State) -> Vec<Event> {
        let Some(run) = s.running else { return Vec::new() };
        let mut out = Vec::new();
        for gone in subsets(run.alive) {
            for logged in [false, true] {
                let alive = run.alive & !gone;
                let run = Run { alive, phase: Phase::TakeOut { logged, acknowledge: true }, ..run };
                let what = format!("lose {gone:05b}, write, logged {logged}");
                out.push(Event::new(what, vec![State { running: Some(run), ..*s }]));
            }
        }
        out
    }

    /// Goes through all orders of up to `depth` events; returns how many states there are, or the
    /// events that lead to a broken promise. What the last event can break, a mount, is told as it
    /// begins.
    fn check(&self, depth: usize) -> Result<usize, String> {
        let start = self.start().plain(self.disks);
        let mut seen = Seen::default();
        seen.insert(digest(&start));
        let mut edge = vec![(start, 0u32)];
        // Where each state comes from: the number of another, and by which event.
        let mut from: Vec<(u32, u16)> = vec![(0, 0)];
        for n in 1..=depth {
            let last = n == depth;
            let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
            let share = edge.len().div_ceil(threads).max(1);
            let found: Vec<Result<Vec<Found>, String>> = std::thread::scope(|scope| {
                let parts: Vec<_> = edge
                    .chunks(share)
                    .map(|part| {
                        let (seen, from) = (&seen, &from);
                        scope.spawn(move || self.expand(part, (n, last), seen, from))
                    })
                    .collect();
                parts.into_iter().map(|p| p.join().expect("it does not panic")).collect()
            });
            let mut next = Vec::new();
            for part in found {
                for Found { state, number, event } in part? {
                    if seen.insert(digest(&state)) {
                        next.push((state, from.len() as u32));
                        from.push((number, event));
                    }
                }
            }
            edge = next;
        }
        Ok(seen.len())
    }

    /// The states that the next event leads to from those of `part` and that are not `seen` yet.
    fn expand(
        &self,
        part: &[(State, u32)],
        (n, last): (usize, bool),
        seen: &Seen,
        from: &[(u32, u16)],
    ) -> Result<Vec<Found>, String> {
        let mut found = Vec::new();
        let mut here = Seen::default();
        for (state, number) in part {
            let mounts = self.mounts(state).map_err(|why| self.told(from, *number, &why, state))?;
            if last {
                continue;
            }
            let mut ends = Seen::default();
            let mut events = mounts;
            if n <= self.uses {
                events.extend(self.writes(state).into_iter().chain(self.changes(state)));
            }
            for (number_of, event) in (0u16..).zip(events) {
                let (mut broken, what) = (None, event.what.clone());
                self.ends_of(event, &mut ends, &mut |end| {
                    broken = broken.or(Model::broken(&end));
                    let end = end.plain(self.disks);
                    let digest = digest(&end);
                    if !seen.contains(&digest) && here.insert(digest) {
                        found.push(Found { state: end, number: *number, event: number_of });
                    }
                });
                if let Some(why) = broken {
                    return Err(self.told(from, *number, &format!("  {what}\n{why}"), state));
                }
            }
        }
        Ok(found)
    }

    /// Which promise was broken, and how.
    fn told(&self, from: &[(u32, u16)], number: u32, why: &str, state: &State) -> String {
        let path = self.path(from, number).join("\n");
        let (kind, disks) = (self.redundancy, self.disks);
        format!("{kind:?}, {disks} disks, after\n{path}\n{why}\n{state:#?}")
    }

    /// The events that led to a state.
    fn path(&self, from: &[(u32, u16)], mut number: u32) -> Vec<String> {
        let mut events = Vec::new();
        while number != 0 {
            let (before, event) = from[number as usize];
            events.push(event);
            number = before;
        }
        let (mut path, mut at) = (Vec::new(), vec![self.start().plain(self.disks)]);
        // Which of the ends of an event it was is not kept: all that fit are followed.
        for event in events.into_iter().rev() {
            let mut next = BTreeSet::new();
            for state in &at {
                let all = self.mounts(state).unwrap_or_default();
                let all = all.into_iter().chain(self.writes(state)).chain(self.changes(state));
                let Some(event) = all.into_iter().nth(event.into()) else { continue };
                if next.is_empty() {
                    path.push(format!("  {}", event.what));
                }
                self.ends_of(event, &mut Seen::default(), &mut |end| {
                    next.insert(end.plain(self.disks));
                });
            }
            at = next.into_iter().collect();
        }
        path
    }
}

/// Digests of states: of millions of them, two are the same with a chance of one in 10^24.
type Seen = HashSet<u128, BuildHasherDefault<Folded>>;

/// The hash of a digest is a part of it.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("digests are numbers");
    }

    fn write_u128(&mut self, digest: u128) {
        self.0 = digest as u64;
    }
}

/// Two sums of the same words, mixed differently.
#[derive(Clone, Copy)]
struct Digest(u64, u64);

impl Digest {
    const NEW: Digest = Digest(0x51ab_0f37_22c1_9e6d, 0xc3d2_e1f0_7788_99aa);

    fn word(mut self, word: u64) -> Digest {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
        self.1 = (self.1.rotate_left(41) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.1 ^= self.1 >> 32;
        self
    }

    fn tip(self, t: &Tip) -> Digest {
        let bytes = [t.epoch, t.lsn, t.id, t.members, t.online, u8::from(t.knows), t.leaving, 0];
        self.word(u64::from_le_bytes(bytes)).word(t.before.into())
    }

    fn all(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

fn digest(of: &State) -> u128 {
    let d = of.tips.iter().filter(|t| t.id != 0).fold(Digest::NEW, Digest::tip);
    let has = (0..5).fold(0, |has, i| has | u8::from(of.tips[i].id != 0) << i);
    let d = d.word(u64::from_le_bytes([of.fresh, has, of.next, 0, 0, 0, 0, 0]));
    match of.running {
        None => d.all(),
        Some(r) => {
            let [a, b, c] = r.phase.code();
            let bytes = [1, r.alive, r.members, a, b, c, 0, 0];
            d.tip(&r.tip).word(u64::from_le_bytes(bytes)).word(r.committed.into()).all()
        }
    }
}

/// Bit n of entry d: the set with mask n has disk d.
const WITH: [u32; 5] = [0xaaaa_aaaa, 0xcccc_cccc, 0xf0f0_f0f0, 0xff00_ff00, 0xffff_0000];

impl Event {
    fn new(what: String, begun: Vec<State>) -> Event {
        Event { what, begun, former: 0 }
    }
}

impl State {
    /// Disks that some history names.
    fn known(&self) -> Mask {
        let run = self.running.map(|run| run.tip);
        let tips = self.tips.iter().chain(&run).filter(|t| t.id != 0);
        let of = |t: &Tip| masks(t.before).fold(t.members | t.online, |all, set| all | set);
        tips.fold(0, |all, t| all | of(t))
    }

    /// The same state with the smallest numbers that tell the same, disks sorted.
    fn plain(self, disks: u8) -> State {
        let n = usize::from(disks);
        let tips = || self.tips.iter().filter(|t| t.id != 0);
        let epoch = tips().map(|t| t.epoch).min().unwrap_or(0);
        let lsn = tips().map(|t| t.lsn).min().unwrap_or(0);
        let place = |t: &Tip| match t.id {
            0 => 0,
            _ => u64::from(t.epoch - epoch) << 9 | u64::from(t.lsn - lsn) << 1 | 1,
        };
        // What can be told of a disk without naming another.
        let role = |t: &Tip, d: usize| {
            let of = u64::from(t.members >> d & 1) << 1 | u64::from(t.online >> d & 1);
            let of = of << 1 | u64::from(t.leaving >> d & 1);
            of << 8 | u64::from((t.before & WITH[d]).count_ones())
        };
        let key = |d: usize| {
            let t = &self.tips[d];
            let own = place(t) << 1 | u64::from(t.knows);
            let own = own << 8 | (size(t.members) as u64) << 1 | u64::from(self.fresh >> d & 1);
            let others =
                self.tips[..n].iter().map(|t| Digest::NEW.word(place(t)).word(role(t, d)).0);
            let sees = others.fold(0, u64::wrapping_add);
            let run = self.running.map_or(0, |r| {
                let of = u64::from(r.alive >> d & 1) << 1 | u64::from(r.members >> d & 1);
                let of = of << 8 | u64::from((r.committed & WITH[d]).count_ones());
                of << 32 | role(&r.tip, d)
            });
            Digest::NEW.word(own).word(role(t, d)).word(sees).word(run).0
        };
        let mut order: Vec<usize> = (0..n).collect();
        let keys: Vec<u64> = (0..n).map(key).collect();
        order.sort_by_key(|d| keys[*d]);
        let mut best: Option<State> = None;
        permute(&mut order, 0, &keys, &mut |order| {
            let s = self.renamed(order);
            if best.is_none_or(|b| s < b) {
                best = Some(s);
            }
        });
        best.expect("there is one order at least")
    }

    /// The disk at `order[i]` becomes disk i.
    fn renamed(&self, order: &[usize]) -> State {
        let mask = |m: Mask| order.iter().enumerate().fold(0, |to, (i, d)| to | (m >> d & 1) << i);
        let sets = |sets: u32| masks(sets).fold(0, |to, m| to | 1 << mask(m));
        let tip = |t: &Tip| Tip {
            members: mask(t.members),
            online: mask(t.online),
            leaving: mask(t.leaving),
            before: sets(t.before),
            ..*t
        };
        let mut s = State { fresh: mask(self.fresh), ..State::default() };
        for (i, d) in order.iter().enumerate() {
            s.tips[i] = tip(&self.tips[*d]);
        }
        s.running = self.running.map(|r| Run {
            tip: tip(&r.tip),
            alive: mask(r.alive),
            members: mask(r.members),
            committed: sets(r.committed),
            phase: r.phase,
        });
        let mut tips: Vec<&mut Tip> = s.tips.iter_mut().filter(|t| t.id != 0).collect();
        if let Some(run) = &mut s.running {
            tips.push(&mut run.tip);
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
        s.next = ids.len() as u8;
        s
    }
}

/// Every order that keeps the disks sorted by `keys`.
fn permute<K: PartialEq>(
    order: &mut Vec<usize>,
    at: usize,
    keys: &[K],
    visit: &mut dyn FnMut(&[usize]),
) {
    if at == order.len() {
        return visit(order);
    }
    for i in at..order.len() {
        if keys[order[i]] == keys[order[at]] {
            order.swap(at, i);
            permute(order, at + 1, keys, visit);
            order.swap(at, i);
        }
    }
}

fn check(model: Model, depth: usize) {
    let asked = std::env::var("CELLAR_MODEL_DEPTH").ok().and_then(|v| v.parse().ok());
    let depth = asked.unwrap_or(depth);
    let Model { redundancy, disks, at_first, changes, .. } = model;
    let come_and_go = if changes { format!(" of {disks} that come and go") } else { String::new() };
    match model.check(depth) {
        Ok(states) => {
            eprintln!("{redundancy:?}, {at_first}{come_and_go}, {depth} events: {states} states");
        }
        Err(why) => panic!("{why}"),
    }
}

fn check_failures(redundancy: Redundancy, disks: u8) {
    let depth = if disks < 5 { 6 } else { 5 };
    check(Model { redundancy, disks, at_first: disks, changes: false, uses: usize::MAX }, depth);
}

#[test]
fn no_order_of_events_breaks_a_promise_of_one_to_three_disks() {
    for redundancy in [Redundancy::Normal, Redundancy::High] {
        (1..=3).for_each(|disks| check_failures(redundancy, disks));
    }
}

#[test]
fn no_order_of_events_breaks_a_promise_of_four_disks() {
    check_failures(Redundancy::Normal, 4);
}

#[test]
fn no_order_of_events_breaks_a_promise_of_five_disks() {
    check_failures(Redundancy::High, 5);
}

fn check_changes(redundancy: Redundancy, at_first: u8, disks: u8, uses: usize, depth: usize) {
    check(Model { redundancy, disks, at_first, changes: true, uses }, depth);
}

#[test]
fn no_order_of_changes_breaks_a_promise_of_up_to_three_disks() {
    (1..=3).for_each(|at_first| check_changes(Redundancy::Normal, at_first, 3, 4, 4));
}

#[test]
fn no_order_of_changes_breaks_a_promise_of_four_disks() {
    (2..=4).for_each(|at_first| check_changes(Redundancy::Normal, at_first, 4, 3, 3));
}

#[test]
fn no_order_of_changes_breaks_a_promise_of_five_disks() {
    check_changes(Redundancy::Normal, 5, 5, 1, 3);
    check_changes(Redundancy::High, 3, 5, 1, 2);
    check_changes(Redundancy::High, 5, 5, 1, 2);
}
