//! [`ChatTemplate`]: a compiled chat template with its special tokens, time and keyword arguments.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use chrono::NaiveDateTime;
use fastpack_template::json::{Json, Map};
use fastpack_template::{Allowance, FollowedParts, IterationMemo, Refusal, RenderOutput, Template};

use super::context::TemplateContext;
use super::conversation::left_out;
use super::conversation::left_out::LeftOut;
use super::conversation::{prepared, tools};
use super::replay::wanted_spans::TrialResults;
use super::trained::markup_trials::turn_forms::TurnForms;
use super::trained::rule::reasoning_marks::ReasoningMarks;
use super::trained::turn_markup::markup::TurnMarkup;
use super::transformers_processes::{RenderCommand, RenderProcesses};
use crate::error::{Error, Result};
use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::util::control::Control;
use crate::util::wording::{message, set};

/// A compiled chat template, shared by all threads.
#[derive(Debug)]
pub struct ChatTemplate {
    pub(super) name: String,
    pub(super) fingerprint: String,
    /// The compiled template, or why it is refused. A refused template is rendered by `processes`.
    pub(super) program: Arc<std::result::Result<Template, Refusal>>,
    pub(super) processes: Option<Arc<RenderProcesses>>,
    /// Limits of work and memory for a conversation.
    pub(super) allowance: Allowance,
    /// The work of all renders of a trial; `None` outside trials.
    pub(super) trial_work: Option<Arc<AtomicU64>>,
    /// The control of the run, which holds its cancel flag.
    pub(super) control: Option<Arc<Control>>,
    /// True if it has `{% generation %}` blocks.
    pub(super) generates: bool,
    pub(super) context: TemplateContext,
    pub(super) tool_use: Option<Box<ChatTemplate>>,
    /// The source of the template. It is searched for the roles and keys that it mentions.
    pub(super) source: String,
    /// True if its source mentions `strftime_now`.
    pub(super) mentions_strftime: bool,
    /// The markup of the assistant's turns for records without keyword arguments; learned at first use.
    pub(super) turn: OnceLock<Option<TurnMarkup>>,
    /// The forms of conversations for which the cheaper search for turns is tried.
    pub(super) forms: OnceLock<TurnForms>,
    /// The marks around reasoning in the content of a message; learned at first use.
    pub(super) thoughts: OnceLock<ReasoningMarks>,
    /// The words of the generation prompt; learned at first use.
    pub(super) prompt_words: OnceLock<HashSet<String>>,
    /// The results of the trials of its programs; each trial runs at first use.
    pub(super) paths: TrialResults,
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

/// The first of `kwargs` that is reserved.
fn reserved(kwargs: &Map) -> Option<&str> {
    kwargs.keys().map(|name| &**name).find(|name| RESERVED.contains(name))
}

fn fingerprint(source: &str, context: &TemplateContext) -> String {
    let parts = format!(
        "{source:?}{:?}{:?}{:?}{:?}",
        context.special_tokens, context.special_contents, context.stops, context.kwargs
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
                reason: message![
                    refusal.reason.clone(),
                    "; ",
                    set("chat_template.engine", "python"),
                    " renders it through transformers",
                ],
            }),
        }
    }

    /// Compiles `source`. The processes that `launch` starts render the template if it is refused, and the
    /// conversations with values that are refused.
    pub fn anywhere(
        name: &str,
        source: &str,
        context: TemplateContext,
        launch: RenderCommand,
    ) -> Result<Self> {
        let template = Self::compile(name, source, context)?;
        let control = Arc::clone(&launch.control);
        let processes = RenderProcesses::new(name, source, template.context.now, launch);
        let processes = if template.program.is_err() { processes.start()? } else { processes };
        let template = Self { processes: Some(Arc::new(processes)), ..template };
        Ok(template.with_control(control))
    }

    fn compile(name: &str, source: &str, context: TemplateContext) -> Result<Self> {
        if let Some(parameter) = reserved(&context.kwargs) {
            return Err(Error::option(
                "chat_template.variables",
                format!("`{parameter}` is no variable of a template; leave it out"),
            ));
        }
        let program = Template::compile(source);
        let generates = match &program {
            Ok(program) => program.generates(),
            Err(_) => marks_generation(source),
        };
        let fingerprint = fingerprint(source, &context);
        Ok(Self {
            name: name.to_owned(),
            fingerprint,
            program: Arc::new(program),
            processes: None,
            allowance: Allowance::RECORD,
            trial_work: None,
            control: None,
            generates,
            context,
            tool_use: None,
            source: source.to_owned(),
            mentions_strftime: source.contains("strftime_now"),
            turn: OnceLock::new(),
            forms: OnceLock::new(),
            thoughts: OnceLock::new(),
            prompt_words: OnceLock::new(),
            paths: TrialResults::default(),
        })
    }

    /// Renders records that have tools with `template`, as `transformers` does if a tokenizer has one named `tool_use`.
    #[must_use]
    pub fn with_tool_use(self, template: ChatTemplate) -> Self {
        Self { tool_use: Some(Box::new(template)), ..self }
    }

    /// Lets a render stop once the run is cancelled.
    #[must_use]
    pub fn with_control(self, control: Arc<Control>) -> Self {
        Self { control: Some(control), ..self }
    }

    /// True if the source, or that of the `tool_use` template, mentions `strftime_now`.
    pub fn mentions_strftime(&self) -> bool {
        self.mentions_strftime
            || self.tool_use.as_ref().is_some_and(|template| template.mentions_strftime())
    }

    /// Sets the time that `strftime_now` formats.
    pub fn set_now(&mut self, now: NaiveDateTime) {
        self.context.now = now;
        self.turn = OnceLock::new();
        self.forms = OnceLock::new();
        if let Some(tool_use) = &mut self.tool_use {
            tool_use.set_now(now);
        }
    }

    /// A digest of everything that decides the text, except the time of day. Equal digests give equal texts.
    pub fn fingerprint(&self) -> String {
        let tool_use = self.tool_use.as_ref().map(|template| template.fingerprint());
        format!("{}{}", self.fingerprint, tool_use.unwrap_or_default())
    }

    /// The template's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if the tokenizer of the template has a special token of this content.
    pub fn has_special_token(&self, content: &str) -> bool {
        self.context.special_contents.iter().any(|token| token == content)
    }

    /// True if the template marks the assistant's text with `{% generation %}` blocks.
    pub fn has_generation_blocks(&self) -> bool {
        self.generates
    }

    /// True if the template cannot be compiled, so that only `transformers` can render it.
    pub fn is_refused(&self) -> bool {
        self.program.is_err()
    }

    /// The error of a rendering process that failed, if one has. No further conversation can then be
    /// rendered.
    pub fn broken(&self) -> Option<Error> {
        let serving = std::iter::once(self).chain(self.tool_use.as_deref());
        serving
            .filter_map(|template| template.processes.as_deref())
            .find_map(RenderProcesses::broken)
    }

    /// A message about the conversations that `transformers` rendered, and the reason; `None` if it rendered nothing.
    pub fn rendered_in_process(&self) -> Option<String> {
        let serving = std::iter::once(self).chain(self.tool_use.as_deref());
        let mut used = serving.filter(|template| {
            template.processes.as_deref().is_some_and(RenderProcesses::was_used)
        });
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

    /// The template for a conversation: `tool_use` if there is one and the conversation has tools.
    pub(super) fn serving(&self, conversation: &Conversation) -> &Self {
        match &self.tool_use {
            Some(template) if tools(conversation).is_some() => template,
            _ => self,
        }
    }

    /// The template for conversations with or without tools.
    pub(super) fn with_tools(&self, has_tools: bool) -> &Self {
        self.tool_use.as_deref().filter(|_| has_tools).unwrap_or(self)
    }

    /// Renders the text that `apply_chat_template(tokenize=False)` gives.
    pub fn render(&self, conversation: &Conversation) -> std::result::Result<String, Fault> {
        self.render_noting(conversation, None)
    }

    /// Renders the text, and adds the fields that it leaves out.
    pub(crate) fn render_noting(
        &self,
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> std::result::Result<String, Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        Ok(template.run_whole(&prepared(conversation), conversation, left_out)?.text)
    }

    /// Renders the text that `apply_chat_template(tokenize=False, add_generation_prompt=True)` gives.
    pub fn render_prompt(&self, conversation: &Conversation) -> std::result::Result<String, Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        Ok(template.run(&prepared(conversation), conversation, Some(true))?.text)
    }

    pub(super) fn fault(&self, line: usize, message: &str) -> Fault {
        Fault::new(
            Reason::Template,
            format!("chat template `{}`, line {line}: {message}", self.name),
        )
    }

    /// Checks a conversation before it is rendered. Fails for reserved keyword arguments, for no messages,
    /// for misspelt roles, for content under other keys, and for `tools` or `documents` that are no lists of objects.
    pub(super) fn check(&self, conversation: &Conversation) -> std::result::Result<(), Fault> {
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
        self.check_contents(&conversation.messages)?;
        if tools(conversation).is_some_and(|tools| !objects(tools)) {
            return Err(self.fault(1, "`tools` has to be a list of objects"));
        }
        match self.keyword(conversation, "documents") {
            None | Some(Json::Null) => Ok(()),
            Some(documents) if objects(documents) => Ok(()),
            Some(_) => Err(self.fault(1, "`documents` has to be a list of objects")),
        }
    }

    /// Renders prepared messages with the tools and keyword arguments of the conversation. `transformers`
    /// renders a conversation that the interpreter does not support, if it may.
    pub(super) fn run(
        &self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        add_generation_prompt: Option<bool>,
    ) -> std::result::Result<RenderOutput, Fault> {
        self.run_again(prepared, conversation, add_generation_prompt, None)
    }

    /// Renders as [`run`](Self::run) does, and repeats the iterations of `memo`.
    pub(super) fn run_again<'m>(
        &'m self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        add_generation_prompt: Option<bool>,
        memo: Option<&mut IterationMemo<'m>>,
    ) -> std::result::Result<RenderOutput, Fault> {
        let following = memo.map_or(FollowedParts::Nothing, FollowedParts::Memo);
        let output = self.interpret(prepared, conversation, add_generation_prompt, following);
        match self.inside(output)? {
            Some(output) => Ok(output),
            None => self.render_in_process(prepared, conversation, add_generation_prompt),
        }
    }

    /// Renders the whole of a conversation, and adds the fields that the text leaves out.
    pub(super) fn run_whole(
        &self,
        prepared: &[Cow<'_, Map>],
        conversation: &Conversation,
        left_out: Option<&mut LeftOut>,
    ) -> std::result::Result<RenderOutput, Fault> {
        let Some(fields) = left_out else { return self.run(prepared, conversation, None) };
        let output = self.interpret(prepared, conversation, None, FollowedParts::Sources(None));
        if let Some(output) = self.inside(output)? {
            if let Some(shown) = &output.shown {
                left_out::not_shown(conversation, prepared, shown, fields);
            }
            return Ok(output);
        }
        let output = self.render_in_process(prepared, conversation, None)?;
        left_out::not_in_text(conversation, &output.text, fields);
        Ok(output)
    }

    /// Renders with the interpreter alone. `None` if the template is refused.
    pub(super) fn interpret<'r, 'm: 'r>(
        &'r self,
        prepared: &'r [Cow<'_, Map>],
        conversation: &'r Conversation,
        add_generation_prompt: Option<bool>,
        following: FollowedParts<'_, 'r, 'm>,
    ) -> Option<std::result::Result<RenderOutput, (usize, String)>> {
        let program = self.program.as_ref().as_ref().ok()?;
        let input = |name: &str| self.input(prepared, conversation, add_generation_prompt, name);
        let measure = || self.size(prepared, conversation);
        let meter = self.meter(&measure);
        let rendered = program.render_following(self.context.now, input, following, &meter);
        self.count_trial_work(&meter);
        Some(rendered)
    }

    /// A memo for renders of `messages` by the interpreter, and of others behind them. `None` if the template is refused.
    pub(super) fn memo<'m>(
        &'m self,
        messages: &'m [Cow<'_, Map>],
        conversation: &'m Conversation,
    ) -> Option<IterationMemo<'m>> {
        let program = self.program.as_ref().as_ref().ok()?;
        let tools = match tools(conversation) {
            Some(Json::List(tools)) => &tools[..],
            _ => &[],
        };
        let tools = tools.iter().filter_map(|tool| match tool {
            Json::Map(tool) => Some(&**tool),
            _ => None,
        });
        let objects = messages.iter().map(|message| &**message).chain(tools);
        Some(IterationMemo::new(program, objects))
    }
}

/// True if the source of a refused template has a `{% generation %}` tag, searched for as `transformers`
/// does.
fn marks_generation(source: &str) -> bool {
    source.match_indices("{%").any(|(at, open)| {
        let rest = &source[at + open.len()..];
        let rest = rest.strip_prefix('-').unwrap_or(rest).trim_start();
        let rest = rest.strip_prefix("generation").map(str::trim_start);
        rest.is_some_and(|rest| rest.strip_prefix('-').unwrap_or(rest).starts_with("%}"))
    })
}
