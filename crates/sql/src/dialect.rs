//! Oracle's words in the PostgreSQL dialect: `#` and `$` in names, VARCHAR2, NUMBER, SYSDATE, and
//! paths such as `+DATA/t.parquet`.

use std::any::TypeId;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Select, SelectItem, TimezoneInfo,
    Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect};

use crate::error::Error;
use crate::path::to_url;

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// PostgreSQL's tokens, with `#` inside names. Only for the tokenizer: the parser then runs with
/// PostgreSQL's own dialect.
#[derive(Debug)]
pub(crate) struct CellarDialect;

impl Dialect for CellarDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }
    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }
    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch) || ch == '#'
    }
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_delimited_identifier_start(ch)
    }
    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRES.is_custom_operator_part(ch)
    }
    fn supports_unicode_string_literal(&self) -> bool {
        POSTGRES.supports_unicode_string_literal()
    }
    fn supports_nested_comments(&self) -> bool {
        POSTGRES.supports_nested_comments()
    }
    fn supports_string_escape_constant(&self) -> bool {
        POSTGRES.supports_string_escape_constant()
    }
    fn supports_numeric_literal_underscores(&self) -> bool {
        POSTGRES.supports_numeric_literal_underscores()
    }
    fn supports_geometric_types(&self) -> bool {
        POSTGRES.supports_geometric_types()
    }
}

/// Puts what DataFusion knows in the place of Oracle's words and paths.
///
/// # Errors
/// 15124 for a group path that cannot be one.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<(), Error> {
    match statement {
        Statement::Statement(statement) => {
            let _ = VisitMut::visit(statement.as_mut(), &mut Rewriter);
        }
        Statement::CreateExternalTable(table) => {
            for location in &mut table.locations {
                *location = to_url(location)?;
            }
            for column in &mut table.columns {
                rewrite_type(&mut column.data_type);
            }
        }
        Statement::CopyTo(copy) => {
            copy.target = to_url(&copy.target)?;
            if let CopyToSource::Query(query) = &mut copy.source {
                let _ = VisitMut::visit(query.as_mut(), &mut Rewriter);
            }
        }
        Statement::Explain(explain) => rewrite(&mut explain.statement)?,
        Statement::Reset(_) => {}
    }
    Ok(())
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_sysdate(expr)
            {
                let alias = Ident::new("sysdate");
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    // After, not before: what is put in must not be visited again.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } => rewrite_type(data_type),
            _ if is_sysdate(expr) => *expr = sysdate(),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_sysdate(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("sysdate"))
}

/// `CAST(date_trunc('second', now()) AS TIMESTAMP)`: Oracle's DATE goes to the second.
fn sysdate() -> Expr {
    let now = call("now", vec![]);
    let second = Expr::Value(Value::SingleQuotedString("second".into()).into());
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("date_trunc", vec![second, now])),
        data_type: DataType::Timestamp(None, TimezoneInfo::None),
        array: false,
        format: None,
    }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// VARCHAR2 is text; NUMBER(p,s) is a decimal, a bare NUMBER has room for 28 digits before the
/// point and 10 behind it.
fn rewrite_type(data_type: &mut DataType) {
    let DataType::Custom(name, modifiers) = data_type else {
        return;
    };
    let name = name.to_string().to_ascii_lowercase();
    let number = |at: usize| modifiers.get(at).and_then(|m: &String| m.parse::<i64>().ok());
    let replacement = match name.as_str() {
        "varchar2" | "nvarchar2" => DataType::Varchar(None),
        "number" => DataType::Decimal(match (number(0), number(1)) {
            (Some(p), Some(s)) => ExactNumberInfo::PrecisionAndScale(p.unsigned_abs(), s),
            (Some(p), None) => ExactNumberInfo::PrecisionAndScale(p.unsigned_abs(), 0),
            (None, _) => ExactNumberInfo::PrecisionAndScale(38, 10),
        }),
        _ => return,
    };
    *data_type = replacement;
}
