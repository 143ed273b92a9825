//! Resolves names to variables by Jinja's rules of scope, once, so that a render looks up slots, not names.
//!
//! The rules are those of `jinja2.idtracking`, followed to the letter because templates depend on their corners: an
//! assignment inside of a loop makes a new variable that starts as a copy of the outer one; a name that is assigned
//! before it is read ignores the input of that name; a macro sees what the template's variables hold when it runs.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexMap;

use crate::language::tree::{
    AssignmentTarget, Captured, Expression, ForLoop, Macro, Scope, Slot, Statement, StatementKind,
    Template, Variable, VariableLoad,
};
use crate::language::visit::{visit, visit_arguments, visit_arguments_mut, visit_mut};

/// Gives every variable of a parsed template its slot.
pub(crate) fn resolve(body: Vec<Statement>, generates: bool) -> Template {
    let mut resolver = Resolver::default();
    let mut scope = Scope { enter: Vec::new(), body };
    resolver.push();
    resolver.collect_all(&scope.body);
    resolver.bind_all(&mut scope.body);
    scope.enter = resolver.pop();
    let inputs = resolver.inputs.into_iter().collect();
    Template { scope, slots: resolver.slots[0], inputs, generates }
}

/// The variables of one scope.
#[derive(Clone, Debug, Default)]
struct ScopeVariables {
    id: usize,
    references: HashMap<Box<str>, Slot>,
    loads: IndexMap<Slot, VariableLoad>,
    stores: BTreeSet<Box<str>>,
}

#[derive(Debug, Default)]
struct Resolver {
    scopes: Vec<ScopeVariables>,
    next_scope: usize,
    inputs: indexmap::IndexSet<Box<str>>,
    known: HashMap<(usize, Box<str>), Slot>,
    /// The number of slots of the template, and of the current macro.
    slots: [usize; 2],
    in_macro: bool,
}

impl Resolver {
    fn push(&mut self) {
        self.scopes.push(ScopeVariables { id: self.next_scope, ..ScopeVariables::default() });
        self.next_scope += 1;
    }

    /// Leaves a scope, and returns the initial values of its variables.
    fn pop(&mut self) -> Vec<(Slot, VariableLoad)> {
        let variables =
            self.scopes.pop().expect("a scope is left once for each time it is entered");
        variables.loads.into_iter().filter(|(_, load)| *load != VariableLoad::Parameter).collect()
    }

    fn top(&mut self) -> &mut ScopeVariables {
        self.scopes.last_mut().expect("there is a scope while statements are visited")
    }

    fn find(&self, name: &str) -> Option<Slot> {
        self.scopes.iter().rev().find_map(|variables| variables.references.get(name).copied())
    }

    fn find_outside(&self, name: &str) -> Option<Slot> {
        self.scopes
            .iter()
            .rev()
            .skip(1)
            .find_map(|variables| variables.references.get(name).copied())
    }

    fn define(&mut self, name: &str, load: VariableLoad) {
        let local = self.in_macro;
        let key = (self.top().id, Box::from(name));
        let slot = if let Some(slot) = self.known.get(&key) {
            *slot
        } else {
            let count = &mut self.slots[usize::from(local)];
            let slot = Slot { local, index: *count };
            *count += 1;
            self.known.insert(key, slot);
            slot
        };
        let variables = self.top();
        variables.references.insert(name.into(), slot);
        variables.loads.insert(slot, load);
    }

    fn input(&mut self, name: &str) -> VariableLoad {
        VariableLoad::Input(self.inputs.insert_full(name.into()).0)
    }

    fn load(&mut self, name: &str) {
        if self.find(name).is_none() {
            let load = self.input(name);
            self.define(name, load);
        }
    }

    fn store(&mut self, name: &str) {
        self.top().stores.insert(name.into());
        if !self.top().references.contains_key(name) {
            let load = self.find_outside(name).map_or(VariableLoad::Undefined, VariableLoad::Copy);
            self.define(name, load);
        }
    }

    fn parameter(&mut self, name: &str) {
        self.top().stores.insert(name.into());
        self.define(name, VariableLoad::Parameter);
    }

    /// Merges the variables of the branches of an `if`.
    fn join(&mut self, branches: Vec<ScopeVariables>) {
        let mut stores: BTreeSet<Box<str>> =
            branches.iter().flat_map(|branch| branch.stores.iter().cloned()).collect();
        stores.retain(|name| !self.top().stores.contains(name));
        let variables = self.top();
        for branch in branches {
            variables.references.extend(branch.references);
            variables.loads.extend(branch.loads);
            variables.stores.extend(branch.stores);
        }
        for name in stores {
            let Some(slot) = self.find(&name) else { continue };
            let load = match self.find_outside(&name) {
                Some(outer) => VariableLoad::Copy(outer),
                None => self.input(&name),
            };
            self.top().loads.insert(slot, load);
        }
    }

