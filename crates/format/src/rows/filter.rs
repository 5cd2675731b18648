//! Conditions tested on stored rows, before columns are made of those that pass.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use cellar_page::row::{BadRow, Held, Reader, Type};

use super::error::RowError;
use super::layout::{DefaultValue, RowLayout};
use super::source::Source;
use crate::expr::Expr;
use crate::key_filter::KeyFilter;
use crate::predicate::{Predicate, Relation, Test};
use crate::value::{key_of_f32, key_of_f64};

/// A value of a row, as predicates know values.
#[derive(Clone, Copy, Debug)]
enum Item<'r> {
    Null,
    Number(i128),
    Bytes(&'r [u8]),
    /// In pages of its own, which were not given.
    Elsewhere,
    /// It is present, but no predicate tests such values.
    Some,
}

/// The step for a column of a row.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Skips this many bytes; the last of their columns.
    Pass(usize, usize),
    /// Skips a text; its column.
    PassText(usize),
    /// A column that is tested, and its place among these.
    Take(usize, usize),
    /// A number of at most 64 bits that must lie between these, or the row does not pass.
    Range { kind: Type, column: usize, low: i64, high: i64 },
    /// The same of 128 bits.
    Wide { column: usize, low: i128, high: i128 },
    /// A number that must be among the keys of a join, by the number of these.
    Among { kind: Type, column: usize, members: usize },
}

/// What conditions of its own say of a column of numbers.
#[derive(Clone, Debug)]
struct Own {
    low: i128,
    high: i128,
    members: Option<usize>,
    /// Whether other conditions look at it too.
    is_taken: bool,
}

/// A predicate with its columns as places.
#[derive(Clone, Debug)]
enum Node {
    All,
    None,
    And(Vec<Node>),
    Or(Vec<Node>),
    Test(usize, Test),
    Compare(Side, Relation, Side),
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug)]
enum Side {
    Column(usize),
    Constant(i128),
}

/// Conditions on rows, all of which must hold.
#[derive(Clone, Debug)]
pub struct RowFilter {
    layout: RowLayout,
    /// The columns that are tested, ascending.
    columns: Vec<usize>,
    steps: Vec<Step>,
    conjuncts: Vec<Node>,
    /// Those of them that the steps do not ask.
    rest: Vec<Node>,
    members: Vec<Arc<KeyFilter>>,
}

/// A filter at work.
#[derive(Debug)]
pub struct FilterRun<'r> {
    filter: &'r RowFilter,
    items: Vec<Item<'r>>,
}

/// Whether a type has numbers that are compared as whole ones.
fn is_whole(kind: Type) -> bool {
    !matches!(kind, Type::Float4 | Type::Float8 | Type::Interval | Type::Text | Type::Bytes)
}

impl RowFilter {
    /// Whether a predicate can be tested on rows of a layout.
    pub fn knows(layout: &RowLayout, predicate: &Predicate) -> bool {
        let kind = |column: &usize| layout.types.get(*column).copied();
        let is_side = |expr: &Expr| match expr {
            Expr::Column(column) => kind(column).is_some_and(is_whole),
            Expr::Constant(_) => true,
            _ => false,
        };
        match predicate {
            Predicate::All | Predicate::None => true,
            Predicate::And(all) | Predicate::Or(all) => {
                all.iter().all(|one| RowFilter::knows(layout, one))
            }
            Predicate::Compare { left, right, .. } => is_side(left) && is_side(right),
            Predicate::Test { column, test } => match (test, kind(column)) {
                (_, None) => false,
                (Test::Null | Test::NotNull, _) => true,
                // Rows hold codes, which are not what the predicate tests.
                _ if layout.labels[*column].is_some() => false,
                (_, Some(Type::Interval)) => false,
                (Test::Numbers(..) | Test::NumberIn(_) | Test::NumberNotIn(_), Some(kind)) => {
                    !matches!(kind, Type::Text | Type::Bytes)
                }
                (Test::Member(_), Some(kind)) => is_whole(kind),
                (_, Some(kind)) => matches!(kind, Type::Text | Type::Bytes),
            },
        }
    }

