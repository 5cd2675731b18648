//! The measurement of `disktest`: the latency of small durable writes, and the device's true block size.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Buffer, Device, DeviceExt, Durability, Io, IoError, SharedEnv};
use futures_util::future::try_join_all;
use serde::Serialize;

/// Request sizes that are tried, if the device accepts them.
pub const SIZES: [u32; 4] = [512, 4096, 8192, 65536];
/// Queue depths that are tried.
pub const DEPTHS: [u32; 4] = [1, 2, 4, 8];
/// Each cell of the table has at least this many requests, however slow.
const REQUESTS_MIN: usize = 8;

/// The kind of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A write followed by a flush: the cost of a commit.
    WriteFlush,
    /// A read; nothing is written.
    Read,
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of the requests.
    pub operation: Operation,
    /// Bytes of the device, from its start, that can be used.
    pub length: u64,
    /// Time for each size and depth.
    pub cell: Duration,
}

/// One size at one depth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Bytes of a request.
    pub size: u32,
    /// Requests in flight.
    pub depth: u32,
    /// Measured requests.
    pub requests: usize,
    /// The median latency.
    pub p50_us: f64,
    /// The 99th percentile of the latency.
    pub p99_us: f64,
    /// Requests a second.
    pub per_second: f64,
}

/// The results and the conclusions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The kind of the requests.
    pub operation: Operation,
    /// Every size at every depth.
    pub cells: Vec<Cell>,
    /// The size of a redo block that `log_block_size = auto` would choose here; none if nothing was
    /// written.
    pub redo_block: Option<u32>,
    /// The reason, in the words of v$log.
    pub redo_block_reason: Option<String>,
    /// The measurement behind it.
    #[serde(skip)]
    pub redo_block_measured: Option<String>,
    /// The time of 512 bytes at a random place, as a multiple of that of 4096; none if 512 is not legal.
    pub cost_of_512: Option<f64>,
}

impl Report {
    /// The cell of `size` at `depth`.
    pub fn cell(&self, size: u32, depth: u32) -> Option<&Cell> {
        self.cells.iter().find(|c| c.size == size && c.depth == depth)
    }
}

/// Measures every legal size at every depth.
///
/// # Errors
/// The first request that fails.
pub async fn measure(
    device: &Arc<dyn Device>,
    env: &SharedEnv,
    plan: &Plan,
    mut tell: impl FnMut(usize, usize),
) -> Result<Report, IoError> {
    let legal: Vec<u32> = SIZES
        .into_iter()
        .filter(|s| s.is_multiple_of(device.geometry().logical_sector))
        .filter(|s| u64::from(*s) * 2 <= plan.length)
        .collect();
    let total = legal.len() * DEPTHS.len();
    let mut cells = Vec::with_capacity(total);
    for depth in DEPTHS {
        for size in &legal {
            cells.push(measure_cell(device, env, plan, *size, depth).await?);
            tell(cells.len(), total);
        }
    }
    let mut report = Report {
        operation: plan.operation,
        cells,
        redo_block: None,
        redo_block_reason: None,
        redo_block_measured: None,
        cost_of_512: None,
    };
    let p50 = |size| report.cell(size, 1).map(|c| c.p50_us);
    report.cost_of_512 = p50(512).zip(p50(4096)).map(|(small, large)| small / large);
    if plan.operation != Operation::Read {
        // The database's own measurement: the table is for random places, and a log writes sequentially.
        let media = [(device.geometry().name.to_string(), Arc::clone(device))];
        let chosen = cellar_redo::block_size::choose(env, None, &media, 1).await?;
        report.redo_block = Some(chosen.block_size);
        report.redo_block_reason = Some(chosen.reason);
        report.redo_block_measured = chosen.measured;
    }
    Ok(report)
}

async fn measure_cell(
    device: &Arc<dyn Device>,
    env: &SharedEnv,
    plan: &Plan,
    size: u32,
    depth: u32,
) -> Result<Cell, IoError> {
    let start = env.now();
    let end = start.plus(plan.cell);
    let workers = (0..depth).map(|_| async {
        let mut latencies = Vec::new();
        while latencies.len() < REQUESTS_MIN || env.now() < end {
            let slots = plan.length / u64::from(size);
            let offset = env.random() % slots * u64::from(size);
            // Made before the clock runs.
            let data = Buffer::noise(size as usize, env.random()).freeze();
            let before = env.now();
            request(device, plan.operation, offset, data).await?;
            latencies.push(env.now().since(before));
        }
        Ok::<_, IoError>(latencies)
    });
    let mut latencies: Vec<Duration> = try_join_all(workers).await?.concat();
    let elapsed = env.now().since(start).as_secs_f64();
    latencies.sort_unstable();
    Ok(Cell {
        size,
        depth,
        requests: latencies.len(),
        p50_us: micros(quantile(&latencies, 0.5)),
        p99_us: micros(quantile(&latencies, 0.99)),
        per_second: latencies.len() as f64 / elapsed.max(1e-9),
    })
}

