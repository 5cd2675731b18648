//! Rows at random: nulls, NaN, -0, infinity, the ends of each type, empty text, dates of all years.

use super::value::Value;
use crate::chance::Chance;

/// A row, in the order of [`COLUMNS`].
pub type Row = Vec<Value>;

/// The kinds of columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Int,
    BigInt,
    Small,
    Double,
    Real,
    Decimal,
    Wide,
    Date,
    Text,
}

/// The columns behind `id`.
pub const COLUMNS: [(&str, Kind); 9] = [
    ("i", Kind::Int),
    ("b", Kind::BigInt),
    ("m", Kind::Small),
    ("f", Kind::Double),
    ("r", Kind::Real),
    ("d", Kind::Decimal),
    ("w", Kind::Wide),
    ("t", Kind::Date),
    ("s", Kind::Text),
];

const FLOATS: [f64; 12] = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    0.1,
    1e-20,
    1e16,
    1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    16_777_217.0,
];

/// Days from 1970 of the years 1, 1582, 1970, 2026 and 9999.
const DAYS: [(i32, &str); 6] = [
    (-719_162, "0001-01-01"),
    (-141_427, "1582-10-15"),
    (-1, "1969-12-31"),
    (0, "1970-01-01"),
    (20_454, "2026-01-01"),
    (2_932_896, "9999-12-31"),
];

const TEXTS: [&str; 8] = ["", "a", "A", "ab", "\u{e4}", "\u{10ffff}", "quote '' it", "NULL"];

impl Kind {
    pub fn is_number(self) -> bool {
        !matches!(self, Kind::Date | Kind::Text)
    }

    /// The greatest result of arithmetic with a small whole number; `None`: it is not exact.
    pub fn most(self) -> Option<i128> {
        match self {
            Kind::Int | Kind::Small => Some(i32::MAX.into()),
            Kind::BigInt => Some(i64::MAX.into()),
            Kind::Decimal | Kind::Wide => Some(10i128.pow(38) - 1),
            _ => None,
        }
    }

    pub fn type_name(self) -> &'static str {
        match self {
            Kind::Int => "int",
            Kind::BigInt => "bigint",
            Kind::Small => "smallint",
            Kind::Double => "double",
            Kind::Real => "real",
            Kind::Decimal => "decimal(15, 2)",
            Kind::Wide => "decimal(38, 4)",
            Kind::Date => "date",
            Kind::Text => "varchar",
        }
    }

    pub fn value(self, chance: &mut Chance) -> Value {
        if chance.below(8) == 0 {
            return Value::Null;
        }
        let near = chance.below(60) as i64 - 5;
        let is_end = chance.below(40) == 0;
        match self {
            Kind::Int if is_end => Value::whole(chance.pick(&[i32::MIN, i32::MAX])),
            Kind::Small if is_end => Value::whole(chance.pick(&[i16::MIN, i16::MAX])),
            Kind::BigInt if is_end => Value::whole(chance.pick(&[i64::MIN, i64::MAX])),
            Kind::Int | Kind::Small | Kind::BigInt => Value::whole(near),
            Kind::Double => match chance.below(3) {
                0 => Value::Float(chance.pick(&FLOATS)),
                _ => Value::Float(near as f64 / 4.0),
            },
            Kind::Real => match chance.below(3) {
                0 => Value::Float((chance.pick(&FLOATS) as f32).into()),
                _ => Value::Float(near as f64 / 4.0),
            },
            Kind::Decimal => Value::Decimal((near * 25).into(), 2),
            Kind::Wide if is_end => {
                let end = 10i128.pow(38) - 1;
                Value::Decimal(chance.pick(&[end, -end]), 4)
            }
            Kind::Wide => Value::Decimal(i128::from(near) * 2_500, 4),
            Kind::Date => Value::Date(chance.pick(&DAYS).0),
            Kind::Text => Value::Text(chance.pick(&TEXTS).replace("''", "'")),
        }
    }

    /// A constant near the values of such a column, and how SQL writes it.
    pub fn literal(self, chance: &mut Chance) -> (Value, String) {
        if chance.below(20) == 0 {
            return (Value::Null, "null".into());
        }
        let near = chance.below(60) as i64 - 5;
        match self {
            Kind::Date => {
                let (days, text) = chance.pick(&DAYS);
                (Value::Date(days), format!("date '{text}'"))
            }
            Kind::Text => {
                let text = chance.pick(&TEXTS);
                (Value::Text(text.replace("''", "'")), format!("'{text}'"))
            }
            Kind::Double | Kind::Real if chance.below(4) == 0 => {
                let float = chance.pick(&FLOATS);
                (Value::Float(float), format!("cast('{float:?}' as double)"))
            }
            _ => match chance.below(6) {
                0 => (Value::Decimal(i128::from(near) * 25, 2), decimal(i128::from(near) * 25, 2)),
                1 => (Value::Decimal(i128::from(near) * 1_000, 0), format!("{near}e3")),
                2 => (Value::Decimal(near.into(), 20), format!("{near}e-20")),
                3 if chance.below(3) == 0 => (Value::Float(1e300), "1e300".into()),
                _ => (Value::whole(near), near.to_string()),
            },
        }
    }

    /// A value as a cast of text.
    pub fn cast(self, value: &Value) -> String {
        let text = match value {
            Value::Null => return format!("cast(null as {})", self.type_name()),
            Value::Decimal(digits, scale) => decimal(*digits, *scale),
            Value::Float(float) => format!("{float:?}"),
            Value::Date(days) => {
                let found = DAYS.iter().find(|(own, _)| own == days);
                found.map(|(_, text)| (*text).to_owned()).unwrap_or_default()
            }
            Value::Text(text) => text.replace('\'', "''"),
        };
        format!("cast('{text}' as {})", self.type_name())
    }
}

fn decimal(digits: i128, scale: u32) -> String {
    if scale == 0 {
        return digits.to_string();
    }
    let power = 10u128.pow(scale);
    let sign = if digits < 0 { "-" } else { "" };
    let digits = digits.unsigned_abs();
    format!("{sign}{}.{:0width$}", digits / power, digits % power, width = scale as usize)
}

/// So many rows.
pub fn rows(chance: &mut Chance, count: usize) -> Vec<Row> {
    (0..count).map(|_| COLUMNS.iter().map(|(_, kind)| kind.value(chance)).collect()).collect()
}

/// `VALUES` that make the rows, the first column their number.
pub fn values(rows: &[Row], first: usize) -> String {
    let row = |(at, row): (usize, &Row)| {
        let columns = row.iter().zip(&COLUMNS).map(|(value, (_, kind))| kind.cast(value));
        format!("({}, {})", first + at, columns.collect::<Vec<_>>().join(", "))
    };
    rows.iter().enumerate().map(row).collect::<Vec<_>>().join(",\n")
}
