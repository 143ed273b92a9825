//! Trials: a template is rendered by programs only if they give the interpreter's output for made-up conversations.
//!
//! A [`Replayer`] learns programs from some conversations and replays them for others. Text and spans are
//! compared with those of the interpreter. After one difference the template is always interpreted.

use super::recorded_programs::RecordedPrograms;
use super::replayer::{Replayed, Replayer};
use super::wanted_spans::WantedSpans;
use crate::config::Turns;
use crate::record::{Conversation, ReplayReader, Shape, parse_conversation};
use crate::template::chat::ChatTemplate;

/// The roles of the trial conversations.
const ROLES: [&[&str]; 7] = [
    &["user"],
    &["user", "assistant"],
    &["system", "user", "assistant"],
    &["user", "assistant", "user", "assistant"],
    &["system", "user", "assistant", "user", "assistant", "user"],
    &["user", "assistant", "tool", "assistant"],
    &["user", "user", "assistant", "assistant"],
];

/// The texts of the messages, escaped for JSON: blanks and separators at the ends, words that templates
/// search for, and texts that look like tokens.
const TEXTS: [&str; 12] = [
    "x",
    "one two",
    "",
    " \\n ",
    "  padded\\t\\n",
    "\\n\\n\\u00a0wide\\u2028",
    "<think>\\nwhy\\n</think>\\n\\nso",
    "y</think>z</think>",
    "<tool_response>r</tool_response>",
    "<|im_end|>\\n<|im_start|>assistant\\n[/INST]<eos>",
    "日本 🎉 e\\u0301",
    "\\\"a\\\"\\\\'b'",
];

/// The tool calls of the assistant, as JSON.
const CALLS: [&str; 2] = [
    r#"{"type": "function", "function": {"name": "find", "arguments": {"text": "TEXT", "count": 2, "deep": [1.5, null, {"x": "TEXT"}]}}}"#,
    r#"{"type": "function", "id": "abcdefghi", "function": {"name": "find", "arguments": {"text": "TEXT"}}}, {"type": "function", "id": "abcdefghj", "function": {"name": "look", "arguments": {}}}"#,
];

/// The tool of the conversations, as JSON.
const TOOLS: &str = r#"{"type": "function", "function": {"name": "find", "description": "TEXT", "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "TEXT"}, "count": {"type": "integer"}}, "required": ["text"]}}}"#;

impl ChatTemplate {
    /// Succeeds if programs render the conversations with these wanted spans. Fails with the reason that they
    /// are interpreted.
    ///
    /// The first call for each `wanted` runs the trials.
    pub fn replays(&self, wanted: WantedSpans, choice: Turns) -> Result<(), &'static str> {
        *self.paths.of(wanted, choice).get_or_init(|| {
            if wanted == WantedSpans::Completion {
                // The trials of a completion test only where it begins. Its text is tested with
                // `WantedSpans::Text`.
                self.replays(WantedSpans::Text, choice)?;
            }
            try_out(&self.for_trial(), wanted, choice, |_| {})
        })
    }

    /// True if the trials of `wanted` have run and failed.
    pub(in crate::template) fn interprets(&self, wanted: WantedSpans, choice: Turns) -> bool {
        self.paths.of(wanted, choice).get().is_some_and(Result::is_err)
    }
}

/// Compares programs with the interpreter. `spoil` may change each program that is learned.
fn try_out(
    template: &ChatTemplate,
    wanted: WantedSpans,
    choice: Turns,
    spoil: impl Fn(&mut RecordedPrograms),
) -> Result<(), &'static str> {
    if template.is_refused() {
        return Err("transformers renders it");
    }
    let mut refused = "it refuses every conversation";
    let mut served = false;
    let mut replayer = Replayer::new(template, wanted, choice, wanted != WantedSpans::Text);
    let mut reader = ReplayReader::default();
    let shape = Shape::conversations();
    let mut out = Replayed::default();
    for line in conversations() {
        if template.is_cancelled() {
            return Err("the run was cancelled");
        }
        if template.is_trial_spent() {
            return Err("trying its programs takes too much work");
        }
        let Ok(mut conversation) = parse_conversation(line.as_bytes()) else { continue };
        let read_fast = if wanted == WantedSpans::Completion {
            conversation.prompt = Some(conversation.messages.len() - 1);
            reader.take(&conversation)
        } else {
            reader.read(line.as_bytes(), &shape)
        };
        if !read_fast {
            return Err("the fast reader refuses its conversations");
        }
        let mut done = replayer.replay(&reader, &mut out);
        if done.is_none() {
            replayer.learn(&reader, || Some(conversation.clone()), &spoil);
            done = replayer.replay(&reader, &mut out);
        }
        if done != Some(true) {
            refused = Some(replayer.refused()).filter(|it| !it.is_empty()).unwrap_or(refused);
            continue;
        }
        // The interpreter does not report which text comes from the template, nor is the message of a span told twice.
        out.printed.literals.clear();
        out.printed.span_objects.clear();
        if interpreted(template, &conversation, wanted, choice)
            .is_none_or(|expected| expected != out)
        {
            return Err("its programs differ from the interpreter");
        }
        served = true;
    }
    if served { Ok(()) } else { Err(refused) }
}

