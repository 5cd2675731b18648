//! Functions of enum types: casts, codes in place of labels, `enum_range` and its kin.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::known::{EnumInfo, no_label};
use crate::error::Error;
use crate::rules::unbounded;

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// From text to value.
    In,
    /// From value to text.
    Out,
    /// A value of the type, where the plan would not show that.
    As,
    /// The code of a value: codes are in the order of the labels.
    Code,
    /// The value with a code.
    OfCode,
    Range,
    First,
    Last,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::In => "enum_in",
            Function::Out => "enum_out",
            Function::As => "enum_as",
            Function::Code => "enum_code",
            Function::OfCode => "enum_of_code",
            Function::Range => "enum_range",
            Function::First => "enum_first",
            Function::Last => "enum_last",
        }
    }
}

/// A function, with its type if that is known.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnumCall {
    pub function: Function,
    pub info: Option<Arc<EnumInfo>>,
    signature: Signature,
}

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

impl EnumCall {
    fn new(function: Function, info: Option<Arc<EnumInfo>>) -> EnumCall {
        EnumCall { function, info, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The functions that statements call.
    pub fn udfs() -> Vec<ScalarUDF> {
        let own = [Function::Range, Function::First, Function::Last];
        own.map(|function| ScalarUDF::new_from_impl(EnumCall::new(function, None))).into()
    }

    /// A call for a type.
    pub fn of(function: Function, info: &Arc<EnumInfo>, args: Vec<Expr>) -> Expr {
        let call = ScalarUDF::new_from_impl(EnumCall::new(function, Some(Arc::clone(info))));
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(call), args))
    }

    /// The column whose codes an expression returns, and its type.
    fn coded(expr: &Expr) -> Option<(&str, &Arc<EnumInfo>)> {
        let Expr::ScalarFunction(function) = expr else { return None };
        let call = function.func.inner().downcast_ref::<EnumCall>()?;
        match (&function.args[..], call.function) {
            ([Expr::Column(column)], Function::Code) => Some((&column.name, call.info.as_ref()?)),
            _ => None,
        }
    }

    /// The column whose code is compared with a value, and the label that has this code.
    pub fn label_of<'e>(coded: &'e Expr, code: &ScalarValue) -> Option<(&'e str, ScalarValue)> {
        let (column, info) = EnumCall::coded(coded)?;
        let label = info.labels.label(code.try_as_str()??)?;
        Some((column, ScalarValue::from(label)))
    }

    fn known(&self) -> Result<&Arc<EnumInfo>> {
        self.info.as_ref().ok_or_else(|| {
            let text = format!("{} does not know of which enum type it is", self.function.name());
            failed(Error::new(932, "42804", text).next("say the type: enum_range(null::name)"))
        })
    }

    fn mapped(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let info = self.known()?;
        let labels = &info.labels;
        let list = is_list(array.data_type());
        let plain = if list { DataType::new_list(DataType::Utf8, true) } else { DataType::Utf8 };
        let array = cast(array, &plain)?;
        match self.function {
            Function::In => {
                let known = labels.codes(&array);
                known.map_err(|label| failed(no_label(labels, &label)))?;
                Ok(array)
            }
            Function::Code => {
                labels.codes(&array).map_err(|label| failed(no_label(labels, &label)))
            }
            Function::OfCode => {
                labels.texts(&array).map_err(|label| failed(no_label(labels, &label)))
            }
            _ => Ok(array),
        }
    }

    /// The labels between two, either of which may be missing.
    fn range(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let labels = &self.known()?.labels;
        let all: Vec<&str> = labels.labels().collect();
        let ends = args.iter().map(|arg| cast(arg, &DataType::Utf8));
        let ends = ends.collect::<std::result::Result<Vec<ArrayRef>, _>>()?;
        let place = |end: Option<&ArrayRef>, row: usize| -> Result<Option<usize>> {
            let Some(end) = end.filter(|end| end.is_valid(row)) else { return Ok(None) };
            let label = end.as_string::<i32>().value(row);
            labels.place(label).map(Some).ok_or_else(|| failed(no_label(labels, label)))
        };
        let (mut items, mut lengths): (Vec<&str>, Vec<usize>) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let (first, last) = match ends.len() {
                2 => (place(ends.first(), row)?, place(ends.get(1), row)?),
                _ => (None, None),
            };
            let (first, behind) = (first.unwrap_or(0), last.map_or(all.len(), |last| last + 1));
            let own = all.get(first..behind).unwrap_or_default();
            items.extend(own);
            lengths.push(own.len());
        }
        let items: ArrayRef = Arc::new(StringArray::from(items));
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let made = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), items, None);
        Ok(Arc::new(made?))
    }

    fn end(&self) -> Result<ColumnarValue> {
        let labels = &self.known()?.labels;
        let mut all = labels.labels();
        let end = if self.function == Function::First { all.next() } else { all.next_back() };
        match end {
            Some(label) => Ok(ColumnarValue::Scalar(ScalarValue::from(label))),
            None => {
                let text = format!("enum {} contains no values", labels.name);
                Err(failed(Error::new(1722, "55000", text)))
            }
        }
    }
}

impl ScalarUDFImpl for EnumCall {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let most = if self.function == Function::Range { 2 } else { 1 };
        if types.is_empty() || types.len() > most {
            return plan_err!("{} does not take {} arguments", self.name(), types.len());
        }
        let plain = |own: &DataType| match is_list(own) {
            true => DataType::new_list(DataType::Utf8, true),
            false => DataType::Utf8,
        };
        Ok(types.iter().map(plain).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.function == Function::Range || types.first().is_some_and(is_list) {
            true => DataType::new_list(DataType::Utf8, true),
            false => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match (&self.info, self.function) {
            (None, _) | (_, Function::Out | Function::Code) => field,
            (Some(info), _) => info.field(field),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.function {
            Function::First | Function::Last => return self.end(),
            Function::Range => {
                let arrays = ColumnarValue::values_to_arrays(&args.args)?;
                let rows = arrays.first().map_or(args.number_rows, |array| array.len());
                let made = self.range(&arrays, rows)?;
                let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
                return Ok(match is_one && rows > 0 {
                    true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
                    false => ColumnarValue::Array(made),
                });
            }
            _ => {}
        }
        match args.args.first() {
            Some(ColumnarValue::Scalar(value)) => {
                let made = self.mapped(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
            }
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(self.mapped(array)?)),
            None => plan_err!("{} takes an argument", self.name()),
        }
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }
}
