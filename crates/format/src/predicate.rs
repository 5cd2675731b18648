//! Predicates on columns, and the pruning of row groups by the statistics in their headers.
//!
//! A predicate is either true or not: what SQL calls unknown counts as not true. So a predicate cannot be
//! negated; whoever needs a NOT builds the tests that hold where it holds.

use std::ops::Bound;
use std::sync::Arc;

use crate::expr::Expr;
use crate::header::{Bounds, Entry, Header};
use crate::key_filter::KeyFilter;
use crate::like::Like;

/// A test of a column's value. A row without a value passes none but [`Test::Null`].
#[derive(Clone, Debug)]
pub enum Test {
    /// The row has no value.
    Null,
    /// It has one.
    NotNull,
    /// A number from the first to the second, both included.
    Numbers(i128, i128),
    /// One of these numbers, in ascending order.
    NumberIn(Vec<i128>),
    /// None of these numbers, in ascending order.
    NumberNotIn(Vec<i128>),
    /// A number that may be among these.
    Member(Arc<KeyFilter>),
    /// A string from the first to the second.
    Strings(Bound<Box<[u8]>>, Bound<Box<[u8]>>),
    /// One of these strings, in ascending order.
    StringIn(Vec<Box<[u8]>>),
    /// None of these strings, in ascending order.
    StringNotIn(Vec<Box<[u8]>>),
    /// A string that matches the LIKE pattern.
    Like(Like),
    /// A string that does not match the LIKE pattern.
    NotLike(Like),
}

/// The comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
}

impl Relation {
    /// Whether the comparison holds for two numbers.
    pub fn holds(self, left: i128, right: i128) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
        }
    }
}

/// A predicate on a row.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// Always true: every row passes.
    All,
    /// Always false: no row passes.
    None,
    /// All of these are true.
    And(Vec<Predicate>),
    /// At least one of these is true.
    Or(Vec<Predicate>),
    /// A test of a column's value.
    Test {
        /// The column, by number in the table.
        column: usize,
        /// The test.
        test: Test,
    },
    /// A comparison of two expressions over whole numbers; false where a column in one has no value.
    Compare {
        /// The left expression.
        left: Expr,
        /// The comparison.
        relation: Relation,
        /// The right expression.
        right: Expr,
    },
}

/// The verdict of a row group's header on a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No row passes.
    None,
    /// Perhaps some do.
    Some,
    /// Every row passes.
    All,
}

impl Test {
    /// Whether a number passes.
    pub fn of_number(&self, number: i128) -> bool {
        match self {
            Test::NotNull => true,
            Test::Numbers(low, high) => (*low..=*high).contains(&number),
            Test::NumberIn(list) => list.binary_search(&number).is_ok(),
            Test::NumberNotIn(list) => list.binary_search(&number).is_err(),
            Test::Member(members) => {
                i64::try_from(number).is_ok_and(|number| members.may_have(number))
            }
            _ => false,
        }
    }

    /// Whether a string passes.
    pub fn of_string(&self, string: &[u8]) -> bool {
        match self {
            Test::NotNull => true,
            Test::Strings(low, high) => {
                let above = match low {
                    Bound::Included(low) => string >= &**low,
                    Bound::Excluded(low) => string > &**low,
                    Bound::Unbounded => true,
                };
                above
                    && match high {
                        Bound::Included(high) => string <= &**high,
                        Bound::Excluded(high) => string < &**high,
                        Bound::Unbounded => true,
                    }
            }
            Test::StringIn(list) => list.binary_search_by(|own| (**own).cmp(string)).is_ok(),
            Test::StringNotIn(list) => list.binary_search_by(|own| (**own).cmp(string)).is_err(),
            Test::Like(like) => like.matches(string),
            Test::NotLike(like) => !like.matches(string),
            _ => false,
        }
    }

