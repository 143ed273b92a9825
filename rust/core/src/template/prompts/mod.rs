//! [`Prompts`]: prompts with placeholders for the parts of a request, such as those of published models.

mod math;

use std::ops::Range;

use crate::config::{Prompt, PromptParts};
use crate::error::{Error, Result};
use crate::record::{Fault, Pair};
use crate::report::ledger::Reason;

/// The Stanford Alpaca prompt for an instruction without input.
const ALPACA: &str = "Below is an instruction that describes a task. Write a response that appropriately \
                      completes the request.\n\n### Instruction:\n{instruction}\n\n### Response:\n";

/// The Stanford Alpaca prompt for an instruction with an input.
const ALPACA_INPUT: &str = "Below is an instruction that describes a task, paired with an input that provides \
                            further context. Write a response that appropriately completes the request.\n\n\
                            ### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n";

/// The `ChatML` markup of `OpenAI`.
const CHATML: &str =
    "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n{output}<|im_end|>";

/// The `ChatML` markup of `OpenAI` for a request with a system text.
const CHATML_SYSTEM: &str = "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{instruction}<|im_end|>\n\
                             <|im_start|>assistant\n{output}<|im_end|>";

/// The Vicuna prompt, version 1.1.
const VICUNA: &str = "A chat between a curious user and an artificial intelligence assistant. The assistant gives \
                      helpful, detailed, and polite answers to the user's questions. USER: {instruction} ASSISTANT: {output}";

/// The Vicuna prompt with a system text of the record.
const VICUNA_SYSTEM: &str = "{system} USER: {instruction} ASSISTANT: {output}";

/// A placeholder in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
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
enum PromptPiece {
    Text(String),
    Placeholder(Placeholder),
}

/// A prompt with placeholders for the parts of a request, and its variants for requests with an input or a
/// system text.
#[derive(Clone, Debug)]
pub struct Prompts {
    plain: Vec<PromptPiece>,
    with_input: Option<Vec<PromptPiece>>,
    with_system: Option<Vec<PromptPiece>>,
}

impl Prompts {
    /// The prompt that `prompt` names, with `examples` before each request.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a malformed prompt: an unpaired brace, an unknown placeholder, no place for the
    /// request, several places for the answer, or a placeholder after the answer.
    pub fn new(prompt: &Prompt, examples: &[(String, String)]) -> Result<Self> {
        let (plain, with_input, with_system) = match prompt {
            Prompt::Alpaca if !examples.is_empty() => {
                let plain = from_parts(&math::alpaca(), examples);
                let with_input = Some(lead_with(examples, pieces(ALPACA)?, pieces(ALPACA_INPUT)?)?);
                return Ok(Self { plain, with_input, with_system: None });
            }
            Prompt::Alpaca => (ALPACA, Some(ALPACA_INPUT), None),
            Prompt::Chatml => (CHATML, None, Some(CHATML_SYSTEM)),
            Prompt::Vicuna => (VICUNA, None, Some(VICUNA_SYSTEM)),
            Prompt::Format(text) => (text.as_str(), None, None),
            Prompt::Math(name) => return Ok(Self::of(from_parts(&math::parts(*name), examples))),
            Prompt::Parts(parts) => return Ok(Self::of(from_parts(parts, examples))),
        };
        let shown = pieces(plain)?;
        let led = |text: &str| lead_with(examples, shown.clone(), pieces(text)?);
        Ok(Self {
            plain: led(plain)?,
            with_input: with_input.map(led).transpose()?,
            with_system: with_system.map(led).transpose()?,
        })
    }

    /// A prompt without variants.
    fn of(plain: Vec<PromptPiece>) -> Self {
        Self { plain, with_input: None, with_system: None }
    }

    /// A prompt that joins request and answer without any text between them, after `examples` in the same
    /// form.
    ///
    /// # Errors
    ///
    /// None in practice: examples have no system text, and so can always be rendered.
    pub fn joined(examples: &[(String, String)]) -> Result<Self> {
        let joined = vec![
            PromptPiece::Placeholder(Placeholder::Request),
            PromptPiece::Placeholder(Placeholder::Answer),
        ];
        Ok(Self::of(lead_with(examples, joined.clone(), joined)?))
    }

    /// Renders a pair. Returns the text, and the byte range from the start of the answer to the end of the
    /// text.
    pub fn render(&self, pair: &Pair) -> std::result::Result<(String, Range<usize>), Fault> {
        let pieces = match (&pair.system, &pair.input) {
            (Some(_), _) if self.with_system.is_some() => self.with_system.as_ref(),
            (None, Some(_)) => self.with_input.as_ref(),
            _ => None,
        };
        let pieces = pieces.unwrap_or(&self.plain);
        let has = |place: Placeholder| pieces.contains(&PromptPiece::Placeholder(place));
        if pair.system.is_some() && !has(Placeholder::System) {
            let message = "the record has a system text, for which the prompt has no place; use one with {system}";
            return Err(Fault::new(Reason::WrongType, message));
        }
        let mut text = String::new();
        let mut answer = 0;
        for piece in pieces {
            match piece {
                PromptPiece::Text(piece) => text.push_str(piece),
                PromptPiece::Placeholder(Placeholder::System) => {
                    text.push_str(pair.system.as_deref().unwrap_or(""));
                }
                PromptPiece::Placeholder(Placeholder::Request) => {
                    text.push_str(&pair.request);
                    if let Some(input) = pair.input.as_ref().filter(|_| !has(Placeholder::Input)) {
                        text.push('\n');
                        text.push_str(input);
                    }
                }
                PromptPiece::Placeholder(Placeholder::Input) => {
                    text.push_str(pair.input.as_deref().unwrap_or(""));
                }
                PromptPiece::Placeholder(Placeholder::Answer) => {
                    answer = text.len();
                    text.push_str(&pair.answer);
                }
            }
        }
        let end = text.len();
        Ok((text, answer..end))
    }
}

/// The text after each example, unless the prompt has a delimiter of its own.
const DELIMITER: &str = "\n\n";

/// Puts the examples, rendered with `shown`, before `pieces`.
fn lead_with(
    examples: &[(String, String)],
    shown: Vec<PromptPiece>,
    pieces: Vec<PromptPiece>,
) -> Result<Vec<PromptPiece>> {
    let shown = Prompts::of(shown);
    let mut led = Vec::with_capacity(pieces.len() + 1);
    let mut text = String::new();
    for (request, answer) in examples {
        let pair = Pair {
            plain: false,
            system: None,
            request: request.clone(),
            input: None,
            answer: answer.clone(),
            history: Vec::new(),
            history_weights: None,
            pictures: None,
        };
        let example = shown
            .render(&pair)
            .map_err(|fault| Error::option("reading.examples", fault.message))?;
        text.push_str(&example.0);
        text.push_str(DELIMITER);
    }
    led.extend(Some(PromptPiece::Text(text)).filter(|_| !examples.is_empty()));
    led.extend(pieces);
    Ok(led)
}

/// The pieces of a prompt that is given as parts, with the examples before the request.
fn from_parts(parts: &PromptParts, examples: &[(String, String)]) -> Vec<PromptPiece> {
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

/// Splits a prompt at its placeholders, such as `{instruction}`. A literal brace is written twice.
fn pieces(text: &str) -> Result<Vec<PromptPiece>> {
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
