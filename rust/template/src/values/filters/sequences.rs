//! Filters of lists and dicts.

use std::cmp::Ordering;

use indexmap::IndexSet;

use crate::failure::{Failure, RenderResult};
use crate::language::filters::Filter;
use crate::language::operators::BinaryOperator;
use crate::language::predicates::Predicate;
use crate::render_limits::Meter;
use crate::text::lower;
use crate::values::arguments::CallArguments;
use crate::values::attributes::item;
use crate::values::key::Key;
use crate::values::make::{ITEM_BYTES, ItemsBuilder};
use crate::values::operators::arithmetic::binary;
use crate::values::operators::comparing::{equal, order};
use crate::values::operators::sort::sort;
use crate::values::printing::print::{to_text, write_str};
use crate::values::texts::text::Text;
use crate::values::value::{Items, List, Value};

/// The items of a value, one by one.
pub(crate) fn iterate<'r>(value: &Value<'r>) -> RenderResult<Items<'r>> {
    Items::of(value)
        .ok_or_else(|| Failure::error(format!("{} cannot be iterated", value.type_name())))
}

/// The items of a value, all at once.
pub(crate) fn items<'r, 'm>(
    value: &Value<'r>,
    meter: &'m Meter<'_>,
) -> RenderResult<ItemsBuilder<'r, 'm>> {
    let mut items = ItemsBuilder::new(meter);
    iterate(value)?.each(meter, |item| items.push(item))?;
    Ok(items)
}

/// The last item of a value.
pub(crate) fn last<'r>(value: &Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
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
) -> RenderResult<ItemsBuilder<'r, 'm>> {
    let Value::Dict(dict) = value else {
        let reason = format!("a dict is needed, not {}", value.type_name());
        return Err(Failure::error(reason));
    };
    let mut pairs = ItemsBuilder::new(meter);
    for (key, value) in dict.iter() {
        pairs.push(meter.tuple(vec![key.value(), value])?)?;
    }
    Ok(pairs)
}

/// The items as one text, with a separator between them.
pub(crate) fn join<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [separator, attribute] = arguments.bind(["d", "attribute"])?;
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
fn look_up<'r>(
    value: &Value<'r>,
    attribute: &Value<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let path = match attribute {
        Value::String(path) => path,
        Value::Int(_) => return item(value, attribute, meter),
        _ => return Err(Failure::unsupported("an attribute that is no string")),
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

/// The pairs of a dict in the order of their keys or values.
pub(crate) fn dict_sort<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [case_sensitive, by, reverse] = arguments.bind(["case_sensitive", "by", "reverse"])?;
    let Value::Dict(dict) = value else {
        return Err(Failure::error(format!("`dictsort` needs a dict, not {}", value.type_name())));
    };
    let by_value = match by.as_ref().map_or(Some("key"), |by| by.as_text().map(|by| &**by)) {
        Some("key") => false,
        Some("value") => true,
        _ => return Err(Failure::error("`dictsort` sorts by \"key\" or \"value\"")),
    };
    let case = CaseSensitivity::from_option(case_sensitive.as_ref());
    let mut pairs = Vec::new();
    for (key, value) in dict.iter() {
        meter.hold(ITEM_BYTES)?;
        let sorted_by = if by_value { value.clone() } else { key.value() };
        pairs.push((case.of(sorted_by, meter)?, meter.tuple(vec![key.value(), value])?));
    }
    let direction = Direction::from_option(reverse.as_ref());
    let sorted = sort(pairs, |(left, _), (right, _)| {
        meter.items(4)?;
        direction.order(left, right, meter)
    })?;
    into_list(sorted.into_iter().map(|(_, pair)| pair), meter)
}

/// The case sensitivity of a filter. Without it, texts that differ in their case alone are equal.
#[derive(Clone, Copy)]
struct CaseSensitivity {
    counts: bool,
}

impl CaseSensitivity {
    fn from_option(case_sensitive: Option<&Value<'_>>) -> Self {
        Self { counts: case_sensitive.is_some_and(Value::is_true) }
    }

    /// The value that is compared in place of `value`.
    fn of<'r>(self, value: Value<'r>, meter: &Meter<'_>) -> RenderResult<Value<'r>> {
        match &value {
            Value::String(text) if !self.counts => meter.string(lower(text, meter)?),
            _ => Ok(value),
        }
    }
}

/// The direction of a sort. Equal items keep their order in both.
#[derive(Clone, Copy)]
struct Direction {
    reverse: bool,
}

impl Direction {
    fn from_option(reverse: Option<&Value<'_>>) -> Self {
        Self { reverse: reverse.is_some_and(Value::is_true) }
    }

    fn order(
        self,
        left: &Value<'_>,
        right: &Value<'_>,
        meter: &Meter<'_>,
    ) -> RenderResult<Ordering> {
        let found = order("<", left, right, meter)?.unwrap_or(Ordering::Equal);
        Ok(if self.reverse { found.reverse() } else { found })
    }
}

/// A list of items whose memory was counted with [`Meter::hold`].
fn into_list<'r>(
    items: impl ExactSizeIterator<Item = Value<'r>>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
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
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let mut mapped = ItemsBuilder::new(meter);
    if !value.is_true() {
        return Ok(mapped.into_generator());
    }
    if let Some((name, rest)) = arguments.positional.split_first() {
        let filter = name.as_text().and_then(|name| Filter::named(name));
        let filter = filter.ok_or_else(|| Failure::unsupported("`map` with such a filter"))?;
        let rest = CallArguments { positional: rest.to_vec(), named: arguments.named };
        iterate(value)?
            .each(meter, |item| mapped.push(filter.apply(&item, rest.clone(), meter)?))?;
    } else {
        let [attribute, default] = arguments.bind(["attribute", "default"])?;
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
    Ok(mapped.into_generator())
}

