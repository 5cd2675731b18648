//! Oracle's words in statements that are parsed: VARCHAR2, NUMBER, SYSDATE, and paths such as
//! `+DATA/t.parquet`; and literals that DataFusion would read as something else.

mod any;
mod fetch;
mod interval;
mod json;
mod ordinality;
mod pattern;
mod rows;
mod series;
mod using;
mod whole;
mod windows;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, CharacterLength, DataType, Distinct,
    ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query,
    Select, SelectItem, SetExpr, Statement as SqlStatement, Subscript, TableAliasColumnDef,
    TableFactor, TimezoneInfo, UnaryOperator, Value, VisitMut, VisitorMut,
};

pub(crate) use self::pattern::LikeEscape;
use crate::call::call;
use crate::error::Error;
use crate::json::form::Form;
use crate::names::apart::tell_apart;
use crate::names::outer;
use crate::numbers::literal;
use crate::path::to_url;
use crate::walk::visit;

/// Digits of the widest decimal.
const DIGITS_MAX: u64 = 76;

/// Replaces Oracle's words and paths by what DataFusion knows.
///
/// # Errors
/// 15124 for an invalid group path.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<(), Error> {
    match statement {
        Statement::Statement(statement) => {
            rewrite_in(statement.as_mut())?;
            tell_apart(statement.as_mut());
            outer::qualify(statement.as_mut());
        }
        Statement::CreateExternalTable(table) => {
            for location in &mut table.locations {
                *location = to_url(location)?;
            }
            for column in &mut table.columns {
                rewrite_type(&mut column.data_type)?;
            }
        }
        Statement::CopyTo(copy) => {
            copy.target = to_url(&copy.target)?;
            if let CopyToSource::Query(query) = &mut copy.source {
                rewrite_in(query.as_mut())?;
                tell_apart(query.as_mut());
                outer::qualify(query.as_mut());
            }
        }
        Statement::Explain(explain) => rewrite(&mut explain.statement)?,
        Statement::Reset(_) => {}
    }
    Ok(())
}

