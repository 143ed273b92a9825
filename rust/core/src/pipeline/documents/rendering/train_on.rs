//! [`TrainedPart`]: chooses the trained part of a record, for all kinds of records and all ways to render.
//!
//! `document` turns spans into runs of tokens, and `assemble` turns runs into labels.

use std::ops::Range;

use crate::config::{Options, TrainOn, TrainOnEos, TurnParts, Turns};
use crate::document::ids::TrainedIds;
use crate::pipeline::documents::rendering::text_weights::{TextWeights, end_turns};
use crate::record::{Conversation, Fault, RecordTokens, ReplayReader, is_assistant};
use crate::report::ledger::{NoteSet, Reason};
use crate::template::{
    AssistantTurn, ChatTemplate, LeftOut, NoteOptions, Printed, Rendered, Replayed, Span, Trained,
    TurnText, TurnTexts, WantedSpans, ends_of_turns,
};

/// The options that choose the trained part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainedPart<'o> {
    train_on: TrainOn,
    /// The roles and parts of turns that are trained, unless these are the assistant's whole turns.
    turn_parts: Option<&'o TurnParts>,
    /// The documents that a conversation becomes.
    turns: Turns,
    /// The end-of-turn tokens that are trained; by default those that the template marks.
    pub(crate) eos: Option<TrainOnEos>,
    /// True if conversations that are too long are cut after a turn.
    trims: bool,
}

impl<'o> TrainedPart<'o> {
    /// The training options in `options`.
    pub(crate) fn of(options: &'o Options) -> Self {
        Self::by_turns(options, options.tokens.turns)
    }

    /// The training options in `options`, with another choice of the documents of a conversation.
    pub(crate) fn by_turns(options: &'o Options, turns: Turns) -> Self {
        let train_on = options.tokens.train_on.name();
        Self {
            train_on,
            turn_parts: options.tokens.train_on.parts(),
            // With everything trained, or one answer, there are no turns to separate.
            turns: match train_on {
                TrainOn::Auto | TrainOn::Assistant => turns,
                TrainOn::All | TrainOn::Completion => Turns::Whole,
            },
            eos: options.tokens.train_on_eos,
            trims: options.rows.trims(),
        }
    }

    /// The parts of a rendered conversation that a run needs, without weights and prompt.
    pub(crate) fn wanted(self) -> WantedSpans {
        match self.train_on {
            _ if self.eos.is_some() => WantedSpans::Turns,
            TrainOn::All if self.trims => WantedSpans::Spans,
            TrainOn::All => WantedSpans::Text,
            TrainOn::Completion => WantedSpans::Spans,
            TrainOn::Auto | TrainOn::Assistant => match self.turns {
                Turns::Last => WantedSpans::LastTurn,
                Turns::Each => WantedSpans::Turns,
                Turns::Auto | Turns::Whole => WantedSpans::Spans,
            },
        }
    }

    /// The documents that a conversation becomes.
    pub(crate) fn turns(self) -> Turns {
        self.turns
    }

    /// The options that the notes on turns depend on.
    pub(crate) fn note_options(self) -> NoteOptions {
        NoteOptions {
            turns: self.turns,
            are_turns: self.train_on != TrainOn::All,
            have_ends: self.eos.is_some(),
        }
    }

    /// The notes on the turns of a conversation.
    pub(crate) fn notes(self, template: &ChatTemplate, conversation: &Conversation) -> NoteSet {
        let last = conversation.last_turn();
        let weights = conversation.weights.as_deref();
        let is_chosen = self.turns.trains(weights, last);
        let trains_turns = self.turn_parts.is_none_or(|parts| parts.trains("assistant"));
        let has_weight = |at: usize| weights.is_some_and(|weights| weights[at].is_some());
        let is_trained = |at: usize| is_chosen(at) && (trains_turns || has_weight(at));
        template.turn_notes(conversation, self.note_options(), &is_trained)
    }

