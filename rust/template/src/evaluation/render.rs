//! Runs a compiled template over one record.

use std::collections::HashMap;
use std::ops::Range;

use chrono::NaiveDateTime;

use crate::evaluation::flow::{Flow, LeftBehind};
use crate::evaluation::input::Input;
use crate::evaluation::iteration_memo::IterationMemo;
use crate::evaluation::sources::{PrintedInputs, TextSources};
use crate::failure::{Failure, RenderResult};
use crate::json::Map;
use crate::language::tree::{
    AssignmentTarget, Captured, Scope, Slot, Statement, StatementKind, Template, VariableLoad,
};
use crate::programs::trace::Trace;
use crate::render_limits::Meter;
use crate::values::make::{ITEM_BYTES, check_nesting};
use crate::values::value::{Dict, GlobalFunction, Items, List, Value};

/// The output of a render.
#[derive(Debug, Default)]
pub struct RenderOutput {
    /// The text.
    pub text: String,
    /// Byte ranges that `{% generation %}` blocks wrote.
    pub spans: Vec<Range<usize>>,
    /// For each span, the index of the message that the innermost loop over messages was at; of another list of objects likewise.
    pub span_objects: Vec<Option<usize>>,
    /// Units of work that the render took.
    pub work: u64,
    /// The values of the inputs that were printed, if they were followed.
    pub shown: Option<PrintedInputs>,
}

/// The part of a render that is followed beside its text.
#[derive(Debug)]
pub enum FollowedParts<'t, 'r, 'm> {
    /// Nothing.
    Nothing,
    /// The run, to record it as a program.
    Trace(&'t mut Trace<'r>),
    /// The printed values of the inputs, for [`RenderOutput::shown`], and perhaps the run.
    Sources(Option<&'t mut Trace<'r>>),
    /// The recorded iterations of loops, shared with other renders of the same messages.
    Memo(&'t mut IterationMemo<'m>),
}

impl Template {
    /// Renders the template. `input` gives the value of each input of the template, if there is one.
    ///
    /// A failure has the line of the statement that failed. `trace` records the run.
    pub fn render<'r>(
        &'r self,
        now: NaiveDateTime,
        input: impl Fn(&str) -> Option<Input<'r>>,
        trace: Option<&mut Trace<'r>>,
        meter: &Meter<'_>,
    ) -> Result<RenderOutput, (usize, String)> {
        self.render_following(
            now,
            input,
            trace.map_or(FollowedParts::Nothing, FollowedParts::Trace),
            meter,
        )
    }

    /// Renders the template as [`render`](Self::render) does.
    pub fn render_following<'r, 't, 'm: 'r>(
        &'r self,
        now: NaiveDateTime,
        input: impl Fn(&str) -> Option<Input<'r>>,
        following: FollowedParts<'t, 'r, 'm>,
        meter: &Meter<'_>,
    ) -> Result<RenderOutput, (usize, String)> {
        let (mut trace, mut sources, mut memo) = (None, None, None);
        match following {
            FollowedParts::Nothing => {}
            FollowedParts::Trace(own) => trace = Some(own),
            FollowedParts::Sources(own) => {
                trace = own;
                sources = Some(TextSources::default());
            }
            FollowedParts::Memo(shared) => memo = Some(shared),
        }
        let inputs = self.inputs.iter().map(|name| {
            let value = input(name).map(Input::value);
            value.or_else(|| global(name)).unwrap_or(Value::Undefined)
        });
        let inputs: Vec<Value<'r>> = inputs.collect();
        let objects = if self.generates { objects_of(&inputs) } else { HashMap::new() };
        let mut renderer = Interpreter {
            now,
            inputs,
            objects,
            object: None,
            root: vec![Value::Undefined; self.slots],
            local: Vec::new(),
            base: 0,
            frames: Vec::new(),
            calls: 0,
            left: LeftBehind::default(),
            output: RenderOutput::default(),
            line: 1,
            meter,
            trace,
            sources,
            memo: memo.filter(|_| !self.generates),
            is_recording: false,
        };
        match renderer.run_scope(&self.scope) {
            Ok(_) => {
                renderer.output.work = meter.done();
                renderer.output.shown = renderer.sources.take().map(TextSources::shown);
                Ok(renderer.output)
            }
            Err(failure) => Err((renderer.line, failure.message())),
        }
    }
}

