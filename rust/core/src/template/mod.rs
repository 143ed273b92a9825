//! A [`Conversation`] to [`Rendered`]: text, and which parts of it are trained.
//!
//! Templates are Jinja as `transformers` runs it. They are compiled to a tree whose variables are slots
//! ([`parser`], [`scope`]) and run over the record without copying it ([`render`]), with Python's semantics throughout:
//! a construct whose result is not known to equal Python's is refused when the template is compiled, a value when it
//! turns up. Where a template does not mark what the assistant writes, [`mod@derive`] finds it.

mod ast;
mod attributes;
mod calls;
mod comparing;
mod completion;
mod conversation;
mod cuts;
mod derive;
mod ending;
mod evaluate;
mod expression;
mod failure;
mod filters;
mod given;
mod header;
mod items;
mod lexer;
mod limits;
mod loops;
mod markers;
mod marks;
mod math;
mod methods;
mod operation;
mod operators;
mod outside;
mod parser;
mod predicates;
mod print;
mod prompts;
mod render;
mod replay;
mod replayer;
mod road;
mod roles;
mod scope;
mod search;
mod select;
mod sort;
mod spans;
mod steps;
mod strftime;
mod takes;
mod text;
mod tojson;
mod trace;
mod trial;
mod turns;
mod value;
mod visit;
mod workbench;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use chrono::NaiveDateTime;

use crate::control::Control;
use crate::error::{Error, Result};
use crate::ledger::Reason;
use crate::record::value::{Map, Value as Json};
use crate::record::{Conversation, Fault, Takes, write_json};

use ast::Program;
use limits::Allowance;
pub use outside::Launch;
use outside::Outside;
pub use prompts::Prompts;
pub use replay::Printed;
pub use replayer::{Replayed, Replayer, Wanted};
pub use select::select_template;
pub use spans::Turn;
use trace::Trace;
use value::Value;

/// A part of a text that is trained, and how much it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// What the loss of its tokens is multiplied by.
    pub weight: f32,
}

/// Which part of a text is trained.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Trained {
    /// Every token.
    #[default]
    All,
    /// The tokens that these spans overlap: ascending, disjoint.
    Spans(Vec<Span>),
}

/// A text ready to be tokenized.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// What of it stands in the template, ascending and apart, where that is known: it is the same in many texts.
    pub literals: Vec<Range<usize>>,
    /// What is trained of it.
    pub trained: Trained,
    /// Where it may be cut: places at which a turn of the assistant is over, ascending. None where nobody asks.
    pub turn_ends: Vec<usize>,
    /// Whether the end-of-text token that may follow is left out of what is trained.
    pub end_untrained: bool,
}

/// A compiled chat template, shared by all threads.
#[derive(Debug)]
pub struct ChatTemplate {
    name: String,
    fingerprint: String,
    /// Nothing where it is refused here, and rendered outside.
    program: Arc<std::result::Result<Program, failure::Refusal>>,
    outside: Option<Arc<Outside>>,
    /// How much it may take for a conversation.
    allowance: Allowance,
    /// Tells whether the run was cancelled.
    control: Option<Arc<Control>>,
    /// Whether it marks what the assistant writes.
    generates: bool,
    context: TemplateContext,
    tool_use: Option<Box<ChatTemplate>>,
    /// Its text, which tells what it speaks of.
    source: String,
    /// What it takes of messages, once that was needed.
    takes: OnceLock<Takes>,
    /// Whether it looks at the time of day.
    tells_time: bool,
    /// How the assistant's turns begin and end, once it was needed, for records without keyword arguments.
    turn: OnceLock<Option<header::Turn>>,
    /// Whether its programs were found to do as the interpreter, once that was needed.
    roads: road::Roads,
}

/// What a template is compiled with.
#[derive(Clone, Debug)]
pub struct TemplateContext {
    /// `bos_token` and its like, as [`fastpack_tokenize::Pretrained::special_tokens`] has them.
    pub special_tokens: Vec<(String, String)>,
    /// Contents of the special added tokens, longest first: what can end a turn.
    pub turn_ends: Vec<String>,
    /// What `strftime_now` sees.
    pub now: NaiveDateTime,
    /// Keyword arguments given for the whole run; a record's own win over them.
    pub kwargs: Map,
}