    /// The verdict of the smallest and the largest value.
    fn of_bounds(&self, bounds: &Bounds) -> Verdict {
        match (self, bounds) {
            (Test::NotNull, _) => Verdict::All,
            (_, Bounds::Numbers { min, max }) => self.of_numbers(*min, *max),
            (_, Bounds::Strings { min, max }) => {
                let same = min.is_whole() && min == max;
                if same {
                    return if self.of_string(min.bytes()) { Verdict::All } else { Verdict::None };
                }
                // Before the smallest: also where that goes on behind what is kept of it.
                let below = |string: &[u8]| {
                    string < min.bytes() || (string == min.bytes() && !min.is_whole())
                };
                let possible = |string: &[u8]| !below(string) && !max.is_before(string);
                let may = match self {
                    Test::Strings(low, high) => {
                        let over = match high {
                            Bound::Included(high) => below(high),
                            Bound::Excluded(high) => below(high) || **high == *min.bytes(),
                            Bound::Unbounded => false,
                        };
                        let under = match low {
                            Bound::Included(low) => max.is_before(low),
                            Bound::Excluded(low) => {
                                max.is_before(low) || (max.is_whole() && **low == *max.bytes())
                            }
                            Bound::Unbounded => false,
                        };
                        !over && !under
                    }
                    Test::StringIn(list) => list.iter().any(|string| possible(string)),
                    Test::Like(like) => {
                        let start = like.beginning();
                        // Every string that begins so may be there unless all of them are outside.
                        !max.is_before(start)
                            && (min.bytes() <= start || min.bytes().starts_with(start))
                    }
                    _ => true,
                };
                if may { Verdict::Some } else { Verdict::None }
            }
            (_, Bounds::None) => Verdict::None,
        }
    }

    fn of_numbers(&self, min: i128, max: i128) -> Verdict {
        if min == max {
            return if self.of_number(min) { Verdict::All } else { Verdict::None };
        }
        let inside = |list: &[i128]| {
            let at = list.partition_point(|number| *number < min);
            list.get(at).is_some_and(|number| *number <= max)
        };
        match self {
            Test::Numbers(low, high) if low > high || *high < min || *low > max => Verdict::None,
            Test::Numbers(low, high) if *low <= min && max <= *high => Verdict::All,
            Test::NumberIn(list) if !inside(list) => Verdict::None,
            Test::NumberNotIn(list) if !inside(list) => Verdict::All,
            Test::Member(members) => match members.range() {
                Some((low, high)) if i128::from(low) <= max && i128::from(high) >= min => {
                    Verdict::Some
                }
                _ => Verdict::None,
            },
            _ => Verdict::Some,
        }
    }

    fn of_entry(&self, entry: &Entry, rows: u32) -> Verdict {
        if let Test::Null = self {
            return match entry.nulls {
                0 => Verdict::None,
                nulls if nulls == rows => Verdict::All,
                _ => Verdict::Some,
            };
        }
        if entry.nulls == rows {
            return Verdict::None;
        }
        match self.of_bounds(&entry.bounds) {
            Verdict::All if entry.nulls > 0 => Verdict::Some,
            verdict => verdict,
        }
    }
}

impl Predicate {
    /// The verdict of a row group's header, for pruning.
    pub fn of_header(&self, header: &Header) -> Verdict {
        match self {
            Predicate::All => Verdict::All,
            Predicate::None => Verdict::None,
            Predicate::And(all) => {
                let verdicts = all.iter().map(|one| one.of_header(header));
                verdicts.fold(Verdict::All, |so_far, one| match (so_far, one) {
                    (Verdict::None, _) | (_, Verdict::None) => Verdict::None,
                    (Verdict::All, Verdict::All) => Verdict::All,
                    _ => Verdict::Some,
                })
            }
            Predicate::Or(all) => {
                let verdicts = all.iter().map(|one| one.of_header(header));
                verdicts.fold(Verdict::None, |so_far, one| match (so_far, one) {
                    (Verdict::All, _) | (_, Verdict::All) => Verdict::All,
                    (Verdict::None, Verdict::None) => Verdict::None,
                    _ => Verdict::Some,
                })
            }
            Predicate::Test { column, test } => match header.entries.get(*column) {
                Some(entry) => test.of_entry(entry, header.rows),
                None => Verdict::Some,
            },
            Predicate::Compare { .. } => Verdict::Some,
        }
    }

    /// Whether all that is computed for it fits 128 bits, going by what a header says; if not, it cannot
    /// be made ready for that row group.
    pub fn fits(&self, header: &Header) -> bool {
        match self {
            Predicate::And(all) | Predicate::Or(all) => all.iter().all(|one| one.fits(header)),
            Predicate::Compare { left, right, .. } => {
                left.bounds(header).is_some() && right.bounds(header).is_some()
            }
            _ => true,
        }
    }

    /// Adds the columns that it refers to to `out`.
    pub fn columns(&self, out: &mut std::collections::BTreeSet<usize>) {
        match self {
            Predicate::All | Predicate::None => {}
            Predicate::And(all) | Predicate::Or(all) => {
                all.iter().for_each(|one| one.columns(out));
            }
            Predicate::Test { column, .. } => {
                out.insert(*column);
            }
            Predicate::Compare { left, right, .. } => {
                left.columns(out);
                right.columns(out);
            }
        }
    }
}
