//! [`Address`]: a URL of an object or of a prefix, and its name without secrets.

use std::fmt;
use std::path::Path;

use reqwest::Url;

use crate::error::{Error, Result};
use crate::util::redaction::without_secrets;

/// The kinds of remote storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum StoreKind {
    /// Amazon S3, and stores that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// A web server.
    Web,
    /// A name that the caller resolves: a data set of the hub.
    Given,
    /// A file system of the caller.
    FileSystem,
}

/// The schemes of URLs, with the kind of each.
const SCHEMES: [(&str, StoreKind); 11] = [
    ("s3", StoreKind::S3),
    ("s3a", StoreKind::S3),
    ("gs", StoreKind::Google),
    ("gcs", StoreKind::Google),
    ("az", StoreKind::Azure),
    ("azure", StoreKind::Azure),
    ("abfs", StoreKind::Azure),
    ("abfss", StoreKind::Azure),
    ("http", StoreKind::Web),
    ("https", StoreKind::Web),
    ("hf", StoreKind::Given),
];

/// The scheme of a URL; `None` for a path.
pub(crate) fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it));
    // `C://` is a drive.
    (is_scheme && scheme.len() > 1).then_some(scheme)
}

/// True if a path is a URL.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| scheme_of(text).is_some())
}

/// True for the URL of a web server.
pub(crate) fn is_web(text: &str) -> bool {
    scheme_of(text)
        .is_some_and(|scheme| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)))
}

/// The URL of an object, a prefix or a pattern.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) kind: StoreKind,
    /// The URL without user and query.
    pub(super) name: String,
    /// The URL up to the bucket: `s3://bucket`, `https://host`.
    pub(super) root: String,
    /// The part behind the bucket, as it was written.
    pub(super) key: String,
    /// The whole URL, which may be a secret; `None` if it is not one of the web.
    pub(super) url: Option<Url>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Address {
    /// The address in `text`; `option` is the option that it was given for.
    pub(super) fn parse(text: &str, option: &'static str) -> Result<Self> {
        let refuse = |reason: String| Error::option(option, reason);
        let shown = public(text);
        let scheme = scheme_of(text).unwrap_or_default().to_ascii_lowercase();
        let Some((_, kind)) = SCHEMES.iter().find(|(known, _)| *known == scheme) else {
            let known: Vec<&str> = SCHEMES.iter().map(|(name, _)| *name).collect();
            return Err(refuse(format!(
                "`{shown}` has the scheme `{scheme}`, none of {}; copy the files, or mount what holds them",
                known.join(", ")
            )));
        };
        let rest = &text[scheme.len() + 3..];
        if *kind == StoreKind::Web {
            let url = Url::parse(text).map_err(|error| {
                refuse(format!("`{}` is no URL: {error}", without_secrets(text)))
            })?;
            if url.password().is_some() && url.path().contains('@') {
                return Err(refuse(format!(
                    "`{}` has a password and another `@` behind it, so that either may end at the other; write %40 for \
                     an `@` and %2F for a slash in a password, and %40 for an `@` in a path",
                    without_secrets(text)
                )));
            }
            let key = url.path().trim_start_matches('/').to_owned();
            let mut root = url.clone();
            // Web URLs have a host, so that both can be set.
            let _ = root.set_username("");
            let _ = root.set_password(None);
            root.set_path("");
            root.set_query(None);
            root.set_fragment(None);
            let root = root.as_str().trim_end_matches('/').to_owned();
            return Ok(Self { kind: *kind, name: shown, root, key, url: Some(url) });
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refuse(format!("`{shown}` names no bucket; write {scheme}://BUCKET/KEY")));
        }
        // No bucket has a colon in its name, and that of `abfs` alone an `@`.
        if bucket.contains(':') || (bucket.contains('@') && !scheme.starts_with("abfs")) {
            return Err(refuse(format!(
                "`{}` has a user or a password before its bucket; pass credentials as `storage.options`, or by the environment",
                without_secrets(text)
            )));
        }
        let root = format!("{scheme}://{bucket}");
        Ok(Self { kind: *kind, name: shown, root, key: key.to_owned(), url: None })
    }

    /// The address of the file `name` in the folder that this is the address of. The query of a URL stays.
    pub(super) fn inside(&self, name: &str) -> Self {
        let folder = self.key.trim_end_matches('/');
        let key = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let url = self.url.clone().map(|mut url| {
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.pop_if_empty().extend(name.split('/'));
            }
            url
        });
        let name = url.as_ref().map_or_else(|| self.name_of(&key), |url| public(url.as_str()));
        Self { name, key, url, ..self.clone() }
    }

    /// The address of a file, a folder or a glob on a file system of the caller.
    pub(super) fn on_file_system(text: &str) -> Self {
        let scheme = scheme_of(text).unwrap_or_default();
        let key = text.get(scheme.len() + 3..).unwrap_or(text).to_owned();
        let (name, root) = (named(text.to_owned()), format!("{scheme}:/"));
        Self { kind: StoreKind::FileSystem, name, root, key, url: None }
    }

    /// The name of another key of the same bucket.
    pub(super) fn name_of(&self, key: &str) -> String {
        let name = format!("{}/{key}", self.root);
        if self.kind == StoreKind::FileSystem { named(name) } else { name }
    }
}

