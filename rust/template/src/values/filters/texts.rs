//! Filters of texts.

use crate::failure::{Failure, RenderResult};
use crate::render_limits::Meter;
use crate::text::{is_space, lower, upper};
use crate::values::arguments::CallArguments;
use crate::values::printing::formatting::percent;
use crate::values::printing::print::to_text;
use crate::values::printing::tojson::MAX_INDENT;
use crate::values::texts::cuts::{for_each_line, is_line_end, replace};
use crate::values::value::Value;

/// A text with parts replaced by others.
pub(crate) fn replaced<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [old, new, count] = arguments.bind(["old", "new", "count"])?;
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
    let [text, old, new] = [value, &old, &new].map(|value| to_text(value, meter));
    meter.string(replace(&text?, &old?, &new?, count, meter)?)
}

/// The first letter of each word in upper case, the others in lower case; words begin where Jinja says they do.
pub(crate) fn title(text: &str, meter: &Meter<'_>) -> RenderResult<String> {
    if text.contains('Σ') {
        return Err(Failure::unsupported("the title case of `Σ`"));
    }
    let is_boundary = |c: char| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    let mut titled = String::new();
    for word in text.split_inclusive(is_boundary) {
        meter.items(1)?;
        let rest = word.chars().next().map_or(0, char::len_utf8);
        titled.push_str(&upper(&word[..rest], meter)?);
        titled.push_str(&lower(&word[rest..], meter)?);
    }
    Ok(titled)
}

/// `text|format(…)`: Python's `%` with all arguments.
pub(crate) fn format(
    text: &str,
    arguments: CallArguments<'_>,
    meter: &Meter<'_>,
) -> RenderResult<String> {
    if !arguments.named.is_empty() {
        return Err(Failure::unsupported("`format` with arguments by name"));
    }
    percent(text, &meter.tuple(arguments.positional)?, meter)
}

/// A text whose lines are indented.
pub(crate) fn indent<'r>(
    value: &Value<'r>,
    arguments: CallArguments<'r>,
    meter: &Meter<'_>,
) -> RenderResult<Value<'r>> {
    let [width, first, blank] = arguments.bind(["width", "first", "blank"])?;
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
    let mut first_line = true;
    let mut line = |from: usize, to: usize| {
        let is_first = std::mem::take(&mut first_line);
        if !is_first {
            meter.write_char(&mut out, '\n')?;
        }
        if if is_first { first } else { blank || from < to } {
            meter.write(&mut out, &indention)?;
        }
        meter.write(&mut out, &text[from..to])
    };
    for_each_line(text, meter, &mut line)?;
    // Jinja appends a `\n` before it splits the lines, so a text that ends with a line end has an empty line
    // more.
    if text.is_empty() || text.ends_with(|c| is_line_end(c) && c != '\r') {
        line(text.len(), text.len())?;
    }
    meter.string(out)
}
