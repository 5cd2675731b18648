//! Archives: the same records, the ring that goes on behind them, and damage that is named.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::EnvExt;
use cellar_redo::on_disk::archive::{ARCHIVE_HEADER, ArchiveHeader, PIECE_HEADER, Piece};
use cellar_redo::on_disk::{Damage, DatabaseId};
use cellar_redo::{ArchiveReader, Error, Log, Lsn, Record, archive_name};
use proptest::prelude::*;

use crate::support::{DATABASE, Rig, Shape};

fn body(number: usize, length: usize) -> Bytes {
    (0..length).map(|i| (number * 7 + i / 9) as u8).collect::<Vec<_>>().into()
}

fn rig(seed: u64) -> Rig {
    Rig::new(seed, Shape { archiving: true, ..Shape::default() })
}

async fn archive_all(rig: &Rig, log: &Log) {
    while log.archive(&*rig.archives).await.unwrap().is_some() {}
}

async fn read(rig: &Rig, database: DatabaseId, from: u64, to: u64) -> Result<Vec<Record>, Error> {
    let mut reader = ArchiveReader::new(rig.archives.clone(), database, from..=to, Lsn(0));
    let mut records = Vec::new();
    while let Some(record) = reader.next().await? {
        records.push(record);
    }
    Ok(records)
}

/// Records over a few groups, one of them longer than a group, and two openings; all archived.
async fn fill(rig: &Rig) -> Vec<(Lsn, Bytes)> {
    rig.create().await.unwrap();
    let mut all = Vec::new();
    for opening in 0..2 {
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        for i in 0..40 {
            let length = if i == 20 { 18_000 } else { i * 30 };
            let done = log.commit(&session, 7, 9, body(i + opening, length)).await.unwrap();
            all.push((done.lsn, body(i + opening, length)));
            log.set_checkpoint(log.durable_lsn()).await.unwrap();
            archive_all(rig, &log).await;
        }
        if opening == 1 {
            log.switch(&session).await.unwrap();
            archive_all(rig, &log).await;
            log.close().await.unwrap();
        }
    }
    all
}

#[test]
fn an_archive_gives_the_same_records_with_the_same_lsns() {
    let rig = rig(31);
    rig.run(async {
        let all = fill(&rig).await;
        let last = rig.control_now().archived;
        assert!(last > 4, "several groups were archived: {last}");
        let records = read(&rig, DATABASE, 1, last).await.unwrap();
        let found: Vec<_> = records.iter().map(|r| (r.lsn, r.body.clone())).collect();
        assert_eq!(found, all);
        assert!(records.iter().all(|r| (r.kind, r.flags) == (7, 9)));
        // From the middle: what begins there, and what follows.
        let rest = read(&rig, DATABASE, 3, last).await.unwrap();
        assert!(rest.len() > 10 && records.ends_with(&rest));
        let stored: usize =
            (1..=last).map(|s| rig.archives.get(&archive_name(s)).unwrap().len()).sum();
        let raw: usize = all.iter().map(|(_, body)| body.len() + 8).sum();
        assert!(stored < raw, "{stored} bytes for {raw}");
    })
    .unwrap();
}

#[test]
fn a_group_waits_for_its_archive_and_goes_on_behind_it() {
    let rig = rig(32);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let (other, session) = (log.clone(), rig.session());
        let commits = rig.env().run("committer", async move {
            for i in 0..150 {
                other.commit(&session, 0, 0, body(i, 700)).await.unwrap();
                other.set_checkpoint(other.durable_lsn()).await.unwrap();
            }
        });
        rig.env().sleep(Duration::from_secs(60)).await;
        let stuck = log.durable_lsn();
        rig.env().sleep(Duration::from_secs(60)).await;
        assert_eq!(log.durable_lsn(), stuck, "three groups are full and none is archived");
        assert_eq!(rig.control_now().groups.iter().map(|g| g.sequence).max(), Some(3));
        let (archiver, archives) = (log.clone(), rig.archives.clone());
        let archiver = rig.env().run("archiver", async move {
            loop {
                if let Err(error) = archiver.archivable().await {
                    return error;
                }
                archiver.archive(&*archives).await.unwrap();
            }
        });
        assert_eq!(commits.await, Some(()));
        log.clone().close().await.unwrap();
        assert!(matches!(archiver.await, Some(Error::Stopped { .. })));
        assert!(log.archived() > 3);
    })
    .unwrap();
}

