//! Histories by hand: what must not be is found, under its name, and what may be is not.

use super::checker::check;
use super::history::{End, History, Level, Read, Step};

use Level::{ReadCommitted, Snapshot};

/// The keys.
const X: u8 = 0;
const Y: u8 = 1;

/// A history that is written down as it happens.
#[derive(Default)]
struct Tale(History);

impl Tale {
    /// A transaction of a session of its own.
    fn begin(&mut self, level: Level) -> usize {
        self.0.begin(self.0.transactions.len(), level)
    }

    /// Reads at a point that is taken now.
    fn read(&mut self, who: usize, key: u8, list: &[u32]) {
        let from = self.0.tick();
        self.read_as_of(who, from, key, list);
    }

    fn read_as_of(&mut self, who: usize, from: u64, key: u8, list: &[u32]) {
        let (to, list) = (self.0.tick(), list.to_vec());
        self.0.add(who, Step::Read(Read { key, list, from, to, is_locking: false }));
    }

    fn lock(&mut self, who: usize, key: u8, list: &[u32]) {
        let (from, to, list) = (self.0.tick(), self.0.tick(), list.to_vec());
        self.0.add(who, Step::Read(Read { key, list, from, to, is_locking: true }));
    }

    fn append(&mut self, who: usize, key: u8, number: u32) {
        self.0.add(who, Step::Append { key, number });
    }

    fn commit(&mut self, who: usize) {
        let now = self.0.tick();
        self.0.end(who, End::Committed(now));
    }

    /// A transaction that appends to lists and is answered.
    fn wrote(&mut self, appends: &[(u8, u32)]) -> usize {
        let who = self.begin(ReadCommitted);
        appends.iter().for_each(|(key, number)| self.append(who, *key, *number));
        self.commit(who);
        who
    }

    /// What is there at last.
    fn ends(mut self, x: &[u32], y: &[u32]) -> Vec<&'static str> {
        let last = self.begin(Snapshot);
        let from = self.0.tick();
        self.read_as_of(last, from, X, x);
        self.read_as_of(last, from, Y, y);
        self.commit(last);
        let mut names: Vec<_> = check(&self.0).into_iter().map(|finding| finding.name).collect();
        names.dedup();
        names
    }
}

#[test]
fn g0_is_found() {
    let mut tale = Tale::default();
    let (one, two) = (tale.begin(ReadCommitted), tale.begin(ReadCommitted));
    for (who, key, number) in [(one, X, 1), (two, X, 2), (two, Y, 3), (one, Y, 4)] {
        tale.append(who, key, number);
    }
    tale.commit(one);
    tale.commit(two);
    assert_eq!(tale.ends(&[1, 2], &[3, 4]), ["G0"]);
}

#[test]
fn g1a_is_found_of_a_transaction_and_of_a_savepoint() {
    let mut tale = Tale::default();
    let gone = tale.begin(ReadCommitted);
    tale.append(gone, X, 1);
    let reader = tale.begin(ReadCommitted);
    tale.read(reader, X, &[1]);
    assert!(tale.ends(&[], &[]).contains(&"G1a"));

    let mut tale = Tale::default();
    let half = tale.begin(ReadCommitted);
    tale.append(half, X, 1);
    tale.append(half, Y, 2);
    tale.0.add(half, Step::RollbackTo(1));
    tale.commit(half);
    assert_eq!(tale.ends(&[1], &[2]), ["G1a"]);
}

#[test]
fn g1b_is_found() {
    let mut tale = Tale::default();
    let (writer, reader) = (tale.begin(ReadCommitted), tale.begin(ReadCommitted));
    tale.append(writer, X, 1);
    tale.read(reader, X, &[1]);
    tale.append(writer, X, 2);
    tale.commit(writer);
    tale.commit(reader);
    assert!(tale.ends(&[1, 2], &[]).contains(&"G1b"));
}

