//! [`BlockTokenizer`]: from files to documents, on all threads and in input order.

use std::path::Path;
use std::sync::Arc;

use fastpack_tokenize::Tokenizer;

use crate::config::{Source, TokenOptions};
use crate::document::store::{LoggedBlock, TokenLog};
use crate::document::tokenize::DocumentMaker;
use crate::document::{Documents, INPUTS, PICTURES, Pass, TURN_ENDS};
use crate::error::{Error, Origin, Result};
use crate::objective::document_columns;
use crate::pipeline::documents::bad_records::refuse_or_count;
use crate::pipeline::documents::custom_objective::{DocumentFunction, convert_documents};
use crate::pipeline::documents::earlier_blocks::EarlierBlocks;
use crate::pipeline::documents::per_record::{WorkerParts, bos_and_eos, take_record};
use crate::pipeline::documents::record_renderer::{ReadOptions, RecordRenderer};
use crate::pipeline::documents::reference_check::{ReferenceCheck, Verification, difference};
use crate::pipeline::documents::rendering::record_failure::RecordFailure;
use crate::pipeline::documents::rendering::source_renderer::SourceRenderer;
use crate::pipeline::documents::rendering::turn_choices::{TurnChoices, TurnRenderers};
use crate::pipeline::documents::shape_recogniser::{FileKinds, ShapeRecogniser, chooser};
use crate::pipeline::documents::validation_split::SplitSide;
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::Shape;
use crate::report::ledger::{DroppedRecord, Ledger};
use crate::report::timing::{Clock, Stage, StageWork, Stages};
use crate::source::{Block, InputBlocks, UnreadBlock};
use crate::util::control::{Control, Phase};
use crate::util::threads_in_order::ordered;

/// Replaces the offset of a record by the number of its line.
pub(crate) type LineNumbering<'a> = dyn Fn(&mut Origin) -> Result<()> + Sync + 'a;

/// Reads the blocks of files and tokenizes their records.
pub(crate) struct BlockTokenizer<'a> {
    job: &'a Job,
    control: &'a Control,
    /// True if every record that is left out is listed.
    names_all: bool,
    /// True if the documents of every choice of `turns` are counted.
    compares_turns: bool,
    /// True if documents keep the hash of their record's content.
    hashes: bool,
    /// The split whose records alone are read; all are by default.
    side: Option<SplitSide>,
    /// Finds the line number of a record that is identified by its offset.
    number: Option<&'a LineNumbering<'a>>,
    /// The place of the blocks among those of the job, if they are not all.
    part: Option<PartOfJob>,
    /// The kept documents of the file, if it was packed before it grew.
    earlier: Option<EarlierBlocks<'a>>,
}

/// The place of some blocks among those of a job.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct PartOfJob {
    /// Bytes before them.
    pub(in crate::pipeline) before: u64,
    /// Bytes of all blocks of the job.
    pub(in crate::pipeline) all: u64,
    /// The number of the first of them.
    pub(in crate::pipeline) first_block: u64,
}

/// The documents of one block, its counts and its place in the token log.
pub(crate) struct TokenizedBlock {
    pub(crate) documents: Documents,
    pub(crate) ledger: Ledger,
    pub(crate) work: StageWork,
    /// The place of the documents in the log, if there is one.
    pub(crate) place: Option<LoggedBlock>,
    /// The hash of the block's records, where there is a log.
    pub(crate) fingerprint: Option<String>,
    /// The records that were left out, if all are listed.
    pub(crate) left_out: Vec<DroppedRecord>,
    /// The documents of every choice of `turns`, if they are counted.
    pub(crate) choices: TurnChoices,
    /// The number of records of the other split, which were passed over.
    pub(crate) other_split: u64,
    /// The record of each document, counted from 0 in the block, if only some records were wanted.
    pub(crate) records: Vec<u32>,
    /// The error that ends the run after these documents, if any.
    pub(crate) end: Option<Error>,
}

impl<'a> BlockTokenizer<'a> {
    pub(crate) fn new(job: &'a Job, control: &'a Control) -> Self {
        let (names_all, compares_turns, hashes) = (false, false, false);
        let (side, number, part, earlier) = (None, None, None, None);
        Self { job, control, names_all, compares_turns, hashes, side, number, part, earlier }
    }

    /// Numbers a record by `number` before an error of the job names it.
    pub(super) fn numbered_by(self, number: &'a LineNumbering<'a>) -> Self {
        Self { number: Some(number), ..self }
    }

    /// Counts the blocks as a part of those of a job.
    pub(in crate::pipeline) fn of_job(self, part: PartOfJob) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Takes blocks with the same records from those that were kept.
    pub(in crate::pipeline) fn knowing(self, earlier: EarlierBlocks<'a>) -> Self {
        Self { earlier: Some(earlier), ..self }
    }

