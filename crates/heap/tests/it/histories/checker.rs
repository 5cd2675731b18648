//! The judge of a history: the order of the versions of each list, what each read may and must show, and
//! the cycles of who depends on whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::graph::{Edge, Graph, Why};
use super::history::{End, Finding, History, Level, Read, Record, Tick};

/// Who appended a number, and where.
#[derive(Clone, Copy)]
struct Writer {
    transaction: usize,
    key: u8,
    /// It was taken back by its own transaction.
    is_undone: bool,
}

/// A read that counts: what it showed of others, and who had it.
struct Shown<'a> {
    reader: usize,
    read: &'a Read,
    base: &'a [u32],
    /// It was read at a point, as nobody's lock changes it.
    is_plain: bool,
    /// From when on all readers must see as much.
    known: Option<Tick>,
}

/// By transaction: from when on all must see it, and who was shown it by then, if that was before the answer.
type Known = HashMap<usize, (Tick, Option<usize>)>;

struct Judge<'a> {
    history: &'a History,
    writers: HashMap<u32, Writer>,
    has_happened: Vec<bool>,
    findings: Vec<Finding>,
}

/// All that a store which keeps its word cannot have answered.
pub fn check(history: &History) -> Vec<Finding> {
    let mut judge = Judge {
        history,
        writers: writers(history),
        has_happened: Vec::new(),
        findings: Vec::new(),
    };
    for surprise in &history.surprises {
        judge.find("surprise", surprise.clone());
    }
    judge.has_happened = judge.happened();
    let shown = judge.shown();
    let versions = judge.versions(&shown);
    for read in &shown {
        judge.check_numbers(read);
    }
    judge.check_commits(&versions);
    judge.check_time(&shown, &versions);
    let graph = judge.graph(&shown, &versions);
    judge.findings.extend(graph.cycles());
    judge.findings
}

fn writers(history: &History) -> HashMap<u32, Writer> {
    let mut writers = HashMap::new();
    for (transaction, record) in history.transactions.iter().enumerate() {
        let kept: BTreeSet<u32> = record.appends().into_iter().map(|(_, number)| number).collect();
        for (key, number) in record.all_appends() {
            let is_undone = !kept.contains(&number);
            let before = writers.insert(number, Writer { transaction, key, is_undone });
            assert!(before.is_none(), "{number} is appended once");
        }
    }
    writers
}

/// What a read shows of others, if its end is what its own transaction has appended.
fn base<'a>(read: &'a Read, own: &[u32]) -> Option<&'a [u32]> {
    read.list.strip_suffix(own)
}

impl<'a> Judge<'a> {
    fn find(&mut self, name: &'static str, story: String) {
        self.findings.push(Finding { name, story });
    }

