//! Replay over an older image of the file: what was written around the log is not in it, and what is there instead is
//! never read.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Error, Store};
use cellar_io::sim::SimDisk;
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 3;

async fn load(store: &Store, session: &Session, count: u64, fill: u8) {
    let mut load = store.begin_load(session, TABLE, &[], 1 << 20).await.unwrap();
    for _ in 0..count {
        load.row(Bytes::from(vec![fill; 300]), &[]).await.unwrap();
    }
    load.commit().await.unwrap();
}

/// How many rows there are of each fill, or why they are not read.
async fn fills(rig: &Rig, is_read_only: bool) -> Result<[usize; 3], Error> {
    let view = match is_read_only {
        true => rig.open_read_only().await?.0.view(),
        false => rig.open().await?.0.view(),
    };
    let rows = view.scan(&rig.session(), TABLE).await?;
    let count = |fill: u8| rows.iter().filter(|(_, row)| row[0] == fill).count();
    Ok([count(1), count(2), count(3)])
}

/// Loads with an image of the file before the last of them, which the log alone would make whole.
fn rig_and_image() -> (Rig, cellar_io::sim::Snapshot) {
    let mut rig = Rig::new(1, 8 << 20, 1 << 20);
    // The checkpoint stays unless somebody needs it to move.
    rig.options.checkpoint_after = Duration::from_secs(1000);
    rig.options.recovery_target = Duration::from_secs(1000);
    rig.options.dirty_max = 60;
    let image = rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        // Pages of the same table, whole, in extents that are free again.
        load(&store, &session, 5_000, 1).await;
        store.truncate(&session, TABLE).await.unwrap();
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        load(&store, &session, 10, 2).await;
        let image = rig.data.snapshot();
        load(&store, &session, 3_000, 3).await;
        image
    });
    rig.sim.crash();
    rig.sim.restart();
    (rig, image)
}

#[test]
fn an_older_image_of_the_file_is_refused_with_what_the_log_needs_of_it() {
    for is_read_only in [true, false] {
        let (rig, image) = rig_and_image();
        let whole = rig.data.snapshot();
        rig.data.replace_with_snapshot(&image);
        let error = rig.run(fills(&rig, is_read_only)).unwrap_err();
        assert_eq!(error.number(), 1113, "{error}");
        assert!(error.to_string().contains("the store is older than the log"), "{error}");
        // The header alone is older: it is as if the rest were.
        rig.data.replace_with_snapshot(&whole);
        let pages = image_of(&rig, &image);
        rig.data.poke(0, &pages);
        let error = rig.run(fills(&rig, is_read_only)).unwrap_err();
        assert_eq!(error.number(), 1113, "{error}");
        // The file that belongs to it has all, though the refusals came before.
        rig.data.replace_with_snapshot(&whole);
        assert_eq!(rig.run(fills(&rig, is_read_only)).unwrap(), [0, 10, 3_000]);
    }
}

/// Both copies of the header in an image.
fn image_of(rig: &Rig, image: &cellar_io::sim::Snapshot) -> Vec<u8> {
    let disk: &SimDisk = &rig.data;
    let now = disk.snapshot();
    disk.replace_with_snapshot(image);
    let header = disk.peek(0, 2 * 8192);
    disk.replace_with_snapshot(&now);
    header
}
