//! Finds the files of the inputs that the user names, in an order that does not depend on the file system.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::braces::expand;
use super::data_files::{FORMATS, data_of_folder, refuse_other_data};
use super::dataset_folder;
use super::found::{FoundFiles, SourceFile};
use super::globs;
use super::outputs::FoundOutputs;
use super::remote;
use crate::config::{Inputs, Reading, ShapeName};
use crate::error::{Error, Result};
use crate::source::formats::format::{Container, by_name};
use crate::storage::{Location, Session, is_url};
use crate::util::control::Control;
use crate::util::disk::regular::refuse_devices;

/// Finds the files of `inputs`.
///
/// Named files keep the order in which they were named. The files of a folder or a glob are sorted by path. A
/// file that is named twice is refused, since its documents would be packed twice, unless it is read with
/// other options.
///
/// # Errors
///
/// [`Error::Io`] for a file that does not exist or cannot be read, [`Error::Option`] for a pattern that
/// matches nothing, a folder without data and an unsupported format.
pub fn discover(inputs: &Inputs, control: &Control) -> Result<FoundFiles> {
    let mut found = FoundFiles { sources: inputs.sources.clone(), ..FoundFiles::default() };
    let mut seen = HashSet::new();
    let mut shown: HashMap<String, PathBuf> = HashMap::new();
    let search = LocalSearch { recursive: inputs.recursive, control };
    let mut session = None;
    for (number, source) in inputs.sources.iter().enumerate() {
        if let Some(records) = &source.records {
            found.files.push(SourceFile::of_records(&records.name, number));
            continue;
        }
        let before = found.files.len();
        let alike = inputs.sources.iter().position(|other| other.reading == source.reading);
        for pattern in &source.patterns {
            if pattern.as_os_str().is_empty() {
                return Err(Error::option("files", "holds an empty path"));
            }
            let locations = if is_url(pattern) || inputs.storage.resolves(pattern) {
                let session = match &mut session {
                    Some(session) => &*session,
                    none => &*none.insert(Session::open(&inputs.storage, control.flag())?),
                };
                let search = remote::RemoteSearch { recursive: inputs.recursive, session, control };
                search.files(pattern, &mut found.passed_over)?
            } else {
                let paths = search.paths(pattern, &mut found.passed_over)?;
                paths.into_iter().map(|path| Location::from(&*path)).collect()
            };
            for location in locations {
                control.tick()?;
                let path = location.name();
                let real = if location.is_remote() {
                    path.to_path_buf()
                } else {
                    path.canonicalize().map_err(Error::io(&**path))?
                };
                // A hash takes less memory than a path.
                if !seen.insert((blake3::hash(real.as_os_str().as_encoded_bytes()), alike)) {
                    let reason = format!("`{}` is named twice", path.display());
                    return Err(Error::option("files", reason));
                }
                if path.to_str().is_none() {
                    refuse_same_shown_path(path, &mut shown)?;
                }
                let guessed = by_name(path).0.is_none();
                let file = SourceFile::open(location, number, control)?;
                if guessed && file.format.container == Container::Text {
                    refuse_as_text(&file.path, &source.reading)?;
                }
                found.files.push(file);
            }
        }
        if found.files.len() == before {
            return Err(Error::option("files", "must name at least one file"));
        }
        let texts = |file: &SourceFile| file.format.container == Container::Text;
        if source.reading.separator.is_some() && !found.files[before..].iter().any(texts) {
            let reason =
                "stands between texts of a `.txt` or `.md` file, but there is none; leave it out";
            return Err(Error::option("reading.separator", reason));
        }
    }
    found.files.shrink_to_fit();
    Ok(found)
}

/// Refuses a file whose content can only be text, if the caller named another shape.
fn refuse_as_text(path: &Path, reading: &Reading) -> Result<()> {
    let named = reading.named_shape(ShapeName::ALL);
    let Some(named) = named.filter(|named| *named != ShapeName::Text) else { return Ok(()) };
    let reason = format!(
        "`{}` begins as a text, and not as records of the shape `{}`; give it the ending of what it is ({FORMATS})",
        path.display(),
        named.name()
    );
    Err(Error::option("files", reason))
}

