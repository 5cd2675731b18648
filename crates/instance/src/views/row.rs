//! Values, columns and rows: what every view is made of.

use cellar_io::WallTime;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, or has no meaning in this row.
    Null,
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A time of day.
    Time(WallTime),
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Text`].
    Text,
    /// [`Value::Int`].
    Int,
    /// [`Value::Float`].
    Float,
    /// [`Value::Bool`].
    Bool,
    /// [`Value::Time`].
    Time,
}

/// A column of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Lower case, `#` included where Oracle has it.
    pub name: &'static str,
    /// What its values are; each may be NULL.
    pub kind: Kind,
    /// What it tells, with its unit.
    pub description: &'static str,
}

/// A row of a view.
pub trait Row {
    /// The view.
    const VIEW: &'static ViewDef;

    /// The values, one for each column of the view.
    fn values(&self) -> Vec<Value>;
}

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewDef {
    /// With the prefix `v$`.
    pub name: &'static str,
    /// What a row is.
    pub description: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
}

impl ViewDef {
    /// The name behind `v$`, as in `cellar.name`.
    pub fn short_name(&self) -> &'static str {
        self.name.trim_start_matches("v$")
    }
}

/// Rows as plain values.
pub fn values<R: Row>(rows: impl IntoIterator<Item = R>) -> Vec<Vec<Value>> {
    rows.into_iter().map(|row| row.values()).collect()
}

/// What may be a field of a row.
pub(crate) trait Field {
    const KIND: Kind;
    fn value(&self) -> Value;
}

impl Field for String {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Field for &'static str {
    const KIND: Kind = Kind::Text;
    fn value(&self) -> Value {
        Value::Text((*self).to_owned())
    }
}

impl Field for u64 {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        // SQL has no unsigned numbers; none of ours reaches 2^63.
        Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Field for u32 {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        Value::Int(i64::from(*self))
    }
}

impl Field for i64 {
    const KIND: Kind = Kind::Int;
    fn value(&self) -> Value {
        Value::Int(*self)
    }
}

impl Field for f64 {
    const KIND: Kind = Kind::Float;
    fn value(&self) -> Value {
        Value::Float(*self)
    }
}

impl Field for bool {
    const KIND: Kind = Kind::Bool;
    fn value(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Field for WallTime {
    const KIND: Kind = Kind::Time;
    fn value(&self) -> Value {
        Value::Time(*self)
    }
}

impl<T: Field> Field for Option<T> {
    const KIND: Kind = T::KIND;
    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::value)
    }
}

/// Declares a row: for each field its name, its type, its column and what the column tells.
macro_rules! view {
    ($(#[doc = $doc:literal])* $row:ident = $view:literal {
        $($field:ident: $kind:ty = $column:literal, $description:literal;)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $(#[doc = $description] pub $field: $kind,)*
        }

        impl crate::views::row::Row for $row {
            const VIEW: &'static crate::views::row::ViewDef = &crate::views::row::ViewDef {
                name: $view,
                description: concat!($($doc),*).trim_ascii_start(),
                columns: &[$(crate::views::row::Column {
                    name: $column,
                    kind: <$kind as crate::views::row::Field>::KIND,
                    description: $description,
                },)*],
            };

            fn values(&self) -> Vec<crate::views::row::Value> {
                vec![$(crate::views::row::Field::value(&self.$field),)*]
            }
        }
    };
}
pub(crate) use view;
