//! [`LogEntry`]: the documents and counts of one block, as the log stores them.
//!
//! ```text
//! counts    bytes of the note, number of documents
//! note      JSON: the hash of the block's records, and its part of the ledger
//! ends      where each document ends, in words from the first
//! documents
//! ```
//!
//! All numbers are little-endian; all parts are of whole 32-bit words. The whole is the payload of a [frame](crate::util::disk::checksummed_frames), whose
//! number is that of the block.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use serde::{Deserialize, Serialize};

use crate::document::binary_form::FIXED as DOCUMENT_HEAD;
use crate::document::documents::{Documents, Pass};
use crate::document::ragged_columns::ColumnName;
use crate::report::ledger::Ledger;
use crate::util::disk::checksummed_frames;
use crate::util::disk::checksummed_frames::HEADER;

/// Bytes of a word.
pub(super) const WORD: usize = 4;

/// More bytes than the note of a block has: its ledger names a few records.
const LONGEST_NOTE: usize = 64 << 20;

/// The documents and counts of one block.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The hash of the block's records, in hexadecimal. Equal records have equal hashes.
    pub fingerprint: String,
    /// The documents of the block.
    pub documents: Documents,
    /// The counts of records read and dropped.
    pub ledger: Ledger,
}

#[derive(Serialize, Deserialize)]
struct EntryMetadata<'a> {
    /// The file, for messages about documents where the block is not at hand.
    path: Cow<'a, str>,
    columns: Vec<Cow<'a, str>>,
    /// The words of a document before its columns. An earlier version had fewer.
    head: usize,
    /// The number of earlier reads of the block's source.
    #[serde(default, skip_serializing_if = "is_zero")]
    repetition: u64,
    fingerprint: Cow<'a, str>,
    ledger: Cow<'a, Ledger>,
}

/// An entry as bytes.
#[derive(Debug)]
pub(super) struct EncodedEntry {
    pub(super) header: [u8; HEADER],
    pub(super) payload: Buffer,
    /// The offset of the first document, in bytes from the header's first.
    pub(super) first: usize,
    /// The end of each document, in words from there.
    pub(super) ends: Vec<u32>,
}

/// The entry of the block `number`, as bytes.
pub(super) fn write(
    number: u64,
    fingerprint: &str,
    documents: &Documents,
    ledger: &Ledger,
) -> EncodedEntry {
    let note = EntryMetadata {
        path: documents.path().to_string_lossy(),
        head: DOCUMENT_HEAD,
        columns: documents.names().into_iter().map(|name| Cow::Borrowed(name.0)).collect(),
        repetition: documents.pass().repetition,
        fingerprint: Cow::Borrowed(fingerprint),
        ledger: Cow::Borrowed(ledger),
    };
    let mut note = serde_json::to_vec(&note).expect("strings and numbers become JSON");
    note.resize(note.len().next_multiple_of(WORD), b' ');

    let mut payload = vec![small(note.len()), small(documents.len())];
    payload.extend(words(&note));
    let before_ends = payload.len();
    payload.resize(before_ends + documents.len(), 0);
    let before_documents = payload.len();
    payload.reserve(documents.words());
    let mut ends = Vec::with_capacity(documents.len());
    for index in 0..documents.len() {
        documents.write_words(index, &mut payload);
        ends.push(small(payload.len() - before_documents));
    }
    payload[before_ends..before_documents].copy_from_slice(&ends);
    let payload = bytes(payload);

    let header = checksummed_frames::header(number, &payload);
    EncodedEntry { header, payload, first: HEADER + WORD * before_documents, ends }
}

impl LogEntry {
    /// Reads the payload of a frame; nothing where it is no entry. `path` is the file its block is of, where
    /// that is at hand.
    ///
    /// Returns where its first document begins, and where each ends.
    pub(super) fn read(
        payload: &[u8],
        path: Option<&Arc<Path>>,
    ) -> Option<(Self, usize, Vec<u32>)> {
        let (counts, rest) = payload.split_at_checked(2 * WORD)?;
        let &[note, count] = words(counts).first_chunk()?;
        let (note, rest) = rest.split_at_checked(note as usize)?;
        let note: EntryMetadata = serde_json::from_slice(note).ok()?;
        if note.head != DOCUMENT_HEAD {
            return None;
        }
        let (ends, encoded) = rest.split_at_checked(WORD.checked_mul(count as usize)?)?;
        let ends = words(ends);
        let path = path.map_or_else(|| Arc::from(Path::new(&*note.path)), Arc::clone);
        let columns = note.columns.iter().map(|name| ColumnName::known(name));
        let pass = Pass { repetition: note.repetition, ..Pass::default() };
        let mut documents =
            Documents::new(path, &columns.collect::<Option<Vec<_>>>()?).of_pass(pass);
        let all = words(encoded);
        let mut start = 0;
        for &end in &ends {
            documents.push_words(all.get(start..end as usize)?)?;
            start = end as usize;
        }
        let (fingerprint, ledger) = (note.fingerprint.into_owned(), note.ledger.into_owned());
        let entry = Self { fingerprint, documents, ledger };
        Some((entry, payload.len() - encoded.len(), ends))
    }
}

/// The input file of an entry, and the documents that were read for it; `None` where it is none. `read` fills bytes from an offset on.
pub(super) fn read_head(
    read: &dyn Fn(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<Option<(PathBuf, u64)>> {
    let mut counts = [0; 2 * WORD];
    read(&mut counts, 0)?;
    let size = words(&counts)[0] as usize;
    if size > LONGEST_NOTE {
        return Ok(None);
    }
    let mut note = vec![0; size];
    read(&mut note, counts.len() as u64)?;
    let note: Option<EntryMetadata> = serde_json::from_slice(&note).ok();
    Ok(note.map(|note| (PathBuf::from(&*note.path), note.ledger.read.documents)))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Words as bytes.
fn bytes(mut words: Vec<u32>) -> Buffer {
    if cfg!(target_endian = "big") {
        for word in &mut words {
            *word = word.to_le();
        }
    }
    Buffer::from_vec(words)
}

/// Bytes as words again.
pub(super) fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(WORD);
    words.map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

/// A number of words of one block, whose text is below 2³¹ bytes.
fn small(number: usize) -> u32 {
    u32::try_from(number).expect("a block of fewer than 2^32 words")
}
