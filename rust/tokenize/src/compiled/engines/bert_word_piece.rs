//! The engine of `WordPiece` models behind BERT's normalizer.
//!
//! The raw text is cut at places that no normalizing reaches across. Only a piece that no cache has is
//! normalized, cut into words as BERT's pre-tokenizer cuts it, and split into tokens.

use std::ops::Range;

use super::word_piece::{self, WordPiece};
use crate::compiled::cutting::alphanumeric::run_end;
use crate::compiled::normalizers::bert::{Bert, Role};
use crate::compiled::normalizers::normalized::Normalized;
use crate::compiled::piece_encoder::PieceEncoder;
use crate::compiled::spans::OffsetTracker;
use crate::compiled::spans::SourceRanges;
use crate::compiled::thread_caches::ThreadMemory;
use crate::split::{SplitCursor, decode};
use crate::unicode::bert::{CONTROL, MOVES, STRIPS, VALUES, WHITESPACE};
use crate::unicode::{bert_bits, stripped};

/// A `WordPiece` model, shared by all threads.
pub(crate) struct WordPieceEngine {
    /// The normalizer of pieces; it does nothing if whole texts are normalized before.
    bert: Bert,
    /// The roles by which raw text is cut into pieces.
    raw: Roles,
    /// The roles by which normalized text is cut into words.
    normal: Roles,
    model: WordPiece,
    /// The number of bytes that each id stands for at the start of a word.
    lengths: Vec<u32>,
    /// The length of the prefix of tokens that continue a word.
    prefix: usize,
}

/// The role of every character.
struct Roles {
    ascii: Box<[Role; 128]>,
    /// The role for each combination of a character's bits.
    wide: [Role; VALUES],
}

impl Roles {
    fn new(bert: Bert) -> Self {
        let (wide, table) = (bert.roles(), bert_bits());
        let mut ascii = Box::new([Role::Word; 128]);
        for (code_point, role) in (0..).zip(ascii.iter_mut()) {
            *role = wide[usize::from(table.get(code_point))];
        }
        Self { ascii, wide }
    }

    /// The role of the character at `at`, and its length in bytes.
    #[inline]
    fn at(&self, text: &[u8], at: usize) -> (Role, usize) {
        if let Some(role) = self.ascii.get(usize::from(text[at])) {
            return (*role, 1);
        }
        let (code_point, length) = decode(text, at);
        (self.wide[usize::from(bert_bits().get(code_point))], length)
    }

    /// The end of the run of characters from `at` on that have the role.
    #[inline]
    fn run(&self, text: &[u8], mut at: usize, role: Role) -> usize {
        while at < text.len() {
            let (found, length) = self.at(text, at);
            if found != role {
                break;
            }
            at += length;
        }
        at
    }

    /// The end of the word that continues at `at`.
    #[inline]
    fn word_end(&self, text: &[u8], mut at: usize) -> usize {
        loop {
            // Most words end within eight bytes, so this avoids a loop of unpredictable length.
            at = run_end(text, at);
            loop {
                if at >= text.len() {
                    return at;
                }
                let (role, length) = self.at(text, at);
                if role != Role::Word {
                    return at;
                }
                at += length;
                if length == 1 {
                    break;
                }
            }
        }
    }

    /// The end of the piece at `start`: a word, an ideograph or a sign, with the space before it if there is
    /// one; or a run of other whitespace.
    #[inline]
    fn piece_end(&self, text: &[u8], start: usize) -> usize {
        let at = start + usize::from(text[start] == b' ');
        if at == text.len() {
            return at;
        }
        match self.at(text, at) {
            (Role::Word, length) => self.word_end(text, at + length),
            (Role::Alone, length) => at + length,
            (Role::Space, length) => {
                let end = self.run(text, at + length, Role::Space);
                let leads = end < text.len() && text[end - 1] == b' ' && end - 1 > start;
                end - usize::from(leads)
            }
        }
    }
}

