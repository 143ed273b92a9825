//! Encodes text to token ids, exactly as Hugging Face `tokenizers` does.
//!
//! A [`Tokenizer`] is shared by all threads. Each thread takes its own [`Encoder`] from it. The encoder owns
//! all memory that the engine writes to, so encoding waits for no lock.
//!
//! A tokenizer is compiled if every component of it is supported. Byte-level BPE, SentencePiece-style BPE
//! with byte fallback, `Unigram` and `WordPiece` with their usual steps cut a text in place. Any other
//! sequence of steps in front of any model writes the pre-tokenized text into a buffer. All other tokenizers,
//! such as one with a pattern that no automaton can match, keep the engine of the Hugging Face crate;
//! [`Tokenizer::engine`] then names the component that is not supported.
//!
//! ```text
//! tokenizer.json ── load ──► Tokenizer ── encoder() ──► Encoder ── encode(text, spans) ──► Encoding
//! model folder ── pretrained ──┘
//! ```
//!
//! # Example
//!
//! The ids of a conversation, and which of them are the answer:
//!
//! ```
//! use fastpack_tokenize::{Encoding, Engine, SpecialTokens, Tokenizer};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tokenizer/tokenizer.json");
//! let tokenizer = Tokenizer::from_json(&std::fs::read_to_string(path)?)?;
//! assert_eq!(tokenizer.engine(), Engine::Compiled);
//!
//! let text = "user: How far is the moon?\nassistant: A light second.";
//! let answer = text.find("A light").unwrap()..text.len();
//! let mut encoder = tokenizer.encoder(); // one a thread
//! let mut encoding = Encoding::default(); // its memory serves text after text
//! encoder.encode(text, &[answer], SpecialTokens::Omit, &mut encoding)?;
//!
//! let trained = encoding.touched[0].clone();
//! assert_eq!(tokenizer.decode(&encoding.ids)?, text);
//! assert_eq!(tokenizer.decode(&encoding.ids[trained])?, " A light second.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod added;
mod cancel_flag;
mod compiled;
mod encoding;
mod error;
mod hardware;
mod hugging_face;
pub mod loading;
mod models;
mod pattern;
mod pieces;
mod pretrained;
mod split;
mod tokenizer;
mod unicode;

pub use compiled::StableSegment;
pub use encoding::{Encoding, SpecialTokens};
pub use error::{Error, Result};
pub use hugging_face::{LONGEST_COMPARED, SequencePart};
pub use loading::catch_panic::contain;
pub use pretrained::{BuiltBy, BuiltTokenizer, NamedTemplate, Pretrained};
pub use tokenizer::{Encoder, Engine, Tokenizer};
