//! The pictures of documents that a lane reads again after a resume: they lie in files of their own, which may have changed though
//! the records have not.

use std::path::Path;

use twox_hash::XxHash64;

use crate::document::{Document, DocumentPicture, DocumentPictureSource, Documents, PICTURES};
use crate::error::{Error, Origin, Result};
use crate::report::ledger::DroppedRecord;
use crate::storage::{is_url, public};
use crate::util::message::ShownPath;

/// The hashes of the pictures of a document, in its order.
pub(super) type PictureHashes = Vec<u32>;

/// The hashes of the pictures of each document; none at all for documents that show none.
pub(super) fn hashes_of(documents: &Documents) -> Vec<PictureHashes> {
    if !documents.has(PICTURES) {
        return Vec::new();
    }
    documents.iter().map(|document| document.pictures().map(|it| hash_of(&it)).collect()).collect()
}

/// The hash of all that tells a picture from another in its place: its size, the bytes of its file, and its `ETag` or the time of its
/// change in a store. The time of a file of this machine does not count, since a copy of the file has another.
fn hash_of(picture: &DocumentPicture<'_>) -> u32 {
    let version = match picture.source {
        DocumentPictureSource::File(path) if is_url(Path::new(&path.text())) => picture.version,
        _ => 0,
    };
    let size = picture.size;
    let mut bytes = Vec::with_capacity(24);
    bytes.extend(size.width.to_le_bytes());
    bytes.extend(size.height.to_le_bytes());
    bytes.extend(picture.bytes.map_or(0, |bytes| u64::from(bytes) + 1).to_le_bytes());
    bytes.extend(version.to_le_bytes());
    let [a, b, c, d, ..] = XxHash64::oneshot(0, &bytes).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Fails if pictures are others than those of the hashes in a state, and names the first.
///
/// `lost` is a record among theirs that is a bad one now by its picture, and `origin_of` the place of a document with the number of
/// its line.
pub(super) fn compare<'d>(
    documents: impl Iterator<Item = Document<'d>>,
    known: &[u32],
    lost: Option<&DroppedRecord>,
    origin_of: impl Fn(&Document<'_>) -> Result<Origin>,
) -> Result<()> {
    let (mut known, mut change, mut seen) = (known.iter(), None, None);
    for document in documents {
        for picture in document.pictures() {
            if change.is_some() {
                known.next();
            } else if known.next() != Some(&hash_of(&picture)) {
                change = Some((document, picture));
            }
        }
        seen = Some(document);
    }
    let are_fewer = known.next().is_some();
    match (change, lost) {
        (None, _) if !are_fewer => Ok(()),
        // The pictures behind it have moved to its place.
        (_, Some(lost)) if are_fewer => Err(refuse_lost(lost)),
        (Some((document, picture)), _) => Err(refuse(&picture, &origin_of(&document)?)),
        (None, _) => Err(refuse_fewer(seen.map(|document| origin_of(&document)).transpose()?)),
    }
}

/// The error of a record that was kept, and is a bad one now by its picture.
pub(super) fn refuse_lost(lost: &DroppedRecord) -> Error {
    let DroppedRecord { origin, message, .. } = lost;
    Error::option(
        "state",
        format!(
            "is of pictures that are others now: the record at {origin} cannot be read any more: {message}; resume with the pictures \
             as they were, or begin again"
        ),
    )
}

fn refuse(picture: &DocumentPicture<'_>, origin: &Origin) -> Error {
    let named = match picture.source {
        DocumentPictureSource::File(path) => {
            let text = path.text();
            format!("`{}`", ShownPath(Path::new(&public(&text))))
        }
        DocumentPictureSource::Record | DocumentPictureSource::Held(_) => {
            format!("{} in its bytes", picture.number)
        }
    };
    Error::option(
        "state",
        format!(
            "is of pictures that are others now: the picture {named} of the record at {origin} was changed since it was read; \
             resume with the picture as it was, or begin again"
        ),
    )
}

/// The error of records with fewer pictures than before; `origin` is the place of the last that has one still.
fn refuse_fewer(origin: Option<Origin>) -> Error {
    let records = origin.map_or_else(
        || "the records of the block that was being packed show none".to_owned(),
        |origin| format!("the records up to {origin} show fewer than when they were read"),
    );
    Error::option(
        "state",
        format!(
            "is of pictures that are others now: {records}; resume with the pictures as they were, or begin again"
        ),
    )
}

#[cfg(test)]
mod tests {
    use fastpack_picture::Size;

    use super::*;

    #[test]
    fn a_picture_is_known_by_its_size_and_bytes_alone_on_this_machine() {
        let picture = |width, bytes, version| DocumentPicture {
            tokens: 0..1,
            number: 0,
            size: Size { width, height: 9 },
            source: DocumentPictureSource::Record,
            bytes,
            version,
        };
        let wanted = hash_of(&picture(5, Some(7), 1));
        assert_eq!(wanted, hash_of(&picture(5, Some(7), 2)));
        for other in [picture(6, Some(7), 1), picture(5, Some(8), 1), picture(5, None, 1)] {
            assert_ne!(wanted, hash_of(&other));
        }
    }
}
