//! The real program on disks that lose power, hang, fail and lie (`crates/chaos`). What it
//! acknowledged is there afterwards; what is wrong on one disk is never served.

#![expect(clippy::disallowed_methods, reason = "a test with the real clock")]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::power;
use crate::power::files::{Files, Random, Tally};
use crate::power::rounds::Cellar;
use crate::power::{NORMAL, Power, Shape, group, wait_until};
use crate::program::{self, done};
use cellar_chaos::{Cut, Op, When};

/// The groups that lose power: of one, two, three and five metadata disks.
const SHAPES: [Shape; 4] = [
    Shape { spare: 1, ..NORMAL },
    Shape { redundancy: "normal", members: 2, spare: 0 },
    Shape { redundancy: "high", members: 5, spare: 1 },
    Shape { redundancy: "external", members: 1, spare: 1 },
];

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// `CELLAR_CUTS=n` cuts so often, `CELLAR_SEED=n` begins with another seed.
#[test]
fn no_power_cut_loses_what_was_acknowledged() {
    let (cuts, first) = (number("CELLAR_CUTS", 12), number("CELLAR_SEED", 1));
    let mut tally = Tally::default();
    let (mut sectors, mut changes) = ([0, 0], [0, 0, 0]);
    for (shape, place) in SHAPES.iter().zip(0..) {
        let Some(power) = group(shape) else { return };
        let mut cellar = Cellar { shape: *shape, power, files: Default::default(), again: 0 };
        let seeds = first..first + cuts;
        let mut rounds = 0;
        for seed in seeds.filter(|seed| seed % SHAPES.len() as u64 == place) {
            if let Err(told) = cellar.round(&mut Random(seed)) {
                let dir = cellar.power.keep().display().to_string();
                panic!("seed {seed} (CELLAR_SEED={first}, all in {dir}), {shape:?}: {told}");
            }
            rounds += 1;
        }
        let counters = cellar.power.disks.counters();
        let (again, of_shape) = (cellar.again, cellar.tally());
        eprintln!(
            "{shape:?}: {rounds} cuts, {again} more in recoveries; {of_shape:?}; {counters:?}; {:?} \
             torn checksum blocks told",
            cellar.power.torn_checksums
        );
        assert_eq!(counters.cuts, rounds + again);
        tally += of_shape;
        sectors[0] += counters.sectors_dropped;
        sectors[1] += counters.sectors_kept;
        let of_shape = cellar.power.changes.each_ref().map(|n| n.load(Ordering::Relaxed));
        changes.iter_mut().zip(of_shape).for_each(|(all, n)| *all += n);
    }
    // There was something behind it.
    eprintln!("{cuts} cuts; {tally:?}; {} sectors dropped, {} kept", sectors[0], sectors[1]);
    let [done, refused, cut_off] = changes;
    eprintln!("changes of disks: {done} done, {refused} refused, {cut_off} cut off");
    assert!(done + cut_off > 0 || cuts < 12, "disks are changed beside the writers");
    assert!(refused <= done + cut_off || cuts < 12, "most of these are no mistakes");
    assert!(tally.compared >= cuts);
    let much = sectors[0] > 0 && sectors[1] > 0 && tally.acknowledged > cuts && tally.cut_off > 0;
    assert!(much || cuts < 12, "one cut may come before anything");
}

/// Some commands of one writer, all of them acknowledged.
fn act_as(power: &Power, files: &mut Files, writer: &str, seed: u64, commands: u32) {
    let mut random = Random(seed);
    for _ in 0..commands {
        files.act(&power.programs, writer, &mut random).unwrap();
    }
}

fn act(power: &Power, files: &mut Files, seed: u64, commands: u32) {
    act_as(power, files, "a", seed, commands);
}

