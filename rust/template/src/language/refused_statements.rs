//! Statements that fail when they are reached: those that need other templates, blocks, and macros and loops of rare forms.

use crate::failure::Refusal;
use crate::language::enclosing::EnclosingBlocks;
use crate::language::lexer::LexerToken;
use crate::language::template_parser::TemplateParser;
use crate::language::tree::{AssignmentTarget, Expression, StatementKind, Unrendered, Variable};

type ParsedStatement = Result<StatementKind, Refusal>;

/// The error of Jinja in `transformers`, where no template can name another.
const NO_LOADER: &str = "no loader for this environment specified";

fn expression(what: &str, is_unknown: bool) -> Expression {
    Expression::Unrendered(Unrendered { name: what.into(), is_unknown })
}

impl TemplateParser {
    /// A statement that fails where it stands.
    pub(super) fn unrendered(what: &str) -> StatementKind {
        StatementKind::Print(expression(what, false))
    }

    /// A statement that fails where it would assign `name`.
    pub(super) fn unrendered_assignment(name: Variable, what: &str) -> StatementKind {
        StatementKind::Set(AssignmentTarget::Name(name), expression(what, false))
    }

    /// Parses `extends "name"`.
    pub(super) fn parse_extends(&mut self) -> ParsedStatement {
        self.expression()?;
        Ok(StatementKind::Print(expression(NO_LOADER, true)))
    }

    /// Parses `include "name" ignore missing with context`.
    pub(super) fn parse_include(&mut self) -> ParsedStatement {
        self.expression()?;
        if self.skip_word("ignore") && !self.skip_word("missing") {
            return self.refuse(format!("expected `missing`, got `{}`", self.peek()));
        }
        self.skip_context()?;
        Ok(StatementKind::Print(expression(NO_LOADER, true)))
    }

    /// Parses `import "name" as other`.
    pub(super) fn parse_import(&mut self) -> ParsedStatement {
        self.expression()?;
        self.expect_word("as")?;
        let target = AssignmentTarget::Name(self.name()?);
        self.skip_context()?;
        Ok(StatementKind::Set(target, expression(NO_LOADER, true)))
    }

    /// Parses `from "name" import one, two as other`.
    pub(super) fn parse_from(&mut self) -> ParsedStatement {
        self.expression()?;
        self.expect_word("import")?;
        let mut targets = Vec::new();
        loop {
            let mut name = self.name()?;
            if name.name.starts_with('_') {
                return self.refuse(format!("`{}` cannot be imported", name.name));
            }
            if self.skip_word("as") {
                name = self.name()?;
            }
            targets.push(AssignmentTarget::Name(name));
            if !self.skip_operator(",") {
                break;
            }
        }
        self.skip_context()?;
        Ok(StatementKind::Set(AssignmentTarget::Tuple(targets), expression(NO_LOADER, true)))
    }

    /// Parses `block name`, which can stand anywhere.
    pub(super) fn parse_block(&mut self) -> ParsedStatement {
        let name = self.expect_name()?;
        while self.skip_word("scoped") || self.skip_word("required") {}
        self.block(&["endblock"], EnclosingBlocks::CAPTURED)?;
        self.next();
        self.skip_word(&name);
        Ok(Self::unrendered(&format!("the block `{name}`")))
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Refusal> {
        if self.skip_word(word) {
            return Ok(());
        }
        self.refuse(format!("expected `{word}`, got `{}`", self.peek()))
    }

    /// Skips `with context` or `without context`.
    fn skip_context(&mut self) -> Result<(), Refusal> {
        if self.skip_word("with") || self.skip_word("without") {
            self.expect_word("context")?;
        }
        if *self.peek() == LexerToken::BlockEnd {
            return Ok(());
        }
        self.refuse(format!("unexpected `{}`", self.peek()))
    }
}
