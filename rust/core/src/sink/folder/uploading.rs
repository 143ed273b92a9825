//! The shards of a folder that are uploaded as soon as they are finished.

use std::sync::Arc;

use super::output_folder::OutputFolder;
use crate::error::Result;
use crate::sink::bucket::uploads::Uploads;
use crate::sink::manifest::WrittenShard;

impl OutputFolder {
    /// Gives each shard to `uploads` once it is finished, first those of a stopped run. In a bucket they will have the names that
    /// they have in the work folder.
    pub fn upload_to(&mut self, uploads: Arc<Uploads>) {
        for file in &self.files {
            uploads.take(&self.work().join(&file.name), file);
        }
        self.uploads = Some(uploads);
    }

    /// Lists a shard that is finished.
    pub(super) fn list_finished(&mut self, file: WrittenShard) -> Result<()> {
        self.list.add(&file)?;
        if let Some(uploads) = &self.uploads {
            uploads.take(&self.work().join(&file.name), &file);
        }
        self.files.push(file);
        Ok(())
    }
}
