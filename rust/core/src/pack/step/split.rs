//! Sequences of a step, divided among optimizer steps, kinds and ranks.

use std::collections::{BTreeSet, HashMap};

use super::micro_batch::SequenceSizes;
use crate::error::Result;
use crate::util::control::Control;
use crate::util::random::Random;

/// The optimizer steps that sequences are divided among, as equally as can be.
#[derive(Clone, Copy, Debug)]
pub enum MiniBatches {
    /// So many, in the order of the sequences.
    InOrder(u32),
    /// So many, at random by a seed.
    AtRandom(u32, u64),
    /// So many, with whole groups in each, in the order of their first sequence.
    WholeGroups(u32),
}

impl MiniBatches {
    /// The sequences of each, of those that are given in their order.
    pub(super) fn split(
        self,
        mut order: Vec<u32>,
        groups: Option<&[u32]>,
        control: &Control,
    ) -> Result<Vec<Vec<u32>>> {
        let count = match self {
            Self::InOrder(count) => count,
            Self::AtRandom(count, seed) => {
                Random::new(seed).shuffle(&mut order, control)?;
                count
            }
            Self::WholeGroups(count) => {
                let groups = by_label(&order, groups);
                let parts = in_parts(groups.len(), count);
                let of_part = |part: std::ops::Range<usize>| {
                    groups[part].iter().flat_map(|(_, members)| members.iter().copied()).collect()
                };
                return Ok(parts.map(of_part).collect());
            }
        };
        Ok(in_parts(order.len(), count).map(|part| order[part].to_vec()).collect())
    }
}

/// The ranges of `count` parts of `items`, which differ by one at most.
fn in_parts(items: usize, count: u32) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = count as usize;
    (0..count).map(move |part| part * items / count..(part + 1) * items / count)
}

/// Sequences by their label, in the order in which labels come first; all have one without labels.
pub(super) fn by_label(sequences: &[u32], labels: Option<&[u32]>) -> Vec<(u32, Vec<u32>)> {
    let Some(labels) = labels else { return vec![(0, sequences.to_vec())] };
    let mut places = HashMap::new();
    let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
    for &sequence in sequences {
        let label = labels[sequence as usize];
        let place = *places.entry(label).or_insert_with(|| {
            found.push((label, Vec::new()));
            found.len() - 1
        });
        found[place].1.push(sequence);
    }
    found
}

/// The sequences of each kind, in the order of the kinds; kinds without sequences too, as other ranks may have some.
pub(super) fn by_kind(sequences: &[u32], kinds: Option<(&[u32], u32)>) -> Vec<(u32, Vec<u32>)> {
    let Some((kinds, count)) = kinds else { return vec![(0, sequences.to_vec())] };
    let mut found: Vec<(u32, Vec<u32>)> = (0..count).map(|kind| (kind, Vec::new())).collect();
    for &sequence in sequences {
        found[kinds[sequence as usize] as usize].1.push(sequence);
    }
    found
}

/// The rank that has the sequences of a group, by the number of the group.
pub(super) type RanksOfGroups = HashMap<u32, usize>;

/// Divides sequences, given the longest first, among ranks by whole groups: groups that a rank has already stay there, then the
/// costliest first, each to the rank with the least to do. The sequences of each rank are the longest first again.
pub(super) fn to_ranks(
    sequences: &[u32],
    groups: &[u32],
    ranks_of_groups: &mut RanksOfGroups,
    sizes: SequenceSizes<'_>,
) -> Vec<Vec<u32>> {
    let cost_of = |members: &[u32]| members.iter().map(|&it| sizes.cost(it)).sum::<f64>();
    let with_cost = |(group, members): (u32, Vec<u32>)| (group, cost_of(&members), members);
    let mut groups: Vec<(u32, f64, Vec<u32>)> =
        by_label(sequences, Some(groups)).into_iter().map(with_cost).collect();
    groups.sort_by(|(one, one_cost, _), (other, other_cost, _)| {
        let is_new = |group| !ranks_of_groups.contains_key(group);
        is_new(one).cmp(&is_new(other)).then(other_cost.total_cmp(one_cost))
    });
    // The ranks, the one with the least to do first. Costs are not negative, so their bits are in their order.
    let ranks = sizes.options.rank_count();
    let mut done = vec![0.0; ranks];
    let mut of_ranks = vec![Vec::new(); ranks];
    let mut least: BTreeSet<(u64, usize)> = (0..ranks).map(|rank| (0, rank)).collect();
    for (group, cost, members) in groups {
        let idle = least.first().map_or(0, |&(_, rank)| rank);
        let rank = *ranks_of_groups.entry(group).or_insert(idle);
        least.remove(&(f64::to_bits(done[rank]), rank));
        done[rank] += cost;
        least.insert((f64::to_bits(done[rank]), rank));
        of_ranks[rank].extend(members);
    }
    for of_rank in &mut of_ranks {
        of_rank.sort_by_key(|&it| (std::cmp::Reverse(sizes.length(it)), it));
    }
    of_ranks
}
