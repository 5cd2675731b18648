//! cp: copies a file into, out of, between or within groups. The target appears atomically, even
//! after kill -9: in a group as an unnamed file that gets its name at the end, elsewhere as
//! a temporary file next to the target that is renamed over it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec};
use cellar_instance::{Error, NextStep};
use cellar_io::{Buffer, Device, Durability, EnvExt, Io, shell};
use cellar_storage::size::{show_bytes, show_duration};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::super::database::{Database, Place};
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::super::progress::Progress;
use super::{Show, Spot, spot};

/// Bytes of one read and one write.
const STEP: u64 = 1 << 20;
/// Steps in flight: they bound the memory.
const IN_FLIGHT: usize = 32;
/// The unit for reading and writing files of a group.
const BLOCK: usize = 4096;

/// Arguments of `cp`.
#[derive(Debug, clap::Args)]
pub struct Cp {
    /// A file: +DATA/dir/file, or a path outside.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// A file or directory; an existing file is replaced whole.
    #[arg(value_name = "TARGET")]
    target: String,
}

/// The source of the bytes.
enum Reader {
    Local(Arc<fs::File>, PathBuf),
    Group(File),
}

/// The destination.
enum Writer {
    Local(Arc<fs::File>, PathBuf),
    Group(File),
}

/// Copies.
pub async fn run(args: &Cp, database: &Database, place: &Place, show: Show) -> Result<(), Fault> {
    let start = place.env.now();
    let (reader, size, mut spec) = open_source(&args.source, database)?;
    let (to, template) = template_of(&args.target);
    if template.is_some() {
        spec = FileSpec { template, ..FileSpec::new(spec.file_type) };
    }
    let name = args.source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let quiet = show.format == Format::Json;
    let bar = Progress::new("copied", size, quiet);
    let job = Job { reader: Arc::new(reader), size, bar: &bar, place };
    let target = match args.target.starts_with('+') {
        true => {
            let as_dir = to.ends_with('/');
            into_group(&job, spot(database, &to)?, as_dir, name, &spec, database).await
        }
        false => into_local(&job, &output::path(Path::new(&args.target)), name).await,
    };
    bar.finish();
    let target = target?;
    let took = place.env.now().since(start);
    if quiet {
        return output::json(&serde_json::json!({
            "source": args.source,
            "target": target,
            "bytes": size,
            "seconds": took.as_secs_f64(),
        }));
    }
    let rate = size as f64 / took.as_secs_f64().max(1e-9);
    output::text(&format!(
        "copied {} -> {target}\n{} in {}, {}/s\n",
        args.source,
        show_bytes(size),
        show_duration(took),
        show_bytes(rate as u64)
    ))
}

/// A target without its template, as in `+DATA(t)/f`; and that template.
fn template_of(target: &str) -> (String, Option<String>) {
    let (head, rest) = match target.split_once('/') {
        Some((head, rest)) => (head, format!("/{rest}")),
        None => (target, String::new()),
    };
    let named = head.strip_suffix(')').and_then(|head| head.split_once('('));
    match named {
        Some((group, template)) if group.starts_with('+') => {
            (format!("{group}{rest}"), Some(template.to_owned()))
        }
        _ => (target.to_owned(), None),
    }
}

