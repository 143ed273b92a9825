//! Jinja's filters.

mod sequences;
mod texts;

use super::ast::{Arguments, Expression, Literal};
use super::cuts::trim;
use super::failure::{Failure, Outcome};
use super::given::Given;
use super::items::length;
use super::limits::{Many, Meter};
use super::predicates::Predicate;
use super::print::to_text;
use super::text::{capitalize, lower, upper};
use super::tojson::Style;
use super::value::{Text, Value};
use sequences::{dict_sort, entries, items, iterate, join, last, map, select, sorted};
use texts::{indent, int, replaced, title};

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// `tojson`
    ToJson,
    /// `trim`
    Trim,
    /// `length`, `count`
    Length,
    /// `string`
    String,
    /// `safe`
    Safe,
    /// `items`
    Items,
    /// `default`, `d`
    Default,
    /// `join`
    Join,
    /// `list`
    List,
    /// `upper`
    Upper,
    /// `lower`
    Lower,
    /// `capitalize`
    Capitalize,
    /// `title`
    Title,
    /// `replace`
    Replace,
    /// `dictsort`
    DictSort,
    /// `map`
    Map,
    /// `select`
    Select,
    /// `reject`
    Reject,
    /// `selectattr`
    SelectAttribute,
    /// `rejectattr`
    RejectAttribute,
    /// `first`
    First,
    /// `last`
    Last,
    /// `reverse`
    Reverse,
    /// `sort`
    Sort,
    /// `int`
    Int,
    /// `indent`
    Indent,
}

