//! Segments in a mirrored group: one leg that is gone, fails, hangs or rots changes no answer; where
//! both are damaged, there is an error that says what and where.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_cell::{Cache, DynamicFilter, Error, Segment};
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group, MountOptions};
use cellar_io::sim::SimDisk;
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, IoErrorKind};
use cellar_sim::rig::{Rig, Shape};

use crate::ask::{Asked, between, everything};
use crate::rig::{Answer, Meanwhile, is_released, nothing, open, run, scan, scan_with};
use crate::seeds;
use crate::table::Rng;
use crate::tables::{Bag, Table};

const PAGE: usize = 4096;

fn shape() -> Shape {
    Shape { disks: 2, disk_bytes: 48 << 20, ..Shape::default() }
}

/// A group of two disks with a table in it.
struct Mirrored {
    table: Table,
    group: Group,
    files: Vec<File>,
}

impl Mirrored {
    async fn new(rig: &Rig, table: Table) -> Mirrored {
        rig.create(&shape()).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let mut files = Vec::new();
        for image in &table.images {
            let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
            file.allocate(image.bytes).await.expect("room");
            for (at, bytes) in &image.pieces {
                let bytes = Bytes::from(bytes.clone());
                file.write_at(Io::SCAN, *at, bytes, Durability::Cached).await.expect("written");
            }
            file.flush(Io::SCAN).await.expect("flushed");
            group.publish(&file, &format!("segment{}", image.number), false).await.expect("named");
            files.push(file);
        }
        Mirrored { table, group, files }
    }

    /// Long enough that nothing but reads goes to the disks from here on.
    async fn settle(&self) {
        self.group.env().sleep(Duration::from_secs(15)).await;
    }

    async fn open(&self, at: usize) -> Result<Arc<Segment>, Error> {
        let device = Arc::new(self.files[at].clone()) as Arc<dyn Device>;
        open(device, &self.table, &self.table.images[at]).await
    }

    async fn open_all(&self) -> Vec<Arc<Segment>> {
        let mut segments = Vec::new();
        for at in 0..self.files.len() {
            segments.push(self.open(at).await.expect("a copy is sound"));
        }
        segments
    }

    async fn scan(&self, segments: &[Arc<Segment>], columns: &[usize]) -> Answer {
        scan(self.group.env(), everything(&self.table, segments, columns)).await
    }

    /// The pages of a segment from one byte to another.
    fn pages(&self, image: usize, from: u64, to: u64) -> Vec<&[u8]> {
        let pieces = self.table.images[image].pieces.iter();
        let pages = pieces.flat_map(|(at, bytes)| {
            bytes.chunks(PAGE).enumerate().map(move |(page, own)| (at + (page * PAGE) as u64, own))
        });
        pages.filter(|(at, _)| (from..to).contains(at)).map(|(_, page)| page).collect()
    }

    /// The pages of a column of the first row group of a segment, but for what others have of them.
    fn pages_of_column(&self, image: usize, column: usize) -> Vec<&[u8]> {
        let entry = &self.table.groups[image].header.entries[column];
        let (from, to) = (u64::from(entry.offset), u64::from(entry.offset + entry.length));
        self.pages(image, from / 4096 * 4096, to)
    }
}

/// Where each page that is not empty is on a disk.
fn places(disk: &SimDisk) -> HashMap<Vec<u8>, Vec<u64>> {
    let all = disk.peek(0, shape().disk_bytes);
    let mut places: HashMap<Vec<u8>, Vec<u64>> = HashMap::new();
    for (at, page) in all.chunks(PAGE).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            places.entry(page.to_vec()).or_default().push((at * PAGE) as u64);
        }
    }
    places
}

/// Makes these pages rot, wherever a disk has them.
fn rot(disk: &SimDisk, pages: &[&[u8]]) {
    let places = places(disk);
    for page in pages {
        let all = places.get(*page).unwrap_or_else(|| panic!("{} has all pages", disk.name()));
        all.iter().for_each(|at| disk.corrupt(*at, PAGE as u64));
    }
}

/// Something happens to a leg before the `when`th step of any worker.
fn mishap(rng: &mut Rng, rig: &Rig) -> Meanwhile {
    let (disk, kind, when) = (Arc::clone(rng.pick(&rig.disks)), rng.below(6), rng.below(6));
    let steps = AtomicUsize::new(0);
    let half = shape().disk_bytes / 2;
    Arc::new(move |rng| {
        if steps.fetch_add(1, Ordering::Relaxed) != when {
            return;
        }
        match kind {
            0 => disk.vanish(),
            1 => disk.fail_reads(0..half * 2),
            2 => disk.fail_reads_until_written(rng.below(half as usize) as u64..half * 2),
            3 => disk.hang(),
            4 => disk.slow(300),
            _ => disk.misdirect_next_read((rng.below(1 << 11) * PAGE) as u64),
        }
    })
}

/// Each page rots on one leg, or on none.
fn rot_here_and_there(rng: &mut Rng, rig: &Rig, own: &Mirrored) {
    let all = (0..own.files.len()).flat_map(|image| own.pages(image, 0, u64::MAX));
    let all: BTreeSet<&[u8]> = all.filter(|page| page.iter().any(|byte| *byte != 0)).collect();
    let mut legs = [Vec::new(), Vec::new()];
    for page in all {
        if rng.one_in(2) {
            legs[rng.below(2)].push(page);
        }
    }
    rig.disks.iter().zip(legs).for_each(|(disk, pages)| rot(disk, &pages));
}

