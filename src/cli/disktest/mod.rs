//! `cellar disktest`: the latency of small durable writes to a device, and its true block size.

pub mod measure;
pub mod open;
pub mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Device, SharedEnv};
use measure::{Operation, Plan, Report};
use serde::Serialize;
use show::{How, Used};

use crate::cli::fault::Fault;
use crate::cli::output::{self, Format};
use crate::cli::progress::Progress;

/// Arguments of `disktest`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar disktest /mnt/f20                  a file of 256 MB there, then removed
  cellar disktest /dev/disk/by-id/X         reads only
  cellar disktest /dev/disk/by-id/X --erase S3YJ    writes: all on it is lost")]
pub struct Args {
    /// A directory, a file or a block device.
    pub path: PathBuf,
    /// Write to a file or block device, which loses what is on it: its serial number.
    #[arg(long, value_name = "SERIAL")]
    pub erase: Option<String>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Size of the file created in a directory.
pub const FILE_SIZE: u64 = 256 << 20;

/// The time for each size and depth.
const CELL: Duration = Duration::from_millis(400);

#[derive(Serialize)]
struct Json<'a> {
    device: &'a str,
    logical_sector: u32,
    physical_sector: u32,
    volatile_cache: bool,
    queue_depth: u32,
    /// The file system or device that keeps it in memory; nothing written there is durable.
    in_memory: Option<&'static str>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Measures an open device and prints the results.
///
/// # Errors
/// The first request that fails; a device too small to measure.
pub async fn run(
    device: &Arc<dyn Device>,
    env: &SharedEnv,
    used: &Used,
    format: Format,
) -> Result<(), Fault> {
    let geometry = device.geometry();
    let length = geometry.size.min(FILE_SIZE);
    if length < 1 << 20 {
        let message = format!("{} has {length} bytes; at least 1 MB is needed", geometry.name);
        let next = "name a directory: a file is made in it, and removed";
        return Err(Fault::failed(format!("CELLAR-70020: {message}\nNext: {next}")));
    }
    let operation = match used.how {
        How::OnlyRead => Operation::Read,
        How::OwnFile(_) | How::Erased => Operation::WriteFlush,
    };
    let plan = Plan { operation, length, cell: CELL };
    let progress = Progress::new("measured", 100, format == Format::Json);
    let report = measure::measure(device, env, &plan, |done, total| {
        progress.set((done * 100 / total.max(1)) as u64);
    })
    .await?;
    progress.finish();
    if format == Format::Json {
        return output::json(&Json {
            device: &geometry.name,
            logical_sector: geometry.logical_sector,
            physical_sector: geometry.physical_sector,
            volatile_cache: geometry.volatile_cache,
            queue_depth: geometry.queue_depth,
            in_memory: used.in_memory,
            report: &report,
        });
    }
    output::text(&show::report(&geometry, used, &report))
}
