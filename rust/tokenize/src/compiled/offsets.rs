//! The characters that each token comes from, as the reference gives them.

use std::collections::HashMap;
use std::ops::Range;

use super::compiled_tokenizer::Compiled;
use super::post_processor::OffsetTrim;
use super::thread_caches::ThreadMemory;
use super::token_names::TokenNames;
use crate::compiled::spans::{OffsetTracker, TokenRange};
use crate::encoding::SpecialTokens;

/// The character that stands for a space in byte-level vocabularies.
const SPACE: char = 'Ġ';

/// The numbers of blanks at the beginning and at the end of each token that was seen.
pub(crate) type Blanks = HashMap<u32, [usize; 2]>;

/// The buffers of a thread, kept for the next text.
pub(crate) struct OffsetBuffers<'m> {
    pub(crate) memory: &'m mut ThreadMemory,
    pub(crate) blanks: &'m mut Blanks,
}

impl Compiled {
    /// Appends the ids of `text` to `ids`, and the range of characters that each comes from to `offsets`; if it
    /// cannot give them, appends nothing and returns `false`.
    pub(crate) fn encode_with_offsets(
        &self,
        text: &str,
        special: SpecialTokens,
        names: &TokenNames,
        buffers: OffsetBuffers<'_>,
        ids: &mut Vec<u32>,
        offsets: &mut Vec<Range<usize>>,
    ) -> bool {
        let Some(trims) = self.template.trims() else { return false };
        let OffsetBuffers { memory, blanks } = buffers;
        let before = ids.len();
        let mut offset_tracker = OffsetTracker::all(self.composes());
        let adds = special == SpecialTokens::Add;
        if adds {
            ids.extend_from_slice(self.template.before());
        }
        let begin = ids.len();
        self.ids(text, std::iter::empty(), memory, ids, &mut offset_tracker);
        let sources = offset_tracker.into_sources();
        let token = |(index, source): (usize, &TokenRange)| source.position() == begin + index;
        let has_all_sources =
            sources.len() == ids.len() - begin && sources.iter().enumerate().all(token);
        let trims_varied =
            !trims.is_empty() && ids[begin..].iter().any(|id| self.varied.contains(id));
        if !has_all_sources || trims_varied {
            // A token without a source has an empty range, and where that lies is not known; nor are the blanks of a
            // token that is written as it stands in the normalized text.
            ids.truncate(before);
            return false;
        }
        let places = characters(text);
        let start = offsets.len();
        offsets.resize(start + begin - before, 0..0);
        offsets.extend(sources.iter().map(|source| places.of(text, source.range())));
        for trim in trims {
            for (index, source) in sources.iter().enumerate() {
                let id = ids[begin + index];
                let of = || around(&names.content(id).unwrap_or_default());
                let mut edges = *blanks.entry(id).or_insert_with(of);
                if let Some(content) = names.added(id) {
                    // A token that was found in the text is written as it stands there, one that the model made as
                    // it is named.
                    let found = &text[source.range()];
                    if found.trim() == content.trim() {
                        edges = around(found);
                    }
                }
                let first = if trim.after { begin - before + index } else { index } == 0;
                trim.apply(&mut offsets[start + begin - before + index], edges, first);
            }
        }
        if adds {
            ids.extend_from_slice(self.template.after());
            offsets.resize(start + ids.len() - before, 0..0);
        }
        true
    }
}

impl OffsetTrim {
    /// Removes the blanks of a token from its range.
    fn apply(self, range: &mut Range<usize>, [left, right]: [usize; 2], first: bool) {
        let is_first = first || range.start == 0;
        let kept = is_first && self.add_prefix_space && left == 1;
        if left > 0 {
            range.start = (range.start + if kept { 0 } else { left }).min(range.end);
        }
        if right > 0 && range.end >= right {
            range.end = (range.end - right).max(range.start);
        }
    }
}

/// The numbers of blanks at the beginning and at the end of a token.
fn around(token: &str) -> [usize; 2] {
    let is_blank = |c: &char| *c == SPACE || c.is_whitespace();
    [token.chars().take_while(is_blank).count(), token.chars().rev().take_while(is_blank).count()]
}

/// The number of the character of each byte of a text; none if the text is ASCII.
struct CharacterNumbers(Vec<u32>);

fn characters(text: &str) -> CharacterNumbers {
    if text.is_ascii() {
        return CharacterNumbers(Vec::new());
    }
    let mut places = Vec::with_capacity(text.len());
    for (number, character) in (0..).zip(text.chars()) {
        places.extend(std::iter::repeat_n(number, character.len_utf8()));
    }
    CharacterNumbers(places)
}

impl CharacterNumbers {
    /// The characters of a range of bytes, which is not empty; a part of a character counts as the whole.
    fn of(&self, text: &str, range: Range<usize>) -> Range<usize> {
        if self.0.is_empty() {
            return range;
        }
        let last = range.end.min(text.len()) - 1;
        self.0[range.start] as usize..self.0[last] as usize + 1
    }
}
