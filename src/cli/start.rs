//! `cellar start`: the database as a server for PostgreSQL clients.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cellar_instance::budget::Consumer;
use cellar_io::EnvExt;
use cellar_server::{Options, Server};
use cellar_sql::EngineOptions;

use super::database::{Database, Place, cores};
use super::fault::Fault;
use super::output;
use super::signals::{End, Hangup};

/// Arguments of `start`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar start mydb                         then: psql -h 127.0.0.1
  cellar start mydb --listen 127.0.0.1:5433
  psql -h $PWD/mydb                         by the socket in the directory
  cellar start mydb --listen 0.0.0.0:5432   also from other machines, with TLS
The user who owns the database connects without a password: the kernel says who
it is. Others need a role with one: create role anna login password '..'
TERM or Ctrl-C lets transactions end first; a second one ends at once. HUP reads
server.crt, server.key, root.crt and the hba rules of cellar.toml again.")]
pub struct Args {
    /// The database; $CELLAR_DIR if it is left out.
    pub dir: Option<PathBuf>,
    /// Where to listen: an address of this machine and a port; may be given
    /// more than once. Other machines connect over TLS only.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5432")]
    pub listen: Vec<SocketAddr>,
    /// Maximum sessions.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub sessions: usize,
    /// Seconds that transactions have to end when the server stops.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub patience: u64,
}

/// Runs `start`: serves until it is told to end.
///
/// # Errors
/// It cannot listen.
pub async fn run(args: &Args, database: &Database, place: &Place) -> Result<(), Fault> {
    let instance = database.inner.instance();
    let limit = instance.budget().limit(Consumer::SqlWork);
    let options = Options {
        listen: args.listen.clone(),
        directory: database.inner.directory().path().to_owned(),
        sessions: args.sessions,
        engine: EngineOptions {
            memory_limit: usize::try_from(limit).unwrap_or(usize::MAX),
            target_partitions: cores(),
        },
    };
    let (mut ends, mut hangups) = (End::without_hangup(), Hangup::heard());
    let started = Server::start(std::sync::Arc::clone(&database.inner), options).await;
    let mut server = started.map_err(|error| Fault::failed(error.to_string()))?;
    ready(&server)?;
    loop {
        tokio::select! {
            () = ends.next() => break,
            has_no_terminal = hangups.next() => match has_no_terminal {
                true => break,
                false => reload(&server),
            },
        }
    }
    // Notifies a service manager; without one this does nothing.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    if server.sessions() > 0 {
        output::notice(&format!(
            "Ending: {} sessions may end their transactions for {} s; a second TERM ends at once.",
            server.sessions(),
            args.patience
        ));
    }
    let patience = place.env.sleep(Duration::from_secs(args.patience));
    let drained = tokio::select! {
        () = server.drain() => true,
        () = ends.next() => false,
        () = patience => false,
    };
    if !drained {
        server.stop().await;
    }
    Ok(())
}

/// Reloads the server's files; an error is reported, and nothing changes.
fn reload(server: &Server) {
    match server.reload() {
        Ok(()) => output::notice("Read again: the hba rules and the files of TLS."),
        Err(error) => output::notice(&format!("Not read again: {error}")),
    }
}

/// Says where clients connect.
fn ready(server: &Server) -> Result<(), Fault> {
    let at: Vec<String> = server
        .addresses()
        .iter()
        .map(|own| match own.port() {
            5432 => format!("psql -h {}", own.ip()),
            port => format!("psql -h {} -p {port}", own.ip()),
        })
        .collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "Ready: {}", at.join(", "))?;
    out.flush()?;
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    Ok(())
}