    fn collect_all(&mut self, body: &[Statement]) {
        for statement in body {
            self.collect(statement);
        }
    }

    /// Collects the variables that a statement reads and writes in the current scope, not in scopes inside of
    /// it.
    fn collect(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Text(_)
            | StatementKind::Generation(_)
            | StatementKind::Break
            | StatementKind::Continue => {}
            StatementKind::Print(value) => self.collect_expression(value),
            StatementKind::If(branches, otherwise) => self.collect_if(branches, otherwise),
            StatementKind::For(statement) => self.collect_expression(&statement.items),
            StatementKind::Set(target, value) => {
                self.collect_expression(value);
                self.collect_target(target);
            }
            StatementKind::Capture(target, _) => self.collect_target(target),
            StatementKind::Filter(captured) => self.collect_filters(captured),
            StatementKind::With(variables, _) => {
                for (_, value) in variables {
                    self.collect_expression(value);
                }
            }
            StatementKind::Macro(name, _) => self.store(&name.name),
            StatementKind::Call(call) => {
                self.collect_expression(&call.0);
                visit_arguments(&call.1, &mut |name| self.load(&name.name));
            }
        }
    }

    /// As in Jinja, all `elif`s together are one branch, in which each is an `if` of its own.
    fn collect_if(&mut self, branches: &[(Expression, Vec<Statement>)], otherwise: &[Statement]) {
        let Some(((condition, first), rest)) = branches.split_first() else { return };
        self.collect_expression(condition);
        let before = self.top().clone();
        self.collect_all(first);
        let first = std::mem::replace(self.top(), before.clone());
        for branch in rest {
            self.collect_if(std::slice::from_ref(branch), &[]);
        }
        let middle = std::mem::replace(self.top(), before.clone());
        self.collect_all(otherwise);
        let last = std::mem::replace(self.top(), before);
        self.join(vec![first, middle, last]);
    }

    fn collect_target(&mut self, target: &AssignmentTarget) {
        match target {
            AssignmentTarget::Name(name) => self.store(&name.name),
            AssignmentTarget::Tuple(targets) => {
                for target in targets {
                    self.collect_target(target);
                }
            }
            AssignmentTarget::Attribute(name, _) => self.load(&name.name),
        }
    }

    fn collect_expression(&mut self, expression: &Expression) {
        visit(expression, &mut |name| self.load(&name.name));
    }

    /// Collects the variables in the filters of a block, not the one that holds its output.
    fn collect_filters(&mut self, captured: &Captured) {
        let Some((output, filters)) = &captured.filtered else { return };
        visit(filters, &mut |name| {
            if name.name != output.name {
                self.load(&name.name);
            }
        });
    }

    fn collect_parameters(&mut self, target: &AssignmentTarget) {
        match target {
            AssignmentTarget::Name(name) => self.parameter(&name.name),
            AssignmentTarget::Tuple(targets) => {
                for target in targets {
                    self.collect_parameters(target);
                }
            }
            AssignmentTarget::Attribute(..) => {}
        }
    }

    fn bind_all(&mut self, body: &mut [Statement]) {
        for statement in body {
            self.bind(statement);
        }
    }

    /// Sets the slots of a statement whose scope is known, and resolves the scopes inside of it.
    fn bind(&mut self, statement: &mut Statement) {
        match &mut statement.kind {
            StatementKind::Text(_) | StatementKind::Break | StatementKind::Continue => {}
            StatementKind::Print(value) => self.bind_expression(value),
            StatementKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    self.bind_expression(condition);
                    self.bind_all(body);
                }
                self.bind_all(otherwise);
            }
            StatementKind::For(statement) => self.bind_for(statement),
            StatementKind::Set(target, value) => {
                self.bind_expression(value);
                self.bind_target(target);
            }
            StatementKind::Capture(target, captured) => {
                self.bind_captured(captured);
                self.bind_target(target);
            }
            StatementKind::Filter(captured) => self.bind_captured(captured),
            StatementKind::With(variables, scope) => {
                for (_, value) in variables.iter_mut() {
                    self.bind_expression(value);
                }
                self.push();
                for (target, _) in variables.iter() {
                    self.collect_parameters(target);
                }
                self.collect_all(&scope.body);
                for (target, _) in variables.iter_mut() {
                    self.bind_target(target);
                }
                self.bind_all(&mut scope.body);
                scope.enter = self.pop();
            }
            StatementKind::Macro(name, definition) => {
                self.bind_name(name);
                self.bind_macro(definition);
            }
            StatementKind::Call(call) => {
                let (function, arguments, body) = &mut **call;
                self.bind_expression(function);
                visit_arguments_mut(arguments, &mut |name| self.bind_name(name));
                self.bind_body(body);
            }
            StatementKind::Generation(scope) => self.bind_scope(scope, |_| {}),
        }
    }

    fn bind_scope(&mut self, scope: &mut Scope, parameters: impl FnOnce(&mut Self)) {
        self.push();
        parameters(self);
        self.collect_all(&scope.body);
        self.bind_all(&mut scope.body);
        scope.enter = self.pop();
    }

    fn bind_captured(&mut self, captured: &mut Captured) {
        self.push();
        if let Some((output, _)) = &captured.filtered {
            self.parameter(&output.name);
        }
        self.collect_filters(captured);
        self.collect_all(&captured.scope.body);
        self.bind_all(&mut captured.scope.body);
        if let Some((output, filters)) = &mut captured.filtered {
            self.bind_name(output);
            self.bind_expression(filters);
        }
        captured.scope.enter = self.pop();
    }

    fn bind_for(&mut self, statement: &mut ForLoop) {
        self.bind_expression(&mut statement.items);
        if let Some((target, enter, test)) = &mut statement.test {
            self.push();
            self.collect_parameters(target);
            self.collect_expression(test);
            self.bind_target(target);
            self.bind_expression(test);
            *enter = self.pop();
        }
        if uses("loop", &statement.scope.body) {
            statement.looping = Some(Variable { name: "loop".into(), slot: Slot::default() });
        }
        let ForLoop { target, looping, scope, .. } = statement;
        self.bind_scope(scope, |resolver| {
            if let Some(name) = looping {
                resolver.parameter(&name.name);
                resolver.bind_name(name);
            }
            resolver.collect_parameters(target);
            resolver.bind_target(target);
        });
        self.bind_scope(&mut statement.otherwise, |_| {});
    }

    fn bind_macro(&mut self, definition: &mut Macro) {
        self.in_macro = true;
        self.slots[1] = 0;
        self.bind_body(definition);
        definition.slots = self.slots[1];
        self.in_macro = false;
    }

    /// Sets the slots of the parameters and the body of a macro or a `call` block.
    fn bind_body(&mut self, definition: &mut Macro) {
        if uses("caller", &definition.scope.body) {
            definition.caller = Some(Variable { name: "caller".into(), slot: Slot::default() });
        }
        let Macro { parameters, defaults, caller, scope, .. } = definition;
        self.bind_scope(scope, |resolver| {
            if let Some(name) = caller {
                resolver.parameter(&name.name);
                resolver.bind_name(name);
            }
            for parameter in parameters.iter() {
                resolver.parameter(&parameter.name);
            }
            for default in defaults.iter() {
                resolver.collect_expression(default);
            }
            for parameter in parameters.iter_mut() {
                resolver.bind_name(parameter);
            }
            for default in defaults.iter_mut() {
                resolver.bind_expression(default);
            }
        });
    }

    fn bind_name(&mut self, name: &mut Variable) {
        if let Some(slot) = self.find(&name.name) {
            name.slot = slot;
        }
    }

    fn bind_target(&mut self, target: &mut AssignmentTarget) {
        match target {
            AssignmentTarget::Name(name) | AssignmentTarget::Attribute(name, _) => {
                self.bind_name(name);
            }
            AssignmentTarget::Tuple(targets) => {
                for target in targets {
                    self.bind_target(target);
                }
            }
        }
    }

    fn bind_expression(&mut self, expression: &mut Expression) {
        visit_mut(expression, &mut |name| self.bind_name(name));
    }
}

