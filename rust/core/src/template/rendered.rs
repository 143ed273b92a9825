//! [`Rendered`]: a text ready to be tokenized, and which parts of it are trained.

use std::ops::Range;

/// A part of a text that is trained, and how much it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// What the loss of its tokens is multiplied by.
    pub weight: f32,
}

/// Which part of a text is trained.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Trained {
    /// Every token.
    #[default]
    All,
    /// The tokens that these spans overlap: ascending, disjoint.
    Spans(Vec<Span>),
}

/// A text ready to be tokenized.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// What of it stands in the template, ascending and apart, where that is known: it is the same in many texts.
    pub literals: Vec<Range<usize>>,
    /// What is trained of it.
    pub trained: Trained,
    /// Where it may be cut: places at which a turn of the assistant is over, ascending. None where nobody asks.
    pub turn_ends: Vec<usize>,
    /// Whether the end-of-text token that may follow is left out of what is trained.
    pub end_untrained: bool,
}
