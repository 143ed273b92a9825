//! Jinja's filters.

use std::cmp::Ordering;

use super::ast::{Arguments, Expression, Literal};
use super::attributes::item;
use super::failure::{Failure, Outcome};
use super::given::Given;
use super::limits::check_size;
use super::methods::{replace, split_lines, trim};
use super::operators::order;
use super::predicates::Predicate;
use super::print::{to_text, write_str};
use super::text::{capitalize, is_space, lower, upper};
use super::tojson::Style;
use super::value::{Dict, Items, List, Text, Value, length};

/// How much a line may be indented, in bytes.
const MAX_INDENT: usize = 1000;

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
    pub(super) fn apply<'r>(self, value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
        match self {
            Self::ToJson => to_json(value, given),
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
                Ok(marked(value, trim(&to_text(value)?, chars.as_deref(), true, true)))
            }
            Self::Length => match length(value) {
                Some(length) => Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX))),
                None => Err(Failure::error(format!("{} has no length", value.type_name()))),
            },
            Self::String => Ok(marked(value, to_text(value)?)),
            Self::Safe => Ok(Value::Safe(to_text(value)?)),
            Self::Items => match value {
                Value::Undefined => Ok(Value::generator(Vec::new())),
                Value::Dict(_) => Ok(Value::generator(entries(value)?)),
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
            Self::Join => join(value, given),
            Self::List => Ok(Value::list(items(value)?.collect())),
            Self::Upper => Ok(marked(value, upper(&to_text(value)?)?.into())),
            Self::Lower => Ok(marked(value, lower(&to_text(value)?)?.into())),
            Self::Capitalize => Ok(marked(value, capitalize(&to_text(value)?)?.into())),
            Self::Title => title(&to_text(value)?).map(Value::string),
            Self::Replace => replaced(value, given),
            Self::DictSort => dict_sort(value),
            Self::Map => map(value, given),
            Self::Select | Self::Reject | Self::SelectAttribute | Self::RejectAttribute => {
                select(self, value, given.positional)
            }
            Self::First => Ok(iterate(value)?.next().unwrap_or(Value::Undefined)),
            Self::Last => match value {
                Value::Generator(_) => Err(Failure::error("`last` needs a list, not a generator")),
                other => Ok(iterate(other)?.iter().last().unwrap_or(Value::Undefined)),
            },
            Self::Reverse => match value {
                Value::String(text) => Ok(Value::string(text.chars().rev().collect::<String>())),
                Value::List(_)
                | Value::Tuple(_)
                | Value::Dict(_)
                | Value::Range(_)
                | Value::View(..) => {
                    let mut reversed: Vec<_> = items(value)?.collect();
                    reversed.reverse();
                    Ok(Value::generator(reversed))
                }
                other => {
                    Err(Failure::unsupported(format_args!("`reverse` of {}", other.type_name())))
                }
            },
            Self::Sort => sort(value),
            Self::Int => int(value),
            Self::Indent => indent(value, given),
        }
    }
}

/// A text that is marked safe if the value that it comes from is.
fn marked<'r>(value: &Value<'r>, text: Text<'r>) -> Value<'r> {
    if matches!(value, Value::Safe(_)) { Value::Safe(text) } else { Value::String(text) }
}

/// The items of a value, one by one.
fn iterate<'r>(value: &Value<'r>) -> Outcome<Items<'r>> {
    Items::of(value)
        .ok_or_else(|| Failure::error(format!("{} cannot be iterated", value.type_name())))
}

/// The items of a value, all at once.
fn items<'r>(value: &Value<'r>) -> Outcome<std::vec::IntoIter<Value<'r>>> {
    let mut items = Vec::new();
    for item in iterate(value)?.iter() {
        items.push(item);
        check_size(items.len() * size_of::<Value<'_>>())?;
    }
    Ok(items.into_iter())
}

fn entries<'r>(value: &Value<'r>) -> Outcome<Vec<Value<'r>>> {
    match value {
        Value::Dict(dict) => Ok(pairs(dict).collect()),
        other => Err(Failure::error(format!("a dict is needed, not {}", other.type_name()))),
    }
}

fn pairs<'a, 'r>(dict: &'a Dict<'r>) -> impl Iterator<Item = Value<'r>> + 'a {
    dict.iter().map(|(key, value)| Value::tuple(vec![Value::String(key), value]))
}

