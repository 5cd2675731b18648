//! A plan as typed facts, independent of how it is shown.

use std::time::Duration;

use cellar_cell::Totals;
use datafusion::common::JoinType;

/// A plan, and measurements of its run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operator that gives the result.
    pub root: Operator,
    /// The cost of the run, if it ran.
    pub run: Option<Run>,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Elapsed time, including planning.
    pub whole: Duration,
    /// Planning alone.
    pub planning: Duration,
    /// The most memory that all operators held together.
    pub memory: u64,
}

/// One line of a plan.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Its number, from 0 in the order of the lines.
    pub id: usize,
    /// What it does.
    pub kind: Kind,
    /// The estimated number of rows.
    pub estimated: Option<u64>,
    /// What was measured when it ran.
    pub actual: Option<Actual>,
    /// The operators that its rows come from.
    pub inputs: Vec<Operator>,
}

/// Measurements of an operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Actual {
    /// Whether any rows were requested from it.
    pub ran: bool,
    /// Rows that it returned.
    pub rows: u64,
    /// Its own time, summed over all threads, in nanoseconds.
    pub nanos: u64,
    /// The most memory that it held.
    pub memory: u64,
    /// Bytes that it wrote to temporary files.
    pub spilled: u64,
}

/// The methods of joining rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// With a hash table of the rows of its first input.
    Hash,
    /// Every row with every other.
    NestedLoop,
    /// Both inputs in order.
    Merge,
    /// By a range condition on one pair of values, in order.
    Range,
}

/// What an operator does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// It would write: INSERT, CREATE TABLE AS, COPY.
    Write {
        /// The verb: `insert into`, `create table`, `copy to`.
        verb: &'static str,
        /// What is written, and how.
        target: String,
    },
    /// ORDER BY.
    Sort {
        /// The keys, most significant first.
        keys: Vec<String>,
        /// The number of rows to keep: then it is a top N.
        fetch: Option<usize>,
        /// The number of leading keys by which the rows are already ordered.
        sorted: usize,
        /// Columns for each of whose values rows are kept separately.
        by: Vec<String>,
    },
    /// LIMIT and OFFSET.
    Limit {
        /// Rows that are skipped first.
        skip: usize,
        /// Rows that are returned then.
        fetch: Option<usize>,
    },
    /// GROUP BY, an aggregate without groups, DISTINCT.
    Aggregate(Aggregate),
    /// A join.
    Join(Join),
    /// A condition that no scan has taken over.
    Filter {
        /// The condition.
        condition: String,
        /// The number of rows that suffice.
        fetch: Option<usize>,
    },
    /// Window functions.
    Window {
        /// The calls.
        calls: Vec<String>,
        /// PARTITION BY.
        by: Vec<String>,
        /// ORDER BY.
        order: Vec<String>,
    },
    /// UNION ALL.
    Union,
    /// Rows in memory, of the statement or of the system.
    Memory {
        /// The view or table; `None`: VALUES.
        name: Option<String>,
    },
    /// Rows of a function, or of a table that is generated as it is read.
    Generated {
        /// Its name.
        name: String,
    },
    /// One row without columns.
    OneRow,
    /// No rows.
    Empty,
    /// A scan of a columnar table.
    Cell(Box<CellScan>),
    /// A scan of files.
    Files(Box<FileScan>),
    /// Scalar subqueries, computed before the first input.
    Subqueries,
    /// The result of another operator of this plan.
    Shared {
        /// That operator.
        of: usize,
    },
    /// WITH RECURSIVE.
    Recursive {
        /// Its name.
        name: String,
    },
    /// Turns lists into rows.
    Unnest,
    /// A scan of a table in the heap.
    Heap {
        /// The table.
        table: String,
        /// The index that is used, and what selects its keys; `None`: all rows are read.
        index: Option<(String, String)>,
        /// Conditions evaluated on rows as they are stored.
        conditions: Vec<String>,
        /// The aggregates computed from rows as they are stored.
        aggregate: Option<String>,
        /// The index that is probed with the keys of a join, if these are few.
        probed: Option<String>,
    },
    /// An operator without a name here: under DataFusion's name.
    Other {
        /// That name.
        name: String,
    },
}

/// An aggregation.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    /// The calls; none: the distinct keys.
    pub calls: Vec<String>,
    /// The keys.
    pub keys: Vec<String>,
    /// GROUPING SETS, ROLLUP, CUBE: the number of sets of keys.
    pub sets: usize,
    /// Whether the cells below do its first step.
    pub in_cell: bool,
    /// The reason why not, if there is a cell below.
    pub reason: Option<String>,
}