    /// Prepares conditions, each of which [`RowFilter::knows`] accepts. Cheap ones are tested first.
    ///
    /// # Errors
    /// [`RowError::NoColumn`].
    pub fn new(layout: &RowLayout, conjuncts: &[Predicate]) -> Result<RowFilter, RowError> {
        let mut columns = std::collections::BTreeSet::new();
        conjuncts.iter().for_each(|one| one.columns(&mut columns));
        let columns: Vec<usize> = columns.into_iter().collect();
        columns.iter().try_for_each(|column| layout.check(*column))?;
        let mut conjuncts: Vec<Node> =
            conjuncts.iter().map(|conjunct| Node::of(conjunct, &columns)).collect();
        conjuncts.sort_by_key(Node::price);
        let (mut own, mut rest, mut members) = (BTreeMap::new(), Vec::new(), Vec::new());
        for conjunct in &conjuncts {
            match direct(layout, &columns, conjunct) {
                Some(place) => learn(conjunct, own.entry(place), &mut members, &mut rest),
                None => rest.push(conjunct.clone()),
            }
        }
        rest.iter().for_each(|node| node.places(&mut own));
        let steps = steps(layout, &columns, &own);
        Ok(RowFilter { layout: layout.clone(), columns, steps, conjuncts, rest, members })
    }

    /// Whether all rows pass.
    pub fn is_all(&self) -> bool {
        self.conjuncts.iter().all(|one| matches!(one, Node::All))
    }

    /// Begins to ask rows.
    pub fn ask(&self) -> FilterRun<'_> {
        FilterRun { filter: self, items: vec![Item::Null; self.columns.len()] }
    }
}

impl<'r> FilterRun<'r> {
    /// Whether a row passes. `long`: the bytes of those of its values that are in pages of their own, each with
    /// its column; most rows are asked without.
    ///
    /// # Errors
    /// [`RowError::Damaged`]; [`RowError::LongMissing`] where such a value decides.
    #[inline]
    pub fn passes(&mut self, row: &'r [u8], long: &'r [(usize, Bytes)]) -> Result<bool, RowError> {
        let reader = Reader::new(row)?;
        let filter = self.filter;
        let last = filter.columns.last().map_or(0, |last| last + 1);
        let mut conjuncts = &filter.rest;
        if reader.columns() < last || reader.has_nulls() {
            conjuncts = &filter.conjuncts;
            self.read(reader)?;
        } else if !self.read_whole(reader)? {
            return Ok(false);
        }
        for (column, bytes) in long {
            if let Ok(place) = filter.columns.binary_search(column) {
                self.items[place] = Item::Bytes(bytes);
            }
        }
        for conjunct in conjuncts {
            match conjunct.holds(&self.items) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(place) => return Err(RowError::LongMissing { column: filter.columns[place] }),
            }
        }
        Ok(true)
    }

    /// Reads a row that has all columns, and no NULL; `false`: it does not pass.
    #[inline]
    fn read_whole(&mut self, mut reader: Reader<'r>) -> Result<bool, RowError> {
        for step in &self.filter.steps {
            let is_in = match *step {
                Step::Pass(bytes, column) => {
                    reader.take(bytes).ok_or(BadRow { column })?;
                    true
                }
                Step::PassText(column) => {
                    reader.held().ok_or(BadRow { column })?;
                    true
                }
                Step::Take(column, place) => {
                    let item = item(&mut reader, self.filter.layout.types[column]);
                    self.items[place] = item.ok_or(BadRow { column })?;
                    true
                }
                Step::Range { kind, column, low, high } => {
                    let number = narrow(&reader, kind).ok_or(BadRow { column })?;
                    low <= number && number <= high
                }
                Step::Wide { column, low, high } => {
                    let mut reader = reader;
                    let number = i128::from_le_bytes(reader.array().ok_or(BadRow { column })?);
                    low <= number && number <= high
                }
                Step::Among { kind, column, members } => {
                    let number = narrow(&reader, kind).ok_or(BadRow { column })?;
                    self.filter.members[members].may_have(number)
                }
            };
            if !is_in {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read(&mut self, mut reader: Reader<'r>) -> Result<(), RowError> {
        let RowFilter { layout, columns, .. } = self.filter;
        let mut next = 0;
        for (place, column) in columns.iter().enumerate() {
            if *column >= reader.columns() {
                self.items[place] = default(layout, *column)?;
                continue;
            }
            while next < *column {
                if !reader.is_null(next) {
                    reader.skip(layout.types[next]).ok_or(BadRow { column: next })?;
                }
                next += 1;
            }
            self.items[place] = match reader.is_null(*column) {
                true => Item::Null,
                false => {
                    let item = item(&mut reader, layout.types[*column]);
                    item.ok_or(BadRow { column: *column })?
                }
            };
            next = column + 1;
        }
        Ok(())
    }
}

/// The next number of a row, of at most 64 bits, where the reader stays.
#[inline]
fn narrow(reader: &Reader<'_>, kind: Type) -> Option<i64> {
    let mut reader = *reader;
    Some(match kind {
        Type::Int2 => i16::from_le_bytes(reader.array()?).into(),
        Type::Int4 | Type::Date => i32::from_le_bytes(reader.array()?).into(),
        _ => i64::from_le_bytes(reader.array()?),
    })
}

/// The place of the only column that a condition asks, if that is a number which is asked as the row is read.
fn direct(layout: &RowLayout, columns: &[usize], node: &Node) -> Option<usize> {
    let Node::Test(place, test) = node else { return None };
    let is_narrow = matches!(
        layout.types[columns[*place]],
        Type::Int2 | Type::Int4 | Type::Date | Type::Int8 | Type::Time | Type::Timestamp
    );
    let is_wide = layout.types[columns[*place]] == Type::Decimal;
    let is_direct = match test {
        Test::Numbers(..) => is_narrow || is_wide,
        Test::Member(_) => is_narrow,
        _ => false,
    };
    is_direct.then_some(*place)
}

/// Notes what such a condition says.
fn learn(
    node: &Node,
    own: Entry<'_, usize, Own>,
    members: &mut Vec<Arc<KeyFilter>>,
    rest: &mut Vec<Node>,
) {
    let all = Own { low: i128::MIN, high: i128::MAX, members: None, is_taken: false };
    let own = own.or_insert(all);
    match node {
        Node::Test(_, Test::Numbers(low, high)) => {
            (own.low, own.high) = (own.low.max(*low), own.high.min(*high));
        }
        Node::Test(_, Test::Member(keys)) if own.members.is_none() => {
            own.members = Some(members.len());
            members.push(Arc::clone(keys));
        }
        node => rest.push(node.clone()),
    }
}

/// The next value of a row.
#[inline]
fn item<'r>(reader: &mut Reader<'r>, kind: Type) -> Option<Item<'r>> {
    Some(match kind {
        Type::Bool => match reader.array()? {
            [bit @ (0 | 1)] => Item::Number(bit.into()),
            _ => return None,
        },
        Type::Int2 => Item::Number(i16::from_le_bytes(reader.array()?).into()),
        Type::Int4 | Type::Date => Item::Number(i32::from_le_bytes(reader.array()?).into()),
        Type::Int8 | Type::Time | Type::Timestamp => {
            Item::Number(i64::from_le_bytes(reader.array()?).into())
        }
        Type::Float4 => Item::Number(key_of_f32(f32::from_le_bytes(reader.array()?)).into()),
        Type::Float8 => Item::Number(key_of_f64(f64::from_le_bytes(reader.array()?)).into()),
        Type::Decimal => Item::Number(i128::from_le_bytes(reader.array()?)),
        Type::Interval => reader.take(16).map(|_| Item::Some)?,
        Type::Text | Type::Bytes => match reader.held()? {
            Held::Here(bytes) => Item::Bytes(bytes),
            Held::Elsewhere { .. } => Item::Elsewhere,
        },
    })
}

