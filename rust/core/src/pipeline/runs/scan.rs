//! [`scan`]: reports the contents of files and the plans of their rows, without making rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use serde::Serialize;

use crate::config::{Inputs, Options, RowColumn};
use crate::document::INPUTS;
use crate::error::{Error, Origin, Result};
use crate::objective::causal;
use crate::pack::{Pieces, TICK, lower_bound, lower_bound_of_pictures, plan};
use crate::pipeline::documents::rendering::turn_choices::{TurnChoice, TurnChoices};
use crate::pipeline::documents::tokenized_blocks::{BlockTokenizer, TokenizedBlock};
use crate::pipeline::job::{Job, JobTemplate};
use crate::pipeline::rows::document_cutter::DocumentCutter;
use crate::pipeline::runs::time_estimate::{MachineFacts, SampleRatio, TimeEstimate};
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::pipeline::statistics::packed_counts::PackedCounts;
use crate::report::ledger::{
    Count, DroppedRecord, Ledger, Note, NotedReport, PictureCount, Reason, SplitConversations,
};
use crate::report::timing::{StageWork, Timing, ratio, rounded};
use crate::report::{Histogram, InputReport, Lengths, PlaceReport};
use crate::source::{Blocks, FoundFiles, FrameStart, InputBlocks, Sample, SampledBlocks, discover};
use crate::util::control::{Control, Phase};

/// The most records listed for each reason: a file without valid records has millions.
const PLACES: usize = 10_000;

/// The contents of files, and the plans of their rows.
#[derive(Clone, Debug, Serialize)]
pub struct Scan {
    /// The version of fastpack.
    pub fastpack: String,
    /// The number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The formats and shapes of the files.
    pub inputs: Vec<InputReport>,
    /// Records read, and the tokens in those that became documents.
    pub read: Count,
    /// Documents with trained tokens.
    pub documents: u64,
    /// The pictures of the documents, and their tokens.
    #[serde(skip_serializing_if = "PictureCount::is_empty")]
    pub pictures: PictureCount,
    /// Records that are lost for any length of rows, by reason.
    pub lost: BTreeMap<String, Lost>,
    /// The records of which the chat template leaves a field out, by field.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, NotedReport>,
    /// The records with each other note, under the name of the note.
    #[serde(flatten)]
    pub noted: BTreeMap<Note, NotedReport>,
    /// The conversations that became several documents.
    #[serde(skip_serializing_if = "SplitConversations::is_empty")]
    pub split_conversations: SplitConversations<NotedReport>,
    /// The documents that each choice of `turns` gives, by its word; empty without conversations whose turns are trained.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub turn_choices: BTreeMap<&'static str, TurnChoice>,
    /// Lengths of the documents, in tokens.
    pub lengths: Lengths,
    /// Tokens with a label in all documents.
    pub trained_tokens: u64,
    /// The part of the tokens that carry a label.
    pub trained_share: f64,
    /// The plan of the documents for each length of rows.
    pub fits: Vec<Fit>,
    /// The chat template; `None` if no template can be used.
    pub template: Option<TemplateScan>,
    /// The tokenizer as the caller named it.
    pub tokenizer: Option<String>,
    /// The engine that makes the ids.
    pub engine: String,
    /// The component of the tokenizer that forced the engine.
    pub engine_reason: Option<String>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The timing.
    pub timing: ScanTiming,
    /// The part of the files that was read, if not all. Then all counts outside `timing` are estimates for
    /// all files.
    pub sample: Option<Sampled>,
}

/// The timing of a scan.
#[derive(Clone, Debug, Serialize)]
pub struct ScanTiming {
    /// The timing.
    #[serde(flatten)]
    pub timing: Timing,
    /// The seconds in which the documents of each choice of `turns` were counted. Packing does not take them.
    pub turn_choices_seconds: f64,
}

/// The part of the files that was read, as a sample.
#[derive(Clone, Debug, Serialize)]
pub struct Sampled {
    /// Records read.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their part of the bytes of all records.
    pub share: f64,
    /// The estimated seconds of reading all of them.
    pub seconds: f64,
}

/// Records that are lost for one reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lost {
    /// The number of records, and their tokens.
    #[serde(flatten)]
    pub count: Count,
    /// The records that could not be read, up to 10,000. Of documents without a label, only the first.
    pub places: Vec<PlaceReport>,
}

/// The plan of the documents for one length of rows.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// The most tokens of a row.
    pub max_length: u32,
    /// The number of rows.
    pub rows: u64,
    /// Tokens over room.
    pub fill: f64,
    /// A lower bound of the number of rows.
    pub lower_bound: u64,
    /// The documents and tokens in the rows.
    pub kept: Count,
    /// The dropped documents and tokens, by reason.
    pub dropped: BTreeMap<String, Count>,
    /// Documents that were cut, and the tokens they lost.
    pub truncated: Count,
}

