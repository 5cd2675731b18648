//! The redo log of a database: the power cut at every I/O of each statement about it, and disks that die
//! or hang under commits, with the control file in the same group. No acknowledged commit is lost, and
//! the statement was carried out or not.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::FileSpec;
use cellar_diskgroup::state::FileType;
use cellar_instance::Database;
use cellar_instance::session::Session;
use cellar_instance::views::{log, redo_commit, redo_medium};
use cellar_io::{DeviceExt, Durability, EnvExt, Io};
use cellar_storage::redo::{CONTROL_PATH, FILE_BYTES, RedoLog};
use cellar_storage::request::NewLogfile;
use cellar_storage::request::{DiskTarget, OfflineRequest};

use crate::machine::Machine;

mod clear;
mod copies;
mod directory;
mod forced;
mod settings;

fn session(database: &Database) -> Session {
    database.instance().sessions().user("test", "test")
}

fn logfile(number: Option<u32>, media: &[&str]) -> NewLogfile {
    let media = media.iter().map(|&medium| medium.to_owned()).collect();
    NewLogfile { number, media, size: Some(1 << 20), block_size: Some(4096), reuse: false }
}

const MEDIA: [&str; 3] = ["+DATA.DATA_0000", "+DATA.DATA_0001", "+DATA.DATA_0002"];

async fn make(database: &Database, media: &[&str]) {
    let new = [logfile(Some(1), media), logfile(Some(2), &[])];
    database.storage().redo().add_logfiles(&new, &|_, _| {}).await.unwrap();
}

fn record(number: u64) -> Bytes {
    let mut bytes = vec![(number % 251) as u8; 700];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Bytes::from(bytes)
}

async fn commit(log: &Arc<RedoLog>, session: &Session, number: u64) -> bool {
    log.commit(session.waits(), 7, record(number)).await.is_ok()
}

/// The records that an opening finds: by number, how often.
async fn found(database: &Database) -> BTreeMap<u64, usize> {
    let all: Arc<Mutex<BTreeMap<u64, usize>>> = Arc::default();
    database.storage().redo().log().unwrap().keep_records(true);
    let gathered = Arc::clone(&all);
    let gather = move |kind: u8, bytes: &Bytes| {
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(kind == 7 && *bytes == record(number), "other bytes than were committed");
        *gathered.lock().unwrap().entry(number).or_default() += 1;
    };
    database.storage().redo().reread(&gather).await.unwrap();
    std::mem::take(&mut all.lock().unwrap())
}

/// What is done when the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Make,
    Add,
    Drop,
    Switch,
    DropAll,
}

async fn carry_out(database: &Database, change: Change) {
    match change {
        Change::Make => make(database, &MEDIA).await,
        Change::Add => {
            database
                .storage()
                .redo()
                .add_logfiles(&[logfile(Some(9), &[])], &|_, _| {})
                .await
                .unwrap();
        }
        Change::Drop => drop(database.storage().redo().drop_logfiles(&[3]).await.unwrap()),
        Change::Switch => {
            database.storage().redo().switch_logfile(session(database).waits()).await.unwrap();
        }
        Change::DropAll => database.storage().redo().drop_log().await.unwrap(),
    }
}

/// Names of the files of the log that are in the group.
fn log_files(database: &Database) -> Vec<String> {
    let all = database.group("DATA").unwrap().group.list("cellar/redo/*", true);
    all.into_iter().filter(|listed| listed.file.is_some()).map(|listed| listed.path).collect()
}

/// After a crash: all that was acknowledged is there, once; and the log, or what can be made of none, works.
async fn check(database: &Database, change: Change, acknowledged: &[u64], context: &str) {
    let redo = database.instance().redo();
    assert!(redo.problem().is_none(), "{context}: {:?}", redo.problem());
    if redo.log().is_none() {
        assert!(matches!(change, Change::Make | Change::DropAll), "{context}: there is no log");
        make(database, &MEDIA).await;
    } else {
        let found = found(database).await;
        let lost: Vec<_> = acknowledged.iter().filter(|n| found.get(n) != Some(&1)).collect();
        assert!(lost.is_empty(), "{context}: {lost:?} of {acknowledged:?}");
    }
    let groups: Vec<u32> = log(redo).iter().map(|row| row.group).collect();
    assert_eq!(log_files(database).len(), 3 * groups.len(), "{context}: {:?}", log_files(database));
    let opened = database.storage().redo().log().unwrap();
    assert!(commit(&opened, &session(database), 1000).await, "{context}");
    database.storage().redo().switch_logfile(session(database).waits()).await.unwrap();
    assert!(commit(&opened, &session(database), 1001).await, "{context}");
}

