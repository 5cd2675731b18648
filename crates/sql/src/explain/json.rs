//! A plan for programs: in the shape of PostgreSQL's, with its names where the meaning is the same.

use datafusion::common::JoinType;
use serde_json::{Map, Value, json};

use crate::explain::facts::{
    Aggregate, CellScan, FileScan, Join, Kind, Method, Narrower, Narrowing, Operator, Plan,
};
use crate::explain::operation::operation;
use crate::explain::text::{Details, work};

type Object = Map<String, Value>;

/// The document: a list of one plan.
pub(crate) fn document(plan: &Plan, told: Details) -> Value {
    let mut out = Object::new();
    out.insert("Plan".to_owned(), node(&plan.root, told));
    if let Some(run) = plan.run.filter(|_| told.summary) {
        let ms = |time: std::time::Duration| json!(time.as_secs_f64() * 1e3);
        out.insert("Planning Time".to_owned(), ms(run.planning));
        out.insert("Execution Time".to_owned(), ms(run.whole.saturating_sub(run.planning)));
        out.insert("Peak Memory Bytes".to_owned(), json!(run.memory));
        if told.timing {
            let work = work(&plan.root.lines()).into_iter();
            let work = work.map(|(what, nanos)| (what.to_owned(), json!(nanos as f64 / 1e6)));
            out.insert("Work".to_owned(), Value::Object(work.collect()));
        }
    }
    json!([out])
}

fn node(operator: &Operator, told: Details) -> Value {
    let mut out = Object::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            out.insert(name.to_owned(), value);
        }
    };
    put("Node Type", json!(node_type(&operator.kind)));
    put("Id", json!(operator.id));
    put("Operation", json!(operation(&operator.kind)));
    if told.costs {
        put("Plan Rows", json!(operator.estimated));
    }
    if let Some(actual) = operator.actual {
        put("Executed", json!(actual.ran));
        put("Actual Rows", json!(actual.rows));
        if told.timing {
            put("Own Time", json!(actual.nanos as f64 / 1e6));
        }
        put("Memory Bytes", json!(actual.memory));
        put("Spilled Bytes", json!(actual.spilled));
    }
    facts(&operator.kind, &mut put);
    let inputs: Vec<Value> = operator.inputs.iter().map(|input| node(input, told)).collect();
    if !inputs.is_empty() {
        put("Plans", Value::Array(inputs));
    }
    Value::Object(out)
}

fn node_type(kind: &Kind) -> &'static str {
    match kind {
        Kind::Write { .. } => "ModifyTable",
        Kind::Sort { fetch: None, .. } => "Sort",
        Kind::Sort { .. } => "Top N",
        Kind::Limit { .. } => "Limit",
        Kind::Aggregate(aggregate) if aggregate.calls.is_empty() => "Unique",
        Kind::Aggregate(_) => "Aggregate",
        Kind::Join(join) => match join.method {
            Method::Hash => "Hash Join",
            Method::NestedLoop => "Nested Loop",
            Method::Merge => "Merge Join",
            Method::Range => "Range Join",
        },
        Kind::Filter { .. } => "Filter",
        Kind::Window { .. } => "WindowAgg",
        Kind::Union => "Append",
        Kind::Memory { name: Some(_) } => "Memory Scan",
        Kind::Memory { name: None } => "Values Scan",
        Kind::Generated { .. } => "Function Scan",
        Kind::OneRow | Kind::Empty => "Result",
        Kind::Cell(_) => "Cell Scan",
        Kind::Files(_) => "File Scan",
        Kind::Subqueries => "Scalar Subqueries",
        Kind::Shared { .. } => "Shared Result",
        Kind::Recursive { .. } => "Recursive Union",
        Kind::Unnest => "ProjectSet",
        Kind::Heap { index: None, .. } => "Heap Scan",
        Kind::Heap { index: Some(_), .. } => "Index Scan",
        Kind::Other { .. } => "Other",
    }
}

fn facts(kind: &Kind, put: &mut impl FnMut(&str, Value)) {
    match kind {
        Kind::Sort { keys, fetch, sorted, by } => {
            put("Sort Key", json!(keys));
            put("Rows Kept", json!(fetch));
            if *sorted > 0 {
                put("Presorted Keys", json!(sorted));
            }
            if !by.is_empty() {
                put("Partition Key", json!(by));
            }
        }
        Kind::Limit { skip, fetch } => {
            put("Limit", json!(fetch));
            put("Offset", json!(skip));
        }
        Kind::Aggregate(aggregate) => aggregation(aggregate, put),
        Kind::Join(join) => joined(join, put),
        Kind::Filter { condition, fetch } => {
            put("Filter", json!(condition));
            put("Rows Wanted", json!(fetch));
        }
        Kind::Window { calls, by, order } => {
            put("Calls", json!(calls));
            put("Partition Key", json!(by));
            put("Sort Key", json!(order));
        }
        Kind::Memory { name } => put("Relation Name", json!(name)),
        Kind::Generated { name } => put("Function Name", json!(name)),
        Kind::Recursive { name } => put("CTE Name", json!(name)),
        Kind::Shared { of } => put("Result Of", json!(of)),
        Kind::Cell(scan) => cell(scan, put),
        Kind::Files(scan) => files(scan, put),
        Kind::Heap { table, index, conditions, aggregate, probed } => {
            put("Relation Name", json!(table));
            if let Some(probed) = probed {
                put("Index For Few Keys", json!(probed));
            }
            if let Some(aggregate) = aggregate {
                put("Partial Aggregate", json!(aggregate));
            }
            if !conditions.is_empty() {
                put("Filter", json!(conditions.join(" and ")));
            }
            if let Some((name, keys)) = index {
                put("Index Name", json!(name));
                put("Index Cond", json!(keys));
            }
        }
        Kind::Write { .. }
        | Kind::Union
        | Kind::OneRow
        | Kind::Empty
        | Kind::Subqueries
        | Kind::Unnest
        | Kind::Other { .. } => {}
    }
}

