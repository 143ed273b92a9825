//! From blocks of records to documents: recognises shapes, renders, tokenizes, finds the trained tokens, and calls the
//! functions of the caller.

mod answers;
mod arguments;
mod canvas;
pub(crate) mod chat;
pub(crate) mod choices;
mod controls;
pub(crate) mod formatted;
pub(crate) mod intake;
pub(crate) mod made;
pub(crate) mod markers;
mod ordinary;
mod parts;
mod per_record;
pub(crate) mod prompt_names;
pub(crate) mod recognise;
pub(crate) mod renderer;
pub(crate) mod side;
pub(crate) mod single;
pub(crate) mod training;
pub(crate) mod transform;
pub(crate) mod worker;
