//! A session: the client is let in, and then its messages are answered one by one.

mod command;
mod copy;
mod cursor;
mod extended;
mod implicit;
mod outcome;
mod portal;
mod said;
mod simple;
mod start;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_instance::session::Session as Account;
use cellar_sql::{Canceller, Engine, Standing};
use cellar_wait::Event;
use tokio::sync::OwnedSemaphorePermit;

use self::portal::{Portal, Statement};
use self::said::said_of;
use crate::cancel::Kept;
use crate::error::{Ended, Refusal};
use crate::shared::Shared;
use crate::socket::Socket;
use crate::stop::{Phase, Stop};
use crate::wire::backend::{Out, Said, Status};
use crate::wire::frames::Frames;
use crate::wire::frontend::Message;

/// Settings whose values a client is sent, at first and when they change.
const REPORTED: [&str; 13] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "is_superuser",
    "session_authorization",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "default_transaction_read_only",
    "in_hot_standby",
];

/// A session that is idle for longer drops what only speeds up its next statement.
const BEFORE_REST: std::time::Duration = std::time::Duration::from_secs(5);

/// How long to wait for a client that is to go.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(1);

/// A session.
struct Session {
    frames: Frames,
    out: Out,
    engine: Engine,
    account: Account,
    kept: Kept,
    /// Its place among the permitted number of sessions.
    _place: OwnedSemaphorePermit,
    stop: Stop,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
    /// What the client knows of settings, and how often they had changed by then.
    reported: HashMap<&'static str, String>,
    reported_at: Option<u64>,
    /// A statement without BEGIN has begun a transaction, which ends with the text or at the next Sync.
    is_implicit: bool,
    /// After an error, messages are skipped up to the next Sync.
    skips: bool,
}

/// Why a request of the client fails.
enum Failure {
    /// The client is told, and the session goes on.
    Reported(Box<Said>),
    /// The session ends.
    Ended(Ended),
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Failure {
        Failure::Ended(ended)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Ended(error.into())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Reported(Box::new(Said::error(&refusal)))
    }
}

impl From<cellar_sql::Error> for Failure {
    fn from(error: cellar_sql::Error) -> Failure {
        Failure::Reported(Box::new(said_of(&error, "")))
    }
}

type Done<T = ()> = Result<T, Failure>;

/// Serves a connection to its end.
pub(crate) async fn run(socket: Socket, shared: &Arc<Shared>) {
    let frames = Frames::new(socket.reader);
    let out = Out::new(socket.writer);
    let Some(mut session) = start::begun(frames, out, &socket.peer, shared).await else {
        return;
    };
    let served = session.serve().await;
    // Its locks are released before the client is waited for, which may not read.
    session.portals.clear();
    session.engine.end_session().await;
    if let Err(Ended::Refused(refusal)) = served {
        session.out.said(&Said::fatal(&refusal));
        let _ = tokio::time::timeout(LAST_WORDS, session.out.end()).await;
    }
}

impl Session {
    /// Answers messages until the session ends.
    #[boxed]
    async fn serve(&mut self) -> Result<(), Ended> {
        self.ready().await?;
        loop {
            let message = self.next().await?;
            if matches!(message, Message::Terminate) {
                return Ok(());
            }
            if self.skips && !matches!(message, Message::Sync) {
                continue;
            }
            let is_simple =
                matches!(message, Message::Query(_) | Message::Unreadable { is_query: true, .. });
            match self.answer(message).await {
                Ok(()) => {}
                Err(Failure::Ended(ended)) => return Err(ended),
                Err(Failure::Reported(said)) => {
                    self.out.said(&said);
                    self.fail().await;
                    self.skips = !is_simple;
                }
            }
            if is_simple {
                self.ready().await?;
            }
        }
    }

    async fn answer(&mut self, message: Message) -> Done {
        match message {
            Message::Query(text) => self.query(&text).await,
            Message::Parse { name, sql, types } => self.parse(name, sql, &types).await,
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe(target) => self.describe(&target).await,
            Message::Execute { portal, most } => self.execute(&portal, most).await,
            Message::Close(target) => {
                self.close(&target);
                Ok(())
            }
            Message::Unreadable { refusal, .. } => Err(refusal.into()),
            Message::Flush => Ok(self.out.flush().await?),
            Message::Sync => {
                let ended = self.end_implicit().await;
                if let Err(Failure::Reported(said)) = &ended {
                    self.out.said(said);
                    self.fail().await;
                }
                self.ready().await?;
                match ended {
                    Err(Failure::Ended(ended)) => Err(ended.into()),
                    _ => Ok(()),
                }
            }
            Message::FunctionCall => Err(Refusal::new(
                "0A000",
                "function calls by number are not in this version of Cellar",
            )
            .hint("select f(..)")
            .into()),
            Message::Password(_) => Err(Ended::from(Refusal::protocol("nothing was asked")).into()),
            // What is left of a COPY that has failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::Terminate => Ok(()),
        }
    }

