//! Expressions that the fast path computes: those whose meaning does not change when a constant arrives
//! as a typed value instead of a literal.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr, FunctionArguments, TimezoneInfo,
    UnaryOperator, Value,
};

use super::names::Names;
use super::shape::{bare, placeholder};

/// What kind of value an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Null,
    Integer,
    Decimal,
    Float,
    Text,
    /// A text literal, which takes the type of what it is compared with.
    Literal,
    Boolean,
    /// The current time.
    Now,
    Other,
}

/// The class of a type.
pub(super) fn class_of(data_type: &DataType) -> Class {
    match data_type {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Class::Integer,
        DataType::Decimal128(_, _) => Class::Decimal,
        DataType::Float32 | DataType::Float64 => Class::Float,
        DataType::Utf8 | DataType::Utf8View => Class::Text,
        DataType::Boolean => Class::Boolean,
        _ => Class::Other,
    }
}

/// Whether an expression is `now()` or `current_timestamp`.
pub(super) fn is_now(expr: &Expr) -> bool {
    let Expr::Function(call) = expr else { return false };
    let name = call.name.to_string();
    let is_empty = match &call.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty() && list.clauses.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let is_name =
        name.eq_ignore_ascii_case("now") || name.eq_ignore_ascii_case("current_timestamp");
    is_name && is_empty && call.over.is_none() && call.filter.is_none()
}

/// Whether an expression is the cast that the parser makes of an integer in the result.
fn is_integer(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { expr, data_type: SqlType::Int(None), kind: CastKind::Cast, .. }
        if is_whole(expr))
}

/// Whether an expression is an integer literal.
fn is_whole(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_whole(expr),
        Expr::Value(value) => value_class(&value.value) == Some(Class::Integer),
        _ => false,
    }
}

/// The class of a constant.
fn value_class(value: &Value) -> Option<Class> {
    match value {
        Value::Null => Some(Class::Null),
        Value::Boolean(_) => Some(Class::Boolean),
        Value::Number(text, _) if text.parse::<i64>().is_ok() => Some(Class::Integer),
        Value::Number(_, _) => Some(Class::Decimal),
        Value::SingleQuotedString(_) => Some(Class::Literal),
        _ => None,
    }
}