/// The chat template of a scan.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateScan {
    /// The template's name.
    pub name: String,
    /// The source of the assistant's spans: `marked` by the template, or `derived` from its output.
    pub masks: String,
    /// The reason that `transformers` rendered some conversations, if it did.
    pub outside: Option<String>,
}

impl Scan {
    /// The scan as JSON.
    #[expect(clippy::missing_panics_doc, reason = "it cannot")]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings are always JSON")
    }

    /// Scales the counts of a sample to all records.
    fn extrapolate(&mut self, sampled: &Sampled) {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate of a count is a count"
        )]
        let all = |number: &mut u64| {
            *number = (*number as f64 / sampled.share.max(f64::MIN_POSITIVE)).round() as u64;
        };
        let counts = |count: &mut Count| {
            all(&mut count.documents);
            all(&mut count.tokens);
        };
        counts(&mut self.read);
        self.left_out.values_mut().for_each(|noted| all(&mut noted.records));
        self.noted.values_mut().for_each(|noted| all(&mut noted.records));
        all(&mut self.split_conversations.noted.records);
        let split = &mut self.split_conversations.split;
        all(&mut split.documents);
        all(&mut split.tokens);
        all(&mut split.last_tokens);
        all(&mut split.whole_tokens);
        all(&mut split.turns);
        all(&mut split.rewritten_turns);
        for choice in self.turn_choices.values_mut() {
            all(&mut choice.documents);
            all(&mut choice.tokens);
            all(&mut choice.trained_tokens);
            all(&mut choice.rewritten_turns);
        }
        all(&mut self.pictures.pictures);
        all(&mut self.pictures.tokens);
        all(&mut self.documents);
        all(&mut self.trained_tokens);
        self.lost.values_mut().for_each(|lost| counts(&mut lost.count));
        for fit in &mut self.fits {
            all(&mut fit.rows);
            all(&mut fit.lower_bound);
            counts(&mut fit.kept);
            counts(&mut fit.truncated);
            fit.dropped.values_mut().for_each(counts);
        }
    }
}

/// Reads all of `inputs`, or a sample of about `sample` records, and plans rows of each length in
/// `max_lengths`.
pub fn scan(
    job: &Job,
    inputs: &Inputs,
    max_lengths: &[NonZeroU32],
    sample: Option<NonZeroU64>,
    control: &Control,
) -> Result<Scan> {
    job.validate(inputs)?;
    if sample.is_some() && inputs.sources.iter().any(|source| source.limit.is_some()) {
        let reason = "cannot be given with a source that has a `limit`; leave one of them out";
        return Err(Error::option("sample", reason));
    }
    let started = Instant::now();
    let found = discover(inputs, control)?;
    let sample = sample
        .map(|records| Sample::of(records.get(), job.options.rows.packing.seed, &found, control))
        .transpose()?
        .flatten();
    let mut about = InputFacts::new(job, &found);
    let mut seen = ScanState::default();
    let (spread, through): (Vec<_>, Vec<_>) =
        found.files.iter().partition(|file| Sample::spreads_over(file));
    let bytes_through = found.bytes_of(through.iter().copied());
    if sample.is_some() {
        seen.spread.extend(spread.iter().map(|file| Arc::clone(&file.path)));
    }
    let mut fits: Vec<PiecesForLength> =
        max_lengths.iter().map(|&length| PiecesForLength::new(&job.options, length)).collect();
    let block_tokenizer = BlockTokenizer::new(job, control).naming_all().comparing_turns();
    let mut blocks: Box<dyn InputBlocks> = match &sample {
        Some(sample) => Box::new(seen.sampled_blocks(found, sample, &mut about, control)?),
        None => Box::new(Blocks::new(found)),
    };
    let recognised = block_tokenizer.read(&mut *blocks, None, |outcome| {
        for fitting in &mut fits {
            fitting.take(&outcome, seen.documents)?;
        }
        seen.take(outcome);
        Ok(())
    })?;
    about.read(job, recognised);
    about.facts.warnings.extend(seen.weighed.as_ref().map(|origin| {
        let column = RowColumn::LossWeights.name();
        format!(
            "{origin} gives a weight other than 0 and 1: rows need the column `{column}` for it"
        )
    }));
    control.enter(Phase::Plan);
    let fits = fits.into_iter().map(|fitting| fitting.plan(control)).collect::<Result<_>>()?;
    let Some(sample) = sample else {
        let bytes = about.facts.bytes;
        return Ok(seen.into_scan(about, fits, job, started, bytes));
    };
    let sampled = seen.sampled(&sample, about.facts.bytes, bytes_through, job);
    let mut scan = seen.into_scan(about, fits, job, started, sampled.bytes);
    scan.extrapolate(&sampled);
    scan.sample = Some(sampled);
    Ok(scan)
}

