//! The quorum rule for a unit while media come and go: it is the one that a recovery would apply.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{EnvExt, Handle};
use cellar_redo::{Error, Log, Lsn, Medium, NewGroup};

use crate::held_writes::{Gate, Hold, gated};
use crate::support::{Rig, Shape};

/// A log on media with gates.
async fn open(rig: &Rig) -> (Log, Vec<Arc<Gate>>) {
    rig.create().await.unwrap();
    let (media, gates) = rig.media().into_iter().map(gated).unzip();
    let mut spec = rig.spec(media, false);
    // Nobody is given up for being late, unless a test wants it.
    spec.options.write_timeout = Duration::from_secs(60);
    spec.options.exposure_age = Duration::from_secs(60);
    spec.options.hold_up = Duration::from_secs(60);
    let (log, _, _) = rig.open_with(spec).await.unwrap();
    (log, gates)
}

/// Commits beside; everything below what it gives is durable.
fn commit(rig: &Rig, log: &Log, body: &'static [u8]) -> Handle<Lsn> {
    let (log, session) = (log.clone(), rig.session());
    rig.env().run("commit", async move {
        log.commit(&session, 0, 0, Bytes::from_static(body)).await.unwrap().end
    })
}

fn is_active(rig: &Rig, medium: usize) -> bool {
    rig.control_now().media[medium].state.is_active()
}

/// A medium that fails, with a commit that does without it, and is well again.
async fn fails_and_is_back(rig: &Rig, log: &Log, medium: usize) -> (Medium, Arc<Gate>) {
    let env = rig.env();
    rig.disks[medium].fail_writes(0..u64::MAX);
    assert!(commit(rig, log, b"without it").await.is_some());
    while is_active(rig, medium) {
        env.sleep(Duration::from_micros(50)).await;
    }
    rig.disks[medium].heal();
    // The heartbeat block is written.
    env.sleep(Duration::from_millis(50)).await;
    gated(rig.medium(medium))
}

/// The second unit had its quorum before the first, on a medium that was given up meanwhile.
#[test]
fn a_quorum_that_a_unit_had_once_is_not_enough() {
    let rig = Rig::new(51, Shape { media: 3, blocks: 64, ..Shape::default() });
    rig.run(async {
        let env = rig.env();
        let (log, gates) = open(&rig).await;
        gates.iter().for_each(|gate| gate.hold(Hold::Blocks));
        let first = commit(&rig, &log, b"first");
        gates[2].until(&env, 1).await;
        let second = commit(&rig, &log, b"second");
        gates[2].until(&env, 2).await;
        gates[0].pass(1);
        gates[1].pass(1);
        env.sleep(Duration::from_millis(5)).await;
        gates[0].fail(0);
        while is_active(&rig, 0) {
            env.sleep(Duration::from_micros(50)).await;
        }
        gates[1].pass(0);
        gates[2].pass(0);
        let first = first.await.unwrap();
        env.sleep(Duration::from_millis(20)).await;
        assert_eq!(log.durable_lsn(), first, "the second is on one of the two that are left");
        gates[2].pass(0);
        assert!(second.await.is_some());
    })
    .unwrap();
}

/// A medium that comes to count while a unit is in flight: one was enough, and then two are needed.
#[test]
fn a_medium_that_joins_counts_for_units_that_are_on_their_way() {
    let rig = Rig::new(52, Shape { media: 2, blocks: 64, ..Shape::default() });
    rig.run(async {
        let env = rig.env();
        let (log, gates) = open(&rig).await;
        let (medium, gate) = fails_and_is_back(&rig, &log, 1).await;
        gate.hold(Hold::Copies);
        let other = log.clone();
        let back = env.run("return", async move { other.return_medium(medium).await });
        gate.until(&env, 1).await;
        // What comes now is on its way to both while the one catches up.
        gates[0].hold(Hold::Blocks);
        gate.hold(Hold::Blocks);
        let first = commit(&rig, &log, b"first");
        gate.until(&env, 2).await;
        let second = commit(&rig, &log, b"second");
        gate.until(&env, 3).await;
        gates[0].pass(1);
        env.sleep(Duration::from_millis(5)).await;
        gate.pass(0);
        assert!(back.await.unwrap().is_ok());
        assert!(is_active(&rig, 1));
        gates[0].pass(0);
        gate.pass(0);
        let first = first.await.unwrap();
        env.sleep(Duration::from_millis(20)).await;
        assert_eq!(log.durable_lsn(), first, "the second is on one of two");
        gate.pass(0);
        assert!(second.await.is_some());
    })
    .unwrap();
}

