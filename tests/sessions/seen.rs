//! The words of our statements, as psql would say them.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use cellar_sql::output::{Format, Writer};

use crate::database::Reply;
use crate::postgres::Seen;

/// The rows of ours as psql writes them.
fn rows(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let one = batch.slice(row, 1);
            let cells = (0..batch.num_columns()).map(|column| {
                if one.column(column).logical_nulls().is_some_and(|nulls| nulls.is_null(0)) {
                    return "NULL".to_owned();
                }
                let only = one.project(&[column]).unwrap();
                let mut out = Vec::new();
                let mut writer = Writer::new(&mut out, Format::Csv, &only.schema(), 80).unwrap();
                writer.write(&only).unwrap();
                writer.finish().unwrap();
                let text = String::from_utf8(out).unwrap();
                let text = text.split_once('\n').unwrap().1.trim_end_matches('\n');
                let text = match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                    Some(quoted) => quoted.replace("\"\"", "\""),
                    None => text.to_owned(),
                };
                match (schema.field(column).data_type(), text.as_str()) {
                    (DataType::Boolean, "true") => "t".to_owned(),
                    (DataType::Boolean, "false") => "f".to_owned(),
                    _ => text,
                }
            });
            found.push(cells.collect());
        }
    }
    found
}

/// What is told, and the words of an error.
pub fn seen(told: Result<Reply, cellar_sql::Error>) -> (Seen, String) {
    match told {
        Ok(Reply::Rows(schema, batches)) => (Seen::Rows(rows(&schema, &batches)), String::new()),
        Ok(Reply::Copied(text)) => {
            (Seen::Rows(text.lines().map(|line| vec![line.to_owned()]).collect()), String::new())
        }
        Ok(Reply::Done(message)) => {
            let count = message.split(' ').next().and_then(|word| word.parse().ok());
            (Seen::Count(count.unwrap_or(0)), message)
        }
        Err(error) => {
            let deepest = error.stack().last().unwrap().sqlstate;
            (Seen::Failed(deepest.to_owned()), error.to_string())
        }
    }
}
