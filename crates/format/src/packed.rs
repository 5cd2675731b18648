//! Values that no kernel reads, as byte strings: lists, structs, maps, intervals and anything else
//! without a column of its own. They are stored as they are, and returned as they came.

use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray, GenericListArray, OffsetSizeTrait};
use arrow_schema::{DataType, Field, FieldRef};

mod unpack;

pub(crate) use unpack::unpack;

/// The deepest nesting of types.
const DEPTH_MAX: usize = 32;

/// Whether values of a type are stored this way.
pub fn is_packed(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        List(_)
            | LargeList(_)
            | FixedSizeList(_, _)
            | Struct(_)
            | Map(_, _)
            | Interval(_)
            | Duration(_)
            | FixedSizeBinary(_)
            | Decimal256(_, _)
    )
}

fn plain_field(field: &Field, depth: usize) -> Option<FieldRef> {
    let inner = plain_type(field.data_type(), depth + 1)?;
    Some(Arc::new(Field::new(field.name(), inner, field.is_nullable())))
}

/// A type as it is kept inside of others: codes are what they stand for, and nothing is said of a
/// field but its name. `None`: it is not kept.
fn plain_type(data_type: &DataType, depth: usize) -> Option<DataType> {
    use DataType::*;
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match data_type {
        Dictionary(_, value) => plain_type(value, depth + 1)?,
        RunEndEncoded(_, values) => plain_type(values.data_type(), depth + 1)?,
        List(field) | ListView(field) => List(plain_field(field, depth)?),
        LargeList(field) | LargeListView(field) => LargeList(plain_field(field, depth)?),
        FixedSizeList(field, size) => FixedSizeList(plain_field(field, depth)?, *size),
        Map(field, sorted) => Map(plain_field(field, depth)?, *sorted),
        Struct(fields) => {
            let fields = fields.iter().map(|field| plain_field(field, depth));
            Struct(fields.collect::<Option<Vec<_>>>()?.into())
        }
        Union(_, _) => return None,
        other => other.clone(),
    })
}

/// The type that a column has for values of a type that has no other column; `None`: they cannot be
/// kept.
pub fn packed_type(data_type: &DataType) -> Option<DataType> {
    plain_type(data_type, 0).filter(is_packed)
}

/// Whether a type contains dictionaries, or other forms of lists, which are converted before they are
/// packed.
pub fn has_codes(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, _) | RunEndEncoded(_, _) | ListView(_) | LargeListView(_) => true,
        List(f) | LargeList(f) | FixedSizeList(f, _) | Map(f, _) => has_codes(f.data_type()),
        Struct(fields) => fields.iter().any(|field| has_codes(field.data_type())),
        _ => false,
    }
}

/// The size in bytes of a value of a fixed-width type.
fn width_of(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}

/// The values of an array, packed; `None`: it has a type that is not.
pub fn pack(array: &dyn Array) -> Option<BinaryArray> {
    let mut out = BinaryBuilder::with_capacity(array.len(), array.len() * 16);
    let mut bytes = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            out.append_null();
            continue;
        }
        bytes.clear();
        put(&mut bytes, array, &[row])?;
        out.append_value(&bytes);
    }
    Some(out.finish())
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Puts a bit for each row, the first one in the lowest.
fn put_bits(out: &mut Vec<u8>, rows: &[usize], bit: impl Fn(usize) -> bool) {
    for rows in rows.chunks(8) {
        let bits = rows.iter().enumerate().filter(|(_, row)| bit(**row));
        out.push(bits.map(|(at, _)| 1u8 << at).sum());
    }
}

