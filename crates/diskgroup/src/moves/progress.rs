//! Progress of a rebalance, pass by pass.

use std::time::Duration;

use cellar_io::Instant;

use crate::error::Error;
use crate::moves::meter::Meter;
use crate::space::plan::Move;

/// A part of a rebalance: they are done in this order, the last of one beside the first of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The contents of a lost disk are recreated from the other copies.
    Rebuild,
    /// Extents move to where they belong.
    Rebalance,
}

impl Pass {
    const ALL: [Pass; 2] = [Pass::Rebuild, Pass::Rebalance];

    /// The pass that a move belongs to.
    pub(crate) fn of(step: &Move) -> Pass {
        match step.from {
            None => Pass::Rebuild,
            Some(_) => Pass::Rebalance,
        }
    }

    /// As PASS of v$asm_operation shows it.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Rebuild => "REBUILD",
            Pass::Rebalance => "REBALANCE",
        }
    }
}

/// A rebalance under way, for v$asm_operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// The power that was asked for; 0 is a rebalance that was stopped.
    pub power: u32,
    /// AUs in flight.
    pub actual: u32,
    /// AUs moved.
    pub done: u64,
    /// AUs to be moved in all.
    pub total: u64,
    /// AUs moved a minute, over the last while.
    pub rate: u64,
    /// How long the rest will take at that rate.
    pub left: Option<Duration>,
    /// The completed part of the copies under way: in AUs, less than are in flight.
    pub part: f64,
    /// Its passes that have anything to move; none before it is planned.
    pub passes: Vec<PassProgress>,
    /// Why it does not go on, if it does not.
    pub error: Option<String>,
}

/// How far one pass is.
#[derive(Clone, Debug, PartialEq)]
pub struct PassProgress {
    /// The pass.
    pub pass: Pass,
    /// AUs in flight.
    pub actual: u32,
    /// AUs moved.
    pub done: u64,
    /// AUs to be moved in all.
    pub total: u64,
    /// Bytes that are still to be copied.
    pub bytes_left: u64,
    /// How long that will take at the rate of now.
    pub left: Option<Duration>,
}

impl PassProgress {
    /// Whether nothing of it is left.
    pub fn is_done(&self) -> bool {
        self.done >= self.total
    }

    /// Whether anything of it was begun.
    pub fn is_begun(&self) -> bool {
        self.actual > 0 || self.done > 0
    }
}

/// What was moved, and what is to be moved.
#[derive(Default)]
pub(super) struct Progress {
    passes: [Counts; 2],
    pub(super) meter: Option<Meter>,
    /// The request number for which a stopped rebalance was planned.
    pub(super) told_for: Option<u64>,
    pub(super) error: Option<Error>,
}

/// AUs of one pass.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) done: u64,
    pub(super) total: u64,
    pub(super) in_flight: u32,
    /// Bytes copied of moves that are on their way.
    pub(super) part: u64,
}

impl Counts {
    fn bytes(self, au_size: u64) -> u64 {
        self.done * au_size + self.part
    }
}

impl Progress {
    pub(super) fn of(&mut self, pass: Pass) -> &mut Counts {
        match pass {
            Pass::Rebuild => &mut self.passes[0],
            Pass::Rebalance => &mut self.passes[1],
        }
    }

    /// There is a new plan of what is left.
    pub(super) fn plan(&mut self, moves: &[Move]) {
        for counts in &mut self.passes {
            counts.total = counts.done;
        }
        for step in moves {
            self.of(Pass::of(step)).total += 1;
        }
    }

    /// A move has ended, of which so many bytes were told.
    pub(super) fn end(&mut self, pass: Pass, told: u64, moved: bool, au_size: u64, now: Instant) {
        let counts = self.of(pass);
        counts.part -= told;
        counts.done += u64::from(moved);
        let bytes = self.bytes(au_size);
        if let Some(meter) = self.meter.as_mut().filter(|_| moved) {
            meter.moved(now, bytes);
        }
    }

    /// Bytes moved, those of moves on their way among them.
    pub(super) fn bytes(&self, au_size: u64) -> u64 {
        self.passes.iter().map(|counts| counts.bytes(au_size)).sum()
    }

    /// Bytes a second of late, if that is known of `power`.
    pub(super) fn rate(&self, au_size: u64, power: u32, now: Instant) -> Option<f64> {
        self.meter.filter(|meter| meter.power == power)?.rate(now, self.bytes(au_size))
    }

    /// As everybody may see it.
    pub(super) fn operation(&self, power: u32, au_size: u64, now: Instant) -> Operation {
        let rate = self.rate(au_size, power, now);
        let takes = |bytes: u64| Some(Duration::from_secs_f64(bytes as f64 / rate?));
        let passes = Pass::ALL.into_iter().zip(self.passes).filter(|(_, counts)| counts.total > 0);
        let passes: Vec<PassProgress> = passes
            .map(|(pass, counts)| {
                let total = counts.total.max(counts.done);
                let bytes_left = (total * au_size).saturating_sub(counts.bytes(au_size));
                PassProgress {
                    pass,
                    actual: counts.in_flight,
                    done: counts.done,
                    total,
                    bytes_left,
                    left: takes(bytes_left),
                }
            })
            .collect();
        Operation {
            power,
            actual: passes.iter().map(|pass| pass.actual).sum(),
            done: passes.iter().map(|pass| pass.done).sum(),
            total: passes.iter().map(|pass| pass.total).sum(),
            rate: rate.map_or(0, |rate| (rate * 60.0 / au_size as f64).round() as u64),
            left: takes(passes.iter().map(|pass| pass.bytes_left).sum()),
            part: self.passes.iter().map(|counts| counts.part).sum::<u64>() as f64 / au_size as f64,
            passes,
            error: self.error.as_ref().map(ToString::to_string),
        }
    }
}
