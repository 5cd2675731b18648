//! Benchmark of TPC-H's lineitem in row groups: the size and encoding of each column, the space lost
//! between them, and the speed of encoding, of decoding, and of queries 1 and 6, on one core.
//!
//! `cargo bench -p cellar-format --bench lineitem --profile release -- [scale] [bare]`: `bare` is without
//! comments.

#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, StringArray};
use bytemuck::{cast_slice, cast_slice_mut};
use cellar_format::bits::BLOCK;
use cellar_format::from_arrow::column_type;
use cellar_format::group::{self, rows_to_try};
use cellar_format::header::REGION;
use cellar_format::{
    Aggregate, AggregateFunction, Encoded, Expr, Filter, Groups, Header, Owner, Predicate,
    Prepared, Refused, Rows, Test, array_of,
};
use tpchgen::generators::{LineItem, LineItemGenerator};

const OWNER: Owner = Owner { table: 7, segment: 9 };
/// Row groups that are kept for repeated reading.
const KEPT: usize = 48;
const ROUNDS: usize = 9;
/// Rows that are generated at once, and encoded as row groups.
const PIECE: usize = 1 << 19;

const NAMES: [&str; 16] = [
    "l_orderkey",
    "l_partkey",
    "l_suppkey",
    "l_linenumber",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_returnflag",
    "l_linestatus",
    "l_shipdate",
    "l_commitdate",
    "l_receiptdate",
    "l_shipinstruct",
    "l_shipmode",
    "l_comment",
];
const QUANTITY: usize = 4;
const PRICE: usize = 5;
const DISCOUNT: usize = 6;
const TAX: usize = 7;
const SHIPDATE: usize = 10;

/// Columns of some rows, as in a load.
fn arrays(rows: &[LineItem<'_>], bare: bool) -> Vec<ArrayRef> {
    let ints = |of: fn(&LineItem<'_>) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let money = |of: fn(&LineItem<'_>) -> i64| -> ArrayRef {
        let all = Decimal128Array::from_iter_values(rows.iter().map(|row| of(row).into()));
        Arc::new(all.with_precision_and_scale(15, 2).expect("such a decimal"))
    };
    let dates = |of: fn(&LineItem<'_>) -> i32| -> ArrayRef {
        Arc::new(Date32Array::from_iter_values(rows.iter().map(of)))
    };
    let mut all = vec![
        ints(|row| row.l_orderkey),
        ints(|row| row.l_partkey),
        ints(|row| row.l_suppkey),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.l_linenumber))),
        money(|row| row.l_quantity * 100),
        money(|row| row.l_extendedprice.into_inner()),
        money(|row| row.l_discount.into_inner()),
        money(|row| row.l_tax.into_inner()),
        strings(rows, |row| row.l_returnflag),
        strings(rows, |row| row.l_linestatus),
        dates(|row| row.l_shipdate.to_unix_epoch()),
        dates(|row| row.l_commitdate.to_unix_epoch()),
        dates(|row| row.l_receiptdate.to_unix_epoch()),
        strings(rows, |row| row.l_shipinstruct),
        strings(rows, |row| row.l_shipmode),
    ];
    if !bare {
        all.push(strings(rows, |row| row.l_comment));
    }
    all
}

fn strings<'a>(rows: &'a [LineItem<'a>], of: impl Fn(&'a LineItem<'a>) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
}

/// Row groups as a load cuts them.
struct Load {
    groups: usize,
    rows: usize,
    used: usize,
    refused: usize,
    target: usize,
    took: Duration,
    columns: Vec<Column>,
    kept: Vec<(Header, Vec<u64>)>,
}

#[derive(Default)]
struct Column {
    encodings: BTreeMap<String, usize>,
    bytes: usize,
    took: Duration,
}

impl Load {
    fn slice(arrays: &[ArrayRef], from: usize, rows: usize) -> Vec<ArrayRef> {
        arrays.iter().map(|array| array.slice(from, rows)).collect()
    }

