//! The heap as the user of the redo log: its changes are the records.

use std::sync::Arc;

use cellar_heap::{Error as HeapError, OpenStore, OpenWithoutLog, Opened, Store};
use cellar_redo::{Log, Lsn, Recovery, Report};
use cellar_storage::redo::{ClientFuture, LogClient, OpenError};

use super::file::FileGrowth;
use super::images::ImageFile;
use super::{Heap, State, from_heap};
use crate::error::Result;

/// Why the log does not open.
fn not_opened(error: HeapError) -> OpenError {
    match error {
        HeapError::Log(error) => OpenError::Log(error),
        other => OpenError::Client(from_heap(other).under(70161, "the redo log cannot be opened")),
    }
}

impl Heap {
    /// Takes the store out, so that nobody begins anything.
    fn take(&self) -> Option<Store> {
        match std::mem::take(&mut *self.state()) {
            State::Open(store) => Some(store),
            State::ReadOnly(_) | State::Ahead(..) | State::Closed => None,
        }
    }

    /// The parameters for an opening; `is_written`: not only to read.
    async fn opening(
        &self,
        recovery: Recovery,
        is_written: bool,
    ) -> std::result::Result<OpenStore, OpenError> {
        let file = self.file(&recovery).await.map_err(OpenError::Client)?;
        let growth = FileGrowth(Arc::clone(&file));
        if is_written {
            growth.set_size().await.map_err(|error| OpenError::Client(error.into()))?;
        }
        let (env, waits) = (self.0.env.clone(), self.0.sessions.waits().clone());
        let (growth, options) = (Some(Arc::new(growth) as _), self.options());
        let group = self.group().map_err(OpenError::Client)?;
        let spill = Some(Arc::new(ImageFile::new(group, Arc::clone(&self.0.temp))) as _);
        Ok(OpenStore { env, waits, device: file, recovery, options, growth, spill })
    }
}

impl Heap {
    /// Opens it to be read without a log, as its pages have it; whether that was done. Unless the log is given up now
    /// that must have been done before.
    ///
    /// # Errors
    /// 70163 the file is missing; those of the heap.
    pub(crate) async fn open_alone(&self, gives_log_up: bool) -> Result<bool> {
        let (env, waits) = (self.0.env.clone(), self.0.sessions.waits().clone());
        let (device, options) = (self.existing_file()?, self.options());
        let open = OpenWithoutLog { env, waits, device, options, gives_log_up };
        let reader = Store::open_alone(open).await.map_err(from_heap)?;
        let is_open = reader.is_some();
        if let Some(reader) = reader {
            *self.state() = State::ReadOnly(reader);
        }
        Ok(is_open)
    }
}

impl LogClient for Heap {
    fn open(
        &self,
        recovery: Recovery,
    ) -> ClientFuture<'_, std::result::Result<(Log, Report), OpenError>> {
        Box::pin(async move {
            self.abandon().await;
            let opening = self.opening(recovery, true).await?;
            match Store::open_any(opening).await.map_err(not_opened)? {
                Opened::Store(store, _) => {
                    let answer = (store.log().clone(), store.log_report().clone());
                    self.find(&store);
                    *self.state() = State::Open(store);
                    // They may have changed since it began to open.
                    self.obey_parameters();
                    Ok(answer)
                }
                Opened::Ahead { reader, log, report } => {
                    *self.state() = State::Ahead(reader, log.clone());
                    Ok((log, report))
                }
            }
        })
    }

    fn read(&self, recovery: Recovery) -> ClientFuture<'_, std::result::Result<(), OpenError>> {
        Box::pin(async move {
            self.abandon().await;
            let opening = self.opening(recovery, false).await?;
            let (reader, _) = Store::open_read_only(opening).await.map_err(not_opened)?;
            *self.state() = State::ReadOnly(reader);
            Ok(())
        })
    }

    fn checkpoint(&self) -> ClientFuture<'_, Result<Lsn>> {
        Box::pin(async move {
            if self.is_ahead() {
                // Nothing of it is written, and nothing is to be.
                return Ok(Lsn(0));
            }
            let store = self.store()?;
            let durable = store.log().durable_lsn();
            store.checkpoint().await.map_err(from_heap)?;
            Ok(durable)
        })
    }

    fn close(&self) -> ClientFuture<'_, Result<()>> {
        Box::pin(async move {
            let ahead = match &*self.state() {
                State::Ahead(_, log) => Some(log.clone()),
                State::Open(_) | State::ReadOnly(_) | State::Closed => None,
            };
            let Some(store) = self.take() else {
                return match ahead {
                    Some(log) => Ok(log.close().await?),
                    None => Ok(()),
                };
            };
            let log = store.log().clone();
            // What fails here is told by the close.
            let _ = store.settle_counters(&self.session()).await;
            let closed = store.clone().close().await;
            if closed.is_err() {
                // Its tasks would go on, and those of the log.
                store.abandon().await;
                let _ = log.close().await;
            }
            closed.map_err(from_heap)
        })
    }

    fn abandon(&self) -> ClientFuture<'_, ()> {
        Box::pin(async move {
            if let Some(store) = self.take() {
                store.abandon().await;
            }
        })
    }
}
