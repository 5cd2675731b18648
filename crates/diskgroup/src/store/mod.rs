//! `object_store` over a disk group: `dir/name` is the file of that path.
//!
//! An object is durable when a put, a copy, a rename or a delete returns, and appears whole or
//! not at all. Every put makes a new file, so its tag is the file's number and incarnation; a
//! reader that has begun keeps the file it began with.

mod names;
mod read;
mod write;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cellar_wait::Session;
use chrono::DateTime;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, RenameTargetMode, Result,
};

use crate::error::Error;
use crate::group::{File, FileSpec, Group, PublishIf};
use crate::state::FileType;
use names::{Stat, to_the_end};
use write::{Upload, Writing};

/// Deletes of a stream in flight; they share writes of the metadata log.
const DELETES: usize = 16;

/// A mounted group as an [`ObjectStore`]. Clones share the group.
#[derive(Clone)]
pub struct GroupStore {
    group: Group,
    session: Option<Session>,
}

impl GroupStore {
    /// The store of a group, with nobody's waits counted.
    pub fn new(group: Group) -> GroupStore {
        GroupStore { group, session: None }
    }

    /// The same store, with the waits of its reads and writes counted on `session`.
    #[must_use]
    pub fn for_session(&self, session: Session) -> GroupStore {
        GroupStore { group: self.group.clone(), session: Some(session) }
    }

    /// The group below.
    pub fn group(&self) -> &Group {
        &self.group
    }

    fn counted(&self, file: File) -> File {
        match &self.session {
            Some(session) => file.for_session(session),
            None => file,
        }
    }

    fn open(&self, location: &Path) -> Result<(File, Stat)> {
        let path = location.as_ref();
        let found = names::open(&self.group, path).map_err(|e| error_of(path, e))?;
        let (file, stat) = found.ok_or_else(|| not_found(path))?;
        Ok((self.counted(file), stat))
    }

    async fn new_file(&self, location: &Path) -> Result<Writing> {
        check_name(location)?;
        let spec = FileSpec::new(FileType::Datafile);
        let file = self.group.create_file(&spec).await;
        let file = file.map_err(|e| error_of(location.as_ref(), e))?;
        Ok(Writing::new(&self.group, self.counted(file)))
    }

    async fn publish(
        &self,
        writing: &Writing,
        path: &str,
        condition: PublishIf,
    ) -> Result<PutResult> {
        let published = writing.publish(path, condition).await;
        match published.map_err(|e| error_of(path, e))?.flatten() {
            Some(tag) => Ok(PutResult { e_tag: Some(tag), version: None }),
            None => Err(changed(path)),
        }
    }
}

impl std::fmt::Display for GroupStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskGroup(+{})", self.group.name())
    }
}

impl std::fmt::Debug for GroupStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GroupStore({})", self.group.name())
    }
}

#[async_trait::async_trait]
impl ObjectStore for GroupStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let path = location.as_ref();
        if !opts.attributes.is_empty() {
            return Err(not_implemented("put_opts with attributes"));
        }
        let condition = condition_of(&opts.mode, path)?;
        let writing = self.new_file(location).await?;
        let length = payload.content_length() as u64;
        let offset = writing.give(length);
        let write = async {
            writing.make_room(length, true).await?;
            writing.write(offset, payload).await
        };
        write.await.map_err(|e| error_of(path, e))?;
        self.publish(&writing, path, condition).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            return Err(not_implemented("put_multipart_opts with attributes"));
        }
        let writing = self.new_file(location).await?;
        Ok(Box::new(Upload { path: location.to_string(), writing: Some(Arc::new(writing)) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.version.is_some() {
            return Err(object_store::Error::NotSupported {
                source: "a disk group keeps one version of a file".into(),
            });
        }
        let (file, stat) = self.open(location)?;
        let meta = meta_of(location.clone(), stat);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(stat.size).map_err(|e| refused(e.to_string()))?,
            None => 0..stat.size,
        };
        let read = if options.head { 0..0 } else { range.clone() };
        let path = location.to_string();
        let stream = read::stream(self.group.clone(), file, read)
            .map_err(move |e| error_of(&path, e))
            .boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream),
            meta,
            range,
            attributes: Default::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (file, stat) = self.open(location)?;
        let ranges = ranges
            .iter()
            .map(|r| GetRange::Bounded(r.clone()).as_range(stat.size))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|e| refused(e.to_string()))?;
        let read = read::ranges(&self.group, &file, &ranges).await;
        read.map_err(|e| error_of(location.as_ref(), e))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let group = self.group.clone();
        locations
            .map(move |location| {
                let group = group.clone();
                async move {
                    let location = location?;
                    let path = location.to_string();
                    let stat = names::stat(&group, &path).map_err(|e| error_of(&path, e))?;
                    if stat.is_none() {
                        return Err(not_found(&path));
                    }
                    let (of, name) = (group.clone(), path.clone());
                    let removed = to_the_end(&group, async move { of.remove(&name).await });
                    removed.await.map_err(|e| error_of(&path, e))?;
                    Ok(location)
                }
            })
            .buffered(DELETES)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let dir = prefix.map(ToString::to_string).unwrap_or_default();
        let found = match names::below(&self.group, &dir) {
            Ok(files) => metas_of(files).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error_of(&dir, error))],
        };
        stream::iter(found).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let dir = prefix.map(ToString::to_string).unwrap_or_default();
        let (files, dirs) = names::within(&self.group, &dir).map_err(|e| error_of(&dir, e))?;
        Ok(ListResult {
            common_prefixes: dirs.iter().map(|d| path_of(d)).collect(),
            objects: metas_of(files),
        })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        check_name(to)?;
        let condition = match options.mode {
            CopyMode::Overwrite => PublishIf::Always,
            CopyMode::Create => PublishIf::NameIsFree,
        };
        let (source, stat) = self.open(from)?;
        let taken = names::stat(&self.group, to.as_ref()).map_err(|e| error_of(to.as_ref(), e))?;
        if condition == PublishIf::NameIsFree && taken.is_some() {
            // Known before anything is copied; the condition still holds for what comes between.
            return Err(exists(to.as_ref()));
        }
        let copied = write::copy(&self.group, &source, stat.size).await;
        let writing = copied.map_err(|e| error_of(from.as_ref(), e))?;
        self.publish(&writing, to.as_ref(), condition).await?;
        Ok(())
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        check_name(to)?;
        let replace = options.target_mode == RenameTargetMode::Overwrite;
        let found = names::stat(&self.group, from.as_ref());
        if found.map_err(|e| error_of(from.as_ref(), e))?.is_none() {
            return Err(not_found(from.as_ref()));
        }
        if from == to && !replace {
            return Err(exists(to.as_ref()));
        }
        let (group, old, new) = (self.group.clone(), from.to_string(), to.to_string());
        let change = async move { group.rename(&old, &new, replace).await };
        let renamed = to_the_end(&self.group, change).await;
        renamed.map_err(|e| match e {
            Error::Exists { .. } => error_of(to.as_ref(), e),
            _ => error_of(from.as_ref(), e),
        })
    }
}

