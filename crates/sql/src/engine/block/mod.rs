//! Procedural blocks, carried out step by step in the session that sent them.

mod computed;
mod conditions;
mod control;
mod evaluate;
mod names;
mod raise;
mod sql;
mod values;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_recursion::async_recursion as boxed;

use crate::blocks::{self, Block, Dialect, Step, StepKind, Variable};
use crate::engine::{Engine, Outcome};
use crate::error::Error;
use evaluate::Compiled;
use names::Scopes;
use sql::CompiledSql;
use values::Slots;

/// Steps between two looks at whether the statement is to stop.
const STEPS_AT_ONCE: u32 = 256;

/// What happens after a step.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Next,
    /// A loop is left: this one, or the innermost.
    Exit(Option<String>),
    Continue(Option<String>),
    Return,
}

/// A block under way.
struct Run<'a> {
    engine: &'a Engine,
    dialect: Dialect,
    slots: Slots,
    scopes: Scopes,
    /// Expressions and statements by where they are in the tree, which does not change.
    expressions: HashMap<usize, Arc<Compiled>>,
    statements: HashMap<usize, Arc<CompiledSql>>,
    notices: Vec<String>,
    /// The block began a transaction of its own, which it may end.
    owns_transaction: bool,
    /// Blocks under way whose exceptions are handled: each has a savepoint.
    savepoints: usize,
    /// The errors that are being handled, the innermost last.
    handled: Vec<Error>,
    steps: u32,
}

/// Where something is in the tree.
fn place_of<T>(part: &T) -> usize {
    std::ptr::from_ref(part).addr()
}

impl Engine {
    /// Runs a block: all of it, or nothing since its last COMMIT.
    #[boxed]
    pub(super) async fn run_block(&self, sql: &str) -> Result<Outcome, Error> {
        let (block, dialect) = blocks::read(sql)?;
        let rows = self.host.rows().filter(|rows| rows.are_open());
        let owns_transaction = match rows {
            Some(rows) => !rows.is_in_block().await,
            None => false,
        };
        if owns_transaction {
            // Whoever stops the block, from here on, ends the transaction for it.
            self.in_block.store(true, Ordering::Release);
            Box::pin(self.run_common("begin")).await?;
        }
        let mut run = Run {
            engine: self,
            dialect,
            slots: Slots::default(),
            scopes: Scopes::default(),
            expressions: HashMap::new(),
            statements: HashMap::new(),
            notices: Vec::new(),
            owns_transaction,
            savepoints: 0,
            handled: Vec::new(),
            steps: 0,
        };
        let done = match run.block(&block).await {
            Ok(Flow::Exit(label) | Flow::Continue(label)) => Err(no_loop(label.as_deref())),
            Ok(Flow::Next | Flow::Return) => Ok(()),
            Err(error) => Err(error),
        };
        let notices = run.notices;
        if owns_transaction {
            let end = if done.is_ok() { "commit" } else { "rollback" };
            let ended = Box::pin(self.run_common(end)).await;
            self.in_block.store(false, Ordering::Release);
            done?;
            ended?;
        } else {
            done?;
        }
        Ok(Outcome::Done { message: "Block completed.".to_owned(), notices })
    }
}