    /// Keeps the hash of each record's content with its documents, if that is `wanted`, by which splits are made.
    pub(crate) fn hashing(self, wanted: bool) -> Self {
        Self { hashes: wanted, ..self }
    }

    /// Reads the records of one split alone.
    pub(super) fn on_side(self, side: Option<SplitSide>) -> Self {
        Self { side, hashes: self.hashes || side.is_some(), ..self }
    }

    /// Lists every record that is left out.
    pub(in crate::pipeline) fn naming_all(self) -> Self {
        Self { names_all: true, ..self }
    }

    /// Counts the documents of every choice of `turns`.
    pub(in crate::pipeline) fn comparing_turns(self) -> Self {
        Self { compares_turns: true, ..self }
    }

    /// Reads `blocks` on all threads and hands over the result of each, in input order.
    ///
    /// With a log, the result of a block is taken from the log if it is there, and is written there
    /// otherwise. Returns the formats and shapes of the files.
    pub(crate) fn read(
        &self,
        blocks: &mut dyn InputBlocks,
        log: Option<&TokenLog>,
        mut consume: impl FnMut(TokenizedBlock) -> Result<()>,
    ) -> Result<FileKinds> {
        self.control.enter(Phase::Tokenize);
        let PartOfJob { before, all, first_block } =
            self.part.unwrap_or(PartOfJob { before: 0, all: blocks.size(), first_block: 0 });
        self.control.expect_bytes(all);
        if let Some(log) = log {
            log.begin_at(first_block);
        }
        let check = ReferenceCheck::of(self.job)?;
        let reference = check.reference.as_ref();
        let mut seen = before;
        if self.job.transform.is_empty() {
            let TokenOptions { documents, images, .. } = &self.job.options.tokens;
            blocks.choose_columns(chooser(*documents, images.is_some()));
        }
        let sources = blocks.sources().to_vec();
        let renderers = self.renderers(&sources)?;
        let are_of_files = blocks.are_of_files();
        let compared = if self.compares_turns {
            TurnRenderers::of(self.job, &sources, self.control)?
        } else {
            None
        };
        let mut recogniser = ShapeRecogniser::new(self.job);
        let mut numbers = first_block..;
        let next = || {
            self.control.tick()?;
            let mut clock = Clock::start();
            let Some(mut unread) = blocks.next_unread(self.control)? else { return Ok(None) };
            clock.lap(Stage::Read);
            let mut shape = recogniser.known(unread.known());
            if shape.is_none() || !self.job.transform.is_empty() {
                let block = unread.read()?;
                clock.lap(Stage::Read);
                let source = &sources[block.source];
                let block = self.job.transform.apply(block, &source.reading.fields)?;
                clock.lap(Stage::Transform);
                let format = || blocks.format(block.file);
                shape = recogniser.shape(&block, source, are_of_files, format);
                unread = block.into();
            }
            let size = unread.known().size;
            let verify = check.documents_of(size, seen, all);
            seen += size;
            let number = numbers.next().unwrap_or_default();
            let read = clock.stop_after(Stage::Read);
            Ok(Some(PulledBlock { number, unread, shape, read, verify }))
        };
        let worker = || {
            let mut work = self.worker(&sources, &renderers, reference, log, are_of_files);
            let mut counter = compared.as_ref().map(TurnRenderers::counter);
            let sources = &sources;
            move |pulled: PulledBlock| {
                let task = pulled.read()?;
                let mut outcome = work(&task)?;
                if let Some(counter) = &mut counter {
                    let BlockTask { block, shape, .. } = &task;
                    let source = &sources[block.source];
                    outcome.choices =
                        counter.count(block, source, shape.as_deref(), &outcome.documents)?;
                }
                let read = outcome.ledger.read;
                self.control.count_block(task.block.size, read.documents, read.tokens);
                Ok(outcome)
            }
        };
        // A fatal error is raised only after all earlier documents were returned, so block borders do not change the result.
        let consume = |mut outcome: TokenizedBlock| {
            let end = outcome.end.take();
            consume(outcome)?;
            end.map_or(Ok(()), Err)
        };
        let read = ordered(self.job.options.work.threads, next, worker, consume);
        read.map_err(|error| blocks.blame(error))?;
        Ok(recogniser.into_seen())
    }