/// Cuts the power at one I/O after the other of a change, until it is made before.
fn cut_everywhere(change: Change, seed: u64) {
    let machine = Machine::new(seed);
    for point in 1.. {
        let acknowledged: RefCell<Vec<u64>> = RefCell::default();
        let under_way = Cell::new(false);
        let done = machine.sim.run(async {
            let database = machine.open().await;
            if change != Change::Make {
                make(&database, &MEDIA).await;
                database
                    .storage()
                    .redo()
                    .add_logfiles(&[logfile(Some(3), &[])], &|_, _| {})
                    .await
                    .unwrap();
                let opened = database.storage().redo().log().unwrap();
                opened.keep_records(true);
                for number in 0..3 {
                    let is_durable = commit(&opened, &session(&database), number).await;
                    // A switch makes a checkpoint first.
                    if is_durable && change != Change::Switch {
                        acknowledged.borrow_mut().push(number);
                    }
                }
            }
            under_way.set(true);
            machine.sim.crash_after(point);
            carry_out(&database, change).await;
            if let Ok(opened) = database.storage().redo().log() {
                opened.keep_records(true);
                if commit(&opened, &session(&database), 100).await {
                    acknowledged.borrow_mut().push(100);
                }
            }
            machine.sim.crash_never();
            database.close().await.unwrap();
        });
        assert!(under_way.get());
        if done.is_none() {
            machine.sim.restart();
        }
        machine.run(async {
            let database = machine.open().await;
            let context = format!("{change:?} cut off at {point}");
            let acknowledged = acknowledged.borrow().clone();
            check(&database, change, &acknowledged, &context).await;
            database.storage().redo().drop_log().await.unwrap();
            assert!(log_files(&database).is_empty(), "{context}");
            database.close().await.unwrap();
        });
        if done.is_some() {
            assert!(point > 4, "{change:?} made {point} I/Os");
            return;
        }
    }
}

/// A file that an opening finds where those of the log are.
async fn put(database: &Database, name: &str, byte: u8) {
    let group = database.group("DATA").unwrap().group;
    let file = group.create_file(&FileSpec::new(FileType::Onlinelog)).await.unwrap();
    file.allocate(8192).await.unwrap();
    let bytes = Bytes::from(vec![byte; 8192]);
    file.write_at(Io::FOREGROUND, 0, bytes, Durability::Durable).await.unwrap();
    file.set_size(8192).await.unwrap();
    group.publish(&file, &format!("cellar/redo/{name}"), false).await.unwrap();
}

#[test]
fn an_opening_removes_what_a_statement_left_and_nothing_of_anybody_else() {
    let machine = Machine::new(59);
    machine.run(async {
        let database = machine.open().await;
        make(&database, &MEDIA).await;
        let own = log_files(&database);
        put(&database, "group_9.DATA_0000", 0).await;
        put(&database, "group_9.DATA_0001", 0xA5).await;
        assert_eq!(log_files(&database).len(), own.len() + 2);
        database.close().await.unwrap();
        let database = machine.open().await;
        let mut left = log_files(&database);
        left.retain(|path| !own.contains(path));
        assert_eq!(left, ["cellar/redo/group_9.DATA_0001"], "what is in it is not ours to judge");
        assert!(commit(&database.storage().redo().log().unwrap(), &session(&database), 1).await);
        database.close().await.unwrap();
    });
}

#[test]
fn a_power_cut_anywhere_in_a_statement_loses_nothing() {
    let changes = [Change::Make, Change::Add, Change::Drop, Change::Switch, Change::DropAll];
    for (seed, change) in changes.into_iter().enumerate() {
        cut_everywhere(change, 40 + seed as u64);
    }
}

