//! Parses the text of a pattern to its tree, with Oniguruma's syntax.
//!
//! The language: classes with ranges, nesting and `&&`; properties; `(?i:…)` on ASCII; alternation; greedy
//! and lazy quantifiers of any part, and possessive quantifiers of one character; conditions on the character
//! before or after a position (look-around of one character, `^`, `$`, `\A`, `\z`, `\b`). The error names
//! anything else in a pattern.

use super::bracket::{Escaped, folded};
use super::code_points::{CodePoints, probed};
use super::pattern_node::{Edge, PatternNode, Repetitions};
use super::pattern_parser::{DEEPEST, ParsedPattern, PatternParser};

/// The largest number in a quantifier: each repetition is a copy.
const MOST_TIMES: u32 = 1000;

/// Pairs of letters that match one other character if case is ignored, as `ß` matches `ss`; such pairs are
/// refused.
const FOLDED_PAIRS: [&str; 5] = ["ss", "st", "ff", "fi", "fl"];

/// Parses a pattern to its tree.
pub(super) fn parse(text: &str) -> ParsedPattern<PatternNode> {
    let mut parser = PatternParser { text, at: 0, depth: 0, insensitive: false, folded: None };
    let node = parser.choice()?;
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err("an unmatched `)`".to_owned()),
    }
}

