//! Filters of lists and dicts.

use crate::failure::{Failure, Outcome};
use crate::language::filters::Filter;
use crate::language::predicates::Predicate;
use crate::limits::Meter;
use crate::text::lower;
use crate::values::arguments::CallArguments;
use crate::values::attributes::item;
use crate::values::comparing::{order, order_texts};
use crate::values::make::{ITEM_BYTES, ItemsBuilder};
use crate::values::print::{to_text, write_str};
use crate::values::sort::sort;
use crate::values::text::Text;
use crate::values::value::{Items, List, Value};

/// The items of a value, one by one.
pub(crate) fn iterate<'r>(value: &Value<'r>) -> Outcome<Items<'r>> {
    Items::of(value)
        .ok_or_else(|| Failure::error(format!("{} cannot be iterated", value.type_name())))
}

/// The items of a value, all at once.
pub(crate) fn items<'r, 'm>(
    value: &Value<'r>,
    meter: &'m Meter<'_>,
) -> Outcome<ItemsBuilder<'r, 'm>> {
    let mut items = ItemsBuilder::new(meter);
    iterate(value)?.each(meter, |item| items.push(item))?;
    Ok(items)
}

/// The last item of a value.
pub(crate) fn last<'r>(value: &Value<'r>, meter: &Meter<'_>) -> Outcome<Value<'r>> {
    let found = match value {
        Value::Generator(_) => {
            return Err(Failure::error("`last` needs a list, not a generator"));
        }
        Value::List(List::Computed(items)) | Value::Tuple(items) => items.last().cloned(),
        Value::List(items) => items.len().checked_sub(1).and_then(|at| items.get(at)),
        Value::String(text) | Value::Safe(text) => match text.char_indices().next_back() {
            Some((at, _)) => Some(Value::String(text.cut(meter, |text| &text[at..])?)),
            None => None,
        },
        other => {
            let mut last = None;
            iterate(other)?.each(meter, |item| {
                last = Some(item);
                Ok(())
            })?;
            last
        }
    };
    Ok(found.unwrap_or(Value::Undefined))
}

/// A dict as pairs of keys and values.
pub(crate) fn entries<'r, 'm>(
    value: &Value<'r>,
    meter: &'m Meter<'_>,
) -> Outcome<ItemsBuilder<'r, 'm>> {
    let Value::Dict(dict) = value else {
        let reason = format!("a dict is needed, not {}", value.type_name());
        return Err(Failure::error(reason));
    };
    let mut pairs = ItemsBuilder::new(meter);
    for (key, value) in dict.iter() {
        pairs.push(meter.tuple(vec![Value::String(key), value])?)?;
    }
    Ok(pairs)
}

/// The items as one text, with a separator between them.
pub(crate) fn join<'r>(
    value: &Value<'r>,
    given: CallArguments<'r>,
    meter: &Meter<'_>,
) -> Outcome<Value<'r>> {
    let [separator, attribute] = given.bind(["d", "attribute"])?;
    let separator = match separator {
        None => Text::Borrowed(""),
        Some(separator) => to_text(&separator, meter)?,
    };
    let mut out = String::new();
    let mut first = true;
    iterate(value)?.each(meter, |item| {
        if !std::mem::take(&mut first) {
            meter.write(&mut out, &separator)?;
        }
        match &attribute {
            None | Some(Value::None) => write_str(&mut out, &item, meter),
            Some(attribute) => write_str(&mut out, &look_up(&item, attribute, meter)?, meter),
        }
    })?;
    meter.string(out)
}

/// Looks up the `attribute` of a filter: keys and indices with dots between them.
fn look_up<'r>(value: &Value<'r>, attribute: &Value<'r>, meter: &Meter<'_>) -> Outcome<Value<'r>> {
    let Value::String(path) = attribute else {
        return Err(Failure::unsupported("an attribute that is no string"));
    };
    let mut found = value.clone();
    for part in path.split('.') {
        meter.items(1)?;
        meter.characters(part.len())?;
        if part.starts_with('_') {
            return Err(Failure::unsupported("an attribute that begins with `_`"));
        }
        let key = match part.parse::<i64>() {
            Ok(index) if part.bytes().all(|byte| byte.is_ascii_digit()) => Value::Int(index),
            _ => Value::String(meter.copy(part)?),
        };
        found = item(&found, &key, meter)?;
    }
    Ok(found)
}

