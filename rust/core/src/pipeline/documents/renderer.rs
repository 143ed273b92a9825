//! [`Renderer`]: which words a record is put into, and what of them is trained.

use crate::config::{Prompt, Reading, ShapeName};
use crate::document::ids::Trains;
use crate::document::tokenize::Kind;
use crate::error::{Error, Result};
use crate::ledger::Reason;
use crate::pipeline::documents::training::Training;
use crate::pipeline::job::{Job, JobTemplate};
use crate::record::{Conversation, Fault, Pair, Record, Shown, Skim, Takes, Tokens, as_messages};
use crate::template::{ChatTemplate, Prompts, Rendered, Replayed};

/// What a record became.
pub(in crate::pipeline) enum Made {
    /// A text to be tokenized.
    Text(Rendered, Kind),
    /// Ids, and what is trained of them.
    Tokens(Tokens, Trains),
}

/// Why a record became nothing.
pub(in crate::pipeline) enum Failure<'a> {
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
pub(in crate::pipeline) struct Renderer<'a> {
    /// What is trained of them.
    training: Training,
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
    pub(in crate::pipeline) fn new(job: &'a Job, reading: &Reading) -> Result<Self> {
        Ok(Self {
            training: Training::of(&job.options),
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
    pub(in crate::pipeline) fn takes(&self) -> Takes {
        self.template.map_or(Takes { calls: false, parts: true }, ChatTemplate::takes)
    }

    /// The record as a conversation, where the chat template is what puts it into words; its prompt counts only where
    /// what completes it is trained.
    pub(in crate::pipeline) fn as_rendered(
        &self,
        record: Record,
    ) -> std::result::Result<Record, Fault> {
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
        if !self.training.heeds_prompts() {
            conversation.prompt = None;
        }
        Ok(Record::Conversation(conversation))
    }

    /// Puts a record into words, which is [as it is rendered](Renderer::as_rendered).
    pub(in crate::pipeline) fn render(
        &self,
        record: Record,
    ) -> std::result::Result<Made, Failure<'a>> {
        match record {
            Record::Text(text) => self.text(text),
            Record::Tokens(tokens) => self.tokens(tokens),
            Record::Conversation(conversation) => self.conversation(&conversation),
            Record::Pair(pair) => self.pair(&pair),
        }
    }

    /// Whether conversations are trained that have no prompt.
    pub(in crate::pipeline) fn takes_unprompted(&self) -> bool {
        self.training.takes_unprompted()
    }

    /// What became of a conversation that was replayed, as far as it is trained and may be cut.
    pub(in crate::pipeline) fn replayed(
        &self,
        replayed: &mut Replayed,
        skim: &Skim,
    ) -> std::result::Result<Made, Failure<'a>> {
        let rendered = self.training.replayed(replayed, skim)?;
        Ok(self.made(rendered, Kind::Conversation))
    }

    fn text(&self, text: String) -> std::result::Result<Made, Failure<'a>> {
        let trained = self.training.of_text()?;
        Ok(self.made(Rendered { text, trained, ..Rendered::default() }, Kind::Text))
    }

    fn tokens(&self, tokens: Tokens) -> std::result::Result<Made, Failure<'a>> {
        let trained = self.training.of_tokens(&tokens)?;
        Ok(Made::Tokens(tokens, trained))
    }

    fn conversation(&self, conversation: &Conversation) -> std::result::Result<Made, Failure<'a>> {
        let rendered = self.training.render(self.template()?, conversation)?;
        Ok(self.made(rendered, Kind::Conversation))
    }

    fn pair(&self, pair: &Pair) -> std::result::Result<Made, Failure<'a>> {
        let prompts = match (&self.named, pair.plain) {
            (Some(named), _) => named,
            (None, true) => &self.joined,
            (None, false) => &self.alpaca,
        };
        let (text, answer) = prompts.render(pair)?;
        let trained = self.training.of_pair(answer);
        // A prompt that writes the token that begins a text has it once.
        let begun = self.begin.as_ref().is_some_and(|begin| text.starts_with(begin.as_str()));
        let kind = if begun { Kind::BegunText } else { Kind::Text };
        Ok(self.made(Rendered { text, trained, ..Rendered::default() }, kind))
    }

    /// A text with what is trained of it.
    fn made(&self, mut rendered: Rendered, kind: Kind) -> Made {
        rendered.end_untrained = self.training.leaves_end();
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
pub(in crate::pipeline) const CHAT_TEMPLATE: &str = "chat_template";

/// What makes text of the records of a shape, as the report names it.
pub(in crate::pipeline) fn prompt_name(
    job: &Job,
    reading: &Reading,
    found: &Shown,
) -> Option<&'static str> {
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
pub(in crate::pipeline) fn unprompted_kind(found: &Shown) -> Option<&'static str> {
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
