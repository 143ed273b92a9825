//! [`Blocks`]: all records of the sources, in order.

use std::fmt;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use super::block::{Block, BlockContent, BlockReader};
use super::callers::memory_records::{MemoryReader, MemoryRecords};
use super::decompressed_input::InputBytes;
use super::discovery::found::{FilePlace, FoundFiles, LineRange, SourceFile, blame, files_ahead};
use super::extents::line_extent::is_indexed;
use super::formats::cbor::CborReader;
use super::formats::csv::CsvReader;
use super::formats::format::{Container, InputFormat};
use super::formats::json::ArrayReader;
use super::formats::lines::LineReader;
use super::formats::mds::MdsReader;
use super::formats::row_reader::ColumnChoice;
use super::formats::text::TextReader;
use super::formats::unread_lines::UnreadLines;
use super::formats::{ipc, parquet};
use super::index_lines::is_index_line;
use super::input_blocks::{ColumnChooser, InputBlocks};
use super::sizes::{BYTE_ORDER_MARK, PEEKED};
use super::unread_block::UnreadBlock;
use crate::config::{Reading, Source};
use crate::error::{Error, Result};
use crate::util::control::Control;

/// All blocks of the sources: each as often as it is repeated, up to its limit each time.
pub struct Blocks {
    sources: Vec<Source>,
    files: Vec<SourceFile>,
    /// The records in memory, if they are the input.
    memory: &'static str,
    chooser: Option<ColumnChooser>,
    /// Bytes of all files together, counted once for each reading.
    size: u64,
    /// The current file.
    place: FilePlace,
    /// The remaining records of the source, if it has a limit.
    left: Option<u64>,
    open: Option<CurrentFile>,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.open.as_ref().map(|open| &open.path);
        f.debug_struct("Blocks")
            .field("files", &self.files)
            .field("place", &self.place)
            .field("open", &path)
            .finish_non_exhaustive()
    }
}

/// The current file.
struct CurrentFile {
    path: Arc<Path>,
    /// The size in bytes, where it is known.
    size: Option<u64>,
    reader: Box<dyn BlockReader>,
    /// The bytes of the file in the blocks so far.
    counted: u64,
    ended: bool,
}

impl Blocks {
    /// The blocks of the files that were found.
    pub fn new(found: FoundFiles) -> Self {
        let size = found.bytes();
        Self { size, files: found.files, ..Self::of(found.sources) }
    }

    /// The blocks of records in memory, with this `Reading`.
    pub fn of_memory(memory: MemoryRecords, reading: Reading) -> Self {
        let (path, size, format) = (Arc::clone(&memory.name), memory.size, memory.format);
        let reader = Box::new(MemoryReader::new(memory));
        let open = Some(CurrentFile { path, size: None, reader, counted: 0, ended: false });
        Self { memory: format, size, open, ..Self::of(vec![Source::of(Vec::new(), reading)]) }
    }

    fn of(sources: Vec<Source>) -> Self {
        let left = sources.first().and_then(|source| source.limit).map(NonZeroU64::get);
        let files = Vec::new();
        Self {
            sources,
            files,
            memory: "",
            chooser: None,
            size: 0,
            place: FilePlace::default(),
            left,
            open: None,
        }
    }

    /// Opens the current file.
    fn start(&self, source: usize, control: &Control) -> Result<CurrentFile> {
        let file = &self.files[self.place.at];
        let (path, size) = (Arc::clone(&file.path), Some(file.bytes_read()));
        for (_, next) in files_ahead(&self.files, self.place.at) {
            next.prefetch();
        }
        let reader = open(file, &self.sources[source].reading, self.chooser, control)?;
        Ok(CurrentFile { path, size, reader, counted: 0, ended: false })
    }

    /// A block of the current file.
    fn block(&self, path: &Arc<Path>, source: usize, size: u64, content: BlockContent) -> Block {
        let block = Block::new(path, self.place.at, source, size, content);
        let mut block = block.read_again(self.place.times);
        block.is_continued = self.files.get(self.place.at).is_some_and(|it| it.lines.is_some());
        block
    }

    /// Goes to the next file, with the limit of its source if a reading of that begins.
    fn next_file(&mut self) {
        self.open = None;
        if self.place.at < self.files.len()
            && let Some(source) = self.place.advance(&self.files, &self.sources)
        {
            self.left =
                self.sources.get(source).and_then(|source| source.limit).map(NonZeroU64::get);
        }
    }
}

