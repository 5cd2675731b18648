//! PostgreSQL's functions that make JSON from values, change it, and take it apart.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::util::display::FormatOptions;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::call::{steps_of, value_of};
use super::form::{Form, is_json_field, json_field};
use super::value::{Json, quoted};
use crate::arrays::shown::Shown;
use crate::error::Error;

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JsonBuilder {
    /// to_jsonb(any).
    Value,
    Object,
    Array,
    /// From a list of JSON values: the basis of jsonb_agg.
    OfList,
    /// A name and a value: the basis of jsonb_object_agg.
    Pair,
    OfPairs,
    Set,
    Strip,
    /// `-`.
    Without,
    /// `#-`.
    WithoutPath,
    Elements,
    ElementTexts,
    Keys,
    Values,
    ValueTexts,
}

/// Each function with its name, and whether it is for json, not jsonb.
const CALLS: &[(JsonBuilder, &str, bool)] = &[
    (JsonBuilder::Value, "to_jsonb", false),
    (JsonBuilder::Value, "to_json", true),
    (JsonBuilder::Object, "jsonb_build_object", false),
    (JsonBuilder::Object, "json_build_object", true),
    (JsonBuilder::Array, "jsonb_build_array", false),
    (JsonBuilder::Array, "json_build_array", true),
    (JsonBuilder::OfList, "jsonb_of_list", false),
    (JsonBuilder::OfList, "json_of_list", true),
    (JsonBuilder::Pair, "jsonb_pair", false),
    (JsonBuilder::Pair, "json_pair", true),
    (JsonBuilder::OfPairs, "jsonb_of_pairs", false),
    (JsonBuilder::OfPairs, "json_of_pairs", true),
    (JsonBuilder::Set, "jsonb_set", false),
    (JsonBuilder::Strip, "jsonb_strip_nulls", false),
    (JsonBuilder::Without, "jsonb_delete", false),
    (JsonBuilder::WithoutPath, "jsonb_delete_path", false),
    (JsonBuilder::Elements, "jsonb_elements", false),
    (JsonBuilder::ElementTexts, "jsonb_element_texts", false),
    (JsonBuilder::Keys, "jsonb_keys", false),
    (JsonBuilder::Values, "jsonb_values", false),
    (JsonBuilder::ValueTexts, "jsonb_value_texts", false),
];

/// A function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MakeJson {
    made: JsonBuilder,
    name: &'static str,
    is_text: bool,
    /// The arguments that are JSON, if that is known.
    json: Vec<bool>,
    signature: Signature,
}

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A function for values that are JSON or not.
fn udf(at: usize, json: Vec<bool>) -> ScalarUDF {
    let (made, name, is_text) = CALLS[at];
    let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
    let signature = Signature::one_of(any, Volatility::Immutable);
    ScalarUDF::new_from_impl(MakeJson { made, name, is_text, json, signature })
}

/// The function for an operator.
pub(super) fn of_operator(wanted: JsonBuilder) -> Option<ScalarUDF> {
    let at = CALLS.iter().position(|(made, ..)| *made == wanted)?;
    Some(udf(at, Vec::new()))
}

/// The same function, with what is known about its arguments.
pub(super) fn with_known(call: &MakeJson, args: &[FieldRef]) -> Option<ScalarUDF> {
    let json: Vec<bool> = args.iter().map(|field| is_json_field(field)).collect();
    let at = CALLS.iter().position(|(_, name, _)| *name == call.name)?;
    (call.json != json).then(|| udf(at, json))
}

/// A value as JSON, converted if it is not JSON already.
struct Values<'a> {
    array: &'a ArrayRef,
    shown: Shown<'a>,
    is_json: bool,
}

