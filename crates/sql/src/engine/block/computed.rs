//! Parts of a statement that variables alone decide: they are computed before it, so that a key such as
//! `id = x + 300 * (job - 1)` is one value and is found by its index.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::grammar::CellarDialect;
use crate::walk;

/// A statement with such parts taken out.
#[derive(Debug)]
pub(super) struct TakenOut {
    /// The statement: each part is a further parameter.
    pub text: String,
    /// The parts: `"\u{1}n"` stands for the parameter n + 1.
    pub parts: Vec<String>,
}

fn placeholder(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// Whether an expression consists of parameters and literals, and whether it has parameters.
fn is_pure(expr: &Expr, has_parameters: &mut bool) -> bool {
    match expr {
        Expr::Nested(inner) => is_pure(inner, has_parameters),
        // `- -1` would be a comment as a text.
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            !matches!(expr.as_ref(), Expr::UnaryOp { .. }) && is_pure(expr, has_parameters)
        }
        Expr::BinaryOp {
            left,
            op:
                BinaryOperator::Plus
                | BinaryOperator::Minus
                | BinaryOperator::Multiply
                | BinaryOperator::Divide
                | BinaryOperator::Modulo
                | BinaryOperator::StringConcat,
            right,
        } => is_pure(left, has_parameters) && is_pure(right, has_parameters),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(_) => {
                *has_parameters = true;
                placeholder(expr).is_some()
            }
            Value::Number(..) | Value::SingleQuotedString(_) => true,
            _ => false,
        },
        _ => false,
    }
}

/// Puts names of variables in the place of parameters.
struct Named;

impl VisitorMut for Named {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(at) = placeholder(expr) {
            *expr = Expr::Identifier(Ident::with_quote('"', format!("\u{1}{at}")));
        }
        ControlFlow::Continue(())
    }
}

struct Taking {
    next: usize,
    parts: Vec<String>,
}

impl VisitorMut for Taking {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_one = matches!(expr, Expr::Value(_));
        let mut has_parameters = false;
        if is_one || !is_pure(expr, &mut has_parameters) || !has_parameters {
            return ControlFlow::Continue(());
        }
        self.next += 1;
        let mut part = std::mem::replace(
            expr,
            Expr::Value(Value::Placeholder(format!("${}", self.next)).into()),
        );
        let _: ControlFlow<()> = walk::visit(&mut part, &mut Named);
        self.parts.push(part.to_string());
        ControlFlow::Continue(())
    }
}

/// Takes such parts out of a statement with this many parameters; `None`: it has none.
pub(super) fn take_out(text: &str, parameters: usize) -> Option<TakenOut> {
    let parser = Parser::new(&CellarDialect).try_with_sql(text);
    let mut statement = parser.ok()?.parse_statement().ok()?;
    let mut taking = Taking { next: parameters, parts: Vec::new() };
    let _: ControlFlow<()> = walk::visit(&mut statement, &mut taking);
    let Taking { parts, .. } = taking;
    (!parts.is_empty()).then(|| TakenOut { text: statement.to_string(), parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parameters_decide_is_taken_out_and_nothing_else() {
        let taken =
            take_out("UPDATE t SET a = 'new ' || $1, n = n + $2 WHERE id = $1 + 300 * ($2 - 1)", 2);
        let taken = taken.unwrap();
        assert_eq!(taken.text, "UPDATE t SET a = $3, n = n + $2 WHERE id = $4");
        assert_eq!(taken.parts, ["'new ' || \"\u{1}0\"", "\"\u{1}0\" + 300 * (\"\u{1}1\" - 1)"]);
        for text in [
            "INSERT INTO t VALUES ('abc', $1)",
            "SELECT a + 1 FROM t WHERE id = $1",
            "SELECT 1 + 2",
        ] {
            assert!(take_out(text, 1).is_none(), "{text}");
        }
    }
}
