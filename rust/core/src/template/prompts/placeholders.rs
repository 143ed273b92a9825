//! [`PromptPiece`]: the texts and [placeholders](Placeholder) that a prompt consists of, such as `{instruction}`.

use crate::config::PromptParts;
use crate::error::{Error, Result};

/// A placeholder in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    System,
    Request,
    Input,
    Answer,
}

/// The names of the placeholders.
const PLACEHOLDERS: [(&str, Placeholder); 9] = [
    ("instruction", Placeholder::Request),
    ("question", Placeholder::Request),
    ("prompt", Placeholder::Request),
    ("input", Placeholder::Input),
    ("system", Placeholder::System),
    ("output", Placeholder::Answer),
    ("answer", Placeholder::Answer),
    ("completion", Placeholder::Answer),
    ("response", Placeholder::Answer),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptPiece {
    Text(String),
    Placeholder(Placeholder),
}

/// Splits a prompt at its placeholders, such as `{instruction}`. A literal brace is written twice.
pub(super) fn pieces(text: &str) -> Result<Vec<PromptPiece>> {
    let refuse = |reason: String| Err(Error::option("reading.prompt", reason));
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        let name = rest.split_once('}').filter(|_| brace == "{");
        let Some((name, after)) = name else {
            return refuse(format!(
                "has a `{brace}` alone; write `{brace}{brace}` for the character"
            ));
        };
        let Some((_, place)) = PLACEHOLDERS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<String> =
                PLACEHOLDERS.iter().map(|(name, _)| format!("{{{name}}}")).collect();
            return refuse(format!("has `{{{name}}}`, which is none of {}", known.join(", ")));
        };
        pieces.push(PromptPiece::Text(std::mem::take(&mut literal)));
        pieces.push(PromptPiece::Placeholder(*place));
        rest = after;
    }
    literal.push_str(rest);
    pieces.push(PromptPiece::Text(literal));
    pieces.retain(|piece| *piece != PromptPiece::Text(String::new()));
    let count = |place: Placeholder| {
        pieces.iter().filter(|piece| **piece == PromptPiece::Placeholder(place)).count()
    };
    if count(Placeholder::Request) == 0 {
        return refuse("has no place for the request, such as {instruction}".to_owned());
    }
    match count(Placeholder::Answer) {
        0 => pieces.push(PromptPiece::Placeholder(Placeholder::Answer)),
        1 => {}
        _ => return refuse("has more than one place for the answer".to_owned()),
    }
    let answer =
        pieces.iter().position(|piece| *piece == PromptPiece::Placeholder(Placeholder::Answer));
    if pieces[answer.unwrap_or(0) + 1..]
        .iter()
        .any(|piece| matches!(piece, PromptPiece::Placeholder(_)))
    {
        return refuse("has a place after that of the answer, which would be trained".to_owned());
    }
    Ok(pieces)
}

/// The pieces of a prompt that is given as parts, with the examples before the request.
pub(super) fn from_parts(parts: &PromptParts, examples: &[(String, String)]) -> Vec<PromptPiece> {
    let PromptParts { system, before, after, lead, delimiter } = parts;
    let mut text = system.clone();
    for (request, answer) in examples {
        text.extend([before, request, after, lead, answer, delimiter].map(String::as_str));
    }
    text.push_str(before);
    let led = format!("{after}{lead}");
    vec![
        PromptPiece::Text(text),
        PromptPiece::Placeholder(Placeholder::Request),
        PromptPiece::Text(led.trim_end_matches(' ').to_owned()),
        PromptPiece::Placeholder(Placeholder::Answer),
    ]
}
