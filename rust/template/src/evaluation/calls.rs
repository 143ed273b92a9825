//! Calls methods, macros and the functions that every template has.

use std::cell::RefCell;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::evaluation::render::Interpreter;
use crate::failure::{Failure, RenderResult};
use crate::language::methods::Method;
use crate::language::tree::{Arguments, Expression, Macro};
use crate::values::arguments::CallArguments;
use crate::values::key::Key;
use crate::values::make::{ITEM_BYTES, check_nesting};
use crate::values::methods::{self, Attribute};
use crate::values::printing::print::to_text;
use crate::values::printing::strftime::strftime;
use crate::values::texts::text::Text;
use crate::values::value::{CallBody, GlobalFunction, Value, range_length};

/// Most items of a `range` in Jinja's sandbox.
const MAX_RANGE: i64 = 100_000;

impl<'r, 'm: 'r> Interpreter<'r, '_, 'm> {
    /// Evaluates a call.
    pub(crate) fn evaluate_call(
        &mut self,
        function: &'r Expression,
        arguments: &'r Arguments,
    ) -> RenderResult<Value<'r>> {
        let function = match function {
            // Most calls are of methods, which can be called without making a value of them.
            Expression::Attribute(receiver, name) => {
                let receiver = self.evaluate(receiver)?;
                if let Value::String(_) | Value::Dict(_) = receiver
                    && let Attribute::Method(method) = methods::find(&receiver, name)
                {
                    let arguments = self.arguments(arguments)?;
                    return self.call_method(method, &receiver, arguments);
                }
                self.attribute_of(&receiver, name)?
            }
            other => self.evaluate(other)?,
        };
        let arguments = self.arguments(arguments)?;
        match function {
            Value::Method(method, receiver) => self.call_method(method, &receiver, arguments),
            Value::Macro(definition) => {
                self.call_remembered(definition, arguments, Value::Undefined)
            }
            Value::Caller(body) => self.call_body(&body, arguments),
            Value::Function(function) => self.call_function(function, arguments),
            Value::UnknownMethod(name) => {
                Err(Failure::unsupported(format_args!("the method `{name}`")))
            }
            other => Err(Failure::error(format!("{} cannot be called", other.type_name()))),
        }
    }

    /// `{% call(…) function(arguments) %}body{% endcall %}`
    pub(crate) fn call_with_body(
        &mut self,
        function: &'r Expression,
        arguments: &'r Arguments,
        body: &'r Macro,
    ) -> RenderResult<Value<'r>> {
        let function = self.evaluate(function)?;
        let arguments = self.arguments(arguments)?;
        let Value::Macro(definition) = function else {
            return Err(Failure::unsupported("a `call` block of what is no macro"));
        };
        if definition.caller.is_none() {
            let reason = format!("the macro `{}` takes no `call` block", definition.name);
            return Err(Failure::error(reason));
        }
        let frame = self.frames.last().copied();
        let caller = Value::Caller(Rc::new(CallBody { body, base: self.base, frame }));
        self.call_macro(definition, arguments, caller)
    }

    /// Runs the body of a `call` block, with the variables that are around it.
    fn call_body(
        &mut self,
        caller: &CallBody<'r>,
        arguments: CallArguments<'r>,
    ) -> RenderResult<Value<'r>> {
        if caller.frame.is_some_and(|frame| !self.frames.contains(&frame)) {
            return Err(Failure::unsupported("the body of a `call` block whose macro has ended"));
        }
        let values = self.bind(caller.body, arguments)?;
        let (base, line) = (std::mem::replace(&mut self.base, caller.base), self.line);
        let result =
            self.capture(|renderer| renderer.run_macro(caller.body, values, Value::Undefined));
        self.base = base;
        let ((), text) = result?;
        self.line = line;
        Ok(text)
    }

    fn call_method(
        &mut self,
        method: Method,
        receiver: &Value<'r>,
        arguments: CallArguments<'r>,
    ) -> RenderResult<Value<'r>> {
        let known = self.trace.as_ref().map(|_| arguments.unspent());
        let sources = self.sources_of(receiver, &arguments);
        let result = methods::call(method, receiver, arguments, self.meter)?;
        let result = self.traced(result, |trace, result| {
            trace.method(method, receiver, &known.unwrap_or_default(), result)
        });
        self.derive_from(&result, receiver, sources);
        Ok(result)
    }

    fn call_function(
        &mut self,
        function: GlobalFunction,
        arguments: CallArguments<'r>,
    ) -> RenderResult<Value<'r>> {
        match function {
            GlobalFunction::RaiseException => {
                let [message] = arguments.bind(["message"])?;
                Err(Failure::error(
                    to_text(&message.unwrap_or(Value::None), self.meter)?.to_string(),
                ))
            }
            GlobalFunction::StrftimeNow => match arguments.bind(["format"])? {
                [Some(Value::String(format))] => {
                    let format = Value::String(format);
                    if let Some(trace) = &mut self.trace {
                        trace.decisive(&format);
                    }
                    let format = format.as_text().map_or("", |format| format);
                    let time = strftime(self.now, format, self.meter)
                        .and_then(|it| self.meter.string(it))?;
                    self.derive(&time, &[]);
                    Ok(time)
                }
                _ => Err(Failure::error("`strftime_now` needs a format")),
            },
            GlobalFunction::Namespace => {
                if !arguments.positional.is_empty() {
                    return Err(Failure::unsupported("`namespace` with arguments by position"));
                }
                if let Some((name, _)) =
                    arguments.named.iter().find(|(name, _)| name.starts_with('_'))
                {
                    return Err(Failure::error(format!("a namespace cannot hold `{name}`")));
                }
                arguments.named.iter().try_for_each(|(_, value)| check_nesting(value))?;
                let attributes =
                    arguments.named.into_iter().map(|(name, value)| (name.into(), value)).collect();
                let namespace = Value::Namespace(Rc::new(RefCell::new(attributes)));
                if self.is_recording {
                    self.note_namespace(&namespace);
                }
                Ok(namespace)
            }
            GlobalFunction::Range => range(arguments),
            GlobalFunction::Dict => self.dict(arguments),
            GlobalFunction::Unsupported(name) => {
                Err(Failure::unsupported(format_args!("the global `{name}`")))
            }
        }
    }

    /// `dict(…)`: a copy of a dict, with further entries by name.
    fn dict(&mut self, arguments: CallArguments<'r>) -> RenderResult<Value<'r>> {
        let mut entries = IndexMap::new();
        match arguments.positional.as_slice() {
            [] => {}
            [Value::Dict(dict)] => {
                if let Some(trace) = &mut self.trace {
                    trace.items(&Value::Dict(dict.clone()));
                }
                self.meter.items(dict.len())?;
                entries.extend(dict.iter());
            }
            [_] => return Err(Failure::unsupported("`dict` of what is no dict")),
            _ => return Err(Failure::error("`dict` takes one argument by position")),
        }
        for (name, value) in arguments.named {
            entries.insert(Key::Text(Text::Borrowed(name)), value);
        }
        let bytes = entries.len() * 2 * ITEM_BYTES;
        self.meter.items(entries.len())?;
        self.meter.hold(bytes)?;
        let dict = Value::dict(entries, self.meter.held(bytes));
        check_nesting(&dict).map(|()| dict)
    }

    /// The values of the parameters of a macro, in their order; none for those that are not given.
    fn bind(
        &self,
        definition: &'r Macro,
        arguments: CallArguments<'r>,
    ) -> RenderResult<Vec<Option<Value<'r>>>> {
        let parameters = &definition.parameters;
        if arguments.positional.len() > parameters.len() {
            return Err(Failure::error(format!(
                "the macro `{}` takes fewer arguments",
                definition.name
            )));
        }
        let by_position = arguments.positional.len();
        self.meter
            .items(parameters.len() + arguments.named.len().saturating_mul(parameters.len()))?;
        let mut values: Vec<Option<Value<'r>>> =
            arguments.positional.into_iter().map(Some).collect();
        values.resize_with(parameters.len(), || None);
        for (name, value) in arguments.named {
            match parameters.iter().position(|parameter| *parameter.name == *name) {
                Some(at) if at >= by_position => values[at] = Some(value),
                _ => {
                    return Err(Failure::error(format!(
                        "the macro `{}` takes no `{name}`",
                        definition.name
                    )));
                }
            }
        }
        Ok(values)
    }

    pub(super) fn call_macro(
        &mut self,
        definition: &'r Macro,
        arguments: CallArguments<'r>,
        caller: Value<'r>,
    ) -> RenderResult<Value<'r>> {
        let values = self.bind(definition, arguments)?;
        let (base, line) = (self.base, self.line);
        let bytes = definition.slots * ITEM_BYTES;
        self.meter.items(definition.slots)?;
        self.meter.hold(bytes)?;
        self.base = self.local.len();
        self.local.resize(self.base + definition.slots, Value::Undefined);
        self.calls += 1;
        self.frames.push(self.calls);
        let result = self.capture(|renderer| renderer.run_macro(definition, values, caller));
        self.frames.pop();
        self.local.truncate(self.base);
        self.base = base;
        self.meter.release(bytes);
        let ((), text) = result?;
        self.line = line;
        Ok(text)
    }

    fn run_macro(
        &mut self,
        definition: &'r Macro,
        values: Vec<Option<Value<'r>>>,
        caller: Value<'r>,
    ) -> RenderResult<()> {
        self.enter(&definition.scope.enter)?;
        if let Some(name) = &definition.caller {
            self.set(name.slot, caller);
        }
        let without_default = definition.parameters.len() - definition.defaults.len();
        for (at, (parameter, value)) in definition.parameters.iter().zip(&values).enumerate() {
            if let Some(value) = value {
                self.set(parameter.slot, value.clone());
            } else if at < without_default {
                self.set(parameter.slot, Value::Undefined);
            }
        }
        for (at, (parameter, value)) in definition.parameters.iter().zip(values).enumerate() {
            if let (None, Some(at)) = (value, at.checked_sub(without_default)) {
                let default = self.evaluate(&definition.defaults[at])?;
                self.set(parameter.slot, default);
            }
        }
        self.run(&definition.scope.body).map(|_| ())
    }
}

fn range<'r>(arguments: CallArguments<'r>) -> RenderResult<Value<'r>> {
    let [first, second, step] = arguments.positional()?;
    let int = |value: Option<Value<'r>>, default: i64| match value {
        None => Ok(default),
        Some(value) => value.as_int().ok_or_else(|| {
            Failure::error(format!("`range` needs integers, not {}", value.type_name()))
        }),
    };
    let step = int(step, 1)?;
    let (lower, upper) = match (first, second) {
        (None, _) => return Err(Failure::error("`range` needs an argument")),
        (upper, None) => (0, int(upper, 0)?),
        (lower, upper) => (int(lower, 0)?, int(upper, 0)?),
    };
    if step == 0 {
        return Err(Failure::error("`range` with step 0"));
    }
    let range = [lower, upper, step];
    if range_length(&range) > MAX_RANGE {
        return Err(Failure::error(format!("a range of more than {MAX_RANGE} items")));
    }
    Ok(Value::Range(Rc::new(range)))
}
