//! A conversation's turns do not depend on the conversations that the template has rendered before.
//!
//! Trials of earlier conversations spare later ones their own. Here each conversation is rendered by a template that knows many, and
//! by one that knows none. `FASTPACK_TEMPLATES` names a folder of templates to try besides those written here, and
//! `FASTPACK_CONVERSATIONS` how many conversations.

use std::path::Path;
use std::sync::Arc;

use fastpack_core::config::Turns;
use fastpack_core::json::{Json, Map};
use fastpack_core::record::Conversation;
use fastpack_core::template::{ChatTemplate, NoteOptions, TurnText};

use super::template::{context, map, text};

/// Templates that keep all, forget reasoning before the last question or before the last answer, merge results, write a call with what
/// follows it, and end turns only before others.
const TEMPLATES: [&str; 6] = [
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}\
     {{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{{ c.function.arguments|tojson }}</call>{% endfor %}\
     <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}\
     {% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.index0 > ns.last %}<think>\n\
     {{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}\
     {{ c.function.arguments|tojson }}</call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{% set ns = namespace(answered=false) %}{% for m in messages %}{% if m.role == 'assistant' and not m.tool_calls %}\
     {% set ns.answered = true %}{% elif m.role == 'user' %}{% set ns.answered = false %}{% endif %}{% endfor %}\
     {% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' and m.reasoning_content and (loop.last or not ns.answered) %}\
     <think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}\
     {{ c.function.arguments|tojson }}</call>{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% for m in messages %}{% if m.role == 'tool' %}{% if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}<|user|>\
     {% endif %}<r>{{ m.content }}</r>{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>{% endif %}{% else %}\
     <|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{{ c.function.arguments|tojson }}</call>\
     {% endfor %}{% if m.role != 'assistant' or not loop.last %}<|im_end|>{% endif %}{% endif %}{% endfor %}\
     {% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' and m.tool_calls %}<|assistant|>{% for c in m.tool_calls %}{{ c.function.name }}\
     {{ c.function.arguments|tojson }}{% if not loop.last %};{% endif %}{% endfor %}</s>{% elif m.role == 'assistant' %}<|assistant|>\
     {{ m.content|trim }}</s>{% else %}<|{{ m.role }}|>{{ m.content }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{% generation %}{% if m.reasoning_content and loop.last %}<think>\
     {{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}</call>\
     {% endfor %}</s>{% endgeneration %}{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}\
     {% if add_generation_prompt %}<|assistant|>{% endif %}",
];

/// Numbers that are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 40).expect("24 bits") % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A text, seldom one of another kind: conversations of few kinds of messages have contexts in common.
    fn said(&mut self) -> Json {
        if self.one_in(30) {
            return text(["<think>inline</think> said", " y "][self.below(2)]);
        }
        let words = ["one two", "so it is.", "no\nline", "Yes, that one."];
        text(words[self.below(words.len())])
    }
}

/// A conversation of some questions with steps of calls and results, most with an answer.
fn conversation(draw: &mut Draw) -> Conversation {
    let mut messages: Vec<Map> = Vec::new();
    if draw.one_in(2) {
        messages.push(map(&[("role", text("system")), ("content", draw.said())]));
    }
    let thinks = draw.below(3);
    let mut number = 0;
    for _ in 0..=draw.below(3) {
        messages.push(map(&[("role", text("user")), ("content", draw.said())]));
        for _ in 0..draw.below(6) {
            let calls = 1 + usize::from(draw.one_in(6));
            let mut spoken = said(draw, thinks);
            let made = (0..calls).map(|_| {
                number += 1;
                call(draw, number)
            });
            spoken.insert("tool_calls".into(), Json::List(Arc::new(made.collect())));
            messages.push(spoken);
            for _ in 0..calls {
                let id = text(&format!("call{number:05}"));
                messages.push(map(&[
                    ("role", text("tool")),
                    ("content", draw.said()),
                    ("tool_call_id", id),
                    ("name", text("look")),
                ]));
            }
        }
        if !draw.one_in(6) {
            messages.push(said(draw, thinks));
        }
    }
    Conversation {
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: None,
        template_kwargs: Map::default(),
        weights: None,
        prompt: None,
        pictures: Vec::new(),
    }
}

/// A message of the assistant, with reasoning if it `thinks`: never, at times, or always.
fn said(draw: &mut Draw, thinks: usize) -> Map {
    let content = if draw.one_in(2) { text("") } else { draw.said() };
    let mut spoken = map(&[("role", text("assistant")), ("content", content)]);
    if thinks == 2 || thinks == 1 && draw.one_in(2) {
        spoken.insert("reasoning_content".into(), draw.said());
    }
    spoken
}

fn call(draw: &mut Draw, number: usize) -> Json {
    let function = map(&[
        ("name", text("look")),
        ("arguments", Json::Map(Arc::new(map(&[("q", draw.said())])))),
    ]);
    Json::Map(Arc::new(map(&[
        ("id", text(&format!("call{number:05}"))),
        ("type", text("function")),
        ("function", Json::Map(Arc::new(function))),
    ])))
}

/// The notes on a conversation, and the texts in which its turns stand, as text to compare.
fn made(template: &ChatTemplate, conversation: &Conversation, choice: Turns) -> String {
    let options = NoteOptions { turns: choice, are_turns: true, have_ends: true };
    let notes = template.turn_notes(conversation, options, &|_| true);
    let texts = template.turn_texts(conversation, choice, &|_| true, None);
    let texts = texts.and_then(|texts| {
        if let Some(texts) = texts {
            return Ok(texts.texts);
        }
        let (text, mut turns) = template.render_turns(conversation, None)?;
        turns.retain(|turn| !turn.span.is_empty());
        Ok(vec![TurnText { text, turns }])
    });
    format!("{notes:?}\n{:?}", texts.map_err(|fault| fault.message))
}

fn templates() -> Vec<(String, String)> {
    let own = TEMPLATES.iter().enumerate();
    let mut all: Vec<_> =
        own.map(|(number, source)| (format!("{number}"), (*source).to_owned())).collect();
    for folder in std::env::var("FASTPACK_TEMPLATES").iter().flat_map(|it| it.split(':')) {
        let files = std::fs::read_dir(Path::new(folder)).expect("a folder of templates");
        for file in files.map(|file| file.expect("a file").path()) {
            let source = std::fs::read_to_string(&file).unwrap_or_default();
            all.push((file.display().to_string(), source));
        }
    }
    all.sort();
    all
}

#[test]
fn conversations_before_change_nothing() {
    let count = std::env::var("FASTPACK_CONVERSATIONS").ok().and_then(|it| it.parse().ok());
    let count = count.unwrap_or(150);
    let mut differing = Vec::new();
    for (name, source) in templates() {
        let Ok(shared) = ChatTemplate::new(&name, &source, context()) else { continue };
        let mut draw = Draw(7);
        for number in 0..count {
            let conversation = conversation(&mut draw);
            for choice in [Turns::Auto, Turns::Each] {
                let fresh =
                    ChatTemplate::new(&name, &source, context()).expect("it compiled before");
                let alone = made(&fresh, &conversation, choice);
                let behind = made(&shared, &conversation, choice);
                if behind != alone {
                    differing.push(format!("{name}, conversation {number}, {choice:?}"));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{} differ: {differing:#?}", differing.len());
}
