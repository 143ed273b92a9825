//! [`Composition`]: the effect of code points on composition.

/// The effect of a code point on composition (NFC, NFKC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(dead_code, reason = "`Active` is what is left; the table has its number")]
pub(crate) enum Composition {
    /// Never changes, and does not change the text before it.
    Inert = 0,
    /// Changes nothing if it follows an inert one: a mark that composes with nothing, but can be moved.
    Mark = 1,
    /// Changes, or may change the text before it.
    Active = 2,
}