    fn record(&self, transaction: usize) -> &'a Record {
        &self.history.transactions[transaction]
    }

    /// Whose changes are there: those answered, and those that were seen though nothing was answered.
    fn happened(&self) -> Vec<bool> {
        let all = &self.history.transactions;
        let is_answered = |record: &Record| matches!(record.end, End::Committed(_));
        let mut happened: Vec<bool> = all.iter().map(is_answered).collect();
        for record in all {
            for (read, own) in record.reads() {
                let is_plain = own.is_empty() && !read.is_locking;
                if !is_plain && !is_answered(record) {
                    continue;
                }
                for number in base(read, &own).unwrap_or(&[]) {
                    let Some(writer) = self.writers.get(number) else { continue };
                    happened[writer.transaction] |= all[writer.transaction].end == End::Unknown;
                }
            }
        }
        happened
    }

    /// The reads that count: what a lock shows may be taken back until the commit is answered.
    fn shown(&mut self) -> Vec<Shown<'a>> {
        let mut shown = Vec::new();
        for (reader, record) in self.history.transactions.iter().enumerate() {
            for (read, own) in record.reads() {
                let Some(base) = base(read, &own) else {
                    let story = format!("{reader} appended {own:?} and read {read:?}");
                    self.find("own write not seen", story);
                    continue;
                };
                let is_plain = own.is_empty() && !read.is_locking;
                let known = match record.end {
                    _ if is_plain => Some(read.to),
                    End::Committed(tick) => Some(tick),
                    _ => None,
                };
                if is_plain || self.has_happened[reader] {
                    shown.push(Shown { reader, read, base, is_plain, known });
                }
            }
        }
        shown
    }

    /// The versions of each list: the longest one, of which all others must be the beginning.
    fn versions(&mut self, shown: &[Shown<'a>]) -> BTreeMap<u8, Vec<u32>> {
        let mut versions = BTreeMap::<u8, &[u32]>::new();
        for read in shown {
            let longest = versions.entry(read.read.key).or_default();
            if read.base.len() > longest.len() {
                *longest = read.base;
            }
        }
        for Shown { reader, read, base, .. } in shown {
            let longest = versions[&read.key];
            if !longest.starts_with(base) {
                let story = format!("{reader} read {base:?} of {}, others {longest:?}", read.key);
                self.find("incompatible order", story);
            }
        }
        versions.into_iter().map(|(key, list)| (key, list.to_vec())).collect()
    }

    /// Whether each number of a read is one of the list that its reader may see.
    fn check_numbers(&mut self, Shown { reader, read, base, .. }: &Shown<'_>) {
        let mut seen = BTreeSet::new();
        for number in *base {
            let story = format!("{reader} read {number} in {:?} of {}", read.list, read.key);
            if !seen.insert(number) {
                self.find("number twice", story);
                continue;
            }
            match self.writers.get(number).copied() {
                None => self.find("number of nobody", story),
                Some(writer) if writer.key != read.key => self.find("number elsewhere", story),
                Some(writer) if writer.is_undone || !self.has_happened[writer.transaction] => {
                    self.find("G1a", format!("{story}, which {} rolled back", writer.transaction));
                }
                Some(_) => {}
            }
        }
        let Some(last) = base.last() else { return };
        let Some(writer) = self.writers.get(last) else { return };
        let appends = self.record(writer.transaction).appends();
        let end = appends.iter().rfind(|(key, _)| *key == read.key);
        if let Some((_, end)) = end
            && end != last
            && !writer.is_undone
        {
            let writer = writer.transaction;
            self.find("G1b", format!("{reader} read {last} of {writer}, but not {end}"));
        }
    }

    /// Whether the commits that have happened are there, whole.
    fn check_commits(&mut self, versions: &BTreeMap<u8, Vec<u32>>) {
        for (transaction, record) in self.history.transactions.iter().enumerate() {
            if !self.has_happened[transaction] {
                continue;
            }
            let is_there = |(key, number): &(u8, u32)| {
                versions.get(key).is_some_and(|list| list.contains(number))
            };
            let appends = record.appends();
            if let Some(lost) = appends.iter().find(|append| !is_there(append)) {
                let story = format!("{lost:?} of {transaction}, of {appends:?}, is not there");
                match record.end {
                    End::Committed(_) => self.find("lost acknowledged write", story),
                    _ => self.find("torn commit", story),
                }
            }
        }
    }

    /// Whether each read shows what was known when its point was taken.
    fn check_time(&mut self, shown: &[Shown<'a>], versions: &BTreeMap<u8, Vec<u32>>) {
        let [known, known_by_locks] = [true, false].map(|is_plain| self.known(shown, is_plain));
        let mut last_reads = BTreeMap::<u8, Tick>::new();
        for Shown { read, .. } in shown {
            let last = last_reads.entry(read.key).or_default();
            *last = (*last).max(read.from);
        }
        for Shown { reader, read, base, .. } in shown {
            let rest = versions[&read.key].get(base.len()..).unwrap_or(&[]);
            let writers = rest.iter().filter_map(|number| self.writers.get(number));
            let writers: BTreeSet<usize> = writers.map(|writer| writer.transaction).collect();
            let missed = |known: &Known| {
                let mut others = writers.iter().filter(|writer| *writer != reader);
                let is_known = |writer| Some((writer, *known.get(writer)?));
                others.find_map(|writer| is_known(writer).filter(|(_, at)| at.0 < read.from))
            };
            let told = missed(&known).map(|missed| (missed, true));
            let by_lock = || missed(&known_by_locks).map(|missed| (missed, false));
            let Some(((writer, (tick, by)), is_plain)) = told.or_else(by_lock) else { continue };
            let is_own = self.record(*writer).session == self.record(*reader).session;
            let name = match by {
                _ if read.from == last_reads[&read.key] => "taken back",
                Some(_) if is_plain => "unseen after it was shown",
                Some(_) => "unseen after a lock showed it",
                None if is_own => "own commit not seen",
                None => "stale read",
            };
            let by = by.map_or("answered".into(), |by| format!("shown to {by}"));
            let Read { key, from, .. } = read;
            let story = format!(
                "{reader} read {base:?} of {key} as of {from}; {rest:?} is there, of which what \
                 {writer} did was {by} at {tick}"
            );
            self.find(name, story);
        }
    }

    /// From when on all must see a transaction: it was answered, or shown to somebody, by plain reads or by
    /// locking ones.
    fn known(&self, shown: &[Shown<'a>], is_plain: bool) -> Known {
        let mut known = Known::new();
        for (transaction, record) in self.history.transactions.iter().enumerate() {
            if let End::Committed(tick) = record.end {
                known.insert(transaction, (tick, None));
            }
        }
        for Shown { reader, base, known: tick, .. } in
            shown.iter().filter(|s| s.is_plain == is_plain)
        {
            let Some(tick) = *tick else { continue };
            for writer in base.iter().filter_map(|number| self.writers.get(number)) {
                let first = known.entry(writer.transaction).or_insert((tick, Some(*reader)));
                if tick < first.0 {
                    *first = (tick, Some(*reader));
                }
            }
        }
        known
    }

    /// Who depends on whom. A statement at READ COMMITTED that reads at its own point is somebody by itself.
    fn graph(&self, shown: &[Shown<'a>], versions: &BTreeMap<u8, Vec<u32>>) -> Graph {
        let mut graph = Graph::new(self.history.transactions.len());
        let writer = |number: &u32| self.writers.get(number).map(|writer| writer.transaction);
        for (key, list) in versions {
            let of: Vec<usize> = list.iter().filter_map(writer).collect();
            for pair in of.windows(2).filter(|pair| pair[0] != pair[1]) {
                graph.add(Edge { from: pair[0], to: pair[1], why: Why::Ww, key: *key });
            }
        }
        let mut statements = HashMap::<(usize, Tick), usize>::new();
        for Shown { reader, read, base, is_plain, .. } in shown {
            let (reader, key) = (*reader, read.key);
            let before = base.last().and_then(writer).filter(|writer| *writer != reader);
            let after = versions[&key].get(base.len()).and_then(writer);
            let after = after.filter(|writer| *writer != reader);
            let mut link = |node: usize, rw: Why| {
                before
                    .iter()
                    .for_each(|&from| graph.add(Edge { from, to: node, why: Why::Wr, key }));
                after.iter().for_each(|&to| graph.add(Edge { from: node, to, why: rw, key }));
            };
            match self.record(reader).level {
                Level::Snapshot => link(reader, Why::RwAtPoint),
                Level::ReadCommitted if *is_plain => {
                    let next = self.history.transactions.len() + statements.len();
                    link(*statements.entry((reader, read.from)).or_insert(next), Why::RwAtPoint);
                }
                Level::ReadCommitted => {}
            }
            if !is_plain {
                link(reader, Why::RwLocked);
            } else if let Some(from) = before {
                graph.add(Edge { from, to: reader, why: Why::Wr, key });
            }
        }
        graph
    }
}
