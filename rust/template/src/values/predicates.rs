//! Jinja's tests: the words after `is`.

use crate::failure::{Failure, RenderResult};
use crate::language::predicates::Predicate;
use crate::render_limits::Meter;
use crate::values::operators::comparing::{compare, contains};
use crate::values::value::{Items, Value};

impl Predicate {
    /// True if the test holds for `value`.
    pub(crate) fn holds<'r>(
        self,
        value: &Value<'r>,
        arguments: &[Value<'r>],
        meter: &Meter<'_>,
    ) -> RenderResult<bool> {
        if arguments.len() != self.arity() {
            return Err(Failure::error(format!("a test takes {} arguments", self.arity())));
        }
        let other = || arguments.first().unwrap_or(&Value::Undefined);
        Ok(match self {
            Self::Defined => !matches!(value, Value::Undefined),
            Self::Undefined => matches!(value, Value::Undefined),
            Self::None => matches!(value, Value::None),
            Self::True => matches!(value, Value::Bool(true)),
            Self::False => matches!(value, Value::Bool(false)),
            Self::Boolean => matches!(value, Value::Bool(_)),
            Self::Integer => matches!(value, Value::Int(_) | Value::Big(_)),
            Self::Float => matches!(value, Value::Float(_)),
            Self::Number => {
                matches!(value, Value::Int(_) | Value::Big(_) | Value::Float(_) | Value::Bool(_))
            }
            Self::String => value.as_text().is_some(),
            Self::Mapping => matches!(value, Value::Dict(_)),
            Self::Iterable => Items::of(value).is_some(),
            Self::Sequence => matches!(
                value,
                Value::String(_)
                    | Value::Safe(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Dict(_)
                    | Value::Range(_)
                    | Value::Undefined
            ),
            Self::Odd => remainder(value, &Value::Int(2))? == 1,
            Self::Even => remainder(value, &Value::Int(2))? == 0,
            Self::DivisibleBy => remainder(value, other())? == 0,
            Self::Compare(comparison) => compare(comparison, value, other(), meter)?,
            Self::In => contains(other(), value, meter)?,
        })
    }
}

fn remainder(value: &Value<'_>, divisor: &Value<'_>) -> RenderResult<i64> {
    match (value.as_int(), divisor.as_int()) {
        (Some(_), Some(0)) => Err(Failure::error("division by zero")),
        // The tests compare the remainder with 0 or 1, so its sign matters only for an odd negative number.
        (Some(value), Some(divisor)) => Ok(value.checked_rem(divisor).unwrap_or(0).abs()),
        _ => Err(Failure::unsupported("this test of what is no integer of 64 bits")),
    }
}
