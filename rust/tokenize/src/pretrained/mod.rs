//! Builds a tokenizer from a model folder, as `AutoTokenizer.from_pretrained` of transformers 5.24 does, or takes the one
//! that transformers built.
//!
//! ```text
//! config.json, tokenizer_config.json ──► auto: which class
//! tokenizer_config.json, special_tokens_map.json, added_tokens.json ──► settings: its arguments
//! spiece.model, tiktoken.model, tekken.json, vocab.json, … ──► conversion: a tokenizer.json, where there is none
//! tokenizer.json ──► the engine as it stands, or vocabulary ──► classes: an engine of the class's own
//!                                                                 └──► backend: tokens added, post-processor
//! a class without a recipe ──► transformers ──► built
//! ```
//!
//! Begin with [`pretrained_tokenizer`].

mod auto;
mod backend;
mod built_by_transformers;
mod call_settings;
mod checked_vocabulary;
mod classes;
mod conversion;
mod folder_files;
mod model_folder;
mod model_types;
mod names;
mod pretrained_tokenizer;
mod settings;
mod templates;
mod token;

pub use built_by_transformers::BuiltTokenizer;
pub use pretrained_tokenizer::{BuiltBy, Pretrained};
pub use templates::NamedTemplate;
