//! [`Filter::apply`]: the result of each filter for a value.

use super::numbers;
use super::sequences::{
    dict_sort, entries, extreme, items, iterate, join, last, map, select, sorted, sum, unique,
};
use super::texts::{format, indent, replaced, title};
use crate::failure::{Failure, RenderResult};
use crate::language::filters::Filter;
use crate::render_limits::Meter;
use crate::text::{capitalize, lower, upper};
use crate::values::arguments::CallArguments;
use crate::values::items::length;
use crate::values::make::ItemsBuilder;
use crate::values::printing::markup::escape;
use crate::values::printing::print::to_text;
use crate::values::printing::tojson::JsonStyle;
use crate::values::texts::cuts::{TrimmedEnds, trim};
use crate::values::texts::text::Text;
use crate::values::value::Value;

impl Filter {
    /// Applies the filter.
    pub(crate) fn apply<'r>(
        self,
        value: &Value<'r>,
        arguments: CallArguments<'r>,
        meter: &Meter<'_>,
    ) -> RenderResult<Value<'r>> {
        let text = || to_text(value, meter);
        let to_value = |text: String| meter.text(text).map(|text| marked(value, text));
        match self {
            Self::ToJson => JsonStyle::from_arguments(arguments)?
                .dumps(value, meter)
                .and_then(|it| meter.string(it)),
            Self::Trim => {
                let [chars] = arguments.bind(["chars"])?;
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
                Ok(marked(value, trim(&text()?, chars.as_deref(), TrimmedEnds::BOTH, meter)?))
            }
            Self::Length => match length(value, meter)? {
                Some(length) => Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX))),
                None => Err(Failure::error(format!("{} has no length", value.type_name()))),
            },
            Self::String => Ok(marked(value, text()?)),
            Self::Safe => text().map(Value::Safe),
            Self::Items => match value {
                Value::Undefined => Ok(ItemsBuilder::new(meter).into_generator()),
                Value::Dict(_) => entries(value, meter).map(ItemsBuilder::into_generator),
                other => {
                    Err(Failure::error(format!("`items` needs a dict, not {}", other.type_name())))
                }
            },
            Self::Default => {
                let [default, boolean] = arguments.bind(["default_value", "boolean"])?;
                let boolean = boolean.is_some_and(|boolean| boolean.is_true());
                Ok(if matches!(value, Value::Undefined) || boolean && !value.is_true() {
                    default.unwrap_or(Value::String(Text::Borrowed("")))
                } else {
                    value.clone()
                })
            }
            Self::Join => join(value, arguments, meter),
            Self::List => items(value, meter).map(ItemsBuilder::into_list),
            Self::Upper => upper(&text()?, meter).and_then(to_value),
            Self::Lower => lower(&text()?, meter).and_then(to_value),
            Self::Capitalize => capitalize(&text()?, meter).and_then(to_value),
            Self::Title => title(&text()?, meter).and_then(|cased| meter.string(cased)),
            Self::Replace => replaced(value, arguments, meter),
            Self::DictSort => dict_sort(value, arguments, meter),
            Self::Map => map(value, arguments, meter),
            Self::Select | Self::Reject | Self::SelectAttribute | Self::RejectAttribute => {
                select(self, value, arguments.positional, meter)
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
            Self::Sort => sorted(value, arguments, meter),
            Self::Unique => unique(value, arguments, meter),
            Self::Min | Self::Max => extreme(self, value, arguments, meter),
            Self::Sum => sum(value, arguments, meter),
            Self::Abs => numbers::abs(value, meter),
            Self::Float => numbers::float(value, arguments, meter),
            Self::Round => numbers::round(value, arguments),
            Self::Format => format(&text()?, arguments, meter).and_then(to_value),
            Self::Escape => escape(value, meter),
            Self::Int => numbers::int(value, arguments, meter),
            Self::Indent => indent(value, arguments, meter),
        }
    }
}

/// A text that is marked safe if the value that it comes from is.
fn marked<'r>(value: &Value<'r>, text: Text<'r>) -> Value<'r> {
    if matches!(value, Value::Safe(_)) { Value::Safe(text) } else { Value::String(text) }
}
