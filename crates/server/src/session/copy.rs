//! COPY FROM STDIN: the rows come as messages of the client.

use std::sync::Arc;

use bytes::Bytes;
use cellar_sql::{Answer, CopyInput, Error, Outcome};
use futures_util::SinkExt;
use futures_util::future::{Either, select};
use tokio::sync::Notify;

use super::{Done, Session};
use crate::error::Ended;
use crate::stop::{Phase, Stop};
use crate::wire::frontend::Message;

/// Chunks of rows that were read and not consumed yet.
const AHEAD: usize = 4;

/// Where rows are handed on.
type Rows = futures_channel::mpsc::Sender<Result<Bytes, Error>>;

/// How the client's rows ended.
enum End {
    /// By its word, or because the statement wants no more.
    Over,
    /// It has gone.
    Gone(Ended),
}

impl Session {
    /// Runs a COPY FROM STDIN.
    pub(super) async fn copy_in(&mut self, sql: &str) -> Done {
        let (rows, taken) = futures_channel::mpsc::channel::<Result<Bytes, Error>>(AHEAD);
        let asked = Arc::new(Notify::new());
        let input: CopyInput = {
            let asked = Arc::clone(&asked);
            let first = futures_util::stream::once(async move {
                asked.notify_one();
                Ok(Bytes::new())
            });
            Box::pin(futures_util::StreamExt::chain(first, taken))
        };
        let outcome = self.copied(sql, input, rows, &asked).await?;
        let outcome = outcome.map_err(|error| Session::failed(&error, sql))?;
        self.tell(Answer::Other(outcome), "COPY").await
    }
}

impl Session {
    async fn copied(
        &mut self,
        sql: &str,
        input: CopyInput,
        rows: Rows,
        asked: &Notify,
    ) -> Result<Result<Outcome, Error>, Ended> {
        let canceller = self.engine.canceller();
        let (frames, out, stop) = (&mut self.frames, &mut self.out, &mut self.stop);
        let is_binary = cellar_sql::parse::is_binary_copy(sql);
        let work = self.engine.copy_in(sql, input);
        let mut rows = Some(rows);
        let feeding = async {
            // Errors in the statement itself are reported before the client is asked for rows.
            asked.notified().await;
            out.copying(b'G', i16::from(is_binary), 0);
            match out.flush().await {
                Ok(()) => fed(frames, &mut rows, stop).await,
                Err(error) => End::Gone(error.into()),
            }
        };
        let feeding = std::pin::pin!(feeding);
        match select(work, feeding).await {
            // It ended before the rows did: the rest of them is skipped.
            Either::Left((outcome, _)) => Ok(outcome),
            Either::Right((End::Over, work)) => Ok(work.await),
            Either::Right((End::Gone(ended), work)) => {
                canceller.cancel();
                let _ = work.await;
                Err(ended)
            }
        }
    }
}

/// Passes rows on until they end. Only the client's CopyDone ends them: if the client has gone they stay
/// open, because what came is not all of them.
async fn fed(
    frames: &mut crate::wire::frames::Frames,
    rows: &mut Option<Rows>,
    stop: &mut Stop,
) -> End {
    loop {
        let next = tokio::select! {
            biased;
            next = frames.next() => next,
            () = stop.at_least(Phase::Stopping) => Err(crate::error::Refusal::new(
                "57P01",
                "terminating connection due to administrator command",
            ).into()),
        };
        let piece = match next {
            Ok(Message::CopyData(bytes)) => Ok(bytes),
            Ok(Message::CopyDone) => {
                *rows = None;
                return End::Over;
            }
            Ok(Message::CopyFail(why)) => {
                Err(Error::new(70301, "57014", format!("COPY from stdin failed: {why}")))
            }
            Ok(Message::Flush | Message::Sync) => continue,
            Ok(_) => {
                Err(Error::new(70302, "08P01", "unexpected message type during COPY from stdin"))
            }
            Err(ended) => return End::Gone(ended),
        };
        let is_end = piece.is_err();
        // A consumer that takes none any more has failed, and says so.
        let is_taken = match rows {
            Some(rows) => rows.send(piece).await.is_ok(),
            None => false,
        };
        if !is_taken || is_end {
            return End::Over;
        }
    }
}
