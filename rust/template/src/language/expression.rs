//! Parses expressions with Jinja's precedence: `~` binds tighter than `+`, filters tighter than anything.

use crate::failure::Refusal;
use crate::language::filters::Filter;
use crate::language::lexer::LexerToken;
use crate::language::operators::{BinaryOperator, ComparisonOperator};
use crate::language::predicates::Predicate;
use crate::language::template_parser::TemplateParser;
use crate::language::tree::{Arguments, Expression, Literal, Slot, Unrendered, Variable};

type ParsedExpression = Result<Expression, Refusal>;

/// A construct that is refused when it is reached.
fn unrendered(name: String) -> Expression {
    Expression::Unrendered(Unrendered { name: name.into(), is_unknown: false })
}

#[expect(clippy::unnecessary_box_returns, reason = "the tree holds pairs in boxes")]
fn pair(left: Expression, right: Expression) -> Box<(Expression, Expression)> {
    Box::new((left, right))
}

impl TemplateParser {
    /// Parses an expression.
    pub(crate) fn expression(&mut self) -> ParsedExpression {
        self.nested(Self::conditional)
    }

    fn conditional(&mut self) -> ParsedExpression {
        let before = self.unknown.len();
        let mut value = self.or()?;
        while self.skip_word("if") {
            self.link()?;
            let condition = self.or()?;
            let otherwise =
                if self.skip_word("else") { Some(self.nested(Self::conditional)?) } else { None };
            value = Expression::If(Box::new((condition, value, otherwise)));
            // Within a condition, Jinja looks for filters and tests when it needs them.
            self.unknown.truncate(before);
        }
        Ok(value)
    }

