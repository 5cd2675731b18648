//! Columnar tables: their rows lie in segments, files of a disk group that are never changed.
//!
//! A segment is made by one load. It is written without a name, made durable, named, and then the
//! catalog says that it is part of its table: [`Tables::append_segment`] and the others here keep
//! this order, the other way round where a table loses segments. So each change of a table is one
//! replacement of the catalog. Stopped at each step, a file is left as follows:
//!
//! | stopped | the file | the table |
//! |---|---|---|
//! | before it is named | is gone at the next mount, as any unnamed file | as before |
//! | before the catalog | is swept when the database is opened next | as before |
//! | before the old files are removed | is swept then, too | as after |
//!
//! A reader of a segment holds its [`File`]: one that has lost its name goes with its last handle.

pub mod external;
mod guard;
mod names;
mod open;
mod segment_file;
mod sweep;
mod under_way;

use std::future::Future;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_io::{Device, DeviceExt, EnvExt, Io, SharedEnv};
use cellar_storage::groups::Groups;
use cellar_storage::redo::Redo;
use futures_util::stream::{self, StreamExt};

use crate::catalog::{Segment, SharedCatalog, Table, TableKind};
use crate::error::{Error, INTERNAL, NextStep, Result};
use crate::scans::{Scans, scan_error};

pub use names::{TABLES_DIR, is_system_file};
pub use segment_file::SegmentFile;
use under_way::UnderWay;

/// So many files are removed at once: their records share writes of the metadata log.
const REMOVED_AT_ONCE: usize = 16;

/// So many names are tried; of 2^32 the first is as good as always free.
const NAMES_TRIED: u32 = 8;

/// The tables of a database. Clones are the same.
#[derive(Clone)]
pub struct Tables {
    env: SharedEnv,
    groups: Groups,
    redo: Redo,
    /// The cell that has their segments open.
    scans: Arc<Scans>,
    catalog: Arc<SharedCatalog>,
    /// Segments that are not in the catalog yet.
    under_way: Arc<UnderWay>,
}

/// What the writer of a segment knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFigures {
    /// Rows in it.
    pub rows: u64,
    /// Row groups in it.
    pub row_groups: u32,
    /// Bytes of the file that count; the space after them is given back.
    pub bytes: u64,
}

/// A segment that has its name and is not in the catalog yet.
pub(crate) struct Published {
    segment: Segment,
    group: Group,
    _under_way: under_way::Publishing,
}

impl Published {
    /// The segment.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tables({:?})", self.groups)
    }
}

impl Tables {
    /// The tables of this catalog, in these groups.
    pub fn new(
        env: SharedEnv,
        groups: Groups,
        redo: Redo,
        scans: Arc<Scans>,
        catalog: SharedCatalog,
    ) -> Tables {
        let (catalog, under_way) = (Arc::new(catalog), Arc::default());
        Tables { env, groups, redo, scans, catalog, under_way }
    }

    /// The catalog that names them.
    pub fn catalog(&self) -> &SharedCatalog {
        &self.catalog
    }

    /// The id of a new columnar table: random, and of no other table.
    pub fn new_table_id(&self) -> u64 {
        let catalog = self.catalog.current();
        loop {
            let id = self.env.random();
            if id != 0 && catalog.columnar_tables().all(|table| table.id != id) {
                return id;
            }
        }
    }

    /// An empty file for a segment: without a name, and gone when its last handle is dropped or
    /// the machine stops, unless it has become part of a table.
    ///
    /// # Errors
    /// The group is not mounted, or the database is open read-only.
    #[boxed]
    pub async fn new_segment(&self, group: &str) -> Result<File> {
        self.groups.check_writable()?;
        let group = self.groups.get(group)?.group;
        Ok(group.create_file(&FileSpec::new(FileType::Datafile)).await?)
    }

