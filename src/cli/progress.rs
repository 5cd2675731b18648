//! Progress of a long piece of work: a bar on a terminal, plain lines elsewhere. Always on stderr.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellar_io::{EnvExt, SharedEnv};
use futures_util::future::{Either, select};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The interval at which progress is polled.
pub const LOOK: Duration = Duration::from_millis(100);

/// Shared by the threads that do the work.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    total: u64,
    /// The last tenth that was reported, if there is no terminal.
    told: AtomicU64,
}

impl Progress {
    /// `total` units of `what`; silent if a program reads the output.
    pub fn new(what: &str, total: u64, quiet: bool) -> Progress {
        let quiet = quiet || super::output::is_remote();
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("      {bar:30.#/.}  {percent:>3} %  {msg}")
                .expect("the template is a constant");
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style);
            bar.set_message(what.to_string());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let told = if quiet { u64::MAX } else { 0 };
        Progress { bar, what: what.to_string(), total, told: AtomicU64::new(told) }
    }

    /// `done` units are done.
    pub fn set(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done.min(self.total));
            return;
        }
        let tenth = done.min(self.total).saturating_mul(10) / self.total.max(1);
        // A plain line for every third is enough for a log.
        let third = tenth / 3;
        if self.told.fetch_max(third, Ordering::Relaxed) < third {
            eprintln!("      {}: {} %", self.what, tenth * 10);
        }
    }

    /// Runs `work`, and polls its progress. The bar is removed at the end.
    pub async fn during<T>(
        &self,
        env: &SharedEnv,
        done: impl Fn() -> u64,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match select(work, env.sleep(LOOK)).await {
                Either::Left((end, _)) => {
                    self.finish();
                    return end;
                }
                Either::Right(((), still)) => work = still,
            }
            self.set(done());
        }
    }

    /// Everything is done: removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
