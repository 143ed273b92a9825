//! The supported tests of Jinja: the words after `is`.

use super::operators::ComparisonOperator;

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predicate {
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
    Compare(ComparisonOperator),
    /// `is in(list)`
    In,
}

impl Predicate {
    /// True if Jinja has a test of this name that is not supported.
    pub(crate) fn exists(name: &str) -> bool {
        matches!(name, "callable" | "escaped" | "filter" | "lower" | "sameas" | "test" | "upper")
    }

    /// The test of this name, if it is supported.
    pub(crate) fn named(name: &str) -> Option<Self> {
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
            "eq" | "==" | "equalto" => Self::Compare(ComparisonOperator::Equal),
            "ne" | "!=" => Self::Compare(ComparisonOperator::NotEqual),
            "lt" | "<" | "lessthan" => Self::Compare(ComparisonOperator::Less),
            "le" | "<=" => Self::Compare(ComparisonOperator::LessOrEqual),
            "gt" | ">" | "greaterthan" => Self::Compare(ComparisonOperator::Greater),
            "ge" | ">=" => Self::Compare(ComparisonOperator::GreaterOrEqual),
            "in" => Self::In,
            _ => return None,
        })
    }

    /// The number of arguments.
    pub(crate) fn arity(self) -> usize {
        usize::from(matches!(self, Self::DivisibleBy | Self::Compare(_) | Self::In))
    }
}
