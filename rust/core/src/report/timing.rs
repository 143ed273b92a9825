//! [`Timing`]: wall and CPU seconds of each stage of a run.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use serde::{Deserialize, Serialize};

/// The timing of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds from beginning to end.
    pub seconds: f64,
    /// Worker threads.
    pub threads: u64,
    /// Megabytes of input a second.
    pub megabytes_per_second: f64,
    /// Tokens read a second.
    pub tokens_per_second: f64,
    /// Documents whose tokens come from a stopped run of the same job.
    #[serde(default)]
    pub resumed_documents: u64,
    /// Conversations that recorded programs rendered.
    #[serde(default)]
    pub compiled_conversations: u64,
    /// Conversations that the interpreter or `transformers` rendered.
    #[serde(default)]
    pub interpreted_conversations: u64,
    /// The time of each stage, all threads together.
    pub stages: BTreeMap<String, StageTime>,
}

/// The time of a stage, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// CPU seconds.
    pub cpu: f64,
    /// Wall seconds, including waits for disks and processors.
    pub wall: f64,
}

impl Timing {
    /// The timing of a run that took `seconds`.
    pub(crate) fn new(
        seconds: f64,
        threads: usize,
        bytes: u64,
        tokens: u64,
        work: &StageWork,
    ) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate needs no more than a float's precision"
        )]
        let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let spent = STAGES.map(|(stage, name)| {
            let StageDuration { cpu, wall } = work.stages[stage];
            let [cpu, wall] = [cpu, wall].map(|time| rounded(time.as_secs_f64()));
            (name.to_owned(), StageTime { cpu, wall })
        });
        Self {
            seconds: rounded(seconds),
            threads: threads as u64,
            megabytes_per_second: rounded(per_second(bytes) / 1e6),
            tokens_per_second: rounded(per_second(tokens)),
            resumed_documents: work.resumed_documents,
            compiled_conversations: work.rendered.compiled,
            interpreted_conversations: work.rendered.interpreted,
            stages: spent.into(),
        }
    }
}

/// Rounds to millionths: enough for people, and few enough digits that every JSON reader returns the same
/// number.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A share, rounded; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a share needs no more than a float's precision")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { rounded(part as f64 / whole as f64) }
}

/// A stage of a run, as time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reads files and cuts them into blocks; decompression on another thread is not counted.
    Read,
    /// Runs the caller's functions, waits included.
    Transform,
    /// Parses records.
    Parse,
    /// Renders conversations.
    Render,
    /// Encodes text, and finds the trained tokens.
    Encode,
    /// Writes blocks to the log that a stopped job resumes from.
    Keep,
    /// Plans rows.
    Plan,
    /// Reads documents back from the log.
    Gather,
    /// Assembles Arrow batches.
    Assemble,
    /// Writes batches to files, or hands them to the caller.
    Write,
}

/// The stages in their order, by name.
const STAGES: [(Stage, &str); 10] = [
    (Stage::Read, "read"),
    (Stage::Transform, "transform"),
    (Stage::Parse, "parse"),
    (Stage::Render, "render"),
    (Stage::Encode, "encode"),
    (Stage::Keep, "keep"),
    (Stage::Plan, "plan"),
    (Stage::Gather, "gather"),
    (Stage::Assemble, "assemble"),
    (Stage::Write, "write"),
];

/// The time of each stage, and the work that was resumed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StageWork {
    pub(crate) stages: Stages,
    /// Documents that come from a stopped run of the same job.
    pub(crate) resumed_documents: u64,
    pub(crate) rendered: RenderCounts,
}

impl AddAssign for StageWork {
    fn add_assign(&mut self, other: Self) {
        self.stages += other.stages;
        self.resumed_documents += other.resumed_documents;
        self.rendered += other.rendered;
    }
}

/// The number of conversations rendered by programs, and by the interpreter.
///
/// At times the numbers depend on the conversations that a thread has met before. So they belong to a run, as its seconds do.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RenderCounts {
    pub(crate) compiled: u64,
    pub(crate) interpreted: u64,
}

impl AddAssign for RenderCounts {
    fn add_assign(&mut self, other: Self) {
        self.compiled += other.compiled;
        self.interpreted += other.interpreted;
    }
}

/// The time of each stage.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Stages([StageDuration; STAGES.len()]);

/// The time of one stage.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StageDuration {
    cpu: Duration,
    wall: Duration,
}

impl StageDuration {
    /// CPU time.
    pub(crate) fn cpu(self) -> Duration {
        self.cpu
    }

    /// Wall time.
    pub(crate) fn wall(self) -> Duration {
        self.wall
    }
}

impl Index<Stage> for Stages {
    type Output = StageDuration;

    fn index(&self, stage: Stage) -> &StageDuration {
        &self.0[stage as usize]
    }
}

impl IndexMut<Stage> for Stages {
    fn index_mut(&mut self, stage: Stage) -> &mut StageDuration {
        &mut self.0[stage as usize]
    }
}

impl AddAssign for Stages {
    fn add_assign(&mut self, other: Self) {
        for (spent, more) in self.0.iter_mut().zip(other.0) {
            spent.cpu += more.cpu;
            spent.wall += more.wall;
        }
    }
}

/// Measures the time of stages that take turns on one thread.
///
/// The clock of a thread's CPU time is slow to read. So it is read at the start and the end only, and the CPU
/// time is shared out among the stages by their wall time.
pub(crate) struct Clock {
    laps: [Duration; STAGES.len()],
    lap: Instant,
    cpu: ThreadTime,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { laps: Default::default(), lap: Instant::now(), cpu: ThreadTime::now() }
    }

    /// Adds the time since the last lap, or the start, to a stage.
    pub(crate) fn lap(&mut self, stage: Stage) {
        let now = Instant::now();
        self.laps[stage as usize] += now - self.lap;
        self.lap = now;
    }

    /// The time of each stage.
    pub(crate) fn stop(self) -> Stages {
        let all: Duration = self.laps.iter().sum();
        // The two clocks tick apart. No stage has more CPU time than wall time.
        let worked = if all.is_zero() { 0.0 } else { self.cpu.elapsed().div_duration_f64(all) };
        Stages(self.laps.map(|wall| StageDuration { cpu: wall.mul_f64(worked.min(1.0)), wall }))
    }

    /// Stops the clock, and counts all time for one stage.
    pub(crate) fn stop_after(mut self, stage: Stage) -> Stages {
        self.lap(stage);
        self.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_name_in_its_place() {
        for (index, (stage, _)) in STAGES.into_iter().enumerate() {
            assert_eq!(stage as usize, index);
        }
    }

    #[test]
    fn a_stage_that_waits_takes_time_but_no_processor() {
        let mut clock = Clock::start();
        let mut sum = 0_u64;
        while clock.lap.elapsed() < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        clock.lap(Stage::Encode);
        let worked = clock.stop();
        let waited = {
            let clock = Clock::start();
            std::thread::sleep(Duration::from_millis(20));
            clock.stop_after(Stage::Write)
        };
        assert!(worked[Stage::Encode].cpu > waited[Stage::Write].cpu);
        assert!(waited[Stage::Write].wall >= Duration::from_millis(20));
        assert!(waited[Stage::Write].cpu < Duration::from_millis(10));
        let mut both = worked;
        both += waited;
        assert_eq!(both[Stage::Encode].wall, worked[Stage::Encode].wall);
        assert_eq!(both[Stage::Write].cpu, waited[Stage::Write].cpu);
    }
}
