//! Finds turns by the text around them, which is learned from renders of tiny conversations.

pub(crate) mod derive;
pub(crate) mod header;
pub(crate) mod marks;
pub(crate) mod markup;
pub(crate) mod spans;
pub(super) mod thought_marks;
pub(crate) mod turn_end_texts;
pub(crate) mod turns;
