//! Page cache residency of a file: counting the cached pages, and dropping them.

#![expect(unsafe_code, reason = "system calls that no library wraps")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The number of the system call cachestat, the same on every processor that still gets new calls.
const CACHESTAT: libc::c_long = 451;

/// What the page cache holds of a file, in pages of the system (4096 bytes, as a rule).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedPages {
    /// In memory.
    pub cached: u64,
    /// Of these, not yet being written back; `None` on kernels before 6.5, which do not report it.
    pub dirty: Option<u64>,
}

/// What the page cache holds of a file now.
///
/// # Errors
/// The file cannot be read, or belongs to another user: then the kernel does not tell.
pub fn cached_pages(path: &Path) -> io::Result<CachedPages> {
    let file = File::open(path)?;
    match cachestat(&file) {
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => {
            Ok(CachedPages { cached: mincore(&file)?, dirty: None })
        }
        answer => answer,
    }
}

/// Writes back the cached pages of a file and drops them, so that the next read comes from the
/// disk. Pages that another process has mapped stay.
///
/// # Errors
/// The file cannot be opened or written back.
pub fn drop_cached_pages(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_data()?;
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

fn cachestat(file: &impl AsFd) -> io::Result<CachedPages> {
    // Offset and length; length 0 is to the end of the file.
    let range = [0_u64; 2];
    // Cached, dirty, in writeback, evicted, recently evicted.
    let mut pages = [0_u64; 5];
    // SAFETY: the kernel reads two words and writes five.
    let outcome = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_fd().as_raw_fd(),
            range.as_ptr(),
            pages.as_mut_ptr(),
            0 as libc::c_uint,
        )
    };
    match outcome {
        0 => Ok(CachedPages { cached: pages[0], dirty: Some(pages[1]) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Pages in memory, by a mapping that is never touched.
fn mincore(file: &File) -> io::Result<u64> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(0);
    }
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).unwrap_or(4096).max(512);
    let mut present = vec![0_u8; length.div_ceil(page)];
    // SAFETY: a mapping of its own, which nobody reads; the kernel writes a byte a page to
    // `present`, which has one for each; unmapped before it is forgotten.
    let outcome = unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let outcome = libc::mincore(start, length, present.as_mut_ptr());
        let error = io::Error::last_os_error();
        libc::munmap(start, length);
        if outcome == 0 { Ok(()) } else { Err(error) }
    };
    outcome.map(|()| present.iter().filter(|byte| **byte & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn both_ways_count_the_same_pages_and_dropped_ones_are_gone() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // On a real file system: a file in memory stays there.
        let mut file = tempfile::NamedTempFile::new_in(here).unwrap();
        file.write_all(&[7; 40 * 4096]).unwrap();
        let now = cached_pages(file.path()).unwrap();
        assert!(now.cached >= 40 * 4096 / 65536, "{now:?}");
        assert_eq!(mincore(file.as_file()).unwrap(), now.cached);
        drop_cached_pages(file.path()).unwrap();
        assert_eq!(cached_pages(file.path()).unwrap().cached, 0);
        assert_eq!(mincore(file.as_file()).unwrap(), 0);
    }

    #[test]
    fn an_empty_file_has_no_pages_and_an_absent_one_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(mincore(file.as_file()).unwrap(), 0);
        assert_eq!(cached_pages(file.path()).unwrap().cached, 0);
        assert!(cached_pages(Path::new("/nonexistent/file")).is_err());
    }
}
