//! The program that is killed: it recovers the log, commits to it, and tells of every commit.
//!
//! A line each, in one write: `R` recovery begins; `O end records digest lost bad` the log is
//! open; `A committer number lsn` a record is durable; `C lsn`, `c lsn` a checkpoint is asked for,
//! and is durable; `V sequence` a group is archived; `E words` it cannot go on.

use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_io::{EnvExt, SharedEnv};
use cellar_redo::{Error, Log, Lsn, OpenLog, Options, Recovery, Successor};
use cellar_wait::{Kind, Session, Waits};
use serde::{Deserialize, Serialize};

use crate::files::{FileArchives, FileControl, medium_name, open_media};
use crate::record::{Chance, Digest, Key, body, marks};
use crate::shape::{Place, Shape, shapes};

/// Holds the order, as JSON.
pub const VARIABLE: &str = "CELLAR_KILL_CHILD";

/// A committer has so many records on their way at most.
pub const AHEAD_MAX: u32 = 8;

/// What the program is to do.
#[derive(Serialize, Deserialize)]
pub struct Order {
    pub dir: PathBuf,
    pub fast: Option<PathBuf>,
    pub shape: usize,
    pub seed: u64,
    pub life: u32,
    /// Media that are there.
    pub media: Vec<usize>,
    /// Those of them that take part again.
    pub returning: Vec<usize>,
}

/// Nobody listens any more when the parent has gone.
fn tell(lines: &str) {
    if std::io::stdout().lock().write_all(lines.as_bytes()).is_err() {
        std::process::exit(4);
    }
}

fn give_up(words: &str) -> ! {
    tell(&format!("E {}\n", words.replace('\n', " ")));
    std::process::exit(3);
}

#[test]
#[ignore = "the program that the other test starts and kills"]
fn child() {
    let Ok(order) = std::env::var(VARIABLE) else { return };
    // libtest has written half a line before.
    tell("\n");
    let order: Order = serde_json::from_str(&order).unwrap();
    if let Err(error) = run(&order) {
        give_up(&error);
    }
}

fn run(order: &Order) -> Result<(), String> {
    let runtime = Runtime::new(&RuntimeOptions { workers: 2, ..RuntimeOptions::default() });
    let runtime = runtime.map_err(|e| e.to_string())?;
    let shape = shapes().swap_remove(order.shape);
    let place = Place { dir: order.dir.clone(), fast: order.fast.clone() };
    let (media, _) = open_media(&runtime, &place, &shape, &order.media)?;
    let mut chance = Chance::new(order.seed ^ u64::from(order.life).rotate_left(32));
    let waits = Waits::new();
    let opening = OpenLog {
        env: runtime.env(),
        session: waits.session("redo", Kind::Background),
        control: Arc::new(FileControl(place.control())),
        media,
        options: options(&mut chance),
        returning: order.returning.iter().map(|m| medium_name(*m)).collect(),
        force: false,
    };
    runtime.block_on(async {
        let log = open(opening).await.map_err(|e| format!("{e}"))?;
        live(log, runtime.env(), &waits, order, &shape, &place).await;
        Ok(())
    })
}

fn options(chance: &mut Chance) -> Options {
    Options {
        unit_bytes: [8192, 65_536, 1 << 20][chance.below(3) as usize],
        units_in_flight: 1 + chance.below(4) as usize,
        successor: match chance.percent(50) {
            true => Successor::Waiter,
            false => Successor::Completer,
        },
        ..Options::default()
    }
}

async fn open(opening: OpenLog) -> Result<Log, Error> {
    tell("R\n");
    let mut recovery = Recovery::start(opening).await?;
    let (mut digest, mut records) = (Digest::default(), 0);
    while let Some(record) = recovery.next().await? {
        digest.add(&record);
        records += 1;
    }
    let (log, report) = recovery.open().await?;
    let (end, lost, bad) = (report.end.0, report.lost_writes.join(","), report.bad_headers);
    tell(&format!("O {end} {records} {} {bad} {lost}\n", digest.value()));
    Ok(log)
}