impl<'a> PatternParser<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// Parses alternatives, up to the end of the group.
    fn choice(&mut self) -> ParsedPattern<PatternNode> {
        let insensitive = self.insensitive;
        let mut parts = vec![self.sequence()?];
        while self.take("|") {
            self.folded = None;
            parts.push(self.sequence()?);
        }
        self.insensitive = insensitive;
        Ok(if parts.len() == 1 { parts.remove(0) } else { PatternNode::Choice(parts) })
    }

    fn sequence(&mut self) -> ParsedPattern<PatternNode> {
        let mut parts = Vec::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let before = self.folded;
            if let Some(part) = self.atom()? {
                let counted = self.quantified(part)?;
                self.check_fold(before)?;
                parts.push(counted);
            }
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { PatternNode::Sequence(parts) })
    }

    /// Refuses two letters that one character can match.
    fn check_fold(&self, before: Option<char>) -> ParsedPattern<()> {
        let (Some(before), Some(after)) = (before, self.folded) else { return Ok(()) };
        let pair: String = [before, after].iter().collect();
        if FOLDED_PAIRS.contains(&pair.as_str()) {
            return Err(format!("`{pair}` under `(?i)`, which one character can stand for"));
        }
        Ok(())
    }

    /// Parses one part without its quantifier; `None` if it only sets an option.
    fn atom(&mut self) -> ParsedPattern<Option<PatternNode>> {
        let start = self.at;
        self.folded = None;
        let Some(c) = self.next() else { return Ok(None) };
        let node = match c {
            '(' => return self.group(),
            '[' => {
                let set = self.bracket()?;
                self.folded_set(set, start)?
            }
            '.' => PatternNode::Set(CodePoints::of('\n').complement()),
            '^' => begin_of_line(),
            '$' => PatternNode::Ahead(Edge { set: CodePoints::of('\n'), end: true }),
            '\\' => self.escape()?,
            '*' | '+' | '?' => return Err(format!("`{c}` with nothing to repeat")),
            '{' => return Err("`{` without something to repeat".to_owned()),
            literal => self.literal(literal)?,
        };
        Ok(Some(node))
    }

    /// A character, or, if case is ignored, all characters that match it.
    fn literal(&mut self, c: char) -> ParsedPattern<PatternNode> {
        if !self.insensitive {
            return Ok(PatternNode::Set(CodePoints::of(c)));
        }
        let set = folded(c)?;
        self.folded = c.is_ascii_alphabetic().then(|| c.to_ascii_lowercase());
        Ok(PatternNode::Set(set))
    }

    /// A class, or, if case is ignored, all characters that match one of its characters.
    fn folded_set(&mut self, set: CodePoints, start: usize) -> ParsedPattern<PatternNode> {
        if !self.insensitive {
            return Ok(PatternNode::Set(set));
        }
        let written = &self.text[start..self.at];
        let is_ascii = set.ranges().iter().all(|range| range.1 < 0x80);
        if written.starts_with("[^") || !is_ascii {
            return Err(format!("the class `{written}` under `(?i)`"));
        }
        let mut all = CodePoints::default();
        for code_point in set.ranges().iter().flat_map(|range| range.0..=range.1) {
            all = all.union(&folded(char::from_u32(code_point).unwrap_or('\0'))?);
        }
        // It is not known which letter of the class the next letter would form a pair with.
        self.folded = None;
        Ok(PatternNode::Set(all))
    }

    fn group(&mut self) -> ParsedPattern<Option<PatternNode>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("groups that are nested too deeply".to_owned());
        }
        let insensitive = self.insensitive;
        let node = if self.take("?") {
            let start = self.at;
            if self.take(":") {
                self.choice()?
            } else if self.take("=") {
                let inner = self.choice()?;
                PatternNode::Ahead(edge(&inner, false)?)
            } else if self.take("!") {
                let inner = self.choice()?;
                PatternNode::Ahead(edge(&inner, false)?.not())
            } else if self.take("<=") {
                let inner = self.choice()?;
                PatternNode::Behind(edge(&inner, true)?)
            } else if self.take("<!") {
                let inner = self.choice()?;
                PatternNode::Behind(edge(&inner, true)?.not())
            } else if self.take(">") {
                let inner = self.choice()?;
                atomic(inner)?
            } else if self.take("i:") || self.take("-i:") {
                self.insensitive = !self.text[start..].starts_with('-');
                self.choice()?
            } else if self.take("i)") || self.take("-i)") {
                // The option holds up to the end of the surrounding group, across its alternatives.
                self.insensitive = !self.text[start..].starts_with('-');
                self.depth -= 1;
                let rest = self.choice()?;
                return Ok(Some(rest));
            } else {
                let kind: String = self.rest().chars().take(2).collect();
                return Err(format!("the group `(?{kind}`"));
            }
        } else {
            self.choice()?
        };
        self.insensitive = insensitive;
        self.folded = None;
        self.depth -= 1;
        if self.take(")") { Ok(Some(node)) } else { Err("a group without an end".to_owned()) }
    }

    /// Parses an escape outside of brackets, after its backslash.
    fn escape(&mut self) -> ParsedPattern<PatternNode> {
        let nothing = Edge { set: CodePoints::default(), end: true };
        let edge = match self.peek() {
            Some('A') => PatternNode::Behind(nothing),
            Some('z') => PatternNode::Ahead(nothing),
            Some(kind @ ('b' | 'B')) => {
                word_edge(&Edge { set: probed(r"\w")?, end: false }, kind == 'b')
            }
            _ => return self.escaped_set(),
        };
        self.next();
        Ok(edge)
    }

    fn escaped_set(&mut self) -> ParsedPattern<PatternNode> {
        let start = self.at - 1;
        match self.set_escape(false)? {
            Escaped::Set(set) if self.insensitive && !set.is_caseless() => {
                Err(format!("`{}` under `(?i)`", &self.text[start..self.at]))
            }
            Escaped::Set(set) => Ok(PatternNode::Set(set)),
            Escaped::One(c) => self.literal(c),
        }
    }

    /// Parses the quantifiers of a part.
    fn quantified(&mut self, mut part: PatternNode) -> ParsedPattern<PatternNode> {
        let mut outer = false;
        while let Some((times, interval)) = self.times()? {
            if matches!(part, PatternNode::Ahead(_) | PatternNode::Behind(_)) || part.is_nullable()
            {
                return Err("a quantifier after what can match nothing".to_owned());
            }
            let lazy = !(interval && times.most == Some(times.least)) && self.take("?");
            let possessive = !lazy && !interval && self.take("+");
            if let PatternNode::Repeat(_, inner) = &part
                && (lazy || inner.lazy)
            {
                return Err("a lazy quantifier of a quantifier".to_owned());
            }
            if possessive {
                let set = part.single().filter(|_| !outer);
                let set = set.ok_or("a possessive quantifier of more than one character")?;
                part = possessive_of(set, times);
            } else {
                part = PatternNode::Repeat(Box::new(part), Repetitions { lazy, ..times });
            }
            outer = true;
        }
        Ok(part)
    }

    /// Parses a quantifier; also says whether it is written in braces.
    fn times(&mut self) -> ParsedPattern<Option<(Repetitions, bool)>> {
        let simple = |least, most| Repetitions { least, most, lazy: false };
        let found = match self.peek() {
            Some('?') => simple(0, Some(1)),
            Some('*') => simple(0, None),
            Some('+') => simple(1, None),
            Some('{') => return self.interval().map(Some),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some((found, false)))
    }

    fn interval(&mut self) -> ParsedPattern<(Repetitions, bool)> {
        let unknown = || "a `{` that is no quantifier".to_owned();
        let (written, _) = self.rest()[1..].split_once('}').ok_or_else(unknown)?;
        let (least, most) = written.split_once(',').map_or((written, None), |(a, b)| (a, Some(b)));
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = is_number.then(|| digits.parse().ok()).flatten();
            number.filter(|it: &u32| *it <= MOST_TIMES).ok_or_else(unknown)
        };
        let (least, most) = match (least, most) {
            (least, None) => (number(least)?, Some(number(least)?)),
            ("", Some(most)) => (0, Some(number(most)?)),
            (least, Some("")) => (number(least)?, None),
            (least, Some(most)) => (number(least)?, Some(number(most)?)),
        };
        if most.is_some_and(|most| most < least || most == 0) {
            return Err(unknown());
        }
        self.at += written.len() + 2;
        Ok((Repetitions { least, most, lazy: false }, true))
    }
}

