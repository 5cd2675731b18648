//! Cursors of SQL, and the other statements that the session carries out.

use std::sync::Arc;

use cellar_sql::{Answer, Error, Parameter, Prepared, Standing};

use super::command::{Command, Declare};
use super::outcome::{Given, given};
use super::portal::{Left, Portal, State, Statement};
use super::{Done, Session, watched};
use crate::error::Refusal;
use crate::values::rows::columns;

/// With what a command is carried out.
#[derive(Clone, Copy)]
pub(super) enum With<'a> {
    /// It came in a simple query, which tells columns by itself.
    Nothing,
    /// It is executed: with what the engine knows of its query, and values for its parameters.
    Executed(Option<&'a Prepared>, &'a [Parameter]),
}

fn no_cursor(name: &str) -> Refusal {
    Refusal::new("34000", format!("cursor \"{name}\" does not exist"))
}

impl Session {
    /// Carries out a command.
    pub(super) async fn command(&mut self, command: Command, with: With<'_>) -> Done {
        let is_of_rows = matches!(command, Command::Declare(_) | Command::Fetch { .. });
        if is_of_rows && self.standing().await == Standing::Failed {
            let text =
                "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Refusal::new("25P02", text).into());
        }
        match command {
            Command::Declare(declare) => self.declare(declare, with).await,
            Command::Fetch { cursor, most, only_moves } => {
                let is_told = matches!(with, With::Executed(..));
                self.fetch(&cursor, (most, only_moves), is_told).await
            }
            Command::CloseCursor(None) => {
                self.portals.retain(|_, portal| !portal.is_cursor);
                self.out.complete("CLOSE CURSOR ALL");
                Ok(())
            }
            Command::CloseCursor(Some(name)) => {
                self.portals.remove(&name).ok_or_else(|| no_cursor(&name))?;
                self.out.complete("CLOSE CURSOR");
                Ok(())
            }
            Command::Deallocate(name) => self.deallocate(name).await,
            Command::DiscardAll => self.discard_all().await,
        }
    }

    async fn declare(&mut self, declare: Declare, with: With<'_>) -> Done {
        let Declare { cursor, query, is_binary, is_held } = declare;
        if self.portals.contains_key(&cursor) {
            return Err(Refusal::new("42P03", format!("cursor \"{cursor}\" already exists")).into());
        }
        if !is_held && self.standing().await == Standing::Idle {
            return Err(Refusal::new(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks",
            )
            .hint("BEGIN first, or declare it WITH HOLD")
            .into());
        }
        let canceller = self.engine.canceller();
        let answer = match with {
            With::Executed(Some(prepared), values) => {
                let work = self.engine.execute_prepared(prepared, values);
                watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work)
                    .await??
            }
            With::Executed(None, _) | With::Nothing => {
                let work = self.engine.execute(&query);
                let outcome =
                    watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work)
                        .await?;
                Answer::Other(outcome.map_err(|error| Session::failed(&error, ""))?)
            }
        };
        let Given::Rows(mut left) = given(answer)? else {
            return Err(Error::syntax("DECLARE CURSOR FOR what gives no rows").into());
        };
        if is_held {
            left = watched(
                (&mut self.frames, &mut self.out),
                &canceller,
                &mut self.stop,
                left.read_all(),
            )
            .await??;
        }
        let (sql, tag) = (query, "SELECT".to_owned());
        let statement = Statement { sql, tag, command: None, prepared: None, types: Vec::new() };
        let portal = Portal {
            statement: Arc::new(statement),
            values: Vec::new(),
            formats: vec![i16::from(is_binary)],
            state: State::Open(left),
            is_held,
            is_new: self.standing().await != Standing::Idle,
            is_cursor: true,
        };
        self.portals.insert(cursor, portal);
        self.out.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Reads a cursor: so many rows, or only passes them over. `is_told`: the client knows its columns already.
    async fn fetch(
        &mut self,
        cursor: &str,
        (most, only_moves): (Option<usize>, bool),
        is_told: bool,
    ) -> Done {
        let mut portal = self.portals.remove(cursor).ok_or_else(|| no_cursor(cursor))?;
        let fetched = match &mut portal.state {
            State::Open(left) if only_moves => self.pass_over(left, most).await,
            State::Open(left) => self.fetch_rows(left, &portal.formats, most, is_told).await,
            State::Bound | State::Done => Err(no_cursor(cursor).into()),
        };
        let count = fetched?;
        self.portals.insert(cursor.to_owned(), portal);
        let tag = if only_moves { "MOVE" } else { "FETCH" };
        self.out.complete(&format!("{tag} {count}"));
        Ok(())
    }

    async fn fetch_rows(
        &mut self,
        left: &mut Left,
        formats: &[i16],
        most: Option<usize>,
        is_told: bool,
    ) -> Done<u64> {
        let before = left.told;
        let columns = match is_told {
            true => columns(left.schema(), formats)?,
            false => self.send_columns(&Arc::clone(left.schema()), formats)?,
        };
        self.send_rows(left, &columns, most.unwrap_or(usize::MAX)).await?;
        Ok(left.told - before)
    }

    async fn pass_over(&mut self, left: &mut Left, most: Option<usize>) -> Done<u64> {
        let (before, mut wanted) = (left.told, most.unwrap_or(usize::MAX));
        while wanted > 0 {
            let canceller = self.engine.canceller();
            let work = left.next(wanted);
            match watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work)
                .await??
            {
                Some(rows) => wanted -= rows.num_rows(),
                None => break,
            }
        }
        Ok(left.told - before)
    }

    async fn deallocate(&mut self, name: Option<String>) -> Done {
        match name {
            None => {
                self.statements.clear();
                self.engine.execute("deallocate all").await?;
                self.out.complete("DEALLOCATE ALL");
            }
            Some(name) => {
                let is_known = self.statements.remove(&name).is_some();
                if !self.engine.forget_statement(&name) && !is_known {
                    let quoted = name.replace('"', "\"\"");
                    self.engine.execute(&format!("deallocate \"{quoted}\"")).await?;
                }
                self.out.complete("DEALLOCATE");
            }
        }
        Ok(())
    }

    /// Resets the session to its initial state.
    async fn discard_all(&mut self) -> Done {
        if self.standing().await != Standing::Idle {
            let text = "DISCARD ALL cannot run inside a transaction block";
            return Err(Refusal::new("25001", text).into());
        }
        self.portals.clear();
        self.statements.clear();
        self.engine.execute("deallocate all").await?;
        self.engine.execute("reset session authorization").await?;
        self.engine.execute("reset all").await?;
        self.engine.end_session().await;
        self.out.complete("DISCARD ALL");
        Ok(())
    }
}
