//! Recovery: reads the log from the checkpoint to its end, then opens it.
//!
//! 1. Control data says which media, groups and openings there are; headers say which media are
//!    what they were.
//! 2. The walk takes each block from any medium that has it whole, and gives the records out.
//! 3. Where no medium has the next block the log ends, unless a later block, the control data or missing
//!    media show that it was acknowledged: then the log is not opened.
//! 4. What media lack is written again and flushed, a new incarnation is made durable, and the log is open.
//!    A crash anywhere before that leads to the same end.

pub(crate) mod judge;
mod open;
pub(crate) mod read;
mod records;
#[cfg(test)]
mod tests;
pub(crate) mod walk;

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::SharedEnv;
use cellar_wait::Session;

use crate::error::Error;
use crate::lsn::Lsn;
use crate::on_disk::control::ControlData;
use crate::on_disk::{ABN_MAX, DatabaseId};
use crate::options::{Control, Medium, Options};
use judge::{Judged, Standing};
use read::Reader;
pub(crate) use records::Assembler;
pub use records::Record;
use walk::Walk;

/// The parameters for opening a log.
pub struct OpenLog {
    /// Clock, chance and tasks.
    pub env: SharedEnv,
    /// Where the log's own waits are counted.
    pub session: Session,
    /// Keeps the control data.
    pub control: Arc<dyn Control>,
    /// The media that are here.
    pub media: Vec<Medium>,
    /// Parameters.
    pub options: Options,
    /// Media that failed and are to be used again: recovery copies to them what it reads. All earlier
    /// writes to them must have been answered.
    pub returning: Vec<String>,
    /// Open the log even if missing media may hold the only copy of acknowledged records, which are then
    /// lost.
    pub force: bool,
}

/// The report of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The log ended here; new records follow.
    pub end: Lsn,
    /// Records that were returned.
    pub records: u64,
    /// Blocks that were read.
    pub blocks: u64,
    /// Copies of blocks that were missing or bad on a medium, and were written again.
    pub repaired: u64,
    /// Copies of headers that were damaged.
    pub bad_headers: u32,
    /// Media that are not used from now on.
    pub left_out: Vec<String>,
    /// Files that are present and do not belong to this log, each with the reason.
    pub refused: Vec<String>,
    /// Media that lost blocks which they had acknowledged.
    pub lost_writes: Vec<String>,
    /// Whether acknowledged records may be lost because the log was opened by force.
    pub forced: bool,
}

/// A recovery under way: the log is read, and then opened.
pub struct Recovery {
    env: SharedEnv,
    session: Session,
    control: Arc<dyn Control>,
    options: Options,
    force: bool,
    judged: Vec<Judged>,
    reader: Reader,
    walk: Walk,
    records: Assembler,
    report: Report,
    ended: bool,
    /// Nothing is written, and the log is not opened.
    is_read_only: bool,
    /// The caller has what is below.
    replayed: Lsn,
    /// Media that could not be repaired.
    unrepaired: Vec<usize>,
}

/// Repairs are written once this many blocks are lacking.
const REPAIRS_MAX: usize = 1024;

impl Recovery {
    /// Reads control data and headers, and judges the media.
    ///
    /// # Errors
    /// [`Error::ControlDamaged`], [`Error::ControlOld`], [`Error::NoMedium`], [`Error::BadValue`];
    /// [`Error::Io`] when control data cannot be read.
    #[boxed]
    pub async fn start(log: OpenLog) -> Result<Recovery, Error> {
        let OpenLog { env, session, control, media, options, returning, force } = log;
        let bytes = control.load().await?;
        let mut data =
            ControlData::decode(&bytes).map_err(|damage| Error::ControlDamaged { damage })?;
        check(&data)?;
        options.check(data.block_size)?;
        begin(&mut data);
        let read_timeout = options.write_timeout;
        let judged = judge::judge(&data, &media, &returning, &env, read_timeout).await?;
        let standing: Vec<Standing> = judged.iter().map(|j| j.standing).collect();
        let read = |j: &Judged| match j.standing {
            Standing::Whole | Standing::Stale | Standing::Returning => j.files.clone(),
            Standing::Failed | Standing::Missing => vec![None; j.files.len()],
        };
        let files = judged.iter().map(read).collect();
        let (reader_env, waits, size) = (Arc::clone(&env), session.clone(), data.block_size);
        let mut reader = Reader::new(reader_env, waits, size, files, read_timeout);
        let records = Assembler::new(data.checkpoint);
        let bad_headers = judged.iter().map(|j| j.bad_headers).sum();
        let walk = Walk::new(data, standing)?;
        reader.go(walk.places());
        let refused = judged.iter().filter_map(|j| j.refused.as_ref()).map(Error::to_string);
        let report = Report { bad_headers, refused: refused.collect(), ..Report::default() };
        Ok(Recovery {
            env,
            session,
            control,
            options,
            force,
            judged,
            reader,
            walk,
            records,
            report,
            ended: false,
            is_read_only: false,
            replayed: Lsn(0),
            unrepaired: Vec::new(),
        })
    }

