//! Aggregates on encoded data against a look at every row.

use std::sync::Arc;

use arrow_array::types::Decimal128Type;
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, StringArray};
use arrow_schema::{DataType, Field, Schema};
use cellar_format::aggregate::columns::each_row;
use cellar_format::aggregate::dense::{self, Dense, Plan};
use cellar_format::bits::BLOCK;
use cellar_format::{
    Aggregate, AggregateFunction, Expr, Filter, Groups, Key, Predicate, Prepared, Rows,
};
use proptest::prelude::*;

use crate::naive::{self, put_in, rows_of, same};
use crate::questions::{aggregate, predicate};
use crate::table::{Group, Rng, Spec, cases, spec};

/// What an aggregation makes of those rows of row groups that pass.
fn aggregated(of: &Aggregate, conjuncts: &[Predicate], groups: &[Group]) -> Groups {
    let mut out = Groups::default();
    for group in groups {
        let columns = group.columns();
        let mut filter = Filter::new(conjuncts, &group.header, &columns, &[]).expect("as written");
        let mut ready = Prepared::new(of, &group.header, &columns).expect("as written");
        for block in 0..group.header.blocks() {
            let mut mask = [0; BLOCK];
            let count = filter.block(block, &mut mask).expect("as written");
            ready.block(block, &mask, count).expect("as written");
        }
        ready.finish(of, &mut out);
    }
    out
}

fn equal(found: &Groups, expected: &Groups, of: &Aggregate, how: &str) {
    assert_eq!(found.len(), expected.len(), "groups of {of:?}, {how}");
    for (key, states) in expected {
        let own = found.get(key).unwrap_or_else(|| panic!("no group {key:?} of {of:?}, {how}"));
        assert_eq!(own.len(), states.len());
        for ((own, state), function) in own.iter().zip(states).zip(&of.functions) {
            assert!(
                same(own, state),
                "{own:?} is not {state:?}: {function:?} of {key:?}, {of:?}, {how}"
            );
        }
    }
}

/// The ways in which groups come as columns, of each row group by itself: as many as there are rows,
/// and grouped.
fn check_columns(of: &Aggregate, conjuncts: &[Predicate], group: &Group) {
    let mut expected = Groups::default();
    naive::aggregate(of, group, &rows_of(conjuncts, group), &mut expected);
    let columns = group.columns();
    let schema = schema_of(group);
    let rows: Vec<u32> = rows_of(conjuncts, group).iter().map(|row| *row as u32).collect();
    let rows = if conjuncts.is_empty() { Rows::All(group.rows()) } else { Rows::Some(rows) };
    let each = each_row(of, &group.header, &columns, &rows, &schema).expect("as written");
    assert_eq!(each.rows, rows.count());
    let mut found = Groups::default();
    put_in(of, &each, &mut found);
    equal(&found, &expected, of, "each row");
    let (mut found, mut before) = (Groups::default(), 0);
    while before < rows.count() {
        let part = rows.part(before, 2);
        let each = each_row(of, &group.header, &columns, &part, &schema).expect("as written");
        put_in(of, &each, &mut found);
        before += part.count();
    }
    equal(&found, &expected, of, "each row, in parts");
    let mut ready = Prepared::new(of, &group.header, &columns).expect("as written");
    for block in 0..group.header.blocks() {
        let mut mask = [0; BLOCK];
        let count = rows.mask(block, &mut mask);
        ready.block(block, &mask, count).expect("as written");
    }
    if ready.groups() > 0 {
        let grouped = ready.finish_columns(of, &schema).expect("as written");
        assert_eq!(grouped.rows, expected.len());
        let mut found = Groups::default();
        put_in(of, &grouped, &mut found);
        equal(&found, &expected, of, "as columns");
    }
}

fn schema_of(group: &Group) -> Schema {
    let field = |(at, own): (usize, &DataType)| Field::new(at.to_string(), own.clone(), true);
    Schema::new(group.types.iter().enumerate().map(field).collect::<Vec<_>>())
}

