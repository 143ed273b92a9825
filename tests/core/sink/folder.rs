//! The content of an output folder after runs that finish, fail, are killed, meet another, or come again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use arrow::array::{AsArray, Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int32Type};
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use chrono::{Duration, NaiveDate, NaiveDateTime};
use fastpack_core::assemble::schema;
use fastpack_core::config::identity::Identity;
use fastpack_core::config::{Format, Output, RowColumn, RowEncoding, RowLayout};
use fastpack_core::document::store::TokenLog;
use fastpack_core::document::{Documents, INPUTS};
use fastpack_core::report::ledger::{Ledger, Reason};
use fastpack_core::sink::{
    self, MANIFEST_VERSION, Manifest, OpenedJob, OutputFolder, Sink, TokensFile,
};
use fastpack_core::{Control, Error, Origin};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

const COLUMNS: [RowColumn; 2] = [RowColumn::InputIds, RowColumn::SeqLengths];

pub(super) fn output(dir: &Path) -> Output {
    Output {
        dir: dir.to_owned(),
        coding: coding(Format::Arrow),
        per_file: false,
        hf_layout: false,
        validation: None,
        shard_bytes: 1 << 20,
        keep_tokens: false,
        group_bytes: None,
        turn: None,
        overwrite: false,
        shared: false,
        cannot_resume: false,
        wait: false,
        memory: u64::MAX,
        recipe: None,
        remote: None,
    }
}

pub(super) fn coding(format: Format) -> RowEncoding {
    RowEncoding { format, layout: RowLayout::Full, compression: None }
}

pub(super) fn overwriting(dir: &Path) -> Output {
    Output { overwrite: true, ..output(dir) }
}

pub(super) fn job() -> Arc<Identity> {
    job_of(&json!({}))
}

pub(super) fn other_job() -> Arc<Identity> {
    job_of(&json!({ "max_length": 8192, "padding.token_id": 7 }))
}

/// A job that packs one file with these options of its rows.
pub(super) fn job_of(options: &Value) -> Arc<Identity> {
    let packing = json!({
        "max_length": 4096, "strategy": "mix", "overlong": null, "overlong.side": "right", "strategy.drop_last": false, "strategy.shuffle": false,
        "strategy.max_documents": null, "strategy.align_to": null, "order": null, "order.ranks": null,
        "order.on_remainder": "pad", "seed": 0,
    });
    let mut job = json!({
        "fastpack": "0",
        "inputs": { "files": { "a.jsonl": { "place": 0, "size": 7, "modified": 1, "source": 0 } } },
        "made_by": {
            "tokenizer": "0a1b", "bos_id": null, "eos_id": 2, "pad_id": null, "template": null,
            "transform": null, "trims": false,
        },
        "token_options": {
            "train_on": "auto", "turns": "auto", "special_tokens.train_on_eos": null, "special_tokens.eos": "auto", "special_tokens.bos": "auto", "on_bad_record": "error",
            "chat_template.now": null,
        },
        "row_options": {
            "packing": packing, "padding": "nothing", "padding.side": "right", "padding.token_id": null,
            "objective.shift_labels": false, "columns": ["input_ids", "seq_lengths"], "objective": { "kind": "causal" },
        },
        "output": {
            "format": "arrow", "format.compression": null, "format.per_file": false, "format.hf_layout": false,
            "validation": 0.1, "format.shard_size": 512, "keep_tokens": false,
        },
    });
    for (name, value) in options.as_object().expect("options by their names") {
        let parts = ["/row_options/packing", "/row_options", "/output"];
        let part = parts.iter().find(|part| job.pointer(&format!("{part}/{name}")).is_some());
        job.pointer_mut(part.expect("an option")).expect("it is there")[name] = value.clone();
    }
    Arc::new(serde_json::from_value(job).expect("an identity"))
}

/// Rows of these many tokens, of one document each.
pub(super) fn batch(lengths: &[usize]) -> RecordBatch {
    let list = |values: Vec<i32>, lengths: Vec<usize>| {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Arc::new(ListArray::new(item, offsets, Arc::new(Int32Array::from(values)), None))
    };
    let small = |length: &usize| i32::try_from(*length).expect("a test's rows are short");
    let ids = list(lengths.iter().flat_map(|length| 0..small(length)).collect(), lengths.to_vec());
    let seq_lengths = list(lengths.iter().map(small).collect(), vec![1; lengths.len()]);
    RecordBatch::try_new(schema::schema(&COLUMNS), vec![ids, seq_lengths]).expect("sound columns")
}

