//! Names of files and directories.

use super::*;

/// Every name, as the group reports it, with the model's ids of files.
pub fn names_of(w: &World, group: &Group) -> Names {
    let numbers: BTreeMap<u32, u32> = w.files.borrow().values().map(|f| (f.number, f.id)).collect();
    let mut out = Names::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in group.list_dir(&dir).expect("it was listed") {
            let id = entry.file.map(|n| *numbers.get(&n).unwrap_or(&u32::MAX));
            if entry.file.is_none() {
                dirs.push(entry.path.clone());
            }
            out.insert(entry.path, id);
        }
    }
    out
}

/// Compares the group's names after a mount with the model, and adopts them.
pub fn settle_names(w: &World, group: &Group) {
    let found = names_of(w, group);
    let next = w.names_next.take();
    let now = w.names.borrow().clone();
    if found != now {
        let next = next.as_ref().unwrap_or(&now);
        assert_eq!(&found, next, "names are as they were, or as they would have been; was {now:?}");
    }
    *w.names.borrow_mut() = found;
    // Files without a name are gone.
    let named: Vec<u32> = w.names.borrow().values().flatten().copied().collect();
    w.files.borrow_mut().retain(|id, _| named.contains(id));
    assert_eq!(group.files().len(), w.files.borrow().len(), "no file without a name is left");
    for file in w.files.borrow_mut().values_mut() {
        let opened = group.open_number(file.number).expect("it has a name");
        let sectors = (opened.geometry().size / u64::from(file.sector)) as u32;
        let (size, had) = (opened.size(), file.sectors());
        match file.pending.take() {
            None => {
                assert_eq!((size, sectors), (file.size, had), "file {} kept its size", file.id);
            }
            Some((new, wanted)) => {
                assert!(size == file.size || size == new, "size {size} is neither");
                assert!(sectors == had || sectors == wanted, "{sectors} is neither");
                file.size = size;
            }
        }
        file.resize(sectors, w.tick());
    }
}

/// Changes names; the model knows the resulting names beforehand.
pub async fn change_names<F: Future<Output = Result<(), Error>>>(
    w: &World,
    group: &Group,
    what: String,
    next: Names,
    change: F,
) {
    w.asked();
    w.say(what.clone());
    let knew = returns::know_of_the_loss(w, group);
    *w.names_next.borrow_mut() = Some(next);
    if let Err(error) = change.await {
        panic!("{what}: {error}");
    }
    if knew {
        w.departed.set(true);
    }
    let next = w.names_next.take().expect("set before");
    *w.names.borrow_mut() = next;
    w.say(format!("{what}: done"));
}

/// Picks a path that no directory has.
pub fn pick_path(w: &World) -> String {
    const NAMES: [&str; 8] = ["a", "b", "c", "d1/x", "d1/y", "d2/x", "d1/d3/z", "d2/d4/z"];
    NAMES[w.below(NAMES.len() as u64) as usize].to_owned()
}

pub fn with_parents(names: &mut Names, path: &str) {
    let mut at = 0;
    while let Some(slash) = path[at..].find('/') {
        names.insert(path[..at + slash].to_owned(), None);
        at += slash + 1;
    }
}

pub async fn name_op(w: &World, group: &Group, open: &RefCell<Vec<std::rc::Rc<Open>>>) {
    let mut next = w.names.borrow().clone();
    match w.below(6) {
        0..=2 => {
            // Publish, perhaps replacing another file.
            let path = pick_path(w);
            let named: Vec<u32> = next.values().flatten().copied().collect();
            let free = open.borrow().iter().find(|o| !named.contains(&o.id)).cloned();
            let Some(file) = free else { return };
            let replace = next.contains_key(&path);
            with_parents(&mut next, &path);
            next.insert(path.clone(), Some(file.id));
            let what = format!("publish file {} as {path}, replace {replace}", file.id);
            let change = group.publish(&file.file, &path, replace);
            change_names(w, group, what, next, change).await;
        }
        3 => {
            let files: Vec<String> =
                next.iter().filter(|(_, f)| f.is_some()).map(|(p, _)| p.clone()).collect();
            if files.is_empty() {
                return;
            }
            let from = files[w.below(files.len() as u64) as usize].clone();
            let to = pick_path(w);
            if from == to {
                return;
            }
            let replace = next.contains_key(&to);
            let file = next.remove(&from).flatten();
            with_parents(&mut next, &to);
            next.insert(to.clone(), file);
            let what = format!("rename {from} to {to}, replace {replace}");
            let change = group.rename(&from, &to, replace);
            change_names(w, group, what, next, change).await;
        }
        4 => {
            let files: Vec<String> =
                next.iter().filter(|(_, f)| f.is_some()).map(|(p, _)| p.clone()).collect();
            if files.len() < 3 {
                return;
            }
            let path = files[w.below(files.len() as u64) as usize].clone();
            next.remove(&path);
            change_names(w, group, format!("remove {path}"), next, group.remove(&path)).await;
        }
        _ => {
            let path = ["d1", "d2", "d1/d3", "d5/d6"][w.below(4) as usize];
            if !next.contains_key(path) {
                with_parents(&mut next, &format!("{path}/"));
                let change = group.mkdir(path, true);
                change_names(w, group, format!("mkdir {path}"), next, change).await;
            }
        }
    }
}
