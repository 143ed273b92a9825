//! [`SequentialSample`]: the sample of a file without random access, which is read from its beginning.

use crate::source::block::{Block, RawContent};

/// The part of a file that was read, and the records taken from it, spread evenly.
///
/// Neighbours are taken in groups, as in the windows of other files: a single record would take longer than
/// among others, and make all seem slower. Groups are counted over the whole file, so their blocks do not
/// make one record likelier to be taken than another.
#[derive(Debug)]
pub(crate) struct SequentialSample {
    /// The byte of the file at which to stop; `None` to read it to its end.
    end: u64,
    /// The fraction of the groups that is taken.
    part: f64,
    /// The place of the first taken group between two, from 0 to 1.
    chance: f64,
    /// Records of a group.
    group: u64,
    /// Records that were read.
    records: u64,
    /// The bytes read, and the bytes of text in them. Compressed bytes cannot be assigned to a single record.
    bytes: u64,
    text: u64,
    text_taken: u64,
}

impl SequentialSample {
    /// A fraction `part` of the bytes before `end`, in groups of `group` records. `chance`, from 0 to 1,
    /// selects them.
    pub(crate) fn new(end: u64, part: f64, group: u64, chance: f64) -> Self {
        let (records, bytes, text, text_taken) = (0, 0, 0, 0);
        Self { end, part, chance, group, records, bytes, text, text_taken }
    }

    /// True if no more of the file is to be read.
    pub(crate) fn has_ended(&self) -> bool {
        self.bytes >= self.end
    }

    /// Keeps the taken records of the next block of the file.
    pub(crate) fn thin(&mut self, block: &mut Block) {
        let mut texts: Vec<u64> = block.records().map(|record| length(record.raw)).collect();
        let left = self.end.saturating_sub(self.bytes);
        let size = block.size.min(left);
        if block.size > left {
            // The end of a record in a compressed file is unknown. Only the approximate number before an
            // offset is known.
            let before = texts.len() as u128 * u128::from(left) / u128::from(block.size);
            texts.truncate(usize::try_from(before + 1).unwrap_or(usize::MAX));
        }
        let taken: Vec<bool> = (self.records..).zip(&texts).map(|(at, _)| self.takes(at)).collect();
        self.records += texts.len() as u64;
        self.bytes += size;
        self.text += texts.iter().sum::<u64>();
        self.text_taken +=
            texts.iter().zip(&taken).map(|(text, taken)| text * u64::from(*taken)).sum::<u64>();
        block.keep(&taken);
    }

    /// True if the record of this number is taken.
    #[expect(clippy::cast_precision_loss, reason = "files have fewer records than 2^53")]
    fn takes(&self, record: u64) -> bool {
        let taken_before = |group: u64| (group as f64).mul_add(self.part, self.chance).floor();
        let group = record / self.group;
        taken_before(group + 1) > taken_before(group)
    }

    /// The bytes of the file that were read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes of the records that were taken, estimated by their share of the text.
    pub(crate) fn bytes_taken(&self) -> u64 {
        let taken = u128::from(self.bytes) * u128::from(self.text_taken);
        u64::try_from(taken / u128::from(self.text.max(1))).unwrap_or(self.bytes)
    }
}

/// The bytes of text of a record. All rows of a table count the same.
fn length(raw: RawContent<'_>) -> u64 {
    match raw {
        RawContent::Json(bytes) | RawContent::Text(bytes) | RawContent::Cbor(bytes) => {
            bytes.len() as u64
        }
        RawContent::Cells { cells, .. } => cells.text().len() as u64,
        RawContent::Row { .. } | RawContent::Broken { .. } => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::source::block::BlockContent;

    /// A block of lines with the number of the first. A byte of the file is a byte of text.
    fn block(first_line: u64, lines: &[String]) -> Block {
        let bytes: Vec<u8> =
            lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        let (path, size) = (Arc::from(Path::new("a.jsonl")), bytes.len() as u64);
        Block::new(&path, 0, 0, size, BlockContent::Lines { first_line, bytes, indexed: false })
    }

    /// The indices of the lines that are taken, in a file cut into blocks of these sizes.
    fn taken(through: &mut SequentialSample, lines: &[String], blocks: &[usize]) -> Vec<usize> {
        let (mut rest, mut first, mut taken) = (lines, 1, Vec::new());
        for most in blocks.iter().copied().cycle() {
            let (now, later) = rest.split_at(most.min(rest.len()));
            let mut block = block(first, now);
            through.thin(&mut block);
            let places = block.records().map(|record| usize::try_from(record.line - 1));
            taken.extend(places.map(|place| place.expect("few lines")));
            (rest, first) = (later, first + now.len() as u64);
            if through.has_ended() || rest.is_empty() {
                return taken;
            }
        }
        taken
    }

    fn file() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec((1_usize..60).prop_map(|length| "a".repeat(length)), 1..300)
    }

    fn size(lines: &[String]) -> u64 {
        lines.iter().map(|line| line.len() as u64 + 1).sum()
    }

    proptest! {
        #[test]
        fn blocks_do_not_decide_what_is_taken(
            lines in file(),
            blocks in prop::collection::vec(1_usize..50, 1..5),
            (part, group, chance) in (0.01_f64..1.0, 1_u64..9, 0.0_f64..1.0),
        ) {
            let sampled = |blocks: &[usize]| {
                let mut through = SequentialSample::new(size(&lines), part, group, chance);
                (taken(&mut through, &lines, blocks), through.bytes(), through.bytes_taken())
            };
            prop_assert_eq!(sampled(&blocks), sampled(&[lines.len()]));
        }

        #[test]
        fn as_many_are_taken_as_are_wanted(
            lines in file(),
            (percent, group, chance) in (1_u64..100, 1_u64..9, 0.0_f64..1.0),
        ) {
            let part = f64::from(u32::try_from(percent).expect("a percentage")) / 100.0;
            let mut through = SequentialSample::new(size(&lines), part, group, chance);
            let taken = taken(&mut through, &lines, &[7]).len() as u64;
            let wanted = lines.len() as u64 * percent / 100;
            prop_assert!(taken.abs_diff(wanted) <= 2 * group);
            prop_assert_eq!(through.bytes(), size(&lines));
        }

        #[test]
        fn nothing_behind_the_end_is_taken(lines in file(), percent in 0_u64..100) {
            let end = size(&lines) * percent / 100;
            let mut through = SequentialSample::new(end, 1.0, 1, 0.0);
            let taken = taken(&mut through, &lines, &[5]);
            let text: u64 = taken.iter().map(|&line| lines[line].len() as u64 + 1).sum();
            prop_assert_eq!(through.bytes(), end);
            // The line of a block that ends before an offset is an estimate.
            prop_assert!(text <= end + 6 * 60);
        }
    }

    #[test]
    fn every_record_is_as_likely_to_be_taken() {
        let lines: Vec<String> = (0..50).map(|at| "a".repeat(1 + at % 7)).collect();
        let mut times = vec![0; lines.len()];
        for chance in 0..1000 {
            let mut through =
                SequentialSample::new(size(&lines), 0.2, 3, f64::from(chance) / 1000.0);
            for line in taken(&mut through, &lines, &[1, 20, 3]) {
                times[line] += 1;
            }
        }
        assert!(times.iter().all(|times| (199..=201).contains(times)), "{times:?}");
    }
}
