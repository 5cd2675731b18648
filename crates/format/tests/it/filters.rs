//! Filters on encoded data, and what headers say, against a look at every row.

use std::ops::Bound;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, StringArray};
use cellar_format::bits::BLOCK;
use cellar_format::{Filter, Found, Header, Like, Predicate, Test, Verdict};
use proptest::prelude::*;

use crate::naive::{asked, passes, rows_of};
use crate::questions::predicate;
use crate::table::{Group, Rng, Spec, cases, spec};

/// The rows that pass, block by block.
pub fn filtered(conjuncts: &[Predicate], group: &Group, found: &[Found]) -> Vec<usize> {
    let mut columns = group.columns();
    // What nobody asks is not needed.
    let asked = asked(conjuncts);
    columns
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| !asked.contains(at))
        .for_each(|(_, c)| *c = None);
    let mut filter = Filter::new(conjuncts, &group.header, &columns, found).expect("as written");
    let mut rows = Vec::new();
    for block in 0..group.header.blocks() {
        let mut mask = [1; BLOCK];
        let count = filter.block(block, &mut mask).expect("as written");
        assert!(mask.iter().all(|mask| [0, 0xff].contains(mask)), "all ones or none");
        let own = (0..BLOCK).filter(|row| mask[*row] != 0).map(|row| block * BLOCK + row);
        rows.extend(own);
        assert_eq!(count, mask.iter().filter(|mask| **mask != 0).count());
    }
    if filter.is_all() {
        assert_eq!(rows.len(), group.rows());
    }
    rows
}

fn check(conjuncts: &[Predicate], group: &Group, found: &[Found]) {
    for one in conjuncts {
        let passing = (0..group.rows()).filter(|row| passes(one, group, *row)).count();
        match one.of_header(&group.header) {
            Verdict::None => assert_eq!(passing, 0, "lost by its header: {one:?}"),
            Verdict::All => assert_eq!(passing, group.rows(), "taken by its header: {one:?}"),
            Verdict::Some => {}
        }
    }
    let (rows, expected) = (filtered(conjuncts, group, found), rows_of(conjuncts, group));
    assert_eq!(rows, expected, "{conjuncts:?}");
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn filters_say_what_every_row_says(spec in spec()) {
        let group = Group::random(&spec);
        let mut rng = Rng(spec.seed ^ 77);
        for _ in 0..12 {
            let depth = rng.below(3);
            let some: Vec<Predicate> =
                (0..rng.below(4)).map(|_| predicate(&mut rng, &group, depth)).collect();
            let found: Vec<Found> = some.iter().map(|_| {
                let asked = rng.below(1000) as u64;
                Found { asked, passed: asked.min(rng.below(1000) as u64) }
            }).collect();
            check(&some, &group, &found);
        }
    }
}

/// Every test of one column of strings.
fn tests_of(strings: &[&[u8]]) -> Vec<Test> {
    let mut tests = Vec::new();
    for a in strings {
        tests.push(Test::StringIn(vec![(*a).into()]));
        tests.push(Test::StringNotIn(vec![(*a).into()]));
        if let Ok(text) = std::str::from_utf8(a) {
            for pattern in [text.to_owned(), format!("{text}%"), format!("{text}_")] {
                tests.push(Test::Like(Like::with_escape(&pattern, None)));
                tests.push(Test::NotLike(Like::with_escape(&pattern, None)));
            }
        }
        for b in strings {
            let bounds = |s: &[u8]| {
                [Bound::Unbounded, Bound::Included(Box::from(s)), Bound::Excluded(Box::from(s))]
            };
            for low in bounds(a) {
                for high in bounds(b) {
                    tests.push(Test::Strings(low.clone(), high));
                }
            }
        }
    }
    tests
}

/// Each pair of these is a column of its own, and each test is made of each.
fn check_strings(own: &[&[u8]]) {
    let tests = tests_of(own);
    for a in own {
        for b in own {
            let rows = [*a, *b, *b, *a];
            for rows in [&rows[..2], &rows[..]] {
                let array: ArrayRef = match rows.iter().all(|s| std::str::from_utf8(s).is_ok()) {
                    true => {
                        let text = |s: &&[u8]| String::from_utf8(s.to_vec()).expect("just asked");
                        Arc::new(StringArray::from_iter_values(rows.iter().map(text)))
                    }
                    false => Arc::new(BinaryArray::from_iter_values(rows)),
                };
                let group = Group::of(&[array]);
                for test in &tests {
                    let test = Predicate::Test { column: 0, test: test.clone() };
                    check(std::slice::from_ref(&test), &group, &[]);
                }
            }
        }
    }
}

#[test]
fn no_row_is_lost_by_the_beginning_of_its_string() {
    let long = "four and twenty bytes...";
    assert_eq!(long.len(), 24);
    let texts: Vec<String> = ["", "a", "z", "\u{0}", "aa", "\u{10ffff}"]
        .iter()
        .flat_map(|end| [(*end).to_owned(), format!("{long}{end}")])
        .chain([long[..23].to_owned()])
        .collect();
    check_strings(&texts.iter().map(String::as_bytes).collect::<Vec<_>>());
}

#[test]
fn no_row_is_lost_by_bytes_of_ones() {
    let bytes: Vec<Vec<u8>> =
        [0, 1, 23, 24, 25, 26].map(|count| vec![0xff; count]).into_iter().collect();
    let mut all: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let other = [&[0xff; 24][..], b"a"].concat();
    all.extend([b"\xfe\xff".as_slice(), b"\xff\x00", &other]);
    check_strings(&all);
}

#[test]
fn numbers_at_the_ends_are_kept_and_left_out() {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    let of: Vec<i128> = ends
        .iter()
        .map(|end| i128::from(*end))
        .chain([i128::MIN, i128::MAX, i128::from(i64::MIN) - 1, i128::from(i64::MAX) + 1])
        .collect();
    for rows in [vec![i64::MIN, i64::MAX], ends.to_vec(), vec![i64::MAX; 3], vec![0, 5]] {
        let group = Group::of(&[Arc::new(Int64Array::from(rows))]);
        for a in &of {
            let list = of.iter().copied().filter(|one| one >= a);
            let mut list: Vec<i128> = list.collect();
            list.sort_unstable();
            let mut tests = vec![Test::NumberIn(list.clone()), Test::NumberNotIn(list.clone())];
            tests.push(Test::NumberIn(vec![*a]));
            tests.push(Test::NumberNotIn(vec![*a]));
            tests.extend(of.iter().map(|b| Test::Numbers(*a, *b)));
            for test in tests {
                check(&[Predicate::Test { column: 0, test }], &group, &[]);
            }
        }
    }
}

#[test]
fn a_filter_needs_no_column_that_its_header_answers() {
    let group = Group::random(&Spec { types: vec![4], rows: 2000, seed: 1 });
    let header: &Header = &group.header;
    let all = [Predicate::Test { column: 0, test: Test::Numbers(i128::MIN, i128::MAX) }];
    if header.entries[0].nulls == 0 {
        let filter = Filter::new(&all, header, &[], &[]).expect("nothing to read");
        assert!(filter.is_all());
    }
}