/// The items for which a test holds, or does not.
pub(crate) fn select<'r>(
    filter: Filter,
    value: &Value<'r>,
    positional: Vec<Value<'r>>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let mut selected = ItemsBuilder::new(meter);
    if !value.is_true() {
        return Ok(selected.into_generator());
    }
    let mut positional = positional.into_iter();
    let attribute = match filter {
        Filter::SelectAttribute | Filter::RejectAttribute => Some(
            positional
                .next()
                .ok_or_else(|| Failure::error("the name of an attribute is missing"))?,
        ),
        _ => None,
    };
    let test = positional.next().map(|name| {
        let known = name.as_text().and_then(|name| Predicate::named(name));
        known.ok_or_else(|| Failure::unsupported("such a test"))
    });
    let test = test.transpose()?;
    let arguments: Vec<_> = positional.collect();
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

/// The items in order, by themselves or by attributes of theirs with commas between them.
pub(crate) fn sorted<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [reverse, case_sensitive, attribute] =
        arguments.bind(["reverse", "case_sensitive", "attribute"])?;
    let case = CaseSensitivity::from_option(case_sensitive.as_ref());
    let attributes = match attribute {
        Some(Value::String(names)) => {
            let names = names.split(',').map(|name| meter.copy(name).map(Value::String));
            names.collect::<RenderResult<Vec<_>>>()?
        }
        other => vec![other.unwrap_or(Value::None)],
    };
    let mut keyed = Vec::new();
    iterate(value)?.each(meter, |item| {
        meter.hold((attributes.len() + 1) * ITEM_BYTES)?;
        let mut keys = Vec::with_capacity(attributes.len());
        for attribute in &attributes {
            keys.push(case.of(attribute_of(&item, attribute, meter)?, meter)?);
        }
        keyed.push((keys, item));
        Ok(())
    })?;
    let direction = Direction::from_option(reverse.as_ref());
    let sorted = sort(keyed, |(left, _), (right, _)| {
        for (left, right) in left.iter().zip(right) {
            meter.items(4)?;
            if !equal(left, right, meter)? {
                return direction.order(left, right, meter);
            }
        }
        Ok(Ordering::Equal)
    })?;
    meter.release(sorted.len() * attributes.len() * ITEM_BYTES);
    into_list(sorted.into_iter().map(|(_, item)| item), meter)
}

/// An attribute of an item, or the item itself without one.
fn attribute_of<'r>(
    item: &Value<'r>,
    attribute: &Value<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    match attribute {
        Value::None => Ok(item.clone()),
        attribute => look_up(item, attribute, meter),
    }
}

/// The items without duplicates; the first of equal items stays.
pub(crate) fn unique<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [case_sensitive, attribute] = arguments.bind(["case_sensitive", "attribute"])?;
    let (case, attribute) =
        (CaseSensitivity::from_option(case_sensitive.as_ref()), attribute.unwrap_or(Value::None));
    let mut seen = IndexSet::new();
    let mut found = ItemsBuilder::new(meter);
    iterate(value)?.each(meter, |item| {
        let key = case.of(attribute_of(&item, &attribute, meter)?, meter)?;
        meter.bytes(key.as_text().map_or(0, |key| key.len()))?;
        if seen.insert(Key::of(key)?) {
            meter.hold(ITEM_BYTES)?;
            found.push(item)?;
        }
        Ok(())
    })?;
    meter.release(seen.len() * ITEM_BYTES);
    Ok(found.into_generator())
}

/// The smallest or the largest item; the first of several. Nothing of an empty list.
pub(crate) fn extreme<'r>(
    filter: Filter,
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [case_sensitive, attribute] = arguments.bind(["case_sensitive", "attribute"])?;
    let (case, attribute) =
        (CaseSensitivity::from_option(case_sensitive.as_ref()), attribute.unwrap_or(Value::None));
    let (operator, wanted) = match filter {
        Filter::Min => ("<", Ordering::Less),
        _ => (">", Ordering::Greater),
    };
    let mut best: Option<(Value<'r>, Value<'r>)> = None;
    iterate(value)?.each(meter, |item| {
        let key = case.of(attribute_of(&item, &attribute, meter)?, meter)?;
        let better = match &best {
            None => true,
            Some((known, _)) => order(operator, &key, known, meter)? == Some(wanted),
        };
        if better {
            best = Some((key, item));
        }
        Ok(())
    })?;
    Ok(best.map_or(Value::Undefined, |(_, item)| item))
}

/// The sum of the items, or of an attribute of each.
pub(crate) fn sum<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [attribute, start] = arguments.bind(["attribute", "start"])?;
    let attribute = attribute.unwrap_or(Value::None);
    let mut total = start.unwrap_or(Value::Int(0));
    if total.as_text().is_some() {
        return Err(Failure::error("`sum` does not add strings"));
    }
    iterate(value)?.each(meter, |item| {
        let item = attribute_of(&item, &attribute, meter)?;
        // Newer Pythons add floats without the rounding of each step.
        if matches!(item, Value::Float(_)) || matches!(total, Value::Float(_)) {
            return Err(Failure::unsupported("`sum` of floats"));
        }
        total = binary(BinaryOperator::Add, &total, &item, meter)?;
        Ok(())
    })?;
    Ok(total)
}
