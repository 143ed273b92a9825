//! The inputs: sources, and the options by which their records are read.
//!
//! [`Inputs`] has [sources], each with its [`Reading`]: the [shape](shape_table) of its records, the fields of their
//! [parts](part), the [prompt format](prompt).

pub(crate) mod fields;
pub(super) mod image_options;
mod part;
mod prompt;
mod reading;
mod shape_name;
pub(crate) mod shape_table;
pub(super) mod source_shares;
mod sources;

pub use part::Part;
pub use prompt::{MathPrompt, Prompt, PromptParts};
pub use reading::{Fields, Reading};
pub use shape_name::ShapeName;
pub use shape_table::{ContentForm, OtherFields, PartFields, ShapeEntry};
pub use sources::{Inputs, RecordSource, Source};
