//! The analysis of a column of whole numbers, and its encoding.

use super::{ENTRY, patch_bytes};
use crate::bits::{BLOCK, width_of};
use crate::ints::{Head, align, base_and_lane, block_bytes, lane_of, of_lane, pack_block};

/// One row of so many may be patched.
const RARE: usize = 16;
/// Of neighbours that are in order one of so many may not be.
const UNSORTED: usize = 32;
/// The least step is one that so many, of all, are not below, or the very least.
const LEAST: usize = 64;
/// Rows of a block that are looked at before all are.
const SAMPLE: usize = 64;

/// How a block is to be packed.
struct Plan {
    /// Bits of the largest code, and of what is packed.
    width: usize,
    packed: usize,
    patches: usize,
    /// The least step, if steps are packed.
    least: Option<u64>,
    bytes: usize,
}

impl Plan {
    /// Plain codes.
    fn plain(width: usize, lane: u8, rows: usize) -> Plan {
        let bytes = block_bytes(rows, width, lane);
        Plan { width, packed: width, patches: 0, least: None, bytes }
    }

    /// The bit width that takes fewest bytes for the values to be packed, if those are fewer than
    /// for `self`.
    fn or(self, lane: u8, rows: usize, values: impl Iterator<Item = u64>) -> Plan {
        let mut widths = [0usize; 65];
        values.for_each(|value| widths[width_of(value)] += 1);
        let (mut best, mut patches) = (self, 0);
        for packed in (0..=64).rev() {
            if packed <= usize::from(lane) && patches <= rows / RARE {
                let bytes = block_bytes(rows, packed, lane) + patch_bytes(patches, lane);
                if bytes < best.bytes {
                    best = Plan { packed, patches, bytes, ..best };
                }
            }
            patches += widths[packed];
        }
        best
    }

    /// Of the codes of a block, less the smallest of them.
    fn of(codes: &[u64], width: usize, lane: u8) -> Plan {
        let rows = codes.len();
        let plain = Plan::plain(width, lane, rows);
        if width < 2 {
            return plain;
        }
        let rare = has_rare(codes, |code| code, width);
        let values = codes.iter().copied();
        let mut best = if rare { plain.or(lane, rows, values) } else { plain };
        if !has_order(codes) {
            return best;
        }
        let mut steps: Vec<i64> = steps_of(codes).map(|step| step as i64).collect();
        let Some(very_least) = steps.iter().copied().min() else { return best };
        let rank = steps.len() / LEAST;
        let (_, usual, _) = steps.select_nth_unstable(rank);
        for least in [very_least, *usual].map(|least| least as u64) {
            // Steps take longer to unpack.
            let most = best.bytes - best.bytes / 5;
            let none = Plan { width, packed: 64, patches: 0, least: Some(least), bytes: most };
            let plan = none.or(lane, rows, above_least(codes, least, lane));
            if plan.bytes < most {
                best = plan;
            }
        }
        best
    }
}

/// Whether nearly all values above `base` would fit a quarter of the bits.
fn has_rare<T: Copy>(values: &[T], above: impl Fn(T) -> u64, width: usize) -> bool {
    let is_large = |value: &&T| above(**value) >> width.saturating_sub(2) != 0;
    let part = values.iter().step_by(values.len().div_ceil(SAMPLE)).filter(is_large).count();
    part <= SAMPLE / RARE * 2 && values.iter().filter(is_large).count() <= values.len() / RARE
}

/// Whether nearly all neighbours are in order, up or down.
fn has_order<T: Copy + Ord>(values: &[T]) -> bool {
    let is_so = |values: &[T]| {
        let down = values.windows(2).filter(|pair| pair[1] < pair[0]).count();
        let up = values.windows(2).filter(|pair| pair[1] > pair[0]).count();
        down.min(up) <= values.len() / UNSORTED
    };
    is_so(&values[..values.len().min(SAMPLE)]) && is_so(values)
}

/// The difference of each code but the first from the one before it.
fn steps_of(codes: &[u64]) -> impl Iterator<Item = u64> {
    codes.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]))
}

/// What is packed of steps: of the first row none.
fn above_least(codes: &[u64], least: u64, lane: u8) -> impl Iterator<Item = u64> {
    let mask = u64::MAX >> (64 - lane);
    std::iter::once(0).chain(steps_of(codes).map(move |step| step.wrapping_sub(least) & mask))
}

/// Divisibility by a number, tested with products, which are faster than divisions.
#[derive(Clone, Copy)]
struct Divisor {
    number: u64,
    /// Its odd part times this is 1, modulo 2^64.
    inverse: u64,
    zeros: u32,
    most: u64,
}

impl Divisor {
    fn new(number: u64) -> Divisor {
        let zeros = number.trailing_zeros();
        let odd = number >> zeros;
        // Each turn doubles the bits that are right, of which the odd number itself has three.
        let better =
            |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        let inverse = (0..5).fold(odd, better);
        Divisor { number, inverse, zeros, most: u64::MAX / odd }
    }

