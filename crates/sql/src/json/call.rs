//! PostgreSQL's functions and operators of jsonb, and texts that are stored as values of uuid and JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::form::{Form, field_of, is_json_field, json_field};
use super::make::{JsonBuilder, of_operator};
use super::value::{Json, read};
use crate::error::Error;

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    /// A text as a stored value: a cast.
    In(Form),
    /// `->`, or `->>` with a text as its result.
    Get {
        as_text: bool,
    },
    /// `#>`, or `#>>`.
    Path {
        as_text: bool,
    },
    /// jsonb_extract_path(value, step, ..), or jsonb_extract_path_text.
    Steps {
        as_text: bool,
    },
    /// `@>`.
    Contains,
    /// `<@`.
    Contained,
    /// `?`.
    Exists,
    /// `?|`.
    ExistsAny,
    /// `?&`.
    ExistsAll,
    /// `||`.
    Concat,
    Kind,
    Length,
}

/// Each function with its names: the first is also the name of its column.
const CALLS: &[(Function, &str, &[&str])] = &[
    (Function::In(Form::Uuid), "uuid_in", &[]),
    (Function::In(Form::Json), "json_in", &[]),
    (Function::In(Form::Jsonb), "jsonb_in", &[]),
    (Function::Get { as_text: false }, "jsonb_get", &[]),
    (Function::Get { as_text: true }, "jsonb_get_text", &[]),
    (Function::Path { as_text: false }, "jsonb_at", &[]),
    (Function::Path { as_text: true }, "jsonb_at_text", &[]),
    (Function::Steps { as_text: false }, "jsonb_extract_path", &["json_extract_path"]),
    (Function::Steps { as_text: true }, "jsonb_extract_path_text", &["json_extract_path_text"]),
    (Function::Contains, "jsonb_contains", &[]),
    (Function::Contained, "jsonb_contained", &[]),
    (Function::Exists, "jsonb_exists", &[]),
    (Function::ExistsAny, "jsonb_exists_any", &[]),
    (Function::ExistsAll, "jsonb_exists_all", &[]),
    (Function::Concat, "jsonb_concat", &[]),
    (Function::Kind, "jsonb_typeof", &["json_typeof"]),
    (Function::Length, "jsonb_array_length", &["json_array_length"]),
];

/// A function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct JsonCall {
    function: Function,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The value of a text.
pub(super) fn value_of(text: &str) -> Result<Json, Error> {
    read(text).map_err(|wrong| super::form::wrong_json(text, &wrong))
}

fn udf(function: Function, name: &'static str, aliases: &[&str]) -> ScalarUDF {
    let aliases = aliases.iter().map(|own| (*own).to_owned()).collect();
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(JsonCall { function, name, aliases, signature })
}

/// The texts of an array as PostgreSQL writes it: `{a,"b c"}`.
pub(super) fn steps_of(text: &str) -> Result<Vec<String>, Error> {
    let wrong = || {
        let message = format!("malformed array literal: \"{text}\"");
        Error::new(1722, "22P02", message).next("texts with commas between them: '{a,b}'")
    };
    let inner = text.trim().strip_prefix('{').and_then(|own| own.strip_suffix('}'));
    let mut rest = inner.ok_or_else(wrong)?.trim().chars().peekable();
    let mut steps = Vec::new();
    if rest.peek().is_none() {
        return Ok(steps);
    }
    loop {
        let (mut step, mut is_quoted) = (String::new(), false);
        loop {
            match rest.next() {
                None if is_quoted => return Err(wrong()),
                Some('"') => is_quoted = !is_quoted,
                Some('\\') => step.push(rest.next().ok_or_else(wrong)?),
                Some(c) if c != ',' || is_quoted => step.push(c),
                end => {
                    steps.push(step.trim().to_owned());
                    match end {
                        None => return Ok(steps),
                        Some(_) => break,
                    }
                }
            }
        }
    }
}

impl JsonCall {
    /// What reads texts as uuid.
    pub fn uuid_in() -> ScalarUDF {
        udf(Function::In(Form::Uuid), "uuid_in", &[])
    }

