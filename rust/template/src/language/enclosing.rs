//! [`EnclosingBlocks`]: the blocks around a statement of a template.

/// The blocks around a statement, which decide whether it is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EnclosingBlocks {
    /// True if it is in a loop that belongs to the same macro or block.
    pub(super) in_loop: bool,
    /// The innermost of the blocks with variables of their own.
    pub(super) scope: EnclosingScope,
    /// True if it is in an `if` that no other block separates it from.
    pub(super) in_condition: bool,
}

/// The kind of the blocks around a statement that have variables of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EnclosingScope {
    /// There is none.
    #[default]
    Template,
    /// Their output goes where that of the template goes.
    Block,
    /// The output of one of them is captured.
    Captured,
}

impl EnclosingBlocks {
    /// The blocks around the body of a block whose output is captured.
    pub(super) const CAPTURED: Self =
        Self { in_loop: false, scope: EnclosingScope::Captured, in_condition: false };

    /// The blocks around the body of a block with variables of its own.
    pub(super) fn scope(self) -> Self {
        let scope = self.scope.max(EnclosingScope::Block);
        Self { scope, in_condition: false, ..self }
    }
}
