//! Brace lists as a shell expands them: `{a,b}`, `{00..99}`, nested and repeated.

use crate::error::{Error, Result};

/// The most names of a pattern: far more than a folder of shards has, far less than memory holds.
const MOST_NAMES: usize = 1_000_000;

/// All names of `pattern`, in order; `pattern` alone if it has no brace list.
pub(crate) fn expand(pattern: &str) -> Result<Vec<String>> {
    let Some((before, body, after)) = first_group(pattern) else {
        return Ok(vec![pattern.to_owned()]);
    };
    let tails = expand(after)?;
    let mut names = Vec::new();
    for choice in choices(body)? {
        if names.len().saturating_add(tails.len()) > MOST_NAMES {
            let reason = format!("`{pattern}` stands for more than {MOST_NAMES} names");
            return Err(Error::option("files", reason));
        }
        names.extend(tails.iter().map(|tail| format!("{before}{choice}{tail}")));
    }
    Ok(names)
}

/// Splits at the first group that contains a comma or a range.
fn first_group(pattern: &str) -> Option<(&str, &str, &str)> {
    for (open, _) in pattern.match_indices('{') {
        let Some(length) = closing(&pattern[open + 1..]) else { continue };
        let body = &pattern[open + 1..open + 1 + length];
        if split_commas(body).len() > 1 || range(body).is_some() {
            return Some((&pattern[..open], body, &pattern[open + length + 2..]));
        }
    }
    None
}

/// The place of the brace that closes the group just opened.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn choices(body: &str) -> Result<Vec<String>> {
    if let Some((first, last, width)) = range(body) {
        if first.abs_diff(last) >= MOST_NAMES as u64 {
            return Err(Error::option(
                "files",
                format!("`{{{body}}}` stands for more than {MOST_NAMES} names"),
            ));
        }
        let name = |number: i64| format!("{number:0width$}");
        return Ok(if first <= last {
            (first..=last).map(name).collect()
        } else {
            (last..=first).rev().map(name).collect()
        });
    }
    let mut all = Vec::new();
    for choice in split_commas(body) {
        all.extend(expand(choice)?);
    }
    Ok(all)
}

fn split_commas(body: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let split = body.split(move |character| {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    split.collect()
}

/// The bounds of `first..last` and the width for leading zeros, if the bounds are numbers.
fn range(body: &str) -> Option<(i64, i64, usize)> {
    let (first, last) = body.split_once("..")?;
    let padded = |bound: &str| bound.trim_start_matches('-').starts_with('0') && bound.len() > 1;
    let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
    Some((first.parse().ok()?, last.parse().ok()?, width))
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn names(pattern: &str) -> Vec<String> {
        expand(pattern).expect("a pattern of few names")
    }

    #[test]
    fn a_range_keeps_its_leading_zeros() {
        assert_eq!(
            names("part-{08..11}.jsonl"),
            ["part-08.jsonl", "part-09.jsonl", "part-10.jsonl", "part-11.jsonl"]
        );
    }

    #[test]
    fn a_range_counts_down_as_in_a_shell() {
        assert_eq!(names("{2..0}"), ["2", "1", "0"]);
    }

    #[test]
    fn lists_nest_and_multiply() {
        assert_eq!(names("{a,b{1..2}}-{x,y}"), ["a-x", "a-y", "b1-x", "b1-y", "b2-x", "b2-y"]);
    }

    #[test]
    fn braces_without_a_list_stand_for_themselves() {
        for pattern in ["plain", "{one}", "open{", "close}", "{}", "{a..b}"] {
            assert_eq!(names(pattern), [pattern]);
        }
    }

    #[test]
    fn a_pattern_of_too_many_names_is_refused() {
        assert!(expand("{0..999999}{0..999999}").is_err());
        assert!(expand("{0..99999999999}").is_err());
    }
}