impl WordPieceEngine {
    /// Makes an engine; `bert` normalizes each piece.
    pub(crate) fn new(bert: Bert, parts: word_piece::WordPieceParts<'_>) -> Self {
        let largest = parts.tokens.iter().map(|(_, id)| *id as usize).max().unwrap_or(0);
        let mut lengths = vec![0; largest + 1];
        for (token, id) in &parts.tokens {
            lengths[*id as usize] = u32::try_from(token.len()).unwrap_or(0);
        }
        Self {
            bert,
            raw: Roles::new(bert),
            normal: Roles::new(Bert::default()),
            lengths,
            prefix: parts.prefix.len(),
            model: WordPiece::new(parts),
        }
    }

    /// Calls `word` with each word of a normalized text.
    fn each(&self, text: &[u8], mut word: impl FnMut(Range<usize>)) {
        let mut at = 0;
        while at < text.len() {
            let (role, length) = self.normal.at(text, at);
            let end = match role {
                Role::Word => self.normal.word_end(text, at + length),
                Role::Space | Role::Alone => at + length,
            };
            if role != Role::Space {
                word(at..end);
            }
            at = end;
        }
    }

    /// The piece as text.
    fn text(piece: &[u8]) -> &str {
        std::str::from_utf8(piece).expect("a text is cut between characters")
    }

    /// True if normalizing keeps an ASCII character.
    fn is_plain(&self, byte: u8) -> bool {
        self.bert.keeps(byte) && self.raw.ascii[usize::from(byte)] != Role::Space
    }

    /// True if normalizing keeps a character in its place.
    fn is_solid(&self, code_point: u32) -> bool {
        match u8::try_from(code_point) {
            Ok(byte) if byte.is_ascii() => self.is_plain(byte),
            _ => {
                let bits = bert_bits().get(code_point);
                bits & (CONTROL | WHITESPACE | MOVES) == 0
                    && (bits & STRIPS == 0 || !stripped(code_point).is_empty())
            }
        }
    }
}

impl PieceEncoder for WordPieceEngine {
    #[inline]
    fn fill(&self, text: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        let mut count = 0;
        for end in ends {
            if cursor.at >= text.len() {
                break;
            }
            cursor.at = self.raw.piece_end(text, cursor.at);
            *end = u32::try_from(cursor.at).expect("a text is shorter than 4 GiB");
            count += 1;
        }
        count
    }

    fn miss(&self, piece: &[u8], _: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        let normalized = &mut memory.normalized;
        normalized.text.clear();
        self.bert.normalize(Self::text(piece), 0, false, normalized);
        let text = normalized.text.as_bytes();
        self.each(text, |word| self.model.cut(&text[word], ids, |_, id| id));
    }

    fn record_offsets(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) {
        if ids.is_empty() {
            return;
        }
        let end = text.len();
        let mut at = begin + usize::from(text[begin] == b' ');
        if ids.len() == 1 {
            // A word that is one token is covered by it from end to end, if its first and last characters are
            // kept in place.
            let lead = |at: &usize| text[*at] & 0xC0 != 0x80;
            let last = (at..end).rev().find(lead).unwrap_or(at);
            if [at, last].iter().all(|at| self.is_solid(decode(text, *at).0)) {
                offset_tracker.token(position, origin.of(at, end));
                return;
            }
        } else if text[at..end].iter().all(|byte| byte.is_ascii() && self.is_plain(*byte)) {
            for (index, id) in ids.iter().enumerate() {
                let skipped = if index == 0 { 0 } else { self.prefix };
                let after = at + self.lengths[*id as usize] as usize - skipped;
                offset_tracker.token(position + index, origin.of(at, after));
                at = after;
            }
            return;
        }
        let mut normalized = Normalized::default();
        self.bert.normalize(Self::text(&text[begin..end]), begin, true, &mut normalized);
        let (text, mut tokens) = (normalized.text.as_bytes(), Vec::with_capacity(ids.len()));
        self.each(text, |word| {
            let mut start = word.start;
            let first = tokens.len();
            self.model.cut(&text[word.clone()], &mut tokens, |end, _| word.start..word.start + end);
            for token in &mut tokens[first..] {
                token.start = start;
                start = token.end;
            }
        });
        for (position, token) in (position..).zip(tokens) {
            let (first, last) =
                (&normalized.sources[token.start], &normalized.sources[token.end - 1]);
            offset_tracker.token(position, origin.of(first.start, last.end));
        }
    }
}
