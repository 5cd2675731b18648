//! The group as an object store: that crate's own tests on real files, and what a crash leaves.

use std::sync::Arc;

use bytes::Bytes;
use cellar_diskgroup::GroupStore;
use cellar_io::EnvExt;
use cellar_wait::{Kind, Waits};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion,
};

use cellar_sim::rig::{Rig, Shape};

#[test]
fn what_a_put_acknowledged_outlives_a_crash_and_nothing_else_appears() {
    let mut seen = [0; 4];
    for seed in 0..60 {
        let shape = Shape { disk_bytes: 64 << 20, ..Shape::default() };
        let rig = Rig::new(seed, &shape);
        let (old, new) = (bytes_of(100_000, 1), bytes_of(3 << 20, 2));
        let acknowledged = Arc::new(std::sync::Mutex::new(Vec::new()));
        rig.run(async { rig.create(&shape).await.unwrap() }).unwrap();
        rig.sim.crash_after(60 + seed * 17);
        rig.run(async {
            let say = |what| acknowledged.lock().unwrap().push(what);
            let Ok(group) = rig.mount().await else { return };
            let store = GroupStore::new(group);
            let path = Path::from("d/object");
            store.put(&path, old.clone().into()).await.unwrap();
            say("old");
            store.put(&path, new.clone().into()).await.unwrap();
            say("new");
            let mut upload = store.put_multipart(&Path::from("d/parts")).await.unwrap();
            for part in [new.slice(..1_000_001), new.slice(1_000_001..)] {
                upload.put_part(part.into()).await.unwrap();
            }
            upload.complete().await.unwrap();
            say("parts");
        });
        rig.sim.crash();
        rig.sim.restart();
        let acknowledged = acknowledged.lock().unwrap().clone();
        seen[acknowledged.len()] += 1;
        rig.run(async {
            let group = rig.mount().await.unwrap();
            let store = GroupStore::new(group.clone());
            let got = match store.get(&Path::from("d/object")).await {
                Ok(object) => Some(object.bytes().await.unwrap()),
                Err(Error::NotFound { .. }) => None,
                Err(error) => panic!("{error}"),
            };
            match &acknowledged[..] {
                [] => assert!(got.is_none_or(|g| g == old)),
                ["old"] => assert!(got.is_some_and(|g| g == old || g == new)),
                _ => assert!(got.is_some_and(|g| g == new)),
            }
            match store.get(&Path::from("d/parts")).await {
                Ok(object) => assert!(object.bytes().await.unwrap() == new),
                Err(error) => assert!(
                    matches!(error, Error::NotFound { .. }) && acknowledged.len() < 3,
                    "{error}"
                ),
            }
            for meta in store.list(None).collect::<Vec<_>>().await {
                store.delete(&meta.unwrap().location).await.unwrap();
            }
            assert!(group.files().is_empty(), "nothing unpublished is left: {:?}", group.files());
            group.check().unwrap();
            group.dismount().await.unwrap();
        })
        .unwrap();
    }
    assert!(seen.iter().all(|n| *n > 0), "crashes at every stage: {seen:?}");
}

