//! Compiles the source of a template.

use std::collections::BTreeSet;

use crate::failure::Refusal;
use crate::language::lexer::Token;
use crate::language::tree::Template;
use crate::language::{lexer, parser, scope};

impl Template {
    /// Compiles a template, or refuses the first construct that is not known to render as in `transformers`.
    pub fn compile(source: &str) -> Result<Self, Refusal> {
        let (body, generates) = parser::parse(&lexer::normalize(source))?;
        Ok(scope::resolve(body, generates))
    }

    /// The string literals of a source, sorted; none if it has an unknown token.
    pub fn literals(source: &str) -> Vec<String> {
        let tokens = lexer::tokenize(&lexer::normalize(source)).unwrap_or_default();
        let literals = tokens.into_iter().filter_map(|(token, _)| match token {
            Token::String(text) => Some(text),
            _ => None,
        });
        let literals: BTreeSet<String> = literals.collect();
        literals.into_iter().collect()
    }

    /// The texts outside of the tags of a source; none if it has an unknown token.
    pub fn data(source: &str) -> Vec<String> {
        let tokens = lexer::tokenize(&lexer::normalize(source)).unwrap_or_default();
        let texts = tokens.into_iter().filter_map(|(token, _)| match token {
            Token::Data(text) => Some(text),
            _ => None,
        });
        texts.collect()
    }

    /// Whether it has `{% generation %}` blocks.
    pub fn generates(&self) -> bool {
        self.generates
    }
}
