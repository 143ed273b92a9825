//! The pictures of documents: their tokens, sizes and files or bytes, kept as one more column of numbers.
//!
//! ```text
//! tokens      start and end
//! number      among the pictures of the record
//! size        width and height
//! path        its length in bytes, or u32::MAX if the record holds the picture
//! bytes       their number, or 0 if it is not known
//! version     of the file, its lower and its upper half
//! the path, or the bytes that rows embed of a picture in a record
//! ```

use std::ops::Range;

use fastpack_picture::Size;

use crate::template::{PictureSource, PlacedPicture};

/// A picture of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPicture<'a> {
    /// Its tokens in the document.
    pub tokens: Range<u32>,
    /// Its number among the pictures of its record.
    pub number: u32,
    /// Its size.
    pub size: Size,
    /// The place of its bytes.
    pub source: DocumentPictureSource<'a>,
    /// The number of its bytes, if known.
    pub bytes: Option<u32>,
    /// A number that changes with the content of its file; 0 for one without a file of its own.
    pub version: u64,
}

/// The place of a picture's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentPictureSource<'a> {
    /// A file of its own, by its path.
    File(WordBytes<'a>),
    /// The record that the document is of.
    Record,
    /// The document itself, which has these bytes.
    Held(WordBytes<'a>),
}

/// Bytes that a column of numbers holds, the last number filled up with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordBytes<'a> {
    words: &'a [u32],
    length: usize,
}

impl WordBytes<'_> {
    /// The bytes as a text; what is no Unicode in them is replaced.
    pub fn text(self) -> String {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Appends the bytes to a list.
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + self.length;
        bytes.reserve(WORD * self.words.len());
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.truncate(end);
    }
}

/// Numbers of a picture before its path or bytes.
const FIXED: usize = 9;

/// Bytes of a number.
const WORD: usize = 4;

/// Marks a picture whose bytes follow.
const IN_DOCUMENT: u32 = u32::MAX;

/// Marks a picture whose bytes the record holds.
const IN_RECORD: u32 = u32::MAX - 1;

/// Appends a picture of a document to its column.
pub(super) fn write(picture: &PlacedPicture, tokens: &Range<u32>, words: &mut Vec<u32>) {
    let (length, following): (u32, &[u8]) = match &picture.source {
        PictureSource::File(path) => (u32::try_from(path.len()).unwrap_or(0), path.as_bytes()),
        PictureSource::Record => (IN_RECORD, &[]),
        PictureSource::Held(bytes) => (IN_DOCUMENT, bytes),
    };
    let Size { width, height } = picture.size;
    let held = picture.bytes.unwrap_or(0);
    let version = [picture.version & u64::from(u32::MAX), picture.version >> 32]
        .map(|half| u32::try_from(half).expect("half of the bits"));
    words.extend([tokens.start, tokens.end, picture.number, width, height, length, held]);
    words.extend(version);
    words.extend(following.chunks(WORD).map(|bytes| {
        let mut word = [0; WORD];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    }));
}

/// The pictures of a document, in the order of their tokens, from its column.
pub(super) fn read(mut words: &[u32]) -> impl Iterator<Item = DocumentPicture<'_>> {
    std::iter::from_fn(move || {
        let (&[start, end, number, width, height, length, held, lower, upper], rest) =
            words.split_first_chunk::<FIXED>()?;
        let follow = match length {
            IN_RECORD => 0,
            IN_DOCUMENT => held as usize,
            path => path as usize,
        };
        let (following, rest) = rest.split_at_checked(follow.div_ceil(WORD))?;
        words = rest;
        let following = WordBytes { words: following, length: follow };
        let source = match length {
            IN_RECORD => DocumentPictureSource::Record,
            IN_DOCUMENT => DocumentPictureSource::Held(following),
            _ => DocumentPictureSource::File(following),
        };
        let size = Size { width, height };
        let bytes = Some(held).filter(|bytes| *bytes > 0);
        let version = u64::from(lower) | u64::from(upper) << 32;
        Some(DocumentPicture { tokens: start..end, number, size, source, bytes, version })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pictures_are_read_as_they_were_written() {
        let file = |path: &str| PictureSource::File(path.into());
        let held = |bytes: &[u8]| PictureSource::Held(bytes.into());
        let sources = [
            (file("a.png"), None),
            (PictureSource::Record, None),
            (file(""), None),
            (held(b"12345"), Some(5)),
            (file("b/é日.jpeg"), Some(77)),
            (held(b"1234"), Some(4)),
            (file("abcd"), None),
        ];
        let mut words = Vec::new();
        for (number, (source, bytes)) in (0..).zip(&sources) {
            let size = Size { width: 5 + number, height: 7 };
            let (source, bytes) = (source.clone(), *bytes);
            let version = u64::from(number) << 31;
            let placed = PlacedPicture { range: 0..9, number, size, source, bytes, version };
            write(&placed, &(number..2 * number + 1), &mut words);
        }
        let read: Vec<DocumentPicture<'_>> = read(&words).collect();
        assert_eq!(read.len(), sources.len());
        for ((number, (source, own)), picture) in (0..).zip(sources).zip(read) {
            match (source, picture.source) {
                (PictureSource::File(path), DocumentPictureSource::File(found)) => {
                    assert_eq!(&*path, found.text());
                }
                (PictureSource::Record, DocumentPictureSource::Record) => {}
                (PictureSource::Held(bytes), DocumentPictureSource::Held(found)) => {
                    let mut copied = Vec::new();
                    found.append_to(&mut copied);
                    assert_eq!(&*bytes, copied);
                }
                (wanted, found) => panic!("{wanted:?} was read as {found:?}"),
            }
            assert_eq!(picture.bytes, own);
            assert_eq!(picture.version, u64::from(number) << 31);
            assert_eq!((picture.number, picture.tokens), (number, number..2 * number + 1));
            assert_eq!(picture.size, Size { width: 5 + number, height: 7 });
        }
    }

    proptest! {
        #[test]
        fn no_column_panics(words: Vec<u32>) {
            prop_assert!(read(&words).count() <= words.len());
        }
    }
}
