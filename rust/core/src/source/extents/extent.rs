//! [`Extent`]: a stretch of the input with random access to its start, and [`ExtentBlocks`], its blocks.
//!
//! Uncompressed line files are cut into extents at newlines, those of zstd at its frames. An extent of a Parquet file is a
//! row group, one of an Arrow file a record batch, one of an uncompressed MDS shard some records. Any other file is one extent, which is read from its beginning.

use std::num::NonZeroU64;
use std::ops::Range;

use super::frame_lines::FrameExtent;
use super::line_extent::LineExtent;
use super::line_file::LineFile;
use super::places::{ExtentPlace, PlacedExtent, line_of, places};
use super::zstd_frames::ZstdFrames;
use crate::error::{Origin, Result};
use crate::source::block::{Block, BlockContent, BlockReader, short};
use crate::source::blocks::Blocks;
use crate::source::discovery::found::{FilePart, FoundFiles, SourceFile};
use crate::source::discovery::index::FactIndex;
use crate::source::formats::format::Container;
use crate::source::formats::ipc;
use crate::source::formats::mds::MdsExtent;
use crate::source::formats::parquet;
use crate::source::input_blocks::InputBlocks;
use crate::util::control::Control;

pub(crate) use super::places::{ExtentNumbering, is_line_file};

/// The beginning of an extent of zstd frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameStart {
    /// The identity of its first line.
    pub(crate) first_line: u64,
    /// Its first byte in the file.
    pub(crate) byte: u64,
}

/// A stretch of the input that can be read without reading what is before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The index of the file among those that were found. For a source that is read as a whole, its first
    /// file.
    pub(crate) file: usize,
    /// Its number among the extents of the file.
    pub(crate) number: u32,
    /// Its bytes of the file.
    pub(crate) bytes: u64,
    /// Its size beside those of other extents, when they are dealt: its bytes, or an estimate of its tokens.
    pub(crate) weight: u64,
    /// The number of its first record in the file, from 0, if records are numbered.
    pub(crate) first_record: u64,
    /// Bytes of a row group or batch in memory, which are taken while the extent is read; 0 for other extents, which are
    /// read in blocks.
    pub(crate) decoded: u64,
    place: ExtentPlace,
}

impl Extent {
    /// A block of records that the caller gives.
    pub(crate) fn of_records(file: usize, number: u32, first_record: u64) -> Self {
        let (bytes, weight, decoded, place) = (0, 0, 0, ExtentPlace::File);
        Self { file, number, bytes, weight, first_record, decoded, place }
    }

    /// A hash of extents and of their places in the files, but not of their weights.
    pub(crate) fn short_hash_of(extents: &[Self]) -> u32 {
        let mut hasher = blake3::Hasher::new();
        for Self { file, number, bytes, first_record, place, weight: _, decoded: _ } in extents {
            let place = place.in_words();
            let placed = format!("{file} {number} {bytes} {first_record} {place};");
            hasher.update(placed.as_bytes());
        }
        short(&hasher.finalize())
    }

    /// Its beginning, if it is of zstd frames.
    pub(crate) fn frame_start(&self) -> Option<FrameStart> {
        match &self.place {
            ExtentPlace::Frames { range, first_line, .. } => {
                Some(FrameStart { first_line: *first_line, byte: range.start })
            }
            _ => None,
        }
    }

    /// Its range of an uncompressed line file, if it is of one.
    pub(crate) fn lines(&self) -> Option<&Range<u64>> {
        match &self.place {
            ExtentPlace::Lines { range, .. } | ExtentPlace::Near(range) => Some(range),
            _ => None,
        }
    }

    /// The bytes that are decoded at most to enter a place of the extent of a compressed line file: those of a whole file,
    /// which are compressed, or of a frame.
    pub(crate) fn decoded_to_enter(&self, found: &FoundFiles) -> u64 {
        let format = found.files[self.file].format;
        let is_text = matches!(format.container, Container::Lines | Container::Json);
        match self.place {
            ExtentPlace::File if is_text && format.compression.is_some() => self.bytes,
            ExtentPlace::Frames { largest, .. } => largest,
            _ => 0,
        }
    }
}

/// The extents of the parts of `files`. Files that can be cut have extents of about `most` bytes.
///
/// With a `numbering` of lines or records, line files are read to count them.
pub(crate) fn extents(
    found: &FoundFiles,
    files: &[usize],
    parts: &[FilePart],
    most: u64,
    numbering: ExtentNumbering,
    index: FactIndex<'_>,
    control: &Control,
) -> Result<Vec<Extent>> {
    let mut all = Vec::new();
    for &file in files {
        control.tick()?;
        let source = &found.files[file];
        let limited = found.sources[source.source].limit.is_some();
        let places = if limited {
            vec![PlacedExtent {
                bytes: found.bytes_of_source(source.source),
                first_record: 0,
                decoded: 0,
                place: ExtentPlace::Source,
            }]
        } else {
            places(source, &parts[file], most, numbering, index, control)?
        };
        all.extend((0..).zip(places).map(|(number, placed)| {
            let PlacedExtent { bytes, first_record, decoded, place } = placed;
            Extent { file, number, bytes, weight: bytes, first_record, decoded, place }
        }));
    }
    Ok(all)
}