/// The state of a scan.
#[derive(Default)]
struct ScanState {
    /// Line files that were read in part: their records are identified by their offsets.
    spread: HashSet<Arc<Path>>,
    /// The beginnings of the extents of files of zstd frames that were read in part.
    frames: HashMap<Arc<Path>, Vec<FrameStart>>,
    ledger: Ledger,
    places: BTreeMap<Reason, Vec<DroppedRecord>>,
    documents: u64,
    lengths: Histogram,
    trained_tokens: u64,
    choices: TurnChoices,
    /// The first document that needs a column of weights.
    weighed: Option<Origin>,
    work: StageWork,
    time_estimate: TimeEstimate,
}

impl ScanState {
    /// The blocks of a sample, with a warning about files that are read from their beginning, but not to their end.
    fn sampled_blocks(
        &mut self,
        found: FoundFiles,
        sample: &Sample,
        about: &mut InputFacts,
        control: &Control,
    ) -> Result<SampledBlocks> {
        let files = found.files.len();
        let blocks = SampledBlocks::new(found, sample.clone(), control)?;
        let through = blocks.unentered_files();
        if sample.reach() < 1.0 && through > 0 {
            about.facts.warnings.push(format!(
                "{through} of {files} files were read up to {:.1} % of each, and nothing is known of the rest: they can only be \
                 read from the beginning on, and that takes long; `fastpack reindex` makes compressed lines that can be entered",
                sample.reach() * 100.0,
            ));
        }
        self.frames = blocks.frames();
        Ok(blocks)
    }

    fn take(&mut self, outcome: TokenizedBlock) {
        let spread = self.spread.contains(outcome.documents.path());
        self.time_estimate.take(&outcome, spread);
        let TokenizedBlock { documents, ledger, work, left_out, choices, .. } = outcome;
        self.work += work;
        self.choices += choices;
        for index in 0..documents.len() {
            let document = documents.document(index);
            let length = u32::try_from(document.column(INPUTS).len())
                .expect("documents are made of fewer tokens");
            self.lengths.add(length);
            self.trained_tokens += document.labels(0, length);
            if self.weighed.is_none() && document.fractional_weight().is_some() {
                self.weighed = Some(document.origin());
            }
        }
        self.documents += documents.len() as u64;
        for place in left_out {
            let places = self.places.entry(place.reason).or_default();
            if places.len() < PLACES {
                places.push(place);
            }
        }
        self.ledger.merge(ledger);
    }

    /// The sample of files with `all` bytes, of which `through` are of files without random access.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn sampled(&self, sample: &Sample, all: u64, through: u64, job: &Job) -> Sampled {
        let times = |all: u64, part: u64| all as f64 / part.max(1) as f64;
        let bytes = sample.bytes();
        let scale = SampleRatio {
            records: times(all, bytes),
            through: times(through, sample.bytes_read()),
        };
        let threads = job.options.work.threads;
        let machine = MachineFacts {
            threads: threads.get(),
            cores: available_parallelism().unwrap_or(threads).get(),
            renders_outside: matches!(&job.template, JobTemplate::Ready(it) if it.rendered_in_process().is_some()),
        };
        Sampled {
            records: self.ledger.read.documents,
            bytes,
            share: bytes as f64 / all.max(1) as f64,
            seconds: rounded(self.time_estimate.seconds(scale, machine)),
        }
    }

    /// A place, as the report has it.
    fn place(&self, place: DroppedRecord) -> PlaceReport {
        let byte = self.byte_of(&place.origin);
        let mut place = PlaceReport::from(place);
        if let Some(byte) = byte {
            // The lines before it were not counted.
            place.message = format!("{byte}: {}", place.message);
            place.line = 0;
        }
        place
    }

    /// The place of a record in a file whose lines were not counted, as reports show it.
    fn byte_of(&self, origin: &Origin) -> Option<String> {
        if self.spread.contains(&origin.path) {
            return Some(format!("at byte {}", origin.line));
        }
        let extents = self.frames.get(&origin.path)?;
        let start = extents.iter().rfind(|start| start.first_line <= origin.line)?;
        Some(format!("in the frames from byte {} on", start.byte))
    }

    fn into_scan(
        mut self,
        about: InputFacts,
        fits: Vec<Fit>,
        job: &Job,
        started: Instant,
        bytes: u64,
    ) -> Scan {
        let mut found = mem::take(&mut self.places);
        let lost = self.ledger.dropped.iter().map(|(reason, count)| {
            let mut places = found.remove(reason).unwrap_or_default();
            if places.is_empty()
                && let Some(first) = self.ledger.firsts.get(reason)
            {
                let (origin, message) = (first.clone(), "the first of them".to_owned());
                places.push(DroppedRecord { origin, reason: *reason, message });
            }
            let places = places.into_iter().map(|place| self.place(place)).collect();
            (reason.name().to_owned(), Lost { count: *count, places })
        });
        let lost = lost.collect();
        let read = self.ledger.read;
        let template = match &job.template {
            JobTemplate::Refused(_) => None,
            JobTemplate::Ready(template) => Some(TemplateScan {
                name: template.name().to_owned(),
                masks: if template.has_generation_blocks() { "marked" } else { "derived" }
                    .to_owned(),
                outside: template.rendered_in_process(),
            }),
        };
        let seconds = started.elapsed().as_secs_f64();
        let threads = job.options.work.threads.get();
        let place = |origin: &Origin| match self.byte_of(origin) {
            Some(byte) => format!("{}, {byte}", origin.path.display()),
            None => origin.to_string(),
        };
        let notes = &self.ledger.notes;
        let warnings = about.facts.warnings.into_iter().chain(notes.warnings(&place, read.tokens));
        Scan {
            fastpack: env!("CARGO_PKG_VERSION").to_owned(),
            files: about.facts.files,
            bytes: about.facts.bytes,
            inputs: about.facts.inputs,
            read,
            documents: self.documents,
            pictures: self.ledger.pictures,
            lost,
            left_out: notes.left_out_report(&place),
            noted: notes.noted_report(&place),
            split_conversations: notes.split_conversations.report(&place),
            turn_choices: self.choices.report(),
            lengths: self.lengths.lengths(),
            trained_tokens: self.trained_tokens,
            trained_share: ratio(self.trained_tokens, self.lengths.tokens()),
            fits,
            template,
            tokenizer: about.facts.tokenizer,
            engine: about.facts.engine,
            engine_reason: about.facts.engine_reason,
            warnings: warnings.collect(),
            timing: ScanTiming {
                timing: Timing::new(seconds, threads, bytes, read.tokens, &self.work),
                turn_choices_seconds: rounded(
                    self.choices
                        .took
                        .div_f64(f64::from(u32::try_from(threads).unwrap_or(u32::MAX)))
                        .as_secs_f64(),
                ),
            },
            sample: None,
        }
    }
}

