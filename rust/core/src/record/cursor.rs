//! [`Cursor`]: a place in a line of JSON, moved over what stands there without making values of it.
//!
//! It takes what is ordinary and answers `None` to all else, valid or not: whoever asks reads the line in the
//! general way then, which alone says what is wrong. So it never takes what [`json`] would refuse.

use jiter::Jiter;

use super::json::{self, MAX_DEPTH};
use super::value::Value;

/// A place in a line.
pub(super) struct Cursor<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Cursor<'l> {
    /// The beginning of a line; nothing where it is not UTF-8.
    pub(super) fn new(line: &'l [u8]) -> Option<Self> {
        Some(Self { line: simdutf8::basic::from_utf8(line).ok()?, at: 0 })
    }

    /// The next byte that is no space.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.line.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(*other),
            }
        }
    }

    /// Takes a byte that has to come next.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    /// Takes a byte if it comes next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    /// Whether nothing is left.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Walks over an object; `entry` has to take the value of each key.
    pub(super) fn object(
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

    /// Walks over an array; `item` has to take each value.
    pub(super) fn array(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
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

    /// Takes a string that stands in the line as it is, such as a key.
    #[inline]
    pub(super) fn word(&mut self) -> Option<&'l str> {
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
    pub(super) fn text(&mut self, out: &mut String) -> Option<()> {
        self.expect(b'"')?;
        loop {
            let rest = &self.line[self.at..];
            let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
            let part = &rest[..end];
            // The least byte, not the first below, so that the compiler looks at many at once.
            if part.bytes().fold(u8::MAX, u8::min) < 0x20 {
                return None;
            }
            out.push_str(part);
            self.at += end + 1;
            if rest.as_bytes()[end] == b'"' {
                return Some(());
            }
            out.push(self.escaped()?);
        }
    }

    /// The character that an escape stands for, whose backslash was taken.
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
    pub(super) fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.written("null")
    }

    /// Takes any value, which stands `depth` levels deep, and tells how it is written.
    pub(super) fn value(&mut self, depth: usize) -> Option<(Value, &'l str)> {
        self.peek()?;
        let rest = &self.line[self.at..];
        let (value, taken) = json::prefix(rest.as_bytes(), depth)?;
        self.at += taken;
        Some((value, &rest[..taken]))
    }

    /// Takes what comes next if it is written so.
    pub(super) fn written(&mut self, text: &str) -> bool {
        let next = self.peek().is_some() && self.line[self.at..].starts_with(text);
        self.at += if next { text.len() } else { 0 };
        next
    }

    /// Takes any value.
    pub(super) fn skip(&mut self) -> Option<()> {
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
        // What is skipped is not looked at for half a surrogate pair, nor as deep as values are made.
        let opened = || taken.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
        let unsure = memchr::memmem::find(taken, b"\\u").is_some()
            || taken.len() > MAX_DEPTH && opened() > MAX_DEPTH;
        (!unsure).then_some(())
    }
}
