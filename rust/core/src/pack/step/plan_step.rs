//! [`plan_step`]: shares the sequences of a training step among ranks, in micro-batches under a budget of tokens that cost alike
//! at each place, so that no rank waits for another.

use std::borrow::Cow;

use super::alike_places::MicroBatchGrid;
use super::fill::{LongSequenceFill, RankSequences, fewest, spread};
use super::micro_batch::{MicroBatch, SequenceSizes};
use super::ranks_of_groups::{MiniBatches, RanksOfGroups, by_kind, by_label};
use super::step_options::{Labels, MicroBatchOrder, StepOptions};
use crate::error::{Error, Result};
use crate::pack::DocumentLengths;
use crate::util::control::Control;

/// The micro-batches of a step: those of all ranks at the first place, then those at the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    /// The tokens of each sequence that are trained on: fewer than were given where it was cut, 0 where it was dropped.
    pub lengths: Vec<u32>,
    /// The sequences of each micro-batch.
    pub micro_batches: Vec<Vec<u32>>,
    /// The cost of each micro-batch.
    pub costs: Vec<f64>,
    /// The optimizer step of each place.
    pub mini_batches: Vec<u32>,
    /// The kind of each place.
    pub kinds: Vec<u32>,
    /// The time of the step: the sum of the costliest micro-batch of each place.
    pub time: f64,
    /// The time if all ranks had as much to do at each place.
    pub even_time: f64,
    /// The least time that any plan can have, as far as the longest sequences tell.
    pub least_time: f64,
}

/// The caller's function by which ranks that plan their own sequences agree. It is given the places that sequences of a kind need
/// in an optimizer step, and returns how many they get, which are no fewer.
pub type AgreeOnPlaces<'a> = dyn FnMut(u32) -> Result<u32> + 'a;

/// Plans a step of sequences of these lengths: those of all ranks, or those of one that will `agree` with the others.
///
/// # Errors
///
/// As [`DocumentLengths::plan`], and whatever `agree` or `control` returns; that the options ask for more
/// micro-batches than anybody means.
pub fn plan_step(
    lengths: &[i64],
    labels: Labels<'_>,
    mini_batches: MiniBatches,
    options: &StepOptions,
    mut agree: Option<&mut AgreeOnPlaces<'_>>,
    control: &Control,
) -> Result<StepPlan> {
    let packing = &options.packing;
    let (pieces, _) = DocumentLengths::new(lengths, packing)?.into_pieces(packing, control)?;
    let mut trained = vec![0; lengths.len()];
    let mut order = Vec::with_capacity(pieces.len());
    for piece in pieces.iter() {
        trained[piece.document as usize] = piece.tokens();
        order.push(piece.document);
    }
    let sizes = SequenceSizes { lengths: &trained, options };
    let optimizer_steps = mini_batches
        .split(order, labels.groups, control)?
        .iter()
        .map(|part| by_kind(part, labels.kinds, agree.is_some()))
        .collect::<Vec<_>>();
    let ranks_of_groups = match labels.groups {
        None => None,
        Some(groups) => {
            let parts = optimizer_steps.iter().flatten().map(|(_, part)| part.as_slice());
            Some(RanksOfGroups::new(&parts.collect::<Vec<_>>(), groups, sizes, control)?)
        }
    };
    let mut plan = StepPlan::default();
    for (number, kinds) in optimizer_steps.into_iter().enumerate() {
        let mut of_kinds = Vec::new();
        for (kind, mut sequences) in kinds {
            control.tick()?;
            sequences.sort_by_key(|&it| std::cmp::Reverse(sizes.length(it)));
            let of_kind = OfKind { sequences, ranks_of_groups: ranks_of_groups.as_ref(), sizes };
            let planned = plan.kinds.len() + of_kinds.iter().map(Vec::len).sum::<usize>();
            let grid = of_kind.micro_batches(planned, agree.as_deref_mut(), control)?;
            plan.time += grid.time();
            plan.even_time += grid.even_time();
            plan.least_time += of_kind.least_time(grid.even_time());
            of_kinds.push(grid.dealt().into_iter().map(|place| (kind, place)).collect());
        }
        // Ranks that plan alone do not know each other's costs, so they go by the numbers of the kinds.
        if agree.is_none() {
            of_kinds = vec![of_kinds.into_iter().flatten().collect()];
        }
        let places = of_kinds.into_iter().flat_map(|places| ordered(places, options.order));
        for (kind, place) in places {
            plan.kinds.push(kind);
            plan.mini_batches.push(u32::try_from(number).unwrap_or(u32::MAX));
            for micro_batch in place {
                plan.costs.push(micro_batch.cost);
                plan.micro_batches.push(micro_batch.members);
            }
        }
    }
    plan.lengths = trained;
    Ok(plan)
}