fn condition_of(mode: &PutMode, path: &str) -> Result<PublishIf> {
    match mode {
        PutMode::Overwrite => Ok(PublishIf::Always),
        PutMode::Create => Ok(PublishIf::NameIsFree),
        PutMode::Update(version) => {
            let tag = version.e_tag.as_deref();
            let tag = tag.ok_or_else(|| refused("an update needs the e_tag it replaces"))?;
            // A tag that is none of ours is that of no file.
            let (file, incarnation) = tag.split_once('.').ok_or_else(|| changed(path))?;
            match (file.parse(), incarnation.parse()) {
                (Ok(file), Ok(incarnation)) => Ok(PublishIf::NameHas { file, incarnation }),
                _ => Err(changed(path)),
            }
        }
    }
}

/// Refuses a name before anything is written.
fn check_name(location: &Path) -> Result<()> {
    let path = location.as_ref();
    match crate::group::parts_of(path) {
        Ok(parts) if parts.is_empty() => Err(refused("the path names no file")),
        Ok(_) => Ok(()),
        Err(error) => Err(error_of(path, error)),
    }
}

fn meta_of(location: Path, stat: Stat) -> ObjectMeta {
    let nanos = i64::try_from(stat.modified_ns).unwrap_or(i64::MAX);
    ObjectMeta {
        location,
        last_modified: DateTime::from_timestamp_nanos(nanos),
        size: stat.size,
        e_tag: Some(stat.e_tag()),
        version: None,
    }
}

fn metas_of(files: Vec<(String, Stat)>) -> Vec<ObjectMeta> {
    let metas = files.into_iter();
    metas.map(|(path, stat)| meta_of(path_of(&path), stat)).collect()
}

/// A path as it is stored; one that `object_store` would not take as it is is encoded.
fn path_of(path: &str) -> Path {
    Path::parse(path).unwrap_or_else(|_| Path::from(path))
}

/// The group's error, which stays the source, under the kind that callers of stores know.
fn error_of(path: &str, error: Error) -> object_store::Error {
    let path = path.to_owned();
    match error {
        Error::NoSuchFile { .. } => object_store::Error::NotFound { path, source: error.into() },
        Error::Exists { .. } => object_store::Error::AlreadyExists { path, source: error.into() },
        Error::ReadOnly { .. } => {
            object_store::Error::PermissionDenied { path, source: error.into() }
        }
        _ => object_store::Error::Generic { store: "disk group", source: error.into() },
    }
}

fn not_found(path: &str) -> object_store::Error {
    let name = path.to_owned();
    error_of(path, Error::NoSuchFile { name })
}

fn exists(path: &str) -> object_store::Error {
    let name = path.to_owned();
    error_of(path, Error::Exists { name })
}

fn changed(path: &str) -> object_store::Error {
    object_store::Error::Precondition {
        path: path.to_owned(),
        source: "the name has another file, or none".into(),
    }
}

fn not_implemented(operation: &str) -> object_store::Error {
    object_store::Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "a disk group".to_owned(),
    }
}

fn refused(why: impl Into<String>) -> object_store::Error {
    object_store::Error::Generic { store: "disk group", source: why.into().into() }
}
