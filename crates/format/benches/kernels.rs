//! Benchmark of the kernels on one core, on blocks with the values of lineitem's columns: the scans of
//! TPC-H's queries 6 and 1, a count over a range of dates, a sum.
//!
//! `cargo bench -p cellar-format --bench kernels --profile release`

#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the clock")]

use std::hint::black_box;
use std::time::Instant;

use bytemuck::cast_slice;
use cellar_format::bits::{BLOCK, Lane, pack, packed_bytes, width_of};
use cellar_format::kernel::{
    Mask, count, keep_packed, keep_range, multiply_to_i64, multiply_u32, of_group, sum, sum_i64,
    unpack,
};

/// Number of rows; the same as for the published figures.
const ROWS: usize = 20_000_000 / BLOCK * BLOCK;
const ROUNDS: usize = 7;

struct Column {
    bytes: Vec<u64>,
    width: usize,
}

/// Numbers from `base` on, `of` of them, uniformly distributed.
fn column<T: Lane>(of: u64, seed: u64) -> Column {
    let width = width_of(of - 1);
    let mut state = seed;
    let mut bytes = Vec::with_capacity(ROWS * width / 64);
    for _ in 0..ROWS / BLOCK {
        let mut numbers = [T::default(); BLOCK];
        for number in &mut numbers {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *number = T::of(((state >> 33) * of) >> 31);
        }
        let mut packed = vec![T::default(); packed_bytes(width) / size_of::<T>()];
        pack(&numbers, width, &mut packed);
        bytes.extend_from_slice(cast_slice(&packed));
    }
    Column { bytes, width }
}

impl Column {
    fn block<T: Lane>(&self, i: usize) -> &[T] {
        let bytes = packed_bytes(self.width) / 8;
        cast_slice(&self.bytes[i * bytes..][..bytes])
    }
}

impl Column {
    /// Unpacks a block, and keeps those from `low` to `low + span`.
    fn keep_range<T: Lane>(
        &self,
        i: usize,
        (low, span): (u64, u64),
        out: &mut [T; BLOCK],
        mask: &mut Mask,
    ) {
        unpack(self.block(i), self.width, out);
        keep_range(out, T::of(low), T::of(span), mask);
    }
}

fn measure(name: &str, published: f64, mut run: impl FnMut() -> u64) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        black_box(run());
        best = best.min(began.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "{name:40} {best:8.1} ms   {:6.2} ns a row   (trial code: {published} ms)",
        best * 1e6 / ROWS as f64
    );
}

/// The columns of lineitem that these queries read.
struct Lineitem {
    shipdate: Column,
    discount: Column,
    quantity: Column,
    price: Column,
    tax: Column,
    flag: Column,
}

impl Lineitem {
    fn new() -> Lineitem {
        Lineitem {
            shipdate: column::<u16>(2526, 1),
            discount: column::<u8>(11, 2),
            quantity: column::<u8>(50, 3),
            price: column::<u32>(10_000_000, 4),
            tax: column::<u8>(9, 5),
            flag: column::<u8>(6, 6),
        }
    }
}

fn count_of_a_year(table: &Lineitem) {
    let Lineitem { shipdate, .. } = table;
    measure("count of a year", 2.9, || {
        let (mut dates, mut all) = ([0u16; BLOCK], 0);
        for i in 0..ROWS / BLOCK {
            let mut mask: Mask = [0xff; BLOCK];
            shipdate.keep_range(i, (700, 364), &mut dates, &mut mask);
            all += count(&mask);
        }
        all as u64
    });
}

fn count_of_a_year_packed(table: &Lineitem) {
    let Lineitem { shipdate, .. } = table;
    measure("the same, still packed", 2.9, || {
        let mut all = 0;
        for i in 0..ROWS / BLOCK {
            let mut mask: Mask = [0xff; BLOCK];
            keep_packed(shipdate.block(i), shipdate.width, 700u16, 364, &mut mask);
            all += count(&mask);
        }
        all as u64
    });
}

