//! The owners of files in an output folder: fastpack removes and replaces its own files, known by their content, and nothing
//! else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastpack_core::Error;
use fastpack_core::config::{Format, Output};
use fastpack_core::sink::{MANIFEST_VERSION, OpenedJob, OutputFolder, Sink};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::folder::{
    batch, coding, files, job, job_of, killed, names, open, other_job, output, overwriting, ready,
    refusal, run,
};

/// A manifest of this layout that nobody wrote: text with a hash of its rest.
fn sealed(manifest: &Value) -> String {
    let text = format!("{manifest:#}\n");
    let rest = text.strip_prefix("{\n").expect("an object");
    format!("{{\n  \"blake3\": \"{}\",\n{rest}", blake3::hash(rest.as_bytes()).to_hex())
}

#[test]
fn overwriting_refuses_files_that_fastpack_did_not_write_and_touches_nothing() {
    let theirs = [
        "manifest.json",
        "report.json",
        "tokens.fastpack",
        "train-00000.arrow",
        "train-00000.jsonl",
        "validation-00012.parquet",
    ];
    for name in theirs {
        let dir = TempDir::new().expect("a folder");
        fs::write(dir.path().join(name), "{\"version\": 3}").expect("room");
        let before = files(dir.path());
        let refused = refusal(&overwriting(dir.path()), &job());
        assert!(refused.contains(&format!("`{name}`")), "{refused}");
        assert_eq!(files(dir.path()), before, "{name}");
    }
}

#[test]
fn overwriting_a_dataset_of_others_is_refused_where_one_is_written() {
    let dir = TempDir::new().expect("a folder");
    for name in ["data-00000-of-00001.arrow", "dataset_info.json", "state.json"] {
        fs::write(dir.path().join(name), "{}").expect("room");
    }
    let before = files(dir.path());
    let dataset = Output { hf_layout: true, ..overwriting(dir.path()) };
    let refused = refusal(&dataset, &job());
    assert!(refused.contains("`state.json`"), "{refused}");
    assert_eq!(files(dir.path()), before);
    // Shards of other names are in nobody's way.
    run(&overwriting(dir.path()), &job(), &[batch(&[3])]);
    assert!(before.iter().all(|(name, bytes)| files(dir.path())[name] == *bytes));
}

#[test]
fn overwriting_refuses_a_shard_that_has_changed_since() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let shard = dir.path().join("train-00000.arrow");
    let mut bytes = fs::read(&shard).expect("a shard");
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(&shard, bytes).expect("room");
    let before = files(dir.path());
    let refused = refusal(&overwriting(dir.path()), &other_job());
    assert!(refused.contains("`train-00000.arrow`"), "{refused}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_manifest_that_lists_files_elsewhere_is_none_of_ours() {
    let around = TempDir::new().expect("a folder");
    let dir = around.path().join("packed");
    fs::create_dir(&dir).expect("room");
    fs::write(around.path().join("thesis.txt"), "mine").expect("room");
    let absolute = around.path().join("thesis.txt").display().to_string();
    for name in ["../thesis.txt", absolute.as_str(), "train/../../thesis.txt", "", ".", "train/"] {
        let file = json!({
            "name": name,
            "rows": 1,
            "bytes": 4,
            "blake3": blake3::hash(b"mine").to_hex().to_string(),
        });
        let manifest = json!({ "version": MANIFEST_VERSION, "job": &*job(), "now": "2026-01-31T12:00:00", "files": [file] });
        fs::write(dir.join("manifest.json"), sealed(&manifest)).expect("room");
        let before = files(around.path());
        assert!(refusal(&overwriting(&dir), &other_job()).contains("`manifest.json`"), "{name}");
        assert!(refusal(&output(&dir), &job()).contains("`manifest.json`"), "{name}");
        assert_eq!(files(around.path()), before, "{name}");
    }
}

#[test]
fn a_manifest_of_any_other_bytes_is_no_manifest() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let path = dir.path().join("manifest.json");
    let whole = fs::read(&path).expect("a manifest");
    for at in 0..whole.len() {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 1;
        fs::write(&path, &spoilt).expect("room");
        for output in [output(dir.path()), overwriting(dir.path())] {
            assert!(refusal(&output, &job()).contains("`manifest.json`"), "byte {at}");
        }
    }
    fs::write(&path, whole).expect("room");
    assert!(matches!(open(&output(dir.path()), &job()), Ok(OpenedJob::Finished(_))));
}

/// A folder of somebody else's, and the folder around it.
fn elsewhere() -> (TempDir, PathBuf) {
    let around = TempDir::new().expect("a folder");
    let theirs = around.path().join("theirs");
    fs::create_dir(&theirs).expect("room");
    for name in ["thesis.txt", "lock", "blocks", "train-00000.arrow", "started.json"] {
        fs::write(theirs.join(name), name).expect("room");
    }
    (around, theirs)
}

