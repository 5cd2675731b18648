//! Tables and indexes that are made, and the extents that they get.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, Handle};
use cellar_redo::Queued;
use cellar_wait::Session;

use super::plan::Plan;
use super::{Inner, Store};
use crate::counters::COUNTERS;
use crate::error::Error;
use crate::lane::Operation;
use crate::space::allocate::Use;

impl Store {
    /// Makes an empty table with this number.
    ///
    /// # Errors
    /// [`Error::WrongObject`] where the number is taken; [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn create_table(&self, session: &Session, table: u32) -> Result<(), Error> {
        check_number(table)?;
        self.create_object(session, table, Use::Table).await
    }

    /// Makes an empty index with this number.
    ///
    /// # Errors
    /// [`Error::WrongObject`] where the number is taken; [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn create_index(&self, session: &Session, index: u32) -> Result<(), Error> {
        check_number(index)?;
        self.create_object(session, index, Use::Index).await
    }

    /// Removes a table or an index with all that is in it. Views that are open now see its rows as before,
    /// by their places. Nobody else may use it meanwhile.
    ///
    /// # Errors
    /// [`Error::WrongObject`]; those of the log.
    #[boxed]
    pub async fn drop_object(&self, session: &Session, object: u32) -> Result<(), Error> {
        check_number(object)?;
        self.remove(session, object, false).await
    }

    /// Makes a table or an index empty, likewise.
    ///
    /// # Errors
    /// [`Error::WrongObject`], [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn truncate(&self, session: &Session, object: u32) -> Result<(), Error> {
        check_number(object)?;
        self.remove(session, object, true).await
    }

    /// The numbers of all tables and indexes that were made.
    pub fn objects(&self) -> Vec<u32> {
        let mut objects = self.0.pages.space.objects();
        objects.retain(|object| *object != COUNTERS);
        objects
    }

    async fn remove(&self, session: &Session, object: u32, is_emptied: bool) -> Result<(), Error> {
        self.0.check_running()?;
        let (inner, helper) = (Arc::clone(&self.0), session.helper());
        let task = async move { inner.remove(&helper, object, is_emptied).await };
        // To its end, also where nobody waits for that.
        let queued = self.0.env.run("store remove", task).await.ok_or_else(ended)??;
        self.0.wait(session, queued).await?;
        Ok(())
    }

    pub(super) async fn create_object(
        &self,
        session: &Session,
        object: u32,
        kind: Use,
    ) -> Result<(), Error> {
        self.0.check_running()?;
        self.0.pages.space.begin_object(object, kind)?;
        self.0.pages.frames.statistics().begin(object);
        let (inner, helper) = (Arc::clone(&self.0), session.helper());
        let task = async move { inner.add_first_extent(&helper, object).await };
        // To its end, also where nobody waits for that: its number is free again if it comes to nothing.
        let queued = self.0.env.run("store object", task).await.ok_or_else(ended)??;
        self.0.wait(session, queued).await?;
        Ok(())
    }
}

impl Inner {
    /// A free page of the object.
    pub(super) async fn free_page(
        self: &Arc<Self>,
        session: &Session,
        object: u32,
    ) -> Result<u32, Error> {
        self.pages.space.ensure(&self.pages.frames, session, object).await?;
        loop {
            if let Some(page) = self.pages.space.take_page(object) {
                return Ok(page);
            }
            self.pages.space.wake_pages(self.oldest());
            if let Some(page) = self.pages.space.take_page(object) {
                return Ok(page);
            }
            // Durable with what it is needed for.
            let _ = self.extend(session, object).await.ok_or_else(ended)??;
        }
    }

    /// Gives an object another extent, in a task of its own: who wants it may go.
    fn extend(self: &Arc<Self>, session: &Session, object: u32) -> Handle<Result<Queued, Error>> {
        let (inner, session) = (Arc::clone(self), session.helper());
        self.env.run("store extent", async move { inner.add_extent(&session, object).await })
    }

