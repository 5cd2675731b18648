//! The limit of open files of this process: each disk needs a descriptor as long as it is open.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the user may: what a login shell gives is for programs that use
/// select(2), which this one does not.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Where it is refused the lower one stays, and whoever meets it says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// Descriptors that a runtime takes for itself.
const OWN: usize = 8;

/// Whether so many files can be opened as a runtime needs: it does not end in order without them.
pub(super) fn check_open_files() -> io::Result<()> {
    (0..OWN).map(|_| File::open("/dev/null")).collect::<io::Result<Vec<File>>>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
