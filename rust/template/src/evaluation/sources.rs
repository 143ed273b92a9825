//! [`TextSources`]: the values of the inputs that computed texts, and the output, are made of.
//!
//! A list, an object or a text of an input has an address of its own, and a part of a text lies within it. A
//! computed text carries a [`SourceId`]: the place in a list of all that were found during the render. A value
//! counts as printed if a text that was printed is that value, a part of it, or made of it. A value that is
//! only compared, measured or tested is not printed.

use crate::json::{Json, Map};
use crate::values::texts::text::{SourceId, Text};
use crate::values::value::{Dict, List, Value};

/// The most sources of one render that are kept, of 16 bytes each. Beyond them everything counts as printed.
const MOST: usize = 1 << 20;

/// The most items of computed lists and objects that are searched for sources.
const MOST_LOOKED_AT: usize = 1 << 20;

/// The sources of a computed text.
#[derive(Clone, Copy)]
enum TextSource {
    /// An address in an input, or in the template.
    Address(usize),
    /// The sources of two others.
    Both(SourceId, SourceId),
}

/// The sources that were printed into one output.
#[derive(Default)]
pub(crate) struct PrintedSources {
    addresses: Vec<usize>,
    computed: Vec<SourceId>,
}

/// The sources of the computed texts of a render, and of its output.
#[derive(Default)]
pub(crate) struct TextSources {
    known: Vec<TextSource>,
    prints: PrintedSources,
    looked_at: usize,
}

impl TextSources {
    /// True if there are too many sources to follow.
    fn is_full(&self) -> bool {
        self.known.len() >= MOST || self.looked_at >= MOST_LOOKED_AT
    }

    fn add(&mut self, source: TextSource) -> SourceId {
        self.known.push(source);
        SourceId::numbered(self.known.len())
    }

    /// The sources of both.
    fn both(&mut self, one: SourceId, other: SourceId) -> SourceId {
        match (one.place(), other.place()) {
            (None, _) => other,
            (_, None) => one,
            (Some(one_place), Some(other_place)) if one_place == other_place => one,
            _ => self.add(TextSource::Both(one, other)),
        }
    }

    /// The sources of a value.
    pub(crate) fn of(&mut self, value: &Value<'_>) -> SourceId {
        self.looked_at += 1;
        if self.is_full() {
            return SourceId::NONE;
        }
        match value {
            Value::String(text) | Value::Safe(text) => match text {
                Text::Borrowed(text) => self.add(TextSource::Address(text.as_ptr().addr())),
                Text::Computed(text) => text.source(),
            },
            Value::List(List::Data(items)) => self.add(TextSource::Address(items.as_ptr().addr())),
            Value::Dict(Dict::Data(map)) | Value::View(_, Dict::Data(map)) => {
                self.add(TextSource::Address(std::ptr::from_ref::<Map>(map).addr()))
            }
            Value::List(List::Computed(items)) | Value::Tuple(items) => {
                self.of_all(items.iter().cloned())
            }
            Value::Dict(Dict::Computed(map)) | Value::View(_, Dict::Computed(map)) => {
                self.of_all(map.values().cloned())
            }
            Value::Generator(items) => self.of_all(items.borrow().as_slice().to_vec()),
            Value::Method(_, receiver) => self.of(receiver),
            _ => SourceId::NONE,
        }
    }