/// The default of a column in rows that lack it.
fn default(layout: &RowLayout, column: usize) -> Result<Item<'_>, RowError> {
    Ok(match &layout.defaults[column] {
        DefaultValue::Null => Item::Null,
        DefaultValue::Row(row) => {
            item(&mut Reader::new(row)?, layout.types[column]).ok_or(BadRow { column })?
        }
        DefaultValue::Long(value) => {
            Item::Bytes(Source::of(layout, column, value)?.bytes(0).unwrap_or_default())
        }
    })
}

/// What is done with a row that has all columns, and no NULL.
fn steps(layout: &RowLayout, columns: &[usize], own: &BTreeMap<usize, Own>) -> Vec<Step> {
    let mut steps = Vec::new();
    let last = columns.last().map_or(0, |last| last + 1);
    for (column, kind) in layout.types[..last].iter().enumerate() {
        let place = columns.binary_search(&column).ok();
        let asked = place.and_then(|place| own.get(&place));
        asked.into_iter().for_each(|own| ask(column, *kind, own, &mut steps));
        let is_taken = asked.is_none_or(|own| own.is_taken);
        let step = match (place.filter(|_| is_taken), kind.width()) {
            (Some(place), _) => Step::Take(column, place),
            (None, None) => Step::PassText(column),
            (None, Some(width)) => match steps.last_mut() {
                Some(Step::Pass(bytes, last)) => {
                    (*bytes, *last) = (*bytes + width, column);
                    continue;
                }
                _ => Step::Pass(width, column),
            },
        };
        steps.push(step);
    }
    // What is behind the last that is asked need not be passed.
    while steps.pop_if(|step| matches!(step, Step::Pass(..) | Step::PassText(_))).is_some() {}
    steps
}

