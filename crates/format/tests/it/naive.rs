//! A naive reference for predicates and aggregations, row by row, with nothing clever.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use cellar_format::aggregate::columns::{Columns, Known};
use cellar_format::value::{f32_of_key, f64_of_key};
use cellar_format::{
    Aggregate, AggregateFunction, Expr, Groups, Key, Kind, Predicate, Relation, State, Test, Value,
};

use crate::table::{Group, values_of};

fn number(test: &Test, number: i128) -> bool {
    match test {
        Test::NotNull => true,
        Test::Numbers(low, high) => *low <= number && number <= *high,
        Test::NumberIn(list) => list.contains(&number),
        Test::NumberNotIn(list) => !list.contains(&number),
        Test::Member(members) => i64::try_from(number).is_ok_and(|n| members.may_have(n)),
        _ => false,
    }
}

fn string(test: &Test, string: &[u8]) -> bool {
    match test {
        Test::NotNull => true,
        Test::Strings(low, high) => {
            let above = match low {
                Bound::Unbounded => true,
                Bound::Included(low) => &low[..] <= string,
                Bound::Excluded(low) => &low[..] < string,
            };
            let below = match high {
                Bound::Unbounded => true,
                Bound::Included(high) => string <= &high[..],
                Bound::Excluded(high) => string < &high[..],
            };
            above && below
        }
        Test::StringIn(list) => list.iter().any(|own| &own[..] == string),
        Test::StringNotIn(list) => list.iter().all(|own| &own[..] != string),
        Test::Like(like) => like.matches(string),
        Test::NotLike(like) => !like.matches(string),
        _ => false,
    }
}

/// The result of an expression; `None`: no value.
pub fn compute(expr: &Expr, group: &Group, row: usize) -> Option<i128> {
    let both = |a, b| Some((compute(a, group, row)?, compute(b, group, row)?));
    match expr {
        Expr::Constant(number) => Some(*number),
        Expr::Column(column) => group.values[*column][row].as_ref()?.number(),
        Expr::Add(a, b) => both(a, b).map(|(a, b)| a.checked_add(b).expect("within the bounds")),
        Expr::Sub(a, b) => both(a, b).map(|(a, b)| a.checked_sub(b).expect("within the bounds")),
        Expr::Mul(a, b) => both(a, b).map(|(a, b)| a.checked_mul(b).expect("within the bounds")),
        Expr::Within(inner, low, high) => compute(inner, group, row)
            .inspect(|own| assert!((low..=high).contains(&own), "within its limits")),
    }
}

/// Whether a row passes.
pub fn passes(predicate: &Predicate, group: &Group, row: usize) -> bool {
    match predicate {
        Predicate::All => true,
        Predicate::None => false,
        Predicate::And(all) => all.iter().all(|one| passes(one, group, row)),
        Predicate::Or(all) => all.iter().any(|one| passes(one, group, row)),
        Predicate::Test { column, test } => match (&group.values[*column][row], test) {
            (None, test) => matches!(test, Test::Null),
            (Some(Value::Number(own)), test) => number(test, *own),
            (Some(Value::Bytes(own)), test) => string(test, own),
        },
        Predicate::Compare { left, relation, right } => {
            let (left, right) = (compute(left, group, row), compute(right, group, row));
            left.zip(right).is_some_and(|(left, right)| match relation {
                Relation::Equal => left == right,
                Relation::NotEqual => left != right,
                Relation::Less => left < right,
                Relation::LessOrEqual => left <= right,
            })
        }
    }
}