#[test]
fn a_work_folder_that_is_a_link_is_refused_and_nothing_behind_it_is_touched() {
    let (around, theirs) = elsewhere();
    let dir = around.path().join("packed");
    fs::create_dir(&dir).expect("room");
    symlink(&theirs, dir.join(".fastpack")).expect("a link");
    let before = files(around.path());
    for output in [output(&dir), overwriting(&dir), Output { cannot_resume: true, ..output(&dir) }]
    {
        assert!(refusal(&output, &job()).contains("`.fastpack`, which is a symbolic link"));
        assert_eq!(files(around.path()), before);
    }
}

#[test]
fn what_fastpack_did_not_put_into_a_work_folder_is_refused_and_stays() {
    let (around, theirs) = elsewhere();
    let dir = around.path().join("packed");
    fs::create_dir(&dir).expect("room");
    // A folder of somebody else's, and one of ours with something else in it.
    for ours in [false, true] {
        for name in ["notes.txt", "lock", "started.json", "link", "folder"] {
            let work = dir.join(".fastpack");
            if ours {
                killed(&dir, &job());
            } else {
                fs::create_dir(&work).expect("room");
            }
            let path = work.join(name);
            let _ = fs::remove_file(&path);
            match name {
                "link" => symlink(&theirs, &path).expect("a link"),
                "folder" => fs::create_dir(&path).expect("room"),
                _ => fs::write(&path, "mine").expect("room"),
            }
            let before = files(around.path());
            for output in [output(&dir), overwriting(&dir)] {
                let refused = refusal(&output, &job());
                assert!(refused.contains(&format!("`.fastpack/{name}`")), "{refused}");
                let mut after = files(around.path());
                // The lock of ours is nobody's once nobody holds it.
                after.retain(|name, _| before.contains_key(name));
                let mut expected = before.clone();
                expected.retain(|path, bytes| !(path.ends_with("lock") && bytes.is_empty()));
                after.retain(|name, _| expected.contains_key(name));
                assert_eq!(after, expected, "{name}");
            }
            fs::remove_dir_all(&work).expect("the folder");
        }
    }
}

#[test]
fn links_in_the_places_of_our_files_are_others() {
    let (around, theirs) = elsewhere();
    for name in ["manifest.json", "report.json", "tokens.fastpack", "train-00000.arrow"] {
        for target in [theirs.join("thesis.txt"), around.path().join("nowhere")] {
            let dir = around.path().join(format!("packed-{name}"));
            fs::create_dir_all(&dir).expect("room");
            symlink(&target, dir.join(name)).expect("a link");
            for output in [output(&dir), overwriting(&dir)] {
                assert!(refusal(&output, &job()).contains(&format!("`{name}`")));
            }
            assert_eq!(fs::read_link(dir.join(name)).expect("the link"), target);
            fs::remove_dir_all(&dir).expect("the folder");
        }
    }
    assert_eq!(fs::read(theirs.join("thesis.txt")).expect("the file"), b"thesis.txt");
    assert!(!around.path().join("nowhere").exists());
}

#[test]
fn a_link_in_the_place_of_the_folder_of_a_split_is_not_followed() {
    let (around, theirs) = elsewhere();
    let dir = around.path().join("packed");
    fs::create_dir(&dir).expect("room");
    symlink(&theirs, dir.join("train")).expect("a link");
    let validation = Some(fastpack_core::config::Validation::Documents(std::num::NonZeroU64::MIN));
    let splits = Output { hf_layout: true, validation, ..overwriting(&dir) };
    let before = files(&theirs);
    assert!(refusal(&splits, &job()).contains("`train`"));
    assert_eq!(files(&theirs), before);
}

#[test]
fn an_output_folder_may_be_a_link_to_a_folder() {
    let dir = TempDir::new().expect("a folder");
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).expect("room");
    symlink(&real, &link).expect("a link");
    run(&output(&link), &job(), &[batch(&[3])]);
    run(&overwriting(&link), &other_job(), &[batch(&[3])]);
    assert_eq!(names(&real), ["manifest.json", "report.json", "train-00000.arrow"]);
}

#[test]
fn what_comes_to_lie_where_a_file_goes_while_a_run_works_stays_and_the_run_can_go_on() {
    for name in ["manifest.json", "report.json", "train-00000.arrow"] {
        let dir = TempDir::new().expect("a folder");
        let mut folder = ready(&output(dir.path()), &job());
        folder.write(&batch(&[3])).expect("room");
        let place = dir.path().join(name);
        fs::write(&place, "mine").expect("room");
        let error = finish(&mut folder).expect_err("a file is in the way");
        assert!(matches!(&error, Error::Io { path, .. } if *path == place), "{error}");
        folder.fail(&error);
        drop(folder);
        assert_eq!(fs::read(&place).expect("the file"), b"mine");
        fs::remove_file(&place).expect("the file");
        let mut folder = ready(&output(dir.path()), &job());
        assert_eq!(folder.rows(), 1);
        finish(&mut folder).expect("room");
    }
}