impl Filter {
    /// The filter of this name, if it is known here.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "tojson" => Self::ToJson,
            "trim" => Self::Trim,
            "length" | "count" => Self::Length,
            "string" => Self::String,
            "safe" => Self::Safe,
            "items" => Self::Items,
            "default" | "d" => Self::Default,
            "join" => Self::Join,
            "list" => Self::List,
            "upper" => Self::Upper,
            "lower" => Self::Lower,
            "capitalize" => Self::Capitalize,
            "title" => Self::Title,
            "replace" => Self::Replace,
            "dictsort" => Self::DictSort,
            "map" => Self::Map,
            "select" => Self::Select,
            "reject" => Self::Reject,
            "selectattr" => Self::SelectAttribute,
            "rejectattr" => Self::RejectAttribute,
            "first" => Self::First,
            "last" => Self::Last,
            "reverse" => Self::Reverse,
            "sort" => Self::Sort,
            "int" => Self::Int,
            "indent" => Self::Indent,
            _ => return None,
        })
    }

    /// Which arguments are known here: how many by position, which by name.
    fn signature(self) -> (usize, &'static [&'static str]) {
        match self {
            Self::ToJson => (5, &["ensure_ascii", "indent", "separators", "sort_keys"]),
            Self::Trim => (1, &["chars"]),
            Self::Default => (2, &["default_value", "boolean"]),
            Self::Join => (2, &["d", "attribute"]),
            Self::Replace => (3, &["old", "new", "count"]),
            Self::Indent => (3, &["width", "first", "blank"]),
            Self::Map => (1, &["attribute", "default"]),
            Self::Select | Self::Reject => (2, &[]),
            Self::SelectAttribute | Self::RejectAttribute => (3, &[]),
            _ => (0, &[]),
        }
    }

    /// Refuses arguments that are not known here.
    pub(super) fn check(self, arguments: &Arguments) -> Result<(), String> {
        let (positional, named) = self.signature();
        if arguments.positional.len() > positional {
            return Err(format!("so many arguments of the filter `{self:?}` are not supported"));
        }
        if let Some((name, _)) = arguments.named.iter().find(|(name, _)| !named.contains(&&**name))
        {
            return Err(format!("the argument `{name}` of this filter is not supported"));
        }
        let (place, is_known): (usize, fn(&str) -> bool) = match self {
            Self::Map => (0, |name| Self::named(name).is_some_and(|filter| filter != Self::Map)),
            Self::Select | Self::Reject => (0, |name| Predicate::named(name).is_some()),
            Self::SelectAttribute | Self::RejectAttribute => {
                (1, |name| Predicate::named(name).is_some())
            }
            _ => return Ok(()),
        };
        match arguments.positional.get(place) {
            None => Ok(()),
            Some(Expression::Literal(Literal::String(name))) if is_known(name) => Ok(()),
            Some(Expression::Literal(Literal::String(name))) => {
                Err(format!("`{name}` is not supported here"))
            }
            Some(_) => Err("a computed name of a filter or test is not supported".to_owned()),
        }
    }

    /// Applies the filter.
    pub(super) fn apply<'r>(
        self,
        value: &Value<'r>,
        given: Given<'r>,
        meter: &Meter<'_>,
    ) -> Outcome<Value<'r>> {
        let text = || to_text(value, meter);
        let made = |made: String| meter.text(made).map(|text| marked(value, text));
        match self {
            Self::ToJson => {
                Style::given(given)?.dumps(value, meter).and_then(|it| meter.string(it))
            }
            Self::Trim => {
                let [chars] = given.bind(["chars"])?;
                let chars = match chars {
                    None | Some(Value::None) => None,
                    Some(Value::String(chars)) => Some(chars),
                    Some(other) => {
                        return Err(Failure::error(format!(
                            "`trim` takes no {}",
                            other.type_name()
                        )));
                    }
                };
                Ok(marked(value, trim(&text()?, chars.as_deref(), (true, true), meter)?))
            }
            Self::Length => match length(value, meter)? {
                Some(length) => Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX))),
                None => Err(Failure::error(format!("{} has no length", value.type_name()))),
            },
            Self::String => Ok(marked(value, text()?)),
            Self::Safe => text().map(Value::Safe),
            Self::Items => match value {
                Value::Undefined => Ok(Many::new(meter).into_generator()),
                Value::Dict(_) => entries(value, meter).map(Many::into_generator),
                other => {
                    Err(Failure::error(format!("`items` needs a dict, not {}", other.type_name())))
                }
            },
            Self::Default => {
                let [default, boolean] = given.bind(["default_value", "boolean"])?;
                let boolean = boolean.is_some_and(|boolean| boolean.is_true());
                Ok(if matches!(value, Value::Undefined) || boolean && !value.is_true() {
                    default.unwrap_or(Value::String(Text::Borrowed("")))
                } else {
                    value.clone()
                })
            }
            Self::Join => join(value, given, meter),
            Self::List => items(value, meter).map(Many::into_list),
            Self::Upper => upper(&text()?, meter).and_then(made),
            Self::Lower => lower(&text()?, meter).and_then(made),
            Self::Capitalize => capitalize(&text()?, meter).and_then(made),
            Self::Title => title(&text()?, meter).and_then(|made| meter.string(made)),
            Self::Replace => replaced(value, given, meter),
            Self::DictSort => dict_sort(value, meter),
            Self::Map => map(value, given, meter),
            Self::Select | Self::Reject | Self::SelectAttribute | Self::RejectAttribute => {
                select(self, value, given.positional, meter)
            }
            Self::First => Ok(iterate(value)?.next(meter)?.unwrap_or(Value::Undefined)),
            Self::Last => last(value, meter),
            Self::Reverse => match value {
                Value::String(text) => {
                    meter.characters(text.len())?;
                    meter.hold(text.len())?;
                    meter.string(text.chars().rev().collect())
                }
                Value::List(_)
                | Value::Tuple(_)
                | Value::Dict(_)
                | Value::Range(_)
                | Value::View(..) => {
                    let mut reversed = items(value, meter)?;
                    reversed.items().reverse();
                    Ok(reversed.into_generator())
                }
                other => {
                    Err(Failure::unsupported(format_args!("`reverse` of {}", other.type_name())))
                }
            },
            Self::Sort => sorted(value, meter),
            Self::Int => int(value, meter),
            Self::Indent => indent(value, given, meter),
        }
    }
}

/// A text that is marked safe if the value that it comes from is.
fn marked<'r>(value: &Value<'r>, text: Text<'r>) -> Value<'r> {
    if matches!(value, Value::Safe(_)) { Value::Safe(text) } else { Value::String(text) }
}
