//! Parameter values: converted to column types, and bound into a statement.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray,
    StringArray, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr,
    LimitClause, Query, TimezoneInfo, Value, VisitorMut,
};

use crate::arrays::of_text;
use crate::binary::types;
use crate::bytes;
use crate::error::Error;
use crate::fast::{Place, Prepared};
use crate::instants::from_text::{instants_of, is_instant_of_text};
use crate::instants::interval::{self, intervals_of, is_interval_of_text};
use crate::instants::zoned::in_zone;
use crate::json::form::Form;
use crate::numbers::narrow::casted;
use crate::walk;

/// A value for a parameter. A text is read as a value of the parameter's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// NULL.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text, or any value as a text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array.
    List(Vec<Parameter>),
    /// One value of a type of Arrow.
    Value(ArrayRef),
}

impl Parameter {
    /// The value as one of this type.
    ///
    /// # Errors
    /// 22P02, 22003 it is none; 42804 it is of another kind.
    pub fn array(&self, data_type: &DataType) -> Result<ArrayRef, Error> {
        let array: ArrayRef = match (self, data_type) {
            (Parameter::Null, _) => return Ok(new_null_array(data_type, 1)),
            (Parameter::List(items), DataType::List(item)) => {
                let arrays = items.iter().map(|own| own.array(item.data_type()));
                let arrays = arrays.collect::<Result<Vec<_>, Error>>()?;
                let parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                let values = match parts.is_empty() {
                    true => new_null_array(item.data_type(), 0),
                    false => concat(&parts).map_err(|error| crate::failure::from_arrow(&error))?,
                };
                let offsets = OffsetBuffer::from_lengths([values.len()]);
                let list = ListArray::try_new(Arc::clone(item), offsets, values, None);
                return Ok(Arc::new(list.map_err(|error| crate::failure::from_arrow(&error))?));
            }
            (Parameter::Boolean(_), other) if *other != DataType::Boolean && !is_text(other) => {
                return Err(self.wrong(data_type, "42804"));
            }
            (Parameter::List(_), _) => return Err(self.wrong(data_type, "42804")),
            (Parameter::Value(array), _) => Arc::clone(array),
            (Parameter::Integer(number), _) => Arc::new(Int64Array::from(vec![*number])),
            (Parameter::Real(number), _) => Arc::new(Float64Array::from(vec![*number])),
            (Parameter::Text(text), _) => Arc::new(StringArray::from(vec![text.as_str()])),
            (Parameter::Bytes(bytes), _) => Arc::new(BinaryArray::from(vec![bytes.as_slice()])),
            (Parameter::Boolean(own), _) => Arc::new(BooleanArray::from(vec![*own])),
        };
        if array.data_type() == data_type {
            return Ok(array);
        }
        if of_text::is_from_text(array.data_type(), data_type) {
            let made = casted(&array, data_type);
            return made.map_err(|_| self.wrong(data_type, "22P02"));
        }
        if bytes::is_from_text(array.data_type(), data_type) {
            let made = bytes::bytes_of(&array, data_type, false);
            return made.map_err(|error| crate::failure::from_datafusion(&error));
        }
        if is_instant_of_text(array.data_type(), data_type) {
            let made = instants_of(&array, data_type, false);
            return made.map_err(|_| self.wrong(data_type, "22007"));
        }
        if is_interval_of_text(array.data_type(), data_type) {
            let made = intervals_of(&array, data_type, false);
            return made.map_err(|_| self.wrong(data_type, "22007"));
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let sqlstate = if matches!(self, Parameter::Text(_)) { "22P02" } else { "22003" };
        let made = cast_with_options(&array, data_type, &options);
        made.map_err(|_| self.wrong(data_type, sqlstate))
    }

    fn wrong(&self, data_type: &DataType, sqlstate: &'static str) -> Error {
        let value = match self {
            Parameter::Text(text) => format!("'{text}'"),
            Parameter::Integer(number) => number.to_string(),
            Parameter::Real(number) => number.to_string(),
            Parameter::Boolean(own) => own.to_string(),
            Parameter::Null => "NULL".to_owned(),
            Parameter::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Parameter::Value(array) => {
                array_value_to_string(array, 0).unwrap_or_else(|_| array.data_type().to_string())
            }
            Parameter::List(items) => format!("an array of {}", items.len()),
        };
        let text = format!("a parameter of type {data_type} cannot be {value}");
        Error::new(1722, sqlstate, text)
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View)
}

/// Refuses more or fewer values than there are parameters.
pub(super) fn check_count(prepared: &Prepared, given: usize) -> Result<(), Error> {
    let wanted = prepared.parameters.len();
    if wanted == given {
        return Ok(());
    }
    let text = format!("the statement has {wanted} parameters, and {given} values were given");
    Err(Error::new(1008, "08P01", text).next("give each parameter one value"))
}

/// The values as the statement has them.
pub(super) fn values(
    prepared: &Prepared,
    parameters: &[Parameter],
    zone: &Arc<str>,
) -> Result<Vec<ArrayRef>, Error> {
    check_count(prepared, parameters.len())?;
    let types = prepared.parameters.iter().zip(&prepared.oids);
    let pairs = parameters.iter().zip(types);
    pairs
        .map(|(value, (data_type, oid))| in_form(value.array(&in_zone(data_type, zone))?, *oid))
        .collect()
}

/// A value in its stored form, for comparisons.
///
/// # Errors
/// 22P02 it is not a value of the type.
pub(super) fn in_form(value: ArrayRef, oid: u32) -> Result<ArrayRef, Error> {
    match oid {
        types::UUID | types::UUIDS => Form::Uuid.kept_all(&value),
        _ => Ok(value),
    }
}

/// Puts values in the place of parameters.
struct Bound<'a> {
    values: &'a [ArrayRef],
    /// NULL is written with its type.
    types: Option<&'a [DataType]>,
    refused: Option<Error>,
}

