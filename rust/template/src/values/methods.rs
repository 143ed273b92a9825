//! Calls methods of strings and dicts, and looks up which attributes a value has.

use std::ops::Range;

use crate::failure::{Failure, RenderResult};
use crate::language::methods::{
    CharacterClass, DICT_METHODS, FORBIDDEN_DICT, FORBIDDEN_LIST, Method, OTHER_DICT, OTHER_NUMBER,
    OTHER_SEQUENCE, OTHER_STRING, STRING_METHODS,
};
use crate::render_limits::Meter;
use crate::text::{capitalize, is_space, lower, title, upper};
use crate::values::arguments::CallArguments;
use crate::values::key::Key;
use crate::values::make::ItemsBuilder;
use crate::values::printing::formatting::fields;
use crate::values::printing::print::write_str;
use crate::values::texts::cuts::{
    SplitArguments, TrimmedEnds, for_each_line, replace, right_split, split, trim,
};
use crate::values::texts::search::Matches;
use crate::values::texts::text::Text;
use crate::values::value::{Items, Value};

/// Most characters by which a text is filled.
const MAX_FILL: usize = 1000;

/// The result of looking up a name in a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// No attribute.
    Missing,
    /// A supported method.
    Method(Method),
    /// An attribute that is not supported.
    Unknown,
    /// Unknown, because the attributes of this type are not listed.
    Unsure,
    /// A method that changes its object, which the sandbox hides.
    Forbidden,
}

/// Looks up a name in the type of a value.
pub(crate) fn find(value: &Value<'_>, name: &str) -> Attribute {
    let known = |methods: &[(&str, Method)]| {
        methods
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, method)| Attribute::Method(*method))
    };
    let (methods, forbidden, other): (&[(&str, Method)], &[&str], &[&str]) = match value {
        Value::String(_) => (&STRING_METHODS, &[], &OTHER_STRING),
        Value::Dict(_) => (&DICT_METHODS, &FORBIDDEN_DICT, &OTHER_DICT),
        Value::List(_) => (&[], &FORBIDDEN_LIST, &OTHER_SEQUENCE),
        Value::Tuple(_) => (&[], &[], &OTHER_SEQUENCE[1..]),
        Value::None | Value::Undefined | Value::Namespace(_) => (&[], &[], &[]),
        Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => {
            return if OTHER_NUMBER.contains(&name) || name == "to_bytes" {
                Attribute::Unknown
            } else {
                Attribute::Missing
            };
        }
        _ => return Attribute::Unsure,
    };
    if let Some(found) = known(methods) {
        found
    } else if forbidden.contains(&name) {
        Attribute::Forbidden
    } else if other.contains(&name) {
        Attribute::Unknown
    } else {
        Attribute::Missing
    }
}

/// Calls a method of `receiver`.
pub(crate) fn call<'r>(
    method: Method,
    receiver: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    match receiver {
        Value::Dict(dict) => {
            if let Method::View(view) = method {
                let [] = arguments.positional()?;
                Ok(Value::View(view, dict.clone()))
            } else {
                let [key, default] = arguments.positional()?;
                match key.ok_or_else(|| Failure::error("`get` needs a key"))? {
                    Value::String(key) | Value::Safe(key) => {
                        meter.bytes(key.len())?;
                        Ok(dict.get(&key).unwrap_or_else(|| default.unwrap_or(Value::None)))
                    }
                    key @ (Value::List(_) | Value::Dict(_)) => {
                        Err(Failure::error(format!("a {} is no key", key.type_name())))
                    }
                    Value::Tuple(_) => Err(Failure::unsupported("a tuple as a key")),
                    key => {
                        let found = Key::sought(&key)?.and_then(|key| dict.find(&key));
                        Ok(found.unwrap_or_else(|| default.unwrap_or(Value::None)))
                    }
                }
            }
        }
        Value::String(text) => call_string(method, text, arguments, meter),
        other => Err(Failure::unsupported(format_args!("this method of {}", other.type_name()))),
    }
}

