//! The methods by which the interpreter reports filters, tests and methods to a trace.

use std::rc::Rc;

use super::run_trace::{StringOrigin, Trace};
use crate::language::filters::Filter;
use crate::language::methods::Method;
use crate::language::operators::ComparisonOperator;
use crate::language::predicates::Predicate;
use crate::language::uniform_loops::is_no_attribute;
use crate::programs::operation::{Operation, OperationFunction};
use crate::programs::steps::{Guard, OutputPiece, ProgramStep, TextRange};
use crate::render_limits::HeldMemory;
use crate::values::arguments::CallArguments;
use crate::values::texts::cuts::TrimmedEnds;
use crate::values::texts::text::Text;
use crate::values::value::{List, Value};

impl<'r> Trace<'r> {
    /// `value is test(…)`
    pub(crate) fn test(
        &mut self,
        test: Predicate,
        value: &Value<'r>,
        arguments: &[Value<'r>],
        outcome: bool,
    ) {
        match (test, arguments) {
            (Predicate::Compare(comparison), [other]) => {
                self.compare(comparison, value, other, outcome);
            }
            (Predicate::In, [other]) => self.compare(ComparisonOperator::In, value, other, outcome),
            // The others look at types alone.
            (_, arguments) => arguments.iter().for_each(|argument| self.decisive(argument)),
        }
    }

    /// `value|filter(…)`
    pub(crate) fn filter(
        &mut self,
        filter: Filter,
        value: &Value<'r>,
        arguments: &CallArguments<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        if filter == Filter::Default {
            if arguments.positional.len() + arguments.named.len() > 1 {
                self.truth(value, value.is_true());
            }
            return result;
        }
        self.arguments(arguments);
        if !self.holds(value) {
            return result;
        }
        let is_text = matches!(value, Value::String(_) | Value::Safe(_));
        let values =
            arguments.positional.iter().chain(arguments.named.iter().map(|(_, value)| value));
        match filter {
            Filter::Trim if is_text => self.trim(value, values.last(), TrimmedEnds::BOTH, result),
            Filter::String | Filter::Safe if is_text => result,
            Filter::First if !is_text => {
                self.some_items(value);
                self.part(value, true, result)
            }
            Filter::Last if !is_text => {
                self.some_items(value);
                self.part(value, false, result)
            }
            Filter::Length if !is_text => {
                match self.node(value) {
                    Some(node) => self.look_at_all(node, false),
                    None => self.items(value),
                }
                result
            }
            Filter::List | Filter::Reverse if !is_text => {
                self.items(value);
                result
            }
            Filter::Items | Filter::DictSort => {
                self.all_of(value, true);
                result
            }
            Filter::SelectAttribute | Filter::RejectAttribute if is_text => {
                self.characters(value, arguments, &result);
                result
            }
            Filter::SelectAttribute | Filter::RejectAttribute => {
                self.attributes(value, arguments.positional.first(), true);
                result
            }
            Filter::Map if arguments.positional.is_empty() => {
                let named = arguments.named.iter().find(|(name, _)| *name == "attribute");
                self.attributes(value, named.map(|(_, value)| value), false);
                result
            }
            Filter::Join if self.node(value).is_none() => self.join(value, arguments, result),
            _ => self.record_operation(OperationFunction::Filter(filter), value, arguments, result),
        }
    }

    /// Records a use of the first or last item. The ends of a split text are cut out without the other parts.
    fn some_items(&mut self, value: &Value<'r>) {
        if !matches!(value, Value::List(List::Computed(_))) {
            self.items(value);
        }
    }

    /// Adds guards that all arguments are the same, or stops the trace.
    fn arguments(&mut self, arguments: &CallArguments<'r>) {
        for argument in
            arguments.positional.iter().chain(arguments.named.iter().map(|(_, value)| value))
        {
            self.plain(argument, "a text as an argument");
        }
    }

    /// Records a function as an operation that is applied again, with the same arguments.
    fn record_operation(
        &mut self,
        function: OperationFunction,
        value: &Value<'r>,
        arguments: &CallArguments<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        if let Some(operation) = Self::operation(function, arguments) {
            return self.done(operation, value, result);
        }
        self.stop("such arguments");
        result
    }

    fn operation(function: OperationFunction, arguments: &CallArguments<'r>) -> Option<Operation> {
        let named =
            arguments.named.iter().map(|(name, value)| Some((Rc::from(*name), value.to_json()?)));
        Some(Operation {
            function,
            positional: arguments.positional.iter().map(Value::to_json).collect::<Option<_>>()?,
            named: named.collect::<Option<_>>()?,
        })
    }

    /// Records that an attribute of each item was read. With `decisive`, adds guards on its values.
    fn attributes(&mut self, value: &Value<'r>, name: Option<&Value<'r>>, decisive: bool) {
        self.items(value);
        let items: Vec<Value<'r>> = match value {
            Value::List(list) => list.iter().collect(),
            _ => return self.stop("attributes of what is no list"),
        };
        let Some(name) = name.and_then(Value::as_text).filter(|name| !name.contains('.')) else {
            return self.stop("attributes by such a name");
        };
        for item in items {
            self.key(&item, name);
            let Value::Dict(dict) = &item else { continue };
            if let Some(found) = dict.get(name).filter(|_| decisive) {
                self.plain(&found, "a text that decides which items are taken");
            }
        }
    }

