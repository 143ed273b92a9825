//! [`ListedPath`]: a path of an input, as manifests list it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path or URL of an input, as manifests list it: as text, by whose bytes it is ordered. Its memory is shared with all that
/// name the file: a job names each input several times.
#[derive(Clone)]
pub struct ListedPath(Arc<Path>);

impl ListedPath {
    /// The text of a path.
    pub fn text(&self) -> Cow<'_, str> {
        self.0.to_string_lossy()
    }

    /// The path.
    pub fn path(&self) -> &Arc<Path> {
        &self.0
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_os_str().as_encoded_bytes()
    }
}

impl From<&Arc<Path>> for ListedPath {
    /// A path that is no Unicode is listed as it is shown.
    fn from(path: &Arc<Path>) -> Self {
        match path.to_string_lossy() {
            Cow::Borrowed(_) => Self(Arc::clone(path)),
            Cow::Owned(shown) => Self::from(&*shown),
        }
    }
}

impl From<&str> for ListedPath {
    fn from(text: &str) -> Self {
        Self(Arc::from(Path::new(text)))
    }
}

impl PartialEq for ListedPath {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for ListedPath {}

impl PartialOrd for ListedPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ListedPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl fmt::Debug for ListedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ListedPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for ListedPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*String::deserialize(deserializer)?))
    }
}
