//! Sequences of a step, divided among optimizer steps, kinds and ranks.

use std::collections::HashMap;

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

/// The sequences of each kind, in the order of the kinds; of `all` kinds, if other ranks may have sequences where this one has none.
pub(super) fn by_kind(
    sequences: &[u32],
    kinds: Option<(&[u32], u32)>,
    all: bool,
) -> Vec<(u32, Vec<u32>)> {
    let Some((kinds, count)) = kinds else { return vec![(0, sequences.to_vec())] };
    let mut found: Vec<(u32, Vec<u32>)> = (0..count).map(|kind| (kind, Vec::new())).collect();
    for &sequence in sequences {
        found[kinds[sequence as usize] as usize].1.push(sequence);
    }
    found.retain(|(_, sequences)| all || !sequences.is_empty());
    found
}

/// The rank that has the sequences of each group, in all optimizer steps and of all kinds.
#[derive(Debug)]
pub(super) struct RanksOfGroups<'a> {
    /// The group of each sequence.
    pub(super) groups: &'a [u32],
    of_group: HashMap<u32, usize>,
    ranks: usize,
}

impl<'a> RanksOfGroups<'a> {
    /// Gives groups to ranks, the costliest first, so that ranks have as much to do in each part: the sequences of a kind in an
    /// optimizer step. A group goes where the parts that it has sequences of are the least work; of all parts if that is alike.
    pub(super) fn new(
        parts: &[&[u32]],
        groups: &'a [u32],
        sizes: SequenceSizes<'_>,
        control: &Control,
    ) -> Result<Self> {
        let filled: Vec<&[u32]> = parts.iter().copied().filter(|it| !it.is_empty()).collect();
        // Each part has a place.
        sizes.check_places(filled.len(), "ranks")?;
        let ranks = sizes.options.rank_count();
        let mut done = vec![vec![0.0; ranks]; filled.len()];
        let mut done_in_all = vec![0.0_f64; ranks];
        let mut of_group = HashMap::new();
        for GroupCosts { group, of_parts } in costs_of_groups(&filled, groups, sizes) {
            control.tick()?;
            let work = |rank: &usize| {
                of_parts.iter().map(|(part, cost)| done[*part][*rank] * cost).sum::<f64>()
            };
            let order = |one: &usize, other: &usize| {
                let in_all = done_in_all[*one].total_cmp(&done_in_all[*other]);
                work(one).total_cmp(&work(other)).then(in_all)
            };
            let rank = (0..ranks).min_by(order).unwrap_or(0);
            for (part, cost) in of_parts {
                done[part][rank] += cost;
                done_in_all[rank] += cost;
            }
            of_group.insert(group, rank);
        }
        Ok(Self { groups, of_group, ranks })
    }

    /// The sequences of each rank, in their order.
    pub(super) fn divide(&self, sequences: &[u32]) -> Vec<Vec<u32>> {
        let mut of_ranks = vec![Vec::new(); self.ranks];
        for &sequence in sequences {
            of_ranks[self.of_group[&self.groups[sequence as usize]]].push(sequence);
        }
        of_ranks
    }
}

/// A group, and its cost in each part that has sequences of it.
#[derive(Debug)]
struct GroupCosts {
    group: u32,
    of_parts: Vec<(usize, f64)>,
}

impl GroupCosts {
    fn total(&self) -> f64 {
        self.of_parts.iter().map(|(_, cost)| cost).sum()
    }
}

/// The costs of all groups, the costliest group first.
fn costs_of_groups(parts: &[&[u32]], groups: &[u32], sizes: SequenceSizes<'_>) -> Vec<GroupCosts> {
    let mut places = HashMap::new();
    let mut found: Vec<GroupCosts> = Vec::new();
    for (part, sequences) in parts.iter().enumerate() {
        for (group, members) in by_label(sequences, Some(groups)) {
            let place = *places.entry(group).or_insert_with(|| {
                found.push(GroupCosts { group, of_parts: Vec::new() });
                found.len() - 1
            });
            found[place].of_parts.push((part, sizes.cost_of_all(&members)));
        }
    }
    found.sort_by(|one, other| other.total().total_cmp(&one.total()));
    found
}
