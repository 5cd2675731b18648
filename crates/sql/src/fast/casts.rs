//! Casts as drivers and ORMs put them around each parameter: `$1::INTEGER`, `$2::VARCHAR`.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{CastKind, DataType as SqlType, Expr};

use super::class::{Class, class_of, is_number};
use super::names::Names;
use super::shape::bare;
use crate::rows::type_of_cast;

/// What is cast, and to which type.
fn parts(expr: &Expr) -> Option<(&Expr, &SqlType)> {
    match expr {
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } if !matches!(data_type, SqlType::Custom(..)) => Some((bare(expr), data_type)),
        _ => None,
    }
}

/// Whether it is text of any length.
fn is_any_text(said: &SqlType) -> bool {
    matches!(said, SqlType::Text | SqlType::Varchar(None))
}

/// The width of an integer type in bytes.
fn width(data_type: &DataType) -> Option<usize> {
    (class_of(data_type) == Class::Integer).then(|| data_type.primitive_width()).flatten()
}

impl Names<'_> {
    /// The type of a cast that is computed here.
    pub fn cast_type(&self, expr: &Expr) -> Option<DataType> {
        self.cast_class(expr)?;
        type_of_cast(self.state, parts(expr)?.1).ok()
    }

    /// The class of a cast. A text literal is left to the common path: only the parser knows what it means.
    pub fn cast_class(&self, expr: &Expr) -> Option<Class> {
        let (inner, said) = parts(expr)?;
        let wanted = type_of_cast(self.state, said).ok()?;
        let own = class_of(&wanted);
        if self.parameter(inner).is_some_and(|given| given == wanted) {
            return Some(own);
        }
        match self.class(inner)? {
            Class::Text | Class::Literal | Class::Integer if is_any_text(said) => Some(Class::Text),
            Class::Integer | Class::Decimal if is_number(own) => Some(own),
            Class::Float if own == Class::Float => Some(own),
            _ => None,
        }
    }

    /// The type of a parameter.
    fn parameter(&self, expr: &Expr) -> Option<DataType> {
        let at = self.slot(expr)?;
        (!self.slots.is_constant(at)).then(|| self.slots.data_type(at))
    }

    /// The slot of a row count (LIMIT, OFFSET), if it is an integer.
    pub fn count(&self, expr: &Expr) -> Option<usize> {
        let expr = bare(expr);
        let (inner, least) = match parts(expr) {
            Some((inner, said)) => (inner, width(&type_of_cast(self.state, said).ok()?)?),
            None => (expr, usize::MAX),
        };
        let at = self.slot(inner)?;
        (width(&self.slots.data_type(at))? <= least).then_some(at)
    }

    /// The value that a key of a column is compared with, without a cast that preserves every value the column
    /// can have.
    pub fn uncast<'e>(&self, column: usize, expr: &'e Expr) -> &'e Expr {
        let Some((inner, said)) = parts(expr) else { return expr };
        let (Some(given), Ok(wanted)) = (self.parameter(inner), type_of_cast(self.state, said))
        else {
            return expr;
        };
        let own = self.columns.schema.field(column).data_type();
        let keeps = match (width(&given), width(&wanted), width(own)) {
            (Some(given), Some(wanted), Some(own)) => wanted >= given.min(own),
            _ => is_any_text(said) && class_of(&given) == Class::Text,
        };
        if keeps || given == wanted { inner } else { expr }
    }
}