/// Commits until the time is up; the longest gap between two acknowledgements.
async fn commits(database: &Database, from: u64, time: Duration) -> (Vec<u64>, Duration) {
    let (opened, session) = (database.storage().redo().log().unwrap(), session(database));
    let env = Arc::clone(database.env());
    let until = env.now().plus(time);
    let (mut numbers, mut last, mut gap) = (Vec::new(), env.now(), Duration::ZERO);
    for number in from.. {
        if env.now() >= until {
            break;
        }
        assert!(commit(&opened, &session, number).await, "{:?}", opened.log().stopped());
        numbers.push(number);
        gap = gap.max(env.now().since(last));
        last = env.now();
        env.sleep(Duration::from_millis(2)).await;
    }
    (numbers, gap)
}

fn statuses(database: &Database) -> Vec<&'static str> {
    redo_medium(database.instance().redo()).iter().map(|row| row.status).collect()
}

/// What the views say once the second of three media was given up, and nothing happened to the others.
fn check_scoreboard(database: &Database) {
    let redo = database.instance().redo();
    for (number, row) in redo_medium(redo).into_iter().enumerate() {
        let skips = [
            row.skips_error,
            row.skips_silent,
            row.skips_behind,
            row.skips_exposed,
            row.skips_header,
        ];
        assert_eq!(skips.iter().sum::<u64>(), row.failures, "{row:?}");
        assert_eq!(row.failures > 0, number == 1, "{row:?}");
        let share = row.efficiency.unwrap();
        assert!(share > 0.0 && share <= 100.0, "{row:?}");
        assert!(number != 1 || share < 100.0, "it did not have the writes that it failed with");
    }
    let mut parts = redo_commit(redo);
    let last = parts.pop().unwrap();
    assert!((last.part, last.percent, last.position) == ("last", None, 10), "{last:?}");
    assert!(last.commits > 0 && last.longest_us >= last.average_us, "{last:?}");
    let whole = parts.pop().unwrap();
    let is_all = |percent: f64| (percent - 100.0).abs() < 1e-6;
    assert!(whole.part == "whole" && whole.percent.is_some_and(is_all), "{whole:?}");
    let sum: f64 = parts.iter().filter_map(|row| row.percent).sum();
    assert!(parts.len() == 8 && is_all(sum), "{sum} {parts:?}");
}

/// A disk with a medium dies; its group lets it go, what it held is mirrored again, and the log goes on.
/// When it comes back, the medium does.
fn dies(seed: u64, die: impl Fn(&Machine), slowest: Duration) {
    let machine = Machine::new(seed);
    machine.run(async {
        let database = machine.open().await;
        make(&database, &MEDIA).await;
        database.storage().redo().log().unwrap().keep_records(true);
        let (mut all, _) = commits(&database, 0, Duration::from_millis(60)).await;
        die(&machine);
        let (more, gap) = commits(&database, 1000, Duration::from_millis(300)).await;
        all.extend(more);
        assert!(gap <= slowest, "commits stood still for {gap:?}");
        // Its group gives it up, and the log its files there.
        database.env().sleep(Duration::from_secs(60)).await;
        let (more, _) = commits(&database, 2000, Duration::from_millis(20)).await;
        all.extend(more);
        assert_eq!(statuses(&database), ["ACTIVE", "FAILED", "ACTIVE"]);
        check_scoreboard(&database);
        let group = database.group("DATA").unwrap().group;
        assert_eq!(group.info().offline_disks, 1, "it has left its group");
        assert!(!log_files(&database).iter().any(|path| path.ends_with("DATA_0001")));
        let found = found(&database).await;
        let lost: Vec<_> = all.iter().filter(|n| found.get(n) != Some(&1)).collect();
        assert!(lost.is_empty(), "{lost:?}");
        database.close().await.unwrap();
    });
    machine.data_disk(1).come_back();
    machine.data_disk(1).heal();
    machine.run(async {
        let database = machine.open().await;
        let env = Arc::clone(database.env());
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(database.group("DATA").unwrap().group.info().offline_disks, 0);
        database.close().await.unwrap();
        // Its files are made anew at the next opening, and it gets what it lacks.
        let database = machine.open().await;
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!(statuses(&database), ["ACTIVE"; 3]);
        assert_eq!(log_files(&database).len(), 6);
        let (more, _) = commits(&database, 5000, Duration::from_millis(50)).await;
        assert!(!more.is_empty());
        database.close().await.unwrap();
    });
}

