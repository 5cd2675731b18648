//! The consumer of a cell's results. Without offload it evaluates the filter and the sums itself, over
//! whole columns as a query engine does.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use cellar_cell::Item;
use cellar_format::aggregate::columns::{Columns, Known};
use cellar_format::{Expr, State, Value};

use super::question::{Best, Question, Row, Sum, Wanted};
use crate::error::LabError;

/// An answer: rows in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer(Vec<Row>);

impl Answer {
    /// In words: the rows if they are few, else their number and a digest.
    pub(crate) fn words(&self) -> String {
        let value = |value: &Option<Value>| match value {
            None => "null".to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        };
        let row = |row: &Row| row.iter().map(value).collect::<Vec<_>>().join(", ");
        let text = self.0.iter().map(row).collect::<Vec<_>>().join("; ");
        if text.len() <= 200 {
            return format!("({text})");
        }
        let settings = [("rows".to_owned(), text)].into();
        format!("{} rows, digest {}", self.0.len(), crate::run::settings_hash(&settings))
    }
}

/// The numbers of a column.
#[derive(Clone, Copy)]
enum Numbers<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
}

impl<'a> Numbers<'a> {
    fn of(array: &'a ArrayRef) -> Result<Numbers<'a>, LabError> {
        let date = array.as_primitive_opt::<Date32Type>().map(|own| Numbers::I32(own.values()));
        let long = || array.as_primitive_opt::<Int64Type>().map(|own| Numbers::I64(own.values()));
        let wide =
            || array.as_primitive_opt::<Decimal128Type>().map(|own| Numbers::I128(own.values()));
        date.or_else(long).or_else(wide).ok_or_else(|| not_asked_for(array))
    }

    fn gather(self, rows: &[u32]) -> Vec<i128> {
        fn of<T: Copy + Into<i128>>(own: &[T], rows: &[u32]) -> Vec<i128> {
            rows.iter().map(|row| own[*row as usize].into()).collect()
        }
        match self {
            Numbers::I32(own) => of(own, rows),
            Numbers::I64(own) => of(own, rows),
            Numbers::I128(own) => of(own, rows),
        }
    }

    /// Keeps those of `rows` that are from `low` to `high`.
    fn keep(self, low: i128, high: i128, rows: &mut Vec<u32>) {
        fn of<T: Copy + Into<i128>>(own: &[T], low: i128, high: i128, rows: &mut Vec<u32>) {
            rows.retain(|row| (low..=high).contains(&own[*row as usize].into()));
        }
        match self {
            Numbers::I32(own) => of(own, low, high, rows),
            Numbers::I64(own) => of(own, low, high, rows),
            Numbers::I128(own) => of(own, low, high, rows),
        }
    }
}

fn not_asked_for(array: &ArrayRef) -> LabError {
    LabError::Answer(format!("a column of type {}", array.data_type()))
}

/// A value of a column without nulls.
fn value(array: &ArrayRef, row: usize) -> Result<Option<Value>, LabError> {
    if let Some(strings) = array.as_string_view_opt() {
        return Ok(Some(Value::from(strings.value(row).as_bytes())));
    }
    let row = u32::try_from(row).unwrap_or(u32::MAX);
    Ok(Numbers::of(array)?.gather(&[row]).pop().map(Value::Number))
}

/// The consumer of a worker of a cell.
pub(crate) struct Consumer {
    question: Arc<Question>,
    best: Arc<Best>,
    offload: bool,
    groups: BTreeMap<Row, Vec<i128>>,
    rows: Vec<Row>,
}

impl Consumer {
    /// For answers to `question`: with `offload` the cell has filtered and summed.
    pub(crate) fn new(question: Arc<Question>, best: Arc<Best>, offload: bool) -> Consumer {
        Consumer { question, best, offload, groups: BTreeMap::new(), rows: Vec::new() }
    }

