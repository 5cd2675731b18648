//! Packed values made arrays again.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray,
    FixedSizeBinaryArray, FixedSizeListArray, GenericListArray, LargeBinaryArray, LargeStringArray,
    MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StringArray, StringViewArray,
    StructArray, downcast_primitive,
};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};

use super::{nothing, width_of};
use crate::ints::Damage;

/// Values inside of the values that are given out together, at most.
const VALUES_MAX: usize = 1 << 28;

fn not_so(_: ArrowError) -> Damage {
    Damage::Field { name: "a packed value", value: 0 }
}

fn wrong() -> Damage {
    Damage::Field { name: "a packed value", value: 1 }
}

/// Packed values as an array of their type.
///
/// # Errors
/// They are none of it.
pub(crate) fn unpack(packed: &BinaryViewArray, data_type: &DataType) -> Result<ArrayRef, Damage> {
    let mut none = Vec::new();
    nothing(&mut none, data_type, 1, true).ok_or_else(wrong)?;
    let mut rows: Vec<&[u8]> = (0..packed.len())
        .map(|row| if packed.is_null(row) { none.as_slice() } else { packed.value(row) })
        .collect();
    let counts = vec![1; rows.len()];
    let array = take(&mut rows, &counts, data_type)?;
    match rows.iter().find(|rest| !rest.is_empty()) {
        Some(rest) => Err(Damage::Length { expected: 0, found: rest.len() }),
        None => Ok(array),
    }
}

fn bytes<'a>(row: &mut &'a [u8], count: usize) -> Result<&'a [u8], Damage> {
    let short = Damage::Length { expected: count, found: row.len() };
    let (own, rest) = row.split_at_checked(count).ok_or(short)?;
    *row = rest;
    Ok(own)
}

fn length(row: &mut &[u8]) -> Result<usize, Damage> {
    let mut length = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = bytes(row, 1)?[0];
        length |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
        if byte < 0x80 {
            return if length <= VALUES_MAX { Ok(length) } else { Err(wrong()) };
        }
    }
    Err(wrong())
}

/// Lengths of as many values of each row; how many values that are of each row, and of all.
struct Lengths {
    each: Vec<usize>,
    of_rows: Vec<usize>,
    total: usize,
}

fn lengths(rows: &mut [&[u8]], counts: &[usize]) -> Result<Lengths, Damage> {
    let mut found = Lengths { each: Vec::new(), of_rows: Vec::with_capacity(rows.len()), total: 0 };
    for (row, count) in rows.iter_mut().zip(counts) {
        let mut of_row = 0usize;
        for _ in 0..*count {
            let own = length(row)?;
            found.each.push(own);
            of_row = of_row.checked_add(own).ok_or_else(wrong)?;
        }
        found.of_rows.push(of_row);
        found.total = found.total.checked_add(of_row).ok_or_else(wrong)?;
    }
    if found.total > VALUES_MAX { Err(wrong()) } else { Ok(found) }
}

fn bits(rows: &mut [&[u8]], counts: &[usize], into: &mut Vec<bool>) -> Result<(), Damage> {
    for (row, count) in rows.iter_mut().zip(counts) {
        let own = bytes(row, count.div_ceil(8))?;
        into.extend((0..*count).map(|at| own[at / 8] >> (at % 8) & 1 == 1));
    }
    Ok(())
}

fn nulls(rows: &mut [&[u8]], counts: &[usize], total: usize) -> Result<Option<NullBuffer>, Damage> {
    let mut valid: Vec<bool> = Vec::new();
    let mut before = 0;
    for (row, count) in rows.iter_mut().zip(counts) {
        match bytes(row, 1)?[0] {
            0 if valid.is_empty() => {}
            0 => valid.resize(before + count, true),
            1 => {
                valid.resize(before, true);
                bits(std::slice::from_mut(row), &[*count], &mut valid)?;
            }
            _ => return Err(wrong()),
        }
        before += count;
    }
    if valid.is_empty() {
        return Ok(None);
    }
    valid.resize(total, true);
    Ok(Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0))
}

