//! Files of a group: making, growing, naming, deleting.

use std::sync::Arc;

use crate::base::core::Core;
use crate::disk::lock;
use crate::error::Error;
use crate::group::handle::File;
use crate::group::inner::Inner;
use crate::group::{Group, template};
use crate::names::{Alias, Entry, FileNo, NameOp, PathPart, TreeError};
use crate::on_disk::layout::REGION_BYTES;
use crate::state::{FileAttributes, FileState, FileType, Op, Striping};
use async_recursion::async_recursion as boxed;

/// Extent sets in one record of the metadata log.
const SETS_PER_RECORD: usize = 16_384;

/// Attributes of a new file. `None` takes that of the template, or else the group's default.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// The type of the file.
    pub file_type: FileType,
    /// Copies: 1, 2 or 3.
    pub copies: Option<u8>,
    /// The striping of its bytes over its extents.
    pub striping: Option<Striping>,
    /// The smallest piece that is repaired as one: 4096 or 8192 bytes.
    pub unit: Option<u32>,
    /// Whether each 4 KiB has a checksum.
    pub checksums: Option<bool>,
    /// Confine it to this failure group; then it has one copy.
    pub placement: Option<String>,
    /// The template for the rest; `None` takes that of its type, an empty text takes none.
    pub template: Option<String>,
}

impl FileSpec {
    /// A file of that type with the group's defaults.
    pub fn new(file_type: FileType) -> FileSpec {
        FileSpec {
            file_type,
            copies: None,
            striping: None,
            unit: None,
            checksums: None,
            placement: None,
            template: None,
        }
    }
}

/// The condition under which a file may take a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishIf {
    /// Whether or not a file has the name; that file loses it.
    Always,
    /// No file has it.
    NameIsFree,
    /// This very file has it.
    NameHas {
        /// File number.
        file: u32,
        /// Its incarnation.
        incarnation: u32,
    },
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path from the root of the group, without the leading slash.
    pub path: String,
    /// The file behind it; `None` for a directory.
    pub file: Option<u32>,
    /// Whether the system made the name.
    pub system: bool,
}

impl From<TreeError> for Error {
    fn from(error: TreeError) -> Error {
        match error {
            TreeError::NotFound { name, .. } => Error::NoSuchFile { name },
            TreeError::Exists { name, .. } => Error::Exists { name },
            TreeError::NotEmpty { dir, .. } => Error::NotEmpty { name: dir },
            TreeError::NotADirectory(name) => {
                Error::BadName { name, why: "it is a file, not a directory".into() }
            }
            TreeError::IsADirectory(name) => {
                Error::BadName { name, why: "it is a directory, not a file".into() }
            }
            TreeError::Loop(name) => {
                Error::BadName { name, why: "it cannot move below itself".into() }
            }
            TreeError::NoSuchDir(no) => Error::NoSuchFile { name: format!("directory {}", no.0) },
            TreeError::DirInUse(no) => Error::Exists { name: format!("directory {}", no.0) },
        }
    }
}

/// Cuts a path into checked parts: `dir/name`, from the root of the group.
pub(crate) fn parts_of(path: &str) -> Result<Vec<PathPart>, Error> {
    path.trim_matches('/')
        .split('/')
        .filter(|p| !p.is_empty())
        .map(|p| {
            PathPart::new(p)
                .map_err(|e| Error::BadName { name: path.to_owned(), why: e.to_string() })
        })
        .collect()
}

impl Group {
    /// Creates an empty file without a name. It does not survive a crash until it is
    /// [published](Group::publish).
    ///
    /// # Errors
    /// An attribute is not allowed, or the group has stopped.
    #[boxed]
    pub async fn create_file(&self, spec: &FileSpec) -> Result<File, Error> {
        let at_ns = self.inner.env.wall().unix_nanos;
        let number = self
            .inner
            .change(|core| {
                let attributes = attributes(core, spec)?;
                let (number, incarnation) = (core.state.next_file, core.state.next_incarnation);
                let op = Op::FileCreate { number, incarnation, attributes, at_ns };
                Ok((number, vec![op]))
            })
            .await?;
        self.open_number(number)
    }

