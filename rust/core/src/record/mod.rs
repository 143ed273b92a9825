//! Parses raw bytes into a [`Record`], for all shapes.
//!
//! Each shape has a file of its own: [`messages`] for conversations, [`pair`] for requests with answers,
//! [`text`] for plain text, [`tokens`] for ids. The [`Shape`] of a file is found once, in the order of
//! `Shape::find`, or named.

mod cbor;
mod columns;
mod content;
mod cursor;
mod fast_reader;
mod fault;
mod flags;
mod json;
mod kinds;
mod labelled;
mod loss_mask;
mod messages;
mod pair;
mod preference;
mod read;
mod row;
mod shape;
mod table;
mod text;
mod tokens;
mod unread;
mod value_access;
mod write;

pub(crate) use content::of_text;
pub use fast_reader::FastReader;
pub use fault::Fault;
pub use flags::is_assistant;
pub use json::MAX_DEPTH;
pub(crate) use json::parse as parse_json;
pub use kinds::{Answers, Conversation, Pair, Prompted, Record};
pub use labelled::Labelled;
pub use messages::MessageForms;
pub(crate) use read::content_of;
pub(crate) use read::object as object_of;
pub use read::{
    FoundShape, ReadFacts, as_messages, conversation, find_shape, parse_conversation, read,
    read_telling,
};
pub use shape::{Expectation, Shape, TokenColumns};
pub use table::{MappedRows, RecordTable};
pub use text::read_text_fast;
pub use tokens::{Tokens, TrainedRun};
pub use unread::left_out;
pub(crate) use write::json as write_json;
pub use write::{float as write_float, string as write_string};
