//! Methods of strings and dicts, and which of Python's attributes are known not to exist.

use super::failure::{Failure, Outcome};
use super::given::Given;
use super::items::Items;
use super::limits::check_size;
use super::print::write_str;
use super::text::{capitalize, is_space, lower, title, upper};
use super::value::{Text, Value, View};

/// What a part of a text takes in memory while a text is split, in bytes.
const PART: usize = size_of::<(usize, usize)>() + size_of::<Value<'_>>();

/// A method that templates can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// `str.split`
    Split,
    /// `str.rsplit`
    RightSplit,
    /// `str.splitlines`
    SplitLines,
    /// `str.strip`
    Strip,
    /// `str.lstrip`
    LeftStrip,
    /// `str.rstrip`
    RightStrip,
    /// `str.startswith`
    StartsWith,
    /// `str.endswith`
    EndsWith,
    /// `str.removeprefix`
    RemovePrefix,
    /// `str.removesuffix`
    RemoveSuffix,
    /// `str.upper`
    Upper,
    /// `str.lower`
    Lower,
    /// `str.title`
    Title,
    /// `str.capitalize`
    Capitalize,
    /// `str.replace`
    Replace,
    /// `str.find`
    Find,
    /// `str.count`
    Count,
    /// `str.join`
    Join,
    /// `dict.get`
    Get,
    /// `dict.keys`, `dict.values`, `dict.items`
    View(View),
}

/// What Python finds under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    /// Nothing.
    Missing,
    /// A method that is known here.
    Method(Method),
    /// Something that is not known here.
    Unknown,
    /// Something or nothing: the attributes of this type are not known here.
    Unsure,
    /// A method that changes its object, which the sandbox hides.
    Forbidden,
}

const STRING_METHODS: [(&str, Method); 18] = [
    ("split", Method::Split),
    ("rsplit", Method::RightSplit),
    ("splitlines", Method::SplitLines),
    ("strip", Method::Strip),
    ("lstrip", Method::LeftStrip),
    ("rstrip", Method::RightStrip),
    ("startswith", Method::StartsWith),
    ("endswith", Method::EndsWith),
    ("removeprefix", Method::RemovePrefix),
    ("removesuffix", Method::RemoveSuffix),
    ("upper", Method::Upper),
    ("lower", Method::Lower),
    ("title", Method::Title),
    ("capitalize", Method::Capitalize),
    ("replace", Method::Replace),
    ("find", Method::Find),
    ("count", Method::Count),
    ("join", Method::Join),
];

const DICT_METHODS: [(&str, Method); 4] = [
    ("get", Method::Get),
    ("keys", Method::View(View::Keys)),
    ("values", Method::View(View::Values)),
    ("items", Method::View(View::Items)),
];

/// Attributes of strings that are not known here, in any Python from 3.10 to 3.14.
const OTHER_STRING: [&str; 29] = [
    "casefold",
    "center",
    "encode",
    "expandtabs",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "ljust",
    "maketrans",
    "partition",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "swapcase",
    "translate",
    "zfill",
];

const OTHER_DICT: [&str; 2] = ["copy", "fromkeys"];
const FORBIDDEN_DICT: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const OTHER_SEQUENCE: [&str; 3] = ["copy", "count", "index"];
const FORBIDDEN_LIST: [&str; 8] =
    ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];
const OTHER_NUMBER: [&str; 13] = [
    "as_integer_ratio",
    "bit_count",
    "bit_length",
    "conjugate",
    "denominator",
    "from_bytes",
    "from_number",
    "fromhex",
    "hex",
    "imag",
    "is_integer",
    "numerator",
    "real",
];

