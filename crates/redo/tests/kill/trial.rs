//! One log that lives many short lives.

#![expect(clippy::disallowed_methods, reason = "the parent is outside of what it tests")]

use std::fmt;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::on_disk::control::ControlData;
use cellar_redo::{
    ArchiveReader, CreateLog, Error, Lsn, NewGroup, OpenLog, Options, Recovery, archive_name,
    create,
};
use cellar_wait::{Kind, Waits};
use tempfile::TempDir;

use crate::child::{Order, VARIABLE};
use crate::damage::{self, Fault};
use crate::files::{FileArchives, FileControl, medium_name, open_media};
use crate::model::{Model, Reading};
use crate::record::Chance;
use crate::shape::{Place, Shape, memory};

/// A life that does not come to where it is to be killed by then hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub kills: u64,
    /// Of those, before the log was open.
    in_recovery: u64,
    acknowledged: u64,
    /// Records that were read, all readings together.
    read: u64,
    /// Records that were found and that nobody was told of.
    untold: u64,
    archives: u64,
    /// Files that were still held after their program was gone, looked at every millisecond.
    held: u64,
    missing: u64,
    wiped: u64,
    torn: u64,
    rotten: u64,
    headers: u64,
    /// Media that took part again.
    returned: u64,
    /// Readings that had to be refused, and were.
    refused: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.kills += other.kills;
        self.in_recovery += other.in_recovery;
        self.acknowledged += other.acknowledged;
        self.read += other.read;
        self.untold += other.untold;
        self.archives += other.archives;
        self.held += other.held;
        self.missing += other.missing;
        self.wiped += other.wiped;
        self.torn += other.torn;
        self.rotten += other.rotten;
        self.headers += other.headers;
        self.returned += other.returned;
        self.refused += other.refused;
    }

    fn count(&mut self, fault: Fault) {
        match fault {
            Fault::None => {}
            Fault::Missing(_) => self.missing += 1,
            Fault::Wiped(_) => self.wiped += 1,
            Fault::Torn(_) => self.torn += 1,
            Fault::Rotten(_) => self.rotten += 1,
            Fault::Header(_) => self.headers += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { kills, in_recovery, acknowledged, read, untold, archives, held, .. } = self;
        let Tally { missing, wiped, torn, rotten, headers, returned, refused, .. } = self;
        write!(f, "{kills} kills ({in_recovery} during recovery), {acknowledged} acknowledged, ")?;
        write!(f, "{read} records read, {untold} untold, {archives} archives; media: ")?;
        write!(f, "{missing} missing, {wiped} wiped, {torn} torn, {rotten} rotten, ")?;
        write!(f, "{headers} bad headers, {returned} returned; {refused} refused; held {held} ms")
    }
}

/// When a life ends.
#[derive(Clone, Copy, Debug)]
enum When {
    /// So long after recovery began.
    Recovery(Duration),
    /// So long after the log was open.
    Open(Duration),
    /// After so many commits.
    Commits(u64),
}

pub struct Trial {
    seed: u64,
    at: usize,
    shape: Shape,
    dirs: Vec<TempDir>,
    place: Place,
    runtime: Runtime,
    chance: Chance,
    model: Model,
    life: u32,
    /// Lacks something that no opening has repaired yet.
    tainted: Option<usize>,
    /// Some copy of a header was damaged. An opening writes those of the current group alone, so
    /// that one of another group stays as it is until that is written again.
    headers: bool,
    /// How long the last recovery took.
    recovery: Duration,
    pub tally: Tally,
}

impl Trial {
    pub fn new(seed: u64, at: usize, shape: Shape) -> Trial {
        let parent = std::env::var_os("CELLAR_KILL_DIR").map(PathBuf::from);
        let parent = parent.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let mut dirs = vec![TempDir::new_in(parent).unwrap()];
        if let Some(memory) = memory().filter(|_| shape.fast) {
            dirs.push(TempDir::new_in(memory).unwrap());
        }
        let fast = dirs.get(1).map(|dir| dir.path().to_owned());
        let place = Place { dir: dirs[0].path().to_owned(), fast };
        let trial = Trial {
            seed,
            at,
            dirs,
            place,
            runtime: Runtime::new(&RuntimeOptions::default()).unwrap(),
            chance: Chance::new(seed ^ (at as u64) << 56),
            model: Model::new(seed, shape.longest(), shape.archiving),
            life: 0,
            tainted: None,
            headers: false,
            recovery: Duration::from_millis(20),
            tally: Tally::default(),
            shape,
        };
        trial.create();
        trial
    }

