//! The block size of the log: asked for, reported, or measured.
//!
//! A device may report 512-byte sectors and still work in 4,096 bytes: then each 512-byte block costs
//! it a read, and a fast device becomes slow. The reported size is not trusted here.

mod measure;
#[cfg(test)]
mod models;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, IoError, SharedEnv};

use self::measure::{Cost, cost_of_512};

/// 512 is as good as 4,096 if it takes at most this many times as long. It is then preferred, because
/// a small commit needs an eighth of the room.
const AS_GOOD: f64 = 1.03;
/// The time limit for measuring, all media together. A slow disk gets fewer measurements in it; each
/// medium gets at least 2 rounds of at most 42 writes and the writing of zeros, however long they
/// take.
const TIME: Duration = Duration::from_secs(2);

/// A block size and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// 512 or 4096.
    pub block_size: u32,
    /// The reason, in the words of v$log.
    pub reason: String,
    /// The result of measuring, where it was measured.
    pub measured: Option<String>,
    /// A warning for whoever asked for it.
    pub warning: Option<String>,
}

/// Chooses a block size for media whose files are new and may be overwritten. `need` of them must have
/// a block before it is acknowledged. The measured load is that of a log: consecutive blocks, one at a
/// time and with several units in flight.
///
/// # Errors
/// A write failed.
#[boxed]
pub async fn choose(
    env: &SharedEnv,
    wanted: Option<u32>,
    media: &[(String, Arc<dyn Device>)],
    need: usize,
) -> Result<Chosen, IoError> {
    let reported = media.iter().map(|(_, device)| device.geometry().logical_sector).max();
    let reported = reported.unwrap_or(4096);
    let asked = |block_size, warning| Chosen {
        block_size,
        reason: "asked for".into(),
        measured: None,
        warning,
    };
    match wanted {
        Some(block) if block >= 4096 || reported > block => return Ok(asked(block, None)),
        None if reported > 512 => {
            let reason = format!("reported {reported}");
            return Ok(Chosen { block_size: 4096, reason, measured: None, warning: None });
        }
        _ => {}
    }
    let time = TIME / u32::try_from(media.len()).unwrap_or(u32::MAX).max(1);
    let mut costs = Vec::new();
    for (_, device) in media {
        costs.push(cost_of_512(env, device, time).await?);
    }
    let compared = compare(&costs, need);
    let (told, dear) = (compared.words(), compared.is_dear());
    if let Some(block) = wanted {
        let name = media.get(compared.medium).map_or("", |(name, _)| name.as_str());
        let text = format!("on {name} {told} of 4096: 4096 would be faster there");
        return Ok(asked(block, dear.then_some(text)));
    }
    let block_size = if dear { 4096 } else { 512 };
    let reason = format!("measured: {told}");
    Ok(Chosen { block_size, reason, measured: Some(told), warning: None })
}

/// The cost of 512-byte blocks to a commit.
#[derive(Clone, Copy, Debug)]
struct Compared {
    /// The logarithm of how many times as long it takes as with 4,096.
    log: f64,
    /// The standard error of that.
    error: f64,
    /// The medium that a commit in 512-byte blocks waits for.
    medium: usize,
}

impl Compared {
    /// Whether 4,096 is faster, as far as the measurements show.
    fn is_dear(&self) -> bool {
        self.log > AS_GOOD.ln().max(self.error)
    }

    fn words(&self) -> String {
        let (cost, percent) = (self.log.exp(), 100.0 * self.error.exp_m1());
        let cost = match cost {
            cost if cost < 2.0 => format!("512 costs {cost:.2}x"),
            cost => format!("512 costs {cost:.1}x"),
        };
        match percent < 5.0 {
            true => cost,
            false => format!("{cost} +-{percent:.0} %"),
        }
    }
}

/// A commit waits for the `need`th medium to have it. Where that makes no difference the slowest
/// medium decides, because in the long run the log is no faster than it.
fn compare(costs: &[Cost], need: usize) -> Compared {
    let first = waited_for(costs, need);
    match first.is_dear() || first.log < -AS_GOOD.ln() {
        true => first,
        false => waited_for(costs, costs.len()),
    }
}

fn waited_for(costs: &[Cost], need: usize) -> Compared {
    let nth = |time: &dyn Fn(&Cost) -> f64| {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by(|a, b| time(&costs[*a]).total_cmp(&time(&costs[*b])));
        order.get(need.clamp(1, costs.len().max(1)) - 1).copied()
    };
    let (small, large) = (nth(&Cost::seconds_512), nth(&|cost| cost.seconds_4096));
    let (Some(small), Some(large)) = (small, large) else {
        return Compared { log: 0.0, error: 0.0, medium: 0 };
    };
    let [a, b] = [&costs[small], &costs[large]];
    let log = match small == large {
        true => a.log,
        false => a.log + (a.seconds_4096 / b.seconds_4096).ln(),
    };
    Compared { log, error: a.error.max(b.error), medium: small }
}
