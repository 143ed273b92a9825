//! Finds turns by the text around them, which is learned from renders of tiny conversations.

pub(crate) mod cut_places;
pub(crate) mod learn_markup;
pub(super) mod learn_reasoning_marks;
pub(crate) mod marked_contents;
pub(crate) mod markup;
pub(crate) mod message_spans;
pub(crate) mod spans_by_markup;
pub(crate) mod turn_end_texts;
