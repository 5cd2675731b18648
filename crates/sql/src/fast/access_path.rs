//! The way to the rows of a statement: an index, and which values of it the conditions ask for.

use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int16Array, Int32Array, Int64Array};
use arrow::compute::kernels::numeric::neg;
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::class::{Class, class_of};
use super::names::Names;
use super::shape::{bare, placeholder};
use crate::rows::{RowColumns, value_of};

/// A key value that comes with each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyValue {
    slot: usize,
    is_negated: bool,
}

/// The values the column may have.
#[derive(Clone, Debug)]
enum Listed {
    Each(Vec<KeyValue>),
    /// An array.
    Array(usize),
}

/// What a condition says of a column.
#[derive(Clone, Debug)]
enum Said {
    Equal(KeyValue),
    OneOf(Listed),
    Low(KeyValue, bool),
    High(KeyValue, bool),
    Between(KeyValue, KeyValue),
}

/// An index, and what is known of its first columns.
#[derive(Debug)]
pub(super) struct AccessPath {
    /// Which index of the table, from 0.
    pub index: usize,
    /// How many leading columns of the index have one value.
    pub equal: usize,
    values: Vec<KeyValue>,
    list: Option<Listed>,
    low: Option<(KeyValue, bool)>,
    high: Option<(KeyValue, bool)>,
    /// The conditions, as written.
    pub words: Vec<String>,
}

/// Ranges of keys.
pub(super) type Ranges = Vec<RangeInclusive<Vec<u8>>>;

/// The conditions that a WHERE joins with AND.
pub(super) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(left);
            all.extend(conjuncts(right));
            all
        }
        Expr::Nested(inner) => conjuncts(inner),
        other => vec![other],
    }
}

/// What a condition says of a column, if that helps to find rows.
fn said(names: &Names<'_>, condition: &Expr) -> Option<(usize, Said)> {
    match condition {
        Expr::BinaryOp { left, op, right } => {
            let (column, value, op) = match names.column(bare(left)) {
                Some(column) => (column, right, op.clone()),
                None => (names.column(bare(right))?, left, swapped(op)?),
            };
            let value = key_value(names, column, value)?;
            let said = match op {
                BinaryOperator::Eq => Said::Equal(value),
                BinaryOperator::Gt => Said::Low(value, false),
                BinaryOperator::GtEq => Said::Low(value, true),
                BinaryOperator::Lt => Said::High(value, false),
                BinaryOperator::LtEq => Said::High(value, true),
                _ => return None,
            };
            Some((column, said))
        }
        Expr::Between { expr, negated: false, low, high } => {
            let column = names.column(bare(expr))?;
            let (low, high) = (key_value(names, column, low)?, key_value(names, column, high)?);
            Some((column, Said::Between(low, high)))
        }
        Expr::InList { expr, list, negated: false } => {
            let column = names.column(bare(expr))?;
            let values = list.iter().map(|item| key_value(names, column, item));
            Some((column, Said::OneOf(Listed::Each(values.collect::<Option<_>>()?))))
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            let column = names.column(bare(left))?;
            let slot = names.slot(names.uncast(column, bare(right)))?;
            let DataType::List(item) = names.slots.data_type(slot) else { return None };
            let own = names.columns.schema.field(column).data_type();
            let is_key = item.data_type() == own
                && is_key_class(class_of(own))
                && !names.columns.has_own_order(column);
            is_key.then_some((column, Said::OneOf(Listed::Array(slot))))
        }
        _ => None,
    }
}

fn swapped(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        _ => return None,
    })
}

/// Whether equal values of this class have equal keys.
fn is_key_class(class: Class) -> bool {
    matches!(class, Class::Integer | Class::Decimal | Class::Text | Class::Boolean | Class::Other)
}

