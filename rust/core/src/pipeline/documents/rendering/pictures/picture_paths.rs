//! The paths of pictures that records name: relative ones begin at the folder of the record's file, or at one that the options name.

use std::path::Path;

use reqwest::Url;

use crate::config::ImageOptions;

/// The folder in which relative paths of the record in the file at `path` begin.
pub(super) fn folder_of_pictures<'p>(
    options: &'p ImageOptions,
    path: Option<&'p Path>,
) -> Option<&'p Path> {
    options.folder.as_deref().or_else(|| path?.parent())
}

/// The path that a `file://` URL names; one without a root is taken as it stands.
pub(super) fn file_of(url: &str) -> Option<String> {
    let path = url.strip_prefix("file://")?;
    let whole = Url::parse(url).ok().and_then(|url| url.to_file_path().ok());
    let whole = whole.and_then(|path| path.into_os_string().into_string().ok());
    Some(whole.unwrap_or_else(|| path.to_owned()))
}
