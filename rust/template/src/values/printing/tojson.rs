//! The filter `tojson`: Python's `json.dumps` with the defaults that `transformers` gives it.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::failure::{Failure, RenderResult};
use crate::render_limits::{MAX_NESTING, Meter, pieces};
use crate::text::write_float;
use crate::values::arguments::CallArguments;
use crate::values::key::Key;
use crate::values::operators::comparing::order;
use crate::values::operators::sort::sort;
use crate::values::printing::print::write_big;
use crate::values::texts::text::Text;
use crate::values::value::{Dict, Value};

/// Most bytes of one level of indentation.
pub(crate) const MAX_INDENT: usize = 1000;

/// The options of `json.dumps`.
pub(crate) struct JsonStyle<'r> {
    /// True if characters outside of ASCII are escaped.
    pub(crate) ensure_ascii: bool,
    /// The indentation of one level, if each item has a line of its own.
    pub(crate) indent: Option<String>,
    /// The separator between items.
    pub(crate) item_separator: Text<'r>,
    /// The separator between key and value.
    pub(crate) key_separator: Text<'r>,
    /// True if keys are sorted.
    pub(crate) sort_keys: bool,
}

impl<'r> JsonStyle<'r> {
    /// The options that a template gives.
    pub(crate) fn from_arguments(arguments: CallArguments<'r>) -> RenderResult<Self> {
        let [ensure_ascii, indent, separators, sort_keys] =
            arguments.bind(["ensure_ascii", "indent", "separators", "sort_keys"])?;
        let indent = match indent {
            None | Some(Value::None) => None,
            Some(Value::String(indent)) if indent.len() <= MAX_INDENT => Some(indent.to_string()),
            Some(other) => match other.as_int().map(|width| usize::try_from(width).unwrap_or(0)) {
                Some(width) if width <= MAX_INDENT => Some(" ".repeat(width)),
                _ => return Err(Failure::unsupported("such an indent of `tojson`")),
            },
        };
        let separator = |list: &[Value<'r>], at: usize| match list.get(at) {
            Some(Value::String(text)) if list.len() == 2 => Ok(text.clone()),
            _ => Err(Failure::unsupported("such separators of `tojson`")),
        };
        let (item_separator, key_separator) = match separators {
            None | Some(Value::None) => {
                let between = if indent.is_some() { "," } else { ", " };
                (Text::Borrowed(between), Text::Borrowed(": "))
            }
            Some(Value::Tuple(list)) => (separator(&list, 0)?, separator(&list, 1)?),
            Some(Value::List(list)) => {
                // Any number but two is refused, so three are enough to tell.
                let list: Vec<Value<'r>> = list.iter().take(3).collect();
                (separator(&list, 0)?, separator(&list, 1)?)
            }
            Some(_) => return Err(Failure::unsupported("such separators of `tojson`")),
        };
        let is_true = |value: Option<Value<'r>>| value.is_some_and(|value| value.is_true());
        Ok(Self {
            ensure_ascii: is_true(ensure_ascii),
            indent,
            item_separator,
            key_separator,
            sort_keys: is_true(sort_keys),
        })
    }

    /// Writes `value`.
    pub(crate) fn dumps(&self, value: &Value<'_>, meter: &Meter<'_>) -> RenderResult<String> {
        let mut out = String::new();
        self.write(&mut out, value, 0, meter)?;
        Ok(out)
    }

