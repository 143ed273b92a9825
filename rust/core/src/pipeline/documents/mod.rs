//! From blocks of records to documents: recognises shapes, renders, tokenizes, finds the trained tokens, and calls the
//! functions of the caller.

pub(crate) mod custom_objective;
pub(in crate::pipeline) mod earlier_blocks;
pub(crate) mod held_pictures;
pub(crate) mod intake;
mod per_record;
pub(crate) mod recognise;
pub(crate) mod rendering;
pub(crate) mod single;
pub(crate) mod transform;
pub(crate) mod validation_split;
pub(crate) mod worker;
