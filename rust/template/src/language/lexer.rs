//! Splits the source of a template into tokens: Jinja's lexer with `trim_blocks` and `lstrip_blocks`, as
//! `transformers` sets it.

use std::fmt;

use crate::failure::Refusal;
use crate::text::is_space;

/// A token of the template language.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LexerToken {
    /// Text outside of tags, its whitespace already stripped as the tags around it ask.
    Data(String),
    /// `{{`
    VariableBegin,
    /// `}}`
    VariableEnd,
    /// `{%`
    BlockBegin,
    /// `%}`
    BlockEnd,
    /// An identifier or keyword.
    Name(String),
    /// A string literal, unescaped.
    String(String),
    /// An integer literal.
    Int(i64),
    /// A literal with a fraction or exponent.
    Float(f64),
    /// An operator or bracket.
    Operator(&'static str),
    /// The end of the source.
    End,
}

impl fmt::Display for LexerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(_) => f.write_str("text"),
            Self::VariableBegin => f.write_str("{{"),
            Self::VariableEnd => f.write_str("}}"),
            Self::BlockBegin => f.write_str("{%"),
            Self::BlockEnd => f.write_str("%}"),
            Self::Name(name) => f.write_str(name),
            Self::String(_) => f.write_str("a string"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Operator(operator) => f.write_str(operator),
            Self::End => f.write_str("the end of the template"),
        }
    }
}

/// The operators, longest first: the lexer takes the first that matches.
const OPERATORS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];

/// Converts line ends to `\n`, and drops one at the end of the source, as Jinja does first.
pub(crate) fn normalize(source: &str) -> String {
    let mut source = normalize_newlines(source);
    if source.ends_with('\n') {
        source.pop();
    }
    source
}

