//! The methods by which the interpreter reports statements and operators to a trace.

use std::rc::Rc;

use super::addresses::address_of;
use super::run_trace::Trace;
use crate::json::Json;
use crate::language::methods::DictView;
use crate::language::operators::{BinaryOperator, ComparisonOperator};
use crate::programs::operation::{Operation, OperationFunction};
use crate::programs::steps::{
    Comparand, Guard, KeyOrIndex, Operand, OutputPiece, ProgramStep, TextRange,
};
use crate::render_limits::HeldMemory;
use crate::values::operators::comparing::equal;
use crate::values::value::{Dict, List, Value};

/// True if a value is of a type that no text, list or object equals.
fn is_plain(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Undefined
            | Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Big(_)
            | Value::Float(_)
    )
}

impl<'r> Trace<'r> {
    /// Text between tags.
    pub(crate) fn literal(&mut self, text: &str) {
        self.printed.push(OutputPiece::Literal(text.into()));
    }

    /// `{{ value }}`
    pub(crate) fn print(&mut self, value: &Value<'r>) {
        let mut printed = std::mem::take(&mut self.printed);
        self.append(value, &mut printed);
        self.printed = printed;
    }

    /// The beginning of a generation block, in the turn of a loop for `object`.
    pub(crate) fn begin(&mut self, object: Option<usize>) {
        self.printed.push(OutputPiece::Begin(object));
    }

    /// The end of a generation block.
    pub(crate) fn end(&mut self) {
        self.printed.push(OutputPiece::End);
    }

    /// Begins to capture output. Returns the pieces that were printed before.
    pub(crate) fn divert(&mut self) -> Vec<OutputPiece> {
        std::mem::take(&mut self.printed)
    }

    /// Ends a capture, and restores the pieces printed `before`. `value` is the captured text.
    pub(crate) fn captured(&mut self, before: Vec<OutputPiece>, value: &Value<'r>) -> Value<'r> {
        let pieces = std::mem::replace(&mut self.printed, before);
        self.string(value, pieces)
    }

    /// A test of the truth of a value.
    pub(crate) fn truth(&mut self, value: &Value<'r>, truth: bool) {
        match value {
            Value::String(_) | Value::Safe(_) => self.text_truth(value, truth),
            Value::List(List::Data(_)) | Value::Dict(Dict::Data(_)) => {
                if let Some(node) = self.node(value) {
                    self.add_guard(Guard::Filled(node), truth);
                }
            }
            Value::View(_, dict) => self.truth(&Value::Dict(dict.clone()), truth),
            _ => {}
        }
    }

    fn text_truth(&mut self, value: &Value<'r>, truth: bool) {
        let Some(pieces) = self.pieces(value) else { return };
        let speaks =
            |piece: &OutputPiece| matches!(piece, OutputPiece::Literal(text) if !text.is_empty());
        if !pieces.iter().any(speaks)
            && let Some(cut) = self.register(value)
        {
            self.add_guard(Guard::Empty(cut), !truth);
        }
    }

    /// `left operator right`
    pub(crate) fn binary(
        &mut self,
        operator: BinaryOperator,
        left: &Value<'r>,
        right: &Value<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        if !self.holds(left) && !self.holds(right) {
            return result;
        }
        match (operator, &result) {
            (BinaryOperator::Add, Value::String(_)) => {
                self.concat(&[left.clone(), right.clone()], result)
            }
            (BinaryOperator::Add, Value::List(_) | Value::Tuple(_)) => {
                self.items(left);
                self.items(right);
                result
            }
            _ => {
                self.plain(left, "an operator between texts");
                self.plain(right, "an operator between texts");
                result
            }
        }
    }

    /// `a ~ b`
    pub(crate) fn concat(&mut self, parts: &[Value<'r>], result: Value<'r>) -> Value<'r> {
        if !parts.iter().any(|part| self.holds(part)) {
            return result;
        }
        let mut pieces = Vec::new();
        for part in parts {
            self.append(part, &mut pieces);
        }
        self.string(&result, pieces)
    }

    /// `left comparison right`
    pub(crate) fn compare(
        &mut self,
        comparison: ComparisonOperator,
        left: &Value<'r>,
        right: &Value<'r>,
        outcome: bool,
    ) {
        if !self.holds(left) && !self.holds(right) {
            return;
        }
        let equality =
            matches!(comparison, ComparisonOperator::Equal | ComparisonOperator::NotEqual);
        // A number, a boolean or none never equals a text, a list or an object.
        if equality && (is_plain(left) || is_plain(right)) {
            return;
        }
        if equality
            && self.compare_messages(
                left,
                right,
                outcome == (comparison == ComparisonOperator::Equal),
            )
        {
            return;
        }
        if matches!(comparison, ComparisonOperator::In | ComparisonOperator::NotIn) {
            if let (Some(node), Value::Dict(_)) = (self.node(right), right) {
                self.plain(left, "a text as a key");
                let key = left.as_text().map(|key| Rc::from(&**key));
                return key.into_iter().for_each(|key| self.look(node, KeyOrIndex::Key(key)));
            }
            let is_message = address_of(right).is_some_and(|it| self.messages.contains_key(&it));
            if is_message {
                return self.plain(left, "a text as a key");
            }
            if let Value::List(List::Computed(items)) | Value::Tuple(items) = right {
                return self.among(left, items);
            }
        }
        let Some((left, right)) = self.side(left).zip(self.side(right)) else {
            return self.stop("comparing texts");
        };
        let is = |wanted: ComparisonOperator| outcome == (comparison == wanted);
        let (guard, answer) = match (comparison, left, right) {
            (_, Comparand::Constant(_), Comparand::Constant(_)) => return,
            (
                ComparisonOperator::Equal | ComparisonOperator::NotEqual,
                Comparand::Cut(cut),
                Comparand::Constant(Json::String(text)),
            )
            | (
                ComparisonOperator::Equal | ComparisonOperator::NotEqual,
                Comparand::Constant(Json::String(text)),
                Comparand::Cut(cut),
            ) => (Guard::Equals(cut, Rc::from(&*text)), is(ComparisonOperator::Equal)),
            (
                ComparisonOperator::In | ComparisonOperator::NotIn,
                Comparand::Constant(Json::String(part)),
                Comparand::Cut(cut),
            ) => (Guard::Contains(cut, Rc::from(&*part)), is(ComparisonOperator::In)),
            (_, left, right) => (Guard::Compares(comparison, left, right), outcome),
        };
        self.add_guard(guard, answer);
    }

    /// Records a search for a value among several, as a comparison with each of them.
    fn among(&mut self, value: &Value<'r>, items: &[Value<'r>]) {
        for item in items {
            match equal(value, item, &self.meter) {
                Ok(outcome) => self.compare(ComparisonOperator::Equal, value, item, outcome),
                Err(_) => self.stop("comparing what cannot be"),
            }
        }
    }

