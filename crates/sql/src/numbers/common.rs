//! The common type in which numbers of two kinds are compared, added or put in one column, where
//! DataFusion would choose one that loses values.
//!
//! A floating-point number beside a decimal or an integer makes both double precision, as in PostgreSQL;
//! DataFusion compares in DECIMAL(30, 15), where small values vanish and large ones fail. Decimals that
//! together need more than 38 digits are compared with 76.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    Subquery, Union, Values, cast, col, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use crate::instants::forms::common_instant;
use crate::numbers::divide::divide;
use crate::numbers::float::key;
use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// Functions whose arguments get a common type.
const UNITING: [&str; 8] =
    ["coalesce", "nvl", "ifnull", "nvl2", "nullif", "greatest", "least", "make_array"];

/// The rule. It runs before DataFusion chooses types.
#[derive(Debug, Default)]
pub(crate) struct CommonNumbers;

impl AnalyzerRule for CommonNumbers {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "common_numbers"
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Values(values) => unite_values(values)?,
        LogicalPlan::Union(union) => LogicalPlan::Union(unite_inputs(union)?),
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                let types =
                    [left.get_type(join.left.schema())?, right.get_type(join.right.schema())?];
                if let Some(common) = common_of(&types, true) {
                    *left = to_type(left.clone(), &common, join.left.schema())?;
                    *right = to_type(right.clone(), &common, join.right.schema())?;
                }
            }
            LogicalPlan::Join(join)
        }
        other => other,
    };
    let rewritten = each_expression(plan, one)?;
    Ok(Transformed::yes(rewritten.data.recompute_schema()?))
}

/// The common type of numbers of these types; `None`: DataFusion's choice is right.
fn common_of(types: &[DataType], is_compared: bool) -> Option<DataType> {
    if let Some(instant) = common_instant(types) {
        return Some(instant);
    }
    let numbers: Vec<&DataType> = types.iter().filter(|t| !t.is_null()).collect();
    if numbers.len() < 2 || !numbers.iter().all(|t| t.is_numeric()) {
        return None;
    }
    let has_float = numbers.iter().any(|t| t.is_floating());
    let has_other = numbers.iter().any(|t| !t.is_floating());
    let is_double = |t: &&&DataType| **t == &DataType::Float64;
    if has_float {
        let has_decimal = numbers.iter().any(|t| t.is_decimal());
        // With a double, integers become doubles anyway.
        let is_wrong = has_decimal || (has_other && !numbers.iter().any(|t| is_double(&t)));
        return is_wrong.then_some(DataType::Float64);
    }
    if !is_compared || !numbers.iter().any(|t| t.is_decimal()) {
        return None;
    }
    let mut digits = (0i16, 0i16);
    for number in &numbers {
        let (before, behind) = digits_of(number)?;
        digits = (digits.0.max(before), digits.1.max(behind));
    }
    let precision = digits.0 + digits.1;
    let most = i16::from(DECIMAL256_MAX_PRECISION);
    (precision > 38)
        .then(|| DataType::Decimal256(precision.min(most) as u8, digits.1.min(most) as i8))
}