    /// True if recorded programs find what is trained of a conversation.
    pub(crate) fn replays(self) -> bool {
        self.turn_parts.is_none()
    }

    /// True if the places at which a conversation may be cut are needed.
    pub(crate) fn cuts(self) -> bool {
        self.trims
    }

    /// True if the whole of every text is trained, including its end.
    pub(crate) fn takes_whole_texts(self) -> bool {
        self.of_text().is_ok() && self.eos.is_none()
    }

    /// True if a conversation with a prompt is trained on its completion only.
    pub(crate) fn heeds_prompts(self) -> bool {
        matches!(self.train_on, TrainOn::Auto | TrainOn::Completion)
    }

    /// True if conversations without a prompt are trained.
    pub(crate) fn takes_unprompted(self) -> bool {
        self.train_on != TrainOn::Completion
    }

    /// True if everything is trained, whoever says it.
    pub(crate) fn takes_all(self) -> bool {
        self.train_on == TrainOn::All
    }

    /// True if the end-of-text token of a text is not trained.
    pub(crate) fn leaves_end(self) -> bool {
        self.eos == Some(TrainOnEos::None)
    }

    /// The trained part of a plain text.
    pub(crate) fn of_text(self) -> Result<Trained, Fault> {
        match self.train_on {
            TrainOn::Auto | TrainOn::All => Ok(Trained::All),
            TrainOn::Assistant => Err(unmaskable(
                "a text has no assistant to train on; `train_on` may be \"auto\" or \"all\"",
            )),
            TrainOn::Completion => Err(unmaskable(
                "a text has no completion to train on; `train_on` may be \"auto\" or \"all\"",
            )),
        }
    }

    /// The trained part of the text of a request and its `answer`.
    pub(crate) fn of_pair(self, answer: Range<usize>) -> Result<Trained, Fault> {
        match (self.train_on, self.turn_parts) {
            (_, Some(_)) => Err(unmaskable(
                "a request that a prompt renders does not tell the parts of its answer; `train_on` may be \
                 \"assistant\"",
            )),
            (TrainOn::All, None) => Ok(Trained::All),
            _ => Ok(trained(vec![answer])),
        }
    }

    /// The trained part of a record's own ids.
    pub(crate) fn of_tokens(self, tokens: &RecordTokens) -> Result<TrainedIds, Fault> {
        match self.train_on {
            TrainOn::Auto | TrainOn::All => {}
            _ if self.turn_parts.is_some() => {
                return Err(unmaskable(
                    "the ids do not tell the roles and parts of turns; `train_on` may be \"auto\", \"assistant\" or \
                     \"all\"",
                ));
            }
            TrainOn::Assistant | TrainOn::Completion if tokens.trained.is_some() => {}
            _ => {
                return Err(unmaskable(
                    "the ids do not tell which of them to train on; `train_on` may be \"auto\" or \"all\"",
                ));
            }
        }
        Ok(match self.train_on {
            TrainOn::All => TrainedIds::All,
            _ if self.leaves_end() => TrainedIds::NoEnd,
            _ => TrainedIds::Named,
        })
    }

    /// Renders a conversation as its documents, each with its trained part and the places at which it may be cut.
    pub(crate) fn render(
        self,
        template: &ChatTemplate,
        conversation: &Conversation,
    ) -> Result<Vec<Rendered>, Fault> {
        let Conversation { prompt, weights, .. } = conversation;
        if prompt.is_none() && !self.takes_unprompted() {
            return Err(unmaskable(
                "a conversation has no completion to train on; `train_on` may be \"assistant\"",
            ));
        }
        if prompt.is_some() || self.train_on == TrainOn::All {
            return Ok(vec![self.render_whole(template, conversation)?]);
        }
        if let Some(parts) = self.turn_parts {
            return self.render_parts(template, conversation, parts);
        }
        let last = conversation.last_turn();
        let weight = |message: usize| self.weight(weights.as_deref(), last, message);
        let mut left_out = LeftOut::new();
        let is_trained = |message: usize| weight(message) > 0.0;
        let noted = Some(&mut left_out);
        let Some(texts) = template.turn_texts(conversation, self.turns, &is_trained, noted)? else {
            return Ok(vec![self.render_whole(template, conversation)?]);
        };
        check_shown(weights.as_deref(), &texts.texts)?;
        let number = |message| turn_number(conversation.speaking(), message);
        Ok(self.of_texts(texts, weight, number, left_out))
    }