/// A noon of which all runs of these tests know.
pub(super) fn noon() -> NaiveDateTime {
    NaiveDate::from_ymd_opt(2026, 1, 31).and_then(|day| day.and_hms_opt(12, 0, 0)).expect("a day")
}

pub(super) fn open(
    output: &Output,
    job: &Arc<Identity>,
) -> fastpack_core::Result<OpenedJob<OutputFolder>> {
    Ok(match sink::open(output, job, noon(), &Control::default())? {
        OpenedJob::Ready(opened) => OpenedJob::Ready(opened.folder),
        OpenedJob::Finished(report) => OpenedJob::Finished(report),
    })
}

pub(super) fn ready(output: &Output, job: &Arc<Identity>) -> OutputFolder {
    match open(output, job).expect("nothing is in the way") {
        OpenedJob::Ready(folder) => folder,
        OpenedJob::Finished(report) => panic!("finished before: {report}"),
    }
}

pub(super) fn refusal(output: &Output, job: &Arc<Identity>) -> String {
    match open(output, job).expect_err("something is in the way") {
        Error::Output { path, reason } | Error::Busy { path, reason } => {
            assert_eq!(path, output.dir);
            reason.to_string()
        }
        other => panic!("not about the folder: {other}"),
    }
}

pub(super) fn run(output: &Output, job: &Arc<Identity>, batches: &[RecordBatch]) {
    let mut folder = ready(output, job);
    for batch in batches {
        folder.write(batch).expect("the disk has room");
    }
    folder.finish(r#"{"rows":3}"#, BTreeMap::new(), None).expect("the disk has room");
}

/// All files below `dir`, by their paths in it.
pub(super) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(below, bytes)| {
                (Path::new(path.file_name().expect("a name")).join(below), bytes)
            }));
            continue;
        }
        let name = PathBuf::from(path.file_name().expect("a name"));
        found.insert(name, fs::read(path).expect("a file"));
    }
    found
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    files(dir).into_keys().map(|path| path.display().to_string()).collect()
}

fn shards(dir: &Path) -> Vec<RecordBatch> {
    let names = names(dir).into_iter().filter(|name| name.starts_with("train-"));
    let read = |name: String| {
        let file = File::open(dir.join(name)).expect("a shard");
        let reader = StreamReader::try_new(file, None).expect("an Arrow stream");
        let schema = reader.schema();
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a sound batch")).collect();
        concat_batches(&schema, &batches).expect("one schema")
    };
    names.map(read).collect()
}

/// A folder in which a run of `job` was killed after its first shard.
pub(super) fn killed(dir: &Path, job: &Arc<Identity>) {
    let mut folder = ready(&Output { shard_bytes: 1, ..output(dir) }, job);
    fs::write(folder.blocks(), "what blocks came to").expect("the disk has room");
    folder.write(&batch(&[3, 4])).expect("the disk has room");
    drop(folder);
    assert!(dir.join(".fastpack/started.json").exists());
}

