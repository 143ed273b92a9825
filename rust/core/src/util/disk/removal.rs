//! [`remove`] and [`Temporary`]: the only place where files are removed or written over.
//!
//! Whoever wants to do so needs a [`Proof`] that the file is fastpack's, and only [`Evidence`] gives one: a manifest or lock of
//! this job that names it, the marker of a cache with the entry's own name in it, or a file that this process has made itself.
//! The medium is a small trait, so that objects of buckets are removed by the same rule (`storage/buckets/objects.rs`).

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::util::disk::regular;

/// Other names that are tried for a temporary file, where a killed process has left one.
const NAMES: u32 = 1000;

/// The proof that the file or object `name` of a medium may be removed or replaced. Made by [`prove`] alone.
#[derive(Debug)]
pub(crate) struct Proof<M: Medium> {
    name: M::Name,
    /// The version that was proved, unless the name alone is the proof.
    stamp: Option<M::Stamp>,
}

/// The answer of [`Evidence`] to a name.
pub(crate) enum Claim<S> {
    /// There is no evidence for this name.
    None,
    /// This version of it is fastpack's. Another is not.
    Version(S),
    /// Whatever has this name is fastpack's.
    Name,
}

/// A proof that files or objects are fastpack's.
pub(crate) trait Evidence<M: Medium> {
    /// The proof for a name.
    fn claim(&self, name: &M::Name) -> Claim<M::Stamp>;
}

/// A place for files or objects: a disk, a bucket.
pub(crate) trait Medium: Sized {
    /// Their names.
    type Name: Clone;
    /// A value that changes when a file or object is written to or replaced.
    type Stamp: PartialEq + Clone;
    /// The error of a removal.
    type Failure;

    /// The current stamps, in order; `None` for a file or object that is not there.
    fn stamps(&self, names: &[Self::Name]) -> Result<Vec<Option<Self::Stamp>>, Self::Failure>;

    /// Removes the files or objects that [`remove`] has proved to be fastpack's.
    fn unlink(&self, names: &[Self::Name]) -> Result<(), Self::Failure>;
}

/// The proof that `name` is fastpack's, if the evidence says so.
pub(crate) fn prove<M: Medium>(evidence: &impl Evidence<M>, name: &M::Name) -> Option<Proof<M>> {
    let stamp = match evidence.claim(name) {
        Claim::None => return None,
        Claim::Version(stamp) => Some(stamp),
        Claim::Name => None,
    };
    Some(Proof { name: name.clone(), stamp })
}

impl<M: Medium> Proof<M> {
    /// The name.
    pub(crate) fn name(&self) -> &M::Name {
        &self.name
    }

    /// The version, if one was proved.
    pub(crate) fn stamp(&self) -> Option<&M::Stamp> {
        self.stamp.as_ref()
    }
}

/// Removes the files or objects that are proved to be fastpack's. Those that have changed since, or are there no more, stay as
/// they are; returns the names of the changed ones.
pub(crate) fn remove<M: Medium>(
    medium: &M,
    proofs: Vec<Proof<M>>,
) -> Result<Vec<M::Name>, M::Failure> {
    let (checked, mut unlinked): (Vec<_>, Vec<_>) =
        proofs.into_iter().partition(|proof| proof.stamp.is_some());
    let names: Vec<_> = checked.iter().map(|proof| proof.name.clone()).collect();
    let mut changed = Vec::new();
    for (proof, found) in checked.into_iter().zip(medium.stamps(&names)?) {
        match found {
            None => {}
            found if found == proof.stamp => unlinked.push(proof),
            _ => changed.push(proof.name),
        }
    }
    let names: Vec<_> = unlinked.into_iter().map(|proof| proof.name).collect();
    if !names.is_empty() {
        medium.unlink(&names)?;
    }
    Ok(changed)
}

/// The local disk. Its names are paths.
#[derive(Debug)]
pub(crate) struct Disk;

/// The metadata of a file that changes when the file is written to or replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), inode: inode(metadata) }
    }

    /// The stamp as text: the size, the time of the last change in nanoseconds since 1970, and the number of the file.
    pub(crate) fn to_text(&self) -> String {
        let since = self.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        format!("{} {} {}", self.bytes, since.map_or(0, |since| since.as_nanos()), self.inode)
    }

    /// The stamp of the regular file at `path`; `None` if there is none, or something else.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().filter(Metadata::is_file).map(|it| Self::of(&it))
    }
}

fn inode(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    return 0;
}

impl Medium for Disk {
    type Name = PathBuf;
    type Stamp = Stamp;
    type Failure = (PathBuf, io::Error);

