//! The kernel's older asynchronous interface (what Oracle uses), by raw system calls: a context
//! per thread, its eventfd in the reactor.

#![expect(unsafe_code, reason = "system calls on raw addresses")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::slots::{Inner, Slots, Ticket};
use super::work::{Call, Target, Work};
use super::{Engine, Lanes, watch};

/// How many operations a context takes; counts against /proc/sys/fs/aio-max-nr.
const DEPTH: libc::c_uint = 1024;
const BATCH: usize = 32;

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FDSYNC: u16 = 3;
const IOCB_CMD_PREADV: u16 = 7;
const IOCB_CMD_PWRITEV: u16 = 8;
const IOCB_FLAG_RESFD: u32 = 1;

/// The libaio engine of a runtime.
pub(crate) struct LibAio {
    handle: Handle,
    lanes: Lanes<Lane>,
}

struct Lane {
    context: libc::c_ulong,
    event: OwnedFd,
    slots: Arc<Slots>,
    reaper: OnceLock<AbortHandle>,
}

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// `struct iocb` of the kernel, little-endian field order.
#[repr(C)]
#[derive(Default)]
struct Control {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    flags_rw: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

impl LibAio {
    pub(crate) fn new(handle: &Handle) -> io::Result<LibAio> {
        let first = Lane::new(handle)?;
        Ok(LibAio { handle: handle.clone(), lanes: Lanes::new(first) })
    }
}

impl Engine for LibAio {
    fn submit(&self, work: Work) -> Ticket {
        self.lanes.mine(|| Lane::new(&self.handle)).submit(work)
    }

    fn wake_all(&self) {
        for lane in self.lanes.all() {
            lane.slots.wake_all();
        }
    }
}

impl Lane {
    fn new(handle: &Handle) -> io::Result<Arc<Lane>> {
        // SAFETY: no memory is passed; the result is checked.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word to `context`.
        if unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let lane = Arc::new(Lane { context, event, slots: Slots::new(), reaper: OnceLock::new() });
        let watched = watch(handle, &lane.event)?;
        let reaper = handle.spawn(reap_when_ready(watched, Arc::downgrade(&lane)));
        lane.reaper.get_or_init(|| reaper.abort_handle());
        Ok(lane)
    }

    fn submit(&self, mut work: Work) -> Ticket {
        let mut control = self.control_of(&mut work);
        let ticket = self.slots.insert(work);
        control.data = u64::from(ticket.key());
        loop {
            let mut list = [&raw mut control];
            // SAFETY: the kernel copies the control block; the memory that it names is in the
            // slot until the kernel answers.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_submit,
                    self.context,
                    1 as libc::c_long,
                    list.as_mut_ptr(),
                )
            };
            if taken == 1 {
                break;
            }
            match io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => {}
                libc::EAGAIN => {
                    // The context is full: completions make room.
                    self.reap(Some(Duration::from_millis(1)));
                }
                error => {
                    let (waker, _) = self.slots.lock().land(ticket.key(), -error);
                    debug_assert!(waker.is_none(), "nobody has polled the ticket yet");
                    break;
                }
            }
        }
        self.reap(None);
        ticket
    }

    fn control_of(&self, work: &mut Work) -> Control {
        let mut control = Control {
            fd: work.fd() as u32,
            offset: work.position() as i64,
            flags: IOCB_FLAG_RESFD,
            event_fd: self.event.as_raw_fd() as u32,
            ..Control::default()
        };
        let call = work.call;
        let (one, many) = match call {
            Call::Read => (IOCB_CMD_PREAD, IOCB_CMD_PREADV),
            Call::Write { durable } => {
                if durable {
                    control.flags_rw = libc::RWF_DSYNC;
                }
                (IOCB_CMD_PWRITE, IOCB_CMD_PWRITEV)
            }
            Call::Flush => (IOCB_CMD_FDSYNC, IOCB_CMD_FDSYNC),
            Call::Allocate { .. } | Call::Range { .. } => unreachable!("ranges go to the pool"),
        };
        match work.target() {
            Target::Nothing => {
                control.opcode = one;
                control.offset = 0;
            }
            Target::One { start, length } => {
                control.opcode = one;
                control.buffer = start as u64;
                control.bytes = u64::from(length);
            }
            Target::Many { vectors, count } => {
                control.opcode = many;
                control.buffer = vectors as u64;
                control.bytes = u64::from(count);
            }
        }
        control
    }

    /// Hands out every completion that is there; with `patience`, waits for one.
    fn reap(&self, patience: Option<Duration>) {
        let mut patience = patience.unwrap_or(Duration::ZERO);
        loop {
            let mut wakers: [Option<Waker>; BATCH] = [const { None }; BATCH];
            let mut unwanted = Vec::new();
            let mut events = [Event::default(); BATCH];
            let count = self.events(&mut events, patience);
            let mut slots = self.slots.lock();
            for (event, waker) in events[..count].iter().zip(&mut wakers) {
                unwanted.extend(land(&mut slots, event, waker));
            }
            drop(slots);
            for waker in wakers.iter_mut().filter_map(Option::take) {
                waker.wake();
            }
            if count < BATCH {
                return;
            }
            patience = Duration::ZERO;
        }
    }

    fn events(&self, events: &mut [Event; BATCH], patience: Duration) -> usize {
        let mut timeout = libc::timespec {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(patience.subsec_nanos()),
        };
        let least: libc::c_long = if patience.is_zero() { 0 } else { 1 };
        // SAFETY: the kernel writes at most BATCH events to the array.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                least,
                BATCH as libc::c_long,
                events.as_mut_ptr(),
                &raw mut timeout,
            )
        };
        usize::try_from(count).unwrap_or(0)
    }
}

fn land(slots: &mut Inner, event: &Event, waker: &mut Option<Waker>) -> Option<Work> {
    let answer = i32::try_from(event.result).unwrap_or(-libc::EIO);
    let (wake, unwanted) = slots.land(event.data as u32, answer);
    *waker = wake;
    unwanted
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(reaper) = self.reaper.get() {
            reaper.abort();
        }
        for _ in 0..50 {
            if self.slots.lock().flying() == 0 {
                break;
            }
            self.reap(Some(Duration::from_millis(100)));
        }
        if self.slots.lock().flying() > 0 {
            // A dead device. Its context and memory are given up: destroying it would wait.
            self.slots.lock().leak();
            return;
        }
        // SAFETY: the context is ours and idle.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

async fn reap_when_ready(watched: AsyncFd<OwnedFd>, lane: Weak<Lane>) {
    while let Ok(mut guard) = watched.readable().await {
        let mut count = [0u8; 8];
        // Drained before the completions are read, so that later ones signal it again; an error
        // means that somebody else drained it already.
        let _ = rustix::io::read(guard.get_inner(), &mut count);
        guard.clear_ready();
        let Some(lane) = lane.upgrade() else { return };
        lane.reap(None);
    }
}