    /// All of them.
    pub fn udfs() -> Vec<ScalarUDF> {
        CALLS.iter().map(|(function, name, aliases)| udf(*function, name, aliases)).collect()
    }

    /// The texts in one row of an argument that is an array, or the text of one.
    fn texts(array: &ArrayRef, row: usize) -> Result<Vec<String>, Error> {
        let Some(lists) = array.as_list_opt::<i32>() else {
            return steps_of(array.as_string::<i32>().value(row));
        };
        let items = cast(&lists.value(row), &DataType::Utf8);
        let items = items.map_err(|error| crate::failure::from_arrow(&error))?;
        Ok(items.as_string::<i32>().iter().map(|own| own.unwrap_or_default().to_owned()).collect())
    }

    /// The result as a text.
    fn text(&self, args: &[ArrayRef], row: usize) -> Result<Option<String>, Error> {
        let own = args[0].as_string::<i32>().value(row);
        let value = value_of(own)?;
        let told = |found: Option<&Json>, as_text: bool| match as_text {
            true => found.and_then(Json::text),
            false => found.map(Json::shown),
        };
        Ok(match self.function {
            Function::Get { as_text } if *args[1].data_type() == DataType::Int64 => {
                told(value.item(args[1].as_primitive::<Int64Type>().value(row)), as_text)
            }
            Function::Get { as_text } => {
                told(value.member(args[1].as_string::<i32>().value(row)), as_text)
            }
            Function::Path { as_text } => {
                told(value.at_path(&JsonCall::texts(&args[1], row)?), as_text)
            }
            Function::Steps { as_text } => {
                let steps =
                    args[1..].iter().map(|own| own.as_string::<i32>().value(row).to_owned());
                told(value.at_path(&steps.collect::<Vec<_>>()), as_text)
            }
            Function::Concat => {
                let other = value_of(args[1].as_string::<i32>().value(row))?;
                Some(value.with(other).shown())
            }
            _ => Some(value.kind().to_owned()),
        })
    }

    /// The result of a test.
    fn is_so(&self, args: &[ArrayRef], row: usize) -> Result<bool, Error> {
        let value = value_of(args[0].as_string::<i32>().value(row))?;
        Ok(match self.function {
            Function::Contains | Function::Contained => {
                let other = value_of(args[1].as_string::<i32>().value(row))?;
                match self.function {
                    Function::Contains => value.contains(&other),
                    _ => other.contains(&value),
                }
            }
            Function::ExistsAny => JsonCall::texts(&args[1], row)?.iter().any(|own| value.has(own)),
            Function::ExistsAll => JsonCall::texts(&args[1], row)?.iter().all(|own| value.has(own)),
            _ => value.has(args[1].as_string::<i32>().value(row)),
        })
    }

    fn length(args: &[ArrayRef], row: usize) -> Result<i32, Error> {
        match value_of(args[0].as_string::<i32>().value(row))? {
            Json::Array(items) => Ok(i32::try_from(items.len()).unwrap_or(i32::MAX)),
            other => {
                let text = format!("cannot get array length of a JSON {}", other.kind());
                Err(Error::new(40587, "22023", text).next("ask jsonb_typeof first"))
            }
        }
    }
}

