//! `a.b`, `a['b']` and `a[1:2]`, as Jinja's sandbox looks them up.

use std::rc::Rc;

use crate::failure::{Failure, RenderResult};
use crate::render_limits::Meter;
use crate::text::byte_of;
use crate::values::key::Key;
use crate::values::make::ItemsBuilder;
use crate::values::methods::{self, Attribute};
use crate::values::texts::text::Text;
use crate::values::value::{Dict, List, Value, range_length};

/// `value.name`: Python's attribute comes first, then the item.
pub(crate) fn attribute<'r>(
    value: &Value<'r>,
    name: &'r str,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    meter.bytes(name.len())?;
    if let Some(found) = own_attribute(value, name)? {
        return Ok(found);
    }
    Ok(match value {
        Value::Dict(dict) => dict.get(name).unwrap_or(Value::Undefined),
        _ => Value::Undefined,
    })
}

/// The attribute that `getattr` finds; `None` if the value has no such attribute.
fn own_attribute<'r>(value: &Value<'r>, name: &'r str) -> RenderResult<Option<Value<'r>>> {
    match value {
        Value::Undefined => Err(Failure::error(format!("an undefined value has no `{name}`"))),
        Value::Namespace(attributes) => Ok(attributes.borrow().get(name).cloned()),
        Value::Loop(state) => {
            Err(Failure::unsupported(format_args!("`loop.{name}` of loop {:p}", Rc::as_ptr(state))))
        }
        other => match methods::find(other, name) {
            Attribute::Missing => Ok(None),
            Attribute::Method(method) => Ok(Some(Value::Method(method, Rc::new(other.clone())))),
            Attribute::Unknown => Ok(Some(Value::UnknownMethod(name))),
            Attribute::Unsure => Err(unsure(other, name)),
            Attribute::Forbidden => Ok(Some(Value::Undefined)),
        },
    }
}

fn unsure(value: &Value<'_>, name: &str) -> Failure {
    Failure::unsupported(format_args!("the attribute `{name}` of a {}", value.type_name()))
}

/// `value[index]`: the item comes first, then Python's attribute.
pub(crate) fn item<'r>(
    value: &Value<'r>,
    index: &Value<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    if let Some(key) = index.as_text() {
        meter.bytes(key.len())?;
    }
    let found = match value {
        Value::Undefined => return Err(Failure::error("an undefined value has no items")),
        Value::Dict(dict) => find_in(dict, index)?,
        Value::List(items) => position(index, items.len()).and_then(|at| items.get(at)),
        Value::Tuple(items) => position(index, items.len()).and_then(|at| items.get(at).cloned()),
        Value::String(text) | Value::Safe(text) => match index.as_int() {
            Some(_) => match position_in(text, index, meter)? {
                Some(begin) => {
                    let end = begin + text[begin..].chars().next().map_or(0, char::len_utf8);
                    let part = text.cut(meter, |text| &text[begin..end])?;
                    Some(if matches!(value, Value::Safe(_)) {
                        Value::Safe(part)
                    } else {
                        Value::String(part)
                    })
                }
                None => None,
            },
            None => None,
        },
        Value::Range(range) => {
            let length = usize::try_from(range_length(range)).unwrap_or(0);
            position(index, length)
                .and_then(|at| i64::try_from(at).ok())
                .map(|at| Value::Int(range[0] + at * range[2]))
        }
        _ => None,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    match index {
        Value::String(Text::Borrowed(name)) => {
            Ok(own_attribute(value, name)?.unwrap_or(Value::Undefined))
        }
        Value::String(name) | Value::Safe(name) => match (value, methods::find(value, name)) {
            (Value::Namespace(attributes), _) => {
                Ok(attributes.borrow().get(&**name).cloned().unwrap_or(Value::Undefined))
            }
            (_, Attribute::Missing | Attribute::Forbidden) => Ok(Value::Undefined),
            (_, Attribute::Method(method)) => Ok(Value::Method(method, Rc::new(value.clone()))),
            (_, Attribute::Unsure) => Err(unsure(value, name)),
            (_, Attribute::Unknown) => {
                Err(Failure::unsupported(format_args!("the attribute `{}`", &**name)))
            }
        },
        _ => Ok(Value::Undefined),
    }
}

/// The value of a key in a dict.
fn find_in<'r>(dict: &Dict<'r>, index: &Value<'r>) -> RenderResult<Option<Value<'r>>> {
    match index {
        Value::String(key) | Value::Safe(key) => Ok(dict.get(key)),
        Value::List(_) | Value::Dict(_) => Ok(None),
        _ => Ok(Key::sought(index)?.and_then(|key| dict.find(&key))),
    }
}

/// The position in a sequence for an index. Negative indices count from the end.
fn position(index: &Value<'_>, length: usize) -> Option<usize> {
    let index = index.as_int()?;
    let from_end = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { length.checked_sub(from_end) } else { Some(from_end).filter(|at| *at < length) }
}

