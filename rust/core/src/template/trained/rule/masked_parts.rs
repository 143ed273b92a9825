//! Finds the parts of a turn in its text: reasoning, content, calls.
//!
//! The words of a part are found by replacing them: there the text differs. The markup around words belongs to them:
//! the marks of reasoning, the markup of calls.
//!
//! In `<think>A</think>\n\nB`, the markup between `A` and `B` is divided by two more renders. The one without `A` is `B`: it begins
//! with no markup, so none of it belongs to `B`. Had it been `\n\nB`, the `\n\n` would belong to `B`. If that render shares nothing
//! with the markup, the one without `B` decides: the markup that it still has belongs to `A`.

use std::ops::Range;

use fastpack_template::json::Map;

use super::encoder_pool::shared_start;
use super::message_words::{MessageWords, TurnPart, with_reasoning, words};
use super::reasoning_marks::ReasoningMarks;
use crate::config::TurnParts;
use crate::template::chat::ChatTemplate;

/// A turn in a text, whose parts are searched for.
pub(in crate::template) struct PartSearch<'s> {
    pub(in crate::template) template: &'s ChatTemplate,
    /// A render of messages, with those of the turn.
    pub(in crate::template) text: &'s str,
    /// The bytes of the turn, without its end.
    pub(in crate::template) turn: Range<usize>,
    /// The messages of the turn, with their numbers. A template may join several to one turn.
    pub(in crate::template) messages: Vec<(usize, &'s Map)>,
    /// The marks of reasoning in contents.
    pub(in crate::template) marks: &'s ReasoningMarks,
    /// The text with another message in the place of that with the number; `None` if the template refuses it.
    pub(in crate::template) render: &'s mut dyn FnMut(usize, &Map) -> Option<String>,
}

/// The words of one part in the text.
struct PrintedWords {
    /// The place of its message in [`PartSearch::messages`].
    message: usize,
    words: MessageWords,
    range: Range<usize>,
}

impl PartSearch<'_> {
    /// The bytes of the parts that are context, ascending; `None` if the text does not tell them from others.
    pub(in crate::template) fn masked(&mut self, parts: &TurnParts) -> Option<Vec<Range<usize>>> {
        let printed = self.printed()?;
        let is_masked = |words: &MessageWords| match words.part {
            TurnPart::Reasoning => parts.mask_reasoning_content,
            TurnPart::Calls => parts.mask_tool_calls,
            TurnPart::Content => false,
        };
        let mut masked = Vec::new();
        for (number, one) in printed.iter().enumerate() {
            if is_masked(&one.words) {
                let start = match number.checked_sub(1) {
                    Some(before) => self.border(&printed, before)?,
                    None => self.turn.start,
                };
                masked.push(start..self.border(&printed, number)?);
            }
        }
        let thinks = printed.first().is_some_and(|one| one.words.part == TurnPart::Reasoning);
        if parts.mask_reasoning_content && !thinks {
            let empty = self.empty_thought(printed.first());
            masked.splice(0..0, empty);
        }
        masked.retain(|range| !range.is_empty());
        Some(masked)
    }

    /// The words that the text holds of the turn, by their places; `None` if their places overlap.
    fn printed(&mut self) -> Option<Vec<PrintedWords>> {
        let mut printed = Vec::new();
        for (number, &(at, message)) in self.messages.iter().enumerate() {
            for words in words(message, self.marks)? {
                let other = (self.render)(at, &words.replaced_in(message))?;
                let Some(found) = difference(self.text, &other) else { continue };
                let range = found.start.max(self.turn.start)..found.end.min(self.turn.end);
                if !range.is_empty() {
                    printed.push(PrintedWords { message: number, words, range });
                }
            }
        }
        printed.sort_by_key(|one| one.range.start);
        let are_separate = printed.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start);
        are_separate.then_some(printed)
    }

    /// The byte at which the part of the words with this number ends and the next begins.
    fn border(&mut self, printed: &[PrintedWords], number: usize) -> Option<usize> {
        let Some(next) = printed.get(number + 1) else { return Some(self.turn.end) };
        let first = &printed[number];
        let begin = match number.checked_sub(1) {
            Some(before) => self.border(printed, before)?,
            None => self.turn.start,
        };
        let text = self.text;
        let (at, message) = self.messages[first.message];
        let without_first = (self.render)(at, &first.words.removed_from(message));
        let opening = without_first.as_deref().and_then(|other| {
            let rest = other.strip_prefix(&text[..begin])?;
            let opening = rest.strip_suffix(&text[next.range.start..])?;
            Some(&opening[blanks(opening, &text[begin..])..])
        });
        if let Some(opening) = opening {
            let closing = text[first.range.end..next.range.start].strip_suffix(opening);
            if closing.is_some_and(|closing| !closing.trim().is_empty()) {
                return Some(next.range.start - opening.len());
            }
        }
        let (at, message) = self.messages[next.message];
        let without_next = (self.render)(at, &next.words.removed_from(message))?;
        let same = self.shared(&without_next, text);
        Some(same.clamp(first.range.end, next.range.start))
    }

    /// The marks of reasoning at the beginning of a turn without reasoning, in front of its first words.
    fn empty_thought(&mut self, first: Option<&PrintedWords>) -> Option<Range<usize>> {
        let (at, message) = *self.messages.get(first.map_or(0, |first| first.message))?;
        let [thinking, other] = ["0", "1"].map(|word| with_reasoning(message, word));
        let text = (self.render)(at, &thinking)?;
        let words = difference(&text, &(self.render)(at, &other)?)?;
        let next = first.map_or(self.turn.end, |first| first.range.start);
        let rest = text.strip_suffix(&self.text[next..])?.len();
        let before = &self.text[self.turn.start..next];
        let before = &before[blanks(before, text.get(self.turn.start..)?)..];
        let between = text.get(words.end..rest)?;
        let has_marks = !before.trim().is_empty()
            && between.strip_suffix(before).is_none_or(|closing| closing.trim().is_empty())
            && text.starts_with(&self.text[..self.turn.start]);
        if !has_marks {
            return None;
        }
        let end = match first {
            Some(first) => {
                let without_next = (self.render)(at, &first.words.removed_from(&thinking))?;
                self.shared(&without_next, &text).clamp(words.end, rest)
            }
            None => rest,
        };
        let end = next - (rest - end);
        (end > self.turn.start).then_some(self.turn.start..end)
    }

    /// Bytes of `text` in the tokens with which `other` begins too.
    fn shared(&self, other: &str, text: &str) -> usize {
        shared_start(self.template.context.tokens.as_ref(), other, text)
    }
}

/// Bytes of the blanks with which both texts begin: they stand in front of all parts.
fn blanks(text: &str, other: &str) -> usize {
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b && a.is_whitespace());
    same.map(|(c, _)| c.len_utf8()).sum()
}

/// The bytes of a text that differ from another one; `None` if they are the same.
fn difference(text: &str, other: &str) -> Option<Range<usize>> {
    if text == other {
        return None;
    }
    let same = text.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
    let start = same.map_or(text.len().min(other.len()), |((at, _), _)| at);
    let behind = text[start..].chars().rev().zip(other[start..].chars().rev());
    let behind = behind.take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8());
    Some(start..text.len() - behind.sum::<usize>())
}
