//! The program in several processes at once, all of which can be killed at one moment.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{command, out, told};

/// A command that takes longer hangs; none of these takes more than seconds.
const LONGEST: Duration = Duration::from_secs(120);

/// Those that run.
#[derive(Default)]
struct Running {
    ids: BTreeSet<i32>,
    /// Nobody is started any more.
    closed: bool,
}

/// Starts processes in a directory.
pub struct Programs {
    dir: PathBuf,
    running: Mutex<Running>,
}

fn kill(id: i32) {
    if let Some(pid) = Pid::from_raw(id) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

impl Programs {
    pub fn new(dir: PathBuf) -> Programs {
        Programs { dir, running: Mutex::default() }
    }

    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// Runs the program to its end; `None` if everybody was killed before it began.
    pub fn run(&self, words: &[&str]) -> Option<Output> {
        let mut command = command(&self.dir, words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, id) = {
            let mut running = self.running.lock().unwrap();
            if running.closed {
                return None;
            }
            let child = command.spawn().unwrap();
            let id = i32::try_from(child.id()).unwrap();
            running.ids.insert(id);
            (child, id)
        };
        let (ended, waits) = channel::<()>();
        let (output, hung) = std::thread::scope(|scope| {
            let watchdog = scope.spawn(move || {
                let hung = waits.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout);
                if hung {
                    kill(id);
                }
                hung
            });
            let output = child.wait_with_output().unwrap();
            drop(ended);
            (output, watchdog.join().unwrap())
        });
        self.running.lock().unwrap().ids.remove(&id);
        assert!(!hung, "{words:?} did not end: {}{}", out(&output), told(&output));
        Some(output)
    }

    /// Kills all of them, and starts no more.
    pub fn kill_all(&self) {
        let mut running = self.running.lock().unwrap();
        running.closed = true;
        running.ids.iter().copied().for_each(kill);
    }

    /// They may be started again. To be called when all have ended.
    pub fn open(&self) {
        self.running.lock().unwrap().closed = false;
    }

    /// Runs it; what it printed, or what it told if it failed.
    pub fn done(&self, words: &[&str]) -> Result<String, String> {
        let output = self.run(words).ok_or("killed")?;
        match output.status.success() {
            true => Ok(out(&output)),
            false => Err(format!("{words:?}: {}{}", out(&output), told(&output))),
        }
    }
}
