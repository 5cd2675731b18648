//! Signals by which the user or the system ends a command: Ctrl-C, SIGTERM, a closed terminal.
//! The command then removes what it created, or leaves it in its intended state.

use std::future::poll_fn;
#[cfg(feature = "sql")]
use std::io::IsTerminal;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the signals that ask for an end, from its creation on. They no longer end the process by themselves.
pub struct End(Vec<Signal>);

impl End {
    /// Starts listening; must be called in the runtime.
    pub fn heard() -> End {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        // Under nohup the terminal may close, and the work continues.
        if !ignores_hangup() {
            kinds.push(SignalKind::hangup());
        }
        End(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// The same, but ignores the closing of the terminal.
    #[cfg(feature = "sql")]
    pub fn without_hangup() -> End {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        End(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        poll_fn(|cx| {
            let came = self.0.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Receives SIGHUP: a server reloads its files. If the terminal was closed, the server ends.
#[cfg(feature = "sql")]
pub struct Hangup {
    signal: Option<Signal>,
    ends_with_terminal: bool,
}

#[cfg(feature = "sql")]
impl Hangup {
    /// Starts listening; must be called in the runtime.
    pub fn heard() -> Hangup {
        // Under nohup the terminal may close.
        let ends_with_terminal = !ignores_hangup() && std::io::stdin().is_terminal();
        Hangup { signal: signal(SignalKind::hangup()).ok(), ends_with_terminal }
    }

    /// Waits for the next signal; returns whether the terminal was closed.
    pub async fn next(&mut self) -> bool {
        match &mut self.signal {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
        self.ends_with_terminal && !std::io::stdin().is_terminal()
    }
}

/// Whether this process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