/// While the failure of one medium is being written down another fails: the control data that a crash
/// would leave call that one active.
#[test]
fn a_second_failure_counts_only_when_the_first_is_written_down() {
    let rig = Rig::new(53, Shape { media: 3, blocks: 64, ..Shape::default() });
    rig.run(async {
        let env = rig.env();
        let (log, gates) = open(&rig).await;
        gates.iter().for_each(|gate| gate.hold(Hold::Blocks));
        let first = commit(&rig, &log, b"first");
        gates[2].until(&env, 1).await;
        let second = commit(&rig, &log, b"second");
        gates[2].until(&env, 2).await;
        gates[0].pass(0);
        env.sleep(Duration::from_millis(5)).await;
        // Headers of the first failure wait on the second medium.
        gates[1].hold(Hold::Headers);
        gates[0].fail(0);
        gates[1].until(&env, 3).await;
        assert!(!is_active(&rig, 0) && is_active(&rig, 1));
        gates[1].fail(0);
        gates[2].pass(0);
        assert!(first.await.is_some());
        assert!(!is_active(&rig, 1), "acknowledged on one medium of the two that count");
        gates[2].pass(0);
        assert!(second.await.is_some());
    })
    .unwrap();
}

/// While it is being written down that a medium counts, it fails, and another: a crash may leave control
/// data that know it as failed.
#[test]
fn a_medium_that_fails_while_it_joins_counts_for_neither_rule() {
    let rig = Rig::new(56, Shape { media: 3, blocks: 64, ..Shape::default() });
    rig.run(async {
        let env = rig.env();
        let (log, gates) = open(&rig).await;
        let (medium, gate) = fails_and_is_back(&rig, &log, 2).await;
        gate.hold(Hold::Copies);
        let other = log.clone();
        let back = env.run("return", async move { other.return_medium(medium).await });
        gate.until(&env, 1).await;
        for gate in [&gates[0], &gates[1], &gate] {
            gate.hold(Hold::Blocks);
        }
        let first = commit(&rig, &log, b"first");
        gate.until(&env, 2).await;
        let second = commit(&rig, &log, b"second");
        gate.until(&env, 3).await;
        rig.control_disk.hang();
        gate.pass(0);
        env.sleep(Duration::from_millis(20)).await;
        let before = log.durable_lsn();
        gate.pass(0);
        gates[1].pass(0);
        env.sleep(Duration::from_millis(5)).await;
        gate.fail(0);
        gates[0].fail(0);
        env.sleep(Duration::from_millis(20)).await;
        assert_eq!(log.durable_lsn(), before, "of the two that count for sure one has it");
        rig.control_disk.unhang();
        assert!(first.await.is_some());
        assert!(is_active(&rig, 2), "now the control data know it, and two of three have it");
        assert!(back.await.unwrap().is_err());
        gates[1].pass(0);
        assert!(second.await.is_some());
    })
    .unwrap();
}

#[test]
fn whoever_has_a_medium_join_is_told_when_it_is_given_up() {
    let rig = Rig::new(54, Shape { media: 2, blocks: 64, ..Shape::default() });
    rig.run(async {
        let env = rig.env();
        let (log, _) = open(&rig).await;
        let (medium, gate) = fails_and_is_back(&rig, &log, 1).await;
        gate.hold(Hold::Blocks);
        let other = log.clone();
        let back = env.run("return", async move { other.return_medium(medium).await });
        // It owes what was acknowledged without it, so that it does not count yet.
        while gate.waiting() == 0 {
            assert!(commit(&rig, &log, b"more").await.is_some());
        }
        env.sleep(Duration::from_secs(1)).await;
        gate.fail(0);
        let lost = back.await.unwrap();
        assert!(matches!(lost, Err(Error::MediumLost { .. })), "{lost:?}");
        assert!(commit(&rig, &log, b"and on").await.is_some());
    })
    .unwrap();
}

#[test]
fn a_medium_that_gets_its_headers_is_not_dropped() {
    let rig = Rig::new(55, Shape { media: 2, blocks: 64, ..Shape::default() });
    rig.run(async {
        let env = rig.env();
        rig.create().await.unwrap();
        let (log, _, _) = rig.open().await.unwrap();
        log.drop_medium("disk1").await.unwrap();
        let (medium, gate) = gated(rig.medium(1));
        gate.hold(Hold::Headers);
        let other = log.clone();
        let added = env.run("add", async move { other.add_medium(medium).await });
        gate.until(&env, 1).await;
        let dropped = log.drop_medium("disk1").await;
        assert!(matches!(dropped, Err(Error::MediumBusy { .. })), "{dropped:?}");
        gate.hold(Hold::Nothing);
        gate.pass(0);
        assert!(added.await.unwrap().is_ok());
        assert!(commit(&rig, &log, b"on both").await.is_some());
        log.drop_medium("disk1").await.unwrap();
        assert!(commit(&rig, &log, b"on one").await.is_some());
        // Groups come and go as before.
        let size = rig.shape.file_size();
        let files = rig.medium(0).files;
        let file = Arc::clone(&files[&4]);
        let one = [("disk0".to_owned(), file)].into_iter().collect();
        log.add_group(NewGroup { number: 4, size }, one).await.unwrap();
        log.drop_group(4).await.unwrap();
    })
    .unwrap();
}
