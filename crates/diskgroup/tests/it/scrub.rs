//! Scrub: what is wrong on one disk, in files and in our own structures, is found, told and mended.

use std::time::Duration;

use cellar_diskgroup::on_disk::layout::{
    BLOCK_U64, DIRTY_LOG, LOG_START, SUPERBLOCKS, au_offset, checksum_place,
};
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    AlterDisks, Copies, DiskFaults, Error, File, FileSpec, Group, Redundancy, ScrubPower,
    ScrubResult, ScrubScope, ScrubSpec, label_offsets,
};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use crate::moves::{check_content, filled, new_disk, pattern, sound};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;
const UNIT: u64 = 4096;

fn two() -> Shape {
    Shape { disks: 2, ..Shape::default() }
}

fn high() -> Shape {
    Shape { disks: 3, redundancy: Redundancy::High, ..Shape::default() }
}

/// A group with a file of 12 MB, mounted, nothing dirty.
async fn group(rig: &Rig, shape: &Shape) -> Group {
    rig.create(shape).await.expect("created");
    let group = rig.mount().await.expect("mounted");
    drop(filled(&group, "f", 1, 12 * MB).await);
    group.dismount().await.expect("dismounted");
    rig.mount().await.expect("mounted again")
}

async fn scrub_as(group: &Group, spec: ScrubSpec) -> ScrubResult {
    group.scrub(spec).await.expect("begun");
    group.wait_scrubbed().await.expect("it runs").expect("it came to its end")
}

async fn scrub(group: &Group) -> ScrubResult {
    scrub_as(group, ScrubSpec::default()).await
}

/// Where a stretch of the file has its copy on a disk: the content tells.
fn place_of(rig: &Rig, disk: usize, offset: u64) -> u64 {
    let wanted = pattern(1, offset, UNIT as usize);
    let size = rig.disks[disk].geometry().size;
    let mut at = (au_offset(0, MB)..size - MB).step_by(UNIT as usize);
    at.find(|at| rig.disks[disk].peek(*at, UNIT) == wanted).expect("it has a copy there")
}

fn faults(result: &ScrubResult, disk: u16) -> DiskFaults {
    result.found.faults.get(&disk).copied().unwrap_or_default()
}

#[test]
fn all_that_is_wrong_in_files_is_found_counted_and_mended() {
    let rig = Rig::new(90, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let at = |offset| place_of(&rig, 1, offset);
        let (rotten, bad, lost, misdirected) = (at(0), at(MB), at(3 * MB), at(5 * MB));
        let whole = scrub(&group).await;
        assert!(whole.found.faults.is_empty() && whole.found.places.is_empty(), "{whole:?}");
        assert!(whole.found.bytes_read >= 24 * MB, "both copies of 12 MB: {whole:?}");
        rig.disks[1].corrupt(rotten, 3 * UNIT);
        rig.disks[1].fail_reads_until_written(bad..bad + 2 * UNIT);
        // An old version of one block, and what belongs elsewhere on two.
        rig.disks[1].poke(lost, &pattern(9, 0, UNIT as usize));
        let elsewhere = rig.disks[1].peek(at(7 * MB), 2 * UNIT);
        rig.disks[1].poke(misdirected, &elsewhere);
        let result = scrub(&group).await;
        let told = faults(&result, 1);
        assert_eq!((told.checksum, told.unreadable), (6, 2), "{result:?}");
        assert_eq!(told.sum(), 8, "and nothing else");
        assert_eq!(result.found.faults.len(), 1, "on no other disk");
        assert_eq!((result.found.repaired, result.found.left), (8, 0));
        assert_eq!(result.found.places.len(), 8, "each is named");
        for offset in [0, MB, 3 * MB, 5 * MB] {
            assert_eq!(rig.disks[1].peek(at(offset), UNIT), pattern(1, offset, UNIT as usize));
        }
        let again = scrub(&group).await;
        assert!(again.found.faults.is_empty(), "{again:?}");
        check_content(&group.open("f").expect("there"), 1, 12 * MB).await;
        sound(&group).await;
        assert_eq!(group.last_scrub().map(|last| last.ended), Some(again.ended));
    })
    .expect("no crash");
}

