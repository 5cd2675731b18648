//! The types of PostgreSQL that columns and parameters have on the wire, by their oids.
//!
//! Source: PostgreSQL's `pg_type.dat`.

use crate::columnar::table::{arrays_of_enum, enum_of, length_of, type_of_texts};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

/// A type as in a row description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgType {
    /// Its oid.
    pub oid: u32,
    /// The bytes of a value; -1: its length varies.
    pub size: i16,
    /// The type modifier: what stands in parentheses after the name; -1: nothing.
    pub modifier: i32,
}

/// The type boolean.
pub const BOOL: u32 = 16;
/// The type bytea.
pub const BYTEA: u32 = 17;
/// The type "char".
pub const CHAR: u32 = 18;
/// The type name.
pub const NAME: u32 = 19;
/// The type bigint.
pub const INT8: u32 = 20;
/// The type smallint.
pub const INT2: u32 = 21;
/// The type integer.
pub const INT4: u32 = 23;
/// The type text.
pub const TEXT: u32 = 25;
/// The type oid.
pub const OID: u32 = 26;
/// The type json.
pub const JSON: u32 = 114;
/// The type real.
pub const FLOAT4: u32 = 700;
/// The type double precision.
pub const FLOAT8: u32 = 701;
/// The type unknown.
pub const UNKNOWN: u32 = 705;
/// The type character.
pub const BPCHAR: u32 = 1042;
/// The type character varying.
pub const VARCHAR: u32 = 1043;
/// The type date.
pub const DATE: u32 = 1082;
/// The type time.
pub const TIME: u32 = 1083;
/// The type timestamp.
pub const TIMESTAMP: u32 = 1114;
/// The type timestamp with time zone.
pub const TIMESTAMPTZ: u32 = 1184;
/// The type interval.
pub const INTERVAL: u32 = 1186;
/// The type numeric.
pub const NUMERIC: u32 = 1700;
/// The type uuid.
pub const UUID: u32 = 2950;
/// The type uuid[].
pub const UUIDS: u32 = 2951;
/// The type jsonb.
pub const JSONB: u32 = 3802;

/// The array of a type, by the type's oid.
const ARRAYS: [(u32, u32); 23] = [
    (BOOL, 1000),
    (BYTEA, 1001),
    (CHAR, 1002),
    (NAME, 1003),
    (INT2, 1005),
    (INT4, 1007),
    (TEXT, 1009),
    (BPCHAR, 1014),
    (VARCHAR, 1015),
    (INT8, 1016),
    (FLOAT4, 1021),
    (FLOAT8, 1022),
    (OID, 1028),
    (TIMESTAMP, 1115),
    (DATE, 1182),
    (TIME, 1183),
    (TIMESTAMPTZ, 1185),
    (INTERVAL, 1187),
    (NUMERIC, 1231),
    (JSON, 199),
    (UUID, UUIDS),
    (JSONB, 3807),
    (UNKNOWN, 1009),
];

/// The type of an array's elements, by the array's oid.
pub fn element(array: u32) -> Option<u32> {
    ARRAYS.iter().find(|(_, own)| *own == array).map(|(element, _)| *element)
}

/// The type that texts stand for.
fn element_of_texts(form: &str) -> Option<u32> {
    match form {
        "uuid" => Some(UUID),
        "json" => Some(JSON),
        "jsonb" => Some(JSONB),
        _ => None,
    }
}

fn array(element: u32) -> u32 {
    ARRAYS.iter().find(|(own, _)| *own == element).map_or(1009, |(_, array)| *array)
}

impl PgType {
    fn new(oid: u32, size: i16) -> PgType {
        PgType { oid, size, modifier: -1 }
    }

