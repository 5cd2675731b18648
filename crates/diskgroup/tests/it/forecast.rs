//! Rebalance time: the forecast of a probe, and the estimate while the rebalance runs.

use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    AlterDisks, DropDisk, File, FileSpec, FoundDisk, Group, NewDisk, ProbeSpec, ProbeTarget,
    Redundancy, create,
};
use cellar_io::shape::{ShapeOptions, Shaped};
use cellar_io::sim::SimDiskOptions;
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io};

use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;

/// Disks that move so many MB a second, one request at a time, each answered 0.3 ms later.
struct Machine {
    rig: Rig,
    devices: Vec<Arc<dyn Device>>,
}

impl Machine {
    fn new(seed: u64, mb_per_second: &[u64]) -> Machine {
        let rig = Rig::new(seed, &Shape { disks: 0, ..Shape::default() });
        let devices = mb_per_second.iter().enumerate().map(|(i, mb)| {
            let options = SimDiskOptions { size: 400 * MB, ..SimDiskOptions::default() };
            let disk = rig.sim.disk(&format!("disk{i}"), options);
            let shape = ShapeOptions {
                bytes_per_second: mb * MB,
                iops: 2000,
                latency: Duration::from_micros(300),
                ..ShapeOptions::default()
            };
            Arc::new(Shaped::new(disk, rig.env(), shape)) as Arc<dyn Device>
        });
        let devices = devices.collect();
        Machine { rig, devices }
    }

    fn new_disk(&self, i: usize) -> NewDisk {
        NewDisk {
            device: Arc::clone(&self.devices[i]),
            path: format!("/sim/disk{i}"),
            name: None,
            failgroup: None,
            size: None,
            force: false,
        }
    }

    async fn group(&self, redundancy: Redundancy, disks: usize) -> Group {
        let shape = Shape { redundancy, ..Shape::default() };
        let mut spec = self.rig.spec(&shape);
        spec.disks = (0..disks).map(|i| self.new_disk(i)).collect();
        create(&self.rig.env(), spec).await.expect("created");
        let found = (0..disks).map(|i| FoundDisk {
            device: Arc::clone(&self.devices[i]),
            path: format!("/sim/disk{i}"),
        });
        self.rig.mount_with(found.collect(), Default::default()).await.expect("mounted")
    }
}

async fn filled(group: &Group, bytes: u64) -> File {
    let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
    file.set_size(bytes).await.expect("room");
    for at in (0..bytes).step_by(MB as usize) {
        let data: Vec<u8> = (0..MB).map(|i| (at / MB + i / 512) as u8 | 1).collect();
        file.write_at(Io::FOREGROUND, at, data.into(), Durability::Cached).await.expect("written");
    }
    file.flush(Io::FOREGROUND).await.expect("flushed");
    group.publish(&file, "f", false).await.expect("named");
    file
}

/// How far `told` is from `was`, as a part of it.
fn off(told: Duration, was: Duration) -> f64 {
    (told.as_secs_f64() / was.as_secs_f64().max(1e-3) - 1.0).abs()
}

struct Case {
    name: &'static str,
    redundancy: Redundancy,
    /// MB a second of each disk; those behind `disks` are added.
    speeds: &'static [u64],
    disks: usize,
    drop: &'static [&'static str],
    file_mb: u64,
    power: u32,
}

/// What was foretold, what was said on the way, and how long it took.
struct Seen {
    foretold: Duration,
    took: Duration,
    /// The worst estimate on the way of when it ends, as a part of the whole time, and at which part
    /// done: from a tenth on, to the last.
    whole: (f64, f64),
    /// The worst of what is left, as a part of what was really left, where that is not next to
    /// nothing.
    worst: (f64, f64),
}

