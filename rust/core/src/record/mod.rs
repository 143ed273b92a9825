//! Parses raw bytes into a [`Record`], for all shapes.
//!
//! Each shape has a file of its own: [`messages`] for conversations, [`pair`] for requests with answers,
//! [`text`] for plain text, [`tokens`] for ids. The [`Shape`] of a file is found once, in the order of
//! `Shape::find`, or named.

mod cbor;
mod columns;
mod cursor;
mod fault;
mod flags;
mod json;
mod kinds;
mod messages;
mod pair;
mod place;
mod preference;
mod read;
mod row;
mod shape;
mod skim;
mod table;
mod text;
mod tokens;
mod write;

pub use fault::Fault;
pub use flags::is_assistant;
pub use json::MAX_DEPTH;
pub use kinds::{Answers, Conversation, Pair, Prompted, Record};
pub use messages::Takes;
pub(crate) use read::object as object_of;
pub use read::{Shown, as_messages, conversation, find_shape, parse_conversation, read};
pub use shape::{Expectation, Shape, TokenColumns};
pub use skim::Skim;
pub use table::Table;
pub use text::skim_text;
pub use tokens::{Run, Tokens};
pub(crate) use write::json as write_json;
pub use write::{float as write_float, string as write_string};
