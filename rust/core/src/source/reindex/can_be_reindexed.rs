//! [`can_be_reindexed`]: the files that can be written again, and why others cannot.

use super::part;
use crate::error::Result;
use crate::source::decompressed_input::InputBytes;
use crate::source::discovery::found::SourceFile;
use crate::source::extents::line_extent::{beginning, text_of};
use crate::source::formats::format::Container;
use crate::source::sizes::PEEKED;
use crate::util::control::Control;

/// True if [`reindex`](super::rewrite_files::reindex) surely divides files like this one, of so many bytes together, into so many
/// parts: a part has more bytes before it is compressed.
pub(crate) fn can_be_divided(file: &SourceFile, bytes: u64, parts: u64) -> bool {
    can_be_reindexed(file) && bytes / part::PART as u64 >= parts
}

/// True if [`reindex`](super::rewrite_files::reindex) takes a file; also for a compressed array of JSON, which shows when it is
/// decoded.
fn can_be_reindexed(file: &SourceFile) -> bool {
    match file.format.container {
        Container::Parquet | Container::Arrow => file.format.compression.is_none(),
        Container::Lines => true,
        Container::Json => {
            let start = beginning(&file.location);
            !start.is_ok_and(|start| text_of(&start).starts_with(b"["))
        }
        _ => false,
    }
}

/// The reason why a file of this kind is not entered in the middle.
pub(super) fn why_whole(file: &SourceFile) -> &'static str {
    match file.format.container {
        Container::Csv | Container::Tsv => {
            "a quote far before a line break decides whether a record ends there"
        }
        Container::Text => "it is one text, or its separator may stand anywhere",
        Container::Lines | Container::Json => {
            "in an array, a quote far before a comma decides whether a record ends there"
        }
        Container::Cbor => "an item ends where its bytes from the beginning say so",
        Container::Parquet | Container::Arrow | Container::Mds => "it is compressed as a whole",
        Container::Records => "its records are found from its beginning",
    }
}

/// True if a file of JSON is one array.
pub(super) fn is_array(file: &SourceFile, control: &Control) -> Result<bool> {
    if file.format.container != Container::Json {
        return Ok(false);
    }
    let mut input = InputBytes::open(&file.location, file.format.compression)?;
    Ok(text_of(input.peek(PEEKED, control)?).starts_with(b"["))
}
