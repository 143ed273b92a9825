//! [`RemotePictures`]: the pictures of a call that lie in remote storage, by their URLs.
//!
//! The size of a picture is read from its first bytes, as many as its header needs. Many pictures are fetched at a time, because each
//! of them is mostly a wait for an answer.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use fastpack_picture::Size;
use reqwest::Url;

use super::address::{is_url, is_web};
use super::location::Location;
use super::session::Session;
use crate::config::{ResolvedFile, StorageOptions};
use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::threads_in_order::ordered_within;

/// The beginning of the names of files on the hub.
const HUB: &str = "hf://";

/// Pictures that are fetched at a time for one block of records or one row. The client of a call bounds the requests of all.
const AT_A_TIME: NonZeroUsize = NonZeroUsize::new(16).expect("above zero");

/// The most pictures whose sizes are kept: one is shown by several conversations.
const MOST_KNOWN: usize = 1 << 14;

/// Bytes that are fetched first: the headers of most pictures without a thumbnail.
const FIRST_PIECE: u64 = 4 << 10;

/// The most bytes of a further piece, each of which is four times as long as the one before it.
const LARGEST_PIECE: u64 = 1 << 20;

/// The most bytes that are fetched of a header. Long metadata is passed over, and not fetched; a PNG may tell its turn at its end, so
/// that it is fetched.
const MOST_OF_HEADER: u64 = 64 << 20;

/// The most requests for one header.
const MOST_PIECES: u32 = 256;

/// The access to the pictures of a call that lie in remote storage.
#[derive(Clone, Debug, Default)]
pub struct PictureStorage {
    /// The options by which stores and web servers are read.
    pub options: StorageOptions,
    /// The way to the Hugging Face hub, if there is one.
    pub hub: Option<HubAccess>,
}

/// The way to the Hugging Face hub.
#[derive(Clone)]
pub struct HubAccess {
    /// The URL of the hub.
    pub endpoint: String,
    /// The headers of requests. They may be secrets.
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for HubAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubAccess").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// A picture in remote storage, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemotePicture {
    pub(crate) size: Size,
    /// The number of its bytes.
    pub(crate) bytes: u64,
    /// A number that changes with its content.
    pub(crate) version: u64,
}

/// A whole picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureContent {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// A number that changes with them.
    pub version: u64,
}

/// A result of a picture: the inner error is the fault of the record that names it.
type OfPicture<T> = std::result::Result<T, String>;

/// The facts about a picture, found by the first thread that needs them while other threads wait.
type SharedRemotePicture = Arc<Mutex<Option<OfPicture<RemotePicture>>>>;

/// The pictures of a call that lie in remote storage.
pub struct RemotePictures {
    storage: PictureStorage,
    cancelled: Arc<AtomicBool>,
    /// The session of stores, or of the caller's file system; it is opened for the first picture.
    stores: Mutex<Option<Arc<Session>>>,
    /// The session of web servers and of the hub, if the caller's file system has the other one.
    web: Mutex<Option<Arc<Session>>>,
    known: Mutex<HashMap<String, SharedRemotePicture>>,
}

impl fmt::Debug for RemotePictures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemotePictures").field("storage", &self.storage).finish_non_exhaustive()
    }
}

impl RemotePictures {
    /// Opens nothing yet. Once `control` is cancelled, every wait fails.
    pub fn new(storage: PictureStorage, control: &Control) -> Self {
        let (stores, web, known) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { storage, cancelled: control.flag(), stores, web, known }
    }

    /// The size and version of the picture at a URL.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the connection is lost or the server is out of order, and for whatever the caller's file system raises
    /// but that there is no such file. Anything else is the fault of the record that names the picture.
    pub(crate) fn picture(&self, url: &str) -> Result<OfPicture<RemotePicture>> {
        let known = {
            let mut known = lock(&self.known);
            if known.len() >= MOST_KNOWN && !known.contains_key(url) {
                known.clear();
            }
            Arc::clone(known.entry(url.to_owned()).or_default())
        };
        let mut known = lock(&known);
        if let Some(picture) = &*known {
            return Ok(picture.clone());
        }
        let picture = self.look_at(url)?;
        *known = Some(picture.clone());
        Ok(picture)
    }

