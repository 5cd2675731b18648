//! Extended queries: statements are parsed, bound to values, described and executed in messages of their own.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use cellar_sql::{Parameter, split};

use super::command::Command;
use super::cursor::With;
use super::outcome::{Given, given};
use super::portal::{Left, Portal, State, Statement};
use super::{Done, Session, watched};
use crate::error::Refusal;
use crate::values::parameters::parameter;
use crate::values::rows::columns;
use crate::wire::frontend::{Bind, Target};
use cellar_sql::binary::types;

fn no_statement(name: &str) -> Refusal {
    let what = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    Refusal::new("26000", what)
}

fn no_portal(name: &str) -> Refusal {
    Refusal::new("34000", format!("portal \"{name}\" does not exist"))
}

impl Session {
    /// Prepares a statement.
    pub(super) async fn parse(&mut self, name: String, sql: String, types: &[u32]) -> Done {
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(&name) || self.engine.has_statement(&name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(Refusal::new("42P05", text).into());
        }
        let _at_work = self.kept.at_work();
        let statement = self.prepared(&sql, types).await?;
        // SQL knows it by this name too.
        if let (Some(prepared), None, false) =
            (&statement.prepared, &statement.command, name.is_empty())
        {
            self.engine.name_statement(&name, Arc::clone(prepared), &sql, false)?;
        }
        self.statements.insert(name, Arc::new(statement));
        self.out.plain(b'1');
        Ok(())
    }