impl Bound<'_> {
    fn value(&mut self, at: usize) -> Option<Expr> {
        let array = self.values.get(at)?;
        match literal(array, self.types.map(|types| &types[at])) {
            Ok(literal) => Some(literal),
            Err(error) => {
                self.refused.get_or_insert(error);
                None
            }
        }
    }
}

fn parameter(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    match Place::of(name)? {
        Place::Parameter(at) => Some(at),
        _ => None,
    }
}

impl VisitorMut for Bound<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let limits = match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                [limit.as_mut(), offset.as_mut().map(|own| &mut own.value)]
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => [Some(offset), Some(limit)],
            None => [None, None],
        };
        let fetch = query.fetch.as_mut().and_then(|fetch| fetch.quantity.as_mut());
        for expr in limits.into_iter().flatten().chain(fetch) {
            if let Some(array) = parameter(expr).and_then(|at| self.values.get(at))
                && let Some(number) = whole(array)
            {
                *expr = Expr::Value(Value::Number(number, false).into());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } = expr else {
            return ControlFlow::Continue(());
        };
        let Some(lists) = parameter(right)
            .and_then(|at| self.values.get(at))
            .and_then(|array| array.as_list_opt::<i32>())
        else {
            return ControlFlow::Continue(());
        };
        let null = Expr::Value(Value::Null.into());
        let list = match lists.is_null(0) {
            true => Ok(vec![null.clone()]),
            false => {
                let items = lists.value(0);
                (0..items.len()).map(|at| literal(&items.slice(at, 1), None)).collect()
            }
        };
        match list {
            // = ANY of an empty array is false.
            Ok(list) if list.is_empty() => *expr = Expr::Value(Value::Boolean(false).into()),
            Ok(list) => {
                let expr_of = std::mem::replace(left.as_mut(), null);
                *expr = Expr::InList { expr: Box::new(expr_of), list, negated: false };
            }
            Err(error) => {
                self.refused.get_or_insert(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(at) = parameter(expr)
            && let Some(value) = self.value(at)
        {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}

/// A statement with values in the place of its parameters.
pub(super) fn bound(statement: &DfStatement, values: &[ArrayRef]) -> Result<DfStatement, Error> {
    put(statement, values, None)
}

/// The same, where only types matter.
pub(super) fn typed(
    statement: &DfStatement,
    types: &[DataType],
    values: &[ArrayRef],
) -> Result<DfStatement, Error> {
    put(statement, values, Some(types))
}

fn put(
    statement: &DfStatement,
    values: &[ArrayRef],
    types: Option<&[DataType]>,
) -> Result<DfStatement, Error> {
    let mut statement = statement.clone();
    let mut bound = Bound { values, types, refused: None };
    if let DfStatement::Statement(inner) = &mut statement {
        let _: ControlFlow<()> = walk::visit(inner, &mut bound);
    }
    match bound.refused {
        None => Ok(statement),
        Some(error) => Err(error),
    }
}

/// A non-negative integer, as LIMIT takes it.
fn whole(array: &ArrayRef) -> Option<String> {
    let is_whole = matches!(array.data_type(), DataType::Int16 | DataType::Int32 | DataType::Int64);
    let text = array_value_to_string(array, 0).ok()?;
    (is_whole && !array.is_null(0) && !text.starts_with('-')).then_some(text)
}

/// A value as it would be written. `data_type`: also where it is NULL.
fn literal(array: &ArrayRef, data_type: Option<&DataType>) -> Result<Expr, Error> {
    let null = || Expr::Value(Value::Null.into());
    if array.is_null(0) {
        return Ok(match data_type.and_then(sql_type) {
            Some(data_type) => cast(null(), data_type),
            None => null(),
        });
    }
    let text = match array.data_type() {
        DataType::List(_) => of_text::texts_of(array).map(|own| own.value(0).to_owned()),
        DataType::Interval(_) => interval::texts_of(array).map(|own| own.value(0).to_owned()),
        _ => array_value_to_string(array, 0),
    };
    let text = text.map_err(|error| crate::failure::from_arrow(&error))?;
    let quoted = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    Ok(match array.data_type() {
        DataType::Utf8 | DataType::Utf8View => quoted(text),
        DataType::Boolean => Expr::Value(Value::Boolean(text == "true").into()),
        DataType::Binary | DataType::BinaryView => {
            cast(quoted(format!("\\x{text}")), SqlType::Bytea)
        }
        DataType::Int64 if !text.starts_with('-') => Expr::Value(Value::Number(text, false).into()),
        own => {
            let data_type = sql_type(own).ok_or_else(|| {
                Error::not_yet(format!("a parameter of type {own} in this statement"))
                    .next("write the value in the statement")
            })?;
            cast(quoted(text), data_type)
        }
    })
}

fn cast(expr: Expr, data_type: SqlType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// The SQL name of a type.
fn sql_type(data_type: &DataType) -> Option<SqlType> {
    Some(match data_type {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int16 => SqlType::SmallInt(None),
        DataType::Int32 => SqlType::Integer(None),
        DataType::Int64 => SqlType::BigInt(None),
        DataType::UInt32 => SqlType::IntegerUnsigned(None),
        DataType::Float32 => SqlType::Real,
        DataType::Float64 => SqlType::DoublePrecision,
        DataType::Decimal128(precision, scale) => SqlType::Decimal(
            ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)),
        ),
        DataType::Date32 => SqlType::Date,
        DataType::Interval(_) => SqlType::Interval { fields: None, precision: None },
        DataType::Time64(_) => SqlType::Time(None, TimezoneInfo::None),
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None) => {
            SqlType::Timestamp(None, TimezoneInfo::None)
        }
        DataType::Timestamp(_, Some(_)) => SqlType::Timestamp(None, TimezoneInfo::WithTimeZone),
        DataType::Utf8 | DataType::Utf8View => SqlType::Varchar(None),
        DataType::List(item) => {
            let item = Box::new(sql_type(item.data_type())?);
            SqlType::Array(ArrayElemTypeDef::SquareBracket(item, None))
        }
        _ => return None,
    })
}