    /// The renderer of each source.
    pub(super) fn renderers(&self, sources: &[Source]) -> Result<Vec<SourceRenderer<'a>>> {
        sources.iter().map(|source| SourceRenderer::new(self.job, &source.reading)).collect()
    }

    /// The function of one thread that makes documents from a block. Without `are_of_files`, the records are in memory.
    pub(super) fn worker(
        &self,
        sources: &[Source],
        renderers: &[SourceRenderer<'a>],
        reference: Option<&Tokenizer>,
        log: Option<&TokenLog>,
        are_of_files: bool,
    ) -> impl FnMut(&BlockTask) -> Result<TokenizedBlock> {
        let bos_and_eos = bos_and_eos(self.job);
        let new_maker =
            |tokenizer| DocumentMaker::new(tokenizer, bos_and_eos.clone()).stopped_by(self.control);
        let mut maker = self.job.tokenizer.as_ref().map(new_maker);
        let mut worker = RecordRenderer::new(self.job);
        let mut reference =
            reference.map(|reference| DocumentMaker::new(reference, bos_and_eos.clone()));
        let mut columns = document_columns(self.job.options.tokens.documents).to_vec();
        columns.extend(self.job.options.rows.trims().then_some(TURN_ENDS));
        columns.extend(self.job.options.tokens.images.as_ref().map(|_| PICTURES));
        move |BlockTask { number, block, shape, read, verify, wanted }| {
            let mut clock = Clock::start();
            let mut verify = if reference.is_some() { *verify } else { 0 };
            let pass = Pass { repetition: block.repetition, ..Pass::default() };
            let documents = Documents::new(Arc::clone(&block.path), &columns).of_pass(pass);
            let mut outcome = TokenizedBlock {
                documents: documents.with_room_for(block.size),
                ledger: Ledger::default(),
                work: StageWork { stages: *read, ..StageWork::default() },
                place: None,
                fingerprint: log.map(|_| block.fingerprint()).transpose()?,
                left_out: Vec::new(),
                choices: TurnChoices::default(),
                other_split: 0,
                records: Vec::new(),
                end: None,
            };
            clock.lap(Stage::Read);
            if let Some(log) = log
                && (outcome.reread_from_log(log, *number, block)?
                    || self.reuse_kept_documents(*number, block, &mut outcome, log)?)
            {
                outcome.work.stages += clock.stop_after(Stage::Keep);
                return Ok(outcome);
            }
            outcome.ledger.filtered(block.left_out());
            let options = ReadOptions {
                renderer: &renderers[block.source],
                reading: &sources[block.source].reading,
                shape: shape.as_deref(),
                path: are_of_files.then_some(&*block.path),
                hashes: self.hashes,
                side: self.side,
            };
            let is_wanted = |at: usize| {
                wanted.as_ref().is_none_or(|wanted| wanted.get(at).is_some_and(|it| *it))
            };
            let records = block.records().enumerate().filter(|(at, _)| is_wanted(*at));
            let records = records.map(|(_, record)| record.raw);
            let ReadOptions { renderer, shape, reading, path, .. } = options;
            renderer.prepare_pictures(records, shape, reading, path)?;
            clock.lap(Stage::Render);
            for (at, record) in (0..).zip(block.records()) {
                self.control.tick()?;
                if wanted.as_ref().is_some_and(|wanted| !wanted[at as usize]) {
                    continue;
                }
                let number_of_line = record.line;
                let before = outcome.documents.len();
                let parts = WorkerParts {
                    worker: &mut worker,
                    maker: maker.as_mut(),
                    reference: reference.as_mut().filter(|_| verify > 0),
                    bos_and_eos: &bos_and_eos,
                };
                let TokenizedBlock { documents, ledger, .. } = &mut outcome;
                let taken = take_record(record, options, parts, &mut clock, documents, ledger);
                outcome.documents.mark_content(before, worker.content());
                match taken {
                    Ok(Verification::NotCompared) => {}
                    Ok(Verification::Agrees) => verify -= 1,
                    Ok(Verification::Differs) => {
                        outcome.end = Some(difference(&block.path, number_of_line));
                    }
                    Err(RecordFailure::OtherSplit) => outcome.other_split += 1,
                    Err(failure) => {
                        outcome.end =
                            self.refuse(failure, &block.path, number_of_line, &mut outcome).err();
                    }
                }
                if wanted.is_some() {
                    outcome.records.resize(outcome.documents.len(), at);
                }
                if outcome.end.is_some() {
                    break;
                }
            }
            // The result of a record is invalid if the run was cancelled meanwhile.
            self.control.tick()?;
            if let Some(function) = &self.job.transform.objective {
                outcome.make_documents(function, |origin| self.numbered(origin))?;
                clock.lap(Stage::Transform);
            }
            if let Some(log) = log.filter(|_| outcome.end.is_none()) {
                outcome.write_down(log, *number)?;
                clock.lap(Stage::Keep);
            }
            outcome.work.stages += clock.stop();
            outcome.work.rendered = worker.take_rendered();
            Ok(outcome)
        }
    }

    /// Takes the documents of a block from those that were kept, and writes them to the log; false if they are not there.
    fn reuse_kept_documents(
        &self,
        number: u64,
        block: &Block,
        outcome: &mut TokenizedBlock,
        log: &TokenLog,
    ) -> Result<bool> {
        let Some(earlier) = &self.earlier else { return Ok(false) };
        let known = earlier.entry(number, &block.path, outcome.fingerprint.as_deref())?;
        let Some(entry) = known else { return Ok(false) };
        (outcome.documents, outcome.ledger) = (entry.documents, entry.ledger);
        outcome.write_down(log, number)?;
        Ok(true)
    }

    /// The place of a record, by the number of its line.
    fn numbered(&self, mut origin: Origin) -> Result<Origin> {
        self.number.map_or(Ok(()), |number| number(&mut origin))?;
        Ok(origin)
    }

    /// Ends the run, or counts the record among those left out.
    fn refuse(
        &self,
        failure: RecordFailure<'_>,
        path: &Arc<Path>,
        line: u64,
        outcome: &mut TokenizedBlock,
    ) -> Result<()> {
        // If the run was cancelled, the record is not at fault.
        self.control.tick()?;
        if let JobTemplate::Ready(template) = &self.job.template
            && let Some(error) = template.broken()
        {
            return Err(error);
        }
        let mut origin = Origin { path: Arc::clone(path), line };
        if let RecordFailure::NoTemplate(_) | RecordFailure::NoTokenizer = &failure {
            origin = self.numbered(origin)?;
        }
        let listed = self.names_all.then_some(&mut outcome.left_out);
        let on_bad_record = self.job.options.tokens.on_bad_record;
        refuse_or_count(failure, on_bad_record, origin, &mut outcome.ledger, listed)
    }
}