fn call_string<'r>(
    method: Method,
    text: &Text<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let none = |arguments: CallArguments<'r>| arguments.positional().map(|[]: [_; 0]| ());
    let to_value = |text: RenderResult<String>| text.and_then(|text| meter.string(text));
    match method {
        Method::Split => split(text, split_arguments(arguments)?, meter),
        Method::RightSplit => right_split(text, split_arguments(arguments)?, meter),
        Method::SplitLines => {
            none(arguments)?;
            let mut lines = ItemsBuilder::new(meter);
            for_each_line(text, meter, |from, to| {
                lines.push(Value::String(text.cut(meter, |text| &text[from..to])?))
            })?;
            Ok(lines.into_list())
        }
        Method::Strip => strip(text, arguments.positional()?, TrimmedEnds::BOTH, meter),
        Method::LeftStrip => strip(text, arguments.positional()?, TrimmedEnds::LEFT, meter),
        Method::RightStrip => strip(text, arguments.positional()?, TrimmedEnds::RIGHT, meter),
        Method::StartsWith => affix(arguments.positional()?, meter, |part| text.starts_with(part)),
        Method::EndsWith => affix(arguments.positional()?, meter, |part| text.ends_with(part)),
        Method::RemovePrefix => {
            let prefix = string(arguments.positional::<1>()?)?;
            meter.bytes(prefix.len())?;
            text.cut(meter, |text| text.strip_prefix(&*prefix).unwrap_or(text)).map(Value::String)
        }
        Method::RemoveSuffix => {
            let suffix = string(arguments.positional::<1>()?)?;
            meter.bytes(suffix.len())?;
            text.cut(meter, |text| text.strip_suffix(&*suffix).unwrap_or(text)).map(Value::String)
        }
        Method::Upper => to_value(none(arguments).and_then(|()| upper(text, meter))),
        Method::Lower => to_value(none(arguments).and_then(|()| lower(text, meter))),
        Method::Title => to_value(none(arguments).and_then(|()| title(text, meter))),
        Method::Capitalize => to_value(none(arguments).and_then(|()| capitalize(text, meter))),
        Method::Replace => {
            let [old, new, count] = arguments.positional()?;
            let (old, new) = (string([old])?, string([new])?);
            let count = match count {
                None => -1,
                Some(count) => {
                    count.as_int().ok_or_else(|| Failure::error("`replace` counts in integers"))?
                }
            };
            to_value(replace(text, &old, &new, count, meter))
        }
        Method::Find => {
            let part = string(arguments.positional::<1>()?)?;
            let found =
                if part.is_empty() { Some(0) } else { Matches::new(text, &part, meter)?.next()? };
            let found = found.map(|at| text[..at].chars().count());
            Ok(Value::Int(found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))))
        }
        Method::Count => {
            let part = string(arguments.positional::<1>()?)?;
            let mut count = 0;
            if part.is_empty() {
                meter.bytes(text.len())?;
                count = text.chars().count() + 1;
            } else {
                let mut places = Matches::new(text, &part, meter)?;
                while places.next()?.is_some() {
                    count += 1;
                }
            }
            Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
        }
        Method::Join => {
            let [items] = arguments.positional()?;
            let items = items
                .as_ref()
                .and_then(Items::of)
                .ok_or_else(|| Failure::error("`join` needs a list"))?;
            let mut out = String::new();
            let mut first = true;
            items.each(meter, |item| {
                if !std::mem::take(&mut first) {
                    meter.write(&mut out, text)?;
                }
                match item {
                    Value::String(_) => write_str(&mut out, &item, meter),
                    Value::Safe(_) => Err(Failure::unsupported("`join` after the filter `safe`")),
                    other => {
                        Err(Failure::error(format!("`join` cannot join a {}", other.type_name())))
                    }
                }
            })?;
            meter.string(out)
        }
        Method::Format => to_value(fields(text, &arguments, meter)),
        Method::RightFind | Method::Index => find_part(method, text, arguments, meter),
        Method::ZeroFill | Method::LeftJustify | Method::RightJustify => {
            to_value(fill(method, text, arguments, meter))
        }
        Method::Partition | Method::RightPartition => partition(method, text, arguments, meter),
        Method::Is(class) => {
            none(arguments)?;
            meter.bytes(text.len())?;
            class.holds(text).map(Value::Bool)
        }
        Method::Get | Method::View(_) => Err(Failure::error("a string has no such method")),
    }
}

/// The number of characters in front of the last part of a text, or of the first.
fn find_part<'r>(
    method: Method,
    text: &str,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let part = string(arguments.positional::<1>()?)?;
    meter.characters(text.len())?;
    meter.characters(part.len())?;
    let found = if method == Method::Index { text.find(&*part) } else { text.rfind(&*part) };
    match found.map(|at| i64::try_from(text[..at].chars().count()).unwrap_or(i64::MAX)) {
        Some(at) => Ok(Value::Int(at)),
        None if method == Method::Index => Err(Failure::error("the part is not found")),
        None => Ok(Value::Int(-1)),
    }
}

/// A text that is filled up to a width.
fn fill(
    method: Method,
    text: &str,
    arguments: CallArguments<'_>,
    meter: &Meter<'_>,
) -> RenderResult<String> {
    if method == Method::ZeroFill {
        let zeros = "0".repeat(missing(text, arguments.positional::<1>()?, meter)?);
        let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
        return Ok(format!("{sign}{zeros}{digits}"));
    }
    let [width, fill] = arguments.positional()?;
    let fill = fill.map_or(Ok(Text::Borrowed(" ")), |fill| string([Some(fill)]))?;
    if fill.chars().count() != 1 {
        return Err(Failure::error("a text is filled with one character"));
    }
    let fill = fill.repeat(missing(text, [width], meter)?);
    meter.hold(text.len() + fill.len())?;
    Ok(if method == Method::LeftJustify {
        format!("{text}{fill}")
    } else {
        format!("{fill}{text}")
    })
}

