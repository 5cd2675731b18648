//! Rot, lost and misdirected writes on one disk, and the scrub that repairs them; and a check that a scrub
//! during all other activity finds nothing if nothing is wrong.

use cellar_diskgroup::{ScrubPower, ScrubResult, ScrubSpec};

use super::moves::{Mode, Moves};
use super::*;

/// The offset of the first AU.
const AUS: u64 = 8 << 20;

fn on(w: &World) -> Option<&Moves> {
    w.moves.as_ref().filter(|moves| moves.mode == Mode::Rot)
}

/// Whether disks rot in this run.
pub fn is_on(w: &World) -> bool {
    w.moves.as_ref().is_some_and(|moves| moves.mode == Mode::Rot || moves.mode.is_hostile())
}

/// At the start of a mount: perhaps a disk rots, and the rot is repaired before anything is written.
/// A crash may interrupt the scrub, which then continues in the next mount.
pub async fn begin(w: &World, group: &Group) {
    let Some(moves) = on(w) else { return };
    if !w.rotten.get() {
        if moves.below(2) == 0 {
            return;
        }
        while group.resync().bytes_left > 0 {
            group.env().sleep(Duration::from_millis(20)).await;
        }
        // Rot in clean regions is detected by checksums.
        group.env().sleep(Duration::from_secs(15)).await;
        w.rotten.set(true);
        w.rotted.set(true);
        for _ in 0..1 + moves.below(12) {
            rot(w, moves);
        }
    }
    let file = w.files.borrow().values().map(|f| (f.id, f.number)).next();
    let reads = async {
        // Concurrent readers are not affected.
        for _ in 0..moves.below(3) {
            let Some((id, number)) = file else { break };
            // It is not certain yet whether the file has its name.
            let Ok(file) = group.open_number(number) else { break };
            read_all(w, id, &file).await;
        }
    };
    let (result, ()) = futures_util::future::join(scrub(w, moves, group), reads).await;
    w.rotten.set(false);
    assert_eq!(result.found.left, 0, "everything has another copy: {:?}", result.found);
    w.count(|s| s.mended += result.found.repaired);
    damaged_blocks::settle(w);
    w.say(format!("scrubbed: {:?}", result.found.faults));
}

/// Rots the disk in one of several ways.
fn rot(w: &World, moves: &Moves) {
    // The proof of the newest history must not be lost together with the power.
    let from = if w.crashing.get() { AUS + 2 * w.shape.au_size } else { 0 };
    rot_from(w, moves, from);
}

/// Rots the disk in one of the ways of `rot`, after the given place.
pub fn rot_from(w: &World, moves: &Moves, from: u64) {
    let disk = &w.rig.disks[w.rotting.get()];
    let size = disk.geometry().size;
    let at = from + moves.below((size - from) / 4096) * 4096;
    let length = (4096 << moves.below(5)).min(size - at);
    let before = disk.peek(at, length);
    let how = moves.below(4);
    match how {
        0 => disk.fail_reads_until_written(at..at + length),
        1 => disk.corrupt(at, length),
        2 => {
            let other = from + moves.below((size - from) / 4096) * 4096;
            let bytes = disk.peek(other, length.min(size - other));
            disk.poke(at, &bytes[..(size - at).min(bytes.len() as u64) as usize]);
        }
        _ => disk.poke(at, &vec![0; length as usize]),
    }
    let fault = if how == 0 { Fault::Latent } else { Fault::Rot };
    damaged_blocks::note(w, fault, w.rotting.get(), at, &before);
    w.say(format!("disk {} rots at {at} +{length}", w.rotting.get()));
}

pub async fn scrub(w: &World, moves: &Moves, group: &Group) -> ScrubResult {
    let powers = [ScrubPower::Auto, ScrubPower::High, ScrubPower::Max];
    let power = powers[moves.below(3) as usize];
    match group.scrub(ScrubSpec { power, ..ScrubSpec::default() }).await {
        Ok(()) => w.say(format!("scrub {power:?}")),
        Err(Error::ScrubUnderWay { .. }) => w.say("the scrub goes on".into()),
        Err(error) => panic!("scrub: {error}"),
    }
    w.count(|s| s.scrubs += 1);
    let result = group.wait_scrubbed().await.expect("it runs");
    result.expect("it came to its end")
}

/// During other work: writes are lost or misdirected if no crash comes; otherwise a scrub runs
/// that must find nothing, even during moves and returns.
pub async fn alter(w: &World, group: &Group) {
    let scrubs = |m: &&Moves| matches!(m.mode, Mode::Rot | Mode::ReturnAndMove | Mode::ComeAndGo);
    let Some(moves) = w.moves.as_ref().filter(scrubs) else { return };
    if moves.below(w.hardly_ever(3)) > 0 {
        return;
    }
    w.asked();
    if w.crashing.get() || moves.mode != Mode::Rot || moves.below(3) == 0 {
        if moves.below(4) == 0 {
            group.stop_scrub().await.expect("stopped");
        }
        let spec = ScrubSpec {
            power: ScrubPower::Max,
            force: moves.below(2) == 0,
            ..ScrubSpec::default()
        };
        match group.scrub(spec).await {
            Ok(()) => w.count(|s| s.scrubs += 1),
            Err(Error::ScrubUnderWay { .. } | Error::NoSpace { .. }) => {}
            Err(error) => panic!("scrub: {error}"),
        }
        return;
    }
    let disk = &w.rig.disks[w.rotting.get()];
    w.rotten.set(true);
    w.rotted.set(true);
    match moves.below(3) {
        0 => disk.lose_next_write(),
        1 => disk.misdirect_next_write(moves.below(disk.geometry().size / 4096) * 4096),
        _ => disk.misdirect_next_read(moves.below(disk.geometry().size / 4096) * 4096),
    }
}

/// At the end of a mount: only injected damage is found, and it is repaired.
pub async fn end(w: &World, group: &Group) {
    if let Some(last) = group.last_scrub().filter(|_| !w.rotted.get()) {
        let wrong = last.found.wrong();
        // A crash may tear a checksum block, and blocks that are not read are not torn again.
        let torn = if w.stats.get().crashes > 0 { wrong.own } else { 0 };
        assert_eq!(wrong.sum(), torn, "nothing rots: {:?}", last.found);
        assert_eq!(last.found.left, 0, "{:?}", last.found);
    }
    let Some(moves) = on(w) else { return };
    if group.scrubbing().is_some() {
        let result = group.wait_scrubbed().await.expect("it runs").expect("it came to its end");
        let wrong = result.found.wrong();
        let of_files = wrong.checksum + wrong.unreadable + wrong.differs;
        assert!(w.rotten.get() || of_files == 0, "nothing rots: {:?}", result.found);
    }
    if !w.rotten.get() {
        return;
    }
    damaged_blocks::heal(w, w.rotting.get());
    let result = scrub(w, moves, group).await;
    assert_eq!(result.found.left, 0, "everything has another copy: {:?}", result.found);
    w.count(|s| s.mended += result.found.repaired);
    damaged_blocks::settle(w);
    w.rotten.set(false);
}