fn aggregation(aggregate: &Aggregate, put: &mut impl FnMut(&str, Value)) {
    put("Group Key", json!(aggregate.keys));
    put("Calls", json!(aggregate.calls));
    put("In Cell", json!(aggregate.in_cell));
    put("Not In Cell", json!(aggregate.reason));
    if aggregate.sets > 0 {
        put("Grouping Sets", json!(aggregate.sets));
    }
}

fn joined(join: &Join, put: &mut impl FnMut(&str, Value)) {
    let join_type = match join.join_type {
        JoinType::Inner => "Inner",
        JoinType::Left => "Left",
        JoinType::Right => "Right",
        JoinType::Full => "Full",
        JoinType::LeftSemi => "Left Semi",
        JoinType::RightSemi => "Right Semi",
        JoinType::LeftAnti => "Left Anti",
        JoinType::RightAnti => "Right Anti",
        JoinType::LeftMark => "Left Mark",
        JoinType::RightMark => "Right Mark",
    };
    put("Join Type", json!(join_type));
    let pairs = join.on.iter().map(|(left, right)| json!([left, right]));
    put("Join Keys", Value::Array(pairs.collect()));
    put("Join Filter", json!(join.filter));
    put("Null Aware", json!(join.null_aware));
    put("Nulls Equal", json!(join.nulls_equal));
    put("Partitioned", json!(join.partitioned));
}

fn narrowings(narrowings: &[Narrowing]) -> Value {
    let one = |narrowing: &Narrowing| {
        let (kind, id) = match narrowing.by {
            Some(Narrower::Join(id)) => ("join", Some(id)),
            Some(Narrower::Top(id)) => ("top", Some(id)),
            Some(Narrower::Aggregate(id)) => ("aggregate", Some(id)),
            None => ("unknown", None),
        };
        json!({"Columns": narrowing.columns, "By": kind, "Id": id})
    };
    Value::Array(narrowings.iter().map(one).collect())
}

fn cell(scan: &CellScan, put: &mut impl FnMut(&str, Value)) {
    put("Relation Name", json!(scan.table));
    put("Columns", json!(scan.columns));
    let offloaded = scan.conjuncts.iter().filter(|one| one.residual.is_none());
    let texts: Vec<&String> = offloaded.map(|one| &one.text).collect();
    put("Offloaded", json!(texts));
    let residual = scan.conjuncts.iter().filter_map(|one| {
        let reason = one.residual.as_ref()?;
        Some(json!({"Filter": one.text, "Reason": reason}))
    });
    put("Residual", Value::Array(residual.collect()));
    put("Runtime Filters", narrowings(&scan.narrowing));
    if let Some((calls, keys)) = &scan.aggregate {
        put("Cell Aggregate", json!({"Calls": calls, "Group Key": keys}));
    }
    if let Some((column, greatest)) = &scan.first {
        let end = if *greatest { "greatest" } else { "least" };
        put("First", json!({"Column": column, "End": end, "In Order": scan.ordered}));
    }
    put("Rows Wanted", json!(scan.fetch));
    put("Row Groups", json!(scan.row_groups));
    let Some(did) = &scan.totals else {
        put("Row Groups Left", json!(scan.row_groups_left));
        return;
    };
    put("Row Groups Pruned", json!(did.pruned_row_groups));
    put("Row Groups Pruned By Runtime Filters", json!(did.live_pruned_row_groups));
    put("Row Groups By Header", json!(did.header_row_groups));
    put("Row Groups Filtered", json!(did.filtered_row_groups));
    put("Rows Scanned", json!(did.rows));
    put("Rows Passed", json!(did.passed_rows));
    put("Runtime Filter Rows", json!(did.live_rows));
    put("Runtime Filter Rows Dropped", json!(did.live_dropped_rows));
    put("Rows Returned", json!(did.returned_rows));
    put("Eligible Bytes", json!(did.eligible_bytes));
    put("Saved Bytes", json!(did.saved_bytes));
    put("Disk Bytes", json!(did.disk_bytes));
    put("Cache Bytes", json!(did.cache_bytes));
    put("Returned Bytes", json!(did.returned_bytes));
    put("Reads", json!(did.reads));
    put("Compute Time", json!(did.compute_nanos as f64 / 1e6));
    put("Wait Time", json!(did.wait_nanos as f64 / 1e6));
}

fn files(scan: &FileScan, put: &mut impl FnMut(&str, Value)) {
    put("Relation Name", json!(scan.table));
    put("Format", json!(scan.format));
    put("Files", json!(scan.files));
    put("Columns", json!(scan.columns));
    put("Pushed Filters", json!(scan.conjuncts));
    put("Runtime Filters", narrowings(&scan.narrowing));
    put("Rows Wanted", json!(scan.fetch));
    let Some(did) = &scan.totals else { return };
    put("Bytes Scanned", json!(did.bytes));
    if let Some((all, pruned)) = did.row_groups {
        put("Row Groups", json!(all));
        put("Row Groups Pruned", json!(pruned));
        put("Row Groups Pruned By Bloom Filters", json!(did.by_bloom));
        put("Row Groups Pruned By Runtime Filters", json!(did.by_narrowing));
        put("Rows Pruned By Page Index", json!(did.rows_by_page_index));
    }
    put("Files Pruned", json!(did.files_pruned));
    put("Rows Filtered", json!(did.rows_pruned));
}