/// An expression as a key value of this column.
fn key_value(names: &Names<'_>, column: usize, expr: &Expr) -> Option<KeyValue> {
    if names.columns.has_own_order(column) {
        return None;
    }
    let expr = names.uncast(column, bare(expr));
    let (expr, is_negated) = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => (bare(expr), true),
        other => (other, false),
    };
    placeholder(expr)?;
    let slot = names.slot(expr)?;
    let (given, own) = (names.slots.data_type(slot), names.columns.schema.field(column));
    let (class, own_class) = (class_of(&given), class_of(own.data_type()));
    let is_interval = matches!(own.data_type(), DataType::Interval(_));
    let fits = match (class, own_class) {
        (Class::Integer | Class::Decimal, Class::Integer | Class::Decimal) => true,
        (Class::Text, Class::Text) => true,
        _ => given == *own.data_type() && is_key_class(own_class) && !is_interval,
    };
    let fits = fits && (!is_negated || class == Class::Integer);
    fits.then_some(KeyValue { slot, is_negated })
}

/// What is known of a column, each with its condition.
#[derive(Default)]
struct Known {
    equal: Option<(KeyValue, usize)>,
    list: Option<(Listed, usize)>,
    low: Option<(KeyValue, bool, usize)>,
    high: Option<(KeyValue, bool, usize)>,
}

impl Known {
    fn learn(&mut self, said: Said, condition: usize) {
        match said {
            Said::Equal(value) if self.equal.is_none() => self.equal = Some((value, condition)),
            Said::OneOf(list) if self.list.is_none() => self.list = Some((list, condition)),
            Said::Low(value, is_in) if self.low.is_none() => {
                self.low = Some((value, is_in, condition));
            }
            Said::High(value, is_in) if self.high.is_none() => {
                self.high = Some((value, is_in, condition));
            }
            Said::Between(low, high) if self.low.is_none() && self.high.is_none() => {
                self.low = Some((low, true, condition));
                self.high = Some((high, true, condition));
            }
            _ => {}
        }
    }
}

impl AccessPath {
    /// The best index for these conditions, and those conditions that it answers; `None`: none helps.
    pub fn of(names: &Names<'_>, conditions: &[&Expr]) -> Option<(AccessPath, Vec<usize>)> {
        let mut known: Vec<Known> = Vec::new();
        known.resize_with(names.columns.schema.fields().len(), Known::default);
        for (at, condition) in conditions.iter().enumerate() {
            if let Some((column, said)) = said(names, condition) {
                known[column].learn(said, at);
            }
        }
        let indexes = names.columns.rows.indexes.iter().enumerate();
        let scored = indexes.filter_map(|(at, index)| {
            let own: Vec<&Known> =
                index.columns.iter().map(|column| &known[column.column]).collect();
            let equal = own.iter().take_while(|known| known.equal.is_some()).count();
            let next = own.get(equal);
            let has_list = next.is_some_and(|known| known.list.is_some());
            let has_bound = next.is_some_and(|known| known.low.is_some() || known.high.is_some());
            let score = equal * 3 + if has_list { 2 } else { usize::from(has_bound) };
            let is_one = index.is_unique && equal == own.len();
            (score > 0).then_some((is_one, score, std::cmp::Reverse(at), equal))
        });
        let (_, _, std::cmp::Reverse(index), equal) = scored.max()?;
        Some(AccessPath::through(names, &known, conditions, (index, equal)))
    }

    fn through(
        names: &Names<'_>,
        known: &[Known],
        conditions: &[&Expr],
        (index, equal): (usize, usize),
    ) -> (AccessPath, Vec<usize>) {
        let columns = &names.columns.rows.indexes[index].columns;
        let own: Vec<&Known> = columns.iter().map(|column| &known[column.column]).collect();
        let mut answered = Vec::new();
        let mut values = Vec::new();
        for (value, condition) in own[..equal].iter().filter_map(|known| known.equal) {
            values.push(value);
            answered.push(condition);
        }
        let (mut list, mut low, mut high) = (None, None, None);
        if let Some(next) = own.get(equal) {
            if let Some((own, condition)) = &next.list {
                list = Some(own.clone());
                answered.push(*condition);
            } else {
                if let Some((value, is_in, condition)) = next.low {
                    low = Some((value, is_in));
                    answered.push(condition);
                }
                if let Some((value, is_in, condition)) = next.high {
                    high = Some((value, is_in));
                    answered.push(condition);
                }
            }
        }
        answered.sort_unstable();
        answered.dedup();
        let words = answered.iter().map(|at| conditions[*at].to_string()).collect();
        (AccessPath { index, equal, values, list, low, high, words }, answered)
    }

