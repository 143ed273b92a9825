//! Renders and encodes one conversation as a run does, to show what a run would train on.

use fastpack_tokenize::{Encoder, Encoding, SpecialTokens};

use crate::error::{Error, Result};
use crate::pipeline::job::JobTemplate;
use crate::record::{Conversation, Fault};

/// One conversation as a run sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// The ids of the rendered text.
    pub ids: Vec<u32>,
    /// For each id, true if the assistant wrote it; empty if that was not requested.
    pub trained: Vec<bool>,
}

/// Renders a conversation as text.
pub fn render(template: &JobTemplate, conversation: &Conversation) -> Result<String> {
    let template = ready(template)?;
    let rendered = template.with_lists(conversation, |conversation| template.render(conversation));
    Ok(rendered.map_err(refused)?.0)
}

/// Renders and encodes a conversation. With `mask`, marks the ids that the assistant wrote.
///
/// # Errors
///
/// [`Error::Option`] about `messages` for a conversation that the template refuses, or that cannot be masked;
/// the error of the template if it cannot be used.
pub fn chat(
    template: &JobTemplate,
    conversation: &Conversation,
    mask: bool,
    encoder: &mut Encoder,
) -> Result<Chat> {
    let template = ready(template)?;
    let rendered = template.with_lists(conversation, |conversation| {
        if mask {
            template.render_with_spans(conversation)
        } else {
            Ok((template.render(conversation)?, Vec::new()))
        }
    });
    let ((text, spans), _) = rendered.map_err(refused)?;
    let mut encoding = Encoding::default();
    encoder.encode(&text, &spans, SpecialTokens::Omit, &mut encoding)?;
    let mut trained = vec![false; if mask { encoding.ids.len() } else { 0 }];
    for touched in encoding.touched {
        trained[touched].fill(true);
    }
    Ok(Chat { ids: encoding.ids, trained })
}

fn ready(template: &JobTemplate) -> Result<&crate::template::ChatTemplate> {
    match template {
        JobTemplate::Ready(template) => Ok(template),
        JobTemplate::Refused(error) => Err(error.with_record("this", "a conversation")),
    }
}

fn refused(fault: Fault) -> Error {
    Error::option("messages", fault.message)
}
