//! The beginning of a connection: what the client wants, whether it is let in, and what it is told first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cellar_instance::session::Session as Account;
use cellar_sql::Engine;
use cellar_sql::host::instance::{InstanceHost, views};
use tokio::sync::OwnedSemaphorePermit;

use super::Session;
use crate::access::ROLE;
use crate::error::{Ended, Refusal};
use crate::listen::{Phase, Shared};
use crate::socket::Peer;
use crate::wire::backend::{Out, Said};
use crate::wire::frames::Frames;
use crate::wire::startup::{self, First, MINOR, Startup};

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session that was let in; `None`: the connection is over.
pub(super) async fn begun(
    mut frames: Frames,
    mut out: Out,
    peer: &Peer,
    shared: &Arc<Shared>,
) -> Option<Session> {
    let asked = tokio::time::timeout(PATIENCE, asked(&mut frames, &mut out, shared)).await;
    let startup = match asked {
        Ok(Ok(startup)) => startup?,
        Ok(Err(Ended::Refused(refusal))) => return told(out, &refusal).await,
        // Nobody is there to be told.
        Ok(Err(_)) | Err(_) => return None,
    };
    let is_ending = *shared.phase.borrow() > Phase::Running;
    let let_in = match is_ending {
        true => Err(Refusal::new("57P03", "the database system is shutting down")),
        false => shared.access.check(peer.uid, &startup),
    };
    let place = let_in.and_then(|()| place(shared));
    let place = match place {
        Ok(place) => place,
        Err(refusal) => return told(out, &refusal).await,
    };
    if startup.minor > MINOR || !startup.protocol_options.is_empty() {
        out.negotiate(MINOR, &startup.protocol_options);
    }
    out.authenticated();
    let program = startup.settings.get("application_name").map_or("client", String::as_str);
    let account = shared.database.instance().sessions().user(program, ROLE);
    let engine = match engine(shared, &account, &startup).await {
        Ok(engine) => engine,
        Err(refusal) => return told(out, &refusal).await,
    };
    let Some(kept) = shared.keys.keep(engine.canceller()) else {
        return told(out, &Refusal::new("58000", "the system has no random bytes")).await;
    };
    let mut session = Session {
        frames,
        out,
        engine,
        account,
        kept,
        _place: place,
        phase: shared.phase.clone(),
        statements: HashMap::new(),
        portals: HashMap::new(),
        reported: HashMap::new(),
        reported_at: None,
        is_implicit: false,
        skips: false,
    };
    session.report();
    let key = session.kept.key;
    session.out.key(key.process, key.secret);
    Some(session)
}

/// A place for a session.
fn place(shared: &Shared) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&shared.places).try_acquire_owned().map_err(|_| {
        Refusal::new("53300", "sorry, too many clients already")
            .hint("end sessions that nobody uses, or start with more --sessions")
    })
}

async fn told(mut out: Out, refusal: &Refusal) -> Option<Session> {
    out.said(&Said::fatal(refusal));
    let _ = out.flush().await;
    None
}

/// What the client wants; `None`: it wanted no session, and has what it wanted.
async fn asked(
    frames: &mut Frames,
    out: &mut Out,
    shared: &Arc<Shared>,
) -> Result<Option<Startup>, Ended> {
    // Both kinds of encryption are asked for before the session is, each once.
    for _ in 0..3 {
        match startup::read(frames.first().await?)? {
            First::Session(startup) => return Ok(Some(startup)),
            First::Cancel(key) => {
                shared.keys.cancel(key);
                return Ok(None);
            }
            First::Tls | First::Gss => {
                out.raw(b'N');
                out.flush().await?;
            }
        }
    }
    Err(Refusal::protocol("encryption was asked for again and again").into())
}

/// Whether a name of an encoding is one of ours, however it is written.
fn is_utf8(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    matches!(&*plain.to_ascii_lowercase(), "utf8" | "unicode")
}

async fn engine(
    shared: &Arc<Shared>,
    account: &Account,
    startup: &Startup,
) -> Result<Engine, Refusal> {
    let refusal = |error: cellar_sql::Error| {
        Refusal::new(error.sqlstate, format!("CELLAR-{:05}: {}", error.number, error.message))
    };
    let host = Arc::new(InstanceHost::new(Arc::clone(&shared.database), account.clone()));
    let views = views(&shared.database);
    let engine = Engine::open_sharing(host, views, &shared.engine, &shared.memory).await;
    let engine = engine.map_err(refusal)?;
    for (name, value) in &startup.settings {
        match &**name {
            "search_path" => {
                let set = engine.execute(&format!("set search_path to {value}")).await;
                drop(set.map_err(refusal)?);
            }
            "client_encoding" if is_utf8(value) => {}
            _ => engine.set_first(name, value).map_err(refusal)?,
        }
    }
    Ok(engine)
}
