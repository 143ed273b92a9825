//! Sealed text: JSON whose first field is a hash of the rest. The hash proves that fastpack wrote the file.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::util::disk::regular;
use crate::util::disk::regular::Links;
use crate::util::disk::removal::{Claim, Disk, Evidence, Stamp, Temporary};

/// The beginning of sealed text.
const BEGIN: &str = "{\n  \"blake3\": \"";

/// The text between the hash and the bytes that it covers.
const END: &str = "\",\n";

/// Hexadecimal digits of a hash.
const DIGITS: usize = 2 * blake3::OUT_LEN;

/// Bytes needed to recognise sealed text.
pub(crate) const SHORT: u64 = BEGIN.len() as u64;

/// The beginning of text that can be sealed. The hash replaces it.
const OPEN: &str = "{\n";

/// Bytes that are hashed or written at once.
const BUFFER: usize = 64 << 10;

/// An object as sealed text. It may be large, so memory holds it once.
///
/// # Panics
///
/// If `object` does not become a JSON object with a field.
pub(crate) fn seal(object: &impl Serialize) -> String {
    let mut text = Vec::new();
    seal_to(&mut text, object).expect("memory takes all that is written");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Writes an object as sealed text. Memory never holds the whole text.
///
/// # Panics
///
/// As [`seal`].
pub(crate) fn seal_to(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    write_rest(&mut hasher, object)?;
    write!(out, "{BEGIN}{}{END}", hasher.finalize().to_hex())?;
    write_rest(out, object)
}

/// Writes the bytes that the hash covers: the JSON of an object without its beginning, and a line end.
fn write_rest(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut rest = BufWriter::with_capacity(BUFFER, SkippingWriter { out, skipped: 0 });
    serde_json::to_writer_pretty(&mut rest, object)?;
    rest.write_all(b"\n")?;
    rest.flush()
}

/// Writes all but the beginning, [`OPEN`].
struct SkippingWriter<W> {
    out: W,
    skipped: usize,
}

impl<W: Write> Write for SkippingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wanted = &OPEN.as_bytes()[self.skipped..];
        let skip = wanted.len().min(bytes.len());
        assert_eq!(&bytes[..skip], &wanted[..skip], "an object with fields");
        self.skipped += skip;
        self.out.write_all(&bytes[skip..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes an object as sealed text to `path`, whole or not at all. Makes the folder if needed. Others may do the same at the same
/// time: one of them stays. A file of somebody else that lies there stays too, and nothing is written.
pub(crate) fn keep(path: &Path, object: &impl Serialize) -> Result<()> {
    let dir = path.parent().expect("a file in a folder");
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let keep = || -> io::Result<()> {
        let (new, mut file) = Temporary::named(path, ".new")?;
        file.write_all(seal(object).as_bytes())?;
        new.persist(path, &SealedFiles)
    };
    match keep() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        kept => kept.map_err(Error::io(path)),
    }
}

/// The files of a cache that are sealed text: a hash of the rest stands in front, whole or damaged.
struct SealedFiles;

impl Evidence<Disk> for SealedFiles {
    fn claim(&self, path: &PathBuf) -> Claim<Stamp> {
        let mut text = Vec::new();
        let read = |file: File| file.take(SHORT).read_to_end(&mut text);
        let stamp = Stamp::at(path);
        let is_read = regular::open(path, Links::Refused).and_then(read).is_ok();
        match stamp.filter(|_| is_read && begin_as_sealed(&text)) {
            Some(stamp) => Claim::Version(stamp),
            None => Claim::None,
        }
    }
}

/// True if `text` is sealed and unchanged.
pub fn is_whole(text: &[u8]) -> bool {
    let parts = text.strip_prefix(BEGIN.as_bytes()).and_then(|rest| rest.split_at_checked(DIGITS));
    parts.is_some_and(|(hash, rest)| {
        rest.strip_prefix(END.as_bytes())
            .is_some_and(|rest| hash == blake3::hash(rest).to_hex().as_bytes())
    })
}

/// True if `text` is incomplete sealed text: its end was not written.
pub(crate) fn is_torn(text: &[u8]) -> bool {
    let shared = text.len().min(BEGIN.len());
    text[..shared] == BEGIN.as_bytes()[..shared]
}

/// The result of reading sealed text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// There is no file.
    Missing,
    /// There is another file, or one that was changed.
    Other,
    /// The text is whole.
    Whole(Vec<u8>),
}

/// Reads the file at `path`; only its beginning if it is not sealed text.
pub(crate) fn read(path: &Path, links: Links) -> io::Result<Sealed> {
    let mut file = match regular::open(path, links) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Sealed::Missing),
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(Sealed::Other),
        // Some systems do not open a folder for reading.
        Err(_) if path.is_dir() => return Ok(Sealed::Other),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    Read::by_ref(&mut file).take(SHORT).read_to_end(&mut text)?;
    if text != BEGIN.as_bytes() {
        return Ok(Sealed::Other);
    }
    file.read_to_end(&mut text)?;
    Ok(if is_whole(&text) { Sealed::Whole(text) } else { Sealed::Other })
}

