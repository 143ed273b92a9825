//! [`TemplateLiterals`]: the ids of the literals of a template, made once.

use std::collections::HashMap;

use fastpack_tokenize::{Encoder, StableSegment};
use foldhash::fast::RandomState;

use crate::template::Rendered;

/// Bytes of literals that are remembered: several times those of real templates.
const MOST: usize = 1 << 20;

/// One thread's memory of the literals of templates, with the ids of those whose ids are the same in every text.
#[derive(Debug, Default)]
pub(super) struct TemplateLiterals {
    known: HashMap<Box<str>, Option<usize>, RandomState>,
    stable_segments: Vec<StableSegment>,
    /// Bytes of all that is known.
    bytes: usize,
    /// The known literals in the last text: the byte of each, and its index in `settled`.
    here: Vec<(usize, usize)>,
}

impl TemplateLiterals {
    /// Finds the literals in `rendered` whose ids are the same everywhere.
    pub(super) fn look_up(&mut self, rendered: &Rendered, encoder: &mut Encoder) {
        self.here.clear();
        for range in &rendered.literals {
            let literal = &rendered.text[range.clone()];
            let found = match self.known.get(literal) {
                Some(found) => *found,
                None if self.bytes + literal.len() > MOST => None,
                None => self.learn(literal, encoder),
            };
            self.here.extend(found.map(|found| (range.start, found)));
        }
    }

    /// The known literals in the last text, each with its byte.
    pub(super) fn stable_segments(&self) -> impl Iterator<Item = (usize, &StableSegment)> + Clone {
        self.here.iter().map(|(at, found)| (*at, &self.stable_segments[*found]))
    }

    fn learn(&mut self, literal: &str, encoder: &mut Encoder) -> Option<usize> {
        let found = encoder.stable_segment(literal).map(|stable_segments| {
            self.stable_segments.push(stable_segments);
            self.stable_segments.len() - 1
        });
        self.bytes += literal.len();
        self.known.insert(literal.into(), found);
        found
    }
}