    /// The weight of a message of the assistant; `last` is the index of the last one.
    pub(crate) fn weight(
        self,
        weights: Option<&[Option<f32>]>,
        last: Option<usize>,
        message: usize,
    ) -> f32 {
        let own = weights.and_then(|weights| weights[message]);
        self.turns.weight(own, Some(message) == last)
    }

    /// The number of the last turn that is trained of a conversation in which these messages are of the assistant; 0 if
    /// there is none.
    fn last_turn_number<I: Iterator<Item = bool>>(
        self,
        weights: Option<&[Option<f32>]>,
        speaks: impl Fn() -> I,
    ) -> u32 {
        let speaking = || speaks().enumerate().filter(|(_, speaks)| *speaks).map(|(at, _)| at);
        let last = speaking().last();
        let trained = speaking().filter(|at| self.weight(weights, last, *at) > 0.0).last();
        trained.map_or(0, |message| turn_number(speaks(), message))
    }

    /// The documents of texts in which turns of these weights stand. The notes of the record go to the first document.
    fn of_texts(
        self,
        TurnTexts { texts, whole }: TurnTexts,
        weight: impl Fn(usize) -> f32,
        number: impl Fn(usize) -> u32,
        left_out: LeftOut,
    ) -> Vec<Rendered> {
        let rendered = texts.into_iter().map(|TurnText { text, turns }| {
            let mut text_weights = TextWeights::default();
            for turn in &turns {
                text_weights.set(&turn.span, weight(turn.message));
            }
            end_turns(&mut text_weights, &turns, self.eos);
            let turn = turns.last().map_or(0, |turn| number(turn.message));
            Rendered { turn, ..self.rendered(text, text_weights, turns.iter()) }
        });
        let mut rendered: Vec<Rendered> = rendered.collect();
        if let [_, .., last] = &mut rendered[..] {
            last.whole = Some(whole);
        }
        if let Some(first) = rendered.first_mut() {
            first.left_out = left_out;
        }
        rendered
    }

