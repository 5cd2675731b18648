//! Casts to types of numbers, timestamps and bytes that cannot hold all values: they round as
//! PostgreSQL's do, and fail on a value that does not fit.
//!
//! DataFusion truncates; and it moves a comparison below a cast, so that `d::int = 1` does not test
//! `d::int`. To DataFusion these are functions; they keep the column names that casts would give.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::arrays::of_text;
use crate::bytes;
use crate::instants::from_text::{instants_of, is_instant_of_text};
use crate::instants::interval::{self, intervals_of, is_interval_of_text, is_text_of_interval};
use crate::instants::zoned::{cast_of_zone, is_of_zone};
use crate::numbers::from_text::{is_from_text, numbers_of};
use crate::rules::unbounded;

/// A cast as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Narrow {
    to: DataType,
    /// Whether values that do not fit become null, as in TRY_CAST.
    is_try: bool,
    signature: Signature,
}

/// Whether a cast between numeric types may round, or fail.
pub(crate) fn is_narrow(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Int8 | DataType::UInt8 => Some((2, 0)),
        DataType::Int16 | DataType::UInt16 => Some((4, 0)),
        DataType::Int32 | DataType::UInt32 => Some((9, 0)),
        DataType::Int64 => Some((18, 0)),
        DataType::UInt64 => Some((19, 0)),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => {
            Some((i16::from(*p) - i16::from(*s), i16::from(*s)))
        }
        _ => None,
    };
    if let (DataType::List(from), DataType::List(to)) = (from, to) {
        return is_narrow(from.data_type(), to.data_type());
    }
    match (digits(from), digits(to)) {
        _ if from == to => false,
        _ if is_from_text(from, to) || is_instant_of_text(from, to) => true,
        _ if is_interval_of_text(from, to) || is_text_of_interval(from, to) => true,
        _ if is_of_zone(from, to) || bytes::is_from_text(from, to) => true,
        _ if of_text::is_from_text(from, to) || of_text::is_to_text(from, to) => true,
        _ if *from == DataType::Float64 && *to == DataType::Float32 => true,
        (None, Some(_)) => from.is_floating() && to.is_integer(),
        (Some(_), Some(_)) if from.is_integer() && to.is_integer() => {
            let is_wider = to.primitive_width() > from.primitive_width();
            !(is_wider && (to.is_signed_integer() || from.is_unsigned_integer()))
        }
        // An integer has one digit more than its type is sure to hold.
        (Some((before, behind)), Some((places, scale))) => {
            before + i16::from(from.is_integer()) > places || behind > scale
        }
        _ => false,
    }
}

/// A number cast to another type, or an error.
pub(crate) fn narrow(number: Expr, to: &DataType, is_try: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Narrow { to: to.clone(), is_try, signature };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![number]))
}

/// The values of an array, cast to another type.
///
/// # Errors
/// One does not fit the type.
pub(crate) fn casted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let signature = Signature::any(1, Volatility::Immutable);
    Narrow { to: to.clone(), is_try: false, signature }.cast(array)
}

/// Whether a function is such a cast.
pub(crate) fn is_cast(call: &ScalarFunction) -> bool {
    call.func.inner().is::<Narrow>()
}

impl Narrow {
    /// The same with another type.
    fn to(&self, to: &DataType) -> Narrow {
        Narrow { to: to.clone(), is_try: self.is_try, signature: self.signature.clone() }
    }

    /// Arrays from their texts, or from other arrays.
    fn arrays(&self, array: &ArrayRef, item: &FieldRef) -> Result<ArrayRef> {
        let cast = |items: &ArrayRef| self.to(item.data_type()).cast(items);
        match array.data_type() {
            DataType::List(_) => of_text::with_items(array, item, cast),
            _ => of_text::arrays_of(array, item, self.is_try, cast),
        }
    }

    fn cast(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if let DataType::List(item) = &self.to
            && (is_narrow(array.data_type(), &self.to) || array.data_type().is_string())
        {
            return self.arrays(array, item);
        }
        if of_text::is_to_text(array.data_type(), &self.to) {
            let texts: ArrayRef = Arc::new(of_text::texts_of(array)?);
            return Ok(cast_with_options(&texts, &self.to, &CastOptions::default())?);
        }
        let options = CastOptions { safe: self.is_try, ..CastOptions::default() };
        if is_instant_of_text(array.data_type(), &self.to) {
            return Ok(instants_of(array, &self.to, self.is_try)?);
        }
        if is_interval_of_text(array.data_type(), &self.to) {
            return Ok(intervals_of(array, &self.to, self.is_try)?);
        }
        if is_text_of_interval(array.data_type(), &self.to) {
            let texts: ArrayRef = Arc::new(interval::texts_of(array)?);
            return Ok(cast_with_options(&texts, &self.to, &options)?);
        }
        if is_of_zone(array.data_type(), &self.to) {
            return Ok(cast_of_zone(array, &self.to, self.is_try)?);
        }
        if bytes::is_from_text(array.data_type(), &self.to) {
            return bytes::bytes_of(array, &self.to, self.is_try);
        }
        if is_from_text(array.data_type(), &self.to) {
            return Ok(numbers_of(array, &self.to, self.is_try)?);
        }
        if *array.data_type() == DataType::Float64 && self.to == DataType::Float32 {
            return Ok(self.single(array.as_primitive::<Float64Type>())?);
        }
        let rounded: ArrayRef = match array.data_type() {
            // Halves round to even, as in PostgreSQL.
            DataType::Float32 if self.to.is_integer() => Arc::new(
                array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even),
            ),
            DataType::Float64 if self.to.is_integer() => Arc::new(
                array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even),
            ),
            // A cast between decimals rounds halves away from zero.
            DataType::Decimal128(p, s) if self.to.is_integer() && *s > 0 => {
                cast_with_options(array, &DataType::Decimal128(*p, 0), &options)?
            }
            DataType::Decimal256(p, s) if self.to.is_integer() && *s > 0 => {
                cast_with_options(array, &DataType::Decimal256(*p, 0), &options)?
            }
            _ => Arc::clone(array),
        };
        Ok(cast_with_options(&rounded, &self.to, &options)?)
    }
}

impl Narrow {
    /// Single precision: a finite number that is too large for it is out of range.
    fn single(&self, doubles: &Float64Array) -> Result<ArrayRef, ArrowError> {
        let one = |double: f64| {
            let single = double as f32;
            (!(single.is_infinite() && double.is_finite())).then_some(single)
        };
        let singles: Float32Array = match self.is_try {
            true => doubles.unary_opt(one),
            false => doubles.try_unary(|double| {
                let beyond = || format!("{double:e} is beyond the range of REAL");
                one(double).ok_or_else(|| ArrowError::ArithmeticOverflow(beyond()))
            })?,
        };
        Ok(Arc::new(singles))
    }
}

impl ScalarUDFImpl for Narrow {
    fn name(&self) -> &'static str {
        if self.is_try { "try_cast" } else { "cast" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // Beside its argument, as where a join computes its keys, it needs its own name.
        let name = args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default();
        Ok(format!("{}({name} as {})", self.name(), self.to))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = self.is_try || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = self.cast(&args.args[0].to_array(args.number_rows)?)?;
        match &args.args[0] {
            ColumnarValue::Scalar(_) if !array.is_empty() => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            _ => Ok(ColumnarValue::Array(array)),
        }
    }
}