#[test]
fn g1c_is_found() {
    let mut tale = Tale::default();
    let (one, two) = (tale.begin(ReadCommitted), tale.begin(ReadCommitted));
    tale.append(one, X, 1);
    tale.append(two, Y, 2);
    tale.read(one, Y, &[2]);
    tale.read(two, X, &[1]);
    tale.commit(one);
    tale.commit(two);
    assert_eq!(tale.ends(&[1], &[2]), ["G1c"]);
}

/// A reader reads x, somebody changes both, the reader reads y: at one point, or at two.
fn skewed(level: Level, is_one_statement: bool) -> Vec<&'static str> {
    let mut tale = Tale::default();
    let reader = tale.begin(level);
    let from = tale.0.tick();
    tale.read_as_of(reader, from, X, &[]);
    tale.wrote(&[(X, 1), (Y, 2)]);
    let then = if is_one_statement { from } else { tale.0.tick() };
    tale.read_as_of(reader, then, Y, &[2]);
    tale.commit(reader);
    tale.ends(&[1], &[2])
}

#[test]
fn g_single_is_found_of_a_snapshot_and_of_a_statement() {
    assert_eq!(skewed(Snapshot, true), ["G-single"]);
    assert_eq!(skewed(Snapshot, false), ["G-single"]);
    assert_eq!(skewed(ReadCommitted, true), ["G-single"]);
    assert_eq!(skewed(ReadCommitted, false), [""; 0], "two statements see two points");
}

#[test]
fn a_lost_update_is_found_of_a_snapshot_and_of_a_lock() {
    for level in [Snapshot, ReadCommitted] {
        for is_locked in [true, false] {
            let mut tale = Tale::default();
            let one = tale.begin(level);
            match is_locked {
                true => tale.lock(one, X, &[]),
                false => tale.read(one, X, &[]),
            }
            tale.wrote(&[(X, 1)]);
            tale.append(one, X, 2);
            tale.commit(one);
            let may_be = level == ReadCommitted && !is_locked;
            let expected: &[&str] = if may_be { &[] } else { &["lost update"] };
            assert_eq!(tale.ends(&[1, 2], &[]), expected, "{level:?} {is_locked}");
        }
    }
}

/// Each reads what the other one changes.
fn write_skew(is_locked: bool) -> Vec<&'static str> {
    let mut tale = Tale::default();
    let (one, two) = (tale.begin(Snapshot), tale.begin(Snapshot));
    for (who, key) in [(one, X), (one, Y), (two, X), (two, Y)] {
        match is_locked {
            true => tale.lock(who, key, &[]),
            false => tale.read(who, key, &[]),
        }
    }
    tale.append(one, X, 1);
    tale.append(two, Y, 2);
    tale.commit(one);
    tale.commit(two);
    tale.ends(&[1], &[2])
}

#[test]
fn write_skew_may_be_unless_the_rows_were_locked() {
    assert_eq!(write_skew(false), [""; 0]);
    assert_eq!(write_skew(true), ["G2 of locks"]);
}

#[test]
fn two_snapshots_that_see_two_orders_are_found() {
    let mut tale = Tale::default();
    let (one, two) = (tale.begin(Snapshot), tale.begin(Snapshot));
    let (a, b) = (tale.begin(ReadCommitted), tale.begin(ReadCommitted));
    tale.append(a, X, 1);
    tale.append(b, Y, 2);
    let from = tale.0.tick();
    for (who, key, list) in [(one, X, &[1][..]), (one, Y, &[]), (two, X, &[]), (two, Y, &[2])] {
        tale.read_as_of(who, from, key, list);
    }
    for who in [one, two, a, b] {
        tale.commit(who);
    }
    assert_eq!(tale.ends(&[1], &[2]), ["G-nonadjacent"]);
}

