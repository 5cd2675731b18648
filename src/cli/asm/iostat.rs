//! iostat: the I/O of the disks of groups, and of the underlying devices.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use cellar_io::EnvExt;
use cellar_io::sched::{DiskStats, OpStats};

use super::super::database::{Database, Place};
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::table::{Cell, Table};
use super::{Show, chosen};

/// Arguments of `iostat`.
#[derive(Debug, clap::Args)]
pub struct Iostat {
    /// Also seconds spent.
    #[arg(short = 't')]
    times: bool,
    /// Also errors.
    #[arg(short = 'e')]
    errors: bool,
    /// Requests instead of bytes.
    #[arg(long)]
    io: bool,
    /// Sizes of requests as we sent them, and as the device got them.
    #[arg(long, conflicts_with_all = ["times", "errors", "io"])]
    sizes: bool,
    /// Only of this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// Repeat every so many seconds, with what was done since; until ^C.
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    interval: Option<u64>,
}

/// Without an interval, `--sizes` watches the devices for this long.
const WATCH: Duration = Duration::from_secs(1);

/// Runs `iostat`.
pub async fn run(
    args: &Iostat,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let mut before: Option<Vec<Seen>> = None;
    let pause = args.interval.map(Duration::from_secs);
    if args.sizes {
        before = Some(look(args, database)?);
        if !wait(place, pause.unwrap_or(WATCH)).await {
            return Ok(());
        }
    }
    loop {
        let now = look(args, database)?;
        match args.sizes {
            true => sizes(&now, before.as_deref().unwrap_or_default(), pause.is_some(), show)?,
            false => {
                let base = before.as_deref().unwrap_or_default();
                counts(args, &now, base).print(show.format, show.header)?;
            }
        }
        let Some(pause) = pause else { return Ok(()) };
        before = Some(now);
        if show.format == Format::Table && show.header {
            output::text("\n")?;
        }
        if !wait(place, pause).await {
            return Ok(());
        }
    }
}

/// Waits; false if the user asks to stop, so that the groups are dismounted cleanly.
async fn wait(place: &Place, pause: Duration) -> bool {
    // When serving another process, ^C is not for us: the command ends when its output fails.
    if output::is_remote() {
        place.env.sleep(pause).await;
        return true;
    }
    tokio::select! {
        () = place.env.sleep(pause) => true,
        _ = tokio::signal::ctrl_c() => false,
    }
}

/// A disk's counters at one moment.
struct Seen {
    group: String,
    disk: String,
    counters: BTreeMap<&'static str, u64>,
    sent: Option<DiskStats>,
    device: Option<DeviceCounts>,
}

fn look(args: &Iostat, database: &Database) -> Result<Vec<Seen>, Fault> {
    let mut all = Vec::new();
    for mounted in chosen(database, args.group.as_deref())? {
        for disk in mounted.group.disks() {
            let open = disk.path.as_deref().and_then(|path| mounted.disks.find(path));
            all.push(Seen {
                group: mounted.group.name().to_owned(),
                disk: disk.name,
                counters: disk.counters,
                sent: open.as_ref().map(|o| o.scheduled.stats()),
                device: open.and_then(|o| DeviceCounts::of(&o.path)),
            });
        }
    }
    Ok(all)
}

/// The earlier counters of the same disk.
fn earlier<'a>(before: &'a [Seen], now: &Seen) -> Option<&'a Seen> {
    before.iter().find(|b| b.group == now.group && b.disk == now.disk)
}

fn counts(args: &Iostat, now: &[Seen], before: &[Seen]) -> Table {
    let mut columns = vec!["Group_Name", "Dsk_Name", "Reads", "Writes"];
    columns.extend(args.errors.then_some(["Read_Err", "Write_Err"]).into_iter().flatten());
    columns.extend(args.times.then_some(["Read_Time", "Write_Time"]).into_iter().flatten());
    let mut table = Table::new(&columns);
    for seen in now {
        let old = earlier(before, seen);
        let delta = |name: &str| {
            let base = old.and_then(|o| o.counters.get(name)).copied().unwrap_or(0);
            seen.counters.get(name).map(|value| value.saturating_sub(base))
        };
        let seconds = |name: &str| Cell::from(delta(name).map(|ns| ns as f64 / 1e9));
        let what = if args.io { ["reads", "writes"] } else { ["bytes_read", "bytes_written"] };
        let mut row: Vec<Cell> = vec![seen.group.as_str().into(), seen.disk.as_str().into()];
        row.extend(what.map(|name| Cell::from(delta(name))));
        if args.errors {
            row.extend(["read_errs", "write_errs"].map(|name| Cell::from(delta(name))));
        }
        if args.times {
            row.extend(["read_ns", "write_ns"].map(seconds));
        }
        table.push(row);
    }
    table
}

