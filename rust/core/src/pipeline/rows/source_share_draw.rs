//! [`ShareDraw`]: draws the documents of sources by their shares, once all of them are known.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::config::{ShareUnit, Shares, SourceShare, StoppingStrategy};
use crate::document::Documents;
use crate::error::{Error, Result};
use crate::pack::{Piece, Pieces};
use crate::pipeline::rows::document_cutter::CutResult;
use crate::report::ShareReport;
use crate::report::ledger::{Count, Reason};
use crate::source::FoundFiles;
use crate::util::control::Control;
use crate::util::message::ShownPath;
use crate::util::random::key_of;

/// Documents between two checks of the cancel flag: far below a millisecond.
const TICK: usize = 4096;

/// Tells the random numbers of shares from those of other choices by the same seed.
const SHARES: u64 = 0x7368_6172_6573;

/// The part of a pool by which a sum of its documents may miss a whole number of passes: sums of floating-point numbers.
const ROUNDING: f64 = 1e-9;

/// Draws documents by the shares of their sources.
pub(in crate::pipeline) struct ShareDraw {
    shares: Shares,
    seed: u64,
    sources: HashMap<Arc<Path>, usize>,
    documents: Vec<Candidate>,
}

/// A document that may be drawn.
struct Candidate {
    source: usize,
    content: u64,
    cut_result: CutResult,
}

impl ShareDraw {
    /// Draws from the documents of these files.
    pub(in crate::pipeline) fn new(shares: Shares, seed: u64, found: &FoundFiles) -> Result<Self> {
        let mut sources = HashMap::new();
        for file in &found.files {
            let before = sources.insert(Arc::clone(&file.path), file.source);
            if before.is_some_and(|before| before != file.source) {
                let reason = format!(
                    "cannot tell the documents of `{}` apart, which is a file of two sources; name it in one",
                    ShownPath(&file.path)
                );
                return Err(Error::option(shares.option(), reason));
            }
        }
        Ok(Self { shares, seed, sources, documents: Vec::new() })
    }

    /// Adds the next document, one of `documents`.
    pub(super) fn add(&mut self, documents: &Documents, content: u64, cut_result: CutResult) {
        let source = self.sources.get(documents.path()).copied().unwrap_or(0);
        self.documents.push(Candidate { source, content, cut_result });
    }

    /// The source of each document.
    pub(super) fn sources_of_documents(&self) -> impl Iterator<Item = usize> {
        self.documents.iter().map(|candidate| candidate.source)
    }

    /// The number of times that each document is taken, the result of cutting each, and the report of the shares.
    pub(super) fn draw(self, control: &Control) -> Result<DrawnDocuments> {
        let pools = self.pools(control)?;
        let wanted = wanted(&self.shares, &pools);
        let mut times = vec![0_u32; self.documents.len()];
        for (number, candidate) in self.documents.iter().enumerate() {
            // A document that is dropped for another reason is in no pool.
            times[number] = u32::from(candidate.cut_result.dropped.is_some());
        }
        let mut drawn = vec![Count::default(); pools.len()];
        for (pool, wanted) in pools.iter().zip(wanted) {
            let SharePasses { passes, rest } = wanted;
            let more = pool.first(rest, &|number| self.amount(number));
            for (at, &number) in pool.documents.iter().enumerate() {
                times[number] = passes + u32::from(at < more);
            }
        }
        for (candidate, times) in self.documents.iter().zip(&times) {
            if candidate.cut_result.dropped.is_none() {
                let count = &mut drawn[candidate.source];
                count.documents += u64::from(*times);
                count.tokens += u64::from(*times) * u64::from(candidate.cut_result.kept);
            }
        }
        let reports = self.reports(&pools, &drawn);
        let cut_results =
            self.documents.into_iter().zip(&times).map(|(candidate, times)| match times {
                0 => CutResult {
                    kept: 0,
                    truncated: 0,
                    dropped: Some(Reason::NotDrawn),
                    ..candidate.cut_result
                },
                _ => candidate.cut_result,
            });
        Ok(DrawnDocuments { cut_results: cut_results.collect(), times, reports })
    }

    /// The pool of each source: the documents of its fraction, in the order in which they are drawn.
    fn pools(&self, control: &Control) -> Result<Vec<SharePool>> {
        let mut pools: Vec<SharePool> =
            self.shares.sources.iter().map(|_| SharePool::default()).collect();
        for (number, candidate) in self.documents.iter().enumerate() {
            if candidate.cut_result.dropped.is_none() {
                pools[candidate.source].documents.push(number);
            }
        }
        for (pool, share) in pools.iter_mut().zip(&self.shares.sources) {
            control.tick()?;
            let key = |&number: &usize| {
                (key_of(&[self.seed, SHARES, self.documents[number].content]), number)
            };
            pool.documents.sort_by_cached_key(key);
            let amount = |number| self.amount(number);
            pool.all = pool.documents.iter().map(|&number| amount(number)).sum();
            let first = pool.first(pool.all * share.fraction, &amount);
            if share.fraction < 1.0 {
                pool.documents.truncate(first);
            }
            pool.amount = pool.documents.iter().map(|&number| amount(number)).sum();
        }
        Ok(pools)
    }

