//! Detail lines of an EXPLAIN, below the tree: what scans filter and read, what is left and why.

use cellar_cell::Totals;

use crate::explain::facts::{
    Aggregate, CellScan, FileScan, FileTotals, Kind, Narrower, Narrowing, Operator,
};
use crate::explain::numbers::{bytes, count, percent};
use crate::explain::operation::{conditions, operation};

/// A detail: one line, or several if it is long.
pub(crate) struct Detail(pub String);

/// The most files that are named; beyond that, their number.
const NAMED: usize = 3;

/// The details of an operator; `is_cut`: its line is truncated.
pub(crate) fn details(operator: &Operator, is_cut: bool) -> Vec<Detail> {
    let mut out = Vec::new();
    let mut add = |text: String| out.push(Detail(text));
    match &operator.kind {
        Kind::Cell(scan) => cell(scan, &mut add),
        Kind::Files(scan) => files(scan, &mut add),
        kind => {
            if is_cut {
                add(whole(kind));
            }
            match kind {
                Kind::Aggregate(aggregate) => grouped(aggregate, &mut add),
                Kind::Join(join) if join.null_aware => {
                    add("not in: a null among the keys leaves no row".to_owned());
                }
                Kind::Sort { sorted, .. } if *sorted > 0 => {
                    add(format!("rows come in order of the first {sorted} already"));
                }
                Kind::Filter { fetch: Some(fetch), .. } => add(format!("ends at {fetch} rows")),
                Kind::Window { by, order, .. } => {
                    if !by.is_empty() {
                        add(format!("partition by {}", by.join(", ")));
                    }
                    if !order.is_empty() {
                        add(format!("order by {}", order.join(", ")));
                    }
                }
                _ => {}
            }
        }
    }
    out
}

/// The full text for which its line has no room, after the word that details begin with.
fn whole(kind: &Kind) -> String {
    match kind {
        Kind::Sort { keys, by, .. } if by.is_empty() => format!("by {}", keys.join(", ")),
        Kind::Aggregate(aggregate) => {
            let (calls, keys) = (aggregate.calls.join(", "), aggregate.keys.join(", "));
            match (aggregate.calls.is_empty(), aggregate.keys.is_empty()) {
                (true, _) => format!("by {keys}"),
                (false, true) => calls,
                (false, false) => format!("by {keys}: {calls}"),
            }
        }
        Kind::Join(join) => conditions(join).unwrap_or_else(|| operation(kind)),
        Kind::Filter { condition, .. } => condition.clone(),
        Kind::Window { calls, .. } => calls.join(", "),
        kind => operation(kind),
    }
}

fn grouped(aggregate: &Aggregate, add: &mut impl FnMut(String)) {
    if aggregate.sets > 0 {
        add(format!("{} sets of keys", aggregate.sets));
    }
    if let Some(reason) = &aggregate.reason {
        add(format!("not in the cell: {reason}"));
    }
}

fn cell(scan: &CellScan, add: &mut impl FnMut(String)) {
    for conjunct in &scan.conjuncts {
        match &conjunct.residual {
            None => add(format!("filter {}", conjunct.text)),
            Some(reason) => {
                add(format!("residual {}", conjunct.text));
                add(format!("because {reason}"));
            }
        }
    }
    narrowed(&scan.narrowing, scan.totals.as_ref(), add);
    if let Some((calls, keys)) = &scan.aggregate {
        let by = if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(", ")) };
        match calls.is_empty() {
            true => add(format!("distinct {}", keys.join(", "))),
            false => add(format!("aggregate {}{by}", calls.join(", "))),
        }
    }
    match &scan.first {
        Some((column, _)) if scan.ordered => {
            add(format!("in order of {column}, so without a sort"))
        }
        Some((column, true)) => add(format!("row groups with the greatest {column} first")),
        Some((column, false)) => add(format!("row groups with the least {column} first")),
        None => {}
    }
    if let Some(fetch) = scan.fetch {
        add(format!("ends at {fetch} rows"));
    }
    match &scan.totals {
        Some(totals) => did(scan, totals, add),
        None => {
            let (all, left) = (scan.row_groups, scan.row_groups_left);
            let pruned = match all - left {
                0 => String::new(),
                pruned => format!(": {pruned} pruned by the storage index"),
            };
            add(format!("read {left} of {all} row groups{pruned}"));
        }
    }
    add(match scan.columns.is_empty() {
        true => "columns: none".to_owned(),
        false => format!("columns {}", scan.columns.join(" ")),
    });
}

