//! Objects of a web server, read by ranges.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use chrono::DateTime;
use reqwest::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    LAST_MODIFIED, RANGE,
};
use reqwest::{Method, Request, Response, StatusCode, Url};

use super::retrying_client::RetryingClient;
use crate::storage::cancelled_or_changed::CancelledOrChanged;
use crate::storage::object_stat::ObjectStat;

/// Bytes that are asked for to learn the size of an object: enough to tell its format.
pub(crate) const HEAD: u64 = 4 << 10;

/// The largest file that is taken from a server which knows no ranges: it is held in memory.
const WHOLE: u64 = 4 << 20;

/// An object of a web server.
#[derive(Debug)]
pub(crate) struct WebObject {
    /// The URL as it was given. It may be a secret.
    url: Url,
    headers: HeaderMap,
    /// The URL to which the server sends for the bytes, while it is valid.
    direct: Mutex<Option<Url>>,
}

/// An answer with bytes.
pub(crate) struct WebAnswer {
    /// The size and version of the whole object, as the server says.
    stat: ObjectStat,
    /// The number of bytes that it sends.
    length: u64,
    body: Response,
}

impl WebObject {
    pub(crate) fn new(url: Url, headers: HeaderMap) -> Self {
        Self { url, headers, direct: Mutex::new(None) }
    }

    /// Headers of names and values.
    pub(crate) fn headers<'a>(
        pairs: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Option<HeaderMap> {
        let header = |(name, value): (&String, &String)| {
            let mut value = HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        };
        pairs.into_iter().map(header).collect()
    }

    /// Asks for the size and the first bytes.
    pub(crate) async fn stat(&self, client: &RetryingClient) -> io::Result<(ObjectStat, Bytes)> {
        client
            .repeat(|| async {
                let mut answer = match self.get(0..HEAD, None, client).await? {
                    BytesAnswer::Bytes(answer) => answer,
                    BytesAnswer::Empty(stat) => return Ok((stat, Bytes::new())),
                };
                let mut bytes = BytesMut::new();
                match answer.append_to(&mut bytes).await? {
                    None => Ok((answer.stat, bytes.freeze())),
                    Some(reason) => {
                        let reason = client.shown(&reason);
                        Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
                    }
                }
            })
            .await
    }

    /// Asks for bytes of the object: at first, while nothing is known of it, or of the object that is `known`.
    pub(crate) async fn get(
        &self,
        range: Range<u64>,
        known: Option<&ObjectStat>,
        client: &RetryingClient,
    ) -> io::Result<BytesAnswer> {
        let direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let was_direct = direct.is_some();
        let url = direct.unwrap_or_else(|| self.url.clone());
        let etag = known.and_then(|known| known.etag.as_deref());
        let mut answer = self.send_request(url, !was_direct, &range, etag, client).await?;
        if was_direct && matches!(answer.status().as_u16(), 400 | 401 | 403 | 404 | 410) {
            // A signed URL is valid for some minutes.
            *self.direct.lock().unwrap_or_else(PoisonError::into_inner) = None;
            answer = self.send_request(self.url.clone(), true, &range, etag, client).await?;
        }
        if answer.status().is_success() && *answer.url() != self.url {
            *self.direct.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(answer.url().clone());
        }
        let mut stat = stat_of(answer.headers());
        let answered = AnsweredRange::of(&answer)?;
        let (size, length) = match (answered, known) {
            (AnsweredRange::Nothing, None) => return Ok(BytesAnswer::Empty(stat)),
            (AnsweredRange::Nothing | AnsweredRange::Changed, Some(_)) => {
                return Err(CancelledOrChanged::Changed.into());
            }
            (AnsweredRange::Changed, None) => return Err(unsized_file()),
            (AnsweredRange::Part(got, size), known) if got.start == range.start => {
                (size.or(known.map(|known| known.size)), got.end - got.start)
            }
            (AnsweredRange::Part(..), _) => return Err(other_bytes()),
            (AnsweredRange::Whole(size), Some(known)) if size != known.size => {
                return Err(CancelledOrChanged::Changed.into());
            }
            // A server that knows no ranges sends the whole, which does for a small file.
            (AnsweredRange::Whole(size), _) if range.start == 0 && size <= range.end.max(WHOLE) => {
                (Some(size), size)
            }
            (AnsweredRange::Whole(_), _) => {
                return Err(unsupported("the server sends no ranges of a file"));
            }
        };
        stat.size = match size {
            Some(size) => size,
            None => self.size(answer.url().clone(), &stat, client).await?,
        };
        if range.start + length > stat.size {
            return Err(other_bytes());
        }
        known.map_or(Ok(()), |known| known.check(&stat))?;
        Ok(BytesAnswer::Bytes(Box::new(WebAnswer { stat, length, body: answer })))
    }

    /// Asks for the size of an object whose ranges are told without it.
    async fn size(&self, url: Url, stat: &ObjectStat, client: &RetryingClient) -> io::Result<u64> {
        let is_own = url == self.url;
        let request = self.request(Method::HEAD, url, is_own, client)?;
        let answer = client.send(request).await.map_err(|error| client.failed(&error))?;
        let answered = ObjectStat { size: stat.size, ..stat_of(answer.headers()) };
        match content_length(answer.headers()) {
            Some(size) if answer.status() == StatusCode::OK => {
                stat.check(&answered)?;
                Ok(size)
            }
            _ => Err(unsized_file()),
        }
    }