    pub(crate) fn take(&mut self, item: Item) -> Result<(), LabError> {
        match item {
            Item::Groups(groups) => groups.into_iter().try_for_each(|(key, states)| {
                let numbers = states.iter().map(number_of).collect::<Result<Vec<_>, _>>()?;
                self.join(key.into_vec(), numbers);
                Ok(())
            }),
            Item::Columns(columns) => self.take_columns(&columns),
            Item::Rows(batch) => match &Arc::clone(&self.question).wanted {
                Wanted::Groups { .. } if self.offload => {
                    Err(LabError::Answer("rows rather than groups".to_owned()))
                }
                Wanted::Groups { keys, sums } => self.sum_up(&batch, keys, sums),
                Wanted::Rows { columns } => self.take_rows(&batch, columns),
                Wanted::Greatest { columns, count } => self.take_best(&batch, columns, *count),
            },
        }
    }

    fn join(&mut self, key: Row, numbers: Vec<i128>) {
        let own = self.groups.entry(key).or_insert_with(|| vec![0; numbers.len()]);
        own.iter_mut().zip(numbers).for_each(|(own, number)| *own += number);
    }

    fn take_columns(&mut self, columns: &Columns) -> Result<(), LabError> {
        for row in 0..columns.rows {
            let key: Row =
                columns.keys.iter().map(|key| value(key, row)).collect::<Result<_, _>>()?;
            let number = |known: &Known| match known {
                Known::Count(counts) => Ok(counts[row].into()),
                Known::Sum { sums, rows } => Ok(if rows[row] > 0 { sums[row] } else { 0 }),
                other => Err(LabError::Answer(format!("{other:?}"))),
            };
            let numbers = columns.functions.iter().map(number).collect::<Result<_, _>>()?;
            self.join(key, numbers);
        }
        Ok(())
    }

