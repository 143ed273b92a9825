//! The characters of a BPE model.

use crate::models::merge::{NONE, Symbol};

/// Characters of a page, which lie side by side in memory: those of a script share a few pages.
const PAGE: usize = 256;

/// The number of pages of all code points.
const PAGES: usize = 0x11_0000 / PAGE;

/// The symbol of each character that has a token.
pub(crate) struct SymbolAlphabet {
    /// The page of each [`PAGE`] code points.
    places: Box<[u16; PAGES]>,
    /// The symbols of a page's characters. The first page has none.
    pages: Vec<[Symbol; PAGE]>,
}

impl SymbolAlphabet {
    /// The alphabet of these characters, given by their code points; of equal ones, the last counts.
    pub(crate) fn new(characters: impl Iterator<Item = (u32, Symbol)>) -> Self {
        let mut alphabet = Self { places: Box::new([0; PAGES]), pages: vec![[NONE; PAGE]] };
        for (code_point, symbol) in characters {
            let place = &mut alphabet.places[code_point as usize / PAGE];
            if *place == 0 {
                *place = u16::try_from(alphabet.pages.len()).expect("there are 4,352 pages");
                alphabet.pages.push([NONE; PAGE]);
            }
            alphabet.pages[usize::from(*place)][code_point as usize % PAGE] = symbol;
        }
        alphabet
    }

    /// The symbol of a character, or [`NONE`].
    #[inline]
    pub(crate) fn get(&self, code_point: u32) -> Symbol {
        let place = self.places[code_point as usize / PAGE];
        self.pages[usize::from(place)][code_point as usize % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_its_own_symbol_or_none() {
        let listed =
            [('a', 1), ('ÿ', 2), ('Ā', 3), ('中', 4), ('a', 5), ('\u{10FFFF}', 6), ('\0', 7)];
        let alphabet =
            SymbolAlphabet::new(listed.iter().map(|(c, symbol)| (u32::from(*c), *symbol)));
        for c in '\0'..=char::MAX {
            let last = listed.iter().rfind(|(other, _)| *other == c);
            assert_eq!(alphabet.get(u32::from(c)), last.map_or(NONE, |(_, symbol)| *symbol));
        }
    }
}