fn key_packed(table: &Lineitem) {
    let Lineitem { price, .. } = table;
    measure("one price of 32 bits, still packed", 4.8, || {
        let mut all = 0;
        for i in 0..ROWS / BLOCK {
            let mut mask: Mask = [0xff; BLOCK];
            keep_packed(price.block(i), price.width, 70_000u32, 0, &mut mask);
            all += count(&mask);
        }
        all as u64
    });
}

fn sum_of_a_price(table: &Lineitem) {
    let Lineitem { price, .. } = table;
    measure("sum of a price", 8.5, || {
        let (mut prices, mut all) = ([0u32; BLOCK], 0);
        for i in 0..ROWS / BLOCK {
            unpack(price.block(i), price.width, &mut prices);
            all += sum(&prices, &[0xff; BLOCK]);
        }
        all
    });
}

fn query_6(table: &Lineitem) {
    let Lineitem { shipdate, discount, quantity, price, .. } = table;
    measure("query 6", 25.0, || {
        let (mut dates, mut discounts, mut quantities) =
            ([0u16; BLOCK], [0u8; BLOCK], [0u8; BLOCK]);
        let (mut prices, mut products, mut all) = ([0u32; BLOCK], [0u32; BLOCK], 0);
        for i in 0..ROWS / BLOCK {
            let mut mask: Mask = [0xff; BLOCK];
            shipdate.keep_range(i, (700, 364), &mut dates, &mut mask);
            discount.keep_range(i, (5, 2), &mut discounts, &mut mask);
            unpack(quantity.block(i), quantity.width, &mut quantities);
            keep_range(&quantities, 0, 22, &mut mask);
            if count(&mask) == 0 {
                continue;
            }
            unpack(price.block(i), price.width, &mut prices);
            multiply_u32(&prices, 90_000, &discounts, 0, &mut products);
            all += sum(&products, &mask);
        }
        all
    });
}

fn query_1(table: &Lineitem) {
    let Lineitem { shipdate, discount, quantity, price, tax, flag } = table;
    measure("query 1", 67.0, || {
        let (mut dates, mut discounts, mut taxes) = ([0u16; BLOCK], [0u8; BLOCK], [0u8; BLOCK]);
        let (mut quantities, mut flags, mut own) = ([0u8; BLOCK], [0u8; BLOCK], [0u8; BLOCK]);
        let (mut prices, mut after) = ([0u32; BLOCK], [0u32; BLOCK]);
        let (mut charges, mut all) = ([0i64; BLOCK], 0u64);
        for i in 0..ROWS / BLOCK {
            let mut mask: Mask = [0xff; BLOCK];
            shipdate.keep_range(i, (0, 2430), &mut dates, &mut mask);
            unpack(discount.block(i), discount.width, &mut discounts);
            unpack(tax.block(i), tax.width, &mut taxes);
            unpack(quantity.block(i), quantity.width, &mut quantities);
            unpack(flag.block(i), flag.width, &mut flags);
            unpack(price.block(i), price.width, &mut prices);
            multiply_u32(&prices, 90_000, &discounts, 90, &mut after);
            multiply_to_i64(&after, 0, &taxes, 100, &mut charges);
            for group in 0..6u8 {
                of_group(&flags, group, &mask, &mut own);
                all = all.wrapping_add(sum(&prices, &own));
                all = all.wrapping_add(sum(&after, &own));
                all = all.wrapping_add(sum(&quantities, &own));
                all = all.wrapping_add(sum(&discounts, &own));
                all = all.wrapping_add(sum_i64(&charges, &own) as u64);
                all = all.wrapping_add(count(&own) as u64);
            }
        }
        all
    });
}

fn main() {
    let table = Lineitem::new();
    count_of_a_year(&table);
    count_of_a_year_packed(&table);
    key_packed(&table);
    sum_of_a_price(&table);
    query_6(&table);
    query_1(&table);
}
