//! The rule that gives enum values their meaning in statements: literals beside them take their type,
//! their order is that of the labels, and they are not texts unless cast.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, BinaryExpr, Case, Cast, InList, ScalarFunction, Sort,
    WindowFunction,
};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Operator, WindowFunctionDefinition, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::call::{EnumCall, Function};
use super::extreme::EnumExtreme;
use super::known::{EnumInfo, type_word};
use crate::error::Error;
use crate::rules::each_expression;
use crate::walk::{Walk, WalkPlan};

/// A shared type: plans have many expressions of one type.
type Info = Arc<EnumInfo>;

/// Functions that return one of their arguments.
const CHOICES: [&str; 9] = [
    "coalesce",
    "nullif",
    "greatest",
    "least",
    "nvl",
    "ifnull",
    "array_element",
    "array_subscript",
    "array_subscripts",
];

/// Functions for texts only.
const OF_TEXTS: [&str; 22] = [
    "lower",
    "upper",
    "initcap",
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "bit_length",
    "substr",
    "substring",
    "btrim",
    "ltrim",
    "rtrim",
    "replace",
    "reverse",
    "split_part",
    "strpos",
    "left",
    "right",
    "lpad",
    "rpad",
    "repeat",
];

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct EnumRule;

impl AnalyzerRule for EnumRule {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        match has_enums(&plan)? {
            true => Ok(plan.map_up_with_subqueries(of_plan)?.data),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "enum_types"
    }
}

/// Whether a plan has anything to do with enum types: most do not.
fn has_enums(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    let mut look = |node: &LogicalPlan| {
        found |= node.schema().fields().iter().any(|field| EnumInfo::is_in(field));
        node.apply_expressions(|expr| {
            expr.each(|expr| {
                found |= match expr {
                    Expr::Cast(cast) => EnumInfo::is_in(&cast.field),
                    Expr::TryCast(cast) => EnumInfo::is_in(&cast.field),
                    Expr::ScalarFunction(call) => call.func.inner().is::<EnumCall>(),
                    _ => false,
                };
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    };
    let look: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion> = &mut look;
    plan.apply_with_subqueries(look)?;
    Ok(found)
}

fn of_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let before = Arc::clone(plan.schema());
    let mut made = each_expression(plan, one)?;
    if matches!(made.data, LogicalPlan::Sort(_)) {
        made = made.transform_data(each_key)?;
    }
    // The types of columns may be known only now.
    let changed = made.transformed;
    match made.data {
        LogicalPlan::Values(mut values) if changed => {
            values.schema = told_by(&values.schema, |at| {
                let rows = values.values.iter();
                let mut found = rows.filter_map(|row| info_of(row.get(at)?, &DFSchema::empty()));
                found.next()
            })?;
            Ok(Transformed::yes(LogicalPlan::Values(values)))
        }
        LogicalPlan::Unnest(mut unnest) => {
            let input = unnest.input.schema().clone();
            let of = &unnest.dependency_indices;
            let schema = told_by(&unnest.schema, |at| {
                of.get(at).and_then(|from| EnumInfo::of_field(input.field(*from))).map(Arc::new)
            })?;
            let is_other = schema != unnest.schema;
            unnest.schema = schema;
            let plan = LogicalPlan::Unnest(unnest);
            Ok(if is_other || changed { Transformed::yes(plan) } else { Transformed::no(plan) })
        }
        plan if changed => {
            let plan = plan.recompute_schema()?;
            Ok(Transformed::yes(plan))
        }
        plan => {
            let plan = plan.recompute_schema()?;
            Ok(match *plan.schema() == before {
                true => Transformed::no(plan),
                false => Transformed::yes(plan),
            })
        }
    }
}

/// A schema whose columns declare their types.
fn told_by(schema: &Arc<DFSchema>, of: impl Fn(usize) -> Option<Info>) -> Result<Arc<DFSchema>> {
    let fields = schema.iter().enumerate().map(|(at, (table, field))| {
        let is_text = |data_type: &DataType| match data_type {
            DataType::List(item) => item.data_type().is_string(),
            other => other.is_string(),
        };
        let known = of(at).filter(|_| is_text(field.data_type()));
        let field = match known {
            Some(info) => Arc::new(info.field(field.as_ref().clone())),
            None => Arc::clone(field),
        };
        (table.cloned(), field)
    });
    let made = DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?;
    Ok(Arc::new(made.with_functional_dependencies(schema.functional_dependencies().clone())?))
}

/// Sorts by codes.
fn each_key(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = plan.inputs().first().map(|input| Arc::clone(input.schema()));
    let Some(schema) = schema else { return Ok(Transformed::no(plan)) };
    plan.map_own(|expr| Ok(Transformed::yes(in_order(expr, &schema))))
}

/// The type of the values of an expression, or of the items of its arrays.
fn info_of(expr: &Expr, schema: &DFSchema) -> Option<Info> {
    match expr {
        Expr::Alias(alias) => info_of(&alias.expr, schema),
        Expr::Literal(_, None) => None,
        other => {
            let (_, field) = other.to_field(schema).ok()?;
            EnumInfo::of_field(&field).map(Arc::new)
        }
    }
}

fn is_list(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::List(_)))
}

/// A text literal, which takes the type of what is beside it.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            None,
        ) => Some(text),
        Expr::Alias(alias) => text_of(&alias.expr),
        _ => None,
    }
}

