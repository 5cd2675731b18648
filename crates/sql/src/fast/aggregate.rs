//! COUNT, SUM, MIN and MAX of a few rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch, new_null_array,
};
use arrow::compute::{SortOptions, sort_to_indices, take};
use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr};

use super::calls::plain_args;
use super::class::{Class, class_of};

/// The kind of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AggregateInput {
    Count,
    Sum,
    Least,
    Greatest,
}

/// An aggregate, and its argument; `None`: it counts rows.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub made: AggregateInput,
    pub of: Option<Arc<dyn PhysicalExpr>>,
    /// The type of the result.
    pub data_type: DataType,
}

/// The aggregate that an expression calls, and its argument; `None`: it is no aggregate.
pub(super) fn called(expr: &Expr) -> Option<(AggregateInput, Option<&Expr>)> {
    let Expr::Function(call) = expr else { return None };
    let made = match call.name.to_string().to_ascii_lowercase().as_str() {
        "count" => AggregateInput::Count,
        "sum" => AggregateInput::Sum,
        "min" => AggregateInput::Least,
        "max" => AggregateInput::Greatest,
        _ => return None,
    };
    match plain_args(call)? {
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if made == AggregateInput::Count => {
            Some((made, None))
        }
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] => Some((made, Some(of))),
        _ => None,
    }
}

impl Aggregate {
    /// Whether it is computed here for values of this type.
    pub fn takes(&self, data_type: &DataType) -> bool {
        let class = class_of(data_type);
        match self.made {
            AggregateInput::Count => self.data_type == DataType::Int64,
            AggregateInput::Sum => match class {
                Class::Integer => {
                    matches!(self.data_type, DataType::Int64 | DataType::Decimal128(_, 0))
                }
                Class::Decimal => matches!((&self.data_type, data_type),
                    (DataType::Decimal128(_, one), DataType::Decimal128(_, other)) if one == other),
                _ => false,
            },
            AggregateInput::Least | AggregateInput::Greatest => {
                self.data_type == *data_type
                    && !matches!(class, Class::Float)
                    && !matches!(data_type, DataType::Interval(_))
            }
        }
    }

    /// The result over all rows; `None`: it overflows its type, or a value cannot be computed.
    pub fn of_rows(&self, rows: &RecordBatch) -> Option<ArrayRef> {
        let values = match &self.of {
            None => return Some(Arc::new(Int64Array::from(vec![rows.num_rows() as i64]))),
            Some(of) => of.evaluate(rows).ok()?.into_array(rows.num_rows()).ok()?,
        };
        let present = values.len() - values.logical_null_count();
        match self.made {
            AggregateInput::Count => Some(Arc::new(Int64Array::from(vec![present as i64]))),
            _ if present == 0 => Some(new_null_array(&self.data_type, 1)),
            AggregateInput::Sum => self.number(sum(&values)?),
            AggregateInput::Least | AggregateInput::Greatest => {
                let descending = self.made == AggregateInput::Greatest;
                let options = SortOptions { descending, nulls_first: false };
                let first = sort_to_indices(&values, Some(options), Some(1)).ok()?;
                take(&values, &first, None).ok()
            }
        }
    }

    /// A sum in the type of the result.
    fn number(&self, number: i128) -> Option<ArrayRef> {
        match &self.data_type {
            DataType::Int64 => Some(Arc::new(Int64Array::from(vec![i64::try_from(number).ok()?]))),
            DataType::Decimal128(precision, scale) => {
                let array = Decimal128Array::from(vec![number]);
                let array = array.with_precision_and_scale(*precision, *scale).ok()?;
                array.validate_decimal_precision(*precision).ok()?;
                Some(Arc::new(array))
            }
            _ => None,
        }
    }
}

fn sum(values: &ArrayRef) -> Option<i128> {
    let checked = |sum: Option<i128>, value: i128| sum?.checked_add(value);
    match values.data_type() {
        DataType::Int16 => {
            let values = values.as_primitive::<Int16Type>();
            values.iter().flatten().map(i128::from).fold(Some(0), checked)
        }
        DataType::Int32 => {
            let values = values.as_primitive::<Int32Type>();
            values.iter().flatten().map(i128::from).fold(Some(0), checked)
        }
        DataType::Int64 => {
            let values = values.as_primitive::<Int64Type>();
            values.iter().flatten().map(i128::from).fold(Some(0), checked)
        }
        DataType::Decimal128(_, _) => {
            values.as_primitive::<Decimal128Type>().iter().flatten().fold(Some(0), checked)
        }
        _ => None,
    }
}
