//! The right answers of TPC-H's Q1 and Q6: computed from the generator's rows by plain loops or, at scale
//! 1, the published ones. No part of the query engine is involved.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use tpchgen::generators::LineItemGenerator;

/// Q1 with its default parameter.
pub const Q1: &str = "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, \
    sum(l_extendedprice) as sum_base_price, \
    sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, \
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, \
    avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, \
    avg(l_discount) as avg_disc, count(*) as count_order \
    from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day \
    group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus";

/// Q6 with its default parameters.
pub const Q6: &str = "select sum(l_extendedprice * l_discount) as revenue from lineitem \
    where l_shipdate >= date '1994-01-01' \
    and l_shipdate < date '1994-01-01' + interval '1' year \
    and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24";

/// One field of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Must be this text.
    Text(String),
    /// Must be this number.
    Integer(i64),
    /// Rounded to two digits, as the specification prints it, must be this many hundredths.
    Hundredths(i128),
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Integer(number) => write!(f, "{number}"),
            Cell::Hundredths(value) => {
                let sign = if *value < 0 { "-" } else { "" };
                let value = value.unsigned_abs();
                write!(f, "{sign}{}.{:02}", value / 100, value % 100)
            }
        }
    }
}

/// The right answer to a query, rows in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its origin.
    pub origin: Origin,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
}

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the answer set that TPC publishes for scale 1.
    Published,
    /// From the generator's rows, by plain loops.
    Computed,
}

/// The answers to [`Q1`] and [`Q6`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// To [`Q1`].
    pub q1: Answer,
    /// To [`Q6`].
    pub q6: Answer,
}

/// The answers at `scale`: published at scale 1, else computed on `threads` threads.
pub fn answers(scale: f64, threads: usize) -> Answers {
    if scale == 1.0 { published() } else { computed(scale, threads) }
}

/// One line of the published answer to Q1: flags, six sums and averages in hundredths, count.
type Published = (&'static str, &'static str, [i128; 7], i64);

/// The answers TPC publishes for scale 1.
pub fn published() -> Answers {
    const ROWS: [Published; 4] = [
        (
            "A",
            "F",
            [3773410700, 5658655440073, 5375825713487, 5590906522283, 2552, 3827313, 5],
            1478493,
        ),
        ("N", "F", [99141700, 148750471038, 141308216805, 146964922319, 2552, 3828447, 5], 38854),
        (
            "N",
            "O",
            [7447604000, 11170172969774, 10611823030761, 11036704387250, 2550, 3824912, 5],
            2920374,
        ),
        (
            "R",
            "F",
            [3771975300, 5656804138090, 5374129268460, 5588961911983, 2551, 3825085, 5],
            1478870,
        ),
    ];
    let row = |(flag, status, numbers, count): Published| {
        let texts = [flag, status].map(|t| Cell::Text(t.to_string()));
        let numbers = numbers.map(Cell::Hundredths);
        texts.into_iter().chain(numbers).chain([Cell::Integer(count)]).collect()
    };
    Answers {
        q1: Answer { origin: Origin::Published, rows: ROWS.into_iter().map(row).collect() },
        q6: Answer {
            origin: Origin::Published,
            rows: vec![vec![Cell::Hundredths(12_314_107_823)]],
        },
    }
}

/// Sums of one group of Q1, exact.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: i128,
    /// Whole pieces.
    quantity: i128,
    /// Hundredths.
    price: i128,
    /// Ten thousandths.
    discounted: i128,
    /// Millionths.
    charge: i128,
    /// Hundredths.
    discount: i128,
}

#[derive(Debug, Default)]
struct Totals {
    groups: BTreeMap<(String, String), Sums>,
    /// For Q6, in ten thousandths.
    revenue: i128,
}

/// Computes the answers at `scale` from the generator's rows.
pub fn computed(scale: f64, threads: usize) -> Answers {
    let parts = i32::try_from(threads.max(1)).unwrap_or(1);
    let totals = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (1..=parts).map(|part| scope.spawn(move || totals_of(scale, part, parts))).collect();
        let mut all = Totals::default();
        for worker in workers {
            let part = worker.join().expect("the loops over the rows do not panic");
            all.revenue += part.revenue;
            for (key, sums) in part.groups {
                let group = all.groups.entry(key).or_default();
                group.count += sums.count;
                group.quantity += sums.quantity;
                group.price += sums.price;
                group.discounted += sums.discounted;
                group.charge += sums.charge;
                group.discount += sums.discount;
            }
        }
        all
    });
    let q1 = totals.groups.into_iter().map(|((flag, status), s)| {
        vec![
            Cell::Text(flag),
            Cell::Text(status),
            Cell::Hundredths(s.quantity * 100),
            Cell::Hundredths(s.price),
            Cell::Hundredths(rounded(s.discounted, 100)),
            Cell::Hundredths(rounded(s.charge, 10_000)),
            Cell::Hundredths(rounded(s.quantity * 100, s.count)),
            Cell::Hundredths(rounded(s.price, s.count)),
            Cell::Hundredths(rounded(s.discount, s.count)),
            Cell::Integer(i64::try_from(s.count).unwrap_or(i64::MAX)),
        ]
    });
    Answers {
        q1: Answer { origin: Origin::Computed, rows: q1.collect() },
        q6: Answer {
            origin: Origin::Computed,
            rows: vec![vec![Cell::Hundredths(rounded(totals.revenue, 100))]],
        },
    }
}

/// Days since 1970 of 1998-09-02, 1994-01-01 and 1995-01-01.
const Q1_SHIPPED_UNTIL: i32 = 10_471;
const Q6_SHIPPED_FROM: i32 = 8_766;
const Q6_SHIPPED_BEFORE: i32 = 9_131;

