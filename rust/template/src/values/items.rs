//! [`Items`]: iterates over the items of a value.

use std::cell::Cell;

use crate::failure::RenderResult;
use crate::language::methods::DictView;
use crate::render_limits::Meter;
use crate::values::value::{Items, Value, range_length};

impl<'r> Items<'r> {
    /// The items of a value, if Python can iterate it.
    pub(crate) fn of(value: &Value<'r>) -> Option<Self> {
        let iterable = matches!(
            value,
            Value::Undefined
                | Value::String(_)
                | Value::Safe(_)
                | Value::List(_)
                | Value::Tuple(_)
                | Value::Dict(_)
                | Value::Range(_)
                | Value::View(..)
                | Value::Generator(_)
        );
        iterable.then(|| Self { source: value.clone(), at: Cell::new(0) })
    }

    /// The next item.
    pub(crate) fn next(&self, meter: &Meter<'_>) -> RenderResult<Option<Value<'r>>> {
        meter.items(1)?;
        let at = self.at.get();
        let mut step = 1;
        let item = match &self.source {
            Value::String(text) | Value::Safe(text) => {
                // A loop that looks ahead asks again behind the end.
                let rest = text.get(at..).unwrap_or_default();
                match rest.chars().next() {
                    None => None,
                    Some(c) => {
                        step = c.len_utf8();
                        Some(Value::String(text.cut(meter, |text| &text[at..at + c.len_utf8()])?))
                    }
                }
            }
            Value::List(items) => items.get(at),
            Value::Tuple(items) => items.get(at).cloned(),
            Value::Dict(dict) | Value::View(DictView::Keys, dict) => {
                dict.entry(at).map(|(key, _)| key.value())
            }
            Value::View(DictView::Values, dict) => dict.entry(at).map(|(_, value)| value),
            Value::View(DictView::Items, dict) => match dict.entry(at) {
                Some((key, value)) => Some(meter.tuple(vec![key.value(), value])?),
                None => None,
            },
            Value::Range(range) => match i64::try_from(at) {
                Ok(at) if at < range_length(range) => Some(Value::Int(range[0] + at * range[2])),
                _ => None,
            },
            Value::Generator(items) => items.borrow_mut().next(),
            _ => None,
        };
        self.at.set(at + step);
        Ok(item)
    }

    /// Calls `found` with each item that is left.
    pub(crate) fn each(
        &self,
        meter: &Meter<'_>,
        mut found: impl FnMut(Value<'r>) -> RenderResult<()>,
    ) -> RenderResult<()> {
        while let Some(item) = self.next(meter)? {
            found(item)?;
        }
        Ok(())
    }
}

/// The length of a value, if Python's `len` takes it.
pub(crate) fn length(value: &Value<'_>, meter: &Meter<'_>) -> RenderResult<Option<usize>> {
    if let Some(text) = value.as_text() {
        meter.bytes(text.len())?;
    }
    Ok(match value {
        Value::Undefined => Some(0),
        Value::String(text) | Value::Safe(text) => Some(text.chars().count()),
        Value::List(items) => Some(items.len()),
        Value::Tuple(items) => Some(items.len()),
        Value::Dict(dict) | Value::View(_, dict) => Some(dict.len()),
        Value::Range(range) => usize::try_from(range_length(range)).ok(),
        _ => None,
    })
}
