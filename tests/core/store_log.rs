//! The results of blocks, written down and read back.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastpack_core::document::store::{DocumentPart, DocumentStore, TokenLog};
use fastpack_core::document::{Document, Documents, INPUTS, TrainedRun};
use fastpack_core::report::ledger::{Ledger, Reason};
use fastpack_core::{Control, Origin};
use proptest::prelude::*;
use tempfile::TempDir;

/// A document: its ids, its trained runs, its line, and whether it is text.
type MadeSizes = (Vec<u32>, Vec<TrainedRun>, u64, bool);

fn made() -> impl Strategy<Value = MadeSizes> {
    let ids = prop::collection::vec(any::<u32>(), 1..80);
    let runs = prop::collection::vec((1..20_u32, 1..20_u32, -2.0..2.0_f32), 0..5);
    (ids, runs, any::<u64>(), any::<bool>()).prop_map(|(ids, gaps, line, text)| {
        let mut runs = Vec::new();
        let mut at = 0;
        for (gap, length, weight) in gaps {
            let (start, end) = (at + gap, at + gap + length);
            if end as usize <= ids.len() {
                runs.push(TrainedRun { start, end, weight });
            }
            at = end;
        }
        (ids, runs, line, text)
    })
}

fn documents(path: &str, made: &[MadeSizes]) -> Documents {
    let mut documents = Documents::new(Path::new(path).into(), &[INPUTS]);
    for (ids, runs, line, text) in made {
        documents.push(&[ids], runs.iter().copied(), *line);
        if *text {
            documents.mark_text();
        }
    }
    documents
}

fn seen(document: Document<'_>) -> MadeSizes {
    let ids = document.column(INPUTS).to_vec();
    (ids, document.trained().to_vec(), document.origin().line, document.is_text())
}

fn log() -> (TempDir, PathBuf) {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("blocks");
    (dir, path)
}

fn ledger(tokens: u64) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.read.add(tokens);
    let origin = Origin { path: Path::new("data.jsonl").into(), line: 3 };
    ledger.drop_document(Reason::Empty, 0, origin);
    ledger
}

