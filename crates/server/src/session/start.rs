//! The beginning of a connection: what the client wants, whether it is let in, and what it is told first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cellar_instance::session::{Order, Session as Account};
use cellar_sql::Engine;
use cellar_sql::host::instance::InstanceHost;
use tokio::sync::OwnedSemaphorePermit;

use super::Session;
use crate::access::Asks;
use crate::cancel::Kept;
use crate::error::{Ended, Refusal};
use crate::login::{self, Known};
use crate::shared::Shared;
use crate::socket::Peer;
use crate::stop::{Phase, Stop};
use crate::tls::{Encrypted, FIRST_BYTE};
use crate::wire::backend::{Out, Said};
use crate::wire::frames::Frames;
use crate::wire::startup::{self, First, MINOR, Startup};

/// How long a client may take to say what it wants.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A session that was let in; `None`: the connection is over.
pub(super) async fn begun(
    mut frames: Frames,
    mut out: Out,
    peer: &Peer,
    shared: &Arc<Shared>,
) -> Option<Session> {
    let client_request =
        tokio::time::timeout(TIMEOUT, client_request((&mut frames, &mut out), peer, shared)).await;
    let (startup, encrypted) = match client_request {
        Ok(Ok(client_request)) => client_request?,
        Ok(Err(Ended::Refused(refusal))) => return send_refusal(out, &refusal).await,
        // There is nobody to tell.
        Ok(Err(_)) | Err(_) => return None,
    };
    let asks = Asks { peer, encrypted: encrypted.as_ref(), startup: &startup };
    let mut phase = shared.phase.clone();
    let let_in = tokio::select! {
        biased;
        _ = phase.wait_for(|phase| *phase > Phase::Running) => Err(Ended::from(ending())),
        let_in = let_in((&mut frames, &mut out), &asks, shared) => let_in,
    };
    let admitted = let_in.and_then(|role| Ok((place(shared)?, role)));
    let (place, role) = match admitted {
        Ok(admitted) => admitted,
        Err(Ended::Refused(refusal)) => return send_refusal(out, &refusal).await,
        Err(_) => return None,
    };
    frames.let_in();
    if startup.minor > MINOR || !startup.protocol_options.is_empty() {
        out.negotiate(MINOR, &startup.protocol_options);
    }
    out.authenticated();
    let program = startup.settings.get("application_name").map_or("client", String::as_str);
    let account = shared.database.instance().sessions().user(program, &role);
    if let Err(refusal) = check_connections(shared, &role) {
        return send_refusal(out, &refusal).await;
    }
    let engine = match engine(shared, (&account, &role), &startup).await {
        Ok(engine) => engine,
        Err(refusal) => return send_refusal(out, &refusal).await,
    };
    let process = i32::try_from(account.sid()).unwrap_or(i32::MAX);
    let Some(kept) = shared.keys.keep(process, engine.canceller()) else {
        return send_refusal(out, &Refusal::new("58000", "the system has no random bytes")).await;
    };
    let stop = Stop::new(shared.phase.clone());
    heed_orders(&account, &engine, &kept, &stop);
    let mut session = Session {
        frames,
        out,
        engine,
        account,
        kept,
        _place: place,
        stop,
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

/// Has a session do what other sessions ask of it.
fn heed_orders(account: &Account, engine: &Engine, kept: &Kept, stop: &Stop) {
    let (canceller, is_at_work, stop) = (engine.canceller(), kept.flag(), stop.sender());
    account.heed(move |order| match order {
        Order::Cancel if is_at_work.load(Ordering::Acquire) => canceller.cancel(),
        Order::Cancel => {}
        Order::End => drop(stop.send_replace(Phase::Stopping)),
        // One that is to end at once does so.
        Order::EndAfter => stop.send_modify(|phase| *phase = (*phase).max(Phase::Draining)),
    });
}

fn ending() -> Refusal {
    Refusal::new("57P03", "the database system is shutting down")
}

/// Lets a client in as a role, or refuses it.
async fn let_in(
    connection: (&mut Frames, &mut Out),
    asks: &Asks<'_>,
    shared: &Arc<Shared>,
) -> Result<String, Ended> {
    let (database, access) = (&shared.database, &shared.access);
    // Where the catalog cannot be read, the owner is known all the same.
    let catalog = database.catalog().current();
    let nanos = database.env().wall().unix_nanos;
    let now = i64::try_from(nanos / 1_000).unwrap_or(i64::MAX);
    let logins = database.instance().logins();
    login::let_in(connection, asks, &Known { access, catalog: &catalog, logins, now }).await
}

/// Refuses one session more than a role may have; its own is counted already.
fn check_connections(shared: &Shared, role: &str) -> Result<(), Refusal> {
    let catalog = shared.database.catalog().current();
    let Some((_, known)) = catalog.role(role) else { return Ok(()) };
    let most = usize::try_from(known.connections).ok().filter(|_| !known.is_superuser);
    let Some(most) = most else { return Ok(()) };
    match shared.database.instance().sessions().count_of(role) > most {
        false => Ok(()),
        true => Err(Refusal::new("53300", format!("too many connections for role \"{role}\""))
            .hint("alter role .. connection limit -1")),
    }
}

/// A place for a session.
fn place(shared: &Shared) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&shared.places).try_acquire_owned().map_err(|_| {
        Refusal::new("53300", "sorry, too many clients already")
            .hint("end sessions that nobody uses, or start with more --sessions")
    })
}

async fn send_refusal(mut out: Out, refusal: &Refusal) -> Option<Session> {
    out.said(&Said::fatal(refusal));
    // A client that reads nothing is not waited for.
    let _ = tokio::time::timeout(super::LAST_WORDS, out.end()).await;
    None
}

/// What the client wants, and whether the connection is encrypted; `None`: it wanted no session, and its
/// request is done.
async fn client_request(
    (frames, out): (&mut Frames, &mut Out),
    peer: &Peer,
    shared: &Arc<Shared>,
) -> Result<Option<(Startup, Option<Encrypted>)>, Ended> {
    let mut encrypted = None;
    if peer.address.is_some() && frames.kind_of_next().await? == FIRST_BYTE {
        encrypted = Some(shared.tls.accept((frames, out), true).await?);
    }
    // Either kind of encryption may be requested once before the session is.
    for _ in 0..3 {
        match startup::read(frames.first().await?)? {
            First::Session(startup) => return Ok(Some((startup, encrypted))),
            First::Cancel(key) => {
                shared.keys.cancel(key);
                out.end().await;
                return Ok(None);
            }
            First::Tls if encrypted.is_none() && peer.address.is_some() => {
                // Bytes that came with the request were not encrypted, and would be taken for encrypted
                // ones.
                if frames.has_more() {
                    let text = "received unencrypted data after SSL request";
                    return Err(Refusal::protocol(text).into());
                }
                out.raw(b'S');
                out.flush().await?;
                encrypted = Some(shared.tls.accept((frames, out), false).await?);
            }
            First::Tls if encrypted.is_some() => {
                return Err(Refusal::protocol("encryption was asked for within encryption").into());
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
    (account, role): (&Account, &str),
    startup: &Startup,
) -> Result<Engine, Refusal> {
    let refusal = |error: cellar_sql::Error| {
        Refusal::new(error.sqlstate, format!("CELLAR-{:05}: {}", error.number, error.message))
    };
    let host = Arc::new(InstanceHost::new(Arc::clone(&shared.database), account.clone()));
    let engine = Engine::of_session(host, &shared.engines);
    engine.connected_as(role).map_err(refusal)?;
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
