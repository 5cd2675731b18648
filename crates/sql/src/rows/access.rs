//! Access paths to the rows of a table, chosen by conditions: indexes whose leading columns have values.

use std::borrow::Cow;
use std::ops::{Bound, RangeInclusive};

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator};

use super::table::RowColumns;
use crate::enums::EnumCall;

/// The most key ranges that conditions may produce.
const RANGES_MAX: usize = 50_000;

/// An index, and which of its keys are read.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Which index of the table, from 0.
    pub index: usize,
    /// Ascending, disjoint ranges: from the first key up to all that begin with the last.
    pub ranges: Vec<RangeInclusive<Vec<u8>>>,
    /// The greatest keys come first.
    pub backwards: bool,
    /// The conditions, in words.
    pub conditions: Vec<String>,
    /// The values of its first columns, if each has one.
    pub equal: Vec<ArrayRef>,
    /// Whether the column after these has bounds.
    pub is_bound: bool,
    /// At most one row is found.
    pub is_one: bool,
}

/// What the conditions say of a column.
#[derive(Clone, Default)]
struct Known {
    /// It is one of these.
    equal: Option<Vec<ArrayRef>>,
    low: Option<(ArrayRef, bool)>,
    high: Option<(ArrayRef, bool)>,
    words: Vec<String>,
}

impl Access {
    /// All keys of an index, or those with these leading values; without `has_nulls`, none whose next column is NULL.
    pub fn all(
        columns: &RowColumns,
        index: usize,
        equal: Vec<ArrayRef>,
        has_nulls: bool,
    ) -> Option<Access> {
        let next = columns.rows.indexes[index].columns.get(equal.len())?;
        let null = new_null_array(columns.schema.field(next.column).data_type(), 1);
        let high = if has_nulls { Bound::Unbounded } else { Bound::Excluded(&null) };
        let range = columns.key_range(index, &equal, Bound::Unbounded, high).ok()?;
        Some(Access {
            index,
            ranges: vec![range],
            backwards: false,
            conditions: Vec::new(),
            equal,
            is_bound: false,
            is_one: false,
        })
    }
}

/// The indexes whose keys conditions restrict, the best first as far as conditions tell. The conditions are tested
/// again on each row.
pub(crate) fn ways(columns: &RowColumns, filters: &[Expr]) -> Vec<Access> {
    let mut known = vec![Known::default(); columns.schema.fields().len()];
    for filter in filters {
        each_conjunct(filter, &mut |conjunct| learn(columns, conjunct, &mut known));
    }
    let scored = (0..columns.rows.indexes.len()).filter_map(|at| {
        let (way, score) = way(columns, &known, at)?;
        Some((way.is_one, score, std::cmp::Reverse(at), way))
    });
    let mut scored: Vec<_> = scored.collect();
    scored.sort_by_key(|(is_one, score, at, _)| std::cmp::Reverse((*is_one, *score, *at)));
    scored.into_iter().map(|(_, _, _, way)| way).collect()
}

/// The keys of an index that conditions select, and a score by how many columns do so.
fn way(columns: &RowColumns, known: &[Known], at: usize) -> Option<(Access, usize)> {
    let index = &columns.rows.indexes[at];
    let own: Vec<&Known> = index.columns.iter().map(|column| &known[column.column]).collect();
    // Every combination of the values of the first columns.
    let mut prefixes: Vec<Vec<ArrayRef>> = vec![Vec::new()];
    let mut equal = 0;
    for known in &own {
        let Some(values) = &known.equal else { break };
        if prefixes.len() * values.len() > RANGES_MAX {
            break;
        }
        let with = |prefix: &Vec<ArrayRef>, value: &ArrayRef| {
            prefix.iter().chain([value]).cloned().collect::<Vec<_>>()
        };
        prefixes = prefixes
            .iter()
            .flat_map(|prefix| values.iter().map(move |value| with(prefix, value)))
            .collect();
        equal += 1;
    }
    let next = own.get(equal).copied().filter(|next| next.equal.is_none());
    let is_bound = next.is_some_and(|next| next.low.is_some() || next.high.is_some());
    let score = equal * 2 + usize::from(is_bound);
    if score == 0 {
        return None;
    }
    let bound = |bound: Option<&(ArrayRef, bool)>| match bound {
        None => Bound::Unbounded,
        Some((value, true)) => Bound::Included(value.clone()),
        Some((value, false)) => Bound::Excluded(value.clone()),
    };
    let low = bound(next.and_then(|known| known.low.as_ref()));
    let high = bound(next.and_then(|known| known.high.as_ref()));
    let range =
        |values: &Vec<ArrayRef>| columns.key_range(at, values, low.as_ref(), high.as_ref()).ok();
    let mut ranges = prefixes.iter().map(range).collect::<Option<Vec<_>>>()?;
    ranges.sort_unstable_by(|a, b| a.start().cmp(b.start()));
    ranges.dedup();
    let is_one = index.is_unique && equal == index.columns.len() && ranges.len() <= 1;
    let used = equal + usize::from(is_bound);
    let conditions = own.iter().take(used).flat_map(|known| known.words.clone()).collect();
    let equal = if ranges.len() == 1 { prefixes.swap_remove(0) } else { Vec::new() };
    let way = Access { index: at, ranges, backwards: false, conditions, equal, is_bound, is_one };
    Some((way, score))
}

fn each_conjunct(filter: &Expr, each: &mut impl FnMut(&Expr)) {
    match filter {
        Expr::BinaryExpr(both) if both.op == Operator::And => {
            each_conjunct(&both.left, each);
            each_conjunct(&both.right, each);
        }
        other => each(other),
    }
}