#[test]
fn a_store_that_fails_is_named_and_asked_again() {
    let rig = rig(33);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        log.commit(&session, 0, 0, body(1, 100)).await.unwrap();
        assert_eq!(log.archive(&*rig.archives).await.unwrap(), None, "it is not finished");
        log.switch(&session).await.unwrap();
        rig.archives.disk.fail_writes(0..u64::MAX);
        let error = log.archive(&*rig.archives).await.unwrap_err();
        assert_eq!(error.number(), 272);
        assert!(error.to_string().contains(&archive_name(1)), "{error}");
        rig.archives.disk.heal();
        let archived = log.archive(&*rig.archives).await.unwrap().unwrap();
        assert_eq!((archived.sequence, archived.blocks), (1, 2));
        assert_eq!(rig.control_now().archived, 1);
    })
    .unwrap();
    let rig = Rig::new(34, Shape::default());
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        assert_eq!(log.archive(&*rig.archives).await.unwrap_err().number(), 258);
        assert_eq!(log.archivable().await.unwrap_err().number(), 258);
    })
    .unwrap();
}

/// An archive that reads and packs as fast as it can takes what committers need, and none of it is needed soon.
#[test]
fn an_archive_takes_half_of_the_time_in_which_a_group_is_filled_unless_another_waits() {
    let shape = Shape { archiving: true, blocks: 2400, ..Shape::default() };
    let rig = Rig::new(35, shape);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let (session, env) = (rig.session(), rig.env());
        let fill = async || {
            for i in 0..60 {
                let done = log.commit(&session, 7, 9, body(i, 15_000)).await.unwrap();
                log.set_checkpoint(done.lsn).await.unwrap();
            }
            log.switch(&session).await.unwrap();
        };
        let archive = async || {
            let began = env.now();
            assert!(log.archive(&*rig.archives).await.unwrap().is_some());
            env.now().since(began)
        };
        fill().await;
        let at_once = archive().await;
        env.sleep(Duration::from_secs(4)).await;
        fill().await;
        let paced = archive().await;
        assert!(paced > at_once * 2 && paced >= Duration::from_secs(1), "{paced:?}, {at_once:?}");
        assert!(paced < Duration::from_secs(3), "{paced:?}");
        env.sleep(Duration::from_secs(4)).await;
        fill().await;
        fill().await;
        let hurried = archive().await;
        assert!(hurried < paced / 2, "{hurried:?}, {paced:?}");
        log.close().await.unwrap();
    })
    .unwrap();
}