#[test]
fn without_repair_it_only_tells() {
    let rig = Rig::new(91, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let at = place_of(&rig, 0, MB);
        rig.disks[0].corrupt(at, UNIT);
        rig.disks[0].corrupt(label_offsets(rig.disks[0].geometry().size)[1], 8);
        let spec = ScrubSpec { repair: false, ..ScrubSpec::default() };
        let result = scrub_as(&group, spec).await;
        assert_eq!(faults(&result, 0).checksum, 1);
        assert_eq!(faults(&result, 0).own, 1);
        assert_eq!((result.found.repaired, result.found.left), (0, 2));
        assert_ne!(rig.disks[0].peek(at, UNIT), pattern(1, MB, UNIT as usize));
        let result = scrub(&group).await;
        assert_eq!((result.found.repaired, result.found.left), (2, 0));
        sound(&group).await;
    })
    .expect("no crash");
}

#[test]
fn what_has_no_right_copy_is_told_and_left_as_it_is() {
    let rig = Rig::new(92, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let places = [place_of(&rig, 0, 2 * MB), place_of(&rig, 1, 2 * MB)];
        let now = || [0, 1].map(|i: usize| rig.disks[i].peek(places[i], UNIT));
        for (disk, at) in rig.disks.iter().zip(places) {
            disk.corrupt(at, UNIT);
        }
        let rotten = now();
        let result = scrub(&group).await;
        assert_eq!((result.found.repaired, result.found.left), (0, 2), "{result:?}");
        assert_eq!(now(), rotten, "nothing was made of it");
        let file = group.open("f").expect("there");
        let read = file.read_at(Io::FOREGROUND, 2 * MB, UNIT as usize).await;
        assert!(read.is_err(), "no read gives rot");
        // Its neighbours are readable, as they were.
        let read = file.read_at(Io::FOREGROUND, 2 * MB + UNIT, UNIT as usize).await;
        assert_eq!(read.expect("read")[..], pattern(1, 2 * MB + UNIT, UNIT as usize)[..]);
    })
    .expect("no crash");
}

#[test]
fn a_medium_that_does_not_keep_what_is_written_is_told() {
    let rig = Rig::new(93, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        let at = place_of(&rig, 1, MB);
        rig.disks[1].fail_reads(at..at + UNIT);
        let result = scrub(&group).await;
        assert_eq!((result.found.repaired, result.found.left), (0, 1), "{result:?}");
        check_content(&group.open("f").expect("there"), 1, 12 * MB).await;
    })
    .expect("no crash");
}

/// A file of two MB without checksums, with so many copies.
async fn unchecked(group: &Group) -> File {
    let spec = FileSpec { checksums: Some(false), ..FileSpec::new(FileType::Datafile) };
    let file = group.create_file(&spec).await.expect("made");
    file.set_size(2 * MB).await.expect("room");
    let data = pattern(1, 0, 2 * MB as usize);
    file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable).await.expect("written");
    group.publish(&file, "g", false).await.expect("named");
    file
}

#[test]
fn without_checksums_the_majority_is_right_and_two_that_differ_are_left() {
    for shape in [two(), high()] {
        let rig = Rig::new(94, &shape);
        rig.run(async {
            rig.create(&shape).await.expect("created");
            let group = rig.mount().await.expect("mounted");
            let file = unchecked(&group).await;
            // Until it is clean, the copies may differ.
            group.env().sleep(Duration::from_secs(20)).await;
            let at = place_of(&rig, 1, MB);
            rig.disks[1].corrupt(at, UNIT);
            let result = scrub(&group).await;
            if shape.disks == 2 {
                assert_eq!((result.found.repaired, result.found.left), (0, 2), "{result:?}");
                return;
            }
            assert_eq!(faults(&result, 1).differs, 1, "{result:?}");
            assert_eq!((result.found.repaired, result.found.left), (1, 0));
            check_content(&file, 1, 2 * MB).await;
        })
        .expect("no crash");
    }
}

