//! [`ShapeRecogniser`]: the shapes of the files of a run, each found once by the first records of the file.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::config::{DocumentKind, Reading, Source};
use crate::pipeline::documents::rendering::prompt_names::{prompt_name, unprompted_kind};
use crate::pipeline::job::Job;
use crate::record::{FoundShape, Shape, ShapeOptions, find_shape, other_picture_column};
use crate::report::InputReport;
use crate::source::{Block, ColumnChooser, RawContent};
use crate::util::message::ShownPath;

/// Records of a block in which a shape is searched. If none has one, the next block of the file is searched.
const LOOKED_AT: usize = 100;

/// The most paths of files of one kind in a report: enough to recognise the job.
const NAMED: usize = 3;

/// The options of a source that decide the shape of its records.
pub(in crate::pipeline) fn expectation(reading: &Reading, kind: DocumentKind) -> ShapeOptions<'_> {
    ShapeOptions { shape: reading.shape, fields: &reading.fields, shapes: kind.shapes() }
}

/// The function that finds the columns to read of a table, for documents of a kind; with `pictures` those of pictures too.
pub(in crate::pipeline) fn chooser(kind: DocumentKind, pictures: bool) -> ColumnChooser {
    match kind {
        DocumentKind::Texts if pictures => |reading, rows| {
            let mut columns = columns_read(reading, rows, DocumentKind::Texts)?;
            let schema = rows.schema();
            let names = schema.fields().iter().map(|field| field.name());
            columns.extend(names.filter(|name| reading.fields.names_pictures(name)).cloned());
            // A record whose messages show pictures is refused by the name of a column that is not read and seems to hold them.
            let first = 0..rows.num_rows().min(LOOKED_AT);
            let others = first.filter_map(|row| other_picture_column(rows, row, &reading.fields));
            columns.extend(others);
            columns.sort_unstable();
            columns.dedup();
            Some(columns)
        },
        DocumentKind::Texts | DocumentKind::Converted => {
            |reading, rows| columns_read(reading, rows, DocumentKind::Texts)
        }
        DocumentKind::Pairs => |reading, rows| columns_read(reading, rows, DocumentKind::Pairs),
        DocumentKind::Judged => |reading, rows| columns_read(reading, rows, DocumentKind::Judged),
        DocumentKind::Prompts => |reading, rows| columns_read(reading, rows, DocumentKind::Prompts),
        DocumentKind::Labelled | DocumentKind::MultiLabelled => {
            |reading, rows| columns_read(reading, rows, DocumentKind::Labelled)
        }
    }
}

/// The columns to read of a table that begins with these rows, if one of the rows shows a shape.
fn columns_read(reading: &Reading, rows: &RecordBatch, kind: DocumentKind) -> Option<Vec<String>> {
    let rows = (0..rows.num_rows().min(LOOKED_AT)).map(|row| RawContent::Row { batch: rows, row });
    find_shape(rows, expectation(reading, kind)).map(|shown| shown.shape.columns())
}

/// Finds the shape of each file of a run once, and keeps it.
pub(in crate::pipeline) struct ShapeRecogniser<'a> {
    job: &'a Job,
    /// The known shapes of files.
    shapes: HashMap<usize, Arc<Shape>>,
    /// The shape that was found last. Files of the same shape share one.
    last: Option<Arc<Shape>>,
    seen: FileKinds,
}

/// The formats and shapes of the files of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileKinds {
    /// Each kind of file once, in the order of its first file.
    pub(in crate::pipeline) inputs: Vec<InputReport>,
    /// The kinds of records for which a prompt was given.
    unprompted: Vec<String>,
    /// True if a given prompt was used.
    prompted: bool,
}

impl FileKinds {
    /// The kinds of records for which a prompt was given in vain, if nothing in the run uses one.
    pub(in crate::pipeline) fn unprompted(&self) -> &[String] {
        if self.prompted { &[] } else { &self.unprompted }
    }

    /// The kinds of files that an earlier run has seen.
    pub(in crate::pipeline) fn of(inputs: Vec<InputReport>) -> Self {
        Self { inputs, ..Self::default() }
    }

    /// Adds the observations on later files.
    pub(in crate::pipeline) fn merge(&mut self, later: Self) {
        self.prompted |= later.prompted;
        for kind in later.unprompted {
            if !self.unprompted.contains(&kind) {
                self.unprompted.push(kind);
            }
        }
        for input in later.inputs {
            self.count(input);
        }
    }

    /// Counts files of a kind.
    fn count(&mut self, input: InputReport) {
        let plain =
            |input: &InputReport| InputReport { files: 1, names: Vec::new(), ..input.clone() };
        let alike = plain(&input);
        if let Some(seen) = self.inputs.iter_mut().find(|seen| plain(seen) == alike) {
            seen.files += input.files;
            let room = NAMED - seen.names.len();
            seen.names.extend(input.names.into_iter().take(room));
        } else {
            self.inputs.push(input);
        }
    }
}

impl<'a> ShapeRecogniser<'a> {
    pub(in crate::pipeline) fn new(job: &'a Job) -> Self {
        Self { job, shapes: HashMap::new(), last: None, seen: FileKinds::default() }
    }

    /// The shape of the file of `block`, if it is known.
    pub(in crate::pipeline) fn known(&self, block: &Block) -> Option<Arc<Shape>> {
        self.shapes.get(&block.file).cloned()
    }

    /// The shape of the file of `block`, which is read of `source` in the format that `format` tells. Blocks come in input
    /// order. `named` tells files from records in memory.
    pub(in crate::pipeline) fn shape(
        &mut self,
        block: &Block,
        source: &Source,
        named: bool,
        format: impl FnOnce() -> String,
    ) -> Option<Arc<Shape>> {
        if let Some(known) = self.known(block) {
            return Some(known);
        }
        let records = block.records().take(LOOKED_AT).map(|record| record.raw);
        let shown =
            find_shape(records, expectation(&source.reading, self.job.options.tokens.documents))?;
        let is_new = !block.is_continued;
        let path = (named && is_new).then_some(&*block.path);
        self.count(path, format(), is_new, source, &shown);
        let same = self.last.take().filter(|last| **last == shown.shape);
        let shape = same.unwrap_or_else(|| Arc::new(shown.shape));
        self.last = Some(Arc::clone(&shape));
        self.shapes.insert(block.file, Arc::clone(&shape));
        Some(shape)
    }

    fn count(
        &mut self,
        path: Option<&Path>,
        format: String,
        is_new: bool,
        source: &Source,
        found: &FoundShape,
    ) {
        let entry = InputReport {
            files: u64::from(is_new),
            names: path.map(|path| ShownPath(path).to_string()).into_iter().collect(),
            format,
            shape: Some(found.shape.name().name().to_owned()),
            fields: found.fields.clone(),
            prompt: prompt_name(self.job, &source.reading, found).map(str::to_owned),
            repeat: source.repeat.get(),
            limit: source.limit.map(NonZeroU64::get),
        };
        if source.reading.prompt.is_some() {
            let FileKinds { unprompted, prompted, .. } = &mut self.seen;
            match unprompted_kind(found) {
                None => *prompted = true,
                Some(what) if unprompted.iter().any(|kind| kind == what) => {}
                Some(what) => unprompted.push(what.to_owned()),
            }
        }
        self.seen.count(entry);
    }

    /// The formats and shapes of the files.
    pub(in crate::pipeline) fn into_seen(self) -> FileKinds {
        self.seen
    }
}