/// All disks come back, one of them copied anew if it cannot be believed; then every copy is right.
fn heal(power: &Power, files: &mut Files) {
    let back = power.make_whole();
    if let Err(told) = &back {
        assert!(told.contains("CELLAR-15281"), "refused because it is not as it left: {told}");
        done(power.dir(), &["asm", "db", "online", "-D", "DATA_0001", "--force", "--wait"]);
    }
    for disk in ["disk1", "disk2", "disk3"] {
        wait_until("it is in sync again", || power.mode(disk) == "ONLINE");
    }
    done(power.dir(), &["asm", "db", "scrub", "--repair", "--wait"]);
    power.validate().unwrap();
    files.check(&power.programs).unwrap();
}

#[test]
fn what_a_disk_lied_about_is_not_believed() {
    let Some(power) = group(&NORMAL) else { return };
    let mut files = Files::default();
    for seed in 0..4 {
        act(&power, &mut files, seed, 6);
        power.disks.lie("disk2", true).unwrap();
        // The disk dies under a program that opened it when it lied, or is found so by the next one.
        let holder = (seed % 2 == 1).then(|| power.holder());
        act(&power, &mut files, seed + 100, 8);
        power.disks.cut_file("disk2", &Cut::worst()).unwrap();
        files.check(&power.programs).unwrap();
        act(&power, &mut files, seed + 200, 2);
        drop(holder);
        power.disks.power_on();
        power.disks.heal("disk2").unwrap();
        files.check(&power.programs).unwrap();
        assert_eq!(power.mode("disk2"), "OFFLINE", "it does not come back by itself");
        heal(&power, &mut files);
    }
    let counters = power.disks.counters();
    eprintln!("{:?}; {counters:?}", files.tally);
    assert!(counters.lies > 20 && counters.sectors_dropped > 1000, "{counters:?}");
}

/// The disk has the mark of the mount, and only what it acknowledged later is lost.
#[test]
fn what_a_disk_lied_about_in_the_mount_that_it_left_is_not_believed() {
    for seed in 0..8 {
        let Some(power) = group(&NORMAL) else { return };
        let mut files = Files::default();
        act(&power, &mut files, seed, 6);
        let holder = power.holder();
        power.disks.lie("disk2", true).unwrap();
        act(&power, &mut files, seed + 100, 8);
        power.disks.cut_file("disk2", &Cut::worst()).unwrap();
        act(&power, &mut files, seed + 200, 2);
        drop(holder);
        power.disks.power_on();
        power.disks.heal("disk2").unwrap();
        // The next one who mounts takes the disk back.
        let checked = files.check(&power.programs);
        checked.unwrap_or_else(|told| panic!("seed {seed}: {told}; {:?}", power.validate()));
    }
}

#[test]
fn a_disk_that_fails_writes_leaves_and_nothing_is_lost() {
    let Some(power) = group(&NORMAL) else { return };
    let mut files = Files::default();
    act(&power, &mut files, 1, 6);
    for (seed, op) in [(2, Op::Write), (3, Op::Flush)] {
        let holder = power.holder();
        power.disks.fail("disk2", op, 0..u64::MAX).unwrap();
        act(&power, &mut files, seed, 10);
        assert_eq!(power.mode("disk2"), "OFFLINE");
        files.check(&power.programs).unwrap();
        let words = program::out(&program::cellar(power.dir(), &["status", "db"]));
        assert!(words.contains("DEGRADED") && words.contains("DATA_0001"), "{words}");
        power.disks.heal("disk2").unwrap();
        drop(holder);
        heal(&power, &mut files);
    }
    assert!(power.disks.counters().failed > 0);
}

#[test]
fn what_one_disk_cannot_read_or_stored_in_part_comes_from_another() {
    let Some(power) = group(&NORMAL) else { return };
    let mut files = Files::default();
    act(&power, &mut files, 1, 12);
    // Where files lie, not our own structures at the start of the disk.
    power.disks.fail("disk2", Op::Read, 12 << 20..80 << 20).unwrap();
    files.check(&power.programs).unwrap();
    power.disks.heal("disk2").unwrap();
    let holder = power.holder();
    // What is torn here is acknowledged: only a checksum or the other copy tells.
    for seed in 10..20 {
        power.disks.tear_next_write("disk2").unwrap();
        act(&power, &mut files, seed, 2);
    }
    files.check(&power.programs).unwrap();
    drop(holder);
    files.check(&power.programs).unwrap();
    heal(&power, &mut files);
    let counters = power.disks.counters();
    assert!(counters.torn >= 8 && counters.failed > 0, "{counters:?}");
}