impl<'a> Values<'a> {
    fn of(array: &'a ArrayRef, is_json: bool) -> Result<Values<'a>> {
        let options = FormatOptions::new().with_display_error(false);
        Ok(Values { array, shown: Shown::of(array, &options)?, is_json })
    }

    fn text(&self, row: usize) -> Result<Option<String>> {
        if self.array.data_type() == &DataType::Null || self.array.is_null(row) {
            return Ok(None);
        }
        let mut out = Vec::new();
        self.shown.write(row, &mut out)?;
        Ok(Some(String::from_utf8_lossy(&out).into_owned()))
    }

    /// As the text of a JSON value.
    fn json(&self, row: usize) -> Result<String> {
        let Some(text) = self.text(row)? else { return Ok("null".to_owned()) };
        if self.is_json {
            return Ok(text);
        }
        let own = match self.array.data_type() {
            DataType::Boolean => if text == "t" { "true" } else { "false" }.to_owned(),
            DataType::List(_) => {
                let items = self.array.as_list::<i32>().value(row);
                let values = Values::of(&items, false)?;
                let items = (0..items.len()).map(|at| values.json(at));
                format!("[{}]", items.collect::<Result<Vec<_>>>()?.join(","))
            }
            other
                if other.is_numeric() && !matches!(&text[..], "NaN" | "Infinity" | "-Infinity") =>
            {
                text
            }
            DataType::Timestamp(_, zone) => {
                let text = text.replacen(' ', "T", 1);
                // An offset of whole hours is written with minutes there.
                let is_short = zone.is_some() && text.len() > 3 && {
                    let end = &text[text.len() - 3..];
                    end.starts_with(['+', '-']) && end[1..].bytes().all(|b| b.is_ascii_digit())
                };
                in_quotes(&if is_short { format!("{text}:00") } else { text })
            }
            _ => in_quotes(&text),
        };
        Ok(own)
    }
}

fn in_quotes(text: &str) -> String {
    let mut out = String::new();
    quoted(text, &mut out);
    out
}

impl MakeJson {
    /// All of them.
    pub fn udfs() -> Vec<ScalarUDF> {
        (0..CALLS.len()).map(|at| udf(at, Vec::new())).collect()
    }

    fn counts(&self) -> std::ops::RangeInclusive<usize> {
        match self.made {
            JsonBuilder::Object | JsonBuilder::Array => 0..=usize::MAX,
            JsonBuilder::Pair | JsonBuilder::Without | JsonBuilder::WithoutPath => 2..=2,
            JsonBuilder::Set => 3..=4,
            _ => 1..=1,
        }
    }

    /// An object from alternating names and values.
    fn object(&self, values: &[Values<'_>], row: usize) -> Result<String> {
        let mut out = String::from("{");
        for (at, pair) in values.chunks(2).enumerate() {
            let name = pair[0].text(row)?;
            let name = name.ok_or_else(|| failed(no_name(at)))?;
            let comma = if at == 0 { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(out, "{comma}{} : {}", in_quotes(&name), pair[1].json(row)?);
        }
        out.push('}');
        self.kept(out)
    }

    /// In the stored form of json, or jsonb.
    fn kept(&self, text: String) -> Result<String> {
        match self.is_text {
            true => Ok(text),
            false => value_of(&text).map(|own| own.shown()).map_err(failed),
        }
    }

    /// JSON from the items of a list, which are JSON.
    fn of_list(&self, array: &ArrayRef, row: usize) -> Result<Option<String>> {
        let Some(lists) = array.as_list_opt::<i32>().filter(|own| own.is_valid(row)) else {
            return Ok(None);
        };
        let items = cast(&lists.value(row), &DataType::Utf8)?;
        let items = items.as_string::<i32>().iter();
        let text = match self.made {
            JsonBuilder::OfList => {
                let items: Vec<&str> = items.map(|own| own.unwrap_or("null")).collect();
                format!("[{}]", items.join(", "))
            }
            // Each is a name and a value in brackets.
            _ => {
                let pairs =
                    items.flatten().map(|own| own.get(1..own.len() - 1).unwrap_or_default());
                match self.is_text {
                    true => format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", ")),
                    false => format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")),
                }
            }
        };
        self.kept(text).map(Some)
    }