/// Puts the values of some rows of an array.
fn put(out: &mut Vec<u8>, array: &dyn Array, rows: &[usize]) -> Option<()> {
    use DataType::*;
    if array.data_type() == &Null {
        return Some(());
    }
    match rows.iter().any(|row| array.is_null(*row)) {
        false => out.push(0),
        true => {
            out.push(1);
            put_bits(out, rows, |row| array.is_valid(row));
        }
    }
    match array.data_type() {
        Boolean => {
            let own = array.as_boolean();
            put_bits(out, rows, |row| own.is_valid(row) && own.value(row));
        }
        Utf8 => put_strings(out, rows, array, |row| array.as_string::<i32>().value(row).as_bytes()),
        LargeUtf8 => {
            put_strings(out, rows, array, |row| array.as_string::<i64>().value(row).as_bytes());
        }
        Utf8View => {
            put_strings(out, rows, array, |row| array.as_string_view().value(row).as_bytes());
        }
        Binary => put_strings(out, rows, array, |row| array.as_binary::<i32>().value(row)),
        LargeBinary => put_strings(out, rows, array, |row| array.as_binary::<i64>().value(row)),
        BinaryView => put_strings(out, rows, array, |row| array.as_binary_view().value(row)),
        List(_) => put_lists(out, array.as_list::<i32>(), rows)?,
        LargeList(_) => put_lists(out, array.as_list::<i64>(), rows)?,
        Map(_, _) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let start = |row: usize| offsets[row] as usize;
            put_parts(out, map.entries(), rows, |row| map.is_valid(row), start)?;
        }
        FixedSizeList(_, size) => {
            let size = usize::try_from(*size).ok()?;
            let inner: Vec<usize> =
                rows.iter().flat_map(|row| row * size..(row + 1) * size).collect();
            put(out, array.as_fixed_size_list().values(), &inner)?;
        }
        Struct(_) => {
            for column in array.as_struct().columns() {
                put(out, column, rows)?;
            }
        }
        other => put_fixed(out, array, rows, width_of(other)?)?,
    }
    Some(())
}

fn put_strings<'a>(
    out: &mut Vec<u8>,
    rows: &[usize],
    array: &dyn Array,
    value: impl Fn(usize) -> &'a [u8],
) {
    let of = |row: &usize| if array.is_null(*row) { &[][..] } else { value(*row) };
    rows.iter().for_each(|row| put_length(out, of(row).len()));
    rows.iter().for_each(|row| out.extend_from_slice(of(row)));
}

fn put_lists<O: OffsetSizeTrait>(
    out: &mut Vec<u8>,
    list: &GenericListArray<O>,
    rows: &[usize],
) -> Option<()> {
    let offsets = list.value_offsets();
    put_parts(out, list.values(), rows, |row| list.is_valid(row), |row| offsets[row].as_usize())
}

/// Lengths of parts of `values`, then the values of all of them; what is under a null is left out.
fn put_parts(
    out: &mut Vec<u8>,
    values: &dyn Array,
    rows: &[usize],
    is_valid: impl Fn(usize) -> bool,
    start: impl Fn(usize) -> usize,
) -> Option<()> {
    let part = |row: &usize| match is_valid(*row) {
        true => start(*row)..start(*row + 1),
        false => 0..0,
    };
    rows.iter().for_each(|row| put_length(out, part(row).len()));
    let inner: Vec<usize> = rows.iter().flat_map(part).collect();
    put(out, values, &inner)
}

fn put_fixed(out: &mut Vec<u8>, array: &dyn Array, rows: &[usize], width: usize) -> Option<()> {
    let data = array.to_data();
    let bytes = data.buffers().first()?.as_slice().get(data.offset() * width..)?;
    for row in rows {
        out.extend_from_slice(bytes.get(row * width..(row + 1) * width)?);
    }
    Some(())
}