    /// The type of a column.
    pub fn of_field(field: &Field) -> PgType {
        if let Some(oid) = enum_of(field) {
            return match field.data_type() {
                DataType::List(_) => PgType::new(arrays_of_enum(oid), -1),
                _ => PgType::new(oid, 4),
            };
        }
        let own = PgType::of(field.data_type());
        if own.oid == array(TEXT)
            && let Some(length) = length_of(field)
        {
            return PgType { oid: array(VARCHAR), ..PgType::of_length(length) };
        }
        if own.oid == array(TEXT)
            && let Some(item) = type_of_texts(field).and_then(element_of_texts)
        {
            return PgType { oid: array(item), ..own };
        }
        if own.oid != TEXT {
            return own;
        }
        match (type_of_texts(field), length_of(field)) {
            (Some("uuid"), _) => PgType::new(UUID, 16),
            (Some("json"), _) => PgType::new(JSON, -1),
            (Some("jsonb"), _) => PgType::new(JSONB, -1),
            (_, Some(length)) => PgType::of_length(length),
            _ => own,
        }
    }

    /// Texts of at most so many characters.
    fn of_length(length: usize) -> PgType {
        // Plus the four-byte length header in front of the text in PostgreSQL's rows.
        let modifier = i32::try_from(length).map_or(-1, |length| length.saturating_add(4));
        PgType { oid: VARCHAR, size: -1, modifier }
    }

    /// The PostgreSQL type of values of an Arrow type.
    pub fn of(data_type: &DataType) -> PgType {
        let (oid, size) = match data_type {
            DataType::Boolean => (BOOL, 1),
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => (INT2, 2),
            DataType::Int32 | DataType::UInt16 => (INT4, 4),
            DataType::Int64 => (INT8, 8),
            // The type of oids in the catalogs.
            DataType::UInt32 => (OID, 4),
            DataType::UInt64 => (NUMERIC, -1),
            DataType::Float16 | DataType::Float32 => (FLOAT4, 4),
            DataType::Float64 => (FLOAT8, 8),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                let modifier = (i32::from(*precision) << 16 | i32::from(*scale) & 0x7ff) + 4;
                return PgType { oid: NUMERIC, size: -1, modifier };
            }
            DataType::Binary
            | DataType::BinaryView
            | DataType::LargeBinary
            | DataType::FixedSizeBinary(_) => (BYTEA, -1),
            DataType::Date32 | DataType::Date64 => (DATE, 4),
            DataType::Time32(_) | DataType::Time64(_) => (TIME, 8),
            DataType::Timestamp(_, None) => (TIMESTAMP, 8),
            DataType::Timestamp(_, Some(_)) => (TIMESTAMPTZ, 8),
            DataType::Interval(_) | DataType::Duration(_) => (INTERVAL, 16),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => {
                let item = PgType::of_field(item);
                // An array of arrays has the type of their elements.
                let oid = if element(item.oid).is_some() { item.oid } else { array(item.oid) };
                (oid, -1)
            }
            DataType::Dictionary(_, value) => return PgType::of(value),
            _ => (TEXT, -1),
        };
        PgType::new(oid, size)
    }
}

/// The type of a parameter for which a client names an oid; `None`: it is inferred as if the client had
/// named none.
pub fn data_type(oid: u32) -> Option<DataType> {
    plain(oid, false)
}

fn list_of(element: u32) -> Option<DataType> {
    plain(element, true).map(|own| DataType::new_list(own, true))
}

/// `is_element`: of an array, whose texts are texts; a single text may take the type of whatever it is
/// compared with.
fn plain(oid: u32, is_element: bool) -> Option<DataType> {
    Some(match oid {
        BOOL => DataType::Boolean,
        INT2 => DataType::Int16,
        INT4 => DataType::Int32,
        INT8 => DataType::Int64,
        FLOAT4 => DataType::Float32,
        FLOAT8 => DataType::Float64,
        BYTEA => DataType::Binary,
        DATE => DataType::Date32,
        TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        TEXT | VARCHAR if is_element => DataType::Utf8,
        oid => return element(oid).and_then(list_of),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_postgresqls() {
        let of = |data_type: DataType| PgType::of(&data_type);
        assert_eq!(of(DataType::Int32).oid, INT4);
        assert_eq!(of(DataType::Decimal128(10, 2)).modifier, (10 << 16 | 2) + 4);
        assert_eq!(of(DataType::new_list(DataType::Int64, true)).oid, 1016);
        let nested = DataType::new_list(DataType::new_list(DataType::Int32, true), true);
        assert_eq!(of(nested).oid, 1007);
        assert_eq!(element(1231), Some(NUMERIC));
        assert_eq!(of(DataType::Null).oid, TEXT);
    }
}
