//! Compiles the source of a template.

use crate::failure::Refusal;
use crate::language::tree::Template;
use crate::language::{lexer, parser, scope};

impl Template {
    /// Compiles a template, or refuses the first construct that is not known to render as in `transformers`.
    pub fn compile(source: &str) -> Result<Self, Refusal> {
        let (body, generates) = parser::parse(&lexer::normalize(source))?;
        Ok(scope::resolve(body, generates))
    }

    /// Whether it has `{% generation %}` blocks.
    pub fn generates(&self) -> bool {
        self.generates
    }
}
