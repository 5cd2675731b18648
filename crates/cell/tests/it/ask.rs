//! Random scans, and what they must answer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::DataType;
use cellar_cell::{DynamicFilter, Item, Output, Request, Residual, Segment};
use cellar_format::aggregate::join;
use cellar_format::{Aggregate, Groups, Predicate, Test, Value};

use crate::naive::{self, passes, same};
use crate::questions::{aggregate, predicate};
use crate::rig::Answer;
use crate::table::{Group, Rng, values_of};
use crate::tables::{Bag, Table};

/// All rows of some columns of a table.
pub fn everything(table: &Table, segments: &[Arc<Segment>], columns: &[usize]) -> Request {
    Request {
        segments: segments.to_vec(),
        conjuncts: Vec::new(),
        residual: None,
        live: Vec::new(),
        output: Output::Rows { columns: columns.to_vec(), schema: table.schema(columns) },
        limit: None,
        first: None,
        ordered: false,
        depth: 4,
        waits: None,
    }
}

/// Numbers from the first to the second.
pub fn between(column: usize, low: i128, high: i128) -> Predicate {
    Predicate::Test { column, test: Test::Numbers(low, high) }
}

/// A filter that looks at values with no system: true, false or null.
pub struct Odd {
    columns: Vec<(usize, DataType)>,
    seed: u64,
}

impl Odd {
    fn of(&self, values: &[Option<Value>]) -> Option<bool> {
        let text = format!("{} {values:?}", self.seed);
        let one = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        match text.bytes().fold(0xcbf2_9ce4_8422_2325, one) >> 7 & 3 {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        }
    }

    fn passes(&self, group: &Group, row: usize) -> bool {
        let own = self.columns.iter().map(|(column, _)| group.values[*column][row].clone());
        self.of(&own.collect::<Vec<_>>()) == Some(true)
    }
}

impl Residual for Odd {
    fn columns(&self) -> &[(usize, DataType)] {
        &self.columns
    }

    fn keep(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>> {
        let columns: Vec<_> = columns.iter().map(|array| values_of(array)).collect();
        let row = |at: usize| columns.iter().map(|column| column[at].clone()).collect::<Vec<_>>();
        Ok((0..rows).map(|at| self.of(&row(at))).collect())
    }
}

/// A filter that becomes narrower when it is told to.
#[derive(Debug)]
pub struct Narrowing {
    /// What it may come to ask, one after the other.
    steps: Vec<Predicate>,
    now: Mutex<usize>,
    generation: AtomicU64,
}

impl Narrowing {
    pub fn new(steps: Vec<Predicate>) -> Narrowing {
        Narrowing { steps, now: Mutex::default(), generation: AtomicU64::new(0) }
    }

