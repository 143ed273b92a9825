//! Which road conversations take through a template, found by trying.
//!
//! What a [`Replayer`] makes of conversations that it learned from others is compared with what the interpreter makes of
//! them, text and spans. One difference, and the template is interpreted from then on.

use super::ChatTemplate;
use super::replay::Program;
use super::replayer::Replayer;
use crate::record::{Shape, Skim, parse_conversation};

/// Who speaks in the conversations that are tried.
const ROLES: [&[&str]; 7] = [
    &["user"],
    &["user", "assistant"],
    &["system", "user", "assistant"],
    &["user", "assistant", "user", "assistant"],
    &["system", "user", "assistant", "user", "assistant", "user"],
    &["user", "assistant", "tool", "assistant"],
    &["user", "user", "assistant", "assistant"],
];

/// What they say, as JSON: blanks and separators at the ends, the words that templates look for, and what looks like a
/// token.
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

impl ChatTemplate {
    /// Whether conversations are put together by programs; if not, why each is interpreted.
    pub fn road(&self) -> Result<(), &str> {
        let road = self.road.get_or_init(|| try_out(self, |_| {}));
        *road
    }
}

/// Compares both roads; what is learned goes through `spoil`.
fn try_out(template: &ChatTemplate, spoil: impl Fn(&mut Program)) -> Result<(), &'static str> {
    if template.is_refused() {
        return Err("transformers renders it");
    }
    let mut refused = "it refuses every conversation";
    let mut served = false;
    for spans in [true, false] {
        let mut replayer = Replayer::new(template, spans);
        let mut skim = Skim::default();
        let shape = Shape::conversations();
        let (mut text, mut found) = (String::new(), Vec::new());
        for roles in ROLES {
            // The longer a conversation, the more of the texts are in it.
            for first in (0..TEXTS.len()).step_by(roles.len()) {
                let line = conversation(roles, first);
                let Ok(conversation) = parse_conversation(line.as_bytes()) else { continue };
                if !skim.read(line.as_bytes(), &shape) {
                    return Err("conversations that cannot be skimmed");
                }
                let mut done = replayer.replay(&skim, &mut text, &mut found);
                if done.is_none() {
                    replayer.learn(&skim, || Some(conversation.clone()), &spoil);
                    done = replayer.replay(&skim, &mut text, &mut found);
                }
                if done != Some(true) {
                    refused =
                        Some(replayer.refused()).filter(|it| !it.is_empty()).unwrap_or(refused);
                    continue;
                }
                let expected = if spans {
                    template.render_with_spans(&conversation).ok()
                } else {
                    template.render(&conversation).ok().map(|text| (text, Vec::new()))
                };
                if expected.is_none_or(|expected| expected != (text.clone(), found.clone())) {
                    return Err("its programs differ from the interpreter");
                }
                served = true;
            }
        }
    }
    if served { Ok(()) } else { Err(refused) }
}

/// A conversation of these roles, its texts from `first` on.
fn conversation(roles: &[&str], first: usize) -> String {
    let texts = TEXTS.iter().cycle().skip(first).step_by(5);
    let messages: Vec<String> = roles
        .iter()
        .zip(texts)
        .map(|(role, text)| format!(r#"{{"role": "{role}", "content": "{text}"}}"#))
        .collect();
    format!(r#"{{"messages": [{}]}}"#, messages.join(", "))
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDateTime;

    use super::*;
    use crate::record::value::Map;
    use crate::template::TemplateContext;

    fn template(source: &str) -> ChatTemplate {
        let context = TemplateContext {
            special_tokens: Vec::new(),
            turn_ends: vec!["<|im_end|>".to_owned()],
            now: NaiveDateTime::default(),
            kwargs: Map::new(),
        };
        ChatTemplate::new("test", source, context).expect("the template is supported")
    }

    const TRIMMING: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n\
                            {% generation %}{{ m.content|trim }}<|im_end|>\n{% endgeneration %}{% endfor %}";

    #[test]
    fn a_template_that_trims_is_compiled() {
        assert_eq!(template(TRIMMING).road(), Ok(()));
    }

    #[test]
    fn a_program_that_does_not_trim_is_caught() {
        let caught = try_out(&template(TRIMMING), Program::trim_no_more);
        assert_eq!(caught, Err("its programs differ from the interpreter"));
    }

    #[test]
    fn a_program_that_forgets_its_questions_is_caught() {
        let source = "{% for m in messages %}{% if '</think>' in m.content %}!{% endif %}{{ m.content }}{% endfor %}";
        assert_eq!(template(source).road(), Ok(()));
        assert!(try_out(&template(source), Program::ask_no_more).is_err());
    }

    #[test]
    fn a_template_that_does_what_is_not_followed_is_interpreted() {
        let source = "{% for m in messages %}{{ m.content|upper }}{% endfor %}";
        assert_eq!(template(source).road(), Err("a filter of texts"));
    }
}