/// One value of a type, as it is packed where there is none.
fn nothing(out: &mut Vec<u8>, data_type: &DataType, count: usize, is_null: bool) -> Option<()> {
    use DataType::*;
    if data_type == &Null {
        return Some(());
    }
    out.push(is_null.into());
    let bits = count.div_ceil(8);
    if is_null {
        out.resize(out.len() + bits, 0);
    }
    match data_type {
        Boolean => out.resize(out.len() + bits, 0),
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => {
            out.resize(out.len() + count, 0);
        }
        List(field) | LargeList(field) | Map(field, _) => {
            out.resize(out.len() + count, 0);
            nothing(out, field.data_type(), 0, false)?;
        }
        FixedSizeList(field, size) => {
            nothing(out, field.data_type(), count * usize::try_from(*size).ok()?, false)?;
        }
        Struct(fields) => {
            for field in fields {
                nothing(out, field.data_type(), count, false)?;
            }
        }
        other => out.resize(out.len() + count * width_of(other)?, 0),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{
        FixedSizeListBuilder, Int32Builder, Int64Builder, ListBuilder, MapBuilder, StringBuilder,
        StructBuilder,
    };
    use arrow_array::types::{Decimal256Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
    use arrow_array::{
        ArrayRef, BinaryViewArray, FixedSizeBinaryArray, PrimitiveArray, StructArray, make_array,
    };
    use arrow_schema::Fields;

    use super::*;
    use crate::ints::Damage;

    fn views(packed: &BinaryArray) -> BinaryViewArray {
        packed.iter().collect()
    }

    fn again(array: &dyn Array) {
        let own = packed_type(array.data_type()).unwrap();
        let packed = views(&pack(array).unwrap());
        let back = unpack(&packed, &own).unwrap();
        assert_eq!(back.to_data(), array.to_data(), "{own}");
        // Of a part that does not begin at the first row.
        let part = array.slice(1, array.len() - 1);
        let back = unpack(&views(&pack(&part).unwrap()), &own).unwrap();
        assert_eq!(&back, &make_array(part.to_data()), "{own}");
        // What is cut off, or longer, is told.
        for row in (0..packed.len()).filter(|row| packed.is_valid(*row)) {
            let bytes = packed.value(row);
            for cut in 0..bytes.len() {
                let short: BinaryViewArray = [Some(&bytes[..cut])].into_iter().collect();
                assert!(unpack(&short, &own).is_err(), "{own} cut at {cut}");
            }
            let long = [bytes, b"x"].concat();
            let long: BinaryViewArray = [Some(&long[..])].into_iter().collect();
            assert!(matches!(unpack(&long, &own), Err(Damage::Length { .. })), "{own}");
        }
    }

    fn lists() -> ArrayRef {
        let mut lists = ListBuilder::new(Int64Builder::new());
        for list in [Some(vec![Some(1), None, Some(300)]), None, Some(vec![]), Some(vec![None])] {
            lists.append_option(list);
        }
        Arc::new(lists.finish())
    }

    #[test]
    fn values_come_out_as_they_went_in() {
        again(&lists());
        let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
        for row in 0..4 {
            fixed.values().append_option((row != 1).then_some(row));
            fixed.values().append_value(row * 10);
            fixed.append(row != 2);
        }
        again(&fixed.finish());
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for row in 0..5 {
            for key in 0..row {
                map.keys().append_value(format!("key {key}"));
                map.values().append_option((key != 1).then_some(key));
            }
            map.append(row != 3).unwrap();
        }
        again(&map.finish());
        again(
            &FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                [Some([1u8; 16]), None, Some([7; 16])].into_iter(),
                16,
            )
            .unwrap(),
        );
        let span = |months| IntervalMonthDayNano::new(months, -3, 7);
        let spans = [Some(span(1)), None, Some(span(-2))];
        again(&PrimitiveArray::<IntervalMonthDayNanoType>::from_iter(spans));
        let large = arrow_buffer::i256::from_parts(u128::MAX, 12);
        let large = PrimitiveArray::<Decimal256Type>::from_iter([Some(large), None, Some(large)]);
        again(&large.with_precision_and_scale(70, 3).unwrap());
    }

    #[test]
    fn structs_of_lists_of_structs_come_out_too() {
        let inner = Fields::from(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("t", DataType::Utf8, true),
            Field::new("b", DataType::Boolean, true),
        ]);
        let mut lists = ListBuilder::new(StructBuilder::from_fields(inner, 4));
        for row in 0..6i64 {
            for at in 0..row {
                let own = lists.values();
                own.field_builder::<Int64Builder>(0)
                    .unwrap()
                    .append_option((at != 2).then_some(at));
                let text = format!("text {at}");
                own.field_builder::<StringBuilder>(1).unwrap().append_value(text);
                let bits = own.field_builder::<arrow_array::builder::BooleanBuilder>(2).unwrap();
                bits.append_option((at != 1).then_some(at == 3));
                own.append(at != 4);
            }
            lists.append(row != 4);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        again(&lists);
        let nulls: ArrayRef = Arc::new(arrow_array::NullArray::new(6));
        let both = StructArray::try_from(vec![("l", Arc::clone(&lists)), ("z", nulls)]).unwrap();
        again(&both);
    }

    #[test]
    fn types_without_end_are_refused() {
        let mut deep = DataType::Int64;
        for _ in 0..100 {
            deep = DataType::List(Arc::new(Field::new("item", deep, true)));
        }
        assert_eq!(packed_type(&deep), None);
        assert_eq!(packed_type(&DataType::Int64), None);
        let coded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let coded = DataType::List(Arc::new(Field::new("item", coded, true)));
        assert!(has_codes(&coded));
        assert_eq!(packed_type(&coded).unwrap().to_string(), "List(Utf8)");
    }

    #[test]
    fn lengths_beyond_all_bounds_take_no_memory() {
        let own = DataType::List(Arc::new(Field::new("item", DataType::Null, true)));
        let mut bytes = vec![0u8];
        bytes.extend([0xff; 9]);
        bytes.push(1);
        let one: BinaryViewArray = [Some(&bytes[..])].into_iter().collect();
        assert!(unpack(&one, &own).is_err());
    }
}
