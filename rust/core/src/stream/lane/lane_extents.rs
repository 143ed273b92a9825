//! [`LaneExtents`]: the extents of a portion of the files, dealt to the lanes: the largest first, each to the lane with the fewest bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;

use crate::error::Result;
use crate::source::extents::extent::Extent;
use crate::util::control::Control;
use crate::util::random::{Random, number_of};

/// A portion of the files in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortionKey {
    pub(crate) epoch: u64,
    pub(crate) pass: u64,
    pub(crate) portion: u64,
}

/// The purposes of random numbers here, beside those of [`record_order`](super::record_order).
const EXTENTS: u64 = 2;
const LANE: u64 = 3;

/// The extents of a portion, by lane.
#[derive(Debug)]
pub(crate) struct LaneExtents {
    lanes: Vec<Vec<Extent>>,
    /// The hash of the extents of each lane, once it is asked for.
    hashes: Vec<OnceLock<u32>>,
}

impl LaneExtents {
    /// Deals extents to the lanes: the larger ones first, each to the lane with the least. Without a `seed`, in the order of the
    /// input.
    pub(crate) fn deal(
        all: &[Extent],
        lanes: usize,
        seed: Option<u64>,
        key: PortionKey,
        control: &Control,
    ) -> Result<Self> {
        let PortionKey { epoch, pass, portion } = key;
        let mut order: Vec<usize> = (0..all.len()).collect();
        if let Some(seed) = seed {
            let place = |extent: &Extent| {
                [seed, EXTENTS, epoch, pass, extent.file as u64, u64::from(extent.number)]
            };
            // Extents of similar size are dealt at random, so that a lane gets other extents in another
            // epoch.
            order.sort_by_cached_key(|&at| {
                (Reverse(size_class(all[at].weight)), number_of(&place(&all[at])))
            });
        }
        let mut emptiest: BinaryHeap<Reverse<(u64, usize)>> =
            (0..lanes).map(|lane| Reverse((0, lane))).collect();
        let mut counts = vec![0; lanes];
        let mut owners = vec![0; all.len()];
        for &at in &order {
            let Some(Reverse((weight, lane))) = emptiest.pop() else { break };
            // An empty extent counts too, or the first lane would get all of them.
            emptiest.push(Reverse((weight + all[at].weight.max(1), lane)));
            owners[at] = lane;
            counts[lane] += 1;
        }
        // Lists that grow take twice the memory of their extents, and small files have one extent each.
        let mut lanes: Vec<Vec<Extent>> = counts.into_iter().map(Vec::with_capacity).collect();
        for at in order {
            lanes[owners[at]].push(all[at].clone());
        }
        if let Some(seed) = seed {
            for (lane, list) in (0..).zip(&mut lanes) {
                shuffle(list, number_of(&[seed, LANE, epoch, pass, portion, lane]), control)?;
            }
        }
        let hashes = lanes.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { lanes, hashes })
    }

    /// A hash of the extents of a lane, in its order.
    pub(crate) fn hash_of_lane(&self, lane: usize) -> u32 {
        *self.hashes[lane].get_or_init(|| Extent::short_hash_of(&self.lanes[lane]))
    }

    /// The extents of a lane, in its order.
    pub(crate) fn of_lane(&self, lane: usize) -> &[Extent] {
        &self.lanes[lane]
    }
}

/// The size class of a number of bytes. Sizes of one class differ by less than a quarter.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(1);
    let magnitude = u64::from(bytes.ilog2());
    4 * magnitude + (((bytes << 2) >> magnitude) & 3)
}

fn shuffle<T>(items: &mut Vec<T>, seed: u64, control: &Control) -> Result<()> {
    let count = u32::try_from(items.len()).expect("a portion of fewer extents than 2^32");
    let mut order: Vec<u32> = (0..count).collect();
    Random::new(seed).shuffle(&mut order, control)?;
    let mut taken: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|at| taken[at as usize].take()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn sizes_of_a_class_differ_by_less_than_a_quarter() {
        let mut by_class: HashMap<u64, Vec<u64>> = HashMap::new();
        for bytes in (1..100).chain(1_000..1_300).chain(250_000..250_100) {
            by_class.entry(size_class(bytes)).or_default().push(bytes);
        }
        for sizes in by_class.values().filter(|sizes| sizes[0] >= 4) {
            let (least, most) = (sizes[0], sizes[sizes.len() - 1]);
            assert!(4 * (most - least) < least.max(4), "{least} to {most}");
        }
    }
}