/// A URL without its user, its query and its fragment: the part that may be shown and kept.
///
/// Only web URLs have a query; in a key of a bucket, `?` and `#` are characters. The user of `abfs://` is the container.
pub(crate) fn public(text: &str) -> String {
    let Some(scheme) = scheme_of(text) else { return text.to_owned() };
    let rest = &text[scheme.len() + 3..];
    let rest = if is_web(text) { rest.split(['?', '#']).next().unwrap_or_default() } else { rest };
    let end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = match host.rsplit_once('@') {
        Some((_, host)) if !scheme.to_ascii_lowercase().starts_with("abfs") => host,
        _ => host,
    };
    format!("{scheme}://{host}{path}")
}

/// The name of a file on a file system of the caller. Only the URLs of web servers hold secrets: elsewhere `@` is a character.
fn named(url: String) -> String {
    if url.starts_with("http") { public(&url) } else { url }
}

/// A message of a library without the users and queries of URLs, and without any of `secrets`.
pub(super) fn redacted(message: &str, secrets: &[String]) -> String {
    let mut text = without_secrets(message).into_owned();
    for secret in secrets {
        text = text.replace(secret.as_str(), "…");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_neither_user_nor_query() {
        let shown = [
            ("https://u:p@host:8/a/b.jsonl?X-Amz-Signature=1#x", "https://host:8/a/b.jsonl"),
            ("s3://bucket/a?b#c", "s3://bucket/a?b#c"),
            (
                "abfss://files@account.dfs.core.windows.net/a",
                "abfss://files@account.dfs.core.windows.net/a",
            ),
            ("plain/path", "plain/path"),
            ("C://x", "C://x"),
        ];
        for (url, wanted) in shown {
            assert_eq!(public(url), wanted);
        }
    }

    #[test]
    fn a_message_of_a_library_keeps_no_secret() {
        let message =
            "GET (https://u:p@h/k?sig=abc) failed: key 0123456789 is wrong, see \"http://x/y?z\"";
        let wanted = "GET (https://h/k) failed: key … is wrong, see \"http://x/y\"";
        assert_eq!(redacted(message, &["0123456789".to_owned()]), wanted);
    }

    #[test]
    fn addresses_are_taken_apart() {
        let s3 = Address::parse("s3://bucket/a/b*.jsonl", "files").expect("an address");
        assert_eq!((s3.root.as_str(), s3.key.as_str()), ("s3://bucket", "a/b*.jsonl"));
        let web = Address::parse("https://me:pw@host:1/a b?x=1", "files").expect("an address");
        assert_eq!((web.root.as_str(), web.key.as_str()), ("https://host:1", "a%20b"));
        let refused = Address::parse("ftp://u:secret@h/x", "files").expect_err("an unknown scheme");
        assert!(refused.to_string().contains("`ftp`") && !refused.to_string().contains("secret"));
        assert!(Address::parse("s3:///x", "files").is_err());
    }
}
