//! Consistency checks of a Parquet file: a footer that contradicts its row groups, columns with the same
//! name, damaged pages.

use std::fs::File;

use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::csv::look::repeated;
use crate::error::Error;
use crate::failure::parquet_error;

/// Refuses a footer that contradicts itself; returns the number of rows of the file.
///
/// # Errors
/// 29913 counts that do not agree, columns with the same name.
pub(crate) fn footer(metadata: &ParquetMetaData) -> Result<u64, Error> {
    let said = metadata.file_metadata().num_rows();
    let groups = metadata.row_groups().iter();
    let rows = groups.map(|group| group.num_rows()).try_fold(0i64, i64::checked_add);
    if rows != Some(said) || said < 0 || metadata.row_groups().iter().any(|g| g.num_rows() < 0) {
        let found = rows.map_or("too many".to_owned(), |rows| rows.to_string());
        let text =
            format!("its footer contradicts itself: {said} rows in all, {found} in its row groups");
        return Err(Error::new(29913, "XX001", text)
            .next("write the file again with another program: neither count can be believed"));
    }
    for (at, group) in metadata.row_groups().iter().enumerate() {
        let is_other = |column: &&ColumnChunkMetaData| {
            column.column_descr().max_rep_level() == 0 && column.num_values() != group.num_rows()
        };
        if let Some(column) = group.columns().iter().find(is_other) {
            let text = format!(
                "its footer contradicts itself: row group {at} has {} rows, its column {} {} values",
                group.num_rows(),
                column.column_path().string(),
                column.num_values()
            );
            return Err(Error::new(29913, "XX001", text)
                .next("write the file again with another program: neither count can be believed"));
        }
    }
    let fields = metadata.file_metadata().schema_descr().root_schema().get_fields();
    let names: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
    repeated(&names).map_or(Ok(said.unsigned_abs()), Err)
}

/// Refuses a footer that places columns outside the bytes of their file.
///
/// # Errors
/// 29913 with the column.
pub(crate) fn extents(metadata: &ParquetMetaData, size: u64) -> Result<(), Error> {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    for (at, group) in metadata.row_groups().iter().enumerate() {
        let is_outside = |column: &&ColumnChunkMetaData| {
            let start = column.dictionary_page_offset().filter(|offset| *offset > 0);
            let start = start.unwrap_or(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let is_inside = start >= 0
                && column.data_page_offset() >= 0
                && column.compressed_size() >= 0
                && column.uncompressed_size() >= 0
                && end.is_some_and(|end| end <= size);
            column.file_path().is_none() && !is_inside
        };
        if let Some(column) = group.columns().iter().find(is_outside) {
            let path = column.column_path().string();
            let text =
                format!("its footer tells of a place outside of it: column {path}, row group {at}");
            return Err(Error::new(29913, "XX001", text)
                .next("the file is damaged: get another copy of it, or write it again"));
        }
    }
    Ok(())
}

/// The error for a page that cannot be read, with its column.
pub(crate) fn in_column(error: &ParquetError, column: &str, group: usize) -> Error {
    let text = format!("column {column}, row group {group}: {}", parquet_error(error).message);
    Error::new(29913, "XX001", text)
        .next("the file is damaged: get another copy of it, or write it again")
}

/// Reads every page of a file once, and verifies the pages that have a checksum; returns the number of
/// rows.
///
/// # Errors
/// Those of [`footer`], and 29913 with the column of a damaged page.
pub(crate) fn check(file: File) -> Result<u64, Error> {
    let size = file.metadata().map_or(u64::MAX, |about| about.len());
    let reader = SerializedFileReader::new(file).map_err(|e| parquet_error(&e))?;
    let rows = footer(reader.metadata())?;
    extents(reader.metadata(), size)?;
    for group in 0..reader.num_row_groups() {
        let pages = reader.get_row_group(group).map_err(|e| parquet_error(&e))?;
        for column in 0..pages.num_columns() {
            let path = pages.metadata().column(column).column_path().string();
            let run = || -> Result<(), ParquetError> {
                let mut pages = pages.get_column_page_reader(column)?;
                while pages.get_next_page()?.is_some() {}
                Ok(())
            };
            run().map_err(|e| in_column(&e, &path, group))?;
        }
    }
    Ok(rows)
}
