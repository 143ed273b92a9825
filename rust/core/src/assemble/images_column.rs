//! The column of pictures: the file, the place and the size of each, and its bytes if rows embed them.

use std::fs;
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int64Array, LargeBinaryArray, ListArray, StringArray, StructArray,
};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use fastpack_picture::Size;

use super::documents_of_rows::DocumentSlice;
use super::lists::item;
use crate::document::{DocumentPicture, DocumentPictureSource};
use crate::error::{Error, Result};
use crate::report::ledger::Reason;
use crate::storage::{PictureContent, RemotePictures, is_url, public, version_of};

/// The names and types of a picture's fields.
const FIELDS: [(&str, DataType); 8] = [
    ("path", DataType::Utf8),
    ("row", DataType::Int64),
    ("number", DataType::Int32),
    ("pictures", DataType::Int32),
    ("document", DataType::Int32),
    ("width", DataType::Int32),
    ("height", DataType::Int32),
    ("file_bytes", DataType::Int64),
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
    /// The bytes of the files, 0 where a record holds the picture.
    file_bytes: Vec<i64>,
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
            file_bytes: Vec::new(),
            bytes: embedded.then(Default::default),
            lengths: Vec::new(),
        }
    }

    /// Appends the pictures of one more row, of these entries of its lengths; padding has no piece. Those in remote storage are
    /// fetched, if rows embed them.
    pub(super) fn push_row<'a>(
        &mut self,
        entries: impl Iterator<Item = Option<DocumentSlice<'a>>>,
        remote: Option<&RemotePictures>,
    ) -> Result<()> {
        let before = self.paths.len();
        let pieces = (0..).zip(entries).filter_map(|(entry, piece)| Some((entry, piece?)));
        let pieces: Vec<(i32, DocumentSlice<'a>)> = pieces.collect();
        let mut fetched = match (&self.bytes, remote) {
            (Some(_), Some(remote)) => {
                let pictures = pieces.iter().flat_map(|(_, piece)| piece.pictures());
                let urls: Vec<String> = pictures.filter_map(|it| url_of(&it)).collect();
                remote.contents(&urls)?
            }
            _ => Vec::new(),
        }
        .into_iter();
        for (entry, piece) in pieces {
            let among = i32::try_from(piece.document.pictures().count()).unwrap_or(i32::MAX);
            for picture in piece.pictures() {
                let url = url_of(&picture);
                let bytes = self.bytes.as_mut();
                let checked = match (bytes, &url) {
                    (Some((bytes, lengths)), url) => {
                        let before = bytes.len();
                        let appended = match url {
                            Some(url) => append_fetched(&picture, url, fetched.next(), bytes),
                            None => append_bytes(&picture, bytes),
                        };
                        lengths.push(bytes.len() - before);
                        appended
                    }
                    (None, None) => check_file(&picture),
                    // Training fetches it, and looks at its size.
                    (None, Some(_)) => Ok(()),
                };
                checked.map_err(|message| Error::Record {
                    origin: piece.document.origin(),
                    reason: Reason::Picture,
                    message,
                })?;
                let (path, row) = match picture.source {
                    DocumentPictureSource::File(path) => (url.unwrap_or_else(|| path.text()), 0),
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
                self.file_bytes.push(picture.bytes.unwrap_or(0).into());
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
            Arc::new(Int64Array::from(self.file_bytes)),
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

/// The comparison of a picture's file with its state at tokenizing; the error is the difference.
type PictureCheckResult = std::result::Result<(), String>;

/// The URL of a picture in remote storage.
fn url_of(picture: &DocumentPicture<'_>) -> Option<String> {
    let DocumentPictureSource::File(path) = picture.source else { return None };
    Some(path.text()).filter(|path| is_url(Path::new(path)))
}

/// Refuses a picture whose file on this machine has changed. One that is not there any more is missed in training.
fn check_file(picture: &DocumentPicture<'_>) -> PictureCheckResult {
    let DocumentPictureSource::File(path) = picture.source else { return Ok(()) };
    let path = path.text();
    match fs::metadata(&path) {
        Ok(facts) if picture.version != 0 && version_of(&facts) != picture.version => {
            Err(written_since(&path))
        }
        _ => Ok(()),
    }
}

/// Appends the bytes of a picture that was fetched from `url`.
fn append_fetched(
    picture: &DocumentPicture<'_>,
    url: &str,
    fetched: Option<std::result::Result<PictureContent, String>>,
    bytes: &mut Vec<u8>,
) -> PictureCheckResult {
    let url = public(url);
    let fetched = fetched.unwrap_or_else(|| Err("the call has no remote storage".to_owned()));
    let PictureContent { bytes: content, version } = fetched.map_err(|what| fault(&url, &what))?;
    check_content(picture, &url, &content)?;
    if version != picture.version {
        return Err(written_since(&url));
    }
    bytes.extend_from_slice(&content);
    Ok(())
}

/// Appends the bytes of a picture that the document holds, or of its file on this machine.
fn append_bytes(picture: &DocumentPicture<'_>, bytes: &mut Vec<u8>) -> PictureCheckResult {
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
    let unread = |error: io::Error| fault(&path, &error.to_string());
    let facts = fs::metadata(&path).map_err(unread)?;
    let expected = u64::from(picture.bytes.unwrap_or(0));
    if !facts.is_file() || facts.len() != expected {
        return Err(other_length(&path, facts.len(), expected));
    }
    let read = fs::read(&path).map_err(unread)?;
    check_content(picture, &path, &read)?;
    if version_of(&facts) != picture.version {
        return Err(written_since(&path));
    }
    bytes.extend_from_slice(&read);
    Ok(())
}

/// Refuses bytes of another number, or of a picture of another size.
fn check_content(picture: &DocumentPicture<'_>, name: &str, content: &[u8]) -> PictureCheckResult {
    let expected = u64::from(picture.bytes.unwrap_or(0));
    if content.len() as u64 != expected {
        return Err(other_length(name, content.len() as u64, expected));
    }
    let size = fastpack_picture::size(Cursor::new(content));
    let size = size.map_err(|it| fault(name, &it.to_string()))?;
    if size != picture.size {
        let shown = |Size { width, height }| format!("{width} x {height} pixels");
        return Err(changed(name, &shown(size), &shown(picture.size)));
    }
    Ok(())
}

fn fault(name: &str, what: &str) -> String {
    format!("the picture `{name}`: {what}")
}

fn other_length(name: &str, now: u64, before: u64) -> String {
    changed(name, &format!("{now} bytes"), &before.to_string())
}

fn changed(name: &str, now: &str, before: &str) -> String {
    fault(name, &format!("it has {now}, but had {before} when it was tokenized; pack again"))
}

fn written_since(name: &str) -> String {
    fault(name, "it was written since it was tokenized; pack again")
}