fn rewrite_in<T: VisitMut>(ast: &mut T) -> Result<(), Error> {
    match visit(ast, &mut Rewriter::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

#[derive(Default)]
struct Rewriter {
    /// Whether the next query is the source of an INSERT, whose columns have types.
    is_inserted: bool,
}

impl VisitorMut for Rewriter {
    type Break = Box<Error>;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        json::whole_rows(select);
        for item in &mut select.projection {
            json::named(item);
            if let SelectItem::UnnamedExpr(expr) = item
                && is_sysdate(expr)
            {
                let alias = Ident::new("sysdate");
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            whole::of_item(item);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<Box<Error>> {
        self.is_inserted = matches!(statement, SqlStatement::Insert(own) if own.source.is_some());
        if let SqlStatement::CreateTable(table) = statement {
            for column in &mut table.columns {
                or_break(rewrite_type(&mut column.data_type))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        json::from_rows(factor);
        ordinality::rewrite(factor);
        name_of_items(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        if !std::mem::take(&mut self.is_inserted) {
            whole::of_values(&mut query.body);
        }
        series::rewrite(query);
        or_break(using::rewrite(query))?;
        or_break(windows::rewrite(query))?;
        or_break(fetch::rewrite(query))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr
            && number_of(inner).is_some_and(literal::is_least_bigint)
        {
            *expr = literal::least_bigint();
        }
        of_sequence(expr);
        negative_first(expr);
        without_order(expr);
        fields_by_name(expr);
        whole_slices(expr);
        any::rewrite(expr);
        json::rewrite(expr);
        interval::rewrite(expr);
        whole::within(expr);
        or_break(pattern::rewrite(expr))?;
        or_break(pattern::similar(expr))?;
        if let Some(other) = or_break(rows::rewrite(expr))? {
            *expr = other;
        }
        ControlFlow::Continue(())
    }

    // After, not before: replacements must not be visited again.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Error>> {
        if let Some(text) = number_of(expr) {
            if let Some(other) = or_break(literal::rewrite(text))? {
                *expr = other;
            }
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Cast { data_type, expr: inner, .. } => {
                or_break(rewrite_type(data_type))?;
                if let Some(form) = form_of(data_type) {
                    *expr = kept_in(form, (**inner).clone());
                    return ControlFlow::Continue(());
                }
                if let (DataType::Bytea, Some(bytes)) = (&*data_type, hex_of(inner)) {
                    *expr = bytes;
                    return ControlFlow::Continue(());
                }
                if let DataType::Array(_) = data_type {
                    let form = item_type(data_type).and_then(form_of);
                    plain_items(data_type);
                    if let Some(form) = form {
                        *expr = kept_in(form, expr.clone());
                    }
                    return ControlFlow::Continue(());
                }
                if let Some(length) = length_of(data_type) {
                    let text = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: inner.clone(),
                        data_type: DataType::Varchar(None),
                        array: false,
                        format: None,
                    };
                    let length = Value::Number(length.to_string(), false);
                    *expr = call("left", vec![text, Expr::Value(length.into())]);
                }
            }
            Expr::TypedString(typed) => {
                or_break(rewrite_type(&mut typed.data_type))?;
                if let Some(form) = form_of(&typed.data_type) {
                    *expr = kept_in(form, Expr::Value(typed.value.clone()));
                }
            }
            Expr::Function(function) if is_now(function) => *expr = now(function),
            Expr::AtTimeZone { timestamp, time_zone } => {
                *expr = call("timezone", vec![(**time_zone).clone(), (**timestamp).clone()]);
            }
            Expr::Function(function) => {
                if let Some(remainder) = remainder(function) {
                    *expr = remainder;
                }
            }
            _ if is_sysdate(expr) => *expr = sysdate(),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `-a ^ b` as `(-a) ^ b`, as PostgreSQL reads it.
fn negative_first(expr: &mut Expr) {
    let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr else { return };
    let is_power = |expr: &Expr| {
        matches!(
            expr,
            Expr::BinaryOp { op: BinaryOperator::PGExp | BinaryOperator::BitwiseXor, .. }
        )
    };
    if !is_power(inner) {
        return;
    }
    let mut whole = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
    let mut first = &mut whole;
    while let Expr::BinaryOp {
        left, op: BinaryOperator::PGExp | BinaryOperator::BitwiseXor, ..
    } = first
    {
        first = left;
    }
    let base = std::mem::replace(first, Expr::Value(Value::Null.into()));
    *first = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(base) };
    *expr = whole;
}

/// Drops ORDER BY in subqueries that only test for rows: it has no effect, and would prevent a join.
fn without_order(expr: &mut Expr) {
    let (Expr::InSubquery { subquery, .. } | Expr::Exists { subquery, .. }) = expr else { return };
    let is_of_all = subquery.limit_clause.is_none() && subquery.fetch.is_none();
    let is_plain = matches!(subquery.body.as_ref(), SetExpr::Select(select)
        if !matches!(select.distinct, Some(Distinct::On(_))));
    if is_of_all && is_plain {
        subquery.order_by = None;
    }
}

/// `(s).field` as `s['field']`.
fn fields_by_name(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let AccessExpr::Dot(Expr::Identifier(field)) = access {
            let index = Value::SingleQuotedString(field.value.clone());
            *access = AccessExpr::Subscript(Subscript::Index { index: Expr::Value(index.into()) });
        }
    }
}

/// `a[2:]` with explicit bounds.
fn whole_slices(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access
        else {
            continue;
        };
        let number = |text: &str| Expr::Value(Value::Number(text.to_owned(), false).into());
        lower_bound.get_or_insert_with(|| number("1"));
        upper_bound.get_or_insert_with(|| number("9223372036854775807"));
    }
}

/// `unnest(a) AS x` has a column of that name.
fn name_of_items(factor: &mut TableFactor) {
    let TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } = factor else { return };
    if alias.columns.is_empty() && array_exprs.len() == 1 {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
}

fn or_break<T>(result: Result<T, Error>) -> ControlFlow<Box<Error>, T> {
    match result {
        Ok(value) => ControlFlow::Continue(value),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

fn number_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn is_sysdate(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("sysdate"))
}

/// Whether a function is the current time, which DataFusion has in nanoseconds: dates beyond 2262 could
/// not be compared with it.
fn is_now(function: &Function) -> bool {
    let name = function.name.to_string();
    ["now", "current_timestamp", "localtimestamp", "transaction_timestamp"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

/// `mod(a, b)` as `a % b`.
fn remainder(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [a, b] = &list.args[..] else { return None };
    let (
        FunctionArg::Unnamed(FunctionArgExpr::Expr(a)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(b)),
    ) = (a, b)
    else {
        return None;
    };
    let nested = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    function.name.to_string().eq_ignore_ascii_case("mod").then(|| {
        let whole =
            Expr::BinaryOp { left: nested(a), op: BinaryOperator::Modulo, right: nested(b) };
        Expr::Nested(Box::new(whole))
    })
}

/// `CAST(now() AS TIMESTAMP(6) WITH TIME ZONE)`; for LOCALTIMESTAMP, local time.
fn now(function: &Function) -> Expr {
    let zone = match function.name.to_string().eq_ignore_ascii_case("localtimestamp") {
        true => TimezoneInfo::None,
        false => TimezoneInfo::WithTimeZone,
    };
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("now", vec![])),
        data_type: DataType::Timestamp(Some(6), zone),
        array: false,
        format: None,
    }
}

/// `CAST(date_trunc('second', now()) AS TIMESTAMP)`: Oracle's DATE has a precision of seconds.
fn sysdate() -> Expr {
    let now = call("now", vec![]);
    let second = Expr::Value(Value::SingleQuotedString("second".into()).into());
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call("date_trunc", vec![second, now])),
        data_type: DataType::Timestamp(Some(6), TimezoneInfo::None),
        array: false,
        format: None,
    }
}

/// VARCHAR2 is text; NUMBER(p,s) is a decimal, a bare NUMBER has room for 28 digits before the point and
/// 10 after it.
///
/// # Errors
/// 01727, 01728 for precisions that no decimal has.
fn rewrite_type(data_type: &mut DataType) -> Result<(), Error> {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, size)) = data_type {
        // PostgreSQL accepts an array size, and ignores it.
        *size = None;
        return rewrite_type(item);
    }
    check_digits(data_type)?;
    // In microseconds, as in PostgreSQL: nanoseconds end in 2262.
    if let DataType::Timestamp(precision @ None, _) = data_type {
        *precision = Some(6);
    }
    match data_type {
        DataType::Clob(_) => *data_type = DataType::Text,
        DataType::Blob(_) => *data_type = DataType::Bytea,
        DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            *data_type = DataType::Varchar(*length);
        }
        DataType::Character(length) => *data_type = DataType::Char(*length),
        // DataFusion's FLOAT is of single precision, whatever is declared.
        DataType::Float(ExactNumberInfo::Precision(1..=24)) => *data_type = DataType::Real,
        DataType::Float(_) => *data_type = DataType::DoublePrecision,
        _ => {}
    }
    let DataType::Custom(name, modifiers) = data_type else {
        return Ok(());
    };
    let name = name.to_string().to_ascii_lowercase();
    let number = |at: usize| modifiers.get(at).and_then(|m: &String| m.parse::<i64>().ok());
    let replacement = match name.as_str() {
        "varchar2" | "nvarchar2" => DataType::Varchar(number(0).map(|length| {
            CharacterLength::IntegerLength { length: length.unsigned_abs(), unit: None }
        })),
        "number" => DataType::Decimal(match (number(0), number(1)) {
            (Some(p), Some(s)) => ExactNumberInfo::PrecisionAndScale(p.unsigned_abs(), s),
            (Some(p), None) => ExactNumberInfo::PrecisionAndScale(p.unsigned_abs(), 0),
            (None, _) => ExactNumberInfo::PrecisionAndScale(38, 10),
        }),
        "nclob" | "long" => DataType::Text,
        "raw" => DataType::Bytea,
        _ => return Ok(()),
    };
    check_digits(&replacement)?;
    *data_type = replacement;
    Ok(())
}

/// The type of the items of an array.
fn item_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => Some(item),
        _ => None,
    }
}