    /// A text with its weights, and the places at which it may be cut: the ends of these turns.
    pub(crate) fn rendered<'t>(
        self,
        text: String,
        text_weights: TextWeights,
        turns: impl Iterator<Item = &'t AssistantTurn>,
    ) -> Rendered {
        let turn_ends = if self.trims {
            ends_of_turns(&text, turns.map(|turn| turn.span.clone()))
        } else {
            Vec::new()
        };
        let trained = Trained::Spans(text_weights.spans);
        Rendered { text, trained, turn_ends, ..Rendered::default() }
    }

    /// Renders a conversation as one document, with its trained part and the places at which it may be cut.
    fn render_whole(
        self,
        template: &ChatTemplate,
        conversation: &Conversation,
    ) -> Result<Rendered, Fault> {
        let Conversation { prompt, weights, .. } = conversation;
        let turn = || self.last_turn_number(weights.as_deref(), || conversation.speaking());
        let mut left_out = LeftOut::new();
        let noted = Some(&mut left_out);
        let (text, spans) = match self.wanted().of(weights.is_some(), prompt.is_some()) {
            WantedSpans::Text => (template.render_noting(conversation, noted)?, Trained::All),
            WantedSpans::Spans => {
                let (text, ranges) = template.render_spans_with_notes(conversation, noted)?;
                let turn_ends = if self.trims {
                    template.turn_ends(conversation, &text, &ranges)
                } else {
                    Vec::new()
                };
                let (trained, turn) = (self.of_spans(ranges), turn());
                let rendered = Rendered { text, trained, turn_ends, ..Rendered::default() };
                return Ok(Rendered { turn, left_out, ..rendered });
            }
            WantedSpans::LastTurn => {
                let (text, ranges) = template.render_last_turn(conversation, noted)?;
                (text, trained(ranges))
            }
            WantedSpans::Completion => {
                let prompt = prompt.unwrap_or_default();
                let (text, completion) = template.render_completion(conversation, prompt, noted)?;
                (text, trained(vec![completion]))
            }
            WantedSpans::Turns => {
                let completion = prompt.map(|prompt| {
                    template.render_completion(conversation, prompt, None).map(|(_, it)| it)
                });
                let completion = completion.transpose()?;
                let (text, turns) = template.render_turns(conversation, noted)?;
                let choice = TrainedTurns {
                    trained_part: self,
                    weights: weights.as_deref(),
                    last: conversation.last_turn(),
                    completion,
                    messages: conversation.messages.len(),
                };
                let spans = choice.spans(text.len(), &turns)?;
                (text, Trained::Spans(spans))
            }
        };
        let turn_ends = if self.trims && prompt.is_none() {
            turn_ends(template, conversation)
        } else {
            Vec::new()
        };
        let turn = turn();
        Ok(Rendered { text, trained: spans, turn_ends, turn, left_out, ..Rendered::default() })
    }

    /// The documents of a replayed conversation, each with its trained part and the places at which it may be cut.
    pub(crate) fn replayed(
        self,
        replayed: &mut Replayed,
        reader: &ReplayReader,
    ) -> Result<Vec<Rendered>, Fault> {
        let Replayed { printed, turns, texts, cuts, left_out, .. } = std::mem::take(replayed);
        let speaks = || reader.roles().map(is_assistant);
        if !texts.texts.is_empty() {
            let last = reader.roles().rposition(is_assistant);
            let weight = |message| self.weight(reader.weights(), last, message);
            check_shown(reader.weights(), &texts.texts)?;
            let number = |message| turn_number(speaks(), message);
            return Ok(self.of_texts(texts, weight, number, left_out));
        }
        let Printed { text, spans, literals, .. } = printed;
        let is_weighed = reader.weights().is_some();
        let trained = match self.wanted().of(is_weighed, reader.prompt().is_some()) {
            WantedSpans::Text => Trained::All,
            WantedSpans::Spans => self.of_spans(spans),
            WantedSpans::LastTurn | WantedSpans::Completion => trained(spans),
            WantedSpans::Turns => {
                let choice = TrainedTurns {
                    trained_part: self,
                    weights: reader.weights(),
                    last: reader.roles().rposition(is_assistant),
                    completion: spans.first().filter(|_| reader.prompt().is_some()).cloned(),
                    messages: reader.roles().len(),
                };
                Trained::Spans(choice.spans(text.len(), &turns)?)
            }
        };
        let (turn_ends, turn) = (cuts, self.last_turn_number(reader.weights(), speaks));
        Ok(vec![Rendered {
            text,
            literals,
            trained,
            turn_ends,
            turn,
            left_out,
            ..Rendered::default()
        }])
    }

    /// The trained part of a text in which the assistant wrote `ranges`.
    fn of_spans(self, ranges: Vec<Range<usize>>) -> Trained {
        if self.train_on == TrainOn::All { Trained::All } else { trained(ranges) }
    }
}

fn trained(ranges: Vec<Range<usize>>) -> Trained {
    Trained::Spans(ranges.into_iter().map(|range| Span { range, weight: 1.0 }).collect())
}

/// The places at which a conversation may be cut, found by another render; none if its turns cannot be found.
fn turn_ends(template: &ChatTemplate, conversation: &Conversation) -> Vec<usize> {
    let found = template.render_with_spans(conversation);
    found.map_or_else(
        |_| Vec::new(),
        |(text, spans)| template.turn_ends(conversation, &text, &spans),
    )
}

