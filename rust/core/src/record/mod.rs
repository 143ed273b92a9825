//! Parses raw bytes into a [`Record`], for all shapes.
//!
//! The [`Shape`] of a file is found once, in the order of `Shape::find`, or named. Each kind of record has a file in [`shapes`];
//! [`parsing`] reads JSON and CBOR.

mod content_hash;
mod kinds;
mod pair_as_messages;
mod parsing;
mod picture;
mod read;
mod shape;
mod shapes;
mod tables;
mod texts;
mod unread_fields;

pub use crate::source::formats::picture_json::write_picture;
pub(crate) use content_hash::of_text;
pub use kinds::{Answers, Conversation, Pair, Prompted, Record};
pub use pair_as_messages::pair_as_messages;
pub use parsing::fault::Fault;
pub use parsing::json::MAX_DEPTH;
pub(crate) use parsing::json::parse as parse_json;
pub use parsing::replay_reader::ReplayReader;
pub(crate) use parsing::write::json as write_json;
pub use parsing::write::{float as write_float, string as write_string};
pub use picture::{HeldPicture, Picture};
pub(crate) use read::content_of;
pub(crate) use read::object as object_of;
pub use read::{
    FoundShape, ReadFacts, conversation, find_shape, parse_conversation, read, read_with_facts,
};
pub use shape::{Shape, ShapeOptions};
pub use shapes::flags::is_assistant;
pub use shapes::labelled::Labelled;
pub use shapes::messages::MessageForms;
pub(crate) use shapes::pictures::{
    PICTURES_WITH_TEXTS, other_column_of_row as other_picture_column, pictures_in,
};
pub use shapes::record_tokens::{RecordTokens, TrainedRun};
pub use shapes::text::read_text_fast;
pub use tables::mapped_rows::MappedRows;
pub use tables::table::RecordTable;
pub(crate) use texts::texts_in;
pub use unread_fields::left_out;
