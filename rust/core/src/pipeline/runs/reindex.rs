//! [`reindex`]: files written again so that a stream can enter them in the middle, in a folder or in a bucket.

use std::path::{Path, PathBuf};

use crate::config::{Inputs, RemoteOutput};
use crate::error::Result;
use crate::sink::BucketFiles;
use crate::source::{self, Reindexed, RewriteDestination};
use crate::util::control::Control;

/// Rewrites the files of `inputs` into the folder `dir`; with `remote`, each file goes on to a folder of a bucket when it is
/// whole, and `dir` is a folder that this call has for itself.
///
/// # Errors
///
/// As [`source::reindex`], and those of the bucket.
pub fn reindex(
    inputs: &Inputs,
    dir: &Path,
    remote: Option<&RemoteOutput>,
    control: &Control,
) -> Result<Vec<Reindexed>> {
    let Some(remote) = remote else { return source::reindex(inputs, dir, None, control) };
    let mut bucket = IntoBucket { files: BucketFiles::open(remote, dir, control)?, control };
    let done = source::reindex(inputs, dir, Some(&mut bucket), control)?;
    bucket.files.finish()?;
    Ok(done)
}

/// The bucket into which rewritten files go.
struct IntoBucket<'a> {
    files: BucketFiles,
    control: &'a Control,
}

impl RewriteDestination for IntoBucket<'_> {
    fn begin(&mut self, names: &[String]) -> Result<()> {
        self.files.refuse_taken(names)
    }

    fn send(&mut self, name: &str) -> Result<PathBuf> {
        self.files.place(name, self.control)
    }
}
