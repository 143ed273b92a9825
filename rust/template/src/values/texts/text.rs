//! [`Text`]: a string that a template computes with, and where it comes from.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use crate::render_limits::HeldMemory;

/// A string, borrowed if it can be.
#[derive(Clone)]
pub(crate) enum Text<'r> {
    /// A part of the record or the template.
    Borrowed(&'r str),
    /// A string that was computed.
    Computed(Rc<Computed<String>>),
}

/// The number of the sources of a computed text: the values that it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(u32);

impl SourceId {
    /// The text was just computed, or its sources are not followed.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// The text is made of none.
    pub(crate) const NONE: Self = Self(1);

    /// The last of `count` sources in a list.
    pub(crate) fn numbered(count: usize) -> Self {
        u32::try_from(count + 1).map_or(Self::NONE, Self)
    }

    /// The place of the sources in their list, if there are any.
    pub(crate) fn place(self) -> Option<usize> {
        (self.0 as usize).checked_sub(2)
    }
}

/// A computed value, the number of its sources, and the memory that it holds.
pub(crate) struct Computed<T> {
    inner: T,
    source: Cell<SourceId>,
    _held: HeldMemory,
}

impl<T> Computed<T> {
    /// A value that holds this memory.
    pub(crate) fn new(inner: T, held: HeldMemory) -> Rc<Self> {
        Rc::new(Self { inner, source: Cell::new(SourceId::UNKNOWN), _held: held })
    }

    /// The number of its sources.
    pub(crate) fn source(&self) -> SourceId {
        self.source.get()
    }

    /// Sets its sources, unless it has some.
    pub(crate) fn set_source(&self, source: SourceId) {
        if self.source.get() == SourceId::UNKNOWN {
            self.source.set(source);
        }
    }
}

impl<T> Deref for Computed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Computed(text) => text,
        }
    }
}

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl Text<'_> {
    /// A string that was computed and holds this memory.
    pub(crate) fn computed(text: String, held: HeldMemory) -> Self {
        Self::Computed(Computed::new(text, held))
    }
}