fn totals_of(scale: f64, part: i32, parts: i32) -> Totals {
    let mut totals = Totals::default();
    // Few groups: a short list is faster than a map with owned keys.
    let mut groups: Vec<(&str, &str, Sums)> = Vec::new();
    for row in LineItemGenerator::new(scale, part, parts).iter() {
        let shipped = row.l_shipdate.to_unix_epoch();
        let price = i128::from(row.l_extendedprice.into_inner());
        let discount = i128::from(row.l_discount.into_inner());
        if (Q6_SHIPPED_FROM..Q6_SHIPPED_BEFORE).contains(&shipped)
            && (5..=7).contains(&discount)
            && row.l_quantity < 24
        {
            totals.revenue += price * discount;
        }
        if shipped > Q1_SHIPPED_UNTIL {
            continue;
        }
        let (flag, status) = (row.l_returnflag, row.l_linestatus);
        let at = match groups.iter().position(|g| g.0 == flag && g.1 == status) {
            Some(at) => at,
            None => {
                groups.push((flag, status, Sums::default()));
                groups.len() - 1
            }
        };
        let sums = &mut groups[at].2;
        let tax = i128::from(row.l_tax.into_inner());
        sums.count += 1;
        sums.quantity += i128::from(row.l_quantity);
        sums.price += price;
        sums.discounted += price * (100 - discount);
        sums.charge += price * (100 - discount) * (100 + tax);
        sums.discount += discount;
    }
    for (flag, status, sums) in groups {
        totals.groups.insert((flag.to_string(), status.to_string()), sums);
    }
    totals
}

/// `value / divisor` to the nearest integer, halves away from zero.
fn rounded(value: i128, divisor: i128) -> i128 {
    assert!(divisor > 0, "a group has rows");
    let half = if value < 0 { -divisor / 2 } else { divisor / 2 };
    (value + half) / divisor
}

/// The first difference between a result and the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}, column {column}: expected {expected}, found {found}")]
pub struct Difference {
    /// The row, from 1; 0 when the shape differs.
    pub row: usize,
    /// The name of the column, or the difference in shape.
    pub column: String,
    /// The value in the answer.
    pub expected: String,
    /// The value in the result.
    pub found: String,
}

/// Compares a result with the answer. Sums, counts and averages are compared after the specification's
/// rounding to two digits, more strictly than it requires (it allows 1 %).
///
/// # Errors
/// The first difference.
pub fn compare(result: &[RecordBatch], answer: &Answer) -> Result<(), Difference> {
    let found: usize = result.iter().map(RecordBatch::num_rows).sum();
    let shape = |column: &str, expected: usize, found: usize| Difference {
        row: 0,
        column: column.to_string(),
        expected: expected.to_string(),
        found: found.to_string(),
    };
    if found != answer.rows.len() {
        return Err(shape("number of rows", answer.rows.len(), found));
    }
    let rows = result.iter().flat_map(|b| (0..b.num_rows()).map(move |at| (b, at)));
    for (number, ((batch, at), expected)) in rows.zip(&answer.rows).enumerate() {
        if batch.num_columns() != expected.len() {
            return Err(shape("number of columns", expected.len(), batch.num_columns()));
        }
        for (column, cell) in expected.iter().enumerate() {
            let found = cell_of(batch.column(column), at, cell);
            if found.as_ref() != Some(cell) {
                return Err(Difference {
                    row: number + 1,
                    column: batch.schema().field(column).name().clone(),
                    expected: cell.to_string(),
                    found: found.map_or_else(|| "nothing comparable".into(), |f| f.to_string()),
                });
            }
        }
    }
    Ok(())
}

/// The value of the result, in the form of the answer's cell.
fn cell_of(column: &dyn Array, at: usize, like: &Cell) -> Option<Cell> {
    if column.is_null(at) {
        return None;
    }
    let column = column.slice(at, 1);
    match like {
        Cell::Text(_) => {
            let text = cast(&column, &DataType::Utf8).ok()?;
            Some(Cell::Text(text.as_string::<i32>().value(0).to_string()))
        }
        Cell::Integer(_) => {
            let number = cast(&column, &DataType::Int64).ok()?;
            let number = number.as_primitive_opt::<Int64Type>()?;
            number.is_valid(0).then(|| Cell::Integer(number.value(0)))
        }
        Cell::Hundredths(_) => {
            let DataType::Decimal128(_, scale) = column.data_type() else {
                return None;
            };
            let value = column.as_primitive_opt::<Decimal128Type>()?.value(0);
            let shift = 10i128.checked_pow(u32::from(scale.abs_diff(2)))?;
            let value = match *scale {
                3.. => rounded(value, shift),
                _ => value.checked_mul(shift)?,
            };
            Some(Cell::Hundredths(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_right_days() {
        let day = |y: i64, m: i64, d: i64| {
            // Days from civil (proleptic Gregorian), months counted from March.
            let (y, m) = if m <= 2 { (y - 1, m + 9) } else { (y, m - 3) };
            365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + d - 1 - 719_468
        };
        assert_eq!(day(1998, 9, 2), i64::from(Q1_SHIPPED_UNTIL));
        assert_eq!(day(1994, 1, 1), i64::from(Q6_SHIPPED_FROM));
        assert_eq!(day(1995, 1, 1), i64::from(Q6_SHIPPED_BEFORE));
    }

    #[test]
    fn rounding_goes_to_the_nearest() {
        assert_eq!(rounded(149, 100), 1);
        assert_eq!(rounded(150, 100), 2);
        assert_eq!(rounded(-150, 100), -2);
        assert_eq!(Cell::Hundredths(-5).to_string(), "-0.05");
    }

    #[test]
    fn one_thread_and_three_agree() {
        assert_eq!(computed(0.01, 1), computed(0.01, 3));
    }
}
