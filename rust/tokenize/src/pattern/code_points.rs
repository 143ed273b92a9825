//! Sets of code points, as the linked regex engine defines them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tokenizers::utils::SysRegex;

use crate::unicode::{self, Class};

/// One more than the largest code point.
const CODE_POINTS: u32 = 0x11_0000;

/// The number of characters in one text for the regex engine.
const CHARACTERS_PER_TEXT: usize = 1 << 16;

/// A set of code points: ascending ranges, first and last, that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodePoints(Vec<(u32, u32)>);

impl CodePoints {
    /// The set of one character.
    pub(super) fn of(c: char) -> Self {
        Self(vec![(u32::from(c), u32::from(c))])
    }

    /// The set of the characters from `first` to `last`.
    pub(super) fn range(first: u32, last: u32) -> Self {
        Self(vec![(first, last)])
    }

    /// The set of all characters that `is` accepts.
    pub(super) fn all_that(is: impl Fn(char) -> bool) -> Self {
        let chosen = (0..CODE_POINTS).filter(|it| char::from_u32(*it).is_some_and(&is));
        Self::from_ranges(chosen.map(|it| (it, it)))
    }

    /// The union of ranges in any order.
    pub(super) fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The ranges, ascending.
    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// True if a code point is in the set.
    pub(super) fn has(&self, code_point: u32) -> bool {
        let after = self.0.partition_point(|range| range.0 <= code_point);
        after.checked_sub(1).is_some_and(|index| code_point <= self.0[index].1)
    }

    /// The union of both sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::from_ranges(self.0.iter().chain(&other.0).copied())
    }

    /// The complement of the set.
    pub(super) fn complement(&self) -> Self {
        let (mut next, mut rest) = (0, Vec::with_capacity(self.0.len() + 1));
        for (first, last) in &self.0 {
            if next < *first {
                rest.push((next, first - 1));
            }
            next = last + 1;
        }
        if next < CODE_POINTS {
            rest.push((next, CODE_POINTS - 1));
        }
        Self(rest)
    }

    /// The intersection of both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.complement().union(&other.complement()).complement()
    }
}

/// The set of a general category, or of `\s`, from the table of character classes; `None` if the table does
/// not have it.
pub(super) fn tabled(name: &str) -> Option<CodePoints> {
    let classes: &[Class] = match name {
        "L" => &[Class::Upper, Class::Lower, Class::Title, Class::Modifier, Class::Caseless],
        "Lu" => &[Class::Upper],
        "Ll" => &[Class::Lower],
        "Lt" => &[Class::Title],
        "Lm" => &[Class::Modifier],
        "Lo" => &[Class::Caseless],
        "M" => &[Class::Mark],
        "N" => &[Class::Number],
        "P" => &[Class::Punctuation],
        "S" => &[Class::Symbol],
        "s" => &[Class::Space, Class::Newline],
        _ => return None,
    };
    let runs = unicode::class_runs();
    let ends = runs.iter().skip(1).map(|run| run.0).chain([CODE_POINTS]);
    let chosen =
        runs.iter().zip(ends).filter(|(run, _)| classes.iter().any(|it| *it as u8 == run.1));
    Some(CodePoints::from_ranges(chosen.map(|(run, end)| (run.0, end - 1))))
}

/// The answers of the regex engine so far. They never change, and there are a few hundred names.
static PROBED: LazyLock<Mutex<HashMap<String, CodePoints>>> = LazyLock::new(Mutex::default);

/// The set of all characters that the linked engine matches with `atom`, which matches one character.
pub(super) fn probed(atom: &str) -> Result<CodePoints, String> {
    let known = || PROBED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(set) = known().get(atom) {
        return Ok(set.clone());
    }
    let set = probe(atom)?;
    known().insert(atom.to_owned(), set.clone());
    Ok(set)
}

fn probe(atom: &str) -> Result<CodePoints, String> {
    let pattern = SysRegex::new(&format!("(?:{atom})+")).map_err(|error| error.to_string())?;
    let scalars: Vec<char> = (0..CODE_POINTS).filter_map(char::from_u32).collect();
    let mut ranges = Vec::new();
    for together in scalars.chunks(CHARACTERS_PER_TEXT) {
        let text: String = together.iter().collect();
        for (start, end) in pattern.find_iter(&text) {
            let matched = &text[start..end];
            let (first, last) = (matched.chars().next(), matched.chars().next_back());
            if let (Some(first), Some(last)) = (first, last) {
                ranges.push((u32::from(first), u32::from(last)));
            }
        }
    }
    // No text contains surrogates, so a range may span them.
    let surrogates = ranges.iter().any(|(_, last)| *last == 0xD7FF)
        && ranges.iter().any(|(first, _)| *first == 0xE000);
    ranges.extend(surrogates.then_some((0xD800, 0xDFFF)));
    Ok(CodePoints::from_ranges(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_engine_says() {
        for name in ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S", "s"] {
            let atom = if name == "s" { r"\s".to_owned() } else { format!(r"\p{{{name}}}") };
            let scalars = CodePoints::range(0xD800, 0xDFFF).complement();
            let found = probed(&atom).expect("a sound atom").intersection(&scalars);
            assert_eq!(tabled(name).map(|set| set.intersection(&scalars)), Some(found), "{name}");
        }
    }

    #[test]
    fn a_set_and_its_complement_have_all_characters() {
        let set = CodePoints::from_ranges([(5, 9), (0, 1), (8, 20), (21, 21)]);
        assert_eq!(set.ranges(), [(0, 1), (5, 21)]);
        assert_eq!(set.complement().complement(), set);
        assert!(set.intersection(&set.complement()).ranges().is_empty());
        assert_eq!(set.union(&set.complement()).ranges(), [(0, CODE_POINTS - 1)]);
        assert!(set.has(5) && set.has(21) && !set.has(22) && !set.has(2));
    }
}
