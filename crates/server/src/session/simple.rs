//! Simple queries: a text of statements, run one after the other.

use cellar_sql::{Answer, split};

use super::command::Command;
use super::cursor::With;
use super::said::said_of;
use super::{Done, Failure, Session};

impl Session {
    /// Runs the statements of a text. They are one transaction, unless they say otherwise.
    pub(super) async fn query(&mut self, text: &str) -> Done {
        let _at_work = self.kept.at_work();
        self.portals.remove("");
        let cut = split(text);
        let pieces: Vec<&str> =
            cut.complete.iter().chain(&cut.rest).map(|piece| piece.sql).collect();
        if pieces.is_empty() {
            self.out.plain(b'I');
            return Ok(());
        }
        if pieces.len() > 1 {
            // If a text cannot be parsed, none of it is run.
            for sql in &pieces {
                let tag = cellar_sql::tag::tag(sql);
                if Command::of(sql, &tag)?.is_none() {
                    let read = cellar_sql::parse(sql);
                    let read =
                        read.map_err(|error| Failure::Reported(Box::new(said_of(&error, sql))));
                    read.map_err(|failure| placed(failure, text, sql))?;
                }
            }
        }
        for (at, sql) in pieces.iter().enumerate() {
            let tag = cellar_sql::tag::tag(sql);
            if pieces.len() > 1 && (at + 1 < pieces.len() || self.is_implicit) {
                self.begin_implicit(&tag).await?;
            }
            self.statement(sql, &tag).await.map_err(|failure| placed(failure, text, sql))?;
            self.note_transaction(&tag).await;
        }
        self.end_implicit().await
    }

    async fn statement(&mut self, sql: &str, tag: &str) -> Done {
        if let Some(command) = Command::of(sql, tag)? {
            return self.command(command, With::Nothing).await;
        }
        let account = self.account.clone();
        let _executing = account.execute(sql);
        if cellar_sql::parse::reads_stream(sql) {
            return self.copy_in(sql).await;
        }
        let tag = self.tag_now(tag, sql).await;
        let outcome = {
            let canceller = self.engine.canceller();
            let work = self.engine.execute(sql);
            super::watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work)
                .await?
        };
        let outcome = outcome.map_err(|error| Failure::Reported(Box::new(said_of(&error, sql))))?;
        self.tell(Answer::Other(outcome), &tag).await
    }
}

/// A failure whose position is counted in the whole text.
fn placed(failure: Failure, text: &str, sql: &str) -> Failure {
    let Failure::Reported(mut said) = failure else { return failure };
    // Both are slices of one string: the start of the statement is the distance of their addresses.
    let before = (sql.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    if let (Some(place), Some(before)) = (said.position, text.get(..before)) {
        said.position = Some(place + before.chars().count());
    }
    Failure::Reported(said)
}
