//! Cellar's row store: each commit is a transaction that finds a row by its key, locks it, changes its
//! bytes and is durable. Committers are tasks on a few threads, readers are threads, as with the rivals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    CreateGroup, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy,
};
use cellar_heap::locks::{Mode, LockTimeout};
use cellar_heap::{Change, Geometry, Isolation, Key, NewStore, OpenStore, Store};
use cellar_io::Device;
use cellar_io::real::{OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Session, Waits};
use serde_json::json;

use super::cellar::{FileControl, GROUP_BYTES, GROUPS};
use super::{fresh, locked, written};
use crate::Error;
use crate::load::{Body, Load, Own, Watch, nanos, row, settle};
use crate::reads::{Keys, Reads};

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const STORE_BYTES: u64 = 256 << 20;
/// Bytes of a disk that its group needs besides files.
const SPARE: u64 = 256 << 20;
/// Rows besides those of the committers, if no number is given.
const ROWS: u64 = 200;

/// An open store, and its runtime.
struct Heap {
    runtime: Runtime,
    store: Store,
    engine: String,
}

/// The location of a store.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Plain files, one of each.
    Files,
    /// A disk group of two disks with two copies and checksums, and two media for the log, all on the same disk.
    Mirror,
}

impl Place {
    fn media(self) -> &'static [&'static str] {
        match self {
            Place::Files => &["cellar"],
            Place::Mirror => &["cellar", "cellar-b"],
        }
    }

    fn arm(self) -> &'static str {
        match self {
            Place::Files => "heap",
            Place::Mirror => "heap-mirrored",
        }
    }
}

fn open(load: &Load, place: Place) -> Result<Heap, Error> {
    let options = RuntimeOptions { workers: load.workers, ..RuntimeOptions::default() };
    let runtime = Runtime::new(&options)?;
    let mut engine = String::new();
    let mut open = |name: String, bytes: u64| -> Result<Arc<dyn Device>, Error> {
        let path = load.dir.join(name);
        written(&path, bytes)?;
        let disk = open_disk(runtime.real_env(), &path, &OpenOptions::default())?;
        engine = disk.effective().to_string();
        Ok(disk as Arc<dyn Device>)
    };
    let mut media = Vec::new();
    for name in place.media() {
        let mut files = BTreeMap::new();
        for group in 1..=GROUPS {
            files.insert(group, open(format!("{name}-{group}"), GROUP_BYTES)?);
        }
        media.push(Medium { name: (*name).to_owned(), files });
    }
    let bytes = STORE_BYTES.max(load.room() as u64).next_multiple_of(4 << 20);
    let control = Arc::new(FileControl(fresh(load, place.arm())?.join("control")));
    let store = match place {
        Place::Files => {
            let data = open("cellar-heap".to_owned(), bytes)?;
            runtime.block_on(make(&runtime, load, control, media, data))?
        }
        Place::Mirror => {
            let disk = |number| {
                let name = format!("cellar-disk-{number}");
                // A file of an earlier run belongs to a group.
                let _ = std::fs::remove_file(load.dir.join(&name));
                open(name, bytes + SPARE)
            };
            let disks = (1..=2).map(disk).collect::<Result<Vec<_>, _>>()?;
            runtime.block_on(async {
                let data = mirror(&runtime, disks, bytes).await?;
                make(&runtime, load, control, media, data).await
            })?
        }
    };
    Ok(Heap { runtime, store, engine })
}

/// A file with two copies and checksums, in a separate disk group.
async fn mirror(
    runtime: &Runtime,
    disks: Vec<Arc<dyn Device>>,
    bytes: u64,
) -> Result<Arc<dyn Device>, Error> {
    let env = runtime.env();
    let path = |at: usize| format!("disk-{at}");
    let new = |(at, device): (usize, &Arc<dyn Device>)| NewDisk {
        device: Arc::clone(device),
        path: path(at),
        name: None,
        failgroup: None,
        size: None,
        force: false,
    };
    let spec = CreateGroup {
        name: "RIVALS".to_owned(),
        redundancy: Redundancy::Normal,
        au_size: 4 << 20,
        sector_size: Some(4096),
        attributes: Default::default(),
        holds_catalog: false,
        disks: disks.iter().enumerate().map(new).collect(),
    };
    cellar_diskgroup::create(&env, spec).await?;
    let found = disks.into_iter().enumerate();
    let found = found.map(|(at, device)| FoundDisk { device, path: path(at) }).collect();
    let session = Waits::new().session("group RIVALS", Kind::Background);
    let group = Group::mount(&env, session, "RIVALS", found, MountOptions::default()).await?;
    let unit = Some(8192);
    let spec = FileSpec { unit, checksums: Some(true), ..FileSpec::new(FileType::Datafile) };
    let file = group.create_file(&spec).await?;
    file.allocate(bytes).await?;
    file.recovered_by_owner();
    group.publish(&file, "heap", false).await?;
    Ok(Arc::new(file))
}

pub fn run(load: &Load) -> Result<String, Error> {
    measure(load, Place::Files)
}

pub fn run_mirrored(load: &Load) -> Result<String, Error> {
    measure(load, Place::Mirror)
}

