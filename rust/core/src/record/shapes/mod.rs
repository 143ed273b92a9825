//! The shapes of records: each with its fields and its reader.

pub(super) mod flags;
mod function_calls;
pub(super) mod labelled;
pub(super) mod loss_mask;
pub(super) mod messages;
pub(super) mod pair;
pub(super) mod pictures;
pub(super) mod preference;
pub(super) mod record_tokens;
pub(super) mod text;