/// What is wrong with our own structures on disk 1, one after the other.
fn spoil(rig: &Rig, what: &str) {
    let disk = &rig.disks[1];
    let nonzero = |at: u64| disk.peek(at, BLOCK_U64).iter().any(|b| *b != 0);
    let generation = |at: u64| {
        let block = disk.peek(at, BLOCK_U64);
        u64::from_le_bytes(block[24..32].try_into().expect("8 bytes"))
    };
    let newest = SUPERBLOCKS.into_iter().filter(|at| nonzero(*at)).max_by_key(|at| generation(*at));
    let newest = newest.expect("there is one");
    match what {
        "a label" => disk.corrupt(label_offsets(disk.geometry().size)[2], BLOCK_U64),
        "every label" => {
            let labels = label_offsets(disk.geometry().size);
            labels.into_iter().for_each(|at| disk.poke(at, &[0xAA; 4096]));
        }
        "an unreadable label" => {
            let at = label_offsets(disk.geometry().size)[0];
            disk.fail_reads_until_written(at..at + BLOCK_U64);
        }
        "the newest superblock" => disk.corrupt(newest, BLOCK_U64),
        "a lost superblock" => {
            // What was there before is whole, and old.
            let slots = SUPERBLOCKS.into_iter().filter(|at| nonzero(*at) && *at != newest);
            let older = slots.min_by_key(|at| generation(*at)).expect("there are several");
            disk.poke(newest, &disk.peek(older, BLOCK_U64));
        }
        "the checkpoint" => {
            // Both areas: one of them is in use.
            disk.corrupt(au_offset(1, MB), 65536);
            disk.corrupt(au_offset(2, MB), 65536);
        }
        "the log" => {
            let used = (0..1024).map(|i| LOG_START + i * BLOCK_U64).filter(|at| nonzero(*at));
            used.collect::<Vec<_>>().into_iter().for_each(|at| disk.corrupt(at, BLOCK_U64));
        }
        "the dirty log" => {
            for place in DIRTY_LOG.into_iter().filter(|at| nonzero(*at)) {
                disk.poke(place, &[0x55; 4096]);
            }
        }
        "a checksum block" => disk.corrupt(au_offset(0, MB), 4096),
        "a checksum block written over" => disk.poke(au_offset(0, MB), &[0x33; 4096]),
        other => panic!("nobody knows {other}"),
    }
}

#[test]
fn our_own_structures_are_found_wrong_and_made_again() {
    assert_eq!(checksum_place(3, 0, MB).offset, au_offset(0, MB), "the first block of the disk");
    for what in [
        "a label",
        "every label",
        "an unreadable label",
        "the newest superblock",
        "a lost superblock",
        "the checkpoint",
        "the log",
        "the dirty log",
        "a checksum block",
        "a checksum block written over",
    ] {
        for cached in [false, true] {
            let rig = Rig::new(95, &two());
            rig.run(async {
                let group = group(&rig, &two()).await;
                // Some checkpoints, and a dirty log that was written.
                for i in 0..6u64 {
                    for n in 0..400 {
                        let value = ["data", "system"][n % 2];
                        group.set_attribute("content.type", value).await.expect("set");
                    }
                    let file = group.open("f").expect("there");
                    let data = pattern(1, i * MB, 65536);
                    file.write_at(Io::FOREGROUND, i * MB, data.into(), Durability::Durable)
                        .await
                        .expect("written");
                }
                if cached {
                    check_content(&group.open("f").expect("there"), 1, 12 * MB).await;
                }
                group.env().sleep(Duration::from_secs(20)).await;
                assert!(scrub(&group).await.found.faults.is_empty(), "nothing yet: {what}");
                spoil(&rig, what);
                let result = scrub(&group).await;
                assert!(faults(&result, 1).own > 0, "{what}: {result:?}");
                assert_eq!(faults(&result, 1).sum(), faults(&result, 1).own, "{what}: {result:?}");
                assert_eq!(result.found.left, 0, "{what}: {result:?}");
                assert_eq!(result.found.faults.len(), 1, "{what}");
                assert!(scrub(&group).await.found.faults.is_empty(), "{what} is mended");
            })
            .expect("no crash");
            // The other disk is lost: this one knows everything.
            rig.sim.crash();
            rig.sim.restart();
            rig.run(async {
                let group = rig.mount().await.expect("mounted");
                rig.disks[0].vanish();
                check_content(&group.open("f").expect("there"), 1, 12 * MB).await;
                let file = group.open("f").expect("there");
                let data = pattern(1, 0, 65536);
                file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Durable)
                    .await
                    .expect("written");
                assert_eq!(group.info().offline_disks, 1, "{what}");
                group.dismount().await.expect("dismounted");
            })
            .expect("no crash");
        }
    }
}

