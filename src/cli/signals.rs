//! The request of the user or of the system that a command ends: Ctrl-C, SIGTERM, a terminal that goes
//! away. Whoever hears it removes what was made, or leaves it as it is to be found.

use std::future::poll_fn;
#[cfg(feature = "sql")]
use std::io::IsTerminal;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears the signals that ask for an end, from when it is made on. Then they end nothing by themselves.
pub struct End(Vec<Signal>);

impl End {
    /// Begins to listen; wants to be in the runtime.
    pub fn heard() -> End {
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        // Under nohup the terminal may go, and the work goes on.
        if !ignores_hangup() {
            kinds.push(SignalKind::hangup());
        }
        End(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// The same, but for the end of the terminal.
    #[cfg(feature = "sql")]
    pub fn without_hangup() -> End {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        End(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        poll_fn(|cx| {
            let came = self.0.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Hears SIGHUP: a server reads its files again. Where it was the terminal that went away, it is an end.
#[cfg(feature = "sql")]
pub struct Hangup {
    signal: Option<Signal>,
    ends_with_terminal: bool,
}

#[cfg(feature = "sql")]
impl Hangup {
    /// Begins to listen; wants to be in the runtime.
    pub fn heard() -> Hangup {
        // Under nohup the terminal may go.
        let ends_with_terminal = !ignores_hangup() && std::io::stdin().is_terminal();
        Hangup { signal: signal(SignalKind::hangup()).ok(), ends_with_terminal }
    }

    /// Waits for the next one; whether the terminal has gone.
    pub async fn next(&mut self) -> bool {
        match &mut self.signal {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
        self.ends_with_terminal && !std::io::stdin().is_terminal()
    }
}

/// Whether whoever started this process had it ignore SIGHUP.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 != 0)
}
