//! [`TiffDirectory`], the first directory of tags of a TIFF file or of EXIF, read as Pillow reads it.

use std::io::{Read, Seek};

use crate::{PictureFault, reader::HeaderReader};

/// The most tags of a directory: as many as a directory with 32-bit offsets can count.
const MOST_TAGS: u64 = 65_535;

/// The first of the tags that no reader needs for the pixels: profiles, and notes of makers.
const FIRST_PRIVATE: u64 = 32_768;

const WIDTH: u64 = 256;
const HEIGHT: u64 = 257;
const ORIENTATION: u64 = 274;
const XMP: u64 = 700;

/// The tags that tell size and turn.
#[derive(Debug, Default)]
pub(crate) struct TiffDirectory {
    pub(crate) width: Option<TagValue>,
    pub(crate) height: Option<TagValue>,
    pub(crate) orientation: Option<TagValue>,
    pub(crate) xmp: Option<Vec<u8>>,
    /// True if it lies past the end, or the value of a tag that the pixels may need. The tags before are read.
    pub(crate) is_cut: bool,
}

/// The first value of a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TagValue {
    Integer(i64),
    /// A text, a fraction, or bytes. It counts as a value, but as none that Pillow knows here.
    Other,
}

impl TagValue {
    /// The value, if it is an integer.
    pub(crate) fn integer(self) -> Option<i64> {
        if let Self::Integer(value) = self { Some(value) } else { None }
    }
}

/// True if a file that starts so is read as TIFF. Two of the marks have wrong bytes, and Pillow reads them.
pub(crate) fn is_accepted(start: &[u8]) -> bool {
    matches!(start, [b'M', b'M', 0, 42 | 43, ..] | [b'I', b'I', 42 | 43, 0, ..])
        || matches!(start, [b'M', b'M', 42, 0, ..] | [b'I', b'I', 0, 42, ..])
}

impl TiffDirectory {
    /// Reads the directory to which the TIFF header at the start of `reader` points.
    pub(crate) fn read<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Self, PictureFault> {
        let head: [u8; 8] = reader.array(0)?;
        if !is_accepted(&head) {
            return Err(reader.damaged("no TIFF header"));
        }
        // Pillow knows 64-bit offsets only in little-endian order.
        let layout = TagLayout { is_little: head[0] == b'I', is_wide: head[2] == 43 };
        let offset = if layout.is_wide {
            layout.number(&reader.array::<8>(8)?)
        } else {
            layout.number(&head[4..])
        };
        let mut directory = Self::default();
        match directory.read_tags(reader, layout, offset) {
            Err(PictureFault::Cut { .. }) => directory.is_cut = true,
            read => read?,
        }
        Ok(directory)
    }

    /// Reads the tags. Of those with one number Pillow keeps the first.
    fn read_tags<R: Read + Seek>(
        &mut self,
        reader: &mut HeaderReader<R>,
        layout: TagLayout,
        offset: u64,
    ) -> Result<(), PictureFault> {
        let (count_bytes, entry_bytes) = if layout.is_wide { (8, 20) } else { (2, 12) };
        let count = layout.number(reader.bytes(offset, count_bytes)?);
        if count > MOST_TAGS {
            return Err(reader.damaged(format!("a directory of {count} tags")));
        }
        let mut outside: u64 = 0;
        for number in 0..count {
            // The count was inside the file, so the sum cannot overflow.
            let at = offset + count_bytes + number * entry_bytes;
            let Some(entry) = TagEntry::read(reader, layout, at, entry_bytes)? else { continue };
            if !entry.is_inside {
                // Pillow leaves out tags that, with those before, hold more than the file does, and stops at a
                // tag that lies past the end.
                outside = outside.saturating_add(entry.length);
                let is_past_end = entry.start.saturating_add(entry.length) > reader.length();
                self.is_cut |= is_past_end && entry.tag < FIRST_PRIVATE;
                if entry.start >= 1 << 63 || outside > reader.length() {
                    continue;
                }
                if is_past_end {
                    return Ok(());
                }
            }
            let value = match entry.tag {
                WIDTH => &mut self.width,
                HEIGHT => &mut self.height,
                ORIENTATION => &mut self.orientation,
                XMP if self.xmp.is_none() && matches!(entry.kind, 1 | 7) => {
                    self.xmp = Some(reader.bytes(entry.start, entry.length)?.to_vec());
                    continue;
                }
                _ => continue,
            };
            if value.is_none() {
                let bytes = reader.bytes(entry.start, entry.unit)?;
                *value = Some(layout.value(entry.kind, bytes));
            }
        }
        Ok(())
    }
}

/// A tag in a directory.
#[derive(Clone, Copy, Debug)]
struct TagEntry {
    tag: u64,
    kind: u64,
    /// The bytes of a value.
    unit: u64,
    /// The offset of the values.
    start: u64,
    /// The bytes of all values.
    length: u64,
    /// True if the values stand in the entry itself.
    is_inside: bool,
}

impl TagEntry {
    /// Reads the entry at `offset`. `None` if its kind is unknown, or if it has no values.
    fn read<R: Read + Seek>(
        reader: &mut HeaderReader<R>,
        layout: TagLayout,
        offset: u64,
        bytes: u64,
    ) -> Result<Option<Self>, PictureFault> {
        let entry = reader.bytes(offset, bytes)?;
        let tag = layout.number(&entry[..2]);
        let kind = layout.number(&entry[2..4]);
        let (count, place) = entry[4..].split_at((entry.len() - 4) / 2);
        let Some(unit) = bytes_of_kind(kind) else { return Ok(None) };
        let length = layout.number(count).saturating_mul(unit);
        let place_bytes = place.len() as u64;
        let is_inside = length <= place_bytes;
        let start = if is_inside { offset + bytes - place_bytes } else { layout.number(place) };
        Ok((length > 0).then_some(Self { tag, kind, unit, start, length, is_inside }))
    }
}

/// The bytes of one value of a kind of TIFF, if it is known.
fn bytes_of_kind(kind: u64) -> Option<u64> {
    match kind {
        1 | 2 | 6 | 7 => Some(1),
        3 | 8 => Some(2),
        4 | 9 | 11 | 13 => Some(4),
        5 | 10 | 12 | 16 => Some(8),
        _ => None,
    }
}

/// The byte order of a directory, and the width of its offsets.
#[derive(Clone, Copy, Debug)]
struct TagLayout {
    is_little: bool,
    /// True if counts and offsets have 64 bits.
    is_wide: bool,
}

impl TagLayout {
    /// The unsigned number of up to eight bytes.
    fn number(self, bytes: &[u8]) -> u64 {
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        if self.is_little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
    }

    /// The value of a kind in `bytes`.
    fn value(self, kind: u64, bytes: &[u8]) -> TagValue {
        let number = self.number(bytes);
        let unused = 64 - 8 * bytes.len();
        match kind {
            3 | 4 | 13 | 16 => i64::try_from(number).map_or(TagValue::Other, TagValue::Integer),
            // Shifted up and down again, the sign fills the upper bits.
            6 | 8 | 9 => TagValue::Integer((number << unused).cast_signed() >> unused),
            _ => TagValue::Other,
        }
    }
}
