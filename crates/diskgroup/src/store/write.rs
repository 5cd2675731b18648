//! Writing an object: into a file without a name, which gets its name when every byte is durable.
//!
//! Parts may be written in any order and at once. A part's offset is known when it is given, so
//! nothing waits for the parts before it; only the blocks that two parts share are put together
//! in RAM, at most one a part.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Buffer, Device, Durability, EnvExt, Io};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};

use super::names::{self, stopped, to_the_end};
use super::{error_of, refused};
use crate::disk::lock;
use crate::error::Error;
use crate::group::{File, FileSpec, Group, PublishIf};
use crate::on_disk::layout::{BLOCK, PIECE_BYTES};

/// Bytes in one write, aligned in the file as allocation units are.
const WRITE: u64 = 1 << 20;
/// Writes of one part in flight.
const IN_FLIGHT: usize = 16;
/// An upload of unknown length gets room this much ahead at most.
const ROOM_AHEAD: u64 = 64 << 20;

/// A file that is being filled.
pub(super) struct Writing {
    group: Group,
    file: File,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes that were given.
    given: u64,
    /// Bytes that were written or wait in `edges`.
    taken: u64,
    /// Pieces that more than one part has a share of, by number.
    edges: BTreeMap<u64, Edge>,
}

struct Edge {
    buffer: Buffer,
    filled: usize,
}

impl Writing {
    pub fn new(group: &Group, file: File) -> Writing {
        Writing { group: group.clone(), file, state: Mutex::default() }
    }

    /// Gives the next bytes their place.
    pub fn give(&self, length: u64) -> u64 {
        let mut state = lock(&self.state);
        let offset = state.given;
        state.given += length;
        offset
    }

    /// Makes room. An upload whose end is not known gets some ahead; `set_size` gives back what
    /// was too much.
    #[boxed]
    pub async fn make_room(&self, end: u64, last: bool) -> Result<(), Error> {
        let has = self.file.geometry().size;
        if end <= has {
            return Ok(());
        }
        let ahead = if last { 0 } else { has.min(ROOM_AHEAD) };
        match self.file.allocate(end.max(has + ahead)).await {
            Err(Error::NoSpace { .. }) if ahead > 0 => self.file.allocate(end).await,
            other => other,
        }
    }

    /// Writes bytes at the place they were given.
    #[boxed]
    pub async fn write(&self, offset: u64, payload: PutPayload) -> Result<(), Error> {
        let end = offset + payload.content_length() as u64;
        let chunks: Vec<Bytes> = payload.into_iter().collect();
        let first = offset.next_multiple_of(PIECE_BYTES).min(end);
        let last = (end / PIECE_BYTES * PIECE_BYTES).max(first);
        let mut source = Source::new(chunks);
        let head = source.take(first - offset);
        let mut writes = Vec::new();
        let mut at = first;
        while at < last {
            let next = ((at / WRITE + 1) * WRITE).min(last);
            writes.push((at, source.take(next - at)));
            at = next;
        }
        let tail = source.take(end - last);
        writes.extend(self.edge(offset, head));
        writes.extend(self.edge(last, tail));
        self.write_all(writes).await?;
        lock(&self.state).taken += end - offset;
        Ok(())
    }

    /// Adds bytes to the piece they share with others; gives the piece when it is full.
    fn edge(&self, offset: u64, bytes: Vec<Bytes>) -> Option<(u64, Vec<Bytes>)> {
        let piece = offset / PIECE_BYTES;
        let mut at = (offset % PIECE_BYTES) as usize;
        let mut state = lock(&self.state);
        for chunk in bytes.iter().filter(|c| !c.is_empty()) {
            let edge = state.edges.entry(piece).or_insert_with(|| Edge {
                buffer: Buffer::zeroed(PIECE_BYTES as usize),
                filled: 0,
            });
            edge.buffer[at..at + chunk.len()].copy_from_slice(chunk);
            edge.filled += chunk.len();
            at += chunk.len();
        }
        let full = state.edges.get(&piece)?.filled == PIECE_BYTES as usize;
        let edge = full.then(|| state.edges.remove(&piece)).flatten()?;
        Some((piece * PIECE_BYTES, vec![edge.buffer.freeze()]))
    }

    async fn write_all(&self, writes: Vec<(u64, Vec<Bytes>)>) -> Result<(), Error> {
        let write = |(offset, data): (u64, Vec<Bytes>)| {
            let (file, group) = (self.file.clone(), self.group.clone());
            // Tasks, so that checksums are computed on all processors.
            let task = group.env().run("object write", async move {
                file.write_group(Io::SCAN, offset, data, Durability::Cached).await
            });
            async move { task.await.unwrap_or_else(|| Err(stopped(&group))) }
        };
        stream::iter(writes).map(write).buffer_unordered(IN_FLIGHT).try_collect().await
    }

