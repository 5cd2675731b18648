//! The model of the parent: what it was told, and whether the log agrees with it.

use std::collections::{BTreeMap, HashMap};

use cellar_redo::{Lsn, Record};

use crate::child::AHEAD_MAX;
use crate::record::{Digest, Key, read};

/// What one reading of the log gave.
pub struct Reading {
    pub records: u64,
    pub digest: u32,
    /// Records that nobody was told of. They count from the next opening on.
    pub extra: Vec<(u64, Key)>,
}

/// A life that has opened the log.
#[derive(Clone, Default)]
struct Life {
    /// Its records are at or behind this LSN.
    begin: u64,
    /// And below this one.
    end: u64,
    /// The number of the last record of each committer that was acknowledged.
    last: HashMap<u32, u32>,
}

#[derive(Default)]
pub struct Model {
    seed: u64,
    longest: usize,
    /// Records that must be there, by LSN: acknowledged, or found by an opening.
    facts: BTreeMap<u64, Key>,
    /// Lives that have opened the log; where archives are kept, all.
    lives: BTreeMap<u32, Life>,
    /// The greatest checkpoint that was asked for, and that was said to be durable.
    asked: u64,
    confirmed: u64,
    /// Facts that go to archives are kept for good.
    archiving: bool,
    /// Groups up to this sequence are archived.
    pub archived: u64,
}

impl Model {
    pub fn new(seed: u64, longest: usize, archiving: bool) -> Model {
        Model { seed, longest, archiving, ..Model::default() }
    }

    /// A life has opened the log at `end`, having read this.
    pub fn opened(&mut self, life: u32, end: u64, reading: &Reading) -> Result<(), String> {
        self.facts.extend(reading.extra.iter().copied());
        if let Some((last, key)) = self.facts.last_key_value().filter(|(last, _)| **last >= end) {
            return Err(format!("opened at {end}, and {key:?} is at {last}"));
        }
        if let Some(mut before) = self.lives.last_entry() {
            if end < before.get().begin {
                let begin = before.get().begin;
                return Err(format!("opened at {end}, after {begin} the last time"));
            }
            before.get_mut().end = end;
        }
        if !self.archiving {
            self.lives.clear();
        }
        self.lives.insert(life, Life { begin: end, end: u64::MAX, last: HashMap::new() });
        Ok(())
    }

    /// A record of the current life is durable, at that LSN.
    pub fn acknowledged(&mut self, committer: u32, number: u32, lsn: u64) -> Result<(), String> {
        let Some(mut current) = self.lives.last_entry() else {
            return Err("a commit before the log was open".to_owned());
        };
        let key = Key { life: *current.key(), committer, number };
        let begin = current.get().begin;
        if lsn < begin {
            return Err(format!("{key:?} is at {lsn}, the log was opened at {begin}"));
        }
        current.get_mut().last.insert(committer, number);
        match self.facts.insert(lsn, key) {
            Some(other) => Err(format!("{key:?} and {other:?} are both at {lsn}")),
            None => Ok(()),
        }
    }

    pub fn checkpoint_asked(&mut self, lsn: u64) {
        self.asked = self.asked.max(lsn);
    }

    pub fn checkpoint_durable(&mut self, lsn: u64) {
        self.confirmed = self.confirmed.max(lsn);
    }

    /// Compares what recovery gave with what must be there and what may be.
    pub fn check(&mut self, checkpoint: Lsn, records: &[Record]) -> Result<Reading, String> {
        let checkpoint = checkpoint.0;
        if checkpoint < self.confirmed {
            let confirmed = self.confirmed;
            return Err(format!("the checkpoint {confirmed} was durable, it is {checkpoint}"));
        }
        if self.asked < checkpoint {
            // A checkpoint among block numbers that a switch skipped moves to where the log goes on.
            let skipped = self.facts.range(self.asked..checkpoint).next();
            if let Some((lsn, key)) = skipped {
                return Err(format!("the checkpoint {checkpoint} is behind {key:?} at {lsn}"));
            }
        }
        let extra = self.compare(checkpoint, u64::MAX, records)?;
        let current = self.lives.last_key_value().map(|(life, _)| *life);
        if let Some((lsn, key)) = extra.iter().find(|(_, key)| Some(key.life) != current) {
            return Err(format!("{key:?} at {lsn} is not from the last life, {current:?}"));
        }
        let mut digest = Digest::default();
        records.iter().for_each(|record| digest.add(record));
        if !self.archiving {
            self.facts = self.facts.split_off(&checkpoint);
        }
        Ok(Reading { records: records.len() as u64, digest: digest.value(), extra })
    }

    /// Compares what archives gave, from the first on.
    pub fn check_archives(&self, records: &[Record]) -> Result<(), String> {
        let to = records.last().map_or(0, |last| last.lsn.0 + 1);
        self.compare(0, to, records).map(|_| ()).map_err(|what| format!("archives: {what}"))
    }

    /// Every fact is there once, in order; gives the records that are none.
    fn compare(&self, from: u64, to: u64, records: &[Record]) -> Result<Vec<(u64, Key)>, String> {
        let mut facts = self.facts.range(from..to).peekable();
        let mut extra = Vec::new();
        let mut follows: HashMap<(u32, u32), u32> = HashMap::new();
        let mut before = None;
        for record in records {
            let lsn = record.lsn.0;
            if before.replace(lsn).is_some_and(|before| before >= lsn) || lsn < from {
                return Err(format!("the record at {lsn} is out of order"));
            }
            let (key, seen) = read(self.seed, self.longest, record)?;
            if seen >= lsn {
                return Err(format!("{key:?} at {lsn} was submitted when {seen} was durable"));
            }
            match facts.peek() {
                Some((at, fact)) if **at == lsn => {
                    if **fact != key {
                        return Err(format!("{key:?} is at {lsn}, where {fact:?} was"));
                    }
                    facts.next();
                    continue;
                }
                Some((at, fact)) if **at < lsn => return Err(lost(**at, fact)),
                _ => {}
            }
            self.may_be(lsn, key)?;
            // Those that it follows may be below the checkpoint, but not all others.
            let place = (key.life, key.committer);
            let begins = self.lives[&key.life].begin;
            let known = self.lives[&key.life].last.get(&key.committer).copied().unwrap_or(0);
            let before = follows.insert(place, key.number);
            let wanted = before.or(Some(known).filter(|_| from <= begins)).map(|n| n + 1);
            if wanted.is_some_and(|wanted| key.number != wanted) {
                return Err(format!("{key:?} at {lsn}: number {wanted:?} is missing"));
            }
            extra.push((lsn, key));
        }
        match facts.next() {
            Some((at, fact)) => Err(lost(*at, fact)),
            None => Ok(extra),
        }
    }
}

impl Model {
    /// Nobody was told of the record: it can only be one that was on its way when its life ended.
    fn may_be(&self, lsn: u64, key: Key) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{key:?} at {lsn}, which nobody was told of, {what}"));
        let Some(life) = self.lives.get(&key.life) else {
            return wrong("is from a life that is over");
        };
        let known = life.last.get(&key.committer).copied().unwrap_or(0);
        if !(known + 1..=known + AHEAD_MAX).contains(&key.number) {
            return wrong(&format!("was not on its way: {known} were acknowledged"));
        }
        match (life.begin..life.end).contains(&lsn) {
            true => Ok(()),
            false => wrong(&format!("is not between {} and {}", life.begin, life.end)),
        }
    }
}

fn lost(lsn: u64, key: &Key) -> String {
    format!("LOST: {key:?} at {lsn} was acknowledged and is not there")
}