/// The conversation as the interpreter renders it; `None` if that fails.
fn interpreted(
    template: &ChatTemplate,
    conversation: &Conversation,
    wanted: WantedSpans,
    choice: Turns,
) -> Option<Replayed> {
    let mut out = Replayed::default();
    let left_out = Some(&mut out.left_out);
    if wanted == WantedSpans::Text {
        out.printed.text = template.render_noting(conversation, left_out).ok()?;
        return Some(out);
    }
    if let Some(prompt) = conversation.prompt {
        let (text, completion) = template.render_completion(conversation, prompt, left_out).ok()?;
        (out.printed.text, out.printed.spans) = (text, vec![completion]);
        return Some(out);
    }
    let serving = template.serving(conversation);
    let last = conversation.last_turn();
    let is_trained = |at: usize| choice.weight(None, Some(at) == last) > 0.0;
    let texts = serving.turn_texts(conversation, choice, &is_trained, left_out);
    if let Some(texts) = texts.ok()? {
        out.texts = texts;
        out.printed.text = template.render(conversation).ok()?;
        return Some(out);
    }
    out.left_out.clear();
    let left_out = Some(&mut out.left_out);
    let (text, spans) = template.render_spans_with_notes(conversation, left_out).ok()?;
    out.cuts = template.turn_ends(conversation, &text, &spans);
    (out.printed.text, out.printed.spans) = (text, spans);
    if wanted == WantedSpans::Turns {
        out.turns = template.render_turns(conversation, None).ok()?.1;
    } else if wanted == WantedSpans::LastTurn {
        out.printed.spans = template.render_last_turn(conversation, None).ok()?.1;
    }
    Some(out)
}

/// The trial conversations, as JSON.
fn conversations() -> impl Iterator<Item = String> {
    // A longer conversation has more of the texts, so fewer conversations are needed.
    let plain = ROLES.iter().flat_map(|roles| {
        (0..TEXTS.len()).step_by(roles.len()).map(move |first| conversation(roles, first, false))
    });
    let parts = ROLES.iter().flat_map(|roles| {
        (0..TEXTS.len()).step_by(3).map(move |first| conversation(roles, first, true))
    });
    let calls = CALLS.iter().flat_map(|call| {
        (0..TEXTS.len()).step_by(2).map(move |first| {
            with_tools(&call.replace("TEXT", text(first)), |step| text(first + step))
        })
    });
    // Programs are kept by the form of the texts, so some conversations differ in the calls alone.
    let called = CALLS.iter().flat_map(|call| {
        TEXTS.iter().map(move |own| with_tools(&call.replace("TEXT", own), |_| text(1)))
    });
    plain.chain(parts).chain(calls).chain(called)
}

fn text(at: usize) -> &'static str {
    TEXTS[at % TEXTS.len()]
}

