//! [`repack`]: packs kept tokens again without tokenizing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::assemble::{Layout, NumberedFiles};
use crate::config::identity::{Identity, JobInputs};
use crate::config::{Options, Output, Validation};
use crate::document::store::{DocumentStore, LogEntry, LoggedBlock, TokenLog};
use crate::error::{Error, Result};
use crate::objective::{ObjectiveVocabulary, objective};
use crate::pipeline::documents::rendering::turn_choices::TurnChoices;
use crate::pipeline::documents::tokenized_blocks::TokenizedBlock;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::rows::sink_packer::SinkPacker;
use crate::pipeline::runs::output_folder::{in_folder, read_report};
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::report::Report;
use crate::report::timing::StageWork;
use crate::sink::{KeptTokens, Sink, kept};
use crate::storage::RemotePictures;
use crate::util::control::{Control, Phase};
use crate::util::threads_in_order::ordered;
use crate::util::wording::{message, set};

/// Packs the tokens that [`pack_dir`](crate::pipeline::pack_dir) kept in the folder `source` into files in
/// `output.dir`.
///
/// Whole documents were kept, so documents that were dropped for their length are packed if they fit now. A
/// stopped run is resumed, as by `pack_dir`. `vocabulary` is that of the tokenizer of the tokens, which some objectives
/// need; `pictures` opens those in remote storage.
///
/// # Panics
///
/// If a folder states more rows than fit into the address space.
pub fn repack(
    options: &Options,
    source: &Path,
    output: &Output,
    vocabulary: ObjectiveVocabulary<'_>,
    pictures: Option<Arc<RemotePictures>>,
    control: &Control,
) -> Result<Report> {
    let kept = kept(source)?;
    let mut options = options.clone();
    if let Some(images) = &kept.job.token_options.images {
        images.add_columns(&mut options.rows.columns);
        options.tokens.images = Some(images.clone());
        if let Some(rows) = &kept.job.row_options {
            let packing = &mut options.rows.packing;
            packing.max_images_per_pack = rows.packing.max_images_per_pack;
            packing.max_image_tokens_per_pack = rows.packing.max_image_tokens_per_pack;
        }
    }
    let options = &options;
    options.validate()?;
    output.validate(&options.rows)?;
    let kept_tokenizer = kept.job.made_by.as_ref().and_then(|made_by| made_by.tokenizer.as_deref());
    if let Some(tokenizer) = vocabulary.tokenizer
        && kept_tokenizer != Some(tokenizer.fingerprint())
    {
        let reason = "is another than that of the kept tokens; pass the one that made them";
        return Err(Error::option("tokenizer", reason));
    }
    if options.rows.trims() && !kept.job.trims() {
        let reason =
            "is \"trim\", but the tokens were kept without the ends of turns; keep them with it";
        return Err(Error::option("overlong", reason));
    }
    let kept_documents = kept.job.token_options.documents;
    if kept_documents != options.tokens.documents {
        let reason = message![
            set("objective", options.rows.objective.name().name()),
            format!(
                " is made of other documents than those that were kept ({}); pack the files again",
                kept_documents.name()
            ),
        ];
        return Err(Error::option("objective", reason));
    }
    let set_aside = kept.job.output.as_ref().and_then(|output| output.validation);
    if let (None, Some(set_aside)) = (output.validation, set_aside) {
        let reason = message![
            "must be given: the tokens are those of a job with ",
            set("validation", set_aside),
            ", and would all be trained on",
        ];
        return Err(Error::option("validation", reason));
    }
    if same_folder(source, &output.dir) {
        let reason = "holds the tokens that are packed; write to a folder of its own";
        return Err(Error::output(&output.dir, reason));
    }
    let identity = Identity {
        fastpack: Identity::version(),
        inputs: JobInputs::Tokens(kept.job.name()),
        sources: Vec::new(),
        made_by: None,
        token_options: options.tokens.clone(),
        row_options: Some(options.rows.clone()),
        output: Some(output.deciding()),
        stream_options: None,
        run: None,
        appended_to: None,
    };
    let about =
        InputFacts::of(read_report(&kept.report, source)?, NumberedFiles::new(kept.job.files()));
    in_folder(
        output,
        &Arc::new(identity),
        options.now(),
        options.work.max_lost,
        control,
        |folder| {
            let started = Instant::now();
            let made_by = kept.job.made_by.as_ref();
            let filling = made_by.and_then(|made_by| made_by.pad_id.or(made_by.eos_id));
            let largest_id = made_by.and_then(|made_by| made_by.largest_id);
            let objective = objective(options, vocabulary)?;
            let layout = Layout::new(options, objective, filling, about.sources.clone())?;
            let layout = layout.with_remote_pictures(pictures);
            let layout = layout.stored_as(output.coding.layout, largest_id);
            let log = Arc::new(TokenLog::open_finished(&kept.tokens)?);
            let store = DocumentStore::with_log(Arc::clone(&log), output.memory);
            let packing = Packing::with_store(options, layout, store);
            let packing = packing.with_validation(output.validation)?;
            let packer = SinkPacker::new(packing, folder, control, started);
            let report =
                take_all(&kept, &log, packer, &mut |_| (), options, control)?.finish(about)?;
            folder.finish(&report.to_json(), BTreeMap::new(), None)?;
            Ok(report)
        },
    )
}