    /// The side of a comparison that a value is.
    fn side(&mut self, value: &Value<'r>) -> Option<Comparand> {
        if let Some(node) = self.node(value) {
            self.pin(node);
        }
        if self.holds(value) {
            return self.register(value).map(Comparand::Cut);
        }
        match value {
            // As a container, a tuple is the same as a list.
            Value::Tuple(items) => Value::list(items.to_vec(), HeldMemory::default()).to_json(),
            other => other.to_json(),
        }
        .map(Comparand::Constant)
    }

    /// A comparison of a text's number of characters with a value.
    pub(crate) fn compare_length(
        &mut self,
        comparison: ComparisonOperator,
        value: &Value<'r>,
        other: &Value<'r>,
        outcome: bool,
    ) {
        match (self.register(value), other) {
            (Some(cut), Value::Int(other)) => {
                self.add_guard(Guard::Length(cut, comparison, *other), outcome);
            }
            (Some(_), _) => self.stop("comparing the length of a text with what is no number"),
            (None, _) => {}
        }
    }

    /// `value.name`
    pub(crate) fn attribute(
        &mut self,
        value: &Value<'r>,
        name: &str,
        result: Value<'r>,
    ) -> Value<'r> {
        // A method hides the key of the same name.
        if !matches!(result, Value::Method(..) | Value::UnknownMethod(_)) {
            self.key(value, name);
        }
        result
    }

    /// A read of a key of an object of the record.
    pub(crate) fn key(&mut self, value: &Value<'r>, key: &str) {
        let Some(address) = address_of(value) else { return };
        if let Some(values) = self.messages.get(&address) {
            let number = values.iter().find(|(name, _)| *name == key).map(|(_, number)| *number);
            if let Some(number) = number {
                self.pin_plain(number);
            }
        } else if let Some(node) = self.node(value) {
            self.look(node, KeyOrIndex::Key(key.into()));
        }
    }

    /// Adds a guard that a value is the same, if it is no list or object: such values have no address to
    /// follow.
    fn pin_plain(&mut self, node: usize) {
        if !matches!(self.nodes[node], Json::List(_) | Json::Map(_)) {
            self.pin(node);
        }
    }

    /// `value[index]`
    pub(crate) fn item(
        &mut self,
        value: &Value<'r>,
        index: &Value<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        self.plain(index, "a text as an index");
        if let Some(key) = index.as_text() {
            self.key(value, key);
            return result;
        }
        if let Value::String(_) = value {
            let item = Operation {
                positional: index.to_json().into_iter().collect(),
                ..Operation::bare(OperationFunction::Item)
            };
            return self.done(item, value, result);
        }
        match (self.node(value), index) {
            (None, Value::Int(0)) => return self.part(value, true, result),
            (None, Value::Int(-1)) => return self.part(value, false, result),
            _ => self.items(value),
        }
        result
    }

    /// `value[from:to:step]`
    pub(crate) fn slice(
        &mut self,
        value: &Value<'r>,
        bounds: &[Value<'r>; 3],
        result: Value<'r>,
    ) -> Value<'r> {
        for bound in bounds {
            self.plain(bound, "a text as an index");
        }
        if let Some(node) = self.node(value) {
            self.pin(node);
        }
        if !matches!(value, Value::String(_)) {
            self.items(value);
            return result;
        }
        let bounds = bounds.iter().map(Value::to_json).collect::<Option<Vec<Json>>>();
        let Some(positional) = bounds else { return result };
        let slice = Operation { positional, ..Operation::bare(OperationFunction::Slice) };
        self.done(slice, value, result)
    }

    /// The first or last item of a list. For a list that a text was split into, it becomes a cut.
    pub(crate) fn part(&mut self, value: &Value<'r>, first: bool, result: Value<'r>) -> Value<'r> {
        let Value::List(List::Computed(list)) = value else { return result };
        let Some((_, of, separator)) = self.split.get(&Rc::as_ptr(list).addr()) else {
            return result;
        };
        let (of, separator) = (*of, Rc::clone(separator));
        let cut = if first {
            TextRange::First { of, separator }
        } else {
            TextRange::Last { of, separator }
        };
        self.cut_out(&result, ProgramStep::Cut(cut))
    }

    /// A use of a value as a list, by a loop, an assignment to a tuple or the like.
    pub(crate) fn items(&mut self, value: &Value<'r>) {
        match value {
            Value::String(_) | Value::Safe(_) => {
                if self.holds(value) {
                    self.stop("the characters of a text");
                }
            }
            Value::View(DictView::Keys, dict) => self.all_of(&Value::Dict(dict.clone()), false),
            Value::View(_, dict) => self.all_of(&Value::Dict(dict.clone()), true),
            Value::Dict(_) => self.all_of(value, false),
            Value::List(List::Computed(list)) => {
                let split = self.split.get(&Rc::as_ptr(list).addr());
                if let Some((_, of, separator)) = split.cloned() {
                    self.expand(list.iter(), of, &separator);
                }
            }
            _ => self.all_of(value, true),
        }
    }

    /// Records a use of all that is in a value: of its keys and, with `values`, of its values.
    pub(crate) fn all_of(&mut self, value: &Value<'r>, values: bool) {
        if let Some(node) = self.node(value) {
            self.look_at_all(node, values);
        } else if let Some(keys) = address_of(value).and_then(|at| self.messages.get(&at)).cloned()
            && values
        {
            for (_, number) in keys {
                self.pin_plain(number);
            }
        }
    }

    /// Makes cuts of all the parts that a text was split into.
    fn expand<'p>(
        &mut self,
        parts: impl ExactSizeIterator<Item = &'p Value<'r>>,
        of: usize,
        separator: &Rc<str>,
    ) where
        'r: 'p,
    {
        self.add_guard(Guard::Separators(of, Rc::clone(separator), parts.len() - 1), true);
        for (index, part) in parts.enumerate() {
            let cut = TextRange::Part { of, separator: Rc::clone(separator), index };
            let cut = self.cut(ProgramStep::Cut(cut));
            self.become_cut(part, cut);
        }
    }

    /// Adds a guard on a value that other results depend on.
    pub(crate) fn decisive(&mut self, value: &Value<'r>) {
        self.plain(value, "a text as an argument");
    }

    /// Records the result of an operation on a text or a value. A text becomes a cut, any other result a
    /// guard.
    pub(crate) fn done(
        &mut self,
        operation: Operation,
        value: &Value<'r>,
        result: Value<'r>,
    ) -> Value<'r> {
        if !self.holds(value) {
            return result;
        }
        let Some(of) = self.operand(value) else {
            self.stop("what is done to several values");
            return result;
        };
        match (&result, result.to_json()) {
            (Value::String(_), _) => self.cut_out(&result, ProgramStep::Make(operation, of)),
            (Value::Undefined, None) => {
                self.add_guard(Guard::Gives(operation, of, None), true);
                result
            }
            (Value::List(_) | Value::Dict(_), _) | (_, None) => {
                match of {
                    Operand::Node(node) => self.pin(node),
                    Operand::Cut(_) => self.stop("a list that is made of a text"),
                }
                result
            }
            (_, Some(answer)) => {
                self.add_guard(Guard::Gives(operation, of, Some(answer)), true);
                result
            }
        }
    }
}