/// Notes what a condition on one column says.
fn learn(columns: &RowColumns, conjunct: &Expr, known: &mut [Known]) {
    if let Some((column, values)) = one_of(conjunct) {
        return learn_list(columns, (column, &values), known);
    }
    if let Some((column, value)) = truth(conjunct)
        && let Some(at) = position(columns, column)
        && let Some(own) = value_of(&value.into(), columns.schema.field(at).data_type())
    {
        known[at].equal = Some(vec![own]);
        known[at].words.push(match value {
            true => column.to_owned(),
            false => format!("not {column}"),
        });
        return;
    }
    let Some((column, value, op)) = comparison(conjunct) else { return };
    let Some(at) = position(columns, column) else { return };
    let Some(own) = value_of(&value, columns.schema.field(at).data_type()) else { return };
    let of = &mut known[at];
    match op {
        Operator::Eq => of.equal = Some(vec![own]),
        Operator::Gt => of.low = Some((own, false)),
        Operator::GtEq => of.low = Some((own, true)),
        Operator::Lt => of.high = Some((own, false)),
        Operator::LtEq => of.high = Some((own, true)),
        _ => return,
    }
    of.words.push(format!("{column} {op} {value}"));
}

/// A boolean column as a condition of its own: its name, and whether it must be true.
fn truth(conjunct: &Expr) -> Option<(&str, bool)> {
    match conjunct {
        Expr::Column(column) => Some((&column.name, true)),
        Expr::Not(not) => match &**not {
            Expr::Column(column) => Some((&column.name, false)),
            _ => None,
        },
        _ => None,
    }
}

fn position(columns: &RowColumns, name: &str) -> Option<usize> {
    columns.schema.fields().iter().position(|field| field.name() == name)
}

/// A column, what it is compared with, and how.
fn comparison(conjunct: &Expr) -> Option<(&str, Cow<'_, ScalarValue>, Operator)> {
    let Expr::BinaryExpr(compared) = conjunct else { return None };
    match (&*compared.left, &*compared.right) {
        (Expr::Column(column), Expr::Literal(value, _)) => {
            Some((&column.name, Cow::Borrowed(value), compared.op))
        }
        (Expr::Literal(value, _), Expr::Column(column)) => {
            Some((&column.name, Cow::Borrowed(value), compared.op.swap()?))
        }
        (own, Expr::Literal(value, _)) => {
            let (column, label) = EnumCall::label_of(own, value)?;
            Some((column, Cow::Owned(label), compared.op))
        }
        (Expr::Literal(value, _), own) => {
            let (column, label) = EnumCall::label_of(own, value)?;
            Some((column, Cow::Owned(label), compared.op.swap()?))
        }
        _ => None,
    }
}

/// A column, and the values of which it is one: from IN, from `= ANY`, and from the ORs that a short IN becomes.
fn one_of(conjunct: &Expr) -> Option<(&str, Vec<ScalarValue>)> {
    match conjunct {
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = &**expr else { return None };
            let value = |item: &Expr| match item {
                Expr::Literal(value, _) => Some(value.clone()),
                _ => None,
            };
            Some((&column.name, list.iter().map(value).collect::<Option<_>>()?))
        }
        Expr::BinaryExpr(either) if either.op == Operator::Or => {
            let side = |side| one_of(side).or_else(|| equal(side));
            let ((column, mut values), (other, more)) = (side(&either.left)?, side(&either.right)?);
            values.extend(more);
            (column == other).then_some((column, values))
        }
        Expr::ScalarFunction(call) if call.name() == "array_has" => {
            let [Expr::Literal(list, _), Expr::Column(column)] = &call.args[..] else {
                return None;
            };
            let ScalarValue::List(list) = list else { return None };
            let items = list.value(0);
            let item = |at| ScalarValue::try_from_array(&items, at).ok();
            Some((
                &column.name,
                (0..arrow::array::Array::len(&items)).map(item).collect::<Option<_>>()?,
            ))
        }
        _ => None,
    }
}

fn equal(conjunct: &Expr) -> Option<(&str, Vec<ScalarValue>)> {
    let (column, value, op) = comparison(conjunct)?;
    (op == Operator::Eq).then(|| (column, vec![value.into_owned()]))
}

/// Notes that a column is one of these values.
fn learn_list(columns: &RowColumns, (column, values): (&str, &[ScalarValue]), known: &mut [Known]) {
    let Some(at) = position(columns, column) else { return };
    let data_type = columns.schema.field(at).data_type();
    // NULL equals nothing.
    let values = values.iter().filter(|value| !value.is_null());
    let Some(own) = values.map(|value| value_of(value, data_type)).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let of = &mut known[at];
    if own.len() > RANGES_MAX || of.equal.as_ref().is_some_and(|equal| equal.len() <= own.len()) {
        return;
    }
    of.words.push(format!("{column} in {} values", own.len()));
    of.equal = Some(own);
}

/// A value in the column's type; `None`: no value of the column equals it.
pub(crate) fn value_of(value: &ScalarValue, data_type: &DataType) -> Option<ArrayRef> {
    // Keys order intervals by length, comparisons order them by months first.
    if matches!(data_type, DataType::Interval(_)) {
        return None;
    }
    let own = value.cast_to(data_type).ok()?;
    let is_same = value.data_type() == *data_type
        || own.cast_to(&value.data_type()).is_ok_and(|back| back == *value);
    (is_same && !own.is_null()).then(|| own.to_array().ok()).flatten()
}
