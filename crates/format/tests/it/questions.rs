//! Random predicates, expressions and aggregations that fit a row group.

use std::ops::Bound;
use std::sync::Arc;

use cellar_format::{
    Aggregate, AggregateFunction, Expr, KeyFilter, Kind, Like, Predicate, Relation, Test, Value,
};

use crate::naive::whole;
use crate::table::{Group, Rng};

/// Near the ends of what numbers are kept in.
const ENDS: [i128; 10] = [
    i128::MIN,
    i128::MAX,
    i64::MIN as i128,
    i64::MAX as i128,
    i64::MIN as i128 - 1,
    i64::MAX as i128 + 1,
    u64::MAX as i128,
    0,
    -1,
    1,
];

/// A number that is in a column, or near one, or anywhere.
fn number(rng: &mut Rng, values: &[Option<Value>]) -> i128 {
    let own = rng.pick(values).as_ref().and_then(Value::number);
    match (own, rng.below(12)) {
        (_, 0) | (None, _) => *rng.pick(&ENDS),
        (_, 1) => i128::from(rng.next() as i64),
        (Some(own), 2 | 3) => own.saturating_add(rng.below(5) as i128 - 2),
        (Some(own), _) => own,
    }
}

/// A string that is in a column, or near one.
fn string(rng: &mut Rng, values: &[Option<Value>]) -> Box<[u8]> {
    let own = rng.pick(values).as_ref().and_then(Value::bytes);
    let mut own = own.unwrap_or(b"a").to_vec();
    match rng.below(12) {
        0 => own.truncate(rng.below(own.len() + 1)),
        1 => own.push(*rng.pick(b"\x00a\xff")),
        2 => own.truncate(24),
        3 => own = vec![0xff; rng.below(30)],
        4 => own = Vec::new(),
        5 => {
            if let Some(last) = own.last_mut() {
                *last = last.wrapping_add(1);
            }
        }
        _ => {}
    }
    own.into()
}

fn list<T: Ord>(rng: &mut Rng, mut one: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    let most = *rng.pick(&[1, 3, 8, 50]);
    let mut list: Vec<T> = (0..1 + rng.below(most)).map(|_| one(rng)).collect();
    list.sort_unstable();
    if rng.one_in(2) {
        list.dedup();
    }
    list
}

fn like(rng: &mut Rng, values: &[Option<Value>]) -> Like {
    let own = string(rng, values);
    let own = String::from_utf8_lossy(&own[..own.len().min(60)]).into_owned();
    let own: Vec<char> = own.chars().collect();
    let (from, to) = (rng.below(own.len() + 1), rng.below(own.len() + 1));
    let part: String = own[from.min(to)..from.max(to)].iter().collect();
    let begin: String = own[..to].iter().collect();
    let pattern = match rng.below(7) {
        0 => format!("{begin}%"),
        1 => format!("%{part}%"),
        2 => format!("%{part}"),
        3 => format!("{begin}_%"),
        4 => format!("_{part}%"),
        5 => format!("{begin}%{part}"),
        _ => own.iter().collect(),
    };
    Like::with_escape(&pattern, None)
}

fn test(rng: &mut Rng, group: &Group, column: usize) -> Test {
    let values = &group.values[column];
    match rng.below(14) {
        0 => return Test::Null,
        1 => return Test::NotNull,
        _ => {}
    }
    if matches!(group.header.entries[column].kind, Kind::Text | Kind::Binary) {
        let bound = |rng: &mut Rng| match rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(string(rng, values)),
            _ => Bound::Excluded(string(rng, values)),
        };
        return match rng.below(6) {
            0 => Test::StringIn(list(rng, |rng| string(rng, values))),
            1 => Test::StringNotIn(list(rng, |rng| string(rng, values))),
            2 => Test::Like(like(rng, values)),
            3 => Test::NotLike(like(rng, values)),
            _ => Test::Strings(bound(rng), bound(rng)),
        };
    }
    match rng.below(6) {
        0 => Test::NumberIn(list(rng, |rng| number(rng, values))),
        1 => Test::NumberNotIn(list(rng, |rng| number(rng, values))),
        2 => {
            let narrow = |rng: &mut Rng| i64::try_from(number(rng, values)).unwrap_or(i64::MAX);
            let keys = list(rng, narrow);
            let members = KeyFilter::new(&keys);
            assert!(keys.iter().all(|key| members.may_have(*key)), "{keys:?}");
            Test::Member(Arc::new(members))
        }
        _ => {
            let (low, high) = (number(rng, values), number(rng, values));
            match rng.one_in(8) {
                true => Test::Numbers(low, high),
                false => Test::Numbers(low.min(high), low.max(high)),
            }
        }
    }
}

