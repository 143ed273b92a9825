//! [`RetryingClient`]: the HTTP client of one call, which repeats requests that may be repeated.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;

use super::backoff::Backoff;
use crate::error::{Error, Result};
use crate::storage::address::redacted;

/// The most requests that are under way at a time.
const AT_A_TIME: usize = 32;

/// Tries after the first, by default: about half a minute of waits.
const RETRIES: u32 = 8;

/// The time without any byte after which a request is tried again, by default.
const SILENCE: Duration = Duration::from_secs(30);

/// The time for a connection, by default.
const CONNECT: Duration = Duration::from_secs(10);

/// Answers after which a request is repeated.
const PASSING: [u16; 6] = [408, 429, 500, 502, 503, 504];

/// True for an answer that says nothing about what was asked for: it may be another one in a moment.
pub(crate) fn may_pass(status: u16) -> bool {
    PASSING.contains(&status)
}

/// The name of an option that holds no secret, by its ending.
const PLAIN: [&str; 9] = [
    "region",
    "endpoint",
    "endpoint_url",
    "bucket",
    "retries",
    "timeout",
    "allow_http",
    "_put",
    "request",
];

/// The shortest value that is taken for a secret.
const SHORTEST_SECRET: usize = 6;

/// The answer to a request, or the reason why there is none.
type RequestResult = std::result::Result<Response, reqwest::Error>;

/// The HTTP client of one call.
#[derive(Debug)]
pub(crate) struct RetryingClient {
    client: Client,
    /// The client of buckets, which follows nobody who sends on: requests are signed for one host, and some headers
    /// with credentials, such as `x-amz-security-token`, would go to the next.
    of_buckets: Client,
    limit: Semaphore,
    retries: u32,
    secrets: Vec<String>,
    /// The difference between the clock of the last server that told its time, and the clock of this machine.
    ahead: Mutex<TimeDelta>,
    /// The ends of the paths of URLs of uploads in parts that are completed where nothing is.
    new_only: Mutex<HashSet<String>>,
}

impl RetryingClient {
    /// A client with the retries and times of `options`.
    pub(crate) fn new(options: &BTreeMap<String, String>) -> Result<Self> {
        let retries = number(options, "max_retries")?.unwrap_or(u64::from(RETRIES));
        let time =
            |name, usual| -> Result<Duration> { Ok(seconds(options, name)?.unwrap_or(usual)) };
        let tls = tls().map_err(refuse_tls)?;
        let (connect, silence) = (time("connect_timeout", CONNECT)?, time("timeout", SILENCE)?);
        let client = || {
            Client::builder()
                .user_agent(concat!("fastpack/", env!("CARGO_PKG_VERSION")))
                .tls_backend_preconfigured(tls.clone())
                .connect_timeout(connect)
                .read_timeout(silence)
                // The URL that redirects may be signed, and the next server must not learn the signature.
                .referer(false)
        };
        Ok(Self {
            client: client().build().map_err(refuse_tls)?,
            of_buckets: client().redirect(Policy::none()).build().map_err(refuse_tls)?,
            limit: Semaphore::new(AT_A_TIME),
            retries: u32::try_from(retries).unwrap_or(u32::MAX),
            secrets: secrets(options),
            ahead: Mutex::new(TimeDelta::zero()),
            new_only: Mutex::default(),
        })
    }

