//! PostgreSQL's types: their oids, their texts, and the types of Arrow columns among them.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow::datatypes::{DataType, Field};

use cellar_instance::catalog::array_of;

use crate::columnar::table::{enum_of, form_of, length_of};
use crate::json::form::Form;

/// One type a line, as in pg_type: oid, name, length, by value, kind, category, preferred, element,
/// array, functions in and out, receive and send, modifier in and out, alignment, storage, collation,
/// subscript function.
static TEXT: &str = include_str!("data/types.txt");

/// A type.
#[derive(Debug)]
pub(super) struct Type {
    pub oid: u32,
    pub name: &'static str,
    pub length: i64,
    pub by_value: bool,
    pub kind: &'static str,
    pub category: &'static str,
    pub is_preferred: bool,
    pub element: u32,
    pub array: u32,
    /// In, out, receive, send, modifier in and out.
    pub functions: [u32; 6],
    pub alignment: &'static str,
    pub storage: &'static str,
    pub collation: u32,
    pub subscript: u32,
}

fn of_line(line: &'static str) -> Option<Type> {
    let words: Vec<&'static str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u32>().ok();
    let mut functions = [0; 6];
    for (at, own) in functions.iter_mut().enumerate() {
        *own = number(9 + at)?;
    }
    Some(Type {
        oid: number(0)?,
        name: words.get(1)?,
        length: words.get(2)?.parse().ok()?,
        by_value: *words.get(3)? == "t",
        kind: words.get(4)?,
        category: words.get(5)?,
        is_preferred: *words.get(6)? == "t",
        element: number(7)?,
        array: number(8)?,
        functions,
        alignment: words.get(15)?,
        storage: words.get(16)?,
        collation: number(17)?,
        subscript: number(18)?,
    })
}

static ALL: LazyLock<Vec<Type>> = LazyLock::new(|| TEXT.lines().filter_map(of_line).collect());
static BY_OID: LazyLock<HashMap<u32, &'static Type>> =
    LazyLock::new(|| ALL.iter().map(|own| (own.oid, own)).collect());
static BY_NAME: LazyLock<HashMap<&'static str, &'static Type>> =
    LazyLock::new(|| ALL.iter().map(|own| (own.name, own)).collect());

/// All types.
pub(super) fn all() -> &'static [Type] {
    &ALL
}

/// The type with an oid.
pub(super) fn by_oid(oid: u32) -> Option<&'static Type> {
    BY_OID.get(&oid).copied()
}

/// The type with a name in the catalog; those of the information schema are domains over others.
pub(super) fn by_name(name: &str) -> Option<&'static Type> {
    let name = match name {
        "sql_identifier" => "name",
        "character_data" | "yes_or_no" => "varchar",
        "cardinal_number" => "int4",
        "time_stamp" => "timestamptz",
        other => other,
    };
    BY_NAME.get(name).copied()
}

/// SQL names of types, where pg_type has others.
const SQL_NAMES: [(&str, &str); 19] = [
    ("bool", "boolean"),
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("float4", "real"),
    ("float8", "double precision"),
    ("varchar", "character varying"),
    ("bpchar", "character"),
    ("char", "\"char\""),
    ("time", "time without time zone"),
    ("timestamp", "timestamp without time zone"),
    ("timestamptz", "timestamp with time zone"),
    ("timetz", "time with time zone"),
    ("numeric", "numeric"),
    ("varbit", "bit varying"),
    ("int4", "int"),
    ("numeric", "decimal"),
    ("float8", "float"),
    ("bpchar", "char"),
];

/// The type that a text names, as `to_regtype` reads it.
pub(super) fn named(text: &str) -> Option<&'static Type> {
    let text = text.trim();
    let text = text.strip_prefix("pg_catalog.").unwrap_or(text);
    let (text, is_array) = match text.strip_suffix("[]") {
        Some(inner) => (inner.trim_end(), true),
        None => (text, false),
    };
    let lower = text.to_lowercase();
    let plain = lower.split('(').next().unwrap_or_default().trim();
    let known = SQL_NAMES.iter().find(|(_, sql)| *sql == plain).map(|(own, _)| *own);
    let found = by_name(known.unwrap_or(plain.trim_matches('"')))?;
    if is_array { by_oid(found.array) } else { Some(found) }
}