#[test]
fn one_file_or_one_disk_can_be_scrubbed() {
    let shape = Shape::default();
    let rig = Rig::new(96, &shape);
    rig.run(async {
        let group = group(&rig, &shape).await;
        drop(filled(&group, "g", 2, 4 * MB).await);
        let number = group.open("g").expect("there").number();
        let of = |scope| ScrubSpec { scope, power: ScrubPower::Max, ..ScrubSpec::default() };
        let file = scrub_as(&group, of(ScrubScope::File(number))).await;
        assert!((8 * MB..9 * MB).contains(&file.found.bytes_read), "{file:?}");
        let disk = scrub_as(&group, of(ScrubScope::Disk(2))).await;
        let all = scrub_as(&group, of(ScrubScope::Group)).await;
        assert!(disk.found.bytes_read > 0 && disk.found.bytes_read < all.found.bytes_read);
        let error = group.scrub(of(ScrubScope::File(9999))).await.expect_err("no such file");
        assert!(matches!(error, Error::NoSuchFile { .. }), "{error}");
        let error = group.scrub(of(ScrubScope::Disk(9))).await.expect_err("no such disk");
        assert_eq!(error.number(), 15054, "{error}");
        assert_eq!(group.last_scrub().map(|s| s.spec.scope), Some(ScrubScope::Group));
    })
    .expect("no crash");
}

#[test]
fn a_scrub_goes_on_after_a_restart_where_it_was() {
    let rig = Rig::new(97, &two());
    let low = ScrubSpec { power: ScrubPower::Low, ..ScrubSpec::default() };
    let before = rig
        .run(async {
            let group = group(&rig, &two()).await;
            group.scrub(low).await.expect("begun");
            group.scrub(low).await.expect("it is under way");
            let error = group.scrub(ScrubSpec::default()).await.expect_err("one at a time");
            assert_eq!(error.number(), 70116, "{error}");
            while group.scrubbing().expect("it is under way").bytes_done < 6 * MB {
                group.env().sleep(Duration::from_millis(1)).await;
            }
            group.dismount().await.expect("dismounted");
        })
        .is_some();
    assert!(before);
    rig.run(async {
        let group = rig.mount().await.expect("mounted");
        let at = group.scrubbing().expect("it is wanted still");
        assert!(at.bytes_done >= 6 * MB, "{at:?}");
        let result = group.wait_scrubbed().await.expect("it runs").expect("it ended");
        let read = result.found.bytes_read;
        assert!((24 * MB..36 * MB).contains(&read), "everything once: {read}");
        assert!(group.scrubbing().is_none());
    })
    .expect("no crash");
}

#[test]
fn a_scrub_can_be_stopped() {
    let rig = Rig::new(98, &two());
    rig.run(async {
        let group = group(&rig, &two()).await;
        assert!(!group.stop_scrub().await.expect("nothing to stop"));
        group
            .scrub(ScrubSpec { power: ScrubPower::Low, ..ScrubSpec::default() })
            .await
            .expect("begun");
        group.env().sleep(Duration::from_millis(20)).await;
        assert!(group.stop_scrub().await.expect("stopped"));
        let result = group.wait_scrubbed().await.expect("it runs").expect("told");
        assert!(result.stopped && group.scrubbing().is_none() && group.last_scrub().is_none());
        assert!(!scrub(&group).await.stopped, "another may begin");
        group.dismount().await.expect("dismounted");
    })
    .expect("no crash");
}

#[test]
fn one_that_was_due_and_is_stopped_does_not_begin_again_at_once() {
    let rig = Rig::new(101, &two());
    rig.sim
        .run(async {
            let group = group(&rig, &two()).await;
            group.set_attribute("scrub_interval", "1h").await.expect("set");
            group.env().sleep(Duration::from_secs(3600 - 60)).await;
            while group.scrubbing().is_none() {
                group.env().sleep(Duration::from_millis(1)).await;
            }
            assert!(group.stop_scrub().await.expect("stopped"));
            assert!(group.wait_scrubbed().await.expect("it runs").expect("told").stopped);
            group.env().sleep(Duration::from_secs(3000)).await;
            assert!(group.scrubbing().is_none() && group.last_scrub().is_none());
            group.env().sleep(Duration::from_secs(800)).await;
            assert!(group.last_scrub().is_some(), "an hour later");
        })
        .expect("no crash");
}

#[test]
fn a_disk_that_hangs_while_it_is_scrubbed_keeps_nobody() {
    for at_files in [false, true] {
        let shape = Shape { disks: 3, ..Shape::default() };
        let rig = Rig::new(102, &shape);
        rig.run(async {
            let group = group(&rig, &shape).await;
            if !at_files {
                rig.disks[1].hang();
            }
            group.scrub(ScrubSpec::default()).await.expect("begun");
            if at_files {
                while group.scrubbing().expect("it is under way").bytes_done == 0 {
                    group.env().sleep(Duration::from_micros(100)).await;
                }
                rig.disks[1].hang();
            }
            let result = group.wait_scrubbed().await.expect("it runs").expect("it ended");
            assert_eq!(group.info().offline_disks, 1, "the disk has left");
            assert!(result.found.faults.is_empty(), "{result:?}");
            group.dismount().await.expect("dismounted");
        })
        .expect("no crash");
    }
}

