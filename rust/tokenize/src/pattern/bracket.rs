//! Parses sets of characters in a pattern: classes in brackets, escapes and properties.

use super::code_points::{CodePoints, probed, tabled};
use super::pattern_parser::{DEEPEST, ParsedPattern, PatternParser};

impl PatternParser<'_> {
    /// Parses an escape that stands for characters, after its backslash.
    pub(super) fn set_escape(&mut self, in_class: bool) -> ParsedPattern<Escaped> {
        let c = self.next().ok_or("a `\\` at the end")?;
        let tabled = |name: &str| tabled(name).unwrap_or_default();
        Ok(match c {
            's' => Escaped::Set(tabled("s")),
            'S' => Escaped::Set(tabled("s").complement()),
            'd' | 'D' | 'w' | 'W' | 'h' | 'H' => {
                Escaped::Set(probed(&placed(&format!("\\{c}"), in_class))?)
            }
            'p' | 'P' => Escaped::Set(self.property(c == 'P', in_class)?),
            'n' => Escaped::One('\n'),
            'r' => Escaped::One('\r'),
            't' => Escaped::One('\t'),
            'f' => Escaped::One('\u{c}'),
            'v' => Escaped::One('\u{b}'),
            'a' => Escaped::One('\u{7}'),
            'e' => Escaped::One('\u{1b}'),
            'b' if in_class => Escaped::One('\u{8}'),
            'u' => Escaped::One(self.hexadecimal(4)?),
            'x' if self.take("{") => {
                let digits = self.rest().find('}').ok_or("`\\x{` without an end")?;
                let c = self.hexadecimal(digits)?;
                self.take("}");
                Escaped::One(c)
            }
            'x' => {
                let c = self.hexadecimal(2)?;
                if !c.is_ascii() {
                    return Err("`\\x` of a byte that is no character".to_owned());
                }
                Escaped::One(c)
            }
            c if c.is_ascii_alphanumeric() => return Err(format!("`\\{c}`")),
            c => Escaped::One(c),
        })
    }

    fn hexadecimal(&mut self, digits: usize) -> ParsedPattern<char> {
        let written = self.rest().get(..digits).filter(|it| (1..=8).contains(&it.len()));
        let code_point = written
            .filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|it| u32::from_str_radix(it, 16).ok())
            .and_then(char::from_u32)
            .ok_or("an escape of no character")?;
        self.at += digits;
        Ok(code_point)
    }

    /// Parses `{…}` after `\p` or `\P`.
    fn property(&mut self, negated: bool, in_class: bool) -> ParsedPattern<CodePoints> {
        let name = self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, _) = name.ok_or("a property without `{…}`")?;
        let inner = name.strip_prefix('^');
        let plain = inner.unwrap_or(name);
        let set = match tabled(plain).filter(|_| plain != "s") {
            Some(set) => set,
            None => probed(&placed(&format!("\\p{{{plain}}}"), in_class))?,
        };
        self.at += name.len() + 2;
        Ok(if negated == inner.is_some() { set } else { set.complement() })
    }

    /// Parses a class after its `[`.
    pub(super) fn bracket(&mut self) -> ParsedPattern<CodePoints> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("classes that are nested too deeply".to_owned());
        }
        let negated = self.take("^");
        if self.peek() == Some(']') {
            return Err("a class that begins with `]`".to_owned());
        }
        let mut all: Option<CodePoints> = None;
        let mut set = CodePoints::default();
        loop {
            let unended = || "a class without an end".to_owned();
            if self.take("]") {
                break;
            }
            if self.take("&&") {
                let met = all.map_or_else(|| set.clone(), |all| all.intersection(&set));
                (all, set) = (Some(met), CodePoints::default());
                continue;
            }
            if self.rest().starts_with("[:") {
                let name = self.rest().find(":]").ok_or_else(unended)?;
                let atom = self.rest()[..name + 2].to_owned();
                self.at += atom.len();
                set = set.union(&probed(&format!("[{atom}]"))?);
                continue;
            }
            let first = match self.next().ok_or_else(unended)? {
                '[' => Escaped::Set(self.bracket()?),
                '\\' => self.set_escape(true)?,
                c => Escaped::One(c),
            };
            let first = match first {
                Escaped::Set(inner) => {
                    if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                        return Err("a `-` after a set in a class".to_owned());
                    }
                    set = set.union(&inner);
                    continue;
                }
                Escaped::One(c) => c,
            };
            let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            if !is_range {
                set = set.union(&CodePoints::of(first));
                continue;
            }
            self.at += 1;
            let last = match self.next().ok_or_else(unended)? {
                '[' => return Err("a range up to a class".to_owned()),
                '&' if self.rest().starts_with('&') => return Err("a range up to `&&`".to_owned()),
                '\\' => self.set_escape(true)?,
                c => Escaped::One(c),
            };
            let Escaped::One(last) = last else {
                return Err("a range up to a set".to_owned());
            };
            if last < first {
                return Err("a range that ends before it begins".to_owned());
            }
            set = set.union(&CodePoints::range(u32::from(first), u32::from(last)));
        }
        self.depth -= 1;
        let set = all.map_or_else(|| set.clone(), |all| all.intersection(&set));
        Ok(if negated { set.complement() } else { set })
    }
}

/// An escape, in brackets if it is in a class. Oniguruma has two tables of word characters: `²` matches `\w`,
/// but not `[\w]`.
fn placed(escape: &str, in_class: bool) -> String {
    if in_class { format!("[{escape}]") } else { escape.to_owned() }
}

/// An escape: one character, or a set of them.
pub(super) enum Escaped {
    One(char),
    Set(CodePoints),
}

impl CodePoints {
    /// True if the set has no letters and no long ranges, so that case does not matter.
    pub(super) fn is_caseless(&self) -> bool {
        self.ranges().iter().all(|range| {
            (range.0..=range.1).filter_map(char::from_u32).take(0x1000).all(|c| !c.is_alphabetic())
                && range.1 - range.0 < 0x1000
        })
    }
}

/// All characters that an ASCII character matches if case is ignored.
pub(super) fn folded(c: char) -> ParsedPattern<CodePoints> {
    if !c.is_ascii() {
        return Err(format!("`{c}` under `(?i)`"));
    }
    let same = [c.to_ascii_lowercase(), c.to_ascii_uppercase()];
    let other = match c {
        's' | 'S' => Some('\u{17f}'),
        'k' | 'K' => Some('\u{212a}'),
        _ => None,
    };
    let points = same.into_iter().chain(other).map(|c| (u32::from(c), u32::from(c)));
    Ok(CodePoints::from_ranges(points))
}
