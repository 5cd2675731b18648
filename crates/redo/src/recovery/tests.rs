//! What a recovery keeps in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, IoFuture};
use cellar_wait::{Kind, Waits};

use super::{OpenLog, REPAIRS_MAX, Recovery};
use crate::create::{CreateLog, NewGroup, create};
use crate::on_disk::DatabaseId;
use crate::on_disk::header::Quorum;
use crate::options::{Control, Medium, Options};

#[derive(Default)]
struct Kept(Mutex<Vec<u8>>);

impl Control for Kept {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async move { Ok(self.0.lock().unwrap().clone()) })
    }
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            *self.0.lock().unwrap() = bytes;
            Ok(())
        })
    }
}

const SIZE: u64 = 8 << 20;

/// A log on two media of two groups each, the files of a medium one after the other.
struct Machine {
    sim: Sim,
    disks: Vec<Arc<SimDisk>>,
    control: Arc<dyn Control>,
}

impl Machine {
    fn new() -> Machine {
        let sim = Sim::new(1);
        let options = SimDiskOptions { size: SIZE, ..SimDiskOptions::default() };
        let disks = (0..4).map(|number| sim.disk(&format!("disk{number}"), options.clone()));
        let (disks, control) = (disks.collect(), Arc::new(Kept::default()) as _);
        Machine { sim, disks, control }
    }

    fn media(&self) -> Vec<Medium> {
        let file = |at: usize| Arc::clone(&self.disks[at]) as Arc<dyn Device>;
        let medium = |number: usize| {
            let files = BTreeMap::from([(1, file(2 * number)), (2, file(2 * number + 1))]);
            Medium { name: format!("medium{number}"), files }
        };
        vec![medium(0), medium(1)]
    }

    async fn start(&self) -> Recovery {
        let log = OpenLog {
            env: self.sim.env(),
            session: Waits::new().session("redo", Kind::Background),
            control: Arc::clone(&self.control),
            media: self.media(),
            options: Options::default(),
            returning: Vec::new(),
            force: false,
        };
        Recovery::start(log).await.unwrap()
    }

    async fn create(&self) {
        let group = |number| NewGroup { number, size: SIZE };
        let log = CreateLog {
            database: DatabaseId(9),
            block_size: 512,
            quorum: Quorum::Auto,
            archiving: false,
            groups: vec![group(1), group(2)],
            media: self.media(),
        };
        create(&self.sim.env(), &self.control, log).await.unwrap();
    }
}

/// Blocks that a medium lacks are kept until they are written; who writes nothing keeps none.
#[test]
fn what_a_medium_lacks_does_not_pile_up() {
    let machine = Machine::new();
    machine.sim.run(async {
        machine.create().await;
        let (log, _) = machine.start().await.open().await.unwrap();
        let session = Waits::new().session("test", Kind::User);
        for number in 0..200u8 {
            log.append(&session, 0, 0, Bytes::from(vec![number; 50_000])).await.unwrap();
        }
        log.close().await.unwrap();
        for disk in &machine.disks[2..] {
            disk.poke(4096, &vec![0; SIZE as usize - 8192]);
        }
        for writes in [false, true] {
            let mut recovery = machine.start().await;
            if !writes {
                recovery = recovery.without_writes();
            }
            let (mut kept, mut records) = (0, 0);
            while recovery.next().await.unwrap().is_some() {
                kept = kept.max(recovery.walk.repairs.len());
                records += 1;
                let waiting = recovery.records.pop();
                assert!(waiting.is_none(), "records as long as these come one by one");
            }
            assert_eq!(records, 200);
            let most = if writes { 1..REPAIRS_MAX + 1 } else { 0..1 };
            assert!(most.contains(&kept), "{kept} blocks are kept, writes: {writes}");
        }
    });
}
