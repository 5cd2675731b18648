//! A CSV file, read with types that are known or inferred from it.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use super::CsvForm;
use super::look::{CsvSeen, look};
use super::read::{Batches, Wanted, schema_of};
use super::reject::Rejects;
use super::text::{Text, decoded};
use crate::error::Error;
use crate::failure::io_error;

/// Rows of a batch that a CSV file is read in.
const BATCH_ROWS: usize = 16 << 10;
/// A CSV file that was checked: its columns, its rows as they are read, and what the user should know.
pub(crate) struct CsvFile {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Batches<Text>,
    pub(crate) notices: Vec<String>,
}

/// Reads a CSV file: with the types given for its columns, those of the columns of `table` with the same
/// names, or else the types inferred from the file.
///
/// # Errors
/// 29913 with line and column of what a query would accept silently.
pub(crate) fn read_csv(
    mut file: File,
    form: CsvForm,
    table: Option<&Schema>,
    rejects: Option<Rejects>,
) -> Result<CsvFile, Error> {
    let again = file.try_clone().map_err(|e| io_error(&e))?;
    let mut seen = CsvSeen::default();
    let text = decoded(BufReader::with_capacity(1 << 20, again), &form)?;
    let names = look(text, &form, rejects.is_some(), &mut seen)?;
    if names.is_empty() {
        let text = "the file is empty: it has not even the names of columns";
        return Err(Error::new(29913, "22P04", text));
    }
    if let Some(rejects) = rejects.as_ref().filter(|_| form.has_header) {
        rejects.names(names);
    }
    file.rewind().map_err(|e| io_error(&e))?;
    let known = |name: &str| {
        form.types.iter().any(|(own, _)| own == name)
            || table.is_some_and(|table| table.field_with_name(name).is_ok())
    };
    let notices = seen.notices(|name| !known(name));
    let schema = schema_of(seen.types(), &form, table)?;
    let columns = (0..schema.fields().len()).collect();
    let text = decoded(BufReader::with_capacity(1 << 20, file), &form)?;
    let (form, batch_rows) = (Arc::new(form), BATCH_ROWS);
    let wanted = Wanted { form, schema: Arc::clone(&schema), columns, batch_rows, rejects };
    Ok(CsvFile { schema, batches: Batches::new(text, wanted), notices })
}