    /// Has uploads in parts to this key completed only where nothing is.
    pub(crate) fn complete_new_only(&self, key: &str) {
        self.new_only.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("/{key}"));
    }

    /// True if a request with this path completes such an upload, by its method and query.
    pub(crate) fn completes_new_only(&self, request: &Request) -> bool {
        let url = request.url();
        let completes = request.method() == Method::POST
            && url.query_pairs().any(|(name, _)| name == "uploadId");
        if !completes {
            return false;
        }
        let Ok(path) = object_store::path::Path::from_url_path(url.path()) else { return false };
        let path = format!("/{path}");
        let new_only = self.new_only.lock().unwrap_or_else(PoisonError::into_inner);
        new_only.iter().any(|key| path.ends_with(key))
    }

    /// The waits of one request.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.retries)
    }

    /// Does `work` again as long as the body of an answer breaks off.
    pub(crate) async fn repeat<T, F: Future<Output = io::Result<T>>>(
        &self,
        mut work: impl FnMut() -> F,
    ) -> io::Result<T> {
        let mut backoff = self.backoff();
        loop {
            let done = work().await;
            match &done {
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    let Some(wait) = backoff.next(None) else { return done };
                    tokio::time::sleep(wait).await;
                }
                _ => return done,
            }
        }
    }

    /// The client for servers other than buckets, which follows redirects.
    pub(crate) fn reqwest_client(&self) -> &Client {
        &self.client
    }

    /// Sends a request until it is answered by anything but an error that may pass.
    ///
    /// The last answer is returned as it is, with any status.
    pub(crate) async fn send(&self, request: Request) -> RequestResult {
        self.send_by(&self.client, request).await
    }

    /// Sends a signed request of a bucket, and follows no redirect.
    pub(crate) async fn send_signed(&self, request: Request) -> RequestResult {
        self.send_by(&self.of_buckets, request).await
    }

    async fn send_by(&self, client: &Client, request: Request) -> RequestResult {
        let _permit = self.limit.acquire().await.expect("it is never closed");
        let mut backoff = self.backoff();
        loop {
            let Some(again) = request.try_clone() else {
                return client.execute(request).await;
            };
            let answer = client.execute(again).await;
            self.note_time(&answer);
            let requested = match &answer {
                Ok(answer) if may_pass(answer.status().as_u16()) => retry_after(answer.headers()),
                Ok(_) => return answer,
                Err(error) if error.is_builder() || error.is_redirect() => return answer,
                Err(_) => None,
            };
            let Some(wait) = backoff.next(requested) else { return answer };
            drop(answer);
            tokio::time::sleep(wait).await;
        }
    }

    fn note_time(&self, answer: &RequestResult) {
        let date =
            answer.as_ref().ok().and_then(|answer| answer.headers().get(DATE)?.to_str().ok());
        if let Some(Ok(time)) = date.map(DateTime::parse_from_rfc2822) {
            let ahead = time.with_timezone(&Utc) - Utc::now();
            *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
        }
    }

    /// The time by the clock of the server, to a second; by that of this machine, if no server has told it.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        Utc::now() + *self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message of a library, as it may be shown.
    pub(crate) fn shown(&self, message: &str) -> String {
        redacted(message, &self.secrets)
    }

    /// An error of the client.
    pub(crate) fn failed(&self, error: &reqwest::Error) -> io::Error {
        let kind = if error.is_timeout() {
            io::ErrorKind::TimedOut
        } else if error.is_connect() {
            io::ErrorKind::NotConnected
        } else if error.is_redirect() {
            // Asking again leads to the same place.
            io::ErrorKind::Other
        } else {
            io::ErrorKind::ConnectionAborted
        };
        io::Error::new(kind, format!("the server cannot be read: {}", self.shown(&deepest(error))))
    }

    /// An answer that is an error. One that may pass is as good as a lost connection, once it was asked often enough.
    pub(crate) fn refused(status: StatusCode) -> io::Error {
        let kind = match status.as_u16() {
            401 | 403 => io::ErrorKind::PermissionDenied,
            404 | 410 => io::ErrorKind::NotFound,
            passing if may_pass(passing) => io::ErrorKind::NotConnected,
            _ => io::ErrorKind::Other,
        };
        let advice = match status.as_u16() {
            401 | 403 => "; it may need credentials, or a signed URL has expired",
            429 => "; give it more time, or raise `max_retries` in `storage.options`",
            _ => "",
        };
        io::Error::new(kind, format!("the server answers {status}{advice}"))
    }
}

