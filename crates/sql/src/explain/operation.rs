//! Operators, in the standard terms of databases.

use datafusion::common::JoinType;

use crate::explain::facts::{Aggregate, FileScan, Join, Kind, Method};

/// What an operator does, on one line.
pub(crate) fn operation(kind: &Kind) -> String {
    match kind {
        Kind::Write { verb, target } => format!("{verb} {target}"),
        Kind::Sort { keys, fetch, by, .. } => {
            let keys = keys.join(", ");
            match (fetch, by.is_empty()) {
                (Some(fetch), true) => format!("top {fetch} by {keys}"),
                (Some(fetch), false) => format!("top {fetch} of each {} by {keys}", by.join(", ")),
                (None, _) => format!("sort by {keys}"),
            }
        }
        Kind::Limit { skip, fetch } => match (skip, fetch) {
            (0, Some(fetch)) => format!("limit {fetch}"),
            (skip, Some(fetch)) => format!("limit {fetch} after {skip}"),
            (skip, None) => format!("offset {skip}"),
        },
        Kind::Aggregate(aggregate) => aggregation(aggregate),
        Kind::Join(join) => match conditions(join) {
            Some(conditions) => format!("{} {conditions}", join_name(join)),
            None => join_name(join),
        },
        Kind::Filter { condition, .. } => format!("filter {condition}"),
        Kind::Window { calls, .. } => format!("window {}", calls.join(", ")),
        Kind::Union => "union all".to_owned(),
        Kind::Memory { name: Some(name) } => match is_view(name) {
            true => format!("view scan {name}"),
            false => format!("memory scan {name}"),
        },
        Kind::Memory { name: None } => "values".to_owned(),
        Kind::Generated { name } => format!("rows of {name}"),
        Kind::OneRow => "one row".to_owned(),
        Kind::Empty => "no rows".to_owned(),
        Kind::Cell(scan) => format!("cell scan {}", scan.table),
        Kind::Heap { table, index, conditions, aggregate, probed } => {
            let index = index.as_ref();
            let index = index.map(|(index, keys)| format!(" by index {index}: {keys}"));
            let asked = match conditions.is_empty() {
                true => String::new(),
                false => format!(" where {}", conditions.join(" and ")),
            };
            let summed = aggregate.as_ref().map(|of| format!(", summed up as stored: {of}"));
            let probed =
                probed.as_ref().map(|of| format!(", by index {of} if the join has few keys"));
            let (index, summed) = (index.unwrap_or_default(), summed.unwrap_or_default());
            format!("scan {table}{index}{asked}{summed}{}", probed.unwrap_or_default())
        }
        Kind::Files(scan) => files(scan),
        Kind::Subqueries => "scalar subqueries".to_owned(),
        Kind::Shared { of } => format!("result of {of}, computed once"),
        Kind::Recursive { name } => format!("recursive {name}"),
        Kind::Unnest => "unnest".to_owned(),
        Kind::Other { name } => name.clone(),
    }
}

fn is_view(name: &str) -> bool {
    name.starts_with("v$") || name.starts_with("cellar.")
}

fn aggregation(aggregate: &Aggregate) -> String {
    let (calls, keys) = (aggregate.calls.join(", "), aggregate.keys.join(", "));
    match (aggregate.calls.is_empty(), aggregate.keys.is_empty()) {
        (true, _) => format!("distinct {keys}"),
        (false, true) => format!("aggregate {calls}"),
        (false, false) => format!("group by {keys}: {calls}"),
    }
}

/// The name of a join: its method, and the side whose rows it keeps.
pub(crate) fn join_name(join: &Join) -> String {
    let is_cross = join.on.is_empty()
        && join.filter.is_none()
        && join.method == Method::NestedLoop
        && join.join_type == JoinType::Inner;
    if is_cross {
        return "cross join".to_owned();
    }
    let method = match join.method {
        Method::Hash => "hash",
        Method::NestedLoop => "nested loop",
        Method::Merge => "merge",
        Method::Range => "range",
    };
    let which = match join.join_type {
        JoinType::Inner => "",
        JoinType::Left => "left ",
        JoinType::Right => "right ",
        JoinType::Full => "full ",
        JoinType::LeftSemi => "left semi ",
        JoinType::RightSemi => "right semi ",
        JoinType::LeftAnti => "left anti ",
        JoinType::RightAnti => "right anti ",
        JoinType::LeftMark => "left mark ",
        JoinType::RightMark => "right mark ",
    };
    format!("{method} {which}join")
}

/// The conditions on pairs of rows.
pub(crate) fn conditions(join: &Join) -> Option<String> {
    let equal = if join.nulls_equal { "is not distinct from" } else { "=" };
    let pairs = join.on.iter().map(|(left, right)| format!("{left} {equal} {right}"));
    let all: Vec<String> = pairs.chain(join.filter.clone()).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn files(scan: &FileScan) -> String {
    let of = match (&scan.table, &scan.files[..]) {
        (Some(table), _) => table.clone(),
        (None, [file]) => file.clone(),
        (None, [file, ..]) => format!("{file} .."),
        (None, []) => String::new(),
    };
    let many = match scan.files.len() {
        1 => String::new(),
        many => format!(", {many} files"),
    };
    format!("file scan {of} ({}{many})", scan.format)
}
