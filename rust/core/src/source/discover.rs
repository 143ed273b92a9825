//! Finds the files of the inputs that the user names, in an order that does not depend on the file system.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::braces::expand;
use super::dataset;
use super::format::{Container, by_name, holds_records};
use super::found::{Found, SourceFile};
use super::globs;
use super::outputs::Outputs;
use crate::config::{Inputs, Reading, ShapeName};
use crate::control::Control;
use crate::error::{Error, Result};

/// Extensions of data that fastpack does not read: an error for a named file, a mention in the report for one
/// in a folder.
const OTHER_DATA: [&str; 6] = ["7z", "lz4", "msgpack", "rar", "tar", "zip"];

/// Extensions of copies, unfinished files and logs.
const BY_PRODUCTS: [&str; 7] = ["bak", "incomplete", "log", "orig", "part", "temp", "tmp"];

/// The formats that are found in a folder, for messages.
const FORMATS: &str = ".jsonl, .json, .parquet, .arrow, .cbor, .csv, .tsv, .txt or .md";

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
pub fn discover(inputs: &Inputs, control: &Control) -> Result<Found> {
    let mut found = Found { sources: inputs.sources.clone(), ..Found::default() };
    let mut seen = HashSet::new();
    let mut shown: HashMap<String, PathBuf> = HashMap::new();
    let search = Search { recursive: inputs.recursive, control };
    for (number, source) in inputs.sources.iter().enumerate() {
        let before = found.files.len();
        let alike = inputs.sources.iter().position(|other| other.reading == source.reading);
        for pattern in &source.patterns {
            if pattern.as_os_str().is_empty() {
                return Err(Error::option("files", "holds an empty path"));
            }
            for path in search.paths(pattern, &mut found.passed_over)? {
                control.tick()?;
                let real = path.canonicalize().map_err(Error::io(&path))?;
                // A hash takes less memory than a path.
                if !seen.insert((blake3::hash(real.as_os_str().as_encoded_bytes()), alike)) {
                    let reason = format!("`{}` is named twice", path.display());
                    return Err(Error::option("files", reason));
                }
                if path.to_str().is_none() {
                    refuse_alike(&path, &mut shown)?;
                }
                let guessed = by_name(&path).0.is_none();
                let file = SourceFile::open(path, number, control)?;
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
            return Err(Error::option("separator", reason));
        }
    }
    Ok(found)
}

/// Refuses a file whose content can only be text, if the caller named another shape.
fn refuse_as_text(path: &Path, reading: &Reading) -> Result<()> {
    let named = reading.shape.or_else(|| reading.fields.shape());
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
fn refuse_alike(path: &Path, shown: &mut HashMap<String, PathBuf>) -> Result<()> {
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

/// Refuses pipes and devices: opening one can wait for ever, and their size is unknown.
fn refuse_devices(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let reason = format!(
        "`{}` is no regular file; write what it gives to a file, and name that",
        path.display()
    );
    Err(Error::option("files", reason))
}

/// A search for files.
#[derive(Clone, Copy)]
struct Search<'a> {
    /// Whether the folders inside a folder are searched too.
    recursive: bool,
    control: &'a Control,
}

impl Search<'_> {
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
        if other_data(pattern) {
            let reason = format!(
                "`{}` is of a format that is not read; turn it into one of {FORMATS}, compressed or not",
                pattern.display()
            );
            return Err(Error::option("files", reason));
        }
        Ok(vec![pattern.to_owned()])
    }

    /// The files that a glob matches, sorted. Folders that it matches are searched.
    fn matches(self, pattern: &str, passed_over: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        let matched = globs::matches(pattern, self.control)?;
        if matched.is_empty() {
            return Err(Error::option("files", format!("`{pattern}` matches no file")));
        }
        let mut files = Vec::new();
        let mut outputs = Outputs::of_glob(pattern);
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
        if let Some(files) = dataset::files(dir)? {
            return Ok(files);
        }
        let mut files = Vec::new();
        let mut texts = Vec::new();
        let mut outputs = Outputs::below(dir);
        for path in self.entries(dir, &mut outputs, passed_over)? {
            self.control.tick()?;
            if !path.is_file() || outputs.tell(&path) {
                passed_over.push(path);
                continue;
            }
            match by_name(&path) {
                (Some(Container::Text), _) => texts.push(path),
                (Some(Container::Json), None) if !holds_records(&path, self.control)? => {
                    passed_over.push(path);
                }
                (None, _) if !self.is_data(&path)? => {
                    // Other tools leave empty files as marks, such as `_SUCCESS`.
                    if path.metadata().map_err(Error::io(&path))?.len() > 0 {
                        passed_over.push(path);
                    }
                }
                _ => files.push(path),
            }
        }
        if files.is_empty() {
            files = texts;
        } else {
            passed_over.extend(texts);
        }
        if files.is_empty() {
            let deeper =
                if self.recursive { "" } else { "; `recursive=True` looks into its folders" };
            let reason =
                format!("`{}` holds no file of records ({FORMATS}){deeper}", dir.display());
            return Err(Error::option("files", reason));
        }
        passed_over.sort_unstable();
        Ok(files)
    }

    /// The files in a folder, and in its folders if they are searched too, sorted by path, without hidden
    /// files.
    ///
    /// A folder is entered once, by its own path if there is one, so links to folders come last. Folders in
    /// `outputs` are skipped.
    fn entries(
        self,
        dir: &Path,
        outputs: &mut Outputs,
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

    /// Whether a file of a folder without a known extension holds records.
    ///
    /// Files whose names begin with an underscore do not count, since tools put them beside data by custom;
    /// nor do copies and unfinished files. A file that cannot be opened does not count either, since it was
    /// not named.
    fn is_data(self, path: &Path) -> Result<bool> {
        let name = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
        let by_product = name.starts_with(b"_")
            || name.ends_with(b"~")
            || ending(path).is_some_and(|ending| BY_PRODUCTS.contains(&ending))
            // `data.jsonl.1` is a rotated `data.jsonl`.
            || path.file_stem().is_some_and(|stem| by_name(Path::new(stem)).0.is_some());
        if by_product || other_data(path) {
            return Ok(false);
        }
        match holds_records(path, self.control) {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            found => Ok(found.unwrap_or(false)),
        }
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn ending(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

fn other_data(path: &Path) -> bool {
    ending(path).is_some_and(|ending| OTHER_DATA.contains(&ending))
}