/// With two groups the one that is archived is the one that committers need next.
#[test]
fn an_archive_is_not_held_back_where_the_log_has_no_other_group_to_go_on_in() {
    let rig = Rig::new(36, Shape { archiving: true, blocks: 2400, groups: 2, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let (session, env) = (rig.session(), rig.env());
        for _ in 0..3 {
            for i in 0..60 {
                let done = log.commit(&session, 7, 9, body(i, 15_000)).await.unwrap();
                log.set_checkpoint(done.lsn).await.unwrap();
            }
            log.switch(&session).await.unwrap();
            let began = env.now();
            assert!(log.archive(&*rig.archives).await.unwrap().is_some());
            let took = env.now().since(began);
            assert!(took < Duration::from_millis(500), "{took:?}");
            env.sleep(Duration::from_secs(60)).await;
        }
        log.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_group_that_no_medium_has_whole_is_not_archived() {
    let rig = rig(35);
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        for i in 0..5 {
            log.commit(&session, 0, 0, body(i, 700)).await.unwrap();
        }
        log.switch(&session).await.unwrap();
        // The third block, on one medium: the other has it.
        rig.disks[0].corrupt(4096 + 2 * 512, 512);
        assert!(log.archive(&*rig.archives).await.unwrap().is_some());
        log.commit(&session, 0, 0, body(9, 700)).await.unwrap();
        log.switch(&session).await.unwrap();
        let second = rig.shape.file_size() + 4096;
        rig.disks.iter().for_each(|disk| disk.corrupt(second + 512, 512));
        let error = log.archive(&*rig.archives).await.unwrap_err();
        let Error::Damaged { from, .. } = &error else { panic!("{error}") };
        assert_eq!(from.abn().0, 34, "{error}");
        assert_eq!(rig.archives.get(&archive_name(2)), None);
        log.commit(&session, 0, 0, body(9, 700)).await.unwrap();
    })
    .unwrap();
}

#[test]
fn each_damaged_byte_of_an_archive_is_refused_by_name() {
    let rig = rig(36);
    rig.run(async {
        fill(&rig).await;
        let (name, next) = (archive_name(2), archive_name(3));
        let whole = rig.archives.get(&name).unwrap().to_vec();
        let refused = async |bytes: Vec<u8>, what: String| {
            rig.archives.put(&name, bytes);
            let error = read(&rig, DATABASE, 1, 3).await.expect_err(&what);
            assert!(error.to_string().contains(&name), "{what}: {error}");
            assert!([334, 363].contains(&error.number()), "{what}: {error}");
        };
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            refused(bytes, format!("byte {at}")).await;
        }
        for length in (0..whole.len()).step_by(7) {
            refused(whole[..length].to_vec(), format!("cut off at {length}")).await;
        }
        refused([&whole[..], &[0]].concat(), "a byte behind the end".to_owned()).await;
        refused(rig.archives.get(&next).unwrap().to_vec(), "another sequence".to_owned()).await;
        rig.archives.put(&name, whole);
        let foreign = read(&rig, DatabaseId(5), 1, 1).await.unwrap_err();
        assert_eq!(foreign.number(), 363);
        let missing = read(&rig, DATABASE, 1, 1000).await.unwrap_err();
        assert!(matches!(missing, Error::ArchiveMissing { .. }), "{missing}");
    })
    .unwrap();
}

#[test]
fn a_medium_that_was_stale_has_what_is_still_to_be_archived() {
    let rig = rig(37);
    let old = rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        let old = rig.disks[0].snapshot();
        for i in 0..5 {
            log.commit(&session, 0, 0, body(i, 700)).await.unwrap();
        }
        log.switch(&session).await.unwrap();
        log.set_checkpoint(log.durable_lsn()).await.unwrap();
        log.close().await.unwrap();
        old
    });
    rig.disks[0].replace_with_snapshot(&old.unwrap());
    rig.run(async {
        let (log, _, _) = rig.open().await.unwrap();
        rig.disks[1].corrupt(0, rig.shape.file_size());
        assert!(log.archive(&*rig.archives).await.unwrap().is_some());
    })
    .unwrap();
}

fn reseal(bytes: &mut [u8]) {
    bytes[4..8].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// One archive, and where its pieces are.
fn example() -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let rig = rig(38);
    let bytes = rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        for i in 0..9 {
            log.commit(&session, 0, 0, body(i, i * 90)).await.unwrap();
        }
        log.switch(&session).await.unwrap();
        archive_all(&rig, &log).await;
        rig.archives.get(&archive_name(1)).unwrap().to_vec()
    });
    let bytes = bytes.unwrap();
    let mut pieces = std::iter::once(0..ARCHIVE_HEADER).collect::<Vec<_>>();
    let mut at = ARCHIVE_HEADER;
    while at < bytes.len() {
        let length = match Piece::decode(&bytes[at..]).unwrap() {
            Piece::Chunk(chunk) => PIECE_HEADER + chunk.stored as usize,
            Piece::End(_) => PIECE_HEADER,
        };
        pieces.push(at..at + length);
        at += length;
    }
    (bytes, pieces)
}

