//! [`retry`]: repeats an operation on a local file that failed for a reason which can pass.
//!
//! A folder of a network is local to a program: its server may restart, or a mount may be renewed, while a run of days
//! reads. Requests for objects of remote storage are repeated elsewhere.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::Duration;

/// The waiting time before the first repetition; each later one takes twice as long.
const FIRST: Duration = Duration::from_millis(20);

/// The most repetitions. Together they wait for 1.3 seconds: a call of a mounted network folder has waited long by
/// itself before it fails.
const MOST: u32 = 6;

/// The number of the error of a device that did not answer, on Unix.
const DEVICE_ERROR: i32 = 5;

/// Does `what`, and does it again after a while if it fails for a reason that can pass.
pub(crate) fn retry<T>(what: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    repeated(FIRST, what)
}

/// [`retry`] with another waiting time.
fn repeated<T>(first: Duration, mut what: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for turn in 0..MOST {
        match what() {
            Err(error) if can_pass(&error) => thread::sleep(first * 2_u32.pow(turn)),
            done => return done,
        }
    }
    what()
}

/// True if the reason of an error can pass.
fn can_pass(error: &io::Error) -> bool {
    let is_device = cfg!(unix) && error.raw_os_error() == Some(DEVICE_ERROR);
    let kinds = [ErrorKind::TimedOut, ErrorKind::StaleNetworkFileHandle, ErrorKind::ResourceBusy];
    is_device || kinds.contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of an operation that fails `failures` times by `error`, and the number of times that it was done.
    fn done(failures: u32, error: impl Fn() -> io::Error) -> (io::Result<u32>, u32) {
        let mut times = 0;
        let result = repeated(Duration::ZERO, || {
            times += 1;
            if times > failures { Ok(times) } else { Err(error()) }
        });
        (result, times)
    }

    #[test]
    fn an_error_that_passes_is_not_seen() {
        let (result, times) = done(MOST, || ErrorKind::StaleNetworkFileHandle.into());
        assert_eq!(result.ok(), Some(MOST + 1));
        assert_eq!(times, MOST + 1);
    }

    #[test]
    fn an_error_that_stays_is_returned() {
        let (result, times) = done(u32::MAX, || io::Error::from_raw_os_error(DEVICE_ERROR));
        assert_eq!(result.err().and_then(|error| error.raw_os_error()), Some(DEVICE_ERROR));
        assert_eq!(times, MOST + 1);
    }

    #[test]
    fn an_error_that_cannot_pass_is_returned_at_once() {
        let (result, times) = done(u32::MAX, || ErrorKind::NotFound.into());
        assert_eq!(result.map_err(|error| error.kind()), Err(ErrorKind::NotFound));
        assert_eq!(times, 1);
    }
}
