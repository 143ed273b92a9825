//! The split whose records a stream takes.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Instant;

use super::counts;
use super::record_selection::RecordSelection;
use super::run_context::RunContext;
use super::stream_options::{OnExhausted, StreamOptions};
use crate::config::Validation;
use crate::error::Result;
use crate::pipeline::{SplitSide, SplitThreshold, check_split};

impl RunContext<'_> {
    /// The split whose records are taken. A number of documents is counted first, as rows are: by one of several processes,
    /// kept in the folder of counts. Also returns a warning of one that holds fewer out.
    pub(super) fn split(&self) -> Result<(Option<SplitSide>, Option<String>)> {
        let Some(validation) = self.options.choice.validation else { return Ok((None, None)) };
        let held_out = self.options.choice.held_out;
        let seed = self.job.options.rows.packing.seed;
        if let Some(threshold) = SplitThreshold::of_share(validation, seed) {
            return Ok((Some(SplitSide { threshold, held_out }), None));
        }
        // Both splits have one threshold, and all ranks, however they read.
        let any = StreamOptions {
            choice: RecordSelection { held_out: false, ..self.options.choice.clone() },
            shuffle: false,
            weights: Vec::new(),
            on_end: None,
            on_exhausted: OnExhausted::Drop,
            epochs: None,
            open_packs: NonZeroUsize::MIN,
            ..self.options.clone()
        };
        let identity = self.identity.with_stream_options(&any).name();
        let all = serde_json::json!(["split", identity, validation]);
        let name = blake3::hash(all.to_string().as_bytes()).to_hex().to_string();
        let (threshold, warning) = match self.kept_in() {
            Some(dir) => counts::kept(dir, &name, self.control, || self.threshold(validation))?,
            None => self.threshold(validation)?,
        };
        Ok((Some(SplitSide { threshold, held_out }), warning))
    }

    /// The threshold of a number of documents, of all that this run would read in an epoch, and a warning of one that holds
    /// fewer out.
    fn threshold(&self, validation: Validation) -> Result<(SplitThreshold, Option<String>)> {
        let choice = RecordSelection { validation: None, ..self.options.choice.clone() };
        let options = StreamOptions {
            choice,
            epochs: Some(NonZeroU64::MIN),
            on_end: None,
            on_exhausted: OnExhausted::Drop,
            rank_source: None,
            max_steps: None,
            world_size: NonZeroUsize::MIN,
            rank: 0,
            ..self.options.clone()
        };
        let seed = self.job.options.rows.packing.seed;
        let run = self.single_process(&options, true);
        let (_, contents) = run.with_lanes(Instant::now(), |delivery, take| {
            let mut contents = Vec::new();
            let mut left: Vec<usize> = (0..delivery.lanes.len() * delivery.names.len()).collect();
            while !left.is_empty() {
                let mut open = Vec::with_capacity(left.len());
                for feed in left {
                    let Some(block) = take(feed)? else { continue };
                    if let Some(error) = block.end {
                        return Err(error);
                    }
                    contents.extend(block.documents.iter().map(|it| it.content()));
                    open.push(feed);
                }
                left = open;
            }
            Ok(contents)
        })?;
        let hash = |content: u64| SplitThreshold::hash(seed, content);
        let all = contents.len() as u64;
        let hashes: Vec<u64> = contents.into_iter().map(hash).collect();
        let wanted = validation.documents().map_or(all, NonZeroU64::get);
        let (threshold, taken) = SplitThreshold::counted(wanted, seed, hashes);
        Ok((threshold, check_split(validation, taken, all)?))
    }
}
