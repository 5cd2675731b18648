//! Types that clients cast to, and those whose values are oids that are written as names.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, ExactNumberInfo, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, ObjectName, TimezoneInfo, Value,
};

use super::super::said::{column, is_function, is_vector, parts, vector_text};
use crate::call::call;

/// A type whose values are oids of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    Class,
    Type,
    Function,
    Schema,
    Role,
    /// Kinds with few objects: operators, collations, and those of text search.
    Other,
}

impl Registered {
    /// The one that a statement names.
    pub fn of(data_type: &DataType) -> Option<Registered> {
        let own = match data_type {
            DataType::Regclass => "regclass".to_owned(),
            DataType::Custom(name, _) => own_name(name)?,
            _ => return None,
        };
        Some(match own.as_str() {
            "regclass" => Registered::Class,
            "regtype" => Registered::Type,
            "regproc" | "regprocedure" => Registered::Function,
            "regnamespace" => Registered::Schema,
            "regrole" => Registered::Role,
            "regoper" | "regoperator" | "regcollation" | "regconfig" | "regdictionary" => {
                Registered::Other
            }
            _ => return None,
        })
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Registered::Class => ("regclass_in", "regclass_out"),
            Registered::Type => ("regtype_in", "regtype_out"),
            Registered::Function => ("regproc_in", "regproc_out"),
            Registered::Schema => ("regnamespace_in", "regnamespace_out"),
            Registered::Role => ("regrole_in", "regrole_out"),
            Registered::Other => ("regany_in", "regany_out"),
        }
    }
}

/// All of them.
const ALL: [Registered; 6] = [
    Registered::Class,
    Registered::Type,
    Registered::Function,
    Registered::Schema,
    Registered::Role,
    Registered::Other,
];

/// The name of a type, without the schema of all types.
fn own_name(name: &ObjectName) -> Option<String> {
    match &parts(name)[..] {
        [own] => Some(own.clone()),
        [schema, own] if schema == "pg_catalog" || schema == "information_schema" => {
            Some(own.clone())
        }
        _ => None,
    }
}

/// An expression converted to the oid of an object.
pub(super) fn registered_in(of: Registered, expr: Expr) -> Expr {
    call(of.words().0, vec![expr])
}

/// Such an oid, written as a name.
pub(super) fn registered_out(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => registered_out(inner),
        Expr::Function(function) => {
            let own = parts(&function.name).pop()?;
            let of = ALL.into_iter().find(|of| of.words().0 == own)?;
            let FunctionArguments::List(list) = &function.args else { return None };
            let [FunctionArg::Unnamed(FunctionArgExpr::Expr(_))] = &list.args[..] else {
                return None;
            };
            Some(call(of.words().1, vec![expr.clone()]))
        }
        other if is_function(other) => {
            Some(call(Registered::Function.words().1, vec![expr.clone()]))
        }
        _ => None,
    }
}

/// The displayed form of a result that is the oid of an object or a vector.
pub(super) fn shown(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => shown(inner),
        Expr::Cast { expr: inner, data_type, .. } => {
            let of = Registered::of(data_type)?;
            Some(call(of.words().1, vec![registered_in(of, inner.as_ref().clone())]))
        }
        other if is_vector(other) && !matches!(other, Expr::Cast { .. }) => {
            Some(vector_text(other))
        }
        other if is_function(other) => registered_out(other),
        _ => None,
    }
}

/// The name of the column that a result consists of.
pub(super) fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast { expr: inner, data_type, .. } => column(inner).or_else(|| match data_type {
            DataType::Regclass => Some("regclass".to_owned()),
            DataType::Custom(name, _) => own_name(name),
            _ => None,
        }),
        other => column(other),
    }
}

/// An expression as an unsigned number.
pub(super) fn as_number(expr: Expr) -> Expr {
    as_type(expr, DataType::IntegerUnsigned(None))
}

/// An expression as a 64-bit number.
pub(super) fn as_bigint(expr: Expr) -> Expr {
    as_type(expr, DataType::BigInt(None))
}

fn as_type(expr: Expr, data_type: DataType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// Whether a type is a list of oids.
pub(super) fn is_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => match inner.as_ref() {
            DataType::Custom(name, _) => own_name(name).is_some_and(|own| own == "oid"),
            _ => false,
        },
        _ => false,
    }
}

/// `'{0}'` as a list of unsigned numbers.
pub(super) fn numbers(expr: &Expr) -> Option<Expr> {
    let Expr::Value(value) = expr else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let number = |text: &str| Expr::Value(Value::Number(text.trim().to_owned(), false).into());
    let all = inner.split(',').filter(|text| !text.trim().is_empty()).map(number);
    Some(call("make_array", all.map(as_number).collect()))
}

/// Whether a type is a text type.
pub(super) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None) => true,
        DataType::Custom(name, _) => {
            own_name(name).is_some_and(|own| known(&own) == Some(DataType::Text))
        }
        _ => false,
    }
}

/// The type for a name that is PostgreSQL's own.
fn known(own: &str) -> Option<DataType> {
    Some(match own {
        "text" | "name" | "char" | "varchar" | "bpchar" | "cstring" | "unknown" | "aclitem"
        | "inet" | "pg_node_tree" | "sql_identifier" | "character_data" | "yes_or_no" => {
            DataType::Text
        }
        "oid" | "xid" | "cid" => DataType::IntegerUnsigned(None),
        "bool" => DataType::Boolean,
        "int2" => DataType::SmallInt(None),
        "int4" | "cardinal_number" => DataType::Integer(None),
        "int8" => DataType::BigInt(None),
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "numeric" => DataType::Numeric(ExactNumberInfo::None),
        "date" => DataType::Date,
        "time" => DataType::Time(None, TimezoneInfo::None),
        "timestamp" => DataType::Timestamp(None, TimezoneInfo::None),
        "timestamptz" => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        "bytea" => DataType::Bytea,
        "json" => DataType::JSON,
        "jsonb" => DataType::JSONB,
        "uuid" => DataType::Uuid,
        "int2vector" => list(DataType::SmallInt(None)),
        "oidvector" => list(DataType::IntegerUnsigned(None)),
        _ => return None,
    })
}

fn list(of: DataType) -> DataType {
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(of), None))
}

/// Replaces a type by one that the engine knows.
pub(super) fn settle(data_type: &mut DataType) {
    match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            // Types that people write only in lower case are left to the parser.
            if let Some(other) = own_name(name).as_deref().and_then(known) {
                *data_type = other;
            }
        }
        DataType::Regclass => *data_type = DataType::IntegerUnsigned(None),
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => match Registered::of(inner) {
            Some(_) => **inner = DataType::IntegerUnsigned(None),
            None => settle(inner),
        },
        _ => {}
    }
}
