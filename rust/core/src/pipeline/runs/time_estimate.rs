//! [`TimeEstimate`]: the timing of a sample, from which the time for all records is estimated.

use std::time::Duration;

use crate::config::Source;
use crate::error::Result;
use crate::pipeline::documents::tokenized_blocks::{BlockTask, Intake, Outcome};
use crate::report::timing::{Stage, Stages};

/// The most blocks of a sample that are processed again: some megabytes, and at least some hundred records.
const AGAIN: usize = 128;

/// The most time of each of the two repetitions: too short to be noticed.
const MOST: Duration = Duration::from_millis(400);

/// The exponent with which the part of a text that is met for the first time grows (Heaps' law, which gives
/// about 0.5 for the words of a language). With 0.7 the processor time of five corpora was predicted from 500
/// to 10,000 of their records as 0.82 to 1.21 times the measured one, with 0.5 as 0.73 to 1.08 times
/// (November 2026).
const HEAPS: f64 = 0.7;

/// The timing of a sample.
///
/// The time of the sample itself is misleading: it ends while threads start, templates are tried and words
/// are met for the first time, and reading between two of its records displaces all of that from a
/// processor's caches. So blocks from all over it are processed again, twice. The second time measures the
/// text. The extra time of the first measures what is new in it. A larger text has more that is new, but less
/// than in proportion.
#[derive(Default)]
pub(in crate::pipeline) struct TimeEstimate {
    /// The blocks that are processed again.
    tasks: Vec<BlockTask>,
    /// The number of blocks with tokens.
    met: usize,
    tokens: u64,
    /// Seconds in the caller's functions.
    transform: f64,
    /// The wall and processor seconds of reading files from their beginning.
    through: (f64, f64),
}

/// The ratio of all input to the sample.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Scale {
    /// All records divided by the sampled ones.
    pub(in crate::pipeline) records: f64,
    /// All bytes of files without random access, divided by the bytes read.
    pub(in crate::pipeline) through: f64,
}

/// The machine and threads of a run over all records.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Machine {
    pub(in crate::pipeline) threads: usize,
    pub(in crate::pipeline) cores: usize,
    /// True if another process renders.
    pub(in crate::pipeline) renders_outside: bool,
}

impl TimeEstimate {
    /// Adds a block; `spread` says whether it is a window of a file.
    pub(in crate::pipeline) fn take(&mut self, outcome: &mut Outcome, spread: bool) {
        let stages = &outcome.work.stages;
        let (read, tokens) = (stages[Stage::Read], outcome.ledger.read.tokens);
        self.transform += stages[Stage::Transform].wall().as_secs_f64();
        // A full run does not wait for windows, and lines take almost no time to read: 0.03 s for 150 MB
        // (November 2026).
        if !spread {
            self.through.0 += read.wall().as_secs_f64();
            self.through.1 += read.cpu().as_secs_f64();
        }
        self.tokens += tokens;
        if let Some(task) = outcome.task.take().filter(|_| tokens > 0) {
            self.keep(task);
        }
    }

    /// Keeps every n-th block, with n growing, so that the kept blocks are from all over the sample.
    fn keep(&mut self, task: BlockTask) {
        let step = self.met.div_ceil(AGAIN).next_power_of_two();
        if self.met.is_multiple_of(step) {
            if self.tasks.len() == AGAIN {
                let mut stays = false;
                self.tasks.retain(|_| {
                    stays = !stays;
                    stays
                });
            }
            self.tasks.push(task);
        }
        self.met += 1;
    }

    /// The seconds of a run over all records on `machine`. `intake` read the sample of these `sources`.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(in crate::pipeline) fn seconds(
        &self,
        scale: Scale,
        machine: Machine,
        intake: &Intake<'_>,
        sources: &[Source],
    ) -> Result<f64> {
        let (tokens, [first, second]) = intake.twice(sources, &self.tasks, MOST)?;
        let (first, known) = (work(&first, machine), work(&second, machine));
        let new = (first - known).max(0.0);
        // Each thread meets the new parts of its share separately.
        let threads = machine.threads.min(machine.cores) as f64;
        let larger = self.tokens as f64 * scale.records / (tokens.max(1) as f64 * threads);
        let worked = threads * (known * larger + new * larger.powf(HEAPS));
        let called = self.transform * scale.records;
        // One thread at a time reads and waits for decompression. The others work meanwhile.
        let waited = self.through.0 * scale.through + called;
        let read = self.through.1 * scale.through + called;
        let shared = (read + worked) / threads;
        // Decompression takes a processor too.
        let all = (waited + worked) / machine.cores as f64;
        Ok(waited.max(shared).max(all))
    }
}

/// Seconds of work.
fn work(stages: &Stages, machine: Machine) -> f64 {
    let cpu = |stage| stages[stage].cpu();
    let render = stages[Stage::Render];
    let rendered = if machine.renders_outside { render.wall() } else { render.cpu() };
    (cpu(Stage::Parse) + rendered + cpu(Stage::Encode)).as_secs_f64()
}
