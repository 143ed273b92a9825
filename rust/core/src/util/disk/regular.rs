//! Opens regular files only: no link leads elsewhere, and no pipe or device is waited for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::{process, thread};

use crate::error::Error;
use crate::util::control::Control;

/// The treatment of a link in place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Links are followed: the caller named the file.
    Followed,
    /// Links are refused: fastpack puts none into its folders, so somebody else made it.
    Refused,
}

/// Refuses pipes and devices: opening one can wait for ever, and their size is unknown.
pub(crate) fn refuse_devices(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    if metadata.is_file() {
        return Ok(());
    }
    let reason = format!(
        "`{}` is no regular file; write what it gives to a file, and name that",
        path.display()
    );
    Err(Error::option("files", reason))
}

/// Opens the file at `path` for reading.
pub(crate) fn open(path: &Path, links: Links) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path, links)
}

/// Opens the file at `path` for reading and writing. Creates it if there is none.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_with(options.read(true).write(true).create(true).truncate(false), path, Links::Refused)
}

/// Creates a file at `path`, where there must be none.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// A path beside `path` that only this thread uses: its name has the numbers of the process and the thread, and `ending`.
pub(crate) fn own(path: &Path, ending: &str) -> PathBuf {
    let thread = format!("{:?}", thread::current().id());
    let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{thread}{ending}", process::id()));
    PathBuf::from(name)
}

fn open_with(options: &mut OpenOptions, path: &Path, links: Links) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Opening a pipe would wait for its other end.
        let mut flags = rustix::fs::OFlags::NONBLOCK;
        flags.set(rustix::fs::OFlags::NOFOLLOW, links == Links::Refused);
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = match options.open(path) {
        // The system reports a link that is not followed as a loop of links.
        Err(_) if links == Links::Refused && is_link(path) => return Err(no_regular_file()),
        opened => opened?,
    };
    let followed_here = cfg!(not(unix)) && links == Links::Refused && is_link(path);
    if followed_here || !file.metadata()?.is_file() { Err(no_regular_file()) } else { Ok(file) }
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.file_type().is_symlink())
}

fn no_regular_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "is no regular file")
}

/// True if `path` is a folder, and not a link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_dir())
}

/// Copies the file at `path` to `new`, where there must be no file, if it has other hard links, as a backup by hard links makes
/// them: writing would change those files too. Returns whether it did.
#[cfg(unix)]
pub(crate) fn copy_shared(path: &Path, new: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let is_shared = path.symlink_metadata()?.nlink() > 1;
    if is_shared {
        io::copy(&mut open(path, Links::Refused)?, &mut create(new)?)?;
    }
    Ok(is_shared)
}

/// Does nothing: only on Unix is a file checked for other hard links.
#[cfg(not(unix))]
pub(crate) fn copy_shared(_path: &Path, _new: &Path) -> io::Result<bool> {
    Ok(false)
}

/// True if `file` is still the file at `path`: the last holder of the lock may have removed it.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(ours.dev() == there.dev() && ours.ino() == there.ino()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// True if `file` is still the file at `path`: on other systems an open file cannot be removed.
#[cfg(not(unix))]
pub(crate) fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Gives the file at `from` the second name `to`, where there must be no file; a copy, where the file system
/// has no second names.
pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    if !from.symlink_metadata()?.is_file() {
        return Err(no_regular_file());
    }
    match fs::hard_link(from, to) {
        Err(error) if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
            let mut copy = create(to)?;
            io::copy(&mut open(from, Links::Refused)?, &mut copy)?;
            copy.sync_all()
        }
        linked => linked,
    }
}

/// Renames `from` to `to`, where there must be no file.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system does not support this: a network file system, or an old kernel.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            renamed => return Ok(renamed?),
        }
    }
    if to.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

/// Bytes of a file that are read at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// The hash of the rest of `file`, which is at `path`.
pub(crate) fn hash(file: impl Read, path: &Path, control: &Control) -> crate::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    each_piece(file, path, control, |piece| {
        hasher.update(piece);
    })?;
    Ok(hasher.finalize())
}

/// Gives the rest of `file`, which is at `path`, piece by piece.
pub(crate) fn each_piece(
    mut file: impl Read,
    path: &Path,
    control: &Control,
    mut take: impl FnMut(&[u8]),
) -> crate::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        control.tick()?;
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => take(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(path)(error)),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_followed_only_where_that_is_asked_for() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "text").expect("room");
        symlink(&file, &link).expect("a link");
        assert!(open(&link, Links::Followed).is_ok());
        for opened in [open(&link, Links::Refused), open_to_write(&link), create(&link)] {
            assert!(opened.is_err());
        }
        assert_eq!(fs::read_to_string(&file).expect("the file"), "text");
    }

    #[test]
    fn a_link_that_leads_nowhere_makes_no_file() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (nowhere, link) = (dir.path().join("nowhere"), dir.path().join("link"));
        symlink(&nowhere, &link).expect("a link");
        assert!(open_to_write(&link).is_err() && create(&link).is_err());
        assert!(!nowhere.exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        let refused = [open(&pipe, Links::Followed), open_to_write(&pipe)];
        assert!(refused.iter().all(Result::is_err));
    }

    #[test]
    fn a_file_of_two_names_gets_bytes_of_its_own() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let [one, two, new] = ["one", "two", "new"].map(|name| dir.path().join(name));
        fs::write(&one, "text").expect("room");
        fs::hard_link(&one, &two).expect("a file system with links");
        assert!(copy_shared(&one, &new).expect("room"));
        fs::write(&new, "other").expect("room");
        assert_eq!(fs::read_to_string(&two).expect("the file"), "text");
        assert!(!copy_shared(&new, &one).expect("a file of one name"));
    }

    #[test]
    fn nothing_is_renamed_over_another_file() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let [one, two, link] = ["one", "two", "link"].map(|name| dir.path().join(name));
        fs::write(&one, "1").expect("room");
        fs::write(&two, "2").expect("room");
        symlink("nowhere", &link).expect("a link");
        for taken in [&two, &link] {
            let refused = rename(&one, taken).map_err(|error| error.kind());
            assert_eq!(refused, Err(ErrorKind::AlreadyExists));
        }
        rename(&one, &dir.path().join("three")).expect("room");
        assert_eq!(fs::read_to_string(&two).expect("the file"), "2");
    }
}