    /// Whether at most one row is found.
    pub fn is_one(&self, columns: &RowColumns) -> bool {
        let index = &columns.rows.indexes[self.index];
        index.is_unique && self.equal == index.columns.len()
    }

    /// Whether keys come from one range, in the order of the index.
    pub fn is_one_range(&self) -> bool {
        self.list.is_none()
    }

    /// The key ranges to read, in key order. `None`: a value is NULL, or one that the column cannot have.
    pub fn ranges(&self, columns: &RowColumns, values: &[ArrayRef]) -> Option<Ranges> {
        let index = &columns.rows.indexes[self.index].columns;
        let data_type = |at: usize| columns.schema.field(index[at].column).data_type();
        let mut equal = Vec::with_capacity(index.len());
        for (at, value) in self.values.iter().enumerate() {
            equal.push(of_type(value, values, data_type(at))?);
        }
        let free = || (Bound::Unbounded, Bound::Unbounded);
        let Some(list) = &self.list else {
            let bound = |bound: &Option<(KeyValue, bool)>| -> Option<Option<(ArrayRef, bool)>> {
                let Some((value, is_in)) = bound else { return Some(None) };
                Some(Some((of_type(value, values, data_type(equal.len()))?, *is_in)))
            };
            let (low, high) = (bound(&self.low)?, bound(&self.high)?);
            let range = (as_bound(low.as_ref()), as_bound(high.as_ref()));
            let range = columns.key_range(self.index, &equal, range.0, range.1).ok()?;
            return Some(vec![range]);
        };
        let wanted = data_type(equal.len());
        let mut listed: Vec<ArrayRef> = Vec::new();
        match list {
            Listed::Each(each) => {
                for value in each {
                    listed.push(of_type(value, values, wanted)?);
                }
            }
            Listed::Array(slot) => {
                let lists = values[*slot].as_list_opt::<i32>()?;
                if lists.is_valid(0) {
                    let items = lists.value(0);
                    let there = (0..items.len()).filter(|at| items.is_valid(*at));
                    listed.extend(there.map(|at| items.slice(at, 1)));
                }
            }
        }
        let mut ranges = Ranges::with_capacity(listed.len());
        for value in listed {
            equal.push(value);
            let (low, high) = free();
            ranges.push(columns.key_range(self.index, &equal, low, high).ok()?);
            equal.pop();
        }
        ranges.sort_by(|one, other| one.start().cmp(other.start()));
        ranges.dedup();
        Some(ranges)
    }
}

fn as_bound(bound: Option<&(ArrayRef, bool)>) -> Bound<&ArrayRef> {
    match bound {
        None => Bound::Unbounded,
        Some((value, true)) => Bound::Included(value),
        Some((value, false)) => Bound::Excluded(value),
    }
}

/// A value in the type of a key column; `None`: it is NULL, or no value of the column equals it.
fn of_type(value: &KeyValue, values: &[ArrayRef], wanted: &DataType) -> Option<ArrayRef> {
    let mut array = values.get(value.slot)?.clone();
    if array.is_null(0) {
        return None;
    }
    if value.is_negated {
        array = neg(&array).ok()?;
    }
    if array.data_type() == wanted {
        return Some(array);
    }
    let narrow = array.as_primitive_opt::<Int32Type>().map(|array| i64::from(array.value(0)));
    let wide = || array.as_primitive_opt::<Int64Type>().map(|array| array.value(0));
    if let Some(number) = narrow.or_else(wide) {
        return match wanted {
            DataType::Int64 => Some(Arc::new(Int64Array::from(vec![number]))),
            DataType::Int32 => Some(Arc::new(Int32Array::from(vec![i32::try_from(number).ok()?]))),
            DataType::Int16 => Some(Arc::new(Int16Array::from(vec![i16::try_from(number).ok()?]))),
            _ => value_of(&ScalarValue::Int64(Some(number)), wanted),
        };
    }
    value_of(&ScalarValue::try_from_array(&array, 0).ok()?, wanted)
}
