//! Files of the host as an object store. An object appears whole or not at all, and is durable when a
//! write returns; unfinished files, whether still being written or abandoned, are not objects.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

use crate::error::Error;
use crate::error::stopped;
use crate::files::temporary::{Temporary, is_temporary};

/// The files of the host.
#[derive(Debug, Default)]
pub(crate) struct HostStore {
    files: LocalFileSystem,
}

fn generic(error: Error) -> object_store::Error {
    object_store::Error::Generic { store: "host", source: Box::new(error) }
}

fn is_object(meta: &ObjectMeta) -> bool {
    !meta.location.filename().is_some_and(is_temporary)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, Error> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(stopped())).map_err(generic)
}

impl fmt::Display for HostStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

#[async_trait]
impl ObjectStore for HostStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if opts.mode != PutMode::Overwrite {
            return self.files.put_opts(location, payload, opts).await;
        }
        let multipart = PutMultipartOptions::default();
        let mut upload = self.put_multipart_opts(location, multipart).await?;
        upload.put_part(payload).await?;
        upload.complete().await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let target = self.files.path_to_filesystem(location)?;
        let temporary = blocking(move || Temporary::new(&target)).await?;
        Ok(Box::new(Upload { temporary: Some(temporary), given: 0 }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.files.list(prefix);
        listed.try_filter(|meta| std::future::ready(is_object(meta))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.files.list_with_delimiter(prefix).await?;
        listed.objects.retain(is_object);
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await
    }
}

/// A file that is written in parts.
#[derive(Debug)]
struct Upload {
    temporary: Option<Temporary>,
    given: u64,
}

fn ended() -> object_store::Error {
    generic(Error::new(27072, "58030", "the file has been written already"))
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let Some(temporary) = &self.temporary else { return Box::pin(async { Err(ended()) }) };
        let (writer, mut offset) = (temporary.writer(), self.given);
        self.given += data.content_length() as u64;
        Box::pin(blocking(move || {
            for chunk in data {
                writer.write(offset, &chunk)?;
                offset += chunk.len() as u64;
            }
            Ok(())
        }))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let temporary = self.temporary.take().ok_or_else(ended)?;
        blocking(move || temporary.place()).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        self.temporary = None;
        Ok(())
    }
}
