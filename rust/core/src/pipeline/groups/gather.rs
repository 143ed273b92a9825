//! [`gather`]: puts the output of a job together from its groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use super::group::{GroupStep, GroupedJob, HashedFiles};
use super::group_result::GroupRecord;
use crate::config::Split;
use crate::error::Result;
use crate::pack::Pieces;
use crate::pipeline::rows::leftover_documents::LeftoverDocuments;
use crate::pipeline::rows::planned_packing::Packing;
use crate::pipeline::statistics::input_facts::InputFacts;
use crate::pipeline::statistics::packed_counts::PackedCounts;
use crate::report::Report;
use crate::report::listed_path::ListedPath;
use crate::sink::{Groups, OutputFolder, PackedGroup, Sink, TOKENS, TokensFile, WrittenShard};
use crate::source::SourceFile;
use crate::util::control::{Control, Phase};
use crate::util::disk::hex_hash::HexHash;

/// Puts the output together in `folder` from the groups, all of which are packed. Returns `None` if some groups have changed: then
/// they are removed, and have to be packed again.
pub(super) fn gather(
    job: &GroupedJob<'_>,
    groups: &Groups,
    folder: &mut OutputFolder,
    control: &Control,
) -> Result<Option<Report>> {
    control.enter(Phase::Write);
    if !are_tokens_unchanged(job, groups, control)? {
        return Ok(None);
    }
    let mut packed = Vec::with_capacity(job.len());
    let mut record = GroupRecord::default();
    job.each_packed(
        groups,
        0..job.len(),
        GroupStep::Rows,
        HashedFiles::All,
        control,
        |group, found| {
            match found {
                Some((mut it, later)) => {
                    record.merge(later);
                    let content = std::mem::take(&mut it.manifest.content);
                    it.manifest.content = named_in_memory(job.files(group), content);
                    packed.push(it);
                }
                None => groups.discard(group as u64, GroupStep::Rows.name())?,
            }
            Ok(())
        },
    )?;
    if packed.len() < job.len() {
        return Ok(None);
    }
    let options = &job.job.options;
    let GroupRecord { mut counted, seen, outside, blocks, seconds } = record;
    let split_warning = counted.check_split(job.output.validation)?;
    counted.check_max_lost(options.work.max_lost)?;
    let has_splits = !counted.splits.is_empty();
    let splits: &[Split] = if has_splits { &Split::ALL } else { &[Split::Train] };
    for (number, split) in splits.iter().enumerate() {
        folder.begin_split(*split)?;
        adopt(job, groups, folder, shards(&packed, *split), control)?;
        let packed_counts =
            if has_splits { &mut counted.splits[number] } else { &mut counted.whole };
        let shared = counted.shared.get_mut(number).map(std::mem::take).unwrap_or_default();
        if !shared.is_empty() {
            let together = LeftoverDocuments::of(shared, &job.sources.in_order());
            pack_together(job, together, packed_counts, folder, control)?;
        }
    }
    counted.check_max_lost(options.work.max_lost)?;
    let tokens =
        job.output.keep_tokens.then(|| tokens(job, groups, &packed, folder, blocks, control));
    let tokens = tokens.transpose()?;
    let mut about = InputFacts::new(job.job, job.found);
    about.read(job.job, seen);
    let warnings = &mut about.facts.warnings;
    warnings.extend(outside.filter(|warning| !warnings.contains(warning)));
    warnings.extend(split_warning);
    let work = counted.total().work;
    let report = counted.close(options).report(options, about, Instant::now())?;
    let report = report.timed(seconds, options.work.threads.get(), &work);
    folder.finish(&report.to_json(), content(packed), tokens)?;
    Ok(Some(report))
}

/// Takes the shards of groups over into the output.
fn adopt(
    job: &GroupedJob<'_>,
    groups: &Groups,
    folder: &mut OutputFolder,
    mut shards: Vec<(&PackedGroup, WrittenShard)>,
    control: &Control,
) -> Result<()> {
    if job.output.hf_layout && !shards.is_empty() {
        // The first shard supplies the description of the columns for `datasets`.
        let (group, first) = shards.remove(0);
        let path = groups.fetched_file(group, &first.name, control)?;
        folder.adopt(&[(path, first)], control)?;
    }
    groups.adopt(folder, &placed(shards), control)
}

