//! Killed at any moment, and then with one change in the work folder or the output: the next run writes the bytes of one that
//! nothing disturbed, or fails with one error.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fastpack_core::config::Output;
use fastpack_core::sink::{OpenedJob, OutputFolder, Sink};
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;

use super::folder::{batch, files, job, open, output, ready};

const LENGTHS: [usize; 5] = [3, 4, 5, 6, 7];

/// An output in shards of a row each.
fn shards(dir: &Path) -> Output {
    Output { shard_bytes: 1, ..output(dir) }
}

/// Writes the rows that are missing.
fn write(folder: &mut OutputFolder) {
    let done = usize::try_from(folder.rows()).expect("few rows");
    folder.write(&batch(&LENGTHS[done..])).expect("the disk has room");
}

fn finish(folder: &mut OutputFolder) -> fastpack_core::Result<()> {
    folder.finish(r#"{"rows":5}"#, BTreeMap::new(), None)
}

/// A folder in memory where the system has one: a disk takes its time to keep the files of a thousand cases.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder")
}

static UNDISTURBED: LazyLock<BTreeMap<PathBuf, Vec<u8>>> = LazyLock::new(|| {
    let dir = folder();
    let mut folder = ready(&shards(dir.path()), &job());
    write(&mut folder);
    finish(&mut folder).expect("the disk has room");
    drop(folder);
    files(dir.path())
});

/// The files in the order in which they are placed.
const PLACED: [&str; 6] = [
    "train-00000.arrow",
    "train-00001.arrow",
    "train-00002.arrow",
    "train-00003.arrow",
    "train-00004.arrow",
    "report.json",
];

/// A folder in which a run was killed: at a row, or when it had placed so many files.
fn killed(at: usize) -> TempDir {
    let dir = folder();
    let mut folder = ready(&shards(dir.path()), &job());
    fs::write(folder.blocks(), "what blocks came to").expect("the disk has room");
    let Some(placed) = at.checked_sub(LENGTHS.len()) else {
        folder.write(&batch(&LENGTHS[..=at])).expect("the disk has room");
        return dir;
    };
    write(&mut folder);
    let obstacle = dir.path().join("manifest.json");
    fs::create_dir(&obstacle).expect("the disk has room");
    finish(&mut folder).expect_err("a folder is in the way");
    drop(folder);
    fs::remove_dir(obstacle).expect("the folder");
    for name in &PLACED[..placed] {
        fs::rename(dir.path().join(".fastpack").join(name), dir.path().join(name)).expect("a file");
    }
    dir
}

/// A change to one file.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Cut(Index),
    Double,
    DoublePart(Index, Index),
    Remove,
    Empty,
    Append(Vec<u8>),
    Swap(Index),
    Link,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        2 => any::<Index>().prop_map(Change::Cut),
        1 => Just(Change::Double),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::DoublePart(from, to)),
        1 => Just(Change::Remove),
        1 => Just(Change::Empty),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Change::Append),
        1 => any::<Index>().prop_map(Change::Swap),
        1 => Just(Change::Link),
    ]
}

