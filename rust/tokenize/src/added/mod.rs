//! Added tokens: texts that are cut out before any other step.
//!
//! [`Matcher`] finds them.

mod added_token;
mod finder;
mod matcher;
mod trie;

pub(crate) use added_token::AddedToken;
pub(crate) use finder::Finder;
pub(crate) use matcher::Matcher;
