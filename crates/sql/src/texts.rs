//! The values of columns as texts, as PostgreSQL writes them.

use arrow::array::ArrayRef;
use arrow::util::display::FormatOptions;

use crate::arrays::shown::Shown;
use crate::error::Error;
use crate::failure::from_arrow;

/// The values of a column as PostgreSQL writes them.
pub struct Texts<'a>(Shown<'a>);

impl<'a> Texts<'a> {
    /// Of a column.
    ///
    /// # Errors
    /// Its values cannot be shown.
    pub fn of(column: &'a ArrayRef) -> Result<Texts<'a>, Error> {
        let options = FormatOptions::new().with_display_error(false);
        Shown::of(column, &options).map(Texts).map_err(|error| from_arrow(&error))
    }

    /// Writes the value of a row that is not NULL.
    ///
    /// # Errors
    /// It cannot be shown.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        self.0.write(row, out).map_err(|error| from_arrow(&error))
    }
}
