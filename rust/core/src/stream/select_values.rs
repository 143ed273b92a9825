//! [`WantedValues`]: the wanted values of a field. Numbers are compared exactly, whatever their types and sizes.

use std::cmp::Ordering;

use fastpack_template::json::Json;
use num_bigint::{BigInt, Sign};
use serde::{Serialize, Serializer};

/// The wanted values of a field.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum WantedValues {
    /// One of these.
    OneOf(Vec<Scalar>),
    /// A number in this range, the ends included.
    Between(Option<SelectNumber>, Option<SelectNumber>),
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// None, or no such field.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(SelectNumber),
    /// A text.
    Text(String),
}

/// A number. Equal numbers are equal, of whatever type they are.
#[derive(Clone, Debug)]
pub enum SelectNumber {
    /// An integer of 64 bits.
    Int(i64),
    /// Any other integer.
    Big(BigInt),
    /// A float.
    Float(f64),
}

impl WantedValues {
    /// True if a value is wanted.
    pub(super) fn has(&self, value: Option<&Json>) -> bool {
        match self {
            Self::OneOf(wanted) => wanted.iter().any(|wanted| wanted.is(value)),
            Self::Between(least, most) => value.and_then(SelectNumber::of).is_some_and(|number| {
                least.as_ref().is_none_or(|least| number >= *least)
                    && most.as_ref().is_none_or(|most| number <= *most)
            }),
        }
    }
}

impl Scalar {
    /// True if it is the value of a field. Lists and objects are no scalars.
    fn is(&self, value: Option<&Json>) -> bool {
        match (self, value) {
            (Self::Null, None | Some(Json::Null)) => true,
            (Self::Bool(wanted), Some(Json::Bool(truth))) => wanted == truth,
            (Self::Text(wanted), Some(Json::String(text))) => **wanted == **text,
            (Self::Number(wanted), Some(value)) => SelectNumber::of(value).as_ref() == Some(wanted),
            _ => false,
        }
    }
}

impl SelectNumber {
    /// The integer of these digits; `None` for other text.
    pub fn integer(digits: &str) -> Option<Self> {
        let number: BigInt = digits.parse().ok()?;
        Some(i64::try_from(&number).map_or_else(|_| Self::Big(number), Self::Int))
    }

    fn of(value: &Json) -> Option<Self> {
        match value {
            Json::Int(number) => Some(Self::Int(*number)),
            Json::BigInt(number) => Some(Self::Big(BigInt::clone(number))),
            Json::Float(number) => Some(Self::Float(*number)),
            _ => None,
        }
    }
}

impl From<f64> for SelectNumber {
    fn from(number: f64) -> Self {
        match cut(number) {
            Some((whole, 0.0)) => Self::Int(whole),
            _ => Self::Float(number),
        }
    }
}

impl PartialEq for SelectNumber {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for SelectNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(right),
            (Self::Int(left), Self::Float(right)) => order(*left, *right),
            (Self::Float(left), Self::Int(right)) => order(*right, *left).map(Ordering::reverse),
            (Self::Big(left), Self::Big(right)) => Some(left.cmp(right)),
            (Self::Big(left), Self::Int(right)) => Some(left.cmp(&BigInt::from(*right))),
            (Self::Int(left), Self::Big(right)) => Some(BigInt::from(*left).cmp(right)),
            (Self::Big(left), Self::Float(right)) => order_big(left, *right),
            (Self::Float(left), Self::Big(right)) => order_big(right, *left).map(Ordering::reverse),
        }
    }
}

impl Serialize for SelectNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Big(number) => serializer.collect_str(&format_args!("integer {number}")),
        }
    }
}

/// The first float above the range of signed integers of 64 bits: 2 to the power of 63.
const END: f64 = 9_223_372_036_854_775_808.0;

/// The integer towards zero, and the rest; `None` for a float whose integer does not fit 64 bits.
fn cut(number: f64) -> Option<(i64, f64)> {
    let fits = (-END..END).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "it fits, by the line above")]
    fits.then(|| (number.trunc() as i64, number.fract()))
}

/// The order of an integer and a float.
fn order(integer: i64, float: f64) -> Option<Ordering> {
    match cut(float) {
        Some((whole, fraction)) => {
            Some(integer.cmp(&whole).then_with(|| 0.0_f64.partial_cmp(&fraction).expect("no NaN")))
        }
        // It is beyond all integers of 64 bits.
        None => 0.0_f64.partial_cmp(&float),
    }
}

/// The order of an integer that does not fit 64 bits, and a float.
fn order_big(integer: &BigInt, float: f64) -> Option<Ordering> {
    if cut(float).is_some() {
        return Some(if integer.sign() == Sign::Minus {
            Ordering::Less
        } else {
            Ordering::Greater
        });
    }
    if !float.is_finite() {
        return 0.0_f64.partial_cmp(&float);
    }
    // A float of this size is its 53 bits, shifted to the left.
    let bits = float.abs().to_bits();
    let shift = (bits >> 52) - 1075;
    let whole = BigInt::from(bits & ((1 << 52) - 1) | 1 << 52) << shift;
    Some(integer.cmp(&if float < 0.0 { -whole } else { whole }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_exactly() {
        let big = |text: &str| SelectNumber::integer(text).expect("digits");
        let ascending = [
            SelectNumber::Float(f64::NEG_INFINITY),
            SelectNumber::Float(-1e300),
            big("-18446744073709551617"),
            SelectNumber::Float(-18_446_744_073_709_551_616.0),
            SelectNumber::Int(i64::MIN),
            SelectNumber::Float(-2.5),
            SelectNumber::Int(-2),
            SelectNumber::Float(-0.5),
            SelectNumber::Int(0),
            SelectNumber::Float(0.5),
            SelectNumber::Float(9_007_199_254_740_992.0),
            SelectNumber::Int(9_007_199_254_740_993),
            SelectNumber::Int(i64::MAX),
            SelectNumber::Float(END),
            big("9223372036854775809"),
            big("18446744073709551615"),
            SelectNumber::Float(18_446_744_073_709_551_616.0),
            big("18446744073709551617"),
            SelectNumber::Float(f64::INFINITY),
        ];
        for (at, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(left.partial_cmp(right), Some(at.cmp(&other)), "{left:?}, {right:?}");
            }
            assert_eq!(left.partial_cmp(&SelectNumber::Float(f64::NAN)), None);
        }
        assert_eq!(SelectNumber::from(2.0), SelectNumber::Int(2));
        assert_eq!(big("18446744073709551616"), SelectNumber::Float(18_446_744_073_709_551_616.0));
        assert_eq!(SelectNumber::Int(0), SelectNumber::Float(-0.0));
    }
}
