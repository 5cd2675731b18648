//! Rounds of power cuts under writers, each by a seed.

#![expect(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use cellar_chaos::{Cut, When};

use super::files::{Files, NO_ROOM, Random, Tally};
use super::{Power, Shape};

/// Writers at once.
const WRITERS: usize = 3;

/// A group that loses power, and what is in it.
pub struct Cellar {
    pub shape: Shape,
    pub power: Power,
    pub files: [Files; WRITERS],
    /// Cuts while it recovered.
    pub again: u64,
}

impl Cellar {
    /// Of all writers.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.files.iter().for_each(|files| tally += files.tally);
        tally
    }

    /// One power cut under writers; then everything is looked at.
    pub fn round(&mut self, random: &mut Random) -> Result<(), String> {
        self.write_until_cut(random)?;
        let power = &self.power;
        self.again += cuts_in_recovery(power, random)?;
        power.validate()?;
        let holder = power.holder();
        self.files.iter_mut().try_for_each(|files| files.check(&power.programs))?;
        power.make_whole()?;
        self.files.iter_mut().try_for_each(|files| files.check(&power.programs))?;
        drop(holder);
        power.validate()
    }

    fn write_until_cut(&mut self, random: &mut Random) -> Result<(), String> {
        let (power, shape) = (&self.power, self.shape);
        let holder = (random.below(2) == 0).then(|| power.holder());
        // At the first I/O of something or after many, or when most is unflushed.
        match random.below(2) {
            0 => {
                let limit = [20, 200, 2000][random.below(3) as usize];
                power.disks.cut_when(When::Requests(1 + random.below(limit)), cut(random));
            }
            _ => power.disks.cut_when(When::Flushes(1 + random.below(150)), cut(random)),
        }
        let seeds: Vec<u64> = self.files.iter().map(|_| random.next()).collect();
        let change = random.next();
        let lag = Duration::from_millis(random.below(2) * random.below(300));
        let refused = std::thread::scope(|scope| {
            let writers = self.files.iter_mut().zip(seeds).zip(["a", "b", "c"]);
            let writers: Vec<_> = writers
                .map(|((files, seed), name)| scope.spawn(move || write(power, files, name, seed)))
                .collect();
            let changes = scope.spawn(move || change_disks(power, &shape, change));
            if power.disks.wait_for_cut(Duration::from_secs(8)).is_none() {
                power.disks.cut(&Cut::new(change)).unwrap();
            }
            // Often it is killed at once, as a machine that lost its power; sometimes it sees its
            // disks die.
            std::thread::sleep(lag);
            power.programs.kill_all();
            drop(holder);
            changes.join().unwrap();
            writers.into_iter().filter_map(|writer| writer.join().unwrap()).next()
        });
        power.disks.power_on();
        power.programs.open();
        match refused {
            Some(told) => Err(format!("refused while there was power: {told}")),
            None => Ok(()),
        }
    }
}

fn cut(random: &mut Random) -> Cut {
    let keep_percent = [0, 0, 20, 50, 80][random.below(5) as usize];
    Cut { seed: random.next(), keep_percent, torn: random.below(2) == 0 }
}

/// Writes until the power goes; what the program told, if it refused something before.
fn write(power: &Power, files: &mut Files, name: &str, seed: u64) -> Option<String> {
    let mut random = Random(seed);
    loop {
        let told = files.act(&power.programs, name, &mut random).err();
        if !power.disks.is_on() {
            return None;
        }
        // Of a pair without one disk that is the right answer.
        if let Some(told) = told.filter(|told| !told.contains(NO_ROOM)) {
            return Some(told);
        }
    }
}

/// Something that happens to the disks beside the writers. It may be refused, and the power may go at any
/// moment of it: how it ended is counted.
fn change_disks(power: &Power, shape: &Shape, seed: u64) {
    let mut random = Random(seed);
    let disk = format!("DATA_000{}", random.below(shape.members as u64));
    let spare = format!("at/disk{}", shape.members + 1);
    let count = |ended: Result<String, String>| {
        let how = match (ended.is_ok(), power.disks.is_on()) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        power.changes[how].fetch_add(1, Ordering::Relaxed);
    };
    let sql = |statement: &str| count(power.programs.done(&["sql", "db", "-c", statement]));
    let asm = |words: &[&str]| count(power.programs.done(&[&["asm", "db"], words].concat()));
    match random.below(6) {
        0 => {}
        1 => {
            asm(&["offline", "-D", &disk]);
            asm(&["online", "-a", "--wait"]);
        }
        2 => asm(&["scrub", "--repair", "--wait"]),
        3 if shape.spare == 0 => asm(&["offline", "-D", &disk]),
        3 => sql(&format!("alter diskgroup data add disk '{spare}' name extra rebalance wait")),
        4 => sql("alter diskgroup data drop disk extra rebalance wait"),
        _ => {
            let mb = 80 + random.below(10);
            sql(&format!("alter diskgroup data resize disk {disk} size {mb}M rebalance wait"));
            asm(&["offline", "-D", &disk]);
        }
    }
}

/// The power goes while the program recovers, up to twice; how often.
fn cuts_in_recovery(power: &Power, random: &mut Random) -> Result<u64, String> {
    let cuts = random.below(3);
    for _ in 0..cuts {
        power.disks.cut_when(When::Requests(1 + random.below(40)), cut(random));
        let done = power.programs.done(&["asm", "db", "rebal", "--wait"]);
        if power.disks.is_on() {
            // It was through before: the cut comes now.
            power.disks.cut(&cut(random)).unwrap();
            done?;
        }
        power.disks.power_on();
    }
    Ok(cuts)
}
