//! [`Tokenizer`] and [`Encoder`]: encode a text to ids, and find the tokens that spans of the text touch.
//!
//! [`engine_choice`] builds a tokenizer, [`encoder`] encodes, [`token_lookup`] tells ids and tokens.

mod encoder;
mod engine_choice;
mod token_lookup;

pub use encoder::Encoder;
pub use engine_choice::{Engine, Tokenizer};

#[cfg(test)]
mod tests;
