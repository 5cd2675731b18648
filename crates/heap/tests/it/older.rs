//! Stores of which the file or the log is an older image, or whose log is damaged, opened with and without FORCE: an
//! opening refuses, or shows the state behind some commit and goes on from there. Without FORCE that state has all
//! that was acknowledged, but for what one medium alone cannot tell.

use cellar_heap::{Error, Opened, Store};
use cellar_io::Device;
use cellar_io::sim::{Rng, SimDisk, Snapshot};

use crate::prefix;
use crate::support::Rig;

/// What file, log and control data were.
struct Image {
    data: Snapshot,
    groups: Vec<Snapshot>,
    bytes: Vec<Vec<u8>>,
    control: Vec<u8>,
}

fn bytes_of(disk: &SimDisk) -> Vec<u8> {
    disk.peek(0, disk.geometry().size)
}

impl Image {
    fn of(rig: &Rig) -> Image {
        let groups = rig.groups.iter().map(|disk| disk.snapshot()).collect();
        let control = rig.run(rig.control.load()).unwrap();
        let bytes = rig.groups.iter().map(|disk| bytes_of(disk)).collect();
        Image { data: rig.data.snapshot(), groups, bytes, control }
    }

    fn put_log(&self, rig: &Rig) {
        for (disk, image) in rig.groups.iter().zip(&self.groups) {
            disk.replace_with_snapshot(image);
        }
        rig.run(rig.control.store(self.control.clone())).unwrap();
    }
}

/// Blocks of the log that are damaged at most, and commits that one of them ends at most.
const DAMAGED: u64 = 4;
const CLIENTS: u64 = prefix::CLIENTS_MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Harm {
    OlderFile,
    OlderLog,
    /// Both, each of its own age.
    OlderBoth,
    DamagedLog,
    /// A group of the log as it was, the others as they are.
    OlderGroup,
}

#[derive(Default, Debug)]
struct Counts {
    refused: u64,
    whole: u64,
    forced: u64,
    /// Commits were lost by force, and the store goes on.
    lost: u64,
    ahead: u64,
    /// Also by force there is no opening.
    never: u64,
}

fn harm(rig: &Rig, rng: &mut Rng, harm: Harm, images: &[Image]) {
    let any = |rng: &mut Rng| rng.below(images.len() as u64) as usize;
    match harm {
        Harm::OlderFile => rig.data.replace_with_snapshot(&images[any(rng)].data),
        Harm::OlderLog => images[any(rng)].put_log(rig),
        Harm::OlderBoth => {
            images[any(rng)].put_log(rig);
            rig.data.replace_with_snapshot(&images[any(rng)].data);
        }
        Harm::DamagedLog => {
            // What was written last, or some of it.
            let before = &images[images.len() - 1].bytes;
            let groups = rig.groups.iter().zip(before);
            let written = groups.flat_map(|(disk, before)| {
                let now = bytes_of(disk);
                let sectors = now.chunks(512).zip(before.chunks(512)).enumerate();
                let new = sectors.filter(|(_, (now, before))| now != before);
                new.map(|(at, _)| (disk, at as u64 * 512)).collect::<Vec<_>>()
            });
            let written: Vec<_> = written.collect();
            for _ in 0..rng.within(1..=DAMAGED) {
                let (disk, at) = written[rng.below(written.len() as u64) as usize];
                disk.corrupt(at, 512);
            }
        }
        Harm::OlderGroup => {
            let group = rng.below(3) as usize;
            rig.groups[group].replace_with_snapshot(&images[any(rng)].groups[group]);
        }
    }
}

/// Goes on with a store that opened, over a power cut. Returns its last number then.
fn go_on(rig: &Rig, rng: &mut Rng, store: Store, seed: u64, least: u64) -> u64 {
    let view = store.view();
    let (counter, last) = rig.run(prefix::check(&view, &rig.session(), seed, least));
    drop(view);
    let known = prefix::until_the_power_goes(rig, rng, store, (counter, last));
    rig.run(async {
        let (store, _) = rig.open().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        prefix::check(&store.view(), &rig.session(), seed, known).await;
        store.close().await.unwrap();
    });
    last
}

fn life(seed: u64, counts: &mut Counts) {
    let mut rng = Rng::stream(seed, 5);
    let mut rig = prefix::created(seed, &mut rng);
    let (mut known, mut images) = (0, Vec::new());
    for _ in 0..rng.within(2..=4) {
        images.push(Image::of(&rig));
        let store = rig.run(rig.open()).unwrap().0;
        let view = store.view();
        let from = rig.run(prefix::check(&view, &rig.session(), seed, known));
        drop(view);
        known = prefix::until_the_power_goes(&rig, &mut rng, store, from);
    }
    let all =
        [Harm::OlderFile, Harm::OlderLog, Harm::OlderBoth, Harm::DamagedLog, Harm::OlderGroup];
    let kind = all[seed as usize % all.len()];
    harm(&rig, &mut rng, kind, &images);
    match rig.run(rig.open()) {
        Ok((store, _)) => {
            counts.whole += 1;
            let least = match kind {
                // Where log and control data are older, and the file fits them, nothing tells it. Nor does anything
                // where a group of the only medium is as before the switch to it: no header was written yet, or so
                // it looks.
                Harm::OlderLog | Harm::OlderBoth | Harm::OlderGroup => 0,
                // Of the last write to the only medium nothing behind it says that it was durable.
                Harm::DamagedLog => known.saturating_sub(DAMAGED * CLIENTS),
                Harm::OlderFile => known,
            };
            go_on(&rig, &mut rng, store, seed, least);
            return;
        }
        Err(_) => counts.refused += 1,
    }
    rig.sim.crash();
    rig.sim.restart();
    rig.force = true;
    let opened = rig.run(rig.open_any());
    rig.force = false;
    match opened {
        Err(_) => counts.never += 1,
        Ok(Opened::Store(store, _)) => {
            counts.forced += 1;
            let last = go_on(&rig, &mut rng, store, seed, 0);
            counts.lost += u64::from(last < known);
        }
        Ok(Opened::Ahead { reader, log, .. }) => {
            counts.ahead += 1;
            rig.run(log.close()).unwrap();
            drop(reader);
            // From then on whoever opens it is told.
            let again = rig.run(rig.open());
            assert!(matches!(again, Err(Error::Ahead { .. })), "seed {seed}: {again:?}");
        }
    }
}

#[test]
fn an_older_or_damaged_half_is_refused_or_a_state_behind_some_commit() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, seeds) =
        (number("CELLAR_SEED").unwrap_or(0), number("CELLAR_SEEDS").unwrap_or(100));
    let mut counts = Counts::default();
    (first..first + seeds).for_each(|seed| life(seed, &mut counts));
    println!("{seeds} seeds: {counts:?}");
    let each = [counts.refused, counts.whole, counts.forced, counts.lost, counts.ahead];
    assert!(seeds < 100 || each.iter().all(|count| *count > 1), "{counts:?}");
}

/// Of a record of several blocks the first was left, so that the log went on behind it; a page that had the record
/// looked as if it were of after the opening.
#[test]
fn a_page_with_a_record_of_which_only_a_part_is_left_is_ahead_of_the_log() {
    let mut counts = Counts::default();
    life(2853, &mut counts);
    assert_eq!((counts.refused, counts.ahead), (1, 1), "{counts:?}");
}