#[test]
fn a_finished_folder_holds_shards_report_and_manifest() {
    let dir = TempDir::new().expect("a folder");
    let packed = dir.path().join("deep/packed");
    run(&output(&packed), &job(), &[batch(&[3, 4]), batch(&[5])]);
    assert_eq!(names(&packed), ["manifest.json", "report.json", "train-00000.arrow"]);
    assert_eq!(shards(&packed), [batch(&[3, 4, 5])]);
    assert_eq!(fs::read_to_string(packed.join("report.json")).expect("a report"), r#"{"rows":3}"#);
}

#[test]
fn the_manifest_knows_job_sizes_and_hashes() {
    let dir = TempDir::new().expect("a folder");
    run(&Output { shard_bytes: 40, ..output(dir.path()) }, &job(), &[batch(&[9, 9, 9])]);
    let manifest = fs::read(dir.path().join("manifest.json")).expect("a manifest");
    let manifest: Manifest = serde_json::from_slice(&manifest).expect("a manifest");
    assert_eq!((manifest.version, &manifest.job, manifest.now), (MANIFEST_VERSION, &job(), noon()));
    let names: Vec<&str> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["train-00000.arrow", "train-00001.arrow", "train-00002.arrow"]);
    for file in manifest.files {
        let bytes = fs::read(dir.path().join(file.name)).expect("a shard");
        assert_eq!((file.rows, file.bytes), (1, bytes.len() as u64));
        assert_eq!(file.blake3, blake3::hash(&bytes).to_hex().to_string());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn which_row_is_in_which_shard_depends_on_the_rows_alone(
        lengths in prop::collection::vec(1..40_usize, 1..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        shard_bytes in 0..600_u64,
    ) {
        let dir = TempDir::new().expect("a folder");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(lengths.len() + 1)).collect();
        cuts.extend([0, lengths.len()]);
        cuts.sort_unstable();
        let parts: Vec<RecordBatch> = cuts.windows(2).map(|cut| batch(&lengths[cut[0]..cut[1]])).collect();
        run(&Output { shard_bytes, ..output(dir.path()) }, &job(), &parts);

        let mut expected: Vec<Vec<usize>> = vec![Vec::new()];
        let bytes = |row: &[usize]| row.iter().map(|&length| 4 * (length as u64 + 1) + 8).sum::<u64>();
        for &length in &lengths {
            if expected.last().is_some_and(|shard| bytes(shard) >= shard_bytes.max(1)) {
                expected.push(Vec::new());
            }
            expected.last_mut().expect("one at least").push(length);
        }
        let expected: Vec<RecordBatch> = expected.iter().map(|shard| batch(shard)).collect();
        prop_assert_eq!(shards(dir.path()), expected);
    }

    #[test]
    fn json_lines_hold_the_rows(lengths in prop::collection::vec(1..40_usize, 0..20)) {
        let dir = TempDir::new().expect("a folder");
        run(&Output { coding: coding(Format::Jsonl), ..output(dir.path()) }, &job(), &[batch(&lengths)]);
        let text = fs::read_to_string(dir.path().join("train-00000.jsonl")).expect("a shard");
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let expected: Vec<Value> = lengths
            .iter()
            .map(|&length| json!({ "input_ids": (0..length).collect::<Vec<_>>(), "seq_lengths": [length] }))
            .collect();
        prop_assert_eq!(rows, expected);
    }
}

#[test]
fn a_job_without_rows_leaves_one_shard_with_the_schema() {
    for format in [Format::Arrow, Format::Jsonl] {
        let dir = TempDir::new().expect("a folder");
        run(&Output { coding: coding(format), ..output(dir.path()) }, &job(), &[batch(&[])]);
        if format == Format::Arrow {
            assert_eq!(shards(dir.path()), [batch(&[])]);
        } else {
            assert_eq!(files(dir.path())[Path::new("train-00000.jsonl")], b"");
        }
    }
}

#[test]
fn the_same_job_writes_the_same_bytes() {
    let (one, two) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    for dir in [&one, &two] {
        run(
            &Output { shard_bytes: 64, ..output(dir.path()) },
            &job(),
            &[batch(&[9, 30, 2]), batch(&[5])],
        );
    }
    assert_eq!(files(one.path()), files(two.path()));
}

#[test]
fn the_same_job_again_finds_itself_finished() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let before = files(dir.path());
    match open(&output(dir.path()), &job()).expect("nothing is in the way") {
        OpenedJob::Finished(report) => assert_eq!(report, r#"{"rows":3}"#),
        OpenedJob::Ready(folder) => panic!("would run again: {folder:?}"),
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn the_output_of_another_job_is_kept_and_the_differences_are_named() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let before = files(dir.path());
    assert_eq!(
        refusal(&output(dir.path()), &other_job()),
        "holds the output of a job that differs in `max_length` (4096 there, 8192 here), \
         `padding.token_id` (null there, 7 here); pass exists = \"overwrite\" to replace it, or write to another folder"
    );
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_finished_folder_that_lost_a_file_is_refused() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    fs::write(dir.path().join("train-00000.arrow"), "short").expect("the disk has room");
    assert!(refusal(&output(dir.path()), &job()).starts_with(
        "holds the output of this job, but `train-00000.arrow` has changed, to 5 bytes;"
    ));
    fs::remove_file(dir.path().join("train-00000.arrow")).expect("a file");
    assert!(
        refusal(&output(dir.path()), &job())
            .starts_with("holds the output of this job, but `train-00000.arrow` is missing;")
    );
}

#[test]
fn foreign_files_are_refused_and_named() {
    let dir = TempDir::new().expect("a folder");
    for name in ["notes.txt", "train-00000.arrow", "a", "b", "c", "d"] {
        fs::write(dir.path().join(name), name).expect("the disk has room");
    }
    let before = files(dir.path());
    assert_eq!(
        refusal(&output(dir.path()), &job()),
        "is not empty: `a`, `b`, `c`, `d`, `notes.txt` and 1 more; write to another folder, or move them away"
    );
    assert_eq!(files(dir.path()), before);
}

#[test]
fn overwriting_replaces_our_files_and_keeps_others() {
    let dir = TempDir::new().expect("a folder");
    let theirs = ["notes.txt", "train-00000-of-00002.arrow", "train-mine.jsonl", "train-123.arrow"];
    run(&Output { shard_bytes: 1, ..output(dir.path()) }, &job(), &[batch(&[3, 3, 3])]);
    for name in theirs {
        fs::write(dir.path().join(name), name).expect("the disk has room");
    }
    run(&overwriting(dir.path()), &other_job(), &[batch(&[4])]);
    let mut expected = vec!["manifest.json", "report.json", "train-00000.arrow"];
    expected.extend(theirs);
    expected.sort_unstable();
    assert_eq!(names(dir.path()), expected);
    for name in theirs {
        assert_eq!(files(dir.path())[Path::new(name)], name.as_bytes());
    }
    assert!(matches!(open(&output(dir.path()), &other_job()), Ok(OpenedJob::Finished(_))));
}

#[test]
fn overwriting_that_fails_leaves_the_old_output_whole() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let before = files(dir.path());
    let mut folder = ready(&overwriting(dir.path()), &other_job());
    folder.write(&batch(&[4, 5])).expect("the disk has room");
    drop(folder);
    let mut after = files(dir.path());
    after.retain(|path, _| !path.starts_with(".fastpack"));
    assert_eq!(after, before);
}

#[test]
fn overwriting_runs_a_finished_job_again() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    assert!(matches!(open(&overwriting(dir.path()), &job()), Ok(OpenedJob::Ready(_))));
}

