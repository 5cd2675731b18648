//! The end of the socket that answers: one thread accepts, one thread serves each client, and
//! the work itself runs in the instance's environment.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::SharedEnv;
use event_listener::Event;
use futures_channel::mpsc;
use futures_util::StreamExt;
use futures_util::future::poll_fn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Lock, SOCKET};
use crate::error::{Error, Result};
use crate::wire::{FRAME_MAX, Frame, Hello, PROTOCOL, Request, StreamError};

/// Frames on their way to a client that is slower than its statement.
const FRAMES_AHEAD: usize = 16;

/// Pause before a failed accept is tried again, so that a lack of descriptors does not burn processor
/// time.
const BETWEEN_FAILURES: Duration = Duration::from_millis(10);

/// How soon the departure of a client that is being sent nothing is noticed.
const BETWEEN_CHECKS: Duration = Duration::from_millis(100);

/// What answers a request: writes to the responder, returns the exit code.
pub type Handler =
    Arc<dyn Fn(Request, Responder) -> Pin<Box<dyn Future<Output = u8> + Send>> + Send + Sync>;

/// Where an answer is written to. Clones write to the same client.
#[derive(Clone)]
pub struct Responder {
    frames: mpsc::Sender<Frame>,
    client: Arc<Departure>,
}

/// Whether the client of a request went away.
#[derive(Default)]
struct Departure {
    gone: AtomicBool,
    event: Event,
}

impl Departure {
    fn announce(&self) {
        self.gone.store(true, Ordering::Release);
        self.event.notify(usize::MAX);
    }
}

impl Responder {
    /// Resolves when the client goes away, such as by Ctrl-C: the code that runs a statement waits for
    /// this as well, and stops where it can.
    #[boxed]
    pub async fn gone(&self) {
        loop {
            // Listen before looking, or a departure in between is not heard.
            let listener = self.client.event.listen();
            if self.client.gone.load(Ordering::Acquire) {
                return;
            }
            listener.await;
        }
    }

    /// Sends results; waits while the client is behind.
    ///
    /// # Errors
    /// 70105 if the client went away: the statement may stop.
    #[boxed]
    pub async fn stdout(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(FRAME_MAX) {
            self.send(Frame::Stdout(part.to_vec())).await?;
        }
        Ok(())
    }

    /// Sends notices; waits while the client is behind.
    ///
    /// # Errors
    /// As [`stdout`](Responder::stdout).
    #[boxed]
    pub async fn stderr(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(FRAME_MAX) {
            self.send(Frame::Stderr(part.to_vec())).await?;
        }
        Ok(())
    }

    async fn send(&mut self, frame: Frame) -> Result<()> {
        let gone = |_| Error::new(70105, "the client went away");
        poll_fn(|cx| self.frames.poll_ready(cx)).await.map_err(gone)?;
        self.frames.start_send(frame).map_err(gone)
    }
}

#[derive(Default)]
struct Clients {
    count: usize,
    closing: bool,
}

struct Shared {
    env: SharedEnv,
    handler: Handler,
    hello: Hello,
    clients: Mutex<Clients>,
    left: Event,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a client for as long as it is served.
struct Guest(Arc<Shared>);

impl Guest {
    fn welcome(shared: &Arc<Shared>) -> Option<Guest> {
        let mut clients = shared.clients();
        if clients.closing {
            return None;
        }
        clients.count += 1;
        Some(Guest(Arc::clone(shared)))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.clients().count -= 1;
        self.0.left.notify(usize::MAX);
    }
}

/// Answers on DIR/cellar.sock until dropped, and holds the lock.
pub struct Server {
    shared: Arc<Shared>,
    listener: Arc<UnixListener>,
    lock: Lock,
}

impl Server {
    pub(super) fn start(
        lock: Lock,
        env: SharedEnv,
        version: &str,
        handler: Handler,
    ) -> Result<Server> {
        let shown = lock.directory().path().join(SOCKET);
        let refused = |error: std::io::Error| Error::system("listen on", &shown, &error);
        let path = lock.directory().inside(SOCKET);
        // Left behind by a process that was killed: we have the lock, so nobody listens on it.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(refused(error));
            }
            _ => {}
        }
        let listener = Arc::new(UnixListener::bind(&path).map_err(refused)?);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
        let hello =
            Hello { protocol: PROTOCOL, version: version.to_owned(), pid: std::process::id() };
        let shared =
            Arc::new(Shared { env, handler, hello, clients: Mutex::default(), left: Event::new() });
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn({
                let (shared, listener) = (Arc::clone(&shared), Arc::clone(&listener));
                move || accept(&shared, &listener)
            })
            .map_err(refused)?;
        Ok(Server { shared, listener, lock })
    }

    /// The lock that the server holds.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.shared.clients().count
    }

    /// Waits until no client is connected, and lets none in after that.
    #[boxed]
    pub async fn drain(&self) {
        loop {
            // Listen before looking, or the last one may leave in between.
            let listener = self.shared.left.listen();
            {
                let mut clients = self.shared.clients();
                if clients.count == 0 {
                    clients.closing = true;
                    return;
                }
            }
            listener.await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.clients().closing = true;
        // Wakes the thread that accepts. Neither can fail in a way that matters: whoever comes
        // next and finds the socket finds nobody listening, and removes it.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let _ = std::fs::remove_file(self.lock.directory().inside(SOCKET));
    }
}

fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if shared.clients().closing => return,
            // A client that gave up, or no descriptors left: the next one may fare better.
            Err(_) => {
                thread::park_timeout(BETWEEN_FAILURES);
                continue;
            }
        };
        if check_peer(&stream, End::Server, Path::new(SOCKET)).is_err() {
            continue;
        }
        let Some(guest) = Guest::welcome(shared) else {
            return;
        };
        let served =
            thread::Builder::new().name("client".to_owned()).spawn(move || serve(&guest, stream));
        // Without a thread the client sees the connection end before hello, and tries again.
        drop(served);
    }
}

fn serve(guest: &Guest, mut stream: UnixStream) {
    let shared = &guest.0;
    if Frame::Hello(shared.hello.clone()).write(&mut stream).is_err() {
        return;
    }
    loop {
        let served = match Frame::read(&mut stream) {
            Ok(Some(Frame::Request(request))) => answer(shared, request, &mut stream),
            Ok(Some(_)) => refuse(&mut stream, &Error::new(70113, "not a request")),
            Err(StreamError::Nonsense(error)) => {
                let _ = refuse(&mut stream, &error);
                return;
            }
            Ok(None) | Err(StreamError::Gone(_)) => return,
        };
        if served.is_err() {
            return;
        }
    }
}

fn refuse(stream: &mut UnixStream, error: &Error) -> std::result::Result<(), StreamError> {
    Frame::Stderr(format!("{error}\n").into_bytes()).write(stream)?;
    Frame::Exit(1).write(stream)
}

/// Runs one request and writes its answer. If the client is gone, the statement decides when to stop: it
/// learns of that by [`Responder::gone`] and at its next output.
fn answer(
    shared: &Arc<Shared>,
    request: Request,
    stream: &mut UnixStream,
) -> std::result::Result<(), StreamError> {
    let (send, mut frames) = mpsc::channel(FRAMES_AHEAD);
    let client = Arc::new(Departure::default());
    let responder = Responder { frames: send, client: Arc::clone(&client) };
    let work = (shared.handler)(request, responder.clone());
    let mut exit = responder;
    let run = async move {
        let code = work.await;
        // Nobody listens any more if the client went away.
        let _ = exit.send(Frame::Exit(code)).await;
    };
    shared.env.spawn("request", Box::pin(run));
    let answered = write_answer(&mut frames, stream);
    if answered.is_err() {
        client.announce();
    }
    answered
}

fn write_answer(
    frames: &mut mpsc::Receiver<Frame>,
    stream: &mut UnixStream,
) -> std::result::Result<(), StreamError> {
    loop {
        let still_there = || match has_hung_up(stream) {
            true => Err(StreamError::Gone(std::io::ErrorKind::ConnectionReset.into())),
            false => Ok(()),
        };
        let Some(frame) = block_on(frames.next(), still_there)? else {
            let error = Error::new(crate::error::INTERNAL, "the statement was cut short")
                .hint("see what the process that has the directory wrote, and report it");
            return refuse(stream, &error);
        };
        frame.write(stream)?;
        if matches!(frame, Frame::Exit(_)) {
            return Ok(());
        }
    }
}

/// Whether the other end closed the connection: it has nothing to say while it is answered.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut asked, Some(&now)), Ok(1..))
}

/// Which end of the socket asks who the other is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Server,
    Client,
}

/// Refuses anybody but this user and root, whatever the file modes say. Root may ask anybody.
pub(super) fn check_peer(stream: &UnixStream, end: End, shown: &Path) -> Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|error| Error::system("examine", shown, &error.into()))?;
    let own = rustix::process::geteuid();
    if peer.uid == own || peer.uid.is_root() || (end == End::Client && own.is_root()) {
        return Ok(());
    }
    let (shown, peer) = (shown.display(), peer.uid.as_raw());
    Err(Error::new(70106, format!("{shown} belongs to user {peer}"))
        .hint(format!("run as user {peer}")))
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, which is a client's own, as long as `check` allows it.
fn block_on<F: Future, E>(
    future: F,
    check: impl Fn() -> std::result::Result<(), E>,
) -> std::result::Result<F::Output, E> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return Ok(output),
            Poll::Pending => thread::park_timeout(BETWEEN_CHECKS),
        }
        check()?;
    }
}
