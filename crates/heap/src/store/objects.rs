//! Tables and indexes that are made, and the extents that they get.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, Handle};
use cellar_redo::Queued;
use cellar_wait::Session;

use super::plan::Plan;
use super::{Inner, Store};
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
        self.create_object(session, table, Use::Table).await
    }

    /// Makes an empty index with this number.
    ///
    /// # Errors
    /// [`Error::WrongObject`] where the number is taken; [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn create_index(&self, session: &Session, index: u32) -> Result<(), Error> {
        self.create_object(session, index, Use::Index).await
    }

    async fn create_object(&self, session: &Session, object: u32, kind: Use) -> Result<(), Error> {
        self.0.check_running()?;
        self.0.space.begin_object(object, kind)?;
        let queued = self.0.extend(session, object).await.ok_or_else(ended).flatten();
        if queued.is_err() {
            self.0.space.forget_object(object);
        }
        self.0.wait(session, queued?).await?;
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
        self.space.ensure(&self.frames, session, object).await?;
        loop {
            if let Some(page) = self.space.take_page(object) {
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
        let (extent, kind, is_first) = self.space.take_extent(object)?;
        match self.commit_extent(session, (object, kind, is_first), extent).await {
            Ok(queued) => {
                self.space.add_extent(object, extent);
                Ok(queued)
            }
            Err(error) => {
                self.space.return_extent(extent);
                Err(error)
            }
        }
    }

    async fn commit_extent(
        self: &Arc<Self>,
        session: &Session,
        (object, kind, is_first): (u32, Use, bool),
        extent: u32,
    ) -> Result<Queued, Error> {
        let (map, _) = self.geometry.map_entry(extent);
        let mut held = vec![self.frames.load(session, map).await?];
        let first = self.geometry.first_page(extent);
        for page in [first, first + 1] {
            held.push(self.frames.fresh(page).await);
        }
        let mut plan = Plan::new(self, session);
        plan.push(Operation::TakeExtent { extent, object, kind, is_first }, held);
        Ok(plan.run().await?.queued)
    }
}

/// The error for who waits for a task that will never end.
pub(super) fn ended() -> Error {
    Error::Stopped { why: "its tasks were ended".into() }
}
