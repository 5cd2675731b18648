//! Several threads append and wait: what the simulation, with one thread, cannot show.

use std::sync::Arc;

use bytes::Bytes;
use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{Control, CreateLog, NewGroup, OpenLog, Options, Quorum, Recovery, create};
use cellar_wait::{Kind, Waits};

use crate::files::{FileControl, open_media};
use crate::shape::{Place, Shape, shapes};

/// Records that each of them appends.
const RECORDS: usize = 200;

/// Found by the kills: between the taking of a unit and its launch it was neither queued nor on its
/// way, and `wait_durable` said that nothing was appended there.
#[test]
fn what_was_appended_can_be_waited_for_at_once() {
    let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = Place { dir: dir.path().to_owned(), fast: None };
    let shape = Shape { blocks: 16 << 10, block_size: 4096, ..shapes().swap_remove(0) };
    let size = shape.file_size();
    for group in 1..=shape.groups {
        std::fs::write(place.file(0, group), vec![0; size as usize]).unwrap();
    }
    let runtime = Runtime::new(&RuntimeOptions { workers: 4, ..Default::default() }).unwrap();
    let (media, _) = open_media(&runtime, &place, &shape, &[0]).unwrap();
    let control: Arc<dyn Control> = Arc::new(FileControl(place.control()));
    let waits = Waits::new();
    let spec = CreateLog {
        database: DatabaseId(1),
        block_size: shape.block_size,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=shape.groups).map(|number| NewGroup { number, size }).collect(),
        media: media.clone(),
    };
    let opening = OpenLog {
        env: runtime.env(),
        session: waits.session("redo", Kind::Background),
        control: Arc::clone(&control),
        media,
        options: Options::default(),
        returning: Vec::new(),
        force: false,
    };
    runtime.block_on(async {
        create(&runtime.env(), &control, spec).await.unwrap();
        let (log, _) = Recovery::start(opening).await.unwrap().open().await.unwrap();
        let append = |number: usize| {
            let (log, session) = (log.clone(), waits.session("appender", Kind::User));
            tokio::spawn(async move {
                let body = Bytes::from(vec![7; 100_000]);
                for record in 0..RECORDS {
                    let done = log.append(&session, 0, 0, body.clone()).await?;
                    // Somebody else takes the unit meanwhile, now and then.
                    for _ in 0..(record * 7 + number) % 5 {
                        tokio::task::yield_now().await;
                    }
                    log.wait_durable(&session, done.end).await?;
                }
                Ok::<_, cellar_redo::Error>(())
            })
        };
        for task in (0..8).map(append).collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
    });
}