/// One half of the control file is enough; without both the log is lost, and can be given up.
#[test]
fn a_control_file_that_is_damaged_is_no_dead_end() {
    let machine = Machine::new(63);
    let damage = async |halves: std::ops::Range<usize>| {
        let database = machine.open().await;
        database.storage().redo().drop_log().await.unwrap_or_default();
        make(&database, &MEDIA).await;
        assert!(commit(&database.storage().redo().log().unwrap(), &session(&database), 1).await);
        database.close().await.unwrap();
        let database = machine.open().await;
        let file = database.group("DATA").unwrap().group.open(CONTROL_PATH).unwrap();
        let half = FILE_BYTES as usize / 2;
        // The older of the two: the newer one, and media would know more than it.
        let content = file.read_at(Io::FOREGROUND, 0, 2 * half).await.unwrap();
        let generation = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
        let older = usize::from(generation(16) > generation(half + 16));
        for which in halves {
            let at = ((older + which) % 2 * half) as u64;
            let bytes = Bytes::from(vec![0xEE; 4096]);
            file.write_at(Io::FOREGROUND, at, bytes, Durability::Durable).await.unwrap();
        }
        drop(file);
        machine.sim.crash();
        std::future::pending::<()>().await
    };
    assert!(machine.sim.run(damage(0..1)).is_none());
    machine.sim.restart();
    machine.run(async {
        let database = machine.open().await;
        assert!(commit(&database.storage().redo().log().unwrap(), &session(&database), 2).await);
        database.close().await.unwrap();
    });
    assert!(machine.sim.run(damage(0..2)).is_none());
    machine.sim.restart();
    machine.run(async {
        let database = machine.open().await;
        assert_eq!(database.storage().redo().log().unwrap_err().number(), 227);
        database.storage().redo().drop_log().await.unwrap();
        assert_eq!(database.storage().redo().log().unwrap_err().number(), 70160);
        make(&database, &MEDIA).await;
        assert!(commit(&database.storage().redo().log().unwrap(), &session(&database), 3).await);
        database.close().await.unwrap();
    });
}

/// A log that nothing is written to does not notice that a disk is away: the next one must not go.
#[test]
fn disks_with_media_do_not_leave_one_after_the_other() {
    let machine = Machine::new(61);
    machine.run(async {
        let database = machine.open().await;
        make(&database, &MEDIA[..2]).await;
        let offline = async |disks: &[&str]| {
            let targets = disks.iter().map(|disk| DiskTarget::Disk(disk.to_string()));
            let targets: Vec<DiskTarget> = targets.collect();
            let request = OfflineRequest { disks: targets, drop_after: None };
            database.storage().groups().offline_disks("DATA", &request).await
        };
        let refused = offline(&["DATA_0000", "DATA_0001"]).await.unwrap_err();
        assert_eq!(refused.number(), 15066, "{refused}");
        offline(&["DATA_0000"]).await.unwrap();
        let refused = offline(&["DATA_0001"]).await.unwrap_err();
        assert_eq!(refused.number(), 15066, "{refused}");
        assert!(commit(&database.storage().redo().log().unwrap(), &session(&database), 1).await);
        database.close().await.unwrap();
    });
}

#[test]
fn a_disk_that_hangs_takes_no_commit_with_it_and_leaves_its_group() {
    dies(62, |machine| machine.data_disk(1).hang(), Duration::from_millis(100));
}

#[test]
fn a_disk_that_dies_takes_no_commit_with_it_and_leaves_its_group() {
    dies(60, |machine| machine.data_disk(1).vanish(), Duration::from_millis(100));
}