/// The row groups summed at places, by two that know of each other only at the end.
fn check_dense(of: &Aggregate, conjuncts: &[Predicate], groups: &[Group]) -> bool {
    let headers: Vec<_> = groups.iter().map(|group| &group.header).collect();
    let Some(plan) = Plan::new(of, &headers).map(Arc::new) else { return false };
    let mut both = [Dense::new(Arc::clone(&plan)), Dense::new(Arc::clone(&plan))];
    let mut expected = Groups::default();
    for (at, group) in groups.iter().enumerate() {
        naive::aggregate(of, group, &rows_of(conjuncts, group), &mut expected);
        let columns = group.columns();
        let mut filter = Filter::new(conjuncts, &group.header, &columns, &[]).expect("as written");
        let mut ready = dense::Prepared::new(&plan, &group.header, &columns).expect("as written");
        for block in 0..group.header.blocks() {
            let mut mask = [0; BLOCK];
            let count = filter.block(block, &mut mask).expect("as written");
            ready.block(block, &mask, count, &mut both[at % 2]);
        }
    }
    let [mut all, other] = both;
    all.join(other);
    let mut found = Groups::default();
    while let Some(columns) = all.next_part(&schema_of(&groups[0]), 7).expect("the same table") {
        assert!(columns.rows <= 7);
        put_in(of, &columns, &mut found);
    }
    equal(&found, &expected, of, "at places");
    true
}

fn check(of: &Aggregate, conjuncts: &[Predicate], groups: &[Group]) {
    let found = aggregated(of, conjuncts, groups);
    let mut expected = Groups::default();
    for group in groups {
        naive::aggregate(of, group, &rows_of(conjuncts, group), &mut expected);
    }
    assert_eq!(found.len(), expected.len(), "groups of {of:?}");
    for (key, states) in &expected {
        let own = found.get(key).unwrap_or_else(|| panic!("no group {key:?} of {of:?}"));
        assert_eq!(own.len(), states.len());
        for ((own, state), function) in own.iter().zip(states).zip(&of.functions) {
            assert!(same(own, state), "{own:?} is not {state:?}: {function:?} of {key:?}, {of:?}");
        }
    }
    if !of.keys.is_empty() {
        check_dense(of, conjuncts, groups);
        groups.iter().for_each(|group| check_columns(of, conjuncts, group));
    }
    for group in groups {
        let Some(states) = of.of_header(&group.header) else { continue };
        let read = aggregated(of, &[], std::slice::from_ref(group));
        assert_eq!(states, read[&Key::default()], "what the header says of {of:?}");
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn aggregates_are_what_every_row_says(spec in spec(), more in 0..3u64) {
        let groups: Vec<Group> = (0..=more)
            .map(|at| Group::random(&Spec { seed: spec.seed.wrapping_add(at * 991), ..spec.clone() }))
            .collect();
        let mut rng = Rng(spec.seed ^ 99);
        for _ in 0..6 {
            let of = aggregate(&mut rng, &groups);
            let some: Vec<Predicate> =
                (0..rng.below(3)).map(|_| predicate(&mut rng, &groups[0], 1)).collect();
            let fits = groups.iter().all(|group| {
                some.iter().all(|one| one.fits(&group.header))
            });
            check(&of, if fits { &some } else { &[] }, &groups);
        }
    }
}

fn every_function(column: usize) -> Vec<AggregateFunction> {
    vec![
        AggregateFunction::Rows,
        AggregateFunction::Count(column),
        AggregateFunction::Sum(Expr::Column(column)),
        AggregateFunction::Least(column),
        AggregateFunction::Greatest(column),
    ]
}

#[test]
fn domains_about_the_limits_have_all_their_groups() {
    // Just below and above what is summed group by group, and what has a place from the beginning.
    for span in [
        1usize, 2, 15, 16, 17, 255, 256, 257, 65_534, 65_535, 65_536, 65_537, 262_143, 262_144,
        262_145, 900_000,
    ] {
        for nulls in [false, true] {
            let mut rng = Rng(span as u64);
            let row = |row: usize| {
                let number = match row {
                    0 => 0,
                    1 => span - 1,
                    _ => rng.below(span),
                };
                (!nulls || row % 7 != 3).then_some(number as i64 - 40)
            };
            let keys: ArrayRef = Arc::new(Int64Array::from_iter((0..5000).map(row)));
            let other: ArrayRef = Arc::new(Int64Array::from_iter(
                (0..5000).map(|row| (row % 11 != 0).then_some(row * 3 - 900)),
            ));
            let group = [Group::of(&[keys, other])];
            for keys in [vec![0], vec![0, 0], vec![1, 0]] {
                check(&Aggregate { keys, functions: every_function(1) }, &[], &group);
            }
        }
    }
}

#[test]
fn sums_at_the_ends_of_their_numbers_are_right() {
    let bits = 1i64 << 53;
    for ends in [
        [i64::MAX, i64::MAX],
        [i64::MIN, i64::MIN],
        [i64::MIN, i64::MAX],
        [bits, bits],
        [bits - 1, bits - 1],
        [-bits, bits - 1],
        [1 - bits, bits - 1],
        [i64::from(u32::MAX), 0],
    ] {
        let rows = (0..4096).map(|row| Some(ends[usize::from(row % 1024 == 7)]));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter(rows));
        let keys: ArrayRef = Arc::new(Int64Array::from_iter((0..4096).map(|row| Some(row % 30))));
        let few: ArrayRef = Arc::new(Int64Array::from_iter((0..4096).map(|row| Some(row % 3))));
        let group = [Group::of(&[numbers, keys, few])];
        let twice = Expr::Add(Box::new(Expr::Column(0)), Box::new(Expr::Column(0)));
        let square = Expr::Mul(Box::new(Expr::Column(0)), Box::new(Expr::Column(0)));
        let mut functions = every_function(0);
        functions.extend([AggregateFunction::Sum(twice), AggregateFunction::Sum(square)]);
        for keys in [vec![], vec![1], vec![2]] {
            check(&Aggregate { keys, functions: functions.clone() }, &[], &group);
        }
    }
}

