//! [`ChosenBlocks`]: makes documents from single blocks, for a caller that chooses the blocks and the records
//! of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fastpack_tokenize::{Engine, Tokenizer};

use crate::config::Source;
use crate::error::Result;
use crate::pipeline::documents::rendering::source_renderer::SourceRenderer;
use crate::pipeline::documents::shape_recogniser::{FileKinds, ShapeRecogniser, expectation};
use crate::pipeline::documents::tokenized_blocks::{
    BlockTask, BlockTokenizer, LineNumbering, TokenizedBlock,
};
use crate::pipeline::documents::validation_split::SplitSide;
use crate::pipeline::job::Job;
use crate::record::{Shape, content_of};
use crate::report::timing::Stages;
use crate::source::extents::extent::first_blocks;
use crate::source::{Block, FoundFiles, RawContent};
use crate::util::control::Control;

/// For each record of a block, by its number from 0, true if it is wanted.
pub(crate) type WantedRecords = Vec<bool>;

/// Makes documents from single blocks.
pub(crate) struct ChosenBlocks<'a> {
    block_tokenizer: BlockTokenizer<'a>,
    job: &'a Job,
    sources: Vec<Source>,
    renderers: Vec<SourceRenderer<'a>>,
    reference: Option<Tokenizer>,
    /// The split whose records alone are taken.
    side: Option<SplitSide>,
    /// The documents of this split, and the records of the other.
    read: AtomicU64,
    passed_over: AtomicU64,
    /// The number of documents that the reference engine has yet to encode too.
    verify: AtomicU64,
}

impl<'a> ChosenBlocks<'a> {
    /// Makes documents from the blocks of these sources, of the records of one `side` if there is one; they keep their
    /// content if `hashes`. `number` finds the line numbers of their records.
    pub(crate) fn new(
        job: &'a Job,
        sources: &[Source],
        number: &'a LineNumbering<'a>,
        side: Option<SplitSide>,
        hashes: bool,
        control: &'a Control,
    ) -> Result<Self> {
        let block_tokenizer =
            BlockTokenizer::new(job, control).numbered_by(number).hashing(hashes).on_side(side);
        let verify = u64::from(job.options.work.verify);
        let compiled = job.tokenizer.as_ref().filter(|it| it.engine() == Engine::Compiled);
        let reference = compiled.filter(|_| verify > 0);
        Ok(Self {
            renderers: block_tokenizer.renderers(sources)?,
            side,
            read: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            block_tokenizer,
            job,
            sources: sources.to_vec(),
            reference: reference.map(Tokenizer::with_reference_engine).transpose()?,
            verify: AtomicU64::new(verify),
        })
    }

    /// The block after the caller's functions.
    pub(crate) fn transformed(&self, block: Block) -> Result<Block> {
        let fields = &self.sources[block.source].reading.fields;
        self.job.transform.apply(block, fields)
    }

    /// True if a record of a block is of the split whose records are taken.
    pub(crate) fn is_of_split(
        &self,
        raw: RawContent<'_>,
        source: usize,
        shape: Option<&Shape>,
    ) -> bool {
        self.side.is_none_or(|side| {
            let reading = &self.sources[source].reading;
            let expected = expectation(reading, self.job.options.tokens.documents);
            let takes = self.renderers[source].takes();
            side.takes(shape.and_then(|shape| content_of(raw, shape, expected, takes)))
        })
    }

    /// A warning of a split that holds none, or all, of the records.
    pub(crate) fn of_split(&self) -> Option<String> {
        let (read, passed_over) =
            (self.read.load(Ordering::Relaxed), self.passed_over.load(Ordering::Relaxed));
        let side = self.side.filter(|_| read == 0 || passed_over == 0)?;
        if read + passed_over == 0 {
            return None;
        }
        let amount = if side.held_out == (read == 0) { "none" } else { "all" };
        Some(format!("`validation` holds {amount} of the records out that were read"))
    }

    /// The function of one thread that makes documents from a block, each with the number of its record.
    pub(crate) fn worker(
        &self,
    ) -> impl FnMut(Block, Option<Arc<Shape>>, WantedRecords) -> Result<TokenizedBlock> + '_ {
        let reference = self.reference.as_ref();
        let mut work =
            self.block_tokenizer.worker(&self.sources, &self.renderers, reference, None, true);
        move |block, shape, wanted| {
            let verify = u64::from(
                reference.is_some()
                    && self
                        .verify
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                            left.checked_sub(1)
                        })
                        .is_ok(),
            );
            let read = Stages::default();
            let outcome =
                work(&BlockTask { number: 0, block, shape, read, verify, wanted: Some(wanted) })?;
            self.read.fetch_add(outcome.ledger.read.documents, Ordering::Relaxed);
            self.passed_over.fetch_add(outcome.other_split, Ordering::Relaxed);
            Ok(outcome)
        }
    }
}

/// The shapes of files. Each is found by the first records of its file, whichever of its blocks are read.
pub(crate) struct FileHeads<'a> {
    found: &'a FoundFiles,
    transforms: bool,
    known: Mutex<KnownShapes<'a>>,
}

struct KnownShapes<'a> {
    recogniser: ShapeRecogniser<'a>,
    shapes: HashMap<usize, Option<Arc<Shape>>>,
}

impl<'a> FileHeads<'a> {
    pub(crate) fn new(job: &'a Job, found: &'a FoundFiles) -> Self {
        let known = KnownShapes { recogniser: ShapeRecogniser::new(job), shapes: HashMap::new() };
        let transforms = !job.transform.is_empty();
        Self { found, transforms, known: Mutex::new(known) }
    }

    /// The shape of a file, if its records have one.
    pub(crate) fn shape(
        &self,
        file: usize,
        single: &ChosenBlocks<'_>,
        control: &Control,
    ) -> Result<Option<Arc<Shape>>> {
        let mut first = None;
        self.shape_by(file, single, || {
            first.get_or_insert_with(|| first_blocks(self.found, file)).next_block(control)
        })
    }

    /// The shape of a file whose first blocks `next` gives, if its records have one.
    pub(crate) fn shape_by(
        &self,
        file: usize,
        single: &ChosenBlocks<'_>,
        mut next: impl FnMut() -> Result<Option<Block>>,
    ) -> Result<Option<Arc<Shape>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known.shapes.get(&file) {
            return Ok(shape.clone());
        }
        let mut shape = None;
        while let Some(block) = next()? {
            let block = single.transformed(block)?;
            let source = &self.found.sources[block.source];
            let format = || self.found.files[block.file].format.to_string();
            shape = known.recogniser.shape(&block, source, true, format);
            if shape.is_some() {
                break;
            }
        }
        known.shapes.insert(file, shape.clone());
        Ok(shape)
    }

    /// The columns to read of a table, if not all.
    pub(crate) fn columns(&self, shape: Option<&Shape>) -> Option<Vec<String>> {
        shape.filter(|_| !self.transforms).map(Shape::columns)
    }

    /// The formats and shapes of the files.
    pub(crate) fn into_seen(self) -> FileKinds {
        self.known.into_inner().unwrap_or_else(PoisonError::into_inner).recogniser.into_seen()
    }
}