impl TokenizedBlock {
    /// Lets a function of the caller make the documents, which counts their tokens anew. An error names a document by
    /// the place that `numbered` makes of its own.
    fn make_documents(
        &mut self,
        function: &DocumentFunction,
        numbered: impl Fn(Origin) -> Result<Origin>,
    ) -> Result<()> {
        let tokens = self.documents.tokens(INPUTS);
        self.documents = convert_documents(function, &self.documents, numbered)?;
        let read = &mut self.ledger.read.tokens;
        *read = *read - tokens + self.documents.tokens(INPUTS);
        Ok(())
    }

    /// Takes the result of the block from the log; false if it is not there.
    pub(in crate::pipeline) fn reread_from_log(
        &mut self,
        log: &TokenLog,
        number: u64,
        block: &Block,
    ) -> Result<bool> {
        let Some((entry, place)) = log.entry(number, Some(&block.path))? else { return Ok(false) };
        if Some(&entry.fingerprint) != self.fingerprint.as_ref() {
            return Err(Error::Stale { path: block.path.to_path_buf() });
        }
        (self.documents, self.ledger) = (entry.documents, entry.ledger);
        self.place = Some(place);
        self.work.resumed_documents = self.ledger.read.documents;
        Ok(true)
    }

    /// Writes the result of the block to the log.
    pub(in crate::pipeline) fn write_down(&mut self, log: &TokenLog, number: u64) -> Result<()> {
        let fingerprint = self.fingerprint.as_deref().unwrap_or_default();
        self.place = Some(log.append(number, fingerprint, &self.documents, &self.ledger)?);
        Ok(())
    }
}

/// A block that a worker thread reads first.
struct PulledBlock {
    number: u64,
    unread: UnreadBlock,
    shape: Option<Arc<Shape>>,
    read: Stages,
    verify: u64,
}

impl PulledBlock {
    fn read(self) -> Result<BlockTask> {
        let clock = Clock::start();
        let Self { number, unread, shape, mut read, verify } = self;
        let block = unread.read()?;
        read += clock.stop_after(Stage::Read);
        Ok(BlockTask { number, block, shape, read, verify, wanted: None })
    }
}

/// A block for a worker thread.
pub(crate) struct BlockTask {
    /// The number of the block.
    pub(super) number: u64,
    pub(super) block: Block,
    /// The shape of its file, if known.
    pub(super) shape: Option<Arc<Shape>>,
    /// The time of reading it.
    pub(super) read: Stages,
    /// The number of its documents that the reference engine encodes too.
    pub(super) verify: u64,
    /// The records to make documents from, if not all.
    pub(super) wanted: Option<Vec<bool>>,
}
