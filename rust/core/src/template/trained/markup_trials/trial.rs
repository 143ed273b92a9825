//! Tries whether the cheaper search finds the turns of conversations of one [form](super::turn_forms::TurnForms).

use std::borrow::Cow;
use std::sync::PoisonError;

use fastpack_template::json::Map;

use super::form_sample::{FormSample, TrainedPlace};
use super::message_contexts::{KnownContexts, MessageContext, MessageNote};
use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::trained::rule;
use crate::template::trained::rule::turn_documents::TurnDocument;
use crate::template::trained::stand_in_words::WordReplacer;
use crate::template::trained::turn_markup::spans_by_markup;

/// Most forms that are kept. The turns of conversations of others are searched for by the definition.
const MOST_FORMS: usize = 1 << 14;

/// The turns of the definition that the cheaper search finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::template::trained) enum MarksFound {
    /// All, and no others.
    All,
    /// All but those of these messages, or more than those.
    AllBut(Vec<usize>),
    /// It fails.
    Nothing,
}

impl ChatTemplate {
    /// True if the cheaper search finds the turns of such a conversation, and no other text is right for them.
    pub(crate) fn trusts_marks(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
    ) -> bool {
        let sample = self.form_sample(conversation, messages, |_| TrainedPlace::Context);
        if let Some(known) = self.known_trust(&sample) {
            return known;
        }
        let (replaced, _) =
            WordReplacer::new(self.forms(), true).replace(&sample.conversation.messages);
        let replaced = Conversation { messages: replaced, ..sample.conversation.clone() };
        let found = self.marks_agree(&replaced).unwrap_or(MarksFound::Nothing);
        self.keep_trust(sample, &found)
    }

    /// True if a conversation is trusted by its form or its contexts; `None` if it has to be tried.
    pub(in crate::template::trained) fn known_trust(&self, sample: &FormSample) -> Option<bool> {
        let forms = self.forms();
        let tried =
            forms.tried.lock().unwrap_or_else(PoisonError::into_inner).get(&*sample.form).copied();
        tried.or_else(|| self.with_contexts(sample, |known, contexts| known.trusts(contexts))?)
    }

    /// Keeps the result of a trial. Returns whether conversations of the form are trusted.
    pub(in crate::template::trained) fn keep_trust(
        &self,
        sample: FormSample,
        found: &MarksFound,
    ) -> bool {
        let forms = self.forms();
        let missed: Option<&[usize]> = match found {
            MarksFound::All => Some(&[]),
            MarksFound::AllBut(missed) => Some(missed),
            MarksFound::Nothing => None,
        };
        if let Some(missed) = missed {
            self.with_contexts(&sample, |known, contexts| known.keep_trust(contexts, missed));
        }
        let agrees = matches!(found, MarksFound::All);
        let mut tried = forms.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.len() < MOST_FORMS {
            tried.insert(sample.form.into(), agrees);
        }
        agrees
    }

    /// Looks at what is known of the contexts of a conversation; `None` if it has too many kinds of messages.
    fn with_contexts<T>(
        &self,
        sample: &FormSample,
        look: impl FnOnce(&mut KnownContexts, &[MessageContext]) -> T,
    ) -> Option<T> {
        let mut known = self.forms().contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = &sample.conversation.messages;
        let contexts = sample.contexts.get_or_init(|| known.number_all(&sample.around, messages));
        Some(look(&mut known, contexts.as_deref()?))
    }

    /// The notes on a conversation by its contexts; `None` if it has to be tried.
    pub(in crate::template::trained) fn notes_by_contexts(
        &self,
        sample: &FormSample,
        options: [u8; 2],
    ) -> Option<Vec<MessageNote>> {
        self.with_contexts(sample, |known, contexts| known.notes(contexts, options))?
    }

    /// Keeps the notes on a conversation that was tried.
    pub(in crate::template::trained) fn keep_notes(
        &self,
        sample: &FormSample,
        options: [u8; 2],
        notes: &[MessageNote],
    ) {
        self.with_contexts(sample, |known, contexts| known.keep_notes(contexts, options, notes));
    }

    /// The turns of the definition that the cheaper search finds; `None` if one of them fails.
    fn marks_agree(&self, conversation: &Conversation) -> Option<MarksFound> {
        let messages: Vec<Cow<'_, Map>> =
            conversation.messages.iter().map(|message| Cow::Borrowed(&**message)).collect();
        let text = self.run(&messages, conversation, None).ok()?.text;
        let documents = rule::documents(self, conversation, &messages, &text, |_| true).ok()?;
        Some(self.marks_find(conversation, &messages, &text, &documents))
    }

    /// The turns of `documents`, which are those of the definition, that the cheaper search finds in `text`, the render of all
    /// messages, where that is the only document.
    pub(in crate::template::trained) fn marks_find(
        &self,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        text: &str,
        documents: &[TurnDocument],
    ) -> MarksFound {
        let Some(spans) = spans_by_markup::from_marks(self, conversation, messages, text) else {
            return MarksFound::Nothing;
        };
        let spans: Vec<_> = spans.into_iter().filter(|span| !span.is_empty()).collect();
        if let [document] = documents
            && document.text == text
            && document.turns.iter().map(|(_, span)| span).eq(&spans)
        {
            return MarksFound::All;
        }
        let turns = documents.iter().flat_map(|document| {
            document.turns.iter().map(move |(message, span)| (&document.text, *message, span))
        });
        let missed = turns.filter(|(own, _, span)| {
            !spans.contains(span) || text.get(..span.end) != own.get(..span.end)
        });
        let missed: Vec<usize> = missed.map(|(_, message, _)| message).collect();
        if missed.is_empty() { MarksFound::Nothing } else { MarksFound::AllBut(missed) }
    }
}
