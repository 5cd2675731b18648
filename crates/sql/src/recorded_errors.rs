//! A store that records the errors it has returned. DataFusion turns some of them into plain text on
//! their way up; that text serves to find the numbered error and its next step again.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

use crate::error::Error;
use crate::failure::ours;

/// The number of errors that are kept; with more concurrent statements than this an old one is forgotten.
const KEPT: usize = 64;

/// The last numbered errors of some stores.
#[derive(Default, Debug)]
pub(crate) struct RecordedErrors(Mutex<VecDeque<Error>>);

impl RecordedErrors {
    fn record(&self, error: &object_store::Error) {
        let Some(error) = ours(error) else { return };
        let mut kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if kept.contains(&error) {
            return;
        }
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(error);
    }

    /// The numbered error whose message is in `text`, if there was one.
    pub(crate) fn find(&self, text: &str) -> Option<Error> {
        let kept = self.0.lock().unwrap_or_else(|e| e.into_inner());
        kept.iter().rev().find(|e| text.contains(&e.message)).cloned()
    }
}

/// A store whose numbered errors are recorded.
pub(crate) struct RecordingStore {
    store: Arc<dyn ObjectStore>,
    recorded: Arc<RecordedErrors>,
}

impl RecordingStore {
    /// `store`, with its errors recorded in `recorded`.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        recorded: &Arc<RecordedErrors>,
    ) -> RecordingStore {
        RecordingStore { store, recorded: Arc::clone(recorded) }
    }

    fn seen<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|e| self.recorded.record(e))
    }

    fn stream<T: 'static>(
        &self,
        stream: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let recorded = Arc::clone(&self.recorded);
        stream
            .inspect(move |item| {
                if let Err(e) = item {
                    recorded.record(e);
                }
            })
            .boxed()
    }
}

impl fmt::Display for RecordingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl fmt::Debug for RecordingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for RecordingStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.seen(self.store.put_opts(location, payload, opts).await)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.seen(self.store.put_multipart_opts(location, opts).await)?;
        Ok(Box::new(NotedUpload { upload, recorded: Arc::clone(&self.recorded) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut got = self.seen(self.store.get_opts(location, options).await)?;
        got.payload = match got.payload {
            GetResultPayload::Stream(stream) => GetResultPayload::Stream(self.stream(stream)),
            other => other,
        };
        Ok(got)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.seen(self.store.get_ranges(location, ranges).await)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.stream(self.store.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.stream(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.stream(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.seen(self.store.list_with_delimiter(prefix).await)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.seen(self.store.copy_opts(from, to, options).await)
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.seen(self.store.rename_opts(from, to, options).await)
    }
}

#[derive(Debug)]
struct NotedUpload {
    upload: Box<dyn MultipartUpload>,
    recorded: Arc<RecordedErrors>,
}

#[async_trait]
impl MultipartUpload for NotedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, recorded) = (self.upload.put_part(data), Arc::clone(&self.recorded));
        Box::pin(async move { part.await.inspect_err(|e| recorded.record(e)) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.upload.complete().await.inspect_err(|e| self.recorded.record(e))
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await.inspect_err(|e| self.recorded.record(e))
    }
}
