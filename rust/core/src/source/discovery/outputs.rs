//! [`FoundOutputs`]: folders that fastpack wrote, which a search for inputs skips.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use crate::util::disk::sealed;

/// The name of the manifest, by which an output is recognised.
const MANIFEST: &str = "manifest.json";

/// The name of the report.
const REPORT: &str = "report.json";

/// The name of the work folder.
const WORK: &str = ".fastpack";

/// Folders below the searched one that fastpack wrote: outputs, and the entries of a cache. If they were read
/// with the data that they were made from, it would be packed twice. A named folder is always read.
#[derive(Debug)]
pub(crate) struct FoundOutputs {
    root: PathBuf,
    known: HashMap<PathBuf, bool>,
}

impl FoundOutputs {
    /// The outputs below the folder `root`.
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), known: HashMap::new() }
    }

    /// The outputs below the last plain folder of the glob `pattern`.
    pub(crate) fn of_glob(pattern: &str) -> Self {
        let is_named = |part: &Component<'_>| {
            let part = part.as_os_str().as_encoded_bytes();
            !part.iter().any(|byte| b"*?[".contains(byte))
        };
        let path = Path::new(pattern);
        let named: PathBuf = path.components().take_while(is_named).collect();
        Self::below(&named)
    }

    /// True if `path` is an output or lies in one. The output is added to `passed_over` the first time.
    pub(crate) fn hold(&mut self, path: &Path, passed_over: &mut Vec<PathBuf>) -> bool {
        let Some(holder) = self.holder(path) else { return false };
        if !passed_over.iter().any(|passed| passed == holder) {
            passed_over.push(holder.to_owned());
        }
        true
    }

    /// True if `path` is a manifest or report beside the rows of a named output.
    pub(crate) fn is_output_file(&mut self, path: &Path) -> bool {
        let names = [MANIFEST, REPORT];
        path.file_name().is_some_and(|name| names.iter().any(|it| name == *it))
            && path.parent().is_some_and(|folder| self.is_one(folder))
    }

    /// The outermost output that `path` is or lies in.
    fn holder<'a>(&mut self, path: &'a Path) -> Option<&'a Path> {
        let below = path.ancestors().take_while(|folder| *folder != self.root);
        let below: Vec<&Path> = below.filter(|folder| *folder != Path::new("")).collect();
        below.into_iter().rev().find(|folder| self.is_one(folder))
    }

    fn is_one(&mut self, folder: &Path) -> bool {
        if let Some(&known) = self.known.get(folder) {
            return known;
        }
        let is_work = folder.file_name().is_some_and(|name| name == WORK);
        let is_one = is_work || sealed::looks_sealed(&folder.join(MANIFEST));
        self.known.insert(folder.to_owned(), is_one);
        is_one
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn outputs_are_known_by_their_manifest_unless_they_are_named() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let [packed, other] = ["packed", "other"].map(|name| dir.path().join(name));
        for folder in [&packed.join("train"), &other.join(".fastpack")] {
            fs::create_dir_all(folder).expect("room");
        }
        fs::write(packed.join(MANIFEST), sealed::seal(&json!({ "version": 3 }))).expect("room");
        fs::write(other.join(MANIFEST), "{\"blake3\": \"of somebody else\"}").expect("room");
        let shard = packed.join("train/data-00000-of-00001.arrow");
        let glob =
            |pattern: &str| FoundOutputs::of_glob(&dir.path().join(pattern).to_string_lossy());
        for mut outputs in [FoundOutputs::below(dir.path()), glob("**/*.arrow"), glob("*/train/*")]
        {
            assert_eq!(outputs.holder(&shard), Some(&*packed));
            assert_eq!(outputs.holder(&packed), Some(&*packed));
            assert_eq!(outputs.holder(&other.join("data.jsonl")), None);
            let torn = other.join(".fastpack/train-00000.arrow");
            assert_eq!(outputs.holder(&torn), torn.parent());
        }
        for mut outputs in [FoundOutputs::below(&packed), glob("packed/**/*.arrow")] {
            assert_eq!(outputs.holder(&shard), None);
            assert!(
                outputs.is_output_file(&packed.join("report.json"))
                    && !outputs.is_output_file(&shard)
            );
            assert!(!outputs.is_output_file(&other.join("report.json")));
        }
    }
}
