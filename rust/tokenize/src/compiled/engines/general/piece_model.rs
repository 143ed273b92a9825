//! [`PieceModel`]: a model that encodes one piece at a time, and [`ListedModel`], such a model with the pieces of a text.

use std::ops::Range;

use super::characters::Characters;
use crate::compiled::engines::word_piece::WordPiece;
use crate::compiled::piece_encoder::PieceEncoder;
use crate::compiled::spans::{OffsetTracker, SourceRanges};
use crate::compiled::thread_caches::{CacheMiss, ThreadMemory};
use crate::models::viterbi::{Viterbi, ViterbiBuffers};
use crate::pieces::{PieceKey, Vocabulary};
use crate::split::SplitCursor;

/// A model that encodes one piece at a time.
pub(crate) enum PieceModel {
    /// BPE over the characters of a piece.
    Characters(Box<Characters>),
    /// A model in which each piece is a token or unknown.
    WordLevel(WordLevel),
    WordPiece(WordPiece),
    Unigram(Box<Viterbi>),
}

/// A model whose tokens are whole pieces.
pub(crate) struct WordLevel {
    pub(crate) vocabulary: Vocabulary,
    /// The id of each token.
    pub(crate) ids: Vec<u32>,
    /// The id of every other piece.
    pub(crate) unknown: u32,
}

impl PieceModel {
    /// True if a piece is encoded as fast as a cache finds it.
    pub(super) fn is_quick(&self) -> bool {
        matches!(self, Self::WordLevel(_))
    }

    /// Appends the ids of a piece, or of a part of one.
    pub(super) fn encode(
        &self,
        piece: &[u8],
        part: bool,
        memory: &mut ThreadMemory,
        ids: &mut Vec<u32>,
    ) {
        match self {
            Self::Characters(model) => model.encode(piece, part, memory, ids),
            Self::WordLevel(model) => {
                let known = model.vocabulary.get(piece);
                ids.push(known.map_or(model.unknown, |index| model.ids[index as usize]));
            }
            Self::WordPiece(model) => model.cut(piece, ids, |_, id| id),
            Self::Unigram(viterbi) => {
                if !memory.refuses(piece) {
                    viterbi.each(piece, &mut memory.ways, |_, id| ids.push(id));
                }
            }
        }
    }

    /// Records the source ranges of the `count` tokens of the piece `text[begin..]`, and returns the
    /// position after the last one; the first is at `position`.
    pub(super) fn record_ranges(
        &self,
        text: &[u8],
        begin: usize,
        count: usize,
        mut position: usize,
        origin: SourceRanges<'_>,
        offset_tracker: &mut OffsetTracker,
    ) -> usize {
        self.each(&text[begin..], count, |range| {
            if !range.is_empty() {
                // The source range of a token that is a part of a character is the whole character.
                let (mut start, mut end) = (begin + range.start, begin + range.end);
                while text[start] & 0xC0 == 0x80 {
                    start -= 1;
                }
                while text.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
                    end += 1;
                }
                offset_tracker.token(position, origin.of(start, end));
            }
            position += 1;
        });
        position
    }

    /// Calls `token` with the source range, within the piece, of each of its `count` tokens.
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
                viterbi.each(piece, &mut ViterbiBuffers::default(), |range, _| token(range));
            }
        }
    }
}

/// A model, with the ends of the pieces of a text.
pub(super) struct ListedModel<'a> {
    pub(super) piece_model: &'a PieceModel,
    pub(super) ends: &'a [u32],
}

impl PieceEncoder for ListedModel<'_> {
    #[inline]
    fn fill(&self, _: &[u8], cursor: &mut SplitCursor, ends: &mut [u32]) -> usize {
        let rest = &self.ends[cursor.at..];
        let count = rest.len().min(ends.len());
        ends[..count].copy_from_slice(&rest[..count]);
        cursor.at += count;
        count
    }

    fn cut(&self, piece: &[u8], whole: bool) -> usize {
        match self.piece_model {
            PieceModel::Characters(model) => model.cut(piece, whole),
            PieceModel::Unigram(model) => model.cuts.next(piece),
            PieceModel::WordLevel(_) | PieceModel::WordPiece(_) => piece.len(),
        }
    }

    fn parts_have_other_ids(&self) -> bool {
        matches!(self.piece_model, PieceModel::Characters(model) if model.ignores_merges())
    }

    #[inline]
    fn expect(&self, key: PieceKey) {
        if let PieceModel::Characters(model) = self.piece_model {
            model.expect(key);
        }
    }

    fn learn(&self, text: &[u8], gaps: &mut [CacheMiss], memory: &mut ThreadMemory) {
        if let PieceModel::Characters(model) = self.piece_model {
            model.learn(text, gaps, memory);
        }
    }

    fn miss(&self, piece: &[u8], part: bool, memory: &mut ThreadMemory, ids: &mut Vec<u32>) {
        self.piece_model.encode(piece, part, memory, ids);
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
        self.piece_model.record_ranges(text, begin, ids.len(), position, origin, offset_tracker);
    }
}
