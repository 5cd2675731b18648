//! The soundness check: all data can be read and is right, copies agree, checksums are known.

use cellar_diskgroup::DiskStatus;

use super::*;

/// Reads a whole file and compares it with the model.
pub async fn read_all(w: &World, id: u32, file: &File) {
    let (sectors, sector) = w.with(id, |f| (f.sectors(), f.sector));
    let step = (1 << 20) / sector;
    for first in (0..sectors).step_by(step as usize) {
        let count = step.min(sectors - first);
        read_some(w, id, file, first, count, true).await;
    }
}

/// A read, registered with the model until it ends or is dropped.
pub struct Reading<'a>(&'a World, u32, u32);

impl Reading<'_> {
    pub fn new(w: &World, id: u32, issued: u32) -> Reading<'_> {
        w.with(id, |f| f.begin_read(issued));
        Reading(w, id, issued)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // The file may be gone.
        if let Some(file) = self.0.files.borrow_mut().get_mut(&self.1) {
            file.end_read(self.2);
        }
    }
}

pub async fn read_some(w: &World, id: u32, file: &File, first: u32, count: u32, pin: bool) {
    let issued = w.tick();
    let sector = w.with(id, |f| f.sector);
    let at = u64::from(first) * u64::from(sector);
    let _reading = Reading::new(w, id, issued);
    match file.read_at(Io::FOREGROUND, at, (count * sector) as usize).await {
        Ok(bytes) => {
            let pin = (pin && w.is_settled(id)).then(|| w.tick());
            let checked = w.with(id, |f| f.check(&bytes, first, issued, pin));
            if let Err(what) = checked {
                panic!("read: {what}");
            }
        }
        Err(_) if w.may_be_gone(id) => {}
        Err(error) => panic!("read of file {id} at {at}: {error}"),
    }
}

/// Checks that all data can be read and is right, copies agree, checksums are known.
pub async fn verify(w: &World, group: &Group, look: bool) {
    let was_clean = w.clean.replace(false);
    if was_clean {
        assert_eq!(group.resync().dirty_regions, 0, "a clean dismount leaves nothing dirty");
    }
    settle_names(w, group);
    if look {
        let ids: Vec<(u32, u32)> = w.files.borrow().values().map(|f| (f.id, f.number)).collect();
        for (id, number) in ids {
            let file = group.open_number(number).expect("it is there");
            read_all(w, id, &file).await;
            // Unreadable data is not settled.
            if w.is_settled(id) {
                w.with(id, FileModel::settled);
            }
        }
        group_is_sound(w, group).await;
    }
}

pub async fn group_is_sound(w: &World, group: &Group) {
    while group.resync().bytes_left > 0 {
        group.check_running().expect("it runs");
        group.env().sleep(Duration::from_millis(20)).await;
    }
    group.check().expect("metadata holds together");
    nothing_was_corrupt(w, group);
    for checksums in [true, false] {
        let numbers: Vec<u32> = w
            .files
            .borrow()
            .values()
            .filter(|f| f.checksums == checksums)
            .map(|f| f.number)
            .collect();
        let mut found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validate");
        assert_eq!(found.pieces_differing, 0, "copies differ: {:?}", found.places);
        assert_eq!(found.checksums_wrong, 0, "wrong checksums: {:?}", found.places);
        if checksums && found.checksums_unknown > 0 {
            // A crash tore a checksum block: reading it causes its rebuild.
            group.env().sleep(Duration::from_secs(1)).await;
            found = group.validate(&numbers, Copies::All, &|_| {}).await.expect("validate");
        }
        assert_eq!(found.pieces_differing, 0, "copies differ: {:?}", found.places);
        assert_eq!(found.checksums_wrong, 0, "wrong checksums: {:?}", found.places);
        assert_eq!(found.dirty_pieces, 0, "resync is done");
        if !w.lost.get() {
            assert_eq!(found.unreadable_bytes, 0, "unreadable: {:?}", found.places);
            // A disk that failed while being dropped stays so until there is space for its data.
            let forced =
                group.disks().iter().any(|d| d.status == DiskStatus::Forcing && !d.in_sync);
            assert!(found.absent_bytes == 0 || forced, "absent: {}", found.absent_bytes);
        }
        if checksums {
            assert_eq!(found.checksums_unknown, 0, "unknown checksums: {:?}", found.places);
        }
    }
    nothing_was_corrupt(w, group);
}

/// Without rot, a wrong checksum or a repair is a bug that reads have hidden.
pub fn nothing_was_corrupt(w: &World, group: &Group) {
    if w.rotted.get() {
        return;
    }
    for disk in group.disks() {
        let count = |name: &str| disk.counters.get(name).copied().unwrap_or(0);
        let (wrong, repaired) = (count("checksum_errs"), count("repaired"));
        assert_eq!((wrong, repaired), (0, 0), "wrong checksums, repairs on {}", disk.name);
    }
}
