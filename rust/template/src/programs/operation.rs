//! [`Operation`]: a filter, a method or the like with its arguments, to be applied to other values.
//!
//! The interpreter's own code applies it, so the result is that of the template.

use std::rc::Rc;

use crate::failure::{Failure, RenderResult};
use crate::json::Json;
use crate::language::filters::Filter;
use crate::language::methods::Method;
use crate::render_limits::Meter;
use crate::values::arguments::CallArguments;
use crate::values::attributes;
use crate::values::methods;
use crate::values::printing::print::to_text;
use crate::values::value::Value;

/// The function of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationFunction {
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

/// A function with its arguments, which are the same for all conversations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    /// The function.
    pub(crate) function: OperationFunction,
    /// The arguments by position.
    pub(crate) positional: Vec<Json>,
    /// The arguments by name.
    pub(crate) named: Vec<(Rc<str>, Json)>,
}

impl Operation {
    /// An operation without arguments.
    pub(crate) fn bare(function: OperationFunction) -> Self {
        Self { function, positional: Vec::new(), named: Vec::new() }
    }

    /// Applies the operation to `value`.
    pub(crate) fn apply<'v>(
        &'v self,
        value: &Value<'v>,
        meter: &Meter<'_>,
    ) -> RenderResult<Value<'v>> {
        let mut positional = self.positional.iter().map(Value::from_json);
        match self.function {
            OperationFunction::Print => to_text(value, meter).map(Value::String),
            OperationFunction::Item => match positional.next() {
                Some(index) => attributes::item(value, &index, meter),
                None => Err(Failure::error("an item needs an index")),
            },
            OperationFunction::Slice => {
                let mut bound = || positional.next().unwrap_or(Value::None);
                attributes::slice(value, &[bound(), bound(), bound()], meter)
            }
            OperationFunction::Filter(filter) => filter.apply(value, self.arguments(), meter),
            OperationFunction::Method(method) => {
                methods::call(method, value, self.arguments(), meter)
            }
        }
    }

    fn arguments(&self) -> CallArguments<'_> {
        CallArguments {
            positional: self.positional.iter().map(Value::from_json).collect(),
            named: self
                .named
                .iter()
                .map(|(name, value)| (&**name, Value::from_json(value)))
                .collect(),
        }
    }
}