async fn request(
    device: &Arc<dyn Device>,
    operation: Operation,
    offset: u64,
    data: Bytes,
) -> Result<(), IoError> {
    match operation {
        Operation::WriteFlush => {
            device.write_at(Io::COMMIT, offset, data, Durability::Cached).await?;
            device.flush(Io::COMMIT).await
        }
        Operation::Read => device.read_at(Io::FOREGROUND, offset, data.len()).await.map(|_| ()),
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The `part` quantile of sorted values.
fn quantile(sorted: &[Duration], part: f64) -> Duration {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use cellar_io::{Discard, Env, Geometry, Instant, IoFuture, Task, WallTime};

    use super::*;

    /// A clock that only moves when the device works.
    #[derive(Default)]
    struct Clock(AtomicU64);

    impl Env for Clock {
        fn now(&self) -> Instant {
            Instant(self.0.load(Ordering::Relaxed))
        }
        fn wall(&self) -> WallTime {
            WallTime::default()
        }
        fn sleep_until(&self, _deadline: Instant) -> Task {
            Box::pin(async {})
        }
        fn spawn(&self, _name: &'static str, _task: Task) {
            unreachable!("nothing is spawned");
        }
        fn random(&self) -> u64 {
            self.0.load(Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 3
        }
    }

    /// Reports 512 and takes `of_512` microseconds for it, `of_4096` for more.
    struct Liar {
        clock: Arc<Clock>,
        sector: u32,
        of_512: u64,
        of_4096: u64,
    }

    impl Device for Liar {
        fn geometry(&self) -> Geometry {
            Geometry {
                name: "liar".into(),
                size: 1 << 20,
                logical_sector: self.sector,
                physical_sector: self.sector,
                transfer_max: 0,
                queue_depth: 0,
                volatile_cache: true,
                fast_zero: false,
            }
        }
        fn read(&self, _: Io, _: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
            self.clock.0.fetch_add(50_000, Ordering::Relaxed);
            Box::pin(async move { Ok(buffers) })
        }
        fn write(&self, _: Io, at: u64, data: Vec<Bytes>, _: Durability) -> IoFuture<'_, ()> {
            let length: usize = data.iter().map(Bytes::len).sum();
            assert!(at + length as u64 <= 1 << 20, "inside the device");
            let micros = if length < 4096 { self.of_512 } else { self.of_4096 };
            self.clock.0.fetch_add(micros * 1000, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        }
        fn flush(&self, _: Io) -> IoFuture<'_, ()> {
            Box::pin(async { Ok(()) })
        }
        fn discard(&self, _: Io, _: u64, _: u64, _: Discard) -> IoFuture<'_, ()> {
            Box::pin(async { Ok(()) })
        }
    }

    fn run(sector: u32, of_512: u64, of_4096: u64, operation: Operation) -> Report {
        let clock = Arc::new(Clock::default());
        let env: SharedEnv = Arc::clone(&clock) as SharedEnv;
        let device: Arc<dyn Device> = Arc::new(Liar { clock, sector, of_512, of_4096 });
        let plan = Plan { operation, length: 1 << 20, cell: Duration::from_millis(20) };
        futures_util::FutureExt::now_or_never(measure(&device, &env, &plan, |_, _| {}))
            .expect("nothing is waited for")
            .expect("the device does not fail")
    }

    #[test]
    fn a_device_that_lies_is_found_out() {
        let report = run(512, 412, 96, Operation::WriteFlush);
        assert_eq!(report.redo_block, Some(4096));
        assert_eq!(report.redo_block_reason.as_deref(), Some("measured: 512 costs 4.3x"));
        assert!((report.cost_of_512.unwrap() - 4.29).abs() < 0.01);
        let cell = report.cell(4096, 1).unwrap();
        assert_eq!((cell.p50_us, cell.p99_us), (96.0, 96.0));
        assert!((cell.per_second - 1e6 / 96.0).abs() < 1.0);
        assert_eq!(report.cells.len(), 16);
    }

    #[test]
    fn an_honest_512_is_taken_and_a_4096_disk_has_no_choice() {
        assert_eq!(run(512, 90, 96, Operation::WriteFlush).redo_block, Some(512));
        let report = run(4096, 1, 96, Operation::WriteFlush);
        assert_eq!((report.redo_block, report.cost_of_512), (Some(4096), None));
        assert!(report.cell(512, 1).is_none());
        assert_eq!(run(512, 1, 1, Operation::Read).redo_block, None);
    }
}