    /// The sizes and versions of some pictures, fetched many at a time.
    pub(crate) fn pictures(&self, urls: &[String]) -> Result<Vec<OfPicture<RemotePicture>>> {
        of_all(urls, |url| self.picture(url))
    }

    /// The bytes of the picture at a URL, and its version.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] as [`picture`](Self::picture), and the inner error for a picture that is not there or cannot be read.
    pub fn content(&self, url: &str) -> Result<OfPicture<PictureContent>> {
        let location = match self.location(url)? {
            Ok(location) => location,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut bytes = Vec::new();
        let read = location.stat().and_then(|stat| {
            if stat.size > u64::from(u32::MAX) {
                let reason = "it has more than 4 GiB";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            location.open()?.read_to_end(&mut bytes)?;
            Ok(stat.version())
        });
        match read {
            Ok(version) => Ok(Ok(PictureContent { bytes, version })),
            Err(error) => self.fault_of(url, Error::io(&**location.name())(error)).map(Err),
        }
    }

    /// The bytes of some pictures and their versions, fetched many at a time.
    pub(crate) fn contents(&self, urls: &[String]) -> Result<Vec<OfPicture<PictureContent>>> {
        of_all(urls, |url| self.content(url))
    }

    fn look_at(&self, url: &str) -> Result<OfPicture<RemotePicture>> {
        let location = match self.location(url)? {
            Ok(location) => location,
            Err(fault) => return Ok(Err(fault)),
        };
        let about = || Error::io(&**location.name());
        let stat = match location.stat() {
            Ok(stat) => stat,
            Err(error) => return self.fault_of(url, about()(error)).map(Err),
        };
        match fastpack_picture::size(HeaderBytes::new(&location, stat.size)) {
            Ok(size) => Ok(Ok(RemotePicture { size, bytes: stat.size, version: stat.version() })),
            Err(fastpack_picture::PictureFault::Read(error)) => {
                self.fault_of(url, about()(error)).map(Err)
            }
            Err(fault) => Ok(Err(fault.to_string())),
        }
    }

    /// The fault of the record that names the picture at a URL, for a failure to read it; or the error that ends the run.
    fn fault_of(&self, url: &str, error: Error) -> Result<String> {
        match error {
            Error::Io { source, .. } if self.is_of_picture(url, &source) => Ok(source.to_string()),
            Error::Changed(_) => Ok("it changed while it was read".to_owned()),
            Error::Option { name: "files", reason } => Ok(reason.to_string()),
            other => Err(other),
        }
    }

    /// True if a failure says something about the picture.
    ///
    /// The code of the caller's file system fails for reasons of its own, so that of its exceptions one alone is about the
    /// picture: that there is no such file.
    fn is_of_picture(&self, url: &str, error: &io::Error) -> bool {
        use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        if self.is_of_file_system(url) {
            matches!(error.kind(), NotFound | InvalidData | UnexpectedEof)
        } else {
            !is_lost(error)
        }
    }

    /// True if the caller's file system has the object at a URL.
    fn is_of_file_system(&self, url: &str) -> bool {
        self.storage.options.file_system.is_some() && !is_web(url)
    }

    /// The object at a URL.
    fn location(&self, url: &str) -> Result<OfPicture<Location>> {
        let is_on_hub = url.get(..HUB.len()).is_some_and(|start| start.eq_ignore_ascii_case(HUB));
        let found = if is_on_hub && self.storage.options.file_system.is_none() {
            match self.on_hub(url) {
                Ok(file) => self.web()?.resolved_location(&file),
                Err(fault) => return Ok(Err(fault)),
            }
        } else if is_web(url) {
            self.web()?.file(url)
        } else {
            self.stores()?.file(url)
        };
        match found {
            Ok(location) => Ok(Ok(location)),
            Err(error) => self.fault_of(url, error).map(Err),
        }
    }

    /// The file of the hub at a URL.
    fn on_hub(&self, url: &str) -> OfPicture<ResolvedFile> {
        let hub = self.storage.hub.as_ref();
        let hub = hub.ok_or("the package `huggingface_hub` is needed to read from the hub")?;
        let form = || "it must have the form hf://datasets/ORG/NAME[@REVISION]/PATH".to_owned();
        let rest = url[HUB.len()..].strip_prefix("datasets/").ok_or_else(form)?;
        let mut parts = rest.splitn(3, '/');
        let (Some(org), Some(name), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(form());
        };
        let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
        let mut at = Url::parse(&hub.endpoint).map_err(|error| error.to_string())?;
        at.path_segments_mut()
            .map_err(|()| form())?
            .pop_if_empty()
            .extend(["datasets", org, name, "resolve", revision])
            .extend(path.split('/'));
        let headers = hub.headers.clone();
        Ok(ResolvedFile { name: url.to_owned(), url: at.into(), headers })
    }

    fn stores(&self) -> Result<Arc<Session>> {
        self.session(&self.stores, &self.storage.options)
    }

    fn web(&self) -> Result<Arc<Session>> {
        if self.storage.options.file_system.is_none() {
            return self.stores();
        }
        let options = StorageOptions { file_system: None, ..self.storage.options.clone() };
        self.session(&self.web, &options)
    }

    fn session(
        &self,
        opened: &Mutex<Option<Arc<Session>>>,
        options: &StorageOptions,
    ) -> Result<Arc<Session>> {
        let mut opened = lock(opened);
        if let Some(session) = &*opened {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::open(options, Arc::clone(&self.cancelled))?);
        *opened = Some(Arc::clone(&session));
        Ok(session)
    }
}

/// The results of `work` for some URLs, in their order, many at a time.
fn of_all<T: Send>(urls: &[String], work: impl Fn(&str) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (mut left, mut done) = (urls.iter(), Vec::with_capacity(urls.len()));
    let work = &work;
    let keep = |one| {
        done.push(one);
        Ok::<_, Error>(())
    };
    let worker = || move |url: &String| work(url);
    ordered_within(AT_A_TIME, urls.len(), || Ok(left.next()), worker, keep)?;
    Ok(done)
}

/// True if a failure is that of the connection or the server, and says nothing about the picture.
fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected, TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected | TimedOut
    )
}