/// Histogram of the requests since the mount (or since `before`, with an interval), and mean
/// sizes above and below the kernel between the two samples.
fn sizes(now: &[Seen], before: &[Seen], since: bool, show: Show) -> Result<(), Fault> {
    let mut sent = Table::new(&["Group_Name", "Dsk_Name", "Op", "From_KB", "Requests"]);
    let columns = ["Group_Name", "Dsk_Name", "Op", "Sent_KB", "Device_got_KB", "Device_max_KB"];
    let mut split = Table::new(&columns);
    for seen in now {
        let old = earlier(before, seen);
        let Some(stats) = &seen.sent else { continue };
        let base = old.and_then(|o| o.sent.as_ref());
        let below = seen.device.zip(old.and_then(|o| o.device));
        for (op, pick, at) in
            [("read", reads as fn(&DiskStats) -> &OpStats, 0), ("write", writes, 1)]
        {
            let base = base.map(pick);
            for (power, count) in histogram(pick(stats), base.filter(|_| since)) {
                let row = [seen.group.as_str(), seen.disk.as_str(), op].map(Cell::from);
                let mut row = row.to_vec();
                row.extend([Cell::from(kilobytes(power)), count.into()]);
                sent.push(row);
            }
            let got = below.and_then(|(new, old)| mean(new.ops[at], old.ops[at]));
            let new = (pick(stats).requests, pick(stats).bytes);
            let old = base.map(|o| (o.requests, o.bytes)).unwrap_or_default();
            let row = [seen.group.as_str(), seen.disk.as_str(), op].map(Cell::from);
            let mut row = row.to_vec();
            row.push(mean(new, old).into());
            row.push(got.into());
            row.push(seen.device.and_then(|d| d.max_kb).into());
            split.push(row);
        }
    }
    if show.format == Format::Json {
        return output::json(&serde_json::json!({ "sent": sent.json(), "split": split.json() }));
    }
    let period = if since { "in the interval" } else { "since the mount" };
    output::text(&format!("Sent to each disk {period}, by size\n{}", sent.text(show.header)))?;
    let watched = if since { "the interval" } else { "one second" };
    output::text(&format!(
        "\nMean size of a request in {watched}: as we sent it, as the device below got it\n\
         (all that use the device are counted there; less than sent: it was split)\n{}",
        split.text(show.header)
    ))
}

fn reads(stats: &DiskStats) -> &OpStats {
    &stats.read
}

fn writes(stats: &DiskStats) -> &OpStats {
    &stats.write
}

/// Powers of two with requests of at least that size.
fn histogram(now: &OpStats, base: Option<&OpStats>) -> Vec<(usize, u64)> {
    let all = now.sizes.iter().enumerate();
    all.map(|(i, count)| (i, count.saturating_sub(base.map_or(0, |b| b.sizes[i]))))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// 2^power bytes in KB: `0.5`, `4`, `1024`.
fn kilobytes(power: usize) -> String {
    match power {
        10.. => (1u128 << (power - 10)).to_string(),
        _ => format!("{}", (1u64 << power) as f64 / 1024.0),
    }
}

/// KB per request between two samples of requests and bytes; none without requests.
fn mean(new: (u64, u64), old: (u64, u64)) -> Option<f64> {
    let requests = new.0.saturating_sub(old.0);
    let bytes = new.1.saturating_sub(old.1);
    (requests > 0).then(|| bytes as f64 / 1024.0 / requests as f64)
}

/// The kernel's counters of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeviceCounts {
    /// Requests and bytes, of reads and of writes.
    ops: [(u64, u64); 2],
    /// The largest request the kernel sends it.
    max_kb: Option<u64>,
}

impl DeviceCounts {
    /// For the block device at `path`, or the one below the file there.
    fn of(path: &Path) -> Option<DeviceCounts> {
        let metadata = std::fs::metadata(path).ok()?;
        let number = match metadata.file_type().is_block_device() {
            true => metadata.rdev(),
            false => metadata.dev(),
        };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
        let ops = parse_stat(&std::fs::read_to_string(folder.join("stat")).ok()?)?;
        // A partition's limits are those of its disk.
        let max_kb = ["queue", "../queue"].iter().find_map(|queue| {
            let file = folder.join(queue).join("max_sectors_kb");
            std::fs::read_to_string(file).ok()?.trim().parse().ok()
        });
        Some(DeviceCounts { ops, max_kb })
    }
}

/// Reads /sys/dev/block/M:m/stat: reads, merged, sectors of 512, ms, the same of writes, ...
fn parse_stat(text: &str) -> Option<[(u64, u64); 2]> {
    let fields: Vec<u64> =
        text.split_whitespace().map_while(|field| field.parse().ok()).take(7).collect();
    let [reads, _, read_sectors, _, writes, _, write_sectors] = fields.as_slice() else {
        return None;
    };
    Some([(*reads, read_sectors.saturating_mul(512)), (*writes, write_sectors.saturating_mul(512))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read_and_means_follow() {
        let line = "  100 5 2048 30 7 0 56 9 0 39 39 0 0 0 0\n";
        let ops = parse_stat(line).unwrap();
        assert_eq!(ops, [(100, 1_048_576), (7, 28_672)]);
        assert_eq!(mean(ops[1], (0, 0)), Some(4.0));
        assert_eq!(mean(ops[0], ops[0]), None);
        assert_eq!(parse_stat("1 2 3"), None);
        assert_eq!(parse_stat("a b c d e f g"), None);
    }

    #[test]
    fn sizes_are_kilobytes() {
        assert_eq!(kilobytes(9), "0.5");
        assert_eq!(kilobytes(12), "4");
        assert_eq!(kilobytes(20), "1024");
    }
}
