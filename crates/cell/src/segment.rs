//! Segments as a cell sees them: a device, and the headers of its row groups in memory.

use std::sync::{Arc, OnceLock};

use async_recursion::async_recursion as boxed;
use cellar_format::group;
use cellar_format::header::{PAGE, REGION, header_bytes};
use cellar_format::segment::offset_of;
use cellar_format::{Header, Tail};
use cellar_io::{Buffer, Device, DeviceExt, Io};

use crate::cache::{Cache, Key, Piece};
use crate::error::Error;
use crate::summary::Summary;

/// Gap between two columns, in bytes, that is read rather than skipped: a separate read costs as much.
const GAP: u64 = 64 << 10;

/// A segment that is open for scans. While it is held, its data are neither moved nor removed.
pub struct Segment {
    device: Arc<dyn Device>,
    headers: Vec<Header>,
    segment: u64,
    /// Made when it is first asked for: a table of 60 million rows has some 2,000 headers.
    summary: OnceLock<Summary>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({}, {} row groups)", self.device.geometry().name, self.headers.len())
    }
}

/// Columns of a row group that have been read, by their number in the table.
pub(crate) type Pieces = Vec<Option<Piece>>;

impl Segment {
    /// Opens a segment of `bytes` bytes and reads the headers of all its row groups: from the directory
    /// that follows them or, if that cannot be read, from each row group. A segment that does not have
    /// `rows` rows has lost some and is refused. Without `columns` the directory gives their number.
    ///
    /// # Errors
    /// It cannot be read, or is not a segment of `table` with that many columns and rows.
    #[boxed]
    pub async fn open(
        device: Arc<dyn Device>,
        bytes: u64,
        table: u64,
        columns: Option<usize>,
        rows: u64,
    ) -> Result<Segment, Error> {
        let name = device.geometry().name.to_string();
        let damaged = |damage| Error::Damaged {
            what: "the directory".to_owned(),
            segment: name.clone(),
            damage,
        };
        let headers = match (read_directory(&*device, bytes).await?, columns) {
            (Ok(headers), _) => headers,
            (Err(damage), None) => return Err(damaged(damage)),
            (Err(damage), Some(columns)) => match read_headers(&*device, bytes, columns).await? {
                Some(headers) => headers,
                None => return Err(damaged(damage)),
            },
        };
        let first = headers.first().map_or(0, |header| header.entries.len());
        let columns = columns.unwrap_or(first);
        let segment = headers.first().map_or(0, |header| header.segment);
        let other = headers.iter().find(|header| {
            header.table != table || header.segment != segment || header.entries.len() != columns
        });
        let found: u64 = headers.iter().map(|header| u64::from(header.rows)).sum();
        if found != rows {
            return Err(damaged(cellar_format::Damage::Field { name: "rows", value: found }));
        }
        match other {
            Some(other) => Err(damaged(cellar_format::Damage::Field {
                name: "table of a row group",
                value: other.table,
            })),
            None => Ok(Segment { device, headers, segment, summary: OnceLock::new() }),
        }
    }

    /// Reads the whole segment and checks each column against its checksum.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    #[boxed]
    pub async fn verify(&self) -> Result<(), Error> {
        for (position, header) in self.headers.iter().enumerate() {
            let all: Vec<usize> = (0..header.entries.len()).collect();
            for (from, to, columns) in ranges(header, &all) {
                let start = offset_of(position as u64) + from;
                let buffer = self.device.read_at(Io::SCAN, start, (to - from) as usize).await?;
                for column in columns {
                    drop(self.piece(position, column, from, &buffer)?);
                }
            }
        }
        Ok(())
    }

    /// The headers of its row groups.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// The summary of the headers.
    pub fn summary(&self) -> &Summary {
        self.summary.get_or_init(|| Summary::new(&self.headers))
    }

    fn key(&self, position: usize, column: usize) -> Key {
        (self.segment, position as u32, column as u16)
    }

    /// Bytes of some columns of a row group.
    pub(crate) fn bytes_of(&self, position: usize, columns: &[usize]) -> u64 {
        let entries = &self.headers[position].entries;
        columns.iter().map(|column| u64::from(entries[*column].length)).sum()
    }

    /// Moves the columns that are in the cache into `pieces`; returns the others.
    pub(crate) fn cached(
        &self,
        position: usize,
        columns: &[usize],
        cache: &Cache,
        pieces: &mut Pieces,
    ) -> Vec<usize> {
        let entries = &self.headers[position].entries;
        let mut missing = Vec::new();
        for column in columns {
            if pieces[*column].is_some() {
                continue;
            }
            pieces[*column] = match entries[*column].length {
                0 => Some(Piece::copy_of(&[])),
                _ => cache.get(&self.key(position, *column)),
            };
            if pieces[*column].is_none() {
                missing.push(*column);
            }
        }
        missing
    }

    /// Whether all of these columns are in the cache.
    pub(crate) fn is_cached(&self, position: usize, columns: &[usize], cache: &Cache) -> bool {
        let entries = &self.headers[position].entries;
        columns
            .iter()
            .all(|column| entries[*column].length == 0 || cache.has(&self.key(position, *column)))
    }

