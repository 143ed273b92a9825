//! [`to_io_error`]: errors of a store in the words of an [`io::Error`].

use std::io;

use object_store::client::{HttpError, HttpErrorKind};

use crate::storage::http::retrying_client::{RetryingClient, deepest, may_pass};

/// An error of a store in the words of an [`io::Error`].
pub(in crate::storage) fn to_io_error(
    error: &object_store::Error,
    client: &RetryingClient,
) -> io::Error {
    use object_store::Error as Store;
    let detail = client.shown(&deepest(error));
    match error {
        Store::NotFound { .. } => no_such_object(),
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the store refuses these credentials: {detail}"),
        ),
        Store::AlreadyExists { .. } => io::Error::new(io::ErrorKind::AlreadyExists, detail),
        Store::Precondition { .. } => {
            crate::storage::cancelled_or_changed::CancelledOrChanged::Changed.into()
        }
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
