//! The way to the rows of a table that conditions choose: an index whose first columns have values.

use std::ops::{Bound, RangeInclusive};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator};

use super::table::RowColumns;

/// An index, and the keys of it that are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Which index of the table, from 0.
    pub index: usize,
    /// The keys, from the first on, up to the last and all that begin with it.
    pub keys: RangeInclusive<Vec<u8>>,
    /// The conditions, in words.
    pub conditions: Vec<String>,
}

/// What the conditions say of a column.
#[derive(Clone, Default)]
struct Known {
    equal: Option<ArrayRef>,
    low: Option<(ArrayRef, bool)>,
    high: Option<(ArrayRef, bool)>,
    words: Vec<String>,
}

/// The best index for these conditions; `None`: all rows are to be read. The conditions are asked again of
/// each row.
pub(crate) fn access(columns: &RowColumns, filters: &[Expr]) -> Option<Access> {
    let mut known = vec![Known::default(); columns.schema.fields().len()];
    for filter in filters {
        each_conjunct(filter, &mut |conjunct| learn(columns, conjunct, &mut known));
    }
    let indexes = columns.rows.indexes.iter().enumerate();
    let found = indexes.filter_map(|(at, index)| {
        let own: Vec<&Known> = index.columns.iter().map(|column| &known[column.column]).collect();
        let equal = own.iter().take_while(|known| known.equal.is_some()).count();
        let bound = own.get(equal).filter(|known| known.low.is_some() || known.high.is_some());
        let is_one = index.is_unique && equal == index.columns.len();
        let score = equal * 2 + usize::from(bound.is_some());
        (score > 0).then_some((is_one, score, std::cmp::Reverse(at), equal))
    });
    let (_, _, std::cmp::Reverse(index), equal) = found.max()?;
    let own: Vec<&Known> =
        columns.rows.indexes[index].columns.iter().map(|column| &known[column.column]).collect();
    let values: Vec<ArrayRef> =
        own[..equal].iter().filter_map(|known| known.equal.clone()).collect();
    let bound = |bound: Option<&(ArrayRef, bool)>| match bound {
        None => Bound::Unbounded,
        Some((value, true)) => Bound::Included(value.clone()),
        Some((value, false)) => Bound::Excluded(value.clone()),
    };
    let next = own.get(equal);
    let low = bound(next.and_then(|known| known.low.as_ref()));
    let high = bound(next.and_then(|known| known.high.as_ref()));
    let keys = columns.key_range(index, &values, low.as_ref(), high.as_ref()).ok()?;
    let conditions = own.iter().take(equal + 1).flat_map(|known| known.words.clone()).collect();
    Some(Access { index, keys, conditions })
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

/// Notes what `column OP value` says.
fn learn(columns: &RowColumns, conjunct: &Expr, known: &mut [Known]) {
    let Expr::BinaryExpr(compared) = conjunct else { return };
    let (column, value, op) = match (&*compared.left, &*compared.right) {
        (Expr::Column(column), Expr::Literal(value, _)) => (column, value, compared.op),
        (Expr::Literal(value, _), Expr::Column(column)) => {
            let Some(op) = compared.op.swap() else { return };
            (column, value, op)
        }
        _ => return,
    };
    let fields = columns.schema.fields();
    let Some(at) = fields.iter().position(|field| *field.name() == column.name) else { return };
    let Some(value) = value_of(value, fields[at].data_type()) else { return };
    let of = &mut known[at];
    match op {
        Operator::Eq => of.equal = Some(value),
        Operator::Gt => of.low = Some((value, false)),
        Operator::GtEq => of.low = Some((value, true)),
        Operator::Lt => of.high = Some((value, false)),
        Operator::LtEq => of.high = Some((value, true)),
        _ => return,
    }
    of.words.push(format!("{} {} {}", column.name, op, compared_words(conjunct)));
}

/// The value of a comparison, as it is shown.
fn compared_words(conjunct: &Expr) -> String {
    let Expr::BinaryExpr(compared) = conjunct else { return String::new() };
    match (&*compared.left, &*compared.right) {
        (Expr::Literal(value, _), _) | (_, Expr::Literal(value, _)) => value.to_string(),
        _ => String::new(),
    }
}

/// A value as the column has it; `None`: no value of the column is the same.
fn value_of(value: &ScalarValue, data_type: &DataType) -> Option<ArrayRef> {
    // Keys order intervals by their length, comparisons by their months first.
    if matches!(data_type, DataType::Interval(_)) {
        return None;
    }
    let own = value.cast_to(data_type).ok()?;
    let is_same = value.data_type() == *data_type
        || own.cast_to(&value.data_type()).is_ok_and(|back| back == *value);
    (is_same && !own.is_null()).then(|| own.to_array().ok()).flatten()
}
