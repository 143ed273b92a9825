//! [`Renderer`]: which words a record is put into, and what of them is trained.

use std::ops::Range;

use super::{Job, JobTemplate};
use crate::config::{Overlong, Prompt, ShapeName, TrainOn};
use crate::document::tokenize::Kind;
use crate::error::{Error, Result};
use crate::ledger::Reason;
use crate::record::{Calls, Conversation, Fault, Found, Pair, Record, Tokens, as_messages};
use crate::template::{ChatTemplate, Prompts, Rendered, Span, Trained, join};

/// What a record became.
pub(super) enum Made {
    /// A text to be tokenized.
    Text(Rendered, Kind),
    /// Ids, and whether all of them are trained whatever the record says.
    Tokens(Tokens, bool),
}

/// Why a record became nothing.
pub(super) enum Failure<'a> {
    /// The record is at fault.
    Record(Fault),
    /// The job is: it has no template for conversations.
    NoTemplate(&'a Error),
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
    template: std::result::Result<&'a ChatTemplate, &'a Error>,
    /// What was named; nothing where that is left to fastpack.
    named: Option<Prompts>,
    /// What serves where there is no template.
    alpaca: Prompts,
}

impl<'a> Renderer<'a> {
    pub(super) fn new(job: &'a Job) -> Result<Self> {
        Ok(Self {
            train_on: job.options.train_on,
            trims: job.options.packing.overlong == Some(Overlong::Trim),
            template: match &job.template {
                JobTemplate::Ready(template) => Ok(template),
                JobTemplate::Refused(error) => Err(error),
            },
            named: job.options.prompt.as_ref().map(Prompts::new).transpose()?,
            alpaca: Prompts::new(&Prompt::Alpaca)?,
        })
    }

    /// What becomes of calls that are written as text.
    pub(super) fn calls(&self) -> Calls {
        match self.template {
            Ok(template) if template.knows_calls() => Calls::Structured,
            _ => Calls::Text,
        }
    }

    pub(super) fn render(&self, record: Record) -> std::result::Result<Made, Failure<'a>> {
        match record {
            Record::Text(text) => self.text(text),
            Record::Tokens(tokens) => self.tokens(tokens),
            Record::Conversation(conversation) => self.conversation(&conversation),
            Record::Completed { all, prompt } => self.completed(&all, prompt),
            Record::Pair(pair) => self.pair(&pair),
        }
    }

    fn text(&self, text: String) -> std::result::Result<Made, Failure<'a>> {
        match self.train_on {
            TrainOn::Auto | TrainOn::All => Ok(Made::Text(whole(text), Kind::Text)),
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
        Ok(Made::Tokens(tokens, self.train_on == TrainOn::All))
    }

    fn conversation(&self, conversation: &Conversation) -> std::result::Result<Made, Failure<'a>> {
        let template = self.template()?;
        let (text, ranges) = match self.train_on {
            TrainOn::All => {
                let mut rendered = whole(template.render(conversation)?);
                if self.trims {
                    rendered.turn_ends = turn_ends(template, conversation);
                }
                return Ok(Made::Text(rendered, Kind::Conversation));
            }
            TrainOn::Auto | TrainOn::Assistant => template.render_with_spans(conversation)?,
            TrainOn::LastAssistant => template.render_last_turn(conversation)?,
            TrainOn::Completion => {
                return Err(unmaskable(
                    "a conversation has no completion to train on; use `train_on=\"assistant\"` or \
                     `\"last_assistant\"`",
                ));
            }
        };
        let ends = match self.train_on {
            _ if !self.trims => Vec::new(),
            TrainOn::LastAssistant => turn_ends(template, conversation),
            _ => template.turn_ends(conversation, &text, &ranges),
        };
        let rendered = Rendered { turn_ends: ends, ..spanned(text, ranges) };
        Ok(Made::Text(rendered, Kind::Conversation))
    }

    fn completed(
        &self,
        all: &Conversation,
        prompt: usize,
    ) -> std::result::Result<Made, Failure<'a>> {
        if !matches!(self.train_on, TrainOn::Auto | TrainOn::Completion) {
            return self.conversation(all);
        }
        let (text, completion) = self.template()?.render_completion(all, prompt)?;
        Ok(Made::Text(spanned(text, vec![completion]), Kind::Conversation))
    }

    fn pair(&self, pair: &Pair) -> std::result::Result<Made, Failure<'a>> {
        let (text, answer) = match (&self.named, pair.plain, self.template) {
            (Some(named), ..) => named.render(pair)?,
            (None, true, _) => join(pair)?,
            (None, false, Ok(_)) => {
                let (all, prompt) = as_messages(pair);
                return self.completed(&all, prompt);
            }
            (None, false, Err(_)) => self.alpaca.render(pair)?,
        };
        let rendered = match self.train_on {
            TrainOn::All => whole(text),
            _ => spanned(text, vec![answer]),
        };
        Ok(Made::Text(rendered, Kind::Text))
    }

    fn template(&self) -> std::result::Result<&'a ChatTemplate, Failure<'a>> {
        self.template.map_err(Failure::NoTemplate)
    }
}

/// What makes text of the records of a shape, as the report names it.
pub(super) fn prompt_name(job: &Job, found: &Found) -> Option<&'static str> {
    let pair = match found.shape.name() {
        ShapeName::Conversations => return Some("chat_template"),
        ShapeName::PromptCompletion if found.messages => return Some("chat_template"),
        ShapeName::PromptCompletion => None,
        ShapeName::Instruction | ShapeName::QuestionAnswer => Some(&job.template),
        ShapeName::Text | ShapeName::Tokens => return None,
    };
    Some(match (&job.options.prompt, pair) {
        (Some(Prompt::Alpaca), _) | (None, Some(JobTemplate::Refused(_))) => "alpaca",
        (Some(Prompt::Chatml), _) => "chatml",
        (Some(Prompt::Vicuna), _) => "vicuna",
        (Some(Prompt::Format(_)), _) => "format",
        (None, Some(JobTemplate::Ready(_))) => "chat_template",
        (None, None) => "joining",
    })
}

fn spanned(text: String, ranges: Vec<Range<usize>>) -> Rendered {
    let spans = ranges.into_iter().map(|range| Span { range, weight: 1.0 }).collect();
    Rendered { text, trained: Trained::Spans(spans), turn_ends: Vec::new() }
}

fn whole(text: String) -> Rendered {
    Rendered { text, trained: Trained::All, turn_ends: Vec::new() }
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