    fn text(&self, args: &[ArrayRef], values: &[Values<'_>], row: usize) -> Result<Option<String>> {
        match self.made {
            JsonBuilder::Value => match args[0].is_null(row) || args[0].data_type().is_null() {
                true => Ok(None),
                false => self.kept(values[0].json(row)?).map(Some),
            },
            JsonBuilder::Object => self.object(values, row).map(Some),
            JsonBuilder::Array => {
                let items = values.iter().map(|own| own.json(row)).collect::<Result<Vec<_>>>()?;
                self.kept(format!("[{}]", items.join(", "))).map(Some)
            }
            JsonBuilder::Pair => {
                let name = values[0].text(row)?.ok_or_else(|| failed(no_name(0)))?;
                Ok(Some(format!("[{} : {}]", in_quotes(&name), values[1].json(row)?)))
            }
            JsonBuilder::OfList | JsonBuilder::OfPairs => self.of_list(&args[0], row),
            _ => {
                if args.iter().any(|own| own.data_type().is_null() || own.is_null(row)) {
                    return Ok(None);
                }
                self.changed(args, values, row).map(Some)
            }
        }
    }

    fn changed(&self, args: &[ArrayRef], values: &[Values<'_>], row: usize) -> Result<String> {
        let text = |at: usize| Ok::<_, DataFusionError>(values[at].text(row)?.unwrap_or_default());
        let mut value = value_of(&text(0)?).map_err(failed)?;
        let steps = |at: usize| steps_of(&text(at)?).map_err(failed);
        match self.made {
            JsonBuilder::Set => {
                let with = value_of(&text(2)?).map_err(failed)?;
                let creates = args.len() < 4 || text(3)? == "t";
                value.set(&steps(1)?, with, creates);
            }
            JsonBuilder::Strip => value.strip(),
            JsonBuilder::WithoutPath => value.remove_path(&steps(1)?),
            _ => match args[1].data_type() {
                own if own.is_integer() => {
                    value.remove_at(text(1)?.parse().unwrap_or(i64::MAX));
                }
                DataType::List(_) => {
                    steps(1)?.iter().for_each(|own| value.remove_name(own));
                }
                _ => value.remove_name(&text(1)?),
            },
        }
        Ok(value.shown())
    }

    /// The parts of a value that become rows.
    fn parts(&self, own: &str) -> Result<Vec<Option<String>>> {
        let value = value_of(own).map_err(failed)?;
        let told = |value: &Json| match self.made {
            JsonBuilder::ElementTexts | JsonBuilder::ValueTexts => value.text(),
            _ => Some(value.shown()),
        };
        match (self.made, &value) {
            (JsonBuilder::Elements | JsonBuilder::ElementTexts, Json::Array(items)) => {
                Ok(items.iter().map(told).collect())
            }
            (JsonBuilder::Keys, Json::Object(members)) => {
                Ok(members.iter().map(|(name, _)| Some(name.clone())).collect())
            }
            (JsonBuilder::Values | JsonBuilder::ValueTexts, Json::Object(members)) => {
                Ok(members.iter().map(|(_, value)| told(value)).collect())
            }
            (JsonBuilder::Elements | JsonBuilder::ElementTexts, other) => {
                let text = format!("cannot extract elements from a JSON {}", other.kind());
                Err(failed(Error::new(40587, "22023", text).next("ask jsonb_typeof first")))
            }
            (_, other) => {
                let text = format!("cannot take members of a JSON {}", other.kind());
                Err(failed(Error::new(40587, "22023", text).next("ask jsonb_typeof first")))
            }
        }
    }

    fn gives_list(&self) -> bool {
        use JsonBuilder::{ElementTexts, Elements, Keys, ValueTexts, Values};
        matches!(self.made, Elements | ElementTexts | Keys | Values | ValueTexts)
    }
}

fn no_name(at: usize) -> Error {
    let text = format!("argument {} cannot be null: it is a name", at * 2 + 1);
    Error::new(40587, "22023", text).next("coalesce(name, '')")
}

impl ScalarUDFImpl for MakeJson {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(format!("{}({})", self.name, names.join(",")))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if !self.counts().contains(&types.len()) {
            return plan_err!("{} does not take {} arguments", self.name, types.len());
        }
        if self.made == JsonBuilder::Object && !types.len().is_multiple_of(2) {
            let text = "argument list must have even number of elements";
            let error = Error::new(40587, "22023", text).next("names and values take turns");
            return Err(failed(error));
        }
        Ok(match self.gives_list() {
            true => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            false => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let data_type = self.return_type(&types)?;
        let form = if self.is_text { Form::Json } else { Form::Jsonb };
        Ok(match self.gives_list() || self.made == JsonBuilder::Pair {
            true => Arc::new(Field::new(self.name, data_type, true)),
            false => json_field(self.name, form),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| match arg.to_array(rows) {
            Ok(own) if matches!(own.data_type(), DataType::LargeUtf8) => {
                Ok(cast(&own, &DataType::Utf8)?)
            }
            own => own,
        });
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let is_json = |at: usize| self.json.get(at).copied().unwrap_or(false);
        let values = arrays.iter().enumerate().map(|(at, own)| Values::of(own, is_json(at)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let made: ArrayRef = match self.gives_list() {
            true => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in 0..rows {
                    let parts = values[0].text(row)?.map(|own| self.parts(&own)).transpose()?;
                    lists.append_option(parts);
                }
                Arc::new(lists.finish())
            }
            false => {
                let each = (0..rows).map(|row| self.text(&arrays, &values, row));
                Arc::new(each.collect::<Result<StringArray>>()?)
            }
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}
