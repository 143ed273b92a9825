//! Why a template cannot be compiled, and why a record cannot be rendered.

/// What can go wrong in a template or a record.
pub type Outcome<T> = Result<T, Failure>;

/// A construct of a template that is refused, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line, from 1.
    pub line: usize,
    /// What is refused.
    pub reason: String,
}

impl Refusal {
    /// Refuses what stands in `line`.
    pub(crate) fn new(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

/// What a message ends with that says so of a value that this renderer refuses.
const UNSUPPORTED: &str = "is not known to render as in transformers, and so is refused";

/// Whether what went wrong is that this renderer refuses a value, which `transformers` may render.
pub fn is_unsupported(message: &str) -> bool {
    message.ends_with(UNSUPPORTED)
}

/// Why rendering stopped. Boxed, since results travel through every expression.
#[derive(Debug)]
pub struct Failure(Box<str>);

impl Failure {
    /// What `transformers` fails at too: an error of the template or the record.
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }

    /// What `transformers` may render, but this renderer is not known to render alike.
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self(format!("{what} {UNSUPPORTED}").into())
    }

    /// What is wrong.
    pub(crate) fn message(self) -> String {
        self.0.into()
    }
}