/// The text in front of a separator, the separator, and the text behind it.
fn partition<'r>(
    method: Method,
    text: &Text<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let separator = string(arguments.positional::<1>()?)?;
    if separator.is_empty() {
        return Err(Failure::error("an empty separator"));
    }
    meter.characters(text.len())?;
    meter.characters(separator.len())?;
    let (length, from_left) = (text.len(), method == Method::Partition);
    let at = if from_left { text.find(&*separator) } else { text.rfind(&*separator) };
    let cuts = match at {
        Some(at) => [0..at, at..at + separator.len(), at + separator.len()..length],
        None if from_left => [0..length, length..length, length..length],
        None => [0..0, 0..0, 0..length],
    };
    let cut = |range: Range<usize>| text.cut(meter, |text| &text[range]).map(Value::String);
    meter.tuple(cuts.map(cut).into_iter().collect::<RenderResult<_>>()?)
}

impl CharacterClass {
    /// True if Python finds all characters of a text in the class.
    fn holds(self, text: &str) -> RenderResult<bool> {
        if !text.is_ascii() {
            return Err(Failure::unsupported("the class of characters outside of ASCII"));
        }
        let all = |is: fn(&u8) -> bool| !text.is_empty() && text.bytes().all(|byte| is(&byte));
        let cased = |wanted: fn(&u8) -> bool, other: fn(&u8) -> bool| {
            text.bytes().any(|byte| wanted(&byte)) && !text.bytes().any(|byte| other(&byte))
        };
        Ok(match self {
            Self::Digits => all(u8::is_ascii_digit),
            Self::Letters => all(u8::is_ascii_alphabetic),
            Self::LettersAndDigits => all(u8::is_ascii_alphanumeric),
            Self::Space => all(|byte| is_space(char::from(*byte))),
            Self::Upper => cased(u8::is_ascii_uppercase, u8::is_ascii_lowercase),
            Self::Lower => cased(u8::is_ascii_lowercase, u8::is_ascii_uppercase),
        })
    }
}

/// The characters that a text lacks to be as wide as asked for.
fn missing(text: &str, [width]: [Option<Value<'_>>; 1], meter: &Meter<'_>) -> RenderResult<usize> {
    let width = width.as_ref().and_then(Value::as_int);
    let width = width.ok_or_else(|| Failure::error("a width is an integer"))?;
    meter.bytes(text.len())?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    if missing > MAX_FILL {
        return Err(Failure::unsupported("a text that is filled so far"));
    }
    Ok(missing)
}

/// The single argument, which has to be a string.
fn string([value]: [Option<Value<'_>>; 1]) -> RenderResult<Text<'_>> {
    match value {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Safe(_)) => {
            Err(Failure::unsupported("a method of strings after the filter `safe`"))
        }
        Some(other) => {
            Err(Failure::error(format!("a string is needed, not {}", other.type_name())))
        }
        None => Err(Failure::error("an argument is missing")),
    }
}

fn affix<'r>(
    [affix]: [Option<Value<'r>>; 1],
    meter: &Meter<'_>,
    fits: impl Fn(&str) -> bool,
) -> RenderResult<Value<'r>> {
    let fits = |affix: Option<Value<'r>>| {
        let affix = string([affix])?;
        meter.bytes(affix.len())?;
        Ok(fits(&affix))
    };
    match affix {
        Some(Value::Tuple(affixes)) => {
            for affix in affixes.iter() {
                meter.items(1)?;
                if fits(Some(affix.clone()))? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        other => fits(other).map(Value::Bool),
    }
}

fn strip<'r>(
    text: &Text<'r>,
    [chars]: [Option<Value<'r>>; 1],
    ends: TrimmedEnds,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let chars = match chars {
        None | Some(Value::None) => None,
        other => Some(string([other])?),
    };
    trim(text, chars.as_deref(), ends, meter).map(Value::String)
}

fn split_arguments(arguments: CallArguments<'_>) -> RenderResult<SplitArguments<'_>> {
    let [separator, limit] = arguments.bind(["sep", "maxsplit"])?;
    let limit = match limit {
        None => -1,
        Some(limit) => limit.as_int().ok_or_else(|| Failure::error("`maxsplit` is an integer"))?,
    };
    let separator = match separator {
        None | Some(Value::None) => None,
        other => Some(string([other])?),
    };
    if separator.as_deref().is_some_and(str::is_empty) {
        return Err(Failure::error("an empty separator"));
    }
    Ok(SplitArguments { separator, limit: usize::try_from(limit).unwrap_or(usize::MAX) })
}