/// Digits before and after the point of numbers of a type.
fn digits_of(data_type: &DataType) -> Option<(i16, i16)> {
    Some(match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => (i16::from(*p) - i16::from(*s), i16::from((*s).max(0))),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// A numeric expression converted to that type. A literal is converted from its digits: a division by a
/// power of ten would round twice.
fn to_type(expr: Expr, data_type: &DataType, schema: &DFSchema) -> Result<Expr> {
    if let Expr::Literal(scalar, metadata) = &expr
        && let Some(double) = as_double(scalar, data_type)
    {
        return Ok(Expr::Literal(double, metadata.clone()));
    }
    expr.cast_to(data_type, schema)
}

fn as_double(scalar: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    let (digits, scale) = match scalar {
        ScalarValue::Decimal128(Some(value), _, scale) => (value.to_string(), *scale),
        ScalarValue::Decimal256(Some(value), _, scale) => (value.to_string(), *scale),
        _ => return None,
    };
    let text = format!("{digits}e{}", -i16::from(scale));
    match data_type {
        DataType::Float64 => Some(ScalarValue::Float64(text.parse().ok())),
        DataType::Float32 => Some(ScalarValue::Float32(text.parse().ok())),
        _ => None,
    }
}

fn types_of<'a>(
    exprs: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
) -> Result<Vec<DataType>> {
    exprs.into_iter().map(|expr| expr.get_type(schema)).collect()
}

fn is_compared(op: Operator) -> Option<bool> {
    use Operator as O;
    match op {
        O::Plus | O::Minus | O::Multiply | O::Divide | O::Modulo => Some(false),
        O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq => Some(true),
        O::IsDistinctFrom | O::IsNotDistinctFrom => Some(true),
        _ => None,
    }
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let types = types_of([&*left, &*right], schema)?;
            let common = is_compared(op).and_then(|compared| common_of(&types, compared));
            let Some(common) = common else {
                let quotient = match op {
                    Operator::Divide => divide(&left, &right, [&types[0], &types[1]]),
                    _ => None,
                };
                if let Some(quotient) = quotient {
                    return Ok(Transformed::yes(quotient));
                }
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            let (left, right) =
                (to_type(*left, &common, schema)?, to_type(*right, &common, schema)?);
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left.into(), op, right.into()))))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let mut exprs = vec![*expr, *low, *high];
            let changed = unite(&mut exprs, true, schema)?;
            let [expr, low, high] = <[Expr; 3]>::try_from(exprs).unwrap_or_default();
            let between = Between::new(expr.into(), negated, low.into(), high.into());
            Ok(Transformed::new_transformed(Expr::Between(between), changed))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let mut exprs = vec![*expr];
            exprs.extend(list);
            let changed = unite(&mut exprs, true, schema)?;
            let expr = exprs.remove(0);
            let list = InList::new(expr.into(), exprs, negated);
            Ok(Transformed::new_transformed(Expr::InList(list), changed))
        }
        Expr::Case(case) => of_case(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, mut args }) => {
            let changed = UNITING.contains(&func.name()) && unite(&mut args, true, schema)?;
            if let ("nullif", [left, right]) = (func.name(), &args[..])
                && left.get_type(schema)?.is_floating()
            {
                let null = lit(ScalarValue::try_from(left.get_type(schema)?)?);
                let case = when(left.clone().eq(right.clone()), null).otherwise(left.clone())?;
                return Ok(Transformed::yes(case));
            }
            if let ("ceil" | "floor", [number]) = (func.name(), &mut args[..])
                && let DataType::Decimal128(precision @ ..38, scale @ 1..) =
                    number.get_type(schema)?
            {
                // 9.9 becomes 10, with one more digit.
                *number = cast(std::mem::take(number), DataType::Decimal128(precision + 1, scale));
                let whole = Expr::ScalarFunction(ScalarFunction { func, args });
                return Ok(Transformed::yes(cast(whole, DataType::Decimal128(precision + 1, 0))));
            }
            let call = Expr::ScalarFunction(ScalarFunction { func, args });
            Ok(Transformed::new_transformed(call, changed))
        }
        Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
            let changed = with_subquery(&mut expr, &mut subquery, schema)?;
            let other = Expr::InSubquery(InSubquery { expr, subquery, negated });
            Ok(Transformed::new_transformed(other, changed))
        }
        Expr::SetComparison(SetComparison { mut expr, mut subquery, op, quantifier }) => {
            let changed = with_subquery(&mut expr, &mut subquery, schema)?;
            let other = SetComparison { expr, subquery, op, quantifier };
            Ok(Transformed::new_transformed(Expr::SetComparison(other), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Converts these to numbers of one type; returns whether that changed any.
fn unite(exprs: &mut [Expr], is_compared: bool, schema: &DFSchema) -> Result<bool> {
    let types = types_of(&*exprs, schema)?;
    let Some(common) = common_of(&types, is_compared).or_else(|| of_texts(exprs, &types)) else {
        return Ok(false);
    };
    for expr in exprs {
        *expr = to_type(std::mem::take(expr), &common, schema)?;
    }
    Ok(true)
}

/// The type for text constants beside values of a single type that is not text.
fn of_texts(exprs: &[Expr], types: &[DataType]) -> Option<DataType> {
    let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(_, _));
    let mut others =
        exprs.iter().zip(types).filter(|(e, t)| !(t.is_null() || t.is_string() && is_constant(e)));
    let (_, first) = others.next()?;
    let is_one = first.is_temporal() && others.all(|(_, other)| other == first);
    (is_one && types.iter().any(DataType::is_string)).then(|| first.clone())
}

fn of_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (mut whens, mut thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let mut changed = false;
    let expr = match expr {
        Some(expr) => {
            whens.push(*expr);
            changed |= unite(&mut whens, true, schema)?;
            whens.pop()
        }
        None => None,
    };
    // A look-up would compare bits: both zeros, and all NaNs, are equal.
    let expr = match expr {
        Some(expr) if expr.get_type(schema)?.is_floating() => {
            whens = whens.into_iter().map(|when| expr.clone().eq(when)).collect();
            changed = true;
            None
        }
        expr => expr,
    };
    let has_else = else_expr.is_some();
    thens.extend(else_expr.map(|expr| *expr));
    changed |= unite(&mut thens, true, schema)?;
    let else_expr = if has_else { thens.pop() } else { None };
    let pairs = whens.into_iter().zip(thens).map(|(when, then)| (when.into(), then.into()));
    let case = Case {
        expr: expr.map(Box::new),
        when_then_expr: pairs.collect(),
        else_expr: else_expr.map(Box::new),
    };
    Ok(Transformed::new_transformed(Expr::Case(case), changed))
}

fn with_subquery(expr: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let inner = subquery.subquery.schema();
    if inner.fields().len() != 1 {
        return Ok(false);
    }
    let types = [expr.get_type(schema)?, inner.field(0).data_type().clone()];
    let common = common_of(&types, true);
    let is_float = common.as_ref().unwrap_or(&types[0]).is_floating();
    if common.is_none() && !(is_float && types[1].is_floating()) {
        return Ok(false);
    }
    if let Some(common) = &common {
        *expr = to_type(std::mem::take(expr), common, schema)?;
    }
    if is_float {
        *expr = key(std::mem::take(expr));
    }
    subquery.subquery = projected(&subquery.subquery, &[common], is_float)?;
    Ok(true)
}

/// A plan whose columns have these types, where given; if requested, with canonical bits for
/// floating-point numbers.
fn projected(
    plan: &Arc<LogicalPlan>,
    types: &[Option<DataType>],
    is_float: bool,
) -> Result<Arc<LogicalPlan>> {
    let schema = plan.schema();
    let columns = schema.columns().into_iter().zip(types).map(|(column, wanted)| {
        let (name, relation) = (column.name.clone(), column.relation.clone());
        let own = match wanted {
            Some(wanted) => cast(col(column), wanted.clone()),
            None if is_float => col(column),
            None => return col(column),
        };
        let own = if is_float { key(own) } else { own };
        own.alias_qualified(relation, name)
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(Arc::new(LogicalPlanBuilder::from(Arc::clone(plan)).project(columns)?.build()?))
}

/// A union with inputs of the same types, column by column.
fn unite_inputs(union: Union) -> Result<Union> {
    let Union { mut inputs, schema } = union;
    let width = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    if width != schema.fields().len()
        || inputs.iter().any(|input| input.schema().fields().len() != width)
    {
        return Ok(Union { inputs, schema });
    }
    let type_at =
        |input: &Arc<LogicalPlan>, at: usize| input.schema().field(at).data_type().clone();
    let common = (0..width).map(|at| {
        let types: Vec<DataType> = inputs.iter().map(|input| type_at(input, at)).collect();
        common_of(&types, true)
    });
    let common: Vec<Option<DataType>> = common.collect();
    if common.iter().all(Option::is_none) {
        return Ok(Union { inputs, schema });
    }
    for input in &mut inputs {
        let wanted: Vec<_> = common
            .iter()
            .enumerate()
            .map(|(at, wanted)| wanted.clone().filter(|wanted| *wanted != type_at(input, at)))
            .collect();
        if wanted.iter().any(Option::is_some) {
            *input = projected(input, &wanted, false)?;
        }
    }
    let fields = schema.iter().zip(&common).map(|((relation, field), wanted)| {
        let field = field.as_ref().clone();
        let field = match wanted {
            Some(wanted) => field.with_data_type(wanted.clone()),
            None => field,
        };
        (relation.cloned(), Arc::new(field))
    });
    let metadata = schema.metadata().clone();
    let schema = DFSchema::new_with_metadata(fields.collect(), metadata)?;
    Ok(Union { inputs, schema: Arc::new(schema) })
}

/// The rows of VALUES. DataFusion chose their types when it planned the statement, and added casts.
fn unite_values(values: Values) -> Result<LogicalPlan> {
    let empty = DFSchema::empty();
    let Values { schema, values: mut rows } = values;
    let mut changed = false;
    for at in 0..schema.fields().len() {
        let before = |row: &Vec<Expr>| match &row[at] {
            Expr::Cast(cast) => (*cast.expr).clone(),
            other => other.clone(),
        };
        let exprs: Vec<Expr> = rows.iter().map(before).collect();
        // A text constant takes the type of the other values.
        let is_text =
            |expr: &Expr| matches!(expr, Expr::Literal(text, _) if text.data_type().is_string());
        let typed = types_of(exprs.iter().filter(|expr| !is_text(expr)), &empty)?;
        let Some(common) = common_of(&typed, true) else { continue };
        if common == *schema.field(at).data_type() {
            continue;
        }
        changed = true;
        for (row, expr) in rows.iter_mut().zip(exprs) {
            row[at] = to_type(expr, &common, &empty)?;
        }
    }
    match changed {
        true => LogicalPlanBuilder::values(rows)?.build(),
        false => Ok(LogicalPlan::Values(Values { schema, values: rows })),
    }
}
