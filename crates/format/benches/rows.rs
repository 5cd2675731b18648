//! Benchmark of TPC-H's lineitem in rows of pages: writing rows, reading all or some of their columns, and
//! keys, in CPU time of one processor: other programs on it do not count.
//!
//! `cargo bench -p cellar-format --bench rows --profile release -- [rows]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch};
use arrow_array::{StringArray, StringViewArray};
use arrow_schema::Schema;
use cellar_format::rows::{KeyWriter, RowColumns, RowLayout, RowWriter};
use rustix::time::{ClockId, clock_gettime};
use tpchgen::generators::{LineItem, LineItemGenerator};

/// Rows of a result, as a scan has them.
const BATCH: usize = 8_192;
const ROUNDS: usize = 7;

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

/// Rows as a batch, its texts as views or not.
fn batch(rows: &[LineItem<'_>], views: bool) -> RecordBatch {
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
    let texts = |of: for<'a> fn(&LineItem<'a>) -> &'a str| -> ArrayRef {
        match views {
            true => Arc::new(StringViewArray::from_iter_values(rows.iter().map(of))),
            false => Arc::new(StringArray::from_iter_values(rows.iter().map(of))),
        }
    };
    let arrays: [ArrayRef; 16] = [
        ints(|row| row.l_orderkey),
        ints(|row| row.l_partkey),
        ints(|row| row.l_suppkey),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.l_linenumber))),
        money(|row| row.l_quantity * 100),
        money(|row| row.l_extendedprice.into_inner()),
        money(|row| row.l_discount.into_inner()),
        money(|row| row.l_tax.into_inner()),
        texts(|row| row.l_returnflag),
        texts(|row| row.l_linestatus),
        dates(|row| row.l_shipdate.to_unix_epoch()),
        dates(|row| row.l_commitdate.to_unix_epoch()),
        dates(|row| row.l_receiptdate.to_unix_epoch()),
        texts(|row| row.l_shipinstruct),
        texts(|row| row.l_shipmode),
        texts(|row| row.l_comment),
    ];
    RecordBatch::try_from_iter(NAMES.into_iter().zip(arrays)).expect("equally long")
}

/// CPU time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The shortest of some rounds, as rows and bytes a second.
fn measure(what: &str, rows: usize, bytes: usize, mut run: impl FnMut()) {
    let rounds = (0..ROUNDS).map(|_| {
        let start = now();
        run();
        now() - start
    });
    let took = rounds.min().expect("some rounds").as_secs_f64();
    let (rows, nanos) = (rows as f64, 1e9 * took / rows as f64);
    println!(
        "{what:<44} {nanos:>7.1} ns/row {:>7.2} M rows/s {:>6.2} GB/s",
        rows / took / 1e6,
        bytes as f64 / took / 1e9
    );
}

fn main() {
    let count = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(200_000);
    let items: Vec<LineItem<'_>> =
        LineItemGenerator::new(1.0, 1, 1).into_iter().take(count).collect();
    for views in [false, true] {
        let batches: Vec<RecordBatch> =
            items.chunks(BATCH).map(|part| batch(part, views)).collect();
        let schema: &Schema = &batches[0].schema();
        let layout = RowLayout::of(schema).expect("rows have all of it");
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        write(&layout, &batches, &mut all, &mut ends);
        let bytes = all.len();
        println!(
            "{} rows of {} bytes, texts {}",
            items.len(),
            bytes / items.len(),
            match views {
                true => "as views",
                false => "as Utf8",
            }
        );
        measure("write", items.len(), bytes, || write(&layout, &batches, &mut all, &mut ends));
        let rows: Vec<&[u8]> = std::iter::once(&0)
            .chain(&ends)
            .zip(&ends)
            .map(|(from, to)| &all[*from..*to])
            .collect();
        let projections: [(&str, Vec<usize>); 6] = [
            ("read all 16 columns", (0..16).collect()),
            ("read the 11 without text", (0..8).chain(10..13).collect()),
            ("read quantity, price, discount, shipdate", vec![4, 5, 6, 10]),
            ("read orderkey", vec![0]),
            ("read comment", vec![15]),
            ("count", vec![]),
        ];
        for (what, projection) in projections {
            let mut columns = RowColumns::new(&layout, &projection).expect("they are there");
            measure(what, items.len(), bytes, || {
                for (part, wanted) in rows.chunks(BATCH).zip(&batches) {
                    part.iter().for_each(|row| columns.push(row, &[]).expect("as it was written"));
                    let found = columns.finish_batch().expect("as it was written");
                    assert_eq!(found.num_rows(), wanted.num_rows());
                    black_box(found);
                }
            });
        }
        for (what, index) in [
            ("key of orderkey, linenumber", &[(0, false), (3, false)][..]),
            ("key of shipdate descending", &[(10, true)]),
            ("key of comment", &[(15, false)]),
        ] {
            let keys = KeyWriter::new(&layout, index).expect("they are there");
            let mut key = Vec::new();
            measure(what, items.len(), bytes, || {
                for row in &rows {
                    key.clear();
                    keys.key(row, &mut key).expect("as it was written");
                    black_box(&key);
                }
            });
        }
    }
}

fn write(layout: &RowLayout, batches: &[RecordBatch], all: &mut Vec<u8>, ends: &mut Vec<usize>) {
    all.clear();
    ends.clear();
    for batch in batches {
        let writer = RowWriter::of(layout, batch).expect("a batch of the layout");
        for at in 0..writer.rows() {
            assert!(writer.long_values(at).is_empty());
            writer.write(at, &[], all).expect("nothing is long");
            ends.push(all.len());
        }
    }
}