fn run(case: &Case) -> Seen {
    let machine = Machine::new(17, case.speeds);
    let seen = machine.rig.run(async {
        let env = machine.rig.env();
        let group = machine.group(case.redundancy, case.disks).await;
        let file = filled(&group, case.file_mb * MB).await;
        let drop_one = |name: &&str| DropDisk { name: (*name).to_owned(), force: false };
        let added = case.disks..case.speeds.len();
        let change = AlterDisks {
            add: added.clone().map(|i| machine.new_disk(i)).collect(),
            drop: case.drop.iter().map(drop_one).collect(),
            power: Some(case.power),
            ..AlterDisks::default()
        };
        let targets = added.map(|i| ProbeTarget::Itself(Arc::clone(&machine.devices[i])));
        let spec = ProbeSpec {
            time: Duration::from_secs(9),
            powers: vec![case.power],
            targets: targets.collect(),
        };
        let free = |group: &Group| group.disks().iter().map(|d| d.free_mb).collect::<Vec<_>>();
        let before = free(&group);
        let rates = group.probe(&change, &spec).await.expect("probed");
        assert_eq!(free(&group), before, "what it took it gave back");
        let plan = group.explain_work(&change).expect("explained").plan;
        let foretold = plan.times(MB, &rates.by_power)[0].time.expect("a rate");
        group.alter_disks(&change).await.expect("altered");
        let began = env.now();
        let total = plan.moves.len() as f64;
        // These plans are short: what is in flight at once is left out at both ends, eight times.
        let edge = (f64::from(case.power) * 8.0 / total).max(0.1);
        let mut said = Vec::new();
        while let Some(operation) = group.operation() {
            let part = (operation.done as f64 + operation.part) / total;
            if let Some(left) = operation.left.filter(|_| part >= 0.1) {
                said.push((part, env.now(), left));
            }
            env.sleep(Duration::from_millis(37)).await;
        }
        let ended = env.now();
        let larger = |a: (f64, f64), b: (f64, f64)| if b.0 > a.0 { b } else { a };
        let whole = said
            .iter()
            .map(|(part, at, left)| (off(at.since(began) + *left, ended.since(began)), *part));
        let whole = whole.fold((0.0, 0.0), larger);
        let inner = said.iter().filter(|(part, ..)| (edge..1.0 - edge).contains(part));
        let worst = inner.map(|(part, at, left)| (off(*left, ended.since(*at)), *part));
        let worst = worst.fold((0.0, 0.0), larger);
        assert!(said.len() > 10, "{}: looked at {} times", case.name, said.len());
        group.check().expect("no AU has two owners");
        drop(file);
        group.dismount().await.expect("dismounted");
        Seen { foretold, took: ended.since(began), whole, worst }
    });
    seen.expect("it ran to its end")
}

