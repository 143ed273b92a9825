//! [`LineCursor`]: a position in a line of JSON, moved over values without building them.
//!
//! It accepts common JSON and returns `None` for everything else, valid or not. Then the caller parses the
//! line with [`json`], which alone reports errors. So it never accepts what [`json`] refuses.

use jiter::Jiter;

use super::json::{self, MAX_DEPTH};
use fastpack_template::json::Json;

/// A place in a line.
pub(crate) struct LineCursor<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> LineCursor<'l> {
    /// The beginning of a line; `None` if the line is not UTF-8.
    pub(crate) fn new(line: &'l [u8]) -> Option<Self> {
        Some(Self { line: simdutf8::basic::from_utf8(line).ok()?, at: 0 })
    }

    /// The next byte that is no white space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.line.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(*other),
            }
        }
    }

    /// Takes `byte`, which must come next.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    /// Takes `byte` if it comes next.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    /// True if nothing is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Moves over an object. `entry` must take the value of each key.
    pub(crate) fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, &'l str) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Some(());
        }
        loop {
            let key = self.word()?;
            self.expect(b':')?;
            entry(self, key)?;
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Moves over an array. `item` must take each value.
    pub(crate) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Some(());
        }
        loop {
            item(self)?;
            if !self.take(b',') {
                return self.expect(b']');
            }
        }
    }

    /// Takes a string without escapes, such as a key.
    #[inline]
    pub(crate) fn word(&mut self) -> Option<&'l str> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.line.as_bytes().get(self.at)? {
                b'"' => break,
                b'\\' | 0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.line[start..self.at - 1])
    }

    /// Takes a string and appends it to `out`.
    pub(crate) fn text(&mut self, out: &mut String) -> Option<()> {
        self.expect(b'"')?;
        loop {
            let rest = &self.line[self.at..];
            let end = plain(rest.as_bytes());
            out.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes().get(end)? {
                b'"' => return Some(()),
                b'\\' => out.push(self.escaped()?),
                _ => return None,
            }
        }
    }

    /// The character of an escape, after its backslash.
    fn escaped(&mut self) -> Option<char> {
        let kind = *self.line.as_bytes().get(self.at)?;
        self.at += 1;
        Some(match kind {
            b'n' => '\n',
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let unit = self.unit()?;
                match char::from_u32(unit) {
                    Some(character) => character,
                    None => self.pair(unit)?,
                }
            }
            _ => return None,
        })
    }

    /// Takes the second half of a surrogate pair.
    fn pair(&mut self, high: u32) -> Option<char> {
        if high >= 0xDC00 || !self.line[self.at..].starts_with("\\u") {
            return None;
        }
        self.at += 2;
        let low = self.unit()?;
        let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
        char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + low)
    }

    /// Takes the four digits of a UTF-16 unit.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.line.as_bytes().get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    }

    /// Takes `null` if it comes next.
    pub(crate) fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.written("null")
    }

    /// Takes any value at nesting depth `depth`, and returns its text too.
    pub(crate) fn value(&mut self, depth: usize) -> Option<(Json, &'l str)> {
        self.peek()?;
        let rest = &self.line[self.at..];
        let (value, taken) = json::prefix(rest.as_bytes(), depth)?;
        self.at += taken;
        Some((value, &rest[..taken]))
    }

    /// Takes `text` if it comes next.
    pub(crate) fn written(&mut self, text: &str) -> bool {
        let next = self.peek().is_some() && self.line[self.at..].starts_with(text);
        self.at += if next { text.len() } else { 0 };
        next
    }

    /// Takes any value.
    pub(crate) fn skip(&mut self) -> Option<()> {
        self.peek()?;
        let rest = &self.line.as_bytes()[self.at..];
        let mut json = Jiter::new(rest).with_allow_inf_nan();
        let peek = json.peek().ok()?;
        if peek.is_num() {
            json.known_number(peek).ok()?;
        } else {
            json.known_skip(peek).ok()?;
        }
        let taken = &rest[..json.current_index()];
        self.at += taken.len();
        // A skipped value is not checked for lone surrogates, nor to the depth that values may have.
        let opened = || taken.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
        let unsure = memchr::memmem::find(taken, b"\\u").is_some()
            || taken.len() > MAX_DEPTH && opened() > MAX_DEPTH;
        (!unsure).then_some(())
    }
}

/// The number of bytes before the first quote, backslash or control character.
///
/// Texts have one in every line. With a separate search for each kind, parsing 30 MB of English took 38 ms
/// instead of 25 (2026-11-22, `make bench-texts`).
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // The highest bit of each byte below a limit of at most 0x80; above the first such byte, of others too.
    let below = |word: u64, limit: u8| word.wrapping_sub(u64::from(limit) * EACH) & !word & HIGH;
    let is = |word: u64, byte: u8| below(word ^ (u64::from(byte) * EACH), 1);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = below(word, b' ') | is(word, b'"') | is(word, b'\\');
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..b' ');
    bytes.len() - rest.len() + rest.iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::plain;

    proptest! {
        #[test]
        fn a_string_is_plain_up_to_what_has_to_be_escaped(bytes in prop::collection::vec(
            prop_oneof![30 => any::<u8>(), 1 => Just(b'"'), 1 => Just(b'\\'), 1 => 0..0x20_u8, 60 => 0x20..0x21_u8],
            0..60,
        )) {
            let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(plain(&bytes), bytes.iter().position(special).unwrap_or(bytes.len()));
        }
    }
}
