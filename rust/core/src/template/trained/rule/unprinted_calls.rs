//! [`shows_calls`]: tells whether a template writes the calls of a turn. A turn whose calls it does not write is not trained.

use fastpack_template::json::Map;

use super::stand_in_messages::{argument_words, has_text};

/// The most words of arguments that are searched for before a message is rendered without its calls.
const MOST_WORDS: usize = 4;

/// True if a word that only the arguments of calls can have brought into the text stands in its own part, behind the part before.
pub(super) fn shows_calls(message: &Map, before: &str, own: &str, template: &str) -> bool {
    let is_only_there = |word: &&str| {
        let mut others = message.iter().filter(|(key, _)| ***key != *"tool_calls");
        own.contains(word)
            && !before.contains(word)
            && !template.contains(word)
            && !others.any(|(_, value)| has_text(value, word))
    };
    let calls = message.get("tool_calls").into_iter().flat_map(argument_words);
    calls.take(MOST_WORDS).any(|word| is_only_there(&word))
}
