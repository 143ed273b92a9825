//! Compiles the source of a template.

use crate::failure::Refusal;
use crate::language::lexer::LexerToken;
use crate::language::tree::Template;
use crate::language::{lexer, scope, template_parser};

impl Template {
    /// Compiles a template, or refuses the first construct that is not known to render as in `transformers`.
    pub fn compile(source: &str) -> Result<Self, Refusal> {
        let (body, generates) = template_parser::parse(&lexer::normalize(source))?;
        Ok(scope::resolve(body, generates))
    }

    /// True if the template reads an input of this name.
    pub fn reads(&self, input: &str) -> bool {
        self.inputs.iter().any(|known| **known == *input)
    }

    /// The texts outside of the tags of a source, and the string literals in them; none if it has an unknown token.
    pub fn texts(source: &str) -> (Vec<String>, Vec<String>) {
        let tokens = lexer::tokenize(&lexer::normalize(source)).unwrap_or_default();
        let (mut data, mut literals) = (Vec::new(), Vec::new());
        for (token, _) in tokens {
            match token {
                LexerToken::Data(text) => data.push(text),
                LexerToken::String(text) => literals.push(text),
                _ => {}
            }
        }
        (data, literals)
    }

    /// True if it has `{% generation %}` blocks.
    pub fn generates(&self) -> bool {
        self.generates
    }
}
