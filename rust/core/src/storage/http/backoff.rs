//! [`Backoff`]: the waits between the tries of a request, which [`RetryingClient`](super::retrying_client::RetryingClient) makes.

use std::time::Duration;

/// The wait before the second try. Each further one is twice as long.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait that is not asked for by the server.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest wait that a server may ask for by `Retry-After`. With a longer one the request fails.
const LONGEST_REQUESTED: Duration = Duration::from_secs(120);

/// The waits between the tries of a request.
#[derive(Debug)]
pub(crate) struct Backoff {
    tried: u32,
    most: u32,
}

impl Backoff {
    /// For a request that may be repeated `most` times.
    pub(crate) fn new(most: u32) -> Self {
        Self { tried: 0, most }
    }

    /// Starts over after progress.
    pub(crate) fn restart(&mut self) {
        self.tried = 0;
    }

    /// The wait before the next try, no shorter than `requested`; `None` after the last.
    pub(crate) fn next(&mut self, requested: Option<Duration>) -> Option<Duration> {
        if self.tried >= self.most
            || requested.is_some_and(|requested| requested > LONGEST_REQUESTED)
        {
            return None;
        }
        let wait = FIRST.saturating_mul(1 << self.tried.min(16)).min(LONGEST);
        self.tried += 1;
        Some(requested.map_or(wait, |requested| requested.max(wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_end() {
        let mut backoff = Backoff::new(9);
        let waits: Vec<_> = std::iter::from_fn(|| backoff.next(None)).collect();
        assert_eq!(waits.len(), 9);
        assert_eq!((waits[0], waits[1], waits[8]), (FIRST, 2 * FIRST, LONGEST));
        backoff.restart();
        assert_eq!(backoff.next(Some(Duration::from_secs(3))), Some(Duration::from_secs(3)));
        assert_eq!(backoff.next(Some(Duration::from_secs(3600))), None);
    }
}
