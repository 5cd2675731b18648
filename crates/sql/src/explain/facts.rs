//! A plan as typed facts, independent of how it is shown.

use std::time::Duration;

use cellar_cell::Totals;
use datafusion::common::JoinType;

/// A plan, and what was seen when it ran.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operator that gives the result.
    pub root: Operator,
    /// If it ran: what that took.
    pub run: Option<Run>,
}

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// By the clock, with planning.
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
    /// Rows that are expected of it.
    pub estimated: Option<u64>,
    /// What was seen of it when it ran.
    pub actual: Option<Actual>,
    /// Where its rows come from.
    pub inputs: Vec<Operator>,
}

/// What was seen of an operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Actual {
    /// Whether anybody asked it for rows.
    pub ran: bool,
    /// Rows that it gave.
    pub rows: u64,
    /// Its own time on all threads together, in nanoseconds.
    pub nanos: u64,
    /// The most memory that it held.
    pub memory: u64,
    /// Bytes that it wrote to temporary files.
    pub spilled: u64,
}

/// How rows are brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By a hash table of the rows of its first input.
    Hash,
    /// Each row with each.
    NestedLoop,
    /// Both inputs in order.
    Merge,
    /// By a condition on one pair of values, in order.
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
        /// The keys, the first one first.
        keys: Vec<String>,
        /// Rows that are kept: then it is a top N.
        fetch: Option<usize>,
        /// Leading keys that the rows are in order of already.
        sorted: usize,
        /// Columns of which each value has rows of its own that are kept.
        by: Vec<String>,
    },
    /// LIMIT and OFFSET.
    Limit {
        /// Rows that are left out first.
        skip: usize,
        /// Rows that are given then.
        fetch: Option<usize>,
    },
    /// GROUP BY, an aggregate without groups, DISTINCT.
    Aggregate(Aggregate),
    /// A join.
    Join(Join),
    /// A condition that no scan has taken.
    Filter {
        /// The condition.
        condition: String,
        /// Rows that are enough.
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
    /// Rows that the statement, or the system, has in memory.
    Memory {
        /// The view or table; `None`: VALUES.
        name: Option<String>,
    },
    /// Rows of a function, or of a table that is made as it is read.
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
    /// Subqueries that give one value each, computed before the first input.
    Subqueries,
    /// What another operator of this plan computes.
    Shared {
        /// That operator.
        of: usize,
    },
    /// WITH RECURSIVE.
    Recursive {
        /// Its name.
        name: String,
    },
    /// Lists become rows.
    Unnest,
    /// A scan of a table in the heap.
    Heap {
        /// The table.
        table: String,
        /// The index that is used, and what chooses its keys; `None`: all rows are read.
        index: Option<(String, String)>,
        /// What rows are asked as they are stored.
        conditions: Vec<String>,
        /// What is computed of them as they are stored.
        aggregate: Option<String>,
        /// The index that is probed by the keys of a join, if these are few.
        probed: Option<String>,
    },
    /// An operator that has no name here: as DataFusion calls it.
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
    /// GROUPING SETS, ROLLUP, CUBE: how many sets of keys.
    pub sets: usize,
    /// Whether the cells below do its first step.
    pub in_cell: bool,
    /// Where a cell is below: why it does not.
    pub reason: Option<String>,
}

/// A join.
#[derive(Clone, Debug)]
pub struct Join {
    /// How.
    pub method: Method,
    /// Which rows.
    pub join_type: JoinType,
    /// Pairs that are to be equal.
    pub on: Vec<(String, String)>,
    /// What is asked of pairs besides.
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
    /// Why it is asked of decoded rows; `None`: it is asked of encoded columns.
    pub residual: Option<String>,
}

/// Who narrows a filter while the plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrower {
    /// A join: rows without a partner need not come.
    Join(usize),
    /// A top N: rows behind the last that is kept.
    Top(usize),
    /// A least or greatest value that is known by then.
    Aggregate(usize),
}

/// A filter that is known only while the plan runs.
#[derive(Clone, Debug)]
pub struct Narrowing {
    /// The number that who makes it and who asks it know it by.
    pub number: u64,
    /// The columns that it is about.
    pub columns: Vec<String>,
    /// Who makes it.
    pub by: Option<Narrower>,
}

/// A scan of a columnar table.
#[derive(Clone, Debug)]
pub struct CellScan {
    /// The table.
    pub table: String,
    /// The columns that are read.
    pub columns: Vec<String>,
    /// What rows must pass.
    pub conjuncts: Vec<Conjunct>,
    /// What is known only while it runs.
    pub narrowing: Vec<Narrowing>,
    /// What is aggregated there: calls and keys.
    pub aggregate: Option<(Vec<String>, Vec<String>)>,
    /// Rows in order of this column, or its greatest (true) or least values first.
    pub first: Option<(String, bool)>,
    /// Whether all rows come in that order.
    pub ordered: bool,
    /// Rows that are enough.
    pub fetch: Option<usize>,
    /// Row groups of the table.
    pub row_groups: u64,
    /// Of them, those that may have rows that pass, as their headers say.
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
    /// The files, as a user writes their names.
    pub files: Vec<String>,
    /// The columns that are read.
    pub columns: Vec<String>,
    /// What is asked of rows as they are read.
    pub conjuncts: Vec<String>,
    /// What is known only while it runs.
    pub narrowing: Vec<Narrowing>,
    /// Rows that are enough.
    pub fetch: Option<usize>,
    /// What it did.
    pub totals: Option<FileTotals>,
}

/// What a scan of files did. What a format does not count is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// Bytes that were read.
    pub bytes: Option<u64>,
    /// Row groups that were looked at, as their statistics say, and those left out by them.
    pub row_groups: Option<(u64, u64)>,
    /// Row groups that a Bloom filter left out.
    pub by_bloom: u64,
    /// Row groups that a filter known at run time left out.
    pub by_narrowing: u64,
    /// Files that statistics left out.
    pub files_pruned: u64,
    /// Rows that conditions left out as they were decoded.
    pub rows_pruned: Option<u64>,
    /// Rows in pages that the page index left out.
    pub rows_by_page_index: u64,
}

impl Operator {
    /// This operator and all below it, in the order of their numbers.
    pub fn each<'a>(&'a self, to: &mut impl FnMut(&'a Operator, usize), depth: usize) {
        to(self, depth);
        self.inputs.iter().for_each(|input| input.each(to, depth + 1));
    }

    /// All operators, with how deep each is.
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