    fn stamps(&self, names: &[PathBuf]) -> Result<Vec<Option<Stamp>>, Self::Failure> {
        let stamp = |path: &PathBuf| match path.symlink_metadata() {
            Ok(found) => Ok(Some(Stamp::of(&found))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err((path.clone(), error)),
        };
        names.iter().map(stamp).collect()
    }

    fn unlink(&self, names: &[PathBuf]) -> Result<(), Self::Failure> {
        for path in names {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err((path.clone(), error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Removes a file of the disk. Returns whether it stays, because it has changed since it was proved.
pub(crate) fn remove_file(proof: Proof<Disk>) -> io::Result<bool> {
    remove(&Disk, vec![proof]).map(|changed| !changed.is_empty()).map_err(|(_, error)| error)
}

/// Renames `from` over the file that is proved to be fastpack's, or to its name if it is there no more.
pub(crate) fn replace_file(from: &Path, proof: &Proof<Disk>) -> io::Result<()> {
    let unchanged = match (&proof.stamp, proof.name.symlink_metadata()) {
        (_, Err(error)) if error.kind() == ErrorKind::NotFound => {
            return regular::rename(from, &proof.name);
        }
        (_, Err(error)) => return Err(error),
        (Some(stamp), Ok(found)) => Stamp::of(&found) == *stamp,
        (None, Ok(found)) => found.is_file(),
    };
    if !unchanged {
        let reason = "is not as fastpack wrote it, and is not replaced; move it away";
        return Err(io::Error::new(ErrorKind::AlreadyExists, reason));
    }
    fs::rename(from, &proof.name)
}

/// Removes a folder if nothing is in it.
pub(crate) fn remove_empty(folder: &Path) -> io::Result<()> {
    fs::remove_dir(folder)
}

/// The folder of the open files of this process, by their numbers.
#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";

/// Makes a file without a name in a folder.
#[cfg(target_os = "linux")]
fn create_unnamed(folder: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    File::options().read(true).write(true).custom_flags(flags).open(folder)
}

/// A file that this process has made under a name of its own. It is removed when this is dropped, unless it was placed.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
    inode: u64,
    is_placed: bool,
    /// The file itself, if it has no name yet: nothing is left of it where the process is killed.
    unnamed: Option<File>,
}

impl Temporary {
    /// Makes a file in the folder of `path` that has no name until it is placed, where the system has such files; else one
    /// [`named`](Self::named).
    pub(crate) fn unnamed(path: &Path, ending: &str) -> io::Result<(Self, File)> {
        #[cfg(target_os = "linux")]
        if Path::new(OPEN_FILES).exists()
            && let Ok(file) = create_unnamed(path.parent().unwrap_or(path))
        {
            let (path, inode) = (path.to_owned(), inode(&file.metadata()?));
            let unnamed = Some(file.try_clone()?);
            return Ok((Self { path, inode, is_placed: false, unnamed }, file));
        }
        Self::named(path, ending)
    }

    /// Makes a file in the folder of `path`, with a name of its own that begins with the name of `path`.
    pub(crate) fn named(path: &Path, ending: &str) -> io::Result<(Self, File)> {
        let own = regular::own(path, "");
        for number in 0..NAMES {
            let mut name = own.as_os_str().to_owned();
            if number > 0 {
                name.push(format!("-{number}"));
            }
            name.push(ending);
            match Self::create(PathBuf::from(name)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Makes a file at `path`, where there must be none.
    pub(crate) fn create(path: PathBuf) -> io::Result<(Self, File)> {
        let file = regular::create(&path)?;
        let inode = inode(&file.metadata()?);
        Ok((Self { path, inode, is_placed: false, unnamed: None }, file))
    }

    /// The path of the file or object.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to `to`, where there must be no file.
    pub(crate) fn place(mut self, to: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.unnamed {
            use std::os::fd::AsRawFd;
            let from = format!("{OPEN_FILES}/{}", file.as_raw_fd());
            let (here, follow) = (rustix::fs::CWD, rustix::fs::AtFlags::SYMLINK_FOLLOW);
            return Ok(rustix::fs::linkat(here, from, here, to, follow)?);
        }
        regular::rename(&self.path, to)?;
        self.is_placed = true;
        Ok(())
    }

    /// Renames it to `to`, over a file there that is proved to be fastpack's. Others may do the same at the same time: one of
    /// them stays.
    pub(crate) fn persist(self, to: &Path, evidence: &impl Evidence<Disk>) -> io::Result<()> {
        let to = to.to_owned();
        match prove(evidence, &to) {
            Some(proof) => self.replace(&proof),
            None => match self.place(&to) {
                // It was placed since.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    prove(evidence, &to).map(drop).ok_or(error)
                }
                placed => placed,
            },
        }
    }

    /// Renames it over the file that is proved to be fastpack's.
    ///
    /// # Panics
    ///
    /// If it has no name: the system gives such a file a name that is free alone.
    pub(crate) fn replace(mut self, proof: &Proof<Disk>) -> io::Result<()> {
        assert!(self.unnamed.is_none(), "a file without a name is placed, and replaces none");
        replace_file(&self.path, proof)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Evidence<Disk> for Temporary {
    fn claim(&self, name: &PathBuf) -> Claim<Stamp> {
        let found = name.symlink_metadata().ok().filter(|it| inode(it) == self.inode);
        match found {
            Some(found) if *name == self.path && !self.is_placed && self.unnamed.is_none() => {
                Claim::Version(Stamp::of(&found))
            }
            _ => Claim::None,
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that cannot be removed has nobody to be reported to.
        if let Some(proof) = prove(&*self, &self.path.clone()) {
            let _ = remove_file(proof);
        }
    }
}

/// Exchanges two folders, so that each is at the other's path at once.
#[cfg(target_os = "linux")]
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Exchanges two folders, which this system cannot do at once.
#[cfg(not(target_os = "linux"))]
pub(crate) fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Barrier;

    use super::*;

    /// Evidence for every file.
    struct All;

    impl Evidence<Disk> for All {
        fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
            if Stamp::at(path).is_some() { Claim::Name } else { Claim::None }
        }
    }

    #[test]
    fn of_files_put_at_one_place_at_the_same_time_one_stays() {
        let dir = tempfile::tempdir().expect("a folder");
        let together = Barrier::new(4);
        let write = &|writer: usize| {
            for number in 0..200 {
                let path = dir.path().join(number.to_string());
                let created = Temporary::named(&path, &format!(".{writer}.new"));
                let (new, mut file) = created.expect("a file");
                file.write_all(b"whole").expect("space");
                together.wait();
                new.persist(&path, &All).expect("one of them stays");
            }
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|writer| drop(scope.spawn(move || write(writer))));
        });
        let left = std::fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(left, 200);
    }
}
