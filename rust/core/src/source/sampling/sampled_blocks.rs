//! [`SampledBlocks`]: the blocks of a [`Sample`].
//!
//! Line files are read at many places all over them. Of other files as much is read as a second allows: all of it, or some of the
//! extents of a file that can be entered in the middle, or else the beginning. Of the records that were read, some are taken.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::sample::Sample;
use super::sequential::Through;
use crate::config::Source;
use crate::error::{Error, Result};
use crate::source::block::{Block, Content, Reader};
use crate::source::blocks::Blocks;
use crate::source::discovery::found::{FilePart, FoundFiles, SourceFile, blame};
use crate::source::discovery::index::Index;
use crate::source::extents::extent::{Extent, ExtentBlocks, Numbering, blocks_of, extents};
use crate::source::extents::line_extent::LineExtent;
use crate::source::formats::format::Container;
use crate::source::input_blocks::{Chooser, InputBlocks};
use crate::util::control::Control;

/// The most bytes of an extent of a file whose extents are not given by its row groups or batches.
const EXTENT: u64 = 1 << 20;

/// The number of files whose first bytes are fetched while the one before them is read, if they lie in remote storage.
const FILES_AHEAD: usize = 3;

/// The blocks of a sample of all files, each read as often as its source is repeated.
pub(crate) struct SampledBlocks {
    found: FoundFiles,
    sample: Sample,
    chooser: Option<Chooser>,
    /// The extents of the files that are entered; none for others.
    extents: Vec<Vec<Extent>>,
    /// The extents of all files that are entered.
    all: u64,
    /// The extents of those that were passed, read or not.
    passed: u64,
    /// The current file, and how often its source was read before.
    at: usize,
    times: u64,
    open: Option<Open>,
}

/// The current file.
enum Open {
    /// A line file, at many places.
    Lines(LineExtent),
    /// The chosen extents of a file that is entered.
    Entered {
        later: VecDeque<Extent>,
        columns: Option<Vec<String>>,
        open: Option<ExtentBlocks>,
        through: Through,
    },
    /// A file that is read from its beginning.
    Through(Blocks, Through),
}

impl SampledBlocks {
    /// The blocks of a sample of the files that were found. No source may have a limit.
    ///
    /// # Errors
    ///
    /// Those of reading where the extents of files lie.
    pub(crate) fn new(found: FoundFiles, sample: Sample, control: &Control) -> Result<Self> {
        let mut entered = Vec::with_capacity(found.files.len());
        let parts: Vec<FilePart> = found.files.iter().map(FilePart::whole).collect();
        for (number, file) in found.files.iter().enumerate() {
            let enters = sample.reach() < 1.0 && !Sample::spreads_over(file);
            let tables = found.files.iter().skip(number + 1).take(FILES_AHEAD);
            for next in tables.filter(|it| enters && it.format.container == Container::Parquet) {
                // Its end tells where its row groups lie.
                next.location.prefetch(true);
            }
            entered.push(if enters {
                extents_of(&found, number, &parts, control)?
            } else {
                Vec::new()
            });
        }
        let repeated =
            found.files.iter().zip(&entered).map(|(file, extents)| {
                found.sources[file.source].repeat.get() * extents.len() as u64
            });
        let all = repeated.sum();
        let (passed, at, times) = (0, 0, 0);
        Ok(Self {
            found,
            sample,
            chooser: None,
            extents: entered,
            all,
            passed,
            at,
            times,
            open: None,
        })
    }

    /// The number of files that are read from their beginning.
    pub(crate) fn unentered_files(&self) -> usize {
        let files = self.found.files.iter().zip(&self.extents);
        files.filter(|(file, extents)| extents.is_empty() && !Sample::spreads_over(file)).count()
    }

    /// The files of zstd frames that are entered. The lines of each are identified by the number of their frame; of each
    /// extent, this number and the byte at which it begins.
    pub(crate) fn frames(&self) -> HashMap<Arc<Path>, Vec<(u64, u64)>> {
        let framed = self.found.files.iter().zip(&self.extents).map(|(file, extents)| {
            (Arc::clone(&file.path), extents.iter().filter_map(Extent::frame).collect::<Vec<_>>())
        });
        framed.filter(|(_, frames)| !frames.is_empty()).collect()
    }

