//! [`Rendered`]: a text ready to be tokenized, and the parts of it that are trained.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;
use fastpack_picture::Size;

use super::conversation::left_out::LeftOut;
use super::trained::turn_texts::WholeText;
use crate::report::ledger::NoteSet;

/// A trained part of a text, and its weight in the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Byte range in the text.
    pub range: Range<usize>,
    /// Factor of the loss of its tokens.
    pub weight: f32,
}

/// The trained tokens of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Trained {
    /// Every token.
    #[default]
    All,
    /// The tokens that these spans overlap: ascending, disjoint.
    Spans(Vec<Span>),
}

/// A picture in a rendered text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPicture {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// Its number among the pictures of its record.
    pub number: u32,
    /// Its size.
    pub size: Size,
    /// The place of its bytes.
    pub source: PictureSource,
    /// The number of bytes of its file, if known.
    pub bytes: Option<u32>,
    /// A number that changes with the content of its file; 0 for one without a file of its own.
    pub version: u64,
}

/// The place of a picture's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PictureSource {
    /// A file of its own.
    File(Arc<str>),
    /// The record, which training finds again.
    Record,
    /// These bytes, which no file holds as they are.
    Held(Buffer),
}

/// A text ready to be tokenized.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Byte ranges of the text that the template itself wrote, ascending and disjoint, where they are known.
    /// Many texts share them.
    pub literals: Vec<Range<usize>>,
    /// Byte ranges of the text that are encoded as ordinary text, ascending and disjoint: control tokens that a user or
    /// a tool wrote.
    pub ordinary: Vec<Range<usize>>,
    /// The trained tokens of the text.
    pub trained: Trained,
    /// Bytes at which the text may be cut, ascending: the ends of the assistant's turns. Empty unless asked
    /// for.
    pub turn_ends: Vec<usize>,
    /// True if an end-of-text token that follows the text is not trained.
    pub end_untrained: bool,
    /// The number of the last turn that it trains among the messages of the assistant, from 1; 0 if it is of no
    /// conversation, or trains none.
    pub turn: u32,
    /// The one text of the whole conversation, to compare with; the last of several texts has it.
    pub whole: Option<WholeText>,
    /// The fields of the record that the text leaves out.
    pub left_out: LeftOut,
    /// The text fields of the record that are not read.
    pub unread: Vec<Arc<str>>,
    /// Its pictures, in their order.
    pub pictures: Vec<PlacedPicture>,
    /// The notes of the record.
    pub notes: NoteSet,
}