    fn create(&self) {
        std::fs::create_dir(self.place.archives()).unwrap();
        let size = self.shape.file_size();
        for medium in 0..self.shape.media {
            for group in 1..=self.shape.groups {
                std::fs::write(self.place.file(medium, group), vec![0; size as usize]).unwrap();
            }
        }
        let all: Vec<_> = (0..self.shape.media).collect();
        let (media, _) = open_media(&self.runtime, &self.place, &self.shape, &all).unwrap();
        let env = self.runtime.env();
        let log = CreateLog {
            database: DatabaseId(u128::from(self.seed) << 64 | self.at as u128),
            block_size: self.shape.block_size,
            quorum: self.shape.quorum,
            archiving: self.shape.archiving,
            groups: (1..=self.shape.groups).map(|number| NewGroup { number, size }).collect(),
            media,
        };
        let control: Arc<dyn cellar_redo::Control> = Arc::new(self.control());
        self.runtime.block_on(create(&env, &control, log)).unwrap();
    }

    fn control(&self) -> FileControl {
        FileControl(self.place.control())
    }

    pub fn round(&self) -> u32 {
        self.life
    }

    /// Leaves the files where they are, and says where.
    pub fn keep(&mut self) -> String {
        let kept = self.dirs.drain(..).map(|dir| dir.keep().display().to_string());
        kept.collect::<Vec<_>>().join(" ")
    }

    pub fn run(&mut self, kills: u64) -> Result<(), String> {
        while self.tally.kills < kills {
            self.life_and_death()?;
            if self.shape.archiving && self.life.is_multiple_of(16) {
                self.check_archives()?;
            }
        }
        self.end()
    }

    fn life_and_death(&mut self) -> Result<(), String> {
        self.life += 1;
        let control = self.control().now();
        let (active, failed): (Vec<usize>, Vec<usize>) =
            (0..self.shape.media).partition(|m| control.media[*m].state.is_active());
        let copies = self.shape.copies(active.len());
        self.refuse(&active, copies)?;
        let fault = self.fault(&active, copies);
        damage::apply(fault, &self.place, &self.shape, &control, &mut self.chance);
        self.tally.count(fault);
        self.tainted = fault.medium().or(self.tainted);
        self.headers |= matches!(fault, Fault::Header(_) | Fault::Wiped(_));
        let there = |m: &usize| fault != Fault::Missing(*m);
        let media: Vec<usize> = (0..self.shape.media).filter(there).collect();
        let back = |_: &usize| self.chance.percent(40);
        let returning: Vec<usize> = failed.into_iter().filter(back).collect();
        let context = format!("{fault:?}, {returning:?} return, {:?} tainted", self.tainted);
        let reading = self.read(&media, &returning).map_err(|e| format!("{context}: {e}"))?;
        let order = Order {
            dir: self.place.dir.clone(),
            fast: self.place.fast.clone(),
            shape: self.at,
            seed: self.seed,
            life: self.life,
            media,
            returning: returning.clone(),
        };
        let when = self.when();
        let (lines, opened) = self.live(&order, when)?;
        self.listen(&lines, &reading).map_err(|e| format!("{context}, {when:?}: {e}"))?;
        if opened {
            self.tally.returned += returning.len() as u64;
        }
        Ok(())
    }

    /// What may be done to one medium: others have what was acknowledged.
    fn fault(&mut self, active: &[usize], copies: usize) -> Fault {
        if self.chance.percent(50) {
            return Fault::None;
        }
        let pick = active[self.chance.below(active.len() as u64) as usize];
        let medium = self.tainted.filter(|m| active.contains(m)).unwrap_or(pick);
        let kind = self.chance.below(12);
        if kind < 2 {
            return Fault::Header(medium);
        }
        if copies < 2 {
            return Fault::None;
        }
        match kind {
            2 | 3 => Fault::Missing(medium),
            4 => Fault::Wiped(medium),
            5..9 => Fault::Torn(medium),
            _ => Fault::Rotten(medium),
        }
    }

    /// Without so many media as need to have a block, what was acknowledged may be missing: the
    /// log must say so.
    fn refuse(&mut self, active: &[usize], copies: usize) -> Result<(), String> {
        let enough = active.len() == self.shape.media && copies < active.len();
        if !enough || !self.chance.percent(10) || self.tainted.is_some() {
            return Ok(());
        }
        let mut left = active.to_vec();
        for _ in 0..copies {
            left.swap_remove(self.chance.below(left.len() as u64) as usize);
        }
        let got = self.recover(&left, &[]);
        match got {
            Ok((Err(Error::MediaMissing { .. }), _)) => {
                self.tally.refused += 1;
                Ok(())
            }
            Ok((Ok(_), _)) => Err(format!("{left:?} alone were accepted, {copies} are needed")),
            Ok((Err(error), _)) => Err(format!("{left:?} alone: {error}")),
            Err(error) => Err(error),
        }
    }