#[test]
fn a_run_that_fails_for_good_leaves_nothing() {
    let dir = TempDir::new().expect("a folder");
    let packed = dir.path().join("packed");
    for output in [output(&packed), output(dir.path()), overwriting(dir.path())] {
        let mut folder = ready(&Output { shard_bytes: 1, ..output }, &job());
        folder.write(&batch(&[3, 4])).expect("the disk has room");
        folder.fail(&Error::option("max_length", "is not what it should be"));
        drop(folder);
        assert!(fs::read_dir(dir.path()).expect("a folder").next().is_none());
    }
}

#[test]
fn a_run_that_cannot_place_its_files_takes_them_back() {
    let dir = TempDir::new().expect("a folder");
    let mut folder = ready(&output(dir.path()), &job());
    folder.write(&batch(&[3])).expect("the disk has room");
    // The second of two shards is no longer there after its hash was compared, and the first is in place by then.
    let elsewhere = TempDir::new().expect("a folder");
    let from = elsewhere.path().join("train-00000.arrow");
    fs::write(&from, "of a group").expect("room");
    let blake3 = blake3::hash(b"of a group").to_hex().to_string();
    let shard = sink::WrittenShard {
        name: "train-00000.arrow".to_owned(),
        rows: 1,
        bytes: 10,
        blake3,
        parts: String::new(),
    };
    folder.adopt(&[(from, shard)], &Control::default()).expect("room");
    fs::remove_file(dir.path().join(".fastpack/train-00001.arrow")).expect("a shard");
    let error = folder.finish("{}", BTreeMap::new(), None).expect_err("there is nothing to place");
    assert!(
        matches!(&error, Error::Io { path, .. } if *path == dir.path().join("train-00001.arrow"))
    );
    folder.fail(&error);
    drop(folder);
    assert!(names(dir.path()).iter().all(|name| name.starts_with(".fastpack/")));
    assert!(dir.path().join(".fastpack/train-00000.arrow").exists());
}

