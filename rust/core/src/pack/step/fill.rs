//! Sequences to micro-batches that cost alike, under the budget: longest first, each to the cheapest that has room.
//!
//! A few long sequences can cost more than all others may. The other ranks wait for them, and can do as much meanwhile at no
//! cost, so the micro-batches of their place are filled first, with the longest sequences.

#![expect(clippy::cast_precision_loss, reason = "costs are estimates")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::micro_batch::{MicroBatch, SequenceSizes};
use super::step_options::Cost;
use crate::error::Result;
use crate::pack::bound::lower_bound;
use crate::pack::cancellable_sort::histogram;
use crate::pack::strategies::{best_fit, mix};
use crate::util::control::Control;

/// The fill of micro-batches beside the longest sequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongSequenceFill {
    /// The part of the budget that the others may need at most.
    pub(super) fill: f64,
    /// True if they are filled as far as the others are, on top of the longest sequence.
    pub(super) tops_up: bool,
}

/// The trials that find how far a heavy place is filled: the cost to a thousandth.
const TRIALS: usize = 10;

/// Sequences that the same ranks may have, the longest first.
#[derive(Clone, Debug)]
pub(super) struct RankSequences {
    pub(super) sequences: Vec<u32>,
    /// The ranks, each with a micro-batch at each place.
    pub(super) ranks: usize,
}

/// Spreads the sequences of each part over `places`; `None` if that leaves one without room. First come the places that only the
/// longest sequences make heavy.
pub(super) fn spread(
    parts: &[RankSequences],
    places: usize,
    heavy: LongSequenceFill,
    sizes: SequenceSizes<'_>,
) -> Option<Vec<Vec<MicroBatch>>> {
    let mut heaviest: Vec<Vec<Vec<MicroBatch>>> = Vec::new();
    // The parts behind each heavy place: fewer are made where the others have too little room.
    let mut left = vec![parts.to_vec()];
    while let Some(rest) = left.last()
        && let Some((place, rest)) = fill_place(rest, places - heaviest.len(), heavy, sizes)
    {
        heaviest.push(place);
        left.push(rest);
    }
    while let Some(rest) = left.pop() {
        let even_ones = places - left.len();
        let to_even_ones = |part: &RankSequences| {
            let empty = vec![MicroBatch::default(); even_ones * part.ranks];
            to_cheapest(&part.sequences, empty, sizes)
        };
        if let Some(mut filled) = rest.iter().map(to_even_ones).collect::<Option<Vec<_>>>() {
            for (of_part, part) in
                heaviest.drain(..).take(left.len()).flat_map(|it| it.into_iter().enumerate())
            {
                filled[of_part].extend(part);
            }
            return Some(filled);
        }
    }
    None
}