    /// Adds a columnar table, with its first rows if there are any. All of it is durable when this
    /// returns. Goes on to the end though the caller may go away.
    ///
    /// # Errors
    /// 00955 the name is used; the group is not mounted; what writing reports. There is no table
    /// and no file then.
    #[boxed]
    pub async fn add_columnar(
        &self,
        table: Table,
        segment: Option<(File, SegmentFigures)>,
    ) -> Result<()> {
        self.to_the_end(|tables| async move { tables.add_now(table, segment).await }).await
    }

    async fn add_now(
        &self,
        mut table: Table,
        segment: Option<(File, SegmentFigures)>,
    ) -> Result<()> {
        self.groups.check_writable()?;
        if table.kind != TableKind::Columnar || !table.segments.is_empty() {
            let text = format!("table \"{}\" is not a new columnar table", table.name);
            return Err(Error::new(INTERNAL, text));
        }
        self.catalog.current().check_free(&table.name)?;
        let group = self.group_of(&table)?;
        let Some((file, figures)) = segment else {
            // No table comes to a group that is being dropped, with or without rows.
            let _under_way = self.under_way.publish(group.name(), &format!("{:x}", table.id))?;
            return self.catalog.add(table).await;
        };
        let published = self.publish(&table, file, figures).await?;
        table.segments.push(published.segment.clone());
        let added = self.catalog.add(table).await;
        self.settle(added, published).await
    }

    /// Adds rows to the columnar table that had this name and id when they were made. They are
    /// durable when this returns. Goes on to the end though the caller may go away.
    ///
    /// # Errors
    /// 00942 if the table was dropped or made anew meanwhile, and what writing reports. Nothing was
    /// added then, and the file is gone.
    #[boxed]
    pub async fn append_segment(
        &self,
        name: &str,
        id: u64,
        file: File,
        figures: SegmentFigures,
    ) -> Result<()> {
        let name = name.to_owned();
        let append =
            |tables: Tables| async move { tables.append_now(&name, id, file, figures).await };
        self.to_the_end(append).await
    }

    async fn append_now(
        &self,
        name: &str,
        id: u64,
        file: File,
        figures: SegmentFigures,
    ) -> Result<()> {
        self.groups.check_writable()?;
        let catalog = self.catalog.current();
        let published = self.publish(catalog.check_same(name, id)?, file, figures).await?;
        let appended = self.catalog.append(name, id, published.segment.clone()).await;
        self.settle(appended, published).await
    }

    /// Replaces the segments that a table ends with by one file, which has their rows and more. All of it
    /// is durable when this returns. Readers of the old ones go on. Returns false, and changes nothing,
    /// if the table no longer ends with them.
    ///
    /// # Errors
    /// As [`Tables::append_segment`].
    #[boxed]
    pub async fn merge_segments(
        &self,
        table: &Table,
        gone: Vec<Segment>,
        file: File,
        figures: SegmentFigures,
    ) -> Result<bool> {
        let mut old = table.clone();
        old.segments = gone;
        let merge = |tables: Tables| async move {
            tables.groups.check_writable()?;
            let catalog = tables.catalog.current();
            let same = catalog.check_same(&old.name, old.id)?;
            let published = tables.publish(same, file, figures).await?;
            let (group, new) = (published.group.clone(), published.segment.clone());
            let merged = tables.catalog.merge(&old.name, old.id, &old.segments, new.clone()).await;
            let is_merged = merged.as_ref().is_ok_and(|is| *is);
            tables.settle(merged.map(|_| ()), published).await?;
            match is_merged {
                true => tables.remove_segments(&old).await,
                false => drop(remove_all(vec![(group, new.file)]).await),
            }
            Ok(is_merged)
        };
        self.to_the_end(merge).await
    }

