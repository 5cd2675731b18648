//! Writes of one statement, held back until all of it has succeeded. DataFusion completes the files of a
//! failed query as if they were whole; here files get their names last, or never.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreRegistry;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

use crate::error::Error;
use crate::failure::from_store;

/// A file whose bytes are written, but which has no name yet.
#[derive(Debug)]
struct Nameless {
    store: Arc<dyn ObjectStore>,
    location: Path,
    upload: Box<dyn MultipartUpload>,
}

/// All such files of a statement.
type Held = Arc<Mutex<Vec<Nameless>>>;

/// The first write error.
#[derive(Clone, Debug, Default)]
struct Failed(Arc<Mutex<Option<Error>>>);

impl Failed {
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|e| {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| from_store(e));
        })
    }
}

/// The stores of a writing statement.
#[derive(Debug)]
pub(crate) struct Staging {
    stores: Arc<dyn ObjectStoreRegistry>,
    held: Held,
    failed: Failed,
}

impl Staging {
    /// Over the stores of the session.
    pub(crate) fn new(stores: &Arc<dyn ObjectStoreRegistry>) -> Staging {
        Staging { stores: Arc::clone(stores), held: Held::default(), failed: Failed::default() }
    }

    /// The first write error.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failed.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives all files their names. One file appears whole or not at all.
    pub(crate) async fn commit(&self) -> Result<()> {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        let mut named: Vec<(Arc<dyn ObjectStore>, Path)> = Vec::new();
        for mut file in held {
            if let Err(error) = file.upload.complete().await {
                // Several are files of a directory, with new names.
                for (store, location) in named {
                    // The first error is the one to report.
                    let _ = store.delete(&location).await;
                }
                return Err(error);
            }
            named.push((file.store, file.location));
        }
        Ok(())
    }
}

impl ObjectStoreRegistry for Staging {
    fn register_store(
        &self,
        url: &url::Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.stores.register_store(url, store)
    }

    fn get_store(
        &self,
        url: &url::Url,
    ) -> std::result::Result<Arc<dyn ObjectStore>, DataFusionError> {
        let store = self.stores.get_store(url)?;
        Ok(Arc::new(Staged { store, held: Arc::clone(&self.held), failed: self.failed.clone() }))
    }
}

/// A store whose uploads are held back. Reads see what was there before.
#[derive(Debug)]
struct Staged {
    store: Arc<dyn ObjectStore>,
    held: Held,
    failed: Failed,
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Staged {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        _opts: PutOptions,
    ) -> Result<PutResult> {
        let options = PutMultipartOptions::default();
        let mut upload = self.put_multipart_opts(location, options).await?;
        upload.put_part(payload).await?;
        upload.complete().await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.failed.note(self.store.put_multipart_opts(location, opts).await)?;
        let (held, failed) = (Arc::clone(&self.held), self.failed.clone());
        let (store, location) = (Arc::clone(&self.store), location.clone());
        let file = Some(Nameless { store, location, upload });
        Ok(Box::new(StagedUpload { file, held, failed }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store.rename_opts(from, to, options).await
    }
}

/// An upload that is complete for its writer, and waits for the end of the statement.
#[derive(Debug)]
struct StagedUpload {
    file: Option<Nameless>,
    held: Held,
    failed: Failed,
}

fn ended() -> object_store::Error {
    object_store::Error::NotSupported { source: "the upload has ended".into() }
}

#[async_trait]
impl MultipartUpload for StagedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match &mut self.file {
            Some(file) => {
                let (part, failed) = (file.upload.put_part(data), self.failed.clone());
                Box::pin(async move { failed.note(part.await) })
            }
            None => Box::pin(async { Err(ended()) }),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let file = self.file.take().ok_or_else(ended)?;
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        match self.file.take() {
            Some(mut file) => file.upload.abort().await,
            None => Ok(()),
        }
    }
}
