//! The tree of a template. The parser makes it; [`scope`](super::scope) fills in the slots.

use super::filters::Filter;
use super::operators::{BinaryOperator, ComparisonOperator};
use super::predicates::Predicate;

/// The place of a variable during a render.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// True if it belongs to the macro that runs, instead of to the template.
    pub(crate) local: bool,
    /// Its index in the macro or the template.
    pub(crate) index: usize,
}

/// A variable that is read or written.
#[derive(Debug)]
pub(crate) struct Variable {
    /// Its name in the template.
    pub(crate) name: Box<str>,
    /// Its place during a render.
    pub(crate) slot: Slot,
}

/// The value of a variable when its scope is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableLoad {
    /// A value that the statement sets which enters the scope.
    Parameter,
    /// An input of the template, by its number in [`Template::inputs`].
    Input(usize),
    /// The value of a variable of an outer scope at that time.
    Copy(Slot),
    /// No value yet.
    Undefined,
}

/// A list of statements with variables of its own.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The initial values of its variables.
    pub(crate) enter: Vec<(Slot, VariableLoad)>,
    /// The statements.
    pub(crate) body: Vec<Statement>,
}

/// The target of an assignment.
#[derive(Debug)]
pub(crate) enum AssignmentTarget {
    /// A variable.
    Name(Variable),
    /// Several targets, for a value of as many items.
    Tuple(Vec<AssignmentTarget>),
    /// An attribute of a namespace.
    Attribute(Variable, Box<str>),
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Statement {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The kind, with its parts.
    pub(crate) kind: StatementKind,
}

/// The kind of a statement, with its parts.
#[derive(Debug)]
pub(crate) enum StatementKind {
    /// Text between tags.
    Text(Box<str>),
    /// `{{ … }}`
    Print(Expression),
    /// `{% if %}`: conditions with their bodies, then the body of `else`.
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    /// `{% for %}`
    For(Box<ForLoop>),
    /// `{% set a = b %}`
    Set(AssignmentTarget, Expression),
    /// `{% set a %}…{% endset %}`, `{% set a | filter %}…{% endset %}`
    Capture(AssignmentTarget, Captured),
    /// `{% filter name %}…{% endfilter %}`
    Filter(Captured),
    /// `{% with %}`: its variables, then its body.
    With(Vec<(AssignmentTarget, Expression)>, Scope),
    /// `{% macro %}`
    Macro(Variable, Box<Macro>),
    /// `{% call(parameters) macro(…) %}…{% endcall %}`: the function, its arguments, and the body that the macro may call.
    Call(Box<(Expression, Arguments, Macro)>),
    /// `{% generation %}`
    Generation(Scope),
    /// `{% break %}`
    Break,
    /// `{% continue %}`
    Continue,
}

/// The body of a block whose output is captured.
#[derive(Debug)]
pub(crate) struct Captured {
    /// The body.
    pub(crate) scope: Scope,
    /// The filters of its output: the variable that holds the output, and the expression over it.
    pub(crate) filtered: Option<(Variable, Expression)>,
}

/// The condition of a loop: its own target and variables, and its expression.
pub(crate) type LoopTest = (AssignmentTarget, Vec<(Slot, VariableLoad)>, Expression);

/// `{% for target in items if test %}…{% else %}…{% endfor %}`
#[derive(Debug)]
pub(crate) struct ForLoop {
    /// The target that each item is assigned to.
    pub(crate) target: AssignmentTarget,
    /// The value that is iterated.
    pub(crate) items: Expression,
    /// The condition on items. It has a scope, and thus a target, of its own.
    pub(crate) test: Option<LoopTest>,
    /// The slot of `loop`, if the body uses it.
    pub(crate) looping: Option<Variable>,
    /// True if the loop treats all characters of a text alike.
    pub(crate) is_uniform: bool,
    /// The body.
    pub(crate) scope: Scope,
    /// The body of `else`.
    pub(crate) otherwise: Scope,
}

/// `{% macro name(parameters) %}…{% endmacro %}`
#[derive(Debug)]
pub(crate) struct Macro {
    /// Its name, for messages.
    pub(crate) name: Box<str>,
    /// The parameters.
    pub(crate) parameters: Vec<Variable>,
    /// The default values of the last parameters.
    pub(crate) defaults: Vec<Expression>,
    /// The body of the `call` block that runs it, if it uses that.
    pub(crate) caller: Option<Variable>,
    /// The body.
    pub(crate) scope: Scope,
    /// The number of variables.
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

/// The arguments of a function, filter or test.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// By position.
    pub(crate) positional: Vec<Expression>,
    /// By name.
    pub(crate) named: Vec<(Box<str>, Expression)>,
    /// `*list`
    pub(crate) list: Option<Expression>,
    /// `**dict`
    pub(crate) dict: Option<Expression>,
}

/// A construct that fails when it is reached.
#[derive(Debug)]
pub(crate) struct Unrendered {
    /// The name of the construct.
    pub(crate) name: Box<str>,
    /// True if Jinja fails there too.
    pub(crate) is_unknown: bool,
}

/// An expression.
#[derive(Debug)]
pub(crate) enum Expression {
    /// `'one'`
    Literal(Literal),
    /// `name`
    Name(Variable),
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
    Binary(BinaryOperator, Box<(Expression, Expression)>),
    /// `a ~ b`
    Concat(Vec<Expression>),
    /// `a < b < c`
    Compare(Box<Expression>, Vec<(ComparisonOperator, Expression)>),
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
    /// Anything that is not known to render as in `transformers`.
    Unrendered(Unrendered),
}

/// A compiled template, ready to render.
#[derive(Debug)]
pub struct Template {
    /// The statements of the template.
    pub(crate) scope: Scope,
    /// The number of variables.
    pub(crate) slots: usize,
    /// The names of its inputs.
    pub(crate) inputs: Vec<Box<str>>,
    /// True if it has `{% generation %}` blocks.
    pub(crate) generates: bool,
}
