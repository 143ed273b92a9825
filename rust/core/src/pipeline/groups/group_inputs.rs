//! [`cut`]: the groups of a job, by the sizes of its inputs.

use std::num::NonZeroU64;
use std::ops::Range;

use crate::config::identity::SizedInput;
use crate::source::{FoundFiles, SourceFile};

/// The files of each group: as many as have at most `most` bytes together, one at least. All files of a source
/// with a limit are in one group.
pub(super) fn cut(files: &[SizedInput], most: NonZeroU64) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut group = 0..0;
    let mut bytes = 0_u64;
    let together =
        |a: &SizedInput, b: &SizedInput| a.is_limited && b.is_limited && a.source == b.source;
    for unit in files.chunk_by(together) {
        let size = unit.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        if !group.is_empty() && bytes.saturating_add(size) > most.get() {
            groups.push(group.clone());
            group.start = group.end;
            bytes = 0;
        }
        group.end += unit.len();
        bytes = bytes.saturating_add(size);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

/// The files of a job, as far as they decide the groups.
pub(super) fn sized(found: &FoundFiles) -> Vec<SizedInput> {
    let sized = |file: &SourceFile| SizedInput {
        bytes: found.bytes_of([file]),
        source: file.source,
        is_limited: found.sources[file.source].limit.is_some(),
    };
    found.files.iter().map(sized).collect()
}

/// Some consecutive files of a job, with their sources alone.
pub(super) fn part(found: &FoundFiles, files: Range<usize>) -> FoundFiles {
    let mut part = FoundFiles::default();
    let mut last = None;
    for file in &found.files[files] {
        if last != Some(file.source) {
            part.sources.push(found.sources[file.source].clone());
            last = Some(file.source);
        }
        part.files.push(SourceFile { source: part.sources.len() - 1, ..file.clone() });
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(sizes: &[u64], most: u64) -> Vec<Range<usize>> {
        let file = |&bytes: &u64| SizedInput { bytes, source: 0, is_limited: false };
        let files: Vec<_> = sizes.iter().map(file).collect();
        cut(&files, NonZeroU64::new(most).expect("above zero"))
    }

    #[test]
    fn a_group_has_as_many_files_as_fit() {
        assert_eq!(groups(&[4, 3, 3, 9, 1, 20, 2], 10), [0..3, 3..5, 5..6, 6..7]);
        assert_eq!(groups(&[1, 1], 1), [0..1, 1..2]);
        assert_eq!(groups(&[0, 0], 1).first(), Some(&(0..2)));
        assert!(groups(&[], 1).is_empty());
    }

    #[test]
    fn files_of_a_source_with_a_limit_stay_together() {
        let file = |source, is_limited| SizedInput { bytes: 10, source, is_limited };
        let files = [file(0, false), file(1, true), file(1, true), file(2, true), file(3, false)];
        let most = NonZeroU64::new(1).expect("above zero");
        assert_eq!(cut(&files, most), [0..1, 1..3, 3..4, 4..5]);
    }
}
