//! Random tables, made of a seed, and row groups of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};
use bytemuck::cast_slice;
use cellar_format::from_arrow::column_type;
use cellar_format::group;
use cellar_format::value::{key_of_f32, key_of_f64};
use cellar_format::{Column, Header, Owner, Refused, Value};
use proptest::prelude::*;

/// Whose the row groups are.
pub const OWNER: Owner = Owner { table: 7, segment: 9 };

/// So many cases, or as many times as `CASES` says.
pub fn cases(count: u32) -> ProptestConfig {
    let times = std::env::var("CASES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    ProptestConfig { cases: count * times, failure_persistence: None, ..Default::default() }
}

/// Numbers by chance (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn wide(&mut self) -> i128 {
        (i128::from(self.next() as i64) << 64) | i128::from(self.next())
    }

    /// One of `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'p, T>(&mut self, list: &'p [T]) -> &'p T {
        &list[self.below(list.len())]
    }
}

/// All that columns can be made of.
pub fn types() -> Vec<DataType> {
    use DataType::*;
    let zone = |zone: &str| Some(Arc::<str>::from(zone));
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal128(9, 2),
        Decimal128(38, 10),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Millisecond, zone("+02:00")),
        Timestamp(TimeUnit::Microsecond, zone("Europe/Berlin")),
        Timestamp(TimeUnit::Nanosecond, None),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
    ]
}

/// What a table is made of: a seed and the numbers of its types.
#[derive(Clone, Debug)]
pub struct Spec {
    pub types: Vec<usize>,
    pub rows: usize,
    pub seed: u64,
}

pub fn spec() -> impl Strategy<Value = Spec> {
    let rows = prop_oneof![
        Just(1usize),
        Just(1023usize),
        Just(1024usize),
        Just(1025usize),
        2..300usize,
        2000..6000usize
    ];
    let kinds = prop::collection::vec(0..types().len(), 1..6);
    (kinds, rows, any::<u64>()).prop_map(|(types, rows, seed)| Spec { types, rows, seed })
}

/// Values of a whole-number type, however it is kept.
fn numbers(rng: &mut Rng, rows: usize, low: i128, high: i128) -> Vec<i128> {
    let within = |number: i128| number.clamp(low, high);
    let anywhere = |rng: &mut Rng| match (high.wrapping_sub(low) as u128).checked_add(1) {
        Some(span) => low.wrapping_add((rng.wide() as u128 % span) as i128),
        None => rng.wide(),
    };
    let base = if rng.one_in(2) { 0 } else { anywhere(rng) };
    let (base, shape) = (within(base), rng.below(10));
    let span = 1i128 << rng.below(20);
    let near = |rng: &mut Rng, base: i128| {
        within(base.saturating_add(rng.below(span as usize) as i128 - span / 2))
    };
    let ends = [low, high, low.saturating_add(1), high.saturating_sub(1)];
    let few: Vec<i128> = (0..1 + rng.below(20)).map(|_| anywhere(rng)).collect();
    let mut own = base;
    let mut out: Vec<i128> = (0..rows)
        .map(|row| match shape {
            0 => base,
            1 => *rng.pick(&few),
            2 | 3 => near(rng, base),
            4 => anywhere(rng),
            5 => within(*rng.pick(&[ends[0], ends[1], ends[2], ends[3], 0, 1, within(-1)])),
            6 => {
                own = within(own.saturating_add(rng.below(4) as i128));
                own
            }
            // Multiples of something; and few far from the others.
            7 => within(base.saturating_add(rng.below(60) as i128 * span)),
            8 if rng.one_in(50) => anywhere(rng),
            8 => within(base.saturating_add(rng.below(9) as i128)),
            _ => {
                // Each block somewhere else.
                if row % 1024 == 0 {
                    own = anywhere(rng);
                }
                near(rng, own)
            }
        })
        .collect();
    if rng.one_in(4) {
        out.sort_unstable();
        if rng.one_in(2) {
            out.reverse();
        }
    }
    out
}

/// A number that comes back by its bits: of the NaNs only one does.
fn float(rng: &mut Rng) -> f64 {
    const SPECIAL: [f64; 9] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        1e-310,
    ];
    match rng.below(30) {
        0 => *rng.pick(&SPECIAL),
        1 => Some(f64::from_bits(rng.next())).filter(|own| !own.is_nan()).unwrap_or(f64::NAN),
        _ => (rng.below(2000) as f64 - 1000.0) / 4.0,
    }
}

fn floats(rng: &mut Rng, rows: usize) -> Vec<f64> {
    let plain = rng.one_in(2);
    let own = |rng: &mut Rng| if plain { rng.below(99) as f64 / 4.0 - 9.0 } else { float(rng) };
    let mut out: Vec<f64> = (0..rows).map(|_| own(rng)).collect();
    if rng.one_in(4) {
        out.sort_unstable_by(f64::total_cmp);
    }
    out
}