    /// A column of the table in a batch.
    fn column<'b>(&self, batch: &'b RecordBatch, wanted: usize) -> Result<&'b ArrayRef, LabError> {
        let all = match (&self.question.wanted, self.offload) {
            (Wanted::Rows { columns } | Wanted::Greatest { columns, .. }, true) => columns.clone(),
            _ => self.question.columns(),
        };
        let at = all.iter().position(|column| *column == wanted);
        at.and_then(|at| batch.columns().get(at))
            .ok_or_else(|| LabError::Answer(format!("rows without column {wanted}")))
    }

    /// The matching rows of a batch; all of them if the cell has filtered.
    fn passing(&self, batch: &RecordBatch) -> Result<Vec<u32>, LabError> {
        let mut rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
        if !self.offload {
            for (column, low, high) in &self.question.ranges {
                Numbers::of(self.column(batch, *column)?)?.keep(*low, *high, &mut rows);
            }
        }
        Ok(rows)
    }

    fn sum_up(
        &mut self,
        batch: &RecordBatch,
        keys: &[usize],
        sums: &[Sum],
    ) -> Result<(), LabError> {
        let rows = self.passing(batch)?;
        let keys = keys.iter().map(|key| {
            let array = self.column(batch, *key)?;
            array.as_string_view_opt().ok_or_else(|| not_asked_for(array))
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let mut known: Vec<(Vec<&[u8]>, Vec<i128>)> = Vec::new();
        let mut groups = Vec::with_capacity(rows.len());
        for row in &rows {
            let text = |at: usize| keys[at].value(*row as usize).as_bytes();
            let is_own = |(key, _): &(Vec<&[u8]>, Vec<i128>)| {
                key.iter().enumerate().all(|(at, own)| text(at) == *own)
            };
            let group = known.iter().position(is_own).unwrap_or_else(|| {
                known.push(((0..keys.len()).map(text).collect(), vec![0; sums.len()]));
                known.len() - 1
            });
            groups.push(group as u32);
        }
        for (at, sum) in sums.iter().enumerate() {
            match sum {
                Sum::Rows => groups.iter().for_each(|group| known[*group as usize].1[at] += 1),
                Sum::Of(expr) => {
                    let numbers = self.evaluate(batch, expr, &rows)?;
                    let both = groups.iter().zip(numbers);
                    both.for_each(|(group, number)| known[*group as usize].1[at] += number);
                }
            }
        }
        for (key, numbers) in known {
            self.join(key.into_iter().map(|own| Some(Value::from(own))).collect(), numbers);
        }
        Ok(())
    }

    fn evaluate(
        &self,
        batch: &RecordBatch,
        expr: &Expr,
        rows: &[u32],
    ) -> Result<Vec<i128>, LabError> {
        let both = |a: &Expr, b: &Expr, of: fn(i128, i128) -> i128| {
            let mut out = self.evaluate(batch, a, rows)?;
            let other = self.evaluate(batch, b, rows)?;
            out.iter_mut().zip(other).for_each(|(own, other)| *own = of(*own, other));
            Ok(out)
        };
        match expr {
            Expr::Column(column) => Ok(Numbers::of(self.column(batch, *column)?)?.gather(rows)),
            Expr::Constant(number) => Ok(vec![*number; rows.len()]),
            Expr::Add(a, b) => both(a, b, |a, b| a + b),
            Expr::Sub(a, b) => both(a, b, |a, b| a - b),
            Expr::Mul(a, b) => both(a, b, |a, b| a * b),
            Expr::Within(inner, _, _) => self.evaluate(batch, inner, rows),
        }
    }

    /// These rows of a batch.
    fn rows_of(
        &self,
        batch: &RecordBatch,
        columns: &[usize],
        rows: &[u32],
    ) -> Result<Vec<Row>, LabError> {
        let arrays =
            columns.iter().map(|own| self.column(batch, *own)).collect::<Result<Vec<_>, _>>()?;
        let row = |row: &u32| arrays.iter().map(|array| value(array, *row as usize)).collect();
        rows.iter().map(row).collect()
    }

    fn take_rows(&mut self, batch: &RecordBatch, columns: &[usize]) -> Result<(), LabError> {
        let rows = self.passing(batch)?;
        self.rows.extend(self.rows_of(batch, columns, &rows)?);
        Ok(())
    }

    fn take_best(
        &mut self,
        batch: &RecordBatch,
        columns: &[usize],
        count: usize,
    ) -> Result<(), LabError> {
        let mut rows = self.passing(batch)?;
        let numbers = Numbers::of(self.column(batch, columns[0])?)?;
        if let Some(least) = self.best.least() {
            numbers.keep(least, i128::MAX, &mut rows);
        }
        let mut all = numbers.gather(&rows);
        if all.len() > count {
            let (_, least, _) = all.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
            numbers.keep(*least, i128::MAX, &mut rows);
        }
        self.best.take(self.rows_of(batch, columns, &rows)?);
        Ok(())
    }

    /// The combined answer of all workers of a scan.
    pub(crate) fn finish(all: Vec<Consumer>) -> Answer {
        let mut all = all.into_iter();
        let Some(mut first) = all.next() else { return Answer::default() };
        for other in all {
            other.groups.into_iter().for_each(|(key, numbers)| first.join(key, numbers));
            first.rows.extend(other.rows);
        }
        Answer(match &first.question.wanted {
            Wanted::Groups { keys, sums } => {
                // A sum of no rows still has one group.
                if keys.is_empty() && first.groups.is_empty() {
                    first.groups.insert(Row::new(), vec![0; sums.len()]);
                }
                let row = |(mut key, numbers): (Row, Vec<i128>)| {
                    key.extend(numbers.into_iter().map(|number| Some(Value::Number(number))));
                    key
                };
                first.groups.into_iter().map(row).collect()
            }
            Wanted::Rows { .. } => {
                first.rows.sort();
                first.rows
            }
            Wanted::Greatest { .. } => first.best.finish(),
        })
    }
}

fn number_of(state: &State) -> Result<i128, LabError> {
    match state {
        State::Count(count) => Ok((*count).into()),
        State::Sum { sum, .. } => Ok(*sum),
        other => Err(LabError::Answer(format!("{other:?}"))),
    }
}
