//! Changes of the metadata: how they are made, queued and waited for.

use std::sync::Arc;

use cellar_wait::Event;
use futures_util::future::Either;

use crate::base::core::{ChangeError, Core};
use crate::base::log::{Request, Wanted};
use crate::base::{Base, StopOnPanic};
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::record::PAYLOAD_MAX;
use crate::state::Op;

impl Base {
    /// Makes a change: `plan` looks at the core and returns its result and the operations, or
    /// refuses. Waits until they are durable.
    pub async fn change<T>(
        &self,
        plan: impl FnOnce(&mut Core) -> Result<(T, Vec<Op>), Error>,
    ) -> Result<T, Error> {
        let mut plan = Some(plan);
        loop {
            self.wait_for_room().await?;
            if let Some((value, ticket)) = self.change_later(&mut plan)? {
                self.wait_durable(ticket).await?;
                return Ok(value);
            }
        }
    }

    pub async fn wait_for_room(&self) -> Result<(), Error> {
        let mut wait = None;
        loop {
            let listener = self.log.moved.listen();
            self.check_running()?;
            if lock(&self.core).takes_changes() {
                break;
            }
            wait = wait.or_else(|| Some(self.begin(Event::METADATA_LOG_WRITE)));
            listener.await;
        }
        if let Some(wait) = wait {
            self.end(wait);
        }
        Ok(())
    }

    /// As [`Base::change`], but returns at once with the ticket to wait for. `None`, and the plan
    /// is still there, if others took the room meanwhile.
    fn change_later<T>(
        &self,
        plan: &mut Option<impl FnOnce(&mut Core) -> Result<(T, Vec<Op>), Error>>,
    ) -> Result<Option<(T, u64)>, Error> {
        let _watched = StopOnPanic(self);
        let queued = {
            let mut core = lock(&self.core);
            self.check_writable()?;
            if !core.takes_changes() {
                return Ok(None);
            }
            let plan = plan.take().expect("who made the change does not come again");
            let (value, ops) = plan(&mut core)?;
            let ticket = match ops.is_empty() {
                true => core.newest_ticket(),
                false => {
                    core.check_log_room(&self.name, &ops)?;
                    self.enqueue(&mut core, &ops)?
                }
            };
            (value, ticket)
        };
        self.log.wanted.notify(1);
        Ok(Some(queued))
    }

    /// A change of which disks take part. `make` is called when everything queued before it has been
    /// submitted to the log; its operations are durable when this returns.
    pub async fn change_disks(
        &self,
        make: impl FnOnce(&mut Core) -> Result<Vec<Op>, Error> + Send + 'static,
    ) -> Result<(), Error> {
        self.check_writable()?;
        self.request(Wanted::Change(Box::new(make))).await
    }

    /// Writes a checkpoint now: the other area of each metadata disk is in use afterwards.
    pub async fn checkpoint_now(&self) -> Result<(), Error> {
        self.request(Wanted::Checkpoint).await
    }

    /// Writes zeros to those of these blocks of a disk's ring that hold no live record, so that a
    /// block that could not be read becomes readable.
    pub async fn clear_log(&self, disk: u16, blocks: Vec<u64>) -> Result<(), Error> {
        self.request(Wanted::ClearLog(disk, blocks)).await
    }

    /// Takes disks out by an epoch, if the group can go on without them and nothing is lost.
    pub async fn take_out(&self, disks: Vec<u16>) -> Result<(), Error> {
        self.check_writable()?;
        self.request(Wanted::TakeOut(disks)).await
    }

    async fn request(&self, wanted: Wanted) -> Result<(), Error> {
        let (done, told) = futures_channel::oneshot::channel();
        lock(&self.log.requests).push_back(Request { wanted, done });
        self.log.wanted.notify(1);
        let stopped = std::pin::pin!(self.wait_stopped());
        match futures_util::future::select(told, stopped).await {
            Either::Left((Ok(result), _)) => result,
            _ => Err(self.check_running().err().unwrap_or_else(|| self.being_dismounted())),
        }
    }

    /// A change by somebody whom the dismount waits for, or by the dismount itself.
    pub async fn change_inside(&self, ops: &[Op]) -> Result<(), Error> {
        self.change_inside_as(|_| ops.to_vec()).await
    }

    /// The same, with operations made from the state as it is when they are queued.
    pub async fn change_inside_as(&self, make: impl Fn(&Core) -> Vec<Op>) -> Result<(), Error> {
        let ticket = loop {
            self.wait_for_room().await?;
            let mut core = lock(&self.core);
            self.check_running()?;
            if core.takes_changes() {
                let ops = make(&core);
                if ops.is_empty() {
                    // What made it so may still be on its way to the log.
                    break core.newest_ticket();
                }
                core.check_log_room(&self.name, &ops)?;
                break self.enqueue(&mut core, &ops)?;
            }
        };
        self.log.wanted.notify(1);
        self.wait_durable(ticket).await
    }

    /// Applies and queues operations; stops the group if they do not fit its state.
    pub fn enqueue(&self, core: &mut Core, ops: &[Op]) -> Result<u64, Error> {
        core.enqueue(ops).map_err(|error| match error {
            ChangeError::TooLarge { bytes } => Error::BadValue {
                what: "a change of the metadata of",
                value: format!("{bytes} bytes"),
                allowed: format!("at most {PAYLOAD_MAX} bytes at once"),
            },
            ChangeError::Misfit(_) => {
                let why: Arc<str> = error.to_string().into();
                self.stop(Arc::clone(&why));
                Error::Stopped { group: self.name.clone(), why }
            }
        })
    }

    /// Waits until the change with `ticket` is durable on every member of the metadata set.
    pub async fn wait_durable(&self, ticket: u64) -> Result<(), Error> {
        if self.log.is_durable(ticket) {
            return Ok(());
        }
        let wait = self.begin(Event::METADATA_LOG_WRITE);
        loop {
            let listener = self.log.moved.listen();
            if self.log.is_durable(ticket) {
                self.end(wait);
                return Ok(());
            }
            self.check_running()?;
            listener.await;
        }
    }

    /// Tells the waiters that everything up to `ticket` is durable, and frees what waited for it.
    /// Checksums of freed AUs are overwritten by the first write of each piece; nothing reads a piece
    /// before that.
    pub fn made_durable(&self, ticket: u64) {
        {
            let mut core = lock(&self.core);
            for leg in core.take_frees(ticket) {
                core.space.free(leg);
            }
        }
        self.log.made_durable(ticket);
    }
}
