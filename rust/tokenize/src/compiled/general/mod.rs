//! Any sequence of pre-tokenizers in front of any model: the text is written down as the model reads it.
//!
//! The other engines cut a text where it stands, and so are faster. This one serves every tokenizer that has steps which
//! take text away, or put some in, or a model that none of the others has.

mod characters;
mod pre_tokenized;
mod scripts;

use std::ops::Range;

use super::batch::{self, Origin, Output, Pieces};
use super::memory::{Gap, Memory};
use super::sentence::Prefix;
use super::spans::Watch;
use super::word_piece::WordPiece;
use crate::error::Error;
use crate::pieces::{Key, Vocabulary};
use crate::split::{Cursor, Splitter, Step};
use crate::viterbi::{Viterbi, Ways};
pub(super) use characters::{Affixes, Characters, Fallback};
pub(super) use pre_tokenized::PreTokenized;
use pre_tokenized::Stretch;

/// Bytes of the longest text that a stage rewrites: it can make five times as much of it, and positions are 32 bits.
const LONGEST_REWRITTEN: usize = 1 << 29;

/// One step of a pre-tokenizer.
#[derive(Debug)]
pub(super) enum Stage {
    /// Splits that keep all text.
    Cut(Splitter),
    /// A split that takes its delimiters away.
    Remove(Step),
    /// Writes a character for each space, puts one in front of each piece, and cuts before each.
    Metaspace { replacement: char, prefix: Prefix, split: bool },
    /// Puts a space in front of each piece that begins with none.
    PrefixSpace,
    /// Writes each byte as the character that stands for it.
    Bytes,
    /// Cuts where the script changes.
    Scripts,
    /// Cuts behind so many characters.
    FixedLength(usize),
}

impl Stage {
    /// Whether the text is another one behind it.
    fn rewrites(&self) -> bool {
        matches!(self, Self::Metaspace { .. } | Self::PrefixSpace | Self::Bytes)
    }
}

/// A model that is given one piece at a time.
pub(super) enum Maker {
    /// BPE that begins with the characters of a piece.
    Characters(Box<Characters>),
    /// A piece is a token or unknown.
    WordLevel(WordLevel),
    WordPiece(WordPiece),
    Unigram(Box<Viterbi>),
}

/// A model whose tokens are whole pieces.
pub(super) struct WordLevel {
    pub(super) vocabulary: Vocabulary,
    /// The id of each token.
    pub(super) ids: Vec<u32>,
    /// The id of every other piece.
    pub(super) unknown: u32,
}

/// A tokenizer of any steps and any model, shared by all threads.
pub(crate) struct General {
    stages: Vec<Stage>,
    maker: Maker,
}

impl General {
    pub(super) fn new(stages: Vec<Stage>, maker: Maker) -> Self {
        Self { stages, maker }
    }

    /// Appends the ids of `text[start..]`, a stretch between two added tokens.
    pub(super) fn encode(
        &self,
        text: &[u8],
        start: usize,
        memory: &mut Memory,
        out: &mut Output<'_>,
    ) {
        let tells = out.watch.wants_sources();
        if !tells {
            out.watch.lose();
        }
        if out.watch.is_lost() {
            return;
        }
        let stretch = Stretch { text, start, origin: out.origin, tells };
        let mut written = std::mem::take(&mut memory.pre_tokenized);
        written.begin(&stretch);
        for stage in &self.stages {
            if stage.rewrites() && written.text(&stretch).len() > LONGEST_REWRITTEN {
                let bytes = written.text(&stretch).len();
                memory.refused = Some(Error::too_long("it", bytes, LONGEST_REWRITTEN));
                return;
            }
            if memory.is_stopped() {
                return;
            }
            written.apply(stage, &stretch);
        }
        if let Some(begin) = written.close(&stretch) {
            let model = Listed { maker: &self.maker, ends: written.ends() };
            let mut out =
                Output { ids: out.ids, watch: out.watch, origin: written.origin(&stretch) };
            let end = written.ends().last().map_or(begin, |end| *end as usize);
            batch::encode_listed(&model, &written.text(&stretch)[..end], begin, memory, &mut out);
        }
        memory.pre_tokenized = written;
    }
}

/// A model with the ends of the pieces of a text.
struct Listed<'a> {
    maker: &'a Maker,
    ends: &'a [u32],
}

impl Maker {
    /// Calls `token` with the part of the piece that each of its tokens comes from.
    fn each(&self, piece: &[u8], count: usize, mut token: impl FnMut(Range<usize>)) {
        match self {
            Self::Characters(model) => model.each(piece, count, token),
            Self::WordLevel(_) => token(0..piece.len()),
            Self::WordPiece(model) => {
                let (mut ends, mut start) = (Vec::new(), 0);
                model.cut(piece, &mut ends, |end, _| end);
                for end in ends {
                    token(start..end);
                    start = end;
                }
            }
            Self::Unigram(viterbi) => {
                viterbi.each(piece, &mut Ways::default(), |range, _| token(range));
            }
        }
    }
}

impl Pieces for Listed<'_> {
    #[inline]
    fn fill(&self, _: &[u8], cursor: &mut Cursor, ends: &mut [u32]) -> usize {
        let rest = &self.ends[cursor.at..];
        let count = rest.len().min(ends.len());
        ends[..count].copy_from_slice(&rest[..count]);
        cursor.at += count;
        count
    }

    fn cut(&self, piece: &[u8], whole: bool) -> usize {
        match self.maker {
            Maker::Characters(model) => model.cut(piece, whole),
            _ => piece.len(),
        }
    }

    fn tells_parts(&self) -> bool {
        matches!(self.maker, Maker::Characters(model) if model.ignores_merges())
    }

    #[inline]
    fn expect(&self, key: Key) {
        if let Maker::Characters(model) = self.maker {
            model.expect(key);
        }
    }

    fn learn(&self, text: &[u8], gaps: &mut [Gap], memory: &mut Memory) {
        if let Maker::Characters(model) = self.maker {
            model.learn(text, gaps, memory);
        }
    }

    fn miss(&self, piece: &[u8], part: bool, memory: &mut Memory, ids: &mut Vec<u32>) {
        match self.maker {
            Maker::Characters(model) => model.encode(piece, part, memory, ids),
            Maker::WordLevel(model) => {
                let known = model.vocabulary.get(piece);
                ids.push(known.map_or(model.unknown, |index| model.ids[index as usize]));
            }
            Maker::WordPiece(model) => model.cut(piece, ids, |_, id| id),
            Maker::Unigram(viterbi) => {
                if !memory.refuses(piece) {
                    viterbi.each(piece, &mut memory.ways, |_, id| ids.push(id));
                }
            }
        }
    }

    fn watch(
        &self,
        text: &[u8],
        begin: usize,
        position: usize,
        ids: &[u32],
        origin: Origin<'_>,
        watch: &mut Watch,
    ) {
        let mut position = position;
        self.maker.each(&text[begin..], ids.len(), |range| {
            if !range.is_empty() {
                // A token of a part of a character comes from all of it.
                let (mut start, mut end) = (begin + range.start, begin + range.end);
                while text[start] & 0xC0 == 0x80 {
                    start -= 1;
                }
                while text.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
                    end += 1;
                }
                watch.token(position, origin.of(start, end));
            }
            position += 1;
        });
    }
}
