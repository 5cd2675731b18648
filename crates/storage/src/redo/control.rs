//! The control file of the redo log: the control data of `redo`, and this crate's own notes about the
//! log.
//!
//! One small file in the group with the catalog, in as many copies as that group can keep, up to three;
//! if it can keep more than before, opening the log makes the file anew. The file has two halves. A
//! change is written into the half that does not hold the newest content, so that a crash leaves either
//! the old or the new content, whole. Format: `docs/format/redo.md`, Control file.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_io::{DeviceExt, Durability, Io, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::Control;
use serde::{Deserialize, Serialize};

use crate::error::{Error, NextStep, Result};

/// Where it is in its group.
pub const CONTROL_PATH: &str = "cellar/redo.control";

/// Bytes of a half.
const HALF: usize = 512 << 10;
/// Bytes of the file.
pub const FILE_BYTES: u64 = 2 * HALF as u64;
pub(super) const MAGIC: &[u8; 8] = b"CLRREDOC";
const VERSION: u32 = 1;
/// Bytes before the content.
const HEAD: usize = 40;
/// A write is a whole number of these.
pub const SECTOR: usize = 4096;
/// Switches that are remembered.
const HISTORY_MAX: usize = 1000;

/// A log group that was written to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Its sequence.
    pub sequence: u64,
    /// The group that it was in.
    pub group: u32,
    /// Its records begin at or after this LSN.
    pub first: u64,
    /// The next sequence begins here.
    pub next: u64,
    /// When the switch was seen, in nanoseconds since 1970.
    pub at: u64,
    /// There is no archive: CLEAR UNARCHIVED gave it up, or is about to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleared: bool,
    /// The place of its archive, if that is not where the log archives to now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

/// What is known of the log beside its control data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// Why its blocks have the size that they have.
    pub block_size_reason: String,
    /// Where finished groups are archived: `+DATA` or `+DATA/dir`; empty: nowhere.
    pub archive_dest: String,
    /// Groups that were written to their end, the newest last.
    pub history: Vec<Switch>,
    /// The log is being dropped: whoever opens the database next completes that.
    #[serde(default)]
    pub given_up: bool,
    /// It was once opened by force: what was acknowledged before may be lost.
    #[serde(default)]
    pub was_forced: bool,
}

impl Notes {
    /// Remembers a switch, if it is new.
    pub fn remember(&mut self, switch: Switch) {
        if self.history.last().is_some_and(|last| last.sequence >= switch.sequence) {
            return;
        }
        self.history.push(switch);
        while self.history.len() > HISTORY_MAX {
            // A sequence without an archive is reported for as long as there is room: recovery from
            // archives stops there, however long ago it was.
            let oldest = self.history[..=HISTORY_MAX / 2].iter().position(|old| !old.cleared);
            self.history.remove(oldest.unwrap_or(0));
        }
    }

    /// Says whether a sequence was given up without an archive.
    pub fn set_cleared(&mut self, sequence: u64, cleared: bool) {
        let switch = self.history.iter_mut().find(|switch| switch.sequence == sequence);
        if let Some(switch) = switch {
            switch.cleared = cleared;
        }
    }

    /// The place that has the archive of a sequence which was archived.
    pub fn place_of<'a>(&'a self, switch: &'a Switch) -> &'a str {
        switch.archive.as_deref().unwrap_or(&self.archive_dest)
    }

    /// Records where the archive of a sequence is. Nothing is stored for one that is in the current
    /// place: a thousand names would be much to write with each change.
    pub fn set_place(&mut self, sequence: u64, place: &str) {
        let other = (place != self.archive_dest).then(|| place.to_owned());
        let switch = self.history.iter_mut().find(|switch| switch.sequence == sequence);
        if let Some(switch) = switch {
            switch.archive = other;
        }
    }

    /// Archives groups to another place from now on; the archives up to `archived` stay where they are.
    pub fn archive_to(&mut self, place: String, archived: u64) {
        let old = std::mem::replace(&mut self.archive_dest, place);
        for switch in self.history.iter_mut().filter(|switch| switch.sequence <= archived) {
            let place = switch.archive.take().unwrap_or_else(|| old.clone());
            switch.archive = (place != self.archive_dest).then_some(place);
        }
    }

    /// Whether a sequence is known to have no archive.
    pub fn is_cleared(&self, sequence: u64) -> bool {
        self.history.iter().any(|switch| switch.sequence == sequence && switch.cleared)
    }
}

