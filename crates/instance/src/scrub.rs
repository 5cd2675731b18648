//! Scrubs in words.

use cellar_diskgroup::{Group, ScrubResult, fault_words};

use crate::error::{Error, NextStep, Result};

/// The number of a disk of a group, by its name.
///
/// # Errors
/// 15054: there is none.
pub fn disk_number(group: &Group, name: &str) -> Result<u16> {
    let wanted = name.to_uppercase();
    let found = group.disks().into_iter().find(|d| d.name == wanted);
    found.map(|d| d.number).ok_or_else(|| {
        let text = format!("disk \"{wanted}\" does not exist in disk group \"{}\"", group.name());
        Error::new(15054, text)
            .hint(NextStep::from("see which there are: ").cellar("asm", "lsdsk -k"))
    })
}

/// What a scrub found and did: `scrubbed 24 MB in 1.2 s: nothing wrong`.
pub fn scrub_words(group: &Group, result: &ScrubResult) -> String {
    let found = &result.found;
    let (mb, seconds) = (found.bytes_read.div_ceil(1 << 20), result.took.as_secs_f64());
    let begun = if result.stopped { "stopped after" } else { "scrubbed" };
    let mut words = format!("{begun} {mb} MB in {seconds:.1} s: {}", wrong_words(group, result));
    if found.absent_bytes > 0 {
        let absent = found.absent_bytes.div_ceil(1 << 20);
        words.push_str(&format!("; {absent} MB lie on disks that are not here"));
    }
    words
}

/// What was wrong: `nothing wrong`, or `2 wrong checksums on DATA_0001, 2 repaired`.
pub fn wrong_words(group: &Group, result: &ScrubResult) -> String {
    let found = &result.found;
    let disks = group.disks();
    let on = |no: &u16| {
        let name = disks.iter().find(|d| d.number == *no).map(|d| d.name.clone());
        name.unwrap_or_else(|| format!("disk {no}"))
    };
    let mut parts: Vec<String> = Vec::new();
    for (disk, faults) in found.faults.iter().filter(|(_, faults)| faults.sum() > 0) {
        let counts = fault_words(*faults);
        let counts: Vec<String> = counts.iter().map(|(n, what)| format!("{n} {what}")).collect();
        parts.push(format!("{} on {}", counts.join(", "), on(disk)));
    }
    if parts.is_empty() {
        return "nothing wrong".to_owned();
    }
    if found.repaired > 0 {
        parts.push(format!("{} repaired", found.repaired));
    }
    match (found.left, result.spec.repair) {
        (0, _) => {}
        (left, true) => parts.push(format!("{left} have no right copy")),
        (left, false) => parts.push(format!("{left} left as they are, REPAIR mends them")),
    }
    parts.join(", ")
}