/// The message of the innermost cause of an error.
pub(crate) fn deepest(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    inner.to_string()
}

/// The wait that a server asks for, in seconds or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = DateTime::parse_from_rfc2822(text).ok()?;
    (until.with_timezone(&Utc) - Utc::now()).to_std().ok()
}

/// The settings of TLS: rustls with the certificates of the system.
fn tls() -> std::result::Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?;
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

fn refuse_tls(error: impl std::fmt::Display) -> Error {
    Error::option("storage.options", format!("no HTTP client can be made: {error}"))
}

/// The values of options and variables that no message may hold.
fn secrets(options: &BTreeMap<String, String>) -> Vec<String> {
    let variables = std::env::vars().filter(|(name, _)| {
        ["AWS_", "AZURE_", "GOOGLE_", "HF_"].iter().any(|start| name.starts_with(start))
            && ["KEY", "TOKEN", "SECRET", "PASSWORD", "SAS"].iter().any(|word| name.contains(word))
    });
    let options = options.iter().filter(|(name, _)| {
        let name = name.to_ascii_lowercase();
        !PLAIN.iter().any(|plain| name.ends_with(plain))
    });
    let values = options.map(|(_, value)| value.clone()).chain(variables.map(|(_, value)| value));
    let mut found: Vec<String> = values.filter(|value| value.len() >= SHORTEST_SECRET).collect();
    // A secret that contains another is replaced first.
    found.sort_by_key(|value| std::cmp::Reverse(value.len()));
    found
}

fn number(options: &BTreeMap<String, String>, name: &str) -> Result<Option<u64>> {
    let Some(value) = options.get(name) else { return Ok(None) };
    let refuse = || Error::option("storage.options", format!("`{name}` must be a number"));
    value.parse().map(Some).map_err(|_| refuse())
}

/// A time such as `30`, `30s` or `500ms`.
fn seconds(options: &BTreeMap<String, String>, name: &str) -> Result<Option<Duration>> {
    let Some(value) = options.get(name) else { return Ok(None) };
    let (digits, unit) = match value.strip_suffix("ms") {
        Some(digits) => (digits, 0.001),
        None => (value.strip_suffix('s').unwrap_or(value), 1.0),
    };
    let time = digits.trim().parse::<f64>().ok().filter(|time| *time > 0.0 && *time < 1e6);
    let refuse = || {
        // A value of the wrong kind may be a secret that is meant for another option.
        let reason = format!("`{name}` must be a time such as `30s`");
        Error::option("storage.options", reason)
    };
    time.map(|time| Some(Duration::from_secs_f64(time * unit))).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_requests_are_read_or_refused() {
        let options = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        assert_eq!(
            seconds(&options("timeout", "500ms"), "timeout").ok().flatten(),
            Some(Duration::from_millis(500))
        );
        assert_eq!(
            seconds(&options("timeout", "3 s"), "timeout").ok().flatten(),
            Some(Duration::from_secs(3))
        );
        for wrong in ["", "-1", "soon", "nan", "0"] {
            assert!(seconds(&options("timeout", wrong), "timeout").is_err(), "{wrong}");
        }
        assert!(RetryingClient::new(&options("max_retries", "many")).is_err());
        let client =
            RetryingClient::new(&options("secret_access_key", "0123456789")).expect("a client");
        assert_eq!(client.shown("it is 0123456789"), "it is …");
    }

    #[test]
    fn the_wait_that_a_server_asks_for_is_read() {
        let wait_of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().expect("a header"));
            retry_after(&headers)
        };
        assert_eq!(wait_of("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait_of("soon"), None);
        let date = (Utc::now() + chrono::Duration::seconds(60)).to_rfc2822();
        assert!(wait_of(&date).is_some_and(|wait| wait.as_secs() > 50));
    }
}
