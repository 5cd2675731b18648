//! Work under way in a group, in words.

use cellar_diskgroup::OfflineDisk;
use cellar_storage::Mounted;
use cellar_storage::size::show_bytes;

use super::missing;

/// Work under way, in words.
pub(super) fn words(mounted: &Mounted, away: &[OfflineDisk]) -> Option<String> {
    let left = mounted.group.resync().bytes_left;
    let resync = (left > 0).then(|| format!("resync after a crash, {} left", show_bytes(left)));
    let rebalance = mounted.group.operation().map(|operation| {
        let percent = (operation.done * 100).checked_div(operation.total);
        let percent = percent.map_or(String::new(), |percent| format!(", {percent} %"));
        match (&operation.error, operation.power) {
            (Some(error), _) => format!("rebalance does not go on: {error}"),
            (None, 0) => "rebalance, stopped by power 0".to_owned(),
            (None, power) => format!("rebalance at power {power}{percent}"),
        }
    });
    let returns = mounted.group.returns();
    // Nothing goes on where nobody writes.
    let waits = mounted.group.is_read_only();
    let back = returns.iter().map(|r| {
        let percent = (r.bytes_done * 100).checked_div(r.bytes_total).unwrap_or(0);
        let total = show_bytes(r.bytes_total);
        match &r.error {
            Some(error) => format!("{} does not get what it missed: {error}", r.name),
            None if waits => {
                format!(
                    "{} lacks {} that it missed",
                    r.name,
                    show_bytes(r.bytes_total - r.bytes_done)
                )
            }
            None => format!("{} gets the {total} that it missed, {percent} %", r.name),
        }
    });
    let scrub = mounted.group.scrubbing().map(|scrub| {
        let percent = (scrub.bytes_done * 100).checked_div(scrub.bytes_total).unwrap_or(0);
        match scrub.waits {
            Some(what) => format!("scrub, {percent} %, waits for {what}"),
            None => format!("scrub, {percent} %"),
        }
    });
    let all = resync.into_iter().chain(back).chain(rebalance).chain(scrub);
    let all = all.chain(missing::repair_words(away));
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join("; "))
}
