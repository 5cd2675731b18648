//! The end of a mount: writes in flight at the dismount, and the removal of every file.

use super::*;

/// Work that a dismount does not wait for.
pub fn leftovers<'a>(w: &'a World, open: &RefCell<Vec<std::rc::Rc<Open>>>) -> Vec<Step<'a>> {
    let all: Vec<std::rc::Rc<Open>> = open.borrow().clone();
    let mut steps: Vec<Step<'_>> = Vec::new();
    if all.is_empty() || w.below(2) == 0 {
        return steps;
    }
    for _ in 0..1 + w.below(6) {
        let one = all[w.below(all.len() as u64) as usize].clone();
        steps.push(Box::pin(async move {
            w.rig.env().sleep(Duration::from_micros(w.below(20_000))).await;
            for _ in 0..1 + w.below(4) {
                match w.below(8) {
                    0 => flush(w, &one).await,
                    what => write_some(w, &one, what == 1).await,
                }
            }
        }));
    }
    steps
}

/// Deletes every file; all space must be freed.
pub async fn everything_goes(w: &World, group: &Group, open: &RefCell<Vec<std::rc::Rc<Open>>>) {
    open.borrow_mut().clear();
    let paths: Vec<String> =
        w.names.borrow().iter().filter(|(_, f)| f.is_some()).map(|(p, _)| p.clone()).collect();
    for path in paths {
        group.remove(&path).await.expect("it is there");
    }
    // A hanging disk keeps the metadata log waiting for half a minute.
    group.env().sleep(Duration::from_secs(40)).await;
    assert!(group.files().is_empty(), "no file is left: {:?}", group.files());
    for disk in group.disks() {
        assert_eq!(disk.free_mb, disk.total_mb, "all room of {} came back", disk.name);
    }
    w.files.borrow_mut().clear();
    w.names.borrow_mut().retain(|_, f| f.is_none());
}