    /// Opens a file by its number.
    ///
    /// # Errors
    /// No such file.
    pub fn open_number(&self, number: u32) -> Result<File, Error> {
        self.inner.check_running()?;
        let core = lock(&self.inner.core);
        match core.state.files.get(&number) {
            Some(file) => Ok(File::new(Arc::clone(&self.inner), self.inner.data.file(file))),
            None => Err(Error::NoSuchFile { name: format!("file {number}") }),
        }
    }

    /// Opens a file by its path.
    ///
    /// # Errors
    /// No such file.
    pub fn open(&self, path: &str) -> Result<File, Error> {
        self.inner.check_running()?;
        let parts = parts_of(path)?;
        let core = lock(&self.inner.core);
        let number = core.state.names.lookup_file(&parts)?.file.0;
        // Under the same lock, so that nobody deletes it between its name and its handle.
        match core.state.files.get(&number) {
            Some(file) => Ok(File::new(Arc::clone(&self.inner), self.inner.data.file(file))),
            None => Err(Error::NoSuchFile { name: path.to_owned() }),
        }
    }

    /// Gives a file its name, durably, and keeps it from here on; missing directories are made.
    /// With `replace` the name is taken from the file that has it, which is deleted when its last
    /// user is done: a crash leaves the old file or the new one, whole.
    ///
    /// # Errors
    /// The name is taken, or will not do.
    #[boxed]
    pub async fn publish(&self, file: &File, path: &str, replace: bool) -> Result<(), Error> {
        let condition = match replace {
            true => PublishIf::Always,
            false => PublishIf::NameIsFree,
        };
        let published = self.publish_if(file, path, condition).await?;
        assert!(published, "only a condition on the old file is answered with no");
        Ok(())
    }

    /// As [`Group::publish`], on a condition that is checked in the same change of the metadata.
    /// False: the name does not have the file that the condition names, and nothing was done.
    ///
    /// # Errors
    /// The name is taken although it must be free, or will not do.
    #[boxed]
    pub async fn publish_if(
        &self,
        file: &File,
        path: &str,
        condition: PublishIf,
    ) -> Result<bool, Error> {
        let parts = parts_of(path)?;
        let (name, dirs) = parts.split_last().ok_or_else(|| Error::BadName {
            name: path.to_owned(),
            why: "it names no file".to_owned(),
        })?;
        let number = file.number();
        let old = self
            .inner
            .change(|core| {
                let state = &core.state;
                let incarnation = state.files.get(&number).map(|f| f.incarnation);
                let incarnation = incarnation.ok_or(Error::NoSuchFile { name: path.to_owned() })?;
                let before = state.names.lookup(&parts).ok().map(|f| f.entry);
                let old = match (before, condition) {
                    (Some(Entry::Dir(_)), _) => {
                        return Err(TreeError::IsADirectory(path.to_owned()).into());
                    }
                    (Some(Entry::File(_)), PublishIf::NameIsFree) => {
                        return Err(Error::Exists { name: path.to_owned() });
                    }
                    (Some(Entry::File(old)), PublishIf::NameHas { file, incarnation }) => {
                        if (old.file.0, old.incarnation) != (file, incarnation) {
                            return Ok((None, vec![]));
                        }
                        Some(old)
                    }
                    (None, PublishIf::NameHas { .. }) => return Ok((None, vec![])),
                    (Some(Entry::File(old)), PublishIf::Always) => Some(old),
                    (None, _) => None,
                };
                let (dir, mut ops) = mkdirs(core, dirs)?;
                let alias = Alias { file: FileNo(number), incarnation, system: false };
                let name = name.clone();
                ops.push(Op::Name(match old {
                    Some(_) => NameOp::Replace { dir, name, alias },
                    None => NameOp::Link { dir, name, alias },
                }));
                ops.push(Op::FilePublish { number });
                let orphan = old.filter(|o| o.file.0 != number).and_then(|o| orphaned(core, o, 1));
                ops.extend(orphan.map(|number| Op::FileUnpublish { number }));
                Ok((Some(orphan), ops))
            })
            .await?;
        let Some(old) = old else { return Ok(false) };
        self.reap(old).await?;
        Ok(true)
    }