    /// Reads the log without opening it; nothing is changed.
    #[expect(clippy::type_complexity, reason = "an error of the log is not one of the machine")]
    fn recover(
        &self,
        media: &[usize],
        returning: &[usize],
    ) -> Result<(Result<(Lsn, Vec<cellar_redo::Record>), Error>, u64), String> {
        let (opening, busy) = self.opening(media, returning)?;
        let read = async {
            let mut recovery = Recovery::start(opening).await?;
            let mut records = Vec::new();
            while let Some(record) = recovery.next().await? {
                records.push(record);
            }
            Ok((recovery.checkpoint(), records))
        };
        Ok((self.runtime.block_on(read), busy))
    }

    fn opening(&self, media: &[usize], returning: &[usize]) -> Result<(OpenLog, u64), String> {
        let (media, busy) = open_media(&self.runtime, &self.place, &self.shape, media)?;
        let opening = OpenLog {
            env: self.runtime.env(),
            session: Waits::new().session("redo", Kind::Background),
            control: Arc::new(self.control()),
            media,
            options: Options::default(),
            returning: returning.iter().map(|m| medium_name(*m)).collect(),
            force: false,
        };
        Ok((opening, busy))
    }

    fn read(&mut self, media: &[usize], returning: &[usize]) -> Result<Reading, String> {
        let (got, busy) = self.recover(media, returning)?;
        self.tally.held += busy;
        let (checkpoint, records) = got.map_err(|error| format!("not recovered: {error}"))?;
        let reading = self.model.check(checkpoint, &records)?;
        self.tally.read += reading.records;
        Ok(reading)
    }

    fn when(&mut self) -> When {
        match self.chance.below(10) {
            0..3 => {
                let longest = self.recovery.as_micros() as u64 * 5 / 4;
                When::Recovery(Duration::from_micros(self.chance.below(longest)))
            }
            3..6 => When::Open(Duration::from_micros(self.chance.below(80_000))),
            _ => When::Commits(1 + self.chance.below(500)),
        }
    }