/// The source, its size, and the properties of a copy in a group.
fn open_source(source: &str, database: &Database) -> Result<(Reader, u64, FileSpec), Fault> {
    if source.starts_with('+') {
        let spot = spot(database, source)?;
        if spot.path.is_empty() {
            return Err(Fault::usage(format!("\"{source}\" is a disk group; name a file of it")));
        }
        if super::is_pattern(&spot.path) {
            let text = format!("\"{source}\": cp copies one file, not a pattern");
            let next = NextStep::from("see which match: ");
            let next = next.cellar("asm", &format!("ls {}", shell::quoted(source)));
            return Err(Fault::usage(text).hint(next));
        }
        if spot.mounted.group.list_dir(&spot.path).is_ok() {
            let list = format!("ls {}", shell::quoted(source));
            return Err(directory(source, NextStep::from(A_FILE).cellar("asm", &list)));
        }
        let file = spot.mounted.group.open(&spot.path)?;
        let file = file.for_session(database.session.waits());
        let attributes = file.attributes();
        let mut spec = FileSpec::new(match attributes.file_type {
            // A copy of the catalog is not a catalog.
            FileType::Controlfile => FileType::Dumpset,
            other => other,
        });
        spec.striping = Some(attributes.striping);
        spec.unit = Some(attributes.unit);
        let size = file.size();
        return Ok((Reader::Group(file), size, spec));
    }
    let path = output::path(Path::new(source));
    let file = fs::File::open(&path).map_err(|e| Error::system("open", &path, &e))?;
    let metadata = file.metadata().map_err(|e| Error::system("look at", &path, &e))?;
    if metadata.is_dir() {
        let list = format!("{A_FILE}ls {}", shell::quoted(source));
        return Err(directory(source, list.into()));
    }
    if !metadata.is_file() {
        return Err(Fault::usage(format!("\"{source}\" is no regular file; name one")));
    }
    let spec = FileSpec::new(FileType::Dumpset);
    Ok((Reader::Local(Arc::new(file), path), metadata.len(), spec))
}

/// The action for a directory.
const A_FILE: &str = "name a file of it: ";

fn directory(source: &str, next: NextStep) -> Fault {
    Fault::usage(format!("\"{source}\" is a directory; cp copies one file at a time")).hint(next)
}

/// A copy in progress.
struct Job<'a> {
    reader: Arc<Reader>,
    size: u64,
    bar: &'a Progress,
    place: &'a Place,
}

async fn into_group(
    job: &Job<'_>,
    spot: Spot,
    as_dir: bool,
    name: &str,
    spec: &FileSpec,
    database: &Database,
) -> Result<String, Fault> {
    let group = &spot.mounted.group;
    let is_dir = spot.path.is_empty() || group.list_dir(&spot.path).is_ok();
    if as_dir && !is_dir {
        let shown = spot.name_of(&spot.path);
        let text = format!("there is no directory {shown}");
        let make = format!("mkdir {}", shell::quoted(&shown));
        let next = NextStep::from("make it first: ").cellar("asm", &make);
        let next = next.then("; or leave the last / out");
        return Err(Error::new(15173, text).hint(next).into());
    }
    let path = match (is_dir, spot.path.as_str()) {
        (true, "") => name.to_owned(),
        (true, dir) => format!("{dir}/{name}"),
        (false, path) => path.to_owned(),
    };
    database.inner.tables().check_user_file(group.name(), &path)?;
    if group.list_dir(&path).is_ok() {
        let text = format!("\"{}\" is a directory", spot.name_of(&path));
        return Err(Error::new(15124, text).hint("give the copy another name").into());
    }
    if group.open(&path).is_ok() {
        database.inner.tables().external_files().check_replaceable(group.name(), &path)?;
    }
    let file = group.create_file(spec).await?.for_session(database.session.waits());
    // Allocates all space first: a copy that does not fit fails before a byte is copied.
    file.set_size(job.size).await?;
    stream(job, Writer::Group(file.clone())).await?;
    file.flush(Io::COMMIT).await?;
    group.publish(&file, &path, true).await?;
    Ok(spot.name_of(&path))
}

async fn into_local(job: &Job<'_>, target: &Path, name: &str) -> Result<String, Fault> {
    if !target.is_dir() && target.to_string_lossy().ends_with('/') {
        let shown = target.display();
        return Err(Fault::usage(format!("there is no directory {shown}")).hint(format!(
            "make it first: mkdir -p {}; or leave the last / out to name a file",
            shell::path(target)
        )));
    }
    let target = if target.is_dir() { target.join(name) } else { target.to_owned() };
    // If the target is a link, the linked file is replaced, not the link.
    let target = fs::canonicalize(&target).unwrap_or(target);
    let old = fs::metadata(&target).ok();
    if old.as_ref().is_some_and(|m| !m.is_file()) {
        let shown = target.display();
        return Err(Fault::usage(format!("\"{shown}\" is there and no regular file")));
    }
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    if !parent.is_dir() {
        let text = format!("there is no directory {}", parent.display());
        let next = format!("make it first: mkdir -p {}", shell::path(&parent));
        return Err(Error::new(70110, text).hint(next).into());
    }
    let temporary = parent.join(format!(".cellar-cp-{:016x}", job.place.env.random()));
    let done = write_local(job, &temporary, &target, &parent, old.as_ref()).await;
    if done.is_err() {
        // The first failure is reported; a file that was never created needs no removal.
        let _ = fs::remove_file(&temporary);
    }
    done.map(|()| target.to_string_lossy().into_owned())
}

