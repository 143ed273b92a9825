//! [`SampledBlocks`]: the blocks of a [`Sample`].
//!
//! Line files are read at many places all over them. Of other files as much is read as a second allows: all of it, or some of the
//! extents of a file that can be entered in the middle, or else the beginning. Of the records that were read, some are taken.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::sample::Sample;
use super::sequential::SequentialSample;
use crate::config::Source;
use crate::error::{Error, Result};
use crate::source::block::{Block, BlockContent, BlockReader};
use crate::source::blocks::Blocks;
use crate::source::discovery::found::{
    FilePart, FilePlace, FoundFiles, SourceFile, blame, files_ahead,
};
use crate::source::discovery::index::FactIndex;
use crate::source::extents::extent::{
    Extent, ExtentBlocks, ExtentNumbering, FrameStart, blocks_of, extents,
};
use crate::source::extents::line_extent::LineExtent;
use crate::source::formats::format::Container;
use crate::source::input_blocks::{ColumnChooser, InputBlocks};
use crate::util::control::Control;

/// The most bytes of an extent of a file whose extents are not given by its row groups or batches.
const EXTENT: u64 = 1 << 20;

/// The blocks of a sample of all files, each read as often as its source is repeated.
pub(crate) struct SampledBlocks {
    found: FoundFiles,
    sample: Sample,
    chooser: Option<ColumnChooser>,
    /// The extents of the files that are entered; none for others.
    extents: Vec<Vec<Extent>>,
    /// The number of extents of all files that are entered, once for each reading.
    all: u64,
    /// The number of those that were passed, read or not.
    passed: u64,
    /// The numbers of those that are read, ascending.
    chosen: Vec<u64>,
    place: FilePlace,
    open: Option<SampledFile>,
}

/// The current file.
enum SampledFile {
    /// A line file, at many places.
    Lines(LineExtent),
    /// The chosen extents of a file that is entered.
    Entered {
        later: VecDeque<Extent>,
        columns: Option<Vec<String>>,
        open: Option<ExtentBlocks>,
        through: SequentialSample,
    },
    /// A file that is read from its beginning.
    Through(Blocks, SequentialSample),
}

impl SampledBlocks {
    /// The blocks of a sample of the files that were found. No source may have a limit.
    ///
    /// # Errors
    ///
    /// The error of a file whose extents cannot be found.
    pub(crate) fn new(found: FoundFiles, sample: Sample, control: &Control) -> Result<Self> {
        let extents = if sample.reach() < 1.0 {
            extents_of(&found, control)?
        } else {
            vec![Vec::new(); found.files.len()]
        };
        let readings = found.files.iter().map(|file| found.sources[file.source].repeat.get());
        let each = readings
            .zip(&extents)
            .map(|(times, extents)| times.saturating_mul(extents.len() as u64));
        let all = each.fold(0, u64::saturating_add);
        let chosen = if all == 0 { Vec::new() } else { sample.chosen_extents(all).collect() };
        let (chooser, passed, place, open) = (None, 0, FilePlace::default(), None);
        Ok(Self { found, sample, chooser, extents, all, passed, chosen, place, open })
    }

    /// The number of files that are read from their beginning.
    pub(crate) fn unentered_files(&self) -> usize {
        let files = self.found.files.iter().zip(&self.extents);
        files.filter(|(file, extents)| extents.is_empty() && !Sample::spreads_over(file)).count()
    }

    /// The beginnings of the extents of each file of zstd frames that is entered.
    pub(crate) fn frames(&self) -> HashMap<Arc<Path>, Vec<FrameStart>> {
        let framed = self.found.files.iter().zip(&self.extents).map(|(file, extents)| {
            (
                Arc::clone(&file.path),
                extents.iter().filter_map(Extent::frame_start).collect::<Vec<_>>(),
            )
        });
        framed.filter(|(_, frames)| !frames.is_empty()).collect()
    }

    /// Opens the current file.
    fn start(&mut self, control: &Control) -> Result<SampledFile> {
        let FilePlace { at, times } = self.place;
        let file = &self.found.files[at];
        for (number, next) in files_ahead(&self.found.files, at) {
            let is_table = next.format.container == Container::Parquet;
            if is_table || self.extents[number].is_empty() && !Sample::spreads_over(next) {
                next.prefetch();
            }
        }
        if Sample::spreads_over(file) {
            let windows = self.sample.windows(file.size, at, times);
            return Ok(SampledFile::Lines(LineExtent::near_each(file, windows)?));
        }
        let extents = &self.extents[at];
        let all = Some(self.all).filter(|_| !extents.is_empty());
        let through = self.sample.through(file, at, times, all);
        if extents.is_empty() {
            let mut blocks = blocks_of(&self.found, [file], false);
            if let Some(chooser) = self.chooser {
                blocks.choose_columns(chooser);
            }
            return Ok(SampledFile::Through(blocks, through));
        }
        let behind = self.passed.saturating_add(extents.len() as u64);
        let before = |end: u64| self.chosen.partition_point(|number| *number < end);
        let chosen = &self.chosen[before(self.passed)..before(behind)];
        let place = |number: u64| usize::try_from(number - self.passed).expect("one in memory");
        let later: VecDeque<Extent> =
            chosen.iter().map(|&number| extents[place(number)].clone()).collect();
        self.passed = behind;
        let columns = if later.is_empty() { None } else { self.columns(file, control)? };
        Ok(SampledFile::Entered { later, columns, open: None, through })
    }