#[test]
fn unknown_features_and_versions_of_archives_are_refused_by_name() {
    let (bytes, _) = example();
    let decode = |at: usize, value: u8| {
        let mut header = bytes[..ARCHIVE_HEADER].to_vec();
        header[at] = value;
        reseal(&mut header);
        ArchiveHeader::decode(&header)
    };
    assert_eq!(decode(17, 4), Err(Damage::Features { bits: 0x400 }));
    assert_eq!(decode(8, 9), Err(Damage::Version { found: 9, supported: 1 }));
    assert!(matches!(decode(79, 1), Err(Damage::Field { field: "reserved", .. })));
}

fn read_bytes(bytes: Vec<u8>) -> Result<Vec<Record>, Error> {
    let rig = rig(39);
    rig.archives.put(&archive_name(1), bytes);
    rig.run(async { read(&rig, DATABASE, 1, 1).await }).unwrap()
}

proptest! {
    /// Bytes that somebody hostile made up, with right checksums around them: refused, or at least
    /// no panic and no endless reading.
    #[test]
    fn a_reader_takes_any_bytes(
        which in 0usize..3,
        at in any::<proptest::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 1..24),
    ) {
        static EXAMPLE: std::sync::LazyLock<(Vec<u8>, Vec<std::ops::Range<usize>>)> =
            std::sync::LazyLock::new(example);
        let (mut bytes, pieces) = EXAMPLE.clone();
        let piece = pieces[which].clone();
        let at = piece.start + at.index(piece.len());
        let count = noise.len().min(piece.end - at);
        bytes[at..at + count].copy_from_slice(&noise[..count]);
        reseal(&mut bytes[piece]);
        let _ = read_bytes(bytes);
    }

    #[test]
    fn a_reader_takes_rubbish(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert!(read_bytes(bytes).is_err());
    }
}

#[test]
fn archives_are_shared_between_readers() {
    fn is_send<T: Send>(_: &T) {}
    let rig = rig(40);
    let store: Arc<dyn cellar_redo::ArchiveStore> = rig.archives.clone();
    let reader = ArchiveReader::new(store, DATABASE, 1..=1, Lsn(0));
    is_send(&reader);
}

/// An opening by force ends the log within what was archived: what is written from there on is archived
/// again, in place of what it was.
#[test]
fn what_is_written_again_after_force_is_archived_again() {
    let rig = Rig::new(37, Shape { archiving: true, media: 1, ..Shape::default() });
    let mut lsns = Vec::new();
    rig.run(async {
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        let session = rig.session();
        while log.archived() < 2 {
            let done = log.commit(&session, 0, 0, body(lsns.len(), 700)).await.unwrap();
            lsns.push(done.lsn);
            archive_all(&rig, &log).await;
        }
        rig.sim.crash();
        std::future::pending::<()>().await;
    });
    rig.sim.restart();
    rig.run(async {
        // The sixth record cannot be read on the one medium that there is.
        let place = 4096 + (lsns[5].abn().0 - 1) * u64::from(rig.shape.block_size);
        rig.disks[0].fail_reads(place..place + 512);
        let refused = rig.open().await.err();
        assert!(matches!(refused, Some(Error::MediaMissing { .. })), "{refused:?}");
        let (log, found, report) = rig.open_with(rig.spec(rig.media(), true)).await.unwrap();
        assert!(report.forced);
        assert!((1..=5).contains(&found.len()), "{}", found.len());
        assert_eq!(log.archived(), 0, "it ends in the first group");
        rig.disks[0].heal();
        let session = rig.session();
        let mut records: Vec<(Lsn, Bytes)> = found.into_iter().map(|r| (r.lsn, r.body)).collect();
        while log.archived() < 3 {
            let done = log.commit(&session, 0, 0, body(100 + records.len(), 600)).await.unwrap();
            records.push((done.lsn, body(100 + records.len(), 600)));
            log.set_checkpoint(log.durable_lsn()).await.unwrap();
            archive_all(&rig, &log).await;
        }
        let archived = read(&rig, DATABASE, 1, 3).await.unwrap();
        let archived: Vec<_> = archived.into_iter().map(|r| (r.lsn, r.body)).collect();
        assert!(archived.len() > 40, "{}", archived.len());
        assert_eq!(archived, records[..archived.len()]);
        log.close().await.unwrap();
    })
    .unwrap();
}
