//! Old images of pages: there as long as a view sees them, and gone soon after, also where nobody commits.

use std::time::Duration;

use bytes::Bytes;
use cellar_heap::{Change, RowId, Store};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 1;

fn row(number: u64) -> Bytes {
    let mut bytes = vec![number as u8; 300];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

async fn update(store: &Store, session: &Session, id: RowId, number: u64) {
    let (row, gone, new) = (row(number), Vec::new(), Vec::new());
    let change = Change::Update { table: TABLE, id, row, gone, new };
    store.commit(session, vec![change]).await.unwrap();
}

#[test]
fn old_images_go_when_the_last_view_that_needs_them_ends() {
    for seed in 0..30 {
        let mut rng = Rng::stream(seed, 1);
        let rig = Rig::new(seed, 4 << 20, 1 << 20);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let (session, env) = (rig.session(), rig.sim.env());
            store.create_table(&session, TABLE).await.unwrap();
            let mut ids = Vec::new();
            for number in 0..60 {
                let change = Change::Insert { table: TABLE, row: row(number), keys: Vec::new() };
                ids.extend(store.commit(&session, vec![change]).await.unwrap().rows[0]);
            }
            let (mut views, mut now) = (Vec::new(), (0..60).collect::<Vec<u64>>());
            for round in 0..rng.within(20..=80) {
                if rng.one_in(10) {
                    views.push((store.view(), now.clone()));
                }
                let at = rng.below(60) as usize;
                now[at] = 1000 + round;
                update(&store, &session, ids[at], now[at]).await;
            }
            views.push((store.view(), now.clone()));
            update(&store, &session, ids[0], 5000).await;
            // From here on nobody commits.
            let soon = rig.options.checkpoint_after * 3;
            while !views.is_empty() {
                env.sleep(soon).await;
                assert!(store.kept_images() > 0, "seed {seed}: the last view needs one");
                let gone = rng.below(views.len() as u64) as usize;
                for (view, then) in &views {
                    for (id, number) in ids.iter().zip(then) {
                        let found = view.row(&session, TABLE, *id).await.unwrap();
                        assert_eq!(found, Some(row(*number)), "seed {seed}");
                    }
                }
                // The last one of all needs the image that the last commit replaced.
                let gone = if views.len() == 1 { 0 } else { gone.min(views.len() - 2) };
                drop(views.remove(gone));
            }
            env.sleep(soon + Duration::from_millis(1)).await;
            assert_eq!(store.kept_images(), 0, "seed {seed}");
        });
    }
}