/// Parameters of `apply_chat_template` that are no variables of the template.
const RESERVED: [&str; 14] = [
    "conversation",
    "messages",
    "tools",
    "chat_template",
    "continue_final_message",
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
    "sanitize_control_tokens",
];

/// The parameter among `kwargs` that a template cannot be given.
fn reserved(kwargs: &Map) -> Option<&str> {
    kwargs.keys().map(|name| &**name).find(|name| RESERVED.contains(name))
}

fn fingerprint(source: &str, context: &TemplateContext) -> String {
    let parts = format!(
        "{source:?}{:?}{:?}{:?}",
        context.special_tokens, context.turn_ends, context.kwargs
    );
    blake3::hash(parts.as_bytes()).to_hex().to_string()
}

impl ChatTemplate {
    /// Compiles `source`, or refuses the first construct that is not known to render as in `transformers`.
    pub fn new(name: &str, source: &str, context: TemplateContext) -> Result<Self> {
        let template = Self::compile(name, source, context)?;
        match &*template.program {
            Ok(_) => Ok(template),
            Err(refusal) => Err(Error::Template {
                name: name.to_owned(),
                line: refusal.line,
                reason: format!(
                    "{}; `template_engine=\"python\"` renders it through transformers",
                    refusal.reason
                ),
            }),
        }
    }

    /// Compiles `source`; what is refused here, template or value, is rendered by the processes that `launch` starts.
    pub fn anywhere(
        name: &str,
        source: &str,
        context: TemplateContext,
        launch: Launch,
    ) -> Result<Self> {
        let template = Self::compile(name, source, context)?;
        let control = Arc::clone(&launch.control);
        let outside = Outside::new(name, source, template.context.now, launch);
        let outside = if template.program.is_err() { outside.start()? } else { outside };
        let template = Self { outside: Some(Arc::new(outside)), ..template };
        Ok(template.with_control(control))
    }

    fn compile(name: &str, source: &str, context: TemplateContext) -> Result<Self> {
        if let Some(parameter) = reserved(&context.kwargs) {
            return Err(Error::option(
                "chat_template_kwargs",
                format!("`{parameter}` is no variable of a template; leave it out"),
            ));
        }
        let program = parser::parse(&lexer::normalize(source))
            .map(|(body, generates)| scope::resolve(body, generates));
        let generates = match &program {
            Ok(program) => program.generates,
            Err(_) => marks_generation(source),
        };
        let fingerprint = fingerprint(source, &context);
        Ok(Self {
            name: name.to_owned(),
            fingerprint,
            program: Arc::new(program),
            outside: None,
            allowance: Allowance::RECORD,
            control: None,
            generates,
            context,
            tool_use: None,
            source: source.to_owned(),
            takes: OnceLock::new(),
            tells_time: source.contains("strftime_now"),
            turn: OnceLock::new(),
            roads: road::Roads::default(),
        })
    }

    /// Renders records that have tools with `template`, as `transformers` does if a tokenizer has one named `tool_use`.
    #[must_use]
    pub fn with_tool_use(self, template: ChatTemplate) -> Self {
        Self { tool_use: Some(Box::new(template)), ..self }
    }

    /// Gives up a conversation once the run is cancelled.
    #[must_use]
    pub fn with_control(self, control: Arc<Control>) -> Self {
        Self { control: Some(control), ..self }
    }

    /// Whether the text depends on the time of day, as far as the source tells.
    pub fn tells_time(&self) -> bool {
        self.tells_time || self.tool_use.as_ref().is_some_and(|template| template.tells_time())
    }

    /// Has `strftime_now` see another time.
    pub fn set_now(&mut self, now: NaiveDateTime) {
        self.context.now = now;
        self.turn = OnceLock::new();
        if let Some(tool_use) = &mut self.tool_use {
            tool_use.set_now(now);
        }
    }

    /// A digest of all that decides the text but the time of day: equal digests give equal texts.
    pub fn fingerprint(&self) -> String {
        let tool_use = self.tool_use.as_ref().map(|template| template.fingerprint());
        format!("{}{}", self.fingerprint, tool_use.unwrap_or_default())
    }

    /// The template's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the template marks what the assistant writes with `{% generation %}` blocks.
    pub fn has_generation_blocks(&self) -> bool {
        self.generates
    }

