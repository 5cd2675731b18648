//! Counters of a store: made, taken from, set, dropped.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_redo::Queued;
use cellar_wait::Session;

use super::plan::Plan;
use super::{Change, Inner, LongValues, Store};
use crate::counters::{COUNTERS, Counter, Flush, Steps, Take, decode, encode};
use crate::error::Error;
use crate::space::allocate::Use;

impl Store {
    /// Makes a counter with this number, which begins with `first`. Nobody else may make it meanwhile.
    ///
    /// # Errors
    /// [`Error::WrongObject`] where the number is taken; [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn create_counter(
        &self,
        session: &Session,
        number: u32,
        first: i64,
    ) -> Result<(), Error> {
        let inner = &self.0;
        inner.check_running()?;
        if inner.counters.get(number).is_ok() {
            return Err(Error::WrongObject { object: number, expected: "free number" });
        }
        if inner.pages.space.check_table(COUNTERS).is_err() {
            match self.create_object(session, COUNTERS, Use::Table).await {
                // Somebody else was faster.
                Err(Error::WrongObject { .. }) => {}
                made => made?,
            }
        }
        let row = encode(number, first);
        let change = Change::Insert { table: COUNTERS, row, keys: Vec::new() };
        let outcome = self.commit_with(session, vec![change], LongValues::default(), None).await?;
        let id = outcome.rows.into_iter().flatten().next();
        if !id.is_some_and(|id| inner.counters.add(number, id, first)) {
            return Err(Error::WrongObject { object: number, expected: "free number" });
        }
        Ok(())
    }

    /// Removes a counter. Nobody else may use it meanwhile.
    ///
    /// # Errors
    /// [`Error::WrongObject`]; those of the log.
    #[boxed]
    pub async fn drop_counter(&self, session: &Session, number: u32) -> Result<(), Error> {
        self.0.check_running()?;
        let id = self.0.counters.get(number)?.id;
        let change = Change::Delete { table: COUNTERS, id, keys: Vec::new() };
        self.commit_with(session, vec![change], LongValues::default(), None).await?;
        self.0.counters.remove(number);
        Ok(())
    }

    /// The numbers of all counters, in order.
    pub fn counters(&self) -> Vec<u32> {
        self.0.counters.numbers()
    }

    /// The next value of a counter, which then goes on `step` further; nobody gets it again, also after a
    /// crash, if all take steps in the same direction. Values that were taken and not used are lost.
    ///
    /// # Errors
    /// [`Error::WrongObject`]; [`Error::CounterEnds`] behind the last number; those of the log.
    #[boxed]
    pub async fn take(&self, session: &Session, number: u32, step: i64) -> Result<i64, Error> {
        let (value, end) = self.take_undurable(session, number, step).await?;
        self.wait_end(session, end).await?;
        Ok(value)
    }

    /// The next value of a counter, taken at once. It is not durable: nobody else may see it, and nothing may
    /// be committed that has it, before [`Store::flush_counter`].
    ///
    /// # Errors
    /// [`Error::WrongObject`]; [`Error::CounterEnds`] behind the last value.
    pub fn take_ahead(&self, number: u32, steps: &Steps) -> Result<i64, Error> {
        self.0.check_running()?;
        self.0.counters.get(number)?.take_ahead(number, steps)
    }

    /// Has a counter go on with `next`, at once; durable behind [`Store::flush_counter`].
    ///
    /// # Errors
    /// [`Error::WrongObject`].
    pub fn set_ahead(&self, number: u32, next: i64) -> Result<(), Error> {
        self.0.check_running()?;
        self.0.counters.get(number)?.set_ahead(next);
        Ok(())
    }

    /// The value of a counter that is taken next.
    ///
    /// # Errors
    /// [`Error::WrongObject`].
    pub fn peek_counter(&self, number: u32) -> Result<i64, Error> {
        Ok(self.0.counters.get(number)?.peek())
    }

    /// Waits until all that was taken from a counter is durable: with one record where many values were.
    ///
    /// # Errors
    /// [`Error::WrongObject`]; those of the log.
    #[boxed]
    pub async fn flush_counter(
        &self,
        session: &Session,
        number: u32,
        step: i64,
    ) -> Result<(), Error> {
        self.0.check_running()?;
        let counter = self.0.counters.get(number)?;
        loop {
            match counter.flush(step) {
                Flush::Done(end) => return self.wait_end(session, end).await,
                Flush::Wait(logged) => logged.await,
                Flush::Log(logging, ahead) => {
                    let queued = self.0.log_counter(session, number, &counter, ahead).await?;
                    logging.done(ahead, queued.appended.end.0, None);
                }
            }
        }
    }

    /// Has the log say exactly where each counter goes on: after a close no value is left out.
    ///
    /// # Errors
    /// Those of the log.
    #[boxed]
    pub async fn settle_counters(&self, session: &Session) -> Result<(), Error> {
        for number in self.counters() {
            // One that is gone meanwhile has nothing to say.
            let Ok(counter) = self.0.counters.get(number) else { continue };
            counter.settle();
            self.flush_counter(session, number, 1).await?;
        }
        Ok(())
    }

    /// Has a counter go on with `next`.
    ///
    /// # Errors
    /// [`Error::WrongObject`]; those of the log.
    #[boxed]
    pub async fn set_counter(
        &self,
        session: &Session,
        number: u32,
        next: i64,
    ) -> Result<(), Error> {
        self.0.check_running()?;
        let counter = self.0.counters.get(number)?;
        let logging = loop {
            match counter.begin_logging() {
                Ok(logging) => break logging,
                Err(logged) => logged.await,
            }
        };
        let queued = self.0.log_counter(session, number, &counter, next).await?;
        logging.done(next, queued.appended.end.0, Some(next));
        self.0.wait(session, queued).await?;
        Ok(())
    }
}

impl Store {
    /// The next value of a counter, and where the log must be durable before anybody may see it.
    pub(crate) async fn take_undurable(
        &self,
        session: &Session,
        number: u32,
        step: i64,
    ) -> Result<(i64, u64), Error> {
        let inner = &self.0;
        inner.check_running()?;
        let counter = inner.counters.get(number)?;
        loop {
            match counter.take(number, step)? {
                Take::Value(value, end) => return Ok((value, end)),
                Take::Wait(logged) => logged.await,
                Take::Log(logging, ahead) => {
                    let queued = inner.log_counter(session, number, &counter, ahead).await?;
                    logging.done(ahead, queued.appended.end.0, None);
                }
            }
        }
    }
}

impl Inner {
    async fn log_counter(
        self: &Arc<Self>,
        session: &Session,
        number: u32,
        counter: &Counter,
        logged: i64,
    ) -> Result<Queued, Error> {
        let (id, row) = (counter.id, encode(number, logged));
        let (gone, new) = (Vec::new(), Vec::new());
        let mut plan = Plan::new(self, session);
        plan.add(Change::Update { table: COUNTERS, id, row, gone, new }).await?;
        Ok(plan.run().await?.queued)
    }

    /// Reads the counters of a store that was just opened.
    pub(super) async fn load_counters(self: &Arc<Self>, session: &Session) -> Result<(), Error> {
        if self.pages.space.check_table(COUNTERS).is_err() {
            return Ok(());
        }
        let rows = Store(Arc::clone(self)).newest().scan(session, COUNTERS).await?;
        for (id, row) in rows {
            if let Some((number, next)) = decode(&row) {
                self.counters.add(number, id, next);
            }
        }
        Ok(())
    }
}