#[test]
fn a_probe_foretells_the_time_and_the_estimate_on_the_way_is_true() {
    let one_to_three = Case {
        name: "one disk to three",
        redundancy: Redundancy::External,
        speeds: &[40, 30, 30, 30],
        disks: 1,
        drop: &["DATA_0000"],
        file_mb: 180,
        power: 1,
    };
    let cases = [
        Case { power: 4, ..one_to_three },
        Case { power: 11, file_mb: 360, ..one_to_three },
        Case { name: "slow targets", speeds: &[100, 10, 10], power: 4, ..one_to_three },
        Case {
            name: "mirrored, one more",
            redundancy: Redundancy::Normal,
            speeds: &[40, 40, 40, 20],
            disks: 3,
            drop: &[],
            power: 2,
            ..one_to_three
        },
        Case {
            name: "mirrored, one less",
            redundancy: Redundancy::Normal,
            speeds: &[40, 40, 40, 40],
            disks: 4,
            drop: &["DATA_0001"],
            file_mb: 400,
            power: 8,
        },
        Case { ..one_to_three },
    ];
    let mut wrong = String::new();
    for case in &cases {
        let seen = run(case);
        let line = format!(
            "{} at power {}: foretold {:?}, took {:?} (off by {:.0} %); the end was told {:.0} % \
             off when {:.0} % were done; what was left {:.0} % off when {:.0} % were done\n",
            case.name,
            case.power,
            seen.foretold,
            seen.took,
            off(seen.foretold, seen.took) * 100.0,
            seen.whole.0 * 100.0,
            seen.whole.1 * 100.0,
            seen.worst.0 * 100.0,
            seen.worst.1 * 100.0
        );
        println!("{line}");
        if off(seen.foretold, seen.took).max(seen.whole.0).max(seen.worst.0) > 0.15 {
            wrong.push_str(&line);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A probe of an ADD: the new disk itself is written over with what it holds.
fn of_add(machine: &Machine, i: usize, time: Duration) -> (AlterDisks, ProbeSpec) {
    let change = AlterDisks { add: vec![machine.new_disk(i)], ..AlterDisks::default() };
    let targets = vec![ProbeTarget::Itself(Arc::clone(&machine.devices[i]))];
    (change, ProbeSpec { time, powers: vec![1, 8], targets })
}

#[test]
fn a_probe_of_what_was_never_written_ends_in_time_and_lets_others_work() {
    let machine = Machine::new(18, &[200, 200, 200]);
    machine.rig.run(async {
        let env = machine.rig.env();
        let group = machine.group(Redundancy::Normal, 2).await;
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
        file.set_size(60 * MB).await.expect("room");
        let (change, spec) = of_add(&machine, 2, Duration::from_secs(4));
        let began = env.now();
        group.probe(&change, &spec).await.expect("tried");
        let took = env.now().since(began);
        assert!(took < Duration::from_secs(8), "{took:?}");
        drop(file);
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_probe_gives_nothing_back_to_a_disk_that_left_and_came_again() {
    let machine = Machine::new(19, &[200, 200, 200, 200]);
    machine.rig.run(async {
        let env = machine.rig.env();
        let group = machine.group(Redundancy::Normal, 3).await;
        let file = filled(&group, 30 * MB).await;
        let (change, spec) = of_add(&machine, 3, Duration::from_secs(60));
        let drop_all = [0u16, 1, 2].map(|no| format!("DATA_{no:04}"));
        // Whatever the plan writes to: each disk in turn leaves and comes again meanwhile.
        let probing = group.probe(&change, &spec);
        let changing = async {
            env.sleep(Duration::from_secs(1)).await;
            group
                .alter_disks(&AlterDisks { power: Some(11), ..change.clone() })
                .await
                .expect("added");
            group.wait_rebalanced().await.expect("rebalanced");
            for name in &drop_all {
                let info = group.disks().into_iter().find(|d| &d.name == name).expect("there");
                let path = info.path.expect("here");
                let drop = vec![DropDisk { name: name.clone(), force: false }];
                let change = AlterDisks { drop, power: Some(11), ..AlterDisks::default() };
                group.alter_disks(&change).await.expect("dropped");
                group.wait_rebalanced().await.expect("rebalanced");
                let i: usize = path.trim_start_matches("/sim/disk").parse().expect("a number");
                let add = vec![machine.new_disk(i)];
                let change = AlterDisks { add, power: Some(11), ..AlterDisks::default() };
                group.alter_disks(&change).await.expect("added again");
                group.wait_rebalanced().await.expect("rebalanced");
            }
        };
        let (_, ()) = futures_util::future::join(probing, changing).await;
        group.check().expect("no AU has two owners");
        let more = group.create_file(&FileSpec::new(FileType::Datafile)).await.expect("made");
        more.set_size(40 * MB).await.expect("room");
        group.check().expect("no AU has two owners");
        drop((file, more));
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_probe_ends_with_whoever_asked_for_it() {
    let machine = Machine::new(20, &[200, 200, 200]);
    machine.rig.run(async {
        let env = machine.rig.env();
        let group = machine.group(Redundancy::Normal, 2).await;
        let file = filled(&group, 30 * MB).await;
        let (change, spec) = of_add(&machine, 2, Duration::from_secs(3000));
        let probing = Box::pin(group.probe(&change, &spec));
        let pause = env.sleep(Duration::from_secs(2));
        let ended = futures_util::future::select(probing, pause).await;
        drop(ended);
        drop(file);
        let began = env.now();
        group.dismount().await.expect("dismounted");
        let took = env.now().since(began);
        assert!(took < Duration::from_secs(60), "the probe went on for {took:?}");
    });
}