/// The steps for what conditions of its own say of a column.
fn ask(column: usize, kind: Type, own: &Own, steps: &mut Vec<Step>) {
    let Own { low, high, members, .. } = *own;
    if kind == Type::Decimal {
        return steps.push(Step::Wide { column, low, high });
    }
    if low > i128::MIN || high < i128::MAX {
        // Beyond 64 bits there are no numbers of the column: a bound that no number can reach lets none pass.
        let ends = i128::from(i64::MIN)..=i128::from(i64::MAX);
        let is_none = low > *ends.end() || high < *ends.start();
        let low = if is_none { i64::MAX } else { low.max(*ends.start()) as i64 };
        let high = if is_none { i64::MIN } else { high.min(*ends.end()) as i64 };
        steps.push(Step::Range { kind, column, low, high });
    }
    steps.extend(members.map(|members| Step::Among { kind, column, members }));
}

impl Node {
    fn of(predicate: &Predicate, columns: &[usize]) -> Node {
        let place = |column: &usize| columns.binary_search(column).unwrap_or_default();
        let side = |expr: &Expr| match expr {
            Expr::Column(column) => Some(Side::Column(place(column))),
            Expr::Constant(number) => Some(Side::Constant(*number)),
            _ => None,
        };
        let all = |all: &[Predicate]| all.iter().map(|one| Node::of(one, columns)).collect();
        match predicate {
            Predicate::All => Node::All,
            Predicate::None => Node::None,
            Predicate::And(own) => Node::And(all(own)),
            Predicate::Or(own) => Node::Or(all(own)),
            Predicate::Test { column, test } => Node::Test(place(column), test.clone()),
            Predicate::Compare { left, relation, right } => match (side(left), side(right)) {
                (Some(left), Some(right)) => Node::Compare(left, *relation, right),
                // A test that is not supported removes nothing: the caller tests again.
                _ => Node::All,
            },
        }
    }

    /// Notes which columns it looks at.
    fn places(&self, own: &mut BTreeMap<usize, Own>) {
        let mut note = |place: usize| {
            own.entry(place).and_modify(|own| own.is_taken = true);
        };
        match self {
            Node::All | Node::None => {}
            Node::And(all) | Node::Or(all) => all.iter().for_each(|one| one.places(own)),
            Node::Test(place, _) => note(*place),
            Node::Compare(left, _, right) => {
                for side in [left, right] {
                    if let Side::Column(place) = side {
                        note(*place);
                    }
                }
            }
        }
    }

    /// The rough cost of a row.
    fn price(&self) -> u32 {
        match self {
            Node::All | Node::None => 0,
            Node::And(all) | Node::Or(all) => all.iter().map(Node::price).sum(),
            Node::Compare(..) => 2,
            Node::Test(_, test) => match test {
                Test::Like(_) | Test::NotLike(_) => 20,
                Test::Strings(..) | Test::StringIn(_) | Test::StringNotIn(_) => 5,
                Test::NumberIn(_) | Test::NumberNotIn(_) | Test::Member(_) => 3,
                _ => 1,
            },
        }
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// The place of a value that decides and is elsewhere.
    #[inline]
    fn holds(&self, items: &[Item<'_>]) -> Result<bool, usize> {
        Ok(match self {
            Node::All => true,
            Node::None => false,
            Node::And(all) => {
                for one in all {
                    if !one.holds(items)? {
                        return Ok(false);
                    }
                }
                true
            }
            Node::Or(all) => {
                for one in all {
                    if one.holds(items)? {
                        return Ok(true);
                    }
                }
                false
            }
            Node::Test(place, test) => match (test, items[*place]) {
                (Test::Null, item) => matches!(item, Item::Null),
                (_, Item::Null) => false,
                (Test::NotNull, _) => true,
                (test, Item::Number(number)) => test.of_number(number),
                (test, Item::Bytes(bytes)) => test.of_string(bytes),
                (_, Item::Elsewhere | Item::Some) => return Err(*place),
            },
            Node::Compare(left, relation, right) => {
                let number = |side: &Side| match side {
                    Side::Constant(number) => Ok(Some(*number)),
                    Side::Column(place) => match items[*place] {
                        Item::Null => Ok(None),
                        Item::Number(number) => Ok(Some(number)),
                        _ => Err(*place),
                    },
                };
                match (number(left)?, number(right)?) {
                    (Some(left), Some(right)) => relation.holds(left, right),
                    _ => false,
                }
            }
        })
    }
}
