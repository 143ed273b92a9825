//! The places of an input that are verified: evenly spread, and the same in every run.

/// The number of `sampled` places, spread over `all`, that lie before `at`.
pub(crate) fn places_before(at: u64, all: u64, sampled: u64) -> u64 {
    let places = (u128::from(at) * u128::from(sampled)).div_ceil(u128::from(all.max(1)));
    u64::try_from(places).unwrap_or(u64::MAX).min(sampled)
}

#[cfg(test)]
mod tests {
    use super::places_before;

    #[test]
    fn places_are_as_many_as_asked_and_spread_evenly() {
        for (all, sampled) in [(10, 0), (10, 1), (10, 3), (10, 10), (1, 1), (1000, 7)] {
            let has =
                |at: &u64| places_before(*at, all, sampled) < places_before(at + 1, all, sampled);
            let places: Vec<u64> = (0..all).filter(has).collect();
            assert_eq!(places.len() as u64, sampled);
            let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.into_iter().all(|gap| gap <= all.div_ceil(sampled)), "{places:?}");
        }
    }

    #[test]
    fn more_places_than_there_are_are_all_of_them() {
        assert_eq!(places_before(3, 3, 99), 99);
        assert_eq!(places_before(0, 3, 99), 0);
    }
}
