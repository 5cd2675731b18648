//! Rows of a batch as messages.

use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};
use cellar_sql::binary::{Binary, PgType, origin_of};
use cellar_sql::{Error, Texts};

use crate::error::Refusal;
use crate::wire::backend::{Column, Out};

/// The longest row in bytes: what a message can hold.
const ROW_MAX: usize = (1 << 30) - 2;

enum Own<'a> {
    Text(Texts<'a>),
    Binary(Binary),
}

/// The columns of rows with this schema. `formats`: none, one for all, or one each; 0 text, 1 binary.
///
/// # Errors
/// 08P01 there are more or fewer formats; 22023 there is none of this number.
pub(crate) fn columns(schema: &Schema, formats: &[i16]) -> Result<Vec<Column>, Refusal> {
    let count = schema.fields().len();
    if formats.len() > 1 && formats.len() != count {
        let text = format!(
            "bind message has {} result formats but query has {count} columns",
            formats.len()
        );
        return Err(Refusal::protocol(text));
    }
    if let Some(other) = formats.iter().find(|own| !matches!(own, 0 | 1)) {
        return Err(Refusal::new("22023", format!("unsupported format code: {other}")));
    }
    let format = |at: usize| match formats {
        [] => 0,
        [one] => *one,
        many => many[at],
    };
    let fields = schema.fields().iter().enumerate();
    Ok(fields
        .map(|(at, field)| Column {
            name: field.name().clone(),
            own: PgType::of_field(field),
            origin: origin_of(field),
            format: format(at),
        })
        .collect())
}

/// Writes rows of a batch from one on, until there are enough for a write; the next one.
///
/// # Errors
/// A value cannot be shown; 54000 a row is longer than a message.
pub(crate) fn write_some(
    batch: &RecordBatch,
    columns: &[Column],
    from: usize,
    out: &mut Out,
) -> Result<usize, Error> {
    let own = batch.columns().iter().zip(columns).map(|(array, column)| {
        let own = match column.format {
            1 => Own::Binary(Binary::of(array, column.own)?),
            _ => Own::Text(Texts::of(array)?),
        };
        Ok((own, array.logical_nulls()))
    });
    let own = own.collect::<Result<Vec<_>, Error>>()?;
    let (mut row, mut scratch) = (from, Vec::new());
    while row < batch.num_rows() && !out.has_much() {
        write(&own, row, out, &mut scratch)?;
        row += 1;
    }
    Ok(row)
}

fn write(
    columns: &[(Own<'_>, Option<NullBuffer>)],
    row: usize,
    out: &mut Out,
    scratch: &mut Vec<u8>,
) -> Result<(), Error> {
    out.row(columns.len(), |out| {
        let begin = out.len();
        for (own, nulls) in columns {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                out.put_i32(-1);
                continue;
            }
            value(own, row, out, scratch)?;
            if out.len() - begin > ROW_MAX {
                return Err(Error::new(70300, "54000", "a row has more than 1 GB on the wire")
                    .next("select fewer columns, or parts of the values"));
            }
        }
        Ok(())
    })
}

fn value(
    own: &Own<'_>,
    row: usize,
    out: &mut BytesMut,
    scratch: &mut Vec<u8>,
) -> Result<(), Error> {
    let at = out.len();
    out.put_u32(0);
    match own {
        Own::Text(texts) => {
            scratch.clear();
            texts.write(row, scratch)?;
            out.put_slice(scratch);
        }
        Own::Binary(binary) => binary.write(row, out)?,
    }
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
