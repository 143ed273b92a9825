//! The tree of a template. The parser makes it; [`scope`](super::scope) fills in the slots.

use super::filters::Filter;
use super::operators::{Binary, Comparison};
use super::predicates::Predicate;

/// Where a variable lives while a template renders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// Whether it belongs to the macro that runs, instead of to the template.
    pub(crate) local: bool,
    /// Its number there.
    pub(crate) index: usize,
}

/// A variable that is read or written.
#[derive(Debug)]
pub(crate) struct Name {
    /// How the template calls it.
    pub(crate) name: Box<str>,
    /// Where it lives.
    pub(crate) slot: Slot,
}

/// What a variable holds when its scope is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// What whoever enters the scope puts there.
    Parameter,
    /// An input of the template, by its number in [`Template::inputs`].
    Input(usize),
    /// What a variable of an outer scope holds at that time.
    Copy(Slot),
    /// Nothing yet.
    Undefined,
}

/// A list of statements with variables of its own.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// What its variables hold at first.
    pub(crate) enter: Vec<(Slot, Load)>,
    /// The statements.
    pub(crate) body: Vec<Statement>,
}

/// What an assignment writes to.
#[derive(Debug)]
pub(crate) enum Target {
    /// A variable.
    Name(Name),
    /// Several, from a value of as many items.
    Tuple(Vec<Target>),
    /// An attribute of a namespace.
    Attribute(Name, Box<str>),
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Counted from 1.
    pub(crate) line: usize,
    /// What it does.
    pub(crate) kind: Kind,
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Text between tags.
    Text(Box<str>),
    /// `{{ … }}`
    Print(Expression),
    /// `{% if %}`: conditions with their bodies, then the body of `else`.
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    /// `{% for %}`
    For(Box<For>),
    /// `{% set a = b %}`
    Set(Target, Expression),
    /// `{% set a %}…{% endset %}`
    Capture(Target, Scope),
    /// `{% with %}`: its variables, then what they are used in.
    With(Vec<(Target, Expression)>, Scope),
    /// `{% macro %}`
    Macro(Name, Box<Macro>),
    /// `{% generation %}`
    Generation(Scope),
    /// `{% break %}`
    Break,
    /// `{% continue %}`
    Continue,
}

/// Which items a loop takes: the target and the variables that the test has of its own, and the test.
pub(crate) type LoopTest = (Target, Vec<(Slot, Load)>, Expression);

/// `{% for target in items if test %}…{% else %}…{% endfor %}`
#[derive(Debug)]
pub(crate) struct For {
    /// What each item is assigned to.
    pub(crate) target: Target,
    /// What is iterated.
    pub(crate) items: Expression,
    /// Which items are taken; it has a scope, and thus a target, of its own.
    pub(crate) test: Option<LoopTest>,
    /// The slot of `loop`, if the body uses it.
    pub(crate) looping: Option<Name>,
    /// What is done for each item.
    pub(crate) scope: Scope,
    /// What is done if there was none.
    pub(crate) otherwise: Scope,
}

/// `{% macro name(parameters) %}…{% endmacro %}`
#[derive(Debug)]
pub(crate) struct Macro {
    /// For messages.
    pub(crate) name: Box<str>,
    /// What it takes.
    pub(crate) parameters: Vec<Name>,
    /// The values of the last parameters if they are not given.
    pub(crate) defaults: Vec<Expression>,
    /// What it does.
    pub(crate) scope: Scope,
    /// How many variables it has.
    pub(crate) slots: usize,
}

/// A literal.
#[derive(Clone, Debug)]
pub(crate) enum Literal {
    /// `none`
    None,
    /// `true`, `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1.0`
    Float(f64),
    /// `'one'`
    String(Box<str>),
}

/// What a function, filter or test is called with.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// By position.
    pub(crate) positional: Vec<Expression>,
    /// By name.
    pub(crate) named: Vec<(Box<str>, Expression)>,
}

/// An expression.
#[derive(Debug)]
pub(crate) enum Expression {
    /// `'one'`
    Literal(Literal),
    /// `name`
    Name(Name),
    /// `(a, b)`
    Tuple(Vec<Expression>),
    /// `[a, b]`
    List(Vec<Expression>),
    /// `{a: b}`
    Dict(Vec<(Expression, Expression)>),
    /// `-a`
    Negative(Box<Expression>),
    /// `+a`
    Positive(Box<Expression>),
    /// `not a`
    Not(Box<Expression>),
    /// `a and b`
    And(Box<(Expression, Expression)>),
    /// `a or b`
    Or(Box<(Expression, Expression)>),
    /// `a + b`
    Binary(Binary, Box<(Expression, Expression)>),
    /// `a ~ b`
    Concat(Vec<Expression>),
    /// `a < b < c`
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    /// `a if condition else b`: condition, a, b
    If(Box<(Expression, Expression, Option<Expression>)>),
    /// `a.b`
    Attribute(Box<Expression>, Box<str>),
    /// `a[b]`
    Item(Box<(Expression, Expression)>),
    /// `a[b:c:d]`
    Slice(Box<(Expression, [Option<Expression>; 3])>),
    /// `a(b)`
    Call(Box<(Expression, Arguments)>),
    /// `a|filter(b)`
    Filter(Filter, Box<(Expression, Arguments)>),
    /// `a is test(b)`
    Test(Predicate, Box<(Expression, Arguments)>),
}

/// A compiled template, ready to render.
#[derive(Debug)]
pub struct Template {
    /// The template itself.
    pub(crate) scope: Scope,
    /// How many variables it has.
    pub(crate) slots: usize,
    /// The names that it reads from what it is rendered with.
    pub(crate) inputs: Vec<Box<str>>,
    /// Whether it has `{% generation %}` blocks.
    pub(crate) generates: bool,
}
