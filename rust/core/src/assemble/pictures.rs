//! The column of pictures: the file, the place and the size of each, and its bytes if rows embed them.

use std::fs;
use std::io::{self, Cursor};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, LargeBinaryArray, ListArray, StringArray, StructArray,
};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use fastpack_picture::Size;

use super::gathered::Excerpt;
use super::lists::item;
use crate::document::{DocumentPicture, DocumentPictureSource};
use crate::error::{Error, Result};
use crate::report::ledger::Reason;

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

/// The field that rows with embedded pictures have besides.
const BYTES: (&str, DataType) = ("bytes", DataType::LargeBinary);

/// The type of a picture.
pub(super) fn picture_type(embedded: bool) -> DataType {
    let fields = FIELDS.into_iter().chain(embedded.then_some(BYTES));
    DataType::Struct(fields.map(|(name, kind)| Field::new(name, kind, true)).collect())
}

/// The pictures of some rows, one after the other.
pub(super) struct PictureLists {
    paths: Vec<String>,
    rows: Vec<i64>,
    numbers: Vec<i32>,
    among: Vec<i32>,
    documents: Vec<i32>,
    widths: Vec<i32>,
    heights: Vec<i32>,
    /// The bytes of all, and the number of them of each; `None` if rows do not embed them.
    bytes: Option<(Vec<u8>, Vec<usize>)>,
    lengths: Vec<usize>,
}

impl PictureLists {
    /// No rows yet; `embedded` if they hold the bytes of their pictures.
    pub(super) fn new(embedded: bool) -> Self {
        Self {
            paths: Vec::new(),
            rows: Vec::new(),
            numbers: Vec::new(),
            among: Vec::new(),
            documents: Vec::new(),
            widths: Vec::new(),
            heights: Vec::new(),
            bytes: embedded.then(Default::default),
            lengths: Vec::new(),
        }
    }

    /// Appends the pictures of one more row, of these entries of its lengths; padding has no piece.
    pub(super) fn push_row<'a>(
        &mut self,
        entries: impl Iterator<Item = Option<Excerpt<'a>>>,
    ) -> Result<()> {
        let before = self.paths.len();
        for (entry, piece) in (0..).zip(entries) {
            let Some(piece) = piece else { continue };
            let among = i32::try_from(piece.document.pictures().count()).unwrap_or(i32::MAX);
            for picture in piece.pictures() {
                if let Some((bytes, lengths)) = &mut self.bytes {
                    let before = bytes.len();
                    append_bytes(&picture, bytes).map_err(|message| Error::Record {
                        origin: piece.document.origin(),
                        reason: Reason::Picture,
                        message,
                    })?;
                    lengths.push(bytes.len() - before);
                }
                let (path, row) = match picture.source {
                    DocumentPictureSource::File(path) => (path.text(), 0),
                    DocumentPictureSource::Record | DocumentPictureSource::Held(_) => {
                        let origin = piece.document.origin();
                        let path = std::path::absolute(&origin.path);
                        let path = path.unwrap_or_else(|_| origin.path.to_path_buf());
                        (path.display().to_string(), origin.line.cast_signed())
                    }
                };
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
        Ok(())
    }

    /// The column.
    pub(super) fn finish(self) -> ArrayRef {
        let kind = picture_type(self.bytes.is_some());
        let DataType::Struct(fields) = &kind else { unreachable!("pictures are structs") };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(self.paths)),
            Arc::new(Int64Array::from(self.rows)),
            Arc::new(Int32Array::from(self.numbers)),
            Arc::new(Int32Array::from(self.among)),
            Arc::new(Int32Array::from(self.documents)),
            Arc::new(Int32Array::from(self.widths)),
            Arc::new(Int32Array::from(self.heights)),
        ];
        if let Some((bytes, lengths)) = self.bytes {
            let offsets = OffsetBuffer::from_lengths(lengths);
            columns.push(Arc::new(LargeBinaryArray::new(offsets, Buffer::from_vec(bytes), None)));
        }
        let pictures = StructArray::new(Fields::clone(fields), columns, None);
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Arc::new(ListArray::new(item(kind), offsets, Arc::new(pictures), None))
    }
}

/// Appends the bytes of a picture, or tells why its file is not as it was when its tokens were made.
fn append_bytes(
    picture: &DocumentPicture<'_>,
    bytes: &mut Vec<u8>,
) -> std::result::Result<(), String> {
    let path = match picture.source {
        DocumentPictureSource::Held(held) => {
            held.append_to(bytes);
            return Ok(());
        }
        DocumentPictureSource::File(path) => path.text(),
        DocumentPictureSource::Record => {
            return Err("the document has no bytes of its picture".into());
        }
    };
    let fault = |what: String| format!("the picture `{path}`: {what}");
    let changed = |now: String, before: String| {
        Err(fault(format!("it has {now}, but had {before} when it was tokenized; pack again")))
    };
    let unread = |error: io::Error| fault(error.to_string());
    let facts = fs::metadata(&path).map_err(unread)?;
    let expected = u64::from(picture.embedded.unwrap_or(0));
    if !facts.is_file() || facts.len() != expected {
        return changed(format!("{} bytes", facts.len()), format!("{expected}"));
    }
    let read = fs::read(&path).map_err(unread)?;
    let size = fastpack_picture::size(Cursor::new(&read)).map_err(|it| fault(it.to_string()))?;
    if size != picture.size {
        let shown = |Size { width, height }| format!("{width} x {height} pixels");
        return changed(shown(size), shown(picture.size));
    }
    bytes.extend_from_slice(&read);
    Ok(())
}