/// Lives until it is killed.
async fn live(log: Log, env: SharedEnv, waits: &Waits, order: &Order, shape: &Shape, at: &Place) {
    let seen = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..shape.committers {
        let committer = Committer {
            log: log.clone(),
            session: waits.session("committer", Kind::User),
            seed: order.seed,
            next: Key { life: order.life, committer: number, number: 1 },
            longest: shape.longest(),
            seen: Arc::clone(&seen),
        };
        tasks.push(tokio::spawn(committer.run()));
    }
    let chance = |what: u64| Chance::new(order.seed ^ what ^ u64::from(order.life) << 8);
    tasks.push(tokio::spawn(checkpoints(log.clone(), env.clone(), chance(1))));
    let session = waits.session("switcher", Kind::User);
    tasks.push(tokio::spawn(switches(log.clone(), session, env, chance(2))));
    if shape.archiving {
        tasks.push(tokio::spawn(archives(log, FileArchives(at.archives()))));
    }
    for task in tasks {
        if let Err(error) = task.await {
            give_up(&format!("a task died: {error}"));
        }
    }
}

struct Committer {
    log: Log,
    session: Session,
    seed: u64,
    next: Key,
    longest: usize,
    /// The greatest LSN of a commit that returned.
    seen: Arc<AtomicU64>,
}

impl Committer {
    async fn run(mut self) {
        // Some append several and wait for the last.
        let appends = self.next.committer % 5 == 4;
        loop {
            let done = match appends {
                true => self.append().await,
                false => self.commit().await,
            };
            if let Err(error) = done {
                give_up(&format!("{error}; media {:?}", self.log.media()));
            }
        }
    }

    fn take(&mut self) -> (Key, bytes::Bytes) {
        let key = self.next;
        self.next.number += 1;
        let seen = self.seen.load(Ordering::SeqCst);
        (key, body(self.seed, key, seen, self.longest))
    }

    async fn commit(&mut self) -> Result<(), Error> {
        let (key, body) = self.take();
        let (kind, flags) = marks(key);
        let done = self.log.commit(&self.session, kind, flags, body).await?;
        self.seen.fetch_max(done.lsn.0, Ordering::SeqCst);
        tell(&format!("A {} {} {}\n", key.committer, key.number, done.lsn.0));
        Ok(())
    }

    async fn wait(&self, end: Lsn) -> Result<(), Error> {
        self.log.wait_durable(&self.session, end).await
    }

    async fn append(&mut self) -> Result<(), Error> {
        let (mut lines, mut last) = (String::new(), None);
        for _ in 0..1 + self.next.number % AHEAD_MAX {
            let (key, body) = self.take();
            let (kind, flags) = marks(key);
            let done = self.log.append(&self.session, kind, flags, body).await?;
            lines += &format!("A {} {} {}\n", key.committer, key.number, done.lsn.0);
            last = Some(done);
        }
        if let Some(last) = last {
            self.wait(last.end).await?;
            self.seen.fetch_max(last.lsn.0, Ordering::SeqCst);
            tell(&lines);
        }
        Ok(())
    }
}

/// Moves the checkpoint some way behind the log, and to its end when there is little room.
async fn checkpoints(log: Log, env: SharedEnv, mut chance: Chance) {
    let mut samples = VecDeque::new();
    loop {
        env.sleep(Duration::from_micros(200 + chance.below(4000))).await;
        samples.push_back(log.durable_lsn());
        let (used, all) = log.ring();
        let to = match used * 10 > all * 6 {
            true => samples.drain(..).next_back(),
            false if samples.len() > 4 => samples.pop_front(),
            false => None,
        };
        let Some(to) = to else { continue };
        tell(&format!("C {}\n", to.0));
        if let Err(error) = log.set_checkpoint(to).await {
            give_up(&format!("checkpoint: {error}"));
        }
        tell(&format!("c {}\n", to.0));
    }
}

async fn switches(log: Log, session: Session, env: SharedEnv, mut chance: Chance) {
    loop {
        env.sleep(Duration::from_micros(1000 + chance.below(20_000))).await;
        if let Err(error) = log.switch(&session).await {
            give_up(&format!("switch: {error}"));
        }
    }
}

async fn archives(log: Log, store: FileArchives) {
    loop {
        let done = match log.archivable().await {
            Ok(()) => log.archive(&store).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(Some(archived)) => tell(&format!("V {}\n", archived.sequence)),
            Ok(None) => {}
            Err(error) => give_up(&format!("archive: {error}")),
        }
    }
}
