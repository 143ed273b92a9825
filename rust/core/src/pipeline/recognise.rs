//! [`Recogniser`]: what the files of a run hold, found once a file by its first records.

use std::path::Path;
use std::sync::Arc;

use super::Job;
use super::render::prompt_name;
use crate::assemble::schema;
use crate::config::{Options, RowColumn};
use crate::record::{Expectation, Found, Shape, TokenColumns, find_shape};
use crate::report::InputReport;
use crate::source::{Block, Blocks};

/// Records of a block that are looked at for a shape: if none of these has one, the file is not what it was taken for.
const LOOKED_AT: usize = 100;

/// What the options say of the records.
pub(super) fn expectation(options: &Options) -> Expectation<'_> {
    let columns = TokenColumns {
        input_ids: schema::name(RowColumn::InputIds),
        labels: schema::name(RowColumn::Labels),
    };
    Expectation { shape: options.shape, fields: &options.fields, columns }
}

/// What the files of a run hold.
pub(super) struct Recogniser<'a> {
    job: &'a Job,
    /// The file at hand, and its shape if that is known.
    file: Option<(Arc<Path>, Option<Arc<Shape>>)>,
    seen: Vec<InputReport>,
}

impl<'a> Recogniser<'a> {
    pub(super) fn new(job: &'a Job) -> Self {
        Self { job, file: None, seen: Vec::new() }
    }

    /// The shape of the file that `block`, one of `blocks`, is of. Blocks come in the order of the input.
    pub(super) fn shape(&mut self, block: &Block, blocks: &Blocks) -> Option<Arc<Shape>> {
        let known = match &self.file {
            Some((path, shape)) if *path == block.path => shape.clone(),
            _ => None,
        };
        let shape = known.or_else(|| {
            let records = block.records().take(LOOKED_AT).map(|record| record.raw);
            let found = find_shape(records, expectation(&self.job.options))?;
            self.count(blocks.format(&block.path), &found);
            Some(Arc::new(found.shape))
        });
        self.file = Some((Arc::clone(&block.path), shape.clone()));
        shape
    }

    fn count(&mut self, format: &str, found: &Found) {
        let entry = InputReport {
            files: 1,
            format: format.to_owned(),
            shape: Some(found.shape.name().name().to_owned()),
            fields: found.fields.clone(),
            prompt: prompt_name(self.job, found).map(str::to_owned),
        };
        let same =
            self.seen.iter_mut().find(|seen| InputReport { files: 1, ..(*seen).clone() } == entry);
        match same {
            Some(seen) => seen.files += 1,
            None => self.seen.push(entry),
        }
    }

    /// What the files were recognised as, in the order in which each kind came first.
    pub(super) fn into_report(self) -> Vec<InputReport> {
        self.seen
    }
}
