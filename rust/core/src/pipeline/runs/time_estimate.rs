//! [`TimeEstimate`]: the timing of a sample, from which the time for all records is estimated.

use crate::pipeline::documents::tokenized_blocks::TokenizedBlock;
use crate::report::timing::{Stage, Stages};

/// The timing of a sample.
///
/// Its first half is left out: there threads start, templates are tried and the words of a tokenizer are met for the first time.
#[derive(Default)]
pub(in crate::pipeline) struct TimeEstimate {
    /// The tokens and the stages of each block with tokens.
    blocks: Vec<(u64, Stages)>,
    /// Seconds in the caller's functions.
    transform: f64,
    /// The wall and processor seconds of reading files without random access.
    through: (f64, f64),
}

/// The ratio of all input to the sample.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct SampleRatio {
    /// All records divided by the sampled ones.
    pub(in crate::pipeline) records: f64,
    /// All bytes of files without random access, divided by the bytes read.
    pub(in crate::pipeline) through: f64,
}

/// The machine and threads of a run over all records.
#[derive(Clone, Copy, Debug)]
pub(in crate::pipeline) struct MachineFacts {
    pub(in crate::pipeline) threads: usize,
    pub(in crate::pipeline) cores: usize,
    /// True if another process renders.
    pub(in crate::pipeline) renders_outside: bool,
}

impl TimeEstimate {
    /// Adds a block; `spread` says whether it is a window of a file.
    pub(in crate::pipeline) fn take(&mut self, outcome: &TokenizedBlock, spread: bool) {
        let (stages, tokens) = (outcome.work.stages, outcome.ledger.read.tokens);
        self.transform += stages[Stage::Transform].wall().as_secs_f64();
        // A full run does not wait for windows, and lines take almost no time to read: 0.03 s for 150 MB
        // (November 2026).
        if !spread {
            self.through.0 += stages[Stage::Read].wall().as_secs_f64();
            self.through.1 += stages[Stage::Read].cpu().as_secs_f64();
        }
        if tokens > 0 {
            self.blocks.push((tokens, stages));
        }
    }

    /// The seconds of a run over all records on `machine`.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(in crate::pipeline) fn seconds(&self, scale: SampleRatio, machine: MachineFacts) -> f64 {
        let threads = machine.threads.min(machine.cores) as f64;
        let later = &self.blocks[self.blocks.len() / 2..];
        let all: u64 = self.blocks.iter().map(|(tokens, _)| tokens).sum();
        let tokens: u64 = later.iter().map(|(tokens, _)| tokens).sum();
        let timed: f64 = later.iter().map(|(_, stages)| work(stages, machine)).sum();
        let worked = timed * scale.records * all as f64 / tokens.max(1) as f64;
        let called = self.transform * scale.records;
        // One thread at a time reads and waits for decompression. The others work meanwhile.
        let waited = self.through.0 * scale.through + called;
        let read = self.through.1 * scale.through + called;
        let shared = (read + worked) / threads;
        // Decompression takes a processor too.
        let all = (waited + worked) / machine.cores as f64;
        waited.max(shared).max(all)
    }
}

/// Seconds of work.
fn work(stages: &Stages, machine: MachineFacts) -> f64 {
    let cpu = |stage| stages[stage].cpu();
    let render = stages[Stage::Render];
    let rendered = if machine.renders_outside { render.wall() } else { render.cpu() };
    (cpu(Stage::Parse) + rendered + cpu(Stage::Encode)).as_secs_f64()
}