/// Places of some kinds, by the cost of their costliest micro-batch.
fn ordered(
    mut places: Vec<(u32, Vec<MicroBatch>)>,
    order: MicroBatchOrder,
) -> Vec<(u32, Vec<MicroBatch>)> {
    let cost_of = |place: &[MicroBatch]| place.iter().map(|it| it.cost).fold(0.0, f64::max);
    places.sort_by(|(_, one), (_, other)| cost_of(other).total_cmp(&cost_of(one)));
    match order {
        MicroBatchOrder::Heaviest => places,
        MicroBatchOrder::Pyramid => pyramid(places),
    }
}

/// The items of an order from the greatest on, with the greatest in the middle.
fn pyramid<T>(descending: Vec<T>) -> Vec<T> {
    let mut ordered = std::collections::VecDeque::with_capacity(descending.len());
    for (number, item) in descending.into_iter().enumerate() {
        if number % 2 == 0 {
            ordered.push_back(item);
        } else {
            ordered.push_front(item);
        }
    }
    ordered.into()
}

/// The sequences of one kind in an optimizer step, the longest first.
struct OfKind<'a> {
    sequences: Vec<u32>,
    ranks_of_groups: Option<&'a RanksOfGroups<'a>>,
    sizes: SequenceSizes<'a>,
}

impl OfKind<'_> {
    /// Their micro-batches, as many for each rank as are needed and agreed on, behind places that are `planned` already.
    fn micro_batches(
        &self,
        planned: usize,
        agree: Option<&mut AgreeOnPlaces<'_>>,
        control: &Control,
    ) -> Result<MicroBatchGrid> {
        let parts = &self.parts();
        let tight = parts.iter().map(|part| fewest(part, self.sizes, control));
        let tight = tight.collect::<Result<Vec<_>>>()?;
        let places_of =
            |(part, tight): (&RankSequences, &Vec<MicroBatch>)| tight.len().div_ceil(part.ranks);
        let needed = parts.iter().zip(&tight).map(places_of).max().unwrap_or(0);
        let agreed = self.agreed_places(needed, planned, agree)?;
        let grid_of = |mut filled: Vec<Vec<MicroBatch>>| match (self.ranks_of_groups, filled.pop())
        {
            (None, Some(of_all)) => MicroBatchGrid::of(of_all, self.sizes.options.rank_count()),
            (_, last) => MicroBatchGrid::of_ranks(filled.into_iter().chain(last).collect()),
        };
        // The best fill beside a few long sequences depends on the others, so all are tried.
        let ways = [(0.98, false), (0.99, false), (0.995, true), (1.0, false)];
        let spread_by =
            |(fill, tops_up)| spread(parts, agreed, LongSequenceFill { fill, tops_up }, self.sizes);
        let best = ways.into_iter().filter_map(spread_by).map(grid_of);
        let best = best.min_by(|one, other| one.time().total_cmp(&other.time()));
        let mut grid = best.unwrap_or_else(|| {
            let empty = MicroBatch::default();
            let fill_up = |(mut tight, part): (Vec<MicroBatch>, &RankSequences)| {
                tight.resize(agreed * part.ranks, empty.clone());
                tight
            };
            grid_of(tight.into_iter().zip(parts).map(fill_up).collect())
        });
        grid.even_out(self.sizes, control)?;
        Ok(grid)
    }

    /// The places of the sequences, of which they need so many: a multiple as the options ask for, and what all ranks agree on.
    fn agreed_places(
        &self,
        needed: usize,
        planned: usize,
        agree: Option<&mut AgreeOnPlaces<'_>>,
    ) -> Result<usize> {
        let options = self.sizes.options;
        let multiple = options.multiple_of.get() as usize;
        let rounded = needed.next_multiple_of(multiple);
        let rounds = rounded > needed.saturating_mul(2);
        let option = if rounds { "micro_batches_multiple_of" } else { "ranks" };
        self.sizes.check_places(planned + rounded, option)?;
        let Some(agree) = agree else { return Ok(rounded) };
        let agreed = agree(u32::try_from(rounded).unwrap_or(u32::MAX))? as usize;
        if agreed < rounded || !agreed.is_multiple_of(multiple) {
            let reason = format!(
                "must return the greatest number of all ranks, a multiple of {multiple}, not {agreed} for {rounded}"
            );
            return Err(Error::option("all_reduce", reason));
        }
        self.sizes.check_places(planned + agreed, "all_reduce")?;
        Ok(agreed)
    }

    /// The sequences that the same ranks may have: all ranks any, or each rank those of its groups.
    fn parts(&self) -> Vec<RankSequences> {
        let Some(ranks_of_groups) = self.ranks_of_groups else {
            let ranks = self.sizes.options.rank_count();
            return vec![RankSequences { sequences: self.sequences.clone(), ranks }];
        };
        let of_ranks = ranks_of_groups.divide(&self.sequences);
        of_ranks.into_iter().map(|sequences| RankSequences { sequences, ranks: 1 }).collect()
    }

    /// The cost of the group that costs the most, which one rank has alone; 0 without groups.
    fn costliest_group(&self) -> f64 {
        let Some(ranks_of_groups) = self.ranks_of_groups else { return 0.0 };
        let groups = by_label(&self.sequences, Some(ranks_of_groups.groups));
        let cost_of = |(_, members): &(u32, Vec<u32>)| self.sizes.cost_of_all(members);
        groups.iter().map(cost_of).fold(0.0, f64::max)
    }

    /// The sequences, first those that cost the most for the room that they take. These are the longest, unless sequences
    /// take more room than they have tokens.
    fn costliest_first(&self) -> Cow<'_, [u32]> {
        let cost_of_room = |it: u32| self.sizes.cost(it) / self.sizes.size(it) as f64;
        if self.sequences.is_sorted_by(|&one, &other| cost_of_room(one) >= cost_of_room(other)) {
            return Cow::Borrowed(&self.sequences);
        }
        let mut sorted = self.sequences.clone();
        sorted.sort_by(|&one, &other| cost_of_room(other).total_cmp(&cost_of_room(one)));
        Cow::Owned(sorted)
    }

    /// The least time: that of ranks that have as much to do, or more where all wait for long sequences and the others cannot
    /// do as much meanwhile.
    ///
    /// A micro-batch has one sequence of more than half the budget at most, so the longest of these are at one place, the next at
    /// another, and so on. For each number of such places, the least time is the wait for them, and the rest without waiting.
    fn least_time(&self, even: f64) -> f64 {
        let options = self.sizes.options;
        let (budget, ranks) = (options.budget(), options.rank_count());
        let mut waits = 0.0_f64;
        let mut waited_for = 0.0;
        let mut most = MostCost { costliest: self.costliest_first(), ..MostCost::default() };
        for place in self.sequences.chunks(ranks) {
            let longest = place[0];
            if waited_for > 0.0 && self.sizes.size(longest) * 2 <= budget {
                break;
            }
            waited_for += self.sizes.cost(longest);
            most.add_place(place, self.sizes);
            waits = waits.max(waited_for - most.of_places() / ranks as f64);
        }
        (even + waits).max(self.costliest_group())
    }
}