#[test]
fn one_bad_leg_changes_no_answer() {
    seeds(40, |seed| {
        let mut rng = Rng(seed);
        let (rig, table) = (Rig::new(seed, &shape()), Table::random(&mut rng));
        run(&rig.sim, async {
            let own = Mirrored::new(&rig, table).await;
            own.settle().await;
            let is_rotten = rng.one_in(2);
            if is_rotten {
                rot_here_and_there(&mut rng, &rig, &own);
            }
            let segments = own.open_all().await;
            let cache = Cache::new(*rng.pick(&[0, 20_000, 64 << 20]));
            let asked = Asked::random(&mut rng, &own.table, &segments);
            let before = asked.live.as_ref().map_or_else(Vec::new, |live| live.predicates());
            // One leg has what the other has not.
            let mishap = if is_rotten { nothing() } else { mishap(&mut rng, &rig) };
            let by = (1 + rng.below(3), seed);
            let request = asked.request.clone();
            let answer = scan_with(own.group.env(), request, &cache, by, mishap).await;
            asked.check(&own.table, &before, answer);
            drop(asked);
            assert!(is_released(own.group.env(), &segments).await, "tasks of it go on");
            // Opened while it is as it is.
            let segments = own.open_all().await;
            let all: Vec<usize> = (0..own.table.types.len()).collect();
            let items = own.scan(&segments, &all).await.sound();
            assert_eq!(Bag::of(&items), own.table.rows(&all, |_, _| true));
        });
    });
}

/// Both copies of these pages rot.
fn rot_both(rig: &Rig, pages: &[&[u8]]) {
    rig.disks.iter().for_each(|disk| rot(disk, pages));
}

#[test]
fn what_rots_on_both_legs_is_an_error_with_its_place() {
    let rig = Rig::new(7, &shape());
    run(&rig.sim, async {
        let own = Mirrored::new(&rig, Table::counted(&[2, 2])).await;
        own.settle().await;
        let segments = own.open_all().await;
        let texts = own.pages_of_column(0, 1);
        rot_both(&rig, &texts[texts.len() - 1..]);
        let answer = own.scan(&segments, &[0, 1]).await;
        let [Error::Io(error)] = &answer.errors[..] else { panic!("{:?}", answer.errors) };
        assert_eq!(error.kind, IoErrorKind::Media);
        assert_eq!(error.device, own.files[0].geometry().name, "which file");
        assert!(error.offset < 1 << 20, "its first row group: {error}");
        // What others have is as it was, and a scan that needs no page of it does not see it.
        let mut request = everything(&own.table, &segments, &[0, 1]);
        request.conjuncts = vec![between(0, 1000, 3999)];
        let items = scan(own.group.env(), request).await.sound();
        assert_eq!(Bag::of(&items).count, 3000);
    });
}

#[test]
fn a_segment_opens_while_either_of_what_says_what_is_in_it_can_be_read() {
    let rig = Rig::new(8, &shape());
    run(&rig.sim, async {
        let own = Mirrored::new(&rig, Table::counted(&[3, 3, 3])).await;
        own.settle().await;
        // The tail of one: the row groups are asked themselves.
        let image = &own.table.images[0];
        rot_both(&rig, &own.pages(0, image.bytes - PAGE as u64, image.bytes));
        // All headers of another, in the row groups and behind them.
        let headers: Vec<&[u8]> =
            (0..3).flat_map(|at| own.pages(1, at << 20, (at << 20) + 1)).collect();
        rot_both(&rig, &headers);
        // Of a third its tail and one header.
        let image = &own.table.images[2];
        rot_both(&rig, &own.pages(2, image.bytes - PAGE as u64, image.bytes));
        rot_both(&rig, &own.pages(2, 1 << 20, (1 << 20) + 1));
        let first = own.open(0).await.expect("its row groups say it");
        let items = own.scan(&[first], &[0]).await.sound();
        assert_eq!(Bag::of(&items).count, 3000);
        for (at, place) in [(1, 0), (2, 1 << 20)] {
            let error = own.open(at).await.expect_err("nothing says what is in it");
            let Error::Io(error) = error else { panic!("{error}") };
            assert_eq!((error.kind, error.offset), (IoErrorKind::Media, place));
            assert_eq!(error.device, own.files[at].geometry().name, "which file");
        }
    });
}

#[test]
fn one_bad_leg_is_no_matter_right_after_a_table_is_written() {
    seeds(20, |seed| {
        let mut rng = Rng(seed);
        let rig = Rig::new(seed, &shape());
        run(&rig.sim, async {
            let own = Mirrored::new(&rig, Table::counted(&[2, 1])).await;
            rot_here_and_there(&mut rng, &rig, &own);
            let segments = own.open_all().await;
            let items = own.scan(&segments, &[0, 1]).await.sound();
            assert_eq!(Bag::of(&items), own.table.rows(&[0, 1], |_, _| true));
        });
    });
}

#[test]
fn a_leg_that_does_not_answer_holds_a_scan_up_until_the_group_leaves_it_out() {
    seeds(6, |seed| {
        let rig = Rig::new(seed, &shape());
        run(&rig.sim, async {
            let own = Mirrored::new(&rig, Table::counted(&[4, 4])).await;
            own.settle().await;
            let (segments, env) = (own.open_all().await, own.group.env());
            rig.disks[seed as usize % 2].hang();
            let began = env.now();
            let items = own.scan(&segments, &[0, 1]).await.sound();
            assert_eq!(Bag::of(&items), own.table.rows(&[0, 1], |_, _| true));
            let (took, most) = (env.now().since(began), MountOptions::default().detach_timeout);
            assert!(took < most + Duration::from_secs(1), "once, not for each read: {took:?}");
        });
    });
}