/// Looks up a name in the type of a value.
pub(super) fn find(value: &Value<'_>, name: &str) -> Attribute {
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

/// Whether a call of this method is refused when a template is compiled, whatever it is called on.
pub(super) fn is_refused(name: &str) -> bool {
    OTHER_STRING.contains(&name)
        || OTHER_DICT.contains(&name)
        || FORBIDDEN_DICT.contains(&name)
        || FORBIDDEN_LIST.contains(&name)
}

/// Calls a method of `receiver`.
pub(super) fn call<'r>(
    method: Method,
    receiver: &Value<'r>,
    given: Given<'r>,
) -> Outcome<Value<'r>> {
    match receiver {
        Value::Dict(dict) => {
            if let Method::View(view) = method {
                let [] = given.positional()?;
                Ok(Value::View(view, dict.clone()))
            } else {
                let [key, default] = given.positional()?;
                match key.ok_or_else(|| Failure::error("`get` needs a key"))? {
                    Value::String(key) | Value::Safe(key) => {
                        Ok(dict.get(&key).unwrap_or_else(|| default.unwrap_or(Value::None)))
                    }
                    key @ (Value::List(_) | Value::Dict(_)) => {
                        Err(Failure::error(format!("a {} is no key", key.type_name())))
                    }
                    Value::Tuple(_) => Err(Failure::unsupported("a tuple as a key")),
                    _ => Ok(default.unwrap_or(Value::None)),
                }
            }
        }
        Value::String(text) => call_string(method, text, given),
        other => Err(Failure::unsupported(format_args!("this method of {}", other.type_name()))),
    }
}

fn call_string<'r>(method: Method, text: &Text<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let none = |given: Given<'r>| given.positional().map(|[]: [_; 0]| ());
    match method {
        Method::Split => split(text, given),
        Method::RightSplit => right_split(text, given),
        Method::SplitLines => {
            none(given)?;
            Ok(Value::list(split_lines(text)?.into_iter().map(Value::String).collect()))
        }
        Method::Strip => strip(text, given.positional()?, true, true),
        Method::LeftStrip => strip(text, given.positional()?, true, false),
        Method::RightStrip => strip(text, given.positional()?, false, true),
        Method::StartsWith => affix(given.positional()?, |affix| text.starts_with(affix)),
        Method::EndsWith => affix(given.positional()?, |affix| text.ends_with(affix)),
        Method::RemovePrefix => {
            let prefix = string(given.positional::<1>()?)?;
            Ok(Value::String(text.cut(|text| text.strip_prefix(&*prefix).unwrap_or(text))))
        }
        Method::RemoveSuffix => {
            let suffix = string(given.positional::<1>()?)?;
            Ok(Value::String(text.cut(|text| text.strip_suffix(&*suffix).unwrap_or(text))))
        }
        Method::Upper => none(given).and_then(|()| upper(text)).map(Value::string),
        Method::Lower => none(given).and_then(|()| lower(text)).map(Value::string),
        Method::Title => none(given).and_then(|()| title(text)).map(Value::string),
        Method::Capitalize => none(given).and_then(|()| capitalize(text)).map(Value::string),
        Method::Replace => {
            let [old, new, count] = given.positional()?;
            let (old, new) = (string([old])?, string([new])?);
            let count = match count {
                None => -1,
                Some(count) => {
                    count.as_int().ok_or_else(|| Failure::error("`replace` counts in integers"))?
                }
            };
            replace(text, &old, &new, count).map(Value::string)
        }
        Method::Find => {
            let part = string(given.positional::<1>()?)?;
            let found = text.find(&*part).map(|at| text[..at].chars().count());
            Ok(Value::Int(found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))))
        }
        Method::Count => {
            let part = string(given.positional::<1>()?)?;
            Ok(Value::Int(i64::try_from(text.matches(&*part).count()).unwrap_or(i64::MAX)))
        }
        Method::Join => {
            let [items] = given.positional()?;
            let items = items
                .as_ref()
                .and_then(Items::of)
                .ok_or_else(|| Failure::error("`join` needs a list"))?;
            let mut out = String::new();
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(text);
                }
                check_size(out.len())?;
                match item {
                    Value::String(_) => write_str(&mut out, &item)?,
                    Value::Safe(_) => {
                        return Err(Failure::unsupported("`join` after the filter `safe`"));
                    }
                    other => {
                        return Err(Failure::error(format!(
                            "`join` cannot join a {}",
                            other.type_name()
                        )));
                    }
                }
            }
            Ok(Value::string(out))
        }
        Method::Get | Method::View(_) => Err(Failure::error("a string has no such method")),
    }
}

