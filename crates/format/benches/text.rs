//! Benchmark of string columns on one core: speed of encoding and decoding, compression, and LIKE, on
//! comments like those of TPC-H's lineitem and orders, in columns as large as a row group's and larger.
//!
//! `cargo bench -p cellar-format --bench text --profile release`

#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

use std::hint::black_box;
use std::time::Instant;

use bytemuck::cast_slice;
use cellar_format::Like;
use cellar_format::text::{Packing, Strings, Text, encode};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};

const ROUNDS: usize = 7;

/// The best time of some rounds, in MB/s of `bytes`.
fn speed(bytes: usize, mut work: impl FnMut() -> usize) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(work());
        best = best.min(start.elapsed().as_secs_f64());
    }
    bytes as f64 / best / 1e6
}

fn measure(name: &str, comments: &[String]) {
    let strings: Vec<&[u8]> = comments.iter().map(String::as_bytes).collect();
    let plain: usize = strings.iter().map(|string| string.len()).sum();
    println!("{name}: {} rows, {plain} bytes", strings.len());
    for packing in [Some(Packing::Plain), Some(Packing::Fsst), Some(Packing::Zstd), None] {
        let bytes = encode(&strings, packing);
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        let text = Text::new(&cast_slice(&words)[..bytes.len()]).expect("a column");
        let mut out = Strings::default();
        let tenth = std::array::from_fn(|row| if row % 10 == 3 { 0xff } else { 0 });
        let encoding = speed(plain, || encode(&strings, packing).len());
        let decoding = speed(plain, || {
            let mut reader = text.reader();
            let blocks = 0..text.blocks();
            blocks.fold(0, |sum, block| {
                out.clear();
                reader.decode(block, &mut out).expect("a block");
                sum + out.bytes.len()
            })
        });
        let some = speed(plain, || {
            let mut reader = text.reader();
            let blocks = 0..text.blocks();
            blocks.fold(0, |sum, block| {
                out.clear();
                reader.decode_some(block, &tenth, &mut out).expect("a block");
                sum + out.bytes.len()
            })
        });
        println!(
            "  {:15} {:.3} of plain, encode {encoding:4.0} MB/s, read {decoding:5.0}, some {some:5.0}",
            packing
                .map_or(format!("chosen {:?}", text.packing()), |packing| format!("{packing:?}")),
            bytes.len() as f64 / plain as f64,
        );
    }
    for pattern in ["%special%requests%", "%express%", "furious%", "%_special%"] {
        let like = Like::new(pattern);
        let asked = speed(plain, || strings.iter().filter(|string| like.matches(string)).count());
        println!("  like {pattern:20} {asked:5.0} MB/s");
    }
}

fn main() {
    let comments = |rows| LineItemGenerator::new(1.0, 1, 1).iter().take(rows).map(|l| l.l_comment);
    let lineitem: Vec<String> = comments(400_000).map(str::to_owned).collect();
    measure("lineitem, a row group", &lineitem[..30_000]);
    measure("lineitem, long", &lineitem);
    let orders = OrderGenerator::new(1.0, 1, 1).iter().take(100_000);
    let orders: Vec<String> = orders.map(|o| o.o_comment.to_owned()).collect();
    measure("orders, a row group", &orders[..30_000]);
    measure("orders, long", &orders);
}
