//! The functions that the fast path calls.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use super::class::{Class, is_number};
use super::names::Names;

/// The arguments of a plain call: without FILTER, OVER or DISTINCT.
pub(super) fn plain_args(call: &Function) -> Option<&[FunctionArg]> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let is_plain = call.over.is_none()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty()
        && matches!(call.parameters, FunctionArguments::None)
        && list.clauses.is_empty()
        && list.duplicate_treatment.is_none();
    is_plain.then_some(&list.args)
}

impl Names<'_> {
    /// The class of a call of a function.
    pub fn call(&self, call: &Function) -> Option<Class> {
        let args = plain_args(call)?.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        });
        let args = args.collect::<Option<Vec<&Expr>>>()?;
        let is = |expr: &Expr, wanted: fn(Class) -> bool| self.class(expr).is_some_and(wanted);
        let is_text = |expr: &Expr| is(expr, |own| matches!(own, Class::Text | Class::Literal));
        let is_whole = |expr: &Expr| is(expr, |own| own == Class::Integer);
        match (call.name.to_string().to_ascii_lowercase().as_str(), &args[..]) {
            ("coalesce" | "greatest" | "least", [_, ..]) | ("nullif", [_, _]) => {
                self.common(args.into_iter())
            }
            ("lower" | "upper" | "btrim" | "ltrim" | "rtrim" | "reverse" | "md5", [text]) => {
                is_text(text).then_some(Class::Text)
            }
            ("length" | "char_length" | "octet_length", [text]) => {
                is_text(text).then_some(Class::Integer)
            }
            ("repeat" | "left" | "right" | "lpad" | "rpad", [text, count]) => {
                (is_text(text) && is_whole(count)).then_some(Class::Text)
            }
            ("lpad" | "rpad", [text, count, with]) => {
                (is_text(text) && is_whole(count) && is_text(with)).then_some(Class::Text)
            }
            ("replace", [text, from, to]) => {
                (is_text(text) && is_text(from) && is_text(to)).then_some(Class::Text)
            }
            ("abs", [number]) => self.class(number).filter(|own| is_number(*own)),
            ("nextval", [name]) if self.may_draw => {
                (self.class(name)? == Class::Literal).then_some(Class::Integer)
            }
            _ => None,
        }
    }

    /// The class of a part of a text: `substr(text, from, count)`.
    pub fn slice(&self, expr: &Expr) -> Option<Class> {
        let Expr::Substring { expr, substring_from: Some(from), substring_for, .. } = expr else {
            return None;
        };
        let is_whole = |expr: &Expr| self.class(expr) == Some(Class::Integer);
        let is_text = matches!(self.class(expr)?, Class::Text | Class::Literal);
        let fits = is_whole(from) && substring_for.as_deref().is_none_or(is_whole);
        (is_text && fits).then_some(Class::Text)
    }
}