/// The one argument, which has to be a string.
fn string([value]: [Option<Value<'_>>; 1]) -> Outcome<Text<'_>> {
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

fn affix([affix]: [Option<Value<'_>>; 1], fits: impl Fn(&str) -> bool) -> Outcome<Value<'_>> {
    match affix {
        Some(Value::Tuple(affixes)) => {
            for affix in affixes.iter() {
                if fits(&string([Some(affix.clone())])?) {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        other => Ok(Value::Bool(fits(&string([other])?))),
    }
}

fn strip<'r>(
    text: &Text<'r>,
    [chars]: [Option<Value<'r>>; 1],
    left: bool,
    right: bool,
) -> Outcome<Value<'r>> {
    let chars = match chars {
        None | Some(Value::None) => None,
        other => Some(string([other])?),
    };
    Ok(Value::String(trim(text, chars.as_deref(), left, right)))
}

/// What is left of `text` without the characters `chars`, or without whitespace, at its ends.
pub(super) fn trim<'r>(text: &Text<'r>, chars: Option<&str>, left: bool, right: bool) -> Text<'r> {
    text.cut(|text| trimmed(text, chars, left, right))
}

/// The same for a part of a text.
pub(super) fn trimmed<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let cut = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(cut) } else { text };
    if right { text.trim_end_matches(cut) } else { text }
}

/// `str.replace`; a negative count is no limit.
pub(super) fn replace(text: &str, old: &str, new: &str, count: i64) -> Outcome<String> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if new.len() > old.len() {
        let places = text.matches(old).take(count).count();
        check_size(text.len().saturating_add(places.saturating_mul(new.len())))?;
    }
    Ok(text.replacen(old, new, count))
}

/// The separator, if there is one, and how often to split at most.
fn split_arguments(given: Given<'_>) -> Outcome<(Option<Text<'_>>, usize)> {
    let [separator, limit] = given.bind(["sep", "maxsplit"])?;
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
    Ok((separator, usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn parts<'r>(text: &Text<'r>, ranges: impl IntoIterator<Item = (usize, usize)>) -> Value<'r> {
    let parts =
        ranges.into_iter().map(|(from, to)| Value::String(text.cut(|text| &text[from..to])));
    Value::list(parts.collect())
}

fn split<'r>(text: &Text<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let (separator, limit) = split_arguments(given)?;
    let mut ranges = Vec::new();
    if let Some(separator) = separator {
        let mut from = 0;
        for (at, _) in text.match_indices(&*separator).take(limit) {
            ranges.push((from, at));
            check_size(ranges.len() * PART)?;
            from = at + separator.len();
        }
        ranges.push((from, text.len()));
    } else {
        let mut from = text.len() - text.trim_start_matches(is_space).len();
        while from < text.len() {
            let rest = &text[from..];
            let length = if ranges.len() == limit {
                rest.trim_end_matches(is_space).len()
            } else {
                rest.find(is_space).unwrap_or(rest.len())
            };
            ranges.push((from, from + length));
            check_size(ranges.len() * PART)?;
            if ranges.len() > limit {
                break;
            }
            from += length;
            from += text[from..].len() - text[from..].trim_start_matches(is_space).len();
        }
    }
    Ok(parts(text, ranges))
}

fn right_split<'r>(text: &Text<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
    let (separator, limit) = split_arguments(given)?;
    let Some(separator) = separator else {
        return Err(Failure::unsupported("`rsplit` without a separator"));
    };
    let mut ranges = Vec::new();
    let mut to = text.len();
    while ranges.len() < limit {
        let Some(at) = text[..to].rfind(&*separator) else { break };
        ranges.push((at + separator.len(), to));
        check_size(ranges.len() * PART)?;
        to = at;
    }
    ranges.push((0, to));
    ranges.reverse();
    Ok(parts(text, ranges))
}

/// `str.splitlines`, without the line ends.
pub(super) fn split_lines<'r>(text: &Text<'r>) -> Outcome<Vec<Text<'r>>> {
    let ends =
        |c: char| matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let length = text[from..].find(ends).unwrap_or(text.len() - from);
        let to = from + length;
        lines.push(text.cut(|text| &text[from..to]));
        check_size(lines.len() * PART)?;
        let end = &text[to..];
        from = to
            + if end.starts_with("\r\n") {
                2
            } else {
                end.chars().next().map_or(0, char::len_utf8)
            };
    }
    Ok(lines)
}
