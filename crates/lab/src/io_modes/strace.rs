//! System calls by name: strace, attached to this very process for the time of a load.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{PTracer, Pid, Signal, kill_process, set_ptracer};

use crate::place::scratch;

/// Calls that write, make durable, or wait. A name that a machine lacks is ignored.
const CALLS: &str = "trace=?pwrite64,?pwritev,?pwritev2,?fdatasync,?fsync,?io_uring_enter,\
     ?io_submit,?io_getevents,?io_pgetevents,?futex";

/// A running strace.
pub(super) struct Strace {
    child: Child,
    log: PathBuf,
}

impl Strace {
    /// Counts from now on. Its output goes to a file in `dir`.
    ///
    /// # Errors
    /// The reason why it is unavailable, for people.
    pub(super) fn attach(dir: &Path) -> Result<Strace, String> {
        let log = scratch::path(dir, "strace");
        // If only a parent may trace, this process allows it; otherwise there is nothing to allow.
        let _ = set_ptracer(PTracer::Any);
        let attached = Strace::start(log);
        let _ = set_ptracer(PTracer::None);
        attached
    }

    fn start(log: PathBuf) -> Result<Strace, String> {
        let child = Command::new("strace")
            .args(["-c", "-f", "-e", CALLS, "-o"])
            .arg(&log)
            .args(["-p", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("no strace here ({e})"))?;
        let mut strace = Strace { child, log };
        let words = strace.child.stderr.as_mut().map(BufReader::new);
        let mut said = Vec::new();
        for line in words.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if line.contains(" attached") {
                return Ok(strace);
            }
            said.push(line);
        }
        Err(format!("strace may not trace here ({})", said.join("; ")))
    }

    /// Ends the counting; returns calls by name.
    ///
    /// # Errors
    /// The reason why nothing was counted, for people.
    pub(super) fn detach(mut self) -> Result<BTreeMap<String, u64>, String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let told = pid.ok_or("strace has no number".to_owned())?;
        kill_process(told, Signal::INT).map_err(|e| format!("strace does not listen: {e}"))?;
        self.child.wait().map_err(|e| format!("strace is lost: {e}"))?;
        let text = std::fs::read_to_string(&self.log);
        text.map(|text| calls(&text)).map_err(|e| format!("strace wrote nothing: {e}"))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // It has usually ended by now; there is nobody to report it to.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Reads the table of `strace -c`: part, seconds, microseconds a call, calls, errors or none, name.
fn calls(text: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first()?.parse::<f64>().ok()?;
        let (name, count) = (words.last()?, words.get(3)?.parse().ok()?);
        (*name != "total").then(|| ((*name).to_owned(), count))
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 73.76    0.009877          29       335        24 futex
 25.63    0.003432         107        32           pwritev
  0.61    0.000082          82         1           fdatasync
------ ----------- ----------- --------- --------- ----------------
100.00    0.013391          36       368        24 total
";
        let calls = calls(text);
        let read: Vec<(&str, u64)> = calls.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(read, [("fdatasync", 1), ("futex", 335), ("pwritev", 32)]);
    }
}
