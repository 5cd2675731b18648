//! The format of a file whose rows are loaded.

use std::path::Path as FilePath;

use crate::csv::CsvForm;
use crate::csv::reject::Rejects;
use crate::error::Error;
use crate::path::ending;

/// How a source file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    /// Parquet: taken over byte for byte after its footer was read.
    Parquet,
    /// A segment of a columnar table, as rescue or a copy gave it.
    Segment,
    /// CSV; types are found by reading the whole file once.
    Csv {
        /// How it is written.
        form: Box<CsvForm>,
        /// Where rows go that cannot be taken; else nothing of the file is.
        rejects: Option<Rejects>,
    },
}

impl SourceFormat {
    /// The format that a file's name promises.
    ///
    /// # Errors
    /// 70010 when its ending is none of those known.
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