    /// That is a commit of its own: what it is needed for may fail.
    async fn add_extent(self: &Arc<Self>, session: &Session, object: u32) -> Result<Queued, Error> {
        let (extent, kind, is_first) = self.pages.space.take_extent(object, self.oldest())?;
        match self.commit_extent(session, (object, kind, is_first), extent).await {
            Ok(queued) => {
                self.pages.space.add_extent(object, extent);
                Ok(queued)
            }
            Err(error) => {
                self.pages.space.return_extent(extent);
                Err(error)
            }
        }
    }

    /// Gives a new object its first extent, or its number back.
    async fn add_first_extent(
        self: &Arc<Self>,
        session: &Session,
        object: u32,
    ) -> Result<Queued, Error> {
        let queued = self.add_extent(session, object).await;
        if queued.is_err() {
            self.pages.space.forget_object(object);
            self.pages.frames.statistics().end(object);
        }
        queued
    }

    /// Commits nothing: the log is longer by a record.
    pub(super) async fn commit_nothing(self: &Arc<Self>, session: &Session) -> Result<(), Error> {
        let queued = Plan::new(self, session).run().await?.queued;
        self.wait(session, queued).await?;
        Ok(())
    }

    /// No snapshot is below this, now or later.
    pub(super) fn oldest(&self) -> u64 {
        self.pages.snapshots.horizon(|| self.lane.visible()).oldest()
    }

    async fn remove(
        self: &Arc<Self>,
        session: &Session,
        object: u32,
        is_emptied: bool,
    ) -> Result<Queued, Error> {
        let removal = self.pages.space.begin_removal(object, is_emptied, self.oldest());
        let (first, kind, extents) = removal?;
        let queued = self.commit_removal(session, (object, kind, first), extents).await;
        let lsn = queued.as_ref().ok().map(|queued| queued.appended.lsn.0);
        self.pages.space.end_removal(object, first, lsn);
        if queued.is_ok() && !is_emptied {
            self.pages.frames.statistics().end(object);
        }
        queued
    }

    async fn commit_removal(
        self: &Arc<Self>,
        session: &Session,
        (object, kind, first): (u32, Use, Option<u32>),
        extents: Vec<u32>,
    ) -> Result<Queued, Error> {
        let mut held = Vec::new();
        let maps: BTreeSet<u32> = extents
            .iter()
            .chain(&first)
            .map(|extent| self.pages.geometry.map_entry(*extent).0)
            .collect();
        for map in maps {
            held.push(self.pages.frames.load(session, map).await?);
        }
        let mut plan = Plan::new(self, session);
        plan.push(Operation::ReleaseExtents { object, extents }, held);
        if let Some(extent) = first {
            let at = self.pages.geometry.first_page(extent);
            let held =
                vec![self.pages.frames.fresh(at).await, self.pages.frames.fresh(at + 1).await];
            plan.push(Operation::TakeExtent { extent, object, kind, is_first: true }, held);
        }
        Ok(plan.run().await?.queued)
    }

    async fn commit_extent(
        self: &Arc<Self>,
        session: &Session,
        (object, kind, is_first): (u32, Use, bool),
        extent: u32,
    ) -> Result<Queued, Error> {
        let (map, _) = self.pages.geometry.map_entry(extent);
        let mut held = vec![self.pages.frames.load(session, map).await?];
        let first = self.pages.geometry.first_page(extent);
        for page in [first, first + 1] {
            held.push(self.pages.frames.fresh(page).await);
        }
        let mut plan = Plan::new(self, session);
        plan.push(Operation::TakeExtent { extent, object, kind, is_first }, held);
        Ok(plan.run().await?.queued)
    }
}

/// Numbers that the store has for itself are nobody else's.
fn check_number(object: u32) -> Result<(), Error> {
    match object {
        0 | COUNTERS => Err(Error::WrongObject { object, expected: "free number" }),
        _ => Ok(()),
    }
}

/// The error for who waits for a task that will never end.
pub(super) fn ended() -> Error {
    Error::Stopped { why: "its tasks were ended".into() }
}