/// The byte at which the character at an index begins.
fn position_in(text: &str, index: &Value<'_>, meter: &Meter<'_>) -> RenderResult<Option<usize>> {
    meter.bytes(text.len())?;
    let Some(at) = position(index, text.chars().count()) else { return Ok(None) };
    Ok(Some(byte_of(text, at)))
}

/// `value[start:stop:step]`
pub(crate) fn slice<'r>(
    value: &Value<'r>,
    bounds: &[Value<'r>; 3],
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let length = match value {
        Value::List(items) => items.len(),
        Value::Tuple(items) => items.len(),
        Value::String(text) => {
            meter.bytes(text.len())?;
            text.chars().count()
        }
        Value::Safe(_) | Value::Range(_) => {
            return Err(Failure::unsupported(format_args!("a slice of {}", value.type_name())));
        }
        other => return Err(Failure::error(format!("{} cannot be sliced", other.type_name()))),
    };
    let mut numbers = [None; 3];
    for (number, bound) in numbers.iter_mut().zip(bounds) {
        *number = match bound {
            Value::None => None,
            Value::Big(_) => {
                return Err(Failure::unsupported("a slice with integers beyond 64 bits"));
            }
            other => Some(other.as_int().ok_or_else(|| {
                Failure::error(format!("a slice needs integers, not {}", other.type_name()))
            })?),
        };
    }
    let [first, end, step] = numbers;
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Failure::error("a slice with step 0"));
    }
    if let (Value::String(text), 1) = (value, step) {
        let (from, to) = (bound(first, length, 0, 0), bound(end, length, 0, length_of(length)));
        let (from, to) =
            (usize::try_from(from).unwrap_or(0), usize::try_from(to.max(from)).unwrap_or(0));
        let range = byte_of(text, from)..byte_of(text, to);
        return Ok(Value::String(text.cut(meter, |text| &text[range])?));
    }
    let places = places(first, end, step, length);
    Ok(match value {
        Value::String(text) => {
            // The slice holds all characters of the text for a while.
            let bytes = length.saturating_mul(size_of::<char>());
            meter.characters(text.len())?;
            meter.hold(bytes)?;
            let chars: Vec<char> = text.chars().collect();
            let mut cut = String::new();
            for at in places {
                meter.write_char(&mut cut, chars[at])?;
            }
            meter.release(bytes);
            meter.string(cut)?
        }
        Value::Tuple(items) => {
            let mut cut = ItemsBuilder::of(places.len(), meter)?;
            places.into_iter().try_for_each(|at| cut.push(items[at].clone()))?;
            cut.into_tuple()
        }
        Value::List(List::Data(items)) if step == 1 => {
            let from = places.first;
            Value::List(List::Data(&items[from..from + places.len()]))
        }
        Value::List(items) => {
            let mut cut = ItemsBuilder::of(places.len(), meter)?;
            places
                .into_iter()
                .filter_map(|at| items.get(at))
                .try_for_each(|item| cut.push(item))?;
            cut.into_list()
        }
        _ => Value::Undefined,
    })
}

fn length_of(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// A bound of a slice, moved into `lowest..=length + lowest`.
fn bound(bound: Option<i64>, length: usize, lowest: i64, missing: i64) -> i64 {
    let length = length_of(length);
    match bound {
        None => missing,
        Some(bound) if bound < 0 => bound.saturating_add(length).max(lowest),
        Some(bound) => bound.min(length + lowest),
    }
}

/// The positions that a slice takes: `count` of them, from `first` on, `step` apart.
struct SlicePositions {
    first: usize,
    count: usize,
    step: i64,
}

impl SlicePositions {
    fn len(&self) -> usize {
        self.count
    }
}

impl IntoIterator for SlicePositions {
    type Item = usize;
    type IntoIter = Box<dyn Iterator<Item = usize>>;

    fn into_iter(self) -> Self::IntoIter {
        let Self { first, count, step } = self;
        let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        // A step that saturates this takes only one position, the first.
        let place = move |number: usize| {
            let distance = number.saturating_mul(stride);
            if step > 0 { first.saturating_add(distance) } else { first.saturating_sub(distance) }
        };
        Box::new((0..count).map(place))
    }
}

/// The positions that a slice takes in a sequence of this length.
fn places(from: Option<i64>, to: Option<i64>, step: i64, length: usize) -> SlicePositions {
    let count = length_of(length);
    let lowest = if step < 0 { -1 } else { 0 };
    let first = bound(from, length, lowest, if step < 0 { count - 1 } else { 0 });
    let end = bound(to, length, lowest, if step < 0 { -1 } else { count });
    let span = if step > 0 { end - first } else { first - end };
    let count = if span <= 0 { 0 } else { (span - 1) / step.saturating_abs() + 1 };
    let as_place = |number: i64| usize::try_from(number).unwrap_or(0);
    SlicePositions { first: as_place(first), count: as_place(count), step }
}
