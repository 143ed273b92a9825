//! [`SimulatedMachine`]: waits in place of work, on a number of cores that share memory and a disk.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Cores that wait, with the memory and the disk that they share.
#[derive(Debug)]
pub(crate) struct SimulatedMachine {
    /// How many times as long as the work a wait takes. Then what the threads themselves do between waits hardly counts.
    stretch: u32,
    idle: Mutex<usize>,
    freed: Condvar,
    memory: SharedChannel,
    disk: SharedChannel,
    busy: Mutex<BTreeMap<&'static str, Duration>>,
}

/// A kind of work, whose time is added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkKind(pub(crate) &'static str);

/// The bytes that a piece of work moves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) memory: u64,
    pub(crate) disk: u64,
}

/// A way for bytes, of which so many pass a second. All cores share it.
#[derive(Debug)]
struct SharedChannel {
    bytes_a_second: f64,
    passed: Mutex<ChannelUse>,
}

#[derive(Debug, Default)]
struct ChannelUse {
    /// The time that all bytes so far take.
    time: Duration,
    /// The time at which they have passed.
    end: Option<Instant>,
}

/// The rates of what all cores share, in bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) memory: f64,
    pub(crate) disk: f64,
}

thread_local! {
    /// The time by which waits of this thread were too long so far. The next wait is shorter by it.
    static OVERSLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl SimulatedMachine {
    pub(crate) fn new(cores: usize, rates: Rates, stretch: u32) -> Self {
        Self {
            stretch,
            idle: Mutex::new(cores),
            freed: Condvar::new(),
            memory: SharedChannel::new(rates.memory),
            disk: SharedChannel::new(rates.disk),
            busy: Mutex::default(),
        }
    }

    /// Takes a core for as long as a piece of work takes, or as its bytes take if that is longer.
    pub(crate) fn work(&self, kind: WorkKind, time: Duration, moved: Moved) {
        let mut idle = lock(&self.idle);
        while *idle == 0 {
            idle = self.freed.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
        *idle -= 1;
        drop(idle);
        let begun = Instant::now();
        let passed = [
            self.memory.pass(moved.memory, begun, self.stretch),
            self.disk.pass(moved.disk, begun, self.stretch),
        ];
        let end = passed.into_iter().fold(begun + time * self.stretch, Instant::max);
        wait_until(end);
        *lock(&self.busy).entry(kind.0).or_default() += time;
        *lock(&self.idle) += 1;
        self.freed.notify_one();
    }

    /// The time of each kind of work so far, on all cores together.
    pub(crate) fn busy(&self) -> BTreeMap<&'static str, Duration> {
        lock(&self.busy).clone()
    }

    /// The time that the bytes so far take memory, and the disk.
    pub(crate) fn passed(&self) -> [Duration; 2] {
        [&self.memory, &self.disk].map(|channel| lock(&channel.passed).time)
    }

    /// The time since `begun`, as it would be without stretching.
    pub(crate) fn elapsed(&self, begun: Instant) -> Duration {
        begun.elapsed() / self.stretch
    }
}

impl SharedChannel {
    fn new(bytes_a_second: f64) -> Self {
        Self { bytes_a_second, passed: Mutex::default() }
    }

    /// The time at which some bytes have passed, behind all others.
    #[expect(clippy::cast_precision_loss, reason = "far fewer bytes than 2^53")]
    fn pass(&self, bytes: u64, now: Instant, stretch: u32) -> Instant {
        if bytes == 0 {
            return now;
        }
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_a_second);
        let mut passed = lock(&self.passed);
        let end = passed.end.map_or(now, |end| end.max(now)) + takes * stretch;
        *passed = ChannelUse { time: passed.time + takes, end: Some(end) };
        end
    }
}

/// Sleeps until `end`, or earlier by the time that this thread slept too long before.
fn wait_until(end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    let owed = OVERSLEPT.get().min(left);
    OVERSLEPT.set(OVERSLEPT.get().saturating_sub(owed));
    let wake = end.checked_sub(owed).unwrap_or(end);
    let left = wake.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
    OVERSLEPT.set(OVERSLEPT.get() + Instant::now().saturating_duration_since(wake));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: WorkKind = WorkKind("work");
    const FAST: Rates = Rates { memory: f64::INFINITY, disk: f64::INFINITY };

    /// The seconds that 64 pieces of work of 5 ms take 16 threads.
    fn seconds(machine: &SimulatedMachine, moved: Moved) -> f64 {
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        machine.work(KIND, Duration::from_millis(5), moved);
                    }
                });
            }
        });
        machine.elapsed(begun).as_secs_f64()
    }

    #[test]
    fn cores_share_the_work() {
        for cores in [1, 4, 16] {
            let machine = SimulatedMachine::new(cores, FAST, 2);
            let taken = seconds(&machine, Moved::default());
            let least = 0.32 / f64::from(u32::try_from(cores).expect("few cores"));
            assert!((least * 0.99..least * 2.0).contains(&taken), "{cores} cores took {taken} s");
            assert_eq!(machine.busy()["work"], Duration::from_millis(320));
        }
    }

    #[test]
    fn bytes_pass_at_their_rate_whatever_the_cores() {
        let machine = SimulatedMachine::new(16, Rates { memory: 64e6, ..FAST }, 2);
        let taken = seconds(&machine, Moved { memory: 100_000, disk: 0 });
        assert!((0.09..0.2).contains(&taken), "6.4 MB took {taken} s");
    }
}
