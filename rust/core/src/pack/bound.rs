//! The lower bound of the number of rows, which plans are compared with.

use std::num::NonZeroU32;

use crate::config::PackOptions;

/// A lower bound of the number of rows of any packing of pieces of these lengths.
///
/// A limit on the documents of a row gives one bound. The other is L2 of Martello and Toth (*Knapsack
/// Problems*, 1990, §8.3): never less than the tokens divided by `max_length`, and more where many pieces are
/// longer than half a row. From the histogram it takes one pass over the lengths that occur.
///
/// # Panics
///
/// If a length is more than `max_length`.
pub fn lower_bound(histogram: &[(u32, u64)], options: &PackOptions) -> u64 {
    let capacity = options.row_limit().get();
    assert!(
        histogram.last().is_none_or(|&(length, _)| length <= capacity),
        "no length exceeds a row"
    );

    let halves = histogram.partition_point(|&(length, _)| length <= capacity / 2);
    let (small, large) = histogram.split_at(halves);
    // Large pieces never share a row. Of their rows, `alone` have no room for any piece of `least` or more.
    let mut alone = 0;
    let mut sharing: u64 = large.iter().map(|&(_, count)| count).sum();
    let mut room: u64 = large.iter().map(|&(length, n)| u64::from(capacity - length) * n).sum();
    let mut small_tokens: u64 = small.iter().map(|&(length, n)| u64::from(length) * n).sum();
    let mut longest_first = large.iter().rev().peekable();

    let rest = |tokens: u64, room: u64| tokens.saturating_sub(room).div_ceil(u64::from(capacity));
    let pieces: u64 = histogram.iter().map(|&(_, count)| count).sum();
    let counted = pieces.div_ceil(u64::from(options.documents_limit()));
    let mut bound = counted.max(sharing + rest(small_tokens, room));
    for &(least, count) in small {
        while let Some(&&(length, n)) = longest_first.peek().filter(|(l, _)| *l > capacity - least)
        {
            longest_first.next();
            alone += n;
            sharing -= n;
            room -= u64::from(capacity - length) * n;
        }
        bound = bound.max(alone + sharing + rest(small_tokens, room));
        small_tokens -= u64::from(least) * count;
    }
    bound
}

/// A lower bound of the number of rows that show so many pictures of so many tokens.
pub fn lower_bound_of_pictures(pictures: u64, tokens: u64, options: &PackOptions) -> u64 {
    let rows = |amount: u64, most: Option<NonZeroU32>| {
        most.map_or(0, |most| amount.div_ceil(u64::from(most.get())))
    };
    rows(pictures, options.max_images_per_pack).max(rows(tokens, options.max_image_tokens_per_pack))
}
