//! Python's rules for texts: whitespace, case, and how floats and strings are written.

use std::fmt::Write as _;

use crate::failure::{Failure, RenderResult};
use crate::render_limits::{Meter, pieces};

/// True if `str.isspace` holds: Unicode's whitespace and four separators of ASCII.
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
pub(crate) fn write_repr(out: &mut String, text: &str, meter: &Meter<'_>) -> RenderResult<()> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    meter.write_char(out, quote)?;
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        let before = out.len();
        write_escaped(out, piece, quote)?;
        // A character takes at most four bytes for each of its own: `\u200b` for three.
        meter.hold(out.len() - before)?;
    }
    meter.write_char(out, quote)
}

/// Writes a piece of a string, escaped for this quote.
fn write_escaped(out: &mut String, text: &str, quote: char) -> RenderResult<()> {
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
            c if !is_printable(c) => {
                let code = u32::from(c);
                let _ = if code <= 0xffff {
                    write!(out, "\\u{code:04x}")
                } else {
                    write!(out, "\\U{code:08x}")
                };
            }
            c if is_new_character(c) => {
                return Err(Failure::unsupported(format_args!(
                    "printing a list or dict that holds the character U+{:04X}",
                    u32::from(c)
                )));
            }
            c => out.push(c),
        }
    }
    Ok(())
}

/// True if Python takes the character for printable. Both leave out the same categories of Unicode.
fn is_printable(c: char) -> bool {
    // A mark on the character before it is printable behind one.
    c.escape_debug().next() == Some(c) || format!("x{c}").escape_debug().nth(1) == Some(c)
}

/// True if versions of Python differ about a printable character: one that was added with Unicode 15 or later, or lies between
/// such.
fn is_new_character(c: char) -> bool {
    matches!(c,
         '\u{88f}'..='\u{897}' | '\u{c5c}' | '\u{cdc}' | '\u{cf3}' | '\u{ece}' | '\u{1acf}'..='\u{1aeb}'
        | '\u{1b4e}'..='\u{1b4f}' | '\u{1b7f}' | '\u{1c89}'..='\u{1c8a}' | '\u{20c1}' | '\u{2427}'..='\u{2429}'
        | '\u{2b96}' | '\u{2ffc}'..='\u{2fff}' | '\u{31e4}'..='\u{31ef}' | '\u{a7cb}'..='\u{a7cf}' | '\u{a7d2}'
        | '\u{a7d4}' | '\u{a7da}'..='\u{a7f1}' | '\u{fbc3}'..='\u{fbd2}' | '\u{fd90}'..='\u{fd91}'
        | '\u{fdc8}'..='\u{fdce}' | '\u{105c0}'..='\u{105f3}' | '\u{10940}'..='\u{10959}'
        | '\u{10d40}'..='\u{10d8f}' | '\u{10ec2}'..='\u{10eff}' | '\u{1123f}'..='\u{11241}'
        | '\u{11380}'..='\u{113e2}' | '\u{116d0}'..='\u{116e3}' | '\u{11b00}'..='\u{11bf9}'
        | '\u{11db0}'..='\u{11de9}' | '\u{11f00}'..='\u{11f5a}' | '\u{1342f}'..='\u{143fa}'
        | '\u{16100}'..='\u{16139}' | '\u{16d40}'..='\u{16d79}' | '\u{16ea0}'..='\u{16ed3}'
        | '\u{16ff2}'..='\u{16ff6}' | '\u{187f8}'..='\u{187ff}' | '\u{18cff}' | '\u{18d09}'..='\u{18df2}'
        | '\u{1b132}' | '\u{1b155}' | '\u{1cc00}'..='\u{1cef0}' | '\u{1d2c0}'..='\u{1d2d3}'
        | '\u{1df25}'..='\u{1df2a}' | '\u{1e030}'..='\u{1e08f}' | '\u{1e4d0}'..='\u{1e4f9}'
        | '\u{1e5d0}'..='\u{1e6ff}' | '\u{1f6d8}'..='\u{1f6dc}' | '\u{1f774}'..='\u{1f77f}' | '\u{1f7d9}'
        | '\u{1f8b2}'..='\u{1f8d8}' | '\u{1fa54}'..='\u{1fa57}' | '\u{1fa75}'..='\u{1fa77}'
        | '\u{1fa87}'..='\u{1fa8f}' | '\u{1faad}'..='\u{1faaf}' | '\u{1fabb}'..='\u{1fabf}'
        | '\u{1fac6}'..='\u{1facf}' | '\u{1fada}'..='\u{1fadf}' | '\u{1fae8}'..='\u{1faef}'
        | '\u{1faf7}'..='\u{1faf8}' | '\u{1fbcb}'..='\u{1fbef}' | '\u{1fbfa}' | '\u{2b739}'..='\u{2b73f}'
        | '\u{2cea2}'..='\u{2cead}' | '\u{2ebf0}'..='\u{2ee5d}' | '\u{31350}'..='\u{33479}')
}