fn to_json<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let [ensure_ascii, indent, separators, sort_keys] =
        given.bind(["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::String(indent)) if indent.len() <= MAX_INDENT => Some(indent.to_string()),
        Some(other) => match other.as_int().map(|width| usize::try_from(width).unwrap_or(0)) {
            Some(width) if width <= MAX_INDENT => Some(" ".repeat(width)),
            _ => return Err(Failure::unsupported("such an indent of `tojson`")),
        },
    };
    let separator = |list: &[Value<'r>], at: usize| match list.get(at) {
        Some(Value::String(text)) if list.len() == 2 => Ok(text.to_string()),
        _ => Err(Failure::unsupported("such separators of `tojson`")),
    };
    let (item_separator, key_separator) = match separators {
        None | Some(Value::None) => {
            ((if indent.is_some() { "," } else { ", " }).to_owned(), ": ".to_owned())
        }
        Some(Value::Tuple(list) | Value::List(List::Computed(list))) => {
            (separator(&list, 0)?, separator(&list, 1)?)
        }
        Some(_) => return Err(Failure::unsupported("such separators of `tojson`")),
    };
    let is_true = |value: Option<Value<'r>>| value.is_some_and(|value| value.is_true());
    let style = Style {
        ensure_ascii: is_true(ensure_ascii),
        indent,
        item_separator,
        key_separator,
        sort_keys: is_true(sort_keys),
    };
    style.dumps(value).map(Value::string)
}

fn join<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
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

fn replaced<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let [old, new, count] = given.bind(["old", "new", "count"])?;
    let (Some(old), Some(new)) = (old, new) else {
        return Err(Failure::error("`replace` needs two arguments"));
    };
    if [value, &old, &new].iter().any(|value| matches!(value, Value::Safe(_))) {
        return Err(Failure::unsupported("`replace` after the filter `safe`"));
    }
    let count = match count {
        None | Some(Value::None) => -1,
        Some(count) => {
            count.as_int().ok_or_else(|| Failure::error("`replace` counts in integers"))?
        }
    };
    replace(&to_text(value)?, &to_text(&old)?, &to_text(&new)?, count).map(Value::string)
}

/// The first letter of each word in upper case, the others in lower case; words begin where Jinja says they do.
fn title(text: &str) -> Outcome<String> {
    if text.contains('Σ') {
        return Err(Failure::unsupported("the title case of `Σ`"));
    }
    let begins = |c: char| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    let mut made = String::with_capacity(text.len());
    for word in text.split_inclusive(begins) {
        let rest = word.chars().next().map_or(0, char::len_utf8);
        made.push_str(&upper(&word[..rest])?);
        made.push_str(&lower(&word[rest..])?);
    }
    Ok(made)
}

fn dict_sort<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
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

fn map<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
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

fn select<'r>(filter: Filter, value: &Value<'r>, given: Vec<Value<'r>>) -> Outcome<Value<'r>> {
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

fn sort<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
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

fn int<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
    match value {
        Value::Int(_) | Value::Big(_) => Ok(value.clone()),
        Value::Bool(value) => Ok(Value::Int(i64::from(*value))),
        Value::None | Value::List(_) | Value::Dict(_) | Value::Tuple(_) => Ok(Value::Int(0)),
        Value::Float(number) if number.abs() < 9e15 => {
            #[expect(clippy::cast_possible_truncation, reason = "below 2^53, as the guard says")]
            let whole = number.trunc() as i64;
            Ok(Value::Int(whole))
        }
        Value::String(text) => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            match text.parse() {
                Ok(number) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Ok(Value::Int(number))
                }
                _ => Err(Failure::unsupported("`int` of such a string")),
            }
        }
        Value::Undefined => Err(Failure::error("`int` of an undefined value")),
        other => Err(Failure::unsupported(format_args!("`int` of such a {}", other.type_name()))),
    }
}

fn indent<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let [width, first, blank] = given.bind(["width", "first", "blank"])?;
    let Value::String(text) = value else {
        return Err(Failure::unsupported(format_args!("`indent` of {}", value.type_name())));
    };
    let indention = match width {
        None => "    ".to_owned(),
        Some(Value::String(indention)) if indention.len() <= MAX_INDENT => indention.to_string(),
        Some(width) => match width.as_int().map(|width| usize::try_from(width).unwrap_or(0)) {
            Some(width) if width <= MAX_INDENT => " ".repeat(width),
            _ => return Err(Failure::unsupported("such a width of `indent`")),
        },
    };
    let blank = blank.is_some_and(|blank| blank.is_true());
    let first = first.is_some_and(|first| first.is_true());
    let mut out = String::new();
    for (at, line) in split_lines(&Text::from(format!("{}\n", &**text)))?.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&indention);
        }
        out.push_str(line);
        check_size(out.len())?;
    }
    Ok(Value::string(out))
}