/// One disk lost a write with its checksum; the checksums of another are torn: the third and that one
/// are more.
#[test]
fn a_majority_is_asked_before_checksums_are_made_again() {
    let rig = Rig::new(103, &high());
    rig.run(async {
        let group = group(&rig, &high()).await;
        let at = [0, 1, 2].map(|disk| place_of(&rig, disk, 2 * MB));
        let sums = at.map(|at| {
            let au = (at - au_offset(0, MB)) / MB;
            checksum_place(au as u32, at % MB / UNIT, MB).offset
        });
        let old = (rig.disks[0].peek(at[0], UNIT), rig.disks[0].peek(sums[0], 4096));
        let file = group.open("f").expect("there");
        let new = pattern(5, 2 * MB, UNIT as usize);
        file.write_at(Io::FOREGROUND, 2 * MB, new.clone().into(), Durability::Durable)
            .await
            .expect("written");
        drop(file);
        group.dismount().await.expect("dismounted");
        rig.disks[0].poke(at[0], &old.0);
        rig.disks[0].poke(sums[0], &old.1);
        rig.disks[1].corrupt(sums[1], 4096);
        let group = rig.mount().await.expect("mounted");
        let result = scrub(&group).await;
        assert_eq!(faults(&result, 0).differs, 1, "{result:?}");
        assert_eq!(result.found.left, 0, "{result:?}");
        for (disk, at) in rig.disks.iter().zip(at) {
            assert_eq!(disk.peek(at, UNIT), new, "what was written last");
        }
        assert!(scrub(&group).await.found.faults.is_empty());
    })
    .expect("no crash");
}

#[test]
fn once_a_month_it_begins_by_itself() {
    let rig = Rig::new(99, &two());
    let day = Duration::from_secs(86_400);
    let mount = |days: u32| {
        let rig = &rig;
        async move {
            let group = rig.mount().await.expect("mounted");
            for _ in 0..days {
                group.env().sleep(day).await;
            }
            group
        }
    };
    // The watchdog of the rig ends after an hour; time is all that passes here.
    rig.sim
        .run(async {
            rig.create(&two()).await.expect("created");
            let group = mount(0).await;
            drop(filled(&group, "f", 1, 4 * MB).await);
            let due = group.next_scrub().expect("it is due some day");
            group.set_attribute("scrub_interval", "2d").await.expect("set");
            assert_eq!(group.next_scrub(), Some(due - 28 * 86_400));
            group.env().sleep(day).await;
            assert!(group.last_scrub().is_none(), "not yet");
            group.env().sleep(day + Duration::from_secs(120)).await;
            let first = group.last_scrub().expect("now it was");
            assert!(first.spec == ScrubSpec::default() && first.found.bytes_read >= 8 * MB);
            assert_eq!(group.next_scrub(), Some(first.ended + 2 * 86_400));
            group.set_attribute("scrub_interval", "0").await.expect("set");
            assert_eq!(group.next_scrub(), None);
            group.dismount().await.expect("dismounted");
            let group = mount(3).await;
            assert_eq!(group.last_scrub().expect("that one").ended, first.ended, "never again");
            let error = group.set_attribute("scrub_interval", "often").await.expect_err("no time");
            assert_eq!(error.number(), 15238, "{error}");
        })
        .expect("no crash");
}

#[test]
fn it_waits_for_a_rebalance_unless_forced() {
    let shape = Shape { disks: 2, disk_bytes: 80 * MB, ..Shape::default() };
    let mut rig = Rig::new(100, &shape);
    let add = vec![new_disk(&mut rig, &shape), new_disk(&mut rig, &shape)];
    let rig = rig;
    rig.run(async {
        let mut spec = rig.spec(&shape);
        spec.disks.truncate(2);
        cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
        let group = rig.mount_with(rig.found_of(&[0, 1]), Default::default()).await.expect("here");
        drop(filled(&group, "f", 1, 40 * MB).await);
        let change = AlterDisks { add, power: Some(1), ..AlterDisks::default() };
        group.alter_disks(&change).await.expect("added");
        let forced = ScrubSpec { force: true, power: ScrubPower::Max, ..ScrubSpec::default() };
        let beside = scrub_as(&group, forced).await;
        assert!(beside.found.faults.is_empty() && beside.found.bytes_read >= 80 * MB);
        assert!(group.operation().is_some(), "the rebalance goes on");
        group.scrub(ScrubSpec::default()).await.expect("begun");
        group.env().sleep(Duration::from_millis(5)).await;
        assert_eq!(group.scrubbing().expect("it is wanted").waits, Some("rebalance"));
        group.wait_rebalanced().await.expect("rebalanced");
        let result = group.wait_scrubbed().await.expect("it runs").expect("it ended");
        assert!(result.found.faults.is_empty() && result.found.bytes_read >= 80 * MB);
    })
    .expect("no crash");
}