    /// Takes a name away; the file goes with its last name, when its last user is done.
    ///
    /// # Errors
    /// No such file.
    #[boxed]
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        let parts = parts_of(path)?;
        let orphan = self
            .inner
            .change(|core| {
                let found = core.state.names.lookup(&parts)?;
                let (Entry::File(alias), Some(name)) = (found.entry, parts.last()) else {
                    return Err(TreeError::IsADirectory(path.to_owned()).into());
                };
                let mut ops =
                    vec![Op::Name(NameOp::Unlink { dir: found.parent, name: name.clone() })];
                let orphan = orphaned(core, alias, 1);
                ops.extend(orphan.map(|number| Op::FileUnpublish { number }));
                Ok((orphan, ops))
            })
            .await?;
        self.reap(orphan).await
    }

    /// Moves a name. With `replace` a file that has the new name loses it.
    ///
    /// # Errors
    /// No such name, or the new one is taken or will not do.
    #[boxed]
    pub async fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), Error> {
        let (from_parts, to_parts) = (parts_of(from)?, parts_of(to)?);
        let bad = || Error::BadName { name: to.to_owned(), why: "it names no file".to_owned() };
        let (to_name, to_dirs) = to_parts.split_last().ok_or_else(bad)?;
        let from_name = from_parts.last().ok_or_else(bad)?;
        if from_parts == to_parts {
            return Ok(());
        }
        let orphan = self
            .inner
            .change(|core| {
                let found = core.state.names.lookup(&from_parts)?;
                let target = core.state.names.lookup(&to_parts).ok().map(|f| f.entry);
                let old = match (target, found.entry) {
                    (None, _) => None,
                    (Some(Entry::File(old)), Entry::File(_)) if replace => Some(old),
                    _ => {
                        return Err(Error::Exists { name: to.to_owned() });
                    }
                };
                let (to_dir, mut ops) = mkdirs(core, to_dirs)?;
                ops.push(Op::Name(NameOp::Rename {
                    from_dir: found.parent,
                    from: from_name.clone(),
                    to_dir,
                    to: to_name.clone(),
                    replace,
                }));
                check_names(core, &ops)?;
                let orphan = old.and_then(|o| orphaned(core, o, 1));
                ops.extend(orphan.map(|number| Op::FileUnpublish { number }));
                Ok((orphan, ops))
            })
            .await?;
        self.reap(orphan).await
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    /// No such file, or the name is taken.
    #[boxed]
    pub async fn add_alias(&self, alias: &str, path: &str) -> Result<(), Error> {
        let (alias_parts, parts) = (parts_of(alias)?, parts_of(path)?);
        let (name, dirs) = alias_parts.split_last().ok_or_else(|| Error::BadName {
            name: alias.to_owned(),
            why: "it names no file".to_owned(),
        })?;
        self.inner
            .change(|core| {
                let file = core.state.names.lookup_file(&parts)?;
                if core.state.names.lookup(&alias_parts).is_ok() {
                    return Err(Error::Exists { name: alias.to_owned() });
                }
                let dir = core.state.names.lookup_dir(dirs)?;
                let alias = Alias { system: false, ..file };
                let op = Op::Name(NameOp::Link { dir, name: name.clone(), alias });
                Ok(((), vec![op]))
            })
            .await
    }

    /// Makes a directory; with `parents` also those above it.
    ///
    /// # Errors
    /// The name is taken or will not do.
    #[boxed]
    pub async fn mkdir(&self, path: &str, parents: bool) -> Result<(), Error> {
        let parts = parts_of(path)?;
        self.inner
            .change(|core| {
                let ops = core.state.names.plan_mkdir(&parts, parents)?;
                Ok(((), ops.into_iter().map(Op::Name).collect()))
            })
            .await
    }

    /// Removes a directory; with `force` also all names in it. What does not fit one record of the
    /// log goes in several, files before directories: a crash may leave a part.
    ///
    /// # Errors
    /// It is not there, or not empty.
    #[boxed]
    pub async fn rmdir(&self, path: &str, force: bool) -> Result<(), Error> {
        let parts = parts_of(path)?;
        loop {
            let plan = |core: &mut Core| rmdir_some(core, &parts, force);
            let (orphans, all) = self.inner.change(plan).await?;
            for orphan in orphans {
                self.reap(Some(orphan)).await?;
            }
            if all {
                return Ok(());
            }
        }
    }

    /// Names that match a pattern with `*` and `%`, part by part; `recursive` lists what is below.
    pub fn list(&self, pattern: &str, recursive: bool) -> Vec<Listed> {
        let core = lock(&self.inner.core);
        let names = &core.state.names;
        let pattern: Vec<&str> = pattern.split('/').filter(|p| !p.is_empty()).collect();
        let mut out = Vec::new();
        let text = |parts: &[&str]| parts.join("/");
        for (path, entry) in names.find(&pattern) {
            let parts: Vec<&str> = path.iter().map(|p| p.as_str()).collect();
            match entry {
                Entry::File(alias) => out.push(Listed {
                    path: text(&parts),
                    file: Some(alias.file.0),
                    system: alias.system,
                }),
                Entry::Dir(dir) => {
                    if !parts.is_empty() {
                        out.push(Listed { path: text(&parts), file: None, system: false });
                    }
                    if !recursive {
                        continue;
                    }
                    let Ok(below) = names.walk(dir) else { continue };
                    for (sub, entry) in below {
                        let mut all = parts.clone();
                        all.extend(sub.iter().map(|p| p.as_str()));
                        let (file, system) = match entry {
                            Entry::File(alias) => (Some(alias.file.0), alias.system),
                            Entry::Dir(_) => (None, false),
                        };
                        out.push(Listed { path: text(&all), file, system });
                    }
                }
            }
        }
        out
    }

    /// What is directly in a directory.
    ///
    /// # Errors
    /// No such directory.
    pub fn list_dir(&self, path: &str) -> Result<Vec<Listed>, Error> {
        let parts = parts_of(path)?;
        let core = lock(&self.inner.core);
        let dir = core.state.names.lookup_dir(&parts)?;
        let prefix: String = parts.iter().map(|p| format!("{p}/")).collect();
        let list = core.state.names.list(dir)?;
        Ok(list
            .map(|(name, entry)| {
                let (file, system) = match entry {
                    Entry::File(alias) => (Some(alias.file.0), alias.system),
                    Entry::Dir(_) => (None, false),
                };
                Listed { path: format!("{prefix}{name}"), file, system }
            })
            .collect())
    }

    /// Deletes what a crash left unpublished, or what nobody uses any more.
    pub(crate) async fn delete_temporaries(&self) -> Result<(), Error> {
        let temporaries: Vec<u32> = {
            let core = lock(&self.inner.core);
            core.state.files.values().filter(|f| f.temporary).map(|f| f.number).collect()
        };
        for number in temporaries {
            if !self.inner.data.in_use(number) {
                delete_file(&self.inner, number).await?;
            }
        }
        Ok(())
    }

    /// Deletes an unnamed file unless somebody has it open; the last user does it then.
    async fn reap(&self, orphan: Option<u32>) -> Result<(), Error> {
        match orphan {
            Some(number) if !self.inner.data.in_use(number) => {
                delete_file(&self.inner, number).await
            }
            _ => Ok(()),
        }
    }
}