    /// The database whose log it is.
    pub fn database(&self) -> DatabaseId {
        self.walk.control.database
    }

    /// The checkpoint where it begins: earlier records are not returned.
    pub fn checkpoint(&self) -> Lsn {
        self.walk.control.checkpoint
    }

    /// Moves the checkpoint to `lsn`: everything below it has been read and is durable elsewhere, and the
    /// opened log begins there. A checkpoint never moves back, nor past what was read.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an LSN that was not read yet.
    pub fn set_checkpoint(&mut self, lsn: Lsn) -> Result<(), Error> {
        let read = self.walk.end();
        if lsn > read {
            let allowed = format!("at most {}", read.0);
            return Err(Error::BadValue { what: "checkpoint", value: lsn.0, allowed });
        }
        self.replayed = self.replayed.max(lsn);
        Ok(())
    }

    /// Whether it was started by force: acknowledged records may be missing at its end.
    pub fn is_forced(&self) -> bool {
        self.force
    }

    /// Makes it read on where it would stop with an error, as if it had been started by force.
    #[must_use]
    pub fn by_force(mut self) -> Recovery {
        self.force = true;
        self
    }

    /// Makes it read-only: records are read, but it cannot open the log.
    #[must_use]
    pub fn without_writes(mut self) -> Recovery {
        self.is_read_only = true;
        self
    }

    /// The end of what has been read so far; after [`next`](Recovery::next) has returned `None`, the end of
    /// the log.
    pub fn end(&self) -> Lsn {
        self.walk.end()
    }

    /// The next record at or behind the checkpoint; `None` at the end of the log.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::MediaMissing`], [`Error::Divergent`], [`Error::Corrupt`]: the
    /// log cannot be opened as it is.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.records.pop() {
                self.report.records += 1;
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            match self.walk.step(&mut self.reader).await? {
                Ok((header, block)) => {
                    self.report.blocks += 1;
                    self.records.feed(&header, &block)?;
                    if self.is_read_only {
                        self.walk.repairs.clear();
                    } else if self.walk.repairs.len() >= REPAIRS_MAX {
                        self.repair().await;
                    }
                }
                Err(mut end) => {
                    self.walk.look_behind(&mut self.reader, &mut end).await;
                    self.walk.judge_end(&end, self.force).map_err(|error| self.explained(error))?;
                    let lost = self.walk.durable > self.walk.abn || !end.unknown.is_empty();
                    self.report.forced = self.force && lost;
                    self.ended = true;
                }
            }
        }
    }

    /// Adds to an error about missing media what is wrong with those that are present.
    fn explained(&self, error: Error) -> Error {
        match error {
            Error::MediaMissing { from, known_until, media, .. } => {
                let causes = self.report.refused.clone();
                Error::MediaMissing { from, known_until, media, causes }
            }
            other => other,
        }
    }
}

/// Refuses control data that contradicts itself.
fn check(data: &ControlData) -> Result<(), Error> {
    let field = |field, value| {
        Err(Error::ControlDamaged { damage: crate::on_disk::Damage::Field { field, value } })
    };
    if data.groups.len() < 2 || data.media.is_empty() {
        return field("groups", data.groups.len() as u64);
    }
    for group in &data.groups {
        let fits = crate::on_disk::header::capacity_of(group.size, data.block_size);
        if group.capacity != fits || group.capacity == 0 {
            return field("group capacity", group.capacity);
        }
        if group.sequence > ABN_MAX {
            return field("group sequence", group.sequence);
        }
    }
    let mut used: Vec<_> = data.groups.iter().filter(|group| group.sequence > 0).collect();
    used.sort_by_key(|group| group.sequence);
    for two in used.windows(2) {
        // Below the checkpoint an opening may be gone.
        let follows = two[1].sequence == two[0].sequence + 1
            && two[1].first.0 == two[0].first.0 + two[0].capacity;
        let is_needed = two[1].first > data.checkpoint.abn();
        if two[1].sequence == two[0].sequence || (is_needed && !follows) {
            return field("group sequence", two[1].sequence);
        }
    }
    Ok(())
}

/// Assigns the first group of a log that was never opened.
fn begin(data: &mut ControlData) {
    if data.groups.iter().all(|group| group.sequence == 0) {
        (data.groups[0].sequence, data.groups[0].first) = (1, data.checkpoint.abn());
    }
}