/// The micro-batches of each part at the place of the longest sequence, and the parts without them; `None` if the mean micro-batch
/// costs as much.
fn fill_place(
    parts: &[RankSequences],
    places: usize,
    heavy: LongSequenceFill,
    sizes: SequenceSizes<'_>,
) -> Option<(Vec<Vec<MicroBatch>>, Vec<RankSequences>)> {
    let sequences = || parts.iter().flat_map(|it| &it.sequences).copied();
    let longest =
        parts.iter().filter_map(|it| it.sequences.first()).max_by_key(|&&it| sizes.length(it))?;
    let (options, ranks) = (sizes.options, parts.iter().map(|it| it.ranks).sum::<usize>());
    // One rank waits for none.
    if places <= 1 || ranks == 1 {
        return None;
    }
    let mean_of = |total: f64| total / (places * ranks) as f64;
    let mean_cost = mean_of(sequences().map(|it| sizes.cost(it)).sum());
    let mean_size = mean_of(sequences().map(|it| sizes.size(it) as f64).sum());
    // The least that a micro-batch with the longest costs, if it is as full as the others: beside it lie short ones.
    let largest = parts.iter().max_by_key(|it| it.sequences.len())?;
    let short = f64::from(sizes.length(largest.sequences[largest.sequences.len() * 3 / 4]));
    let short_size = (mean_size - sizes.size(*longest) as f64).max(0.0);
    let Cost { linear, quadratic } = options.cost;
    let full = sizes.cost(*longest) + short_size * (quadratic * short + linear);
    if full <= mean_cost {
        return None;
    }
    let least = sizes.cost(*longest).max(if heavy.tops_up { full } else { mean_cost });
    let budget = options.budget() as f64;
    let filled_to = |dearest: f64| -> (Vec<Vec<MicroBatch>>, Vec<RankSequences>) {
        parts.iter().map(|part| fill_to(part, dearest, sizes)).unzip()
    };
    let fits = |(place, rest): &(Vec<Vec<MicroBatch>>, Vec<RankSequences>)| {
        let part_fits = |part: &RankSequences| {
            let tokens: f64 = part.sequences.iter().map(|&it| sizes.size(it) as f64).sum();
            tokens <= heavy.fill * budget * ((places - 1) * part.ranks) as f64
        };
        rest.iter().all(part_fits)
            || place.iter().flatten().all(|it| it.tokens as f64 > 0.99 * budget)
    };
    // The least cost with which the others have room is between that of the longest sequence and that of one of all tokens.
    let (mut low, mut high) =
        (least, options.cost.of(options.packing.row_limit().get()).max(least));
    let mut filled = filled_to(low);
    if fits(&filled) {
        return Some(filled);
    }
    for _ in 0..TRIALS {
        let middle = f64::midpoint(low, high);
        filled = filled_to(middle);
        if fits(&filled) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(filled_to(high))
}

/// Fills a micro-batch of each rank with the longest sequences, up to a cost; returns the others too.
fn fill_to(
    part: &RankSequences,
    dearest: f64,
    sizes: SequenceSizes<'_>,
) -> (Vec<MicroBatch>, RankSequences) {
    let most = dearest * (1.0 + 1e-9);
    let mut place = vec![MicroBatch::default(); part.ranks];
    let room = |it: &MicroBatch| it.room(sizes.options).unwrap_or(0);
    let mut rest = Vec::with_capacity(part.sequences.len());
    // The most that one of them takes, so that most sequences are refused at once.
    let (mut most_tokens, mut most_cost) = (sizes.options.budget(), most);
    for &sequence in &part.sequences {
        let (size, cost) = (sizes.size(sequence), sizes.cost(sequence));
        let mut has_room = |it: &&mut MicroBatch| it.cost + cost <= most && size <= room(it);
        let taker = (size <= most_tokens && cost <= most_cost)
            .then(|| place.iter_mut().find(&mut has_room));
        match taker.flatten() {
            Some(micro_batch) => {
                micro_batch.push(sequence, sizes);
                most_tokens = place.iter().map(room).max().unwrap_or(0);
                most_cost = place.iter().map(|it| most - it.cost).fold(0.0, f64::max);
            }
            None => rest.push(sequence),
        }
    }
    (place, RankSequences { sequences: rest, ranks: part.ranks })
}

/// Gives each sequence to the cheapest micro-batch that has room for it; `None` if one has none.
fn to_cheapest(
    sequences: &[u32],
    mut micro_batches: Vec<MicroBatch>,
    sizes: SequenceSizes<'_>,
) -> Option<Vec<MicroBatch>> {
    // Costs are not negative, so their bits are in their order.
    let by_cost = |it: &MicroBatch| it.cost.to_bits();
    let mut cheapest: BinaryHeap<Reverse<(u64, usize)>> =
        micro_batches.iter().enumerate().map(|(at, it)| Reverse((by_cost(it), at))).collect();
    // Micro-batches without room for the last sequence, by their room: sequences get shorter.
    let mut roomy: BinaryHeap<(u64, usize)> = BinaryHeap::new();
    for &sequence in sequences {
        let size = sizes.size(sequence);
        while let Some(&(_, at)) = roomy.peek().filter(|(room, _)| *room >= size) {
            roomy.pop();
            cheapest.push(Reverse((by_cost(&micro_batches[at]), at)));
        }
        loop {
            let Reverse((_, at)) = cheapest.pop()?;
            match micro_batches[at].room(sizes.options) {
                Some(room) if room >= size => {
                    micro_batches[at].push(sequence, sizes);
                    cheapest.push(Reverse((by_cost(&micro_batches[at]), at)));
                    break;
                }
                Some(room) => roomy.push((room, at)),
                None => {}
            }
        }
    }
    Some(micro_batches)
}

/// As few micro-batches as best fit needs, or as a mix of lengths does where that takes fewer places.
pub(super) fn fewest(
    part: &RankSequences,
    sizes: SequenceSizes<'_>,
    control: &Control,
) -> Result<Vec<MicroBatch>> {
    let packing = &sizes.options.packing;
    let rooms: Vec<u32> = part.sequences.iter().map(|&it| packing.room(sizes.length(it))).collect();
    let mut rows = best_fit::pack(&rooms, packing, control)?;
    let bound =
        usize::try_from(lower_bound(&histogram(&rooms, control)?, packing)).unwrap_or(usize::MAX);
    if (rows.len()).div_ceil(part.ranks) > bound.div_ceil(part.ranks) {
        let mixed = mix::pack(&rooms, packing, control)?;
        if mixed.len() < rows.len() {
            rows = mixed;
        }
    }
    let micro_batch = |row| {
        let mut micro_batch = MicroBatch::default();
        let members = rows.row(row).iter().map(|&at| part.sequences[at as usize]);
        members.for_each(|sequence| micro_batch.push(sequence, sizes));
        micro_batch
    };
    Ok((0..).take(rows.len()).map(micro_batch).collect())
}
