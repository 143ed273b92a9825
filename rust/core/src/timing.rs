//! Where the time of a run goes: seconds and CPU seconds of each stage.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use serde::{Deserialize, Serialize};

/// How long a run took.
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
    /// Documents whose tokens a run of the same job had made that was stopped before its end.
    #[serde(default)]
    pub resumed_documents: u64,
    /// Conversations that programs put into text.
    #[serde(default)]
    pub compiled_conversations: u64,
    /// Conversations that the interpreter put into text, or `transformers`.
    #[serde(default)]
    pub interpreted_conversations: u64,
    /// What each stage took, all threads together.
    pub stages: BTreeMap<String, StageTime>,
}

/// What a stage took, all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// Seconds that a processor worked.
    pub cpu: f64,
    /// Seconds that passed, waiting for disks and for processors included.
    pub wall: f64,
}

impl Timing {
    /// What `seconds` were spent on.
    pub(crate) fn new(
        seconds: f64,
        threads: usize,
        (bytes, tokens): (u64, u64),
        work: &Work,
    ) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate needs no more than a float's precision"
        )]
        let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let spent = STAGES.map(|(stage, name)| {
            let Spent { cpu, wall } = work.stages[stage];
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

/// To millionths: what people read, and few enough digits that any JSON reader gives the very number back.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// What time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Bytes from files, cut into blocks; decompression beside it is not counted.
    Read,
    /// Functions of the caller, which are waited for.
    Transform,
    /// Records from bytes.
    Parse,
    /// Text from conversations.
    Render,
    /// Ids from text, and which of them are trained.
    Encode,
    /// Blocks into the log that a stopped job goes on from.
    Keep,
    /// Rows from lengths.
    Plan,
    /// Documents back from the log.
    Gather,
    /// Arrow batches from rows.
    Assemble,
    /// Bytes of batches to files, or batches to the caller.
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

/// What a run did for its output, and what it was spared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) stages: Stages,
    /// Documents that a stopped run of the same job had made.
    pub(crate) resumed_documents: u64,
    pub(crate) rendered: RenderCounts,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.stages += other.stages;
        self.resumed_documents += other.resumed_documents;
        self.rendered += other.rendered;
    }
}

/// How many conversations went which way through their template.
///
/// What a thread has met before decides that at times, so the numbers are those of a run, as its seconds are.
#[derive(Clone, Copy, Debug, Default)]
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

/// What each stage took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stages([Spent; STAGES.len()]);

/// What a stage took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    cpu: Duration,
    wall: Duration,
}

impl Spent {
    /// How long a processor worked.
    pub(crate) fn cpu(self) -> Duration {
        self.cpu
    }

    /// How long it took.
    pub(crate) fn wall(self) -> Duration {
        self.wall
    }
}

impl Index<Stage> for Stages {
    type Output = Spent;

    fn index(&self, stage: Stage) -> &Spent {
        &self.0[stage as usize]
    }
}

impl IndexMut<Stage> for Stages {
    fn index_mut(&mut self, stage: Stage) -> &mut Spent {
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

/// Measures what one thread spends on stages that take turns.
///
/// The clock of a thread's CPU time is slow to read, so it is read at both ends alone, and shared out among the
/// stages as the time that passed is.
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

    /// What the stages took.
    pub(crate) fn stop(self) -> Stages {
        let all: Duration = self.laps.iter().sum();
        // The two clocks tick apart: no stage worked longer than it took.
        let worked = if all.is_zero() { 0.0 } else { self.cpu.elapsed().div_duration_f64(all) };
        Stages(self.laps.map(|wall| Spent { cpu: wall.mul_f64(worked.min(1.0)), wall }))
    }

    /// What one stage took, which was all there was.
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
