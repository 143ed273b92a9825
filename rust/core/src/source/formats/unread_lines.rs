//! [`UnreadLines`]: lines whose place in a file is known, and which any thread reads.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::util::disk::local_file::SharedFile;

/// Whole lines of a file of the local disk.
#[derive(Debug)]
pub(crate) struct UnreadLines {
    pub(crate) file: Arc<SharedFile>,
    pub(crate) bytes: Range<u64>,
    /// The number of the first line.
    pub(crate) first_line: LineNumber,
    /// The number of the line behind the last.
    pub(crate) next_line: NextLine,
    /// True if an index line stands before each record.
    pub(crate) indexed: bool,
}

impl UnreadLines {
    /// The number of the first line, and the lines.
    pub(crate) fn read(self) -> Result<(u64, Vec<u8>)> {
        let Self { file, bytes: Range { start, end }, first_line, next_line, .. } = self;
        let length = usize::try_from(end - start).expect("a block fits into memory");
        let mut bytes = vec![0; length];
        file.read_at(&mut bytes, start)?;
        let lines = count_lines(&bytes);
        let first_line = first_line.get()?;
        next_line.set(first_line + lines);
        Ok((first_line, bytes))
    }
}

/// The number of newlines.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The number of a line that is known once the lines before it have been counted.
#[derive(Clone, Debug)]
pub(crate) struct LineNumber(Arc<OnceLock<Option<u64>>>);

impl LineNumber {
    /// A number that is known.
    pub(crate) fn known(number: u64) -> Self {
        Self(Arc::new(OnceLock::from(Some(number))))
    }

    /// A number that is not known, and the way to set it.
    pub(crate) fn unknown() -> (Self, NextLine) {
        let number = Self(Arc::default());
        (number.clone(), NextLine(number))
    }

    /// Waits for the number. It fails if the lines before it were not counted, which has ended the run.
    pub(crate) fn get(&self) -> Result<u64> {
        self.0.wait().ok_or(Error::Cancelled)
    }
}

/// Sets a [`LineNumber`]. Those that wait for it fail if this is dropped without.
#[derive(Debug)]
pub(crate) struct NextLine(LineNumber);

impl NextLine {
    fn set(self, number: u64) {
        // It is set once: this is consumed.
        let _ = self.0.0.set(Some(number));
    }
}

impl Drop for NextLine {
    fn drop(&mut self) {
        let _ = self.0.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::thread;

    use proptest::prelude::*;

    use super::*;
    use crate::source::block::{BlockContent, BlockReader};
    use crate::source::decompressed_input::InputBytes;
    use crate::source::formats::lines::LineReader;
    use crate::storage::Location;
    use crate::util::control::Control;

    /// The first line, the text, and the place in the file behind it, of each block.
    type Blocks = Vec<(u64, Vec<u8>, u64)>;

    fn reader(path: &Path) -> LineReader {
        let input = InputBytes::open(&Location::Local(Arc::from(path)), None).expect("the file");
        LineReader::of_whole_file(input, false).expect("the file")
    }

    fn lines(content: Option<BlockContent>) -> Option<(u64, Vec<u8>)> {
        match content? {
            BlockContent::Lines { first_line, bytes, .. } => Some((first_line, bytes)),
            other => panic!("{other:?}"),
        }
    }

    fn read_on_the_spot(path: &Path) -> Blocks {
        let (mut reader, mut blocks) = (reader(path), Vec::new());
        while let Some((line, text)) =
            lines(reader.next_content(&Control::default()).expect("the file"))
        {
            blocks.push((line, text, reader.position()));
        }
        blocks
    }

    /// Reads each block on a thread of its own where that is possible. Also returns the number of these.
    fn read_by_threads(path: &Path) -> (Blocks, usize) {
        let mut reader = reader(path);
        let mut blocks = Vec::new();
        loop {
            if let Some(unread) = reader.next_unread().expect("the file") {
                let thread = thread::spawn(move || unread.read().expect("the file"));
                blocks.push((Ok(thread), reader.position()));
                continue;
            }
            let content = reader.next_content(&Control::default()).expect("the file");
            let Some(lines) = lines(content) else { break };
            blocks.push((Err(lines), reader.position()));
        }
        let by_threads = blocks.iter().filter(|(block, _)| block.is_ok()).count();
        let read = blocks.into_iter().map(|(block, position)| {
            let (line, text) = match block {
                Ok(thread) => thread.join().expect("a block"),
                Err(lines) => lines,
            };
            (line, text, position)
        });
        (read.collect(), by_threads)
    }

    fn written(lines: &[(usize, bool)], ends: bool) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        for (number, (length, carriage)) in lines.iter().enumerate() {
            let mut line = vec![b'a' + u8::try_from(number % 26).expect("a letter"); *length];
            line.extend_from_slice(if *carriage { b"\r\n" } else { b"\n" });
            if number + 1 == lines.len() && !ends {
                line.truncate(*length);
            }
            file.write_all(&line).expect("room");
        }
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn blocks_read_by_threads_are_those_read_on_the_spot(
            lines in prop::collection::vec(
                (prop_oneof![20 => 0..3_000_usize, 3 => 7_000..70_000_usize, 1 => 200_000..600_000_usize], any::<bool>()),
                0..900,
            ),
            ends in any::<bool>(),
        ) {
            let file = written(&lines, ends);
            prop_assert_eq!(read_by_threads(file.path()).0, read_on_the_spot(file.path()));
        }
    }

    #[test]
    fn most_blocks_of_usual_lines_are_read_by_threads() {
        let file = written(&vec![(1_000, false); 5_000], true);
        let (blocks, by_threads) = read_by_threads(file.path());
        assert_eq!((blocks.len(), by_threads), (20, 18), "all but the first and the last");
    }

    #[test]
    fn a_block_that_is_not_read_stops_those_behind_it() {
        let file = written(&vec![(1_000, false); 5_000], true);
        let mut reader = reader(file.path());
        reader.next_content(&Control::default()).expect("the file");
        let mut next = || reader.next_unread().expect("the file").expect("a block");
        let (first, second, third) = (next(), next(), next());
        drop(second);
        assert!(first.read().is_ok());
        assert!(matches!(third.read(), Err(Error::Cancelled)));
        assert!(matches!(reader.next_content(&Control::default()), Err(Error::Cancelled)));
    }

    #[test]
    fn a_file_that_changed_before_a_block_was_read_gives_an_error() {
        for (size, is_found) in [(1_000, false), (1_000, true), (6_000_000, true)] {
            let file = written(&vec![(1_000, false); 5_000], true);
            let mut reader = reader(file.path());
            reader.next_content(&Control::default()).expect("the file");
            let found = is_found.then(|| reader.next_unread());
            file.as_file().set_len(size).expect("a file");
            let unread = found.unwrap_or_else(|| reader.next_unread());
            let read = unread.and_then(|block| block.expect("a block").read());
            assert!(matches!(read, Err(Error::Changed(path)) if path == file.path()));
        }
    }
}