fn append(log: &TokenLog, number: u64, made: &[MadeSizes]) {
    log.append(number, "0a1b", &documents("data.jsonl", made), &ledger(number)).expect("room");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_down_is_read_back(
        blocks in prop::collection::vec(prop::collection::vec(made(), 0..6), 0..6),
    ) {
        let (_dir, path) = log();
        let written = TokenLog::open(&path).expect("a log");
        // Whatever the order in which they were finished.
        for (number, made) in blocks.iter().enumerate().rev() {
            append(&written, number as u64, made);
        }
        drop(written);
        let read = TokenLog::open(&path).expect("a log");
        prop_assert_eq!(read.found().collect::<Vec<_>>(), (0..blocks.len() as u64).collect::<Vec<_>>());
        for (number, made) in (0..).zip(&blocks) {
            let (entry, _) = read.entry(number, None).expect("readable").expect("whole");
            prop_assert_eq!(entry.documents.iter().map(seen).collect::<Vec<_>>(), made.clone());
            prop_assert_eq!(&**entry.documents.path(), Path::new("data.jsonl"));
            prop_assert_eq!((entry.ledger, entry.fingerprint), (ledger(number), "0a1b".to_owned()));
        }
    }

    #[test]
    fn blocks_that_finish_in_any_order_make_the_same_file(
        blocks in prop::collection::vec(prop::collection::vec(made(), 0..4), 1..8),
        order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle(),
        first in 0..3_u64,
        stopped in any::<prop::sample::Index>(),
    ) {
        let mut files = Vec::new();
        for is_in_order in [true, false] {
            let (_dir, path) = log();
            let mut written = TokenLog::open(&path).expect("a log");
            written.begin_at(first);
            let mut order: Vec<usize> = order.iter().copied().filter(|at| *at < blocks.len()).collect();
            let stopped = stopped.index(blocks.len());
            if is_in_order {
                order.sort_unstable();
            }
            for (done, at) in order.iter().enumerate() {
                if done == stopped && !is_in_order {
                    // A run that was stopped is resumed, and makes the blocks again that were not written.
                    written = TokenLog::open(&path).expect("a log");
                    written.begin_at(first);
                    let found: Vec<u64> = written.found().collect();
                    for missing in order[..done].iter().map(|at| first + *at as u64) {
                        if !found.contains(&missing) {
                            append(&written, missing, &blocks[usize::try_from(missing - first).expect("few")]);
                        }
                    }
                }
                append(&written, first + *at as u64, &blocks[*at]);
            }
            let (bytes, _) = written.finish().expect("a disk");
            let file = fs::read(&path).expect("a file");
            prop_assert_eq!(bytes, file.len() as u64);
            files.push(file);
        }
        prop_assert!(files[0] == files[1]);
    }

    #[test]
    fn a_log_cut_anywhere_holds_the_blocks_before(made in prop::collection::vec(made(), 1..4), cut in any::<prop::sample::Index>()) {
        let (_dir, path) = log();
        let written = TokenLog::open(&path).expect("a log");
        let mut ends = vec![0];
        for number in 0..3 {
            append(&written, number, &made);
            ends.push(fs::metadata(&path).expect("a file").len());
        }
        drop(written);
        let whole = fs::read(&path).expect("a file");
        let cut = cut.index(whole.len() + 1);
        fs::write(&path, &whole[..cut]).expect("room");

        let read = TokenLog::open(&path).expect("a log");
        let left = ends.iter().filter(|&&end| end > 0 && end <= cut as u64).count();
        prop_assert_eq!(read.found().len(), left);
        for number in left..3 {
            append(&read, number as u64, &made);
        }
        drop(read);
        prop_assert_eq!(fs::read(&path).expect("a file"), whole);
    }

    #[test]
    fn stretches_read_back_are_those_of_documents_in_memory(
        blocks in prop::collection::vec(prop::collection::vec(made(), 1..6), 1..6),
        wanted in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..30),
        threads in 1..4_usize,
    ) {
        let (_dir, path) = log();
        let log = Arc::new(TokenLog::open(&path).expect("a log"));
        let mut spilled = DocumentStore::with_log(Arc::clone(&log), 0);
        let mut kept = DocumentStore::default();
        for (number, made) in (0..).zip(&blocks) {
            let documents = documents(&format!("{}.jsonl", number / 2), made);
            let place = log.append(number, "", &documents, &Ledger::default()).expect("room");
            spilled.push(documents.clone(), Some(place));
            kept.push(documents, None);
        }
        prop_assert!(spilled.is_spilled() && !kept.is_spilled());
        let count = usize::try_from(kept.end()).expect("few");
        let stretches: Vec<DocumentPart> = wanted.iter().map(|(which, start, length)| {
            let document = which.index(count) as u64;
            let tokens = kept.document(document).column(INPUTS).len();
            let start = start.index(tokens);
            let length = 1 + length.index(tokens - start);
            let small = |number| u32::try_from(number).expect("few");
            DocumentPart { document, start: small(start), length: small(length) }
        }).collect();
        let threads = NonZeroUsize::new(threads).expect("not 0");
        let whole = spilled.load(&stretches, true, threads, &Control::default()).expect("readable");
        for (index, stretch) in stretches.iter().enumerate() {
            let (here, there) = (whole.document(index), kept.document(stretch.document));
            prop_assert_eq!(here.column(INPUTS), there.column(INPUTS));
            prop_assert_eq!(here.turn_ends(), there.turn_ends());
            prop_assert_eq!(here.trained(), there.trained());
        }
        let loaded = spilled.load(&stretches, false, threads, &Control::default()).expect("readable");
        for (index, stretch) in stretches.iter().enumerate() {
            let (here, there) = (loaded.document(index), kept.document(stretch.document));
            let range = stretch.start as usize..(stretch.start + stretch.length) as usize;
            prop_assert_eq!(here.column(INPUTS), &there.column(INPUTS)[range]);
            prop_assert_eq!(here.origin(), there.origin());
            prop_assert_eq!(here.is_text(), there.is_text());
            prop_assert_eq!(spilled.origin(stretch.document), there.origin());
            for start in 0..stretch.length {
                let labels = here.labels(start, stretch.length - start);
                prop_assert_eq!(labels, there.labels(stretch.start + start, stretch.length - start));
            }
        }
    }
}

