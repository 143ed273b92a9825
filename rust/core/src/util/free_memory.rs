//! [`require`]: checks that there is memory for an option's value, before it is allocated.
//!
//! An allocation that fails ends the process, and one that only seems to succeed has the system end it later.
//! So sizes that options can make arbitrarily large are compared with the memory that is left.

use crate::error::{Error, Result};

/// Bytes below which memory is not checked: every machine has them, and checking takes longer than many
/// plans.
pub(crate) const USUAL: u64 = 256 << 20;

/// Fails with [`Error::Option`] about `option` if there is no memory for this many more bytes. `what` names
/// the taker, as in "`max_length` is so large that {what}".
pub(crate) fn require(
    bytes: u64,
    option: &'static str,
    what: impl FnOnce() -> String,
) -> Result<()> {
    if bytes <= USUAL {
        return Ok(());
    }
    let left = left();
    let reserved =
        || usize::try_from(bytes).is_ok_and(|it| Vec::<u8>::new().try_reserve_exact(it).is_ok());
    if left.is_none_or(|left| bytes <= left) && reserved() {
        return Ok(());
    }
    let left = left.map_or_else(String::new, |left| format!(", and {} are left", ShownBytes(left)));
    Err(Error::option(
        option,
        format!("{}, which takes {} of memory{left}", what(), ShownBytes(bytes)),
    ))
}

/// Bytes, as a message shows them.
pub(crate) struct ShownBytes(pub(crate) u64);

impl std::fmt::Display for ShownBytes {
    #[expect(clippy::cast_precision_loss, reason = "a number for people")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes @ ..1_000_000_000 => write!(f, "{} MB", bytes.div_ceil(1_000_000)),
            bytes => write!(f, "{:.1} GB", bytes as f64 / 1e9),
        }
    }
}

/// Bytes of memory and swap that this process can still get; `None` where the system does not tell.
pub(crate) fn left() -> Option<u64> {
    let machine = machine(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own.lines().find_map(|line| line.strip_prefix("0::")).and_then(group);
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// The available memory and swap by `/proc/meminfo`.
fn machine(meminfo: &str) -> Option<u64> {
    let kilobytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(1024 * (kilobytes("MemAvailable")? + kilobytes("SwapFree").unwrap_or(0)))
}

/// The memory left in the control group of this process and in all groups around it (version 2).
fn group(own: &str) -> Option<u64> {
    let root = std::path::Path::new("/sys/fs/cgroup");
    let read =
        |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let folders =
        std::path::Path::new(own.trim_start_matches('/')).ancestors().map(|it| root.join(it));
    folders
        .filter_map(|folder| {
            let most = read(folder.join("memory.max"))?;
            Some(most.saturating_sub(read(folder.join("memory.current"))?))
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_with_what_it_takes() {
        let refused = require(1 << 60, "max_length", || "fills every row".to_owned());
        let message = refused.expect_err("no machine has an exabyte").to_string();
        assert!(
            message.contains("`max_length`: fills every row, which takes 1152921504.6 GB"),
            "{message}"
        );
        require(USUAL, "max_length", || unreachable!("it is usual")).expect("every machine has it");
    }

    #[test]
    fn what_the_system_says_is_read() {
        let meminfo = "MemTotal:  100 kB\nMemAvailable:     20 kB\nSwapFree:   3 kB\n";
        assert_eq!(machine(meminfo), Some(23 * 1024));
        assert_eq!(machine("nothing of the kind"), None);
    }
}