/// Makes the change to one of `paths`.
fn make(change: &Change, paths: &[PathBuf], which: Index) {
    let path = which.get(paths);
    let mut bytes = fs::read(path).expect("a file");
    match change {
        Change::Flip(at, bit) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Change::Cut(at) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
        Change::Double => bytes.extend(bytes.clone()),
        Change::DoublePart(from, count) if !bytes.is_empty() => {
            // Lines, of which the list of shards is made.
            let lines: Vec<Vec<u8>> =
                bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            let from = from.index(lines.len());
            let part = lines[from..=from + count.index(lines.len() - from)].concat();
            let before = lines[..=from].concat();
            bytes = [before, part, lines[from + 1..].concat()].concat();
        }
        Change::Empty => bytes.clear(),
        Change::Append(more) => bytes.extend(more),
        Change::Swap(other) => {
            let other = other.get(paths);
            fs::write(path, fs::read(other).expect("a file")).expect("the disk has room");
            return fs::write(other, bytes).expect("the disk has room");
        }
        Change::Remove => return fs::remove_file(path).expect("a file"),
        Change::Link => {
            let beside = path.with_extension("moved");
            fs::remove_file(path).expect("a file");
            return symlink(beside, path).expect("a link");
        }
        Change::Flip(..) | Change::Cut(_) | Change::DoublePart(..) => {}
    }
    fs::write(path, bytes).expect("the disk has room");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn killed_and_then_changed_it_writes_the_undisturbed_bytes_or_fails(
        at in 0..LENGTHS.len() + PLACED.len() + 1,
        change in change(),
        which in any::<Index>(),
    ) {
        let dir = killed(at);
        let paths: Vec<PathBuf> = files(dir.path())
            .into_keys()
            .map(|name| dir.path().join(name))
            .filter(|path| !path.ends_with("blocks"))
            .collect();
        make(&change, &paths, which);
        let Ok(opened) = open(&shards(dir.path()), &job()) else { return Ok(()) };
        let OpenedJob::Ready(mut folder) = opened else { return Err(TestCaseError::fail("finished")) };
        write(&mut folder);
        finish(&mut folder).expect("nothing is in the way");
        drop(folder);
        prop_assert_eq!(files(dir.path()), UNDISTURBED.clone());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_shard_that_changes_before_it_is_published_is_named_and_made_again(
        change in change(),
        which in any::<Index>(),
    ) {
        let dir = folder();
        let mut folder = ready(&shards(dir.path()), &job());
        write(&mut folder);
        // The last shard is still being written.
        let shards_of = |name: &PathBuf| name.to_string_lossy().contains("train-") && !name.ends_with("train-00004.arrow");
        let paths: Vec<PathBuf> =
            files(dir.path()).into_keys().filter(shards_of).map(|name| dir.path().join(name)).collect();
        prop_assert_eq!(paths.len(), LENGTHS.len() - 1);
        let before = files(dir.path());
        make(&change, &paths, which);
        let is_link = paths.iter().any(|path| path.is_symlink());
        let is_same = !is_link && files(dir.path()) == before;
        let finished = finish(&mut folder);
        prop_assert_eq!(finished.is_ok(), is_same);
        drop(folder);
        if let Err(failed) = finished {
            prop_assert!(failed.to_string().contains("train-0000"), "{failed}");
            prop_assert!(!dir.path().join("manifest.json").exists());
            // The target of a link is somebody else's.
            if is_link {
                return Ok(());
            }
            let mut folder = ready(&shards(dir.path()), &job());
            write(&mut folder);
            finish(&mut folder).expect("nothing is in the way");
            drop(folder);
        }
        prop_assert_eq!(files(dir.path()), UNDISTURBED.clone());
    }
}

#[test]
fn a_record_of_what_was_being_placed_or_replaced_that_has_changed_is_named_and_never_used() {
    for placed in 0..=PLACED.len() {
        let whole = killed(LENGTHS.len() + placed);
        let record = fs::read(whole.path().join(".fastpack/manifest.json")).expect("a manifest");
        for name in ["manifest.json", "replaced.json"] {
            for at in (0..record.len()).step_by(37) {
                let path = whole.path().join(".fastpack").join(name);
                let mut spoilt = record.clone();
                spoilt[at] ^= 1;
                fs::write(&path, spoilt).expect("the disk has room");
                let before = files(whole.path());
                let refused = open(&shards(whole.path()), &job()).expect_err("a changed record");
                assert!(refused.to_string().contains(&format!("`.fastpack/{name}`")), "{refused}");
                assert_eq!(files(whole.path()), before, "{name}, byte {at}");
            }
            fs::write(whole.path().join(".fastpack").join(name), &record).expect("room");
        }
    }
}

#[test]
fn a_shard_with_a_flipped_byte_is_made_again_with_all_behind_it() {
    for at in 0..LENGTHS.len() - 1 {
        let dir = killed(LENGTHS.len() - 1);
        let shard = dir.path().join(format!(".fastpack/train-{at:05}.arrow"));
        let mut bytes = fs::read(&shard).expect("a shard");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&shard, bytes).expect("the disk has room");
        let mut folder = ready(&shards(dir.path()), &job());
        assert_eq!(folder.rows(), at as u64);
        write(&mut folder);
        finish(&mut folder).expect("the disk has room");
        drop(folder);
        assert_eq!(files(dir.path()), *UNDISTURBED);
    }
}

#[test]
fn a_digit_that_is_another_in_the_list_of_shards_ends_it_there() {
    let dir = killed(LENGTHS.len() - 1);
    let list = dir.path().join(".fastpack/shards");
    let whole = fs::read_to_string(&list).expect("the list");
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert_eq!(lines.len(), LENGTHS.len() - 1);
    for (at, line) in lines.iter().enumerate() {
        let spoilt = line.replace("\"rows\":1", "\"rows\":2");
        let others = [spoilt.as_str(), "", &line.repeat(2)];
        for (kept, other) in [0, 0, 1].into_iter().zip(others) {
            let mut lines = lines.clone();
            lines[at] = other;
            fs::write(&list, lines.concat()).expect("the disk has room");
            let copy = folder();
            fs::create_dir(copy.path().join(".fastpack")).expect("the disk has room");
            for (name, bytes) in files(dir.path()) {
                fs::write(copy.path().join(name), bytes).expect("the disk has room");
            }
            if other.is_empty() && at + 1 == LENGTHS.len() - 1 {
                // The shard that was being written is two behind the end of the list, and may be a file of others.
                let refused = open(&shards(copy.path()), &job()).expect_err("a file of others");
                assert!(refused.to_string().contains(".fastpack/train-"), "{refused}");
                continue;
            }
            let next = ready(&shards(copy.path()), &job());
            assert_eq!(next.rows(), (at + kept) as u64, "line {at}");
        }
    }
}