/// Converts line ends to `\n`.
fn normalize_newlines(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

/// All tokens of a normalized source, each with its line.
pub(crate) fn tokenize(source: &str) -> Result<Vec<(LexerToken, usize)>, Refusal> {
    let mut lexer = Lexer { source, at: 0, line: 1, line_starting: true, tokens: Vec::new() };
    while lexer.at < source.len() {
        lexer.root()?;
    }
    let line = lexer.line;
    lexer.tokens.push((LexerToken::End, line));
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: usize,
    /// True if the last match ended a line. It decides whether leading blanks before a tag are stripped.
    line_starting: bool,
    tokens: Vec<(LexerToken, usize)>,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn push(&mut self, token: LexerToken) {
        self.tokens.push((token, self.line));
    }

    /// Advances by `bytes`, counting lines.
    fn advance(&mut self, bytes: usize) {
        let matched = &self.rest()[..bytes];
        self.line += matched.matches('\n').count();
        self.line_starting = matched.ends_with('\n');
        self.at += bytes;
    }

    fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::new(self.line, reason))
    }

    /// Reads text up to the next tag, then the tag.
    fn root(&mut self) -> Result<(), Refusal> {
        let rest = self.rest();
        let Some((length, kind)) = next_tag(rest) else {
            self.push(LexerToken::Data(rest.to_owned()));
            self.advance(rest.len());
            return Ok(());
        };
        let sign = sign(&rest[length + 2..]);
        let raw = (kind == '%').then(|| raw_begin(&rest[length..])).flatten();
        self.data(&rest[..length], sign, kind != '{');
        let begin = 2 + sign.map_or(0, |_| 1);
        match kind {
            '#' => {
                self.advance(length + begin);
                self.comment()
            }
            '{' => {
                self.advance(length + begin);
                self.push(LexerToken::VariableBegin);
                self.tag(true)
            }
            _ => {
                if let Some(begin) = raw {
                    self.advance(length + begin);
                    return self.raw();
                }
                self.advance(length + begin);
                self.push(LexerToken::BlockBegin);
                self.tag(false)
            }
        }
    }

    /// Emits the text before a tag, stripped as the tag asks.
    fn data(&mut self, text: &str, sign: Option<char>, block: bool) {
        let mut text = text;
        if sign == Some('-') {
            text = text.trim_end_matches(is_space);
        } else if sign.is_none() && block {
            let last_line = text.rfind('\n').map_or(0, |at| at + 1);
            if (last_line > 0 || self.line_starting) && text[last_line..].chars().all(is_space) {
                text = &text[..last_line];
            }
        }
        if !text.is_empty() {
            self.push(LexerToken::Data(text.to_owned()));
        }
    }

    fn comment(&mut self) -> Result<(), Refusal> {
        let rest = self.rest();
        let Some(at) = rest.find("#}") else { return self.refuse("missing end of comment tag") };
        let sign = rest[..at].chars().next_back().filter(|sign| matches!(sign, '-' | '+'));
        self.advance(at + 2);
        self.after_tag(sign, true);
        Ok(())
    }

    /// Skips the whitespace that is stripped after a tag.
    fn after_tag(&mut self, sign: Option<char>, trim: bool) {
        let rest = self.rest();
        let swallowed = match sign {
            Some('-') => rest.len() - rest.trim_start_matches(is_space).len(),
            None if trim => usize::from(rest.starts_with('\n')),
            _ => 0,
        };
        if swallowed > 0 {
            self.advance(swallowed);
        }
    }

    fn raw(&mut self) -> Result<(), Refusal> {
        let rest = self.rest();
        for (at, _) in rest.match_indices("{%") {
            let sign = sign(&rest[at + 2..]);
            let Some((length, end_sign)) = basic_tag(&rest[at..], "endraw") else { continue };
            self.data(&rest[..at], sign, true);
            self.advance(at + length);
            self.after_tag(end_sign, true);
            return Ok(());
        }
        self.refuse("missing end of raw directive")
    }

    /// Reads the tokens up to the end of a tag.
    fn tag(&mut self, variable: bool) -> Result<(), Refusal> {
        let mut open = Vec::new();
        let end = if variable { "}}" } else { "%}" };
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else {
                return self.refuse("the template ends inside of a tag");
            };
            if open.is_empty() {
                let sign = match first {
                    '-' => Some('-'),
                    '+' if !variable => Some('+'),
                    _ => None,
                };
                let skip = sign.map_or(0, |_| 1);
                if rest[skip..].starts_with(end) {
                    self.advance(skip + end.len());
                    self.push(if variable {
                        LexerToken::VariableEnd
                    } else {
                        LexerToken::BlockEnd
                    });
                    self.after_tag(sign, !variable);
                    return Ok(());
                }
            }
            if is_space(first) {
                let blanks = rest.len() - rest.trim_start_matches(is_space).len();
                self.advance(blanks);
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if first.is_ascii_alphabetic() || first == '_' {
                let length = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                if rest[length..].chars().next().is_some_and(|next| !next.is_ascii()) {
                    return self.refuse("names with characters outside of ASCII are not supported");
                }
                self.push(LexerToken::Name(rest[..length].to_owned()));
                self.advance(length);
            } else if first == '\'' || first == '"' {
                self.string(first)?;
            } else {
                self.operator(&mut open)?;
            }
        }
    }

    fn operator(&mut self, open: &mut Vec<&'static str>) -> Result<(), Refusal> {
        let rest = self.rest();
        let Some(operator) = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))
        else {
            return self
                .refuse(format!("unexpected character `{}`", rest.chars().next().unwrap_or(' ')));
        };
        match operator {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(operator) => {
                return self.refuse(format!("unexpected `{operator}`"));
            }
            _ => {}
        }
        self.push(LexerToken::Operator(operator));
        self.advance(operator.len());
        Ok(())
    }

    fn number(&mut self) -> Result<(), Refusal> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits =
            |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(0);
        let after_dot = self.source[..self.at].ends_with('.');
        let mut length = whole;
        if !after_dot {
            if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
                length += 1 + digits(length + 1);
            }
            if matches!(bytes.get(length), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
                let exponent =
                    if length + 1 + sign <= bytes.len() { digits(length + 1 + sign) } else { 0 };
                if exponent > 0 {
                    length += 1 + sign + exponent;
                }
            }
        }
        let literal = &rest[..length];
        if matches!(bytes.get(length), Some(b'_' | b'a'..=b'z' | b'A'..=b'Z'))
            || (whole > 1 && bytes[0] == b'0')
        {
            return self.refuse(format!(
                "the number that begins with `{literal}` is written in an unsupported way"
            ));
        }
        let token = if length > whole {
            literal.parse().ok().map(LexerToken::Float)
        } else {
            literal.parse().ok().map(LexerToken::Int)
        };
        let Some(token) = token else {
            return self.refuse(format!("the number `{literal}` is too large"));
        };
        self.push(token);
        self.advance(length);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Refusal> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|&(_, c)| {
            let closes = !escaped && c == quote;
            escaped = !escaped && c == '\\';
            closes
        });
        let Some((end, _)) = end else { return self.refuse("a string without an end") };
        match unescape(&rest[1..end]) {
            Ok(value) => self.push(LexerToken::String(value)),
            Err(reason) => return self.refuse(reason),
        }
        self.advance(end + 1);
        Ok(())
    }
}