/// The options for packing kept tokens into rows.
pub(super) struct KeptRows {
    pub(super) layout: Layout,
    pub(super) validation: Option<Validation>,
    pub(super) about: InputFacts,
}

/// Packs kept tokens into `sink`. `consumed` is called for each block.
pub(super) fn pack_kept(
    kept: &KeptTokens,
    options: &Options,
    rows: KeptRows,
    consumed: &mut dyn FnMut(&TokenizedBlock),
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Report> {
    let started = Instant::now();
    let log = TokenLog::open_finished(&kept.tokens)?;
    let packing = Packing::new(options, rows.layout).with_validation(rows.validation)?;
    let packer = SinkPacker::new(packing, sink, control, started);
    take_all(kept, &log, packer, consumed, options, control)?.finish(rows.about)
}

/// Gives all blocks of the log to `packer`, in input order.
pub(in crate::pipeline) fn take_all<'a>(
    kept: &KeptTokens,
    log: &TokenLog,
    mut packer: SinkPacker<'a>,
    consumed: &mut dyn FnMut(&TokenizedBlock),
    options: &Options,
    control: &Control,
) -> Result<SinkPacker<'a>> {
    // Blocks of a job of groups are not numbered without gaps.
    let numbers = log.found();
    if numbers.len() as u64 != kept.blocks {
        return Err(damaged(kept));
    }
    let entry = |number| log.entry(number, None)?.ok_or_else(|| damaged(kept));
    let take = |outcome: TokenizedBlock| {
        consumed(&outcome);
        packer.take(outcome)
    };
    take_blocks(numbers, &entry, take, options, control)?;
    Ok(packer)
}

/// Gives the blocks of these numbers to `take` in their order, as `entry` finds them.
pub(in crate::pipeline) fn take_blocks(
    mut numbers: impl Iterator<Item = u64> + Send,
    entry: &(dyn Fn(u64) -> Result<(LogEntry, LoggedBlock)> + Sync),
    take: impl FnMut(TokenizedBlock) -> Result<()>,
    options: &Options,
    control: &Control,
) -> Result<()> {
    control.enter(Phase::Tokenize);
    let next = || {
        control.tick()?;
        Ok(numbers.next())
    };
    let worker = || {
        |number: u64| {
            let (entry, place) = entry(number)?;
            let read = entry.ledger.read;
            control.count_block(0, read.documents, read.tokens);
            Ok(TokenizedBlock {
                documents: entry.documents,
                ledger: entry.ledger,
                work: StageWork::default(),
                place: Some(place),
                fingerprint: Some(entry.fingerprint),
                left_out: Vec::new(),
                choices: TurnChoices::default(),
                other_split: 0,
                records: Vec::new(),
                end: None,
            })
        }
    };
    ordered(options.work.threads, next, worker, take)
}

/// The error of kept tokens that are not whole.
pub(in crate::pipeline) fn damaged(kept: &KeptTokens) -> Error {
    Error::output(&kept.tokens, "is damaged; pack the files again")
}

fn same_folder(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
