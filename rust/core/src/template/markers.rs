//! The markers of a template: texts that it writes itself and that look like special tokens.

use super::chat::ChatTemplate;
use super::conversation::prepared;
use crate::record::parse_conversation;

/// Conversations without tools. A template writes the same markers around other conversations.
const PLAIN: [&str; 3] = [
    r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]}"#,
    r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"},
        {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]}"#,
    r#"{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "x"},
        {"role": "assistant", "content": "x"}]}"#,
];

/// Bytes of the longest marker: `<｜tool▁calls▁begin｜>` takes 32.
const LONGEST: usize = 64;

impl ChatTemplate {
    /// The texts in `<…>`, `<|…|>` and `[…]` that the template writes around messages, each once.
    pub fn markers(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for line in PLAIN {
            let Ok(conversation) = parse_conversation(line.as_bytes()) else { continue };
            let rendered = self.run(&prepared(&conversation), &conversation, None);
            let Ok(output) = rendered else { continue };
            for marker in markers(&output.text) {
                if !found.iter().any(|known| known == marker) {
                    found.push(marker.to_owned());
                }
            }
        }
        found
    }
}

/// The bracketed texts of one word: `<|end|>`, `<<SYS>>`, `[/INST]`, but not `[1]` and `[Round 1]`.
fn markers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let open = rest.find(['<', '['])?;
            let (brackets, close) =
                if rest[open..].starts_with('<') { (['<', '>'], '>') } else { (['[', ']'], ']') };
            let inner = rest[open..].trim_start_matches(brackets[0]);
            let from = rest.len() - inner.len();
            let ends = |c: char| c.is_whitespace() || brackets.contains(&c);
            let length = inner.find(ends).unwrap_or(inner.len());
            let after = inner[length..].trim_start_matches(close);
            let to = rest.len() - after.len();
            let marker = &rest[open..to];
            rest = &rest[from + length..];
            let is_closed = from + length < to;
            let is_word = marker.chars().any(char::is_alphabetic);
            if is_closed && is_word && marker.len() <= LONGEST {
                return Some(marker);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::markers;

    #[test]
    fn a_word_in_brackets_is_a_marker() {
        let text = "<s>[INST] <<SYS>>\nx\n<</SYS>> [/INST]<|im_end|><｜User｜> </s>";
        let expected =
            ["<s>", "[INST]", "<<SYS>>", "<</SYS>>", "[/INST]", "<|im_end|>", "<｜User｜>", "</s>"];
        assert_eq!(markers(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_comparison_a_number_and_a_list_are_no_markers() {
        let long = format!("<{}>", "x".repeat(99));
        for text in
            ["a < b > c", "[1]", "[Round 1]", "<", "[", "<<", "<a", "[a", "<>", "[]<[", &long]
        {
            assert_eq!(markers(text).count(), 0, "{text}");
        }
    }
}
