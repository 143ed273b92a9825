//! Runs a compiled template over one record.

use std::ops::Range;

use chrono::NaiveDateTime;

use super::ast::{Kind, Load, Program, Scope, Slot, Statement, Target};
use super::failure::{Failure, Outcome};
use super::items::Items;
use super::limits::{ITEM_BYTES, Meter, check_nesting};
use super::trace::Trace;
use super::value::{Function, Value};

/// What a template gave for a record.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The text.
    pub(super) text: String,
    /// The bytes that came from `{% generation %}` blocks.
    pub(super) spans: Vec<Range<usize>>,
    /// The work that it took.
    pub(super) work: u64,
}

/// Renders a template. `input` tells the value of each name that the template reads from outside, if it has one.
///
/// What went wrong comes with the line of the statement that did it. A `trace` is told of all that is done with texts.
pub(super) fn render<'r>(
    program: &'r Program,
    now: NaiveDateTime,
    input: impl Fn(&str) -> Option<Value<'r>>,
    trace: Option<&mut Trace<'r>>,
    meter: &Meter<'_>,
) -> Result<Output, (usize, String)> {
    let inputs = program
        .inputs
        .iter()
        .map(|name| input(name).or_else(|| global(name)).unwrap_or(Value::Undefined));
    let mut renderer = Renderer {
        now,
        inputs: inputs.collect(),
        root: vec![Value::Undefined; program.slots],
        local: Vec::new(),
        base: 0,
        output: Output::default(),
        line: 1,
        meter,
        trace,
    };
    match renderer.run_scope(&program.scope) {
        Ok(_) => {
            renderer.output.work = meter.done();
            Ok(renderer.output)
        }
        Err(failure) => Err((renderer.line, failure.message())),
    }
}

/// The functions that are there if no input has their name.
fn global<'r>(name: &str) -> Option<Value<'r>> {
    Some(Value::Function(match name {
        "raise_exception" => Function::RaiseException,
        "strftime_now" => Function::StrftimeNow,
        "namespace" => Function::Namespace,
        "range" => Function::Range,
        _ => return None,
    }))
}

/// What follows a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// A template that is being rendered.
pub(super) struct Renderer<'r, 't> {
    pub(super) now: NaiveDateTime,
    pub(super) inputs: Vec<Value<'r>>,
    pub(super) root: Vec<Value<'r>>,
    pub(super) local: Vec<Value<'r>>,
    /// Where the variables of the macro that runs begin in `local`.
    pub(super) base: usize,
    pub(super) output: Output,
    pub(super) line: usize,
    pub(super) meter: &'t Meter<'t>,
    pub(super) trace: Option<&'t mut Trace<'r>>,
}

impl<'r> Renderer<'r, '_> {
    pub(super) fn get(&self, slot: Slot) -> &Value<'r> {
        if slot.local { &self.local[self.base + slot.index] } else { &self.root[slot.index] }
    }

    pub(super) fn set(&mut self, slot: Slot, value: Value<'r>) {
        if slot.local {
            self.local[self.base + slot.index] = value;
        } else {
            self.root[slot.index] = value;
        }
    }

    /// Fills the variables of a scope.
    pub(super) fn enter(&mut self, loads: &[(Slot, Load)]) -> Outcome<()> {
        self.meter.items(loads.len())?;
        for (slot, load) in loads {
            let value = match load {
                Load::Parameter => continue,
                Load::Input(index) => self.inputs[*index].clone(),
                Load::Copy(outer) => self.get(*outer).clone(),
                Load::Undefined => Value::Undefined,
            };
            self.set(*slot, value);
        }
        Ok(())
    }

    pub(super) fn run_scope(&mut self, scope: &'r Scope) -> Outcome<Flow> {
        self.enter(&scope.enter)?;
        self.run(&scope.body)
    }

    pub(super) fn run(&mut self, body: &'r [Statement]) -> Outcome<Flow> {
        self.meter.descend()?;
        let flow = self.run_all(body);
        self.meter.ascend();
        flow
    }

    fn run_all(&mut self, body: &'r [Statement]) -> Outcome<Flow> {
        for statement in body {
            self.line = statement.line;
            self.meter.step()?;
            if self.trace.as_ref().is_some_and(|trace| trace.is_stopped()) {
                self.trace = None;
            }
            match self.execute(statement)? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn execute(&mut self, statement: &'r Statement) -> Outcome<Flow> {
        match &statement.kind {
            Kind::Text(text) => {
                self.meter.write(&mut self.output.text, text)?;
                if let Some(trace) = &mut self.trace {
                    trace.literal(text);
                }
            }
            Kind::Print(expression) => self.print(expression)?,
            Kind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.holds(condition)? {
                        return self.run(body);
                    }
                }
                return self.run(otherwise);
            }
            Kind::For(statement) => return self.run_for(statement),
            Kind::Set(target, expression) => {
                let value = self.evaluate(expression)?;
                self.assign(target, value)?;
            }
            Kind::Capture(target, scope) => {
                let (flow, text) = self.capture(|renderer| renderer.run_scope(scope))?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
                self.assign(target, text)?;
            }
            Kind::With(variables, scope) => {
                let mut values = Vec::with_capacity(variables.len());
                self.enter(&scope.enter)?;
                for (target, expression) in variables {
                    values.push((target, self.evaluate(expression)?));
                }
                for (target, value) in values {
                    self.assign(target, value)?;
                }
                return self.run(&scope.body);
            }
            Kind::Macro(name, definition) => self.set(name.slot, Value::Macro(definition)),
            Kind::Generation(scope) => {
                let start = self.output.text.len();
                if let Some(trace) = &mut self.trace {
                    trace.begin();
                }
                self.run_scope(scope)?;
                self.meter.hold(ITEM_BYTES)?;
                self.output.spans.push(start..self.output.text.len());
                if let Some(trace) = &mut self.trace {
                    trace.end();
                }
            }
            Kind::Break => return Ok(Flow::Break),
            Kind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Runs something whose output is wanted as a value.
    pub(super) fn capture<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<(T, Value<'r>)> {
        let outer = std::mem::take(&mut self.output.text);
        let printed = self.trace.as_mut().map(|trace| trace.divert());
        let result = run(self);
        let text = std::mem::replace(&mut self.output.text, outer);
        let text = self.meter.string(text)?;
        let text = match (&mut self.trace, printed) {
            (Some(trace), Some(printed)) => trace.captured(printed, &text),
            _ => text,
        };
        Ok((result?, text))
    }

    pub(super) fn assign(&mut self, target: &'r Target, value: Value<'r>) -> Outcome<()> {
        match target {
            Target::Name(name) => self.set(name.slot, value),
            Target::Tuple(targets) => {
                if let Some(trace) = &mut self.trace {
                    trace.items(&value);
                }
                let items = Items::of(&value).ok_or_else(|| {
                    Failure::error(format!("{} cannot be unpacked", value.type_name()))
                })?;
                let mut values = Vec::with_capacity(targets.len());
                while let Some(item) = items.next(self.meter)? {
                    if values.len() == targets.len() {
                        return Err(Failure::error("too many values to unpack"));
                    }
                    values.push(item);
                }
                if values.len() < targets.len() {
                    return Err(Failure::error("not enough values to unpack"));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
            Target::Attribute(name, attribute) => match self.get(name.slot) {
                Value::Namespace(attributes) => {
                    check_nesting(&value)?;
                    attributes.borrow_mut().insert(attribute.clone(), value);
                }
                _ => {
                    return Err(Failure::error(
                        "cannot assign an attribute of what is no namespace",
                    ));
                }
            },
        }
        Ok(())
    }
}