    /// One more of its predicates holds, if there is one.
    pub fn narrow(&self) {
        let mut now = self.now.lock().expect("no panic");
        *now = (*now + 1).min(self.steps.len());
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl DynamicFilter for Narrowing {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn predicates(&self) -> Vec<Predicate> {
        self.steps[..*self.now.lock().expect("no panic")].to_vec()
    }

    fn columns(&self) -> Vec<usize> {
        naive::asked(&self.steps).into_iter().collect()
    }
}

/// A random scan of a table.
pub struct Asked {
    pub request: Request,
    odd: Option<Arc<Odd>>,
    pub live: Option<Arc<Narrowing>>,
}

fn fitting(rng: &mut Rng, table: &Table, most: usize) -> Vec<Predicate> {
    let one = |rng: &mut Rng| {
        let (of, depth) = (rng.below(table.groups.len()), rng.below(3));
        predicate(rng, &table.groups[of], depth)
    };
    let some: Vec<Predicate> = (0..rng.below(most + 1)).map(|_| one(rng)).collect();
    let fits = |one: &Predicate| table.groups.iter().all(|group| one.fits(&group.header));
    some.into_iter().filter(fits).collect()
}

impl Asked {
    pub fn random(rng: &mut Rng, table: &Table, segments: &[Arc<Segment>]) -> Asked {
        let width = table.types.len();
        let some = |rng: &mut Rng, most: usize| -> Vec<usize> {
            (0..rng.below(most + 1)).map(|_| rng.below(width)).collect()
        };
        let columns = some(rng, width + 1);
        let mut request = everything(table, segments, &columns);
        request.conjuncts = fitting(rng, table, 3);
        request.depth = rng.below(9);
        request.first = rng.one_in(3).then(|| (rng.below(width), rng.one_in(2)));
        let odd = rng.one_in(3).then(|| {
            let columns: BTreeSet<usize> = some(rng, 2).into_iter().collect();
            let columns = columns.into_iter().map(|at| (at, table.types[at].clone())).collect();
            Arc::new(Odd { columns, seed: rng.next() })
        });
        request.residual = odd.clone().map(|odd| odd as Arc<dyn Residual>);
        let live = rng.one_in(3).then(|| Arc::new(Narrowing::new(fitting(rng, table, 3))));
        request.live = live.iter().map(|live| Arc::clone(live) as Arc<dyn DynamicFilter>).collect();
        match rng.one_in(3) {
            true => {
                let of = aggregate(rng, &table.groups);
                if of.keys.is_empty() && rng.one_in(2) {
                    // What headers know.
                    request.conjuncts.clear();
                }
                let all: Vec<usize> = (0..width).collect();
                request.output = Output::Groups(of, table.schema(&all));
                // A filter that changes has no one answer: narrowed before, or never.
                live.iter().filter(|_| rng.one_in(2)).for_each(|live| live.narrow());
            }
            false if rng.one_in(3) => {
                let all: usize = table.groups.iter().map(Group::rows).sum();
                request.limit = Some(match rng.below(4) {
                    0 => rng.below(3),
                    1 => all,
                    _ => rng.below(all + 2),
                } as u64);
            }
            false => {}
        }
        Asked { request, odd, live }
    }

    /// Whether rows are asked for, and the filter may change meanwhile.
    pub fn may_narrow(&self) -> bool {
        self.live.is_some() && matches!(self.request.output, Output::Rows { .. })
    }

    fn passes(&self, live: &[Predicate], group: &Group, row: usize) -> bool {
        let all = self.request.conjuncts.iter().chain(live);
        all.into_iter().all(|one| passes(one, group, row))
            && self.odd.as_ref().is_none_or(|odd| odd.passes(group, row))
    }

    /// Holds an answer against a look at every row. `before` is what the live filter asked at first.
    pub fn check(&self, table: &Table, before: &[Predicate], answer: Answer) {
        let totals = answer.totals;
        assert_eq!(totals.row_groups, table.groups.len() as u64);
        assert!(totals.saved_bytes + totals.header_bytes <= totals.eligible_bytes, "{totals:?}");
        let items = answer.sound();
        match &self.request.output {
            Output::Groups(of, _) => self.check_groups(table, of, before, items),
            Output::Rows { columns, .. } => {
                let after =
                    self.live.as_ref().map_or_else(Vec::new, |live| live.predicates().clone());
                let most = table.rows(columns, |group, row| self.passes(before, group, row));
                let least = table.rows(columns, |group, row| self.passes(&after, group, row));
                let found = Bag::of(&items);
                assert_eq!(totals.returned_rows, found.count as u64);
                assert!(found.is_within(&most), "rows that do not pass, or come twice");
                let limit = self.request.limit.map_or(usize::MAX, |limit| limit as usize);
                assert!(found.count <= limit, "{} of {limit}", found.count);
                if found.count < limit {
                    assert!(least.is_within(&found), "{} of {} rows", found.count, least.count);
                }
            }
        }
    }

    fn check_groups(&self, table: &Table, of: &Aggregate, live: &[Predicate], items: Vec<Item>) {
        let (mut found, mut expected) = (Groups::new(), Groups::new());
        for item in items {
            match item {
                Item::Groups(groups) => {
                    groups.into_iter().for_each(|(key, states)| join(&mut found, key, states));
                }
                Item::Columns(columns) => naive::put_in(of, &columns, &mut found),
                Item::Rows(rows) => panic!("groups were asked for: {rows:?}"),
            }
        }
        if of.keys.is_empty() {
            let nothing = of.functions.iter().map(|function| function.nothing()).collect();
            join(&mut found, Box::default(), nothing);
        }
        for group in &table.groups {
            let passing = |row: &usize| self.passes(live, group, *row);
            let rows: Vec<usize> = (0..group.rows()).filter(passing).collect();
            naive::aggregate(of, group, &rows, &mut expected);
        }
        assert_eq!(found.len(), expected.len(), "groups of {of:?}");
        for (key, states) in &expected {
            let own = found.get(key).unwrap_or_else(|| panic!("no group {key:?} of {of:?}"));
            for ((own, state), function) in own.iter().zip(states).zip(&of.functions) {
                assert!(same(own, state), "{own:?} is not {state:?}: {function:?} of {key:?}");
            }
        }
    }
}