/// Whether its type is unknown until the statement runs, or irrelevant.
fn is_open(expr: &Expr, schema: &DFSchema) -> bool {
    let is_no_value = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
    matches!(expr, Expr::Placeholder(_))
        || matches!(expr, Expr::Cast(cast) if is_no_value(&cast.expr))
        || expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Null)
}

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The name of a type as an operand.
fn name_of(expr: &Expr, info: Option<&Info>, schema: &DFSchema) -> String {
    let list = if is_list(expr, schema) { "[]" } else { "" };
    match (info, expr.get_type(schema)) {
        (Some(info), _) => format!("{}{list}", info.name()),
        (None, Ok(data_type)) => type_word(&data_type),
        (None, Err(_)) => "unknown".to_owned(),
    }
}

fn no_operator(left: &str, op: &str, right: &str) -> DataFusionError {
    let text = format!("operator does not exist: {left} {op} {right}");
    failed(Error::new(920, "42883", text).next("cast one side: x::text, or 'x'::type"))
}

/// Values, replaced by their codes for a comparison.
fn in_order(expr: Expr, schema: &DFSchema) -> Expr {
    match info_of(&expr, schema) {
        Some(info) => EnumCall::of(Function::Code, &info, vec![expr]),
        None => expr,
    }
}

/// A literal beside values of a type.
fn beside(expr: Expr, info: &Info, schema: &DFSchema) -> Result<Expr> {
    if let Some(text) = text_of(&expr) {
        info.code(text).map_err(failed)?;
        return Ok(expr);
    }
    match info_of(&expr, schema) {
        Some(own) if own.oid == info.oid => Ok(expr),
        None if is_open(&expr, schema) => Ok(expr),
        own => {
            let (left, right) = (info.name().to_owned(), name_of(&expr, own.as_ref(), schema));
            Err(no_operator(&left, "=", &right))
        }
    }
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(both) => compared(both, schema),
        Expr::Between(between) => ranged(between, schema),
        Expr::InList(list) => listed(list, schema),
        Expr::Cast(cast) => converted(cast, schema),
        Expr::TryCast(cast) => {
            let plain = Cast { expr: cast.expr.clone(), field: Arc::clone(&cast.field) };
            Ok(match converted(plain, schema)? {
                made if made.transformed => made,
                _ => Transformed::no(Expr::TryCast(cast)),
            })
        }
        Expr::Like(like) => match info_of(&like.expr, schema) {
            Some(info) => Err(no_operator(info.name(), "~~", "unknown")),
            None => Ok(Transformed::no(Expr::Like(like))),
        },
        Expr::Case(case) => chosen_case(case, schema),
        Expr::ScalarFunction(call) => called(call, schema),
        Expr::AggregateFunction(call) => aggregated(call, schema),
        Expr::WindowFunction(call) => windowed(*call, schema),
        other => Ok(Transformed::no(other)),
    }
}

