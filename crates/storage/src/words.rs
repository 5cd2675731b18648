//! Words for the states of disks and rebalances, as the v$asm views have them; and for many names.

use cellar_diskgroup::{DiskInfo, DiskStatus, Group, Operation, Pass, PassProgress};

/// Names that are told one by one.
const NAMES_SHOWN: usize = 4;

/// The first names of many.
pub fn some(names: &[String]) -> String {
    match names.len() > NAMES_SHOWN {
        true => {
            format!("{} and {} more", names[..NAMES_SHOWN].join(", "), names.len() - NAMES_SHOWN)
        }
        false => names.join(", "),
    }
}

/// MODE_STATUS of v$asm_disk: ONLINE, OFFLINE, or SYNCING while it gets what it missed.
pub fn mode_status(disk: &DiskInfo) -> &'static str {
    match (disk.in_sync, disk.status) {
        (true, _) => "ONLINE",
        (false, DiskStatus::Returning) => "SYNCING",
        _ => "OFFLINE",
    }
}

/// STATE of v$asm_disk: NORMAL, or what becomes of a disk that is leaving. An added disk is NORMAL at
/// once: it takes its share from then on.
pub fn disk_state(group: &Group, disk: &DiskInfo) -> &'static str {
    match disk.status {
        DiskStatus::Online | DiskStatus::Offline | DiskStatus::Returning => "NORMAL",
        DiskStatus::Forcing => "FORCING",
        // Its extents have nowhere to go, or cannot be read.
        DiskStatus::Dropping if group.operation().is_some_and(|o| o.error.is_some()) => "HUNG",
        DiskStatus::Dropping => "DROPPING",
    }
}

/// PASS of v$asm_operation before anything is planned.
pub fn first_pass(group: &Group) -> &'static str {
    match group.disks().iter().any(|d| d.status == DiskStatus::Forcing) {
        true => Pass::Rebuild.name(),
        false => Pass::Rebalance.name(),
    }
}

/// STATE of v$asm_operation, of the whole rebalance: ERRS if it does not go on, WAIT if it is
/// stopped by power 0, EST until it is planned.
pub fn rebalance_state(operation: &Operation) -> &'static str {
    if operation.error.is_some() {
        "ERRS"
    } else if operation.power == 0 {
        "WAIT"
    } else if operation.total == 0 {
        "EST"
    } else {
        "RUN"
    }
}

/// STATE of v$asm_operation, of one pass of a rebalance: DONE if nothing of it is left, WAIT until
/// earlier passes let it begin.
pub fn pass_state(operation: &Operation, pass: Option<&PassProgress>) -> &'static str {
    let Some(now) = pass else { return rebalance_state(operation) };
    match operation.passes.iter().find(|pass| !pass.is_done()) {
        // Nothing is left to move; what is empty is let go of.
        None => rebalance_state(operation),
        Some(_) if now.is_done() => "DONE",
        Some(first) if first.pass != now.pass && !now.is_begun() => "WAIT",
        Some(_) => rebalance_state(operation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_of_a_rebalance_says_whether_it_waits_runs_or_is_done() {
        let states = |rebuilt: (u32, u64), balanced: (u32, u64), power, error: Option<&str>| {
            let of = |pass, (actual, done): (u32, u64)| PassProgress {
                pass,
                actual,
                done,
                total: 10,
                bytes_left: 0,
                left: None,
            };
            let passes = vec![of(Pass::Rebuild, rebuilt), of(Pass::Rebalance, balanced)];
            let error = error.map(str::to_owned);
            let now = Operation { power, total: 20, passes, error, ..Operation::default() };
            [pass_state(&now, Some(&now.passes[0])), pass_state(&now, Some(&now.passes[1]))]
        };
        assert_eq!(states((0, 0), (0, 0), 0, None), ["WAIT", "WAIT"]);
        assert_eq!(states((2, 3), (0, 0), 2, None), ["RUN", "WAIT"]);
        assert_eq!(states((1, 9), (1, 0), 2, None), ["RUN", "RUN"]);
        assert_eq!(states((0, 10), (0, 4), 0, None), ["DONE", "WAIT"]);
        assert_eq!(states((0, 10), (1, 4), 2, None), ["DONE", "RUN"]);
        assert_eq!(states((0, 10), (0, 4), 2, Some("no room")), ["DONE", "ERRS"]);
        assert_eq!(states((0, 10), (0, 10), 2, None), ["RUN", "RUN"], "disks are let go of");
        let new = Operation { power: 1, ..Operation::default() };
        assert_eq!(pass_state(&new, None), "EST");
    }
}
