//! Walks over the variables of an expression.

use crate::language::tree::{Arguments, Expression, Variable};

/// Calls `found` with every variable of an expression.
pub(crate) fn visit(expression: &Expression, found: &mut dyn FnMut(&Variable)) {
    match expression {
        Expression::Name(name) => found(name),
        _ => children(expression, &mut |child| visit(child, found)),
    }
}

/// Calls `found` with every expression that is directly in another.
pub(crate) fn children<'e>(expression: &'e Expression, found: &mut dyn FnMut(&'e Expression)) {
    match expression {
        Expression::Literal(_) | Expression::Name(_) | Expression::Unrendered(_) => {}
        Expression::Tuple(items) | Expression::List(items) | Expression::Concat(items) => {
            items.iter().for_each(found);
        }
        Expression::Dict(items) => items.iter().for_each(|(key, value)| {
            found(key);
            found(value);
        }),
        Expression::Negative(value)
        | Expression::Positive(value)
        | Expression::Not(value)
        | Expression::Attribute(value, _) => found(value),
        Expression::And(both)
        | Expression::Or(both)
        | Expression::Binary(_, both)
        | Expression::Item(both) => {
            found(&both.0);
            found(&both.1);
        }
        Expression::Compare(first, rest) => {
            found(first);
            for (_, value) in rest {
                found(value);
            }
        }
        Expression::If(parts) => {
            found(&parts.0);
            found(&parts.1);
            parts.2.iter().for_each(found);
        }
        Expression::Slice(parts) => {
            found(&parts.0);
            parts.1.iter().flatten().for_each(found);
        }
        Expression::Call(parts) | Expression::Filter(_, parts) | Expression::Test(_, parts) => {
            found(&parts.0);
            each_argument(&parts.1, found);
        }
    }
}

/// Calls `found` with every variable of an expression, to change it.
pub(crate) fn visit_mut(expression: &mut Expression, found: &mut dyn FnMut(&mut Variable)) {
    match expression {
        Expression::Name(name) => found(name),
        Expression::Literal(_) | Expression::Unrendered(_) => {}
        Expression::Tuple(items) | Expression::List(items) | Expression::Concat(items) => {
            for item in items {
                visit_mut(item, found);
            }
        }
        Expression::Dict(items) => items.iter_mut().for_each(|(key, value)| {
            visit_mut(key, found);
            visit_mut(value, found);
        }),
        Expression::Negative(value)
        | Expression::Positive(value)
        | Expression::Not(value)
        | Expression::Attribute(value, _) => visit_mut(value, found),
        Expression::And(both)
        | Expression::Or(both)
        | Expression::Binary(_, both)
        | Expression::Item(both) => {
            visit_mut(&mut both.0, found);
            visit_mut(&mut both.1, found);
        }
        Expression::Compare(first, rest) => {
            visit_mut(first, found);
            for (_, value) in rest {
                visit_mut(value, found);
            }
        }
        Expression::If(parts) => {
            visit_mut(&mut parts.0, found);
            visit_mut(&mut parts.1, found);
            parts.2.iter_mut().for_each(|value| visit_mut(value, found));
        }
        Expression::Slice(parts) => {
            visit_mut(&mut parts.0, found);
            parts.1.iter_mut().flatten().for_each(|value| visit_mut(value, found));
        }
        Expression::Call(parts) | Expression::Filter(_, parts) | Expression::Test(_, parts) => {
            visit_mut(&mut parts.0, found);
            visit_arguments_mut(&mut parts.1, found);
        }
    }
}

/// Calls `found` with every variable of arguments.
pub(crate) fn visit_arguments(arguments: &Arguments, found: &mut dyn FnMut(&Variable)) {
    each_argument(arguments, &mut |argument| visit(argument, found));
}

/// Calls `found` with every variable of arguments, to change it.
pub(crate) fn visit_arguments_mut(arguments: &mut Arguments, found: &mut dyn FnMut(&mut Variable)) {
    arguments.positional.iter_mut().for_each(|value| visit_mut(value, found));
    arguments.named.iter_mut().for_each(|(_, value)| visit_mut(value, found));
    arguments.list.iter_mut().chain(&mut arguments.dict).for_each(|value| visit_mut(value, found));
}

fn each_argument<'e>(arguments: &'e Arguments, found: &mut dyn FnMut(&'e Expression)) {
    arguments.positional.iter().for_each(&mut *found);
    arguments.named.iter().for_each(|(_, value)| found(value));
    arguments.list.iter().chain(&arguments.dict).for_each(found);
}
