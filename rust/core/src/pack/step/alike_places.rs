//! [`MicroBatchGrid`]: the micro-batches of all ranks, place by place; exchanges of sequences make those of a place cost alike.
//!
//! All ranks wait for the costliest micro-batch of a place. So the time of a step is the sum of these costs, and an exchange is
//! good if it makes the costliest of its place cheaper without making that of another place dearer.

#![expect(clippy::cast_precision_loss, reason = "costs are estimates")]

use super::micro_batch::{CostToMove, Exchange, MicroBatch, SequenceSizes};
use crate::error::Result;
use crate::util::control::Control;

/// The part of the mean cost by which micro-batches may differ without being exchanged further.
const ALIKE: f64 = 2e-4;

/// The most rounds over all places.
const ROUNDS: usize = 6;

/// The cheapest micro-batches that an exchange is tried with, of a place.
const TRIED: usize = 16;

/// The micro-batches of all ranks: those of the first place, then those of the next.
#[derive(Clone, Debug)]
pub(super) struct MicroBatchGrid {
    pub(super) micro_batches: Vec<MicroBatch>,
    ranks: usize,
    /// True if the sequences of a rank stay there.
    stays: bool,
}

impl MicroBatchGrid {
    /// Micro-batches that any rank may take, the costliest of all at the first place.
    pub(super) fn of(mut micro_batches: Vec<MicroBatch>, ranks: usize) -> Self {
        sort(&mut micro_batches);
        Self { micro_batches, ranks, stays: false }
    }

    /// The micro-batches of each rank, which are as many for all.
    pub(super) fn of_ranks(mut of_ranks: Vec<Vec<MicroBatch>>) -> Self {
        let ranks = of_ranks.len();
        for of_rank in &mut of_ranks {
            sort(of_rank);
        }
        let places = of_ranks.first().map_or(0, Vec::len);
        let mut micro_batches = Vec::with_capacity(places * ranks);
        for place in 0..places {
            micro_batches.extend(of_ranks.iter_mut().map(|it| std::mem::take(&mut it[place])));
        }
        Self { micro_batches, ranks, stays: true }
    }

    /// The time of the step: the costliest micro-batch of each place.
    pub(super) fn time(&self) -> f64 {
        self.micro_batches.chunks(self.ranks).map(greatest).sum()
    }

    /// The time if all ranks had as much to do at each place.
    pub(super) fn even_time(&self) -> f64 {
        self.micro_batches.iter().map(|it| it.cost).sum::<f64>() / self.ranks as f64
    }

    fn places(&self) -> usize {
        self.micro_batches.len() / self.ranks
    }

    /// Exchanges sequences until that makes the step no faster.
    pub(super) fn even_out(&mut self, sizes: SequenceSizes<'_>, control: &Control) -> Result<()> {
        if self.ranks == 1 {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let before = self.time();
            for place in 0..self.places() {
                control.tick()?;
                self.even_out_place(place, sizes);
            }
            let has_moved = self.fill_up(sizes);
            self.sort();
            if !has_moved && before - self.time() < ALIKE * self.even_time() {
                break;
            }
        }
        Ok(())
    }

    /// Makes the costliest micro-batch of a place cheaper, until it costs as much as the others.
    fn even_out_place(&mut self, place: usize, sizes: SequenceSizes<'_>) {
        let here = place * self.ranks..(place + 1) * self.ranks;
        for _ in 0..4 * self.ranks {
            let of_place = &self.micro_batches[here.clone()];
            let mean = of_place.iter().map(|it| it.cost).sum::<f64>() / self.ranks as f64;
            let cost_of = |at: &usize| self.micro_batches[*at].cost;
            let costliest =
                here.clone().max_by(|one, other| cost_of(one).total_cmp(&cost_of(other)));
            let Some(costliest) = costliest else { return };
            let over = self.micro_batches[costliest].cost - mean;
            let is_done = over <= ALIKE * mean
                || !(self.exchange_in_place(costliest, over, here.clone(), sizes)
                    || self.exchange_with_others(costliest, over, place, sizes));
            if is_done {
                return;
            }
        }
    }

    /// Moves cost from the costliest micro-batch of a place to another of it; whether that is possible.
    fn exchange_in_place(
        &mut self,
        costliest: usize,
        over: f64,
        here: std::ops::Range<usize>,
        sizes: SequenceSizes<'_>,
    ) -> bool {
        if self.stays {
            return false;
        }
        let mut others: Vec<usize> = here.filter(|at| *at != costliest).collect();
        others.sort_by(|one, other| self.cost(*one).total_cmp(&self.cost(*other)));
        others.into_iter().take(TRIED).any(|other| {
            let gap = self.cost(costliest) - self.cost(other);
            let cost = CostToMove { wanted: over.min(gap / 2.0), most: gap * 0.999 };
            self.exchange(costliest, other, cost, sizes)
        })
    }