/// The rest of `job` in `dir`, as the next run finds it: the number of finished rows, and the record of its blocks.
fn found(dir: &Path, job: &Arc<Identity>) -> (u64, Option<String>) {
    let folder = ready(&Output { shard_bytes: 1, ..output(dir) }, job);
    (folder.rows(), fs::read_to_string(folder.blocks()).ok())
}

#[test]
fn a_run_goes_on_behind_the_shards_that_are_whole() {
    let dir = TempDir::new().expect("a folder");
    killed(dir.path(), &job());
    assert_eq!(found(dir.path(), &job()), (1, Some("what blocks came to".to_owned())));

    let mut folder = ready(&Output { shard_bytes: 1, ..output(dir.path()) }, &job());
    folder.write(&batch(&[4, 5])).expect("the disk has room");
    folder.finish("{}", BTreeMap::new(), None).expect("the disk has room");
    drop(folder);
    let undisturbed = TempDir::new().expect("a folder");
    let output = Output { shard_bytes: 1, ..output(undisturbed.path()) };
    run(&output, &job(), &[batch(&[3, 4, 5])]);
    for shard in ["train-00000.arrow", "train-00001.arrow", "train-00002.arrow"] {
        let shard = Path::new(shard);
        assert_eq!(files(dir.path())[shard], files(undisturbed.path())[shard]);
    }
    assert_eq!(names(dir.path()), names(undisturbed.path()));
}

/// The stem of some shards, and the tokens of their rows.
type Rows = (&'static str, &'static [usize]);

/// Series of shards: the first in several, the second without a row.
const SERIES: [Rows; 3] = [("b", &[3, 4, 5]), ("b-x", &[]), ("a", &[6, 7])];

/// Goes on with series of shards; returns the rows that were whole of each.
fn write_series(folder: &mut OutputFolder, series: &[Rows]) -> Vec<u64> {
    let whole = series.iter().map(|(stem, lengths)| {
        let done = folder.begin((*stem).to_owned()).expect("the disk has room");
        let rest = batch(lengths).slice(
            usize::try_from(done).expect("few rows"),
            lengths.len() - usize::try_from(done).expect("few rows"),
        );
        folder.write(&rest).expect("the disk has room");
        done
    });
    whole.collect()
}

#[test]
fn a_run_goes_on_behind_what_is_whole_of_each_series() {
    // Shards have the names of inputs.
    let each = || {
        let mut job =
            serde_json::to_value(&*job_of(&json!({ "format.per_file": true }))).expect("a job");
        let file = |place| json!({ "place": place, "size": 7, "modified": 1, "source": 0 });
        job["inputs"]["files"] =
            json!({ "b.jsonl": file(0), "b-x.jsonl": file(1), "a.jsonl": file(2) });
        Arc::new(serde_json::from_value::<Identity>(job).expect("an identity"))
    };
    let undisturbed = TempDir::new().expect("a folder");
    let mut folder = ready(&Output { shard_bytes: 1, ..output(undisturbed.path()) }, &each());
    assert_eq!(write_series(&mut folder, &SERIES), [0, 0, 0]);
    folder.finish("{}", BTreeMap::new(), None).expect("the disk has room");
    drop(folder);
    let dir = TempDir::new().expect("a folder");
    let output = Output { shard_bytes: 1, ..output(dir.path()) };
    // The last shard of a series is whole once the next one begins.
    let runs: [(&[Rows], &[u64]); 4] = [
        (&SERIES[..1], &[0]),
        (&SERIES[..2], &[2, 0]),
        (&SERIES, &[3, 0, 0]),
        (&SERIES, &[3, 0, 1]),
    ];
    for (series, whole) in runs {
        let mut folder = ready(&output, &each());
        assert_eq!(write_series(&mut folder, series), whole);
    }
    let mut folder = ready(&output, &each());
    assert_eq!(write_series(&mut folder, &SERIES), [3, 0, 1]);
    folder.finish("{}", BTreeMap::new(), None).expect("the disk has room");
    drop(folder);
    assert_eq!(files(dir.path()), files(undisturbed.path()));
}