    async fn send_request(
        &self,
        url: Url,
        with_headers: bool,
        range: &Range<u64>,
        etag: Option<&str>,
        client: &RetryingClient,
    ) -> io::Result<Response> {
        let mut request = self.request(Method::GET, url, with_headers, client)?;
        let headers = request.headers_mut();
        let requested = "bytes=".to_owned() + &format!("{}-{}", range.start, range.end - 1);
        headers.insert(RANGE, HeaderValue::from_str(&requested).expect("digits"));
        // A weak etag matches nothing: the etag of the answer is compared.
        if let Some(etag) = etag.filter(|etag| !etag.starts_with("W/"))
            && let Ok(etag) = HeaderValue::from_str(etag)
        {
            headers.insert(IF_MATCH, etag);
        }
        client.send(request).await.map_err(|error| client.failed(&error))
    }

    /// A request with the user of the URL, and with the headers if these are for its server.
    fn request(
        &self,
        method: Method,
        url: Url,
        with_headers: bool,
        client: &RetryingClient,
    ) -> io::Result<Request> {
        let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
        let mut request = Request::new(method, url);
        if with_headers {
            request.headers_mut().extend(self.headers.clone());
        }
        if user.is_empty() {
            return Ok(request);
        }
        let builder = reqwest::RequestBuilder::from_parts(client.reqwest_client().clone(), request);
        builder.basic_auth(user, password).build().map_err(|error| client.failed(&error))
    }
}

/// The answer to a request for bytes.
pub(crate) enum BytesAnswer {
    Bytes(Box<WebAnswer>),
    /// The object is empty, which only the first answer can say.
    Empty(ObjectStat),
}

impl WebAnswer {
    /// Appends the bytes. Returns the reason if they broke off.
    pub(crate) async fn append_to(&mut self, bytes: &mut BytesMut) -> io::Result<Option<String>> {
        let mut left = self.length;
        loop {
            match self.body.chunk().await {
                Ok(Some(chunk)) => {
                    left = left.checked_sub(chunk.len() as u64).ok_or_else(other_bytes)?;
                    bytes.extend_from_slice(&chunk);
                }
                Ok(None) if left == 0 => return Ok(None),
                Ok(None) => return Ok(Some("it ends too early".to_owned())),
                Err(error) => {
                    return Ok(Some(super::retrying_client::deepest(&error.without_url())));
                }
            }
        }
    }
}

/// The range that an answer holds, by its headers.
enum AnsweredRange {
    /// These bytes of an object, and its size unless the server keeps it to itself.
    Part(Range<u64>, Option<u64>),
    /// All bytes of an object of this size, which is not empty.
    Whole(u64),
    /// The object is empty.
    Nothing,
    /// The object has no such bytes, or is another than the one that was asked for.
    Changed,
}

impl AnsweredRange {
    fn of(answer: &Response) -> io::Result<Self> {
        Ok(match (answer.status(), content_range(answer.headers())) {
            (StatusCode::PARTIAL_CONTENT, Some((Some(got), size)))
                if !got.is_empty() && size.is_none_or(|size| got.end <= size) =>
            {
                Self::Part(got, size)
            }
            (StatusCode::PARTIAL_CONTENT, _) => return Err(other_bytes()),
            (StatusCode::RANGE_NOT_SATISFIABLE, Some((None, Some(0)))) => Self::Nothing,
            (StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED, _) => {
                Self::Changed
            }
            (StatusCode::OK, _) => match content_length(answer.headers()) {
                Some(0) => Self::Nothing,
                Some(size) => Self::Whole(size),
                None => return Err(unsized_file()),
            },
            (status, _) => return Err(RetryingClient::refused(status)),
        })
    }
}

fn other_bytes() -> io::Error {
    io::Error::other("the server sends other bytes than it was asked for")
}

fn unsized_file() -> io::Error {
    unsupported("the server does not tell the size of a file")
}

fn unsupported(reason: &str) -> io::Error {
    let message = format!("{reason}; download the file, and name the copy");
    io::Error::new(io::ErrorKind::Unsupported, message)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn stat_of(headers: &HeaderMap) -> ObjectStat {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let modified = text(LAST_MODIFIED).and_then(|text| DateTime::parse_from_rfc2822(text).ok());
    let modified = modified.and_then(|time| time.timestamp_nanos_opt());
    ObjectStat {
        size: 0,
        etag: text(ETAG).map(Arc::from),
        modified: modified.and_then(|time| u64::try_from(time).ok()).unwrap_or(0),
    }
}

/// The bytes and the size in `Content-Range`; `*` is `None`.
fn content_range(headers: &HeaderMap) -> Option<(Option<Range<u64>>, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim();
    let (range, size) = text.strip_prefix("bytes")?.trim().split_once('/')?;
    let range = match range.split_once('-') {
        Some((first, last)) => {
            let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            Some(first..last.checked_add(1)?)
        }
        None => None,
    };
    Some((range, size.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_an_answer_is_read() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, text.parse().expect("a header"));
            content_range(&headers)
        };
        assert_eq!(read("bytes 0-9/100"), Some((Some(0..10), Some(100))));
        assert_eq!(read("bytes 5-5/*"), Some((Some(5..6), None)));
        assert_eq!(read("bytes */0"), Some((None, Some(0))));
        for wrong in ["", "bytes", "bytes 3-x/9", "bytes 0-18446744073709551615/1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
