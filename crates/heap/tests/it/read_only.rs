//! Openings that only read: they see what an opening that writes would, and write nothing.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, Key, RowId, View};
use cellar_io::Device;
use cellar_io::sim::Rng;
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 3;
const INDEX: u32 = 4;

type All = (Vec<(RowId, Bytes)>, Vec<(Vec<u8>, RowId)>);

async fn all(view: &View, session: &Session) -> All {
    let mut rows = view.scan(session, TABLE).await.unwrap();
    rows.sort();
    let range = &[][..]..=&[0xFF; 9][..];
    (rows, view.range(session, INDEX, range, false, usize::MAX).await.unwrap())
}

#[test]
fn what_a_crash_left_is_read_without_a_write() {
    let mut torn = 0;
    for seed in 0..80 {
        let mut rng = Rng::stream(seed, 9);
        let mut rig = Rig::new(seed, 6 << 20, 1 << 20);
        rig.options.cache_pages = rng.within(8..=80) as usize;
        rig.options.recovery_target = Duration::from_micros(rng.within(1..=200));
        rig.data.tear_sectors(rng.coin());
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_table(&session, TABLE).await.unwrap();
            store.create_index(&session, INDEX).await.unwrap();
            store.close().await.unwrap();
        });
        rig.sim.crash_after(rng.within(20..=600));
        rig.sim.run(async {
            let Ok((store, _)) = rig.open().await else { return };
            let session = rig.session();
            for number in 0u64..400 {
                let row = Bytes::from(vec![number as u8; rng.within(6..=700) as usize]);
                let bytes = Bytes::copy_from_slice(&number.to_be_bytes());
                let keys = vec![Key { index: INDEX, bytes }];
                let insert = Change::Insert { table: TABLE, row, keys };
                if store.commit(&session, vec![insert]).await.is_err() {
                    return;
                }
            }
        });
        rig.sim.crash();
        rig.sim.crash_never();
        rig.sim.restart();
        rig.run(async {
            let session = rig.session();
            // A write would be an error.
            let disks = rig.groups.iter().chain([&rig.data]);
            for disk in disks.clone() {
                disk.fail_writes(0..disk.geometry().size);
            }
            let (reader, replayed) = rig.open_read_only().await.unwrap();
            torn += replayed.repaired;
            let view = reader.view();
            // It needs what is newer in memory also when that has gone.
            drop(reader);
            let read = all(&view, &session).await;
            drop(view);
            for disk in disks {
                disk.heal();
            }
            let (store, _) = rig.open().await.unwrap();
            assert!(all(&store.view(), &session).await == read, "seed {seed}");
        });
    }
    assert!(torn > 0, "no page was torn: the test misses something");
}