    /// Records that characters of a text were chosen by an attribute that none has: all of them, or none.
    fn characters(&mut self, value: &Value<'r>, arguments: &CallArguments<'r>, result: &Value<'r>) {
        let name = arguments.positional.first().and_then(Value::as_text);
        let is_missing = name.is_some_and(|name| !name.contains('.') && is_no_attribute(name));
        let is_empty = matches!(result, Value::Generator(items) if items.borrow().len() == 0);
        if !is_missing || !is_empty {
            self.stop("the characters of a text");
        } else if !value.is_true() {
            self.truth(value, false);
        }
    }

    fn join(
        &mut self,
        value: &Value<'r>,
        arguments: &CallArguments<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        let (Value::List(List::Computed(_)), true, [] | [Value::String(_)]) =
            (value, arguments.named.is_empty(), &*arguments.positional)
        else {
            self.stop("joining such values");
            return result;
        };
        let separator =
            arguments.positional.first().map_or(Value::String(Text::Borrowed("")), Value::clone);
        self.joined(value, &separator, result)
    }

    /// Records the join of a list's items with a separator between them.
    fn joined(&mut self, list: &Value<'r>, separator: &Value<'r>, result: Value<'r>) -> Value<'r> {
        self.items(list);
        let Value::List(items) = list else {
            self.stop("joining what is no list");
            return result;
        };
        let mut pieces: Vec<OutputPiece> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.append(separator, &mut pieces);
            }
            self.append(&item, &mut pieces);
        }
        self.string(&result, pieces)
    }

    fn trim(
        &mut self,
        value: &Value<'r>,
        chars: Option<&Value<'r>>,
        TrimmedEnds { left, right }: TrimmedEnds,
        result: Value<'r>,
    ) -> Value<'r> {
        let chars = match chars {
            None | Some(Value::None) => None,
            Some(chars) => chars.as_text().map(|chars| Rc::from(&**chars)),
        };
        match self.register(value) {
            Some(of) => {
                let cut = TextRange::Trim { of, chars, left, right };
                self.cut_out(&result, ProgramStep::Cut(cut))
            }
            None => result,
        }
    }

    /// `receiver.method(…)`
    pub(crate) fn method(
        &mut self,
        method: Method,
        receiver: &Value<'r>,
        arguments: &CallArguments<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        if let Value::Dict(_) = receiver {
            if let Some(key) = arguments.positional.first() {
                self.plain(key, "a text as a key");
                key.as_text().into_iter().for_each(|name| self.key(receiver, name));
            }
            return result;
        }
        if let (Method::Join, false, Some(list)) =
            (method, self.holds(receiver), arguments.positional.first())
            && self.holds(list)
            && self.node(list).is_none()
        {
            return self.joined(list, receiver, result);
        }
        self.arguments(arguments);
        if !self.holds(receiver) {
            return result;
        }
        let argument = arguments.positional.first();
        let text = argument.and_then(Value::as_text).map(|text| Rc::<str>::from(&**text));
        let alone = arguments.named.is_empty() && arguments.positional.len() == 1;
        let Some(cut) = self.register(receiver) else { return result };
        match (method, text, alone) {
            (Method::Strip, _, _) => self.trim(receiver, argument, TrimmedEnds::BOTH, result),
            (Method::LeftStrip, _, _) => self.trim(receiver, argument, TrimmedEnds::LEFT, result),
            (Method::RightStrip, _, _) => self.trim(receiver, argument, TrimmedEnds::RIGHT, result),
            (Method::StartsWith, Some(text), true) => {
                self.add_guard(Guard::StartsWith(cut, text), result.is_true());
                result
            }
            (Method::EndsWith, Some(text), true) => {
                self.add_guard(Guard::EndsWith(cut, text), result.is_true());
                result
            }
            (Method::Split, Some(separator), true) => self.parts(cut, separator, &result),
            // An operation cannot be given a tuple.
            (Method::StartsWith | Method::EndsWith, None, _) => {
                self.stop("the ends of a text among several");
                result
            }
            _ => self.record_operation(
                OperationFunction::Method(method),
                receiver,
                arguments,
                result,
            ),
        }
    }

    /// The list that a text was split into. Its parts become cuts when they are used.
    fn parts(&mut self, of: usize, separator: Rc<str>, result: &Value<'r>) -> Value<'r> {
        let Value::List(list) = result else { return result.clone() };
        let parts = list.iter().map(|part| {
            let text = part.as_text().map_or("", |text| text);
            Value::String(self.own(text, StringOrigin::Part).unwrap_or(Text::Borrowed("")))
        });
        let parts = Value::list(parts.collect(), HeldMemory::default());
        if self.is_stopped() {
            return result.clone();
        }
        if let Value::List(List::Computed(list)) = &parts {
            self.split.insert(Rc::as_ptr(list).addr(), (parts.clone(), of, separator));
        }
        parts
    }

    /// Makes a part of a text known as a cut.
    pub(crate) fn become_cut(&mut self, part: &Value<'r>, cut: usize) {
        if let Value::String(text) = part {
            self.remember(text, StringOrigin::Pieces([OutputPiece::Cut(cut)].into()));
        }
    }
}
