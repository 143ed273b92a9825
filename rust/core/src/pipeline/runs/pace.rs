//! [`Pace`]: what a sample took, from which the time for all records is estimated.

use std::time::Duration;

use crate::config::Source;
use crate::error::Result;
use crate::pipeline::documents::intake::{Intake, Outcome, Share};
use crate::timing::{Stage, Stages};

/// Blocks of a sample that are worked on again at most: some megabytes, and some hundred records at least.
const AGAIN: usize = 128;

/// How long they are worked on again, each of two times, at most: as long as nobody waits for.
const MOST: Duration = Duration::from_millis(400);

/// What is met for the first time grows with this power of a text (Heaps' law, which gives about a half for the words of a
/// language). With it the processor time of five corpora was foretold from 500 to 10,000 of their records as 0.82 to
/// 1.21 times what it was, with a half as 0.73 to 1.08 times (November 2026).
const HEAPS: f64 = 0.7;

/// What a sample took.
///
/// How long the sample itself takes says little: it ends while threads start, templates are tried and the words of the
/// text are met for the first time, and what is read between two of its records drives all of that out of a processor's
/// caches. So blocks from all over it are worked on again, two times. What the second time takes is for the text; what
/// the first takes longer is for what is new in it, of which a larger text has more, but not as much more.
#[derive(Default)]
pub(in crate::pipeline) struct Pace {
    /// The blocks that are worked on again.
    shares: Vec<Share>,
    /// How many blocks with tokens there were.
    met: usize,
    tokens: u64,
    /// Seconds that functions of the caller took.
    transform: f64,
    /// Reading files from their beginning on: how long it took, and how much of that a processor worked.
    through: (f64, f64),
}

/// How much larger all is than what a sample had.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Scale {
    /// All records, to those that were taken.
    pub(in crate::pipeline) records: f64,
    /// All bytes of files that cannot be entered in the middle, to those that were read.
    pub(in crate::pipeline) through: f64,
}

/// What a run over all records works with.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct Machine {
    pub(in crate::pipeline) threads: usize,
    pub(in crate::pipeline) cores: usize,
    /// Whether another process renders.
    pub(in crate::pipeline) renders_outside: bool,
}

impl Pace {
    /// Adds a block; `spread` says whether it is a window of a file.
    pub(in crate::pipeline) fn take(&mut self, outcome: &mut Outcome, spread: bool) {
        let stages = &outcome.work.stages;
        let (read, tokens) = (stages[Stage::Read], outcome.ledger.read.tokens);
        self.transform += stages[Stage::Transform].wall().as_secs_f64();
        // A run that reads all waits for no window, and lines take next to nothing to read: 0.03 s for 150 MB (November 2026).
        if !spread {
            self.through.0 += read.wall().as_secs_f64();
            self.through.1 += read.cpu().as_secs_f64();
        }
        self.tokens += tokens;
        if let Some(share) = outcome.share.take().filter(|_| tokens > 0) {
            self.keep(share);
        }
    }

    /// Keeps one block of so many that those kept are from all over, however many there will be.
    fn keep(&mut self, share: Share) {
        let step = self.met.div_ceil(AGAIN).next_power_of_two();
        if self.met.is_multiple_of(step) {
            if self.shares.len() == AGAIN {
                let mut stays = false;
                self.shares.retain(|_| {
                    stays = !stays;
                    stays
                });
            }
            self.shares.push(share);
        }
        self.met += 1;
    }

    /// How long a run over all records takes on `machine`; `intake` is what the sample was read by, of these `sources`.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(in crate::pipeline) fn seconds(
        &self,
        scale: Scale,
        machine: Machine,
        intake: &Intake<'_>,
        sources: &[Source],
    ) -> Result<f64> {
        let (tokens, [first, second]) = intake.twice(sources, &self.shares, MOST)?;
        let (first, known) = (work(&first, machine), work(&second, machine));
        let new = (first - known).max(0.0);
        // Each thread meets by itself what is new in its part.
        let threads = machine.threads.min(machine.cores) as f64;
        let larger = self.tokens as f64 * scale.records / (tokens.max(1) as f64 * threads);
        let worked = threads * (known * larger + new * larger.powf(HEAPS));
        let called = self.transform * scale.records;
        // One thread at a time reads, and waits for what is decompressed; the others work meanwhile.
        let waited = self.through.0 * scale.through + called;
        let read = self.through.1 * scale.through + called;
        let shared = (read + worked) / threads;
        // What is decompressed takes a processor too.
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