/// Strings; with `is_text` of UTF-8.
fn strings(rng: &mut Rng, rows: usize, is_text: bool) -> Vec<Vec<u8>> {
    const ATOMS: [&str; 8] = ["a", "b", "\u{e4}", "\u{20ac}", "%", "_", "\u{10ffff}", "xyz "];
    let word = |rng: &mut Rng, most: usize| -> Vec<u8> {
        let length = rng.below(most + 1);
        match is_text {
            true => (0..length).flat_map(|_| rng.pick(&ATOMS).bytes()).collect(),
            false => (0..length).map(|_| *rng.pick(b"ab\x00\xff\xfe\x80 z")).collect(),
        }
    };
    let shape = rng.below(8);
    let start = [b"the same four and twenty".to_vec(), vec![0xff; 24]];
    let start = &start[usize::from(!is_text && rng.one_in(2))];
    let mut few: Vec<Vec<u8>> = (0..1 + rng.below(30)).map(|_| word(rng, 9)).collect();
    if shape == 2 {
        few.push(word(rng, 1).repeat(1).iter().chain(&[b'l'; 70_000]).copied().collect());
    }
    let mut out: Vec<Vec<u8>> = (0..rows)
        .map(|row| match shape {
            0 => few[0].clone(),
            1 | 2 => rng.pick(&few).clone(),
            3 => word(rng, 12),
            4 => start.iter().copied().chain(word(rng, 3)).collect(),
            5 => format!("customer {} asks for {}", rng.below(99_999), row).into_bytes(),
            6 => vec![b'k'; rng.below(40)],
            _ => format!("{:09}", rng.next() % 1_000_000_000).into_bytes(),
        })
        .collect();
    if rng.one_in(4) {
        out.sort_unstable();
    }
    out
}

/// An array of numbers that fit the type.
fn of_numbers(data_type: &DataType, numbers: &[i128]) -> ArrayRef {
    macro_rules! array {
        ($t:ty) => {{
            let values = numbers.iter().map(|number| *number as _).collect::<Vec<_>>();
            let array = PrimitiveArray::<$t>::new(values.into(), None);
            Arc::new(array.with_data_type(data_type.clone())) as ArrayRef
        }};
    }
    each_number!(data_type, array)
}

/// Does the same with the Arrow type of each type of whole numbers.
macro_rules! each_number {
    ($data_type:expr, $array:ident) => {
        match $data_type {
            DataType::Int8 => $array!(Int8Type),
            DataType::Int16 => $array!(Int16Type),
            DataType::Int32 => $array!(Int32Type),
            DataType::Int64 => $array!(Int64Type),
            DataType::UInt8 => $array!(UInt8Type),
            DataType::UInt16 => $array!(UInt16Type),
            DataType::UInt32 => $array!(UInt32Type),
            DataType::UInt64 => $array!(UInt64Type),
            DataType::Decimal128(_, _) => $array!(Decimal128Type),
            DataType::Date32 => $array!(Date32Type),
            DataType::Date64 => $array!(Date64Type),
            DataType::Time32(TimeUnit::Second) => $array!(Time32SecondType),
            DataType::Time32(_) => $array!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => $array!(Time64MicrosecondType),
            DataType::Time64(_) => $array!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => $array!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $array!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $array!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $array!(TimestampNanosecondType),
            other => panic!("{other} is none of whole numbers"),
        }
    };
}
use each_number;

/// From where to where the numbers of a type go.
fn ends_of(data_type: &DataType) -> (i128, i128) {
    macro_rules! ends {
        ($t:ty) => {
            (
                <$t as ArrowPrimitiveType>::Native::MIN as i128,
                <$t as ArrowPrimitiveType>::Native::MAX as i128,
            )
        };
    }
    match data_type {
        DataType::Decimal128(digits, _) => {
            let most = 10i128.pow(u32::from(*digits)) - 1;
            (-most, most)
        }
        data_type => each_number!(data_type, ends),
    }
}

/// A column's values, without nulls.
fn full(rng: &mut Rng, data_type: &DataType, rows: usize) -> ArrayRef {
    use DataType::*;
    match data_type {
        Boolean => {
            let ones = 1 + rng.below(3);
            Arc::new(BooleanArray::from_iter((0..rows).map(|_| Some(rng.one_in(ones)))))
        }
        Float32 => {
            Arc::new(Float32Array::from_iter_values(floats(rng, rows).iter().map(|f| *f as f32)))
        }
        Float64 => Arc::new(Float64Array::from_iter_values(floats(rng, rows))),
        Utf8 | LargeUtf8 | Utf8View => {
            let own = strings(rng, rows, true);
            let own = own.iter().map(|s| std::str::from_utf8(s).expect("made so"));
            match data_type {
                Utf8 => Arc::new(StringArray::from_iter_values(own)),
                LargeUtf8 => Arc::new(LargeStringArray::from_iter_values(own)),
                _ => Arc::new(StringViewArray::from_iter_values(own)),
            }
        }
        Binary => Arc::new(BinaryArray::from_iter_values(strings(rng, rows, false))),
        LargeBinary => Arc::new(LargeBinaryArray::from_iter_values(strings(rng, rows, false))),
        BinaryView => Arc::new(BinaryViewArray::from_iter_values(strings(rng, rows, false))),
        data_type => {
            let (low, high) = ends_of(data_type);
            of_numbers(data_type, &numbers(rng, rows, low, high))
        }
    }
}