/// The file that loses its last name when `lost` of its names go.
fn orphaned(core: &Core, alias: Alias, lost: usize) -> Option<u32> {
    let names = core.state.names.names_of(alias.file).count();
    let exists = core.state.files.contains_key(&alias.file.0);
    (exists && names <= lost).then_some(alias.file.0)
}

/// The first steps that remove a directory, as many as a record takes: the files that lose their
/// last name by them, and whether they are all.
#[expect(clippy::type_complexity, reason = "what a plan returns")]
fn rmdir_some(
    core: &Core,
    parts: &[PathPart],
    force: bool,
) -> Result<((Vec<u32>, bool), Vec<Op>), Error> {
    let names = &core.state.names;
    let steps = names.plan_rmdir(names.lookup_dir(parts)?, force)?;
    let is_file = |step: &NameOp| matches!(step, NameOp::Unlink { .. });
    let (files, dirs): (Vec<NameOp>, Vec<NameOp>) = steps.into_iter().partition(is_file);
    let count = files.len() + dirs.len();
    let mut lost: std::collections::BTreeMap<u32, (Alias, usize)> =
        std::collections::BTreeMap::new();
    let mut ops: Vec<Op> = Vec::new();
    for step in files.into_iter().chain(dirs).take(NAMES_PER_RECORD) {
        if let NameOp::Unlink { dir, name } = &step
            && let Some(Entry::File(alias)) = names.entry(*dir, name)?
        {
            lost.entry(alias.file.0).or_insert((alias, 0)).1 += 1;
        }
        ops.push(Op::Name(step));
    }
    let all = ops.len() == count;
    let orphans: Vec<u32> =
        lost.values().filter_map(|(alias, names)| orphaned(core, *alias, *names)).collect();
    ops.extend(orphans.iter().map(|number| Op::FileUnpublish { number: *number }));
    Ok(((orphans, all), ops))
}