#[test]
fn a_torn_line_of_the_list_of_shards_costs_the_shard_it_is_about() {
    let dir = TempDir::new().expect("a folder");
    let output = Output { shard_bytes: 1, ..output(dir.path()) };
    let mut folder = ready(&output, &job());
    folder.write(&batch(&[3, 4, 5])).expect("the disk has room");
    drop(folder);
    let list = dir.path().join(".fastpack/shards");
    let mut lines = fs::read(&list).expect("a list");
    lines.truncate(lines.len() - 9);
    fs::write(&list, lines).expect("the disk has room");
    for _ in 0..2 {
        let mut folder = ready(&output, &job());
        assert_eq!(folder.rows(), 1);
        assert!(!dir.path().join(".fastpack/train-00001.arrow").exists());
        folder.write(&batch(&[4])).expect("the disk has room");
    }
}

#[test]
fn a_shard_that_is_not_as_it_was_written_is_written_again() {
    let dir = TempDir::new().expect("a folder");
    killed(dir.path(), &job());
    fs::write(dir.path().join(".fastpack/train-00000.arrow"), "short").expect("the disk has room");
    assert_eq!(found(dir.path(), &job()).0, 0);
}

#[test]
fn a_resumed_run_keeps_the_time_of_the_first() {
    let dir = TempDir::new().expect("a folder");
    killed(dir.path(), &job());
    let later = noon() + Duration::days(1);
    let opened = sink::open(&output(dir.path()), &job(), later, &Control::default());
    let OpenedJob::Ready(opened) = opened.expect("nothing is in the way") else {
        panic!("finished")
    };
    assert_eq!(opened.folder.now(), noon());
}

#[test]
fn overwriting_goes_on_with_the_same_job_and_clears_what_another_left() {
    let dir = TempDir::new().expect("a folder");
    killed(dir.path(), &job());
    let overwriting = Output { shard_bytes: 1, ..overwriting(dir.path()) };
    assert_eq!(ready(&overwriting, &job()).rows(), 1);
    let folder = ready(&overwriting, &other_job());
    assert_eq!((folder.rows(), folder.blocks().exists()), (0, false));
}

/// Opens the folder in another thread that waits for it.
fn waiting(
    dir: &Path,
    job: Arc<Identity>,
) -> JoinHandle<fastpack_core::Result<OpenedJob<OutputFolder>>> {
    let output = Output { wait: true, ..output(dir) };
    thread::spawn(move || open(&output, &job))
}