async fn write_local(
    job: &Job<'_>,
    temporary: &Path,
    target: &Path,
    parent: &Path,
    old: Option<&fs::Metadata>,
) -> Result<(), Fault> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    let file = options.open(temporary).map_err(|e| Error::system("make a file in", parent, &e))?;
    if let Some(old) = old {
        let kept = file.set_permissions(old.permissions());
        kept.map_err(|e| Error::system("set the permissions of", temporary, &e))?;
    }
    make_room(&file, job.size).map_err(|e| Error::system("make room for", target, &e))?;
    let file = Arc::new(file);
    stream(job, Writer::Local(Arc::clone(&file), target.to_owned())).await?;
    let (temporary, target, parent) = (temporary.to_owned(), target.to_owned(), parent.to_owned());
    blocking(move || {
        file.sync_all().map_err(|e| Error::system("sync", &target, &e))?;
        fs::rename(&temporary, &target).map_err(|e| Error::system("rename to", &target, &e))?;
        let directory = fs::File::open(&parent).and_then(|d| d.sync_all());
        directory.map_err(|e| Error::system("sync", &parent, &e).into())
    })
    .await
}

/// Allocates all space now, so that a full file system is found before a byte is copied.
fn make_room(file: &fs::File, size: u64) -> std::io::Result<()> {
    if size == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size),
        Err(error) => Err(error.into()),
    }
}

/// Copies all bytes, with many steps in flight.
async fn stream(job: &Job<'_>, writer: Writer) -> Result<(), Fault> {
    let writer = Arc::new(writer);
    let (mut at, mut done) = (0, 0);
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < IN_FLIGHT && at < job.size {
            let length = STEP.min(job.size - at);
            let task = step(Arc::clone(&job.reader), Arc::clone(&writer), at, length);
            let handle = job.place.env.run("copy", task);
            running.push(async move { (length, handle.await) });
            at += length;
        }
        match running.next().await {
            None => return Ok(()),
            Some((length, Some(result))) => {
                result?;
                done += length;
                job.bar.set(done);
            }
            Some((_, None)) => {
                return Err(Fault::failed("CELLAR-00600: a part of the copy was lost"));
            }
        }
    }
}

async fn step(reader: Arc<Reader>, writer: Arc<Writer>, at: u64, length: u64) -> Result<(), Fault> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let padded = length.next_multiple_of(BLOCK);
    let mut buffer = match &*reader {
        Reader::Group(file) => {
            let mut read = file.read_group(Io::SCAN, at, vec![Buffer::new(padded)]).await?;
            read.pop().unwrap_or_else(|| Buffer::zeroed(padded))
        }
        Reader::Local(file, path) => {
            let (file, path) = (Arc::clone(file), path.clone());
            blocking(move || {
                let mut buffer = Buffer::zeroed(padded);
                let read = file.read_exact_at(&mut buffer[..length], at);
                read.map_err(|e| Error::system("read", &path, &e))?;
                Ok(buffer)
            })
            .await?
        }
    };
    // Past the end of the file the copy has zeros, whatever the source has.
    buffer[length..].fill(0);
    match &*writer {
        Writer::Group(file) => {
            let data = vec![buffer.freeze()];
            file.write_group(Io::SCAN, at, data, Durability::Cached).await?;
        }
        Writer::Local(file, path) => {
            let (file, path) = (Arc::clone(file), path.clone());
            blocking(move || {
                let written = file.write_all_at(&buffer[..length], at);
                written.map_err(|e| Error::system("write", &path, &e).into())
            })
            .await?;
        }
    }
    Ok(())
}

/// File system calls may block: they get a separate thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Fault::failed("CELLAR-00600: a part of the copy was lost")))
}