impl InputBlocks for Blocks {
    fn next_block(&mut self, control: &Control) -> Result<Option<Block>> {
        while self.open.is_some() || self.place.at < self.files.len() {
            let source = self.files.get(self.place.at).map_or(0, |file| file.source);
            if self.left == Some(0) {
                let counted = self.open.as_ref().map_or(0, |open| open.counted);
                let file = &self.files[self.place.at];
                let rest = file.size.saturating_sub(counted);
                let block =
                    Block::new(&file.path, self.place.at, source, rest, BlockContent::nothing());
                self.next_file();
                return Ok(Some(block));
            }
            if self.open.is_none() {
                self.open = Some(self.start(source, control)?);
            }
            let Some(open) = &mut self.open else { continue };
            if let Some((size, content)) = open.next_content(control)? {
                if let (BlockContent::Broken { .. }, Some(file)) =
                    (&content, self.files.get(self.place.at))
                {
                    // Bytes that could not be fetched are no damage of the file.
                    file.unchanged()?;
                }
                let path = Arc::clone(&open.path);
                let mut block = self.block(&path, source, size, content);
                if let Some(left) = &mut self.left {
                    *left -= block.limit(*left);
                }
                return Ok(Some(block));
            }
            if let Some(file) = self.files.get(self.place.at) {
                file.unchanged()?;
            }
            self.next_file();
        }
        Ok(None)
    }

    fn next_unread(&mut self, control: &Control) -> Result<Option<UnreadBlock>> {
        if self.left.is_none()
            && let Some(open) = &mut self.open
            && let Some((size, lines)) = open.next_unread()?
        {
            let (path, at) = (Arc::clone(&open.path), self.place.at);
            let block = self.block(&path, self.files[at].source, size, BlockContent::nothing());
            return Ok(Some(UnreadBlock::of(block, lines)));
        }
        Ok(self.next_block(control)?.map(UnreadBlock::from))
    }

    fn choose_columns(&mut self, chooser: ColumnChooser) {
        self.chooser = Some(chooser);
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn sources(&self) -> &[Source] {
        &self.sources
    }

    fn are_of_files(&self) -> bool {
        !self.files.is_empty()
    }

    fn format(&self, file: usize) -> String {
        self.files.get(file).map_or_else(|| self.memory.to_owned(), |file| file.format.to_string())
    }

    fn blame(&self, error: Error) -> Error {
        blame(&self.files, error)
    }
}

impl CurrentFile {
    /// The next records, and the bytes of the file that they account for.
    fn next_content(&mut self, control: &Control) -> Result<Option<(u64, BlockContent)>> {
        let content = if self.ended { None } else { self.reader.next_content(control)? };
        let (content, end) = match content {
            Some(content) => {
                self.ended = matches!(content, BlockContent::Broken { .. });
                (content, self.reader.position().min(self.size.unwrap_or(u64::MAX)))
            }
            // Bytes after the last record, such as a file's footer, are counted too.
            None => match self.size {
                Some(size) if self.counted < size => {
                    self.ended = true;
                    (BlockContent::nothing(), size)
                }
                _ => return Ok(None),
            },
        };
        Ok(Some((self.count_up_to(end), content)))
    }

    /// The next records, if any thread may read them, and the bytes of the file that they account for.
    fn next_unread(&mut self) -> Result<Option<(u64, UnreadLines)>> {
        let lines = if self.ended { None } else { self.reader.next_unread()? };
        let end = self.reader.position();
        Ok(lines.map(|lines| (self.count_up_to(end), lines)))
    }

    /// The bytes up to an offset that were not counted before.
    fn count_up_to(&mut self, end: u64) -> u64 {
        let size = end.saturating_sub(self.counted);
        self.counted += size;
        size
    }
}

/// Opens a file with the reader of its container.
fn open(
    file: &SourceFile,
    reading: &Reading,
    chooser: Option<ColumnChooser>,
    control: &Control,
) -> Result<Box<dyn BlockReader>> {
    let InputFormat { container, compression } = file.format;
    if let Some(LineRange { bytes, first }) = &file.lines {
        let input = InputBytes::within(&file.location, bytes.clone())?;
        let reader = LineReader::new(input, is_indexed(&file.location)?);
        return Ok(Box::new(reader.starting_at(*first)));
    }
    let input = || InputBytes::open(&file.location, compression);
    let columns = || {
        let reading = reading.clone();
        chooser.map(|choose| -> ColumnChoice { Box::new(move |rows| choose(&reading, rows)) })
    };
    Ok(match container {
        Container::Lines | Container::Json => {
            let mut input = input()?;
            let start = input.peek(PEEKED, control)?;
            let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
            if container == Container::Json && start.starts_with(b"[") {
                Box::new(ArrayReader::new(input))
            } else {
                let first = start.split(|byte| *byte == b'\n').next();
                let indexed = first.is_some_and(is_index_line);
                Box::new(LineReader::of_whole_file(input, indexed)?)
            }
        }
        Container::Csv => Box::new(CsvReader::new(input()?, b',')),
        Container::Tsv => Box::new(CsvReader::new(input()?, b'\t')),
        Container::Text => Box::new(TextReader::new(input()?, reading.separator.as_deref())),
        Container::Cbor => Box::new(CborReader::new(input()?)),
        Container::Mds => Box::new(MdsReader::new(input()?)),
        Container::Parquet => parquet::open(file, columns())?,
        Container::Arrow => ipc::open(file, columns(), control)?,
        Container::Records => {
            let reason = "holds records that a function gives, which only a stream reads";
            return Err(Error::option("files", reason));
        }
    })
}
