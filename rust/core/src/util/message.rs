//! Input text inside messages: on one line, without control characters and secrets, and of bounded length.
//!
//! A key, a role or a file name may hold any character and have any length. Every message that quotes one, or
//! that comes from a library, goes through here.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::path::Path;

use crate::util::redaction::without_secrets;

/// The most characters of a message: a sentence or two, with quotes.
const LINE: usize = 700;

/// The most characters of quoted input in a message: enough to find it again.
const QUOTED: usize = 200;

/// The most characters of a path in a message.
const PATH: usize = 400;

/// The message on one line and of bounded length; `…` replaces the part that is cut out of its middle.
///
/// A message that went through this before stays unchanged.
pub fn one_line(message: &str) -> Cow<'_, str> {
    bounded(message, LINE)
}

/// A number and a noun: `1 row`, `2 rows`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// [`one_line`] for an owned message, without a copy where nothing changes.
pub fn in_one_line(message: String) -> String {
    match one_line(&message) {
        Cow::Borrowed(_) => message,
        Cow::Owned(shown) => shown,
    }
}

/// Input as a message quotes it, with its middle cut out if it is long.
pub fn quoted(text: &str) -> Cow<'_, str> {
    bounded(text, QUOTED)
}

/// A path in a message, cut if it is long.
#[derive(Clone, Copy, Debug)]
pub struct ShownPath<'a>(pub &'a Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bounded(&self.0.to_string_lossy(), PATH))
    }
}

/// A text as one word of a command line.
pub(crate) fn in_shell(text: &str) -> Cow<'_, str> {
    let is_plain = |it: char| it.is_alphanumeric() || "-_./:@%+=,".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")))
}

/// The text without secrets and with its control characters escaped; only its two ends if it would be longer than
/// `most` characters.
fn bounded(text: &str, most: usize) -> Cow<'_, str> {
    // A password that is cut in its middle is no longer known as one.
    let whole = without_secrets(text);
    if whole.len() <= most && !whole.chars().any(is_escaped) {
        return whole;
    }
    let text = &*whole;
    let (shown, whole) = shown(text.chars(), most);
    if whole {
        return Cow::Owned(shown.concat());
    }
    let behind = most / 3;
    let (before, _) = self::shown(text.chars(), most - behind - 1);
    let (mut after, _) = self::shown(text.chars().rev(), behind);
    after.reverse();
    Cow::Owned([before.concat(), after.concat()].join("…"))
}

/// A text of the input with its control characters escaped, but for the ends of its lines and tabs.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_shown = |it: char| matches!(it, '\n' | '\t') || !is_escaped(it);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_shown(character) {
            shown.push(character);
        } else {
            shown.push_str(&escaped(character));
        }
    }
    Cow::Owned(shown)
}

/// The first characters as shown, up to `most` in total, and whether these are all.
fn shown(characters: impl Iterator<Item = char>, most: usize) -> (Vec<String>, bool) {
    let (mut shown, mut room) = (Vec::new(), most);
    for character in characters {
        let text = escaped(character);
        let Some(left) = room.checked_sub(text.chars().count()) else { return (shown, false) };
        room = left;
        shown.push(text);
    }
    (shown, true)
}

/// The character, or its escape as Python writes it.
fn escaped(character: char) -> String {
    let mut text = String::new();
    let written = match character {
        '\n' => text.write_str("\\n"),
        '\r' => text.write_str("\\r"),
        '\t' => text.write_str("\\t"),
        _ if !is_escaped(character) => text.write_char(character),
        _ => match u32::from(character) {
            small @ ..0x100 => write!(text, "\\x{small:02x}"),
            other => write!(text, "\\u{other:04x}"),
        },
    };
    written.expect("text is written to memory");
    text
}

/// True if a character ends a line, moves the cursor, or changes the direction of text.
fn is_escaped(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_short_and_plain_stays_as_it_is() {
        for text in ["", "a river", "naïve 日本語 🙂", "C:\\files\\a `b`"] {
            assert!(matches!(one_line(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn control_characters_are_written_as_python_writes_them() {
        let text = "a\nb\r\t\0\u{1b}[31m\u{7f}\u{85}\u{2028}\u{202e}";
        assert_eq!(quoted(text), "a\\nb\\r\\t\\x00\\x1b[31m\\x7f\\x85\\u2028\\u202e");
    }

    #[test]
    fn a_text_of_several_lines_keeps_them() {
        assert!(matches!(printable("a\n\tb é 🙂"), Cow::Borrowed(_)));
        assert_eq!(printable("a\r\n\u{9b}2J\u{200f}\u{1b}"), "a\\r\n\\x9b2J\\u200f\\x1b");
    }

    #[test]
    fn a_long_text_keeps_its_two_ends() {
        let text = format!("begin {} end", "a".repeat(5_000_000));
        let shown = quoted(&text);
        assert!(shown.starts_with("begin aaa") && shown.ends_with("aaa end"), "{shown}");
        assert_eq!(shown.chars().count(), QUOTED);
    }

    proptest! {
        #[test]
        fn any_text_is_one_bounded_line(text in any::<String>(), times in 1_usize..300) {
            let text = text.repeat(times);
            let shown = one_line(&text);
            prop_assert!(shown.chars().count() <= LINE);
            prop_assert!(!shown.chars().any(is_escaped));
            prop_assert_eq!(one_line(&shown), shown.clone());
            prop_assert_eq!(shown.contains(['\n', '\r', '\u{85}', '\u{2028}']), false);
        }
    }
}