    #[inline(always)]
    fn divides(self, number: u64) -> bool {
        let odd = number >> self.zeros;
        odd << self.zeros == number && odd.wrapping_mul(self.inverse) <= self.most
    }

    /// A multiple of it, divided.
    #[inline(always)]
    fn of(self, multiple: u64) -> u64 {
        (multiple >> self.zeros).wrapping_mul(self.inverse)
    }

    /// The greatest that divides what all numbers are above `base`; 1 if they are all the same.
    fn greatest(numbers: &[i64], base: i64) -> Divisor {
        let mut common: Option<Divisor> = None;
        for number in numbers {
            let mut above = number.wrapping_sub(base) as u64;
            if above == 0 || common.is_some_and(|common| common.divides(above)) {
                continue;
            }
            let mut greatest = common.map_or(0, |common| common.number);
            while above != 0 {
                (greatest, above) = (above, greatest % above);
            }
            common = Some(Divisor::new(greatest));
            if greatest == 1 {
                break;
            }
        }
        common.unwrap_or(Divisor::new(1))
    }
}

/// Whether a look at one block suggests that it may pay off.
fn may_fit(numbers: &[i64], range: &(i64, i64)) -> bool {
    let above = |number: i64| number.wrapping_sub(range.0) as u64;
    let width = width_of(above(range.1));
    width > 1 && (has_order(numbers) || has_rare(numbers, above, width))
}

/// Encodes a column whose blocks have these ranges, if that is worth it.
pub fn encode(numbers: &[i64], ranges: &[(i64, i64)]) -> Option<Vec<u8>> {
    let (base, plain_lane) = base_and_lane(ranges);
    let factor = Divisor::greatest(numbers, base);
    let blocks = || numbers.chunks(BLOCK).zip(ranges);
    if factor.number == 1 && !blocks().any(|(numbers, range)| may_fit(numbers, range)) {
        return None;
    }
    let code = |number: i64| factor.of(number.wrapping_sub(base) as u64);
    let width = |range: &(i64, i64)| width_of(code(range.1) - code(range.0));
    let lane = lane_of(ranges.iter().map(width).max().unwrap_or(0));
    let mut codes: Vec<u64> = Vec::with_capacity(numbers.len());
    for (numbers, range) in blocks() {
        let low = code(range.0);
        codes.extend(numbers.iter().map(|number| code(*number) - low));
    }
    let plan = |(codes, range)| Plan::of(codes, width(range), lane);
    let plans: Vec<Plan> = codes.chunks(BLOCK).zip(ranges).map(plan).collect();
    let fitted: usize = plans.iter().map(|plan| plan.bytes + ENTRY).sum();
    let plain = blocks().map(|(numbers, (low, high))| {
        block_bytes(numbers.len(), width_of(high.wrapping_sub(*low) as u64), plain_lane)
    });
    // A short column saves nothing, because every column has its header.
    if fitted + fitted / 7 + 256 > plain.sum() {
        return None;
    }
    let mut out = Head { base, rows: numbers.len(), lane }.write();
    out[16..24].copy_from_slice(&factor.number.to_le_bytes());
    for ((codes, range), plan) in codes.chunks(BLOCK).zip(ranges).zip(&plans) {
        write_entry(code(range.0), codes, plan, &mut out);
    }
    align(&mut out);
    for (codes, plan) in codes.chunks_mut(BLOCK).zip(&plans) {
        write_block(codes, plan, lane, &mut out);
    }
    Some(out)
}

/// What is said of a block.
fn write_entry(low: u64, codes: &[u64], plan: &Plan, out: &mut Vec<u8>) {
    let first = plan.least.map_or(0, |_| codes[0]);
    for number in [low, first, plan.least.unwrap_or(0)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let how = u8::from(plan.least.is_some());
    out.extend_from_slice(&[plan.width as u8, plan.packed as u8, how, 0]);
    out.extend_from_slice(&(plan.patches as u32).to_le_bytes());
}

/// Packs a block; of what is patched, zeros.
fn write_block(codes: &mut [u64], plan: &Plan, lane: u8, out: &mut Vec<u8>) {
    if let Some(least) = plan.least {
        let steps: Vec<u64> = above_least(codes, least, lane).collect();
        codes.copy_from_slice(&steps);
    }
    let (mut places, mut patches) = (Vec::new(), Vec::new());
    for (place, code) in codes.iter_mut().enumerate().filter(|_| plan.patches > 0) {
        if width_of(*code) > plan.packed {
            places.extend_from_slice(&(place as u16).to_le_bytes());
            patches.extend_from_slice(&code.to_le_bytes()[..usize::from(lane / 8)]);
            *code = 0;
        }
    }
    of_lane!(lane, T => pack_block::<T>(codes.iter().copied(), plan.packed, out));
    let end = out.len() + patch_bytes(plan.patches, lane);
    out.extend_from_slice(&places);
    out.extend_from_slice(&patches);
    out.resize(end, 0);
}
