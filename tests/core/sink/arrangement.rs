//! Folders that `datasets.load_from_disk` maps: whole, or not there, whenever a run is killed.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use fastpack_core::config::{Output, Split, Validation};
use fastpack_core::sink::{OutputFolder, Sink};
use tempfile::TempDir;

use super::folder::{batch, files, job, noon, output, ready};

/// A dataset a split, in shards of a row each.
fn splits(dir: &Path) -> Output {
    let validation = Some(Validation::Documents(NonZeroU64::MIN));
    Output { hf_layout: true, validation, shard_bytes: 1, ..output(dir) }
}

fn finish(folder: &mut OutputFolder) -> fastpack_core::Result<()> {
    folder.finish("{}", BTreeMap::new(), None)
}

/// Writes the missing rows, of two to train on and one to validate with.
fn write(folder: &mut OutputFolder) {
    let mut done = usize::try_from(folder.rows()).expect("few rows");
    for (split, lengths) in [(Split::Train, &[3, 4][..]), (Split::Validation, &[5])] {
        folder.begin_split(split).expect("the disk has room");
        let behind = done.min(lengths.len());
        folder.write(&batch(&lengths[behind..])).expect("the disk has room");
        done -= behind;
    }
}

fn undisturbed() -> BTreeMap<PathBuf, Vec<u8>> {
    let dir = TempDir::new().expect("a folder");
    let mut folder = ready(&splits(dir.path()), &job());
    write(&mut folder);
    finish(&mut folder).expect("the disk has room");
    drop(folder);
    files(dir.path())
}

/// The files of a dataset of two shards and one of one shard, in the order in which they are placed, each behind its name
/// in the work folder.
const PLACED: [(&str, &str); 10] = [
    ("train-00000.arrow", "train/data-00000-of-00002.arrow"),
    ("train-00001.arrow", "train/data-00001-of-00002.arrow"),
    ("validation-00000.arrow", "validation/data-00000-of-00001.arrow"),
    ("train-dataset_info.json", "train/dataset_info.json"),
    ("train-state.json", "train/state.json"),
    ("validation-dataset_info.json", "validation/dataset_info.json"),
    ("validation-state.json", "validation/state.json"),
    ("dataset_dict.json", "dataset_dict.json"),
    ("report.json", "report.json"),
    ("manifest.json", "manifest.json"),
];

/// A folder in which a run was killed when it had placed so many files.
fn killed_when_placed(count: usize) -> TempDir {
    let dir = TempDir::new().expect("a folder");
    let mut folder = ready(&splits(dir.path()), &job());
    write(&mut folder);
    // Nothing is renamed to where a folder is that is not empty.
    let obstacle = dir.path().join("manifest.json");
    fs::create_dir_all(obstacle.join("full")).expect("the disk has room");
    finish(&mut folder).expect_err("a folder is in the way");
    drop(folder);
    fs::remove_dir_all(obstacle).expect("the folder");
    for (work, place) in &PLACED[..count] {
        let place = dir.path().join(place);
        fs::create_dir_all(place.parent().expect("a folder")).expect("the disk has room");
        fs::rename(dir.path().join(".fastpack").join(work), place).expect("a file");
    }
    dir
}

#[test]
fn shards_are_named_as_a_dataset_names_them() {
    let mut expected: Vec<PathBuf> = PLACED.map(|(_, place)| place.into()).into();
    expected.sort_unstable();
    assert_eq!(undisturbed().into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn a_failure_while_files_are_placed_takes_all_of_them_back() {
    let dir = killed_when_placed(0);
    assert!(files(dir.path()).keys().all(|name| name.starts_with(".fastpack")));
    assert!(!dir.path().join("train").exists() && !dir.path().join("validation").exists());
}

#[test]
fn killed_at_any_moment_while_files_are_placed_it_goes_on_to_the_same_bytes() {
    let expected = undisturbed();
    for count in 0..PLACED.len() {
        let dir = killed_when_placed(count);
        let mut folder = ready(&splits(dir.path()), &job());
        assert_eq!(folder.rows(), 3, "{count} files were placed");
        assert!(!dir.path().join("train").exists(), "{count} files were placed");
        write(&mut folder);
        finish(&mut folder).expect("the disk has room");
        drop(folder);
        assert_eq!(files(dir.path()), expected, "{count} files were placed");
    }
}

#[test]
fn killed_while_files_are_placed_a_job_that_is_like_no_other_starts_anew() {
    let expected = undisturbed();
    for count in 0..PLACED.len() {
        let dir = killed_when_placed(count);
        let mut folder = ready(&Output { cannot_resume: true, ..splits(dir.path()) }, &job());
        assert_eq!(
            (folder.rows(), folder.blocks().exists()),
            (0, false),
            "{count} files were placed"
        );
        assert!(!dir.path().join("train").exists(), "{count} files were placed");
        write(&mut folder);
        finish(&mut folder).expect("the disk has room");
        drop(folder);
        assert_eq!(files(dir.path()), expected, "{count} files were placed");
    }
}

#[test]
fn a_dataset_is_replaced_by_other_files_and_these_by_a_dataset() {
    let dir = TempDir::new().expect("a folder");
    for output in [splits(dir.path()), output(dir.path()), splits(dir.path())] {
        let mut folder = ready(&Output { overwrite: true, ..output.clone() }, &job());
        write(&mut folder);
        finish(&mut folder).expect("the disk has room");
        drop(folder);
        assert_eq!(dir.path().join("train").exists(), output.hf_layout);
        assert_eq!(dir.path().join("train-00000.arrow").exists(), !output.hf_layout);
    }
}

#[test]
fn what_others_put_into_the_folder_of_a_split_is_refused_and_stays() {
    let dir = TempDir::new().expect("a folder");
    let notes = dir.path().join("train/notes.txt");
    fs::create_dir(dir.path().join("train")).expect("the disk has room");
    fs::write(&notes, "mine").expect("the disk has room");
    let refused = fastpack_core::sink::open(
        &splits(dir.path()),
        &job(),
        noon(),
        &fastpack_core::Control::default(),
    );
    assert!(refused.expect_err("a file is in the way").to_string().contains("`train/notes.txt`"));
    let mut folder = ready(&Output { overwrite: true, ..splits(dir.path()) }, &job());
    write(&mut folder);
    finish(&mut folder).expect("the disk has room");
    assert_eq!(fs::read_to_string(notes).expect("the file"), "mine");
}
