//! The queries on the table, and how a cell runs them with offload and without.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_cell::{DynamicFilter, Output, Request, Segment};
use cellar_format::{Aggregate, AggregateFunction, Expr, Predicate, Test, Value};
use cellar_wait::{Event, Session};

use super::table::{self, column};

/// A row of an answer.
pub(crate) type Row = Vec<Option<Value>>;

/// A result column of a group.
#[derive(Clone, Debug)]
pub(crate) enum Sum {
    /// The number of its rows.
    Rows,
    /// The sum of an expression.
    Of(Expr),
}

/// The result wanted from the matching rows.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// Sums of groups.
    Groups { keys: Vec<usize>, sums: Vec<Sum> },
    /// These columns of the rows themselves.
    Rows { columns: Vec<usize> },
    /// This many of them, with the greatest values in the first of these columns.
    Greatest { columns: Vec<usize>, count: usize },
}

/// A query.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) name: &'static str,
    /// A description, for people: at most 18 characters.
    pub(crate) what: &'static str,
    pub(crate) sql: &'static str,
    /// The filter: a column, and its range of values.
    pub(crate) ranges: Vec<(usize, i128, i128)>,
    pub(crate) wanted: Wanted,
}

/// The query that reads most of the table and returns next to nothing.
pub(crate) const FLAGS: &str = "flags";

fn of(column: usize) -> Expr {
    Expr::Column(column)
}

fn times(a: Expr, b: Expr) -> Expr {
    Expr::Mul(Box::new(a), Box::new(b))
}

/// All of them, in the order of a report. Decimals are in hundredths.
pub(crate) fn all() -> Vec<Question> {
    vec![total(), count(), flags(), few(), top()]
}

fn total() -> Question {
    Question {
        name: "total",
        what: "total of a year",
        sql: "select sum(extendedprice * discount) from lineitem where shipdate >= '1994-01-01' \
              and shipdate < '1995-01-01' and discount between 0.05 and 0.07 and quantity < 24",
        ranges: vec![
            (column::SHIPDATE, table::day(1994, 0), table::day(1995, 0) - 1),
            (column::DISCOUNT, 5, 7),
            (column::QUANTITY, 0, 2399),
        ],
        wanted: Wanted::Groups {
            keys: Vec::new(),
            sums: vec![Sum::Of(times(of(column::EXTENDEDPRICE), of(column::DISCOUNT)))],
        },
    }
}

fn count() -> Question {
    Question {
        name: "count",
        what: "count of 4 months",
        sql: "select count(*) from lineitem where shipdate >= '1995-03-01' and shipdate < \
              '1995-07-01'",
        ranges: vec![(column::SHIPDATE, table::day(1995, 59), table::day(1995, 181) - 1)],
        wanted: Wanted::Groups { keys: Vec::new(), sums: vec![Sum::Rows] },
    }
}

fn flags() -> Question {
    let hundred = |sign: fn(Box<Expr>, Box<Expr>) -> Expr, column| {
        sign(Box::new(Expr::Constant(100)), Box::new(of(column)))
    };
    let paid = times(of(column::EXTENDEDPRICE), hundred(Expr::Sub, column::DISCOUNT));
    let charged = times(paid.clone(), hundred(Expr::Add, column::TAX));
    Question {
        name: FLAGS,
        what: "sums by two flags",
        sql: "select returnflag, linestatus, sum(quantity), sum(extendedprice), \
              sum(extendedprice * (1 - discount)), sum(extendedprice * (1 - discount) * (1 + \
              tax)), count(*) from lineitem where shipdate <= '1998-09-02' group by 1, 2",
        ranges: vec![(column::SHIPDATE, table::day(1992, 0), table::day(1998, 244))],
        wanted: Wanted::Groups {
            keys: vec![column::RETURNFLAG, column::LINESTATUS],
            sums: vec![
                Sum::Of(of(column::QUANTITY)),
                Sum::Of(of(column::EXTENDEDPRICE)),
                Sum::Of(paid),
                Sum::Of(charged),
                Sum::Rows,
            ],
        },
    }
}

/// As [`flags`] without a filter: no header answers it, and no row group is left out.
pub(crate) fn everything() -> Question {
    Question {
        name: "everything",
        what: "sums of all rows",
        sql: "select returnflag, linestatus, sum(quantity), sum(extendedprice), \
              sum(extendedprice * (1 - discount)), sum(extendedprice * (1 - discount) * (1 + \
              tax)), count(*) from lineitem group by 1, 2",
        ranges: Vec::new(),
        ..flags()
    }
}

fn few() -> Question {
    Question {
        name: "few",
        what: "few whole rows",
        sql: "select * from lineitem where quantity = 50 and discount = 0.10 and tax = 0.08 and \
              extendedprice >= 104500",
        ranges: vec![
            (column::QUANTITY, 5000, 5000),
            (column::DISCOUNT, 10, 10),
            (column::TAX, 8, 8),
            (column::EXTENDEDPRICE, 10_450_000, i64::MAX.into()),
        ],
        wanted: Wanted::Rows { columns: (0..column::COUNT).collect() },
    }
}