/// Refuses two files whose paths look alike as text because one is not Unicode: manifests, reports and kept
/// tokens could not tell them apart.
fn refuse_same_shown_path(path: &Path, shown: &mut HashMap<String, PathBuf>) -> Result<()> {
    let name = path.display().to_string();
    let first = shown.entry(name).or_insert_with(|| path.to_owned());
    if first == path {
        return Ok(());
    }
    let reason = format!(
        "`{}` is how two files are shown whose names are no UTF-8; rename one of them",
        path.display()
    );
    Err(Error::option("files", reason))
}

/// A search for files.
#[derive(Clone, Copy)]
struct LocalSearch<'a> {
    /// True if the folders inside a folder are searched too.
    recursive: bool,
    control: &'a Control,
}

impl LocalSearch<'_> {
    /// The files of one pattern.
    fn paths(self, pattern: &Path, passed_over: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        if let Some(text) = pattern.to_str()
            && !pattern.exists()
        {
            let names = expand(text)?;
            if names.len() > 1 {
                let mut all = Vec::new();
                for name in names {
                    self.control.tick()?;
                    all.extend(self.paths(Path::new(&name), passed_over)?);
                }
                return Ok(all);
            }
            if text.contains(['*', '?', '[']) {
                return self.matches(text, passed_over);
            }
        }
        let metadata = pattern.metadata().map_err(Error::io(pattern))?;
        if metadata.is_dir() {
            return self.folder(pattern, passed_over);
        }
        refuse_devices(pattern, &metadata)?;
        refuse_other_data(pattern)?;
        Ok(vec![pattern.to_owned()])
    }

    /// The files that a glob matches, sorted. Folders that it matches are searched.
    fn matches(self, pattern: &str, passed_over: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        let matched = globs::matches(pattern, self.control)?;
        if matched.is_empty() {
            return Err(Error::option("files", format!("`{pattern}` matches no file")));
        }
        let mut files = Vec::new();
        let mut outputs = FoundOutputs::of_glob(pattern);
        for path in matched {
            self.control.tick()?;
            if outputs.hold(&path, passed_over) {
                continue;
            }
            if path.is_dir() {
                if self.recursive {
                    files.extend(self.folder(&path, passed_over)?);
                }
            } else {
                refuse_devices(&path, &path.metadata().map_err(Error::io(&path))?)?;
                files.push(path);
            }
        }
        Ok(files)
    }

    /// The files of a folder that hold records, sorted by path. The files of a dataset keep its own order.
    ///
    /// A file without a known extension is recognised by its content. Beside files of records, a text such as
    /// a README does not count as data.
    fn folder(self, dir: &Path, passed_over: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        if let Some(files) = dataset_folder::files(dir)? {
            return Ok(files);
        }
        let mut entries = Vec::new();
        let mut outputs = FoundOutputs::below(dir);
        for path in self.entries(dir, &mut outputs, passed_over)? {
            self.control.tick()?;
            if !path.is_file() || outputs.is_output_file(&path) {
                passed_over.push(path);
            } else {
                entries.push(Location::from(&*path));
            }
        }
        let files = data_of_folder(dir, entries, self.recursive, passed_over, self.control)?;
        Ok(files.into_iter().map(|file| file.name().to_path_buf()).collect())
    }

    /// The files in a folder, and in its folders if they are searched too, sorted by path, without hidden
    /// files.
    ///
    /// A folder is entered once, by its own path if there is one, so links to folders come last. Folders in
    /// `outputs` are skipped.
    fn entries(
        self,
        dir: &Path,
        outputs: &mut FoundOutputs,
        passed_over: &mut Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>> {
        let mut entries = Vec::new();
        let (mut open, mut links) = (vec![dir.to_owned()], BTreeSet::new());
        let mut entered = HashSet::new();
        while let Some(dir) = open.pop().or_else(|| links.pop_first()) {
            if !entered.insert(dir.canonicalize().map_err(Error::io(&dir))?) {
                continue;
            }
            for entry in fs::read_dir(&dir).map_err(Error::io(&dir))? {
                self.control.tick()?;
                let entry = entry.map_err(Error::io(&dir))?;
                if is_hidden(&entry.file_name()) {
                    continue;
                }
                let path = entry.path();
                let kind = entry.file_type().map_err(Error::io(&path))?;
                if !path.is_dir() {
                    entries.push(path);
                } else if !self.recursive || outputs.hold(&path, passed_over) {
                    // It was not named, or fastpack wrote it.
                } else if kind.is_symlink() {
                    links.insert(path);
                } else {
                    open.push(path);
                }
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}
