//! From blocks of records to documents: recognises shapes, renders, tokenizes, finds the trained tokens, and calls the
//! functions of the caller.
//!
//! Begin at [`tokenized_blocks`], which hands blocks to threads and takes documents back in input order. [`shape_recogniser`] finds the shape of a
//! file, [`filter_and_map`] calls `filter` and `map`, `per_record` and [`record_renderer`] read one record, [`rendering`] makes its text and finds
//! what is trained; `bad_records` refuses or counts those that give no document,
//! `reference_check` compares some with the reference engine. [`custom_objective`] calls the function of `Custom`; [`validation_split`] hashes the content of a record;
//! [`earlier_blocks`] takes blocks that a stopped run left; [`chosen_blocks`] makes the documents of the blocks that a stream chooses.

mod bad_records;
pub(crate) mod chosen_blocks;
pub(crate) mod custom_objective;
pub(in crate::pipeline) mod earlier_blocks;
pub(crate) mod filter_and_map;
pub(crate) mod held_pictures;
mod per_record;
pub(crate) mod record_renderer;
mod reference_check;
pub(crate) mod rendering;
pub(crate) mod shape_recogniser;
pub(crate) mod tokenized_blocks;
pub(crate) mod validation_split;
