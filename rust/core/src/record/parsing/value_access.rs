//! [`ValueAccess`]: a value inside a line of JSON or an array, read without building a [`Json`].

use std::ops::Range;

use arrow::array::{Array, AsArray, GenericListArray, OffsetSizeTrait};
use arrow::datatypes::{DataType, Field};

use super::line_cursor::LineCursor;
use crate::record::tables::row;
use crate::source::formats::json_columns::JsonFieldKind;
use fastpack_template::json::Json;

/// A value in its place. It must be taken before the next value. A value that cannot be read this way gives
/// `None`.
pub(crate) trait ValueAccess<'l> {
    /// Takes the value if it is `null`.
    fn null(&mut self) -> bool;

    /// True for a string; `None` if nothing is left.
    fn is_text(&mut self) -> Option<bool>;

    /// Takes a short string, such as the name of a role.
    fn word(&mut self) -> Option<&'l str>;

    /// Takes a string and appends it to `out`.
    fn text(&mut self, out: &mut String) -> Option<()>;

    /// Takes any value at nesting depth `depth`, and returns its approximate number of bytes too, never more.
    fn value(&mut self, depth: usize) -> Option<(Json, usize)>;
}

impl<'l> ValueAccess<'l> for LineCursor<'l> {
    fn null(&mut self) -> bool {
        self.null()
    }

    fn is_text(&mut self) -> Option<bool> {
        Some(self.peek()? == b'"')
    }

    fn word(&mut self) -> Option<&'l str> {
        self.word()
    }

    fn text(&mut self, out: &mut String) -> Option<()> {
        self.text(out)
    }

    fn value(&mut self, depth: usize) -> Option<(Json, usize)> {
        self.value(depth).map(|(value, text)| (value, text.len()))
    }
}

/// An item of an array.
pub(crate) struct ArrayItem<'l> {
    pub(crate) field: &'l Field,
    pub(crate) array: &'l dyn Array,
    pub(crate) at: usize,
}

impl<'l> ArrayItem<'l> {
    /// The string in this place.
    fn string(&self) -> Option<&'l str> {
        let Self { field, array, at } = *self;
        if array.is_null(at) || JsonFieldKind::of(field) != JsonFieldKind::Text {
            return None;
        }
        Some(match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value(at),
            DataType::LargeUtf8 => array.as_string::<i64>().value(at),
            DataType::Utf8View => array.as_string_view().value(at),
            DataType::Binary => text_of(array.as_binary::<i32>().value(at))?,
            DataType::LargeBinary => text_of(array.as_binary::<i64>().value(at))?,
            DataType::BinaryView => text_of(array.as_binary_view().value(at))?,
            DataType::FixedSizeBinary(_) => text_of(array.as_fixed_size_binary().value(at))?,
            _ => return None,
        })
    }

    /// The list in this place: the array of all lists, and its range in it.
    pub(crate) fn list(&self) -> Option<(&'l dyn Array, Range<usize>)> {
        fn items<O: OffsetSizeTrait>(
            lists: &GenericListArray<O>,
            at: usize,
        ) -> (&dyn Array, Range<usize>) {
            let ends = &lists.value_offsets()[at..at + 2];
            (lists.values(), ends[0].as_usize()..ends[1].as_usize())
        }
        let Self { array, at, .. } = *self;
        match array.data_type() {
            _ if array.is_null(at) => None,
            DataType::List(_) => Some(items(array.as_list::<i32>(), at)),
            DataType::LargeList(_) => Some(items(array.as_list::<i64>(), at)),
            DataType::FixedSizeList(..) => {
                let lists = array.as_fixed_size_list();
                let length = usize::try_from(lists.value_length()).ok()?;
                Some((lists.values(), at * length..(at + 1) * length))
            }
            _ => None,
        }
    }
}

/// Bytes as text, if they are.
fn text_of(bytes: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(bytes).ok()
}

impl<'l> ValueAccess<'l> for ArrayItem<'l> {
    fn null(&mut self) -> bool {
        self.array.is_null(self.at) || *self.array.data_type() == DataType::Null
    }

    fn is_text(&mut self) -> Option<bool> {
        Some(self.string().is_some())
    }

    fn word(&mut self) -> Option<&'l str> {
        self.string()
    }

    fn text(&mut self, out: &mut String) -> Option<()> {
        out.push_str(self.string()?);
        Some(())
    }

    fn value(&mut self, _: usize) -> Option<(Json, usize)> {
        // An encoded text, such as in a dictionary or as JSON, is not stored in this place, and a null of JSON is no null
        // of Arrow.
        let value = row::value(self.field, self.array, self.at).ok();
        let value = value.filter(|value| !matches!(value, Json::String(_) | Json::Null))?;
        let size = value.size();
        Some((value, size))
    }
}