/// The filters that become known while the plan runs, and the rows that they left.
fn narrowed(narrowing: &[Narrowing], totals: Option<&Totals>, add: &mut impl FnMut(String)) {
    let left = totals.filter(|totals| totals.live_rows > 0).map(|totals| {
        let left = totals.live_rows - totals.live_dropped_rows.min(totals.live_rows);
        format!("left {} of {} rows", percent(left, totals.live_rows), count(totals.live_rows))
    });
    for one in narrowing {
        let columns = one.columns.join(", ");
        let text = match one.by {
            Some(Narrower::Join(id)) => format!("filter {columns} in the keys of {id}"),
            Some(Narrower::Top(id)) => format!("filter {columns} within the top of {id}"),
            Some(Narrower::Aggregate(id)) => format!("filter {columns} beyond what {id} has"),
            None => format!("filter {columns} as known at run time"),
        };
        add(match &left {
            Some(left) if narrowing.len() == 1 => format!("{text}: {left}"),
            _ => text,
        });
    }
    if let Some(left) = left.filter(|_| narrowing.len() > 1) {
        add(format!("these filters at run time {left}"));
    }
}

/// What a cell scan did.
fn did(scan: &CellScan, totals: &Totals, add: &mut impl FnMut(String)) {
    let by_live = totals.live_pruned_row_groups;
    let by_index = totals.pruned_row_groups - by_live.min(totals.pruned_row_groups);
    let looked_at = totals.row_groups - totals.pruned_row_groups - totals.header_row_groups;
    let mut rest = Vec::new();
    if by_index > 0 {
        rest.push(format!("{by_index} pruned by the storage index"));
    }
    if by_live > 0 {
        rest.push(format!("{by_live} pruned by filters known at run time"));
    }
    if totals.header_row_groups > 0 {
        rest.push(format!("{} answered by their headers", totals.header_row_groups));
    }
    if totals.filtered_row_groups > 0 {
        rest.push(format!("{} had no row that passed", totals.filtered_row_groups));
    }
    let rest = if rest.is_empty() { String::new() } else { format!(": {}", rest.join(", ")) };
    add(format!("read {looked_at} of {} row groups{rest}", totals.row_groups));
    let (disk, cache) = (bytes(totals.disk_bytes), bytes(totals.cache_bytes));
    add(format!("read {disk} from disks, {cache} from the cell's cache"));
    let what = if scan.aggregate.is_some() { "groups" } else { "rows" };
    let returned = (count(totals.returned_rows), bytes(totals.returned_bytes));
    add(format!("returned {} {what}, {}", returned.0, returned.1));
}

fn files(scan: &FileScan, add: &mut impl FnMut(String)) {
    let named: Vec<&str> = scan.files.iter().take(NAMED).map(String::as_str).collect();
    match scan.files.len() {
        0 => add("no files".to_owned()),
        many if many > NAMED => add(format!("{} .. {many} files", named.join(" "))),
        _ => add(named.join(" ")),
    }
    for conjunct in &scan.conjuncts {
        add(format!("filter {conjunct}"));
    }
    narrowed(&scan.narrowing, None, add);
    if let Some(fetch) = scan.fetch {
        add(format!("ends at {fetch} rows"));
    }
    if let Some(totals) = &scan.totals {
        did_in_files(totals, add);
    }
    add(match scan.columns.is_empty() {
        true => "columns: none".to_owned(),
        false => format!("columns {}", scan.columns.join(" ")),
    });
}

fn did_in_files(totals: &FileTotals, add: &mut impl FnMut(String)) {
    if totals.files_pruned > 0 {
        add(format!("{} files pruned by their statistics", totals.files_pruned));
    }
    if let Some((all, by_statistics)) = totals.row_groups {
        let pruned = by_statistics + totals.by_bloom + totals.by_narrowing;
        let mut by = Vec::new();
        for (number, whom) in [
            (by_statistics, "statistics"),
            (totals.by_bloom, "Bloom filters"),
            (totals.by_narrowing, "filters known at run time"),
        ] {
            if number > 0 {
                by.push(format!("{number} pruned by {whom}"));
            }
        }
        let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
        add(format!("read {} of {all} row groups{by}", all - pruned.min(all)));
    }
    if totals.rows_by_page_index > 0 {
        add(format!("{} rows pruned by the page index", count(totals.rows_by_page_index)));
    }
    if let Some(rows) = totals.rows_pruned.filter(|rows| *rows > 0) {
        add(format!("{} rows filtered as they were decoded", count(rows)));
    }
    if let Some(read) = totals.bytes {
        add(format!("read {}", bytes(read)));
    }
}
