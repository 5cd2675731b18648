//! Tests of patched-delta columns: they decode to what was encoded, and no bytes make them panic.

use bytemuck::cast_slice;
use proptest::prelude::*;

use super::encode;
use crate::bits::BLOCK;
use crate::ints::{Codes, Damage, Ints, each_lane, placed, ranges_of};
use crate::kernel::{self};

/// Numbers that fit one way or another.
fn numbers() -> impl Strategy<Value = Vec<i64>> {
    let factor = prop_oneof![Just(1i64), Just(100), Just(1 << 40), 1..1000i64, Just(i64::MAX / 9)];
    let base = prop_oneof![Just(0i64), Just(i64::MIN), Just(i64::MAX), any::<i64>()];
    let step = prop_oneof![Just(1i64), -3..100i64, Just(-1), Just(1 << 20)];
    let rows = prop_oneof![30..300usize, 1000..1100usize, 2000..5000usize];
    (factor, base, step, rows, 0..6usize, any::<u64>()).prop_map(
        |(factor, base, step, rows, shape, mut state)| {
            let mut chance = move || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state >> 33
            };
            let mut own = 0i64;
            let number = |row: usize| {
                let by_chance = chance();
                let odd = by_chance % 40 == 0;
                let code = match shape {
                    0 => (by_chance % 50) as i64,
                    1 | 2 => {
                        let more =
                            if odd { (by_chance >> 8) as i64 % 5000 - shape as i64 } else { 0 };
                        own = own.wrapping_add(step).wrapping_add(more);
                        own
                    }
                    3 => {
                        if odd {
                            by_chance as i64
                        } else {
                            (by_chance % 16) as i64
                        }
                    }
                    4 => row as i64 / 3 + if odd { -1 } else { 0 },
                    _ => (row as i64 / 1024).wrapping_mul(1 << 50) + (by_chance % 9) as i64,
                };
                base.wrapping_add(code.wrapping_mul(factor))
            };
            (0..rows).map(number).collect()
        },
    )
}