/// Items that are stored as texts are texts in a cast.
fn plain_items(data_type: &mut DataType) {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type {
        plain_items(item);
    } else if form_of(data_type).is_some() || length_of(data_type).is_some() {
        *data_type = DataType::Text;
    }
}

/// The other type that texts of a type stand for.
pub(crate) fn form_of(data_type: &DataType) -> Option<Form> {
    match data_type {
        DataType::Uuid => Some(Form::Uuid),
        DataType::JSON => Some(Form::Json),
        DataType::JSONB => Some(Form::Jsonb),
        _ => None,
    }
}

/// A text as a value of such a type.
fn kept_in(form: Form, text: Expr) -> Expr {
    let function = match form {
        Form::Uuid => "uuid_in",
        Form::Json => "json_in",
        Form::Jsonb => "jsonb_in",
    };
    call(function, vec![text])
}

/// Oracle's `s.nextval` and `s.currval`.
fn of_sequence(expr: &mut Expr) {
    let Expr::CompoundIdentifier(parts) = &*expr else { return };
    let [names @ .., last] = &parts[..] else { return };
    let words = ["nextval", "currval"];
    let word = words.into_iter().find(|word| last.value.eq_ignore_ascii_case(word));
    let (Some(word), None, false) = (word, last.quote_style, names.is_empty()) else { return };
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let name = Value::SingleQuotedString(names.join("."));
    *expr = call(word, vec![Expr::Value(name.into())]);
}