    /// Writes what is left, sets the size and makes all of it durable. False: a part is missing.
    async fn finish(&self) -> Result<bool, Error> {
        let (length, edges) = {
            let mut state = lock(&self.state);
            if state.taken != state.given {
                return Ok(false);
            }
            (state.given, std::mem::take(&mut state.edges))
        };
        let rest = edges.into_iter().map(|(piece, edge)| {
            let bytes = edge.buffer.freeze();
            let padded = edge.filled.next_multiple_of(BLOCK);
            (piece * PIECE_BYTES, vec![bytes.slice(..padded)])
        });
        self.write_all(rest.collect()).await?;
        if length > 0 {
            self.file.set_size(length).await?;
            let flushed = self.file.flush(Io::COMMIT).await;
            flushed.map_err(|error| match self.group.check_running() {
                Err(stopped) => stopped,
                Ok(()) => Error::Io(error),
            })?;
        }
        Ok(true)
    }

    /// Makes it durable and gives it its name. `None`: a part is missing. Else the tag, or nothing
    /// where the condition does not hold.
    #[boxed]
    pub async fn publish(
        &self,
        path: &str,
        condition: PublishIf,
    ) -> Result<Option<Option<String>>, Error> {
        if !self.finish().await? {
            return Ok(None);
        }
        let tag = names::stat_of(&self.group, &self.file).map(|stat| stat.e_tag());
        let (group, file, path) = (self.group.clone(), self.file.clone(), path.to_owned());
        let change = async move { group.publish_if(&file, &path, condition).await };
        let published = to_the_end(&self.group, change).await?;
        Ok(Some(tag.filter(|_| published)))
    }
}

/// The bytes of a payload, to be cut anywhere.
struct Source {
    chunks: std::collections::VecDeque<Bytes>,
}

impl Source {
    fn new(chunks: Vec<Bytes>) -> Source {
        Source { chunks: chunks.into() }
    }

    /// The next `length` bytes: a slice where they lie together, else copied into one buffer,
    /// because a device wants every slice in whole sectors.
    fn take(&mut self, length: u64) -> Vec<Bytes> {
        let length = usize::try_from(length).expect("no longer than the payload in RAM");
        while self.chunks.front().is_some_and(Bytes::is_empty) {
            self.chunks.pop_front();
        }
        match self.chunks.front_mut() {
            _ if length == 0 => Vec::new(),
            Some(front) if front.len() >= length => vec![front.split_to(length)],
            _ => {
                let mut buffer = Buffer::new(length);
                let mut at = 0;
                while at < length {
                    let front = self.chunks.front_mut();
                    let front = front.expect("no more is taken than the payload has");
                    let part = front.split_to(front.len().min(length - at));
                    buffer[at..at + part.len()].copy_from_slice(&part);
                    at += part.len();
                    if front.is_empty() {
                        self.chunks.pop_front();
                    }
                }
                vec![buffer.freeze()]
            }
        }
    }
}

/// An upload in parts. Dropped before it is complete, it leaves nothing.
pub(super) struct Upload {
    pub path: String,
    pub writing: Option<Arc<Writing>>,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upload({})", self.path)
    }
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let path = self.path.clone();
        let Some(writing) = self.writing.clone() else {
            return Box::pin(async { Err(refused("the upload has ended")) });
        };
        let length = data.content_length() as u64;
        let offset = writing.give(length);
        Box::pin(async move {
            let write = async {
                writing.make_room(offset + length, false).await?;
                writing.write(offset, data).await
            };
            write.await.map_err(|error| error_of(&path, error))
        })
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let Some(writing) = self.writing.take() else {
            return Err(refused("the upload has ended"));
        };
        let published = writing.publish(&self.path, PublishIf::Always).await;
        match published.map_err(|error| error_of(&self.path, error))? {
            None => Err(refused("a part was not written")),
            Some(e_tag) => Ok(PutResult { e_tag, version: None }),
        }
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        // The file has no name: it goes with its last user.
        self.writing = None;
        Ok(())
    }
}

/// Copies a file of the group into a new one without a name.
pub(super) async fn copy(group: &Group, source: &File, length: u64) -> Result<Writing, Error> {
    let attributes = source.attributes();
    let spec = FileSpec {
        copies: Some(attributes.copies),
        striping: Some(attributes.striping),
        unit: Some(attributes.unit),
        checksums: Some(attributes.checksums),
        placement: attributes.placement.clone(),
        template: Some(String::new()),
        ..FileSpec::new(attributes.file_type)
    };
    let writing = Writing::new(group, group.create_file(&spec).await?);
    writing.make_room(length, true).await?;
    let mut at = 0;
    let mut parts = Vec::new();
    while at < length {
        let end = (at + WRITE).min(length);
        parts.push((writing.give(end - at), end - at));
        at = end;
    }
    stream::iter(parts)
        .map(|(offset, length)| {
            let writing = &writing;
            async move {
                let bytes = super::read::span(group, source, offset..offset + length).await?;
                writing.write(offset, bytes.into()).await
            }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    Ok(writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_cut_anywhere_and_copied_only_where_it_is_in_parts() {
        let chunks = ["abc", "", "de", "fghij"].map(|t| Bytes::from_static(t.as_bytes()));
        let mut source = Source::new(chunks.into());
        let mut taken = Vec::new();
        for length in [2, 0, 2, 3, 3] {
            taken.push(source.take(length).concat());
        }
        let text: Vec<&[u8]> = vec![b"ab", b"", b"cd", b"efg", b"hij"];
        assert_eq!(taken, text);
    }
}
