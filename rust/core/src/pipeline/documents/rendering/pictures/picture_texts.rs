//! [`PictureTexts`]: puts the processor's text of each picture in its place in a rendered conversation.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastpack_picture::Size;
use memchr::memmem;
use reqwest::Url;

use super::picture_paths::{file_of, folder_of_pictures};
use crate::config::ImageOptions;
use crate::error::Error;
use crate::pipeline::documents::filter_and_map::PictureFunction;
use crate::pipeline::documents::rendering::record_failure::RecordFailure;
use crate::pipeline::job::Job;
use crate::record::{Conversation, Fault, Picture};
use crate::report::ledger::Reason;
use crate::source::{Container, format_by_name};
use crate::storage::{RemotePictures, is_url, is_web, public, remote_url, version_of};
use crate::template::{PictureSource, PlacedPicture, Rendered, Trained};
use crate::util::message::counted;
use crate::util::redaction::without_secrets;

/// Most bytes of the texts that are kept: sizes of pictures repeat, and a text may have thousands of tokens.
const MOST_BYTES: usize = 1 << 25;

/// Most files whose sizes are kept: a file may be shown by several turns of a conversation, and by several conversations.
const MOST_SIZES: usize = 1 << 14;

/// The texts of pictures, which all threads share.
pub(crate) struct PictureTexts<'a> {
    options: &'a ImageOptions,
    function: &'a PictureFunction,
    /// The pictures in remote storage.
    remote: Option<&'a RemotePictures>,
    /// True if a function of the caller changes the records.
    is_mapped: bool,
    known: Mutex<KnownTexts>,
    sizes: Mutex<KnownSizes>,
}

/// The sizes of files that were opened lately. A file of another version is opened again.
type KnownSizes = HashMap<PathBuf, (u64, Size)>;

/// A picture, as its documents and rows know it.
struct SizedPicture {
    size: Size,
    source: PictureSource,
    /// The number of its bytes, if known.
    bytes: Option<u32>,
    /// A number that changes with the content of its file.
    version: u64,
}

/// The size of a picture, and the number of pictures of its conversation.
type PictureKey = (Size, usize);

/// Texts of pictures that were made lately.
#[derive(Default)]
struct KnownTexts {
    of: HashMap<PictureKey, Arc<str>>,
    bytes: usize,
}

impl KnownTexts {
    /// Keeps a text, and forgets all others if there are too many.
    fn keep(&mut self, key: PictureKey, text: Arc<str>) {
        if self.bytes + text.len() > MOST_BYTES {
            *self = Self::default();
        }
        self.bytes += text.len();
        self.of.insert(key, text);
    }
}

impl<'a> PictureTexts<'a> {
    /// The texts of a job, if it takes pictures.
    pub(crate) fn of(job: &'a Job) -> Option<Self> {
        let options = job.options.tokens.images.as_ref()?;
        let function = job.transform.pictures.as_ref()?;
        let is_mapped = job.transform.map.is_some();
        let remote = job.pictures.as_deref();
        let (known, sizes) = (Mutex::default(), Mutex::default());
        Some(Self { options, function, remote, is_mapped, known, sizes })
    }