/// `'\x80'` as bytes: what PostgreSQL reads, and shows, as bytea.
fn hex_of(expr: &Expr) -> Option<Expr> {
    let Expr::Value(value) = expr else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let digits: String = text.strip_prefix("\\x")?.split_ascii_whitespace().collect();
    let is_hex =
        digits.len().is_multiple_of(2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| Expr::Value(Value::HexStringLiteral(digits).into()))
}

/// The most characters of a value of a type, if declared.
pub(crate) fn length_of(data_type: &DataType) -> Option<usize> {
    use DataType as T;
    let length = match data_type {
        T::Array(ArrayElemTypeDef::SquareBracket(item, _)) => return length_of(item),
        T::Varchar(length)
        | T::CharacterVarying(length)
        | T::CharVarying(length)
        | T::Nvarchar(length) => (*length)?,
        // CHAR alone is CHAR(1).
        T::Character(length) | T::Char(length) => {
            (*length).unwrap_or(CharacterLength::IntegerLength { length: 1, unit: None })
        }
        _ => return None,
    };
    match length {
        CharacterLength::IntegerLength { length, .. } => usize::try_from(length).ok(),
        CharacterLength::Max => None,
    }
}

/// Refuses decimals of negative scale, which DataFusion has but cannot compute with.
fn check_digits(data_type: &DataType) -> Result<(), Error> {
    let (DataType::Decimal(info) | DataType::Numeric(info) | DataType::Dec(info)) = data_type
    else {
        return Ok(());
    };
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(()),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=DIGITS_MAX).contains(&precision) {
        let text = format!("{data_type}: a decimal has 1 to {DIGITS_MAX} digits");
        return Err(Error::new(1727, "22023", text).next("number or numeric(38, 10)"));
    }
    if scale < 0 || scale.unsigned_abs() > precision {
        let text =
            format!("{data_type}: of {precision} digits 0 to {precision} are behind the point");
        return Err(Error::new(1728, "22023", text)
            .next("round(x, -2) rounds to hundreds; decimal(9, 0) holds what comes of it"));
    }
    Ok(())
}
