//! Predicates prepared for a row group: each test becomes the cheapest form for the column's
//! encoding, and is then evaluated on one block of 1,024 rows at a time.

use std::ops::Bound;

use crate::bits::{BLOCK, Lane};
use crate::column::{Column, Data};
use crate::expr::Program;
use crate::header::Header;
use crate::int128::Int128;
use crate::ints::{Codes, Damage, Ints, each_lane};
use crate::kernel::{self, Mask};
use crate::key_filter::KeyFilter;
use crate::predicate::{Predicate, Relation, Test, Verdict};
use crate::text::{Reader, Strings};

/// The most ranges that are tested one after the other; with more of them rows are looked up one by
/// one.
const RANGES_MAX: usize = 4;

/// The columns of a row group that have been read, by their number in the table.
pub type Columns<'a> = [Option<Column<'a>>];

/// How the rows of a column are tested.
#[derive(Debug)]
enum How<'p, 'c, 'a> {
    /// All rows with a value pass.
    Valid,
    /// All rows without a value pass.
    Nulls,
    /// Numbers or codes in one of these ranges.
    Ranges(&'c Ints<'a>, Vec<(i64, i64)>),
    /// Codes whose entry here is all ones.
    Table(&'c Ints<'a>, Vec<u8>),
    /// Numbers with a bit each, from the first on.
    Bits(&'c Ints<'a>, i64, &'p [u64]),
    /// Numbers, one by one.
    Numbers(&'c Ints<'a>, &'p Test),
    /// Numbers of 128 bits, one by one.
    Int128(&'c Int128<'a>, &'p Test),
    /// Strings, one by one.
    Text(Reader<'c, 'a>, &'p Test),
}

#[derive(Debug)]
enum Node<'p, 'c, 'a> {
    All,
    None,
    And(Vec<Node<'p, 'c, 'a>>),
    Or(Vec<Node<'p, 'c, 'a>>),
    Test(&'c Column<'a>, How<'p, 'c, 'a>),
    Compare(Box<Comparison<'c, 'a>>),
}

#[derive(Debug)]
struct Comparison<'c, 'a> {
    program: Program<'c, 'a>,
    left: usize,
    right: usize,
    relation: Relation,
    /// The columns in it that have rows without a value.
    nullable: Vec<&'c Column<'a>>,
}

/// The selectivity of a predicate so far: passed from one row group to the next, so that the
/// predicate that removes most rows for its cost is tested first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Rows that were tested.
    pub asked: u64,
    /// Rows that passed.
    pub passed: u64,
}

/// A predicate ready for a row group.
#[derive(Debug)]
pub struct Filter<'p, 'c, 'a> {
    conjuncts: Vec<(usize, Node<'p, 'c, 'a>)>,
    found: Vec<Found>,
    rows: usize,
    strings: Strings,
}

impl<'p, 'c, 'a> Filter<'p, 'c, 'a> {
    /// Prepares conjuncts. `found` is the selectivity of each in earlier row groups, or nothing.
    ///
    /// # Errors
    /// A column of them has not been read, or is not as it was written.
    pub fn new(
        conjuncts: &'p [Predicate],
        header: &Header,
        columns: &'c Columns<'a>,
        found: &[Found],
    ) -> Result<Filter<'p, 'c, 'a>, Damage> {
        let mut ready = Vec::with_capacity(conjuncts.len());
        for (at, conjunct) in conjuncts.iter().enumerate() {
            let node = Node::new(conjunct, header, columns)?;
            if !matches!(node, Node::All) {
                ready.push((at, node));
            }
        }
        // The lowest cost for each row that it removes.
        let rank = |(at, node): &(usize, Node<'_, '_, '_>)| {
            let found = found.get(*at).copied().unwrap_or_default();
            let passes = (found.passed as f64 + 1.0) / (found.asked as f64 + 2.0);
            node.price() / (1.0 - passes).max(1e-6)
        };
        ready.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        Ok(Filter {
            conjuncts: ready,
            found: vec![Found::default(); conjuncts.len()],
            rows: header.rows as usize,
            strings: Strings::default(),
        })
    }

    /// This filter without the conjuncts that `is_out` names: rows that those would remove pass.
    #[must_use]
    pub fn without(mut self, is_out: impl Fn(usize) -> bool) -> Filter<'p, 'c, 'a> {
        self.conjuncts.retain(|(at, _)| !is_out(*at));
        self
    }

    /// Whether every row passes.
    pub fn is_all(&self) -> bool {
        self.conjuncts.is_empty()
    }

    /// The selectivity of each conjunct in this row group.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Sets `mask` to the rows of a block that pass; returns how many.
    ///
    /// # Errors
    /// A column is not as it was written.
    pub fn block(&mut self, block: usize, mask: &mut Mask) -> Result<usize, Damage> {
        let mut left = (self.rows - block * BLOCK).min(BLOCK);
        mask[..left].fill(0xff);
        mask[left..].fill(0);
        for (at, node) in &mut self.conjuncts {
            self.found[*at].asked += left as u64;
            node.keep(block, mask, &mut self.strings)?;
            left = kernel::count(mask);
            self.found[*at].passed += left as u64;
            if left == 0 {
                break;
            }
        }
        Ok(left)
    }
}

/// Merges neighbouring values into ranges.
fn ranges_of(sorted: impl Iterator<Item = i64>) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some((_, high)) if high.checked_add(1) == Some(number) => *high = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

fn narrow(number: i128) -> i64 {
    number.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

impl<'p, 'c, 'a> How<'p, 'c, 'a> {
    fn new(test: &'p Test, column: &'c Column<'a>) -> Result<How<'p, 'c, 'a>, Damage> {
        Ok(match (test, column.data()) {
            (Test::Null, _) => How::Nulls,
            (Test::NotNull, _) | (_, Data::Nulls) => How::Valid,
            (_, Data::Int128(wide)) => How::Int128(wide, test),
            (_, Data::Text(text)) => How::Text(text.reader(), test),
            (_, Data::Ints(ints)) => How::of_ints(test, ints),
            (_, Data::Dict(dict)) => {
                let contiguous = match test {
                    Test::Strings(low, high) => {
                        let low = low.as_ref().map(|low| &**low);
                        Some(dict.range(low, high.as_ref().map(|high| &**high)))
                    }
                    Test::Like(like) if like.is_beginning() => {
                        Some(dict.beginning(like.beginning()))
                    }
                    _ => None,
                };
                if let Some((from, to)) = contiguous {
                    let range = (from as i64, to as i64 - 1);
                    return Ok(How::Ranges(dict.codes(), vec![range]));
                }
                let passing: Vec<i64> = match test {
                    Test::StringIn(list) => {
                        let code = |string: &[u8]| {
                            let of = Bound::Included(string);
                            let (from, to) = dict.range(of, of);
                            (from < to).then_some(from as i64)
                        };
                        list.iter().filter_map(|string| code(string)).collect()
                    }
                    _ => {
                        let passes =
                            |code: &usize| dict.string(*code).is_some_and(|s| test.of_string(s));
                        (0..dict.count()).filter(passes).map(|code| code as i64).collect()
                    }
                };
                let ranges = ranges_of(passing.iter().copied());
                if ranges.len() <= RANGES_MAX {
                    return Ok(How::Ranges(dict.codes(), ranges));
                }
                let mut table = vec![0; dict.count()];
                passing.iter().for_each(|code| table[*code as usize] = 0xff);
                How::Table(dict.codes(), table)
            }
        })
    }

    fn of_ints(test: &'p Test, ints: &'c Ints<'a>) -> How<'p, 'c, 'a> {
        if let Test::Member(members) = test
            && let KeyFilter::Bits { low, bits, .. } = &**members
        {
            return How::Bits(ints, *low, bits);
        }
        let fits = |number: &&i128| i64::try_from(**number).is_ok();
        let ranges = match test {
            Test::Numbers(low, high) => {
                let none = low > high || *low > i64::MAX.into() || *high < i64::MIN.into();
                if none { Vec::new() } else { vec![(narrow(*low), narrow(*high))] }
            }
            Test::NumberIn(list) => {
                ranges_of(list.iter().filter(fits).map(|number| *number as i64))
            }
            Test::NumberNotIn(list) => {
                let out = ranges_of(list.iter().filter(fits).map(|number| *number as i64));
                let mut ranges = Vec::with_capacity(out.len() + 1);
                let mut from = Some(i64::MIN);
                for (low, high) in out {
                    if let Some(from) = from.filter(|from| *from < low) {
                        ranges.push((from, low - 1));
                    }
                    from = high.checked_add(1);
                }
                ranges.extend(from.map(|from| (from, i64::MAX)));
                ranges
            }
            _ => return How::Numbers(ints, test),
        };
        match ranges.len() {
            0..=RANGES_MAX => How::Ranges(ints, ranges),
            _ => How::Numbers(ints, test),
        }
    }

    /// The rough cost of a row, in tenths of a nanosecond.
    fn price(&self) -> f64 {
        match self {
            How::Valid | How::Nulls => 0.5,
            How::Ranges(_, ranges) => 1.0 + ranges.len() as f64,
            How::Table(..) | How::Bits(..) => 8.0,
            How::Numbers(..) => 15.0,
            How::Int128(..) => 40.0,
            How::Text(..) => 200.0,
        }
    }

    fn keep(&mut self, block: usize, mask: &mut Mask, strings: &mut Strings) -> Result<(), Damage> {
        match self {
            How::Valid | How::Nulls => {}
            How::Ranges(ints, ranges) => match &ranges[..] {
                [] => mask.fill(0),
                [(low, high)] => ints.keep_range(block, *low, *high, mask),
                ranges => {
                    let mut all = [0; BLOCK];
                    for (low, high) in ranges {
                        let mut own = *mask;
                        ints.keep_range(block, *low, *high, &mut own);
                        kernel::join(&own, &mut all);
                    }
                    *mask = all;
                }
            },
            How::Table(ints, table) => {
                let mut codes = ints.codes();
                let base = ints.unpack_codes(block, &mut codes) as u64;
                // A code past the strings belongs to a damaged column, wherever it wraps to.
                let of = |code: u64| {
                    let at = usize::try_from(base.wrapping_add(code)).ok();
                    at.and_then(|at| table.get(at)).copied().unwrap_or(0)
                };
                look_up(&codes, mask, of);
            }
            How::Bits(ints, low, bits) => {
                let mut codes = ints.codes();
                let base = ints.unpack_codes(block, &mut codes).wrapping_sub(*low);
                let most = ints.most(block);
                each_lane!(&codes, codes => kernel::keep_keys(codes, base, most, bits, mask));
            }
            How::Numbers(ints, test) => {
                let mut numbers = [0; BLOCK];
                ints.decode(block, &mut numbers);
                keep_each(mask, |row| test.of_number(numbers[row].into()));
            }
            How::Int128(wide, test) => {
                let mut numbers = [0; BLOCK];
                wide.decode(block, &mut numbers);
                keep_each(mask, |row| test.of_number(numbers[row]));
            }
            How::Text(reader, test) => {
                strings.clear();
                reader.decode_some(block, mask, strings)?;
                keep_each(mask, |row| test.of_string(strings.get(row)));
            }
        }
        Ok(())
    }
}

fn look_up(codes: &Codes, mask: &mut Mask, of: impl Fn(u64) -> u8) {
    each_lane!(codes, codes => {
        for (mask, code) in mask.iter_mut().zip(codes.iter()) {
            *mask &= of(code.wide());
        }
    });
}

/// Tests the rows that are still in.
fn keep_each(mask: &mut Mask, passes: impl Fn(usize) -> bool) {
    for (row, mask) in mask.iter_mut().enumerate() {
        if *mask != 0 && !passes(row) {
            *mask = 0;
        }
    }
}

impl<'p, 'c, 'a> Node<'p, 'c, 'a> {
    fn new(
        predicate: &'p Predicate,
        header: &Header,
        columns: &'c Columns<'a>,
    ) -> Result<Node<'p, 'c, 'a>, Damage> {
        match predicate.of_header(header) {
            Verdict::All => return Ok(Node::All),
            Verdict::None => return Ok(Node::None),
            Verdict::Some => {}
        }
        let all = |list: &'p [Predicate]| -> Result<Vec<_>, Damage> {
            list.iter().map(|one| Node::new(one, header, columns)).collect()
        };
        let column = |at: usize| {
            let unread = Damage::Field { name: "column not read", value: at as u64 };
            columns.get(at).and_then(Option::as_ref).ok_or(unread)
        };
        Ok(match predicate {
            Predicate::All => Node::All,
            Predicate::None => Node::None,
            Predicate::And(list) => Node::And(all(list)?),
            Predicate::Or(list) => Node::Or(all(list)?),
            Predicate::Test { column: at, test } => {
                let column = column(*at)?;
                Node::Test(column, How::new(test, column)?)
            }
            Predicate::Compare { left, relation, right } => {
                let mut program = Program::default();
                let left_at = program.add(left, header, columns)?;
                let right_at = program.add(right, header, columns)?;
                let mut asked = std::collections::BTreeSet::new();
                left.columns(&mut asked);
                right.columns(&mut asked);
                let asked: Vec<&Column<'a>> =
                    asked.into_iter().map(column).collect::<Result<_, _>>()?;
                if asked.iter().any(|column| matches!(column.data(), Data::Nulls)) {
                    return Ok(Node::None);
                }
                let nullable = asked.into_iter().filter(|column| column.has_bits()).collect();
                Node::Compare(Box::new(Comparison {
                    program,
                    left: left_at,
                    right: right_at,
                    relation: *relation,
                    nullable,
                }))
            }
        })
    }

    fn price(&self) -> f64 {
        match self {
            Node::All | Node::None => 0.0,
            Node::And(list) | Node::Or(list) => list.iter().map(Node::price).sum(),
            Node::Test(_, how) => how.price(),
            Node::Compare(_) => 6.0,
        }
    }

    fn keep(&mut self, block: usize, mask: &mut Mask, strings: &mut Strings) -> Result<(), Damage> {
        match self {
            Node::All => {}
            Node::None => mask.fill(0),
            Node::And(list) => {
                for node in list {
                    node.keep(block, mask, strings)?;
                }
            }
            Node::Or(list) => {
                let mut all = [0; BLOCK];
                for node in list {
                    let mut own = *mask;
                    node.keep(block, &mut own, strings)?;
                    kernel::join(&own, &mut all);
                }
                *mask = all;
            }
            Node::Test(column, How::Nulls) => column.keep_nulls(block, mask),
            Node::Test(column, how) => {
                column.keep_valid(block, mask);
                how.keep(block, mask, strings)?;
            }
            Node::Compare(comparison) => comparison.keep(block, mask),
        }
        Ok(())
    }
}

impl Comparison<'_, '_> {
    fn keep(&mut self, block: usize, mask: &mut Mask) {
        self.nullable.iter().for_each(|column| column.keep_valid(block, mask));
        self.program.run(block);
        let (left, right) = (self.program.out(self.left), self.program.out(self.right));
        if let crate::expr::Out::Int128(_) = left {
            return self.keep_wide(mask);
        }
        if let crate::expr::Out::Int128(_) = right {
            return self.keep_wide(mask);
        }
        let (mut room_a, mut room_b) = ([0; BLOCK], [0; BLOCK]);
        let (a, b) = (left.as_i64(&mut room_a), right.as_i64(&mut room_b));
        match self.relation {
            Relation::Equal => kernel::keep_equal(a, b, 0, mask),
            Relation::NotEqual => kernel::keep_equal(a, b, 0xff, mask),
            Relation::Less => kernel::keep_less(a, b, mask),
            Relation::LessOrEqual => kernel::keep_less_or_equal(a, b, mask),
        }
    }

    fn keep_wide(&self, mask: &mut Mask) {
        let (mut room_a, mut room_b) = ([0; BLOCK], [0; BLOCK]);
        let a = self.program.out(self.left).as_wide(&mut room_a);
        let b = self.program.out(self.right).as_wide(&mut room_b);
        let relation = self.relation;
        keep_each(mask, |row| match relation {
            Relation::Equal => a[row] == b[row],
            Relation::NotEqual => a[row] != b[row],
            Relation::Less => a[row] < b[row],
            Relation::LessOrEqual => a[row] <= b[row],
        });
    }
}