/// Two writes that overlap, of several blocks each, cut off by the power: copies hold any mixture of
/// them, block by block, in another order on each disk. After the resync no unit may be half of one
/// and half of the other on one disk alone, and no read may change its mind.
#[test]
fn a_crash_in_overlapping_writes_of_several_blocks_leaves_copies_that_agree() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let rig = Rig::new(1000 + seed, &two());
        rig.run(async {
            let group = group(&rig, &two()).await;
            // Durable, clean, known.
            group.env().sleep(Duration::from_secs(15)).await;
        });
        rig.sim.crash();
        rig.sim.restart();
        rig.sim.crash_after(200 + seed * 20);
        rig.run(async {
            let group = rig.mount().await.expect("mounted");
            let file = group.open("f").expect("there");
            loop {
                let one = file.write_at(
                    Io::FOREGROUND,
                    4 * UNIT,
                    pattern(2, 4 * UNIT, 8 * UNIT as usize).into(),
                    Durability::Cached,
                );
                let other = file.write_at(
                    Io::FOREGROUND,
                    8 * UNIT,
                    pattern(3, 8 * UNIT, 8 * UNIT as usize).into(),
                    Durability::Cached,
                );
                let (one, other) = futures_util::future::join(one, other).await;
                one.and(other).expect("written");
            }
        });
        rig.sim.restart();
        let first = rig
            .run(async {
                let group = rig.mount().await.expect("mounted");
                let file = group.open("f").expect("there");
                let read = |_| file.read_at(Io::FOREGROUND, 0, 16 * UNIT as usize);
                let first = read(0).await.expect("read");
                for i in 0..8 {
                    assert!(read(i).await.expect("read")[..] == first[..], "seed {seed}");
                }
                let result = scrub(&group).await;
                let wrong = result.found.wrong();
                assert_eq!(wrong.sum(), wrong.own, "seed {seed}: {result:?}");
                let numbers = [file.number()];
                let found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("read");
                assert!(!found.is_bad(), "seed {seed}: {found:?}");
                first.to_vec()
            })
            .expect("no crash");
        for (block, at) in first.chunks(512).zip((0u64..).step_by(512)) {
            let of = (1..4).find(|seed| block == pattern(*seed, at, 512));
            let of = of.expect("of one of the writes, or of before");
            seen.insert((at / UNIT, of));
        }
    }
    // The cuts came at different moments: the middle was seen in all its versions.
    let middle = seen.iter().filter(|(block, _)| *block == 9).count();
    assert!(middle >= 2, "{seen:?}");
}

/// A sector is changed beside one that has rotted on one copy. The block gets a new checksum, which a
/// crash may take again: then nothing would tell which copy is right.
#[test]
fn rot_beside_a_small_write_is_mended_before_its_checksum_goes() {
    for disk in 0..2 {
        let rig = Rig::new(98, &two());
        rig.run(async {
            let group = group(&rig, &two()).await;
            let at = place_of(&rig, disk, 0);
            rig.disks[disk].corrupt(at + 5 * 512, 512);
            let file = group.open("f").expect("there");
            let data = pattern(9, 512, 512).into();
            file.write_at(Io::FOREGROUND, 512, data, Durability::Durable).await.expect("written");
            group.abandon();
            drop(file);
            rig.env().sleep(std::time::Duration::from_secs(1)).await;
            let group = rig.mount().await.expect("mounted");
            let read = group.open("f").expect("there").read_at(Io::FOREGROUND, 0, 4096).await;
            let mut wanted = pattern(1, 0, 4096);
            wanted[512..1024].copy_from_slice(&pattern(9, 512, 512));
            assert!(read.expect("read")[..] == wanted[..], "rot on disk {disk}");
            assert!(scrub(&group).await.found.faults.is_empty());
        })
        .expect("no crash");
    }
}