/// The URL of a picture in remote storage, by its name in a record and the folder in which relative paths begin; `None` for a
/// file on this machine.
pub(crate) fn remote_url(name: &str, folder: Option<&Path>) -> Option<String> {
    if is_url(Path::new(name)) {
        return Some(name.to_owned());
    }
    let folder = folder?.to_str().filter(|folder| is_url(Path::new(folder)))?;
    if Path::new(name).is_absolute() {
        return None;
    }
    let (scheme, rest) = folder.split_once("://")?;
    // In the path of a web URL these would begin a query, a fragment or a code.
    let escaped = if is_web(folder) {
        name.replace('%', "%25").replace('?', "%3F").replace('#', "%23")
    } else {
        name.to_owned()
    };
    let mut parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    for part in escaped.split('/') {
        match part {
            "" | "." => {}
            // The first part is the bucket or the host.
            ".." if parts.len() > 1 => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(format!("{scheme}://{}", parts.join("/")))
}

/// The first bytes of a picture, fetched as far as they are read.
struct HeaderBytes<'a> {
    location: &'a Location,
    size: u64,
    at: u64,
    /// The piece that was fetched last, and its beginning.
    piece: (u64, Bytes),
    /// The length of the next piece.
    next: u64,
    /// The bytes and the requests that are left.
    left: (u64, u32),
}

impl<'a> HeaderBytes<'a> {
    fn new(location: &'a Location, size: u64) -> Self {
        let piece = (0, Bytes::new());
        let left = (MOST_OF_HEADER, MOST_PIECES);
        Self { location, size, at: 0, piece, next: FIRST_PIECE, left }
    }

    /// Fetches the piece that begins with the next byte.
    fn fetch(&mut self) -> io::Result<()> {
        let (bytes, requests) = self.left;
        if bytes == 0 || requests == 0 {
            let message = format!(
                "its size is not told by {} MiB in {MOST_PIECES} pieces, the most that is fetched of a header",
                MOST_OF_HEADER >> 20
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let length = self.next.min(self.size - self.at).min(bytes);
        let piece = if self.at == 0 {
            self.location.start(usize::try_from(length).map_err(io::Error::other)?)?
        } else {
            self.location.bytes(self.at..self.at + length)?
        };
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = (bytes - length, requests - 1);
        self.next = (self.next * 4).min(LARGEST_PIECE);
        self.piece = (self.at, piece);
        Ok(())
    }
}

impl Read for HeaderBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.at >= self.size {
            return Ok(0);
        }
        let (start, piece) = &self.piece;
        if !(*start..start + piece.len() as u64).contains(&self.at) {
            self.fetch()?;
        }
        let (start, piece) = &self.piece;
        let rest = &piece[usize::try_from(self.at - start).map_err(io::Error::other)?..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for HeaderBytes<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.at, by),
            SeekFrom::End(by) => (self.size, by),
        };
        let refuse = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the file");
        self.at = from.checked_add_signed(by).ok_or_else(refuse)?;
        Ok(self.at)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_picture_begins_at_the_folder_of_its_file() {
        let url = |name: &str, folder: &str| remote_url(name, Some(Path::new(folder)));
        let cases = [
            ("a.png", "s3://bucket", Some("s3://bucket/a.png")),
            ("../img/./a b.png", "s3://bucket/data", Some("s3://bucket/img/a b.png")),
            ("../../a.png", "s3://bucket/data", Some("s3://bucket/../a.png")),
            ("a#1?.png", "https://host/data", Some("https://host/data/a%231%3F.png")),
            ("50%.png", "gs://bucket/x", Some("gs://bucket/x/50%.png")),
            ("https://host/a.png?id=1", "/local", Some("https://host/a.png?id=1")),
            ("a.png", "/local", None),
            ("/a.png", "s3://bucket", None),
        ];
        for (name, folder, wanted) in cases {
            assert_eq!(url(name, folder).as_deref(), wanted, "{name} in {folder}");
        }
    }

    #[test]
    fn a_header_is_fetched_in_pieces_of_a_bounded_number_and_length() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(80 << 20).expect("a length");
        let location = Location::from(file.path());
        let mut bytes = HeaderBytes::new(&location, 80 << 20);
        let mut read = 0;
        let mut buffer = vec![0; 1 << 16];
        let error = loop {
            match bytes.read(&mut buffer) {
                Ok(count) => read += count as u64,
                Err(error) => break error,
            }
        };
        assert_eq!((read, error.kind()), (MOST_OF_HEADER, io::ErrorKind::InvalidData));
        let mut bytes = HeaderBytes::new(&location, 80 << 20);
        let places = (0..=MOST_PIECES).map(|at| u64::from(at) * (200 << 10));
        let mut read = places.map(|at| {
            bytes.next = 1;
            bytes.seek(SeekFrom::Start(at)).and_then(|_| bytes.read(&mut buffer[..1]))
        });
        assert!(read.by_ref().take(MOST_PIECES as usize).all(|it| it.is_ok()));
        assert!(read.all(|it| it.is_err()));
    }
}