    /// Removes all rows of a columnar table; returns it as it was. Readers go on.
    ///
    /// # Errors
    /// 00942 there is none, 70118 it is not columnar, or the catalog cannot be written; nothing
    /// changes then.
    #[boxed]
    pub async fn truncate_columnar(&self, name: &str) -> Result<Table> {
        let name = name.to_owned();
        self.to_the_end(|tables| async move {
            tables.groups.check_writable()?;
            let before = tables.catalog.truncate(&name).await?;
            tables.remove_segments(&before).await;
            Ok(before)
        })
        .await
    }

    /// Drops a columnar table; returns it as it was. Readers go on.
    ///
    /// # Errors
    /// As [`Tables::truncate_columnar`].
    #[boxed]
    pub async fn drop_columnar(&self, name: &str) -> Result<Table> {
        let name = name.to_owned();
        self.to_the_end(|tables| async move {
            tables.groups.check_writable()?;
            let before = tables.catalog.drop_columnar(&name).await?;
            tables.remove_segments(&before).await;
            Ok(before)
        })
        .await
    }

    /// Opens a segment of a table, as the catalog had them a moment ago. The rows can be read as
    /// long as the handle is kept, whatever becomes of the table.
    ///
    /// # Errors
    /// 15001 the group is not mounted, 00942 the table lost the segment meanwhile, 70119 the file
    /// is missing.
    pub fn open_segment(&self, table: &Table, segment: &Segment) -> Result<File> {
        let group = self.group_of(table)?;
        let name = &table.name;
        match group.open(&segment.file) {
            Ok(file) => Ok(file),
            Err(cellar_diskgroup::Error::NoSuchFile { .. })
                if self.catalog.current().owner(group.name(), &segment.file).is_none() =>
            {
                let text = format!("table \"{name}\" was dropped or truncated meanwhile");
                Err(Error::new(942, text).hint("run the statement again"))
            }
            Err(cellar_diskgroup::Error::NoSuchFile { .. }) => {
                let (path, rows) = (&segment.file, segment.rows);
                let text = format!(
                    "table \"{name}\" cannot be read: its file \"+{}/{path}\" with {rows} rows is \
                     missing",
                    group.name()
                );
                Err(Error::new(70119, text).hint(
                    NextStep::from("see what else is wrong: ")
                        .cellar("validate", "")
                        .then(format!("; then DROP TABLE {name} and load it again")),
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// All bytes of a segment that is small.
    ///
    /// # Errors
    /// As [`Tables::open_segment`], or it cannot be read.
    #[boxed]
    pub async fn read_segment(&self, table: &Table, segment: &Segment) -> Result<Vec<u8>> {
        let file = self.open_segment(table, segment)?;
        let length = usize::try_from(segment.bytes).unwrap_or(usize::MAX);
        let read = file.read_at(Io::FOREGROUND, 0, length).await;
        let bytes = read.map_err(|e| scan_error(&table.name, &e.into()))?;
        Ok(bytes.to_vec())
    }

    /// The group of a columnar table.
    fn group_of(&self, table: &Table) -> Result<Group> {
        let Some(name) = table.group() else {
            let text = format!("table \"{}\" has no disk group: it is external", table.name);
            return Err(Error::new(INTERNAL, text));
        };
        let found = self.groups.get(name).map(|mounted| mounted.group);
        found.map_err(|error| {
            let text = format!("table \"{}\" is in a disk group that is not here", table.name);
            error.under(70120, text).hint(format!("mount it first: ALTER DISKGROUP {name} MOUNT"))
        })
    }

    /// Tells the segments of this database from those of another one: by the group that has the catalog,
    /// which stays the same for the life of the database.
    fn mark(&self) -> Option<u32> {
        let groups = self.groups.all();
        let first = groups.iter().min_by_key(|mounted| mounted.number)?;
        let [.., a, b, c, d] = first.group.uuid().0.to_be_bytes();
        Some(u32::from_be_bytes([a, b, c, d]))
    }

    /// Makes a segment durable, and names it. Its handle is released: the name keeps the file now.
    pub(crate) async fn publish(
        &self,
        table: &Table,
        file: File,
        figures: SegmentFigures,
    ) -> Result<Published> {
        let group = self.group_of(table)?;
        let whole_name = file.geometry().name;
        if !whole_name.starts_with(&format!("+{}/", group.name())) {
            let text = format!("file {whole_name} is not in the group of table \"{}\"", table.name);
            return Err(Error::new(INTERNAL, text));
        }
        if file.size() != figures.bytes {
            file.set_size(figures.bytes).await?;
        }
        // Before it has a name: what has one is whole.
        file.flush(Io::COMMIT).await?;
        let mark = self.mark().unwrap_or_default();
        let mut tried = 0;
        loop {
            let [a, b, c, d, ..] = self.env.random().to_be_bytes();
            let number = u32::from_be_bytes([a, b, c, d]);
            let path = names::segment_path(&table.name, table.id, mark, number);
            let under_way = self.under_way.publish(group.name(), &path)?;
            tried += 1;
            match group.publish(&file, &path, false).await {
                Err(cellar_diskgroup::Error::Exists { .. }) if tried < NAMES_TRIED => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    let SegmentFigures { rows, row_groups, bytes } = figures;
                    let created = self.env.wall().unix_nanos;
                    let segment = Segment { file: path, rows, row_groups, bytes, created };
                    return Ok(Published { segment, group, _under_way: under_way });
                }
            }
        }
    }

    /// Ends what publishing began: a segment that did not come into the catalog is removed again.
    async fn settle(&self, changed: Result<()>, published: Published) -> Result<()> {
        if changed.is_err() {
            self.remove_unnamed(published).await;
        }
        changed
    }

    /// Removes a segment that did not come into the catalog.
    pub(crate) async fn remove_unnamed(&self, published: Published) {
        let (group, path) = (&published.group, &published.segment.file);
        // What the disk holds counts, not the intention: a catalog write that failed half-way may name
        // the file. If that cannot be told, the sweep decides later.
        let is_named = match self.catalog.stored().await {
            Ok(stored) => stored.is_some_and(|c| c.owner(group.name(), path).is_some()),
            Err(_) => true,
        };
        if !is_named {
            let _ = group.remove(path).await;
        }
    }

    /// As [`Tables::remove_unnamed`], of several, soon.
    pub(crate) fn release(&self, published: Vec<Published>) {
        if published.is_empty() {
            return;
        }
        let tables = self.clone();
        let removal = async move {
            for one in published {
                tables.remove_unnamed(one).await;
            }
        };
        self.env.spawn("removal of segments", Box::pin(removal));
    }

    /// Removes files that the catalog does not name any more. What cannot be removed now is swept
    /// later: the table has changed all the same.
    pub(crate) async fn remove_segments(&self, table: &Table) {
        let Ok(group) = self.group_of(table) else { return };
        let paths: Vec<&str> = table.segments.iter().map(|segment| segment.file.as_str()).collect();
        self.scans.release(group.name(), Some(&paths));
        let files = table.segments.iter().map(|segment| (group.clone(), segment.file.clone()));
        remove_all(files.collect()).await;
    }

    /// Runs `work` in a task of its own: a caller that goes away half-way must not leave a file
    /// without a table, or a catalog in RAM that is not the one on disk.
    async fn to_the_end<T, F>(&self, work: impl FnOnce(Tables) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let done = self.env.run("change of a table", work(self.clone()));
        done.await.unwrap_or_else(|| {
            Err(Error::new(INTERNAL, "the change of a table stopped half-way")
                .hint("open the database again: the table is as before, or as after"))
        })
    }
}

/// Removes files; tells how many there were to remove.
async fn remove_all(files: Vec<(Group, String)>) -> usize {
    let remove = |(group, path): (Group, String)| async move { group.remove(&path).await.is_ok() };
    let removed = stream::iter(files).map(remove).buffer_unordered(REMOVED_AT_ONCE);
    removed.filter(|gone| std::future::ready(*gone)).count().await
}
