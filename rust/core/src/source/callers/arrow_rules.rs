//! Checks that tables of other libraries follow Arrow's rules, before they are read.
//!
//! A decoder checks files, and the import checks a single batch. Nothing checks a whole table: an offset may
//! point anywhere, and a text may be invalid. Only the bytes of texts are read, at the speed of memory.

use arrow::array::{
    Array, AsArray, GenericListArray, GenericListViewArray, GenericStringArray, OffsetSizeTrait,
    RecordBatch,
};
use arrow::datatypes::DataType;

/// The fault of a batch, if it has one.
pub(crate) fn fault(batch: &RecordBatch) -> Option<String> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    columns.into_iter().find_map(|(field, column)| {
        let what = check(column).err()?;
        Some(format!("the column `{}` {what}", field.name()))
    })
}

type ArrowRuleResult = Result<(), String>;

fn check(array: &dyn Array) -> ArrowRuleResult {
    match array.data_type() {
        DataType::Utf8 => texts(array.as_string::<i32>()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>()),
        DataType::Binary => {
            let bytes = array.as_binary::<i32>();
            offsets(bytes.value_offsets(), bytes.value_data().len()).map(drop)
        }
        DataType::LargeBinary => {
            let bytes = array.as_binary::<i64>();
            offsets(bytes.value_offsets(), bytes.value_data().len()).map(drop)
        }
        DataType::Utf8View | DataType::BinaryView => {
            array.to_data().validate_full().map_err(|error| error.to_string())
        }
        DataType::List(_) => lists(array.as_list::<i32>()),
        DataType::LargeList(_) => lists(array.as_list::<i64>()),
        DataType::ListView(_) => list_views(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => list_views(array.as_list_view::<i64>()),
        DataType::FixedSizeList(..) => check(array.as_fixed_size_list().values()),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().try_for_each(|column| check(column))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (start, end) = offsets(map.value_offsets(), map.entries().len())?;
            check(&map.entries().slice(start, end - start))
        }
        DataType::Dictionary(..) => {
            array.to_data().validate_data().map_err(|error| error.to_string())?;
            check(array.as_any_dictionary().values())
        }
        _ => Ok(()),
    }
}

/// The start and end of the values of these offsets. Fails if they are invalid for `values` values.
fn offsets<O: OffsetSizeTrait>(offsets: &[O], values: usize) -> Result<(usize, usize), String> {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok((0, 0)) };
    let sorted = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    match (first.to_usize(), last.to_usize()) {
        (Some(start), Some(end)) if sorted && end <= values => Ok((start, end)),
        _ => Err("has offsets that do not ascend, or point past its values".to_owned()),
    }
}

fn texts<O: OffsetSizeTrait>(texts: &GenericStringArray<O>) -> ArrowRuleResult {
    let ends = texts.value_offsets();
    let (start, end) = offsets(ends, texts.value_data().len())?;
    let bytes = &texts.value_data()[start..end];
    if bytes.is_ascii() {
        return Ok(());
    }
    // The first byte of a character never has the form 0b10xxxxxx.
    let starts_character =
        |at: &O| bytes.get(at.as_usize() - start).is_none_or(|byte| byte & 0xc0 != 0x80);
    if simdutf8::basic::from_utf8(bytes).is_ok() && ends.iter().all(starts_character) {
        return Ok(());
    }
    // The bytes of a null need not be text.
    let is_text = |at: usize| {
        let bytes = &texts.value_data()[ends[at].as_usize()..ends[at + 1].as_usize()];
        texts.is_null(at) || simdutf8::basic::from_utf8(bytes).is_ok()
    };
    match (0..texts.len()).find(|at| !is_text(*at)) {
        Some(at) => Err(format!("holds bytes that are not UTF-8 in row {}", at + 1)),
        None => Ok(()),
    }
}

fn lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> ArrowRuleResult {
    let (start, end) = offsets(lists.value_offsets(), lists.values().len())?;
    check(&lists.values().slice(start, end - start))
}

fn list_views<O: OffsetSizeTrait>(lists: &GenericListViewArray<O>) -> ArrowRuleResult {
    let inside = |(at, size): (&O, &O)| {
        let end = at.to_usize().zip(size.to_usize()).and_then(|(at, size)| at.checked_add(size));
        end.is_some_and(|end| end <= lists.values().len())
    };
    if !lists.value_offsets().iter().zip(lists.value_sizes()).all(inside) {
        return Err("has lists that lie outside its values".to_owned());
    }
    check(lists.values())
}
