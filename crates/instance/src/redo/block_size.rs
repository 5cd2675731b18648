//! The size of a block of the log: asked for, reported, or measured.
//!
//! A device may say that its sectors have 512 bytes and work in 4,096 all the same: then each block of
//! 512 costs it a read, and what is fast becomes slow. What a device says is not believed here.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Buffer, Device, DeviceExt, Durability, Io, IoError, SharedEnv};

/// Writes of each size on each medium. One in each turn, so that what disturbs disturbs both.
const WRITES: u64 = 48;
/// 512 is as good as 4,096 if it takes no longer than so many times as long.
const AS_GOOD: f64 = 1.1;
/// The two sizes have places of their own, as large as this.
const SPAN: u64 = WRITES * 4096;

/// A block size and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// 512 or 4096.
    pub block_size: u32,
    /// As v$log says it.
    pub reason: String,
    /// What whoever asked for it should know.
    pub warning: Option<String>,
}

/// Chooses for media whose files are new and may be written over.
///
/// # Errors
/// A write failed.
pub async fn choose(
    env: &SharedEnv,
    wanted: Option<u32>,
    media: &[(String, Arc<dyn Device>)],
) -> Result<Chosen, IoError> {
    let reported = media.iter().map(|(_, device)| device.geometry().logical_sector).max();
    let reported = reported.unwrap_or(4096);
    let asked = |block_size, warning| Chosen { block_size, reason: "asked for".into(), warning };
    match wanted {
        Some(block) if block >= 4096 || reported > block => return Ok(asked(block, None)),
        None if reported > 512 => {
            let reason = format!("reported {reported}");
            return Ok(Chosen { block_size: 4096, reason, warning: None });
        }
        _ => {}
    }
    let mut costs = Vec::new();
    for (name, device) in media {
        costs.push((name.as_str(), cost_of_512(env, device).await?));
    }
    let dearest = costs.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let (name, cost) = dearest.unwrap_or(("", 1.0));
    let (told, dear) = (format!("512 costs {cost:.1}x"), cost > AS_GOOD);
    if let Some(block) = wanted {
        let text = format!("on {name} {told} of 4096: 4096 would be faster there");
        return Ok(asked(block, dear.then_some(text)));
    }
    let block_size = if dear { 4096 } else { 512 };
    Ok(Chosen { block_size, reason: format!("measured: {told}"), warning: None })
}

/// How many times as long a durable write of 512 bytes takes as one of 4,096.
async fn cost_of_512(env: &SharedEnv, device: &Arc<dyn Device>) -> Result<f64, IoError> {
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..WRITES {
        for (size, times) in [512u64, 4096].into_iter().zip(&mut times) {
            // One behind the other, as a log is written; never twice the same place.
            let at = if size == 512 { turn * 512 } else { SPAN + turn * 4096 };
            let mut data = Buffer::zeroed(size as usize);
            data.fill(turn as u8 ^ 0xA5);
            let began = env.now();
            device.write_at(Io::COMMIT, at, data.freeze(), Durability::Durable).await?;
            times.push(env.now().since(began));
        }
    }
    // What was measured with must not be taken for blocks of the log.
    device
        .write_at(Io::COMMIT, 0, Buffer::zeroed(2 * SPAN as usize).freeze(), Durability::Durable)
        .await?;
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    };
    let [small, large] = &mut times;
    let (small, large) = (median(small), median(large));
    Ok(if large > 0.0 { small / large } else { 1.0 })
}