fn is_ordering(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn is_comparison(op: Operator) -> bool {
    is_ordering(op)
        || matches!(
            op,
            Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
        )
}

/// A comparison.
fn compared(both: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { left, op, right } = both;
    let unchanged =
        |left, right| Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    if !is_comparison(op) {
        return unchanged(left, right);
    }
    let infos = (info_of(&left, schema), info_of(&right, schema));
    let info = match &infos {
        (None, None) => return unchanged(left, right),
        (Some(own), Some(other)) if own.oid != other.oid => None,
        (Some(info), Some(_)) => {
            (is_list(&left, schema) == is_list(&right, schema)).then_some(info)
        }
        (Some(info), None) => fits(&right, (info, is_list(&left, schema)), schema)?.then_some(info),
        (None, Some(info)) => fits(&left, (info, is_list(&right, schema)), schema)?.then_some(info),
    };
    let Some(info) = info else {
        let sides = [(&left, &infos.0), (&right, &infos.1)];
        let [left, right] = sides.map(|(expr, own)| name_of(expr, own.as_ref(), schema));
        return Err(no_operator(&left, &op.to_string(), &right));
    };
    if !is_ordering(op) {
        return unchanged(left, right);
    }
    let coded = |expr: Box<Expr>| {
        let code = text_of(&expr).and_then(|text| info.code(text).ok()).map(str::to_owned);
        Box::new(match code {
            Some(code) => lit(code),
            None => EnumCall::of(Function::Code, info, vec![*expr]),
        })
    };
    let (left, right) = (coded(left), coded(right));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}

/// Whether an operand beside values of a type may be one: it has no type of its own.
fn fits(expr: &Expr, (info, is_list): (&Info, bool), schema: &DFSchema) -> Result<bool> {
    match text_of(expr) {
        // An array as a text: its items are checked once it is an array.
        Some(_) if is_list => Ok(true),
        Some(text) => info.code(text).map(|_| true).map_err(failed),
        None => Ok(is_open(expr, schema)),
    }
}

fn ranged(between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(info) = info_of(&between.expr, schema) else {
        return Ok(Transformed::no(Expr::Between(between)));
    };
    let code = |expr: Box<Expr>| -> Result<Box<Expr>> {
        let expr = beside(*expr, &info, schema)?;
        let code = text_of(&expr).and_then(|text| info.code(text).ok()).map(str::to_owned);
        Ok(Box::new(match code {
            Some(code) => lit(code),
            None => EnumCall::of(Function::Code, &info, vec![expr]),
        }))
    };
    let Between { expr, negated, low, high } = between;
    let (expr, low, high) = (code(expr)?, code(low)?, code(high)?);
    Ok(Transformed::yes(Expr::Between(Between { expr, negated, low, high })))
}

fn listed(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Some(info) = info_of(&list.expr, schema) {
        for item in &list.list {
            beside(item.clone(), &info, schema)?;
        }
    }
    Ok(Transformed::no(Expr::InList(list)))
}

fn no_cast(from: &str, to: &str) -> DataFusionError {
    let text = format!("cannot cast type {from} to {to}");
    failed(Error::new(932, "42846", text).next("cast it to text first"))
}

fn converted(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let own = info_of(&cast.expr, schema);
    let to = cast.field.data_type().clone();
    let wanted = EnumInfo::of_field(&cast.field).map(Arc::new);
    let name = |own: Option<&Info>| name_of(&cast.expr, own, schema);
    match (own, wanted) {
        (None, None) => Ok(Transformed::no(Expr::Cast(cast))),
        (Some(own), None) => match &to {
            text if text.is_string() && !is_list(&cast.expr, schema) => {
                Ok(Transformed::yes(EnumCall::of(Function::Out, &own, vec![*cast.expr])))
            }
            text if text.is_string() => Ok(Transformed::no(Expr::Cast(cast))),
            DataType::List(item) if item.data_type().is_string() => {
                Ok(Transformed::yes(EnumCall::of(Function::Out, &own, vec![*cast.expr])))
            }
            other => Err(no_cast(&name(Some(&own)), &type_word(other))),
        },
        (Some(own), Some(wanted)) if own.oid != wanted.oid => {
            Err(no_cast(&name(Some(&own)), wanted.name()))
        }
        (Some(_), Some(_)) => Ok(Transformed::yes(*cast.expr)),
        (None, Some(wanted)) => {
            let from = cast.expr.get_type(schema)?;
            let wants_list = matches!(to, DataType::List(_));
            let expr = match (&from, wants_list) {
                (DataType::List(_), true) => *cast.expr,
                // The text of an array, or NULL.
                (text, true) if text.is_string() || text.is_null() => {
                    let data_type = DataType::new_list(DataType::Utf8, true);
                    Expr::Cast(Cast::new(cast.expr, data_type))
                }
                (text, false) if text.is_string() || text.is_null() => *cast.expr,
                _ => return Err(no_cast(&name(None), wanted.name())),
            };
            Ok(Transformed::yes(EnumCall::of(Function::In, &wanted, vec![expr])))
        }
    }
}

/// Text literals among values of a type take that type.
fn among(expr: Expr, info: &Info) -> Expr {
    match text_of(&expr) {
        Some(_) => EnumCall::of(Function::In, info, vec![expr]),
        None => expr,
    }
}

fn chosen_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Case { expr, when_then_expr, else_expr } = case;
    let base = expr.as_ref().and_then(|expr| info_of(expr, schema));
    if let Some(info) = &base {
        for (when, _) in &when_then_expr {
            beside(when.as_ref().clone(), info, schema)?;
        }
    }
    let results = when_then_expr.iter().map(|(_, then)| then).chain(&else_expr);
    let info = results.into_iter().find_map(|result| info_of(result, schema));
    let Some(info) = info else {
        return Ok(Transformed::no(Expr::Case(Case { expr, when_then_expr, else_expr })));
    };
    let then = |(when, then): (Box<Expr>, Box<Expr>)| (when, Box::new(among(*then, &info)));
    let when_then_expr = when_then_expr.into_iter().map(then).collect();
    let else_expr = else_expr.map(|other| Box::new(among(*other, &info)));
    let case = Expr::Case(Case { expr, when_then_expr, else_expr });
    Ok(Transformed::yes(EnumCall::of(Function::As, &info, vec![case])))
}

