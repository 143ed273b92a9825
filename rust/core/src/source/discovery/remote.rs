//! Finds the inputs in remote storage.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::braces::expand;
use super::data_files::{data_of_folder, is_by_product, refuse_other_data};
use super::dataset_folder;
use crate::error::{Error, Result};
use crate::source::formats::format::{Container, by_name};
use crate::storage::{FoundObjects, Location, Outputs, Session, public};
use crate::util::control::Control;

/// The manifest and the report of a folder that fastpack wrote.
const OF_OUTPUTS: [&str; 2] = ["manifest.json", "report.json"];

/// The most bytes of a file that lists the files of a dataset.
const LARGEST_LIST: u64 = 256 << 20;

/// A search for files in remote storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteSearch<'a> {
    /// True if the folders inside a folder are searched too.
    pub(crate) recursive: bool,
    pub(crate) session: &'a Session,
    pub(crate) control: &'a Control,
}

impl RemoteSearch<'_> {
    /// The files of one pattern.
    pub(crate) fn files(
        self,
        pattern: &Path,
        passed_over: &mut Vec<PathBuf>,
    ) -> Result<Vec<Location>> {
        let refuse = || Error::option("files", "holds a URL that is not Unicode");
        let text = pattern.to_str().ok_or_else(refuse)?;
        // In the query of a web URL, braces are no list.
        let names = if text.contains('?') && text.starts_with("http") {
            vec![text.to_owned()]
        } else {
            expand(text)?
        };
        let mut files = Vec::new();
        for name in &names {
            self.control.tick()?;
            files.extend(self.files_of(name, passed_over)?);
        }
        // The compression of a file that does not say it is told by its first bytes.
        Session::look_at(files.iter().filter(|file| needs_start(file.name())))?;
        Ok(files)
    }

    fn files_of(self, name: &str, passed_over: &mut Vec<PathBuf>) -> Result<Vec<Location>> {
        match self.session.search(name)? {
            FoundObjects::File(file) => {
                refuse_other_data(file.name())?;
                Ok(vec![file])
            }
            FoundObjects::Files(files, outputs) => {
                let inside = |file: &Location| is_of_output(file, &outputs, passed_over);
                let files: Vec<_> = files.into_iter().filter(negate(inside)).collect();
                if files.is_empty() {
                    let reason = format!("`{}` matches no file of records", public(name));
                    return Err(Error::option("files", reason));
                }
                Ok(files)
            }
            FoundObjects::Folder(root, files, outputs) => {
                self.folder(&root, files, &outputs, passed_over)
            }
        }
    }

    /// The files of a folder that hold records, as those of a local folder are chosen.
    fn folder(
        self,
        root: &str,
        files: Vec<Location>,
        outputs: &Outputs,
        passed_over: &mut Vec<PathBuf>,
    ) -> Result<Vec<Location>> {
        if let Some(files) = dataset_of(root, &files)? {
            return Ok(files);
        }
        let inside = |file: &Location| {
            let name = file.name().to_str().unwrap_or_default();
            name.strip_prefix(root).unwrap_or(name).to_owned()
        };
        let is_output = files.iter().any(|file| inside(file) == OF_OUTPUTS[0]);
        let mut entries = Vec::new();
        for file in files {
            let name = inside(&file);
            // Some tools make an empty object in place of a folder.
            let is_hidden = name.is_empty() || name.split('/').any(|part| part.starts_with('.'));
            if is_hidden || !self.recursive && name.contains('/') {
                continue;
            }
            if is_of_output(&file, outputs, passed_over) {
                continue;
            }
            if is_output && OF_OUTPUTS.contains(&name.as_str()) {
                passed_over.push(file.name().to_path_buf());
                continue;
            }
            entries.push(file);
        }
        let unsure = entries.iter().filter(|file| match by_name(file.name()) {
            (None, _) => !is_by_product(file.name()),
            (Some(Container::Json), None) => true,
            _ => false,
        });
        Session::look_at(unsure)?;
        data_of_folder(Path::new(root), entries, self.recursive, passed_over, self.control)
    }
}

/// True if the first bytes of a file are needed to tell its format.
fn needs_start(path: &Path) -> bool {
    let (container, compression) = by_name(path);
    compression.is_none() && !matches!(container, Some(Container::Parquet | Container::Arrow))
}

/// True if a file lies in a folder that fastpack wrote. The folder is added to `passed_over` the first time.
fn is_of_output(file: &Location, outputs: &Outputs, passed_over: &mut Vec<PathBuf>) -> bool {
    let Some(holder) = outputs.holder(file.name()) else { return false };
    if !passed_over.iter().any(|passed| passed == holder) {
        passed_over.push(holder.to_owned());
    }
    true
}

fn negate<T>(mut is: impl FnMut(&T) -> bool) -> impl FnMut(&T) -> bool {
    move |it| !is(it)
}

/// The files of a folder of `datasets.save_to_disk`, in its own order; `None` for another folder.
fn dataset_of(root: &str, files: &[Location]) -> Result<Option<Vec<Location>>> {
    let by_name: HashMap<&Arc<Path>, &Location> =
        files.iter().map(|file| (file.name(), file)).collect();
    let file = |name: &Path| {
        let name = format!("{root}{}", name.to_str()?);
        by_name.get(&Arc::from(Path::new(&name))).copied()
    };
    let refuse = |reason: String| Error::option("files", format!("`{root}` {reason}"));
    if file(Path::new(dataset_folder::SPLITS)).is_some() {
        return Err(refuse("holds several datasets; name the folder of one".to_owned()));
    }
    let Some(state) = file(Path::new(dataset_folder::STATE)) else { return Ok(None) };
    let size = state.stat().map_err(Error::io(&**state.name()))?.size;
    let text = state.start(usize::try_from(size.min(LARGEST_LIST)).unwrap_or(0));
    let text = text.map_err(Error::io(&**state.name()))?;
    let Some(names) = dataset_folder::listed(&text) else { return Ok(None) };
    if names.is_empty() {
        return Err(refuse("is a dataset without rows".to_owned()));
    }
    let found = names.iter().map(|name| {
        file(name).cloned().ok_or_else(|| {
            let state = dataset_folder::STATE;
            refuse(format!(
                "is a dataset whose `{state}` names `{}`, which is not there",
                name.display()
            ))
        })
    });
    found.collect::<Result<_>>().map(Some)
}