#[test]
fn stale_reads_are_found() {
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1)]);
    let reader = tale.begin(ReadCommitted);
    tale.read(reader, X, &[]);
    assert_eq!(tale.ends(&[1], &[]), ["stale read"]);

    let mut tale = Tale::default();
    let writer = tale.wrote(&[(X, 1)]);
    let again = tale.0.begin(writer, Snapshot);
    tale.read(again, X, &[]);
    assert_eq!(tale.ends(&[1], &[]), ["own commit not seen"]);

    for (is_locked, expected) in
        [(false, "unseen after it was shown"), (true, "unseen after a lock showed it")]
    {
        let mut tale = Tale::default();
        let [writer, first, then] = [(); 3].map(|()| tale.begin(ReadCommitted));
        tale.append(writer, X, 1);
        match is_locked {
            true => tale.lock(first, X, &[1]),
            false => tale.read(first, X, &[1]),
        }
        tale.commit(first);
        tale.read(then, X, &[]);
        tale.commit(writer);
        assert_eq!(tale.ends(&[1], &[]), [expected]);
    }

    let mut tale = Tale::default();
    let own = tale.begin(ReadCommitted);
    tale.append(own, X, 1);
    tale.read(own, X, &[]);
    tale.commit(own);
    assert_eq!(tale.ends(&[1], &[]), ["own write not seen"]);
}

#[test]
fn what_is_lost_is_found() {
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1)]);
    assert_eq!(tale.ends(&[], &[]), ["lost acknowledged write"]);

    // Nothing was answered, but it was shown.
    let mut tale = Tale::default();
    let (writer, reader) = (tale.begin(ReadCommitted), tale.begin(ReadCommitted));
    tale.append(writer, X, 1);
    tale.0.end(writer, End::Unknown);
    tale.read(reader, X, &[1]);
    assert_eq!(tale.ends(&[], &[]), ["taken back"]);

    // Shown by a lock only: that counts when it is answered.
    for (is_answered, expected) in [(false, &[][..]), (true, &["taken back"])] {
        let mut tale = Tale::default();
        let (writer, reader) = (tale.begin(ReadCommitted), tale.begin(ReadCommitted));
        tale.append(writer, X, 1);
        tale.0.end(writer, End::Unknown);
        tale.lock(reader, X, &[1]);
        tale.0.end(reader, End::Unknown);
        if is_answered {
            tale.commit(reader);
        }
        assert_eq!(tale.ends(&[], &[]), expected);
    }

    let mut tale = Tale::default();
    let torn = tale.begin(ReadCommitted);
    tale.append(torn, X, 1);
    tale.append(torn, Y, 2);
    tale.0.end(torn, End::Unknown);
    assert_eq!(tale.ends(&[1], &[]), ["torn commit"]);
}

#[test]
fn numbers_that_cannot_be_are_found() {
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1)]);
    assert_eq!(tale.ends(&[1], &[1]), ["number elsewhere"]);
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1)]);
    assert_eq!(tale.ends(&[1], &[7]), ["number of nobody"]);
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1)]);
    assert!(tale.ends(&[1, 1], &[]).contains(&"number twice"));
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1)]);
    tale.wrote(&[(X, 2)]);
    let reader = tale.begin(ReadCommitted);
    tale.read(reader, X, &[2]);
    assert!(tale.ends(&[1, 2], &[]).contains(&"incompatible order"));
}

#[test]
fn what_may_be_is_not_found() {
    let mut tale = Tale::default();
    tale.wrote(&[(X, 1), (Y, 2), (X, 3)]);
    let own = tale.begin(Snapshot);
    tale.lock(own, X, &[1, 3]);
    tale.append(own, X, 4);
    tale.read(own, X, &[1, 3, 4]);
    tale.append(own, Y, 5);
    tale.0.add(own, Step::RollbackTo(1));
    tale.read(own, Y, &[2]);
    tale.commit(own);
    let unknown = tale.begin(ReadCommitted);
    tale.append(unknown, Y, 6);
    tale.0.end(unknown, End::Unknown);
    assert_eq!(tale.ends(&[1, 3, 4], &[2]), [""; 0]);
}