/// The shards of a split of all groups, in their order, each with its group. Of groups without rows one shard is taken, if no group
/// has any.
fn shards(packed: &[PackedGroup], split: Split) -> Vec<(&PackedGroup, WrittenShard)> {
    let all = packed.iter().flat_map(|group| {
        let of_split = group.manifest.files.iter().filter(move |file| split.has_shard(&file.name));
        of_split.map(move |file| (group, file.clone()))
    });
    let (full, empty): (Vec<_>, Vec<_>) = all.partition(|(_, file)| file.rows > 0);
    if full.is_empty() { empty.into_iter().take(1).collect() } else { full }
}

/// Shards with their paths.
fn placed(shards: Vec<(&PackedGroup, WrittenShard)>) -> Vec<(PathBuf, WrittenShard)> {
    shards.into_iter().map(|(group, file)| (group.dir.join(&file.name), file)).collect()
}

/// True if the tokens of all groups are unchanged when they become those of the job. Changed ones are removed.
fn are_tokens_unchanged(job: &GroupedJob<'_>, groups: &Groups, control: &Control) -> Result<bool> {
    // Groups with one step keep their tokens beside their rows.
    if !job.output.keep_tokens || !job.tokenizes_all_groups_first() {
        return Ok(true);
    }
    let mut are_unchanged = true;
    job.each_packed(
        groups,
        0..job.len(),
        GroupStep::Tokens,
        HashedFiles::All,
        control,
        |group, found| {
            if found.is_none() {
                are_unchanged = false;
                groups.discard(group as u64, GroupStep::Tokens.name())?;
            }
            Ok(())
        },
    )?;
    Ok(are_unchanged)
}

/// Packs the documents that groups left for rows of their own, and writes the rows after all others.
fn pack_together(
    job: &GroupedJob<'_>,
    together: LeftoverDocuments,
    packed_counts: &mut PackedCounts,
    folder: &mut OutputFolder,
    control: &Control,
) -> Result<()> {
    let options = &job.job.options;
    let layout = job.job.file_layout(job.sources.clone(), job.output.coding.layout)?;
    let mut packing = Packing::new(options, layout);
    packing.in_other_rows = together.elsewhere;
    for documents in together.documents {
        packing.store.push(documents, None);
    }
    let mut pieces = Pieces::default();
    pieces.extend(together.pieces);
    let (plan, _) = packing.plan(pieces, packed_counts, control)?;
    if plan.rows() == 0 {
        return Ok(());
    }
    packing.write(&plan, packed_counts, 0, control, folder)
}

/// Joins the tokens of all groups.
fn tokens(
    job: &GroupedJob<'_>,
    groups: &Groups,
    packed: &[PackedGroup],
    folder: &OutputFolder,
    blocks: u64,
    control: &Control,
) -> Result<TokensFile> {
    let log = |(number, group): (usize, &PackedGroup)| {
        if job.tokenizes_all_groups_first() {
            groups.fetched_file(&job.tokens_of(groups, number, control)?, TOKENS, control)
        } else {
            groups.fetched_file(group, TOKENS, control)
        }
    };
    let logs = packed.iter().enumerate().map(log).collect::<Result<Vec<PathBuf>>>()?;
    folder.adopt_tokens(&logs, blocks, control)
}

/// Hashes of the files of a group by the names that these have in memory.
fn named_in_memory(
    files: &[SourceFile],
    content: BTreeMap<ListedPath, HexHash>,
) -> BTreeMap<ListedPath, HexHash> {
    let names: BTreeSet<_> = files.iter().map(|file| ListedPath::from(&file.path)).collect();
    let name = |name: ListedPath| names.get(&name).cloned().unwrap_or(name);
    content.into_iter().map(|(path, hash)| (name(path), hash)).collect()
}

/// The hashes of the files of all groups. The hash of a file that several groups read is a hash of all hashes.
fn content(packed: Vec<PackedGroup>) -> BTreeMap<ListedPath, HexHash> {
    let mut all: BTreeMap<ListedPath, HexHash> = BTreeMap::new();
    for (path, hash) in packed.into_iter().flat_map(|group| group.manifest.content) {
        let both = |before: &HexHash| blake3::hash(format!("{before}{hash}").as_bytes()).into();
        let hash = all.get(&path).map_or(hash, both);
        all.insert(path, hash);
    }
    all
}