/// More than the places of the longest sequences can cost.
#[derive(Debug, Default)]
struct MostCost<'a> {
    /// The sequences, first those that cost the most for the room that they take.
    costliest: Cow<'a, [u32]>,
    /// As many sequences of the length of each as a micro-batch has room for.
    of_length: f64,
    /// The first of `costliest` that the budgets of all ranks have room for.
    of_tokens: f64,
    /// The sequences that are in `of_tokens` as a whole.
    whole: usize,
    /// The tokens of the budgets that these leave.
    room: u64,
    /// The part of the next sequence that has this room.
    in_part: f64,
}

impl MostCost<'_> {
    /// Adds a place with its longest sequences, one for each rank.
    fn add_place(&mut self, longest: &[u32], sizes: SequenceSizes<'_>) {
        let options = sizes.options;
        let budget = options.packing.row_limit().get();
        self.of_length += longest.iter().map(|&it| sizes.length(it).max(1)).fold(0.0, |sum, it| {
            sum + f64::from(budget / it) * options.cost.of(it) + options.cost.of(budget % it)
        });
        self.room += options.budget() * options.rank_count() as u64;
        while let Some(&next) = self.costliest.get(self.whole)
            && let Some(room) = self.room.checked_sub(sizes.size(next))
        {
            self.of_tokens += sizes.cost(next);
            self.room = room;
            self.whole += 1;
        }
        self.in_part = self
            .costliest
            .get(self.whole)
            .map_or(0.0, |&next| sizes.cost(next) * self.room as f64 / sizes.size(next) as f64);
    }

    fn of_places(&self) -> f64 {
        self.of_length.min(self.of_tokens + self.in_part)
    }
}