fn finish(folder: &mut OutputFolder) -> fastpack_core::Result<()> {
    folder.finish("{}", BTreeMap::new(), None)
}

#[test]
fn what_is_changed_while_a_run_works_that_replaces_it_stays() {
    let dir = TempDir::new().expect("a folder");
    run(&output(dir.path()), &job(), &[batch(&[3])]);
    let mut folder = ready(&overwriting(dir.path()), &other_job());
    folder.write(&batch(&[4])).expect("room");
    fs::write(dir.path().join("train-00000.arrow"), "mine").expect("room");
    let before = names(dir.path());
    let error = finish(&mut folder).expect_err("a file is in the way");
    assert!(error.to_string().contains("train-00000.arrow"), "{error}");
    drop(folder);
    assert_eq!(fs::read(dir.path().join("train-00000.arrow")).expect("the file"), b"mine");
    assert!(before.iter().any(|name| name == "manifest.json"));
    assert!(dir.path().join("manifest.json").exists());
}

#[test]
fn killed_while_an_old_output_is_replaced_the_next_run_knows_what_is_left_of_it() {
    for next in [job(), other_job()] {
        for left in 0..4 {
            let dir = TempDir::new().expect("a folder");
            let three = Output { shard_bytes: 1, ..output(dir.path()) };
            run(&three, &job_of(&json!({ "seed": 1 })), &[batch(&[3, 4, 5])]);
            killed_by_overwriting(dir.path(), left);
            let next_run = Output { shard_bytes: 1, ..overwriting(dir.path()) };
            let mut folder = ready(&next_run, &next);
            let done = usize::try_from(folder.rows()).expect("few rows");
            assert_eq!(done, usize::from(next == job()));
            assert!(names(dir.path()).iter().all(|name| name.starts_with(".fastpack/")));
            folder.write(&batch(&[3, 4][done..])).expect("room");
            finish(&mut folder).expect("room");
            drop(folder);
            let expected =
                ["manifest.json", "report.json", "train-00000.arrow", "train-00001.arrow"];
            assert_eq!(names(dir.path()), expected);
        }
    }
}

/// Leaves `dir` as a run does that is killed when it has removed all but `left` files of the output there.
fn killed_by_overwriting(dir: &Path, left: usize) {
    killed_with(dir, &overwriting(dir));
    let work = dir.join(".fastpack");
    fs::rename(dir.join("manifest.json"), work.join("replaced.json")).expect("the manifest");
    let old = names(dir).into_iter().filter(|name| !name.starts_with(".fastpack/"));
    for name in old.skip(left) {
        fs::remove_file(dir.join(name)).expect("a file");
    }
}

fn killed_with(dir: &Path, output: &Output) {
    let mut folder = ready(&Output { shard_bytes: 1, ..output.clone() }, &job());
    folder.write(&batch(&[3, 4])).expect("room");
    drop(folder);
    assert!(dir.join(".fastpack/shards").exists());
}

#[test]
fn bytes_that_others_share_by_hard_links_stay_theirs() {
    let dir = TempDir::new().expect("a folder");
    let (packed, copy) = (dir.path().join("packed"), dir.path().join("copy"));
    killed(&packed, &job());
    fs::create_dir(&copy).expect("room");
    for entry in fs::read_dir(packed.join(".fastpack")).expect("a folder").flatten() {
        fs::hard_link(entry.path(), copy.join(entry.file_name())).expect("a link");
    }
    let before = files(&copy);
    let mut folder = ready(&Output { shard_bytes: 1, ..output(&packed) }, &job());
    fs::OpenOptions::new()
        .append(true)
        .open(folder.blocks())
        .and_then(|mut blocks| std::io::Write::write_all(&mut blocks, b"more"))
        .expect("room");
    folder.write(&batch(&[4])).expect("room");
    finish(&mut folder).expect("room");
    drop(folder);
    run(&overwriting(&packed), &other_job(), &[batch(&[4])]);
    assert_eq!(files(&copy), before);
}

#[test]
fn the_outputs_of_inputs_are_not_written_over_files_of_others() {
    let dir = TempDir::new().expect("a folder");
    for name in ["a.jsonl", "b-00001.jsonl", "c.arrow", "a-1.jsonl", "ab.jsonl"] {
        fs::write(dir.path().join(name), name).expect("room");
    }
    let each = Output { coding: coding(Format::Jsonl), per_file: true, ..overwriting(dir.path()) };
    let folder = ready(&each, &job());
    for (stem, taken) in [("a", "`a.jsonl`"), ("b", "`b-00001.jsonl`")] {
        let refused = folder.reserve(&[stem.to_owned()]).expect_err("a file is in the way");
        assert!(refused.to_string().contains(taken), "{refused}");
    }
    folder.reserve(&["c".to_owned(), "b-00001.jsonl".to_owned()]).expect("nothing is in the way");
}