proptest! {
    #[test]
    fn what_is_fitted_is_decoded(
        numbers in numbers(), at in any::<prop::sample::Index>(), span in 0..63u32, down: bool, off in -3..4i64
    ) {
        let Some(bytes) = encode(&numbers, &ranges_of(&numbers)) else { return Ok(()) };
        let words = placed(&bytes);
        let column = Ints::patched_delta(&cast_slice(&words)[..bytes.len()]).expect("a column");
        prop_assert_eq!(column.rows(), numbers.len());
        let low = numbers[at.index(numbers.len())].saturating_add(off);
        let high = low.saturating_add((1i64 << span) - 1);
        let (low, high) = if down { (i64::MIN, low) } else { (low, high) };
        let mut codes = column.codes();
        for (block, numbers) in numbers.chunks(BLOCK).enumerate() {
            let mut out = [0; BLOCK];
            column.decode(block, &mut out);
            prop_assert_eq!(&out[..numbers.len()], numbers);
            let base = column.unpack_codes(block, &mut codes);
            each_lane!(&codes, codes => kernel::widen(codes, base, &mut out));
            prop_assert_eq!(&out[..numbers.len()], numbers);
            let mut mask = [0xff; BLOCK];
            column.keep_range(block, low, high, &mut mask);
            for (mask, number) in mask.iter().zip(numbers) {
                prop_assert_eq!(*mask == 0xff, (low..=high).contains(number), "{}", number);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        numbers in numbers(), turned in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9)
    ) {
        let Some(mut bytes) = encode(&numbers, &ranges_of(&numbers)) else { return Ok(()) };
        for (at, byte) in turned {
            // Where the header and what is said of the blocks is, rather than what is packed.
            let most = bytes.len().min(64 + 32 * numbers.len().div_ceil(BLOCK) + 40);
            bytes[at.index(most)] = byte;
        }
        let words = placed(&bytes);
        if let Ok(column) = Ints::patched_delta(&cast_slice(&words)[..bytes.len()]) {
            let mut codes = column.codes();
            for block in 0..column.blocks() {
                column.decode(block, &mut [0; BLOCK]);
                column.unpack_codes(block, &mut codes);
                column.keep_range(block, -5, 5, &mut [0xff; BLOCK]);
                column.keep_range(block, i64::MIN, i64::MAX - 1, &mut [0xff; BLOCK]);
            }
        }
    }
}

/// A column of these numbers, changed.
fn changed(numbers: &[i64], change: impl Fn(&mut Vec<u8>)) -> Result<(), Damage> {
    let mut bytes = encode(numbers, &ranges_of(numbers)).expect("a column that fits");
    change(&mut bytes);
    let words = placed(&bytes);
    Ints::patched_delta(&cast_slice(&words)[..bytes.len()]).map(|_| ())
}

#[test]
fn what_no_writer_says_is_refused() {
    let few: Vec<i64> = (0..1500).map(|row| row * row * 7919 % 61 * 100).collect();
    // Behind the entries of two blocks, at 128: 6 bits of each of 1,024 rows.
    let far = few.iter().enumerate();
    let far = far.map(|(row, few)| if row % 50 == 7 { 1 << 40 } else { *few });
    let far: Vec<i64> = far.collect();
    let keys: Vec<i64> = (0..1500).map(|row| row * 3 + row % 3).collect();
    for numbers in [&few, &far, &keys] {
        assert_eq!(changed(numbers, |_| ()), Ok(()));
    }
    let named =
        |name: &str, numbers: &[i64], change: &dyn Fn(&mut Vec<u8>)| match changed(numbers, change)
        {
            Err(Damage::Field { name: found, .. }) => assert_eq!(found, name),
            other => panic!("{name}: {other:?}, {}", numbers[7]),
        };
    named("factor of a column", &few, &|bytes| bytes[16..24].fill(0));
    named("bits of a block", &few, &|bytes| bytes[64 + 24] = 9);
    named("bits of a block", &few, &|bytes| bytes[64 + 25] = 9);
    named("bits of what is packed", &few, &|bytes| bytes[64 + 24] = 0);
    named("bits of what is packed", &few, &|bytes| bytes[96 + 24] = 7);
    named("patches of a block", &few, &|bytes| bytes[64 + 26] = 2);
    named("patches of a block", &keys, &|bytes| bytes[64 + 28..64 + 30].copy_from_slice(&[1, 4]));
    // The second block has 476 rows; its patches are the last bytes, filled up to 8.
    let patches = usize::from(far[1024..].iter().filter(|far| **far == 1 << 40).count() as u16);
    let places = |bytes: &[u8]| {
        let lane = usize::from(bytes[12]) / 8;
        bytes.len() - (patches * (2 + lane)).next_multiple_of(8)
    };
    named("bits of what is packed", &far, &|bytes| bytes[96 + 24] = 2);
    named("patch of a block", &far, &|bytes| bytes[96 + 24] = 20);
    for wrong in [[0xdc, 1], [0, 4], [0, 0]] {
        named("place of a patch", &far, &|bytes| {
            let second = places(bytes) + 2;
            bytes[second..second + 2].copy_from_slice(&wrong);
        });
    }
}

#[test]
fn codes_of_steps_are_never_beyond_what_filters_believe() {
    let keys: Vec<i64> = (0..1000).map(|row| row * 3 + row % 3).collect();
    let mut bytes = encode(&keys, &ranges_of(&keys)).expect("steps");
    assert_eq!((bytes[64 + 26], bytes[64 + 24]), (1, 12), "steps, and bits of the largest code");
    bytes[64 + 24] = 4;
    let words = placed(&bytes);
    let column =
        Ints::patched_delta(&cast_slice(&words)[..bytes.len()]).expect("nothing is known of it");
    let (mut out, mut mask) = ([0; BLOCK], [0xff; BLOCK]);
    column.decode(0, &mut out);
    column.keep_range(0, 0, 15, &mut mask);
    assert!(out[..1000].iter().all(|number| (0..=15).contains(number)));
    assert!(mask[..1000].iter().all(|mask| *mask == 0xff));
}

/// Encodes numbers; the bytes, and the room for their codes.
fn patched_delta(numbers: &[i64]) -> Option<(usize, Codes)> {
    let bytes = encode(numbers, &ranges_of(numbers))?;
    let words = placed(&bytes);
    let column = Ints::patched_delta(&cast_slice(&words)[..bytes.len()]).expect("a column");
    Some((bytes.len(), column.codes()))
}

#[test]
fn what_is_known_is_found() {
    let chance = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 40 & 0xff_ffff;
    let rows = || 0..4096i64;
    let all = |of: &dyn Fn(i64) -> i64| patched_delta(&rows().map(of).collect::<Vec<_>>());
    let (bytes, codes) = all(&|row| chance(row) % 50 * 100 + 100).expect("a factor");
    assert_eq!(bytes, 64 + 4 * 32 + 4 * 128 * 6);
    assert!(matches!(codes, Codes::U16(_)), "as wide as the numbers");
    let (bytes, _) = all(&|row| row * 7 + 1_000_000).expect("a factor and steps");
    assert_eq!(bytes, 64 + 4 * 32, "nothing is packed");
    let far = |row| if row % 200 == 5 { chance(row) } else { chance(row) % 16 };
    let (bytes, _) = all(&far).expect("patches");
    assert!(bytes < 4096 * 5 / 8 + 400, "{bytes}");
    assert!(all(&chance).is_none(), "numbers by chance");
    assert!(
        patched_delta(&[5; 5000]).is_none() && patched_delta(&[]).is_none(),
        "nothing to be saved"
    );
}
