//! Finds objects by URLs, globs and folders.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::{MatchOptions, Pattern};

use super::address::{Address, StoreKind};
use super::location::Location;
use super::object_stat::ObjectStat;
use super::session::Session;
use crate::config::ResolvedFile;
use crate::error::{Error, Result};
use crate::util::disk::sealed;

/// The manifest, by which a folder is recognised as an output.
const MANIFEST: &str = "manifest.json";

/// The work folder of an output.
const WORK: &str = ".fastpack/";

/// Bytes that tell a manifest of fastpack from others.
const SEALED: u64 = sealed::SHORT;

/// Globs match as those of local paths do: `*` stays within a folder, `**` does not.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The file, the files or the folder at a URL.
#[derive(Debug)]
pub(crate) enum FoundObjects {
    /// One object.
    File(Location),
    /// The objects that match a glob, or that the caller gave, in order.
    Files(Vec<Location>, Outputs),
    /// All objects below a folder, sorted by key, and the URL of the folder with its slash.
    Folder(String, Vec<Location>, Outputs),
}

/// The folders below the searched one that fastpack wrote. Their files are not read unless they are named.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Vec<PathBuf>);

impl Outputs {
    /// The output that holds an object.
    pub(crate) fn holder(&self, path: &Path) -> Option<&Path> {
        self.0.iter().map(PathBuf::as_path).find(|folder| path.starts_with(folder))
    }
}

impl Session {
    /// The one object at a URL, which is no glob.
    pub(crate) fn file(&self, url: &str) -> Result<Location> {
        let address = self.address(url)?;
        match self.find(&address)? {
            Some(object) => Ok(Arc::new(object).into()),
            None => Err(not_found(&address.name, "No such file")),
        }
    }

    /// The object of a file that the caller gave.
    pub(crate) fn resolved_location(&self, file: &ResolvedFile) -> Result<Location> {
        self.resolved_object(file).map(|object| Arc::new(object).into())
    }

    /// The objects that `text` names: a URL, a glob or a folder of a bucket.
    pub(crate) fn search(&self, text: &str) -> Result<FoundObjects> {
        if let Some(files) = self.resolved_files(text) {
            let found = files.iter().map(|file| self.resolved_object(file).map(Arc::new));
            let found: Vec<_> = found.collect::<Result<_>>()?;
            let found = found.into_iter().map(Location::from).collect();
            return Ok(FoundObjects::Files(found, Outputs::default()));
        }
        let address = self.address(text)?;
        if !Self::is_bucket(&address) {
            let missing = || not_found(&address.name, "No such file on the server");
            return match self.find(&address)? {
                Some(object) => Ok(FoundObjects::File(Arc::new(object).into())),
                None => Err(missing()),
            };
        }
        if address.key.contains(['*', '?', '[']) {
            return self.matches(&address);
        }
        if !address.key.is_empty()
            && !address.key.ends_with('/')
            && let Some(object) = self.find(&address)?
        {
            return Ok(FoundObjects::File(Arc::new(object).into()));
        }
        let prefix = address.key.trim_end_matches('/');
        let listed = self.list(&address, prefix)?;
        if listed.is_empty() {
            let reason = match address.kind {
                StoreKind::FileSystem => "No such file, and no folder with files",
                _ => "No such object, and no folder with objects",
            };
            return Err(not_found(&address.name, reason));
        }
        let found = listed.iter().map(|(key, stat)| self.listed_object(&address, key, stat));
        let found: Vec<_> = found.collect::<Result<_>>()?;
        let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let found = found.into_iter().map(|object| Location::from(Arc::new(object))).collect();
        let outputs = self.outputs(&address, &listed, &folder)?;
        Ok(FoundObjects::Folder(address.name_of(&folder), found, outputs))
    }

    /// The objects that a glob matches, sorted by key.
    fn matches(&self, address: &Address) -> Result<FoundObjects> {
        let refuse = |error: glob::PatternError| {
            Error::option("files", format!("`{}` is not a glob: {error}", address.name))
        };
        let pattern = Pattern::new(&address.key).map_err(refuse)?;
        let fixed = address.key.split('/').take_while(|part| !part.contains(['*', '?', '[']));
        let prefix = fixed.collect::<Vec<_>>().join("/");
        let listed = self.list(address, &prefix)?;
        let matched = listed.iter().filter(|(key, _)| pattern.matches_with(key, MATCHING));
        let found = matched.map(|(key, stat)| self.listed_object(address, key, stat).map(Arc::new));
        let found: Vec<_> = found.collect::<Result<_>>()?;
        if found.is_empty() {
            return Err(Error::option("files", format!("`{}` matches no file", address.name)));
        }
        let outputs = self.outputs(address, &listed, &format!("{prefix}/"))?;
        Ok(FoundObjects::Files(found.into_iter().map(Location::from).collect(), outputs))
    }

    /// The folders that fastpack wrote below the folder `root`, by their manifests.
    fn outputs(
        &self,
        address: &Address,
        listed: &[(String, ObjectStat)],
        root: &str,
    ) -> Result<Outputs> {
        let mut found = Vec::new();
        for (key, stat) in listed {
            let inside = key.strip_prefix(root).unwrap_or(key);
            if let Some(at) = inside.find(WORK) {
                found.push(PathBuf::from(
                    address.name_of(&key[..key.len() - inside.len() + at + WORK.len() - 1]),
                ));
            }
            if let Some(folder) =
                inside.strip_suffix(MANIFEST).filter(|folder| folder.ends_with('/'))
            {
                let manifest = self.listed_object(address, key, stat)?;
                let start = manifest.start(SEALED).map_err(Error::io(&**manifest.name()))?;
                if sealed::begin_as_sealed(&start) {
                    let folder = &key[..key.len() - inside.len() + folder.len() - 1];
                    found.push(PathBuf::from(address.name_of(folder)));
                }
            }
        }
        found.dedup();
        Ok(Outputs(found))
    }

    /// Fetches the first bytes of objects, several at a time.
    pub(crate) fn look_at<'a>(files: impl IntoIterator<Item = &'a Location>) -> Result<()> {
        let objects = files.into_iter().filter_map(|file| match file {
            Location::Remote(object, _) => Some(&**object),
            Location::Local(_) => None,
        });
        Self::fetch_starts(&objects.collect::<Vec<_>>())
    }
}

fn not_found(name: &str, reason: &str) -> Error {
    Error::io(Path::new(name))(io::Error::new(io::ErrorKind::NotFound, reason.to_owned()))
}