/// The values of a type that come next in each row, so many of each.
fn take(rows: &mut [&[u8]], counts: &[usize], data_type: &DataType) -> Result<ArrayRef, Damage> {
    use DataType::*;
    let total: usize = counts.iter().sum();
    if total > VALUES_MAX {
        return Err(wrong());
    }
    if data_type == &Null {
        return Ok(Arc::new(NullArray::new(total)));
    }
    let nulls = nulls(rows, counts, total)?;
    Ok(match data_type {
        Boolean => {
            let mut values = Vec::new();
            bits(rows, counts, &mut values)?;
            Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
        }
        Utf8 => {
            let (offsets, bytes) = strings::<i32>(rows, counts)?;
            Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(not_so)?)
        }
        LargeUtf8 => {
            let (offsets, bytes) = strings::<i64>(rows, counts)?;
            Arc::new(LargeStringArray::try_new(offsets, bytes, nulls).map_err(not_so)?)
        }
        Utf8View => {
            let (offsets, bytes) = strings::<i32>(rows, counts)?;
            let plain = StringArray::try_new(offsets, bytes, nulls).map_err(not_so)?;
            Arc::new(plain.iter().collect::<StringViewArray>())
        }
        Binary => {
            let (offsets, bytes) = strings::<i32>(rows, counts)?;
            Arc::new(BinaryArray::try_new(offsets, bytes, nulls).map_err(not_so)?)
        }
        LargeBinary => {
            let (offsets, bytes) = strings::<i64>(rows, counts)?;
            Arc::new(LargeBinaryArray::try_new(offsets, bytes, nulls).map_err(not_so)?)
        }
        BinaryView => {
            let (offsets, bytes) = strings::<i32>(rows, counts)?;
            let plain = BinaryArray::try_new(offsets, bytes, nulls).map_err(not_so)?;
            Arc::new(plain.iter().collect::<BinaryViewArray>())
        }
        List(field) => list::<i32>(rows, counts, field, nulls)?,
        LargeList(field) => list::<i64>(rows, counts, field, nulls)?,
        Map(field, sorted) => {
            let (offsets, values) = parts::<i32>(rows, counts, field)?;
            let entries = values.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?.clone();
            let own = MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted);
            Arc::new(own.map_err(not_so)?)
        }
        FixedSizeList(field, size) => {
            let many = usize::try_from(*size).map_err(|_| wrong())?;
            let inner: Option<Vec<usize>> = counts.iter().map(|c| c.checked_mul(many)).collect();
            let values = take(rows, &inner.ok_or_else(wrong)?, field.data_type())?;
            let own = FixedSizeListArray::try_new(Arc::clone(field), *size, values, nulls);
            Arc::new(own.map_err(not_so)?)
        }
        Struct(fields) if fields.is_empty() => {
            Arc::new(StructArray::new_empty_fields(total, nulls))
        }
        Struct(fields) => {
            let columns = fields.iter().map(|field| take(rows, counts, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, nulls).map_err(not_so)?)
        }
        other => fixed(rows, counts, other, nulls)?,
    })
}

fn strings<O: OffsetSizeTrait>(
    rows: &mut [&[u8]],
    counts: &[usize],
) -> Result<(OffsetBuffer<O>, Buffer), Damage> {
    let (mut each, mut all) = (Vec::new(), Vec::new());
    for (row, count) in rows.iter_mut().zip(counts) {
        let own = lengths(std::slice::from_mut(row), &[*count])?;
        all.extend_from_slice(bytes(row, own.total)?);
        each.extend(own.each);
    }
    if all.len() > VALUES_MAX {
        return Err(wrong());
    }
    Ok((OffsetBuffer::from_lengths(each), Buffer::from_vec(all)))
}

fn parts<O: OffsetSizeTrait>(
    rows: &mut [&[u8]],
    counts: &[usize],
    field: &FieldRef,
) -> Result<(OffsetBuffer<O>, ArrayRef), Damage> {
    let lengths = lengths(rows, counts)?;
    let values = take(rows, &lengths.of_rows, field.data_type())?;
    Ok((OffsetBuffer::from_lengths(lengths.each), values))
}

fn list<O: OffsetSizeTrait>(
    rows: &mut [&[u8]],
    counts: &[usize],
    field: &FieldRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Damage> {
    let (offsets, values) = parts::<O>(rows, counts, field)?;
    let own = GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls);
    Ok(Arc::new(own.map_err(not_so)?))
}

fn fixed(
    rows: &mut [&[u8]],
    counts: &[usize],
    data_type: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Damage> {
    let width = width_of(data_type).ok_or_else(wrong)?;
    let mut all = MutableBuffer::new(0);
    for (row, count) in rows.iter_mut().zip(counts) {
        let length = count.checked_mul(width).ok_or_else(wrong)?;
        all.extend_from_slice(bytes(row, length)?);
    }
    let all = Buffer::from(all);
    macro_rules! primitive {
        ($t:ty) => {
            Ok(primitive::<$t>(all, nulls, data_type))
        };
    }
    downcast_primitive! {
        data_type => (primitive),
        DataType::FixedSizeBinary(_) => {
            let width = i32::try_from(width).map_err(|_| wrong())?;
            let own = FixedSizeBinaryArray::try_new(width, all, nulls);
            Ok(Arc::new(own.map_err(not_so)?))
        }
        _ => Err(wrong()),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    bytes: Buffer,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    let values = ScalarBuffer::<T::Native>::from(bytes);
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
}
