//! Crashes while the metadata is large and changes fast: records of many blocks, fillers at the end
//! of the ring, laps of it, checkpoints of many chunks and areas that grow, while members go one
//! after the other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use cellar_diskgroup::on_disk::superblock::Superblock;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{Error, FileSpec, Group, Redundancy};
use cellar_io::sim::Rng;
use cellar_io::{Device, EnvExt};

use cellar_sim::rig::{Rig, Shape};

/// What happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    crashes: u32,
    laps: u64,
    checkpoints: u64,
    grown_areas: u32,
    lost: u32,
    refused: u32,
}

struct World {
    rig: Rig,
    rng: RefCell<Rng>,
    /// Names that are there, acknowledged.
    names: RefCell<BTreeSet<String>>,
    /// Names whose coming or going was not acknowledged.
    doubtful: RefCell<BTreeSet<String>>,
    next: Cell<u32>,
    lost: Cell<u32>,
    /// A file has all the room there is.
    full: Cell<bool>,
    refused: Cell<u32>,
}

impl World {
    fn below(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }

    async fn mount(&self) -> Group {
        match self.rig.mount().await {
            Ok(group) => group,
            // Members went before a record said so; they come back.
            Err(Error::NotProven { .. } | Error::Incomplete { .. }) if self.lost.get() > 0 => {
                self.rig.disks.iter().for_each(|d| d.heal());
                self.rig.mount().await.unwrap()
            }
            Err(error) => panic!("mount: {error}"),
        }
    }

    fn settle(&self, group: &Group) {
        let found: BTreeSet<String> = group.list("n*", false).into_iter().map(|l| l.path).collect();
        let (mut names, mut doubtful) = (self.names.borrow_mut(), self.doubtful.borrow_mut());
        let wrong: Vec<&String> =
            found.symmetric_difference(&names).filter(|n| !doubtful.contains(*n)).collect();
        assert!(wrong.is_empty(), "acknowledged changes of names: {wrong:?}");
        *names = found;
        doubtful.clear();
    }

    async fn change(&self, group: &Group, add: bool) -> Result<(), Error> {
        let name = if add {
            let length = 100 + self.below(150) as usize;
            self.next.set(self.next.get() + 1);
            format!("n{:0>length$}", self.next.get())
        } else {
            let names = self.names.borrow();
            let nth = self.below(names.len().max(1) as u64) as usize;
            match names.iter().nth(nth) {
                Some(name) if !self.doubtful.borrow().contains(name) => name.clone(),
                _ => return Ok(()),
            }
        };
        self.doubtful.borrow_mut().insert(name.clone());
        match add {
            true => match group.add_alias(&name, "one").await {
                // Nothing was done. What makes the metadata smaller is never refused.
                Err(Error::NoSpace { .. }) if self.full.get() => {
                    self.refused.set(self.refused.get() + 1);
                    self.doubtful.borrow_mut().remove(&name);
                    return Ok(());
                }
                added => added?,
            },
            false => group.remove(&name).await?,
        }
        self.doubtful.borrow_mut().remove(&name);
        match add {
            true => self.names.borrow_mut().insert(name),
            false => self.names.borrow_mut().remove(&name),
        };
        Ok(())
    }

    /// Gives a file all the room there is.
    async fn fill(&self, group: &Group) {
        self.full.set(true);
        let one = group.open("one").unwrap();
        let mut size = one.geometry().size;
        while one.allocate(size + (1 << 20)).await.is_ok() {
            size += 1 << 20;
        }
    }