    /// Parses an expression that has no `a if b else c` outside of brackets.
    pub(crate) fn or(&mut self) -> ParsedExpression {
        let mut left = self.and()?;
        while self.skip_word("or") {
            self.link()?;
            left = Expression::Or(pair(left, self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> ParsedExpression {
        let mut left = self.not()?;
        while self.skip_word("and") {
            self.link()?;
            left = Expression::And(pair(left, self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> ParsedExpression {
        if self.skip_word("not") {
            return Ok(Expression::Not(Box::new(self.nested(Self::not)?)));
        }
        self.compare()
    }

    fn compare(&mut self) -> ParsedExpression {
        let left = self.sum()?;
        let mut comparisons = Vec::new();
        loop {
            let comparison = match self.peek() {
                LexerToken::Operator("==") => ComparisonOperator::Equal,
                LexerToken::Operator("!=") => ComparisonOperator::NotEqual,
                LexerToken::Operator("<") => ComparisonOperator::Less,
                LexerToken::Operator("<=") => ComparisonOperator::LessOrEqual,
                LexerToken::Operator(">") => ComparisonOperator::Greater,
                LexerToken::Operator(">=") => ComparisonOperator::GreaterOrEqual,
                LexerToken::Name(word) if word == "in" => ComparisonOperator::In,
                LexerToken::Name(word)
                    if word == "not" && *self.peek_next() == LexerToken::Name("in".to_owned()) =>
                {
                    self.next();
                    ComparisonOperator::NotIn
                }
                _ => break,
            };
            self.next();
            comparisons.push((comparison, self.sum()?));
        }
        Ok(if comparisons.is_empty() {
            left
        } else {
            Expression::Compare(Box::new(left), comparisons)
        })
    }

    fn sum(&mut self) -> ParsedExpression {
        let mut left = self.concat()?;
        loop {
            let operator = match self.peek() {
                LexerToken::Operator("+") => BinaryOperator::Add,
                LexerToken::Operator("-") => BinaryOperator::Subtract,
                _ => return Ok(left),
            };
            self.link()?;
            self.next();
            left = Expression::Binary(operator, pair(left, self.concat()?));
        }
    }

    fn concat(&mut self) -> ParsedExpression {
        let first = self.product()?;
        if !self.at_operator("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_operator("~") {
            parts.push(self.product()?);
        }
        Ok(Expression::Concat(parts))
    }

    fn product(&mut self) -> ParsedExpression {
        let mut left = self.power()?;
        loop {
            let operator = match self.peek() {
                LexerToken::Operator("*") => BinaryOperator::Multiply,
                LexerToken::Operator("/") => BinaryOperator::Divide,
                LexerToken::Operator("//") => BinaryOperator::FloorDivide,
                LexerToken::Operator("%") => BinaryOperator::Modulo,
                _ => return Ok(left),
            };
            self.link()?;
            self.next();
            left = Expression::Binary(operator, pair(left, self.power()?));
        }
    }

    fn power(&mut self) -> ParsedExpression {
        let mut left = self.unary(true)?;
        while self.skip_operator("**") {
            self.link()?;
            left = Expression::Binary(BinaryOperator::Power, pair(left, self.unary(true)?));
        }
        Ok(left)
    }

    fn unary(&mut self, filters: bool) -> ParsedExpression {
        let mut value = if self.skip_operator("-") {
            Expression::Negative(Box::new(self.nested(|parser| parser.unary(false))?))
        } else if self.skip_operator("+") {
            Expression::Positive(Box::new(self.nested(|parser| parser.unary(false))?))
        } else {
            self.primary()?
        };
        value = self.postfix(value)?;
        if filters { self.filtered(value) } else { Ok(value) }
    }

    fn primary(&mut self) -> ParsedExpression {
        let line = self.line();
        Ok(match self.next() {
            LexerToken::Name(name) => match name.as_str() {
                "true" | "True" => Expression::Literal(Literal::Bool(true)),
                "false" | "False" => Expression::Literal(Literal::Bool(false)),
                "none" | "None" => Expression::Literal(Literal::None),
                "self" | "super" | "varargs" | "kwargs" => {
                    unrendered(format!("the special variable `{name}`"))
                }
                _ => Expression::Name(Variable { name: name.into(), slot: Slot::default() }),
            },
            LexerToken::String(mut value) => {
                while let LexerToken::String(more) = self.peek() {
                    value.push_str(more);
                    self.next();
                }
                Expression::Literal(Literal::String(value.into()))
            }
            LexerToken::Int(value) => Expression::Literal(Literal::Int(value)),
            LexerToken::Float(value) => Expression::Literal(Literal::Float(value)),
            LexerToken::Operator("(") => {
                if self.skip_operator(")") {
                    return Ok(Expression::Tuple(Vec::new()));
                }
                let value = self.nested(|parser| parser.tuple(true, &[]))?;
                self.expect_operator(")")?;
                value
            }
            LexerToken::Operator("[") => Expression::List(self.items("]", Self::expression)?),
            LexerToken::Operator("{") => Expression::Dict(self.items("}", |parser| {
                let key = parser.expression()?;
                parser.expect_operator(":")?;
                Ok((key, parser.expression()?))
            })?),
            other => return Err(Refusal::new(line, format!("unexpected `{other}`"))),
        })
    }

    /// Parses items separated by commas up to `end`. A comma may follow the last.
    fn items<T>(
        &mut self,
        end: &str,
        item: impl Fn(&mut Self) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        let mut items = Vec::new();
        while !self.at_operator(end) {
            if !items.is_empty() {
                self.expect_operator(",")?;
            }
            if self.at_operator(end) {
                break;
            }
            items.push(item(self)?);
        }
        self.next();
        Ok(items)
    }

    fn postfix(&mut self, mut value: Expression) -> ParsedExpression {
        loop {
            value = match self.peek() {
                LexerToken::Operator(".") => self.attribute(value)?,
                LexerToken::Operator("[") => self.subscript(value)?,
                LexerToken::Operator("(") => self.call(value)?,
                _ => return Ok(value),
            };
        }
    }

    fn filtered(&mut self, mut value: Expression) -> ParsedExpression {
        loop {
            value = match self.peek() {
                LexerToken::Operator("|") => {
                    self.next();
                    self.filter(value)?
                }
                LexerToken::Operator("(") => self.call(value)?,
                LexerToken::Name(word) if word == "is" => self.test(value)?,
                _ => return Ok(value),
            };
        }
    }

    fn attribute(&mut self, value: Expression) -> ParsedExpression {
        self.link()?;
        self.next();
        let line = self.line();
        match self.next() {
            // Python's own attributes, which the sandbox hides.
            LexerToken::Name(name) if name.starts_with("__") || name.starts_with("_formatter") => {
                Ok(unrendered(format!("the attribute `{name}`")))
            }
            LexerToken::Name(name) => Ok(Expression::Attribute(Box::new(value), name.into())),
            LexerToken::Int(index) => {
                Ok(Expression::Item(pair(value, Expression::Literal(Literal::Int(index)))))
            }
            other => Err(Refusal::new(line, format!("expected a name or number, got `{other}`"))),
        }
    }

    fn subscript(&mut self, value: Expression) -> ParsedExpression {
        self.link()?;
        let line = self.line();
        self.next();
        let mut bounds: [Option<Expression>; 3] = [None, None, None];
        let mut colons = 0;
        loop {
            match self.peek() {
                LexerToken::Operator("]") => break,
                LexerToken::Operator(":") if colons < 2 => {
                    self.next();
                    colons += 1;
                }
                _ if bounds[colons].is_none() => bounds[colons] = Some(self.expression()?),
                _ => return self.refuse(format!("unexpected `{}` in a subscript", self.peek())),
            }
        }
        self.next();
        if colons > 0 {
            return Ok(Expression::Slice(Box::new((value, bounds))));
        }
        let [Some(index), _, _] = bounds else {
            return Err(Refusal::new(line, "an empty subscript"));
        };
        Ok(Expression::Item(pair(value, index)))
    }

    fn call(&mut self, value: Expression) -> ParsedExpression {
        self.link()?;
        let arguments = self.arguments()?;
        Ok(Expression::Call(Box::new((value, arguments))))
    }

    fn arguments(&mut self) -> Result<Arguments, Refusal> {
        self.expect_operator("(")?;
        let mut arguments = Arguments::default();
        let mut first = true;
        while !self.at_operator(")") {
            if !first {
                self.expect_operator(",")?;
                if self.at_operator(")") {
                    break;
                }
            }
            first = false;
            let has_list = arguments.list.is_some() || arguments.dict.is_some();
            match (self.peek().clone(), self.peek_next()) {
                (LexerToken::Operator("*"), _) if !has_list => {
                    self.next();
                    arguments.list = Some(self.expression()?);
                }
                (LexerToken::Operator("**"), _) if arguments.dict.is_none() => {
                    self.next();
                    arguments.dict = Some(self.expression()?);
                }
                (LexerToken::Name(name), LexerToken::Operator("=")) if arguments.dict.is_none() => {
                    self.next();
                    self.next();
                    if arguments.named.iter().any(|(known, _)| **known == *name) {
                        return self.refuse(format!("the argument `{name}` is given twice"));
                    }
                    let value = self.expression()?;
                    arguments.named.push((name.into(), value));
                }
                _ if arguments.named.is_empty() && !has_list => {
                    arguments.positional.push(self.expression()?);
                }
                _ => return self.refuse("an argument by position follows one by name"),
            }
        }
        self.next();
        Ok(arguments)
    }

    /// Parses a filter of a value, from its name on.
    pub(crate) fn filter(&mut self, value: Expression) -> ParsedExpression {
        self.link()?;
        let line = self.line();
        let name = self.expect_name()?;
        if self.at_operator(".") {
            return Err(Refusal::new(line, "the name of a filter with a dot is not supported"));
        }
        let arguments =
            if self.at_operator("(") { self.arguments()? } else { Arguments::default() };
        Ok(match Filter::named(&name).map(|filter| (filter, filter.check(&arguments))) {
            Some((filter, Ok(()))) => Expression::Filter(filter, Box::new((value, arguments))),
            Some((_, Err(unsupported))) => unrendered(unsupported),
            None if Filter::exists(&name) => unrendered(format!("the filter `{name}`")),
            None => self.unknown(line, format!("there is no filter `{name}`")),
        })
    }

    fn test(&mut self, value: Expression) -> ParsedExpression {
        self.link()?;
        self.next();
        let negated = self.skip_word("not");
        let line = self.line();
        let name = self.expect_name()?;
        if self.at_operator(".") {
            return Err(Refusal::new(line, "the name of a test with a dot is not supported"));
        }
        let arguments = match self.peek() {
            LexerToken::Operator("(") => self.arguments()?,
            LexerToken::Name(word) if matches!(word.as_str(), "else" | "or" | "and") => {
                Arguments::default()
            }
            LexerToken::Name(word) if word == "is" => {
                return self.refuse("tests cannot be chained with `is`");
            }
            // Jinja takes a bare word or literal as the argument of the test, even `if` and `in`.
            LexerToken::Name(_)
            | LexerToken::String(_)
            | LexerToken::Int(_)
            | LexerToken::Float(_)
            | LexerToken::Operator("[" | "{") => {
                let argument = self.primary()?;
                Arguments { positional: vec![self.postfix(argument)?], ..Arguments::default() }
            }
            _ => Arguments::default(),
        };
        let test = match Predicate::named(&name).map(|test| (test, test.check(&arguments))) {
            Some((test, Ok(()))) => Expression::Test(test, Box::new((value, arguments))),
            Some((_, Err(unsupported))) => unrendered(unsupported),
            None if Predicate::exists(&name) => unrendered(format!("the test `{name}`")),
            None => self.unknown(line, format!("there is no test `{name}`")),
        };
        Ok(if negated { Expression::Not(Box::new(test)) } else { test })
    }

    /// A filter or test that Jinja does not know. Jinja refuses the template for one outside of all conditions.
    fn unknown(&mut self, line: usize, reason: String) -> Expression {
        let name = reason.clone().into();
        if !self.in_condition() {
            self.unknown.push(Refusal::new(line, reason));
        }
        Expression::Unrendered(Unrendered { name, is_unknown: true })
    }
}