/// A conversation with these roles and the texts from `first` on, as strings or, with `parts`, as lists of
/// parts.
fn conversation(roles: &[&str], first: usize, parts: bool) -> String {
    let texts = TEXTS.iter().cycle().skip(first).step_by(5);
    let messages: Vec<String> = roles
        .iter()
        .zip(texts)
        .map(|(role, text)| {
            let content = if parts {
                format!(r#"[{{"type": "text", "text": "{text}"}}]"#)
            } else {
                format!("\"{text}\"")
            };
            format!(r#"{{"role": "{role}", "content": {content}}}"#)
        })
        .collect();
    format!(r#"{{"messages": [{}]}}"#, messages.join(", "))
}

/// A conversation with a tool call and the texts of `text`.
fn with_tools(call: &str, text: impl Fn(usize) -> &'static str) -> String {
    let [ask, think, answer, end] = [0, 5, 10, 15].map(&text);
    let tools = TOOLS.replace("TEXT", text(1));
    format!(
        r#"{{"messages": [{{"role": "user", "content": "{ask}"}}, {{"role": "assistant", "content": "{think}", "tool_calls": [{call}]}}, {{"role": "tool", "name": "find", "content": "{answer}"}}, {{"role": "assistant", "content": "{end}"}}], "tools": [{tools}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDateTime;

    use super::*;
    use crate::template::TemplateContext;
    use fastpack_template::Program;
    use fastpack_template::json::Map;

    fn template(source: &str) -> ChatTemplate {
        let context = TemplateContext {
            special_tokens: Vec::new(),
            special_contents: vec!["<|im_end|>".to_owned()],
            stops: Vec::new(),
            tokens: None,
            now: NaiveDateTime::default(),
            kwargs: Map::default(),
        };
        ChatTemplate::new("test", source, context).expect("the template is supported")
    }

    const TRIMMING: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n\
                            {% generation %}{{ m.content|trim }}<|im_end|>\n{% endgeneration %}{% endfor %}";

    /// The results of the trials with each program changed by `spoil`, one for each `WantedSpans` whose trials
    /// pass without the change. Completions are left out, because their trials build on those of the text.
    fn spoilt(source: &str, spoil: fn(&mut Program)) -> Vec<Result<(), &'static str>> {
        let template = template(source);
        let all =
            [WantedSpans::Text, WantedSpans::Spans, WantedSpans::LastTurn, WantedSpans::Turns]
                .into_iter();
        all.filter(|wanted| template.replays(*wanted, Turns::Auto).is_ok())
            .map(|wanted| {
                try_out(&template, wanted, Turns::Auto, |programs| {
                    programs.all().for_each(spoil);
                })
            })
            .collect()
    }

    /// True if every trial failed, and there was at least one.
    fn is_caught(tried: &[Result<(), &'static str>]) -> bool {
        !tried.is_empty() && tried.iter().all(Result::is_err)
    }

    #[test]
    fn a_template_that_trims_is_compiled() {
        assert_eq!(template(TRIMMING).replays(WantedSpans::Spans, Turns::Auto), Ok(()));
    }

    #[test]
    fn a_program_that_does_not_trim_is_caught() {
        let caught = spoilt(TRIMMING, Program::trim_no_more);
        assert!(caught.len() > 1);
        assert!(caught.iter().all(|it| *it == Err("its programs differ from the interpreter")));
    }

    #[test]
    fn a_program_that_forgets_its_guards_is_caught() {
        let source = "{% for m in messages %}{% if '</think>' in m.content %}!{% endif %}{{ m.content }}{% endfor %}";
        assert_eq!(template(source).replays(WantedSpans::Text, Turns::Auto), Ok(()));
        assert!(is_caught(&spoilt(source, Program::drop_guards)));
    }

    #[test]
    fn a_template_that_does_what_is_not_followed_is_interpreted() {
        let source = "{{ messages|tojson }}";
        assert_eq!(
            template(source).replays(WantedSpans::Text, Turns::Auto),
            Err("what is done to several values")
        );
    }

    #[test]
    fn a_program_that_prints_calls_in_another_way_is_caught() {
        let source = "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}\
                      {{ call.function.arguments|tojson }}{% endfor %}{% endfor %}";
        assert_eq!(template(source).replays(WantedSpans::Text, Turns::Auto), Ok(()));
        assert!(is_caught(&spoilt(source, Program::print_alone)));
    }

    #[test]
    fn a_program_that_takes_values_for_the_same_is_caught() {
        let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for call in m.tool_calls or [] %}\
                      {% if call.function.arguments.text %}!{% else %}?{% endif %}{% endfor %}<|im_end|>\n{% endfor %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        assert_eq!(template(source).replays(WantedSpans::Text, Turns::Auto), Ok(()));
        let caught = spoilt(source, Program::drop_guards);
        assert!(is_caught(&caught), "{caught:?}");
    }
}
