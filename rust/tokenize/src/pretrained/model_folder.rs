//! The files of a model folder, read as Python reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::loading::regular;

/// A model folder on disk.
#[derive(Debug)]
pub(super) struct ModelFolder<'a> {
    dir: &'a Path,
}

impl<'a> ModelFolder<'a> {
    pub(super) fn new(dir: &'a Path) -> Self {
        Self { dir }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The text of a file, with line ends as Python's text mode reads them; `None` if there is no such file.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        let path = self.path(name);
        match regular::read_to_string(&path) {
            Ok(text) if text.contains('\r') => {
                Ok(Some(text.replace("\r\n", "\n").replace('\r', "\n")))
            }
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// The bytes of a file; `None` if there is no such file.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name);
        match regular::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// A JSON file that holds an object, or `None` if there is no such file.
    pub(super) fn object(&self, name: &str) -> Result<Option<Map<String, Value>>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|error| self.malformed(name, error))
    }

    /// The sorted names of the files in a subfolder that end in `suffix`; empty if there is no such
    /// subfolder.
    pub(super) fn names_in(&self, inside: &str, suffix: &str) -> Result<Vec<String>> {
        let path = self.path(inside);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Vec::new());
            }
            Err(source) => return Err(Error::Io { path, source }),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| Error::Io { path: path.clone(), source })?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(suffix) && !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The error that leaves a class to transformers.
    pub(super) fn foreign(&self, class: &str) -> Error {
        Error::ForeignClass { class: class.to_owned(), folder: self.dir.to_owned() }
    }

    /// An error about a file of the folder.
    pub(super) fn malformed(&self, name: &str, reason: impl std::fmt::Display) -> Error {
        Error::Malformed { file: self.path(name).display().to_string(), reason: reason.to_string() }
    }
}
