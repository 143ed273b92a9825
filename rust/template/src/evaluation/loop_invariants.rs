//! [`LoopInvariants`]: the expressions of a loop or macro that depend on nothing but what is around it.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use crate::language::tree::{
    Arguments, AssignmentTarget, Captured, Expression, ForLoop, Macro, Scope, Slot, Statement,
    StatementKind, Template, VariableLoad,
};
use crate::language::visit::children;

/// The outer expressions of a loop or macro.
#[derive(Debug, Default)]
pub(super) struct LoopInvariants<'m> {
    /// The expressions that name nothing but variables from outside of the loop, and attributes of `loop`.
    pub(super) expressions: Vec<OuterExpression<'m>>,
    /// The number of each of them.
    pub(super) numbers: HashMap<*const Expression, usize, RandomState>,
    /// The variables of the loop and of what is in it.
    inner: HashSet<usize, RandomState>,
    /// The slot of `loop`.
    looping: Option<Slot>,
}

/// An expression that depends on nothing but what is around a loop.
#[derive(Debug)]
pub(super) struct OuterExpression<'m> {
    pub(super) expression: &'m Expression,
    /// Its variables, each with the attribute that is read of it, if that is known.
    variables: Vec<(Slot, Option<&'m str>)>,
    /// True if it is one attribute of a variable.
    pub(super) is_one_attribute: bool,
}

impl OuterExpression<'_> {
    /// True if it reads an attribute of a variable.
    pub(super) fn reads_attribute(&self, slot: Slot, name: &str) -> bool {
        self.variables
            .iter()
            .any(|(known, read)| *known == slot && read.is_none_or(|read| read == name))
    }
}

/// The outer expressions of each loop, by its address, and of all macros. Loops inside of others or of macros, and loops over tuples
/// of variables, are left out.
pub(super) fn reads_of(
    template: &Template,
) -> (HashMap<usize, LoopInvariants<'_>, RandomState>, LoopInvariants<'_>) {
    let mut macros = Vec::new();
    let mut loops = Vec::new();
    find(&template.scope.body, &mut loops, &mut macros);
    let of_loops = loops.into_iter().map(|it| {
        let mut reads = LoopInvariants {
            looping: it.looping.as_ref().map(|name| name.slot),
            ..LoopInvariants::default()
        };
        reads.assigned_in_loop(it);
        reads.of_body(&it.scope.body);
        for definition in &macros {
            reads.of_macro(definition);
        }
        (std::ptr::from_ref(it).addr(), reads)
    });
    let mut of_macros = LoopInvariants::default();
    for definition in &macros {
        of_macros.of_macro(definition);
    }
    (of_loops.collect(), of_macros)
}

/// Finds the loops and macros of statements, but for those inside of a loop.
fn find<'m>(body: &'m [Statement], loops: &mut Vec<&'m ForLoop>, macros: &mut Vec<&'m Macro>) {
    for statement in body {
        match &statement.kind {
            StatementKind::If(branches, otherwise) => {
                for (_, body) in branches {
                    find(body, loops, macros);
                }
                find(otherwise, loops, macros);
            }
            StatementKind::For(it) => {
                if matches!(it.target, AssignmentTarget::Name(_)) {
                    loops.push(it);
                }
            }
            StatementKind::Capture(_, captured) | StatementKind::Filter(captured) => {
                find(&captured.scope.body, loops, macros);
            }
            StatementKind::With(_, scope) => find(&scope.body, loops, macros),
            StatementKind::Macro(_, definition) => macros.push(definition),
            _ => {}
        }
    }
}

impl<'m> LoopInvariants<'m> {
    /// True if a variable is from outside of the loop.
    pub(super) fn is_outer(&self, slot: Slot) -> bool {
        !slot.local && !self.inner.contains(&slot.index)
    }

    fn add_inner(&mut self, slot: Slot) {
        if !slot.local {
            self.inner.insert(slot.index);
        }
    }

    fn assigned_in_loop(&mut self, statement: &ForLoop) {
        self.assigned(&statement.target);
        if let Some(name) = &statement.looping {
            self.add_inner(name.slot);
        }
        if let Some((target, enter, _)) = &statement.test {
            self.assigned(target);
            self.entered(enter);
        }
        self.assigned_in(&statement.scope);
        self.assigned_in(&statement.otherwise);
    }

    fn assigned(&mut self, target: &AssignmentTarget) {
        match target {
            AssignmentTarget::Name(name) => self.add_inner(name.slot),
            AssignmentTarget::Tuple(targets) => {
                for target in targets {
                    self.assigned(target);
                }
            }
            AssignmentTarget::Attribute(..) => {}
        }
    }

    fn entered(&mut self, enter: &[(Slot, VariableLoad)]) {
        for (slot, _) in enter {
            self.add_inner(*slot);
        }
    }

    /// Adds the variables that a scope has or assigns.
    fn assigned_in(&mut self, scope: &Scope) {
        self.entered(&scope.enter);
        self.assigned_by(&scope.body);
    }

