//! A job on more cores than there are, by waits in place of its work. `benches/python/jobs/many_cores.py` calls the test here, and explains it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::NaiveDateTime;
use fastpack_tokenize::Pretrained;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::job::{Job, JobTemplate};
use super::rows::planned_packing::RowsInHand;
use super::runs::pack_dir::pack_dir;
use crate::config::identity::Identity;
use crate::config::{Inputs, Options, Output, Reading, Source, WorkOptions};
use crate::error::Result;
use crate::json::Map;
use crate::sink::{Manifest, SimulatedRows};
use crate::template::{ChatTemplate, TemplateContext};
use crate::util::control::Control;
use crate::util::simulation::machine::{Moved, Rates, SimulatedMachine, WorkKind};
use crate::util::simulation::recording::{JobRecording, OrderedCall, record, timed};
use crate::util::thread_pool::{TaskQueue, do_behind};
use crate::util::threads_in_order::ordered_within;

/// Reading and cutting blocks, or picking rows: one thread at a time.
const PULL: WorkKind = WorkKind("pull");
/// Parsing, rendering, tokenizing and keeping a block, or assembling rows.
const WORK: WorkKind = WorkKind("work");
/// Cutting and storing documents, or handing rows over: one thread, in order.
const CONSUME: WorkKind = WorkKind("consume");
/// All that the job's thread does between and beside these, such as planning.
const BETWEEN: WorkKind = WorkKind("between");

/// A task for the program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
enum BenchRequest {
    /// Runs the job, and prints its seconds.
    Time(JobRequest),
    /// Runs the job on one thread, and writes its recording to a file.
    Record { job: JobRequest, recording: PathBuf },
    /// Waits as a recorded job works, on so many cores.
    Simulate { recording: PathBuf, cores: usize, stretch: u32, memory: f64, disk: f64 },
}

/// A job like the one that left the manifest.
#[derive(Deserialize)]
struct JobRequest {
    manifest: PathBuf,
    input: PathBuf,
    tokenizer: PathBuf,
    template: PathBuf,
    output: PathBuf,
    threads: NonZeroUsize,
    /// Bytes that documents may take in memory.
    memory: u64,
}

/// A recorded job.
#[derive(Serialize, Deserialize)]
struct RecordedJob {
    recording: JobRecording,
    between: Duration,
    input_bytes: u64,
    shard_bytes: u64,
}

#[test]
#[ignore = "it takes minutes, and needs a request; `make bench-many-cores` runs it"]
fn many_cores() {
    let path = std::env::var_os("FASTPACK_MANY_CORES").expect("the path of a request");
    let request = fs::read(path).expect("a request");
    let answer = match serde_json::from_slice(&request).expect("a request") {
        BenchRequest::Time(job) => {
            let prepared = job.prepare();
            let begun = Instant::now();
            prepared.run();
            json!({ "seconds": begun.elapsed().as_secs_f64() })
        }
        BenchRequest::Record { job, recording } => {
            let prepared = job.prepare();
            let (input_bytes, shard_bytes) = (job.input_bytes(), prepared.output.shard_bytes);
            let (((), all), recorded) = record(|| timed(|| prepared.run()));
            let consumed: Duration = recorded.calls.iter().flat_map(|call| &call.consume).sum();
            let between = all.saturating_sub(consumed);
            let job = RecordedJob { recording: recorded, between, input_bytes, shard_bytes };
            let content = serde_json::to_vec(&job).expect("numbers");
            write_new(&recording, &content);
            json!({ "between": between.as_secs_f64() })
        }
        BenchRequest::Simulate { recording, cores, stretch, memory, disk } => {
            let content = fs::read(recording).expect("a recording");
            let job: RecordedJob = serde_json::from_slice(&content).expect("a recording");
            let rates = Rates { memory, disk };
            simulate(job, &|| SimulatedMachine::new(cores, rates, stretch), cores)
                .expect("room for it")
        }
    };
    let path = std::env::var_os("FASTPACK_MANY_CORES_ANSWER").expect("a path");
    write_new(path.as_ref(), answer.to_string().as_bytes());
}

/// Writes a file where there is none.
fn write_new(path: &Path, content: &[u8]) {
    let file = fs::File::options().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(content)).expect("room for it");
}

/// A job that is ready to run.
struct RunnableJob {
    job: Job,
    inputs: Inputs,
    output: Output,
}

impl JobRequest {
    fn input_bytes(&self) -> u64 {
        fs::metadata(&self.input).expect("the input").len()
    }

    fn prepare(&self) -> RunnableJob {
        let manifest: Manifest =
            serde_json::from_slice(&fs::read(&self.manifest).expect("a manifest"))
                .expect("a manifest");
        let Identity { row_options, token_options, output, .. } = Identity::clone(&manifest.job);
        let work = WorkOptions {
            max_lost: None,
            verify: 0,
            threads: self.threads,
            started: NaiveDateTime::default(),
        };
        let rows = row_options.expect("a job that packs");
        let output = output.expect("a job that packs");
        let source = Source::of(vec![self.input.clone()], Reading::default());
        RunnableJob {
            job: self.job(Options { tokens: token_options, rows, work }),
            inputs: Inputs { sources: vec![source], ..Inputs::default() },
            output: Output { dir: self.output.clone(), memory: self.memory, ..output },
        }
    }