    /// Whether it is rendered outside alone.
    pub fn is_refused(&self) -> bool {
        self.program.is_err()
    }

    /// Why no further conversation can be rendered, if a process that renders has failed.
    pub fn broken(&self) -> Option<Error> {
        let serving = std::iter::once(self).chain(self.tool_use.as_deref());
        serving.filter_map(|template| template.outside.as_deref()).find_map(Outside::broken)
    }

    /// What was rendered outside, and why, in words; nothing where all was rendered here.
    pub fn rendered_outside(&self) -> Option<String> {
        let serving = std::iter::once(self).chain(self.tool_use.as_deref());
        let mut used =
            serving.filter(|template| template.outside.as_deref().is_some_and(Outside::was_used));
        used.next().map(|template| match &*template.program {
            Err(refusal) => format!(
                "chat template `{}`, line {}: {}; transformers renders it, in processes of its own",
                template.name, refusal.line, refusal.reason
            ),
            Ok(_) => format!(
                "chat template `{}`: some conversations are rendered by transformers, in processes of its own",
                template.name
            ),
        })
    }

    /// The template that serves a record.
    fn serving(&self, conversation: &Conversation) -> &Self {
        match &self.tool_use {
            Some(template) if tools(conversation).is_some() => template,
            _ => self,
        }
    }

