//! Parses statements: the part of Jinja's grammar that is known to render alike. Anything else is refused.

use crate::failure::Refusal;
use crate::language::enclosing::{EnclosingBlocks, EnclosingScope};
use crate::language::lexer::{LexerToken, tokenize};
use crate::language::tree::{
    AssignmentTarget, Captured, Expression, ForLoop, Macro, Scope, Slot, Statement, StatementKind,
    Variable,
};
use crate::language::uniform_loops::is_uniform;
use crate::language::visit::visit;

/// Most levels that statements and expressions may nest: far more than templates do, far less than a thread's
/// stack takes.
const MAX_DEPTH: usize = 60;

/// Most operators, attributes, calls and filters that one tag may chain. Each makes its tree one level
/// deeper.
const MAX_LINKS: usize = 400;

/// The variable that holds the output of a block for its filters: no template can name it.
const OUTPUT: &str = "the output";

/// A parser, and its position in the tokens.
#[derive(Debug)]
pub(crate) struct TemplateParser {
    tokens: Vec<(LexerToken, usize)>,
    at: usize,
    depth: usize,
    links: usize,
    enclosing: EnclosingBlocks,
    /// True if a `{% generation %}` block was seen.
    pub(crate) generates: bool,
    /// The filters and tests outside of conditions that Jinja does not know.
    pub(crate) unknown: Vec<Refusal>,
}

/// Parses a normalized source.
pub(crate) fn parse(source: &str) -> Result<(Vec<Statement>, bool), Refusal> {
    let mut parser = TemplateParser {
        tokens: tokenize(source)?,
        at: 0,
        depth: 0,
        links: 0,
        enclosing: EnclosingBlocks::default(),
        generates: false,
        unknown: Vec::new(),
    };
    let body = parser.body(&[])?;
    match parser.unknown.into_iter().next() {
        Some(refusal) => Err(refusal),
        None => Ok((body, parser.generates)),
    }
}

impl TemplateParser {
    /// The current token.
    pub(crate) fn peek(&self) -> &LexerToken {
        &self.tokens[self.at].0
    }

    /// The token after it.
    pub(crate) fn peek_next(&self) -> &LexerToken {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    /// True if the parser is in a condition that no other block separates it from.
    pub(crate) fn in_condition(&self) -> bool {
        self.enclosing.in_condition
    }

    /// The line of the current token.
    pub(crate) fn line(&self) -> usize {
        self.tokens[self.at].1
    }

    /// Takes the current token.
    pub(crate) fn next(&mut self) -> LexerToken {
        let token = self.tokens[self.at].0.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Refuses the template at the current token.
    pub(crate) fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal::new(self.line(), reason))
    }

    /// True if the current token is this operator.
    pub(crate) fn at_operator(&self, operator: &str) -> bool {
        matches!(self.peek(), LexerToken::Operator(found) if *found == operator)
    }

