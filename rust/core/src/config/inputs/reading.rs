//! [`Reading`]: the options by which the records of a source are read, such as the [`Fields`] of their parts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::image_options::PICTURE_COLUMNS;
use super::part::Part;
use super::prompt::Prompt;
use super::shape_name::ShapeName;
use crate::error::{Error, Result};
use crate::util::wording::{message, set};

/// The field names that the caller gave for parts of a record. Other parts have their usual names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(pub BTreeMap<Part, String>);

impl Fields {
    /// The field of a part, if it is named.
    pub fn get(&self, part: Part) -> Option<&str> {
        self.0.get(&part).map(String::as_str)
    }

    /// The columns that may hold the pictures of a conversation: the one that is named, or the usual ones. The first with a value
    /// does.
    pub fn picture_columns(&self) -> impl Iterator<Item = &str> {
        let named = self.get(Part::Images);
        let usual = if named.is_none() { &PICTURE_COLUMNS[..] } else { &[] };
        named.into_iter().chain(usual.iter().copied())
    }

    /// True for a column that may hold the pictures of a conversation.
    pub fn names_pictures(&self, column: &str) -> bool {
        self.picture_columns().any(|known| known == column)
    }

    /// The shape among `shapes` whose parts are named. A part that all of several shapes have names none of them.
    pub fn shape(&self, shapes: &[ShapeName]) -> Option<ShapeName> {
        let tells = |part: &&Part| shapes.len() < 2 || !shapes.iter().all(|it| part.is_of(*it));
        self.0.keys().filter(tells).find_map(|part| part.shape(shapes))
    }
}

/// The options by which the records of a source are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The shape of the records; by default it is found by the first of them.
    pub shape: Option<ShapeName>,
    /// The fields of the parts of a record.
    pub fields: Fields,
    /// The prompt format of requests; by default the chat template if there is one, else Alpaca.
    pub prompt: Option<Prompt>,
    /// Examples: requests with answers that stand before each request.
    pub examples: Vec<(String, String)>,
    /// The separator between the documents of a text file; without it, each file is one document.
    pub separator: Option<String>,
}

impl Reading {
    /// The shape among `shapes` that `shape` or the name of a field gives.
    pub fn named_shape(&self, shapes: &[ShapeName]) -> Option<ShapeName> {
        self.shape.or_else(|| self.fields.shape(shapes))
    }

    /// Checks that the options name records of these shapes, which `objective` takes.
    pub fn validate_for(&self, shapes: &[ShapeName], objective: &'static str) -> Result<()> {
        let with = || set("objective", objective);
        if let Some(shape) = self.shape.filter(|shape| !shapes.contains(shape)) {
            let known: Vec<String> =
                shapes.iter().map(|shape| format!("\"{}\"", shape.name())).collect();
            let reason = message![
                format!("is \"{}\", which means nothing with ", shape.name()),
                with(),
                format!("; known are {}", known.join(", ")),
            ];
            return Err(Error::option("reading.shape", reason));
        }
        let other = |part: &&Part| !part.is_general() && part.shape(shapes).is_none();
        if let Some(part) = self.fields.0.keys().find(other) {
            let reason =
                message![format!("names `{}`, which records have not with ", part.name()), with(),];
            return Err(Error::option("reading.fields", reason));
        }
        self.one_shape(shapes)
    }

    /// Checks that the named fields are those of one of these shapes.
    fn one_shape(&self, shapes: &[ShapeName]) -> Result<()> {
        let Some(named) = self.named_shape(shapes) else { return Ok(()) };
        let other = self.fields.0.keys().filter(|part| !part.is_of(named));
        if let Some(other) = other.clone().find_map(|part| part.shape(shapes)) {
            let reason = format!("names parts of `{}` and of `{}`", named.name(), other.name());
            return Err(Error::option("reading.fields", reason));
        }
        Ok(())
    }

    /// Checks the rules between the options.
    pub(super) fn validate(&self) -> Result<()> {
        if self.fields.0.values().any(String::is_empty) {
            return Err(Error::option("reading.fields", "names a field without a name"));
        }
        if self.separator.as_ref().is_some_and(String::is_empty) {
            return Err(Error::option(
                "reading.separator",
                "must be a text of at least one character",
            ));
        }
        let has_all = |shape: &ShapeName| self.fields.0.keys().all(|part| part.is_of(*shape));
        if ShapeName::ALL.iter().any(has_all) { Ok(()) } else { self.one_shape(ShapeName::ALL) }
    }
}
