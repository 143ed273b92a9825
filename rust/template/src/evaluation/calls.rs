//! Calls methods, macros and the functions that every template has.

use std::cell::RefCell;
use std::rc::Rc;

use crate::evaluation::render::Interpreter;
use crate::failure::{Failure, Outcome};
use crate::language::methods::Method;
use crate::language::tree::{Arguments, Expression, Macro};
use crate::values::arguments::CallArguments;
use crate::values::make::{ITEM_BYTES, check_nesting};
use crate::values::methods::{self, Attribute};
use crate::values::print::to_text;
use crate::values::strftime::strftime;
use crate::values::value::{GlobalFunction, Value, range_length};

/// Most items of a `range` in Jinja's sandbox.
const MAX_RANGE: i64 = 100_000;

impl<'r> Interpreter<'r, '_> {
    /// Evaluates a call.
    pub(crate) fn evaluate_call(
        &mut self,
        function: &'r Expression,
        arguments: &'r Arguments,
    ) -> Outcome<Value<'r>> {
        let function = match function {
            // Most calls are of methods, which can be called without making a value of them.
            Expression::Attribute(receiver, name) => {
                let receiver = self.evaluate(receiver)?;
                if let Value::String(_) | Value::Dict(_) = receiver
                    && let Attribute::Method(method) = methods::find(&receiver, name)
                {
                    let given = self.arguments(arguments)?;
                    return self.call_method(method, &receiver, given);
                }
                self.attribute_of(&receiver, name)?
            }
            other => self.evaluate(other)?,
        };
        let given = self.arguments(arguments)?;
        match function {
            Value::Method(method, receiver) => self.call_method(method, &receiver, given),
            Value::Macro(definition) => self.call_macro(definition, given),
            Value::Function(function) => self.call_function(function, given),
            Value::UnknownMethod(name) => {
                Err(Failure::unsupported(format_args!("the method `{name}`")))
            }
            other => Err(Failure::error(format!("{} cannot be called", other.type_name()))),
        }
    }

    fn call_method(
        &mut self,
        method: Method,
        receiver: &Value<'r>,
        given: CallArguments<'r>,
    ) -> Outcome<Value<'r>> {
        let known = self.trace.as_ref().map(|_| given.unspent());
        let sources = self.sources_of(receiver, &given);
        let made = methods::call(method, receiver, given, self.meter)?;
        let made = self.traced(made, |trace, made| {
            trace.method(method, receiver, &known.unwrap_or_default(), made)
        });
        self.derive_from(&made, receiver, sources);
        Ok(made)
    }

    fn call_function(
        &mut self,
        function: GlobalFunction,
        given: CallArguments<'r>,
    ) -> Outcome<Value<'r>> {
        match function {
            GlobalFunction::RaiseException => {
                let [message] = given.bind(["message"])?;
                Err(Failure::error(
                    to_text(&message.unwrap_or(Value::None), self.meter)?.to_string(),
                ))
            }
            GlobalFunction::StrftimeNow => match given.bind(["format"])? {
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
                if !given.positional.is_empty() {
                    return Err(Failure::unsupported("`namespace` with arguments by position"));
                }
                if let Some((name, _)) = given.named.iter().find(|(name, _)| name.starts_with('_'))
                {
                    return Err(Failure::error(format!("a namespace cannot hold `{name}`")));
                }
                given.named.iter().try_for_each(|(_, value)| check_nesting(value))?;
                let attributes =
                    given.named.into_iter().map(|(name, value)| (name.into(), value)).collect();
                Ok(Value::Namespace(Rc::new(RefCell::new(attributes))))
            }
            GlobalFunction::Range => range(given),
        }
    }

    fn call_macro(
        &mut self,
        definition: &'r Macro,
        given: CallArguments<'r>,
    ) -> Outcome<Value<'r>> {
        let parameters = &definition.parameters;
        if given.positional.len() > parameters.len() {
            return Err(Failure::error(format!(
                "the macro `{}` takes fewer arguments",
                definition.name
            )));
        }
        let by_position = given.positional.len();
        self.meter.items(parameters.len() + given.named.len().saturating_mul(parameters.len()))?;
        let mut values: Vec<Option<Value<'r>>> = given.positional.into_iter().map(Some).collect();
        values.resize_with(parameters.len(), || None);
        for (name, value) in given.named {
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
        let (base, line) = (self.base, self.line);
        let bytes = definition.slots * ITEM_BYTES;
        self.meter.items(definition.slots)?;
        self.meter.hold(bytes)?;
        self.base = self.local.len();
        self.local.resize(self.base + definition.slots, Value::Undefined);
        let result = self.capture(|renderer| renderer.run_macro(definition, values));
        self.local.truncate(self.base);
        self.base = base;
        self.meter.release(bytes);
        let ((), text) = result?;
        self.line = line;
        Ok(text)
    }

    fn run_macro(&mut self, definition: &'r Macro, values: Vec<Option<Value<'r>>>) -> Outcome<()> {
        self.enter(&definition.scope.enter)?;
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

fn range<'r>(given: CallArguments<'r>) -> Outcome<Value<'r>> {
    let [first, second, step] = given.positional()?;
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
