//! Precise sleeping: one timerfd in the reactor, armed for the earliest of all deadlines. The
//! timer of tokio knows only milliseconds.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::clock::Source;
use super::engine::watch;

/// Who sleeps until when. Keyed by deadline and a number that makes it unique.
#[derive(Default)]
struct Sleepers {
    wakers: BTreeMap<(u64, u64), Waker>,
    numbered: u64,
}

/// The timer of a runtime.
pub(super) struct Timer {
    clock: Arc<Source>,
    fd: OwnedFd,
    sleepers: Mutex<Sleepers>,
}

impl Timer {
    pub(super) fn new(handle: &Handle, clock: &Arc<Source>) -> io::Result<Arc<Timer>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let watched = watch(handle, &fd)?;
        let timer = Arc::new(Timer {
            clock: Arc::clone(clock),
            fd,
            sleepers: Mutex::new(Sleepers::default()),
        });
        handle.spawn(wake_in_time(watched, Arc::downgrade(&timer)));
        Ok(timer)
    }

    /// Resolves when the clock shows `deadline`.
    pub(super) fn sleep_until(self: &Arc<Timer>, deadline: u64) -> Sleep {
        Sleep { timer: Arc::clone(self), deadline, key: None }
    }

    /// Arms the descriptor for the first sleeper. The caller holds the lock of the sleepers.
    fn arm(&self, sleepers: &Sleepers) {
        let Some(((deadline, _), _)) = sleepers.wakers.first_key_value() else {
            return;
        };
        // At least 1: an interval of 0 disarms.
        let left = deadline.saturating_sub(self.clock.now()).max(1);
        let value = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(left / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: (left % 1_000_000_000) as _,
            },
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &value)
            .expect("a valid interval on our own descriptor");
    }

    fn wake_due(&self) {
        let mut due = Vec::new();
        {
            let mut sleepers = self.sleepers.lock().unwrap_or_else(|e| e.into_inner());
            let now = self.clock.now();
            while let Some(first) = sleepers.wakers.first_entry()
                && first.key().0 <= now
            {
                due.push(first.remove());
            }
            self.arm(&sleepers);
        }
        for waker in due {
            waker.wake();
        }
    }
}

async fn wake_in_time(watched: AsyncFd<OwnedFd>, timer: Weak<Timer>) {
    while let Ok(mut guard) = watched.readable().await {
        let mut count = [0u8; 8];
        // Somebody may have armed it again meanwhile; then there is nothing to read.
        let _ = rustix::io::read(guard.get_inner(), &mut count);
        guard.clear_ready();
        let Some(timer) = timer.upgrade() else { return };
        timer.wake_due();
    }
}

/// A sleeper.
pub(super) struct Sleep {
    timer: Arc<Timer>,
    deadline: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.clock.now() >= self.deadline {
            return Poll::Ready(());
        }
        let timer = Arc::clone(&self.timer);
        let mut sleepers = timer.sleepers.lock().unwrap_or_else(|e| e.into_inner());
        let key = match self.key {
            Some(key) => key,
            None => {
                sleepers.numbered += 1;
                (self.deadline, sleepers.numbered)
            }
        };
        self.key = Some(key);
        sleepers.wakers.insert(key, cx.waker().clone());
        if sleepers.wakers.first_key_value().is_some_and(|(first, _)| *first == key) {
            timer.arm(&sleepers);
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut sleepers = self.timer.sleepers.lock().unwrap_or_else(|e| e.into_inner());
            sleepers.wakers.remove(&key);
        }
    }
}