/// The number of a message among those of the assistant, from 1.
pub(crate) fn turn_number(speaks: impl Iterator<Item = bool>, message: usize) -> u32 {
    let number = speaks.take(message + 1).filter(|speaks| *speaks).count();
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Fails for a message that asks to be trained and stands in none of the texts.
pub(crate) fn check_shown(
    weights: Option<&[Option<f32>]>,
    texts: &[TurnText],
) -> Result<(), Fault> {
    let shown = |message: usize| {
        texts.iter().flat_map(|text| &text.turns).any(|turn| turn.message == message)
    };
    let requested = weights.into_iter().flatten().enumerate();
    let mut requested = requested.filter(|(_, weight)| weight.is_some_and(|weight| weight > 0.0));
    match requested.find(|(message, _)| !shown(*message)) {
        Some((message, _)) => Err(unshown(message)),
        None => Ok(()),
    }
}

fn unshown(message: usize) -> Fault {
    unmaskable(&format!(
        "message {message} asks to be trained, but the chat template does not show what it says"
    ))
}

fn unmaskable(message: &str) -> Fault {
    Fault::new(Reason::Unmaskable, message)
}

/// The choice of trained turns in one conversation.
struct TrainedTurns<'c> {
    trained_part: TrainedPart<'c>,
    /// The weight of each message by its own flags, if any message has one.
    weights: Option<&'c [Option<f32>]>,
    /// The last message of the assistant.
    last: Option<usize>,
    /// The messages of the completion, if it alone is trained.
    completion: Option<Range<usize>>,
    /// The number of messages.
    messages: usize,
}

impl TrainedTurns<'_> {
    /// The trained spans of a text of `length` bytes with these turns.
    fn spans(&self, length: usize, turns: &[AssistantTurn]) -> Result<Vec<Span>, Fault> {
        let mut text_weights = TextWeights::default();
        if let Some(completion) = &self.completion {
            text_weights.set(completion, 1.0);
        } else if self.trained_part.train_on == TrainOn::All {
            text_weights.set(&(0..length), 1.0);
        } else {
            for turn in turns {
                let weight = self.trained_part.weight(None, self.last, turn.message);
                text_weights.set(&turn.span, weight);
            }
        }
        let takes_all = self.completion.is_none() && self.trained_part.train_on == TrainOn::All;
        weigh(&mut text_weights, self.weights, turns, takes_all)?;
        end_turns(&mut text_weights, turns, self.trained_part.eos);
        if let (Some(completion), Some(last)) = (&self.completion, turns.last())
            && self.trained_part.eos.is_some()
            && last.message + 1 == self.messages
            && text_weights.at(last.end.start) == 0.0
        {
            // Text that a template writes after the end of the last turn belongs to that turn.
            text_weights.set(&(last.end.start..completion.end), 0.0);
        }
        Ok(text_weights.spans)
    }
}

/// Gives turns the weights of their messages. `takes_all` says that other messages are trained too.
fn weigh(
    text_weights: &mut TextWeights,
    weights: Option<&[Option<f32>]>,
    turns: &[AssistantTurn],
    takes_all: bool,
) -> Result<(), Fault> {
    for (message, weight) in weights.into_iter().flatten().enumerate() {
        let Some(weight) = *weight else { continue };
        let own = turns.iter().filter(|turn| turn.message == message);
        if weight > 0.0 && own.clone().next().is_none() {
            return Err(unshown(message));
        }
        if takes_all && own.clone().next().is_none() {
            let message = format!(
                "message {message} asks not to be trained, but `train_on` is \"all\", which can leave out no more than \
                 turns of the assistant"
            );
            return Err(Fault::new(Reason::Unmaskable, message));
        }
        for turn in own {
            text_weights.set(&turn.span, weight);
        }
    }
    Ok(())
}
