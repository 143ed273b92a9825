//! The pictures of documents: their tokens, sizes and files, kept as one more column of numbers.

use std::ops::Range;

use fastpack_picture::Size;

use crate::template::{PictureFile, PlacedPicture};

/// A picture of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPicture {
    /// Its tokens in the document.
    pub tokens: Range<u32>,
    /// Its number among the pictures of its record.
    pub number: u32,
    /// Its size.
    pub size: Size,
    /// Its own file; `None` if the record holds its bytes.
    pub file: Option<String>,
}

/// Numbers of a picture before the bytes of its path.
const FIXED: usize = 6;

/// Marks a picture whose bytes the record holds.
const IN_RECORD: u32 = u32::MAX;

/// Appends a picture of a document to its column.
pub(super) fn write(picture: &PlacedPicture, tokens: &Range<u32>, words: &mut Vec<u32>) {
    let path: &str = match &picture.file {
        PictureFile::At(path) => path,
        PictureFile::Record => "",
    };
    let length = match &picture.file {
        PictureFile::At(path) => u32::try_from(path.len()).unwrap_or(0),
        PictureFile::Record => IN_RECORD,
    };
    let Size { width, height } = picture.size;
    words.extend([tokens.start, tokens.end, picture.number, width, height, length]);
    let padded = path.as_bytes().chunks(4).map(|bytes| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    });
    words.extend(padded);
}

/// The pictures of a document, in the order of their tokens, from its column.
pub(super) fn read(mut words: &[u32]) -> impl Iterator<Item = DocumentPicture> {
    std::iter::from_fn(move || {
        let (&[start, end, number, width, height, length], rest) =
            words.split_first_chunk::<FIXED>()?;
        let bytes = if length == IN_RECORD { 0 } else { length as usize };
        let (path, rest) = rest.split_at_checked(bytes.div_ceil(4))?;
        words = rest;
        let path: Vec<u8> = path.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect();
        let file = (length != IN_RECORD).then(|| String::from_utf8_lossy(&path).into_owned());
        Some(DocumentPicture { tokens: start..end, number, size: Size { width, height }, file })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(number: u32, path: Option<&str>) -> PlacedPicture {
        PlacedPicture {
            range: 0..9,
            number,
            size: Size { width: 5 + number, height: 7 },
            file: path.map_or(PictureFile::Record, |path| PictureFile::At(path.into())),
        }
    }

    #[test]
    fn pictures_are_read_as_they_were_written() {
        let paths = [Some("a.png"), None, Some(""), Some("b/é日.jpeg"), Some("abcd")];
        let mut words = Vec::new();
        for (number, path) in (0..).zip(paths) {
            write(&placed(number, path), &(number..2 * number + 1), &mut words);
        }
        let read: Vec<DocumentPicture> = read(&words).collect();
        assert_eq!(read.len(), paths.len());
        for ((number, path), picture) in (0..).zip(paths).zip(read) {
            assert_eq!(picture.file.as_deref(), path);
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
