//! CSV files in place: on the host or in a group, through their store.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::mpsc;

use crate::csv::CsvForm;
use crate::csv::look::{CsvSeen, look};
use crate::csv::text::decoded;
use crate::error::Error;
use crate::error::stopped;
use crate::failure::from_store;

/// Pieces of a file that are read ahead.
const AHEAD: usize = 4;

/// The name shown to users for a file of the store with that URL.
pub(crate) fn shown_of(store: &str, file: &Path) -> String {
    if store.starts_with("file:") {
        return format!("/{file}");
    }
    let host = store.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("+{}/{file}", crate::path::group_of_host(host))
}

/// The error for a file that is not what it should be.
pub(crate) fn unreadable(shown: &str, error: Error) -> Error {
    Error::new(29913, "22P04", format!("\"{shown}\" cannot be read")).caused_by(error)
}

/// Pieces of a file that arrive from elsewhere.
pub(crate) struct Pieces {
    receive: mpsc::Receiver<object_store::Result<Bytes>>,
    current: Bytes,
    /// Bytes that are still to come.
    left: u64,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receive.blocking_recv() {
                Some(Ok(piece)) => self.current = piece,
                Some(Err(e)) => return Err(io::Error::other(e)),
                None if self.left == 0 => return Ok(0),
                // Ending early would lose rows.
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        self.left = self.left.saturating_sub(length as u64);
        Ok(length)
    }
}

/// The bytes of a file, to be read by a thread that may block.
///
/// # Errors
/// It is gone, or the store fails.
pub(crate) async fn text_of(
    store: &Arc<dyn ObjectStore>,
    object: &ObjectMeta,
) -> Result<Box<dyn Read + Send>, Error> {
    let got = store.get(&object.location).await.map_err(|e| from_store(&e))?;
    if let GetResultPayload::File(file, _) = got.payload {
        return Ok(Box::new(file));
    }
    let (send, receive) = mpsc::channel(AHEAD);
    let left = got.meta.size;
    let mut bytes = got.into_stream();
    tokio::spawn(async move {
        loop {
            let piece = match bytes.try_next().await {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(e) => Err(e),
            };
            let is_end = piece.is_err();
            // Nobody may be listening any more.
            if send.send(piece).await.is_err() || is_end {
                return;
            }
        }
    });
    Ok(Box::new(Pieces { receive, current: Bytes::new(), left }))
}

/// Checks a file, and adds its findings to those of the table's other files.
///
/// # Errors
/// 29913 with line and column of what a query would accept silently.
pub(crate) async fn look_at(
    store: &Arc<dyn ObjectStore>,
    object: &ObjectMeta,
    form: &CsvForm,
    seen: &mut CsvSeen,
) -> Result<Vec<String>, Error> {
    let bytes = text_of(store, object).await?;
    let (form, mut known) = (form.clone(), std::mem::take(seen));
    let work = move || {
        let text = decoded(bytes, &form)?;
        let names = look(text, &form, false, &mut known)?;
        Ok::<_, Error>((names, known))
    };
    let (names, known) = tokio::task::spawn_blocking(work).await.map_err(|_| stopped())??;
    *seen = known;
    Ok(names)
}

/// The error for other columns: values are taken by position, and would end up in the wrong columns.
pub(crate) fn other_columns(
    file: &str,
    names: &[String],
    first: &str,
    of_first: &[String],
) -> Error {
    let text = format!(
        "line 1: the columns of \"{file}\" are {}, those of \"{first}\" are {}",
        names.join(","),
        of_first.join(",")
    );
    Error::new(29913, "22P04", text)
        .next("give all files of a table the same columns in the same order, or load each alone")
}