/// An expression whose results fit 128 bits in this row group.
pub fn expr(rng: &mut Rng, group: &Group, depth: usize) -> Expr {
    let columns = whole(group);
    loop {
        let expr = any_expr(rng, &columns, depth);
        if expr.bounds(&group.header).is_some() {
            return expr;
        }
    }
}

fn any_expr(rng: &mut Rng, columns: &[usize], depth: usize) -> Expr {
    let part = |rng: &mut Rng| Box::new(any_expr(rng, columns, depth - 1));
    match rng.below(if depth == 0 { 2 } else { 9 }) {
        0 if rng.one_in(8) => Expr::Constant(*rng.pick(&ENDS)),
        0 => Expr::Constant(rng.below(1000) as i128 - 300),
        1..4 if !columns.is_empty() => Expr::Column(*rng.pick(columns)),
        4 | 5 => Expr::Add(part(rng), part(rng)),
        6 => Expr::Sub(part(rng), part(rng)),
        7 => Expr::Mul(part(rng), part(rng)),
        8 => Expr::Within(part(rng), i64::MIN.into(), i64::MAX.into()),
        _ => Expr::Constant(100),
    }
}

pub fn predicate(rng: &mut Rng, group: &Group, depth: usize) -> Predicate {
    let some = |rng: &mut Rng| {
        (0..rng.below(4)).map(|_| predicate(rng, group, depth - 1)).collect::<Vec<_>>()
    };
    match rng.below(if depth == 0 { 7 } else { 10 }) {
        0 if rng.one_in(4) => Predicate::All,
        1 if rng.one_in(4) => Predicate::None,
        2 => {
            let relations =
                [Relation::Equal, Relation::NotEqual, Relation::Less, Relation::LessOrEqual];
            let (left, right) = (expr(rng, group, 2), expr(rng, group, 2));
            Predicate::Compare { left, relation: *rng.pick(&relations), right }
        }
        7 => Predicate::And(some(rng)),
        8 | 9 => Predicate::Or(some(rng)),
        _ => {
            let column = rng.below(group.values.len());
            Predicate::Test { column, test: test(rng, group, column) }
        }
    }
}

/// An aggregation over some of a table's columns.
pub fn aggregate(rng: &mut Rng, groups: &[Group]) -> Aggregate {
    let (group, columns) = (&groups[0], groups[0].values.len());
    let keys = (0..rng.below(4)).map(|_| rng.below(columns)).collect();
    let function = |rng: &mut Rng| {
        let column = rng.below(columns);
        let is_float = matches!(group.header.entries[column].kind, Kind::Float32 | Kind::Float64);
        match rng.below(7) {
            0 => AggregateFunction::Rows,
            1 => AggregateFunction::Count(column),
            2 if is_float => AggregateFunction::SumFloat(column),
            2..5 => loop {
                let function = AggregateFunction::Sum(expr(rng, group, 2));
                let of = Aggregate { keys: vec![], functions: vec![function.clone()] };
                if of.fits(groups.iter().map(|group| &group.header)) {
                    break function;
                }
            },
            5 => AggregateFunction::Least(column),
            _ => AggregateFunction::Greatest(column),
        }
    };
    let functions = (0..1 + rng.below(5)).map(|_| function(rng)).collect();
    Aggregate { keys, functions }
}
