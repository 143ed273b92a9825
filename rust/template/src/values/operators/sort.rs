//! A sort whose comparisons can fail.

use std::cmp::Ordering;

use crate::failure::RenderResult;

/// Sorts the items; equal ones keep their order. The first comparison that fails ends the sort.
pub(crate) fn sort<T>(
    items: Vec<T>,
    mut compare: impl FnMut(&T, &T) -> RenderResult<Ordering>,
) -> RenderResult<Vec<T>> {
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(match pairs.next() {
                Some(right) => merge(left, right, &mut compare)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> RenderResult<Ordering>,
) -> RenderResult<Vec<T>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let smaller = match compare(first, second)? {
            Ordering::Greater => right.next(),
            Ordering::Less | Ordering::Equal => left.next(),
        };
        merged.extend(smaller);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::sort;
    use crate::failure::Failure;

    proptest! {
        #[test]
        fn it_is_stable_like_the_sort_of_the_standard_library(numbers: Vec<u8>) {
            let mut expected: Vec<(u8, usize)> =
                numbers.into_iter().enumerate().map(|(at, number)| (number / 8, at)).collect();
            let found = sort(expected.clone(), |left, right| Ok(left.0.cmp(&right.0)));
            expected.sort_by_key(|(number, _)| *number);
            prop_assert_eq!(found.ok(), Some(expected));
        }
    }

    #[test]
    fn a_comparison_that_fails_ends_it() {
        let failed = sort(vec![2, 1], |_, _| Err(Failure::error("no order")));
        assert_eq!(failed.map_err(Failure::message), Err("no order".to_owned()));
    }
}