/// A column: values with something under the nulls too, and not from the beginning of its buffers.
pub fn array(rng: &mut Rng, data_type: &DataType, rows: usize) -> ArrayRef {
    let before = *rng.pick(&[0, 0, 3, 8, 70]);
    let all = full(rng, data_type, before + rows);
    let nulls = match rng.below(6) {
        0..3 => None,
        3 => Some(BooleanBuffer::collect_bool(all.len(), |_| false)),
        _ => {
            let one_in = *rng.pick(&[2, 5, 300]);
            Some(BooleanBuffer::collect_bool(all.len(), |_| !rng.one_in(one_in)))
        }
    };
    let data = all.to_data().into_builder().nulls(nulls.map(NullBuffer::new));
    make_array(data.build().expect("a sound array")).slice(before, rows)
}

/// The values of an array, read without any of what is tested.
pub fn values_of(array: &dyn Array) -> Vec<Option<Value>> {
    use DataType::*;
    let rows = 0..array.len();
    macro_rules! values {
        ($t:ty) => {{
            let array = array.as_primitive::<$t>();
            let value = |row| Value::Number(array.value(row) as i128);
            rows.map(|row| array.is_valid(row).then(|| value(row))).collect()
        }};
    }
    macro_rules! of {
        ($array:expr, $value:expr) => {{
            let array = $array;
            rows.map(|row| array.is_valid(row).then(|| $value(array.value(row)))).collect()
        }};
    }
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
    let text = |text: &str| Value::Bytes(text.as_bytes().into());
    match array.data_type() {
        Boolean => of!(array.as_boolean(), |own| Value::Number(i128::from(own))),
        Float32 => of!(array.as_primitive::<Float32Type>(), |own| Value::from(key_of_f32(own))),
        Float64 => of!(array.as_primitive::<Float64Type>(), |own| Value::from(key_of_f64(own))),
        Utf8 => of!(array.as_string::<i32>(), text),
        LargeUtf8 => of!(array.as_string::<i64>(), text),
        Utf8View => of!(array.as_string_view(), text),
        Binary => of!(array.as_binary::<i32>(), bytes),
        LargeBinary => of!(array.as_binary::<i64>(), bytes),
        BinaryView => of!(array.as_binary_view(), bytes),
        data_type => each_number!(data_type, values),
    }
}

/// A row group, and what is in it.
#[derive(Debug)]
pub struct Group {
    pub header: Header,
    words: Vec<u64>,
    /// The types that its columns have when they are read.
    pub types: Vec<DataType>,
    /// The values of each column.
    pub values: Vec<Vec<Option<Value>>>,
}

/// Bytes where columns may begin.
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

impl Group {
    /// Of these arrays, or of as many of their first rows as fit.
    pub fn of(arrays: &[ArrayRef]) -> Group {
        let encoded = match group::encode(arrays, OWNER) {
            Ok(encoded) => encoded,
            Err(Refused::TooLarge { .. }) => {
                let rows = arrays[0].len() / 2;
                let less: Vec<ArrayRef> = arrays.iter().map(|a| a.slice(0, rows)).collect();
                return Group::of(&less);
            }
            Err(other) => panic!("{other:?}"),
        };
        let (header, bytes) = encoded.place(3, 0);
        assert_eq!(Header::decode(&bytes).as_ref(), Ok(&header), "what was written is read");
        assert_eq!(header.position, 3);
        let types = arrays.iter().map(|a| column_type(a.data_type()).expect("a column")).collect();
        let values = arrays.iter().map(|array| values_of(array)).collect();
        Group { header, words: words_of(&bytes), types, values }
    }

    /// A random one.
    pub fn random(spec: &Spec) -> Group {
        Group::of(&arrays(spec))
    }

    pub fn rows(&self) -> usize {
        self.header.rows as usize
    }

    pub fn bytes(&self) -> &[u8] {
        &cast_slice(&self.words)[..self.header.used as usize]
    }

    pub fn columns(&self) -> Vec<Option<Column<'_>>> {
        let all = 0..self.header.entries.len();
        all.map(|at| {
            let entry = &self.header.entries[at];
            let bytes = &self.bytes()[entry.offset as usize..][..entry.length as usize];
            Some(group::column(&self.header, at, bytes, true).expect("as it was written"))
        })
        .collect()
    }
}

/// The arrays of a random table.
pub fn arrays(spec: &Spec) -> Vec<ArrayRef> {
    let mut rng = Rng(spec.seed);
    let types = types();
    spec.types.iter().map(|at| array(&mut rng, &types[*at], spec.rows)).collect()
}