/// What one half holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The number of writes so far.
    pub generation: u64,
    /// The control data, as `redo` encodes it.
    pub redo: Vec<u8>,
    /// The rest.
    pub notes: Notes,
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl Content {
    /// Its bytes, padded to whole sectors; `None`: it does not fit into a half.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let notes = serde_json::to_vec(&self.notes).ok()?;
        let length = HEAD + self.redo.len() + notes.len();
        if length > HALF {
            return None;
        }
        let mut bytes = vec![0; HEAD];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 12, &VERSION.to_le_bytes());
        put(&mut bytes, 16, &self.generation.to_le_bytes());
        put(&mut bytes, 24, &u32::try_from(self.redo.len()).ok()?.to_le_bytes());
        put(&mut bytes, 28, &u32::try_from(notes.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&self.redo);
        bytes.extend_from_slice(&notes);
        let crc = crc32c::crc32c(&bytes[12..]);
        put(&mut bytes, 8, &crc.to_le_bytes());
        bytes.resize(length.next_multiple_of(SECTOR), 0);
        Some(bytes)
    }

    /// Reads a half; `None`: it was never written, or is torn.
    ///
    /// # Errors
    /// 70109: a newer version wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Option<Content>> {
        let Some(content) = Self::whole(bytes) else { return Ok(None) };
        let version = number(bytes, 12).map_or(0, u32::from_le_bytes);
        if version > VERSION {
            let text = format!("the control file of the redo log has version {version}");
            return Err(Error::new(70109, format!("{text}, this program knows {VERSION}"))
                .hint("use the program that wrote it, or newer"));
        }
        Ok(content)
    }

    /// The content if magic and crc are right; inner `None`: notes of another version.
    fn whole(bytes: &[u8]) -> Option<Option<Content>> {
        if bytes.get(..8)? != MAGIC {
            return None;
        }
        let length = |at| Some(u32::from_le_bytes(number(bytes, at)?) as usize);
        let (redo, notes) = (length(24)?, length(28)?);
        let end = HEAD.checked_add(redo)?.checked_add(notes)?;
        let crc = u32::from_le_bytes(number(bytes, 8)?);
        if crc32c::crc32c(bytes.get(12..end)?) != crc {
            return None;
        }
        let generation = u64::from_le_bytes(number(bytes, 16)?);
        let notes = serde_json::from_slice(&bytes[HEAD + redo..end]).ok();
        let redo = bytes[HEAD..HEAD + redo].to_vec();
        Some(notes.map(|notes| Content { generation, redo, notes }))
    }

    /// The newer of two halves.
    ///
    /// # Errors
    /// 00227: neither is whole. 70109.
    pub fn newest(bytes: &[u8]) -> Result<Content> {
        let halves = bytes.chunks(HALF).take(2).map(Self::decode).collect::<Result<Vec<_>>>()?;
        halves.into_iter().flatten().max_by_key(|half| half.generation).ok_or_else(|| {
            Error::new(227, "the control file of the redo log is damaged").hint(
                NextStep::default().cellar("validate", "").then(
                    " tells whether another copy is whole; without it no commit can be found again",
                ),
            )
        })
    }
}

/// How many copies a group can keep of it now, whatever a template says: without this file no commit can
/// be found again.
fn copies_in(group: &Group) -> u8 {
    if group.info().redundancy.copies() == 1 {
        return 1;
    }
    let disks = group.disks().into_iter().filter(|d| d.in_sync && !d.status.is_leaving());
    let failgroups: BTreeSet<String> = disks.map(|disk| disk.failgroup).collect();
    if failgroups.len() < 3 { 2 } else { 3 }
}

/// A file for it, which has no name yet.
async fn new_file(group: &Group) -> Result<File> {
    let spec = FileSpec {
        template: Some(String::new()),
        checksums: Some(true),
        copies: Some(copies_in(group)),
        ..FileSpec::new(FileType::Controlfile)
    };
    let file = group.create_file(&spec).await?;
    file.set_size(FILE_BYTES).await?;
    Ok(file)
}

/// The control file of a log that is open, or was looked at.
pub struct ControlFile {
    file: File,
    name: Arc<str>,
    content: Mutex<Content>,
    /// Held while writing.
    turn: futures_util::lock::Mutex<()>,
}

impl std::fmt::Debug for ControlFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ControlFile({})", self.name)
    }
}

impl ControlFile {
    fn new(group: &Group, file: File, content: Content) -> ControlFile {
        let name = format!("+{}/{CONTROL_PATH}", group.name()).into();
        ControlFile { file, name, content: Mutex::new(content), turn: Default::default() }
    }