    /// The size of a document in the unit of shares.
    fn amount(&self, number: usize) -> f64 {
        match self.shares.unit {
            ShareUnit::Tokens => f64::from(self.documents[number].cut_result.kept),
            ShareUnit::Documents => 1.0,
        }
    }

    /// The shares that were asked for and that were drawn.
    #[expect(clippy::cast_precision_loss, reason = "shares are rounded anyway")]
    fn reports(&self, pools: &[SharePool], drawn: &[Count]) -> Vec<(String, ShareReport)> {
        let amount = |count: &Count| match self.shares.unit {
            ShareUnit::Tokens => count.tokens as f64,
            ShareUnit::Documents => count.documents as f64,
        };
        let weights: f64 = self.shares.sources.iter().filter_map(|source| source.weight).sum();
        let all: f64 = drawn.iter().map(amount).sum();
        let sources = self.shares.sources.iter().zip(pools.iter().zip(drawn));
        let reports = sources.map(|(SourceShare { name, weight, fraction }, (pool, drawn))| {
            let (requested, of) =
                weight.map_or((*fraction, pool.all), |weight| (weight / weights, all));
            let got = if of > 0.0 { amount(drawn) / of } else { 0.0 };
            (name.clone(), ShareReport { requested, got, drawn: *drawn })
        });
        reports.collect()
    }
}

/// The documents of a source that may be drawn, in the order in which they are drawn.
#[derive(Default)]
struct SharePool {
    documents: Vec<usize>,
    /// The sum of their sizes.
    amount: f64,
    /// The sum of the sizes of all documents of the source.
    all: f64,
}

impl SharePool {
    /// The number of the first documents whose sizes sum up to `wanted`, as near as can be.
    fn first(&self, wanted: f64, amount: &impl Fn(usize) -> f64) -> usize {
        let mut sum = 0.0;
        let taken = self.documents.iter().take_while(|number| {
            let size = amount(**number);
            sum += size;
            sum - size / 2.0 <= wanted
        });
        taken.count()
    }
}

/// The documents that are wanted of a pool: all of them so many times, and a part of them once more.
#[derive(Clone, Copy, Default)]
struct SharePasses {
    passes: u32,
    rest: f64,
}

/// The documents that are wanted of each pool.
fn wanted(shares: &Shares, pools: &[SharePool]) -> Vec<SharePasses> {
    let weighed = shares.sources.iter().zip(pools);
    let ratio = |(source, pool): (&SourceShare, &SharePool)| {
        source.weight.filter(|weight| *weight > 0.0).map(|weight| pool.amount / weight)
    };
    let ratios = weighed.clone().filter_map(ratio);
    let scale = match shares.stopping {
        StoppingStrategy::FirstExhausted => ratios.fold(f64::INFINITY, f64::min),
        StoppingStrategy::AllExhausted => ratios.fold(0.0, f64::max),
    };
    let of_pool = |(source, pool): (&SourceShare, &SharePool)| {
        let wanted = source.weight.map_or(pool.amount, |weight| weight * scale);
        if pool.amount <= 0.0 || wanted <= 0.0 {
            return SharePasses::default();
        }
        let passes = wanted / pool.amount;
        let whole = (passes + ROUNDING).floor();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
        let count = whole.min(f64::from(u32::MAX - 1)) as u32;
        let rest = if passes - whole < ROUNDING { 0.0 } else { wanted - whole * pool.amount };
        SharePasses { passes: count, rest }
    };
    weighed.map(of_pool).collect()
}

/// The documents that were drawn.
pub(super) struct DrawnDocuments {
    /// The number of times that each document is taken.
    pub(super) times: Vec<u32>,
    /// The cut result of each document; documents that were not drawn are dropped.
    pub(super) cut_results: Vec<CutResult>,
    /// The shares that were asked for and drawn, by the names of the sources.
    pub(super) reports: Vec<(String, ShareReport)>,
}

impl DrawnDocuments {
    /// The pieces of the documents that were drawn. Those of a source that is read again come again behind its others, as they
    /// do where a source is repeated.
    pub(super) fn of(
        &self,
        pieces: &Pieces,
        source: impl Fn(u32) -> usize,
        control: &Control,
    ) -> Result<Pieces> {
        let mut drawn = Pieces::with_capacity(pieces.len());
        let mut rest: Vec<Piece> = Vec::new();
        let mut current = None;
        for (index, piece) in pieces.iter().enumerate() {
            if index.is_multiple_of(TICK) {
                control.tick()?;
            }
            let of = source(piece.document);
            if current.is_some_and(|current| current != of) {
                self.again(&mut drawn, &std::mem::take(&mut rest), control)?;
            }
            current = Some(of);
            match self.times[piece.document as usize] {
                0 => {}
                times => {
                    drawn.push(piece);
                    if times > 1 {
                        rest.push(piece);
                    }
                }
            }
        }
        self.again(&mut drawn, &rest, control)?;
        Ok(drawn)
    }

    /// Adds pieces of a source for every time but the first.
    fn again(&self, drawn: &mut Pieces, pieces: &[Piece], control: &Control) -> Result<()> {
        let times = |piece: &&Piece| self.times[piece.document as usize];
        let most = pieces.iter().map(|piece| times(&piece)).max().unwrap_or(0);
        for pass in 1..most {
            control.tick()?;
            drawn.extend(pieces.iter().filter(|piece| times(piece) > pass).copied());
        }
        Ok(())
    }
}