impl Names<'_> {
    /// The class of an expression; `None`: it is not computed here.
    pub fn class(&self, expr: &Expr) -> Option<Class> {
        let expr = bare(expr);
        if let Some(column) = self.column(expr) {
            // Only plan rules know how enum labels and JSON compare.
            if self.columns.has_own_order(column) {
                return None;
            }
            return Some(class_of(self.columns.schema.field(column).data_type()));
        }
        if placeholder(expr).is_some() {
            let at = self.slot(expr)?;
            let class = class_of(&self.slots.data_type(at));
            return Some(match self.slots.is_constant(at) && class == Class::Text {
                true => Class::Literal,
                false => class,
            });
        }
        // The parser casts now() to microseconds.
        if let Expr::Cast {
            expr, data_type: SqlType::Timestamp(_, TimezoneInfo::WithTimeZone), ..
        } = expr
            && is_now(expr)
        {
            return Some(Class::Now);
        }
        if is_now(expr) {
            return Some(Class::Now);
        }
        match expr {
            Expr::Value(value) => value_class(&value.value),
            Expr::Cast { .. } if is_integer(expr) => Some(Class::Integer),
            Expr::Cast { .. } => self.cast_class(expr),
            Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
                self.class(expr).filter(|class| is_number(*class))
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                self.class(expr).filter(|class| *class == Class::Boolean)
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                self.column(bare(inner)).map(|_| Class::Boolean)
            }
            Expr::Between { expr, low, high, .. } => {
                let own = self.class(expr)?;
                let fit =
                    are_comparable(own, self.class(low)?) && are_comparable(own, self.class(high)?);
                fit.then_some(Class::Boolean)
            }
            Expr::InList { expr, list, .. } => {
                let own = self.class(expr)?;
                for item in list {
                    are_comparable(own, self.class(item)?).then_some(())?;
                }
                Some(Class::Boolean)
            }
            Expr::Case { .. } => self.case(expr),
            Expr::Function(call) => self.call(call),
            Expr::Substring { .. } => self.slice(expr),
            Expr::BinaryOp { left, op, right } => {
                binary(self.class(left)?, op, self.class(right)?, || self.are_alike(left, right))
            }
            _ => None,
        }
    }

    fn case(&self, expr: &Expr) -> Option<Class> {
        let Expr::Case { operand, conditions, else_result, .. } = expr else { return None };
        let operand = operand.as_ref().map(|operand| self.class(operand));
        for when in conditions {
            let own = self.class(&when.condition)?;
            let fits = match operand {
                None => own == Class::Boolean,
                Some(operand) => are_comparable(operand?, own),
            };
            fits.then_some(())?;
        }
        let results = conditions.iter().map(|when| &when.result);
        self.common(results.chain(else_result.as_deref()))
    }

    /// The common class of these, ignoring NULLs; `None`: they have none.
    pub fn common<'e>(&self, exprs: impl Iterator<Item = &'e Expr>) -> Option<Class> {
        let mut common = Class::Null;
        for expr in exprs {
            common = match (common, self.class(expr)?) {
                (Class::Null, own) => own,
                (own, Class::Null) => own,
                (one, other) if one == other => one,
                (Class::Text, Class::Literal) | (Class::Literal, Class::Text) => Class::Text,
                (one, other)
                    if is_number(one) && is_number(other) && are_comparable(one, other) =>
                {
                    if one == Class::Integer { other } else { one }
                }
                _ => return None,
            };
        }
        let is_known =
            is_number(common) || matches!(common, Class::Text | Class::Literal | Class::Boolean);
        // A literal chosen among several is a text, whatever column it is stored in.
        let common = if common == Class::Literal { Class::Text } else { common };
        is_known.then_some(common)
    }

    /// Whether two expressions have the same type, whatever it is.
    fn are_alike(&self, one: &Expr, other: &Expr) -> bool {
        let of = |expr: &Expr| {
            let expr = bare(expr);
            let column = self.column(expr);
            let column = column.map(|at| self.columns.schema.field(at).data_type().clone());
            let slot = || self.slot(expr).map(|at| self.slots.data_type(at));
            column.or_else(slot).or_else(|| self.cast_type(expr))
        };
        matches!((of(one), of(other)), (Some(one), Some(other)) if one == other)
    }

    /// Whether a value of this expression can be stored in a column of this type.
    pub fn is_storable(&self, expr: &Expr, data_type: &DataType) -> bool {
        let Some(class) = self.class(expr) else { return false };
        if let Some(at) = self.slot(bare(expr))
            && self.slots.data_type(at) == *data_type
        {
            return true;
        }
        let own = class_of(data_type);
        match class {
            Class::Null => true,
            Class::Integer => matches!(own, Class::Integer | Class::Decimal | Class::Float),
            // A number with more digits is rounded, or refused.
            Class::Decimal => {
                match (self.slot(bare(expr)).map(|at| self.slots.data_type(at)), data_type) {
                    (Some(DataType::Decimal128(_, given)), DataType::Decimal128(_, kept)) => {
                        given <= *kept
                    }
                    _ => own == Class::Decimal,
                }
            }
            Class::Float => matches!(own, Class::Float),
            Class::Text | Class::Literal => {
                own == Class::Text
                    || (class == Class::Literal
                        && matches!(data_type, DataType::Date32 | DataType::Timestamp(_, None)))
            }
            Class::Boolean => own == Class::Boolean,
            Class::Now => matches!(data_type, DataType::Timestamp(_, _)),
            Class::Other => {
                let column = self.column(bare(expr));
                let column = column.map(|at| self.columns.schema.field(at).data_type().clone());
                column.or_else(|| self.cast_type(bare(expr))).is_some_and(|own| own == *data_type)
            }
        }
    }
}

pub(super) fn is_number(class: Class) -> bool {
    matches!(class, Class::Integer | Class::Decimal | Class::Float)
}

fn are_comparable(one: Class, other: Class) -> bool {
    match (one, other) {
        (Class::Float, Class::Decimal) | (Class::Decimal, Class::Float) => false,
        (one, other) if is_number(one) && is_number(other) => true,
        (Class::Text, Class::Text | Class::Literal) | (Class::Literal, Class::Text) => true,
        _ => false,
    }
}

fn binary(
    one: Class,
    op: &BinaryOperator,
    other: Class,
    are_alike: impl Fn() -> bool,
) -> Option<Class> {
    use BinaryOperator as B;
    match op {
        B::And | B::Or => {
            (one == Class::Boolean && other == Class::Boolean).then_some(Class::Boolean)
        }
        B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq => {
            (are_comparable(one, other) || are_alike()).then_some(Class::Boolean)
        }
        B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo => match (one, other) {
            (Class::Integer, Class::Integer) => Some(Class::Integer),
            (Class::Decimal, Class::Integer | Class::Decimal)
            | (Class::Integer, Class::Decimal) => Some(Class::Decimal),
            (Class::Float, Class::Integer | Class::Float) | (Class::Integer, Class::Float) => {
                Some(Class::Float)
            }
            _ => None,
        },
        B::StringConcat => {
            let is_text = |class| matches!(class, Class::Text | Class::Literal);
            (is_text(one) && is_text(other)).then_some(Class::Text)
        }
        _ => None,
    }
}