/// `^`: the start of the text, or a position after a line feed, but not the end of the text.
fn begin_of_line() -> PatternNode {
    let start = PatternNode::Behind(Edge { set: CodePoints::default(), end: true });
    let any = Edge { set: CodePoints::default().complement(), end: false };
    let line = PatternNode::Behind(Edge { set: CodePoints::of('\n'), end: false });
    PatternNode::Choice(vec![start, PatternNode::Sequence(vec![line, PatternNode::Ahead(any)])])
}

/// `\b` or `\B`.
fn word_edge(word: &Edge, differ: bool) -> PatternNode {
    let side = |before: &Edge, after: Edge| {
        PatternNode::Sequence(vec![PatternNode::Behind(before.clone()), PatternNode::Ahead(after)])
    };
    let (same, other) = (word.clone(), word.not());
    if differ {
        PatternNode::Choice(vec![side(word, other.clone()), side(&other, same)])
    } else {
        PatternNode::Choice(vec![side(word, same), side(&other, other.clone())])
    }
}

/// The condition of a look-around; it holds at an end of the text if the inner part says so.
fn edge(inner: &PatternNode, behind: bool) -> ParsedPattern<Edge> {
    let mut whole = Edge { set: CodePoints::default(), end: false };
    let parts = match inner {
        PatternNode::Choice(parts) => parts.as_slice(),
        part => std::slice::from_ref(part),
    };
    for part in parts {
        match part {
            PatternNode::Ahead(edge) if !behind => {
                whole = Edge { set: whole.set.union(&edge.set), end: whole.end || edge.end };
            }
            PatternNode::Behind(edge) if behind => {
                whole = Edge { set: whole.set.union(&edge.set), end: whole.end || edge.end };
            }
            // One character is enough, before any text.
            PatternNode::Repeat(one, times) if !behind && times.least == 1 => {
                let set = one.single().ok_or("a look-around of more than one character")?;
                whole.set = whole.set.union(&set);
            }
            part => {
                let set = part.single().ok_or("a look-around of more than one character")?;
                whole.set = whole.set.union(&set);
            }
        }
    }
    Ok(whole)
}

/// A possessive repetition of one character: no such character may follow it, unless it has the most
/// repetitions.
fn possessive_of(set: CodePoints, times: Repetitions) -> PatternNode {
    let none = PatternNode::Ahead(Edge { set: set.clone(), end: false }.not());
    let one = PatternNode::Set(set);
    if times.most == Some(1) {
        return PatternNode::Choice(vec![one, none]);
    }
    PatternNode::Sequence(vec![PatternNode::Repeat(Box::new(one), times), none])
}

/// `(?>…)` around one repeated character.
fn atomic(inner: PatternNode) -> ParsedPattern<PatternNode> {
    match inner {
        PatternNode::Set(_) => Ok(inner),
        PatternNode::Repeat(part, times)
            if !times.lazy
                && (times.most.is_none()
                    || times == Repetitions { least: 0, most: Some(1), lazy: false }) =>
        {
            let set = part.single().ok_or("an atomic group of more than one repeated character")?;
            Ok(possessive_of(set, times))
        }
        _ => Err("an atomic group of more than one repeated character".to_owned()),
    }
}