    /// The columns to read of a table, by its first rows; `None` for all, and of other files.
    fn columns(&self, file: &SourceFile, control: &Control) -> Result<Option<Vec<String>>> {
        let is_table = matches!(file.format.container, Container::Parquet | Container::Arrow);
        let Some(chooser) = self.chooser.filter(|_| is_table) else { return Ok(None) };
        let mut beginning = blocks_of(&self.found, [file], false);
        beginning.choose_columns(chooser);
        let first = beginning.next_block(control)?;
        Ok(first.and_then(|block| match block.content {
            BlockContent::Rows { batch, .. } => {
                Some(batch.schema().fields().iter().map(|it| it.name().clone()).collect())
            }
            _ => None,
        }))
    }

    /// The next block of the current file; `None` after the last.
    fn next_of_file(&mut self, control: &Control) -> Result<Option<Block>> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.start(control)?,
        };
        let file = &self.found.files[self.place.at];
        let block = match &mut open {
            SampledFile::Lines(lines) => {
                let content = lines.next_content(control)?;
                let block = content.map(|content| {
                    let size = lines.position();
                    self.sample.count_lines(size);
                    Block::new(&file.path, self.place.at, file.source, size, content)
                });
                if block.is_none() {
                    file.unchanged()?;
                }
                block
            }
            SampledFile::Entered { later, columns, open, through } => loop {
                let next = open.as_mut().map(|it| it.next_block(control)).transpose()?;
                if let Some(mut block) = next.flatten() {
                    through.thin(&mut block);
                    break Some(block);
                }
                let Some(extent) = later.pop_front() else { break None };
                let columns = columns.as_deref();
                let before = open.take();
                *open = Some(ExtentBlocks::enter(&self.found, &extent, columns, before, control)?);
            },
            SampledFile::Through(blocks, through) if !through.has_ended() => {
                let block = blocks.next_block(control)?;
                block.map(|mut block| {
                    through.thin(&mut block);
                    (block.file, block.source) = (self.place.at, file.source);
                    block
                })
            }
            SampledFile::Through(..) => None,
        };
        if block.is_some() {
            self.open = Some(open);
        } else if let SampledFile::Entered { through, .. } | SampledFile::Through(_, through) =
            &open
        {
            self.sample.count(through);
        }
        Ok(block.map(|block| block.read_again(self.place.times)))
    }
}

impl InputBlocks for SampledBlocks {
    fn next_block(&mut self, control: &Control) -> Result<Option<Block>> {
        while self.place.at < self.found.files.len() {
            if let Some(block) = self.next_of_file(control)? {
                return Ok(Some(block));
            }
            self.place.advance(&self.found.files, &self.found.sources);
        }
        Ok(None)
    }

    fn choose_columns(&mut self, chooser: ColumnChooser) {
        self.chooser = Some(chooser);
    }

    fn size(&self) -> u64 {
        self.sample.size_of(&self.found)
    }

    fn sources(&self) -> &[Source] {
        &self.found.sources
    }

    fn are_of_files(&self) -> bool {
        true
    }

    fn format(&self, file: usize) -> String {
        self.found.files[file].format.to_string()
    }

    fn blame(&self, error: Error) -> Error {
        blame(&self.found.files, error)
    }
}

/// The extents of each file that can be entered in the middle, by the number of the file; none of others.
fn extents_of(found: &FoundFiles, control: &Control) -> Result<Vec<Vec<Extent>>> {
    let numbering = ExtentNumbering { lines: false, records: false };
    let parts: Vec<FilePart> = found.files.iter().map(FilePart::whole).collect();
    let entered = found.files.iter().enumerate().map(|(number, file)| {
        if Sample::spreads_over(file) {
            return Ok(Vec::new());
        }
        for (_, next) in files_ahead(&found.files, number) {
            // The end of such a file tells where its row groups lie.
            if next.format.container == Container::Parquet {
                next.prefetch();
            }
        }
        let extents =
            extents(found, &[number], &parts, EXTENT, numbering, FactIndex(None), control)?;
        Ok(if extents.len() > 1 { extents } else { Vec::new() })
    });
    entered.collect()
}