/// True if the variable `wanted` is read anywhere in these statements.
fn uses(wanted: &str, body: &[Statement]) -> bool {
    let reads = |expression: &Expression| {
        let mut found = false;
        visit(expression, &mut |name| found |= &*name.name == wanted);
        found
    };
    let uses = |body: &[Statement]| uses(wanted, body);
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Text(_) | StatementKind::Break | StatementKind::Continue => false,
        StatementKind::Print(value) | StatementKind::Set(_, value) => reads(value),
        StatementKind::If(branches, otherwise) => {
            branches.iter().any(|(condition, body)| reads(condition) || uses(body))
                || uses(otherwise)
        }
        StatementKind::For(inner) => {
            reads(&inner.items)
                || inner.test.as_ref().is_some_and(|(_, _, test)| reads(test))
                || uses(&inner.scope.body)
                || uses(&inner.otherwise.body)
        }
        StatementKind::Capture(_, captured) | StatementKind::Filter(captured) => {
            uses(&captured.scope.body)
                || captured.filtered.as_ref().is_some_and(|(_, filters)| reads(filters))
        }
        StatementKind::Generation(scope) => uses(&scope.body),
        StatementKind::With(variables, scope) => {
            variables.iter().any(|(_, value)| reads(value)) || uses(&scope.body)
        }
        StatementKind::Macro(_, definition) => uses(&definition.scope.body),
        StatementKind::Call(call) => {
            let (function, arguments, body) = &**call;
            let mut found = reads(function);
            visit_arguments(arguments, &mut |name| found |= &*name.name == wanted);
            found || uses(&body.scope.body)
        }
    })
}