    /// The next message; waits for it as long as the session may be idle.
    async fn next(&mut self) -> Result<Message, Ended> {
        if let Some(message) = self.frames.whole()? {
            return Ok(message);
        }
        self.out.flush().await?;
        // A session in a transaction goes on when the server is to stop, but not when it stops at once.
        let (idle, last) = match self.standing().await {
            Standing::Idle => (None, Phase::Draining),
            _ => (self.engine.idle_in_transaction_timeout(), Phase::Stopping),
        };
        let wait = self.account.begin(Event::SQLNET_MESSAGE_FROM_CLIENT, [0, 1, 0]);
        let mut rest = pin!(after(self.engine.can_rest().then_some(BEFORE_REST)));
        let mut idle = pin!(after(idle));
        let next = loop {
            tokio::select! {
                biased;
                message = self.frames.next() => break message,
                () = self.stop.at_least(last) => break Err(Refusal::new(
                    "57P01",
                    "terminating connection due to administrator command",
                ).into()),
                () = &mut idle => break Err(Refusal::new(
                    "25P03",
                    "terminating connection due to idle-in-transaction timeout",
                ).into()),
                () = &mut rest => {
                    self.engine.rest();
                    rest.set(after(None));
                }
            }
        };
        wait.end(self.account.now());
        next
    }

    async fn standing(&mut self) -> Standing {
        self.engine.standing().await
    }

    /// Sends ReadyForQuery: the client may go on, and learns the state of the transaction.
    async fn ready(&mut self) -> Result<(), Ended> {
        self.skips = false;
        let status = match self.standing().await {
            Standing::Idle => Status::Idle,
            Standing::Open => Status::Open,
            Standing::Failed => Status::Failed,
        };
        if status == Status::Idle {
            self.end_portals(true);
        }
        self.report();
        self.out.ready(status);
        // More of what the client sends may be here already: what is told goes with what follows, or when that waits.
        if self.frames.peek().is_none() {
            self.out.flush().await?;
        }
        Ok(self.out.flush_much().await?)
    }

    /// Reports settings that have changed.
    fn report(&mut self) {
        let changes = self.engine.changes_of_settings();
        if self.reported_at.replace(changes) == Some(changes) {
            return;
        }
        for name in REPORTED {
            let Some(value) = self.engine.setting(name) else { continue };
            if self.reported.get(name) != Some(&value) {
                self.out.parameter(name, &value);
                self.reported.insert(name, value);
            }
        }
    }

    /// After an error: what the client has begun implicitly is rolled back.
    async fn fail(&mut self) {
        if std::mem::take(&mut self.is_implicit) {
            // What it had is gone, whatever this says.
            let _ = self.engine.execute("rollback").await;
            self.end_portals(false);
        } else {
            self.engine.has_failed().await;
        }
    }
}

/// Waits until the client has gone. What it was sent before its last Sync goes out first.
async fn send_and_close(frames: &mut Frames, out: &mut Out) -> Ended {
    match out.flush_awaited().await {
        Ok(()) => frames.gone().await,
        Err(error) => error.into(),
    }
}

async fn after(time: Option<std::time::Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// The result of a statement, while the client is there: if the client goes, the statement is stopped.
async fn watched<T>(
    (frames, out): (&mut Frames, &mut Out),
    canceller: &Canceller,
    stop: &mut Stop,
    work: impl Future<Output = T>,
) -> Result<T, Ended> {
    let mut work = std::pin::pin!(work);
    let ended = tokio::select! {
        biased;
        told = &mut work => return Ok(told),
        ended = send_and_close(frames, out) => ended,
        () = stop.at_least(Phase::Stopping) => Refusal::new(
            "57P01",
            "terminating connection due to administrator command",
        ).into(),
    };
    canceller.cancel();
    work.await;
    Err(ended)
}
