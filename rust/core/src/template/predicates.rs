//! Jinja's tests: what may stand after `is`.

use super::ast::{Arguments, Comparison};
use super::comparing::{compare, contains};
use super::failure::{Failure, Outcome};
use super::items::Items;
use super::limits::Meter;
use super::value::Value;

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predicate {
    /// `is defined`
    Defined,
    /// `is undefined`
    Undefined,
    /// `is none`
    None,
    /// `is true`
    True,
    /// `is false`
    False,
    /// `is boolean`
    Boolean,
    /// `is integer`
    Integer,
    /// `is float`
    Float,
    /// `is number`
    Number,
    /// `is string`
    String,
    /// `is mapping`
    Mapping,
    /// `is iterable`
    Iterable,
    /// `is sequence`
    Sequence,
    /// `is odd`
    Odd,
    /// `is even`
    Even,
    /// `is divisibleby(n)`
    DivisibleBy,
    /// `is eq(x)` and its like
    Compare(Comparison),
    /// `is in(list)`
    In,
}

impl Predicate {
    /// The test of this name, if it is known here.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "defined" => Self::Defined,
            "undefined" => Self::Undefined,
            "none" => Self::None,
            "true" => Self::True,
            "false" => Self::False,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "float" => Self::Float,
            "number" => Self::Number,
            "string" => Self::String,
            "mapping" => Self::Mapping,
            "iterable" => Self::Iterable,
            "sequence" => Self::Sequence,
            "odd" => Self::Odd,
            "even" => Self::Even,
            "divisibleby" => Self::DivisibleBy,
            "eq" | "==" | "equalto" => Self::Compare(Comparison::Equal),
            "ne" | "!=" => Self::Compare(Comparison::NotEqual),
            "lt" | "<" | "lessthan" => Self::Compare(Comparison::Less),
            "le" | "<=" => Self::Compare(Comparison::LessOrEqual),
            "gt" | ">" | "greaterthan" => Self::Compare(Comparison::Greater),
            "ge" | ">=" => Self::Compare(Comparison::GreaterOrEqual),
            "in" => Self::In,
            _ => return None,
        })
    }

    fn arity(self) -> usize {
        usize::from(matches!(self, Self::DivisibleBy | Self::Compare(_) | Self::In))
    }

    /// Whether the template gives it as many arguments as it takes.
    pub(super) fn check(self, arguments: &Arguments) -> Result<(), String> {
        if arguments.positional.len() == self.arity() && arguments.named.is_empty() {
            Ok(())
        } else {
            Err(format!("this test takes {} arguments", self.arity()))
        }
    }

    /// Whether it holds.
    pub(super) fn holds<'r>(
        self,
        value: &Value<'r>,
        arguments: &[Value<'r>],
        meter: &Meter<'_>,
    ) -> Outcome<bool> {
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

fn remainder(value: &Value<'_>, divisor: &Value<'_>) -> Outcome<i64> {
    match (value.as_int(), divisor.as_int()) {
        (Some(_), Some(0)) => Err(Failure::error("division by zero")),
        // The sign of the result does not matter for what is asked here, but for an odd negative number.
        (Some(value), Some(divisor)) => Ok(value.checked_rem(divisor).unwrap_or(0).abs()),
        _ => Err(Failure::unsupported("this test of what is no integer of 64 bits")),
    }
}