    /// True if the current token is this word.
    pub(crate) fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), LexerToken::Name(found) if found == word)
    }

    /// Takes this operator if it is the current token.
    pub(crate) fn skip_operator(&mut self, operator: &str) -> bool {
        let found = self.at_operator(operator);
        if found {
            self.next();
        }
        found
    }

    /// Takes this word if it is the current token.
    pub(crate) fn skip_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.next();
        }
        found
    }

    /// Takes this operator or refuses.
    pub(crate) fn expect_operator(&mut self, operator: &str) -> Result<(), Refusal> {
        if self.skip_operator(operator) {
            Ok(())
        } else {
            self.refuse(format!("expected `{operator}`, got `{}`", self.peek()))
        }
    }

    /// Takes a name or refuses.
    pub(crate) fn expect_name(&mut self) -> Result<String, Refusal> {
        match self.next() {
            LexerToken::Name(name) => Ok(name),
            other => self.refuse(format!("expected a name, got `{other}`")),
        }
    }

    fn expect(&mut self, token: &LexerToken) -> Result<(), Refusal> {
        if self.peek() == token {
            self.next();
            Ok(())
        } else {
            self.refuse(format!("expected `{token}`, got `{}`", self.peek()))
        }
    }

    /// Counts a link of a chain.
    pub(crate) fn link(&mut self) -> Result<(), Refusal> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return self.refuse(format!(
                "a tag that chains more than {MAX_LINKS} operators nests deeper than supported"
            ));
        }
        Ok(())
    }

    /// Runs `parse` one level deeper.
    pub(crate) fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if self.depth == MAX_DEPTH {
            return self.refuse(format!("the template nests deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Parses statements up to one of `ends`, whose name becomes the current token; up to the end of the
    /// template if there are none.
    fn body(&mut self, ends: &[&str]) -> Result<Vec<Statement>, Refusal> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            self.links = 0;
            match self.next() {
                LexerToken::Data(text) => {
                    body.push(Statement { line, kind: StatementKind::Text(text.into()) });
                }
                LexerToken::VariableBegin => {
                    let kind = StatementKind::Print(self.tuple(true, &[])?);
                    self.expect(&LexerToken::VariableEnd)?;
                    body.push(Statement { line, kind });
                }
                LexerToken::BlockBegin => {
                    if ends.iter().any(|end| self.at_word(end)) {
                        return Ok(body);
                    }
                    let kind = self.nested(Self::statement)?;
                    self.expect(&LexerToken::BlockEnd)?;
                    body.push(Statement { line, kind });
                }
                LexerToken::End if ends.is_empty() => return Ok(body),
                LexerToken::End => {
                    return self.refuse(format!("missing `{}`", ends.join("` or `")));
                }
                other => return self.refuse(format!("unexpected `{other}`")),
            }
        }
    }

    /// Parses the rest of a tag, then statements up to one of `ends`, as statements in `enclosing`.
    pub(super) fn block(
        &mut self,
        ends: &[&str],
        enclosing: EnclosingBlocks,
    ) -> Result<Vec<Statement>, Refusal> {
        self.skip_operator(":");
        self.expect(&LexerToken::BlockEnd)?;
        let outer = std::mem::replace(&mut self.enclosing, enclosing);
        let body = self.body(ends);
        self.enclosing = outer;
        body
    }

    fn statement(&mut self) -> Result<StatementKind, Refusal> {
        let line = self.line();
        let keyword = self.expect_name()?;
        let enclosing = self.enclosing;
        match keyword.as_str() {
            "if" => self.parse_if(),
            "for" => self.parse_for(),
            "set" => self.parse_set(),
            "filter" => self.parse_filter(),
            "with" => self.parse_with(),
            "macro" if enclosing.scope > EnclosingScope::Template => {
                let Macro { name, .. } = self.definition()?;
                let name = Variable { name, slot: Slot::default() };
                Ok(Self::unrendered_assignment(name, "a macro inside of another block"))
            }
            "macro" => self.parse_macro(),
            "extends" if enclosing.scope > EnclosingScope::Template => {
                Err(Refusal::new(line, "cannot use extend from a non top-level scope"))
            }
            "extends" => self.parse_extends(),
            "include" => self.parse_include(),
            "import" => self.parse_import(),
            "from" => self.parse_from(),
            "block" => self.parse_block(),
            "call" => self.parse_call(),
            "generation" if enclosing.scope == EnclosingScope::Captured => Err(Refusal::new(
                line,
                "a generation block inside of a macro, a `set` block or another generation block is refused: \
                 transformers reports its place wrongly",
            )),
            "generation" => {
                self.generates = true;
                let body = self.block(&["endgeneration"], EnclosingBlocks::CAPTURED)?;
                self.next();
                Ok(StatementKind::Generation(Scope { enter: Vec::new(), body }))
            }
            "break" | "continue" if !enclosing.in_loop => {
                Err(Refusal::new(line, format!("`{keyword}` outside of a loop")))
            }
            "break" => Ok(StatementKind::Break),
            "continue" => Ok(StatementKind::Continue),
            _ => Err(Refusal::new(line, format!("the statement `{keyword}` is not supported"))),
        }
    }

    fn parse_if(&mut self) -> Result<StatementKind, Refusal> {
        let outer = self.enclosing;
        self.enclosing.in_condition = true;
        let parsed = self.parse_branches();
        self.enclosing = outer;
        parsed
    }

    fn parse_branches(&mut self) -> Result<StatementKind, Refusal> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple(false, &[])?;
            let body = self.block(&["elif", "else", "endif"], self.enclosing)?;
            branches.push((condition, body));
            if self.skip_word("elif") {
                continue;
            }
            let mut otherwise = Vec::new();
            if self.skip_word("else") {
                otherwise = self.block(&["endif"], self.enclosing)?;
            }
            self.next();
            return Ok(StatementKind::If(branches, otherwise));
        }
    }

    fn parse_for(&mut self) -> Result<StatementKind, Refusal> {
        let target_at = self.at;
        let target = self.target(&["in"], false)?;
        if !self.skip_word("in") {
            return self.refuse(format!("expected `in`, got `{}`", self.peek()));
        }
        let items = self.tuple(false, &["recursive"])?;
        let mut test = None;
        if self.skip_word("if") {
            let condition = self.expression()?;
            let after = std::mem::replace(&mut self.at, target_at);
            test = Some((self.target(&["in"], false)?, Vec::new(), condition));
            self.at = after;
        }
        let is_recursive = self.skip_word("recursive");
        let enclosing = EnclosingBlocks { in_loop: true, ..self.enclosing.scope() };
        let body = self.block(&["endfor", "else"], enclosing)?;
        let mut otherwise = Vec::new();
        if self.skip_word("else") {
            otherwise = self.block(&["endfor"], self.enclosing.scope())?;
        }
        self.next();
        if is_recursive {
            return Ok(Self::unrendered("a recursive loop"));
        }
        let is_uniform = is_uniform(&target, test.as_ref(), &body);
        Ok(StatementKind::For(Box::new(ForLoop {
            is_uniform,
            target,
            items,
            test,
            looping: None,
            scope: Scope { enter: Vec::new(), body },
            otherwise: Scope { enter: Vec::new(), body: otherwise },
        })))
    }

    fn parse_set(&mut self) -> Result<StatementKind, Refusal> {
        let target = self.target(&[], true)?;
        if self.skip_operator("=") {
            return Ok(StatementKind::Set(target, self.tuple(true, &[])?));
        }
        let line = self.line();
        let filtered = self.skip_operator("|").then(|| self.filters()).transpose()?;
        if let Some((_, filters)) = &filtered {
            let mut names = 0;
            visit(filters, &mut |_| names += 1);
            // Jinja fails for such a name, unless the block or what stands before it names it, too.
            if names > 1 {
                let reason = "a variable in the filter of a `set` block is not supported";
                return Err(Refusal::new(line, reason));
            }
        }
        Ok(StatementKind::Capture(target, self.captured("endset", filtered)?))
    }

    fn parse_filter(&mut self) -> Result<StatementKind, Refusal> {
        let filtered = self.filters()?;
        Ok(StatementKind::Filter(self.captured("endfilter", Some(filtered))?))
    }

    /// Parses filters of the output of a block: the variable that holds the output, and their expression.
    fn filters(&mut self) -> Result<(Variable, Expression), Refusal> {
        let output = || Variable { name: OUTPUT.into(), slot: Slot::default() };
        let mut filtered = self.filter(Expression::Name(output()))?;
        while self.skip_operator("|") {
            filtered = self.filter(filtered)?;
        }
        Ok((output(), filtered))
    }

    /// Parses the rest of a tag and the body of a block whose output is captured.
    fn captured(
        &mut self,
        end: &str,
        filtered: Option<(Variable, Expression)>,
    ) -> Result<Captured, Refusal> {
        let enclosing =
            EnclosingBlocks { in_loop: self.enclosing.in_loop, ..EnclosingBlocks::CAPTURED };
        let body = self.block(&[end], enclosing)?;
        self.next();
        Ok(Captured { scope: Scope { enter: Vec::new(), body }, filtered })
    }

    fn parse_with(&mut self) -> Result<StatementKind, Refusal> {
        let mut variables = Vec::new();
        while *self.peek() != LexerToken::BlockEnd {
            if !variables.is_empty() {
                self.expect_operator(",")?;
            }
            let target = AssignmentTarget::Name(self.name()?);
            self.expect_operator("=")?;
            variables.push((target, self.expression()?));
        }
        let body = self.block(&["endwith"], self.enclosing.scope())?;
        self.next();
        Ok(StatementKind::With(variables, Scope { enter: Vec::new(), body }))
    }

    fn parse_macro(&mut self) -> Result<StatementKind, Refusal> {
        let definition = self.definition()?;
        let name = Variable { name: definition.name.clone(), slot: Slot::default() };
        Ok(StatementKind::Macro(name, Box::new(definition)))
    }

    fn parse_call(&mut self) -> Result<StatementKind, Refusal> {
        let parameters = self.at_operator("(").then(|| self.parameters()).transpose()?;
        let Expression::Call(call) = self.expression()? else {
            return self.refuse("a `call` block needs a call");
        };
        let (function, arguments) = *call;
        let body = self.block(&["endcall"], EnclosingBlocks::CAPTURED)?;
        self.next();
        let (parameters, defaults) = parameters.unwrap_or_default();
        let scope = Scope { enter: Vec::new(), body };
        let body =
            Macro { name: "caller".into(), parameters, defaults, caller: None, scope, slots: 0 };
        Ok(StatementKind::Call(Box::new((function, arguments, body))))
    }

    /// Parses the name, the parameters and the body of a macro.
    fn definition(&mut self) -> Result<Macro, Refusal> {
        let name = self.name()?.name;
        let (parameters, defaults) = self.parameters()?;
        let body = self.block(&["endmacro"], EnclosingBlocks::CAPTURED)?;
        self.next();
        let scope = Scope { enter: Vec::new(), body };
        Ok(Macro { name, parameters, defaults, caller: None, scope, slots: 0 })
    }

    /// Parses parameters in brackets, and the default values of the last of them.
    fn parameters(&mut self) -> Result<(Vec<Variable>, Vec<Expression>), Refusal> {
        self.expect_operator("(")?;
        let mut parameters = Vec::new();
        let mut defaults = Vec::new();
        while !self.at_operator(")") {
            if !parameters.is_empty() {
                self.expect_operator(",")?;
            }
            parameters.push(self.name()?);
            if self.skip_operator("=") {
                defaults.push(self.expression()?);
            } else if !defaults.is_empty() {
                return self.refuse("a parameter without a default follows one with a default");
            }
        }
        self.next();
        Ok((parameters, defaults))
    }

    /// Parses the name of a variable that is assigned to.
    pub(super) fn name(&mut self) -> Result<Variable, Refusal> {
        let line = self.line();
        let name = self.expect_name()?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None") {
            return Err(Refusal::new(line, format!("`{name}` cannot be assigned to")));
        }
        if matches!(name.as_str(), "loop" | "caller" | "varargs" | "kwargs" | "self" | "super") {
            return Err(Refusal::new(
                line,
                format!("assigning to the special variable `{name}` is not supported"),
            ));
        }
        Ok(Variable { name: name.into(), slot: Slot::default() })
    }

    /// Parses the target of an assignment: names, perhaps in nested tuples, or an attribute of a namespace.
    fn target(&mut self, ends: &[&str], attributes: bool) -> Result<AssignmentTarget, Refusal> {
        let mut targets = Vec::new();
        let mut is_tuple = false;
        loop {
            let at_end =
                matches!(self.peek(), LexerToken::BlockEnd | LexerToken::Operator(")" | "="))
                    || ends.iter().any(|end| self.at_word(end));
            if at_end {
                break;
            }
            if self.skip_operator("(") {
                let inner = self.nested(|parser| parser.target(&[], attributes))?;
                self.expect_operator(")")?;
                targets.push(inner);
            } else {
                let name = self.name()?;
                if attributes && self.skip_operator(".") {
                    let line = self.line();
                    let attribute = self.expect_name()?;
                    if attribute.starts_with('_') {
                        return Err(Refusal::new(
                            line,
                            format!("a namespace cannot hold `{attribute}`"),
                        ));
                    }
                    targets.push(AssignmentTarget::Attribute(name, attribute.into()));
                } else {
                    targets.push(AssignmentTarget::Name(name));
                }
            }
            if !self.skip_operator(",") {
                break;
            }
            is_tuple = true;
        }
        match targets.pop() {
            Some(only) if targets.is_empty() && !is_tuple => Ok(only),
            Some(last) => {
                targets.push(last);
                Ok(AssignmentTarget::Tuple(targets))
            }
            None => self.refuse(format!("expected a name to assign to, got `{}`", self.peek())),
        }
    }

    /// Parses an expression, or a tuple of several.
    pub(crate) fn tuple(
        &mut self,
        conditional: bool,
        ends: &[&str],
    ) -> Result<Expression, Refusal> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            let at_end = matches!(
                self.peek(),
                LexerToken::VariableEnd | LexerToken::BlockEnd | LexerToken::Operator(")")
            ) || ends.iter().any(|end| self.at_word(end));
            if at_end {
                break;
            }
            items.push(if conditional { self.expression()? } else { self.or()? });
            if !self.skip_operator(",") {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            Some(only) if items.is_empty() && !is_tuple => Ok(only),
            Some(last) => {
                items.push(last);
                Ok(Expression::Tuple(items))
            }
            None => self.refuse(format!("expected an expression, got `{}`", self.peek())),
        }
    }
}
