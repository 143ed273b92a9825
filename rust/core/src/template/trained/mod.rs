//! Finds the trained parts of a rendered conversation: all of the assistant's turns, its last turn, or a
//! completion.

pub(super) mod completion;
pub(super) mod derive;
pub(super) mod ending;
pub(super) mod header;
pub(super) mod marks;
pub(super) mod markup;
pub(super) mod spans;
pub(super) mod turns;