fn measure(load: &Load, place: Place) -> Result<String, Error> {
    let Heap { runtime, store, engine } = open(load, place)?;
    settle(load)?;
    commits(&runtime, &store, load, load.warm)?;
    let watch = Watch::new(load)?;
    let (took, time) = commits(&runtime, &store, load, load.time)?;
    let copies = match place {
        Place::Files => "1 medium, 1 file",
        Place::Mirror => "2 media, a group of 2 disks with 2 copies and checksums, all on one disk",
    };
    let how = format!(
        "a transaction: found by key, locked, changed; {copies}, blocks of {}, {} workers, {engine}",
        load.block, load.workers
    );
    let about = json!({"version": locked("cellar-heap"), "how": how});
    let line = watch.line(place.arm(), load, took, time, &about)?;
    runtime.block_on(store.close())?;
    Ok(line)
}

pub fn read(load: &Load) -> Result<String, Error> {
    let heap = open(load, Place::Files)?;
    let about = json!({"version": locked("cellar-heap")});
    let line = crate::reads::run("heap", &heap, load, about)?;
    heap.runtime.block_on(heap.store.close())?;
    Ok(line)
}

impl Reads for Heap {
    fn read(&self, keys: &mut Keys) -> Result<(), Error> {
        self.runtime.block_on(async {
            let session = Waits::new().session("reader", Kind::User);
            while let Some(number) = keys.next() {
                let (view, key) = (self.store.view(), number.to_be_bytes());
                let found = view.range(&session, INDEX, &key..=&key, false, 1).await?;
                let (_, id) = *found.first().ok_or("no row has this key")?;
                let row = view.row(&session, TABLE, id).await?.ok_or("the row is gone")?;
                keys.got(&row)?;
            }
            Ok(())
        })
    }

    fn how(&self) -> &'static str {
        "a view for each read, found by key in the index, the row copied"
    }
}

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

async fn make(
    runtime: &Runtime,
    load: &Load,
    control: Arc<dyn Control>,
    media: Vec<Medium>,
    device: Arc<dyn Device>,
) -> Result<Store, Error> {
    let env = runtime.env();
    let database = u128::from(env.random());
    let spec = CreateLog {
        database: DatabaseId(database),
        block_size: load.block,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
        media: media.clone(),
    };
    create(&env, &control, spec).await?;
    let waits = Waits::new();
    let opening = OpenLog {
        env: env.clone(),
        session: waits.session("redo", Kind::Background),
        control,
        media,
        options: Options::default(),
        returning: Vec::new(),
        force: false,
    };
    let recovery = Recovery::start(opening).await?;
    let (geometry, from) = (Geometry::default(), recovery.checkpoint());
    cellar_heap::create(&device, NewStore { store: env.random(), database, geometry, from })
        .await?;
    let session = waits.session("load", Kind::User);
    let cache_pages = load.cache() / 8192;
    let dirty_max = cache_pages / 4 * 3;
    let options = cellar_heap::Options { cache_pages, dirty_max, ..Default::default() };
    let open = OpenStore { env, waits, device, recovery, options, growth: None, spill: None };
    let store = Store::open(open).await?.0;
    store.create_table(&session, TABLE).await?;
    store.create_index(&session, INDEX).await?;
    let rows = if load.rows == 0 { ROWS.max(load.keys()) } else { load.keys() };
    for from in (0..rows).step_by(1000) {
        let insert = |number| {
            let row = Bytes::from(row(number, load.bytes));
            Change::Insert { table: TABLE, row, keys: vec![key(number)] }
        };
        let changes = (from..rows.min(from + 1000)).map(insert).collect();
        store.commit(&session, changes).await?;
    }
    store.checkpoint().await?;
    Ok(store)
}

async fn update(store: &Store, session: &Session, number: u64, row: Bytes) -> Result<(), Error> {
    let mut own = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    let key = key(number).bytes;
    let found = own.range(INDEX, key.clone()..=key).await?;
    let (_, at) = *found.first().ok_or("no row has this key")?;
    own.lock_row(TABLE, at, Mode::Exclusive).await?;
    own.update((TABLE, at), row, Vec::new(), Vec::new()).await?;
    own.commit().await?;
    Ok(())
}

/// Commits for some time; returns the latencies, in nanoseconds.
fn commits(
    runtime: &Runtime,
    store: &Store,
    load: &Load,
    time: Duration,
) -> Result<(Vec<u32>, Duration), Error> {
    runtime.block_on(async {
        let waits = Waits::new();
        let start = Instant::now();
        let end = start + time;
        let tasks: Vec<_> = (0..load.committers)
            .map(|committer| {
                let (store, bytes) = (store.clone(), load.bytes);
                let session = waits.session("committer", Kind::User);
                let mut keys = Own::new(load, committer);
                tokio::spawn(async move {
                    let mut body = Body::new(committer, bytes);
                    let mut took = Vec::with_capacity(1 << 16);
                    let mut before = Instant::now();
                    while before < end {
                        let row = Bytes::copy_from_slice(body.next());
                        update(&store, &session, keys.next(), row).await?;
                        let now = Instant::now();
                        took.push(nanos(now - before));
                        before = now;
                    }
                    Ok::<_, Error>(took)
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await??);
        }
        Ok((all, start.elapsed()))
    })
}
