//! [`Pace`]: what a sample took, from which the time for all records is estimated.

use super::Outcome;
use crate::timing::Stage;

/// What a sample took.
///
/// How long the sample itself takes says little: it ends while threads start, templates are tried and the words of the
/// text are met for the first time. So what its stages took counts, by the clocks of processors where these do the work,
/// and of what grows faster only the later half.
#[derive(Default)]
pub(super) struct Pace {
    /// The tokens of each block, and the seconds that a processor worked on it.
    blocks: Vec<(u64, f64)>,
    /// Seconds that rendering took: another process may do it.
    rendered: f64,
    /// Seconds that functions of the caller took.
    transform: f64,
    /// Reading windows of files: a run that reads all waits for no window.
    windows: f64,
    /// Reading files from their beginning on: how long it took, and how much of that a processor worked.
    through: (f64, f64),
}

/// How much larger all is than what a sample had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// All records, to those that were taken.
    pub(super) records: f64,
    /// All bytes of files that cannot be entered in the middle, to those that were read.
    pub(super) through: f64,
}

impl Pace {
    /// Adds a block; `spread` says whether it is a window of a file.
    pub(super) fn take(&mut self, outcome: &Outcome, spread: bool) {
        let stages = &outcome.work.stages;
        let wall = |stage| stages[stage].wall().as_secs_f64();
        let cpu = |stage| stages[stage].cpu().as_secs_f64();
        let worked = cpu(Stage::Parse) + cpu(Stage::Render) + cpu(Stage::Encode);
        self.blocks.push((outcome.ledger.read.tokens, worked));
        self.rendered += wall(Stage::Render);
        self.transform += wall(Stage::Transform);
        if spread {
            self.windows += cpu(Stage::Read);
        } else {
            self.through.0 += wall(Stage::Read);
            self.through.1 += cpu(Stage::Read);
        }
    }

    /// How long a run over all records takes on so many threads; `outside` says whether another process renders.
    pub(super) fn seconds(&self, scale: Scale, threads: usize, outside: bool) -> f64 {
        let called = self.transform * scale.records;
        let windows = self.windows * scale.records;
        // One thread at a time reads, and waits for what is decompressed; the others work meanwhile.
        let waited = self.through.0 * scale.through + windows + called;
        let read = self.through.1 * scale.through + windows + called;
        let rendered = if outside { self.rendered * scale.records } else { 0.0 };
        let worked = self.a_token() * self.tokens() * scale.records + rendered;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let shared = (read + worked) / threads as f64;
        waited.max(shared)
    }

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn tokens(&self) -> f64 {
        self.blocks.iter().map(|&(tokens, _)| tokens).sum::<u64>() as f64
    }

    /// Seconds that a thread works on a token, once it is at full speed: in the later half of the sample.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn a_token(&self) -> f64 {
        let half = self.tokens() / 2.0;
        let (mut tokens, mut seconds) = (0.0, 0.0);
        for &(more, worked) in self.blocks.iter().rev() {
            if tokens >= half {
                break;
            }
            tokens += more as f64;
            seconds += worked;
        }
        if tokens > 0.0 { seconds / tokens } else { 0.0 }
    }
}
