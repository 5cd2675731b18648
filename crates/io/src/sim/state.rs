//! The state of a simulated disk, with its write cache, and the effect of each request on it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::task::Waker;

use bytes::Bytes;

use super::disk::SimDiskOptions;
use super::fault::{Faults, WriteDamage};
use super::image::{Entry, Fate, Image, Payload};
use super::rng::Rng;
use crate::buffer::Buffer;
use crate::device::{Discard, Geometry};
use crate::error::{IoError, IoErrorKind, Op};

/// What a request asks.
#[derive(Debug)]
pub(super) enum Kind {
    Read,
    Write { durable: bool },
    Flush { upto: u64 },
    Discard { how: Discard, length: u64 },
}

impl Kind {
    pub(super) fn op(&self) -> Op {
        match self {
            Kind::Read => Op::Read,
            Kind::Write { .. } => Op::Write,
            Kind::Flush { .. } => Op::Flush,
            Kind::Discard { .. } => Op::Discard,
        }
    }
}

/// Where a write ends up.
pub(super) enum Place {
    Right,
    Lost,
    Elsewhere(u64),
}

/// A request that the disk has.
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) buffers: Vec<Buffer>,
    pub(super) data: Vec<Bytes>,
    pub(super) place: Place,
    /// Sectors of this write that a concurrent read has already seen.
    pub(super) early: Vec<u64>,
    pub(super) waker: Option<Waker>,
    pub(super) abandoned: bool,
    pub(super) answered: bool,
    pub(super) result: Option<Result<Vec<Buffer>, IoError>>,
}

/// All of a disk that changes.
pub(super) struct State {
    pub(super) geometry: Geometry,
    pub(super) options: SimDiskOptions,
    pub(super) rng: Rng,
    /// What a read sees: always `durable` with `pending` applied in order.
    pub(super) live: Image,
    /// What no power cut takes.
    pub(super) durable: Image,
    pub(super) pending: VecDeque<Entry>,
    pub(super) pending_bytes: u64,
    pub(super) next_seq: u64,
    pub(super) requests: BTreeMap<u64, Request>,
    pub(super) next_request: u64,
    pub(super) waiting: VecDeque<u64>,
    pub(super) working: u32,
    pub(super) hung: Vec<u64>,
    pub(super) faults: Faults,
    pub(super) tears: bool,
    pub(super) torn: u64,
    pub(super) disorder: [u64; 2],
    pub(super) damages: Vec<WriteDamage>,
    pub(super) wrong_answers: u64,
}

impl State {
    pub(super) fn new(geometry: Geometry, options: SimDiskOptions, rng: Rng) -> State {
        State {
            geometry,
            options,
            rng,
            live: Image::default(),
            durable: Image::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            next_seq: 0,
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: VecDeque::new(),
            working: 0,
            hung: Vec::new(),
            faults: Faults::default(),
            tears: false,
            torn: 0,
            disorder: [0; 2],
            damages: Vec::new(),
            wrong_answers: 0,
        }
    }

