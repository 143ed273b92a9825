//! [`RowCounts`]: the rows that each lane of a finite run has, counted once and kept in a folder.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::stream_options::{OnEnd, RankRows};
use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::disk::file_lock::FileLock;
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::sealed;
use crate::util::disk::sealed::Sealed;

/// The interval at which a waiting run checks the lock of a count.
const POLL: Duration = Duration::from_millis(20);

/// Digits of the hash in the name of a file.
const DIGITS: usize = 32;

/// The rows that each lane of a finite run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCounts {
    /// The rows of each lane.
    pub rows: Vec<u64>,
    /// The tokens in all rows.
    pub tokens: u64,
    /// The tables that each rank takes.
    #[serde(skip)]
    pub steps: u64,
}

/// The file of a count.
#[derive(Serialize, Deserialize)]
struct CountFile<T> {
    /// The hash of all that decides the count.
    run: String,
    counted: T,
}

impl RowCounts {
    /// The number of steps of all ranks from the row `first` of the run on.
    pub fn steps(&self, end: OnEnd, share: RankRows, first: u64) -> u64 {
        let lanes = self.rows.len() as u64;
        let rows = (0..).zip(&self.rows);
        match end {
            OnEnd::Pad | OnEnd::Repeat => {
                let ends = rows.filter(|(_, rows)| **rows > 0);
                let ends = ends.map(|(lane, rows)| (rows - 1) * lanes + lane + 1);
                ends.max().unwrap_or(0).saturating_sub(first).div_ceil(share.step())
            }
            OnEnd::Drop => {
                let ends = rows.map(|(lane, rows)| rows * lanes + lane);
                ends.min().unwrap_or(0).saturating_sub(first) / share.step()
            }
        }
    }

    /// The number of rows from the row `first` of the run on.
    pub(super) fn rows_from(&self, first: u64) -> u64 {
        let lanes = self.rows.len() as u64;
        let before = |lane: u64| first.saturating_sub(lane).div_ceil(lanes);
        (0..).zip(&self.rows).map(|(lane, rows)| rows.saturating_sub(before(lane))).sum()
    }
}

/// The count in the folder `dir` under the name `run`, a hash of all that decides it, or that of `count`, which is
/// written there. One of several processes counts, and the others wait for it.
pub(super) fn kept<T: Serialize + DeserializeOwned + Clone>(
    dir: &Path,
    run: &str,
    control: &Control,
    count: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let place = |end: &str| dir.join(format!("stream-{}.{end}", &run[..DIGITS]));
    let path = place("json");
    if let Some(counted) = read(&path, run)? {
        return Ok(counted);
    }
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let _lock = lock(&place("lock"), control)?;
    if let Some(counted) = read(&path, run)? {
        return Ok(counted);
    }
    let counted = count()?;
    sealed::keep(&path, &CountFile { run: run.to_owned(), counted: counted.clone() })?;
    Ok(counted)
}

/// The count in a file, if it is whole and of this run.
fn read<T: DeserializeOwned>(path: &Path, run: &str) -> Result<Option<T>> {
    let Sealed::Whole(text) = sealed::read(path, Links::Refused).map_err(Error::io(path))? else {
        return Ok(None);
    };
    let written: Option<CountFile<T>> = serde_json::from_slice(&text).ok();
    Ok(written.filter(|written| written.run == run).map(|written| written.counted))
}

/// Locks a file until it is dropped. Waits while another process has it.
fn lock(path: &Path, control: &Control) -> Result<FileLock> {
    let file = FileLock::from(regular::open_to_write(path).map_err(Error::io(path))?);
    loop {
        control.tick()?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => thread::sleep(POLL),
            // On a file system without locks, several processes count.
            Ok(()) | Err(fs::TryLockError::Error(_)) => return Ok(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_while_rows_were_counted_keeps_no_other_from_counting() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("lock");
        let held = lock(&path, &Control::default()).expect("nobody else has it");
        let _inherited = held.try_clone().expect("a copy");
        drop(held);
        assert!(regular::open_to_write(&path).expect("the file").try_lock().is_ok());
    }

    #[test]
    fn ranks_end_with_the_last_row_or_before_the_first_that_is_missing() {
        let share = |world_size| RankRows { lanes: 4, batch: 1, rank: 0, world_size };
        let counted = |rows: &[u64]| RowCounts { rows: rows.to_vec(), tokens: 0, steps: 0 };
        // Row 10 is the third of lane 2; row 3, of lane 3, is the first that is missing.
        let uneven = counted(&[1, 2, 3, 0]);
        assert_eq!(uneven.steps(OnEnd::Pad, share(2), 0), 6);
        assert_eq!(uneven.steps(OnEnd::Pad, share(4), 6), 2);
        assert_eq!(uneven.steps(OnEnd::Pad, share(2), 11), 0);
        assert_eq!(uneven.steps(OnEnd::Repeat, share(4), 0), 3);
        assert_eq!(uneven.steps(OnEnd::Drop, share(2), 0), 1);
        assert_eq!(uneven.rows_from(2), 4);
        assert_eq!(uneven.rows_from(12), 0);
        assert_eq!(counted(&[0, 0, 0, 0]).steps(OnEnd::Pad, share(2), 0), 0);
        assert_eq!(counted(&[2, 2, 2, 2]).steps(OnEnd::Drop, share(2), 0), 4);
    }
}
