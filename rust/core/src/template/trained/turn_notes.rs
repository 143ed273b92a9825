//! The notes on the turns of a conversation: gaps in its texts, unusual beginnings and ends of turns, and untrained turns.
//!
//! Conversations of one [form](super::markup_trials::turn_forms::TurnForms) have the same notes, so they are found once, of a conversation
//! with made-up words.

use std::borrow::Cow;
use std::ops::Range;
use std::slice;
use std::sync::{Arc, PoisonError};

use fastpack_template::json::{Json, Map};
use fastpack_template::python_text;

use super::markup_trials::form_sample::{FormSample, TrainedPlace};
use super::markup_trials::message_contexts::MessageNote;
use super::rule::stop_tokens::StopTokens;
use super::rule::turn_documents::{each, merged};
use super::rule::{self, FoundTexts, without_calls};
use super::stand_in_words::{SearchWords, WordKind, WordReplacer};
use super::turn_markup::message_spans::AssistantTurn;
use super::turn_texts::TurnText;
use crate::config::Turns;
use crate::record::Conversation;
use crate::report::ledger::{Note, NoteSet};
use crate::template::chat::ChatTemplate;
use crate::template::conversation::{
    ARGUMENTS, CALLS, called_functions, is_assistant, last_turn, prepared,
};

/// Most forms whose notes are kept.
const MOST_FORMS: usize = 1 << 14;

/// The options that the notes on turns depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteOptions {
    /// The documents that a conversation becomes.
    pub turns: Turns,
    /// True if turns of the assistant are trained, not whole texts.
    pub are_turns: bool,
    /// True if the ends of turns are trained that the template writes behind its marks.
    pub have_ends: bool,
}

impl NoteOptions {
    /// Texts that are trained as a whole, or not at all.
    pub const TEXTS: Self = Self { turns: Turns::Whole, are_turns: false, have_ends: true };
}

impl ChatTemplate {
    /// The notes on the turns of a conversation. The messages of the assistant that `is_trained` are trained.
    pub fn turn_notes(
        &self,
        conversation: &Conversation,
        options: NoteOptions,
        is_trained: &dyn Fn(usize) -> bool,
    ) -> NoteSet {
        let template = self.serving(conversation);
        let messages = prepared(conversation);
        if !messages.iter().any(|message| is_assistant(message)) {
            return NoteSet::default();
        }
        let place = |at: usize| match conversation.prompt {
            Some(prompt) if at < prompt => TrainedPlace::Prompt,
            None if !is_trained(at) => TrainedPlace::Context,
            _ if is_assistant(&messages[at]) => TrainedPlace::Trained,
            _ => TrainedPlace::Context,
        };
        let sample = template.form_sample(conversation, &messages, place);
        let mut key = sample.form.clone();
        key.extend(sample.places.iter().map(|place| *place as u8));
        key.extend([options.turns as u8, options.are_turns.into(), options.have_ends.into()]);
        let known = || template.forms().noted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = known().get(&*key) {
            return known.moved(&sample.numbers);
        }
        // Notes on turns are those of their contexts if all turns are trained, and none of them ends a text of its own.
        let are_usual =
            options.are_turns && options.turns != Turns::Each && sample.are_all_trained();
        let by_contexts = are_usual.then_some([options.turns as u8, options.have_ends.into()]);
        let known_notes = |options| template.notes_by_contexts(&sample, options);
        if let Some(found) = by_contexts.and_then(known_notes) {
            return set_of(&found).moved(&sample.numbers);
        }
        let Some(found) = template.noted(&sample, options, true) else {
            // The template refuses made-up words, so the conversation's own are looked for.
            let places = (0..messages.len()).map(place).collect();
            let messages = messages.iter().map(|message| Arc::new(Map::clone(message)));
            let own = Conversation { messages: messages.collect(), ..conversation.clone() };
            let own = FormSample::of_itself(own, places);
            return set_of(&template.noted(&own, options, false).unwrap_or_default());
        };
        if let Some(options) = by_contexts {
            template.keep_notes(&sample, options, &found);
        }
        let found = set_of(&found);
        let mut known = known();
        if known.len() < MOST_FORMS {
            known.insert(key.into(), found);
        }
        found.moved(&sample.numbers)
    }

