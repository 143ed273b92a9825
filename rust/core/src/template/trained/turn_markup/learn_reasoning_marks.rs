//! Learns the marks that a template writes around reasoning, and those at which it cuts a content.

use std::sync::Arc;

use fastpack_template::Template;
use fastpack_template::json::{Json, Map};

use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::{REASONING, prepared};
use crate::template::trained::markup_trials::turn_forms::markup;
use crate::template::trained::rule::reasoning_marks::ReasoningMarks;

/// The words of made-up messages, which are in no template.
const QUESTION: &str = "Uu0u";
const THOUGHT: &str = "Rr0r";
const CONTENT: &str = "Cc0c";

impl ChatTemplate {
    /// The marks around reasoning in the content of a message. They are learned at first use.
    pub(crate) fn reasoning_marks(&self) -> &ReasoningMarks {
        self.thoughts.get_or_init(|| {
            let (mut opening, mut closing) = (Vec::new(), Vec::new());
            for content in [thinking_fields(), thinking_parts()] {
                if let Some((open, close)) = self.written_marks(content) {
                    opening.push(open);
                    closing.push(close);
                }
            }
            self.add_cut_marks(&mut opening, &mut closing);
            ReasoningMarks::with(opening, closing)
        })
    }

    /// The text of a made-up conversation.
    fn render_answer(&self, answer: Map) -> Option<String> {
        let question = message("user", QUESTION);
        let conversation = Conversation {
            messages: vec![Arc::new(question), Arc::new(answer)],
            tools: None,
            template_kwargs: Map::default(),
            weights: None,
            prompt: None,
            pictures: Vec::new(),
        };
        Some(self.run(&prepared(&conversation), &conversation, None).ok()?.text)
    }

    /// The marks that the template writes around the reasoning of an answer, and nowhere else.
    fn written_marks(&self, answer: Map) -> Option<(String, String)> {
        let text = self.render_answer(answer)?;
        let thought = text.find(THOUGHT)?;
        let behind = thought + THOUGHT.len();
        let text_start = behind + text[behind..].find(CONTENT)?;
        let before = text[..thought].trim_end();
        let open = markup(before).find(|mark| before.ends_with(mark))?;
        let after = text[behind..text_start].trim_start();
        let close = markup(after).next().filter(|mark| after.starts_with(mark))?;
        let question_end = text.find(QUESTION)? + QUESTION.len();
        let around = [&text[..question_end], &text[text_start..]];
        let is_elsewhere = |mark| around.iter().any(|text: &&str| text.contains(mark));
        (!is_elsewhere(open) && !is_elsewhere(close)).then(|| (open.to_owned(), close.to_owned()))
    }

    /// Adds the literals of the template at which it cuts a content in two.
    fn add_cut_marks(&self, opening: &mut Vec<String>, closing: &mut Vec<String>) {
        let (_, literals) = Template::texts(&self.source);
        let literals = literals.iter().map(|text| text.trim());
        let is_mark = |text: &&str| {
            text.len() > 2 && text.contains(|c: char| !c.is_alphanumeric() && !c.is_whitespace())
        };
        let mut literals: Vec<&str> = literals.filter(is_mark).collect();
        literals.sort_unstable();
        literals.dedup();
        let rendered = |content: &str| self.render_answer(message("assistant", content));
        for close in &literals {
            let Some(text) = rendered(&format!("{THOUGHT}{close}{CONTENT}")) else { continue };
            let is_cut = text.contains(CONTENT)
                && !text.contains(&format!("{THOUGHT}{close}{CONTENT}"))
                && !text.contains(&format!("{THOUGHT}{CONTENT}"));
            if !is_cut {
                continue;
            }
            closing.push((*close).to_owned());
            let opens = literals.iter().filter(|open| {
                let text =
                    rendered(&format!("{open}{THOUGHT}{close}{CONTENT}")).unwrap_or_default();
                text.contains(THOUGHT) && !text.contains(&format!("{open}{THOUGHT}"))
            });
            opening.extend(opens.map(|open| (*open).to_owned()));
        }
    }
}

fn text(text: &str) -> Json {
    Json::String(text.into())
}

fn map<const N: usize>(entries: [(&str, Json); N]) -> Map {
    entries.into_iter().map(|(key, value)| (Arc::from(key), value)).collect()
}

fn message(role: &str, content: &str) -> Map {
    map([("role", text(role)), ("content", text(content))])
}

/// An answer with its reasoning in fields.
fn thinking_fields() -> Map {
    let mut answer = message("assistant", CONTENT);
    for name in REASONING {
        answer.insert(name.into(), text(THOUGHT));
    }
    answer
}

/// An answer with its reasoning in a part of its content.
fn thinking_parts() -> Map {
    let thought = map([("type", text("thinking")), ("thinking", text(THOUGHT))]);
    let content = map([("type", text("text")), ("text", text(CONTENT))]);
    let parts = [thought, content].map(|part| Json::Map(Arc::new(part)));
    map([("role", text("assistant")), ("content", Json::List(Arc::new(parts.to_vec())))])
}