    /// Starts the program, kills it at that moment, and gives what it told and whether it had
    /// opened the log.
    fn live(&mut self, order: &Order, when: When) -> Result<(Vec<String>, bool), String> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child::child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, serde_json::to_string(order).unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, told) = channel();
        let mut pipe = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            // What is not a whole line was not told.
            while pipe.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
                if send.send((Instant::now(), std::mem::take(&mut line))).is_err() {
                    return;
                }
            }
        });
        let mut lines = Vec::new();
        let waited = self.wait(&told, when, &mut lines);
        let killed = kill(&mut child);
        lines.extend(told.iter().map(|(_, line)| line));
        let opened = lines.iter().any(|line| line.starts_with('O'));
        if let Some(words) = lines.iter().find(|line| line.starts_with("E ")) {
            return Err(format!("the program: {}", words.trim()));
        }
        waited?;
        if !killed {
            return Err("the program ended by itself".to_owned());
        }
        self.tally.kills += 1;
        self.tally.in_recovery += u64::from(!opened);
        Ok((lines, opened))
    }

    /// Listens until the moment has come.
    fn wait(
        &mut self,
        told: &Receiver<(Instant, String)>,
        when: When,
        lines: &mut Vec<String>,
    ) -> Result<(), String> {
        let mut until = Instant::now() + TIMEOUT;
        let (mut began, mut commits, mut set) = (None, 0, false);
        loop {
            match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((at, line)) => {
                    match (line.as_bytes().first(), when) {
                        (Some(b'R'), When::Recovery(after)) => (until, set) = (at + after, true),
                        (Some(b'R'), _) => began = Some(at),
                        (Some(b'O'), when) => {
                            if let Some(began) = began {
                                self.recovery = at.duration_since(began);
                            }
                            if let When::Open(after) = when {
                                (until, set) = (at + after, true);
                            }
                        }
                        (Some(b'A'), When::Commits(all)) => {
                            commits += 1;
                            if commits >= all {
                                lines.push(line);
                                return Ok(());
                            }
                        }
                        _ => {}
                    }
                    lines.push(line);
                }
                Err(RecvTimeoutError::Timeout) if set => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    let last = lines.last().map_or("nothing", |line| line.trim());
                    return Err(format!("hung: {when:?} did not come; the last was {last}"));
                }
                // It has ended: the caller says why.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Takes in what a life told.
    fn listen(&mut self, lines: &[String], reading: &Reading) -> Result<(), String> {
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| -> Result<u64, String> {
                words[at].parse().map_err(|_| format!("what is {line:?}?"))
            };
            match words.first().copied() {
                Some("O") => {
                    let (end, records) = (number(1)?, number(2)?);
                    let digest = u64::from(reading.digest);
                    let same = records == reading.records && number(3)? == digest;
                    if !same {
                        let first = reading.records;
                        return Err(format!("read {first} records, and then others: {records}"));
                    }
                    self.check_report(number(4)?, words.get(5).copied())?;
                    self.model.opened(self.life, end, reading)?;
                    self.tally.untold += reading.extra.len() as u64;
                    self.tainted = None;
                }
                Some("A") => {
                    let (committer, record) = (number(1)? as u32, number(2)? as u32);
                    self.model.acknowledged(committer, record, number(3)?)?;
                    self.tally.acknowledged += 1;
                }
                Some("C") => self.model.checkpoint_asked(number(1)?),
                Some("c") => self.model.checkpoint_durable(number(1)?),
                Some("V") => {
                    self.model.archived = number(1)?;
                    self.tally.archives += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Nobody is accused of what was not done to it.
    fn check_report(&self, bad_headers: u64, lost: Option<&str>) -> Result<(), String> {
        let tainted = self.tainted.map(medium_name);
        let lost: Vec<&str> = lost.map_or(Vec::new(), |names| names.split(',').collect());
        if let Some(name) = lost.iter().find(|name| tainted.as_deref() != Some(*name)) {
            return Err(format!("{name} is said to have lost writes"));
        }
        match self.headers {
            false if bad_headers > 0 => Err(format!("{bad_headers} headers are said to be bad")),
            _ => Ok(()),
        }
    }

    /// All archives that there are, from the first: the same records at the same places.
    fn check_archives(&mut self) -> Result<(), String> {
        let there = |sequence: &u64| self.place.archives().join(archive_name(*sequence)).exists();
        let last = (1..).take_while(there).last().unwrap_or(0);
        if last < self.model.archived {
            let told = self.model.archived;
            return Err(format!("archives up to {told} were published, up to {last} are there"));
        }
        let control: ControlData = self.control().now();
        if control.archived > last {
            return Err(format!("the control data believes in archive {}", control.archived));
        }
        let store = Arc::new(FileArchives(self.place.archives()));
        let mut reader = ArchiveReader::new(store, control.database, 1..=last, Lsn(0));
        let mut records = Vec::new();
        self.runtime
            .block_on(async {
                while let Some(record) = reader.next().await? {
                    records.push(record);
                }
                Ok::<_, Error>(())
            })
            .map_err(|error| format!("archives: {error}"))?;
        self.tally.read += records.len() as u64;
        self.model.check_archives(&records)
    }

    /// All media come back, everything is archived, and the log is closed in order.
    fn end(&mut self) -> Result<(), String> {
        self.life += 1;
        let all: Vec<usize> = (0..self.shape.media).collect();
        let control = self.control().now();
        let failed = |m: &usize| !control.media[*m].state.is_active();
        let returning: Vec<usize> = all.iter().copied().filter(failed).collect();
        let reading = self.read(&all, &returning)?;
        let (opening, _) = self.opening(&all, &returning)?;
        let words = |error: Error| format!("at the end: {error}");
        let end = self.runtime.block_on(async {
            let (log, report) = Recovery::start(opening).await?.open().await?;
            if self.shape.archiving {
                log.switch(&Waits::new().session("end", Kind::User)).await?;
                let store = FileArchives(self.place.archives());
                while log.archive(&store).await?.is_some() {}
            }
            log.close().await?;
            Ok(report.end.0)
        });
        self.model.opened(self.life, end.map_err(words)?, &reading)?;
        self.read(&all, &[])?;
        if self.shape.archiving {
            self.check_archives()?;
        }
        Ok(())
    }
}

/// Kills and buries it; whether that was what ended it.
fn kill(child: &mut Child) -> bool {
    // It may have ended by itself.
    let _ = child.kill();
    child.wait().is_ok_and(|status| status.signal() == Some(9))
}
