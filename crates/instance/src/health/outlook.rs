//! The outlook: what may be lost next, in words, from the state that the group is in now, never from
//! what it was designed to survive.

use cellar_diskgroup::Loss;
use cellar_storage::Mounted;
use cellar_storage::redo::Redo;

/// Names that are told one by one.
const NAMES_SHOWN: usize = 6;

/// `A`, `A or B`, `A, B or C`; of many the first ones.
fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        _ if names.len() > NAMES_SHOWN => {
            let shown = names[..NAMES_SHOWN].join(", ");
            format!("{shown} or one of {} more", names.len() - NAMES_SHOWN)
        }
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// What the loss of one more failure group leaves standing: device, file or nothing.
pub fn survives(mounted: &Mounted, redo: &Redo) -> &'static str {
    let losses = losses(mounted, redo);
    match losses.iter().any(|l| l.data || l.stops) {
        true => "nothing",
        false => mounted.survives(),
    }
}

/// Which failure groups may be lost now, and what the loss of the others would cost.
pub fn safe(mounted: &Mounted, redo: &Redo) -> String {
    words(mounted.survives(), &losses(mounted, redo))
}

/// What the loss of each failure group would cost, commits included.
pub fn losses(mounted: &Mounted, redo: &Redo) -> Vec<Loss> {
    let redo = redo.at_risk(mounted.group.name());
    let mut losses = mounted.group.losses();
    losses.iter_mut().for_each(|loss| loss.data |= redo.contains(&loss.failgroup));
    losses
}

fn words(made_for: &str, losses: &[Loss]) -> String {
    if made_for == "nothing" {
        return "one copy of everything: a disk that fails loses data".to_owned();
    }
    if losses.iter().all(Loss::is_harmless) {
        return match made_for {
            "device" => "any one failure group may be lost now".to_owned(),
            _ => "any one disk file may be lost now; they lie on one device".to_owned(),
        };
    }
    let named = |wanted: &dyn Fn(&Loss) -> bool| -> Vec<&str> {
        losses.iter().filter(|l| wanted(l)).map(|l| l.failgroup.as_str()).collect()
    };
    let harmless = named(&|l| l.is_harmless());
    let while_open = named(&|l| !l.data && !l.stops && l.unproven);
    let data = named(&|l| l.data && !l.single);
    let single = named(&|l| l.single);
    let stops = named(&|l| !l.data && l.stops);
    let mut parts = Vec::new();
    if !data.is_empty() {
        parts.push(format!("the loss of {} now loses data", either(&data)));
    }
    if !single.is_empty() {
        parts.push(format!("the loss of {} loses files that have one copy", either(&single)));
    }
    if !stops.is_empty() {
        let text = "leaves too little of the metadata: the group could not be opened";
        parts.push(format!("the loss of {} {text}", either(&stops)));
    }
    if !while_open.is_empty() {
        parts.push(format!(
            "{} may be lost while the database is open; lost while it is closed, the group \
             opens with that disk, or by MOUNT FORCE without it",
            either(&while_open)
        ));
    }
    match harmless.is_empty() {
        false => parts.push(format!("{} may be lost", either(&harmless))),
        true if while_open.is_empty() => parts.push("no disk may be lost".to_owned()),
        true => {}
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(failgroup: &str, [data, stops, unproven]: [bool; 3]) -> Loss {
        Loss { failgroup: failgroup.to_owned(), data, single: false, stops, unproven }
    }

    #[test]
    fn each_failure_group_is_told_by_what_its_loss_costs() {
        let well = [loss("A", [false; 3]), loss("B", [false; 3])];
        assert_eq!(words("device", &well), "any one failure group may be lost now");
        assert!(words("file", &well).contains("one device"));
        assert!(words("nothing", &well).contains("loses data"));
        let degraded = [
            loss("A", [true, false, false]),
            loss("B", [false; 3]),
            loss("C", [false, true, true]),
            loss("D", [false; 3]),
        ];
        assert_eq!(
            words("device", &degraded),
            "the loss of A now loses data; the loss of C leaves too little of the metadata: \
             the group could not be opened; B or D may be lost"
        );
        let one_copy =
            ["A", "B"].map(|name| Loss { single: true, ..loss(name, [true, false, false]) });
        assert_eq!(
            words("device", &[one_copy[0].clone(), one_copy[1].clone(), loss("C", [false; 3])]),
            "the loss of A or B loses files that have one copy; C may be lost"
        );
        let pair = [loss("A", [false, false, true]), loss("B", [false, false, true])];
        assert!(words("file", &pair).starts_with("A or B may be lost while the database is open"));
        let last = [loss("A", [true, true, true])];
        assert!(words("file", &last).ends_with("no disk may be lost"));
    }

    #[test]
    fn many_names_are_counted() {
        let names = ["A", "B", "C", "D", "E", "F", "G", "H"];
        assert_eq!(either(&names), "A, B, C, D, E, F or one of 2 more");
        assert_eq!(either(&names[..3]), "A, B or C");
    }
}
