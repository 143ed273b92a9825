//! The errors of templates: [`Refusal`] for one that cannot be compiled, [`Failure`] for a record that cannot
//! be rendered.

/// A result that fails with a [`Failure`].
pub type RenderResult<T> = Result<T, Failure>;

/// A refused construct of a template, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line, from 1.
    pub line: usize,
    /// The error message.
    pub reason: String,
}

impl Refusal {
    /// Refuses a construct in `line`.
    pub(crate) fn new(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

/// The end of each message about a value that this renderer refuses.
const UNSUPPORTED: &str = "is not known to render as in transformers, and so is refused";

/// True if a message says that this renderer refuses a value, which `transformers` may render.
pub fn is_unsupported(message: &str) -> bool {
    message.ends_with(UNSUPPORTED)
}

/// The error that stopped a render. It is boxed because every expression returns a result.
#[derive(Debug)]
pub struct Failure(Box<str>);

impl Failure {
    /// An error of the template or the record, at which `transformers` fails too.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// A refusal of `what`, which `transformers` may render, but this renderer is not known to render alike.
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self(format!("{what} {UNSUPPORTED}").into())
    }

    /// The error message.
    pub(crate) fn message(self) -> String {
        self.0.into()
    }
}