#[test]
fn any_range_of_any_cut_of_an_object_reads_right() {
    let shape = Shape { sector: 4096, disk_bytes: 96 << 20, ..Shape::default() };
    let rig = Rig::new(11, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let store = GroupStore::new(group.clone());
        let path = Path::from("x");
        let data = bytes_of((11 << 20) + 777, 5);
        // Parts of every awkward length, most sharing sectors with the next.
        let mut upload = store.put_multipart(&path).await.unwrap();
        let (mut at, mut parts) = (0, Vec::new());
        for length in [1, 511, 4096, 65_536, 3, 70_000, 1 << 20, 5, 2_000_000].iter().cycle() {
            let end = (at + length).min(data.len());
            let middle = at + (end - at) / 3;
            let chunks = [data.slice(at..middle), data.slice(middle..end)];
            parts.push(upload.put_part(PutPayload::from_iter(chunks)));
            at = end;
            if at == data.len() {
                break;
            }
        }
        parts.reverse();
        futures_util::future::try_join_all(parts).await.unwrap();
        upload.complete().await.unwrap();
        let whole = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert!(whole == data, "streamed whole");
        let end = data.len() as u64;
        let ranges = [
            0..1,
            511..513,
            end - 1..end,
            4096..8192,
            (1 << 20) - 1..(1 << 20) + 1,
            100..9 << 20,
            65_535..65_536,
            5 << 20..6 << 20,
            0..end,
            (9 << 20) + 1..end,
        ];
        let got = store.get_ranges(&path, &ranges).await.unwrap();
        for (range, got) in ranges.iter().zip(got) {
            let wanted = &data[range.start as usize..range.end as usize];
            assert!(got == wanted, "{range:?}");
            let got = store.get_range(&path, range.clone()).await.unwrap();
            assert!(got == wanted, "{range:?} alone");
        }
        assert!(store.get_ranges(&path, &[0..1, end..end + 1]).await.is_err());
        store.delete(&path).await.unwrap();
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn mistakes_are_answered_in_words_and_leave_nothing() {
    let shape = Shape::default();
    let rig = Rig::new(12, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let store = GroupStore::new(group.clone());
        let put = |path: &'static str, bytes: usize| {
            let store = store.clone();
            async move { store.put(&Path::from(path), vec![1; bytes].into()).await }
        };
        put("d/a", 10).await.unwrap();
        let before = group.info().free_mb;
        for (path, bytes) in [("d", 1), ("d/a/b", 1), ("", 1), ("big", 200 << 20)] {
            let error = put(path, bytes).await.unwrap_err();
            assert!(matches!(error, Error::Generic { .. }), "{path}: {error}");
        }
        let big = put("big", 200 << 20).await.unwrap_err();
        let source = std::error::Error::source(&big).unwrap();
        let of_group = source.downcast_ref::<cellar_diskgroup::Error>().unwrap();
        assert_eq!(of_group.number(), 15041, "the group's own error is inside: {big}");
        for tag in [None, Some("nonsense"), Some("1.1")] {
            let e_tag = tag.map(str::to_owned);
            let mode = PutMode::Update(UpdateVersion { e_tag, version: None });
            let put = store.put_opts(&Path::from("d/a"), "x".into(), mode.into()).await;
            assert!(put.is_err(), "{tag:?}");
        }
        let versioned = GetOptions::new().with_version(Some("1".to_owned()));
        let error = store.get_opts(&Path::from("d/a"), versioned).await.unwrap_err();
        assert!(matches!(error, Error::NotSupported { .. }), "{error}");
        let mut upload = store.put_multipart(&Path::from("u")).await.unwrap();
        upload.put_part(vec![7; 3 << 20].into()).await.unwrap();
        drop(upload.put_part("never polled".into()));
        assert!(upload.complete().await.is_err(), "a part is missing");
        drop(upload);
        group.env().clone().sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(group.info().free_mb, before, "no failed put keeps room");
        let only = store.list(None).collect::<Vec<_>>().await;
        assert_eq!(only.len(), 1);
        group.check().unwrap();
    })
    .unwrap();
}

#[test]
fn a_reader_keeps_the_object_it_began_with_and_its_waits_are_counted() {
    let shape = Shape::default();
    let rig = Rig::new(13, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let waits = Waits::new();
        let session = waits.session("reader", Kind::User);
        let store = GroupStore::new(group.clone()).for_session(session);
        let path = Path::from("x");
        let (old, new) = (bytes_of(9 << 20, 1), bytes_of(1 << 20, 2));
        store.put(&path, old.clone().into()).await.unwrap();
        let reader = store.get(&path).await.unwrap();
        store.put(&path, new.clone().into()).await.unwrap();
        assert!(reader.bytes().await.unwrap() == old);
        assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == new);
        let reads: u64 = waits
            .totals()
            .iter()
            .filter(|t| t.event.name() == "direct path read")
            .map(|t| t.count)
            .sum();
        assert!(reads >= 10, "each piece is a wait: {reads}");
    })
    .unwrap();
}

fn bytes_of(length: usize, seed: u64) -> Bytes {
    let mut x = seed | 1;
    let next = || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect::<Vec<u8>>().into()
}
