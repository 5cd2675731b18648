//! PostgreSQL's array functions that DataFusion lacks, or has under other names.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, UInt32Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// `a[n]`.
    At,
    /// `a[n:m]`.
    Slice,
    /// `x = ANY(a)`.
    Any,
    /// `@>`.
    Contains,
    /// `<@`.
    Contained,
    /// `&&`.
    Overlaps,
    /// array_length(a, 1), array_upper.
    Length,
    Lower,
    Dimensions,
    Count,
    Position,
    Positions,
    Remove,
    Replace,
}

/// Each function with its names: the first is also the name of its column.
const CALLS: &[(Function, &str, &[&str])] = &[
    (Function::At, "array_subscript", &[]),
    (Function::Slice, "array_subscripts", &[]),
    (Function::Any, "equals_any", &[]),
    (Function::Contains, "array_contains_all", &["arraycontains"]),
    (Function::Contained, "array_contained", &["arraycontained"]),
    (Function::Overlaps, "array_overlap", &["arrayoverlap"]),
    (Function::Length, "array_length", &["array_upper"]),
    (Function::Lower, "array_lower", &[]),
    (Function::Dimensions, "array_ndims", &[]),
    (Function::Count, "cardinality", &[]),
    (Function::Position, "array_position", &[]),
    (Function::Positions, "array_positions", &[]),
    (Function::Remove, "array_remove", &[]),
    (Function::Replace, "array_replace", &[]),
];

/// A function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArrayCall {
    function: Function,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl ArrayCall {
    /// All of them.
    pub fn udfs() -> Vec<ScalarUDF> {
        CALLS.iter().map(|(function, ..)| ArrayCall::udf(*function)).collect()
    }

    /// One of them.
    pub(super) fn udf(function: Function) -> ScalarUDF {
        let known = CALLS.iter().find(|(own, ..)| *own == function);
        let (function, name, aliases) = known.unwrap_or(&CALLS[0]);
        let aliases = aliases.iter().map(|own| (*own).to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(ArrayCall { function: *function, name, aliases, signature })
    }

    /// The number of its arguments.
    fn counts(&self) -> std::ops::RangeInclusive<usize> {
        match self.function {
            Function::Dimensions | Function::Count => 1..=1,
            Function::Slice | Function::Replace => 3..=3,
            Function::Position => 2..=3,
            _ => 2..=2,
        }
    }

    /// Which of its arguments are items, and which are arrays; the others are integers.
    fn kind(&self, at: usize) -> Kind {
        match (self.function, at) {
            (Function::Any, 0) => Kind::Item,
            (Function::Any, _) | (_, 0) => Kind::List,
            (Function::Contains | Function::Contained | Function::Overlaps, _) => Kind::List,
            (
                Function::Position | Function::Positions | Function::Remove | Function::Replace,
                1,
            ) => Kind::Item,
            (Function::Replace, _) => Kind::Item,
            _ => Kind::Number,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    Item,
    Number,
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item) => Some(item),
        _ => None,
    }
}

/// Whether the items at two places are equal; with `with_null`, NULL equals NULL.
type Same<'a> = Box<dyn Fn(usize, usize) -> bool + 'a>;

fn same<'a>(one: &'a ArrayRef, other: &'a ArrayRef, with_null: bool) -> Result<Same<'a>> {
    let compare = make_comparator(one.as_ref(), other.as_ref(), SortOptions::default())?;
    Ok(Box::new(move |at, by| match (one.is_null(at), other.is_null(by)) {
        (false, false) => compare(at, by).is_eq(),
        (true, true) => with_null,
        _ => false,
    }))
}

fn range(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize
}

fn number(array: &ArrayRef, row: usize) -> i64 {
    array.as_primitive::<Int64Type>().value(row)
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Lists of the items at these places of another array.
fn gathered(items: &ArrayRef, item: &FieldRef, rows: Vec<Option<Vec<usize>>>) -> Result<ArrayRef> {
    let offsets =
        OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let places = rows.into_iter().flatten().flatten();
    let places =
        UInt32Array::from_iter_values(places.map(|at| u32::try_from(at).unwrap_or(u32::MAX)));
    let values = take(items, &places, None)?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, Some(nulls))?))
}