/// The text of a type with its modifier.
pub(super) fn format(oid: u32, modifier: Option<i64>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let Some(own) = by_oid(oid) else { return "???".to_owned() };
    if own.category == "A" && own.element != 0 && own.name.starts_with('_') {
        return format!("{}[]", format(own.element, modifier));
    }
    let name = SQL_NAMES.iter().find(|(of, _)| *of == own.name).map_or(own.name, |(_, sql)| *sql);
    let said = modifier.filter(|modifier| *modifier >= 0);
    match (own.name, said) {
        ("varchar" | "bpchar", Some(length)) => format!("{name}({})", length - 4),
        ("bpchar", None) if modifier.is_some() => "bpchar".to_owned(),
        ("numeric", Some(both)) => {
            let both = both - 4;
            format!("{name}({},{})", (both >> 16) & 0xffff, both & 0x7ff)
        }
        ("time" | "timestamp" | "timestamptz" | "timetz", Some(digits)) => {
            let (word, rest) = name.split_once(' ').unwrap_or((name, ""));
            format!("{word}({digits}) {rest}")
        }
        _ => name.to_owned(),
    }
}

/// The type of a column, and its modifier.
pub(super) fn of_field(field: &Field) -> (u32, i64) {
    let plain = |name: &str| (by_name(name).map_or(25, |own| own.oid), -1);
    if let Some(oid) = enum_of(field) {
        return match field.data_type() {
            DataType::List(_) => (array_of(oid), -1),
            _ => (oid, -1),
        };
    }
    let is_list = matches!(field.data_type(), DataType::List(_));
    match (form_of(field), length_of(field)) {
        (Some(form), _) if is_list => return plain(&format!("_{}", form.name())),
        (Some(Form::Uuid), _) => return plain("uuid"),
        (Some(Form::Json), _) => return plain("json"),
        (Some(Form::Jsonb), _) => return plain("jsonb"),
        (None, Some(length)) => {
            return (plain("varchar").0, i64::try_from(length).unwrap_or(i64::MAX - 4) + 4);
        }
        (None, None) => {}
    }
    match field.data_type() {
        DataType::Boolean => plain("bool"),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => plain("int2"),
        DataType::Int32 | DataType::UInt16 => plain("int4"),
        DataType::Int64 | DataType::UInt32 => plain("int8"),
        DataType::UInt64 => (plain("numeric").0, (20 << 16) + 4),
        DataType::Float16 | DataType::Float32 => plain("float4"),
        DataType::Float64 => plain("float8"),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => {
            let modifier = (i64::from(*digits) << 16) + i64::from(*scale) + 4;
            (plain("numeric").0, modifier)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => plain("bytea"),
        DataType::FixedSizeBinary(_) => plain("bytea"),
        DataType::Date32 | DataType::Date64 => plain("date"),
        DataType::Time32(_) | DataType::Time64(_) => plain("time"),
        DataType::Timestamp(_, None) => plain("timestamp"),
        DataType::Timestamp(_, Some(_)) => plain("timestamptz"),
        DataType::Interval(_) | DataType::Duration(_) => plain("interval"),
        DataType::List(inner) | DataType::LargeList(inner) => {
            let (element, modifier) = of_field(inner);
            (by_oid(element).map_or(1009, |own| own.array), modifier)
        }
        DataType::Struct(_) | DataType::Map(..) => plain("record"),
        _ => plain("text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_type() {
        assert_eq!(all().len(), TEXT.lines().count());
        assert_eq!(by_name("int4").map(|own| (own.oid, own.array)), Some((23, 1007)));
    }

    #[test]
    fn types_are_written_as_postgresql_writes_them() {
        assert_eq!(format(1043, Some(24)), "character varying(20)");
        assert_eq!(format(1700, Some((10 << 16) + 2 + 4)), "numeric(10,2)");
        assert_eq!(format(1700, Some(-1)), "numeric");
        assert_eq!(format(1184, None), "timestamp with time zone");
        assert_eq!(format(1007, Some(-1)), "integer[]");
        assert_eq!(format(18, None), "\"char\"");
        assert_eq!(format(0, None), "-");
        assert_eq!(format(4_000_000_000, None), "???");
        let named = |text| named(text).map(|own| own.oid);
        assert_eq!(named("int"), Some(23));
        assert_eq!(named("character varying(20)"), Some(1043));
        assert_eq!(named("pg_catalog.int4[]"), Some(1007));
        assert_eq!(named("nothing"), None);
    }
}