    /// Replaces the marker of each picture in the texts of a conversation, a record of the file at `path` or in memory.
    pub(crate) fn replace_markers(
        &self,
        texts: &mut [Rendered],
        conversation: &Conversation,
        path: Option<&Path>,
    ) -> Result<(), RecordFailure<'a>> {
        let pictures = conversation.pictures.iter().map(|picture| self.sized(picture, path));
        let pictures = pictures.collect::<Result<Vec<_>, RecordFailure<'_>>>()?;
        for rendered in texts {
            let marker = self.options.marker.as_bytes();
            let places: Vec<usize> = memmem::find_iter(rendered.text.as_bytes(), marker).collect();
            let count = places.len();
            if count != pictures.len() && count != pictures_up_to(conversation, rendered.turn) {
                return Err(self.misplaced(count, pictures.len()).into());
            }
            if count == 0 {
                continue;
            }
            self.replace(rendered, &places, &pictures[..count])?;
        }
        Ok(())
    }

    /// The fault of a text with another number of markers than its conversation has pictures.
    fn misplaced(&self, markers: usize, pictures: usize) -> Fault {
        let marker = &self.options.marker;
        let message = match (markers, pictures) {
            (0, _) => format!(
                "the chat template writes no `{marker}` for {}",
                counted(pictures as u64, "picture")
            ),
            (_, 0) => format!("a text has `{marker}`, the token of a picture, and there is none"),
            _ => format!(
                "the text has `{marker}` {markers} times for {}",
                counted(pictures as u64, "picture")
            ),
        };
        Fault::new(Reason::Picture, message)
    }

    /// True if training finds the records of the file at `path` again, so that rows can name the bytes in them.
    fn names_records(&self, path: Option<&Path>) -> bool {
        path.is_some_and(|path| {
            let is_found = matches!(
                format_by_name(path),
                (Some(Container::Lines | Container::Parquet | Container::Arrow), None)
            );
            is_found && !is_url(path) && !self.is_mapped
        })
    }

    /// A picture with its size and source.
    fn sized(
        &self,
        picture: &Picture,
        path: Option<&Path>,
    ) -> Result<SizedPicture, RecordFailure<'a>> {
        let name = match picture {
            Picture::Held(picture) if self.options.embed => {
                let (size, content) = (picture.size()?, picture.bytes()?);
                let bytes = self
                    .bytes_in_row(content.len() as u64)
                    .map_err(|what| Fault::new(Reason::Picture, what))?;
                let source = PictureSource::Held(content);
                return Ok(SizedPicture { size, source, bytes, version: 0 });
            }
            Picture::Held(picture) if self.names_records(path) => {
                let (size, source) = (picture.size()?, PictureSource::Record);
                let bytes = u32::try_from(picture.length()?).ok();
                return Ok(SizedPicture { size, source, bytes, version: 0 });
            }
            Picture::Held(_) => {
                let message = "no row can name the bytes of the picture: records that hold some lie uncompressed in JSON Lines, \
                               Parquet or Arrow on this machine, and no `map` changes them; embed the pictures instead";
                return Err(Fault::new(Reason::Picture, message).into());
            }
            Picture::File(name) => name,
        };
        if let Some(url) = self.url(name, path) {
            return self.sized_remote(&url);
        }
        Ok(self.sized_file(name, path)?)
    }

    /// The URL of a picture that a record names; `None` for a file of this machine.
    fn url(&self, name: &str, path: Option<&Path>) -> Option<String> {
        if file_of(name).is_some() {
            None
        } else {
            remote_url(name, folder_of_pictures(self.options, path))
        }
    }

    /// The picture in remote storage at a URL.
    fn sized_remote(&self, url: &str) -> Result<SizedPicture, RecordFailure<'a>> {
        let fault = |what: &str| {
            Fault::new(Reason::Picture, format!("the picture `{}`: {what}", public(url)))
        };
        self.may_fetch(url).map_err(|what| fault(&what))?;
        let remote = self.remote.ok_or_else(|| {
            fault("it is in remote storage, from which this call reads no pictures")
        })?;
        let picture = remote.picture(url).map_err(RecordFailure::Run)?;
        let picture = picture.map_err(|what| fault(&what))?;
        let bytes = self.bytes_in_row(picture.bytes);
        Ok(SizedPicture {
            size: picture.size,
            source: PictureSource::File(url.into()),
            bytes: bytes.map_err(|what| fault(&what))?,
            version: picture.version,
        })
    }

    /// The number of bytes of a picture as rows hold it: none if it is too large, which is refused where rows embed the bytes.
    fn bytes_in_row(&self, bytes: u64) -> Result<Option<u32>, String> {
        match u32::try_from(bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) if !self.options.embed => Ok(None),
            Err(_) => Err(format!("it has {bytes} bytes, and no row embeds more than 4 GiB")),
        }
    }

    /// Refuses the URL of a picture that the job does not fetch.
    fn may_fetch(&self, url: &str) -> Result<(), String> {
        if !is_web(url) {
            return Ok(());
        }
        if !self.options.fetch {
            return Err(
                "it is on a web server, from which pictures are fetched only if `reading.images.fetch` is set; set it, \
                 or fetch them first"
                    .to_owned(),
            );
        }
        let parsed = Url::parse(url).map_err(|error| format!("it is no URL: {error}"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("its URL has a user or a password, which rows would hold; leave them out"
                .to_owned());
        }
        Ok(())
    }

    /// The picture in a file of this machine, named by a record in the file at `path` or in memory.
    fn sized_file(&self, name: &str, path: Option<&Path>) -> Result<SizedPicture, Fault> {
        let named = file_of(name);
        let name = named.as_deref().unwrap_or(name);
        let folder = folder_of_pictures(self.options, path);
        let file: PathBuf = folder.map_or_else(|| name.into(), |folder| folder.join(name));
        // Training may begin in another folder.
        let file = std::path::absolute(&file).unwrap_or(file);
        let fault = |what: &dyn std::fmt::Display| {
            // A mistyped URL is taken for a path.
            let named = file.display().to_string();
            let message = format!("the picture `{}`: {what}", without_secrets(&named));
            Fault::new(Reason::Picture, message)
        };
        // A pipe would be waited for without end.
        let facts = std::fs::metadata(&file).map_err(|error| fault(&error))?;
        if !facts.is_file() {
            return Err(fault(&"it is no file"));
        }
        let source = PictureSource::File(file.display().to_string().into());
        let bytes = self.bytes_in_row(facts.len()).map_err(|what| fault(&what))?;
        let version = version_of(&facts);
        let sizes = || self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, size)) = sizes().get(&file).filter(|(known, _)| *known == version) {
            return Ok(SizedPicture { size: *size, source, bytes, version });
        }
        let opened = File::open(&file).map_err(|error| fault(&error))?;
        let size = fastpack_picture::size(BufReader::new(opened)).map_err(|error| fault(&error))?;
        let mut sizes = sizes();
        if sizes.len() >= MOST_SIZES {
            sizes.clear();
        }
        sizes.insert(file, (version, size));
        Ok(SizedPicture { size, source, bytes, version })
    }

    /// Makes the texts of the pictures of a block's conversations, records of the file at `path` or in memory, ahead of their
    /// rendering: many sizes take the processor little longer than one, and many pictures in remote storage are fetched at a time.
    /// Bad pictures are reported with their records.
    pub(crate) fn prepare(
        &self,
        conversations: impl Iterator<Item = Conversation>,
        path: Option<&Path>,
    ) -> Result<(), Error> {
        let mut missing: BTreeMap<usize, Vec<Size>> = BTreeMap::new();
        let mut note = |size: Size, count: usize| {
            if !self.known().of.contains_key(&(size, count)) {
                missing.entry(count).or_default().push(size);
            }
        };
        let (mut urls, mut counts) = (Vec::new(), Vec::new());
        for conversation in conversations {
            let count = conversation.pictures.len();
            for picture in &conversation.pictures {
                let size = match picture {
                    Picture::Held(picture) => picture.size(),
                    Picture::File(name) => match self.url(name, path) {
                        Some(url) if self.may_fetch(&url).is_ok() => {
                            urls.push(url);
                            counts.push(count);
                            continue;
                        }
                        Some(_) => break,
                        None => self.sized_file(name, path).map(|it| it.size),
                    },
                };
                let Ok(size) = size else { break };
                note(size, count);
            }
        }
        if let Some(remote) = self.remote.filter(|_| !urls.is_empty()) {
            for (picture, count) in remote.pictures(&urls)?.into_iter().zip(counts) {
                if let Ok(picture) = picture {
                    note(picture.size, count);
                }
            }
        }
        for (count, mut sizes) in missing {
            sizes.sort_unstable_by_key(|size| (size.width, size.height));
            sizes.dedup();
            for (size, found) in sizes.iter().zip((self.function)(&sizes, count)?) {
                if let Ok(text) = found {
                    self.known().keep((*size, count), text.into());
                }
            }
        }
        Ok(())
    }

    /// The text of a picture among several of its conversation.
    fn text(&self, size: Size, count: usize) -> Result<Arc<str>, RecordFailure<'a>> {
        let key = (size, count);
        if let Some(text) = self.known().of.get(&key) {
            return Ok(Arc::clone(text));
        }
        let texts = (self.function)(&[size], count).map_err(RecordFailure::Run)?;
        let refused = || Err("the processor gives no text".to_owned());
        let text: Arc<str> = texts
            .into_iter()
            .next()
            .unwrap_or_else(refused)
            .map_err(|refused| {
                let message =
                    format!("a picture of {} x {} pixels: {refused}", size.width, size.height);
                Fault::new(Reason::Picture, message)
            })?
            .into();
        self.known().keep(key, Arc::clone(&text));
        Ok(text)
    }

    fn known(&self) -> MutexGuard<'_, KnownTexts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the markers at these places, one for each picture.
    fn replace(
        &self,
        rendered: &mut Rendered,
        places: &[usize],
        pictures: &[SizedPicture],
    ) -> Result<(), RecordFailure<'a>> {
        let mut moved = MovedPlaces::default();
        let mut text = String::with_capacity(rendered.text.len());
        let mut reached = 0;
        for ((number, picture), &place) in (0..).zip(pictures).zip(places) {
            let SizedPicture { size, source, bytes, version } = picture;
            text.push_str(&rendered.text[reached..place]);
            let start = text.len();
            text.push_str(&self.text(*size, pictures.len())?);
            reached = place + self.options.marker.len();
            moved.replacements.push((place..reached, start..text.len()));
            let (before, behind) = &self.options.delimiters;
            let is_preceded = text[..start].ends_with(before.as_str());
            let first = start - if is_preceded { before.len() } else { 0 };
            let is_followed = rendered.text[reached..].starts_with(behind.as_str());
            let last = text.len() + if is_followed { behind.len() } else { 0 };
            rendered.pictures.push(PlacedPicture {
                range: first..last,
                number,
                size: *size,
                source: source.clone(),
                bytes: *bytes,
                version: *version,
            });
        }
        text.push_str(&rendered.text[reached..]);
        rendered.text = text;
        // The places that a template writes by itself are known for the text without pictures.
        rendered.literals.clear();
        for range in &mut rendered.ordinary {
            *range = moved.start(range.start)..moved.end(range.end);
        }
        if let Trained::Spans(spans) = &mut rendered.trained {
            for span in spans {
                span.range = moved.start(span.range.start)..moved.end(span.range.end);
            }
        }
        for end in &mut rendered.turn_ends {
            *end = moved.end(*end);
        }
        Ok(())
    }
}

