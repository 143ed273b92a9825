//! Packing alone: bare lengths from a caller who keeps the tokens, to a [`Plan`].

use super::order::histogram;
use super::{Cut, Piece, Pieces, Plan, cut, lower_bound, plan, rooms, too_many};
use crate::config::{Keep, Overlong, PackOptions, Strategy};
use crate::control::Control;
use crate::error::{Error, Result};

/// What came of bare lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLengths {
    /// The rows; a document's number is the index of its length.
    pub plan: Plan,
    /// The documents of which no row holds a token, ascending.
    pub dropped: Vec<u32>,
    /// The number of rows below which no packing of the others can go.
    pub lower_bound: u64,
}

/// Documents of bare lengths, as the pieces that are to be packed.
#[derive(Clone, Debug)]
pub struct CutLengths {
    pieces: Pieces,
    /// The documents that are too long, ascending.
    dropped: Vec<u32>,
}

impl CutLengths {
    /// Cuts documents of these lengths; where `overlong` is not given, those longer than a row are dropped.
    ///
    /// Fails with [`Error::Option`] about `lengths` if one is below 1, or longer than can be told where pieces of it
    /// begin, and with [`Overlong::Error`] if one is more than `max_length`.
    pub fn new(lengths: &[i64], options: &PackOptions) -> Result<Self> {
        options.validate()?;
        let refuse = |index: usize, length: i64, rule: &str| {
            Err(Error::option("lengths", format!("holds `{length}` at index {index}; {rule}")))
        };
        if u32::try_from(lengths.len()).is_err() {
            return Err(Error::option(
                "lengths",
                "holds more than 4294967295 lengths; plan them in parts",
            ));
        }
        // Mostly they all fit, which takes no look at each by itself.
        let most = options.max_length.get().min(i32::MAX.cast_unsigned());
        let fits = |&length: &i64| (1..=i64::from(most)).contains(&length);
        if lengths.iter().fold(true, |all, length| all & fits(length)) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they fit")]
            let lengths = lengths.iter().map(|&length| length as u32).collect();
            return Ok(Self { pieces: Pieces::whole(lengths), dropped: Vec::new() });
        }
        let mut pieces = Pieces::with_capacity(lengths.len());
        let mut dropped = Vec::new();
        for ((document, index), &length) in (0_u32..).zip(0_usize..).zip(lengths) {
            if length < 1 {
                return refuse(index, length, "a length must be at least 1");
            }
            if begins_late(options) && i32::try_from(length).is_err() {
                let rule = "a document whose pieces begin behind its start must be below 2147483648 tokens long";
                return refuse(index, length, rule);
            }
            let tokens = u32::try_from(length).unwrap_or(u32::MAX);
            match cut(tokens, &[], options, Overlong::Drop) {
                Cut::Into(stretches) => {
                    let piece = |(start, length)| Piece { document, start, length };
                    pieces.extend(stretches.map(piece));
                    if u32::try_from(pieces.len()).is_err() {
                        return Err(too_many());
                    }
                }
                Cut::Drop => dropped.push(document),
                Cut::Refuse => {
                    let rule = format!(
                        "more than max_length={}; pass overlong=\"drop\", \"truncate\" or \"split\"",
                        options.max_length
                    );
                    return refuse(index, length, &rule);
                }
            }
        }
        Ok(Self { pieces, dropped })
    }

    /// Packs them.
    pub fn plan(self, options: &PackOptions, control: &Control) -> Result<PlannedLengths> {
        let Self { pieces, mut dropped } = self;
        let planned = plan(pieces, options, control)?;
        dropped.extend(planned.gone().iter().map(|(document, _)| document));
        dropped.sort_unstable();
        let plan = planned.plan;
        let packed = rooms(plan.lengths_of(0..plan.distinct_rows()), options);
        let lower_bound = lower_bound(&histogram(&packed), options);
        Ok(PlannedLengths { plan, dropped, lower_bound })
    }
}

/// Whether a piece can begin anywhere in its document.
fn begins_late(options: &PackOptions) -> bool {
    options.strategy == Strategy::Concat
        || options.overlong == Some(Overlong::Split)
        || options.keep == Keep::End
}
