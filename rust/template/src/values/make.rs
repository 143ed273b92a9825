//! Makes values, whose memory the [`Meter`] counts.

use super::texts::text::Text;
use super::value::Value;
use crate::failure::{Failure, RenderResult};
use crate::render_limits::{HeldMemory, MAX_NESTING, Meter};

/// Bytes counted for an item of a list, and for a value without a size.
pub(crate) const ITEM_BYTES: usize = size_of::<Value<'_>>() + 16;

/// Bytes counted for a text besides its own.
const TEXT_BYTES: usize = 64;

/// Unused bytes of a string up to which it is not shrunk.
const SLACK: usize = 1 << 12;

/// Fails if a value nests so deep that printing or freeing it could exhaust the stack, or if it could come to
/// contain itself.
pub(crate) fn check_nesting(value: &Value<'_>) -> RenderResult<()> {
    if value.depth() >= MAX_NESTING {
        return Err(Failure::unsupported(format_args!(
            "a value of {MAX_NESTING} levels, or one that holds a namespace or `loop`,"
        )));
    }
    Ok(())
}

impl Meter<'_> {
    /// A text that was [written](Meter::write).
    pub(crate) fn text<'r>(&self, mut text: String) -> RenderResult<Text<'r>> {
        self.hold(TEXT_BYTES)?;
        if text.capacity() - text.len() > SLACK {
            text.shrink_to_fit();
        }
        let held = self.held(text.len() + TEXT_BYTES);
        Ok(Text::computed(text, held))
    }

    /// A string value of a text that was [written](Meter::write).
    pub(crate) fn string<'r>(&self, text: String) -> RenderResult<Value<'r>> {
        self.text(text).map(Value::String)
    }

    /// A copy of a text.
    pub(crate) fn copy<'r>(&self, text: &str) -> RenderResult<Text<'r>> {
        let mut copy = String::new();
        self.write(&mut copy, text)?;
        self.text(copy)
    }

    /// A tuple of few values.
    pub(crate) fn tuple<'r>(&self, items: Vec<Value<'r>>) -> RenderResult<Value<'r>> {
        let bytes = (items.len() + 1) * ITEM_BYTES;
        self.items(items.len())?;
        self.hold(bytes)?;
        Ok(Value::tuple(items, self.held(bytes)))
    }
}

impl Text<'_> {
    /// The part of this text that `part` selects, borrowed if the text is.
    pub(crate) fn cut(
        &self,
        meter: &Meter<'_>,
        part: impl for<'a> FnOnce(&'a str) -> &'a str,
    ) -> RenderResult<Self> {
        match self {
            Self::Borrowed(text) => Ok(Self::Borrowed(part(text))),
            Self::Computed(text) => {
                let cut = part(text);
                if cut.len() == text.len() { Ok(self.clone()) } else { meter.copy(cut) }
            }
        }
    }
}

/// Values that become a list, a tuple or a generator.
pub(crate) struct ItemsBuilder<'r, 'm> {
    items: Vec<Value<'r>>,
    meter: &'m Meter<'m>,
}

impl<'r, 'm> ItemsBuilder<'r, 'm> {
    /// An empty collection.
    pub(crate) fn new(meter: &'m Meter<'_>) -> Self {
        Self { items: Vec::new(), meter }
    }

    /// An empty collection with room for `count` values.
    pub(crate) fn of(count: usize, meter: &'m Meter<'_>) -> RenderResult<Self> {
        meter.items(count)?;
        meter.hold(count.saturating_mul(ITEM_BYTES))?;
        meter.release(count.saturating_mul(ITEM_BYTES));
        Ok(Self { items: Vec::with_capacity(count), meter })
    }

    /// Adds a value.
    pub(crate) fn push(&mut self, value: Value<'r>) -> RenderResult<()> {
        self.meter.hold(ITEM_BYTES)?;
        self.items.push(value);
        Ok(())
    }

    /// The values.
    pub(crate) fn items(&mut self) -> &mut Vec<Value<'r>> {
        &mut self.items
    }

    fn finish(self) -> (Vec<Value<'r>>, HeldMemory) {
        let held = self.meter.held(self.items.len() * ITEM_BYTES);
        (self.items, held)
    }

    /// A list of them.
    pub(crate) fn into_list(self) -> Value<'r> {
        let (items, held) = self.finish();
        Value::list(items, held)
    }

    /// A tuple of them.
    pub(crate) fn into_tuple(self) -> Value<'r> {
        let (items, held) = self.finish();
        Value::tuple(items, held)
    }

    /// A generator of them.
    pub(crate) fn into_generator(self) -> Value<'r> {
        let (items, held) = self.finish();
        Value::generator(items, held)
    }
}
