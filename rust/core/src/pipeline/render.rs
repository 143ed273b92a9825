//! [`Renderer`]: which words a record is put into, and what of them is trained.

use std::ops::Range;

use super::training::{self, Choice};
use super::{Job, JobTemplate};
use crate::config::{Prompt, Reading, ShapeName, TrainOn, TrainOnEos};
use crate::document::ids::Trains;
use crate::document::tokenize::Kind;
use crate::error::{Error, Result};
use crate::ledger::Reason;
use crate::record::{
    Conversation, Fault, Pair, Record, Shown, Skim, Takes, Tokens, as_messages, is_assistant,
};
use crate::template::{ChatTemplate, Printed, Prompts, Rendered, Replayed, Span, Trained};

/// What a record became.
pub(super) enum Made {
    /// A text to be tokenized.
    Text(Rendered, Kind),
    /// Ids, and what is trained of them.
    Tokens(Tokens, Trains),
}

/// Why a record became nothing.
pub(super) enum Failure<'a> {
    /// The record is at fault.
    Record(Fault),
    /// The job is: it has no template for conversations.
    NoTemplate(&'a Error),
    /// The job is: it has no tokenizer for texts.
    NoTokenizer,
}

impl From<Fault> for Failure<'_> {
    fn from(fault: Fault) -> Self {
        Self::Record(fault)
    }
}

/// What puts records into words.
pub(super) struct Renderer<'a> {
    train_on: TrainOn,
    /// Whether conversations that are too long are cut after a turn.
    trims: bool,
    eos: Option<TrainOnEos>,
    template: std::result::Result<&'a ChatTemplate, &'a Error>,
    /// What was named; nothing where that is left to fastpack.
    named: Option<Prompts>,
    /// What serves where there is no template.
    alpaca: Prompts,
    /// What serves for a prompt and its completion.
    joined: Prompts,
    /// What stands before each request.
    examples: Vec<(String, String)>,
    /// The token that begins a text, if the tokenizer names one.
    begin: Option<String>,
    /// The token that ends a text, if the chat template writes it behind an answer.
    end: Option<String>,
}

impl<'a> Renderer<'a> {
    pub(super) fn new(job: &'a Job, reading: &Reading) -> Result<Self> {
        Ok(Self {
            train_on: job.options.tokens.train_on,
            trims: job.options.rows.trims(),
            eos: job.options.tokens.train_on_eos,
            template: match &job.template {
                JobTemplate::Ready(template) => Ok(template),
                JobTemplate::Refused(error) => Err(error),
            },
            named: match &reading.prompt {
                Some(prompt) => Some(Prompts::new(prompt, &reading.examples)?),
                None => None,
            },
            joined: Prompts::joined(&reading.examples)?,
            examples: reading.examples.clone(),
            begin: job.begin.clone(),
            end: written_end(job),
            alpaca: Prompts::new(&Prompt::Alpaca, &reading.examples)?,
        })
    }

    /// What the chat template takes of messages.
    pub(super) fn takes(&self) -> Takes {
        self.template.map_or(Takes { calls: false, parts: true }, ChatTemplate::takes)
    }

    /// The record as a conversation, where the chat template is what puts it into words; its prompt counts only where
    /// what completes it is trained.
    pub(super) fn as_rendered(&self, record: Record) -> std::result::Result<Record, Fault> {
        let mut conversation = match record {
            Record::Conversation(conversation) => conversation,
            Record::Pair(mut pair)
                if self.named.is_none() && !pair.plain && self.template.is_ok() =>
            {
                if let Some(end) = &self.end {
                    strip_end(&mut pair.answer, end)?;
                }
                as_messages(&pair, &self.examples)
            }
            other => return Ok(other),
        };
        if !matches!(self.train_on, TrainOn::Auto | TrainOn::Completion) {
            conversation.prompt = None;
        }
        Ok(Record::Conversation(conversation))
    }