/// The pairs of a dict in the order of their keys, whatever their case.
pub(crate) fn dict_sort<'r>(value: &Value<'r>, meter: &Meter<'_>) -> Outcome<Value<'r>> {
    let Value::Dict(dict) = value else {
        return Err(Failure::error(format!("`dictsort` needs a dict, not {}", value.type_name())));
    };
    let mut pairs = Vec::new();
    for (key, value) in dict.iter() {
        meter.hold(ITEM_BYTES)?;
        let small = meter.text(lower(&key, meter)?)?;
        pairs.push((small, meter.tuple(vec![Value::String(key), value])?));
    }
    let sorted = sort(pairs, |(left, _), (right, _)| {
        meter.items(4)?;
        order_texts(left, right, meter)
    })?;
    into_list(sorted.into_iter().map(|(_, pair)| pair), meter)
}

/// A list of items whose memory was counted with [`Meter::hold`].
fn into_list<'r>(
    items: impl ExactSizeIterator<Item = Value<'r>>,
    meter: &Meter<'_>,
) -> Outcome<Value<'r>> {
    meter.release(items.len() * ITEM_BYTES);
    let mut list = ItemsBuilder::new(meter);
    for item in items {
        list.push(item)?;
    }
    Ok(list.into_list())
}

/// Applies a filter to each item, or takes an attribute of each.
pub(crate) fn map<'r>(
    value: &Value<'r>,
    given: CallArguments<'r>,
    meter: &Meter<'_>,
) -> Outcome<Value<'r>> {
    let mut mapped = ItemsBuilder::new(meter);
    if !value.is_true() {
        return Ok(mapped.into_generator());
    }
    match given.positional.first() {
        Some(name) if given.named.is_empty() => {
            let filter = name.as_text().and_then(|name| Filter::named(name));
            let filter = filter.ok_or_else(|| Failure::unsupported("`map` with such a filter"))?;
            iterate(value)?.each(meter, |item| {
                mapped.push(filter.apply(&item, CallArguments::default(), meter)?)
            })?;
        }
        Some(_) => return Err(Failure::unsupported("`map` with such arguments")),
        None => {
            let [attribute, default] = given.bind(["attribute", "default"])?;
            let attribute =
                attribute.ok_or_else(|| Failure::error("`map` needs a filter or an attribute"))?;
            let default = default.unwrap_or(Value::None);
            iterate(value)?.each(meter, |item| {
                mapped.push(match look_up(&item, &attribute, meter)? {
                    Value::Undefined if !matches!(default, Value::None) => default.clone(),
                    found => found,
                })
            })?;
        }
    }
    Ok(mapped.into_generator())
}

/// The items for which a test holds, or does not.
pub(crate) fn select<'r>(
    filter: Filter,
    value: &Value<'r>,
    given: Vec<Value<'r>>,
    meter: &Meter<'_>,
) -> Outcome<Value<'r>> {
    let mut selected = ItemsBuilder::new(meter);
    if !value.is_true() {
        return Ok(selected.into_generator());
    }
    let mut given = given.into_iter();
    let attribute = match filter {
        Filter::SelectAttribute | Filter::RejectAttribute => Some(
            given.next().ok_or_else(|| Failure::error("the name of an attribute is missing"))?,
        ),
        _ => None,
    };
    let test = given.next().map(|name| {
        let known = name.as_text().and_then(|name| Predicate::named(name));
        known.ok_or_else(|| Failure::unsupported("such a test"))
    });
    let test = test.transpose()?;
    let arguments: Vec<_> = given.collect();
    let wanted = matches!(filter, Filter::Select | Filter::SelectAttribute);
    iterate(value)?.each(meter, |item| {
        let tested = match &attribute {
            Some(attribute) => look_up(&item, attribute, meter)?,
            None => item.clone(),
        };
        let holds = match test {
            Some(test) => test.holds(&tested, &arguments, meter)?,
            None => tested.is_true(),
        };
        if holds == wanted { selected.push(item) } else { Ok(()) }
    })?;
    Ok(selected.into_generator())
}

/// The items in order, whatever their case.
pub(crate) fn sorted<'r>(value: &Value<'r>, meter: &Meter<'_>) -> Outcome<Value<'r>> {
    let mut keyed = Vec::new();
    iterate(value)?.each(meter, |item| {
        let key = match &item {
            Value::String(text) => meter.string(lower(text, meter)?)?,
            Value::Int(_) | Value::Bool(_) => item.clone(),
            other => {
                return Err(Failure::unsupported(format_args!("sorting {}", other.type_name())));
            }
        };
        meter.hold(ITEM_BYTES)?;
        keyed.push((key, item));
        Ok(())
    })?;
    let sorted = sort(keyed, |(left, _), (right, _)| {
        meter.items(4)?;
        Ok(order("<", left, right, meter)?.unwrap_or(std::cmp::Ordering::Equal))
    })?;
    into_list(sorted.into_iter().map(|(_, item)| item), meter)
}
