//! [`Classification`]: the class of a text or of a pair of texts is predicted, or several classes are.

use super::classes::FoundClasses;
use super::kind::{
    ColumnValues, Objective, ObjectiveColumn, PaddingValues, PartSize, RowLimits, RowPart,
};
use crate::config::{Classes, ColumnUnit, NumberType, RowColumn, Side};
use crate::document::{
    ColumnName, Document, INPUTS, KINDS, LABELS, PARTS, PartKind, class_names as named,
};

/// The class of a text or of a pair of texts is predicted, or several classes are.
///
/// A document is the encoding of one text or of two with the tokens that the tokenizer puts around them. Where it is too
/// long, the texts are cut as the truncation of `transformers` cuts the longest first, and the tokens around them stay.
#[derive(Debug)]
pub(super) struct Classification {
    /// True if a document may have several classes.
    several: bool,
    /// The side at which texts are cut.
    side: Side,
    /// The classes that are found in documents, unless they were given.
    found: Option<FoundClasses>,
}

/// A part of an encoding: the number of its tokens, and their kind.
type EncodingPart = (u32, PartKind);

/// The parts of a document.
fn parts(document: Document<'_>) -> impl Iterator<Item = EncodingPart> {
    let kinds = document.column(KINDS).iter().map(|&kind| PartKind::from(kind));
    document.column(PARTS).iter().copied().zip(kinds)
}

/// The tokens of each text, and of all that is put around them.
fn lengths(document: Document<'_>) -> ([u32; 2], u32) {
    let (mut texts, mut around) = ([0; 2], 0);
    for (length, kind) in parts(document) {
        match kind.text {
            Some(text) => texts[usize::from(text > 0)] = length,
            None => around += length,
        }
    }
    (texts, around)
}

/// The tokens that are left of each text where both have room for `room` together: the longest is cut first.
fn within(texts: [u32; 2], room: u32) -> [u32; 2] {
    let [one, other] = texts;
    if one + other <= room {
        return texts;
    }
    let shortest = one.min(other);
    let rest = if shortest > room { shortest } else { shortest.max(room - shortest) };
    let (shortest, rest) = if shortest.saturating_add(rest) > room {
        (room / 2, room / 2 + room % 2)
    } else {
        (shortest, rest)
    };
    if one > other { [rest, shortest] } else { [shortest, rest] }
}

impl Classification {
    pub(super) fn new(several: bool, side: Side, classes: &Classes) -> Self {
        Self { several, side, found: classes.is_unknown().then(FoundClasses::default) }
    }
}

impl Objective for Classification {
    fn reads(&self) -> &'static [ColumnName] {
        &[INPUTS, PARTS, KINDS, LABELS]
    }

    fn columns(&self) -> Vec<ObjectiveColumn> {
        let column = |name, fill| ObjectiveColumn {
            name,
            number: NumberType::Int32,
            per: ColumnUnit::Token,
            fill,
        };
        let (number, per, fill) = if self.several {
            (NumberType::Float32, ColumnUnit::List, PaddingValues::With(0))
        } else {
            (NumberType::Int64, ColumnUnit::Row, PaddingValues::With(-100))
        };
        vec![
            column(RowColumn::InputIds, PaddingValues::Padding),
            column(RowColumn::TokenTypeIds, PaddingValues::With(0)),
            column(RowColumn::AttentionMask, PaddingValues::With(0)),
            ObjectiveColumn { name: RowColumn::Labels, number, per, fill },
        ]
    }

    fn size(&self, part: RowPart<'_>, _: u64) -> Option<PartSize> {
        Some(PartSize { tokens: part.length, targets: 0 })
    }

    fn longest(&self, document: Document<'_>, _: u32, _: u64, limits: RowLimits) -> Option<u32> {
        let (_, around) = lengths(document);
        // Without a token of a text, nothing is left to be told apart.
        Some(if limits.tokens > around { limits.tokens } else { 0 })
    }

    fn found_classes(&self) -> Option<&FoundClasses> {
        self.found.as_ref()
    }

    fn make(&self, part: RowPart<'_>, _: u64, columns: &mut [ColumnValues]) -> u64 {
        let [inputs, types, mask, labels] = columns else { return 0 };
        let (texts, around) = lengths(part.document);
        let kept = within(texts, part.length.saturating_sub(around));
        let mut rest = part.document.column(INPUTS);
        for (length, kind) in parts(part.document) {
            let (mut ids, after) = rest.split_at(length as usize);
            rest = after;
            if let Some(text) = kind.text {
                let most = kept[usize::from(text > 0)] as usize;
                ids = match self.side {
                    Side::Left => &ids[ids.len() - most..],
                    Side::Right => &ids[..most],
                };
            }
            inputs.numbers.extend(ids.iter().map(|id| id.cast_signed()));
            types.numbers.extend(ids.iter().map(|_| kind.token_type.cast_signed()));
            mask.numbers.extend(ids.iter().map(|_| 1));
        }
        let document_labels = part.document.column(LABELS);
        let bits = |truth: bool| if truth { 1.0_f32.to_bits().cast_signed() } else { 0 };
        // Without a label, a document is in no class of those that others name.
        let is_named =
            named::are_names(document_labels) || self.several && document_labels.is_empty();
        match &self.found {
            Some(found) if is_named && self.several => {
                let first = labels.numbers.len();
                labels.numbers.resize(first + found.count(), bits(false));
                for class in found.numbers_of(document_labels) {
                    labels.numbers[first + class as usize] = bits(true);
                }
            }
            Some(found) if is_named => {
                labels.numbers.extend(found.numbers_of(document_labels).map(u32::cast_signed));
            }
            _ if self.several => {
                labels.numbers.extend(document_labels.iter().map(|&truth| bits(truth == 1)));
            }
            _ => labels.numbers.extend(document_labels.iter().map(|class| class.cast_signed())),
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::within;

    proptest! {
        #[test]
        fn the_longer_text_is_cut_first_and_the_room_is_filled(
            one in 0..40_u32, other in 0..40_u32, room in 0..60_u32,
        ) {
            // Token by token from the longer of both; where they are as long, the last kept one is the second text's.
            let [left, right] = within([one, other], room);
            prop_assert!(left <= one && right <= other);
            prop_assert_eq!(left + right, room.min(one + other));
            if left < one && right < other {
                prop_assert!(left.abs_diff(right) <= 1);
            } else if left < one {
                prop_assert!(left + 1 >= right);
            } else if right < other {
                prop_assert!(right >= left);
            }
        }
    }
}
