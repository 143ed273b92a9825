//! Filters that make one text of another, and numbers of texts.

use crate::template::failure::{Failure, Outcome};
use crate::template::given::Given;
use crate::template::limits::check_size;
use crate::template::methods::{replace, split_lines};
use crate::template::print::to_text;
use crate::template::text::{is_space, lower, upper};
use crate::template::tojson::MAX_INDENT;
use crate::template::value::{Text, Value};

/// A text with parts replaced by others.
pub(super) fn replaced<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
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
pub(super) fn title(text: &str) -> Outcome<String> {
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

/// A value as an integer.
pub(super) fn int<'r>(value: &Value<'r>) -> Outcome<Value<'r>> {
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

/// A text whose lines are indented.
pub(super) fn indent<'r>(value: &Value<'r>, given: Given<'r>) -> Outcome<Value<'r>> {
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