impl Run<'_> {
    /// A block, and what it does with errors.
    #[boxed]
    async fn block(&mut self, block: &Block) -> Result<Flow, Error> {
        let depth = self.scopes.open(block.label.clone());
        let outcome = match self.declare_all(block).await {
            Err(error) => Err(error),
            Ok(()) if block.handlers.is_empty() => self.steps(&block.steps).await,
            Ok(()) => self.handled_body(block).await,
        };
        self.scopes.close(depth);
        Ok(match outcome? {
            Flow::Exit(Some(label)) if block.label.as_ref() == Some(&label) => Flow::Next,
            flow => flow,
        })
    }

    /// Errors of declarations are for the block around it.
    async fn declare_all(&mut self, block: &Block) -> Result<(), Error> {
        for variable in &block.variables {
            self.declare(variable).await.map_err(|error| placed(error, variable))?;
        }
        Ok(())
    }

    /// Steps one after the other.
    #[boxed]
    async fn steps(&mut self, steps: &[Step]) -> Result<Flow, Error> {
        for step in steps {
            self.steps += 1;
            if self.steps.is_multiple_of(STEPS_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let flow = match self.step(step).await {
                Ok(flow) => flow,
                Err(error) if error.position.is_none() => return Err(error.at(step.at)),
                Err(error) => return Err(error),
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    async fn step(&mut self, step: &Step) -> Result<Flow, Error> {
        match &step.kind {
            StepKind::Nothing => {}
            StepKind::Return => return Ok(Flow::Return),
            StepKind::Assign { target, value } => self.assign(target, value).await?,
            StepKind::If { branches, otherwise } => {
                for branch in branches {
                    if self.is_true(&branch.condition).await? {
                        return self.steps(&branch.steps).await;
                    }
                }
                return self.steps(otherwise).await;
            }
            StepKind::Case { branches, otherwise } => {
                for branch in branches {
                    if self.is_true(&branch.condition).await? {
                        return self.steps(&branch.steps).await;
                    }
                }
                return match otherwise {
                    Some(steps) => self.steps(steps).await,
                    None => Err(Error::new(6592, "20000", "no WHEN of a CASE is true")
                        .next("add ELSE, if only ELSE NULL;")),
                };
            }
            StepKind::Exit { label, when } => {
                if self.holds(when.as_ref()).await? {
                    return Ok(Flow::Exit(label.clone()));
                }
            }
            StepKind::Continue { label, when } => {
                if self.holds(when.as_ref()).await? {
                    return Ok(Flow::Continue(label.clone()));
                }
            }
            StepKind::Loop { .. }
            | StepKind::While { .. }
            | StepKind::ForRange { .. }
            | StepKind::ForRows { .. } => return self.looped(step).await,
            StepKind::Sql { code, into } => self.run_sql(code, into.as_ref()).await?,
            StepKind::Perform(code) => self.run_sql(code, None).await?,
            StepKind::Dynamic { text, into, using } => {
                self.run_dynamic(text, into.as_ref(), using).await?;
            }
            StepKind::Raise(raise) => self.raise(raise).await?,
            StepKind::Print(code) => {
                let text = self.text_of(code).await?.unwrap_or_default();
                self.notices.push(text);
            }
            StepKind::Sleep(code) => self.sleep(code).await?,
            StepKind::Commit => self.end_transaction("commit").await?,
            StepKind::Rollback => self.end_transaction("rollback").await?,
            StepKind::Block(block) => return self.block(block).await,
        }
        Ok(Flow::Next)
    }

    /// COMMIT and ROLLBACK: the next statement begins a transaction.
    async fn end_transaction(&mut self, word: &str) -> Result<(), Error> {
        let what = word.to_uppercase();
        if !self.owns_transaction {
            return Err(Error::new(
                2089,
                "2D000",
                format!("{what} in a block within a transaction"),
            )
            .next("run the block by itself, or end the transaction behind it"));
        }
        if self.savepoints > 0 {
            let text = format!("{what} in a block with EXCEPTION");
            return Err(Error::new(2089, "2D000", text).next(
                "put what may fail into a block of its own, and end the transaction outside",
            ));
        }
        Box::pin(self.engine.run_common(word)).await?;
        Box::pin(self.engine.run_common("begin")).await?;
        Ok(())
    }
}

fn no_loop(label: Option<&str>) -> Error {
    match label {
        Some(label) => {
            Error::syntax(format!("EXIT or CONTINUE of \"{label}\", which is no loop around it"))
        }
        None => Error::syntax("EXIT or CONTINUE outside a loop"),
    }
}

fn placed(error: Error, variable: &Variable) -> Error {
    match error.position {
        None => error.at(variable.at),
        Some(_) => error,
    }
}
