//! Control tokens in texts of users and tools that are refused, or encoded as other text.

use std::ops::Range;
use std::sync::Arc;

use fastpack_template::json::Map;

use crate::config::SpecialInText;
use crate::pipeline::documents::rendering::control_tokens::find_control_tokens::ControlMarks;
use crate::pipeline::documents::rendering::control_tokens::markers_in_texts::MarkersInTexts;
use crate::record::{Conversation, Fault, Pair};
use crate::report::ledger::{Note, NoteSet, Reason};
use crate::template::Rendered;

impl SpecialInText {
    /// Fails for a record with a control token in a text of a user or a tool, if such are refused.
    pub(crate) fn check(self, notes: NoteSet) -> Result<(), Fault> {
        if self == Self::Error && notes.has(Note::ControlTokens) {
            return Err(refused(
                "a text of a user or a tool has a control token of the tokenizer, and `special_tokens.in_text` is \"error\"",
            ));
        }
        Ok(())
    }

    /// Fails for a record of several texts with a control token that is to be encoded as text, or refused.
    pub(crate) fn check_several(self, notes: NoteSet) -> Result<(), Fault> {
        if self == Self::Split && notes.has(Note::ControlTokens) {
            return Err(refused(
                "a text of a user or a tool has a control token of the tokenizer, which `special_tokens.in_text` cannot split in \
                 prompts with compared or missing answers; it may be \"encode\" or \"error\"",
            ));
        }
        self.check(notes)
    }
}

/// The texts of a conversation, in which control tokens in texts of users and tools are ordinary text. `render` renders
/// it.
pub(crate) fn with_ordinary(
    conversation: &Conversation,
    markers: &MarkersInTexts,
    render: impl Fn(&Conversation) -> Result<Vec<Rendered>, Fault>,
) -> Result<Vec<Rendered>, Fault> {
    let mut plain = render(conversation)?;
    let marked: Option<(Vec<Arc<Map>>, ControlMarks)> =
        markers.mark_controls(&conversation.messages);
    let (messages, marks) = marked.ok_or_else(changed)?;
    let marked = render(&Conversation { messages, ..conversation.clone() })?;
    if marked.len() != plain.len() {
        return Err(changed());
    }
    for (rendered, marked) in plain.iter_mut().zip(marked) {
        let (text, ordinary) = marks.remove(&marked.text);
        if text != rendered.text {
            return Err(changed());
        }
        rendered.ordinary = ordinary;
    }
    Ok(plain)
}

/// The text of a request and its answer, in which the control tokens of the request are ordinary text. `render` renders it.
pub(crate) fn pair_with_ordinary<T>(
    pair: &Pair,
    markers: &MarkersInTexts,
    render: impl Fn(&Pair) -> Result<(String, T), Fault>,
) -> Result<(String, T, Vec<Range<usize>>), Fault> {
    let (text, answer) = render(pair)?;
    let texts = [Some(&pair.request), pair.input.as_ref(), Some(&text)].into_iter().flatten();
    let texts: Vec<&str> = texts.map(String::as_str).collect();
    let marks = ControlMarks::absent_from(&texts).ok_or_else(changed)?;
    let marked = Pair {
        request: markers.mark_control(&pair.request, marks),
        input: pair.input.as_ref().map(|input| markers.mark_control(input, marks)),
        ..pair.clone()
    };
    let (plain, ordinary) = marks.remove(&render(&marked)?.0);
    if plain != text {
        return Err(changed());
    }
    Ok((text, answer, ordinary))
}

fn changed() -> Fault {
    refused(
        "the text changes with what stands around a control token of a user or a tool, which \
         `special_tokens.in_text` cannot split there; it may be \"encode\" or \"error\"",
    )
}

fn refused(message: &str) -> Fault {
    Fault::new(Reason::Tokenizer, message)
}
