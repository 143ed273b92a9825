//! [`ShardsInOrder`]: the shards of a run that are being written: the current one, and ended ones that threads still write.

use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;

use super::shard::{EndedShard, Shard};
use crate::error::Result;
use crate::report::timing::Stages;
use crate::sink::manifest::WrittenShard;

/// Shards that are written at a time. One thread at a time writes to a file, and hands a few gigabytes a second to the system.
const AT_A_TIME: usize = 8;

/// The shards of a run that are being written. They become whole in any order, and are handed out in theirs.
#[derive(Default)]
pub(crate) struct ShardsInOrder {
    current: Option<Box<Shard>>,
    ended: VecDeque<EndedShard>,
}

impl ShardsInOrder {
    /// True if a shard takes rows.
    pub(crate) fn has_current(&self) -> bool {
        self.current.is_some()
    }

    /// The number of ended shards that were not handed out.
    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Takes the next shard.
    pub(crate) fn begin(&mut self, shard: Shard) {
        self.current = Some(Box::new(shard));
    }

    /// Appends rows to the current shard.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.current.as_mut().expect("a shard has begun").write(batch)
    }

    /// Ends the current shard, if there is one. It gets the name `name` in the manifest.
    pub(crate) fn end(&mut self, name: String) -> Result<()> {
        if let Some(shard) = self.current.take() {
            self.ended.push_back(shard.end(name)?);
        }
        Ok(())
    }

    /// The next ended shard, if it is whole, or if so many wait that no other may begin before.
    pub(crate) fn next_whole(&mut self) -> Result<Option<(WrittenShard, Stages)>> {
        let is_whole = self.ended.front().is_some_and(EndedShard::is_done);
        let has_room = self.has_current() || self.ended.len() < AT_A_TIME;
        if is_whole || !has_room { self.wait_for_next() } else { Ok(None) }
    }

    /// Waits for the next ended shard.
    pub(crate) fn wait_for_next(&mut self) -> Result<Option<(WrittenShard, Stages)>> {
        self.ended.pop_front().map(EndedShard::wait).transpose()
    }

    /// Waits until the rows of the current shard are encoded, except those of an unfilled row group. Returns the time of all threads.
    pub(crate) fn settle(&mut self) -> Result<Stages> {
        self.current.as_mut().map_or_else(|| Ok(Stages::default()), |shard| shard.settle())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int32Array};
    use arrow::datatypes::Int32Type;
    use arrow::ipc::reader::StreamReader;

    use super::*;
    use crate::config::{Format, RowEncoding, RowLayout};
    use crate::error::Error;
    use crate::sink::shards::row_threads::RowThreads;
    use crate::util::control::Control;
    use crate::util::start_thread::tests::with_at_most;

    const CODING: RowEncoding =
        RowEncoding { format: Format::Arrow, layout: RowLayout::Full, compression: None };

    fn threads(number: usize, room: u64, control: &Control) -> RowThreads {
        let threads = RowThreads::new(control);
        threads.limit(NonZeroUsize::new(number).expect("a test with threads"), room);
        threads
    }

    fn batch(shard: i32, values: i32) -> RecordBatch {
        let column: ArrayRef =
            Arc::new(Int32Array::from_iter_values((0..values).map(|at| at ^ shard)));
        RecordBatch::try_from_iter([("values", column)]).expect("one column")
    }

    /// The values of a shard: few, those of a file that is ended on a thread of its own, and some between.
    fn values(shard: i32) -> Vec<i32> {
        (0..shard % 5)
            .map(|at| [3, 70_001, 5 << 20][usize::try_from((shard + at) % 3).expect("above zero")])
            .collect()
    }

    /// Writes shards into `dir`. Returns the names of those that became whole, in the order in which they were handed out.
    fn write(dir: &Path, shards: i32, threads: &RowThreads) -> Result<Vec<WrittenShard>> {
        let (mut open, mut whole) = (ShardsInOrder::default(), Vec::new());
        for shard in 0..shards {
            while let Some((shard, _)) = open.next_whole()? {
                whole.push(shard);
            }
            assert!(open.ended() < AT_A_TIME, "no other shard begins before");
            let path = dir.join(shard.to_string());
            let first = batch(shard, 1);
            open.begin(Shard::create(&path, CODING, &first.schema(), threads)?);
            open.write(&first)?;
            values(shard).into_iter().try_for_each(|count| open.write(&batch(shard, count)))?;
            open.end(shard.to_string())?;
        }
        while let Some((shard, _)) = open.wait_for_next()? {
            whole.push(shard);
        }
        Ok(whole)
    }

    #[test]
    fn shards_are_written_side_by_side_and_handed_out_in_their_order() {
        for (number, room, started) in
            [(1, 0, 1), (1, 1 << 30, 3), (3, 50 << 20, 40), (33, 1 << 30, 40), (8, 0, 0)]
        {
            let dir = tempfile::tempdir().expect("a folder for temporary files");
            let whole = with_at_most(started, || {
                write(dir.path(), 14, &threads(number, room, &Control::default()))
            });
            let whole = whole.expect("room");
            let names: Vec<String> = whole.iter().map(|shard| shard.name.clone()).collect();
            assert_eq!(names, (0..14).map(|it| it.to_string()).collect::<Vec<_>>());
            for (shard, written) in (0..).zip(&whole) {
                let bytes = std::fs::read(dir.path().join(&written.name)).expect("the file");
                assert_eq!(written.bytes, bytes.len() as u64);
                assert_eq!(written.blake3, blake3::hash(&bytes).to_hex().as_str());
                let read = StreamReader::try_new(bytes.as_slice(), None).expect("a file of rows");
                let read: Vec<RecordBatch> = read.map(|batch| batch.expect("rows")).collect();
                let expected =
                    [1].into_iter().chain(values(shard)).map(|count| batch(shard, count));
                assert_eq!(read, expected.collect::<Vec<_>>(), "{shard}");
                let rows =
                    read.iter().map(|it| it.column(0).as_primitive::<Int32Type>().len() as u64);
                assert_eq!(written.rows, rows.sum::<u64>());
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_failure_of_a_shard_ends_those_that_begin_after_it() {
        use crate::sink::shards::disk_file::DiskFile;
        use crate::sink::shards::shard_file::{ShardContent, ShardFile};

        let dir = tempfile::tempdir().expect("a folder for temporary files");
        for (number, room) in [(1, 0), (3, 0), (3, 1 << 30)] {
            let threads = threads(number, room, &Control::default());
            let mut open = ShardsInOrder::default();
            let rows = batch(0, 1 << 20);
            let full = Path::new("/dev/full");
            let file = std::fs::File::options().write(true).open(full).expect("a device");
            let content = ShardContent::new(CODING, &rows.schema()).expect("a schema");
            open.begin(Shard::of(ShardFile::of(
                DiskFile::of(file, &threads.cached),
                full,
                content,
                &threads,
            )));
            let mut work = || -> Result<()> {
                (0..3).try_for_each(|_| open.write(&rows))?;
                open.end("full".to_owned())?;
                let path = dir.path().join(format!("{number}-{room}"));
                open.begin(Shard::create(&path, CODING, &rows.schema(), &threads)?);
                for _ in 0..100 {
                    open.next_whole()?;
                    open.write(&rows)?;
                }
                open.end("sound".to_owned())?;
                while open.wait_for_next()?.is_some() {}
                Ok(())
            };
            let failed = work();
            assert!(
                matches!(&failed, Err(Error::Io { path, .. }) if path == full),
                "{number} threads, room for {room}: {failed:?}"
            );
        }
    }

    #[test]
    fn a_cancelled_run_waits_for_no_shard() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let control = Control::default();
        let threads = threads(2, 0, &control);
        let mut open = ShardsInOrder::default();
        for shard in 0..3 {
            let rows = batch(shard, 1 << 20);
            let path = dir.path().join(shard.to_string());
            open.begin(Shard::create(&path, CODING, &rows.schema(), &threads).expect("room"));
            open.write(&rows).expect("room");
            open.end(shard.to_string()).expect("room");
        }
        control.cancel();
        assert!(matches!(open.wait_for_next(), Err(Error::Cancelled)));
    }
}
