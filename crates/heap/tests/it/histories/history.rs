//! Histories: what transactions did to lists and what they were told, in the order in which it happened. A
//! list only ever grows, each number is appended once, and so a list that is read tells who wrote before whom.

/// A moment: events of a history are counted.
pub type Tick = u64;

/// At which point a transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    ReadCommitted,
    Snapshot,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was not asked to commit: it has not happened.
    Aborted,
    /// It was asked to commit, and nothing was answered.
    Unknown,
    /// Its commit was answered.
    Committed(Tick),
}

/// A list, as a transaction read it.
#[derive(Clone, Debug)]
pub struct Read {
    pub key: u8,
    pub list: Vec<u32>,
    /// When the point was taken at which it was read, or the lock was asked for.
    pub from: Tick,
    /// When it was answered.
    pub to: Tick,
    /// The list was locked first, and is until the end: it is the newest one.
    pub is_locking: bool,
}

/// What a transaction did.
#[derive(Clone, Debug)]
pub enum Step {
    Read(Read),
    Append {
        key: u8,
        number: u32,
    },
    /// Appends behind the first so many of those that count are taken back.
    RollbackTo(usize),
}

/// What is on record of a transaction.
#[derive(Clone, Debug)]
pub struct Record {
    pub session: usize,
    pub level: Level,
    pub steps: Vec<Step>,
    pub end: End,
}

impl Record {
    /// The appends that were not taken back, in their order.
    pub fn appends(&self) -> Vec<(u8, u32)> {
        let mut appends = Vec::new();
        for step in &self.steps {
            match step {
                Step::Append { key, number } => appends.push((*key, *number)),
                Step::RollbackTo(count) => appends.truncate(*count),
                Step::Read(_) => {}
            }
        }
        appends
    }

    /// All numbers that it ever appended, each with its key.
    pub fn all_appends(&self) -> impl Iterator<Item = (u8, u32)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Append { key, number } => Some((*key, *number)),
            _ => None,
        })
    }

    /// Its reads, each with its own numbers that must be at the end of the list.
    pub fn reads(&self) -> Vec<(&Read, Vec<u32>)> {
        let (mut reads, mut appends) = (Vec::new(), Vec::new());
        for step in &self.steps {
            match step {
                Step::Append { key, number } => appends.push((*key, *number)),
                Step::RollbackTo(count) => appends.truncate(*count),
                Step::Read(read) => {
                    let own = appends.iter().filter(|(key, _)| *key == read.key);
                    reads.push((read, own.map(|(_, number)| *number).collect()));
                }
            }
        }
        reads
    }
}

/// All that is known from outside.
#[derive(Default)]
pub struct History {
    pub transactions: Vec<Record>,
    /// Answers that nobody should get, whoever else is there.
    pub surprises: Vec<String>,
    now: Tick,
    numbers: u32,
}

impl History {
    pub fn tick(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    /// A number that was never appended.
    pub fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// A transaction begins; as long as nothing else is said it has not happened.
    pub fn begin(&mut self, session: usize, level: Level) -> usize {
        let (steps, end) = (Vec::new(), End::Aborted);
        self.transactions.push(Record { session, level, steps, end });
        self.transactions.len() - 1
    }

    pub fn add(&mut self, transaction: usize, step: Step) {
        self.transactions[transaction].steps.push(step);
    }

    pub fn end(&mut self, transaction: usize, end: End) {
        self.transactions[transaction].end = end;
    }
}

/// What no store that keeps its word can have shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its name in the literature, where it has one.
    pub name: &'static str,
    pub story: String,
}