    /// The notes on a conversation whose words are replaced by made-up words, or stay; `None` if the template refuses it.
    fn noted(
        &self,
        sample: &FormSample,
        options: NoteOptions,
        replaces: bool,
    ) -> Option<Vec<MessageNote>> {
        let words = WordReplacer::of_notes(self.forms(), replaces);
        let (messages, search_words) = words.replace(&sample.conversation.messages);
        let conversation = Conversation { messages, ..sample.conversation.clone() };
        let messages: Vec<Cow<'_, Map>> =
            conversation.messages.iter().map(|message| Cow::Borrowed(&**message)).collect();
        let whole = self.run(&messages, &conversation, None).ok()?.text;
        let mut noting = NoteFinder {
            template: self,
            stops: StopTokens::of(self, &conversation),
            conversation: &conversation,
            messages: &messages,
            places: &sample.places,
            whole,
            notes: Vec::new(),
        };
        let texts = if conversation.prompt.is_some() || !options.are_turns {
            noting.whole_text();
            Vec::new()
        } else if self.generates {
            noting.marked_turns(options)
        } else {
            noting.defined_turns(options.turns, replaces.then_some(sample))
        };
        noting.look_for(&search_words, &texts);
        noting.python_texts();
        Some(noting.notes)
    }
}

/// The notes on messages as those of their conversation.
fn set_of(notes: &[MessageNote]) -> NoteSet {
    let mut set = NoteSet::default();
    for (note, message) in notes {
        set.set_in(*note, *message, true);
    }
    set
}

/// Finds the notes on one conversation.
struct NoteFinder<'c> {
    template: &'c ChatTemplate,
    stops: StopTokens,
    conversation: &'c Conversation,
    messages: &'c [Cow<'c, Map>],
    places: &'c [TrainedPlace],
    /// The render of all messages.
    whole: String,
    notes: Vec<MessageNote>,
}