    fn assigned_by(&mut self, body: &[Statement]) {
        for statement in body {
            match &statement.kind {
                StatementKind::If(branches, otherwise) => {
                    for (_, body) in branches {
                        self.assigned_by(body);
                    }
                    self.assigned_by(otherwise);
                }
                StatementKind::For(it) => self.assigned_in_loop(it),
                StatementKind::Set(target, _) => self.assigned(target),
                StatementKind::Capture(target, captured) => {
                    self.assigned(target);
                    self.assigned_in_captured(captured);
                }
                StatementKind::Filter(captured) => self.assigned_in_captured(captured),
                StatementKind::With(variables, scope) => {
                    for (target, _) in variables {
                        self.assigned(target);
                    }
                    self.assigned_in(scope);
                }
                StatementKind::Macro(name, definition) => {
                    self.add_inner(name.slot);
                    self.assigned_in_macro(definition);
                }
                StatementKind::Call(call) => self.assigned_in_macro(&call.2),
                StatementKind::Generation(scope) => self.assigned_in(scope),
                StatementKind::Text(_)
                | StatementKind::Print(_)
                | StatementKind::Break
                | StatementKind::Continue => {}
            }
        }
    }

    fn assigned_in_captured(&mut self, captured: &Captured) {
        self.assigned_in(&captured.scope);
        if let Some((output, _)) = &captured.filtered {
            self.add_inner(output.slot);
        }
    }

    fn assigned_in_macro(&mut self, definition: &Macro) {
        for name in &definition.parameters {
            self.add_inner(name.slot);
        }
        if let Some(name) = &definition.caller {
            self.add_inner(name.slot);
        }
        self.assigned_in(&definition.scope);
    }

    /// Adds the outer expressions that statements evaluate.
    fn of_body(&mut self, body: &'m [Statement]) {
        for statement in body {
            match &statement.kind {
                StatementKind::Print(expression) | StatementKind::Set(_, expression) => {
                    self.of_expression(expression);
                }
                StatementKind::If(branches, otherwise) => {
                    for (condition, body) in branches {
                        self.of_expression(condition);
                        self.of_body(body);
                    }
                    self.of_body(otherwise);
                }
                StatementKind::For(it) => {
                    self.of_expression(&it.items);
                    if let Some((_, _, test)) = &it.test {
                        self.of_expression(test);
                    }
                    self.of_body(&it.scope.body);
                    self.of_body(&it.otherwise.body);
                }
                StatementKind::Capture(_, captured) | StatementKind::Filter(captured) => {
                    self.of_body(&captured.scope.body);
                    if let Some((_, filters)) = &captured.filtered {
                        self.of_expression(filters);
                    }
                }
                StatementKind::With(variables, scope) => {
                    for (_, value) in variables {
                        self.of_expression(value);
                    }
                    self.of_body(&scope.body);
                }
                StatementKind::Macro(_, definition) => self.of_macro(definition),
                StatementKind::Call(call) => {
                    let (function, arguments, body) = &**call;
                    self.of_expression(function);
                    self.of_arguments(arguments);
                    self.of_macro(body);
                }
                StatementKind::Generation(scope) => self.of_body(&scope.body),
                StatementKind::Text(_) | StatementKind::Break | StatementKind::Continue => {}
            }
        }
    }

    fn of_macro(&mut self, definition: &'m Macro) {
        for value in &definition.defaults {
            self.of_expression(value);
        }
        self.of_body(&definition.scope.body);
    }

    fn of_arguments(&mut self, arguments: &'m Arguments) {
        for value in &arguments.positional {
            self.of_expression(value);
        }
        for (_, value) in &arguments.named {
            self.of_expression(value);
        }
        arguments.list.iter().chain(&arguments.dict).for_each(|value| self.of_expression(value));
    }

    fn of_expression(&mut self, expression: &'m Expression) {
        if self.depends_on_outer_alone(expression) {
            let mut variables = Vec::new();
            Self::variables_of(expression, &mut variables);
            if !variables.is_empty() {
                let is_one_attribute = matches!(
                    expression,
                    Expression::Attribute(of, _) if matches!(**of, Expression::Name(_))
                );
                let outer = OuterExpression { expression, variables, is_one_attribute };
                self.numbers.insert(std::ptr::from_ref(expression), self.expressions.len());
                self.expressions.push(outer);
            }
        }
        match expression {
            // A method is called without evaluating it.
            Expression::Call(parts) => {
                let (function, arguments) = &**parts;
                match function {
                    Expression::Attribute(receiver, _) => self.of_expression(receiver),
                    other => self.of_expression(other),
                }
                self.of_arguments(arguments);
            }
            other => children(other, &mut |child| self.of_expression(child)),
        }
    }

    fn depends_on_outer_alone(&self, expression: &Expression) -> bool {
        match expression {
            Expression::Name(name) => self.is_outer(name.slot),
            Expression::Attribute(of, _) if self.is_loop(of) => true,
            Expression::Call(_) | Expression::Unrendered(_) => false,
            other => {
                let mut depends = true;
                children(other, &mut |child| depends &= self.depends_on_outer_alone(child));
                depends
            }
        }
    }

    /// True if an expression is `loop`.
    pub(super) fn is_loop(&self, expression: &Expression) -> bool {
        matches!(expression, Expression::Name(name) if self.is_slot_of_loop(name.slot))
    }

    /// True if a variable is `loop`.
    pub(super) fn is_slot_of_loop(&self, slot: Slot) -> bool {
        Some(slot) == self.looping
    }

    fn variables_of(expression: &'m Expression, found: &mut Vec<(Slot, Option<&'m str>)>) {
        match expression {
            Expression::Name(name) => found.push((name.slot, None)),
            Expression::Attribute(of, attribute) => match &**of {
                Expression::Name(name) => found.push((name.slot, Some(attribute))),
                other => Self::variables_of(other, found),
            },
            other => children(other, &mut |child| Self::variables_of(child, found)),
        }
    }
}