    /// Opens the one in `group`; `None`: there is none, so there is no log.
    ///
    /// # Errors
    /// 00227 damaged, 70109, or it cannot be read.
    #[boxed]
    pub async fn open(group: &Group) -> Result<Option<ControlFile>> {
        let file = match group.open(CONTROL_PATH) {
            Ok(file) => file,
            Err(cellar_diskgroup::Error::NoSuchFile { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A half that cannot be read counts as torn: the headers of the media show if it was the newer
        // one and media were given up since.
        let first = file.read_at(Io::FOREGROUND, 0, HALF).await;
        let second = file.read_at(Io::FOREGROUND, HALF as u64, HALF).await;
        let mut bytes = vec![0; 2 * HALF];
        for (half, read) in bytes.chunks_mut(HALF).zip([&first, &second]) {
            if let Ok(read) = read {
                half.copy_from_slice(read);
            }
        }
        let content = match Content::newest(&bytes) {
            Err(error) if error.has(227) => {
                let unreadable = [first.err(), second.err()].into_iter().flatten();
                return Err(unreadable.map(Error::from).fold(error, Error::over));
            }
            content => content?,
        };
        Ok(Some(ControlFile::new(group, file, content)))
    }

    /// Makes a new one that has no name yet.
    ///
    /// # Errors
    /// No room for it.
    #[boxed]
    pub async fn create(group: &Group, notes: Notes) -> Result<ControlFile> {
        let file = new_file(group).await?;
        Ok(ControlFile::new(group, file, Content { notes, ..Content::default() }))
    }

    /// Makes it anew, in more copies, if the group can keep more now; `None`: it cannot. The caller must
    /// be its only user: what is written to the old file afterwards is lost.
    ///
    /// # Errors
    /// No room for it, or the group has stopped. Which file has the name then is not known.
    #[boxed]
    pub async fn in_more_copies(&self, group: &Group) -> Result<Option<ControlFile>> {
        if self.copies() >= copies_in(group) {
            return Ok(None);
        }
        let file = new_file(group).await?;
        let content = self.content().clone();
        let more = ControlFile::new(group, file, content);
        // Whole and durable before it has the name.
        more.write(|_| {}).await?;
        group.publish(&more.file, CONTROL_PATH, true).await?;
        Ok(Some(more))
    }

    /// Gives it its name: from then on there is a log.
    ///
    /// # Errors
    /// The group has stopped.
    #[boxed]
    pub async fn publish(&self, group: &Group) -> Result<()> {
        Ok(group.publish(&self.file, CONTROL_PATH, false).await?)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The control data that was stored last.
    pub fn redo(&self) -> Vec<u8> {
        self.content().redo.clone()
    }

    /// What is known beside the control data.
    pub fn notes(&self) -> Notes {
        self.content().notes.clone()
    }

    /// Its path in its group.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// How many copies it has.
    pub fn copies(&self) -> u8 {
        self.file.attributes().copies
    }

    /// Changes what is known beside the control data, durably.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn note(&self, change: impl FnOnce(&mut Notes) + Send) -> Result<()> {
        Ok(self.write(|content| change(&mut content.notes)).await?)
    }

    /// As [`note`](ControlFile::note), for a change that may find nothing to do: then nothing is written.
    /// No other change comes between its check and the write.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn note_if_new(&self, change: impl FnOnce(&mut Notes) + Send) -> Result<()> {
        let _turn = self.turn.lock().await;
        let before = self.content().clone();
        let mut next = before.clone();
        change(&mut next.notes);
        if next == before {
            return Ok(());
        }
        Ok(self.write_next(next).await?)
    }

    async fn write(&self, change: impl FnOnce(&mut Content)) -> std::result::Result<(), IoError> {
        let _turn = self.turn.lock().await;
        let mut next = self.content().clone();
        change(&mut next);
        self.write_next(next).await
    }

    /// Called by the holder of the turn.
    async fn write_next(&self, mut next: Content) -> std::result::Result<(), IoError> {
        next.generation += 1;
        let at = (next.generation % 2) * HALF as u64;
        let bytes = next.encode().ok_or_else(|| self.failed(IoErrorKind::NoSpace))?;
        self.file.write_at(Io::COMMIT, at, Bytes::from(bytes), Durability::Durable).await?;
        *self.content() = next;
        Ok(())
    }

    fn failed(&self, kind: IoErrorKind) -> IoError {
        IoError::new(kind, &self.name, Op::Write, 0, HALF as u64)
    }
}

impl Control for ControlFile {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async move { Ok(self.redo()) })
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move { self.write(|content| content.redo = bytes).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleared() -> Switch {
        let (cleared, archive) = (true, None);
        Switch { sequence: 0, group: 0, first: 0, next: 1, at: 0, cleared, archive }
    }

    fn content(generation: u64) -> Content {
        let switch = Switch { sequence: 4, group: 1, first: 4096, next: 81920, at: 7, ..cleared() };
        let notes = Notes {
            block_size_reason: "reported 4096".into(),
            archive_dest: "+DATA".into(),
            history: vec![switch],
            given_up: false,
            was_forced: true,
        };
        Content { generation, redo: vec![7; 300], notes }
    }

    fn file(halves: [&[u8]; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 2 * HALF];
        put(&mut bytes, 0, halves[0]);
        put(&mut bytes, HALF, halves[1]);
        bytes
    }

    fn newer_notes(bytes: &[u8]) -> usize {
        u32::from_le_bytes(number(bytes, 28).unwrap()) as usize
    }

    #[test]
    fn a_torn_half_leaves_the_other() {
        let (old, new) = (content(8), content(9));
        let (old_bytes, new_bytes) = (old.encode().unwrap(), new.encode().unwrap());
        assert_eq!(Content::newest(&file([&old_bytes, &new_bytes])).unwrap(), new);
        for bad in 0..HEAD + 300 {
            let mut torn = new_bytes.clone();
            torn[bad] ^= 1;
            assert_eq!(Content::newest(&file([&old_bytes, &torn])).unwrap(), old, "byte {bad}");
        }
        let mut newer = new_bytes.clone();
        put(&mut newer, 12, &2u32.to_le_bytes());
        let crc = crc32c::crc32c(&newer[12..HEAD + 300 + newer_notes(&newer)]);
        put(&mut newer, 8, &crc.to_le_bytes());
        let error = Content::newest(&file([&old_bytes, &newer])).unwrap_err();
        assert_eq!(error.number(), 70109, "an older half does not stand for a newer version's");
        let none = Content::newest(&file([&[], &new_bytes[..100]])).unwrap_err();
        assert_eq!(none.number(), 227);
    }

    #[test]
    fn notes_that_know_of_no_cleared_group_are_read() {
        let old = r#"{"block_size_reason":"","archive_dest":"+DATA","history":
            [{"sequence":4,"group":1,"first":4096,"next":81920,"at":7}]}"#;
        let mut notes: Notes = serde_json::from_str(old).unwrap();
        assert!(!notes.is_cleared(4));
        let again = serde_json::to_string(&notes).unwrap();
        let is_silent = !again.contains("cleared") && !again.contains(r#""archive":"#);
        assert!(is_silent, "what need not be said is not: {again}");
        assert_eq!(notes.place_of(&notes.history[0]), "+DATA");
        notes.set_cleared(4, true);
        let read: Notes = serde_json::from_str(&serde_json::to_string(&notes).unwrap()).unwrap();
        assert!(read.is_cleared(4) && !read.is_cleared(5));
    }

    #[test]
    fn archives_stay_known_where_they_are_when_the_place_changes() {
        let mut notes = Notes { archive_dest: "+DATA/a".into(), ..Notes::default() };
        for sequence in 1..=4 {
            notes.remember(Switch { sequence, cleared: sequence == 2, ..cleared() });
        }
        let places = |notes: &Notes| -> Vec<String> {
            notes.history.iter().map(|switch| notes.place_of(switch).to_owned()).collect()
        };
        notes.archive_to("+MORE/b".into(), 3);
        assert_eq!(places(&notes), ["+DATA/a", "+DATA/a", "+DATA/a", "+MORE/b"]);
        let read: Notes = serde_json::from_str(&serde_json::to_string(&notes).unwrap()).unwrap();
        assert_eq!(read, notes);
        // It was on its way to the old place when that was left.
        notes.set_place(4, "+DATA/a");
        assert_eq!(places(&notes)[3], "+DATA/a");
        notes.set_place(4, "+MORE/b");
        notes.archive_to("+DATA/a".into(), 4);
        assert_eq!(places(&notes), ["+DATA/a", "+DATA/a", "+DATA/a", "+MORE/b"]);
        let named = notes.history.iter().filter(|switch| switch.archive.is_some()).count();
        assert_eq!(named, 1, "what is where all are is not named");
    }

    #[test]
    fn switches_are_remembered_once_and_not_for_ever() {
        let mut notes = Notes::default();
        for sequence in (1..=1200).flat_map(|n| [n, n]) {
            let group = sequence as u32 % 3;
            let archive = Some("+MORE".to_owned() + &"d".repeat(145));
            notes.remember(Switch { sequence, group, archive, ..cleared() });
        }
        assert!(notes.is_cleared(201) && !notes.is_cleared(200), "so many are not kept");
        let full = Content { generation: 1, redo: vec![1; 96 << 10], notes: notes.clone() };
        assert!(full.encode().is_some(), "as large as it may get, it fits");
        for sequence in 1201..=5000 {
            notes.remember(Switch { sequence, group: 1, cleared: false, ..cleared() });
        }
        let cleared = notes.history.iter().filter(|switch| switch.cleared).count();
        assert_eq!((cleared, notes.history.len()), (HISTORY_MAX / 2, HISTORY_MAX));
        assert_eq!(notes.history.last().unwrap().sequence, 5000);
        assert!(notes.history.windows(2).all(|w| w[0].sequence < w[1].sequence));
    }
}