impl ArrayCall {
    /// A test of the arrays of each row; `None`: unknown.
    fn truths(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if self.function == Function::Any {
            let (wanted, lists) = (&args[0], args[1].as_list::<i32>());
            let is_same = same(wanted, lists.values(), false)?;
            let each = (0..rows).map(|row| {
                if lists.is_null(row) {
                    return None;
                }
                let own = range(lists, row);
                let found = own.clone().any(|at| is_same(row, at));
                let unknown =
                    || wanted.is_null(row) || own.clone().any(|at| lists.values().is_null(at));
                if own.is_empty() { Some(false) } else { (found || !unknown()).then_some(found) }
            });
            return Ok(Arc::new(each.collect::<BooleanArray>()));
        }
        let (one, other) = match self.function {
            Function::Contained => (args[1].as_list::<i32>(), args[0].as_list::<i32>()),
            _ => (args[0].as_list::<i32>(), args[1].as_list::<i32>()),
        };
        // Here NULL equals nothing, not even NULL.
        let is_same = same(one.values(), other.values(), false)?;
        let each = (0..rows).map(|row| {
            let is_known = one.is_valid(row) && other.is_valid(row);
            let has = |by: usize| range(one, row).any(|at| is_same(at, by));
            is_known.then(|| match self.function {
                Function::Overlaps => range(other, row).any(has),
                _ => range(other, row).all(has),
            })
        });
        Ok(Arc::new(each.collect::<BooleanArray>()))
    }

    /// An integer derived from the array of each row.
    fn numbers(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let lists = args[0].as_list::<i32>();
        let is_of_lists = lists.value_type().is_nested();
        let each = |row: usize| -> Result<Option<i32>> {
            if lists.is_null(row) || args[1..].iter().any(|own| own.is_null(row)) {
                return Ok(None);
            }
            let own = range(lists, row);
            Ok(match self.function {
                Function::Count if is_of_lists => Some(count(leaves(lists, row))),
                Function::Count => Some(count(own.len())),
                Function::Dimensions => (!own.is_empty()).then(|| dimensions(&lists.value_type())),
                _ if own.is_empty() => None,
                _ => {
                    match usize::try_from(number(&args[1], row)) {
                        Ok(1) if self.function == Function::Lower => Some(1),
                        Ok(1) => Some(count(own.len())),
                        Ok(2..) if !is_of_lists => None,
                        Ok(2) => {
                            let inner = lists.value(row);
                            let inner = inner.as_list_opt::<i32>().map(|own| range(own, 0).len());
                            inner.map(|length| {
                                if self.function == Function::Lower { 1 } else { count(length) }
                            })
                        }
                        _ => None,
                    }
                }
            })
        };
        Ok(Arc::new((0..rows).map(each).collect::<Result<Int32Array>>()?))
    }

    /// The position of an item.
    fn positions(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let lists = args[0].as_list::<i32>();
        let is_same = same(lists.values(), &args[1], true)?;
        let places = |row: usize| {
            let own = range(lists, row);
            let first = own.start;
            let is_same = &is_same;
            own.filter(move |at| is_same(*at, row)).map(move |at| count(at - first + 1))
        };
        if self.function == Function::Position {
            let from = |row: usize| match args.get(2) {
                None => Some(1),
                Some(from) => from.is_valid(row).then(|| number(from, row)),
            };
            let each = (0..rows).map(|row| {
                let from = from(row).filter(|_| lists.is_valid(row))?;
                places(row).find(|at| i64::from(*at) >= from)
            });
            return Ok(Arc::new(each.collect::<Int32Array>()));
        }
        let found: Vec<Option<Vec<i32>>> =
            (0..rows).map(|row| lists.is_valid(row).then(|| places(row).collect())).collect();
        let offsets =
            OffsetBuffer::from_lengths(found.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
        let nulls: NullBuffer = found.iter().map(Option::is_some).collect();
        let values = Int32Array::from_iter_values(found.into_iter().flatten().flatten());
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(values), Some(nulls))?))
    }

    /// Arrays from which an item is removed, or in which it is replaced.
    fn changed(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let lists = args[0].as_list::<i32>();
        let is_same = same(lists.values(), &args[1], true)?;
        let items = match args.get(2) {
            None => Arc::clone(lists.values()),
            Some(other) => arrow::compute::concat(&[lists.values().as_ref(), other.as_ref()])?,
        };
        let behind = lists.values().len();
        let each = (0..rows).map(|row| {
            lists.is_valid(row).then(|| match self.function {
                Function::Remove => range(lists, row).filter(|at| !is_same(*at, row)).collect(),
                _ => {
                    let own = range(lists, row);
                    own.map(|at| if is_same(at, row) { behind + row } else { at }).collect()
                }
            })
        });
        gathered(&items, &item(lists), each.collect())
    }

    /// An item, or the items of a range.
    fn parts(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let lists = args[0].as_list::<i32>();
        let is_known =
            |row: usize| lists.is_valid(row) && args[1..].iter().all(|own| own.is_valid(row));
        if self.function == Function::At {
            let places = (0..rows).map(|row| {
                let own = range(lists, row);
                let at = usize::try_from(number(&args[1], row)).ok().filter(|_| is_known(row))?;
                let at = own.start + at.checked_sub(1)?;
                u32::try_from(at).ok().filter(|_| at < own.end)
            });
            let places: UInt32Array = places.collect();
            return Ok(take(lists.values(), &places, None)?);
        }
        let each = (0..rows).map(|row| {
            is_known(row).then(|| {
                let (own, last) = (range(lists, row), number(&args[2], row));
                let from = usize::try_from(number(&args[1], row).max(1) - 1).unwrap_or(usize::MAX);
                let to = usize::try_from(last.max(0)).unwrap_or(usize::MAX).min(own.len());
                (from..to).map(|at| own.start + at).collect()
            })
        });
        gathered(lists.values(), &item(lists), each.collect())
    }
}

