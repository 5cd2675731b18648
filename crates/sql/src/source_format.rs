//! The format of a file whose rows are loaded.

use std::path::Path as FilePath;

use crate::csv::CsvForm;
use crate::csv::reject::Rejects;
use crate::error::Error;
use crate::path::ending;

/// How a source file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    /// Parquet: taken over byte for byte after its footer was checked.
    Parquet,
    /// A segment of a columnar table, as written by rescue or a copy.
    Segment,
    /// CSV; types are inferred by reading the whole file once.
    Csv {
        /// Its form.
        form: Box<CsvForm>,
        /// Where invalid rows go; without it, one such row fails the whole file.
        rejects: Option<Rejects>,
    },
}

impl SourceFormat {
    /// The format that a file's name implies.
    ///
    /// # Errors
    /// 70010 if its extension is unknown.
    pub fn of(path: &FilePath) -> Result<SourceFormat, Error> {
        let csv = |delimiter| SourceFormat::Csv {
            form: Box::new(CsvForm::new(delimiter)),
            rejects: None,
        };
        match ending(path).as_str() {
            "parquet" | "pq" => Ok(SourceFormat::Parquet),
            "csv" | "csv.gz" | "csv.zst" => Ok(csv(b',')),
            "tsv" | "tsv.gz" | "tsv.zst" => Ok(csv(b'\t')),
            "seg" => Ok(SourceFormat::Segment),
            _ => Err(Error::new(
                70010,
                "22023",
                format!(
                    "\"{}\" ends in none of .parquet, .csv, .tsv, .seg, .csv.gz, .csv.zst",
                    path.display()
                ),
            )
            .next("name the file by what is in it")),
        }
    }
}
