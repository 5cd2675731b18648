//! The healing step: the dead disk does not come back, so after its repair time its content is
//! restored on the others, and another one may die.

use std::time::Duration;

use cellar_io::{EnvExt, Instant};
use cellar_storage::Mounted;
use cellar_storage::size::show_bytes;

use super::report::Report;
use crate::cli::database::Place;
use crate::cli::fault::Fault;
use crate::cli::output;
use crate::cli::progress::Progress;

/// The repair time of the demo; normally it is hours.
pub const REPAIR_TIME: &str = "0.1m";
const REPAIR_SECONDS: u64 = 6;
/// Longer than any rebuild of a demo.
const LIMIT: Duration = Duration::from_secs(600);

/// The results that the demo keeps.
#[derive(serde::Serialize)]
pub struct Healed {
    /// Bytes that were rebuilt.
    bytes: u64,
    /// How long that took.
    seconds: f64,
    /// Whether any other disk may die afterwards.
    another_may_die: bool,
}

/// Waits until the group has rebuilt what a disk's loss left unmirrored.
pub async fn run(
    report: &Report,
    mounted: &Mounted,
    name: &str,
    place: &Place,
) -> Result<Healed, Fault> {
    let group = &mounted.group;
    let deadline = place.env.now().plus(LIMIT);
    let late = || Fault::failed("CELLAR-00600: what the lost disk held is not made again");
    let look = Duration::from_millis(20);
    // The amount to rebuild is known while the disk is away. It may be done between two polls.
    let (mut began, mut expected) = (place.env.now(), 0);
    while let Some(away) = group.away_disks().into_iter().find(|disk| disk.name == name) {
        if place.env.now() > deadline {
            return Err(late());
        }
        (began, expected) = (place.env.now(), away.rebuild);
        place.env.sleep(look).await;
    }
    output::text(&format!(
        "      {}  not back in {REPAIR_SECONDS} s (disk_repair_time; 3.6 h outside the demo)\n",
        report.elapsed()
    ))?;
    let (aus, ended) = rebuilt(mounted, place, deadline).await?.ok_or_else(late)?;
    let seen = aus * group.info().au_size;
    let (bytes, seconds) =
        (if seen > 0 { seen } else { expected }, ended.since(began).as_secs_f64());
    let disks = group.disks().len();
    let losses = group.losses();
    let another_may_die = !losses.is_empty() && losses.iter().all(|loss| loss.is_harmless());
    output::text(&format!(
        "      {} mirrored again in {seconds:.1} s\n      \
         {}  DATA is whole on {disks} disks. May another disk die now? {}\n",
        show_bytes(bytes),
        report.elapsed(),
        if another_may_die { "Yes." } else { "No." }
    ))?;
    Ok(Healed { bytes, seconds, another_may_die })
}

/// Waits until nothing is left to rebuild; returns the number of AUs, and the time.
async fn rebuilt(
    mounted: &Mounted,
    place: &Place,
    deadline: Instant,
) -> Result<Option<(u64, Instant)>, Fault> {
    let mut bar: Option<Progress> = None;
    let mut aus = 0;
    loop {
        let now = place.env.now();
        match mounted.group.operation() {
            None => {
                bar.iter().for_each(Progress::finish);
                return Ok(Some((aus, now)));
            }
            Some(operation) => {
                if let Some(error) = operation.error {
                    return Err(Fault::failed(format!("CELLAR-00600: {error}")));
                }
                aus = aus.max(operation.total);
                if aus > 0 {
                    bar.get_or_insert_with(|| Progress::new("mirrored again", aus, false))
                        .set(operation.done);
                }
            }
        }
        if now > deadline {
            return Ok(None);
        }
        place.env.sleep(Duration::from_millis(5)).await;
    }
}