    /// Moves cost from the costliest micro-batch of a place to one of another place that is cheaper than its costliest.
    fn exchange_with_others(
        &mut self,
        costliest: usize,
        over: f64,
        place: usize,
        sizes: SequenceSizes<'_>,
    ) -> bool {
        let mut slack: Vec<(f64, usize)> = Vec::new();
        for (other, there) in self.micro_batches.chunks(self.ranks).enumerate() {
            let top = greatest(there);
            let numbered = there.iter().zip(other * self.ranks..);
            let free = numbered.map(|(it, at)| (top - it.cost, at));
            slack.extend(free.filter(|(slack, at)| {
                other != place && *slack > ALIKE * top && self.may_exchange(costliest, *at)
            }));
        }
        let by_slack = |one: &(f64, usize), other: &(f64, usize)| {
            other.0.total_cmp(&one.0).then(one.1.cmp(&other.1))
        };
        if slack.len() > TRIED {
            slack.select_nth_unstable_by(TRIED, by_slack);
            slack.truncate(TRIED);
        }
        slack.sort_unstable_by(by_slack);
        slack.into_iter().any(|(slack, at)| {
            let cost = CostToMove { wanted: over.min(slack), most: slack };
            self.exchange(costliest, at, cost, sizes)
        })
    }

    /// Moves cost from places whose micro-batches cost alike to those that wait for the costliest of another place: all of theirs
    /// become cheaper, and the ranks that wait work at no cost. Returns true if it moved any.
    fn fill_up(&mut self, sizes: SequenceSizes<'_>) -> bool {
        let waits = |place: &[MicroBatch]| {
            let mean = place.iter().map(|it| it.cost).sum::<f64>() / place.len() as f64;
            greatest(place) - mean
        };
        let alike = ALIKE * self.even_time();
        let waiting: Vec<f64> = self.micro_batches.chunks(self.ranks).map(waits).collect();
        // The cheap ones first: these have the short sequences.
        let from =
            (0..self.micro_batches.len()).rev().filter(|at| waiting[at / self.ranks] < alike);
        let from: Vec<usize> = from.collect();
        let mut next = from.iter().copied().cycle();
        let mut has_moved = false;
        for place in (0..self.places()).filter(|place| waiting[*place] >= 2.0 * alike) {
            let mut there: Vec<usize> = (place * self.ranks..(place + 1) * self.ranks).collect();
            let top = greatest(&self.micro_batches[place * self.ranks..][..self.ranks]);
            there.sort_by(|one, other| self.cost(*one).total_cmp(&self.cost(*other)));
            for to in there {
                let mut missed = 0;
                while missed < TRIED && top - self.cost(to) > 2.0 * ALIKE * top {
                    let slack = top - self.cost(to);
                    let Some(from) = next.next() else { return has_moved };
                    let cost = CostToMove { wanted: slack, most: slack };
                    let is_done =
                        self.may_exchange(from, to) && self.exchange(from, to, cost, sizes);
                    missed = if is_done { 0 } else { missed + 1 };
                    has_moved |= is_done;
                }
            }
        }
        has_moved
    }

    fn cost(&self, at: usize) -> f64 {
        self.micro_batches[at].cost
    }

    fn may_exchange(&self, one: usize, other: usize) -> bool {
        !self.stays || one % self.ranks == other % self.ranks
    }

    /// Moves cost from one micro-batch to another; whether any exchange does.
    fn exchange(
        &mut self,
        from: usize,
        to: usize,
        cost: CostToMove,
        sizes: SequenceSizes<'_>,
    ) -> bool {
        let Ok([from, to]) = self.micro_batches.get_disjoint_mut([from, to]) else { return false };
        let found = Exchange::find(from, to, cost, sizes);
        found.is_some_and(|exchange| {
            exchange.apply(from, to, sizes);
            true
        })
    }

    /// Puts the costliest micro-batches first.
    fn sort(&mut self) {
        if !self.stays {
            sort(&mut self.micro_batches);
            return;
        }
        let mut of_ranks = vec![Vec::with_capacity(self.places()); self.ranks];
        for (at, micro_batch) in std::mem::take(&mut self.micro_batches).into_iter().enumerate() {
            of_ranks[at % self.ranks].push(micro_batch);
        }
        *self = Self::of_ranks(of_ranks);
    }

    /// The micro-batches of each place, dealt to the ranks such that all have as much to do in all.
    pub(super) fn dealt(mut self) -> Vec<Vec<MicroBatch>> {
        let mut done = vec![0.0; self.ranks];
        let mut places = Vec::with_capacity(self.places());
        for place in self.micro_batches.chunks_mut(self.ranks) {
            let mut dealt = vec![MicroBatch::default(); self.ranks];
            let mut ranks: Vec<usize> = (0..self.ranks).collect();
            if !self.stays {
                sort(place);
                // The one that has the least to do gets the costliest.
                ranks.sort_by(|one, other| f64::total_cmp(&done[*one], &done[*other]));
            }
            for (rank, micro_batch) in ranks.into_iter().zip(place) {
                done[rank] += micro_batch.cost;
                dealt[rank] = std::mem::take(micro_batch);
            }
            places.push(dealt);
        }
        places
    }
}

fn sort(micro_batches: &mut [MicroBatch]) {
    micro_batches.sort_by(|one, other| other.cost.total_cmp(&one.cost));
}

fn greatest(place: &[MicroBatch]) -> f64 {
    place.iter().map(|it| it.cost).fold(0.0, f64::max)
}