    /// Puts a record into words, which is [as it is rendered](Renderer::as_rendered).
    pub(super) fn render(&self, record: Record) -> std::result::Result<Made, Failure<'a>> {
        match record {
            Record::Text(text) => self.text(text),
            Record::Tokens(tokens) => self.tokens(tokens),
            Record::Conversation(conversation) => self.conversation(&conversation),
            Record::Pair(pair) => self.pair(&pair),
        }
    }

    /// Whether conversations are trained that have no prompt.
    pub(super) fn takes_unprompted(&self) -> bool {
        self.train_on != TrainOn::Completion
    }

    /// What became of a conversation that was replayed, as far as it is trained and may be cut.
    pub(super) fn replayed(
        &self,
        replayed: &mut Replayed,
        skim: &Skim,
    ) -> std::result::Result<Made, Failure<'a>> {
        let Replayed { printed, turns, cuts } = std::mem::take(replayed);
        let Printed { text, spans, literals } = printed;
        let trained = if self.eos.is_some() || skim.weights().is_some() {
            let choice = Choice {
                train_on: self.train_on,
                eos: self.eos,
                weights: skim.weights(),
                last: skim.roles().rposition(is_assistant),
                completion: spans.first().filter(|_| skim.prompt().is_some()).cloned(),
                messages: skim.roles().len(),
            };
            Trained::Spans(choice.spans(text.len(), &turns)?)
        } else if self.train_on == TrainOn::All {
            Trained::All
        } else {
            trained(spans)
        };
        let rendered = Rendered { text, literals, trained, turn_ends: cuts, end_untrained: false };
        Ok(self.made(rendered, Kind::Conversation))
    }

    fn text(&self, text: String) -> std::result::Result<Made, Failure<'a>> {
        match self.train_on {
            TrainOn::Auto | TrainOn::All => {
                Ok(self.made(Rendered { text, ..Rendered::default() }, Kind::Text))
            }
            TrainOn::Assistant | TrainOn::LastAssistant => Err(unmaskable(
                "a text has no assistant to train on; use `train_on=\"auto\"` or `\"all\"`",
            )),
            TrainOn::Completion => Err(unmaskable(
                "a text has no completion to train on; use `train_on=\"auto\"` or `\"all\"`",
            )),
        }
    }

    fn tokens(&self, tokens: Tokens) -> std::result::Result<Made, Failure<'a>> {
        match self.train_on {
            TrainOn::Auto | TrainOn::All => {}
            TrainOn::Assistant | TrainOn::Completion if tokens.trained.is_some() => {}
            _ => {
                return Err(unmaskable(
                    "the ids do not tell which of them to train on; use `train_on=\"auto\"` or `\"all\"`",
                ));
            }
        }
        let trained = match (self.train_on, self.eos) {
            (TrainOn::All, _) => Trains::All,
            (_, Some(TrainOnEos::None)) => Trains::NoEnd,
            _ => Trains::Told,
        };
        Ok(Made::Tokens(tokens, trained))
    }

    fn conversation(&self, conversation: &Conversation) -> std::result::Result<Made, Failure<'a>> {
        let template = self.template()?;
        let Conversation { prompt, weights, .. } = conversation;
        if prompt.is_none() && !self.takes_unprompted() {
            return Err(unmaskable(
                "a conversation has no completion to train on; use `train_on=\"assistant\"` or \
                 `\"last_assistant\"`",
            ));
        }
        let (text, trained) = if self.eos.is_some() || weights.is_some() {
            let (text, spans) =
                training::conversation(template, conversation, self.train_on, self.eos)?;
            (text, Trained::Spans(spans))
        } else if let Some(prompt) = *prompt {
            let (text, completion) = template.render_completion(conversation, prompt)?;
            (text, trained(vec![completion]))
        } else if self.train_on == TrainOn::All {
            (template.render(conversation)?, Trained::All)
        } else if self.train_on == TrainOn::LastAssistant {
            let (text, ranges) = template.render_last_turn(conversation)?;
            (text, trained(ranges))
        } else {
            let (text, ranges) = template.render_with_spans(conversation)?;
            let ends = if self.trims {
                template.turn_ends(conversation, &text, &ranges)
            } else {
                Vec::new()
            };
            let trained = trained(ranges);
            let rendered = Rendered { text, trained, turn_ends: ends, ..Rendered::default() };
            return Ok(self.made(rendered, Kind::Conversation));
        };
        let ends = if self.trims && prompt.is_none() {
            turn_ends(template, conversation)
        } else {
            Vec::new()
        };
        let rendered = Rendered { text, trained, turn_ends: ends, ..Rendered::default() };
        Ok(self.made(rendered, Kind::Conversation))
    }

    fn pair(&self, pair: &Pair) -> std::result::Result<Made, Failure<'a>> {
        let prompts = match (&self.named, pair.plain) {
            (Some(named), _) => named,
            (None, true) => &self.joined,
            (None, false) => &self.alpaca,
        };
        let (text, answer) = prompts.render(pair)?;
        let trained = match self.train_on {
            TrainOn::All => Trained::All,
            _ => trained(vec![answer]),
        };
        // A prompt that writes the token that begins a text has it once.
        let begun = self.begin.as_ref().is_some_and(|begin| text.starts_with(begin.as_str()));
        let kind = if begun { Kind::BegunText } else { Kind::Text };
        Ok(self.made(Rendered { text, trained, ..Rendered::default() }, kind))
    }

    /// A text with what is trained of it.
    fn made(&self, mut rendered: Rendered, kind: Kind) -> Made {
        rendered.end_untrained = self.eos == Some(TrainOnEos::None);
        Made::Text(rendered, kind)
    }

    fn template(&self) -> std::result::Result<&'a ChatTemplate, Failure<'a>> {
        self.template.map_err(Failure::NoTemplate)
    }
}