impl ScalarUDFImpl for JsonCall {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let count = match self.function {
            Function::In(_) | Function::Kind | Function::Length => 1,
            Function::Steps { .. } => types.len().max(1),
            _ => 2,
        };
        if types.len() != count {
            return plan_err!("{} does not take {} arguments", self.name, types.len());
        }
        let one = |(at, own): (usize, &DataType)| match (self.function, own) {
            (Function::Get { .. }, own) if at == 1 && own.is_integer() => DataType::Int64,
            (
                Function::Path { .. } | Function::ExistsAny | Function::ExistsAll,
                own @ DataType::List(_),
            ) if at == 1 => own.clone(),
            (Function::In(_), DataType::List(_)) => DataType::new_list(DataType::Utf8, true),
            _ => DataType::Utf8,
        };
        Ok(types.iter().enumerate().map(one).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.function {
            Function::In(_) if matches!(types.first(), Some(DataType::List(_))) => {
                DataType::new_list(DataType::Utf8, true)
            }
            Function::Contains
            | Function::Contained
            | Function::Exists
            | Function::ExistsAny
            | Function::ExistsAll => DataType::Boolean,
            Function::Length => DataType::Int32,
            _ => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let form = match self.function {
            Function::In(form) => {
                return Ok(field_of(self.name, self.return_type(&types)?, form));
            }
            Function::Get { as_text: false }
            | Function::Path { as_text: false }
            | Function::Steps { as_text: false }
            | Function::Concat => Form::Jsonb,
            _ => return Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true))),
        };
        Ok(json_field(self.name, form))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let count = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(count));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        if arrays.is_empty() {
            return internal_err!("{} of nothing", self.name);
        }
        if let (Function::In(form), [array]) = (self.function, &arrays[..]) {
            let made = form.kept_all(array).map_err(failed)?;
            return Ok(match is_constant {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
                false => ColumnarValue::Array(made),
            });
        }
        let is_null = |row: usize| arrays.iter().any(|own| own.is_null(row));
        let made: ArrayRef = match self.return_type(&[])? {
            DataType::Boolean => {
                let each = (0..count).map(|row| match is_null(row) {
                    true => Ok(None),
                    false => self.is_so(&arrays, row).map(Some).map_err(failed),
                });
                Arc::new(each.collect::<Result<BooleanArray>>()?)
            }
            DataType::Int32 => {
                let each = (0..count).map(|row| match is_null(row) {
                    true => Ok(None),
                    false => JsonCall::length(&arrays, row).map(Some).map_err(failed),
                });
                Arc::new(each.collect::<Result<Int32Array>>()?)
            }
            _ => {
                let each = (0..count).map(|row| match is_null(row) {
                    true => Ok(None),
                    false => self.text(&arrays, row).map_err(failed),
                });
                Arc::new(each.collect::<Result<StringArray>>()?)
            }
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// JSON operators between texts.
#[derive(Debug)]
pub(crate) struct JsonOperators;

/// Whether an expression is JSON, according to its field.
fn is_json(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| is_json_field(&field))
}

/// The function for an operator that removes something.
fn without(own: RawBinaryExpr, made: JsonBuilder) -> PlannerResult<RawBinaryExpr> {
    match of_operator(made) {
        None => PlannerResult::Original(own),
        Some(function) => {
            let call = ScalarFunction::new_udf(Arc::new(function), vec![own.left, own.right]);
            PlannerResult::Planned(Expr::ScalarFunction(call))
        }
    }
}

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(
        &self,
        own: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let function = match own.op {
            BinaryOperator::Arrow => Function::Get { as_text: false },
            BinaryOperator::LongArrow => Function::Get { as_text: true },
            BinaryOperator::HashArrow => Function::Path { as_text: false },
            BinaryOperator::HashLongArrow => Function::Path { as_text: true },
            BinaryOperator::AtArrow => Function::Contains,
            BinaryOperator::ArrowAt => Function::Contained,
            BinaryOperator::Question => Function::Exists,
            BinaryOperator::QuestionPipe => Function::ExistsAny,
            BinaryOperator::QuestionAnd => Function::ExistsAll,
            BinaryOperator::StringConcat
                if is_json(&own.left, schema) || is_json(&own.right, schema) =>
            {
                Function::Concat
            }
            BinaryOperator::Minus if is_json(&own.left, schema) => {
                return Ok(without(own, JsonBuilder::Without));
            }
            BinaryOperator::HashMinus => return Ok(without(own, JsonBuilder::WithoutPath)),
            _ => return Ok(PlannerResult::Original(own)),
        };
        // The planner handles operands without a type.
        let is_text = own.left.get_type(schema).is_ok_and(|own| own.is_string() || own.is_null());
        let known = CALLS.iter().find(|(own, ..)| *own == function).filter(|_| is_text);
        let Some((function, name, aliases)) = known else {
            return Ok(PlannerResult::Original(own));
        };
        let function = Arc::new(udf(*function, name, aliases));
        let call = ScalarFunction::new_udf(function, vec![own.left, own.right]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}