    /// From a mount to a crash, or the end of a round of work.
    async fn life(&self, lose: Option<usize>, fill: bool) {
        let group = self.mount().await;
        self.settle(&group);
        group.check().unwrap();
        if fill {
            self.fill(&group).await;
        }
        let rounds = 30 + self.below(250);
        let lose_at = self.below(rounds);
        for round in 0..rounds {
            if let (true, Some(disk)) = (round == lose_at, lose) {
                self.rig.disks[disk].vanish();
                self.lost.set(self.lost.get() + 1);
            }
            let many = [1, 1, 6, 60][self.below(4) as usize];
            let full = self.names.borrow().len() > 6000 + 4000 * usize::from(self.full.get());
            let changes = (0..1 + self.below(many)).map(|_| {
                let add = !full && self.below(5) > 0;
                self.change(&group, add)
            });
            for result in futures_util::future::join_all(changes).await {
                result.unwrap();
            }
        }
        group.abandon();
        self.rig.env().sleep(Duration::from_secs(1)).await;
    }
}

fn run(seed: u64, seen: &mut Seen) {
    let shape = Shape { disks: 4, redundancy: Redundancy::Normal, ..Shape::default() };
    let w = World {
        rig: Rig::new(seed, &shape),
        rng: RefCell::new(Rng::stream(seed, 5)),
        names: RefCell::default(),
        doubtful: RefCell::default(),
        next: Cell::new(0),
        lost: Cell::new(0),
        full: Cell::new(false),
        refused: Cell::new(0),
    };
    w.rig
        .run(async {
            w.rig.create(&shape).await.unwrap();
            let group = w.rig.mount().await.unwrap();
            let one = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
            group.publish(&one, "one", false).await.unwrap();
            drop(one);
            let adds = (0..3400).map(|_| w.change(&group, true));
            for added in futures_util::future::join_all(adds).await {
                added.unwrap();
            }
            group.dismount().await.unwrap();
        })
        .unwrap();
    let first = w.below(4) as usize;
    for life in 0..8 {
        if w.below(4) > 0 {
            let most = [300, 3000, 9000][w.below(3) as usize];
            w.rig.sim.crash_after(1 + w.below(most));
        }
        let lose = match life {
            2 => Some(first),
            5 => Some((first + 1) % 4),
            _ => None,
        };
        let roomy = seed.is_multiple_of(3);
        let fill = !roomy && life >= seed % 5;
        // Two disks hold the last copies of something that is on all of them.
        let lose = lose.filter(|_| w.lost.get() == 0 || roomy);
        if w.rig.run(w.life(lose, fill)).is_none() {
            seen.crashes += 1;
            w.rig.sim.restart();
        }
        w.rig.sim.crash_never();
    }
    seen.lost += w.lost.get();
    let newest = |disk: usize| {
        let slots = [128u64, 192, 256, 320].map(|at| w.rig.disks[disk].peek(at << 10, 4096));
        let found = slots.iter().filter_map(|s| Superblock::decode(s).ok());
        found.max_by_key(|s| s.generation)
    };
    let furthest = (0..4).filter_map(newest).max_by_key(|s| s.position.lsn).unwrap();
    seen.laps += furthest.position.lsn / 1024;
    seen.checkpoints += furthest.generation;
    seen.grown_areas += u32::from(furthest.runs.iter().map(|r| r.count).sum::<u32>() > 1);
    w.rig.disks.iter().for_each(|d| d.heal());
    w.rig.run(w.life(None, false)).unwrap();
    seen.refused += w.refused.get();
}

#[test]
fn no_crash_loses_a_name_while_the_log_goes_round_and_areas_grow() {
    let mut seen = Seen::default();
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seed = number("CELLAR_SEED");
    let from = seed.unwrap_or(0);
    let seeds = number("CELLAR_SEEDS").unwrap_or(if seed.is_some() { 1 } else { 24 });
    for seed in from..from + seeds {
        eprintln!("seed {seed}");
        run(seed, &mut seen);
    }
    eprintln!("{seen:?}");
    let Seen { crashes, laps, checkpoints, grown_areas, lost, refused: _ } = seen;
    assert!(seeds < 24 || crashes > 24 && lost > 12, "{crashes} crashes, {lost} lost");
    assert!(seeds < 24 || laps > 5 && checkpoints > 40, "{laps} laps, {checkpoints} checkpoints");
    assert!(seeds < 24 || grown_areas > 6, "{grown_areas} areas grew");
}
