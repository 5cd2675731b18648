//! Groups that are not mounted: why, and what mounts them.

use std::path::Path;

use cellar_io::shell;
use cellar_storage::groups::Groups;

use crate::error::{Error, NextStep};

/// Offers FORCE where it helps and was not given, with what it may lose.
pub fn or_force(error: Error, dir: &Path, force: Option<&str>) -> Error {
    if !error.force_helps() && !error.has(INCOMPLETE) {
        return error;
    }
    let name = error.group().unwrap_or_default().to_owned();
    match (error.force_helps(), force.is_some_and(|force| name.eq_ignore_ascii_case(force))) {
        (true, false) => error.hint(offer(&name, dir)),
        (true, true) => error.hint(
            "bring the missing disks back and try again; cellar inspect DISK tells what a disk \
             holds",
        ),
        (false, _) => error.hint(
            "bring the missing disks back and try again; cellar inspect DISK tells what a disk \
             holds",
        ),
    }
}

/// The number of a mount that lacks the only copy of something: FORCE does not help.
const INCOMPLETE: u32 = 15040;

/// The command that mounts a group without its missing disks, and what that costs.
fn offer(name: &str, dir: &Path) -> NextStep {
    let disks = dir.join("disks");
    let first = match std::fs::read_dir(&disks).is_ok_and(|mut found| found.next().is_some()) {
        true => format!(
            "see first what that is (this only reads): cellar rescue --disks {}; then continue",
            shell::quoted(&format!("{}/*", disks.display()))
        ),
        false => "continue".to_owned(),
    };
    let statement = format!("-c 'alter diskgroup {} mount force'", name.to_lowercase());
    NextStep::from(format!(
        "bring the missing disks back. If they are gone for good, what was written to the missing \
         disks alone is lost; {first} permanently without them: "
    ))
    .cellar("sql", &statement)
}

/// Groups that are not there, each as an error that offers what mounts it in the database at `dir`.
pub fn not_mounted(groups: &Groups, dir: &Path) -> Vec<Error> {
    let told = |error| or_force(error, dir, None).map_next_step(|next| next.in_directory(dir));
    groups.not_mounted().into_iter().map(told).collect()
}
