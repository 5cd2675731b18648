//! Groups as columns: if there are many, an object for each would cost more than the summing.

use arrow_array::{Array, ArrayRef};
use arrow_schema::Schema;

use crate::aggregate::{Aggregate, AggregateFunction};
use crate::bits::BLOCK;
use crate::column::{Column, Data};
use crate::expr::Program;
use crate::header::{Header, Kind};
use crate::ints::Damage;
use crate::to_arrow::{Rows, array_of};
use crate::value::{f32_of_key, f64_of_key};

/// Groups: their keys, and their states.
#[derive(Clone, Debug)]
pub struct Columns {
    /// For each key column, the value of each group. -0 and 0 are distinct.
    pub keys: Vec<ArrayRef>,
    /// For each call, the state of each group.
    pub functions: Vec<Known>,
    /// The number of groups.
    pub rows: usize,
}

/// The states of one call, one for each group.
#[derive(Clone, Debug)]
pub enum Known {
    /// Of a count.
    Count(Vec<u64>),
    /// Of a sum; where no row counted it is no value.
    Sum {
        /// The sums.
        sums: Vec<i128>,
        /// Of so many rows.
        rows: Vec<u64>,
    },
    /// Of a sum of floating-point numbers.
    Float {
        /// The sums.
        sums: Vec<f64>,
        /// Of so many rows.
        rows: Vec<u64>,
    },
    /// The least or greatest values.
    Ends(ArrayRef),
}

impl Columns {
    /// Their approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let array = |array: &ArrayRef| array.get_buffer_memory_size();
        let known = |known: &Known| match known {
            Known::Count(counts) => counts.len() * 8,
            Known::Sum { rows, .. } => rows.len() * 24,
            Known::Float { rows, .. } => rows.len() * 16,
            Known::Ends(ends) => array(ends),
        };
        self.keys.iter().map(array).sum::<usize>() + self.functions.iter().map(known).sum::<usize>()
    }
}

/// Each of these rows as a group of its own: if nearly all keys differ, grouping them here does not
/// pay, and whoever merges the parts does it anyway.
///
/// # Errors
/// A column has not been read, or is not as it was written.
pub fn each_row(
    aggregate: &Aggregate,
    header: &Header,
    columns: &[Option<Column<'_>>],
    rows: &Rows,
    schema: &Schema,
) -> Result<Columns, Damage> {
    let array = |at: &usize| {
        let unread = Damage::Field { name: "column not read", value: *at as u64 };
        let column = columns.get(*at).and_then(Option::as_ref).ok_or(unread)?;
        let field = schema.fields().get(*at).ok_or(unread)?;
        array_of(column, rows, field.data_type())
    };
    let keys = aggregate.keys.iter().map(array).collect::<Result<_, _>>()?;
    let mut program = Program::default();
    let mut functions = Vec::with_capacity(aggregate.functions.len());
    for function in &aggregate.functions {
        functions.push(match function {
            AggregateFunction::Rows => Known::Count(vec![1; rows.count()]),
            AggregateFunction::Sum(expr) => {
                let at = program.add(expr, header, columns)?;
                Known::Sum { sums: Vec::with_capacity(rows.count()), rows: vec![at as u64] }
            }
            AggregateFunction::Count(_) | AggregateFunction::SumFloat(_) => {
                Known::Count(valid(function, columns, rows)?)
            }
            AggregateFunction::Least(column) | AggregateFunction::Greatest(column) => {
                Known::Ends(array(column)?)
            }
        });
    }
    sum_up(&mut program, &mut functions, header, rows);
    for (known, function) in functions.iter_mut().zip(&aggregate.functions) {
        match function {
            AggregateFunction::Sum(_) => {
                let own = valid(function, columns, rows)?;
                if let Known::Sum { rows, .. } = known {
                    *rows = own;
                }
            }
            AggregateFunction::SumFloat(column) => {
                let sums = floats(header, columns, *column, rows)?;
                if let Known::Count(rows) = known {
                    *known = Known::Float { sums, rows: std::mem::take(rows) };
                }
            }
            _ => {}
        }
    }
    Ok(Columns { keys, functions, rows: rows.count() })
}

/// Computes the program for the rows, and stores the results in the sums that refer to them.
fn sum_up(program: &mut Program<'_, '_>, functions: &mut [Known], header: &Header, rows: &Rows) {
    let any = functions.iter().any(|known| matches!(known, Known::Sum { .. }));
    for block in (0..header.blocks()).filter(|_| any) {
        let mut mask = [0; BLOCK];
        if rows.mask(block, &mut mask) == 0 {
            continue;
        }
        program.run(block);
        for known in functions.iter_mut() {
            let Known::Sum { sums, rows } = known else { continue };
            let mut room = [0; BLOCK];
            let out = program.out(rows[0] as usize).as_wide(&mut room);
            let wanted = out.iter().zip(&mask).filter(|(_, mask)| **mask != 0);
            sums.extend(wanted.map(|(number, _)| *number));
        }
    }
}

/// For each row 1 where all columns of a call have a value, else 0.
fn valid(
    function: &AggregateFunction,
    columns: &[Option<Column<'_>>],
    rows: &Rows,
) -> Result<Vec<u64>, Damage> {
    let mut asked = std::collections::BTreeSet::new();
    function.columns(&mut asked);
    let mut out = vec![1; rows.count()];
    for at in asked {
        let unread = Damage::Field { name: "column not read", value: at as u64 };
        let column = columns.get(at).and_then(Option::as_ref).ok_or(unread)?;
        if matches!(column.data(), Data::Nulls) {
            out.fill(0);
        } else if column.has_bits() {
            let own = out.iter_mut().enumerate();
            own.for_each(|(at, out)| *out &= u64::from(column.is_valid(rows.row(at) as usize)));
        }
    }
    Ok(out)
}

fn floats(
    header: &Header,
    columns: &[Option<Column<'_>>],
    at: usize,
    rows: &Rows,
) -> Result<Vec<f64>, Damage> {
    let column = columns.get(at).and_then(Option::as_ref);
    let Some(Data::Ints(ints)) = column.map(Column::data) else {
        return Ok(vec![0.0; rows.count()]);
    };
    let is_64 = match header.entries.get(at).map(|entry| entry.kind) {
        Some(Kind::Float64) => true,
        Some(Kind::Float32) => false,
        _ => return Err(Damage::Field { name: "kind of a column", value: at as u64 }),
    };
    let float = |key| if is_64 { f64_of_key(key) } else { f32_of_key(key).into() };
    Ok(crate::to_arrow::ints_of(ints, header.rows as usize, rows, float))
}
