//! Python's rules for texts: whitespace, case, and how floats and strings are written.

use std::fmt::Write as _;

use crate::failure::{Failure, Outcome};
use crate::limits::{Meter, pieces};

/// Whether `str.isspace` holds: Unicode's whitespace and four separators of ASCII.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Writes a float as Python's `repr` does.
pub(crate) fn write_float(out: &mut String, value: f64) {
    if value.is_nan() {
        out.push_str("nan");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "inf" } else { "-inf" });
        return;
    }
    // Rust and Python both write the shortest digits that read back the same; they differ in when to use an exponent.
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        out.push_str(&plain);
        if !plain.contains('.') {
            out.push_str(".0");
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a string cannot fail.
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    }
}

/// Writes a string as Python's `repr` does, quotes and all.
pub(crate) fn write_repr(out: &mut String, text: &str, meter: &Meter<'_>) -> Outcome<()> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    meter.write_char(out, quote)?;
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        let before = out.len();
        write_escaped(out, piece, quote)?;
        // A character takes at most four bytes for each of its own.
        meter.hold(out.len() - before)?;
    }
    meter.write_char(out, quote)
}

/// Writes a piece of a string, escaped for this quote.
fn write_escaped(out: &mut String, text: &str, quote: char) -> Outcome<()> {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            '\0'..='\u{a0}' | '\u{ad}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if is_printable(c) => out.push(c),
            c => {
                return Err(Failure::unsupported(format_args!(
                    "printing a list or dict that holds the character U+{:04X}",
                    u32::from(c)
                )));
            }
        }
    }
    Ok(())
}

/// Whether every supported Python takes the character for printable. Some printable characters are left out,
/// and so are refused, which saves Unicode's tables.
fn is_printable(c: char) -> bool {
    matches!(c,
        '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{377}' | '\u{391}'..='\u{3a1}' | '\u{3a3}'..='\u{52f}'
        | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}' | '\u{660}'..='\u{66c}' | '\u{905}'..='\u{939}'
        | '\u{e01}'..='\u{e3a}' | '\u{1e00}'..='\u{1eff}'
        | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{20a0}'..='\u{20bf}' | '\u{2100}'..='\u{218b}'
        | '\u{2190}'..='\u{2426}' | '\u{2460}'..='\u{2b73}' | '\u{3001}'..='\u{303f}' | '\u{3041}'..='\u{3096}'
        | '\u{3099}'..='\u{30ff}' | '\u{3105}'..='\u{312f}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9ffc}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{fe0f}' | '\u{ff01}'..='\u{ffbe}'
        | '\u{1f300}'..='\u{1f6d5}' | '\u{1f90c}'..='\u{1f971}' | '\u{20000}'..='\u{2a6dd}')
}

/// Whether some Python's tables of upper and lower case differ from Rust's for a character: those added with
/// Unicode 15 or later.
fn is_new_letter(c: char) -> bool {
    matches!(c, '\u{19b}' | '\u{264}' | '\u{1c89}' | '\u{1c8a}' | '\u{a7cb}'..='\u{a7dc}' | '\u{10d50}'..='\u{10d85}'
        | '\u{16ea0}'..='\u{16ed3}')
}

fn check_letters(text: &str) -> Outcome<()> {
    match text.chars().find(|c| is_new_letter(*c)) {
        Some(c) => Err(Failure::unsupported(format_args!(
            "the case of the character U+{:04X}",
            u32::from(c)
        ))),
        None => Ok(()),
    }
}

/// `str.upper`
pub(crate) fn upper(text: &str, meter: &Meter<'_>) -> Outcome<String> {
    by_pieces(text, meter, str::to_uppercase)
}

/// `str.lower`
pub(crate) fn lower(text: &str, meter: &Meter<'_>) -> Outcome<String> {
    if text.contains('Σ') {
        // The lower case of `Σ` depends on the characters around it.
        meter.characters(text.len())?;
        meter.hold(text.len())?;
        check_letters(text)?;
        let made = text.to_lowercase();
        meter.hold(made.len())?;
        meter.release(text.len());
        return Ok(made);
    }
    by_pieces(text, meter, str::to_lowercase)
}

/// Applies `change` to the pieces of a text, for a change that gives the same for pieces.
fn by_pieces(text: &str, meter: &Meter<'_>, change: impl Fn(&str) -> String) -> Outcome<String> {
    let mut made = String::new();
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        check_letters(piece)?;
        let changed = change(piece);
        meter.hold(changed.len())?;
        if made.is_empty() {
            made = changed;
        } else {
            made.push_str(&changed);
        }
    }
    Ok(made)
}

/// `str.capitalize`
pub(crate) fn capitalize(text: &str, meter: &Meter<'_>) -> Outcome<String> {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return Ok(String::new()) };
    let plain = matches!(first, '\0'..='\u{ff}' | '\u{391}'..='\u{3a9}' | '\u{3b1}'..='\u{3c9}' | '\u{400}'..='\u{45f}')
        && first != 'ß'
        || !(first.is_lowercase() || first.is_uppercase());
    if !plain
        || matches!(first, '\u{1c4}'..='\u{1cc}' | '\u{1f1}'..='\u{1f3}' | '\u{10d0}'..='\u{10ff}')
        || text.contains('Σ')
    {
        return Err(Failure::unsupported(format_args!("capitalizing `{first}`")));
    }
    let mut made = String::new();
    for c in first.to_uppercase() {
        meter.write_char(&mut made, c)?;
    }
    check_letters(&text[..first.len_utf8()])?;
    let rest = lower(chars.as_str(), meter)?;
    made.push_str(&rest);
    Ok(made)
}

/// `str.title`, for ASCII.
pub(crate) fn title(text: &str, meter: &Meter<'_>) -> Outcome<String> {
    meter.bytes(text.len())?;
    if !text.is_ascii() {
        return Err(Failure::unsupported("the title case of text outside of ASCII"));
    }
    let mut after_letter = false;
    let mut made = String::new();
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        meter.hold(piece.len())?;
        made.extend(piece.chars().map(|c| {
            let cased = if after_letter { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
            after_letter = c.is_ascii_alphabetic();
            cased
        }));
    }
    Ok(made)
}

/// The byte at which the character number `index` begins, or the end.
pub(crate) fn byte_of(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}