#[test]
fn sums_beyond_128_bits_lose_the_same_bits_however_they_are_made() {
    let rows: Vec<i128> = vec![i128::MAX, i128::MAX, 5, i128::MIN];
    let array = PrimitiveArray::<Decimal128Type>::new(rows.into(), None);
    let group = [Group::of(&[Arc::new(array)])];
    assert_eq!(group[0].header.entries[0].sum, None, "it does not fit");
    check(&Aggregate { keys: vec![], functions: every_function(0) }, &[], &group);
    check(&Aggregate { keys: vec![0], functions: every_function(0) }, &[], &group);
}

#[test]
fn keys_that_multiply_beyond_128_bits_are_told_apart() {
    let column = |seed: u64| -> ArrayRef {
        let mut rng = Rng(seed);
        Arc::new(Int64Array::from_iter(
            (0..3000).map(|_| Some(rng.pick(&[i64::MIN, 0, i64::MAX])).copied()),
        ))
    };
    let group = [Group::of(&[column(1), column(2), column(3)])];
    check(&Aggregate { keys: vec![0, 1, 2], functions: every_function(0) }, &[], &group);
    check(&Aggregate { keys: vec![0, 1], functions: every_function(2) }, &[], &group);
}

#[test]
fn a_long_string_of_many_rows_can_be_a_key() {
    let long = "k".repeat(400_000);
    let row = |row: usize| {
        if row.is_multiple_of(2) { long.clone() } else { format!("{:04}", row % 1400) }
    };
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(row)));
    let wide: Vec<i128> = (0..3000).map(|row| [i128::MAX, 0][row % 2]).collect();
    let wide = PrimitiveArray::<Decimal128Type>::new(wide.into(), None);
    let group = [Group::of(&[strings, Arc::new(wide)])];
    for keys in [vec![0], vec![0, 1]] {
        check(
            &Aggregate {
                keys,
                functions: vec![AggregateFunction::Rows, AggregateFunction::Greatest(0)],
            },
            &[],
            &group,
        );
    }
}

#[test]
fn many_groups_are_summed_at_places() {
    // Two keys, one with rows without a value, in two row groups of different ranges.
    let group = |first: i64| {
        let a = Int64Array::from_iter((0..5000).map(|i| (i % 7 != 0).then_some(first + i % 300)));
        let b = Int64Array::from_iter_values((0..5000).map(|i| i % 5));
        let c = Int64Array::from_iter((0..5000).map(|i| (i % 3 == 0).then_some(i - 2500)));
        Group::of(&[Arc::new(a) as ArrayRef, Arc::new(b), Arc::new(c)])
    };
    let groups = [group(-100), group(50), group(50)];
    let functions = every_function(2);
    let of = Aggregate { keys: vec![0, 1], functions };
    check(&of, &[], &groups);
    let headers: Vec<_> = groups.iter().map(|group| &group.header).collect();
    assert!(Plan::new(&of, &headers).expect("numbers").is_worth_it());
    assert!(check_dense(&of, &[], &groups));
    // Sums that may go beyond 64 bits are not for places.
    let huge = Int64Array::from_iter_values((0..50).map(|i| i64::MAX - i));
    let key = Int64Array::from_iter_values(0..50);
    let group = Group::of(&[Arc::new(key) as ArrayRef, Arc::new(huge)]);
    let of = Aggregate { keys: vec![0], functions: vec![AggregateFunction::Sum(Expr::Column(1))] };
    assert!(Plan::new(&of, &[&group.header]).is_none());
    check(&of, &[], &[group]);
}
