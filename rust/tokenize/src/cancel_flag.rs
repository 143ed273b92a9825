//! [`CancelFlag`]: a flag by which another thread ends the encoding of a long text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends encoding; `None` if nothing can end it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelFlag(Option<Arc<AtomicBool>>);

impl CancelFlag {
    /// Ends encoding once `flag` is set.
    pub(crate) fn when(flag: Arc<AtomicBool>) -> Self {
        Self(Some(flag))
    }

    /// True if the flag is set.
    pub(crate) fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
