//! Objects of a web server, read by ranges.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use chrono::DateTime;
use reqwest::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    LAST_MODIFIED, RANGE,
};
use reqwest::{Method, Request, Response, StatusCode, Url};

use super::requests::Requests;
use super::stat::Stat;

/// Bytes that are asked for to learn the size of an object: enough to tell its format.
pub(super) const HEAD: u64 = 4 << 10;

/// The largest file that is taken from a server which knows no ranges: it is held in memory.
const WHOLE: u64 = 4 << 20;

/// An object of a web server.
#[derive(Debug)]
pub(super) struct Web {
    /// The URL as it was given. It may be a secret.
    url: Url,
    headers: HeaderMap,
    /// The URL to which the server sends for the bytes, while it is valid.
    direct: Mutex<Option<Url>>,
}

/// An answer with bytes, and what the server says of the whole.
pub(super) struct Answer {
    pub(super) stat: Stat,
    pub(super) body: Response,
}

impl Web {
    pub(super) fn new(url: Url, headers: HeaderMap) -> Self {
        Self { url, headers, direct: Mutex::new(None) }
    }

    /// Headers of names and values.
    pub(super) fn headers<'a>(
        given: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Option<HeaderMap> {
        let header = |(name, value): (&String, &String)| {
            let mut value = HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        };
        given.into_iter().map(header).collect()
    }

    /// Asks for the size and the first bytes.
    pub(super) async fn stat(&self, requests: &Requests) -> io::Result<(Stat, Bytes)> {
        requests
            .repeat(|| async {
                let answer = match self.get(0..HEAD, None, requests).await? {
                    Got::Bytes(answer) => answer,
                    Got::Empty(stat) => return Ok((stat, Bytes::new())),
                };
                let Answer { stat, body } = *answer;
                let bytes = body.bytes().await.map_err(|error| broken_off(requests, &error))?;
                Ok((stat, bytes))
            })
            .await
    }

    /// Asks for bytes of the object that has this etag.
    pub(super) async fn get(
        &self,
        range: Range<u64>,
        etag: Option<&str>,
        requests: &Requests,
    ) -> io::Result<Got> {
        let direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let was_direct = direct.is_some();
        let url = direct.unwrap_or_else(|| self.url.clone());
        let mut answer = self.ask(url, !was_direct, &range, etag, requests).await?;
        if was_direct && matches!(answer.status().as_u16(), 400 | 401 | 403 | 404 | 410) {
            // A signed URL is valid for some minutes.
            *self.direct.lock().unwrap_or_else(PoisonError::into_inner) = None;
            answer = self.ask(self.url.clone(), true, &range, etag, requests).await?;
        }
        if answer.status().is_success() && *answer.url() != self.url {
            *self.direct.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(answer.url().clone());
        }
        let status = answer.status();
        let mut stat = stat_of(answer.headers());
        let told = content_range(answer.headers());
        match (status, told) {
            (StatusCode::PARTIAL_CONTENT, Some((Some(got), size))) if got.start == range.start => {
                stat.size = size.unwrap_or(got.end);
                Ok(Got::Bytes(Box::new(Answer { stat, body: answer })))
            }
            (StatusCode::RANGE_NOT_SATISFIABLE, Some((None, Some(0)))) => Ok(Got::Empty(stat)),
            (StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED, _) => {
                Err(super::stopped::Stopped::Changed.into())
            }
            (StatusCode::OK, _) => {
                let size = answer.headers().get(CONTENT_LENGTH);
                let size = size.and_then(|size| size.to_str().ok()?.parse().ok());
                // A server that knows no ranges sends the whole, which does for a small file.
                match size {
                    Some(0) => Ok(Got::Empty(stat)),
                    Some(size) if range.start == 0 && size <= range.end.max(WHOLE) => {
                        stat.size = size;
                        Ok(Got::Bytes(Box::new(Answer { stat, body: answer })))
                    }
                    _ => Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        "the server sends no ranges of a file; download the file, and name the copy",
                    )),
                }
            }
            (StatusCode::PARTIAL_CONTENT, _) => {
                Err(io::Error::other("the server sends other bytes than it was asked for"))
            }
            _ => Err(Requests::refused(status)),
        }
    }

    async fn ask(
        &self,
        url: Url,
        with_headers: bool,
        range: &Range<u64>,
        etag: Option<&str>,
        requests: &Requests,
    ) -> io::Result<Response> {
        let mut request = Request::new(Method::GET, url.clone());
        let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
        let headers = request.headers_mut();
        if with_headers {
            headers.extend(self.headers.clone());
        }
        let asked = "bytes=".to_owned() + &format!("{}-{}", range.start, range.end - 1);
        headers.insert(RANGE, HeaderValue::from_str(&asked).expect("digits"));
        // A weak etag matches nothing: what comes back is compared.
        if let Some(etag) = etag.filter(|etag| !etag.starts_with("W/"))
            && let Ok(etag) = HeaderValue::from_str(etag)
        {
            headers.insert(IF_MATCH, etag);
        }
        if !user.is_empty() {
            let builder = reqwest::RequestBuilder::from_parts(requests.client().clone(), request);
            request = builder
                .basic_auth(user, password)
                .build()
                .map_err(|error| requests.failed(&error))?;
        }
        requests.send(request).await.map_err(|error| requests.failed(&error))
    }
}

/// The error of a body that broke off.
fn broken_off(requests: &Requests, error: &reqwest::Error) -> io::Error {
    let said = requests.failed(error);
    io::Error::new(io::ErrorKind::ConnectionAborted, said.to_string())
}

/// The answer to a request for bytes.
pub(super) enum Got {
    Bytes(Box<Answer>),
    /// The object is empty.
    Empty(Stat),
}

fn stat_of(headers: &HeaderMap) -> Stat {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let modified = text(LAST_MODIFIED).and_then(|text| DateTime::parse_from_rfc2822(text).ok());
    let modified = modified.and_then(|time| time.timestamp_nanos_opt());
    Stat {
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