/// Reads the object in the sealed text of a file, without the whole text in memory; `None` if there is no such file, or one that
/// was changed.
pub(crate) fn read_object<T: DeserializeOwned>(path: &Path, links: Links) -> io::Result<Option<T>> {
    let mut file = match regular::open(path, links) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            return Ok(None);
        }
        // Some systems do not open a folder for reading.
        Err(_) if path.is_dir() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut head = Vec::new();
    let length = BEGIN.len() + DIGITS + END.len();
    Read::by_ref(&mut file).take(length as u64).read_to_end(&mut head)?;
    let hash = head.strip_prefix(BEGIN.as_bytes()).and_then(|it| it.strip_suffix(END.as_bytes()));
    let Some(hash) = hash else { return Ok(None) };
    let mut rest = HashedReader { from: file, hasher: blake3::Hasher::new() };
    let text = OPEN.as_bytes().chain(BufReader::with_capacity(BUFFER, &mut rest));
    match serde_json::from_reader(text) {
        Ok(object) => {
            Ok(Some(object).filter(|_| rest.hasher.finalize().to_hex().as_bytes() == hash))
        }
        Err(error) if error.is_io() => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Reads bytes, and hashes them.
struct HashedReader<R> {
    from: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }
}

/// True if `bytes` begin as sealed text.
pub(crate) fn begin_as_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(BEGIN.as_bytes())
}

/// True if the file at `path` begins as sealed text. The rest is not read.
pub(crate) fn looks_sealed(path: &Path) -> bool {
    let mut text = Vec::new();
    let begin = |file: File| file.take(SHORT).read_to_end(&mut text);
    regular::open(path, Links::Followed).and_then(begin).is_ok() && text == BEGIN.as_bytes()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn sealed_text_is_json_with_the_hash_in_front() {
        let text = seal(&json!({ "now": "noon", "job": { "seed": 1 } }));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["job"], json!({ "seed": 1 }));
        assert_eq!(value["blake3"].as_str().map(str::len), Some(DIGITS));
        assert!(is_whole(text.as_bytes()));
    }

    #[test]
    fn any_byte_that_is_another_or_missing_is_found() {
        let text = seal(&json!({ "now": "noon" })).into_bytes();
        for at in 0..text.len() {
            let mut spoilt = text.clone();
            spoilt[at] ^= 1;
            assert!(!is_whole(&spoilt), "byte {at}");
            assert!(!is_whole(&text[..at]), "cut at {at}");
            assert!(is_torn(&text[..at]), "cut at {at}");
        }
        assert!(!is_whole(&[text.clone(), text].concat()));
        assert!(!is_torn(b"{\"blake3\": \"of somebody else\"}"));
    }

    #[test]
    fn threads_may_keep_the_same_object_at_the_same_time() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("made").join("it.json");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..50 {
                        keep(&path, &json!({ "now": "noon" })).expect("room");
                        let found = read(&path, Links::Refused).expect("a file");
                        assert!(matches!(found, Sealed::Whole(_)), "round {round}: {found:?}");
                    }
                });
            }
        });
        let left = fs::read_dir(path.parent().expect("a folder")).expect("a folder").count();
        assert_eq!(left, 1);
    }
}
