//! Globs: the files and folders that match a pattern.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirEntry};
use std::path::{Component, Path, PathBuf};

use glob::Pattern;

use crate::error::{Error, Result};
use crate::util::control::Control;

/// The files and folders that `pattern` matches, sorted.
///
/// `**` matches any number of folders. It follows links, but enters no folder twice, so a link to a parent
/// folder ends.
pub(crate) fn matches(pattern: &str, control: &Control) -> Result<Vec<PathBuf>> {
    let refuse = |error| Error::option("files", format!("`{pattern}` is not a glob: {error}"));
    Pattern::new(pattern).map_err(refuse)?;
    let mut root = PathBuf::new();
    let mut parts = Vec::new();
    for component in Path::new(pattern).components() {
        match component {
            Component::Normal(part) => {
                let part = part.to_str().unwrap_or_default();
                let pattern = Pattern::new(part).map_err(refuse)?;
                // `**/**` matches the same as `**`.
                if part != "**" || !matches!(parts.last(), Some(PatternPart::Folders)) {
                    parts.push(match part {
                        "**" => PatternPart::Folders,
                        _ if part.contains(['*', '?', '[']) => PatternPart::Like(pattern),
                        _ => PatternPart::Named(PathBuf::from(part)),
                    });
                }
            }
            Component::ParentDir | Component::CurDir if !parts.is_empty() => {
                parts.push(PatternPart::Named(PathBuf::from(component.as_os_str())));
            }
            _ => root.push(component),
        }
    }
    let folders_alone = pattern.ends_with(std::path::is_separator);
    let mut walk =
        PatternWalk { parts, folders_alone, found: Vec::new(), open: Vec::new(), control };
    walk.open.push((root, 0));
    walk.run()?;
    walk.found.sort_unstable();
    walk.found.dedup();
    Ok(walk.found)
}

/// A part of a pattern, between two separators.
enum PatternPart {
    /// A name.
    Named(PathBuf),
    /// Any name of this form.
    Like(Pattern),
    /// Any number of folders.
    Folders,
}

/// A walk through the folders that the first parts of a pattern match.
struct PatternWalk<'a> {
    parts: Vec<PatternPart>,
    /// True if the pattern ends in a separator, so that it matches folders only.
    folders_alone: bool,
    found: Vec<PathBuf>,
    /// Folders to enter, each with the index of the part that its entries must match.
    open: Vec<(PathBuf, usize)>,
    control: &'a Control,
}

impl PatternWalk<'_> {
    fn run(&mut self) -> Result<()> {
        let mut entered = HashSet::new();
        let mut links = BTreeSet::new();
        // A folder that is reached without links keeps its own path, whatever the listing order of the
        // system.
        while let Some((folder, at)) = self.open.pop().or_else(|| links.pop_first()) {
            self.control.tick()?;
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { &*folder };
            if !here.is_dir() {
                continue;
            }
            let real = here.canonicalize().map_err(Error::io(here))?;
            if entered.insert((real, at)) {
                self.enter(&folder, here, at, &mut links)?;
            }
        }
        Ok(())
    }

    /// Matches the entries of a folder, which is read as `here`.
    fn enter(
        &mut self,
        folder: &Path,
        here: &Path,
        at: usize,
        links: &mut BTreeSet<(PathBuf, usize)>,
    ) -> Result<()> {
        let is_last = at + 1 == self.parts.len();
        if let Some(PatternPart::Named(name)) = self.parts.get(at) {
            let path = folder.join(name);
            if path.exists() {
                self.take(path, at, is_last);
            }
            return Ok(());
        }
        if !is_last && matches!(self.parts.get(at), Some(PatternPart::Folders)) {
            self.open.push((folder.to_owned(), at + 1));
        }
        for entry in fs::read_dir(here).map_err(Error::io(here))? {
            self.control.tick()?;
            let entry = entry.map_err(Error::io(here))?;
            let path = folder.join(entry.file_name());
            match self.parts.get(at) {
                Some(PatternPart::Folders) if is_folder(&entry, &path) => {
                    if is_last {
                        self.found.push(path.clone());
                    }
                    let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                    if is_link {
                        links.insert((path, at));
                    } else {
                        self.open.push((path, at));
                    }
                }
                Some(PatternPart::Like(pattern))
                    if entry.file_name().to_str().is_some_and(|name| pattern.matches(name)) =>
                {
                    self.take(path, at, is_last);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes an entry that matches a part. It is a result if that is the last part, else a folder to enter.
    fn take(&mut self, path: PathBuf, at: usize, is_last: bool) {
        if !is_last {
            self.open.push((path, at + 1));
        } else if !self.folders_alone || path.is_dir() {
            self.found.push(path);
        }
    }
}

fn is_folder(entry: &DirEntry, path: &Path) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => path.is_dir(),
    }
}