    /// Opens the current file.
    fn start(&mut self, control: &Control) -> Result<Open> {
        let file = &self.found.files[self.at];
        for next in self.found.files.iter().skip(self.at + 1).take(FILES_AHEAD) {
            next.location.prefetch(next.format.container == Container::Parquet);
        }
        if Sample::spreads_over(file) {
            let windows = self.sample.windows(file.size, self.at, self.times);
            return Ok(Open::Lines(LineExtent::near_each(file, windows)?));
        }
        let extents = &self.extents[self.at];
        let all = Some(self.all).filter(|_| !extents.is_empty());
        let through = self.sample.through(file, self.at, self.times, all);
        if extents.is_empty() {
            let mut blocks = blocks_of(&self.found, [file], false);
            if let Some(chooser) = self.chooser {
                blocks.choose_columns(chooser);
            }
            return Ok(Open::Through(blocks, through));
        }
        let numbered = (self.passed..).zip(extents);
        let chosen = numbered.filter(|(number, _)| self.sample.takes_extent(*number, self.all));
        let later: VecDeque<Extent> = chosen.map(|(_, extent)| extent.clone()).collect();
        self.passed += extents.len() as u64;
        let columns = if later.is_empty() { None } else { self.columns(file, control)? };
        Ok(Open::Entered { later, columns, open: None, through })
    }

    /// The columns to read of a table, by its first rows; `None` for all, and of other files.
    fn columns(&self, file: &SourceFile, control: &Control) -> Result<Option<Vec<String>>> {
        let is_table = matches!(file.format.container, Container::Parquet | Container::Arrow);
        let Some(chooser) = self.chooser.filter(|_| is_table) else { return Ok(None) };
        let mut beginning = blocks_of(&self.found, [file], false);
        beginning.choose_columns(chooser);
        let first = beginning.next_block(control)?;
        Ok(first.and_then(|block| match block.content {
            Content::Rows { batch, .. } => {
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
        let file = &self.found.files[self.at];
        let block = match &mut open {
            Open::Lines(lines) => {
                let content = lines.next_content(control)?;
                let block = content.map(|content| {
                    let size = lines.position();
                    self.sample.count_lines(size);
                    Block::new(&file.path, self.at, file.source, size, content)
                });
                if block.is_none() {
                    file.unchanged()?;
                }
                block
            }
            Open::Entered { later, columns, open, through } => loop {
                if let Some(block) =
                    open.as_mut().map(|it| it.next_block(control)).transpose()?.flatten()
                {
                    let mut block = block;
                    through.thin(&mut block);
                    break Some(block);
                }
                let Some(extent) = later.pop_front() else { break None };
                let columns = columns.as_deref();
                let before = open.take();
                *open = Some(ExtentBlocks::enter(&self.found, &extent, columns, before, control)?);
            },
            Open::Through(blocks, through) if !through.has_ended() => {
                let block = blocks.next_block(control)?;
                block.map(|mut block| {
                    through.thin(&mut block);
                    (block.file, block.source) = (self.at, file.source);
                    block
                })
            }
            Open::Through(..) => None,
        };
        if block.is_some() {
            self.open = Some(open);
        } else if let Open::Entered { through, .. } | Open::Through(_, through) = &open {
            self.sample.count(through);
        }
        Ok(block.map(|block| block.read_again(self.times)))
    }

    /// Goes to the next file of the source, to its first again, or to the next source.
    fn next_file(&mut self) {
        let source = self.found.files[self.at].source;
        self.at += 1;
        if self.found.files.get(self.at).is_some_and(|next| next.source == source) {
            return;
        }
        self.times += 1;
        if self.times < self.found.sources[source].repeat.get() {
            self.at = self.found.files.partition_point(|file| file.source < source);
        } else {
            self.times = 0;
        }
    }
}

impl InputBlocks for SampledBlocks {
    fn next_block(&mut self, control: &Control) -> Result<Option<Block>> {
        while self.at < self.found.files.len() {
            if let Some(block) = self.next_of_file(control)? {
                return Ok(Some(block));
            }
            self.next_file();
        }
        Ok(None)
    }

    fn choose_columns(&mut self, chooser: Chooser) {
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

/// The extents of a file that can be entered in the middle; none of others.
fn extents_of(
    found: &FoundFiles,
    file: usize,
    parts: &[FilePart],
    control: &Control,
) -> Result<Vec<Extent>> {
    let numbering = Numbering { lines: false, records: false };
    let extents = extents(found, &[file], parts, EXTENT, numbering, Index(None), control)?;
    Ok(if extents.len() > 1 { extents } else { Vec::new() })
}