/// Names that are removed by one record: of the longest, half a record.
const NAMES_PER_RECORD: usize = 1000;

fn mkdirs(core: &Core, dirs: &[PathPart]) -> Result<(crate::names::DirNo, Vec<Op>), Error> {
    let steps = core.state.names.plan_mkdir(dirs, true)?;
    let dir = match steps.last() {
        Some(NameOp::MkDir { dir, .. }) => *dir,
        _ => core.state.names.lookup_dir(dirs)?,
    };
    Ok((dir, steps.into_iter().map(Op::Name).collect()))
}

/// Tries name operations on a copy, so that one that cannot be is refused and not queued.
fn check_names(core: &Core, ops: &[Op]) -> Result<(), Error> {
    let mut names = core.state.names.clone();
    for op in ops {
        if let Op::Name(op) = op {
            names.apply(op)?;
        }
    }
    Ok(())
}

fn attributes(core: &Core, spec: &FileSpec) -> Result<FileAttributes, Error> {
    let bad = |what, value: String, allowed: &str| Error::BadValue {
        what,
        value,
        allowed: allowed.to_owned(),
    };
    let words = template::words_for(core, spec.template.as_deref(), spec.file_type)?;
    // Who asks for copies asks for more than one place.
    let failgroup =
        words.failgroup.clone().filter(|_| spec.copies.is_none_or(|copies| copies == 1));
    let placement = match spec.placement.as_ref().or(failgroup.as_ref()) {
        None => None,
        Some(name) => {
            let name = name.to_uppercase();
            if !core.state.disks.values().any(|d| d.failgroup == name) {
                let known: std::collections::BTreeSet<&str> =
                    core.state.disks.values().map(|d| d.failgroup.as_str()).collect();
                let known: Vec<&str> = known.into_iter().collect();
                return Err(bad("failure group", name, &known.join(", ")));
            }
            Some(name)
        }
    };
    let redundancy = core.state.header.redundancy;
    let default = match placement {
        Some(_) => 1,
        None => words.copies(redundancy).unwrap_or(redundancy.copies()),
    };
    let copies = spec.copies.unwrap_or(default);
    if !(1..=3).contains(&copies) || (placement.is_some() && copies != 1) {
        return Err(bad("number of copies", copies.to_string(), "1, 2 or 3; 1 in one place"));
    }
    let unit = spec.unit.or(words.unit).unwrap_or(4096);
    if unit != 4096 && unit != 8192 {
        return Err(bad("unit", unit.to_string(), "4096 or 8192"));
    }
    let default = core.state.attributes.get("content.checksum").is_none_or(|v| v == "true");
    Ok(FileAttributes {
        file_type: spec.file_type,
        copies,
        striping: spec.striping.or(words.striping).unwrap_or(Striping::Coarse),
        unit,
        checksums: spec.checksums.or(words.checksums).unwrap_or(default),
        placement,
    })
}

/// Gives a file the extents that `bytes` need, if it has fewer.
pub(crate) async fn grow(inner: &Arc<Inner>, number: u32, bytes: u64) -> Result<(), Error> {
    loop {
        let more = inner
            .change(|core| {
                let file = core.state.files.get(&number).cloned();
                let file = file.ok_or(Error::NoSuchFile { name: format!("file {number}") })?;
                let wanted = FileState::extents_for(bytes, file.attributes.striping, inner.au_size);
                let missing = wanted.saturating_sub(file.extents());
                if missing == 0 {
                    return Ok((false, vec![]));
                }
                check_room(inner, core, &file, missing)?;
                let count = missing.min(SETS_PER_RECORD as u64);
                let placed = core.space.place(&file, u32::try_from(count).expect("bounded"));
                let legs = placed.map_err(|e| no_space(inner, core, missing, &e))?;
                Ok((missing > count, vec![Op::FileExtend { number, legs }]))
            })
            .await?;
        if !more {
            return Ok(());
        }
    }
}

