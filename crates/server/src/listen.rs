//! The server: it listens, and each connection becomes a session.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_instance::database::Database;
use cellar_instance::parameters::Spfile;
use cellar_instance::roles::hba::Rules;
use cellar_sql::host::instance::views;
use cellar_sql::{Common, EngineOptions};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::access::Access;
use crate::cancel::Keys;
use crate::error::Error;
use crate::session;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::stop::Phase;
use crate::tls::Tls;

/// Pause before a failed accept is tried again, so that a lack of descriptors costs no processor time.
const BETWEEN_FAILURES: Duration = Duration::from_millis(10);

/// How long a session may take to end once everybody goes at once.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How a server listens.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of this machine; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Where the socket for clients of this machine is made, `.s.PGSQL.` and the port of the first address.
    pub directory: PathBuf,
    /// The most sessions.
    pub sessions: usize,
    /// Memory and cores of a session's engine; the memory is shared by all.
    pub engine: EngineOptions,
}

/// A server that listens, until it is stopped.
pub struct Server {
    directory: PathBuf,
    phase: watch::Sender<Phase>,
    addresses: Vec<SocketAddr>,
    socket: PathBuf,
    /// Ends when the last session is gone.
    sessions: mpsc::Receiver<()>,
    shared: Arc<Shared>,
    places: usize,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({:?})", self.addresses)
    }
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// An address cannot be used; the rules of client authentication or the files of TLS are invalid.
    #[boxed]
    pub async fn start(database: Arc<Database>, options: Options) -> Result<Server, Error> {
        // Beyond this machine nobody is talked to without them.
        let (rules, tls) = (rules(&options.directory)?, Tls::open(&options.directory)?);
        let mut listeners = Vec::with_capacity(options.listen.len());
        for address in &options.listen {
            listeners.push(bound(*address).await?);
        }
        let of = |own: &TcpListener| own.local_addr();
        let addresses: Vec<SocketAddr> = listeners.iter().filter_map(|own| of(own).ok()).collect();
        let port = addresses.first().map_or(5432, SocketAddr::port);
        let socket = options.directory.join(format!(".s.PGSQL.{port}"));
        let local = local(&socket)?;
        let (phase, seen) = watch::channel(Phase::Running);
        let (held, sessions) = mpsc::channel(1);
        let owner = rustix::process::geteuid().as_raw();
        let engines = Common::new(views(&database), &options.engine).map_err(Error::Engine)?;
        let shared = Arc::new(Shared {
            database,
            engines: Arc::new(engines),
            access: Access::new(owner, &options.directory, rules),
            tls,
            keys: Keys::default(),
            places: Arc::new(Semaphore::new(options.sessions)),
            phase: seen,
        });
        for listener in listeners {
            tokio::spawn(accept_tcp(listener, Arc::clone(&shared), held.clone()));
        }
        tokio::spawn(accept_unix(local, Arc::clone(&shared), held));
        let (places, directory) = (options.sessions, options.directory);
        Ok(Server { directory, phase, addresses, socket, sessions, shared, places })
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The number of sessions.
    pub fn sessions(&self) -> usize {
        self.places - self.shared.places.available_permits()
    }

    /// Reads the rules of who may connect and the files of TLS again, for who connects from now on. What is wrong
    /// stays as it was.
    ///
    /// # Errors
    /// They are not as they must be.
    pub fn reload(&self) -> Result<(), Error> {
        self.shared.access.set_rules(rules(&self.directory)?);
        self.shared.tls.reload()
    }

    /// Lets nobody in any more, and waits until all sessions are gone: each ends as soon as it is in no
    /// transaction.
    #[boxed]
    pub async fn drain(&mut self) {
        self.phase.send_replace(Phase::Draining);
        // Nothing is ever sent: it ends when nobody could.
        while self.sessions.recv().await.is_some() {}
    }

    /// The same, at once: running statements are stopped, and transactions are rolled back.
    #[boxed]
    pub async fn stop(&mut self) {
        self.phase.send_replace(Phase::Stopping);
        while self.sessions.recv().await.is_some() {}
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Stopping);
        // Whoever comes next makes it anew.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The rules of who may connect.
fn rules(directory: &Path) -> Result<Rules, Error> {
    let read = Spfile::read(directory).map_err(|error| Error::Rules(error.to_string()))?;
    Ok(read.rules().clone())
}

async fn bound(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| {
        let next = match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                let other = SocketAddr::new(address.ip(), address.port().wrapping_add(1));
                format!("another server has it: --listen {other}")
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need privileges: --listen 127.0.0.1:5432".to_owned()
            }
            _ => "give an address of this machine: --listen 127.0.0.1:5432".to_owned(),
        };
        Error::Listen { address, source, next }
    })
}

fn local(path: &Path) -> Result<UnixListener, Error> {
    let failed = |source| Error::Socket { path: path.to_owned(), source };
    // Left behind by a process that was killed: we have the directory's lock, so nobody listens on it.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    Ok(listener)
}

async fn accept_tcp(listener: TcpListener, shared: Arc<Shared>, held: mpsc::Sender<()>) {
    let mut phase = shared.phase.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase > Phase::Running) => return,
        };
        match accepted {
            Ok((stream, address)) => {
                let (shared, held) = (Arc::clone(&shared), held.clone());
                tokio::spawn(
                    async move { serve(Socket::tcp(stream, address), &shared, held).await },
                );
            }
            Err(_) => tokio::time::sleep(BETWEEN_FAILURES).await,
        }
    }
}

async fn accept_unix(listener: UnixListener, shared: Arc<Shared>, held: mpsc::Sender<()>) {
    let mut phase = shared.phase.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase > Phase::Running) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (shared, held) = (Arc::clone(&shared), held.clone());
                tokio::spawn(async move { serve(Socket::unix(stream), &shared, held).await });
            }
            Err(_) => tokio::time::sleep(BETWEEN_FAILURES).await,
        }
    }
}

async fn serve(socket: Socket, shared: &Arc<Shared>, _held: mpsc::Sender<()>) {
    let mut phase = shared.phase.clone();
    let stuck = async {
        // The server lives as long as its sessions do, so that this ends by the phase alone.
        let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = session::run(socket, shared) => {}
        // A client that does not read what it is sent does not hold up the server: its transaction goes
        // with it.
        () = stuck => {}
    }
}