#[test]
fn a_disk_that_hangs_holds_up_a_write_no_longer_than_its_timeout() {
    let Some(power) = group(&NORMAL) else { return };
    let mut files = Files::default();
    act(&power, &mut files, 1, 4);
    let holder = power.holder();
    power.disks.hang("disk2", Op::Write).unwrap();
    let start = Instant::now();
    act(&power, &mut files, 2, 3);
    let took = start.elapsed();
    // disk_detach_timeout is 10 s; the rest is for a busy machine.
    assert!(took < Duration::from_secs(25), "{took:?}");
    assert_eq!(power.mode("disk2"), "OFFLINE");
    assert!(power.disks.hanging("disk2").unwrap() > 0, "it was never answered");
    files.check(&power.programs).unwrap();
    eprintln!("acknowledged after {took:?}; {:?}", files.tally);
    power.disks.release("disk2").unwrap();
    wait_until("it comes back by itself", || power.mode("disk2") == "ONLINE");
    drop(holder);
    heal(&power, &mut files);
}

#[test]
fn a_disk_that_is_late_is_waited_for() {
    let Some(power) = group(&NORMAL) else { return };
    let mut files = Files::default();
    for op in Op::ALL {
        power.disks.delay("disk2", op, Duration::from_millis(60)).unwrap();
    }
    act(&power, &mut files, 1, 5);
    files.check(&power.programs).unwrap();
    assert_eq!(power.mode("disk2"), "ONLINE");
    power.validate().unwrap();
    assert!(power.disks.counters().delayed > 20);
}

#[test]
fn disktest_tells_a_disk_that_cannot_be_read() {
    let Some(power) = power::disks(1) else { return };
    let disk = power.disks.path("disk1");
    let words = ["disktest", disk.to_str().unwrap()];
    done(power.dir(), &words);
    power.disks.fail("disk1", Op::Read, 0..u64::MAX).unwrap();
    let output = program::cellar(power.dir(), &words);
    let words = program::told(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("disk1") && power.disks.counters().failed > 0, "{words}");
}

#[test]
fn a_disk_that_loses_its_power_alone_gets_what_it_lost() {
    let Some(power) = group(&NORMAL) else { return };
    let (mut files, mut other) = (Files::default(), Files::default());
    for seed in 0..6 {
        let mut random = Random(seed);
        let holder = (seed % 2 == 0).then(|| power.holder());
        let name = ["disk1", "disk2", "disk3"][seed as usize % 3];
        let keep_percent = [0, 60][random.below(2) as usize];
        let cut = Cut { keep_percent, ..Cut::new(seed) };
        power.disks.cut_file_when(name, When::Flushes(1 + random.below(20)), cut).unwrap();
        std::thread::scope(|scope| {
            let (power, other) = (&power, &mut other);
            let beside = scope.spawn(move || act_as(power, other, "b", seed + 50, 6));
            act(power, &mut files, seed, 6);
            beside.join().unwrap();
        });
        power.disks.power_on_file(name).unwrap();
        drop(holder);
        let holder = power.holder();
        for files in [&mut files, &mut other] {
            files.check(&power.programs).unwrap();
        }
        power.make_whole().unwrap();
        for files in [&mut files, &mut other] {
            files.check(&power.programs).unwrap();
        }
        drop(holder);
        power.validate().unwrap();
    }
    let counters = power.disks.counters();
    eprintln!("{:?}, {:?}; {counters:?}", files.tally, other.tally);
    assert!(counters.cuts == 6 && counters.sectors_dropped > 0, "{counters:?}");
}
