//! [`ObjectStat`]: the facts that a store tells of an object.

use std::io;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::cancelled_or_changed::CancelledOrChanged;

/// The size of an object, and the marks by which a change is seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectStat {
    /// The size in bytes.
    pub(crate) size: u64,
    /// The etag, as the store wrote it.
    pub(crate) etag: Option<Arc<str>>,
    /// The time of the last change, in nanoseconds since 1970; 0 where the server does not tell.
    pub(crate) modified: u64,
}

impl ObjectStat {
    /// True if another answer is about the same content. A value that neither has is not compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let etags = self.etag.as_ref().zip(other.etag.as_ref());
        let times =
            (self.modified > 0 && other.modified > 0).then_some((self.modified, other.modified));
        self.size == other.size
            && match (etags, times) {
                (Some((one, other)), _) => bare(one) == bare(other),
                (None, Some((one, other))) => one == other,
                (None, None) => true,
            }
    }

    /// Fails if another answer of the same server is about another content, or no longer says about which.
    pub(super) fn check(&self, other: &Self) -> io::Result<()> {
        if !self.is_same(other) {
            return Err(CancelledOrChanged::Changed.into());
        }
        let etags = self.etag.is_some() && other.etag.is_some();
        let times = self.modified > 0 && other.modified > 0;
        if self.is_identified() && !(etags || times) {
            return Err(io::Error::other(
                "the server no longer tells whether the file is the same, by an etag or a time as before",
            ));
        }
        Ok(())
    }

    /// The etag with quotes, as a condition of a request has it. Azure lists etags without them.
    pub(crate) fn quoted_etag(&self) -> Option<String> {
        let etag = self.etag.as_deref()?;
        Some(if etag.ends_with('"') { etag.to_owned() } else { format!("\"{etag}\"") })
    }

    /// A number that changes with the content, as far as the store tells.
    pub(crate) fn version(&self) -> u64 {
        let facts = match &self.etag {
            Some(etag) => format!("{}\n{}", self.size, bare(etag)),
            None => format!("{}\n{}", self.size, self.modified),
        };
        XxHash64::oneshot(0, facts.as_bytes())
    }

    /// True if a later run can tell that the object is the same.
    pub(crate) fn is_identified(&self) -> bool {
        self.etag.is_some() || self.modified > 0
    }
}

/// An etag without quotes and mark: lists of buckets write it in other ways than answers do.
fn bare(etag: &str) -> &str {
    etag.trim_start_matches("W/").trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_apart_by_etag_or_else_by_time() {
        let stat = |size, etag: Option<&str>, modified| ObjectStat {
            size,
            etag: etag.map(Arc::from),
            modified,
        };
        let one = stat(3, Some("\"a\""), 5);
        assert!(one.is_same(&stat(3, Some("a"), 9)));
        assert!(!one.is_same(&stat(3, Some("\"b\""), 5)));
        assert!(!one.is_same(&stat(4, Some("\"a\""), 5)));
        assert!(one.is_same(&stat(3, None, 5)) && !one.is_same(&stat(3, None, 6)));
        assert!(stat(3, None, 0).is_same(&one) && !stat(3, None, 0).is_identified());
    }
}