    /// Reads columns of a row group into `pieces` and the cache; returns the number of reads and of
    /// bytes.
    pub(crate) async fn read(
        &self,
        position: usize,
        columns: &[usize],
        cache: &Cache,
        pieces: &mut Pieces,
    ) -> Result<(u64, u64), Error> {
        let header = &self.headers[position];
        let (mut reads, mut bytes) = (0, 0);
        for (from, to, columns) in ranges(header, columns) {
            let start = offset_of(position as u64) + from;
            let buffer = self.device.read_at(Io::SCAN, start, (to - from) as usize).await?;
            reads += 1;
            bytes += to - from;
            for column in columns {
                let piece = self.piece(position, column, from, &buffer)?;
                cache.put(self.key(position, column), piece.clone());
                pieces[column] = Some(piece);
            }
        }
        Ok((reads, bytes))
    }

    fn piece(
        &self,
        position: usize,
        column: usize,
        from: u64,
        buffer: &Buffer,
    ) -> Result<Piece, Error> {
        let entry = &self.headers[position].entries[column];
        let at = (u64::from(entry.offset) - from) as usize;
        let piece = Piece::copy_of(&buffer[at..at + entry.length as usize]);
        // Also decodes it once here, so that no later reader needs to check for a faulty writer.
        match group::column(&self.headers[position], column, piece.bytes(), true) {
            Ok(_) => Ok(piece),
            Err(damage) => Err(self.damaged(position, Some(column), damage)),
        }
    }

    /// Of a row group, and of a column of it where it is known which.
    pub(crate) fn damaged(
        &self,
        position: usize,
        column: Option<usize>,
        damage: cellar_format::Damage,
    ) -> Error {
        Error::Damaged {
            what: match column {
                Some(column) => format!("column {column} of row group {position}"),
                None => format!("row group {position}"),
            },
            segment: self.device.geometry().name.to_string(),
            damage,
        }
    }
}

/// The reads that fetch some columns of a row group: start and end in it, and the columns.
fn ranges(header: &Header, columns: &[usize]) -> Vec<(u64, u64, Vec<usize>)> {
    let page = PAGE as u64;
    let mut wanted: Vec<usize> = columns.to_vec();
    wanted.sort_by_key(|column| header.entries[*column].offset);
    let mut ranges: Vec<(u64, u64, Vec<usize>)> = Vec::new();
    for column in wanted {
        let entry = &header.entries[column];
        let from = u64::from(entry.offset) / page * page;
        let to = u64::from(entry.offset + entry.length).next_multiple_of(page);
        match ranges.last_mut() {
            Some((_, end, own)) if from <= *end + GAP => {
                *end = to.max(*end);
                own.push(column);
            }
            _ => ranges.push((from, to, vec![column])),
        }
    }
    ranges
}

type Read<T> = Result<Result<T, cellar_format::Damage>, Error>;

/// What stands behind the row groups.
async fn read_directory(device: &dyn Device, bytes: u64) -> Read<Vec<Header>> {
    let page = PAGE as u64;
    let short = cellar_format::Damage::Length { expected: PAGE, found: bytes as usize };
    if bytes < page || bytes > device.geometry().size || !bytes.is_multiple_of(page) {
        return Ok(Err(short));
    }
    let tail = match device.read_at(Io::FOREGROUND, bytes - page, PAGE).await {
        Ok(buffer) => Tail::decode(&buffer),
        Err(error) if is_lost(&error) => return Ok(Err(short)),
        Err(error) => return Err(error.into()),
    };
    let tail = match tail {
        Ok(tail) if tail.directory_bytes() <= bytes - page => tail,
        Ok(_) => return Ok(Err(short)),
        Err(damage) => return Ok(Err(damage)),
    };
    let length = tail.directory_bytes();
    let mut all = Vec::with_capacity(length as usize);
    let mut at = bytes - page - length;
    while at < bytes - page {
        let piece = (bytes - page - at).min(REGION as u64);
        match device.read_at(Io::FOREGROUND, at, piece as usize).await {
            Ok(buffer) => all.extend_from_slice(&buffer),
            Err(error) if is_lost(&error) => return Ok(Err(short)),
            Err(error) => return Err(error.into()),
        }
        at += piece;
    }
    Ok(tail.read(&all).map(|(headers, _)| headers))
}

/// Whether all copies are damaged, so that another way is worth trying.
fn is_lost(error: &cellar_io::IoError) -> bool {
    error.kind == cellar_io::IoErrorKind::Media
}

/// The headers of the row groups, read one after the other up to the first that is not valid. `None`: not
/// even the first one is.
async fn read_headers(
    device: &dyn Device,
    bytes: u64,
    columns: usize,
) -> Result<Option<Vec<Header>>, Error> {
    let length = header_bytes(columns);
    let mut headers: Vec<Header> = Vec::new();
    loop {
        let start = offset_of(headers.len() as u64);
        if start + length as u64 > bytes {
            break;
        }
        let buffer = device.read_at(Io::FOREGROUND, start, length).await?;
        match Header::decode(&buffer) {
            Ok(header) if header.position == headers.len() as u64 => headers.push(header),
            _ => break,
        }
    }
    Ok(Some(headers).filter(|headers| !headers.is_empty()))
}
