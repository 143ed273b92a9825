//! [`Operation`]: a filter, a method or the like with all that it is given but the value, to be done again to others.
//!
//! It is done by the interpreter's own code, so what it makes of a value is what the template would make of it.

use std::rc::Rc;

use super::attributes;
use super::failure::{Failure, Outcome};
use super::filters::Filter;
use super::given::Given;
use super::limits::Meter;
use super::methods::{self, Method};
use super::print::to_text;
use super::value::Value;
use crate::record::value::Value as Json;

/// What is done to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// `{{ value }}`
    Print,
    /// `value|filter(…)`
    Filter(Filter),
    /// `value.method(…)`
    Method(Method),
    /// `value[index]`
    Item,
    /// `value[from:to:step]`
    Slice,
}

/// What is done to a value, with arguments that are the same for all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    /// What is done.
    pub(super) function: Function,
    /// The arguments by position.
    pub(super) positional: Vec<Json>,
    /// The arguments by name.
    pub(super) named: Vec<(Rc<str>, Json)>,
}

impl Operation {
    /// An operation that takes nothing but the value.
    pub(super) fn bare(function: Function) -> Self {
        Self { function, positional: Vec::new(), named: Vec::new() }
    }

    /// What it makes of `value`.
    pub(super) fn apply<'v>(&'v self, value: &Value<'v>, meter: &Meter<'_>) -> Outcome<Value<'v>> {
        let mut positional = self.positional.iter().map(Value::from_json);
        match self.function {
            Function::Print => to_text(value, meter).map(Value::String),
            Function::Item => match positional.next() {
                Some(index) => attributes::item(value, &index, meter),
                None => Err(Failure::error("an item needs an index")),
            },
            Function::Slice => {
                let mut bound = || positional.next().unwrap_or(Value::None);
                attributes::slice(value, &[bound(), bound(), bound()], meter)
            }
            Function::Filter(filter) => filter.apply(value, self.given(), meter),
            Function::Method(method) => methods::call(method, value, self.given(), meter),
        }
    }

    fn given(&self) -> Given<'_> {
        Given {
            positional: self.positional.iter().map(Value::from_json).collect(),
            named: self
                .named
                .iter()
                .map(|(name, value)| (&**name, Value::from_json(value)))
                .collect(),
        }
    }
}