/// The number of pictures up to and with a turn of the assistant, counted from 1; of all messages if there is no such turn.
fn pictures_up_to(conversation: &Conversation, turn: u32) -> usize {
    let turns = conversation.speaking().enumerate().filter(|(_, speaks)| *speaks);
    let last = turns.map(|(at, _)| at).nth((turn as usize).wrapping_sub(1));
    let messages = &conversation.messages[..last.map_or(conversation.messages.len(), |at| at + 1)];
    messages.iter().map(|message| crate::record::pictures_in(message)).sum()
}

/// Places of a text in which some ranges are replaced.
#[derive(Default)]
struct MovedPlaces {
    /// The replaced ranges, ascending, and the ranges in their place.
    replacements: Vec<(Range<usize>, Range<usize>)>,
}

impl MovedPlaces {
    /// The new place of the beginning of a range.
    fn start(&self, at: usize) -> usize {
        self.place(
            at,
            |replaced, inserted| if at == replaced.end { inserted.end } else { inserted.start },
        )
    }

    /// The new place of the end of a range.
    fn end(&self, at: usize) -> usize {
        self.place(at, |_, inserted| inserted.end)
    }

    fn place(&self, at: usize, inside: impl Fn(&Range<usize>, &Range<usize>) -> usize) -> usize {
        let before = self.replacements.partition_point(|(replaced, _)| replaced.start < at);
        match before.checked_sub(1).map(|last| &self.replacements[last]) {
            None => at,
            Some((replaced, inserted)) if at > replaced.end => at - replaced.end + inserted.end,
            Some((replaced, inserted)) => inside(replaced, inserted),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARKER: &str = "<image>";

    /// The places of a text whose markers become the texts `insertions`, and the new text.
    fn replaced(text: &str, insertions: &[String]) -> (MovedPlaces, String) {
        let (mut moved, mut changed, mut reached) = (MovedPlaces::default(), String::new(), 0);
        for ((at, _), insertion) in text.match_indices(MARKER).zip(insertions) {
            changed.push_str(&text[reached..at]);
            let start = changed.len();
            changed.push_str(insertion);
            reached = at + MARKER.len();
            moved.replacements.push((at..reached, start..changed.len()));
        }
        changed.push_str(&text[reached..]);
        (moved, changed)
    }

    proptest! {
        #[test]
        fn ranges_keep_their_text(
            pieces in prop::collection::vec("[ab]{0,3}", 1..6),
            insertions in prop::collection::vec("[xy]{0,5}", 5),
            from in 0..6_usize,
            to in 0..6_usize,
        ) {
            let text = pieces.join(MARKER);
            let (moved, changed) = replaced(&text, &insertions);
            // Ranges between the edges of pieces: these are the places that a template gives.
            let mut edges = vec![0];
            for (at, _) in text.match_indices(MARKER) {
                edges.extend([at, at + MARKER.len()]);
            }
            edges.push(text.len());
            let (first, last) = (from.min(to).min(edges.len() - 1), from.max(to).min(edges.len() - 1));
            let (start, end) = (edges[first], edges[last]);
            let mut inside = insertions.iter().skip(text[..start].matches(MARKER).count());
            let mut wanted = String::new();
            for (number, piece) in text[start..end].split(MARKER).enumerate() {
                if number > 0 {
                    wanted.push_str(inside.next().expect("a text for each marker"));
                }
                wanted.push_str(piece);
            }
            if start < end {
                prop_assert_eq!(&changed[moved.start(start)..moved.end(end)], wanted);
            }
        }
    }
}