    fn add(&mut self, arrays: &[ArrayRef]) {
        let rows = arrays[0].len();
        let began = Instant::now();
        let encoded = group::encode(arrays, OWNER);
        self.took += began.elapsed();
        match encoded {
            Ok(encoded) => {
                let used = encoded.header().used as usize;
                self.target = rows_to_try(rows, used, arrays.len());
                self.count(encoded);
            }
            Err(Refused::TooLarge { bytes, most }) => {
                self.refused += 1;
                self.target = rows_to_try(rows, bytes, arrays.len());
                let parts =
                    (bytes.div_ceil(most) + usize::from(bytes % most > most / 10 * 9)).max(2);
                let each = rows.div_ceil(parts);
                for start in (0..rows).step_by(each) {
                    self.add(&Load::slice(arrays, start, each.min(rows - start)));
                }
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn count(&mut self, encoded: Encoded) {
        let began = Instant::now();
        let (header, bytes) = encoded.place(self.groups as u64, self.rows as u64);
        self.took += began.elapsed();
        self.groups += 1;
        self.rows += header.rows as usize;
        self.used += header.used as usize;
        for (column, entry) in self.columns.iter_mut().zip(&header.entries) {
            column.bytes += entry.length as usize;
            *column.encodings.entry(format!("{:?}", entry.encoding)).or_default() += 1;
        }
        if self.kept.len() < KEPT {
            let mut words = vec![0u64; bytes.len().div_ceil(8)];
            cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
            self.kept.push((header, words));
        }
    }

    fn all(scale: f64, bare: bool) -> Load {
        let columns = NAMES.len() - usize::from(bare);
        let mut load = Load {
            groups: 0,
            rows: 0,
            used: 0,
            refused: 0,
            target: 32 * 1024,
            took: Duration::ZERO,
            columns: (0..columns).map(|_| Column::default()).collect(),
            kept: Vec::new(),
        };
        let generator = LineItemGenerator::new(scale, 1, 1);
        let mut rows = generator.iter();
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            let last = piece.len();
            piece.extend(rows.by_ref().take(PIECE - last));
            if piece.len() == last {
                break;
            }
            let arrays = arrays(&piece, bare);
            let whole = piece.len() < PIECE;
            let mut at = 0;
            while piece.len() - at >= load.target || (whole && at < piece.len()) {
                let count = load.target.min(piece.len() - at);
                load.add(&Load::slice(&arrays, at, count));
                at += count;
            }
            piece.drain(..at);
        }
        load
    }

    fn print(&mut self) {
        let (rows, groups) = (self.rows as f64, self.groups);
        println!("{:16} {:>10} {:>9} {:>10}  encoding", "column", "bytes", "bits/row", "give out");
        self.next_batch();
        for (column, name) in self.columns.iter().zip(NAMES) {
            println!(
                "{name:16} {:10} {:9.2} {:7.2} ns  {:?}",
                column.bytes,
                column.bytes as f64 * 8.0 / rows,
                column.took.as_secs_f64() * 1e9 / self.kept_rows() as f64,
                column.encodings,
            );
        }
        let bytes: usize = self.columns.iter().map(|column| column.bytes).sum();
        let headers = groups * cellar_format::header::header_bytes(self.columns.len());
        let tails = groups * REGION - self.used;
        println!(
            "columns {bytes}, headers {headers}, between columns {}, tails {tails}, refused {}",
            self.used - bytes - headers,
            self.refused
        );
        let mb = self.took.as_secs_f64();
        println!(
            "{} rows, {groups} row groups, {:.2} MB; encoded in {:.2} s: {:.0} ns a row",
            self.rows,
            (groups * REGION) as f64 / 1e6,
            mb,
            mb * 1e9 / rows
        );
    }

    fn kept_rows(&self) -> usize {
        self.kept.iter().map(|(header, _)| header.rows as usize).sum()
    }

    fn next_batch(&mut self) {
        for at in 0..self.columns.len() {
            let run = || {
                for (header, words) in &self.kept {
                    let columns = taken_up(header, words, &[at]);
                    let column = columns[at].as_ref().expect("it is taken up");
                    let rows = Rows::All(header.rows as usize);
                    let own = type_of(at);
                    black_box(array_of(column, &rows, &own).expect("it is whole"));
                }
            };
            self.columns[at].took = best(run);
        }
    }
}

fn type_of(column: usize) -> arrow_schema::DataType {
    use arrow_schema::DataType::*;
    match column {
        0..=2 => Int64,
        3 => Int32,
        4..=7 => Decimal128(15, 2),
        10..=12 => Date32,
        _ => column_type(&Utf8).expect("a column"),
    }
}

fn best(mut run: impl FnMut()) -> Duration {
    let round = |_| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    (0..ROUNDS).map(round).min().expect("some rounds")
}

fn taken_up<'w>(
    header: &Header,
    words: &'w [u64],
    wanted: &[usize],
) -> Vec<Option<cellar_format::Column<'w>>> {
    let bytes: &[u8] = cast_slice(words);
    let all = header.entries.iter().enumerate();
    all.map(|(at, entry)| {
        let own = &bytes[entry.offset as usize..][..entry.length as usize];
        let column = || group::column(header, at, own, false).expect("it is whole");
        wanted.contains(&at).then(column)
    })
    .collect()
}

