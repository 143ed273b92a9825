//! Texts of which some ranges are encoded as ordinary text: control tokens that a user or a tool wrote.
//!
//! As `apply_chat_template(sanitize_control_tokens=True)` of `transformers` does, the text between them and each of them is
//! encoded alone, behind a line feed whose ids are taken off again: some tokenizers begin a text with a blank.

use std::iter;
use std::ops::Range;

use fastpack_tokenize::{Encoding, SequencePart, SpecialTokens};

use super::bos_and_eos::TextKind;
use super::tokenize::DocumentMaker;
use crate::record::Fault;
use crate::report::ledger::Reason;
use crate::template::Rendered;

/// The text in front of each piece but the first.
const BEFORE: &str = "\n";

/// The tokens that ranges of a text touch.
struct TouchedTokens<'r> {
    ranges: &'r [Range<usize>],
    tokens: Vec<Range<usize>>,
}

impl TouchedTokens<'_> {
    /// The ranges that overlap a piece, each with its number.
    fn overlapping(&self, piece: &Range<usize>) -> Vec<(usize, Range<usize>)> {
        let ranges = self.ranges.iter().enumerate();
        let inside = ranges.map(|(number, range)| {
            (number, range.start.max(piece.start)..range.end.min(piece.end))
        });
        inside.filter(|(_, range)| range.start < range.end).collect()
    }

    /// Adds tokens that a range touches.
    fn add(&mut self, number: usize, tokens: Range<usize>) {
        let known = &mut self.tokens[number];
        *known = if known.start == known.end { tokens } else { known.start..tokens.end };
    }
}

impl DocumentMaker {
    /// Fills `encoding` with the ids of a text with ranges of ordinary text, and the tokens that `ranges` touch.
    pub(super) fn encode_pieces(
        &mut self,
        rendered: &Rendered,
        kind: TextKind,
        ranges: &[Range<usize>],
    ) -> Result<(), Fault> {
        let Rendered { text, ordinary, .. } = rendered;
        let frame =
            if self.bos_and_eos.frames(text, kind) { self.frames.parts(1)? } else { Vec::new() };
        let (before, after) = match frame.iter().position(|part| part.text.is_some()) {
            Some(at) => (&frame[..at], &frame[at + 1..]),
            None => (&frame[..], &[][..]),
        };
        let ids = |parts: &[SequencePart]| parts.iter().map(|part| part.id).collect::<Vec<_>>();
        let tokens = vec![0..0; ranges.len()];
        let mut touched = TouchedTokens { ranges, tokens };
        self.encoding.ids.extend(ids(before));
        let newline = self.newline()?;
        let mut at = 0;
        for range in ordinary.iter().cloned().chain(iter::once(text.len()..text.len())) {
            self.encode_piece(text, at..range.start, &newline, &mut touched)?;
            self.encode_control(text, range.clone(), &newline, &mut touched)?;
            at = range.end;
        }
        self.encoding.ids.extend(ids(after));
        self.encoding.touched = touched.tokens;
        Ok(())
    }

    fn newline(&mut self) -> Result<Vec<u32>, Fault> {
        let mut newline = Encoding::default();
        self.encoder.encode(BEFORE, &[], SpecialTokens::Omit, &mut newline).map_err(refused)?;
        Ok(newline.ids)
    }

    /// Appends the ids of a piece of a text.
    fn encode_piece(
        &mut self,
        text: &str,
        piece: Range<usize>,
        newline: &[u32],
        touched: &mut TouchedTokens<'_>,
    ) -> Result<(), Fault> {
        if piece.is_empty() {
            return Ok(());
        }
        let inside = touched.overlapping(&piece);
        let mut encode = |before: &str| {
            let shift = |at: usize| at - piece.start + before.len();
            let spans: Vec<_> =
                inside.iter().map(|(_, range)| shift(range.start)..shift(range.end)).collect();
            let (mut piece_encoding, text) =
                (Encoding::default(), format!("{before}{}", &text[piece.clone()]));
            let encoded =
                self.encoder.encode(&text, &spans, SpecialTokens::Omit, &mut piece_encoding);
            encoded.map_err(refused).map(|()| piece_encoding)
        };
        let (mut piece_encoding, mut skipped) = (Encoding::default(), None);
        if piece.start > 0 {
            piece_encoding = encode(BEFORE)?;
            skipped = piece_encoding.ids.starts_with(newline).then_some(newline.len());
        }
        if skipped.is_none() {
            piece_encoding = encode("")?;
        }
        let skipped = skipped.unwrap_or(0);
        let base = self.encoding.ids.len();
        let place = |at: usize| at.max(skipped) - skipped + base;
        for ((number, _), tokens) in inside.iter().zip(&piece_encoding.touched) {
            if place(tokens.start) < place(tokens.end) {
                touched.add(*number, place(tokens.start)..place(tokens.end));
            }
        }
        self.encoding.ids.extend_from_slice(&piece_encoding.ids[skipped..]);
        Ok(())
    }

    /// Appends the ids of the characters of a control token.
    fn encode_control(
        &mut self,
        text: &str,
        range: Range<usize>,
        newline: &[u32],
        touched: &mut TouchedTokens<'_>,
    ) -> Result<(), Fault> {
        let token = &text[range.clone()];
        if token.is_empty() {
            return Ok(());
        }
        let mut ids = Vec::new();
        self.encoder.encode_ordinary(&format!("{BEFORE}{token}"), &mut ids).map_err(refused)?;
        if ids.starts_with(newline) {
            ids.drain(..newline.len());
        } else {
            ids.clear();
            self.encoder.encode_ordinary(token, &mut ids).map_err(refused)?;
        }
        if self.encoder.token_to_id(token).is_some_and(|id| ids.contains(&id)) {
            let message =
                format!("the tokenizer makes the control token `{token}` of ordinary text, too");
            return Err(Fault::new(Reason::Tokenizer, message));
        }
        let base = self.encoding.ids.len();
        for (number, _) in touched.overlapping(&range) {
            touched.add(number, base..base + ids.len());
        }
        self.encoding.ids.extend(ids);
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn refused(error: fastpack_tokenize::Error) -> Fault {
    Fault::new(Reason::Tokenizer, error.to_string())
}