    async fn prepared(&mut self, text: &str, given: &[u32]) -> Done<Statement> {
        let cut = split(text);
        let mut pieces = cut.complete.iter().chain(&cut.rest).map(|piece| piece.sql);
        let (Some(sql), None) = (pieces.next(), pieces.next()) else {
            if cut.complete.is_empty() {
                let (sql, tag) = (String::new(), String::new());
                return Ok(Statement {
                    sql,
                    tag,
                    command: None,
                    prepared: None,
                    types: Vec::new(),
                });
            }
            let text = "cannot insert multiple commands into a prepared statement";
            return Err(Refusal::new("42601", text).into());
        };
        let tag = cellar_sql::tag::tag(sql);
        let command = Command::of(sql, &tag)?;
        let query = match &command {
            None => Some(sql),
            Some(Command::Declare(declare)) => Some(&*declare.query),
            Some(_) => None,
        };
        let mut prepared = None;
        if let Some(query) = query {
            let known: Vec<_> = given.iter().map(|oid| types::data_type(*oid)).collect();
            let canceller = self.engine.canceller();
            let work = self.engine.prepare_statement(query, &known);
            let told = watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work)
                .await?;
            prepared = Some(Arc::new(told.map_err(|error| Session::failed(&error, query))?));
        }
        let parameters = prepared.as_ref().map_or(&[][..], |own| own.parameter_oids());
        let oid = |(at, own): (usize, &u32)| match given.get(at) {
            Some(oid) if *oid != 0 => *oid,
            _ => *own,
        };
        let types = parameters.iter().enumerate().map(oid).collect();
        Ok(Statement { sql: sql.to_owned(), tag, command, prepared, types })
    }

    /// The statement with a name: prepared by a message, or by PREPARE.
    fn statement_named(&self, name: &str) -> Result<Arc<Statement>, Refusal> {
        if let Some(found) = self.statements.get(name) {
            return Ok(Arc::clone(found));
        }
        let found = self.engine.statement_named(name).ok_or_else(|| no_statement(name))?;
        let sql = found.sql().trim().to_owned();
        let tag = cellar_sql::tag::tag(&sql);
        let types = found.parameter_oids().to_vec();
        Ok(Arc::new(Statement { sql, tag, command: None, prepared: Some(found), types }))
    }

    /// Makes a portal from a statement and values.
    pub(super) async fn bind(&mut self, bind: Bind) -> Done {
        let statement = self.statement_named(&bind.statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let text = format!("cursor \"{}\" already exists", bind.portal);
            return Err(Refusal::new("42P03", text).into());
        }
        let values = values(&statement, &bind)?;
        // The formats of columns are looked at where the columns are known.
        if let Some(schema) = statement.prepared.as_ref().and_then(|own| own.columns()) {
            columns(schema, &bind.results)?;
        }
        let portal = Portal {
            statement,
            values,
            formats: bind.results,
            state: State::Bound,
            is_held: false,
            is_new: true,
            is_cursor: false,
        };
        self.portals.insert(bind.portal, portal);
        self.out.plain(b'2');
        Ok(())
    }

    /// Describes a statement or a portal.
    pub(super) async fn describe(&mut self, target: &Target) -> Done {
        match target {
            Target::Statement(name) => {
                let statement = self.statement_named(name)?;
                self.out.parameters(&statement.types);
                let schema = self.columns_of(&statement);
                self.send_description(schema, &[])
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                let (statement, formats) = (Arc::clone(&portal.statement), portal.formats.clone());
                let schema = match &portal.state {
                    State::Open(left) => Some(Arc::clone(left.schema())),
                    State::Bound | State::Done => self.columns_of(&statement),
                };
                self.send_description(schema, &formats)
            }
        }
    }

    fn columns_of(&self, statement: &Statement) -> Option<SchemaRef> {
        match &statement.command {
            None => statement.prepared.as_ref()?.columns().cloned(),
            Some(Command::Fetch { cursor, only_moves: false, .. }) => {
                match &self.portals.get(cursor)?.state {
                    State::Open(left) => Some(Arc::clone(left.schema())),
                    State::Bound | State::Done => None,
                }
            }
            Some(_) => None,
        }
    }

    fn send_description(&mut self, schema: Option<SchemaRef>, formats: &[i16]) -> Done {
        match schema {
            Some(schema) => drop(self.send_columns(&schema, formats)?),
            None => self.out.plain(b'n'),
        }
        Ok(())
    }

    /// Forgets a statement or a portal.
    pub(super) fn close(&mut self, target: &Target) {
        match target {
            Target::Statement(name) => {
                self.statements.remove(name);
                self.engine.forget_statement(name);
            }
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        self.out.plain(b'3');
    }

    /// Executes a portal: at most `most` rows of it; 0 means all.
    pub(super) async fn execute(&mut self, name: &str, most: u32) -> Done {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let _at_work = self.kept.at_work();
        let most = if most == 0 { usize::MAX } else { most as usize };
        self.executed(&mut portal, most).await?;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    async fn executed(&mut self, portal: &mut Portal, most: usize) -> Done {
        let statement = Arc::clone(&portal.statement);
        let (sql, tag) = (&*statement.sql, &*statement.tag);
        match &mut portal.state {
            State::Open(left) => {
                let tag = self.tag_now(tag, sql).await;
                return self.go_on(left, &portal.formats, &tag, most).await;
            }
            State::Done if tag == "SELECT" => {
                self.out.complete("SELECT 0");
                return Ok(());
            }
            State::Done => {
                return Err(Refusal::new("55000", "portal cannot be run anymore").into());
            }
            State::Bound => {}
        }
        portal.state = State::Done;
        if statement.prepared.is_none() && statement.command.is_none() {
            self.out.plain(b'I');
            return Ok(());
        }
        // What is alone before its Sync is a transaction by itself. A client waits for no answer before it has sent
        // one, or a Flush.
        if self.frames.kind_of_next().await? != b'S' {
            self.begin_implicit(tag).await?;
        }
        let account = self.account.clone();
        let _executing = account.execute(sql);
        if let Some(command) = &statement.command {
            let with = With::Executed(statement.prepared.as_deref(), &portal.values);
            return self.command(command.clone(), with).await;
        }
        if cellar_sql::parse::reads_stream(sql) {
            return self.copy_in(sql).await;
        }
        let Some(prepared) = &statement.prepared else { return Ok(()) };
        let tag = self.tag_now(tag, sql).await;
        let tag = &*tag;
        let answer = {
            let canceller = self.engine.canceller();
            let work = self.engine.execute_prepared(prepared, &portal.values);
            watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work).await?
        };
        let answer = answer.map_err(|error| Session::failed(&error, sql))?;
        match given(answer)? {
            Given::Rows(mut left) => {
                if prepared.columns().is_none() {
                    // Nobody could know before that there are rows.
                    self.send_columns(left.schema(), &portal.formats)?;
                }
                self.go_on(&mut left, &portal.formats, tag, most).await?;
                portal.state = State::Open(left);
            }
            Given::Refused(_, error) => return Err(Session::failed(&error, sql)),
            Given::Copied(copied) => {
                let count = self.copy_out(copied).await?;
                self.send_done(tag, Some(count), Vec::new());
            }
            Given::Filled(count) => self.send_filled(count),
            Given::Done(count, notices) => self.send_done(tag, count, notices),
        }
        self.note_transaction(tag).await;
        Ok(())
    }

    async fn go_on(&mut self, left: &mut Left, formats: &[i16], tag: &str, most: usize) -> Done {
        let columns = columns(left.schema(), formats)?;
        let before = left.told;
        match self.send_rows(left, &columns, most).await? {
            true => self.out.plain(b's'),
            false => self.send_done(tag, Some(left.told - before), Vec::new()),
        }
        Ok(())
    }
}

/// The values of parameters.
fn values(statement: &Statement, bind: &Bind) -> Result<Vec<Parameter>, Refusal> {
    let parameters = statement.prepared.as_ref().map_or(&[][..], |own| own.parameters());
    let (given, wanted, formats) = (bind.values.len(), parameters.len(), bind.formats.len());
    if given != wanted {
        let text = format!(
            "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
            bind.statement
        );
        return Err(Refusal::protocol(text));
    }
    if formats > 1 && formats != given {
        let text = format!("bind message has {formats} parameter formats but {given} parameters");
        return Err(Refusal::protocol(text));
    }
    let format = |at: usize| match &bind.formats[..] {
        [] => 0,
        [one] => *one,
        many => many[at],
    };
    let values = bind.values.iter().zip(&statement.types).enumerate();
    values.map(|(at, (value, oid))| parameter(value.as_ref(), format(at), *oid)).collect()
}