/// Queries all kept row groups, as a worker of a scan does.
fn ask(name: &str, load: &Load, conjuncts: &[Predicate], aggregate: &Aggregate, wanted: &[usize]) {
    let mut groups = Groups::new();
    let took = best(|| {
        groups.clear();
        for (header, words) in &load.kept {
            let columns = taken_up(header, words, wanted);
            let mut filter = Filter::new(conjuncts, header, &columns, &[]).expect("a filter");
            let mut ready = Prepared::new(aggregate, header, &columns).expect("an aggregation");
            let mut mask = [0; BLOCK];
            for block in 0..header.blocks() {
                let count = filter.block(block, &mut mask).expect("a block");
                ready.block(block, &mask, count).expect("a block");
            }
            ready.finish(aggregate, &mut groups);
        }
    });
    let rows = load.kept_rows() as f64;
    println!("{name:16} {:7.3} ns a row", took.as_secs_f64() * 1e9 / rows);
}

fn numbers(column: usize, low: i128, high: i128) -> Predicate {
    Predicate::Test { column, test: Test::Numbers(low, high) }
}

fn queries(load: &Load) {
    let column = |at| Box::new(Expr::Column(at));
    let one = || Box::new(Expr::Constant(100));
    let revenue = Expr::Mul(column(PRICE), column(DISCOUNT));
    let sixth = [
        numbers(SHIPDATE, 8766, 9130),
        numbers(DISCOUNT, 5, 7),
        numbers(QUANTITY, i128::MIN, 2399),
    ];
    let sum = Aggregate { keys: vec![], functions: vec![AggregateFunction::Sum(revenue)] };
    ask("query 6", load, &sixth, &sum, &[QUANTITY, PRICE, DISCOUNT, SHIPDATE]);
    let after = Expr::Mul(column(PRICE), Box::new(Expr::Sub(one(), column(DISCOUNT))));
    let charge = Expr::Mul(Box::new(after.clone()), Box::new(Expr::Add(one(), column(TAX))));
    let functions = vec![
        AggregateFunction::Sum(*column(QUANTITY)),
        AggregateFunction::Sum(*column(PRICE)),
        AggregateFunction::Sum(after),
        AggregateFunction::Sum(charge),
        AggregateFunction::Sum(*column(DISCOUNT)),
        AggregateFunction::Rows,
    ];
    let first = Aggregate { keys: vec![8, 9], functions };
    let wanted = [QUANTITY, PRICE, DISCOUNT, TAX, 8, 9, SHIPDATE];
    ask("query 1", load, &[numbers(SHIPDATE, i128::MIN, 10471)], &first, &wanted);
    let least = Aggregate {
        keys: vec![],
        functions: vec![AggregateFunction::Rows, AggregateFunction::Sum(Expr::Column(0))],
    };
    ask("range of orders", load, &[numbers(0, 1000, 2_000_000)], &least, &[0]);
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let scale = words.iter().find_map(|word| word.parse().ok()).unwrap_or(1.0);
    let mut load = Load::all(scale, words.iter().any(|word| word == "bare"));
    load.print();
    queries(&load);
}