/// A join.
#[derive(Clone, Debug)]
pub struct Join {
    /// The method.
    pub method: Method,
    /// The join type.
    pub join_type: JoinType,
    /// Pairs of expressions that must be equal.
    pub on: Vec<(String, String)>,
    /// A further condition on pairs of rows.
    pub filter: Option<String>,
    /// NOT IN: a null among the keys matters.
    pub null_aware: bool,
    /// A null equals a null.
    pub nulls_equal: bool,
    /// Whether the rows of both sides are divided among the threads by a hash.
    pub partitioned: bool,
}

/// A condition on a scan.
#[derive(Clone, Debug)]
pub struct Conjunct {
    /// The condition.
    pub text: String,
    /// Why it is evaluated on decoded rows; `None`: it is evaluated on encoded columns.
    pub residual: Option<String>,
}

/// The operator that narrows a filter while the plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrower {
    /// A join: rows without a partner are not needed.
    Join(usize),
    /// A top N: rows after the last one kept are not needed.
    Top(usize),
    /// A least or greatest value found so far.
    Aggregate(usize),
}

/// A filter that is known only while the plan runs.
#[derive(Clone, Debug)]
pub struct Narrowing {
    /// The number by which its producer and its consumer know it.
    pub number: u64,
    /// The columns that it applies to.
    pub columns: Vec<String>,
    /// Its producer.
    pub by: Option<Narrower>,
}

/// A scan of a columnar table.
#[derive(Clone, Debug)]
pub struct CellScan {
    /// The table.
    pub table: String,
    /// The columns that are read.
    pub columns: Vec<String>,
    /// The conditions on its rows.
    pub conjuncts: Vec<Conjunct>,
    /// The filters that are known only while it runs.
    pub narrowing: Vec<Narrowing>,
    /// The aggregation in the cell: calls and keys.
    pub aggregate: Option<(Vec<String>, Vec<String>)>,
    /// The column that orders the rows, and whether its greatest values (true) or its least ones come
    /// first.
    pub first: Option<(String, bool)>,
    /// Whether all rows come in that order.
    pub ordered: bool,
    /// The number of rows that suffice.
    pub fetch: Option<usize>,
    /// Row groups of the table.
    pub row_groups: u64,
    /// Those that may have matching rows, according to their headers.
    pub row_groups_left: u64,
    /// What it did.
    pub totals: Option<Totals>,
}

/// A scan of files.
#[derive(Clone, Debug)]
pub struct FileScan {
    /// The table over them, if one is known.
    pub table: Option<String>,
    /// Parquet, csv and so on.
    pub format: String,
    /// The files, as users write their names.
    pub files: Vec<String>,
    /// The columns that are read.
    pub columns: Vec<String>,
    /// Conditions evaluated as rows are read.
    pub conjuncts: Vec<String>,
    /// The filters that are known only while it runs.
    pub narrowing: Vec<Narrowing>,
    /// The number of rows that suffice.
    pub fetch: Option<usize>,
    /// What it did.
    pub totals: Option<FileTotals>,
}

/// What a file scan did. What a format does not count is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// Bytes that were read.
    pub bytes: Option<u64>,
    /// Row groups that statistics kept, and those that they excluded.
    pub row_groups: Option<(u64, u64)>,
    /// Row groups that a Bloom filter excluded.
    pub by_bloom: u64,
    /// Row groups that a run-time filter excluded.
    pub by_narrowing: u64,
    /// Files that statistics excluded.
    pub files_pruned: u64,
    /// Rows that conditions excluded while they were decoded.
    pub rows_pruned: Option<u64>,
    /// Rows in pages that the page index excluded.
    pub rows_by_page_index: u64,
}

impl Operator {
    /// This operator and all below it, in the order of their numbers.
    pub fn each<'a>(&'a self, to: &mut impl FnMut(&'a Operator, usize), depth: usize) {
        to(self, depth);
        self.inputs.iter().for_each(|input| input.each(to, depth + 1));
    }

    /// All operators, each with its depth.
    pub fn lines(&self) -> Vec<(&Operator, usize)> {
        let mut lines = Vec::new();
        self.each(&mut |operator, depth| lines.push((operator, depth)), 0);
        lines
    }

    /// Changes this operator and all below it.
    pub fn change(&mut self, to: &mut impl FnMut(&mut Operator)) {
        to(self);
        self.inputs.iter_mut().for_each(|input| input.change(to));
    }
}