    fn job(&self, options: Options) -> Job {
        let pretrained = Pretrained::from_dir(&self.tokenizer).expect("a tokenizer");
        let context = TemplateContext::of(&pretrained, options.now(), Map::default());
        let source = fs::read_to_string(&self.template).expect("a template");
        let template = ChatTemplate::new("template", &source, context).expect("a template");
        Job::new(options, &pretrained, JobTemplate::Ready(Box::new(template)))
    }
}

impl RunnableJob {
    fn run(self) {
        let Self { job, inputs, output } = self;
        pack_dir(job, &inputs, &output, None, &Control::default()).expect("a sound job");
    }
}

/// Waits as a recorded job works. The answer has the seconds of each phase, and how long each of its resources was in use.
fn simulate(
    RecordedJob { recording, between, input_bytes, shard_bytes }: RecordedJob,
    machine: &dyn Fn() -> SimulatedMachine,
    cores: usize,
) -> Result<serde_json::Value> {
    let recording = Arc::new(recording);
    let threads = NonZeroUsize::new(cores).expect("at least one core");
    let shards: u64 = recording.units.iter().map(|unit| unit.encoded).sum();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut phases = Vec::new();
    let mut name = "documents";
    for call in &recording.calls {
        let machine = Arc::new(machine());
        let begun = Instant::now();
        if call.units.0 < call.units.1 {
            name = "rows";
            let rows = SimulatedRows::new(
                Arc::clone(&recording),
                Arc::clone(&machine),
                shard_bytes,
                folder.path().to_owned(),
            );
            write_rows(call, &recording, rows, threads, &machine)?;
        } else {
            // Text is read, rendered, and kept twice as ids, in memory and in the log. Later, shards are hashed.
            let bytes = if name == "rows" { shards } else { 4 * input_bytes };
            let moved = Moved { memory: bytes / (call.work.len() as u64).max(1), disk: 0 };
            replay(call, usize::MAX, threads, None, &machine, |_| moved, |_| Ok(()))?;
        }
        phases.push(phase(name, &machine, begun));
    }
    let machine = Arc::new(machine());
    let begun = Instant::now();
    machine.work(BETWEEN, between, Moved::default());
    phases.push(phase("between", &machine, begun));
    Ok(json!(phases))
}

/// Assembles and writes the rows of a call.
fn write_rows(
    call: &OrderedCall,
    recording: &JobRecording,
    mut rows: SimulatedRows,
    threads: NonZeroUsize,
    machine: &SimulatedMachine,
) -> Result<()> {
    let units = &recording.units[call.units.0..call.units.1];
    let largest = units.iter().map(|unit| unit.rows).max().unwrap_or(0);
    let RowsInHand { most, encoded } = RowsInHand::of(u64::MAX, threads, largest);
    let tasks = rows.use_threads(threads, encoded);
    let first = call.units.0;
    let moved = |at: usize| {
        let rows = units.get(at).map_or(0, |unit| unit.rows);
        Moved { memory: 2 * rows, disk: 0 }
    };
    replay(call, most, threads, Some(&tasks), machine, moved, |at| {
        if at < units.len() { rows.write(first + at) } else { Ok(()) }
    })?;
    rows.settle()?;
    rows.close()
}

/// Hands the items of a call to threads, each to wait as long as the work on it took, behind `tasks`.
fn replay(
    call: &OrderedCall,
    most: usize,
    threads: NonZeroUsize,
    tasks: Option<&TaskQueue>,
    machine: &SimulatedMachine,
    moved: impl Fn(usize) -> Moved + Sync,
    mut consume: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let mut items = 0..call.work.len();
    let next = || {
        let item = items.next();
        if let Some(at) = item {
            machine.work(PULL, call.pull[at], Moved::default());
        }
        Ok(item)
    };
    let worker = || {
        |at: usize| {
            do_behind(tasks, || machine.work(WORK, call.work[at], moved(at)));
            Ok(at)
        }
    };
    ordered_within(threads, most, next, worker, |at| {
        machine.work(CONSUME, call.consume[at], Moved::default());
        consume(at)
    })
}

/// The seconds of a phase, of each kind of work in it on all cores together, and of the bytes that it moved.
fn phase(name: &str, machine: &SimulatedMachine, begun: Instant) -> serde_json::Value {
    let seconds = machine.elapsed(begun).as_secs_f64();
    let busy: BTreeMap<&str, f64> =
        machine.busy().into_iter().map(|(kind, time)| (kind, time.as_secs_f64())).collect();
    let [memory, disk] = machine.passed().map(|time| time.as_secs_f64());
    json!({ "name": name, "seconds": seconds, "busy": busy, "memory": memory, "disk": disk })
}