/// Refuses a growth that cannot be had whole, before any of it is taken.
fn check_room(inner: &Inner, core: &Core, file: &FileState, missing: u64) -> Result<(), Error> {
    if missing <= SETS_PER_RECORD as u64 || file.attributes.placement.is_some() {
        return Ok(());
    }
    let fits = core.space.usable(file.attributes.copies, &core.state).writable_now;
    if missing <= fits {
        return Ok(());
    }
    Err(Error::NoSpace {
        group: inner.name.clone(),
        wanted_mb: (missing * inner.au_size) >> 20,
        why: format!("{} MB fit", (fits * inner.au_size) >> 20),
    })
}

fn no_space(inner: &Inner, core: &Core, missing: u64, error: &crate::space::SpaceError) -> Error {
    Error::NoSpace {
        group: inner.name.clone(),
        wanted_mb: (missing * inner.au_size) >> 20,
        why: core.space.words(error),
    }
}

/// Takes away the extents behind `bytes`. Waits until no I/O is under way in the file.
pub(crate) async fn shrink(inner: &Arc<Inner>, number: u32, bytes: u64) -> Result<(), Error> {
    let runtime = {
        let core = lock(&inner.core);
        let file = core.state.files.get(&number);
        file.map(|f| inner.data.file(f)).ok_or(Error::NoSuchFile { name: number.to_string() })?
    };
    let _closed = runtime.close().await?;
    let ticket = {
        let mut core = lock(&inner.core);
        inner.check_writable()?;
        let Some(file) = core.state.files.get(&number) else {
            return Ok(());
        };
        let left = FileState::extents_for(bytes, file.attributes.striping, inner.au_size);
        if left >= file.extents() {
            return Ok(());
        }
        let copies = usize::from(file.attributes.copies);
        let freed = file.legs[left as usize * copies..].to_vec();
        let regions = (left * inner.au_size).div_ceil(REGION_BYTES);
        let boundary = (left * inner.au_size) % REGION_BYTES;
        let mut ops = vec![Op::FileShrink { number, extents: left, regions: regions as u32 }];
        let last = regions.checked_sub(1).filter(|_| boundary != 0);
        if let Some(last) = last {
            // The last region is cut: its pieces behind the cut are unwritten again.
            let kept = boundary / crate::on_disk::layout::PIECE_BYTES;
            let pieces = u64::MAX.checked_shl(kept as u32).unwrap_or(0);
            ops.push(Op::PiecesForget { region: runtime.key(last as u32), pieces });
            runtime.remove_fresh(last as u32, pieces);
        }
        for (region, pieces) in runtime.fresh() {
            if u64::from(region) >= regions {
                runtime.remove_fresh(region, pieces);
            }
        }
        let ticket = inner.enqueue(&mut core, &ops)?;
        core.free_after(ticket, freed);
        core.forget_moving(number, left);
        let file = core.state.files.get(&number).cloned();
        core.space.respread(number, file.as_ref());
        inner.data.regions.forget(
            &inner.data.dirty_log,
            number,
            runtime.incarnation,
            regions as u32,
        );
        ticket
    };
    inner.log.wanted.notify(1);
    inner.wait_durable(ticket).await
}

/// Deletes a file and frees its extents. Waits until no I/O is under way in it.
pub(crate) async fn delete_file(inner: &Arc<Inner>, number: u32) -> Result<(), Error> {
    let runtime = {
        let core = lock(&inner.core);
        match core.state.files.get(&number) {
            Some(file) => inner.data.file(file),
            None => return Ok(()),
        }
    };
    let closed = match runtime.close().await {
        Ok(closed) => closed,
        // Somebody else deleted it.
        Err(_) => return Ok(()),
    };
    let ticket = {
        let mut core = lock(&inner.core);
        inner.check_writable()?;
        let Some(file) = core.state.files.get(&number) else {
            return Ok(());
        };
        let freed = file.legs.clone();
        let ticket = inner.enqueue(&mut core, &[Op::FileDelete { number }])?;
        core.free_after(ticket, freed);
        core.forget_moving(number, 0);
        core.space.respread(number, None);
        inner.rebalance.room_came();
        closed.mark_gone();
        ticket
    };
    inner.data.regions.forget(&inner.data.dirty_log, number, runtime.incarnation, 0);
    inner.data.forget_file(number);
    inner.log.wanted.notify(1);
    inner.wait_durable(ticket).await
}
