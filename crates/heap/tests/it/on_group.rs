//! A store in a mirrored file of a disk group: power cuts, after which a disk stays away, and comes back later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    CreateGroup, File, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create,
};
use cellar_heap::{Change, Error, Growth, GrowthError, Key, RowId, Store, TableOf};
use cellar_io::sim::{Rng, SimDisk, SimDiskOptions};
use cellar_io::{Device, EnvExt};
use cellar_wait::{Kind, Session};
use futures_util::future::BoxFuture;

use crate::support::Rig;

const TABLE: u32 = 3;
const INDEX: u32 = 4;
pub const FILE: &str = "heap";
const DISKS: usize = 3;

/// The rows: by their numbers, where they are and what they are.
type Rows = BTreeMap<u64, (RowId, Bytes)>;

pub struct Life {
    seed: u64,
    rng: Rng,
    pub rig: Arc<Rig>,
    pub disks: Vec<Arc<SimDisk>>,
    rows: Rows,
    /// What the commit that was not answered would have made of a row.
    pending: Option<(u64, Option<Bytes>)>,
    /// The disk that is away.
    away: Option<usize>,
}

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

impl Life {
    pub fn new(seed: u64) -> Life {
        let mut rng = Rng::stream(seed, 21);
        let mut rig = Rig::new(seed, 1 << 20, 1 << 20);
        rig.options.cache_pages = rng.within(30..=200) as usize;
        rig.options.recovery_target = Duration::from_micros(rng.within(1..=1000));
        let options = SimDiskOptions { size: 32 << 20, ..SimDiskOptions::default() };
        let disks = (0..DISKS).map(|at| rig.sim.disk(&format!("disk{at}"), options.clone()));
        let disks: Vec<_> = disks.collect();
        for disk in &disks {
            disk.tear_sectors(rng.coin());
        }
        let rig = Arc::new(rig);
        Life { seed, rng, rig, disks, rows: BTreeMap::new(), pending: None, away: None }
    }

    /// Makes the group, and an empty store in it.
    pub async fn create(&self) {
        let new = |disk: &Arc<SimDisk>| NewDisk {
            device: disk.clone(),
            path: disk.name().to_string(),
            name: None,
            failgroup: None,
            size: None,
            force: false,
        };
        let group = CreateGroup {
            name: "DATA".to_owned(),
            redundancy: Redundancy::Normal,
            au_size: 1 << 20,
            sector_size: None,
            attributes: Default::default(),
            holds_catalog: false,
            disks: self.disks.iter().map(new).collect(),
        };
        create(&self.rig.sim.env(), group).await.unwrap();
        let group = self.mount().await;
        let spec = FileSpec { unit: Some(8192), ..FileSpec::new(FileType::Datafile) };
        let file = group.create_file(&spec).await.unwrap();
        file.set_size(8 << 20).await.unwrap();
        let file = Arc::new(file);
        self.rig.create_on(Arc::clone(&file) as Arc<dyn Device>).await;
        group.publish(&file, FILE, false).await.unwrap();
        drop(file);
        group.dismount().await.unwrap();
    }

    pub async fn mount(&self) -> Group {
        let here = self.disks.iter().enumerate().filter(|(at, _)| Some(*at) != self.away);
        let found =
            here.map(|(_, disk)| FoundDisk { device: disk.clone(), path: disk.name().to_string() });
        let session = self.rig.waits.session("group DATA", Kind::Background);
        let env = self.rig.sim.env();
        Group::mount(&env, session, "DATA", found.collect(), MountOptions::default()).await.unwrap()
    }

    async fn open(&self) -> (Group, Store) {
        let group = self.mount().await;
        let file = group.open(FILE).unwrap();
        file.recovered_by_owner();
        let file: Arc<dyn Device> = Arc::new(file);
        let (store, _) =
            self.rig.open_on(file).await.unwrap_or_else(|error| {
                panic!("seed {}, away {:?}: {error}", self.seed, self.away)
            });
        (group, store)
    }

    /// The disk that was away has what it missed.
    async fn bring_back(&self, group: &Group) {
        group.wait_returned().await.unwrap();
        while group.info().members.len() < DISKS {
            self.rig.sim.env().sleep(Duration::from_millis(5)).await;
        }
    }

    /// Holds the store against the model.
    async fn check(&mut self, store: &Store, session: &Session) {
        let (seed, view) = (self.seed, store.view());
        if let Some((number, after)) = self.pending.take() {
            let bytes = number.to_be_bytes();
            let found = view.range(session, INDEX, &bytes..=&bytes, false, 2).await.unwrap();
            let id = found.first().map(|(_, id)| *id);
            let row = match id {
                Some(id) => view.row(session, TABLE, id).await.unwrap(),
                None => None,
            };
            if row == after {
                self.rows.remove(&number);
                self.rows.extend(id.zip(row).map(|row| (number, row)));
            }
        }
        let all = &[][..]..=&[0xFF; 9][..];
        let found = view.range(session, INDEX, all, false, usize::MAX).await.unwrap();
        let wanted: Vec<_> =
            self.rows.iter().map(|(n, (id, _))| (n.to_be_bytes().to_vec(), *id)).collect();
        assert!(found == wanted, "seed {seed}: {} entries of {}", found.len(), wanted.len());
        for (id, bytes) in self.rows.values() {
            let row = view.row(session, TABLE, *id).await.unwrap();
            assert_eq!(row.as_ref(), Some(bytes), "seed {seed}");
        }
        let table = TableOf { table: TABLE, indexes: vec![INDEX] };
        let report = view.verify(session, &[table], None).await.unwrap();
        assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
    }

