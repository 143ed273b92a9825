//! The hand-over of a conversation that the interpreter refuses to a process that runs `transformers`, if that is chosen.

use std::borrow::Cow;

use fastpack_template::json::Map;
use fastpack_template::{RenderOutput, is_unsupported};

use super::chat::ChatTemplate;
use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;

impl ChatTemplate {
    /// The output of the interpreter; `None` if `transformers` has to render the conversation.
    pub(super) fn inside(
        &self,
        output: Option<std::result::Result<RenderOutput, (usize, String)>>,
    ) -> std::result::Result<Option<RenderOutput>, Fault> {
        match output {
            Some(Ok(output)) => Ok(Some(output)),
            Some(Err((_, message))) if self.processes.is_some() && is_unsupported(&message) => {
                Ok(None)
            }
            Some(Err((line, message))) => Err(self.fault(line, &message)),
            None => Ok(None),
        }
    }

    /// Renders with `transformers`.
    pub(super) fn render_in_process(
        &self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        add_generation_prompt: Option<bool>,
    ) -> std::result::Result<RenderOutput, Fault> {
        let processes = self.processes.as_ref().expect("a template that is refused here has one");
        let request = self.request(prepared, conversation, add_generation_prompt);
        processes.render(&request).map_err(|message| {
            Fault::new(Reason::Template, format!("chat template `{}`: {message}", self.name))
        })
    }
}
