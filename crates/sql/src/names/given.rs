//! The default name of a result column that the query does not name: the one that PostgreSQL gives it.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, ExactNumberInfo, Expr, ObjectName, Query, SelectItem,
    SetExpr, TimezoneInfo, TrimWhereField,
};

use super::folded;

/// The name of a column for which there is no better one.
const UNKNOWN: &str = "?column?";

/// The name of a column with this expression.
pub(crate) fn name(expr: &Expr) -> String {
    found(expr).map_or_else(|| UNKNOWN.to_owned(), |(name, _)| name)
}

/// A name, and whether it survives a cast; `None`: the expression has none.
fn found(expr: &Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match expr {
        Expr::Identifier(own) => Some((folded(own), true)),
        Expr::CompoundIdentifier(parts) => Some((folded(parts.last()?), true)),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(own)) => Some(folded(own)),
                _ => None,
            });
            field.map(|own| (own, true)).or_else(|| found(root))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => found(inner),
        Expr::Cast { expr, data_type, .. } => {
            let own = found(expr).filter(|(_, stays)| *stays);
            own.or_else(|| Some((name_of_type(data_type), false)))
        }
        Expr::TypedString(typed) => Some((name_of_type(&typed.data_type), false)),
        Expr::Interval(_) => Some(("interval".to_owned(), false)),
        Expr::Case { else_result, .. } => {
            let own = else_result.as_deref().and_then(found).filter(|(_, stays)| *stays);
            own.or_else(|| Some(("case".to_owned(), false)))
        }
        Expr::Function(call) => last_of(&call.name).map(|own| (own, true)),
        Expr::Subquery(query) => of_query(query).map(|own| (own, true)),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// The last part of a name.
fn last_of(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}

/// The name of the only column of a query.
fn of_query(query: &Query) -> Option<String> {
    match query.body.as_ref() {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => found(expr).map(|(own, _)| own),
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        },
        SetExpr::Query(query) => of_query(query),
        _ => None,
    }
}

/// PostgreSQL's name of a type.
fn name_of_type(own: &DataType) -> String {
    use DataType as T;
    let zoned = |name: &str, zone: &TimezoneInfo| match zone {
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => format!("{name}tz"),
        _ => name.to_owned(),
    };
    let name = match own {
        T::Boolean | T::Bool => "bool",
        T::SmallInt(_) | T::Int2(_) => "int2",
        T::Int(_) | T::Integer(_) | T::Int4(_) => "int4",
        T::BigInt(_) | T::Int8(_) => "int8",
        T::Real | T::Float4 => "float4",
        T::Float(ExactNumberInfo::Precision(digits)) if *digits <= 24 => "float4",
        T::Float(_) | T::Double(_) | T::DoublePrecision | T::Float8 => "float8",
        T::Decimal(_) | T::Numeric(_) | T::Dec(_) => "numeric",
        T::Char(_) | T::Character(_) => "bpchar",
        T::Varchar(_) | T::CharacterVarying(_) | T::CharVarying(_) => "varchar",
        T::Time(_, zone) => return zoned("time", zone),
        T::Timestamp(_, zone) => return zoned("timestamp", zone),
        T::Interval { .. } => "interval",
        T::Array(ArrayElemTypeDef::SquareBracket(item, _)) => return name_of_type(item),
        T::Custom(name, _) => return last_of(name).unwrap_or_else(|| UNKNOWN.to_owned()),
        other => {
            let text = other.to_string().to_lowercase();
            return text.split(['(', ' ']).next().unwrap_or(UNKNOWN).to_owned();
        }
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::CellarDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn named(sql: &str) -> String {
        let mut parser = Parser::new(&CellarDialect).try_with_sql(sql).unwrap();
        name(&parser.parse_expr().unwrap())
    }

    #[test]
    fn columns_are_called_as_postgresql_calls_them() {
        for (sql, wanted) in [
            ("count(*)", "count"),
            ("Sum(x) + 1", "?column?"),
            ("pg_catalog.Lower(x)", "lower"),
            ("1", "?column?"),
            ("-1", "?column?"),
            ("'a'", "?column?"),
            ("null", "?column?"),
            ("true", "?column?"),
            ("t.X", "x"),
            ("\"X\"::text", "X"),
            ("(x)::text::varchar(3)", "x"),
            ("count(*)::text", "count"),
            ("1::int", "int4"),
            ("'{1}'::int[]", "int4"),
            ("cast('1' as bigint)", "int8"),
            ("date '2020-01-01'", "date"),
            ("timestamptz '2020-01-01'", "timestamptz"),
            ("interval '1 day'", "interval"),
            ("'x'::s.mood", "mood"),
            ("case when a then 1 end", "case"),
            ("case when a then 1 else 2 end", "case"),
            ("case when a then 1 else b end", "b"),
            ("case when a then 1 else 2 end::text", "text"),
            ("coalesce(a, b)", "coalesce"),
            ("nullif(a, b)", "nullif"),
            ("exists (select 1)", "exists"),
            ("not exists (select 1)", "?column?"),
            ("a in (select 1)", "?column?"),
            ("array[1, 2]", "array"),
            ("array(select 1)", "array"),
            ("(array[1, 2])[1]", "array"),
            ("a[1]", "a"),
            ("(select max(b) from t)", "max"),
            ("(select 1)", "?column?"),
            ("(select 1 as one)", "one"),
            ("(a, b)", "row"),
            ("a at time zone 'utc'", "timezone"),
            ("extract(year from a)", "extract"),
            ("substring(a from 1 for 2)", "substring"),
            ("substr(a, 1)", "substr"),
            ("trim(a)", "btrim"),
            ("a is null", "?column?"),
            ("a || b", "?column?"),
            ("a ->> 'x'", "?column?"),
            ("current_date", "current_date"),
            ("row_number() over ()", "row_number"),
        ] {
            assert_eq!(named(sql), wanted, "{sql}");
        }
    }
}