    /// Commits until the power goes, or for a while.
    async fn work(&mut self, store: &Store, session: &Session) {
        for _ in 0..self.rng.within(50..=400) {
            let number = self.rng.within(0..=120);
            let row = Bytes::from(vec![
                self.rng.within(0..=255) as u8;
                self.rng.within(6..=900) as usize
            ]);
            let before = self.rows.get(&number).cloned();
            let (change, after) = match before {
                None => {
                    let insert =
                        Change::Insert { table: TABLE, row: row.clone(), keys: vec![key(number)] };
                    (insert, Some(row))
                }
                Some((id, _)) if self.rng.within(0..=3) == 0 => {
                    (Change::Delete { table: TABLE, id, keys: vec![key(number)] }, None)
                }
                Some((id, _)) => {
                    let (gone, new) = (Vec::new(), Vec::new());
                    let update = Change::Update { table: TABLE, id, row: row.clone(), gone, new };
                    (update, Some(row))
                }
            };
            self.pending = Some((number, after.clone()));
            let Ok(outcome) = store.commit(session, vec![change]).await else { return };
            self.pending = None;
            let id = outcome.rows[0];
            self.rows.remove(&number);
            self.rows.extend(id.zip(after).map(|row| (number, row)));
        }
    }
}

/// A file of a group that grows.
struct Longer(Arc<File>);

impl Growth for Longer {
    fn grow(&self, to_bytes: u64) -> BoxFuture<'_, Result<u64, GrowthError>> {
        Box::pin(async move {
            self.0.set_size(to_bytes).await?;
            Ok(to_bytes)
        })
    }
}

#[test]
fn a_file_of_a_group_grows_until_the_group_is_full_also_over_power_cuts() {
    for seed in 0..5 {
        let mut life = Life::new(seed);
        let rig = Arc::clone(&life.rig);
        let sim = &rig.sim;
        sim.run(life.create()).expect("the power is on");
        let mut ids: Vec<(u64, RowId)> = Vec::new();
        let mut full = None;
        for round in 0.. {
            let row = |number: u64| Bytes::from(vec![number as u8; 7000]);
            let worked = sim.run(async {
                let group = life.mount().await;
                let session = life.rig.session();
                let file = Arc::new(group.open(FILE).unwrap());
                let growth: Arc<dyn Growth> = Arc::new(Longer(Arc::clone(&file)));
                let (store, _) = life.rig.open_growing(file, growth).await.unwrap();
                if round == 0 {
                    store.create_table(&session, TABLE).await.unwrap();
                    store.create_index(&session, INDEX).await.unwrap();
                }
                let view = store.view();
                let table = TableOf { table: TABLE, indexes: vec![INDEX] };
                let report = view.verify(&session, &[table], None).await.unwrap();
                assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
                for (number, id) in &ids {
                    let found = view.row(&session, TABLE, *id).await.unwrap();
                    assert_eq!(found, Some(row(*number)), "seed {seed}");
                }
                if full.is_some() {
                    return;
                }
                sim.crash_after(life.rng.within(200..=6000));
                for number in ids.len() as u64 * 1000.. {
                    let keys = vec![key(number)];
                    let change = Change::Insert { table: TABLE, row: row(number), keys };
                    match store.commit(&session, vec![change]).await {
                        Ok(outcome) => ids.extend(outcome.rows[0].map(|id| (number, id))),
                        Err(error) => {
                            full = Some(error);
                            break;
                        }
                    }
                }
            });
            sim.crash();
            sim.crash_never();
            sim.restart();
            if worked.is_some() && full.is_some() && round > 0 {
                break;
            }
        }
        let Some(Error::Full { extents, cause: Some(cause), .. }) = full else {
            panic!("seed {seed}: {full:?}")
        };
        assert!(cause.contains("disk group \"DATA\" has no room"), "{cause}");
        assert!(extents > 2 * (8 << 20) / (64 << 10), "seed {seed}: {extents} extents");
    }
}

#[test]
fn no_power_cut_loses_anything_though_a_disk_stays_away() {
    let number =
        |name, default| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (first, count) = (number("CELLAR_SEED", 0), number("CELLAR_SEEDS", 25));
    for seed in first..first + count {
        let mut life = Life::new(seed);
        let rig = Arc::clone(&life.rig);
        let sim = &rig.sim;
        sim.run(life.create()).expect("the power is on");
        for round in 0..6 {
            sim.run(async {
                let session = life.rig.session();
                let (group, store) = life.open().await;
                if life.away.is_none() {
                    life.bring_back(&group).await;
                }
                if round == 0 {
                    store.create_table(&session, TABLE).await.unwrap();
                    store.create_index(&session, INDEX).await.unwrap();
                }
                life.check(&store, &session).await;
                let cut = life.rng.within(20..=900);
                life.rig.sim.crash_after(cut);
                life.work(&store, &session).await;
            });
            sim.crash();
            sim.crash_never();
            sim.restart();
            // A disk that was away comes back before another one may go: it lacks what it missed.
            life.away = match life.away {
                Some(_) => None,
                None => Some(life.rng.within(0..=5) as usize).filter(|at| *at < DISKS),
            };
        }
        sim.run(async {
            let session = life.rig.session();
            let (_group, store) = life.open().await;
            life.check(&store, &session).await;
        });
    }
}
