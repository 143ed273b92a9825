//! Finds loops that do the same for every character of a text.
//!
//! Templates walk through a content as through a list of parts, and ask each part for its type. Of a text they so ask
//! every character, and find that none has one. Such a loop needs to ask once.

use super::methods::{OTHER_STRING, STRING_METHODS};
use super::operators::ComparisonOperator;
use super::predicates::Predicate;
use super::tree::{
    AssignmentTarget, Captured, Expression, Literal, LoopTest, Statement, StatementKind,
};
use super::visit::children;

/// True if a loop treats all texts of one character alike.
pub(crate) fn is_uniform(
    target: &AssignmentTarget,
    test: Option<&LoopTest>,
    body: &[Statement],
) -> bool {
    let AssignmentTarget::Name(item) = target else { return false };
    test.is_none_or(|(_, _, test)| reads_uniformly(&item.name, test))
        && all_uniform(&item.name, body)
}

/// True if a character of a text has no attribute and no item of this name.
pub(crate) fn is_no_attribute(name: &str) -> bool {
    !OTHER_STRING.contains(&name)
        && !STRING_METHODS.iter().any(|(known, _)| *known == name)
        && !name.starts_with('_')
}

fn all_uniform(item: &str, body: &[Statement]) -> bool {
    body.iter().all(|statement| {
        let uniform = |value: &Expression| reads_uniformly(item, value);
        let all = |body: &[Statement]| all_uniform(item, body);
        match &statement.kind {
            StatementKind::Text(_) | StatementKind::Break | StatementKind::Continue => true,
            StatementKind::Print(value) => uniform(value),
            StatementKind::If(branches, otherwise) => {
                let mut branches = branches.iter();
                branches.all(|(condition, body)| uniform(condition) && all(body)) && all(otherwise)
            }
            StatementKind::For(inner) => {
                !sets(item, &inner.target)
                    && uniform(&inner.items)
                    && inner.test.as_ref().is_none_or(|(_, _, test)| uniform(test))
                    && all(&inner.scope.body)
                    && all(&inner.otherwise.body)
            }
            StatementKind::Set(target, value) => !sets(item, target) && uniform(value),
            StatementKind::Capture(target, captured) => {
                !sets(item, target) && all_captured(item, captured)
            }
            StatementKind::Filter(captured) => all_captured(item, captured),
            StatementKind::With(variables, scope) => {
                let mut variables = variables.iter();
                variables.all(|(target, value)| !sets(item, target) && uniform(value))
                    && all(&scope.body)
            }
            StatementKind::Generation(scope) => all(&scope.body),
            StatementKind::Macro(..) | StatementKind::Call(_) => false,
        }
    })
}

fn all_captured(item: &str, captured: &Captured) -> bool {
    let filtered = captured.filtered.as_ref();
    filtered.is_none_or(|(_, filters)| reads_uniformly(item, filters))
        && all_uniform(item, &captured.scope.body)
}

/// True if an assignment changes the item, or the variable `loop`.
fn sets(item: &str, target: &AssignmentTarget) -> bool {
    match target {
        AssignmentTarget::Name(name) => *name.name == *item || *name.name == *"loop",
        AssignmentTarget::Tuple(targets) => targets.iter().any(|target| sets(item, target)),
        AssignmentTarget::Attribute(..) => false,
    }
}

fn reads_uniformly(item: &str, expression: &Expression) -> bool {
    let is_item =
        |value: &Expression| matches!(value, Expression::Name(name) if *name.name == *item);
    match expression {
        Expression::Name(name) => *name.name != *item && *name.name != *"loop",
        // A render counts the reads of the attributes of `loop`.
        Expression::Attribute(value, _) if is_loop(value) => true,
        Expression::Attribute(value, name) if is_item(value) => is_no_attribute(name),
        Expression::Item(both) if is_item(&both.0) => {
            matches!(&both.1, Expression::Literal(Literal::String(name)) if is_no_attribute(name))
        }
        Expression::Test(test, parts) if is_item(&parts.0) => is_of_type(*test),
        Expression::Compare(first, rest) if rest.len() == 1 => {
            let (comparison, other) = &rest[0];
            let differs = |value: &Expression| is_no_character(value);
            match (comparison, is_item(first), is_item(other)) {
                (ComparisonOperator::Equal | ComparisonOperator::NotEqual, true, false) => {
                    differs(other)
                }
                (ComparisonOperator::Equal | ComparisonOperator::NotEqual, false, true) => {
                    differs(first)
                }
                (ComparisonOperator::In | ComparisonOperator::NotIn, false, true) => is_long(first),
                (ComparisonOperator::In | ComparisonOperator::NotIn, true, false) => match other {
                    Expression::List(items) | Expression::Tuple(items) => items.iter().all(differs),
                    _ => false,
                },
                (_, false, false) => reads_uniformly(item, first) && reads_uniformly(item, other),
                _ => false,
            }
        }
        other => {
            let mut is_uniform = true;
            children(other, &mut |child| is_uniform &= reads_uniformly(item, child));
            is_uniform
        }
    }
}

fn is_loop(value: &Expression) -> bool {
    matches!(value, Expression::Name(name) if *name.name == *"loop")
}

/// True if a test looks at nothing but the type.
fn is_of_type(test: Predicate) -> bool {
    matches!(
        test,
        Predicate::Defined
            | Predicate::Undefined
            | Predicate::None
            | Predicate::True
            | Predicate::False
            | Predicate::Boolean
            | Predicate::Integer
            | Predicate::Float
            | Predicate::Number
            | Predicate::String
            | Predicate::Mapping
            | Predicate::Iterable
            | Predicate::Sequence
    )
}

/// True if a literal is no text of one character.
fn is_no_character(value: &Expression) -> bool {
    match value {
        Expression::Literal(Literal::String(text)) => text.chars().count() != 1,
        Expression::Literal(_) => true,
        _ => false,
    }
}

/// True if a literal is a text of several characters, which is in no single one.
fn is_long(value: &Expression) -> bool {
    matches!(value, Expression::Literal(Literal::String(text)) if text.chars().nth(1).is_some())
}