fn item(lists: &ListArray) -> FieldRef {
    match lists.data_type() {
        DataType::List(item) => Arc::clone(item),
        other => Arc::new(Field::new_list_field(other.clone(), true)),
    }
}

/// The items of an array of arrays.
fn leaves(lists: &ListArray, row: usize) -> usize {
    if lists.is_null(row) {
        return 0;
    }
    let inner = lists.value(row);
    match inner.as_list_opt::<i32>() {
        None => inner.len(),
        Some(own) => (0..own.len()).map(|row| leaves(own, row)).sum(),
    }
}

fn dimensions(item: &DataType) -> i32 {
    match item {
        DataType::List(inner) => 1 + dimensions(inner.data_type()),
        _ => 1,
    }
}

impl ScalarUDFImpl for ArrayCall {
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
        if !self.counts().contains(&types.len()) {
            return plan_err!("{} does not take {} arguments", self.name, types.len());
        }
        let mut common = DataType::Null;
        for (at, own) in types.iter().enumerate() {
            let own = match (self.kind(at), item_of(own)) {
                (Kind::List, Some(item)) => item.data_type(),
                (Kind::List, None) if !own.is_null() => {
                    return plan_err!(
                        "argument type for comparison operation: {} of {own}, which is no array",
                        self.name
                    );
                }
                (Kind::Item, _) => own,
                _ => continue,
            };
            let united = if common.is_null() {
                Some(own.clone())
            } else if own.is_null() {
                Some(common.clone())
            } else {
                comparison_coercion(&common, own)
            };
            common = match united {
                Some(united) => united,
                None => {
                    return plan_err!(
                        "argument type for comparison operation: {} of {common} and {own}",
                        self.name
                    );
                }
            };
        }
        let one = |at: usize| match self.kind(at) {
            Kind::List => list_of(common.clone()),
            Kind::Item => common.clone(),
            Kind::Number => DataType::Int64,
        };
        Ok((0..types.len()).map(one).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let list = || types.first().cloned().unwrap_or_else(|| list_of(DataType::Null));
        Ok(match self.function {
            Function::Any | Function::Contains | Function::Contained | Function::Overlaps => {
                DataType::Boolean
            }
            Function::Slice | Function::Remove | Function::Replace => list(),
            Function::Positions => list_of(DataType::Int32),
            Function::At => {
                let list = list();
                item_of(&list).map_or(DataType::Null, |item| item.data_type().clone())
            }
            _ => DataType::Int32,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let made = match self.function {
            Function::Any | Function::Contains | Function::Contained | Function::Overlaps => {
                self.truths(&arrays, rows)?
            }
            Function::At | Function::Slice => self.parts(&arrays, rows)?,
            Function::Remove | Function::Replace => self.changed(&arrays, rows)?,
            Function::Position | Function::Positions => self.positions(&arrays, rows)?,
            _ => self.numbers(&arrays, rows)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}