/// The blocks of an extent, in order.
pub(crate) struct ExtentBlocks {
    reading: ExtentReader,
    file: usize,
    source: usize,
    /// The file, for a check at the end that it has not changed; `None` where [`Blocks`] checks.
    entered: Option<SourceFile>,
    /// Bytes of the extent after the blocks so far.
    left: u64,
    /// The file of lines that were read, for the next extent.
    read: Option<LineFile>,
}

enum ExtentReader {
    Files(Box<Blocks>),
    Stretch(Box<dyn BlockReader>),
    Ended,
}

impl ExtentBlocks {
    /// Opens an extent. Of a table, the named columns are read, or all. A file that was open for the extent `before` is not
    /// opened again.
    pub(crate) fn enter(
        found: &FoundFiles,
        extent: &Extent,
        columns: Option<&[String]>,
        before: Option<Self>,
        control: &Control,
    ) -> Result<Self> {
        let before = before.and_then(Self::into_file);
        let file = &found.files[extent.file];
        let entered = Some(file.clone());
        let (reading, entered) = match &extent.place {
            ExtentPlace::Source => {
                let files = found.files.iter().filter(|it| it.source == file.source);
                (ExtentReader::Files(Box::new(blocks_of(found, files, true))), None)
            }
            ExtentPlace::File => {
                (ExtentReader::Files(Box::new(blocks_of(found, [file], false))), None)
            }
            ExtentPlace::Lines { range, first_line } => {
                file.unchanged()?;
                let reader =
                    LineExtent::open_after(&file.location, range.clone(), *first_line, before)?;
                (ExtentReader::Stretch(Box::new(reader)), entered)
            }
            ExtentPlace::Near(range) => {
                file.unchanged()?;
                let reader = LineExtent::near(file, range.clone(), before, control)?;
                let left = reader.left();
                let reading = ExtentReader::Stretch(Box::new(reader));
                let (file, source) = (extent.file, file.source);
                return Ok(Self { reading, file, source, entered, left, read: None });
            }
            ExtentPlace::Frames { range, first_line, indexed, .. } => {
                file.unchanged()?;
                let reader = FrameExtent::open(file, range.clone(), *first_line, *indexed);
                (ExtentReader::Stretch(Box::new(reader)), entered)
            }
            ExtentPlace::Batch { batch, first_row } => {
                file.unchanged()?;
                let reader = ipc::open_batch(file, *batch, *first_row, columns)?;
                (ExtentReader::Stretch(reader), entered)
            }
            ExtentPlace::Records { head, records } => {
                file.unchanged()?;
                let reader = MdsExtent::open(file, head, records.clone())?;
                (ExtentReader::Stretch(Box::new(reader)), entered)
            }
            ExtentPlace::Group { number, first_row } => {
                file.unchanged()?;
                let reader = parquet::open_group(file, *number, *first_row, columns)?;
                (ExtentReader::Stretch(reader), entered)
            }
        };
        let (file, source, left) = (extent.file, file.source, extent.bytes);
        Ok(Self { reading, file, source, entered, left, read: None })
    }

    /// The open file, if another extent of it can be read with it.
    fn into_file(self) -> Option<LineFile> {
        match self.reading {
            ExtentReader::Stretch(reader) => reader.into_file(),
            ExtentReader::Files(_) | ExtentReader::Ended => self.read,
        }
    }

    /// The next block; `None` after the last.
    pub(crate) fn next_block(&mut self, control: &Control) -> Result<Option<Block>> {
        let block = match &mut self.reading {
            ExtentReader::Ended => return Ok(None),
            ExtentReader::Files(blocks) => blocks.next_block(control)?.map(|mut block| {
                block.file += self.file;
                block.source = self.source;
                block
            }),
            ExtentReader::Stretch(reader) => {
                let file = self.entered.as_ref().expect("a stretch is of a file");
                reader.next_content(control)?.map(|content| {
                    let size = reader.position().min(self.left);
                    Block::new(&file.path, self.file, self.source, size, content)
                })
            }
        };
        if let Some(block) = &block {
            self.left = self.left.saturating_sub(block.size);
            if let (BlockContent::Broken { .. }, Some(file)) = (&block.content, &self.entered) {
                file.unchanged()?;
            }
        } else {
            if let ExtentReader::Stretch(reader) =
                std::mem::replace(&mut self.reading, ExtentReader::Ended)
            {
                self.read = reader.into_file();
            }
            if let Some(file) = &self.entered {
                file.unchanged()?;
            }
        }
        Ok(block)
    }
}

