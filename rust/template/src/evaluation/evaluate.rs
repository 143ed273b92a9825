//! Evaluates the expressions of a template.

use indexmap::IndexMap;

use crate::evaluation::render::Interpreter;
use crate::failure::{Failure, RenderResult};
use crate::language::filters::Filter;
use crate::language::operators::{BinaryOperator, ComparisonOperator};
use crate::language::tree::{Arguments, Expression};
use crate::programs::trace::Trace;
use crate::values::arguments::CallArguments;
use crate::values::attributes;
use crate::values::key::Key;
use crate::values::make::{ITEM_BYTES, ItemsBuilder, check_nesting};
use crate::values::operators::arithmetic::{binary, concat, negative, positive};
use crate::values::operators::comparing::compare;
use crate::values::printing::print::write_str;
use crate::values::texts::text::{SourceId, Text};
use crate::values::value::{Items, Value};

impl<'r, 't, 'm: 'r> Interpreter<'r, 't, 'm> {
    /// True if an expression is true.
    pub(crate) fn holds(&mut self, condition: &'r Expression) -> RenderResult<bool> {
        self.meter.items(1)?;
        let value = self.evaluate(condition)?;
        Ok(self.is_true(&value))
    }

    fn is_true(&mut self, value: &Value<'r>) -> bool {
        let truth = value.is_true();
        if let Some(trace) = &mut self.trace {
            trace.truth(value, truth);
        }
        truth
    }

    /// Passes a computed value to the trace, which may replace it.
    pub(crate) fn traced(
        &mut self,
        result: Value<'r>,
        see: impl FnOnce(&mut Trace<'r>, Value<'r>) -> Value<'r>,
    ) -> Value<'r> {
        match &mut self.trace {
            None => result,
            Some(trace) => see(trace, result),
        }
    }

    /// Records that a value was computed of others, if sources are followed.
    pub(crate) fn derive(&mut self, result: &Value<'r>, values: &[&Value<'r>]) {
        if let Some(sources) = &mut self.sources {
            sources.derive(result, values, SourceId::NONE);
        }
    }

    /// The sources of the arguments of a function, and of a `value` that can be read once, before the call.
    pub(crate) fn sources_of(
        &mut self,
        value: &Value<'r>,
        arguments: &CallArguments<'r>,
    ) -> SourceId {
        let Some(sources) = &mut self.sources else { return SourceId::NONE };
        let values =
            arguments.positional.iter().chain(arguments.named.iter().map(|(_, value)| value));
        let once = matches!(value, Value::Generator(_)).then_some(value);
        sources.of_all(values.chain(once).cloned())
    }

    /// Records that a function computed a value of `value` and of arguments with these sources.
    pub(crate) fn derive_from(
        &mut self,
        result: &Value<'r>,
        value: &Value<'r>,
        arguments: SourceId,
    ) {
        if let Some(sources) = &mut self.sources {
            sources.derive(result, &[value], arguments);
        }
    }

    /// Appends a value to the output.
    pub(crate) fn write(&mut self, value: &Value<'r>) -> RenderResult<()> {
        if let Some(sources) = &mut self.sources {
            sources.print(value);
        }
        write_str(&mut self.output.text, value, self.meter)
    }

    /// Prints an expression. The parts of a concatenation are printed one by one, without joining them first.
    pub(crate) fn print(&mut self, expression: &'r Expression) -> RenderResult<()> {
        let value = if self.trace.is_none() && !self.is_recording {
            match self.print_texts(expression)? {
                None => return Ok(()),
                Some(other) => other,
            }
        } else {
            self.evaluate(expression)?
        };
        self.print_value(&value)
    }

    /// Prints a value.
    pub(crate) fn print_value(&mut self, value: &Value<'r>) -> RenderResult<()> {
        self.write(value)?;
        if let Some(trace) = &mut self.trace {
            trace.print(value);
        }
        Ok(())
    }

    /// Prints an expression that is a text; returns the value of any other.
    fn print_texts(&mut self, expression: &'r Expression) -> RenderResult<Option<Value<'r>>> {
        let both = match expression {
            Expression::Binary(BinaryOperator::Add, both) => both,
            Expression::Concat(parts) => {
                self.meter.descend()?;
                for part in parts {
                    let part = self.evaluate(part)?;
                    self.write(&part)?;
                }
                self.meter.ascend();
                return Ok(None);
            }
            other => {
                let value = self.evaluate(other)?;
                if !matches!(value, Value::String(_)) {
                    return Ok(Some(value));
                }
                self.write(&value)?;
                return Ok(None);
            }
        };
        self.meter.descend()?;
        let start = self.output.text.len();
        let left = self.print_texts(&both.0)?;
        let right = self.evaluate(&both.1)?;
        self.meter.ascend();
        match (left, right) {
            (None, right @ Value::String(_)) => {
                self.write(&right)?;
                Ok(None)
            }
            (left, right) => {
                let left = match left {
                    Some(left) => left,
                    None => self.meter.string(self.output.text.split_off(start))?,
                };
                let result = binary(BinaryOperator::Add, &left, &right, self.meter)?;
                self.derive(&result, &[&left, &right]);
                Ok(Some(result))
            }
        }
    }

    /// The value of an expression.
    pub(crate) fn evaluate(&mut self, expression: &'r Expression) -> RenderResult<Value<'r>> {
        if self.is_recording
            && let Some(value) = self.evaluate_recorded(expression)
        {
            return value;
        }
        match expression {
            Expression::Name(name) => Ok(self.get(name.slot).clone()),
            Expression::Literal(literal) => Ok(Value::from_literal(literal)),
            other => {
                self.meter.descend()?;
                let value = self.compute(other)?;
                self.meter.ascend();
                Ok(value)
            }
        }
    }

    fn compute(&mut self, expression: &'r Expression) -> RenderResult<Value<'r>> {
        match expression {
            Expression::Name(_) | Expression::Literal(_) => self.evaluate(expression),
            Expression::Tuple(items) => {
                let tuple = self.evaluate_many(items)?.into_tuple();
                check_nesting(&tuple).map(|()| tuple)
            }
            Expression::List(items) => {
                let list = self.evaluate_many(items)?.into_list();
                check_nesting(&list).map(|()| list)
            }
            Expression::Dict(items) => self.evaluate_dict(items),
            Expression::Negative(value) => negative(&self.evaluate(value)?, self.meter),
            Expression::Positive(value) => positive(&self.evaluate(value)?),
            Expression::Not(value) => Ok(Value::Bool(!self.holds(value)?)),
            Expression::And(both) => {
                let left = self.evaluate(&both.0)?;
                if self.is_true(&left) { self.evaluate(&both.1) } else { Ok(left) }
            }
            Expression::Or(both) => {
                let left = self.evaluate(&both.0)?;
                if self.is_true(&left) { Ok(left) } else { self.evaluate(&both.1) }
            }
            Expression::Binary(operator, both) => {
                let (left, right) = (self.evaluate(&both.0)?, self.evaluate(&both.1)?);
                let result = binary(*operator, &left, &right, self.meter)?;
                let result = self
                    .traced(result, |trace, result| trace.binary(*operator, &left, &right, result));
                self.derive(&result, &[&left, &right]);
                Ok(result)
            }
            Expression::Concat(parts) => {
                let parts = self.evaluate_all(parts)?;
                let result = concat(&parts, self.meter)?;
                let result = self.traced(result, |trace, result| trace.concat(&parts, result));
                if let Some(sources) = &mut self.sources {
                    let all = sources.of_all(parts);
                    sources.derive(&result, &[], all);
                }
                Ok(result)
            }
            Expression::Compare(first, rest) => self.evaluate_compare(first, rest),
            Expression::If(parts) => {
                if self.holds(&parts.0)? {
                    self.evaluate(&parts.1)
                } else {
                    parts
                        .2
                        .as_ref()
                        .map_or(Ok(Value::Undefined), |otherwise| self.evaluate(otherwise))
                }
            }
            Expression::Attribute(value, name) => {
                let value = self.evaluate(value)?;
                self.attribute_of(&value, name)
            }
            Expression::Item(both) => {
                let (value, index) = (self.evaluate(&both.0)?, self.evaluate(&both.1)?);
                let result = attributes::item(&value, &index, self.meter)?;
                let result =
                    self.traced(result, |trace, result| trace.item(&value, &index, result));
                self.derive(&result, &[&value]);
                Ok(result)
            }
            Expression::Slice(parts) => self.evaluate_slice(&parts.0, &parts.1),
            Expression::Call(parts) => self.evaluate_call(&parts.0, &parts.1),
            Expression::Filter(filter, parts) => {
                let (value, arguments) = (self.evaluate(&parts.0)?, self.arguments(&parts.1)?);
                let seen = self.trace.as_ref().map(|_| (value.unspent(), arguments.unspent()));
                let sources = self.sources_of(&value, &arguments);
                let result = filter.apply(&value, arguments, self.meter)?;
                self.left.generators += usize::from(matches!(result, Value::Generator(_)));
                let result = match (&mut self.trace, seen) {
                    (Some(trace), Some((value, arguments))) => {
                        trace.filter(*filter, &value, &arguments, result)
                    }
                    _ => result,
                };
                self.derive_from(&result, &value, sources);
                Ok(result)
            }
            Expression::Test(test, parts) => {
                let value = self.evaluate(&parts.0)?;
                let arguments = self.evaluate_all(&parts.1.positional)?;
                let holds = test.holds(&value, &arguments, self.meter)?;
                if let Some(trace) = &mut self.trace {
                    trace.test(*test, &value, &arguments, holds);
                }
                Ok(Value::Bool(holds))
            }
            Expression::Unrendered(it) if it.is_unknown => Err(Failure::error(&*it.name)),
            Expression::Unrendered(it) => Err(Failure::unsupported(&it.name)),
        }
    }

    /// `value.name`
    pub(crate) fn attribute_of(
        &mut self,
        value: &Value<'r>,
        name: &'r str,
    ) -> RenderResult<Value<'r>> {
        if let Value::Loop(state) = value {
            return self.loop_attribute(state, name);
        }
        let result = attributes::attribute(value, name, self.meter)?;
        Ok(self.traced(result, |trace, result| trace.attribute(value, name, result)))
    }

    pub(crate) fn evaluate_all(&mut self, items: &'r [Expression]) -> RenderResult<Vec<Value<'r>>> {
        self.meter.items(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.evaluate(item)?);
        }
        Ok(values)
    }

    /// Evaluates items that become one value.
    fn evaluate_many(&mut self, items: &'r [Expression]) -> RenderResult<ItemsBuilder<'r, 't>> {
        let mut values = ItemsBuilder::of(items.len(), self.meter)?;
        for item in items {
            values.push(self.evaluate(item)?)?;
        }
        Ok(values)
    }

    fn evaluate_dict(&mut self, items: &'r [(Expression, Expression)]) -> RenderResult<Value<'r>> {
        let bytes = items.len() * 2 * ITEM_BYTES;
        self.meter.items(items.len())?;
        self.meter.hold(bytes)?;
        let mut dict = IndexMap::with_capacity(items.len());
        for (key, value) in items {
            let key = self.evaluate(key)?;
            if let Some(trace) = &mut self.trace {
                trace.decisive(&key);
            }
            let key = Key::of(key)?;
            self.meter.bytes(key.as_text().map_or(0, |key| key.len()))?;
            dict.insert(key, self.evaluate(value)?);
        }
        let dict = Value::dict(dict, self.meter.held(bytes));
        check_nesting(&dict).map(|()| dict)
    }

    fn evaluate_compare(
        &mut self,
        first: &'r Expression,
        rest: &'r [(ComparisonOperator, Expression)],
    ) -> RenderResult<Value<'r>> {
        if let (Some(_), Expression::Filter(Filter::Length, parts), [(comparison, right)]) =
            (&self.trace, first, rest)
        {
            return self.compare_length(*comparison, &parts.0, right);
        }
        let mut left = self.evaluate(first)?;
        for (comparison, right) in rest {
            self.meter.items(1)?;
            let right = self.evaluate(right)?;
            let holds = compare(*comparison, &left, &right, self.meter)?;
            if let Some(trace) = &mut self.trace {
                trace.compare(*comparison, &left, &right, holds);
            }
            if !holds {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    /// Compares a length. The trace records the comparison instead of the length, because two texts rarely
    /// have the same length.
    fn compare_length(
        &mut self,
        comparison: ComparisonOperator,
        of: &'r Expression,
        other: &'r Expression,
    ) -> RenderResult<Value<'r>> {
        let value = self.evaluate(of)?;
        let length = Filter::Length.apply(&value, CallArguments::default(), self.meter)?;
        let other = self.evaluate(other)?;
        let holds = compare(comparison, &length, &other, self.meter)?;
        if let Some(trace) = &mut self.trace {
            if value.as_text().is_some() {
                trace.compare_length(comparison, &value, &other, holds);
            } else {
                trace.filter(Filter::Length, &value, &CallArguments::default(), length);
            }
        }
        Ok(Value::Bool(holds))
    }

    fn evaluate_slice(
        &mut self,
        value: &'r Expression,
        bounds: &'r [Option<Expression>; 3],
    ) -> RenderResult<Value<'r>> {
        let value = self.evaluate(value)?;
        let mut numbers = [Value::None, Value::None, Value::None];
        for (number, bound) in numbers.iter_mut().zip(bounds) {
            if let Some(bound) = bound {
                *number = self.evaluate(bound)?;
            }
        }
        let result = attributes::slice(&value, &numbers, self.meter)?;
        let result = self.traced(result, |trace, result| trace.slice(&value, &numbers, result));
        self.derive(&result, &[&value]);
        Ok(result)
    }

    pub(crate) fn arguments(
        &mut self,
        arguments: &'r Arguments,
    ) -> RenderResult<CallArguments<'r>> {
        let positional = self.evaluate_all(&arguments.positional)?;
        let mut named = Vec::with_capacity(arguments.named.len());
        for (name, value) in &arguments.named {
            named.push((&**name, self.evaluate(value)?));
        }
        let mut evaluated = CallArguments { positional, named };
        if let Some(list) = &arguments.list {
            let list = self.evaluate(list)?;
            self.add_list(&mut evaluated, &list)?;
        }
        if let Some(dict) = &arguments.dict {
            let dict = self.evaluate(dict)?;
            self.add_dict(&mut evaluated, &dict)?;
        }
        Ok(evaluated)
    }

    /// Adds the items of a list as arguments by position.
    fn add_list(
        &mut self,
        arguments: &mut CallArguments<'r>,
        list: &Value<'r>,
    ) -> RenderResult<()> {
        if let Some(trace) = &mut self.trace {
            trace.items(list);
        }
        let items = Items::of(list).filter(|_| !matches!(list, Value::Undefined));
        let items = items.ok_or_else(|| {
            Failure::error(format!("{} gives no arguments by `*`", list.type_name()))
        })?;
        while let Some(item) = items.next(self.meter)? {
            self.derive(&item, &[list]);
            arguments.positional.push(item);
        }
        Ok(())
    }

    /// Adds the entries of a dict as arguments by name.
    fn add_dict(
        &mut self,
        arguments: &mut CallArguments<'r>,
        dict: &Value<'r>,
    ) -> RenderResult<()> {
        let Value::Dict(entries) = dict else {
            let reason = format!("{} gives no arguments by `**`", dict.type_name());
            return Err(Failure::error(reason));
        };
        if let Some(trace) = &mut self.trace {
            trace.items(dict);
        }
        for (key, value) in entries.iter() {
            self.meter.items(1 + arguments.named.len())?;
            let Some(name) = key.as_text() else {
                return Err(Failure::error("the names of arguments by `**` are strings"));
            };
            let Text::Borrowed(name) = name else {
                return Err(Failure::unsupported("the computed name of an argument"));
            };
            if arguments.named.iter().any(|(known, _)| known == name) {
                return Err(Failure::error(format!("the argument `{name}` is given twice")));
            }
            arguments.named.push((name, value));
        }
        Ok(())
    }
}
