//! The column of pictures: the file, the place and the size of each.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, ListArray, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};

use super::gathered::Excerpt;
use super::lists::item;
use crate::document::DocumentPicture;

/// The names and types of a picture's fields.
const FIELDS: [(&str, DataType); 7] = [
    ("path", DataType::Utf8),
    ("row", DataType::Int64),
    ("number", DataType::Int32),
    ("pictures", DataType::Int32),
    ("document", DataType::Int32),
    ("width", DataType::Int32),
    ("height", DataType::Int32),
];

/// The type of a picture.
pub(super) fn picture_type() -> DataType {
    let fields = FIELDS.map(|(name, kind)| Field::new(name, kind, true));
    DataType::Struct(fields.into_iter().collect())
}

/// The pictures of some rows, one after the other.
#[derive(Default)]
pub(super) struct PictureLists {
    paths: Vec<String>,
    rows: Vec<i64>,
    numbers: Vec<i32>,
    among: Vec<i32>,
    documents: Vec<i32>,
    widths: Vec<i32>,
    heights: Vec<i32>,
    lengths: Vec<usize>,
}

impl PictureLists {
    /// Appends the pictures of one more row, of these entries of its lengths; padding has no piece.
    pub(super) fn push_row<'a>(&mut self, entries: impl Iterator<Item = Option<Excerpt<'a>>>) {
        let before = self.paths.len();
        for (entry, piece) in (0..).zip(entries) {
            let Some(Excerpt { document, first, length, .. }) = piece else { continue };
            let among = i32::try_from(document.pictures().count()).unwrap_or(i32::MAX);
            let inside = |picture: &DocumentPicture| {
                first <= picture.tokens.start && picture.tokens.end <= first + length
            };
            for picture in document.pictures().filter(inside) {
                let (path, row) = picture.file.map_or_else(
                    || {
                        let origin = document.origin();
                        let path = std::path::absolute(&origin.path);
                        let path = path.unwrap_or_else(|_| origin.path.to_path_buf());
                        (path.display().to_string(), origin.line.cast_signed())
                    },
                    |path| (path, 0),
                );
                self.paths.push(path);
                self.rows.push(row);
                self.numbers.push(picture.number.cast_signed());
                self.among.push(among);
                self.documents.push(entry);
                self.widths.push(picture.size.width.cast_signed());
                self.heights.push(picture.size.height.cast_signed());
            }
        }
        self.lengths.push(self.paths.len() - before);
    }

    /// The column.
    pub(super) fn finish(self) -> ArrayRef {
        let DataType::Struct(fields) = picture_type() else { unreachable!("pictures are structs") };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(self.paths)),
            Arc::new(Int64Array::from(self.rows)),
            Arc::new(Int32Array::from(self.numbers)),
            Arc::new(Int32Array::from(self.among)),
            Arc::new(Int32Array::from(self.documents)),
            Arc::new(Int32Array::from(self.widths)),
            Arc::new(Int32Array::from(self.heights)),
        ];
        let pictures = StructArray::new(Fields::clone(&fields), columns, None);
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Arc::new(ListArray::new(item(picture_type()), offsets, Arc::new(pictures), None))
    }
}
