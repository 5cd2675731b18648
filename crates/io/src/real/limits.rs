//! The limit of open files of this process: each disk needs a descriptor as long as it is open.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the user may. The default is low for the sake of programs that use
/// select(2); this one does not.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If that is refused, the lower limit stays, and whoever reaches it reports it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// Descriptors that a runtime takes for itself.
const OWN: usize = 8;

/// Whether as many files can be opened as a runtime needs: it cannot shut down cleanly without
/// them.
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