/// The documents as pieces for one length of rows.
struct PiecesForLength {
    options: Options,
    packed_counts: PackedCounts,
    pieces: Pieces,
}

impl PiecesForLength {
    fn new(options: &Options, max_length: NonZeroU32) -> Self {
        let mut options = options.clone();
        options.rows.packing.max_length = Some(max_length);
        Self { options, packed_counts: PackedCounts::default(), pieces: Pieces::default() }
    }

    fn take(&mut self, outcome: &TokenizedBlock, before: u64) -> Result<()> {
        let objective = causal();
        let cutter = DocumentCutter { options: &self.options, objective: &*objective, copy: 0 };
        for (number, index) in (before..).zip(0..outcome.documents.len()) {
            let name = u32::try_from(number).map_err(|_| {
                Error::option("files", "hold more than 4294967296 documents; scan them in parts")
            })?;
            let document = outcome.documents.document(index);
            self.packed_counts.pieces(document, name, cutter, &mut self.pieces)?;
        }
        Ok(())
    }

    fn plan(mut self, control: &Control) -> Result<Fit> {
        let packing = &self.options.rows.packing;
        let planned = plan(self.pieces, packing, control)?;
        let ledger = &mut self.packed_counts.ledger;
        for left in &planned.left_out {
            ledger.dropped.entry(left.reason).or_default().tokens += u64::from(left.piece.length);
        }
        for (_, reason) in planned.unpacked_documents(control)? {
            ledger.kept.documents -= 1;
            ledger.dropped.entry(reason).or_default().documents += 1;
        }
        let (plan, mut lengths) = (planned.plan, Histogram::default());
        let mut shown = PictureCount::default();
        for (at, piece) in plan.pieces(0..plan.distinct_rows()).enumerate() {
            if at % TICK == 0 {
                control.tick()?;
            }
            lengths.add(plan.room(piece.tokens()));
            shown.merge(piece.sizes.pictures.into());
            ledger.kept.tokens += u64::from(piece.length);
        }
        let rows = plan.rows() as u64;
        let dropped = ledger.dropped.iter();
        Ok(Fit {
            max_length: packing.row_limit().get(),
            rows,
            fill: ratio(ledger.kept.tokens, rows * u64::from(packing.row_limit().get())),
            lower_bound: lower_bound(&lengths.pairs(), packing).max(lower_bound_of_pictures(
                shown.pictures,
                shown.tokens,
                packing,
            )),
            kept: ledger.kept,
            dropped: dropped.map(|(reason, count)| (reason.name().to_owned(), *count)).collect(),
            truncated: ledger.truncated,
        })
    }
}