    /// Bytes of completed writes that a power cut may still take.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        let volatile = self.pending.iter().filter(|entry| !entry.durable);
        volatile.map(|entry| entry.payload.length()).sum()
    }

    /// Does a request, at the moment of its answer.
    pub(super) fn execute(&mut self, request: &mut Request) -> Result<Vec<Buffer>, IoError> {
        let range = request.offset..request.offset + request.length;
        let fault = self.faults.verdict(request.kind.op(), &range);
        let error = fault.map(|kind| {
            let op = request.kind.op();
            let (offset, length) = (request.offset, request.length);
            IoError::new(kind, &self.geometry.name, op, offset, length)
        });
        match &request.kind {
            Kind::Read => {
                if error.is_none() {
                    self.read(request);
                }
            }
            Kind::Write { durable } => {
                let durable = *durable && !self.faults.lying();
                match &error {
                    None => self.write(request, durable),
                    Some(error) if error.kind == IoErrorKind::Media => self.write_badly(request),
                    Some(error) if error.kind == IoErrorKind::NoSpace => self.write_short(request),
                    Some(_) => {}
                }
            }
            Kind::Flush { upto } => {
                if error.is_none() && !self.faults.lying() {
                    self.settle(*upto);
                }
            }
            Kind::Discard { how, length } => {
                if error.is_none() {
                    self.discard(*how, request.offset, *length);
                }
            }
        }
        let buffers = std::mem::take(&mut request.buffers);
        error.map_or(Ok(buffers), Err)
    }

    fn read(&mut self, request: &mut Request) {
        self.show_some_in_flight(request.offset..request.offset + request.length);
        let elsewhere = self.faults.take_next_read();
        let mut at = elsewhere.unwrap_or(request.offset);
        for buffer in &mut request.buffers {
            self.live.read(at, buffer);
            at += buffer.len() as u64;
        }
        if elsewhere.is_some() {
            let mut right = vec![0; request.length as usize];
            self.live.read(request.offset, &mut right);
            let answer = request.buffers.iter().flat_map(|b| b.iter());
            self.wrong_answers += u64::from(!right.iter().eq(answer));
        }
    }

    /// A read may see the new content of a write that has not completed. Once seen, it is there.
    fn show_some_in_flight(&mut self, range: Range<u64>) {
        let sector = u64::from(self.geometry.logical_sector);
        let mut shown = Vec::new();
        for request in self.requests.values_mut() {
            let overlaps =
                request.offset < range.end && range.start < request.offset + request.length;
            let (Kind::Write { durable }, Place::Right, false, true) =
                (&request.kind, &request.place, request.answered, overlaps)
            else {
                continue;
            };
            let durable = *durable;
            let payload = Payload::Data(request.data.clone());
            payload.for_each_sector(request.offset, sector, |at, bytes| {
                if range.contains(&at) && !request.early.contains(&at) && self.rng.coin() {
                    request.early.push(at);
                    shown.push((at, bytes, durable));
                }
            });
        }
        for (at, bytes, durable) in shown {
            self.store(at, Payload::one(bytes), durable);
        }
    }

    fn write(&mut self, request: &mut Request, durable: bool) {
        let payload = Payload::Data(std::mem::take(&mut request.data));
        let offset = match request.place {
            Place::Right => request.offset,
            Place::Lost => return self.injure(request.offset, &payload, None),
            Place::Elsewhere(to) => {
                self.injure(request.offset, &payload, Some(to));
                to
            }
        };
        self.faults.written(&(request.offset..request.offset + request.length));
        if request.early.is_empty() {
            self.store(offset, payload, durable);
        } else {
            let sector = u64::from(self.geometry.logical_sector);
            payload.for_each_sector(offset, sector, |at, bytes| {
                if !request.early.contains(&at) {
                    self.store(at, Payload::one(bytes), durable);
                }
            });
        }
    }

    /// A write that failed has stored any of its sectors, or none.
    fn write_badly(&mut self, request: &mut Request) {
        let sector = u64::from(self.geometry.logical_sector);
        let payload = Payload::Data(std::mem::take(&mut request.data));
        payload.for_each_sector(request.offset, sector, |at, bytes| {
            if self.rng.coin() {
                self.store(at, Payload::one(bytes), false);
            }
        });
    }

    /// Notes what a write that is not stored where it belongs leaves wrong, there and at `to`.
    fn injure(&mut self, offset: u64, payload: &Payload, to: Option<u64>) {
        let mut should = vec![0; payload.length() as usize];
        let mut at = 0;
        payload.for_each_sector(0, u64::from(self.geometry.logical_sector), |_, bytes| {
            should[at..at + bytes.len()].copy_from_slice(&bytes);
            at += bytes.len();
        });
        let here = |offset: u64| {
            let mut bytes = vec![0; payload.length() as usize];
            self.live.read(offset, &mut bytes);
            Bytes::from(bytes)
        };
        let should = Bytes::from(should);
        let mut found = vec![(offset, should.clone(), here(offset))];
        found.extend(to.map(|to| (to, here(to), should)));
        let misdirected = to.is_some();
        let damage = |(offset, should, is)| WriteDamage { offset, should, is, misdirected };
        self.damages.extend(found.into_iter().map(damage));
    }

    /// A write for which there is no room has stored its beginning.
    fn write_short(&mut self, request: &mut Request) {
        let sector = u64::from(self.geometry.logical_sector);
        let stored = self.rng.within(0..=request.length / sector) * sector;
        let end = request.offset + stored;
        let payload = Payload::Data(std::mem::take(&mut request.data));
        payload.for_each_sector(request.offset, sector, |at, bytes| {
            if at < end {
                self.store(at, Payload::one(bytes), false);
            }
        });
    }

    /// What a power cut does to sectors that were just being written: the left or right part is new,
    /// and the rest is old, or rubbish.
    fn torn_by(&mut self, entries: &[Entry]) -> Vec<(u64, Bytes)> {
        let sector = u64::from(self.geometry.logical_sector);
        let mut torn = Vec::new();
        for entry in entries.iter().rev().take(4).filter(|entry| !entry.durable) {
            let sectors = entry.payload.length() / sector;
            if !self.rng.coin() || sectors == 0 || matches!(entry.payload, Payload::Zeros(_)) {
                continue;
            }
            let at = entry.offset + self.rng.below(sectors) * sector;
            let covers = |e: &Entry| e.offset <= at && at < e.offset + e.payload.length();
            let mut new = Bytes::new();
            entry.payload.for_each_sector(entry.offset, sector, |place, bytes| {
                if place == at {
                    new = bytes;
                }
            });
            let mut held = vec![0; sector as usize];
            self.durable.read(at, &mut held);
            if entries.iter().any(|e| e.durable && covers(e)) {
                continue;
            }
            if self.rng.coin() {
                self.rng.fill(&mut held);
            }
            let cut = self.rng.within(1..=sector - 1) as usize;
            let part = if self.rng.coin() { 0..cut } else { cut..sector as usize };
            held[part.clone()].copy_from_slice(&new[part]);
            torn.push((at, Bytes::from(held)));
        }
        torn
    }

    fn discard(&mut self, how: Discard, offset: u64, length: u64) {
        match how {
            Discard::Zero => self.store(offset, Payload::Zeros(length), false),
            // Anything may be there afterwards: what was, zeros, or rubbish.
            Discard::Forget => match self.rng.below(3) {
                0 => {}
                1 => self.store(offset, Payload::Zeros(length), false),
                _ => self.rubbish(offset, length),
            },
        }
    }

    fn rubbish(&mut self, offset: u64, length: u64) {
        let mut rubbish = vec![0u8; 4096];
        self.rng.fill(&mut rubbish);
        let rubbish = Bytes::from(rubbish);
        for block in self.live.present(offset, length) {
            let start = (block * 4096).max(offset);
            let end = (block * 4096 + 4096).min(offset + length);
            let bytes = rubbish.slice(..(end - start) as usize);
            self.store(start, Payload::one(bytes), false);
        }
    }

    /// Makes `payload` what reads see, and durable at once, or at a flush.
    pub(super) fn store(&mut self, offset: u64, payload: Payload, durable: bool) {
        payload.apply(&mut self.live, offset);
        let entry = Entry {
            seq: self.next_seq,
            offset,
            durable: durable || !self.options.volatile_cache,
            payload,
        };
        self.next_seq += 1;
        self.pending_bytes += entry.payload.length();
        self.pending.push_back(entry);
        while let Some(first) = self.pending.front()
            && (first.durable || self.pending_bytes > self.options.cache_bytes)
        {
            self.settle_first();
        }
    }

    /// Makes durable what was stored before `upto`.
    fn settle(&mut self, upto: u64) {
        while self.pending.front().is_some_and(|entry| entry.seq < upto) {
            self.settle_first();
        }
        while self.pending.front().is_some_and(|entry| entry.durable) {
            self.settle_first();
        }
    }

    fn settle_first(&mut self) {
        if let Some(entry) = self.pending.pop_front() {
            self.pending_bytes -= entry.payload.length();
            entry.payload.apply(&mut self.durable, entry.offset);
        }
    }

    /// What the worst power cut leaves: `durable`, and what is durable but waits for its turn.
    pub(super) fn worst(&self) -> Image {
        let mut image = self.durable.clone();
        for entry in self.pending.iter().filter(|entry| entry.durable) {
            entry.payload.apply(&mut image, entry.offset);
        }
        image
    }

    /// Replaces everything: the content of another time, or of another disk.
    pub(super) fn replace(&mut self, image: &Image) {
        self.pending.clear();
        self.pending_bytes = 0;
        self.live = image.clone();
        self.durable = image.clone();
    }

    pub(super) fn power_cut(&mut self) {
        let sector = u64::from(self.geometry.logical_sector);
        let mut entries: Vec<Entry> = self.pending.drain(..).collect();
        let in_flight = std::mem::take(&mut self.requests);
        for request in in_flight.into_values().filter(|r| !r.answered) {
            entries.extend(request.into_entries(sector));
        }
        self.waiting.clear();
        self.hung.clear();
        self.working = 0;
        self.survive(&entries);
    }

    /// What is stored and not flushed survives or not.
    pub(super) fn lose_cache(&mut self) {
        let entries: Vec<Entry> = self.pending.drain(..).collect();
        self.survive(&entries);
    }

    fn survive(&mut self, entries: &[Entry]) {
        let sector = u64::from(self.geometry.logical_sector);
        self.pending_bytes = 0;
        if entries.is_empty() {
            return;
        }
        let tears = self.tears && self.rng.coin();
        let torn = if tears { self.torn_by(entries) } else { Vec::new() };
        let fate = Fate::draw(&mut self.rng, entries.len() as u64);
        for (index, entry) in entries.iter().enumerate() {
            let image = &mut self.durable;
            fate.apply(&mut self.rng, index as u64, image, entry, sector);
        }
        for (at, bytes) in torn {
            self.durable.write(at, &bytes);
            self.torn += 1;
        }
        for entry in entries {
            let length = entry.payload.length();
            self.live.revert(&self.durable, entry.offset, length);
        }
    }
}

