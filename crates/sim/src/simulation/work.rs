//! The workload of a group: reads, writes, flushes, changes of size, files made and removed.

use super::*;

pub async fn write_some(w: &World, open: &Open, zero: bool) {
    let (sectors, sector) = w.with(open.id, |f| (f.sectors(), f.sector));
    if sectors == 0 {
        return;
    }
    w.asked();
    let first = w.below(sectors.into()) as u32;
    let most = w.load.write_max(w, sector);
    let count = (1 + w.below(most.into()) as u32).min(sectors - first);
    let durability = if w.below(4) == 0 { Durability::Durable } else { Durability::Cached };
    let (at, length) = (u64::from(first * sector), (count * sector) as usize);
    let id = w.tick();
    w.with(open.id, |f| f.begin(id, first, count, zero));
    w.say(format!(
        "write {id} file {} sectors {first}+{count} {durability:?} zero {zero}",
        open.id
    ));
    let result = if zero {
        open.file.discard(Io::SCAN, at, length as u64, Discard::Zero).await
    } else {
        let mut data = vec![0; length];
        for (s, chunk) in (first..).zip(data.chunks_exact_mut(sector as usize)) {
            stamp(chunk, open.id, s, id);
        }
        // At any byte, as a caller may.
        let mut data = Bytes::from(data);
        let cut = w.below(count.into()) as usize * sector as usize;
        let head = data.split_to(cut);
        open.file.write(Io::SCAN, at, vec![head, data], durability).await
    };
    match result {
        Err(error) if w.leaving.get() && is_stopped(&error) => {
            w.say(format!("write {id} refused"));
            return;
        }
        Err(_) if w.may_be_gone(open.id) => {
            w.say(format!("write {id}: its copy is gone"));
            return;
        }
        Err(error) => panic!("write {id} to file {}: {error}", open.id),
        Ok(()) => {}
    }
    let durable = durability == Durability::Durable && !zero;
    let now = w.tick();
    w.with(open.id, |f| f.end(id, now, durable));
    w.say(format!("write {id} done"));
}

/// Whether the group reported that it stopped.
fn is_stopped(error: &cellar_io::IoError) -> bool {
    error.kind == IoErrorKind::Gone { reason: cellar_diskgroup::STOPPED }
}

pub async fn flush(w: &World, open: &Open) {
    w.asked();
    let issued = w.tick();
    match open.file.flush(Io::COMMIT).await {
        Err(error) if w.leaving.get() && is_stopped(&error) => return,
        Err(_) if w.may_be_gone(open.id) => return,
        Err(error) => panic!("flush of file {}: {error}", open.id),
        Ok(()) => {}
    }
    w.with(open.id, |f| f.flushed(issued));
    w.say(format!("flush {issued} of file {} done", open.id));
}

pub async fn read_random(w: &World, open: &Open) {
    let sectors = w.with(open.id, |f| f.sectors());
    if sectors > 0 {
        w.asked();
        let first = w.below(sectors.into()) as u32;
        let count = (1 + w.below(w.load.read_max(w).into()) as u32).min(sectors - first);
        read_some(w, open.id, &open.file, first, count, false).await;
    }
}

/// Resizes a file, which nobody else uses if it may shrink.
pub async fn resize(w: &World, open: &Open, may_shrink: bool) {
    if open.busy.replace(true) {
        return;
    }
    w.asked();
    let (had, sector, old) = w.with(open.id, |f| (f.sectors(), f.sector, f.size));
    let mut size = w.below(w.load.file_max()) / 512 * 512;
    if !may_shrink {
        size = size.max(u64::from(had) * u64::from(sector));
    }
    let attributes = open.file.attributes();
    let au = w.shape.au_size;
    let sets = match attributes.striping {
        Striping::Coarse => size.div_ceil(au),
        Striping::Fine => size.div_ceil(au * 8) * 8,
    };
    let wanted = (sets * au / u64::from(sector)) as u32;
    w.with(open.id, |f| f.pending = Some((size, wanted)));
    w.say(format!("resize file {} from {old} to {size}", open.id));
    match open.file.set_size(size).await {
        Ok(()) => {
            w.say(format!("resize file {} done", open.id));
            let now = w.tick();
            w.with(open.id, |f| {
                f.pending = None;
                f.size = size;
                f.resize(wanted, now);
            });
        }
        Err(Error::NoSpace { .. }) => {
            w.say(format!("resize file {}: no space", open.id));
            w.with(open.id, |f| f.pending = None);
        }
        Err(error) => panic!("resize of file {}: {error}", open.id),
    }
    open.busy.set(false);
}