    /// Renders the text that `apply_chat_template(tokenize=False)` gives.
    pub fn render(&self, conversation: &Conversation) -> std::result::Result<String, Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        Ok(template.run(&prepare(conversation), conversation, None)?.text)
    }

    /// Renders the same text, and tells which parts of it the assistant wrote.
    ///
    /// Fails with [`Reason::Unmaskable`] where a template without `{% generation %}` blocks renders a record in a way
    /// that does not show which parts these are.
    pub fn render_with_spans(
        &self,
        conversation: &Conversation,
    ) -> std::result::Result<(String, Vec<Range<usize>>), Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        let messages = prepare(conversation);
        let output = template.run(&messages, conversation, None)?;
        if template.generates {
            return Ok((output.text, output.spans));
        }
        let spans = derive::spans(template, conversation, &messages, &output.text)?;
        Ok((output.text, spans))
    }

    fn fault(&self, line: usize, message: &str) -> Fault {
        Fault::new(
            Reason::Template,
            format!("chat template `{}`, line {line}: {message}", self.name),
        )
    }

    /// What `apply_chat_template` refuses before it renders.
    fn check(&self, conversation: &Conversation) -> std::result::Result<(), Fault> {
        let objects = |value: &Json| matches!(value, Json::List(items) if items.iter().all(|item| matches!(item, Json::Map(_))));
        if let Some(parameter) = reserved(&conversation.template_kwargs) {
            return Err(
                self.fault(1, &format!("`{parameter}` is no variable of a template; leave it out"))
            );
        }
        if conversation.messages.is_empty() {
            return Err(self.fault(1, "a conversation has at least one message"));
        }
        self.check_roles(&conversation.messages)?;
        if tools(conversation).is_some_and(|tools| !objects(tools)) {
            return Err(self.fault(1, "`tools` has to be a list of objects"));
        }
        match self.keyword(conversation, "documents") {
            None | Some(Json::Null) => Ok(()),
            Some(documents) if objects(documents) => Ok(()),
            Some(_) => Err(self.fault(1, "`documents` has to be a list of objects")),
        }
    }

    fn keyword<'r>(&'r self, conversation: &'r Conversation, name: &str) -> Option<&'r Json> {
        conversation.template_kwargs.get(name).or_else(|| self.context.kwargs.get(name))
    }

    /// Renders these messages with everything else that the conversation has.
    fn run(
        &self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        add_generation_prompt: Option<bool>,
    ) -> std::result::Result<render::Output, Fault> {
        match self.interpret(prepared, conversation, add_generation_prompt, None) {
            Some(Ok(output)) => return Ok(output),
            Some(Err((_, message)))
                if self.outside.is_some() && failure::is_unsupported(&message) => {}
            Some(Err((line, message))) => return Err(self.fault(line, &message)),
            None => {}
        }
        let outside = self.outside.as_ref().expect("a template that is refused here has one");
        let question = self.question(prepared, conversation, add_generation_prompt);
        outside.render(&question).map_err(|message| {
            Fault::new(Reason::Template, format!("chat template `{}`: {message}", self.name))
        })
    }

    /// The same by the interpreter alone, with a trace looking on; nothing where the template is refused here.
    fn interpret<'r>(
        &'r self,
        prepared: &'r [Cow<'_, Map>],
        conversation: &'r Conversation,
        add_generation_prompt: Option<bool>,
        trace: Option<&mut Trace<'r>>,
    ) -> Option<std::result::Result<render::Output, (usize, String)>> {
        let input = |name: &str| match name {
            "messages" => Some(conversation::messages(prepared)),
            "tools" => Some(tools(conversation).map_or(Value::None, Value::from_json)),
            "add_generation_prompt" if add_generation_prompt.is_some() => {
                add_generation_prompt.map(Value::Bool)
            }
            _ => match (self.keyword(conversation, name), name) {
                (Some(value), _) => Some(Value::from_json(value)),
                (None, "documents") => Some(Value::None),
                (None, "add_generation_prompt") => Some(Value::Bool(false)),
                (None, _) => {
                    let tokens = &self.context.special_tokens;
                    let token = tokens.iter().find(|(known, _)| known == name);
                    token.map(|(_, content)| Value::String(value::Text::Borrowed(content)))
                }
            },
        };
        let program = self.program.as_ref().as_ref().ok()?;
        let measure = || self.size(prepared, conversation);
        let meter = self.meter(&measure);
        Some(render::render(program, self.context.now, input, trace, &meter))
    }

    /// What the process that renders is asked, as JSON.
    fn question(
        &self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        add_generation_prompt: Option<bool>,
    ) -> Vec<u8> {
        let messages = prepared.iter().map(|message| Json::Map(Arc::new((**message).clone())));
        let prompt = add_generation_prompt.map(Json::Bool);
        let keyword = |name: &str| self.keyword(conversation, name).cloned();
        let text = |text: &String| Json::String(text.as_str().into());
        let tokens = self.context.special_tokens.iter();
        let tokens = tokens.map(|(name, content)| (name.as_str().into(), text(content)));
        let given = [&self.context.kwargs, &conversation.template_kwargs].into_iter().flatten();
        let mut variables: Map =
            tokens.chain(given.map(|(name, value)| (Arc::clone(name), value.clone()))).collect();
        variables.shift_remove(ADD_GENERATION_PROMPT);
        variables.shift_remove(DOCUMENTS);
        let question: Map = [
            ("messages", Json::List(Arc::new(messages.collect()))),
            ("tools", tools(conversation).cloned().unwrap_or(Json::Null)),
            (DOCUMENTS, keyword(DOCUMENTS).unwrap_or(Json::Null)),
            (
                ADD_GENERATION_PROMPT,
                prompt.or_else(|| keyword(ADD_GENERATION_PROMPT)).unwrap_or(Json::Bool(false)),
            ),
            ("variables", Json::Map(Arc::new(variables))),
        ]
        .map(|(name, value)| (Arc::from(name), value))
        .into_iter()
        .collect();
        let mut bytes = Vec::new();
        write_json(&Json::Map(Arc::new(question)), &mut bytes);
        bytes
    }
}

/// Parameters of `apply_chat_template` that a template sees under the same names.
const ADD_GENERATION_PROMPT: &str = "add_generation_prompt";
const DOCUMENTS: &str = "documents";

/// Whether a template that cannot be compiled has a mark of what the assistant writes, as `transformers` looks for it.
fn marks_generation(source: &str) -> bool {
    source.match_indices("{%").any(|(at, open)| {
        let rest = &source[at + open.len()..];
        let rest = rest.strip_prefix('-').unwrap_or(rest).trim_start();
        let rest = rest.strip_prefix("generation").map(str::trim_start);
        rest.is_some_and(|rest| rest.strip_prefix('-').unwrap_or(rest).starts_with("%}"))
    })
}

fn tools(conversation: &Conversation) -> Option<&Json> {
    conversation.tools.as_ref().filter(|tools| **tools != Json::Null)
}

fn prepare(conversation: &Conversation) -> Vec<Cow<'_, Map>> {
    conversation.messages.iter().map(|message| conversation::prepare(message)).collect()
}
