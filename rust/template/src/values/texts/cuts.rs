//! Trims, replaces and splits strings as Python's methods do.

use std::collections::HashSet;

use crate::failure::{Failure, RenderResult};
use crate::render_limits::Meter;
use crate::text::is_space;
use crate::values::make::ItemsBuilder;
use crate::values::texts::search::{Matches, MatchesFromRight};
use crate::values::texts::text::Text;
use crate::values::value::Value;

/// Bytes of a set of characters up to which they are compared one by one.
const FEW: usize = 16;

/// The ends of a text that are trimmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrimmedEnds {
    pub(crate) left: bool,
    pub(crate) right: bool,
}

impl TrimmedEnds {
    pub(crate) const BOTH: Self = Self { left: true, right: true };
    pub(crate) const LEFT: Self = Self { left: true, right: false };
    pub(crate) const RIGHT: Self = Self { left: false, right: true };
}

/// The arguments of `str.split` and `str.rsplit`.
pub(crate) struct SplitArguments<'r> {
    /// The separator; whitespace by default.
    pub(crate) separator: Option<Text<'r>>,
    /// The most splits.
    pub(crate) limit: usize,
}

/// `text` without the characters `chars`, or without whitespace, at its ends.
pub(crate) fn trim<'r>(
    text: &Text<'r>,
    chars: Option<&str>,
    ends: TrimmedEnds,
    meter: &Meter<'_>,
) -> RenderResult<Text<'r>> {
    // A set is made of many characters.
    meter.characters(chars.map_or(0, |chars| 8 * chars.len()))?;
    let kept = text.cut(meter, |text| trimmed(text, chars, ends.left, ends.right))?;
    meter.characters(8 * (text.len() - kept.len()))?;
    Ok(kept)
}

/// Trims as [`trim`] does, without a meter.
pub(crate) fn trimmed<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let cut = |text: &'a str, cut: &dyn Fn(char) -> bool| {
        let text = if left { text.trim_start_matches(cut) } else { text };
        if right { text.trim_end_matches(cut) } else { text }
    };
    match chars {
        None => {
            let text = if left { text.trim_start_matches(is_space) } else { text };
            if right { text.trim_end_matches(is_space) } else { text }
        }
        Some(chars) if chars.len() <= FEW => cut(text, &|c| chars.contains(c)),
        Some(chars) => {
            let set: HashSet<char> = chars.chars().collect();
            cut(text, &|c| set.contains(&c))
        }
    }
}

/// `str.replace`; a negative count is no limit.
pub(crate) fn replace(
    text: &str,
    old: &str,
    new: &str,
    count: i64,
    meter: &Meter<'_>,
) -> RenderResult<String> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut out = String::new();
    let mut from = 0;
    if old.is_empty() {
        // An empty text stands before each character, and behind the last.
        for (at, _) in text.match_indices("").take(count) {
            meter.write(&mut out, &text[from..at])?;
            meter.write(&mut out, new)?;
            meter.items(1)?;
            from = at;
        }
    } else {
        let mut places = Matches::new(text, old, meter)?;
        for _ in 0..count {
            let Some(at) = places.next()? else { break };
            meter.write(&mut out, &text[from..at])?;
            meter.write(&mut out, new)?;
            from = at + old.len();
        }
    }
    meter.write(&mut out, &text[from..])?;
    Ok(out)
}

/// `str.split`: by a separator or whitespace, at most `limit` times.
pub(crate) fn split<'r>(
    text: &Text<'r>,
    SplitArguments { separator, limit }: SplitArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let mut parts = ItemsBuilder::new(meter);
    let mut part = |from: usize, to: usize| {
        parts.push(Value::String(text.cut(meter, |text| &text[from..to])?))
    };
    if let Some(separator) = separator {
        let mut from = 0;
        let mut places = Matches::new(text, &separator, meter)?;
        for _ in 0..limit {
            let Some(at) = places.next()? else { break };
            part(from, at)?;
            from = at + separator.len();
        }
        part(from, text.len())?;
    } else {
        let mut from = text.len() - text.trim_start_matches(is_space).len();
        meter.characters(from)?;
        let mut count = 0;
        while from < text.len() {
            let rest = &text[from..];
            let is_last = count == limit;
            let length = if is_last {
                rest.trim_end_matches(is_space).len()
            } else {
                rest.find(is_space).unwrap_or(rest.len())
            };
            let behind = rest[length..].trim_start_matches(is_space).len();
            meter.items(1)?;
            meter.characters(rest.len() - behind)?;
            part(from, from + length)?;
            if is_last {
                break;
            }
            count += 1;
            from = text.len() - behind;
        }
    }
    Ok(parts.into_list())
}

/// `str.rsplit`: from the right by a separator, at most `limit` times.
pub(crate) fn right_split<'r>(
    text: &Text<'r>,
    SplitArguments { separator, limit }: SplitArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let Some(separator) = separator else {
        return Err(Failure::unsupported("`rsplit` without a separator"));
    };
    let mut parts = ItemsBuilder::new(meter);
    let mut part = |from: usize, to: usize| {
        parts.push(Value::String(text.cut(meter, |text| &text[from..to])?))
    };
    let mut to = text.len();
    let mut places = MatchesFromRight::new(text, &separator, meter)?;
    for _ in 0..limit {
        let Some(at) = places.next()? else { break };
        part(at + separator.len(), to)?;
        to = at;
    }
    part(0, to)?;
    parts.items().reverse();
    Ok(parts.into_list())
}

/// Calls `found` with the bounds of each line as `str.splitlines` sees them, without their ends.
pub(crate) fn for_each_line(
    text: &str,
    meter: &Meter<'_>,
    mut found: impl FnMut(usize, usize) -> RenderResult<()>,
) -> RenderResult<()> {
    let mut from = 0;
    while from < text.len() {
        let length = text[from..].find(is_line_end).unwrap_or(text.len() - from);
        let to = from + length;
        meter.items(1)?;
        meter.characters(length)?;
        found(from, to)?;
        let end = &text[to..];
        from = to
            + if end.starts_with("\r\n") {
                2
            } else {
                end.chars().next().map_or(0, char::len_utf8)
            };
    }
    Ok(())
}

/// True if a character ends a line for `str.splitlines`.
pub(crate) fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