    fn write(
        &self,
        out: &mut String,
        value: &Value<'_>,
        depth: usize,
        meter: &Meter<'_>,
    ) -> RenderResult<()> {
        if depth > MAX_NESTING {
            return Err(Failure::unsupported(format_args!(
                "`tojson` of what nests deeper than {MAX_NESTING} levels"
            )));
        }
        meter.items(1)?;
        match value {
            Value::None => meter.write(out, "null"),
            Value::Bool(true) => meter.write(out, "true"),
            Value::Bool(false) => meter.write(out, "false"),
            Value::Int(value) => meter.write(out, &value.to_string()),
            Value::Big(value) => write_big(out, value, meter),
            Value::Float(value) if value.is_nan() => meter.write(out, "NaN"),
            Value::Float(value) if value.is_infinite() => {
                meter.write(out, if *value > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Value::Float(value) => {
                let before = out.len();
                write_float(out, *value);
                meter.hold(out.len() - before)
            }
            Value::String(text) | Value::Safe(text) => self.write_string(out, text, meter),
            Value::List(items) => self.write_list(out, items.iter(), depth, meter),
            Value::Tuple(items) => self.write_list(out, items.iter().cloned(), depth, meter),
            Value::Dict(dict) => self.write_dict(out, dict, depth, meter),
            other => Err(Failure::error(format!("`tojson` cannot write a {}", other.type_name()))),
        }
    }

    fn write_list<'v>(
        &self,
        out: &mut String,
        items: impl Iterator<Item = Value<'v>>,
        depth: usize,
        meter: &Meter<'_>,
    ) -> RenderResult<()> {
        meter.write_char(out, '[')?;
        let mut empty = true;
        for item in items {
            self.separate(out, empty, depth, meter)?;
            empty = false;
            self.write(out, &item, depth + 1, meter)?;
        }
        self.close(out, empty, depth, meter)?;
        meter.write_char(out, ']')
    }

    fn write_dict(
        &self,
        out: &mut String,
        dict: &Dict<'_>,
        depth: usize,
        meter: &Meter<'_>,
    ) -> RenderResult<()> {
        meter.write_char(out, '{')?;
        if self.sort_keys {
            let bytes = dict.len() * size_of::<(Key<'_>, Value<'_>)>();
            meter.hold(bytes)?;
            let sorted = sort(dict.iter().collect(), |left, right| {
                meter.items(4)?;
                let found = order("<", &left.0.value(), &right.0.value(), meter)?;
                Ok(found.unwrap_or(Ordering::Equal))
            })?;
            self.write_entries(out, sorted.into_iter(), depth, meter)?;
            meter.release(bytes);
        } else {
            self.write_entries(out, dict.iter(), depth, meter)?;
        }
        self.close(out, dict.len() == 0, depth, meter)?;
        meter.write_char(out, '}')
    }

    fn write_entries<'v>(
        &self,
        out: &mut String,
        entries: impl Iterator<Item = (Key<'v>, Value<'v>)>,
        depth: usize,
        meter: &Meter<'_>,
    ) -> RenderResult<()> {
        for (at, (key, value)) in entries.enumerate() {
            self.separate(out, at == 0, depth, meter)?;
            match &key {
                Key::Text(key) => self.write_string(out, key, meter)?,
                Key::None => meter.write(out, "\"null\"")?,
                Key::Bool(value) => {
                    meter.write(out, if *value { "\"true\"" } else { "\"false\"" })?;
                }
                Key::Int(value) => meter.write(out, &format!("\"{value}\""))?,
            }
            meter.write(out, &self.key_separator)?;
            self.write(out, &value, depth + 1, meter)?;
        }
        Ok(())
    }

    fn separate(
        &self,
        out: &mut String,
        first: bool,
        depth: usize,
        meter: &Meter<'_>,
    ) -> RenderResult<()> {
        if !first {
            meter.write(out, &self.item_separator)?;
        }
        self.line(out, depth + 1, meter)
    }

    /// Writes the line break before the bracket that ends a list or an object with items.
    fn close(
        &self,
        out: &mut String,
        empty: bool,
        depth: usize,
        meter: &Meter<'_>,
    ) -> RenderResult<()> {
        if empty { Ok(()) } else { self.line(out, depth, meter) }
    }

    fn line(&self, out: &mut String, depth: usize, meter: &Meter<'_>) -> RenderResult<()> {
        if let Some(indent) = &self.indent {
            meter.write_char(out, '\n')?;
            for _ in 0..depth {
                meter.write(out, indent)?;
            }
        }
        Ok(())
    }

    fn write_string(&self, out: &mut String, text: &str, meter: &Meter<'_>) -> RenderResult<()> {
        meter.write_char(out, '"')?;
        for piece in pieces(text) {
            meter.characters(piece.len())?;
            let before = out.len();
            self.write_escaped(out, piece);
            // A character takes at most six bytes for each of its own.
            meter.hold(out.len() - before)?;
        }
        meter.write_char(out, '"')
    }

    /// Writes a piece of a string, escaped for JSON.
    fn write_escaped(&self, out: &mut String, text: &str) {
        let mut written = 0;
        for (at, c) in text.char_indices() {
            let plain = match c {
                '"' | '\\' | '\0'..='\x1f' => false,
                ' '..='~' => true,
                _ => !self.ensure_ascii,
            };
            if plain {
                continue;
            }
            out.push_str(&text[written..at]);
            written = at + c.len_utf8();
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x08' => out.push_str("\\b"),
                '\x0c' => out.push_str("\\f"),
                other => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
            }
        }
        out.push_str(&text[written..]);
    }
}
