//! Renders a [`Conversation`](crate::record::Conversation) to [`Rendered`]: its text, and the parts of it
//! that are trained.
//!
//! The crate `fastpack-template` renders: it knows the language and Python's values. This module prepares the
//! messages, finds the trained parts where a template does not mark them ([`trained`]), and decides when a
//! recorded program replaces the interpreter ([`replay`]).

mod chat;
mod context;
mod conversation;
mod markers;
mod prompts;
mod rendered;
mod replay;
mod supported_messages;
mod template_choice;
mod trained;
mod transformers_processes;
mod transformers_render;
mod trial_limits;
mod variables;

pub use chat::ChatTemplate;
pub use context::TemplateContext;
pub use conversation::joined::joined_messages;
pub use conversation::json_arguments::with_objects;
pub use conversation::left_out::LeftOut;
pub(crate) use conversation::{CALLS, REASONING};
pub use fastpack_template::Printed;
pub use prompts::Prompts;
pub use rendered::{PictureSource, PlacedPicture, Rendered, Span, Trained};
pub use replay::replayer::{Replayed, Replayer};
pub use replay::wanted_spans::WantedSpans;
pub use template_choice::select_template;
pub use trained::part_finder::{PartedTurn, WantedTurns};
pub use trained::partly_trained_turns::{PartedText, PartedTexts};
pub use trained::rule::encoder_pool::SharedTokens;
pub(crate) use trained::turn_markup::cut_places::ends_of_turns;
pub use trained::turn_markup::message_spans::AssistantTurn;
pub use trained::turn_notes::NoteOptions;
pub use trained::turn_texts::{TurnText, TurnTexts, WholeText};
pub use transformers_processes::RenderCommand;