/// The token that ends a text, if the chat template writes it behind an answer.
fn written_end(job: &Job) -> Option<String> {
    let JobTemplate::Ready(template) = &job.template else { return None };
    let end = job.end.as_ref().filter(|end| !end.is_empty())?;
    template.ends_with(end).then(|| end.clone())
}

/// Takes what ends a text, however often it stands there, from the end of an answer behind which it will be written.
fn strip_end(answer: &mut String, end: &str) -> std::result::Result<(), Fault> {
    while let Some(rest) = answer.trim_end().strip_suffix(end) {
        answer.truncate(rest.len());
        if answer.is_empty() {
            return Err(Fault::new(
                Reason::Empty,
                format!("the answer is `{end}` and nothing else"),
            ));
        }
    }
    Ok(())
}

/// What a report calls the chat template.
pub(super) const CHAT_TEMPLATE: &str = "chat_template";

/// What makes text of the records of a shape, as the report names it.
pub(super) fn prompt_name(job: &Job, reading: &Reading, found: &Shown) -> Option<&'static str> {
    let pair = match found.shape.name() {
        ShapeName::Conversations => return Some(CHAT_TEMPLATE),
        ShapeName::PromptCompletion if found.shape.has_messages() => return Some(CHAT_TEMPLATE),
        ShapeName::PromptCompletion => None,
        ShapeName::Instruction | ShapeName::QuestionAnswer => Some(&job.template),
        ShapeName::Text | ShapeName::Tokens => return None,
    };
    Some(match (&reading.prompt, pair) {
        (Some(Prompt::Alpaca), _) | (None, Some(JobTemplate::Refused(_))) => "alpaca",
        (Some(Prompt::Chatml), _) => "chatml",
        (Some(Prompt::Vicuna), _) => "vicuna",
        (Some(Prompt::Math(name)), _) => name.name(),
        (Some(Prompt::Parts(_)), _) => "parts",
        (Some(Prompt::Format(_)), _) => "format",
        (None, Some(JobTemplate::Ready(_))) => CHAT_TEMPLATE,
        (None, None) => "joining",
    })
}

/// What records are called that a prompt is not asked for, whatever it is.
pub(super) fn unprompted_kind(found: &Shown) -> Option<&'static str> {
    match found.shape.name() {
        ShapeName::Conversations => Some("conversations, which the chat template renders"),
        ShapeName::PromptCompletion if found.shape.has_messages() => {
            Some("prompts and completions that are messages, which the chat template renders")
        }
        ShapeName::Text => Some("texts"),
        ShapeName::Tokens => Some("ids"),
        ShapeName::PromptCompletion | ShapeName::Instruction | ShapeName::QuestionAnswer => None,
    }
}

fn trained(ranges: Vec<Range<usize>>) -> Trained {
    Trained::Spans(ranges.into_iter().map(|range| Span { range, weight: 1.0 }).collect())
}

/// Where a conversation may be cut, found by a render of its own; nowhere if its turns do not show.
fn turn_ends(template: &ChatTemplate, conversation: &Conversation) -> Vec<usize> {
    let found = template.render_with_spans(conversation);
    found.map_or_else(
        |_| Vec::new(),
        |(text, spans)| template.turn_ends(conversation, &text, &spans),
    )
}

fn unmaskable<'a>(message: &str) -> Failure<'a> {
    Fault::new(Reason::Unmaskable, message).into()
}