/// True if some Python's tables of upper and lower case differ from Rust's for a character: those added with
/// Unicode 15 or later.
fn is_new_letter(c: char) -> bool {
    matches!(c, '\u{19b}' | '\u{264}' | '\u{1c89}' | '\u{1c8a}' | '\u{a7cb}'..='\u{a7dc}' | '\u{10d50}'..='\u{10d85}'
        | '\u{16ea0}'..='\u{16ed3}')
}

fn check_letters(text: &str) -> RenderResult<()> {
    match text.chars().find(|c| is_new_letter(*c)) {
        Some(c) => Err(Failure::unsupported(format_args!(
            "the case of the character U+{:04X}",
            u32::from(c)
        ))),
        None => Ok(()),
    }
}

/// `str.upper`
pub(crate) fn upper(text: &str, meter: &Meter<'_>) -> RenderResult<String> {
    by_pieces(text, meter, str::to_uppercase)
}

/// `str.lower`
pub(crate) fn lower(text: &str, meter: &Meter<'_>) -> RenderResult<String> {
    if text.contains('Σ') {
        // The lower case of `Σ` depends on the characters around it.
        meter.characters(text.len())?;
        meter.hold(text.len())?;
        check_letters(text)?;
        let lowered = text.to_lowercase();
        meter.hold(lowered.len())?;
        meter.release(text.len());
        return Ok(lowered);
    }
    by_pieces(text, meter, str::to_lowercase)
}

/// Applies `change` to the pieces of a text, for a change that gives the same for pieces.
fn by_pieces(
    text: &str,
    meter: &Meter<'_>,
    change: impl Fn(&str) -> String,
) -> RenderResult<String> {
    let mut out = String::new();
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        check_letters(piece)?;
        let changed = change(piece);
        meter.hold(changed.len())?;
        if out.is_empty() {
            out = changed;
        } else {
            out.push_str(&changed);
        }
    }
    Ok(out)
}

/// `str.capitalize`
pub(crate) fn capitalize(text: &str, meter: &Meter<'_>) -> RenderResult<String> {
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
    let mut capitalized = String::new();
    for c in first.to_uppercase() {
        meter.write_char(&mut capitalized, c)?;
    }
    check_letters(&text[..first.len_utf8()])?;
    let rest = lower(chars.as_str(), meter)?;
    capitalized.push_str(&rest);
    Ok(capitalized)
}

/// `str.title`, for ASCII.
pub(crate) fn title(text: &str, meter: &Meter<'_>) -> RenderResult<String> {
    meter.bytes(text.len())?;
    if !text.is_ascii() {
        return Err(Failure::unsupported("the title case of text outside of ASCII"));
    }
    let mut after_letter = false;
    let mut titled = String::new();
    for piece in pieces(text) {
        meter.characters(piece.len())?;
        meter.hold(piece.len())?;
        titled.extend(piece.chars().map(|c| {
            let cased = if after_letter { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
            after_letter = c.is_ascii_alphabetic();
            cased
        }));
    }
    Ok(titled)
}

/// The byte at which the character number `index` begins, or the end.
pub(crate) fn byte_of(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}
