//! An engine for any sequence of pre-tokenizers in front of any model; it writes the pre-tokenized text into
//! a buffer.
//!
//! The other engines cut a text in place, and so are faster. This one serves tokenizers with steps that
//! remove or insert text, and tokenizers with a model that no other engine has. Where every step treats the
//! words between spaces apart, only [words](word_cuts) that no cache has go through the steps.
//!
//! Begin with [`general_engine`]; the models are in [`piece_model`], the steps in [`pre_tokenizer_stage`].

mod characters;
mod general_engine;
mod piece_model;
mod pre_tokenized;
mod pre_tokenizer_stage;
mod scripts;
mod word_cuts;

pub(crate) use characters::{Affixes, Characters, Fallback};
pub(crate) use general_engine::GeneralEngine;
pub(crate) use piece_model::{PieceModel, WordLevel};
pub(crate) use pre_tokenized::PreTokenized;
pub(crate) use pre_tokenizer_stage::PreTokenizerStage;