#[test]
fn a_block_with_a_spoilt_byte_is_as_good_as_missing() {
    let (_dir, path) = log();
    let log = TokenLog::open(&path).expect("a log");
    append(&log, 0, &[(vec![7; 100], Vec::new(), 1, false)]);
    drop(log);
    let mut bytes = fs::read(&path).expect("a file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).expect("room");
    assert!(TokenLog::open(&path).expect("a log").entry(0, None).expect("readable").is_none());
}

#[test]
fn a_damaged_block_behind_a_missing_one_waits_for_none() {
    let (_dir, path) = log();
    let written = TokenLog::open(&path).expect("a log");
    let made = |number: u64| {
        let id = u32::try_from(number).expect("small");
        vec![(vec![id; 9], Vec::new(), number, false)]
    };
    let mut starts = Vec::new();
    for number in 0..4 {
        starts.push(usize::try_from(fs::metadata(&path).expect("a file").len()).expect("small"));
        append(&written, number, &made(number));
    }
    drop(written);
    // The third block is missing, and the last byte of the fourth is another.
    let mut bytes = fs::read(&path).expect("a file");
    bytes.drain(starts[2]..starts[3]);
    *bytes.last_mut().expect("blocks") ^= 1;
    fs::write(&path, bytes).expect("room");

    let log = Arc::new(TokenLog::open(&path).expect("a log"));
    assert_eq!(log.found().collect::<Vec<_>>(), [0, 1, 3]);
    assert!(log.entry(3, None).expect("readable").is_none());
    let mut store = DocumentStore::with_log(Arc::clone(&log), 0);
    // The fourth is finished before the third.
    let places = [3, 2].map(|number| {
        let documents = documents("data.jsonl", &made(number));
        let place = log.append(number, "", &documents, &Ledger::default()).expect("room");
        (documents, place)
    });
    for (documents, place) in places {
        store.push(documents, Some(place));
    }
    let stretches = [0, 1].map(|document| DocumentPart { document, start: 0, length: 9 });
    let loaded =
        store.load(&stretches, true, NonZeroUsize::MIN, &Control::default()).expect("readable");
    assert_eq!(
        [0, 1].map(|at| seen(loaded.document(at))),
        [made(3), made(2)].map(|it| it[0].clone())
    );
    drop((loaded, store, log));
    let read = TokenLog::open(&path).expect("a log");
    for number in 0..4 {
        let (entry, _) = read.entry(number, None).expect("readable").expect("whole");
        assert_eq!(entry.documents.iter().map(seen).collect::<Vec<_>>(), made(number));
    }
}

/// A whole header of a frame that claims so many bytes, of no hash.
fn header(number: u64, bytes: u64) -> Vec<u8> {
    let mut header = b"fpblock2".to_vec();
    header.extend(number.to_le_bytes());
    header.extend(bytes.to_le_bytes());
    header.extend([0; 32]);
    let check = blake3::hash(&header);
    header.extend(&check.as_bytes()[..8]);
    header
}

#[test]
fn any_byte_of_a_header_that_is_another_ends_the_log_before_it() {
    let (_dir, path) = log();
    let written = TokenLog::open(&path).expect("a log");
    append(&written, 0, &[(vec![7; 9], Vec::new(), 1, false)]);
    let start = fs::metadata(&path).expect("a file").len();
    append(&written, 1, &[(vec![8; 9], Vec::new(), 2, false)]);
    drop(written);
    let whole = fs::read(&path).expect("a file");
    for at in 0..64 {
        let mut bytes = whole.clone();
        bytes[usize::try_from(start).expect("small") + at] ^= 0x80;
        fs::write(&path, bytes).expect("room");
        let read = TokenLog::open(&path).expect("a log");
        assert_eq!(read.found().collect::<Vec<_>>(), [0], "byte {at}");
        assert_eq!(fs::metadata(&path).expect("a file").len(), start);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_length_that_lies_asks_for_no_memory() {
    let (_dir, path) = log();
    let hole: u64 = 1 << 42;
    let mut file = OpenOptions::new().create_new(true).write(true).open(&path).expect("a file");
    let mut lies = header(0, 5);
    lies[16..24].copy_from_slice(&(hole - 64).to_le_bytes());
    file.write_all(&lies).expect("room");
    file.set_len(hole).expect("a hole");
    let read = TokenLog::open_finished(&path).expect("a log");
    assert!(read.entry(0, None).expect("readable").is_none());
}

#[test]
fn documents_beyond_four_gibibytes_are_found() {
    let (_dir, path) = log();
    // A header that claims five gibibytes, behind which the file has a hole.
    let hole: u64 = 5 << 30;
    let mut file = OpenOptions::new().create_new(true).write(true).open(&path).expect("a file");
    file.write_all(&header(0, hole)).expect("room");
    file.set_len(64 + hole).expect("a hole");
    let log = Arc::new(TokenLog::open(&path).expect("a log"));
    let mut store = DocumentStore::with_log(Arc::clone(&log), 0);
    for number in 1..4 {
        let id = u32::try_from(number).expect("small");
        let documents = documents("data.jsonl", &[(vec![id; 9], Vec::new(), number, true)]);
        let place = log.append(number, "", &documents, &Ledger::default()).expect("room");
        store.push(documents, Some(place));
    }
    let stretches = [2, 0, 1].map(|document| DocumentPart { document, start: 4, length: 2 });
    let loaded =
        store.load(&stretches, false, NonZeroUsize::MIN, &Control::default()).expect("readable");
    let ids: Vec<&[u32]> = (0..3).map(|index| loaded.document(index).column(INPUTS)).collect();
    assert_eq!(ids, [[3, 3], [1, 1], [2, 2]]);
}

#[test]
fn a_stretch_of_a_document_of_megabytes_is_read_alone() {
    let (_dir, path) = log();
    let log = Arc::new(TokenLog::open(&path).expect("a log"));
    let ids: Vec<u32> = (0..1 << 20).collect();
    let runs = vec![
        TrainedRun { start: 10, end: 20, weight: 1.0 },
        TrainedRun { start: 500_000, end: 600_000, weight: 0.5 },
    ];
    let documents =
        documents("data.jsonl", &[(vec![1; 5], Vec::new(), 1, false), (ids, runs, 2, true)]);
    let place = log.append(0, "", &documents, &Ledger::default()).expect("room");
    let mut store = DocumentStore::with_log(log, 0);
    store.push(documents, Some(place));
    let stretch = DocumentPart { document: 1, start: 599_990, length: 20 };
    let loaded =
        store.load(&[stretch], false, NonZeroUsize::MIN, &Control::default()).expect("readable");
    let ids: Vec<u32> = (599_990..600_010).collect();
    let runs = vec![TrainedRun { start: 0, end: 10, weight: 0.5 }];
    assert_eq!(seen(loaded.document(0)), (ids, runs, 2, true));
}
