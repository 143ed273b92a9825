//! [`Prompts`]: prompts with placeholders for the parts of a request, such as those of published models.
//!
//! [`published_prompts`] and [`math`] are those of models, [`placeholders`] takes a prompt apart, [`request_prompts`] fills it in.

mod math;
mod placeholders;
mod published_prompts;
mod request_prompts;

pub use request_prompts::Prompts;