/// The number of each object in its list, by its address, of the inputs that are lists of objects; none if one is there twice.
fn objects_of(inputs: &[Value<'_>]) -> HashMap<*const Map, usize> {
    let lists = inputs.iter().filter_map(|input| match input {
        Value::List(List::Computed(items)) => Some(items.iter().enumerate()),
        _ => None,
    });
    let objects = lists.flatten().filter_map(|(number, item)| match item {
        Value::Dict(Dict::Data(object)) => Some((std::ptr::from_ref(*object), number)),
        _ => None,
    });
    let objects: Vec<_> = objects.collect();
    let numbers: HashMap<_, _> = objects.iter().copied().collect();
    if numbers.len() == objects.len() { numbers } else { HashMap::new() }
}

/// The functions that every template has, unless an input has the same name.
fn global<'r>(name: &str) -> Option<Value<'r>> {
    Some(Value::Function(match name {
        "raise_exception" => GlobalFunction::RaiseException,
        "strftime_now" => GlobalFunction::StrftimeNow,
        "namespace" => GlobalFunction::Namespace,
        "range" => GlobalFunction::Range,
        "dict" => GlobalFunction::Dict,
        "lipsum" => GlobalFunction::Unsupported("lipsum"),
        "cycler" => GlobalFunction::Unsupported("cycler"),
        "joiner" => GlobalFunction::Unsupported("joiner"),
        _ => return None,
    }))
}

/// The state of a render.
pub(crate) struct Interpreter<'r, 't, 'm> {
    pub(crate) now: NaiveDateTime,
    pub(crate) inputs: Vec<Value<'r>>,
    /// The objects of inputs such as `messages`, each with its number, if the template marks what it prints of them.
    pub(crate) objects: HashMap<*const Map, usize>,
    /// The one of them that the innermost loop over such objects is at.
    pub(crate) object: Option<usize>,
    pub(crate) root: Vec<Value<'r>>,
    pub(crate) local: Vec<Value<'r>>,
    /// Index in `local` of the first variable of the running macro.
    pub(crate) base: usize,
    /// The macros that are running, by the numbers of their calls.
    pub(crate) frames: Vec<usize>,
    /// Calls of macros so far.
    pub(crate) calls: usize,
    /// The effects of one turn of a loop on the next: assignments to namespaces so far, reads of attributes of `loop`,
    /// and whether there are generators, which can be read once.
    pub(crate) left: LeftBehind,
    pub(crate) output: RenderOutput,
    pub(crate) line: usize,
    pub(crate) meter: &'t Meter<'t>,
    pub(crate) trace: Option<&'t mut Trace<'r>>,
    /// The sources of computed and printed texts, if they are followed.
    pub(crate) sources: Option<TextSources>,
    /// The iterations that other renders of the same messages may repeat.
    pub(crate) memo: Option<&'t mut IterationMemo<'m>>,
    /// True while an iteration is recorded for it.
    pub(crate) is_recording: bool,
}

