//! The object stores of the crate `object_store`: S3, Google and Azure.

pub(super) mod lease;
pub(super) mod listing;
pub(super) mod objects;
#[cfg(test)]
pub(super) mod s3_server_for_tests;
pub(super) mod target;
pub(super) mod unfinished;
pub(super) mod upload;

use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

use super::address::{Address, StoreKind};
use super::http::retrying_client::{RetryingClient, deepest, may_pass};
use super::http::service::Service;
use crate::error::{Error, Result};

/// Options that are the client's, and no store's.
const OF_THE_CLIENT: [&str; 3] = ["max_retries", "timeout", "connect_timeout"];

/// Opens the bucket of an address, with the variables of the environment and with `options` above them.
pub(super) fn open(
    address: &Address,
    options: &BTreeMap<String, String>,
    client: &Arc<RetryingClient>,
) -> Result<Arc<dyn ObjectStore>> {
    let service = Service(Arc::clone(client));
    let retry = retry();
    let url = format!("{}/", address.root);
    let failed = |error: object_store::Error| refuse(address, client, &error);
    Ok(match address.kind {
        StoreKind::S3 => Arc::new(open_s3(address, options, client)?),
        StoreKind::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(url);
            for (key, value) in chosen::<GoogleConfigKey>(options, "google")? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_retry(retry).with_http_connector(service);
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(url);
            for (key, value) in chosen::<AzureConfigKey>(options, "azure")? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_retry(retry).with_http_connector(service);
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Web | StoreKind::Given | StoreKind::FileSystem => {
            unreachable!("it has no buckets")
        }
    })
}

/// Opens the bucket of an address of the protocol of S3.
pub(super) fn open_s3(
    address: &Address,
    options: &BTreeMap<String, String>,
    client: &Arc<RetryingClient>,
) -> Result<AmazonS3> {
    let mut builder = AmazonS3Builder::from_env().with_url(format!("{}/", address.root));
    for (key, value) in chosen::<AmazonS3ConfigKey>(options, "aws")? {
        builder = builder.with_config(key, value);
    }
    let builder = builder.with_retry(retry()).with_http_connector(Service(Arc::clone(client)));
    builder.build().map_err(|error| refuse(address, client, &error))
}

/// No retries: the client repeats requests, and looks at `Retry-After`.
fn retry() -> RetryConfig {
    RetryConfig { max_retries: 0, backoff: BackoffConfig::default(), ..RetryConfig::default() }
}

/// The option of S3 for copies to a name that must be free.
const COPY: &str = "aws_copy_if_not_exists";

/// The ways in which stores of the protocol of S3 do so: by a condition of the copy, as S3 does since 2025; by a header of
/// Cloudflare's; and as an upload of one part, which is completed on a condition.
const COPIES: [&str; 3] =
    ["header: if-none-match: *", "header: cf-copy-destination-if-none-match: *", "multipart"];

/// The options that open a bucket so that it copies to free names alone, for each of the ways that its store may know; none if the
/// store has one way, or the caller has named it.
pub(super) fn copy_options(
    address: &Address,
    options: &BTreeMap<String, String>,
) -> Vec<BTreeMap<String, String>> {
    let is_named = options.keys().any(|name| {
        AmazonS3ConfigKey::from_str(&name.to_ascii_lowercase())
            .is_ok_and(|key| key == AmazonS3ConfigKey::CopyIfNotExists)
    });
    if address.kind != StoreKind::S3 || is_named {
        return Vec::new();
    }
    let with = |way: &str| {
        let own = (COPY.to_owned(), way.to_owned());
        options.clone().into_iter().chain([own]).collect()
    };
    COPIES.into_iter().map(with).collect()
}

/// The options that a store knows. Options of other stores are left out, as one job may read several.
fn chosen<K: FromStr>(options: &BTreeMap<String, String>, own: &str) -> Result<Vec<(K, String)>> {
    let mut found = Vec::new();
    for (name, value) in options {
        let lower = name.to_ascii_lowercase();
        if OF_THE_CLIENT.contains(&lower.as_str()) {
            continue;
        }
        match lower.parse() {
            Ok(key) => found.push((key, value.clone())),
            Err(_) if lower.starts_with(own) || !is_known(&lower) => {
                let reason = format!("has `{name}`, which no object store knows");
                return Err(Error::option("storage.options", reason));
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

/// True if any store knows an option.
fn is_known(name: &str) -> bool {
    AmazonS3ConfigKey::from_str(name).is_ok()
        || GoogleConfigKey::from_str(name).is_ok()
        || AzureConfigKey::from_str(name).is_ok()
        || ClientConfigKey::from_str(name).is_ok()
}

fn refuse(address: &Address, client: &RetryingClient, error: &object_store::Error) -> Error {
    let detail = client.shown(&deepest(error));
    Error::option("storage.options", format!("do not open `{}`: {detail}", address.root))
}

/// The path of a key in its store.
pub(super) fn path_of(key: &str) -> io::Result<Path> {
    let refuse = |_| {
        let reason =
            "is a key that cannot be read: it has empty parts, `.` or `..` between its slashes";
        io::Error::new(io::ErrorKind::InvalidInput, reason)
    };
    Path::parse(key).map_err(refuse)
}

/// An error of a store in the words of an [`io::Error`].
pub(super) fn to_io_error(error: &object_store::Error, client: &RetryingClient) -> io::Error {
    use object_store::Error as Store;
    let detail = client.shown(&deepest(error));
    match error {
        Store::NotFound { .. } => no_such_object(),
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the store refuses these credentials: {detail}"),
        ),
        Store::AlreadyExists { .. } => io::Error::new(io::ErrorKind::AlreadyExists, detail),
        Store::Precondition { .. } => super::cancelled_or_changed::Stopped::Changed.into(),
        // The library has no kind for the list of a bucket that is not there.
        _ if status_of(error) == Some(404) => no_such_object(),
        _ => match http_failure(error) {
            Some(HttpErrorKind::Interrupted) => {
                io::Error::new(io::ErrorKind::ConnectionAborted, detail)
            }
            failure => {
                let kind = match failure {
                    _ if status_of(error).is_some_and(may_pass) => io::ErrorKind::NotConnected,
                    Some(HttpErrorKind::Timeout) => io::ErrorKind::TimedOut,
                    Some(HttpErrorKind::Connect) => io::ErrorKind::NotConnected,
                    _ => io::ErrorKind::Other,
                };
                io::Error::new(kind, format!("the store fails: {detail}"))
            }
        },
    }
}

fn no_such_object() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "No such object or bucket")
}

/// The failure of the connection, if that is what an error is about.
fn http_failure(error: &object_store::Error) -> Option<HttpErrorKind> {
    causes(error).find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind)
}

/// The status of the answer that an error is about, if it is about one. The library keeps the type of such errors to itself,
/// so that their text tells it.
fn status_of(error: &object_store::Error) -> Option<u16> {
    let status = |cause: &(dyn std::error::Error + 'static)| {
        let text = cause.to_string();
        text.strip_prefix("Server returned non-2xx status code: ")?.get(..3)?.parse().ok()
    };
    causes(error).find_map(status)
}

/// An error, and what caused it.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}
