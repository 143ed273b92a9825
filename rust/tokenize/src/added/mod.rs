//! Added tokens: texts that are cut out before any other step.
//!
//! [`Matcher`] finds them.

mod added_token;
mod added_trie;
mod contains_any;
mod matcher;

pub(crate) use added_token::AddedToken;
pub(crate) use contains_any::ContainsAny;
pub(crate) use matcher::Matcher;