#[test]
fn a_run_that_waits_returns_the_report() {
    let dir = TempDir::new().expect("a folder");
    let mut folder = ready(&output(dir.path()), &job());
    let others = [waiting(dir.path(), job()), waiting(dir.path(), job())];
    folder.write(&batch(&[3])).expect("the disk has room");
    folder.finish(r#"{"rows":1}"#, BTreeMap::new(), None).expect("the disk has room");
    drop(folder);
    for other in others {
        let opened = other.join().expect("no panic").expect("no failure");
        assert!(matches!(opened, OpenedJob::Finished(report) if report == r#"{"rows":1}"#));
    }
    assert_eq!(names(dir.path()), ["manifest.json", "report.json", "train-00000.arrow"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_waited_does_not_overwrite_what_it_waited_for() {
    let dir = TempDir::new().expect("a folder");
    let mut folder = ready(&output(dir.path()), &job());
    let overwriting = Output { wait: true, ..overwriting(dir.path()) };
    let other = thread::spawn(move || open(&overwriting, &job()));
    while !is_waited_for(dir.path()) {
        thread::yield_now();
    }
    folder.write(&batch(&[3])).expect("the disk has room");
    folder.finish("{}", BTreeMap::new(), None).expect("the disk has room");
    drop(folder);
    let opened = other.join().expect("no panic").expect("no failure");
    assert!(matches!(opened, OpenedJob::Finished(_)));
}

/// Finishes a job in `dir`, and returns the word of it that the work folder had.
fn finished_with_word(dir: &Path, tokens: bool) -> Vec<u8> {
    let mut folder = ready(&output(dir), &job());
    let word = fs::read(dir.join(".fastpack/started.json")).expect("the word of the job");
    folder.write(&batch(&[3])).expect("the disk has room");
    let tokens = tokens.then(|| {
        let log = TokenLog::open(&folder.blocks()).expect("a log");
        let documents = Documents::new(Path::new("data.jsonl").into(), &[INPUTS]);
        log.append(0, "0a1b", &documents, &Ledger::default()).expect("the disk has room");
        let (bytes, blake3) = log.finish().expect("the disk has room");
        TokensFile { bytes, blocks: 1, blake3 }
    });
    folder.finish("{}", BTreeMap::new(), tokens).expect("the disk has room");
    word
}

#[test]
fn a_work_folder_left_in_a_finished_one_is_removed() {
    let dir = TempDir::new().expect("a folder");
    let word = finished_with_word(dir.path(), false);
    fs::create_dir(dir.path().join(".fastpack")).expect("the disk has room");
    fs::write(dir.path().join(".fastpack/started.json"), word).expect("room");
    fs::write(dir.path().join(".fastpack/blocks"), "what blocks came to").expect("room");
    assert!(matches!(open(&output(dir.path()), &job()), Ok(OpenedJob::Finished(_))));
    assert_eq!(names(dir.path()), ["manifest.json", "report.json", "train-00000.arrow"]);
}

#[test]
fn tokens_are_placed_and_survive_a_kill_while_they_are() {
    let dir = TempDir::new().expect("a folder");
    let started = finished_with_word(dir.path(), true);
    let all = ["manifest.json", "report.json", "tokens.fastpack", "train-00000.arrow"];
    assert_eq!(names(dir.path()), all);
    let tokens = fs::read(dir.path().join("tokens.fastpack")).expect("the tokens");

    // As a kill before the manifest was placed leaves it.
    let work = dir.path().join(".fastpack");
    fs::create_dir(&work).expect("room");
    fs::write(work.join("started.json"), started).expect("room");
    fs::rename(dir.path().join("manifest.json"), work.join("manifest.json")).expect("a manifest");
    let folder = ready(&output(dir.path()), &job());
    assert_eq!(fs::read(folder.blocks()).expect("the tokens"), tokens);
    assert!(names(dir.path()).iter().all(|name| name.starts_with(".fastpack/")));
}

#[test]
fn a_run_that_waits_takes_over_from_one_that_is_gone() {
    let dir = TempDir::new().expect("a folder");
    let mut folder = ready(&Output { shard_bytes: 1, ..output(dir.path()) }, &job());
    let other = waiting(dir.path(), job());
    folder.write(&batch(&[3, 4])).expect("the disk has room");
    folder.fail(&Error::Cancelled);
    drop(folder);
    let opened = other.join().expect("no panic").expect("no failure");
    let OpenedJob::Ready(folder) = opened else { panic!("nothing is finished") };
    assert_eq!(folder.rows(), 1);
}

/// True if the lock file is open twice in this process.
#[cfg(target_os = "linux")]
fn is_waited_for(dir: &Path) -> bool {
    let lock = dir.join(".fastpack/lock").canonicalize().expect("a lock");
    let open = fs::read_dir("/proc/self/fd").expect("open files").flatten();
    open.filter(|file| fs::read_link(file.path()).is_ok_and(|path| path == lock)).count() > 1
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_waits_fails_as_the_one_it_waited_for() {
    let origin = Origin { path: Path::new("data.jsonl").into(), line: 7 };
    let reason = Reason::InvalidJson;
    let failures = [
        Error::Record { origin, reason, message: "is no JSON".to_owned() },
        Error::option("chat_template", "is missing"),
        Error::Template { name: "chat".to_owned(), line: 3, reason: "ends early".into() },
        Error::io("data.jsonl")(std::io::Error::from_raw_os_error(2)),
    ];
    for failure in failures {
        let dir = TempDir::new().expect("a folder");
        let mut folder = ready(&output(dir.path()), &job());
        let other = waiting(dir.path(), job());
        // It has the lock file open once it waits: nothing else can be seen of it.
        while !is_waited_for(dir.path()) {
            thread::yield_now();
        }
        folder.fail(&failure);
        drop(folder);
        let told = other.join().expect("no panic").expect_err("a failure");
        assert_eq!(format!("{told:?}"), format!("{failure:?}"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_of_another_job_does_not_fail_as_the_one_it_waited_for() {
    for (mine, cannot_resume) in [(other_job(), false), (job(), true)] {
        let dir = TempDir::new().expect("a folder");
        let mut folder = ready(&output(dir.path()), &job());
        let waits = Output { wait: true, cannot_resume, ..output(dir.path()) };
        let other = thread::spawn(move || open(&waits, &mine));
        while !is_waited_for(dir.path()) {
            thread::yield_now();
        }
        folder.fail(&Error::option("chat_template", "is missing"));
        drop(folder);
        assert!(matches!(other.join().expect("no panic"), Ok(OpenedJob::Ready(_))));
    }
}

#[test]
fn a_job_that_is_like_no_other_does_not_take_a_finished_folder_for_its_own() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let before = files(dir.path());
    let unresumable = Output { cannot_resume: true, ..output(dir.path()) };
    let refused = refusal(&unresumable, &job());
    assert!(refused.contains("whether it was of the same records cannot be told"), "{refused}");
    assert_eq!(files(dir.path()), before);
    let overwriting = Output { cannot_resume: true, ..overwriting(dir.path()) };
    run(&overwriting, &job(), &[batch(&[4]), batch(&[5])]);
    assert_eq!(shards(dir.path()).iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}

#[test]
fn a_job_that_is_like_no_other_takes_nothing_over_and_leaves_nothing_behind() {
    let dir = TempDir::new().expect("a folder");
    killed(dir.path(), &job());
    let unresumable = Output { cannot_resume: true, ..output(dir.path()) };
    let mut folder = ready(&unresumable, &job());
    assert_eq!((folder.rows(), folder.blocks().exists()), (0, false));
    folder.write(&batch(&[3])).expect("the disk has room");
    folder.fail(&Error::Cancelled);
    drop(folder);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn the_leftovers_of_another_job_are_kept_and_the_differences_are_named() {
    let dir = TempDir::new().expect("a folder");
    killed(dir.path(), &other_job());
    let mut before = files(dir.path());
    assert_eq!(
        refusal(&output(dir.path()), &job()),
        "holds what is left of a job that differs in `max_length` (8192 there, 4096 here), \
         `padding.token_id` (7 there, null here); pass exists = \"overwrite\" to replace it, or write to another folder"
    );
    before.remove(Path::new(".fastpack/lock"));
    assert_eq!(files(dir.path()), before);
    run(&overwriting(dir.path()), &job(), &[batch(&[5])]);
    assert_eq!(names(dir.path()), ["manifest.json", "report.json", "train-00000.arrow"]);
}

#[test]
fn two_runs_at_once_are_refused_at_once() {
    let dir = TempDir::new().expect("a folder");
    let first = ready(&output(dir.path()), &job());
    for output in [output(dir.path()), overwriting(dir.path())] {
        assert_eq!(
            refusal(&output, &job()),
            "another run is writing here; pass exists.wait = true to wait for it, or write to another folder"
        );
    }
    drop(first);
    run(&output(dir.path()), &job(), &[batch(&[3])]);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_an_error_about_it() {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("packed");
    fs::write(&path, "").expect("the disk has room");
    let error = open(&overwriting(&path), &job()).expect_err("there is no way");
    let Error::Io { path: about, source } = error else { panic!("not about a file: {error}") };
    assert_eq!((about, source.kind()), (path, std::io::ErrorKind::NotADirectory));
}

#[test]
fn rows_survive_the_way_through_a_sliced_batch() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3, 4, 5, 6]).slice(1, 2)]);
    let shard = &shards(dir.path())[0];
    let ids = shard.column(0).as_list::<i32>();
    assert_eq!(ids.value(1).as_primitive::<Int32Type>().values(), &[0, 1, 2, 3, 4]);
    assert_eq!(shard.num_rows(), 2);
}