impl Request {
    pub(super) fn new(kind: Kind, offset: u64) -> Request {
        Request {
            kind,
            offset,
            length: 0,
            buffers: Vec::new(),
            data: Vec::new(),
            place: Place::Right,
            early: Vec::new(),
            waker: None,
            abandoned: false,
            answered: false,
            result: None,
        }
    }

    /// What a power cut may find of a request that was not answered.
    pub(super) fn into_entries(self, sector: u64) -> Vec<Entry> {
        let offset = match self.place {
            Place::Right => self.offset,
            Place::Lost => return Vec::new(),
            Place::Elsewhere(to) => to,
        };
        let entry = |offset, payload| Entry { seq: u64::MAX, offset, payload, durable: false };
        match self.kind {
            Kind::Write { .. } if self.early.is_empty() => {
                vec![entry(offset, Payload::Data(self.data))]
            }
            Kind::Write { .. } => {
                let mut entries = Vec::new();
                Payload::Data(self.data).for_each_sector(offset, sector, |at, bytes| {
                    if !self.early.contains(&at) {
                        entries.push(entry(at, Payload::one(bytes)));
                    }
                });
                entries
            }
            Kind::Discard { length, .. } => vec![entry(offset, Payload::Zeros(length))],
            Kind::Read | Kind::Flush { .. } => Vec::new(),
        }
    }
}

impl Faults {
    /// Where the next write goes.
    pub(super) fn place(&mut self) -> Place {
        match self.take_next_write() {
            None => Place::Right,
            Some(None) => Place::Lost,
            Some(Some(to)) => Place::Elsewhere(to),
        }
    }
}
