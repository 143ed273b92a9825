//! The filter `tojson`: Python's `json.dumps` with the defaults that `transformers` gives it.

use std::fmt::Write as _;

use super::failure::{Failure, Outcome};
use super::given::Given;
use super::limits::{MAX_NESTING, check_size};
use super::print::write_big;
use super::text::write_float;
use super::value::{Dict, Text, Value};

/// How much a line may be indented, in bytes.
pub(super) const MAX_INDENT: usize = 1000;

/// How `json.dumps` writes.
#[derive(Debug)]
pub(super) struct Style {
    /// Whether characters outside of ASCII are escaped.
    pub(super) ensure_ascii: bool,
    /// What a level is indented by, if each item has a line of its own.
    pub(super) indent: Option<String>,
    /// What stands between items.
    pub(super) item_separator: String,
    /// What stands between key and value.
    pub(super) key_separator: String,
    /// Whether keys are sorted.
    pub(super) sort_keys: bool,
}

impl Style {
    /// The style that a template asks for.
    pub(super) fn given<'r>(given: Given<'r>) -> Outcome<Self> {
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
            Some(Value::Tuple(list)) => (separator(&list, 0)?, separator(&list, 1)?),
            Some(Value::List(list)) => {
                let list: Vec<Value<'r>> = list.iter().collect();
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
    pub(super) fn dumps(&self, value: &Value<'_>) -> Outcome<String> {
        let mut out = String::new();
        self.write(&mut out, value, 0)?;
        Ok(out)
    }

    fn write(&self, out: &mut String, value: &Value<'_>, depth: usize) -> Outcome<()> {
        if depth > MAX_NESTING {
            return Err(Failure::unsupported(format_args!(
                "`tojson` of what nests deeper than {MAX_NESTING} levels"
            )));
        }
        check_size(out.len())?;
        match value {
            Value::None => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Int(value) => out.push_str(&value.to_string()),
            Value::Big(value) => write_big(out, value)?,
            Value::Float(value) if value.is_nan() => out.push_str("NaN"),
            Value::Float(value) if value.is_infinite() => {
                out.push_str(if *value > 0.0 { "Infinity" } else { "-Infinity" });
            }
            Value::Float(value) => write_float(out, *value),
            Value::String(text) | Value::Safe(text) => self.write_string(out, text),
            Value::List(items) => self.write_list(out, items.iter(), depth)?,
            Value::Tuple(items) => self.write_list(out, items.iter().cloned(), depth)?,
            Value::Dict(dict) => self.write_dict(out, dict, depth)?,
            other => {
                return Err(Failure::error(format!(
                    "`tojson` cannot write a {}",
                    other.type_name()
                )));
            }
        }
        Ok(())
    }

    fn write_list<'r>(
        &self,
        out: &mut String,
        items: impl Iterator<Item = Value<'r>>,
        depth: usize,
    ) -> Outcome<()> {
        out.push('[');
        let mut empty = true;
        for item in items {
            self.separate(out, empty, depth);
            empty = false;
            self.write(out, &item, depth + 1)?;
        }
        self.close(out, empty, depth, ']');
        Ok(())
    }

    fn write_dict(&self, out: &mut String, dict: &Dict<'_>, depth: usize) -> Outcome<()> {
        out.push('{');
        let mut entries: Vec<(Text<'_>, Value<'_>)> = dict.iter().collect();
        if self.sort_keys {
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        }
        let empty = entries.is_empty();
        for (at, (key, value)) in entries.iter().enumerate() {
            self.separate(out, at == 0, depth);
            self.write_string(out, key);
            out.push_str(&self.key_separator);
            self.write(out, value, depth + 1)?;
        }
        self.close(out, empty, depth, '}');
        Ok(())
    }

    fn separate(&self, out: &mut String, first: bool, depth: usize) {
        if !first {
            out.push_str(&self.item_separator);
        }
        self.line(out, depth + 1);
    }

    fn close(&self, out: &mut String, empty: bool, depth: usize, bracket: char) {
        if !empty {
            self.line(out, depth);
        }
        out.push(bracket);
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
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
        out.push('"');
    }
}
