//! [`Prompts`]: renders a request and its answer with a prompt, behind examples if there are any.

use std::ops::Range;

use super::math;
use super::placeholders::{Placeholder, PromptPiece, from_parts, pieces};
use super::published_prompts::{
    ALPACA, ALPACA_INPUT, CHATML, CHATML_SYSTEM, VICUNA, VICUNA_SYSTEM,
};
use crate::config::Prompt;
use crate::error::{Error, Result};
use crate::record::{Fault, Pair};
use crate::report::ledger::Reason;

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