pub async fn create_file(w: &World, group: &Group) -> Option<Open> {
    let distinct = match w.shape.failgroups.len() {
        0 => w.shape.disks,
        n => n.min(4),
    };
    let spec = {
        let mut rng = w.rng.borrow_mut();
        let least = match w.plan.get() {
            _ if returns::are_on(w) => 1 + u64::from(!rng.one_in(5)),
            _ if rot::is_on(w) => 2,
            Some(_) if !rng.one_in(6) => 2,
            _ => 1,
        };
        let most = if w.shape.redundancy == Redundancy::External { 1 } else { distinct.min(3) };
        let copies = rng.within(least..=(most as u64).max(least)) as u8;
        FileSpec {
            copies: Some(copies),
            striping: Some(if rng.one_in(5) { Striping::Fine } else { Striping::Coarse }),
            unit: Some(if rng.coin() { 4096 } else { 8192 }),
            // Without checksums it is impossible to tell which of two copies rotted.
            checksums: Some(!rng.one_in(3) || rot::is_on(w)),
            ..FileSpec::new(FileType::Datafile)
        }
    };
    let knew = returns::know_of_the_loss(w, group);
    let file = match group.create_file(&spec).await {
        Ok(file) => file,
        Err(error) => panic!("create file: {error}"),
    };
    if knew {
        w.departed.set(true);
    }
    if file.number().is_multiple_of(2) {
        file.recovered_by_owner();
    }
    let id = w.next_file.get();
    w.next_file.set(id + 1);
    let (copies, checksums) = (spec.copies.unwrap_or(1), spec.checksums == Some(true));
    let mut model = FileModel::new(id, file.number(), copies, checksums, w.shape.sector);
    model.tears = w.bad.is_some();
    w.files.borrow_mut().insert(id, model);
    w.say(format!("file {id} is number {}, {spec:?}", file.number()));
    Some(Open { id, file, busy: Cell::new(false) })
}

/// Forgets files that have neither a name nor a handle.
pub fn drop_unnamed(w: &World, open: &RefCell<Vec<std::rc::Rc<Open>>>, keep: bool) {
    let named: Vec<u32> = w.names.borrow().values().flatten().copied().collect();
    let mut handles = open.borrow_mut();
    handles.retain(|o| keep || named.contains(&o.id));
    let held: Vec<u32> = handles.iter().map(|o| o.id).collect();
    w.files.borrow_mut().retain(|id, _| named.contains(id) || held.contains(id));
}

/// Several operations at once, then perhaps a pause.
pub async fn some_work(w: &World, group: &Group, open: &RefCell<Vec<std::rc::Rc<Open>>>) {
    let all: Vec<std::rc::Rc<Open>> = open.borrow().clone();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let alone = w.below(5) == 0;
    let count = if alone { 1 } else { 1 + w.below(6) };
    for _ in 0..count {
        if all.is_empty() {
            break;
        }
        let one = all[w.below(all.len() as u64) as usize].clone();
        let what = w.below(20);
        let patience = if w.below(10) == 0 { Some(w.below(4000)) } else { None };
        let step = async move {
            match what {
                0..=8 => write_some(w, &one, false).await,
                9 => write_some(w, &one, true).await,
                10..=12 => flush(w, &one).await,
                13..=16 => read_random(w, &one).await,
                _ => resize(w, &one, alone).await,
            }
        };
        steps.push(match patience {
            // The caller goes away; its request may or may not run.
            Some(micros) if what <= 16 => Box::pin(async move {
                let limit = w.rig.env().sleep(Duration::from_micros(micros));
                futures_util::future::select(Box::pin(step), limit).await;
            }),
            _ => Box::pin(step),
        });
    }
    if w.below(3) == 0 {
        steps.push(Box::pin(name_op(w, group, open)));
    }
    if returns::are_on(w) {
        steps.push(Box::pin(returns::alter(w, group)));
    }
    futures_util::future::join_all(steps).await;
    if all.len() < 4 && w.below(2) == 0 {
        w.asked();
        if let Some(new) = create_file(w, group).await {
            resize(w, &new, false).await;
            open.borrow_mut().push(std::rc::Rc::new(new));
        }
    }
    drop_unnamed(w, open, w.below(3) > 0);
    if w.below(w.rarely(8)) == 0 {
        let pause = [1, 50, 1500, 7000][w.below(4) as usize];
        group.env().sleep(Duration::from_millis(pause)).await;
    }
    if w.below(w.rarely(12)) == 0 && !returns::are_on(w) {
        w.lose_leg();
    }
    moves::alter(w, group).await;
    rot::alter(w, group).await;
    faults::alter(w, group).await;
}