/// The blocks of files of one source, read once.
pub(crate) fn blocks_of<'a>(
    found: &FoundFiles,
    files: impl IntoIterator<Item = &'a SourceFile>,
    limited: bool,
) -> Blocks {
    let files: Vec<SourceFile> =
        files.into_iter().map(|file| SourceFile { source: 0, ..file.clone() }).collect();
    let sources =
        found.files.iter().find(|file| files.first().is_some_and(|it| it.path == file.path));
    let source = sources.map_or(0, |file| file.source);
    let mut source = found.sources[source].clone();
    source.repeat = NonZeroU64::MIN;
    if !limited {
        source.limit = None;
    }
    Blocks::new(FoundFiles { sources: vec![source], files, passed_over: Vec::new() })
}

/// The first blocks of a file, from its beginning.
pub(crate) fn first_blocks(found: &FoundFiles, file: usize) -> ExtentBlocks {
    let found_file = &found.files[file];
    let mut source = found.sources[found_file.source].clone();
    (source.repeat, source.limit) = (NonZeroU64::MIN, None);
    let location = found_file.location.for_its_start();
    let files = vec![SourceFile { source: 0, location, ..found_file.clone() }];
    let alone = FoundFiles { sources: vec![source], files, passed_over: Vec::new() };
    ExtentBlocks {
        reading: ExtentReader::Files(Box::new(Blocks::new(alone))),
        file,
        source: found_file.source,
        entered: None,
        left: found_file.size,
        read: None,
    }
}

/// Replaces the identity of a record by the number of its line.
pub(crate) fn number_line(
    found: &FoundFiles,
    origin: &mut Origin,
    control: &Control,
) -> Result<()> {
    let file = found.files.iter().find(|file| file.path == origin.path);
    if let Some(file) = file
        && file.is_file()
        && found.sources[file.source].limit.is_none()
    {
        if is_line_file(file)? {
            origin.line = line_of(file, origin.line, control)?;
        } else if let Some(frames) = ZstdFrames::of(file, control)? {
            origin.line = frames.line(file, origin.line, control)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{Inputs, Reading, Source};
    use crate::source::discover;

    /// An MDS shard of texts of these lengths.
    fn shard(lengths: &[u32]) -> Vec<u8> {
        let columns =
            br#"{"column_names":["text"],"column_encodings":["str"],"column_sizes":[null]}"#;
        let word = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
        let mut at = 4 * (lengths.len() + 2) + columns.len();
        let mut bytes = word(lengths.len()).to_vec();
        bytes.extend(word(at));
        for length in lengths {
            at += 4 + *length as usize;
            bytes.extend(word(at));
        }
        bytes.extend(columns);
        for length in lengths {
            bytes.extend(length.to_le_bytes());
            bytes.extend(vec![b'a'; *length as usize]);
        }
        bytes
    }

    /// The extents of a shard, of about 100 bytes each.
    fn extents_of(lengths: &[u32]) -> Vec<Extent> {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("shard.00000.mds");
        fs::write(&path, shard(lengths)).expect("room");
        let source = Source::of(vec![path], Reading::default());
        let inputs = Inputs { sources: vec![source], ..Inputs::default() };
        let control = Control::default();
        let found = discover(&inputs, &control).expect("a file");
        let parts: Vec<FilePart> = found.files.iter().map(FilePart::whole).collect();
        let numbering = ExtentNumbering { lines: false, records: false };
        extents(&found, &[0], &parts, 100, numbering, FactIndex(None), &control).expect("a shard")
    }

    #[test]
    fn the_hash_of_records_of_a_shard_does_not_depend_on_the_others() {
        let lengths: Vec<u32> = (0..400).map(|at| 20 + at % 7).collect();
        let extents = extents_of(&lengths);
        assert!(extents.len() > 50, "{} extents", extents.len());
        assert!(extents.iter().all(|extent| extent.place.in_words().len() < 100));
        // The last two records, with their cut at another place.
        let mut others = lengths.clone();
        others[398] -= 3;
        others[399] += 3;
        let others = extents_of(&others);
        assert_eq!(others.len(), extents.len());
        let hash = Extent::short_hash_of;
        assert_eq!(hash(&others[..50]), hash(&extents[..50]));
        // The extents before them, each one byte further.
        let mut moved = lengths;
        moved[0] += 1;
        assert_ne!(hash(&extents_of(&moved)[1..50]), hash(&extents[1..50]));
    }
}
