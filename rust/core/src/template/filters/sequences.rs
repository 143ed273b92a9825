//! Filters of lists and dicts, and what they look up in the items.

use std::cmp::Ordering;

use super::Filter;
use crate::template::attributes::item;
use crate::template::failure::{Failure, Outcome};
use crate::template::given::Given;
use crate::template::items::Items;
use crate::template::limits::check_size;
use crate::template::operators::order;
use crate::template::predicates::Predicate;
use crate::template::print::{to_text, write_str};
use crate::template::text::lower;
use crate::template::value::{Dict, Text, Value};

/// The items of a value, one by one.
pub(super) fn iterate<'r>(value: &Value<'r>) -> Outcome<Items<'r>> {
    Items::of(value)
        .ok_or_else(|| Failure::error(format!("{} cannot be iterated", value.type_name())))
}

/// The items of a value, all at once.
pub(super) fn items<'r>(value: &Value<'r>) -> Outcome<std::vec::IntoIter<Value<'r>>> {
    let mut items = Vec::new();
    for item in iterate(value)?.iter() {
        items.push(item);
        check_size(items.len() * size_of::<Value<'_>>())?;
    }
    Ok(items.into_iter())
}

/// A dict as pairs of keys and values.
pub(super) fn entries<'r>(value: &Value<'r>) -> Outcome<Vec<Value<'r>>> {
    match value {
        Value::Dict(dict) => Ok(pairs(dict).collect()),
        other => Err(Failure::error(format!("a dict is needed, not {}", other.type_name()))),
    }
}

fn pairs<'a, 'r>(dict: &'a Dict<'r>) -> impl Iterator<Item = Value<'r>> + 'a {
    dict.iter().map(|(key, value)| Value::tuple(vec![Value::String(key), value]))
}

/// The items as one text, with a separator between them.
pub(super) fn join<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let [separator, attribute] = given.bind(["d", "attribute"])?;
    let separator = separator.map_or(Ok(Text::Borrowed("")), |separator| to_text(&separator))?;
    let mut out = String::new();
    for (at, item) in items(value)?.enumerate() {
        if at > 0 {
            out.push_str(&separator);
        }
        check_size(out.len())?;
        match &attribute {
            None | Some(Value::None) => write_str(&mut out, &item)?,
            Some(attribute) => write_str(&mut out, &look_up(&item, attribute)?)?,
        }
    }
    Ok(Value::string(out))
}

/// What `attribute` of filters means: keys and indices with dots between them.
fn look_up<'r>(value: &Value<'r>, attribute: &Value<'r>) -> Outcome<Value<'r>> {
    let Value::String(path) = attribute else {
        return Err(Failure::unsupported("an attribute that is no string"));
    };
    path.split('.').try_fold(value.clone(), |value, part| {
        if part.starts_with('_') {
            return Err(Failure::unsupported("an attribute that begins with `_`"));
        }
        match part.parse::<i64>() {
            Ok(index) if part.bytes().all(|byte| byte.is_ascii_digit()) => {
                item(&value, &Value::Int(index))
            }
            _ => item(&value, &Value::String(Text::from(part.to_owned()))),
        }
    })
}

/// The pairs of a dict in the order of their keys, whatever their case.
pub(super) fn dict_sort<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
    let Value::Dict(dict) = value else {
        return Err(Failure::error(format!("`dictsort` needs a dict, not {}", value.type_name())));
    };
    let mut entries = Vec::with_capacity(dict.len());
    for (entry, (key, _)) in pairs(dict).zip(dict.iter()) {
        entries.push((lower(&key)?, entry));
    }
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(Value::list(entries.into_iter().map(|(_, entry)| entry).collect()))
}

/// What a filter makes of each item, or an attribute of each.
pub(super) fn map<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    if !value.is_true() {
        return Ok(Value::generator(Vec::new()));
    }
    let mapped: Outcome<Vec<_>> = match given.positional.first() {
        Some(name) if given.named.is_empty() => {
            let filter = name.as_text().and_then(|name| Filter::named(name));
            let filter = filter.ok_or_else(|| Failure::unsupported("`map` with such a filter"))?;
            items(value)?.map(|item| filter.apply(&item, Given::default())).collect()
        }
        Some(_) => return Err(Failure::unsupported("`map` with such arguments")),
        None => {
            let [attribute, default] = given.bind(["attribute", "default"])?;
            let attribute =
                attribute.ok_or_else(|| Failure::error("`map` needs a filter or an attribute"))?;
            let default = default.unwrap_or(Value::None);
            items(value)?
                .map(|item| match look_up(&item, &attribute)? {
                    Value::Undefined if !matches!(default, Value::None) => Ok(default.clone()),
                    found => Ok(found),
                })
                .collect()
        }
    };
    mapped.map(Value::generator)
}

/// The items for which a test holds, or does not.
pub(super) fn select<'r>(
    filter: Filter,
    value: &Value<'r>,
    given: Vec<Value<'r>>,
) -> Outcome<Value<'r>> {
    if !value.is_true() {
        return Ok(Value::generator(Vec::new()));
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
    let mut selected = Vec::new();
    for item in items(value)? {
        let tested = match &attribute {
            Some(attribute) => look_up(&item, attribute)?,
            None => item.clone(),
        };
        let holds = match test {
            Some(test) => test.holds(&tested, &arguments)?,
            None => tested.is_true(),
        };
        if holds == wanted {
            selected.push(item);
        }
    }
    Ok(Value::generator(selected))
}

/// The items in order, whatever their case.
pub(super) fn sort<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
    let mut keyed = Vec::new();
    for item in items(value)? {
        let key = match &item {
            Value::String(text) => Value::string(lower(text)?),
            Value::Int(_) | Value::Bool(_) => item.clone(),
            other => {
                return Err(Failure::unsupported(format_args!("sorting {}", other.type_name())));
            }
        };
        keyed.push((key, item));
    }
    let mut failure = None;
    keyed.sort_by(|(left, _), (right, _)| match order("<", left, right) {
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(error) => {
            failure.get_or_insert(error);
            Ordering::Equal
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect())),
    }
}