/// The offset of the next tag, and its kind: `{`, `%` or `#`.
fn next_tag(text: &str) -> Option<(usize, char)> {
    text.match_indices('{').find_map(|(at, _)| match text.as_bytes().get(at + 1) {
        Some(b'{') => Some((at, '{')),
        Some(b'%') => Some((at, '%')),
        Some(b'#') => Some((at, '#')),
        _ => None,
    })
}

/// The sign right after the beginning of a tag.
fn sign(text: &str) -> Option<char> {
    text.chars().next().filter(|sign| matches!(sign, '-' | '+'))
}

/// Length of a `{% raw %}` at the start of `text`, with the whitespace that is stripped after it.
fn raw_begin(text: &str) -> Option<usize> {
    let (length, sign) = basic_tag(text, "raw")?;
    match sign {
        Some('-') => Some(text.len() - text[length..].trim_start_matches(is_space).len()),
        Some(_) => None,
        None => Some(length),
    }
}

/// The length of a tag that contains only `name`, and the sign at its end.
fn basic_tag(text: &str, name: &str) -> Option<(usize, Option<char>)> {
    let inner = text.strip_prefix("{%")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let inner = inner.trim_start_matches(is_space).strip_prefix(name)?.trim_start_matches(is_space);
    let sign = sign(inner);
    let inner = inner[sign.map_or(0, char::len_utf8)..].strip_prefix("%}")?;
    Some((text.len() - inner.len(), sign))
}

/// Decodes the escapes in a string literal as Python's `unicode-escape` does.
fn unescape(literal: &str) -> Result<String, String> {
    let mut value = String::with_capacity(literal.len());
    let mut chars = literal.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            Some('\n') => {}
            Some(same @ ('\\' | '\'' | '"')) => value.push(same),
            Some('a') => value.push('\x07'),
            Some('b') => value.push('\x08'),
            Some('f') => value.push('\x0c'),
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some('v') => value.push('\x0b'),
            Some(digit @ '0'..='7') => {
                let mut code = digit.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) =
                        chars.as_str().chars().next().and_then(|next| next.to_digit(8))
                    else {
                        break;
                    };
                    code = code * 8 + digit;
                    chars.next();
                }
                value.push(char::from_u32(code).ok_or("an octal escape that is no character")?);
            }
            Some(kind @ ('x' | 'u' | 'U')) => {
                let length = match kind {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits = chars
                    .as_str()
                    .get(..length)
                    .ok_or_else(|| format!("a truncated `\\{kind}` escape"))?;
                let code =
                    digits.chars().try_fold(0_u32, |code, c| Some(code * 16 + c.to_digit(16)?));
                let c = code.and_then(char::from_u32);
                value.push(c.ok_or_else(|| {
                    format!("the escape `\\{kind}{digits}`, which is no character")
                })?);
                chars = chars.as_str()[length..].chars();
            }
            Some(other) if other == 'N' || !other.is_ascii() => {
                return Err(format!("the escape `\\{other}` is not supported"));
            }
            Some(other) => value.extend(['\\', other]),
            None => return Err("a backslash at the end of a string".to_owned()),
        }
    }
    Ok(value)
}