/// What a call makes of some rows.
fn state(function: &AggregateFunction, group: &Group, rows: &[usize]) -> State {
    let values = |column: &usize| {
        let column = &group.values[*column];
        rows.iter().filter_map(|row| column[*row].clone()).collect::<Vec<Value>>()
    };
    match function {
        AggregateFunction::Rows => State::Count(rows.len() as u64),
        AggregateFunction::Count(column) => State::Count(values(column).len() as u64),
        AggregateFunction::Sum(expr) => {
            let all: Vec<i128> = rows.iter().filter_map(|row| compute(expr, group, *row)).collect();
            let sum = all.iter().fold(0i128, |sum, one| sum.wrapping_add(*one));
            State::Sum { sum, rows: all.len() as u64 }
        }
        AggregateFunction::SumFloat(column) => {
            let is_64 = group.header.entries[*column].kind == Kind::Float64;
            let all = values(column);
            let float = |value: &Value| {
                let key = value.number().expect("a key") as i64;
                if is_64 { f64_of_key(key) } else { f64::from(f32_of_key(key)) }
            };
            State::Float { sum: all.iter().map(float).sum(), rows: all.len() as u64 }
        }
        AggregateFunction::Least(column) => State::Least(values(column).into_iter().min()),
        AggregateFunction::Greatest(column) => State::Greatest(values(column).into_iter().max()),
    }
}

/// Those rows of a group that pass.
pub fn rows_of(conjuncts: &[Predicate], group: &Group) -> Vec<usize> {
    let all = |row: &usize| conjuncts.iter().all(|one| passes(one, group, *row));
    (0..group.rows()).filter(all).collect()
}

/// What an aggregation makes of some rows.
pub fn aggregate(aggregate: &Aggregate, group: &Group, rows: &[usize], out: &mut Groups) {
    let mut parts: HashMap<Key, Vec<usize>> = HashMap::new();
    if aggregate.keys.is_empty() {
        parts.insert(Key::default(), Vec::new());
    }
    for row in rows {
        let key = aggregate.keys.iter().map(|at| group.values[*at][*row].clone()).collect();
        parts.entry(key).or_default().push(*row);
    }
    for (key, rows) in parts {
        let states =
            aggregate.functions.iter().map(|function| state(function, group, &rows)).collect();
        cellar_format::aggregate::join(out, key, states);
    }
}

/// Whether both are the same, but for what floating-point sums lose by their order.
pub fn same(a: &State, b: &State) -> bool {
    match (a, b) {
        (State::Float { sum: a, rows: n }, State::Float { sum: b, rows: m }) => {
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e3);
            // Where the largest are in it, sums may go beyond in one order and not in another.
            let huge = |a: f64| !a.is_finite() || a.abs() > 1e300;
            n == m && (near(*a, *b) || huge(*a) || huge(*b))
        }
        _ => a == b,
    }
}

/// The columns of whole numbers.
pub fn whole(group: &Group) -> Vec<usize> {
    let is = |at: &usize| group.header.entries[*at].kind == Kind::Number;
    (0..group.values.len()).filter(is).collect()
}

/// All columns that some predicates ask.
pub fn asked(conjuncts: &[Predicate]) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    conjuncts.iter().for_each(|one| one.columns(&mut out));
    out
}

/// Adds groups that came as columns.
pub fn put_in(of: &Aggregate, columns: &Columns, out: &mut Groups) {
    let keys: Vec<_> = columns.keys.iter().map(|key| values_of(key)).collect();
    let ends = columns.functions.iter().map(|known| match known {
        Known::Ends(ends) => values_of(ends),
        _ => Vec::new(),
    });
    let ends: Vec<_> = ends.collect();
    for row in 0..columns.rows {
        let key: Key = keys.iter().map(|key| key[row].clone()).collect();
        let state = |(at, known): (usize, &Known)| match known {
            Known::Count(counts) => State::Count(counts[row]),
            // What is said of no rows is not looked at.
            Known::Sum { sums, rows } => {
                State::Sum { sum: if rows[row] > 0 { sums[row] } else { 0 }, rows: rows[row] }
            }
            Known::Float { sums, rows } => {
                State::Float { sum: if rows[row] > 0 { sums[row] } else { 0.0 }, rows: rows[row] }
            }
            Known::Ends(_) => match of.functions[at] {
                AggregateFunction::Greatest(_) => State::Greatest(ends[at][row].clone()),
                _ => State::Least(ends[at][row].clone()),
            },
        };
        let states = columns.functions.iter().enumerate().map(state).collect();
        cellar_format::aggregate::join(out, key, states);
    }
}