fn top() -> Question {
    Question {
        name: "top",
        what: "10 highest prices",
        sql: "select extendedprice, orderkey, shipdate from lineitem order by extendedprice desc, \
              orderkey, shipdate limit 10",
        ranges: Vec::new(),
        wanted: Wanted::Greatest {
            columns: vec![column::EXTENDEDPRICE, column::ORDERKEY, column::SHIPDATE],
            count: 10,
        },
    }
}

impl Question {
    /// The scan with offload: filters, sums, and skips what cannot be
    /// among the greatest.
    pub(crate) fn offloaded(&self, scan: &Scanned<'_>, best: &Arc<Best>) -> Request {
        let test = |&(column, low, high): &(usize, i128, i128)| Predicate::Test {
            column,
            test: Test::Numbers(low, high),
        };
        let conjuncts = self.ranges.iter().map(test).collect();
        let request = scan.request(conjuncts, self.output());
        match &self.wanted {
            Wanted::Greatest { columns, .. } => {
                let live = Arc::clone(best) as Arc<dyn DynamicFilter>;
                Request { live: vec![live], first: Some((columns[0], true)), ..request }
            }
            _ => request,
        }
    }

    /// The scan without offload: all rows of the columns in the query.
    pub(crate) fn plain(&self, scan: &Scanned<'_>) -> Request {
        let columns = self.columns();
        let schema = table::schema(&columns);
        scan.request(Vec::new(), Output::Rows { columns, schema })
    }

    fn output(&self) -> Output {
        match &self.wanted {
            Wanted::Groups { keys, sums } => {
                let function = |sum: &Sum| match sum {
                    Sum::Rows => AggregateFunction::Rows,
                    Sum::Of(expr) => AggregateFunction::Sum(expr.clone()),
                };
                let functions = sums.iter().map(function).collect();
                let whole = table::schema(&(0..column::COUNT).collect::<Vec<_>>());
                Output::Groups(Aggregate { keys: keys.clone(), functions }, whole)
            }
            Wanted::Rows { columns } | Wanted::Greatest { columns, .. } => {
                Output::Rows { columns: columns.clone(), schema: table::schema(columns) }
            }
        }
    }

    /// The numbers of the columns that it names. For a count of all matching rows: those of the filter.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns: std::collections::BTreeSet<usize> =
            self.ranges.iter().map(|(column, ..)| *column).collect();
        match &self.wanted {
            Wanted::Groups { keys, sums } => {
                columns.extend(keys);
                for sum in sums {
                    if let Sum::Of(expr) = sum {
                        expr.columns(&mut columns);
                    }
                }
            }
            Wanted::Rows { columns: own } | Wanted::Greatest { columns: own, .. } => {
                columns.extend(own);
            }
        }
        columns.into_iter().collect()
    }

    /// The initial bound for the greatest rows.
    pub(crate) fn best(&self) -> Arc<Best> {
        let (column, count) = match &self.wanted {
            Wanted::Greatest { columns, count } => (columns[0], *count),
            _ => (0, 0),
        };
        Arc::new(Best { column, count, rows: Mutex::default(), generation: AtomicU64::new(0) })
    }
}

/// The scan's table and method.
pub(crate) struct Scanned<'a> {
    pub(crate) segment: &'a Arc<Segment>,
    pub(crate) depth: usize,
    pub(crate) session: Session,
}

impl Scanned<'_> {
    fn request(&self, conjuncts: Vec<Predicate>, output: Output) -> Request {
        Request {
            segments: vec![Arc::clone(self.segment)],
            conjuncts,
            residual: None,
            live: Vec::new(),
            output,
            limit: None,
            first: None,
            ordered: false,
            depth: self.depth,
            waits: Some((self.session.clone(), Event::CELL_SMART_TABLE_SCAN)),
        }
    }
}

/// The greatest rows so far, shared by all workers of a scan; rows below the least of them
/// are no longer needed.
#[derive(Debug)]
pub(crate) struct Best {
    column: usize,
    count: usize,
    /// Ordered: the first number descending, the others ascending.
    rows: Mutex<Vec<Row>>,
    generation: AtomicU64,
}

fn number(row: &Row) -> i128 {
    row.first().and_then(Option::as_ref).and_then(Value::number).unwrap_or(i128::MIN)
}

impl Best {
    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn least_of(&self, rows: &[Row]) -> Option<i128> {
        rows.get(self.count.checked_sub(1)?).map(number)
    }

    /// The minimum that a row must have.
    pub(crate) fn least(&self) -> Option<i128> {
        self.least_of(&self.rows())
    }

    /// Adds candidate rows.
    pub(crate) fn take(&self, new: Vec<Row>) {
        if new.is_empty() {
            return;
        }
        let mut rows = self.rows();
        let before = self.least_of(&rows);
        rows.extend(new);
        rows.sort_by(|a, b| number(b).cmp(&number(a)).then_with(|| a[1..].cmp(&b[1..])));
        rows.truncate(self.count);
        if self.least_of(&rows) != before {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The greatest rows, after all were seen.
    pub(crate) fn finish(&self) -> Vec<Row> {
        std::mem::take(&mut *self.rows())
    }
}

impl DynamicFilter for Best {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn predicates(&self) -> Vec<Predicate> {
        let ask = |least| Predicate::Test {
            column: self.column,
            test: Test::Numbers(least, i64::MAX.into()),
        };
        self.least().map(ask).into_iter().collect()
    }

    fn columns(&self) -> Vec<usize> {
        vec![self.column]
    }
}
