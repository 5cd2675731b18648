//! The synchronous engine: a few named threads that block in the kernel.

#![expect(unsafe_code, reason = "system calls on raw addresses")]

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use super::Engine;
use super::slots::{Slots, Ticket};
use super::work::{Call, Target, Work};

/// Threads that run operations one at a time each. Threads are started when they are first
/// needed and end with the pool.
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    slots: Arc<Slots>,
    queue: Mutex<Queue>,
    work: Condvar,
    threads_max: usize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Order>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

/// What a thread does; the memory stays in the slot, at the same addresses.
struct Order {
    key: u32,
    fd: i32,
    call: Call,
    position: u64,
    target: Target,
}

// SAFETY: the addresses belong to the work in the slot, which stays until the order is answered.
unsafe impl Send for Order {}

impl Order {
    fn of(work: &mut Work) -> Order {
        Order {
            key: 0,
            fd: work.fd(),
            call: work.call,
            position: work.position(),
            target: work.target(),
        }
    }
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Pool {
        Pool(Arc::new(Shared {
            slots: Slots::new(),
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
            threads_max,
        }))
    }
}

impl Engine for Pool {
    fn submit(&self, mut work: Work) -> Ticket {
        let shared = &self.0;
        let mut order = Order::of(&mut work);
        let ticket = shared.slots.insert(work);
        order.key = ticket.key();
        let mut queue = shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        queue.waiting.push_back(order);
        if queue.idle < queue.waiting.len() && queue.threads < shared.threads_max {
            let name = format!("cellar-io-{}", queue.threads);
            let thread = Arc::clone(shared);
            let started = std::thread::Builder::new().name(name).spawn(move || run(&thread));
            if started.is_ok() {
                queue.threads += 1;
            } else if queue.threads == 0 {
                // Not even one thread: the caller's own has to do.
                let order = queue.waiting.pop_back().expect("pushed just above");
                drop(queue);
                shared.answer(order);
                return ticket;
            }
        }
        drop(queue);
        shared.work.notify_one();
        ticket
    }

    fn wake_all(&self) {
        self.0.slots.wake_all();
    }
}

/// The caller's own thread, which is away until the kernel has answered; other tasks of a runtime
/// go on in another thread meanwhile.
pub(crate) struct Here(Arc<Slots>);

impl Here {
    pub(crate) fn new() -> Here {
        Here(Slots::new())
    }
}

impl Engine for Here {
    fn submit(&self, mut work: Work) -> Ticket {
        let mut order = Order::of(&mut work);
        let ticket = self.0.insert(work);
        order.key = ticket.key();
        let answer = tokio::task::block_in_place(|| execute(&order));
        let (waker, unwanted) = self.0.lock().land(order.key, answer);
        assert!(waker.is_none() && unwanted.is_none(), "nobody has polled the ticket yet");
        ticket
    }

    fn wake_all(&self) {
        self.0.wake_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.queue.lock().unwrap_or_else(|e| e.into_inner()).stopping = true;
        self.0.work.notify_all();
    }
}

fn run(shared: &Shared) {
    let mut queue = shared.queue.lock().unwrap_or_else(|e| e.into_inner());
    loop {
        if let Some(order) = queue.waiting.pop_front() {
            drop(queue);
            shared.answer(order);
            queue = shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        } else if queue.stopping {
            return;
        } else {
            queue.idle += 1;
            queue = shared.work.wait(queue).unwrap_or_else(|e| e.into_inner());
            queue.idle -= 1;
        }
    }
}

impl Shared {
    fn answer(&self, order: Order) {
        let key = order.key;
        let answer = execute(&order);
        let (waker, unwanted) = self.slots.lock().land(key, answer);
        drop(unwanted);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn execute(order: &Order) -> i32 {
    let fd = order.fd;
    let position = order.position as libc::off_t;
    let one;
    let (vectors, count) = match order.target {
        Target::Nothing => (std::ptr::null(), 0),
        Target::One { start, length } => {
            one = libc::iovec { iov_base: start.cast(), iov_len: length as usize };
            (&raw const one, 1)
        }
        Target::Many { vectors, count } => (vectors, count as i32),
    };
    // SAFETY: the descriptor and the memory are in the slot until this answer has landed.
    let answer = unsafe {
        match order.call {
            Call::Read => libc::preadv(fd, vectors, count, position) as i64,
            Call::Write { durable: false } => libc::pwritev(fd, vectors, count, position) as i64,
            Call::Write { durable: true } => {
                libc::pwritev2(fd, vectors, count, position, libc::RWF_DSYNC) as i64
            }
            Call::Flush => i64::from(libc::fdatasync(fd)),
            Call::Allocate { mode, length } => {
                i64::from(libc::fallocate(fd, mode, position, length as libc::off_t))
            }
            Call::Range { request, length } => {
                let range = [order.position, length];
                i64::from(libc::ioctl(fd, request, range.as_ptr()))
            }
        }
    };
    if answer >= 0 {
        return i32::try_from(answer).expect("a call moves less than 2 GiB");
    }
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