fn called(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let ScalarFunction { func, args } = call;
    if let Some(own) = func.inner().downcast_ref::<EnumCall>() {
        if own.info.is_none()
            && let Some(info) = args.iter().find_map(|arg| info_of(arg, schema))
        {
            let args = args.into_iter().map(|arg| among(arg, &info)).collect();
            return Ok(Transformed::yes(EnumCall::of(own.function, &info, args)));
        }
        return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
    }
    let name = func.name();
    let (is_choice, is_of_texts) = (CHOICES.contains(&name), OF_TEXTS.contains(&name));
    let is_array = name == "make_array";
    let of = |arg: &Expr| info_of(arg, schema).filter(|_| is_choice || is_of_texts || is_array);
    let Some(info) = args.iter().find_map(of) else {
        return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
    };
    if is_of_texts {
        let first = args.first().and_then(|arg| info_of(arg, schema));
        let Some(info) = first else {
            return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
        };
        let text = format!("function {name}({}) does not exist", info.name());
        return Err(failed(Error::new(904, "42883", text).next("cast the value: x::text")));
    }
    let mut args: Vec<Expr> = args.into_iter().map(|arg| among(arg, &info)).collect();
    let is_ordered = matches!(name, "greatest" | "least");
    if is_ordered {
        let code = |arg: Expr| match is_open(&arg, schema) {
            true => arg,
            false => EnumCall::of(Function::Code, &info, vec![arg]),
        };
        args = args.into_iter().map(code).collect();
    }
    let call = Expr::ScalarFunction(ScalarFunction { func, args });
    let asked = if is_ordered { Function::OfCode } else { Function::As };
    Ok(Transformed::yes(EnumCall::of(asked, &info, vec![call])))
}

/// Sort keys with codes in place of values; returns whether there are any.
fn sorted(order: Vec<Sort>, schema: &DFSchema) -> (Vec<Sort>, bool) {
    let mut is_other = false;
    let key = |sort: Sort| {
        let is_of = info_of(&sort.expr, schema).is_some();
        is_other |= is_of;
        if is_of { Sort { expr: in_order(sort.expr, schema), ..sort } } else { sort }
    };
    (order.into_iter().map(key).collect(), is_other)
}

/// Whether it is `min`; `None`: neither that nor `max`.
fn extreme(name: &str) -> Option<bool> {
    match name {
        "min" => Some(true),
        "max" => Some(false),
        _ => None,
    }
}

fn aggregated(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (order, mut is_other) = sorted(std::mem::take(&mut call.params.order_by), schema);
    call.params.order_by = order;
    let info = call.params.args.first().and_then(|arg| info_of(arg, schema));
    if let (Some(info), Some(is_least)) = (&info, extreme(call.func.name()))
        && !call.func.inner().is::<EnumExtreme>()
    {
        call.func = EnumExtreme::udaf(info, is_least);
        is_other = true;
    }
    let made = Expr::AggregateFunction(call);
    Ok(if is_other { Transformed::yes(made) } else { Transformed::no(made) })
}

fn windowed(mut call: WindowFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (order, mut is_other) = sorted(std::mem::take(&mut call.params.order_by), schema);
    call.params.order_by = order;
    let info = call.params.args.first().and_then(|arg| info_of(arg, schema));
    if let (Some(info), WindowFunctionDefinition::AggregateUDF(func)) = (&info, &call.fun)
        && let Some(is_least) = extreme(func.name())
        && !func.inner().is::<EnumExtreme>()
    {
        call.fun = WindowFunctionDefinition::AggregateUDF(EnumExtreme::udaf(info, is_least));
        is_other = true;
    }
    let made = Expr::WindowFunction(Box::new(call));
    Ok(if is_other { Transformed::yes(made) } else { Transformed::no(made) })
}