impl<'r, 'm: 'r> Interpreter<'r, '_, 'm> {
    pub(crate) fn get(&self, slot: Slot) -> &Value<'r> {
        if slot.local { &self.local[self.base + slot.index] } else { &self.root[slot.index] }
    }

    pub(crate) fn set(&mut self, slot: Slot, value: Value<'r>) {
        if slot.local {
            self.local[self.base + slot.index] = value;
        } else {
            self.root[slot.index] = value;
        }
    }

    /// Sets the initial values of a scope's variables.
    pub(crate) fn enter(&mut self, loads: &[(Slot, VariableLoad)]) -> RenderResult<()> {
        self.meter.items(loads.len())?;
        for (slot, load) in loads {
            if self.is_recording {
                self.note_load(load);
            }
            let value = match load {
                VariableLoad::Parameter => continue,
                VariableLoad::Input(index) => self.inputs[*index].clone(),
                VariableLoad::Copy(outer) => self.get(*outer).clone(),
                VariableLoad::Undefined => Value::Undefined,
            };
            self.set(*slot, value);
        }
        Ok(())
    }

    pub(crate) fn run_scope(&mut self, scope: &'r Scope) -> RenderResult<Flow> {
        self.enter(&scope.enter)?;
        self.run(&scope.body)
    }

    pub(crate) fn run(&mut self, body: &'r [Statement]) -> RenderResult<Flow> {
        self.meter.descend()?;
        let flow = self.run_all(body);
        self.meter.ascend();
        flow
    }

    fn run_all(&mut self, body: &'r [Statement]) -> RenderResult<Flow> {
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

    fn execute(&mut self, statement: &'r Statement) -> RenderResult<Flow> {
        match &statement.kind {
            StatementKind::Text(text) => {
                self.meter.write(&mut self.output.text, text)?;
                if let Some(trace) = &mut self.trace {
                    trace.literal(text);
                }
            }
            StatementKind::Print(expression) => self.print(expression)?,
            StatementKind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.holds(condition)? {
                        return self.run(body);
                    }
                }
                return self.run(otherwise);
            }
            StatementKind::For(statement) => return self.run_for(statement),
            StatementKind::Set(target, expression) => {
                let value = self.evaluate(expression)?;
                self.assign(target, value)?;
            }
            StatementKind::Capture(target, captured) => match self.run_captured(captured)? {
                (Flow::Next, value) => self.assign(target, value)?,
                (flow, _) => return Ok(flow),
            },
            StatementKind::Filter(captured) => match self.run_captured(captured)? {
                (Flow::Next, value @ (Value::String(_) | Value::Safe(_))) => {
                    self.print_value(&value)?;
                }
                // Jinja joins what it prints.
                (Flow::Next, other) => {
                    let kind = other.type_name();
                    return Err(Failure::error(format!("a filter block makes {kind}, not a text")));
                }
                (flow, _) => return Ok(flow),
            },
            StatementKind::With(variables, scope) => {
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
            StatementKind::Macro(name, definition) => self.set(name.slot, Value::Macro(definition)),
            StatementKind::Call(call) => {
                let (function, arguments, body) = &**call;
                let text = self.call_with_body(function, arguments, body)?;
                self.print_value(&text)?;
            }
            StatementKind::Generation(scope) => {
                let start = self.output.text.len();
                if let Some(trace) = &mut self.trace {
                    trace.begin(self.object);
                }
                self.run_scope(scope)?;
                self.meter.hold(ITEM_BYTES)?;
                self.output.spans.push(start..self.output.text.len());
                self.output.span_objects.push(self.object);
                if let Some(trace) = &mut self.trace {
                    trace.end();
                }
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// The output of a block, or what its filters make of it.
    fn run_captured(&mut self, captured: &'r Captured) -> RenderResult<(Flow, Value<'r>)> {
        let (flow, text) = self.capture(|renderer| renderer.run_scope(&captured.scope))?;
        match &captured.filtered {
            Some((output, filters)) if flow == Flow::Next => {
                self.set(output.slot, text);
                Ok((flow, self.evaluate(filters)?))
            }
            _ => Ok((flow, text)),
        }
    }

    /// Runs `run`, and returns its output as a value.
    pub(crate) fn capture<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> RenderResult<T>,
    ) -> RenderResult<(T, Value<'r>)> {
        let outer = std::mem::take(&mut self.output.text);
        let printed = self.trace.as_mut().map(|trace| trace.divert());
        let sources = self.sources.as_mut().map(TextSources::divert);
        let result = run(self);
        let text = std::mem::replace(&mut self.output.text, outer);
        let text = self.meter.string(text)?;
        let text = match (&mut self.trace, printed) {
            (Some(trace), Some(printed)) => trace.captured(printed, &text),
            _ => text,
        };
        if let (Some(known), Some(before)) = (&mut self.sources, sources) {
            known.captured(before, &text);
        }
        Ok((result?, text))
    }

    pub(crate) fn assign(
        &mut self,
        target: &'r AssignmentTarget,
        value: Value<'r>,
    ) -> RenderResult<()> {
        match target {
            AssignmentTarget::Name(name) => self.set(name.slot, value),
            AssignmentTarget::Tuple(targets) => {
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
                    self.derive(&item, &[&value]);
                    values.push(item);
                }
                if values.len() < targets.len() {
                    return Err(Failure::error("not enough values to unpack"));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
            }
            AssignmentTarget::Attribute(name, attribute) => match self.get(name.slot) {
                Value::Namespace(attributes) => {
                    check_nesting(&value)?;
                    attributes.borrow_mut().insert(attribute.clone(), value);
                    self.left.assigned += 1;
                    if self.is_recording {
                        self.note_assigned(name, attribute);
                    }
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
