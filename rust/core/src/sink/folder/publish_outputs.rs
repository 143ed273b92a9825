//! [`OutputFolder::finish`]: puts the finished shards, the report and last the manifest in their places.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::output_folder::OutputFolder;
use super::renamed_files::{flat, sync, write};
use crate::config::Split;
use crate::error::Result;
use crate::report::listed_path::ListedPath;
use crate::sink::file_names::{BLOCKS, MANIFEST, MANIFEST_NEW, REPORT, TOKENS, is_shard_of};
use crate::sink::groups::group_files;
use crate::sink::manifest::{Manifest, MetadataFile, TokensFile, WrittenShard};
use crate::util::disk::hex_hash::HexHash;

impl OutputFolder {
    /// Compares the shards with the hashes that they were written with, and renames them into place, and the tokens if they are
    /// kept. Then writes `report.json`, and last
    /// the manifest with the hash of each input's content.
    ///
    /// # Panics
    ///
    /// If nothing was written and no tokens are kept. A job without rows writes an empty batch, which gives
    /// its one shard the schema.
    pub fn finish(
        &mut self,
        report: &str,
        content: BTreeMap<ListedPath, HexHash>,
        tokens: Option<TokensFile>,
    ) -> Result<()> {
        self.finish_with(report, content, tokens, Vec::new())
    }

    /// [`finish`](Self::finish) with further small files, by their names and contents.
    ///
    /// # Panics
    ///
    /// As `finish`.
    pub fn finish_with(
        &mut self,
        report: &str,
        content: BTreeMap<ListedPath, HexHash>,
        tokens: Option<TokensFile>,
        others: Vec<(String, Vec<u8>)>,
    ) -> Result<()> {
        self.end_series()?;
        let wrote = !self.files.is_empty() || tokens.is_some();
        assert!(wrote, "a job writes at least one batch, if an empty one");
        self.refuse_changed(tokens.as_ref())?;
        if self.job.appended_to.is_some() {
            // Each split is read in the order of the list.
            let split = |file: &WrittenShard| {
                Split::ALL.into_iter().position(|it| is_shard_of(it, &file.name))
            };
            self.files.sort_by_key(split);
        }
        let described = self.arrangement.describe(self.work(), &self.files)?;
        let described = described.into_iter().map(|(name, text)| (name, text.into_bytes()));
        let report = (REPORT.to_owned(), report.as_bytes().to_vec());
        let mut manifest =
            Manifest::new(Arc::clone(&self.job), self.now, self.arrangement.place(&self.files));
        manifest.recipe =
            self.recipe.as_deref().and_then(|recipe| serde_json::from_str(recipe).ok());
        manifest.replaced = self.replaced.take();
        manifest.content = content;
        manifest.counts = self.counts.take();
        manifest.tokens = tokens;
        for (name, content) in described.chain(others).chain([report]) {
            write(&self.work().join(flat(&name)), &content)?;
            manifest.metadata_files.push(MetadataFile::of(name, &content));
        }
        self.list.sync()?;
        let new = self.work().join(MANIFEST_NEW);
        manifest.write(&new)?;
        self.files_of_work().rename_into(&new, MANIFEST)?;
        // The record of the job must be on the disk before files are placed: it says whose they are.
        sync(self.work())?;

        // Everything is on the disk. From here to the last line, the folder holds no whole output.
        self.refuse_taken(&manifest)?;
        let work = self.work().to_owned();
        let Self { owned, lock, job, .. } = self;
        owned.remove(&lock.as_ref().expect("it is held").files(job))?;
        sync(&self.dir)?;
        let placed = self.files.iter().zip(&manifest.files);
        for (file, placed) in
            placed.filter(|(file, _)| !self.uploaded_names.contains_key(&file.name))
        {
            self.placed.place(work.join(&file.name), &self.dir, &placed.name)?;
        }
        if manifest.tokens.is_some() {
            self.placed.place(work.join(BLOCKS), &self.dir, TOKENS)?;
        }
        for MetadataFile { name, .. } in &manifest.metadata_files {
            self.placed.place(work.join(flat(name)), &self.dir, name)?;
        }
        self.placed.sync(&self.dir)?;
        self.placed.place(work.join(MANIFEST), &self.dir, MANIFEST)?;
        sync(&self.dir)?;
        self.placed.keep();
        self.created = false;
        group_files::remove(self.work());
        self.clear(|_| false)
    }
}