impl NoteFinder<'_> {
    /// The render of the first messages.
    fn first(&self, count: usize, prompt: bool) -> Option<String> {
        if count == 0 {
            return Some(String::new());
        }
        Some(self.template.run(&self.messages[..count], self.conversation, Some(prompt)).ok()?.text)
    }

    /// The render of all messages with another one in the place of message `at`.
    fn with(&self, at: usize, other: &Map) -> Option<String> {
        let mut messages = self.messages.to_vec();
        messages[at] = Cow::Borrowed(other);
        Some(self.template.run(&messages, self.conversation, None).ok()?.text)
    }

    fn is_trained(&self, at: usize) -> bool {
        self.places[at] == TrainedPlace::Trained
    }

    /// Notes the trained messages without any trained text, as `is_spoken` tells it.
    fn silent(&mut self, is_spoken: impl Fn(usize) -> bool) {
        let silent = (0..self.places.len()).filter(|at| self.is_trained(*at) && !is_spoken(*at));
        let silent: Vec<usize> = silent.collect();
        self.note(Note::UntrainedTurns, silent);
    }

    /// Adds a note of some messages.
    fn note(&mut self, note: Note, messages: impl IntoIterator<Item = usize>) {
        self.notes.extend(messages.into_iter().map(|message| (note, message)));
    }

    /// Notes the beginning and end of a text that is trained as a whole, or of the completion of its prompt.
    fn whole_text(&mut self) {
        if let Some(prompt) = self.conversation.prompt
            && let Some(prompted) = self.first(prompt, true)
        {
            self.note(Note::OtherOpenings, (!self.whole.starts_with(&prompted)).then_some(prompt));
        }
        let is_answer = self.messages.last().is_some_and(|message| is_assistant(message));
        let is_unended = is_answer && !self.stops.end(&self.whole);
        self.note(Note::UnendedTurns, is_unended.then(|| self.messages.len().saturating_sub(1)));
    }

    /// Notes the turns of the definition. Returns the texts in which they stand; none for that of all messages.
    ///
    /// A `sample` whose form was not tried yet is tried too: the definition has found its turns here.
    fn defined_turns(&mut self, choice: Turns, sample: Option<&FormSample>) -> Vec<String> {
        let (template, conversation) = (self.template, self.conversation);
        let is_trained = |at| self.is_trained(at);
        let found = rule::turns(template, conversation, self.messages, is_trained);
        let found: Vec<_> =
            found.unwrap_or_default().into_iter().map(FoundTexts::in_text).collect();
        let generated: Vec<_> =
            found.iter().filter(|(_, turn)| turn.is_generated()).map(|(found, _)| *found).collect();
        self.silent(|at| generated.iter().any(|it| it.messages().contains(&at)));
        let other = generated.iter().filter(|turn| turn.opens_otherwise);
        self.note(Note::OtherOpenings, other.map(|turn| turn.message));
        let turns: Vec<_> = found.into_iter().map(|(_, turn)| turn).collect();
        let documents = merged(&turns, &self.whole, &self.stops);
        // A form is tried by all of its turns.
        let is_new = |sample: &&FormSample| {
            sample.are_all_trained() && template.known_trust(sample).is_none()
        };
        if let Some(sample) = sample.filter(is_new) {
            let found = template.marks_find(conversation, self.messages, &self.whole, &documents);
            template.keep_trust(sample.clone(), &found);
        }
        let documents = match choice {
            Turns::Each => each(&turns, &self.whole, &self.stops),
            _ => documents,
        };
        let is_one = matches!(&documents[..], [document] if document.text == self.whole);
        if choice == Turns::Whole && !is_one {
            let whole = &self.whole;
            let spans = rule::spans_in_whole(template, conversation, self.messages, whole);
            let spans = spans.ok().flatten().unwrap_or_default().into_iter();
            let spans = spans.filter(|(at, _)| self.is_trained(*at));
            let unended = spans.filter(|(_, span)| !self.stops.end(&whole[span.clone()]));
            let unended: Vec<usize> = unended.map(|(at, _)| at).collect();
            self.note(Note::UnendedTurns, unended);
            return Vec::new();
        }
        let unended = documents.iter().flat_map(|document| document.unended.iter().copied());
        self.note(Note::UnendedTurns, unended);
        documents.into_iter().map(|document| document.text).collect()
    }

    /// Notes the turns that the template marks. Returns the texts in which they stand; none if it refuses them.
    fn marked_turns(&mut self, options: NoteOptions) -> Vec<String> {
        let (template, conversation) = (self.template, self.conversation);
        let is_trained = |at| self.is_trained(at);
        let texts = template.turn_texts(conversation, options.turns, &is_trained, None);
        let texts = match texts {
            Ok(Some(texts)) => Some(texts.texts),
            Ok(None) => {
                let rendered = template.render_turns(conversation, None).ok();
                rendered.map(|(text, turns)| vec![TurnText { text, turns }])
            }
            Err(_) => None,
        };
        let Some(texts) = texts else { return Vec::new() };
        let spoken = |at: usize| {
            let of_message =
                move |turn: &&AssistantTurn| turn.message == at && !turn.span.is_empty();
            texts.iter().filter_map(move |text| Some((text, text.turns.iter().rfind(of_message)?)))
        };
        self.silent(|at| spoken(at).next().is_some());
        for at in 0..self.places.len() {
            if !self.is_trained(at) {
                continue;
            }
            for (TurnText { text, .. }, AssistantTurn { span, end, .. }) in spoken(at) {
                let is_ended = self.stops.end(&text[span.clone()])
                    || !end.is_empty() && (options.have_ends || end.start < span.end);
                self.note(Note::UnendedTurns, (!is_ended).then_some(at));
            }
            let opens_otherwise = self.mark_opens_otherwise(at).unwrap_or(false);
            self.note(Note::OtherOpenings, opens_otherwise.then_some(at));
        }
        texts.into_iter().map(|text| text.text).collect()
    }

    /// True if the marks of the turn at message `at` begin elsewhere than the generation prompt ends.
    fn mark_opens_otherwise(&self, at: usize) -> Option<bool> {
        let TurnText { text, turns } = self.template.turn_alone(self.conversation, at).ok()?;
        let before = &text[..turns.iter().find(|turn| !turn.span.is_empty())?.span.start];
        let (history, prompt) = (self.first(at, false)?, self.first(at, true)?);
        let header = prompt.strip_prefix(history.as_str()).unwrap_or_default();
        Some(!before.ends_with(header))
    }

    /// Notes the messages whose search words are missing in all texts; without texts, in the render of all messages. A message
    /// behind the last trained one is looked for in that render too: a text may end before it.
    fn look_for(&mut self, search_words: &[SearchWords], texts: &[String]) {
        let whole = slice::from_ref(&self.whole);
        let last = last_turn(self.messages);
        let last_trained = (0..self.places.len()).rfind(|at| self.is_trained(*at));
        let mut notes = Vec::new();
        for SearchWords { message, kind, words } in search_words {
            let is_behind = last_trained.is_some_and(|trained| trained < *message);
            let texts = if texts.is_empty() || is_behind { whole } else { texts };
            let is_shown = |word: &&String| texts.iter().any(|text| text.contains(word.as_str()));
            let shown = words.iter().filter(is_shown).count();
            let is_cut = match kind {
                WordKind::Reasoning => shown == 0,
                WordKind::Content => {
                    shown < words.len() && (shown > 0 || self.shows_plain(*message))
                }
                WordKind::Call(text) => {
                    let is_left_out =
                        shown == 0 && (!words.is_empty() || self.hides_calls(*message));
                    notes.extend(is_left_out.then_some((Note::CallsLeftOut, *message)));
                    let is_encoded = |text: &String| texts.iter().any(|it| has_encoded(it, text));
                    let is_encoded = text.as_ref().is_some_and(is_encoded);
                    notes.extend(is_encoded.then_some((Note::EncodedArguments, *message)));
                    continue;
                }
            };
            let note = if Some(*message) == last {
                Note::LastReasoningLeftOut
            } else {
                Note::EarlierReasoningLeftOut
            };
            notes.extend(is_cut.then_some((note, *message)));
        }
        self.notes.extend(notes);
    }

    /// Notes the messages of which the text has content, or arguments of calls, as Python prints objects and lists.
    fn python_texts(&mut self) {
        let is_printed = |value: &Json| {
            let is_nested = matches!(value, Json::List(_) | Json::Map(_));
            let text = is_nested.then(|| python_text(value)).flatten();
            // Without quotes, JSON is written so too.
            text.is_some_and(|text| text.contains('\'') && self.whole.contains(&text))
        };
        let messages = self.messages.iter().enumerate();
        let printed = messages.filter(|(_, message)| printable(message).any(is_printed));
        let printed: Vec<usize> = printed.map(|(at, _)| at).collect();
        self.note(Note::PrintedAsPython, printed);
    }

    /// True if the text has the content of a message in which there is nothing to search for.
    fn shows_plain(&self, at: usize) -> bool {
        let mut plain = Map::clone(&self.messages[at]);
        plain.insert("content".into(), Json::String("W0w".into()));
        self.with(at, &plain).is_some_and(|text| text.contains("W0w"))
    }

    /// True if the text is the same without the calls of a message.
    fn hides_calls(&self, at: usize) -> bool {
        let silent = without_calls(&self.messages[at]);
        let text = silent.and_then(|silent| self.with(at, &silent));
        text.is_some_and(|text| text == self.whole)
    }
}

/// The content of a message, and the arguments of its calls.
fn printable(message: &Map) -> impl Iterator<Item = &Json> {
    let functions = CALLS.iter().filter_map(|key| message.get(*key)).flat_map(called_functions);
    let arguments =
        functions.filter_map(|function| ARGUMENTS.iter().find_map(|name| function.get(*name)));
    message.get("content").into_iter().chain(arguments)
}

/// True if a text has JSON text that was encoded a second time: with its quotes escaped, or between quotes.
fn has_encoded(text: &str, json: &str) -> bool {
    let encoded = serde_json::Value::from(json).to_string();
    let is_quoted = |Range { start, end }: Range<usize>| {
        let quote = text[..start].chars().next_back().filter(|c| matches!(c, '"' | '\''));
        quote.is_some_and(|quote| text[end..].starts_with(quote))
    };
    text.contains(&encoded)
        || text.match_indices(json).any(|(at, _)| is_quoted(at..at + json.len()))
}
