//! Python's two ways to fill values into a text: `%` and `str.format`.

use std::str::Chars;

use crate::failure::{Failure, RenderResult};
use crate::render_limits::Meter;
use crate::values::arguments::CallArguments;
use crate::values::printing::print::{write_big, write_repr_of, write_str};
use crate::values::value::Value;

/// `text % values`, without flags, widths and precisions.
pub(crate) fn percent(text: &str, values: &Value<'_>, meter: &Meter<'_>) -> RenderResult<String> {
    let mut rest: Vec<Value<'_>> = match values {
        Value::Tuple(values) => values.iter().rev().cloned().collect(),
        Value::Dict(_) | Value::List(_) => {
            return Err(Failure::unsupported(format_args!("`%` with a {}", values.type_name())));
        }
        one => vec![one.clone()],
    };
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            meter.write_char(&mut out, c)?;
            continue;
        }
        let mut next = || rest.pop().ok_or_else(|| Failure::error("not enough values for `%`"));
        match chars.next() {
            Some('%') => meter.write_char(&mut out, '%')?,
            Some('s') => write_str(&mut out, &next()?, meter)?,
            Some('r') => write_repr_of(&mut out, &next()?, meter)?,
            Some('d' | 'i') => {
                let value = next()?;
                match (&value, value.as_int()) {
                    (Value::Big(number), _) => write_big(&mut out, number, meter)?,
                    (_, Some(number)) => meter.write(&mut out, &number.to_string())?,
                    _ => {
                        let name = value.type_name();
                        return Err(Failure::unsupported(format_args!("`%d` of a {name}")));
                    }
                }
            }
            None => return Err(Failure::error("`%` at the end of a format")),
            Some(c) => return Err(Failure::unsupported(format_args!("`%{c}` in a format"))),
        }
    }
    if rest.is_empty() { Ok(out) } else { Err(Failure::error("too many values for `%`")) }
}

/// `text.format(…)`, without format specifications and without attributes in fields.
pub(crate) fn fields(
    text: &str,
    arguments: &CallArguments<'_>,
    meter: &Meter<'_>,
) -> RenderResult<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    let mut numbering = FieldNumbering::Unknown;
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.as_str().starts_with(c) => {
                chars.next();
                meter.write_char(&mut out, c)?;
            }
            '}' => return Err(Failure::error("a single `}` in a format")),
            '{' => {
                let (name, conversion) = field(&mut chars)?;
                let value = numbering.value_of(name, arguments)?;
                match conversion {
                    None | Some("s") => write_str(&mut out, &value, meter)?,
                    Some("r") => write_repr_of(&mut out, &value, meter)?,
                    Some(_) => return Err(Failure::unsupported("such a conversion in a format")),
                }
            }
            c => meter.write_char(&mut out, c)?,
        }
    }
    Ok(out)
}

/// The name of a field, and its conversion. The bracket that ends it is taken.
fn field<'t>(chars: &mut Chars<'t>) -> RenderResult<(&'t str, Option<&'t str>)> {
    let rest = chars.as_str();
    let end = rest.find('}').ok_or_else(|| Failure::error("a single `{` in a format"))?;
    let inner = &rest[..end];
    if inner.contains(['{', '[', '.', ':']) {
        return Err(Failure::unsupported("such a field in a format"));
    }
    *chars = rest[end + 1..].chars();
    Ok(match inner.split_once('!') {
        Some((name, conversion)) => (name, Some(conversion)),
        None => (inner, None),
    })
}

/// The numbering of the fields of a format: automatic or manual.
enum FieldNumbering {
    Unknown,
    Automatic(usize),
    Manual,
}

impl FieldNumbering {
    /// The value of a field.
    fn value_of<'r>(
        &mut self,
        name: &str,
        arguments: &CallArguments<'r>,
    ) -> RenderResult<Value<'r>> {
        let mixed = || Err(Failure::error("a format numbers either all fields or none"));
        let index = if name.is_empty() {
            let index = match self {
                Self::Manual => return mixed(),
                Self::Automatic(next) => *next,
                Self::Unknown => 0,
            };
            *self = Self::Automatic(index + 1);
            index
        } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
            if matches!(self, Self::Automatic(_)) {
                return mixed();
            }
            *self = Self::Manual;
            name.parse().map_err(|_| Failure::error("a format numbers a field too high"))?
        } else {
            let named = arguments.named.iter().find(|(known, _)| *known == name);
            let missing = || Failure::error(format!("a format has no value for `{name}`"));
            return named.map(|(_, value)| value.clone()).ok_or_else(missing);
        };
        let missing = || Failure::error(format!("a format has no value number {index}"));
        arguments.positional.get(index).cloned().ok_or_else(missing)
    }
}