    /// The sources of several values.
    pub(crate) fn of_all<'r>(&mut self, values: impl IntoIterator<Item = Value<'r>>) -> SourceId {
        let mut all = SourceId::NONE;
        for value in values {
            if self.is_full() {
                break;
            }
            let one = self.of(&value);
            all = self.both(all, one);
        }
        all
    }

    /// Gives the texts that were computed for `result` the sources of `values` and `others`.
    pub(crate) fn derive(&mut self, result: &Value<'_>, values: &[&Value<'_>], others: SourceId) {
        if !self.is_new(result) {
            return;
        }
        let mut all = others;
        for value in values {
            let one = self.of(value);
            all = self.both(all, one);
        }
        self.name(result, all);
    }

    /// True if a value holds a computed text without sources.
    fn is_new(&mut self, value: &Value<'_>) -> bool {
        match value {
            Value::String(Text::Computed(text)) | Value::Safe(Text::Computed(text)) => {
                text.source() == SourceId::UNKNOWN
            }
            Value::List(List::Computed(items)) | Value::Tuple(items) => {
                items.iter().any(|item| self.is_new_item(item))
            }
            Value::Dict(Dict::Computed(map)) => map.values().any(|item| self.is_new_item(item)),
            Value::Generator(items) => {
                items.borrow().as_slice().iter().any(|item| self.is_new_item(item))
            }
            _ => false,
        }
    }

    fn is_new_item(&mut self, value: &Value<'_>) -> bool {
        self.looked_at += 1;
        !self.is_full() && self.is_new(value)
    }

    /// Sets the sources of all texts in a value that have none.
    fn name(&mut self, value: &Value<'_>, sources: SourceId) {
        self.looked_at += 1;
        if self.is_full() {
            return;
        }
        match value {
            Value::String(Text::Computed(text)) | Value::Safe(Text::Computed(text)) => {
                text.set_source(sources);
            }
            Value::List(List::Computed(items)) | Value::Tuple(items) => {
                items.iter().for_each(|item| self.name(item, sources));
            }
            Value::Dict(Dict::Computed(map)) => {
                map.values().for_each(|item| self.name(item, sources));
            }
            Value::Generator(items) => {
                items.borrow().as_slice().iter().for_each(|item| self.name(item, sources));
            }
            _ => {}
        }
    }

    /// Notes that a value is printed.
    pub(crate) fn print(&mut self, value: &Value<'_>) {
        if self.is_full() {
            return;
        }
        match value {
            Value::String(Text::Borrowed(text)) => {
                self.looked_at += 1;
                self.prints.addresses.push(text.as_ptr().addr());
            }
            other => {
                let sources = self.of(other);
                self.prints.computed.extend(sources.place().map(|_| sources));
            }
        }
    }

    /// Begins to capture output. Returns the sources that were printed before.
    pub(crate) fn divert(&mut self) -> PrintedSources {
        std::mem::take(&mut self.prints)
    }

    /// Ends a capture, and restores the sources that were printed `before`. `text` is the captured text.
    pub(crate) fn captured(&mut self, before: PrintedSources, text: &Value<'_>) {
        let PrintedSources { addresses, computed } = std::mem::replace(&mut self.prints, before);
        let mut all = SourceId::NONE;
        for address in addresses {
            let one = self.add(TextSource::Address(address));
            all = self.both(all, one);
        }
        for one in computed {
            all = self.both(all, one);
        }
        self.name(text, all);
    }

    /// The values that the output was made of.
    pub(crate) fn shown(mut self) -> PrintedInputs {
        let is_all = self.is_full();
        let mut addresses = std::mem::take(&mut self.prints.addresses);
        let mut seen =
            vec![false; if self.prints.computed.is_empty() { 0 } else { self.known.len() }];
        let mut open = std::mem::take(&mut self.prints.computed);
        while let Some(place) = open.pop().and_then(SourceId::place) {
            if std::mem::replace(&mut seen[place], true) {
                continue;
            }
            match self.known[place] {
                TextSource::Address(address) => addresses.push(address),
                TextSource::Both(one, other) => open.extend([one, other]),
            }
        }
        addresses.sort_unstable();
        PrintedInputs { addresses, is_all }
    }
}

/// The values of the inputs that a render printed, whole, in part or changed.
#[derive(Clone, Debug, Default)]
pub struct PrintedInputs {
    /// The addresses of the printed sources, ascending.
    addresses: Vec<usize>,
    /// True if everything counts as printed.
    is_all: bool,
}

impl PrintedInputs {
    /// True if any text of a value was printed.
    pub fn holds(&self, value: &Json) -> bool {
        match value {
            Json::String(text) => {
                // The part behind the last character of a text is empty, and still a part of it.
                let start = text.as_ptr().addr();
                self.has_any(start, start + text.len())
            }
            Json::List(items) => {
                !items.is_empty()
                    && (self.has(items.as_ptr().addr())
                        || items.iter().any(|item| self.holds(item)))
            }
            Json::Map(map) => self.holds_whole(map) || map.values().any(|item| self.holds(item)),
            _ => self.is_all,
        }
    }

    /// True if a list was printed as a whole.
    pub fn holds_list(&self, value: &Json) -> bool {
        matches!(value, Json::List(items) if self.has(items.as_ptr().addr()))
    }

    /// True if an object was printed as a whole.
    pub fn holds_whole(&self, map: &Map) -> bool {
        self.has(std::ptr::from_ref(map).addr())
    }

    fn has(&self, address: usize) -> bool {
        self.has_any(address, address)
    }

    fn has_any(&self, first: usize, last: usize) -> bool {
        let at = self.addresses.partition_point(|address| *address < first);
        self.is_all || self.addresses.get(at).is_some_and(|address| *address <= last)
    }
}
