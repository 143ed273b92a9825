//! [`CodePointTable`]: one byte for each code point.

/// The number of code points, surrogates included.
pub(super) const CODE_POINTS: usize = 0x11_0000;

/// A table with one byte for each code point, so that a look-up is one load.
pub(crate) struct CodePointTable(Box<[u8]>);

impl CodePointTable {
    /// Fills the table from runs: each is the first code point and the value of the run.
    pub(crate) fn from_runs(runs: &[(u32, u8)]) -> Self {
        let mut bytes = vec![0; CODE_POINTS].into_boxed_slice();
        for (index, (start, value)) in runs.iter().enumerate() {
            let end = runs.get(index + 1).map_or(CODE_POINTS, |(next, _)| *next as usize);
            bytes[*start as usize..end].fill(*value);
        }
        Self(bytes)
    }

    /// Makes a table from one byte for each code point.
    pub(crate) fn from_bytes(bytes: Box<[u8]>) -> Self {
        Self(bytes)
    }

    /// The value of a code point.
    #[inline]
    pub(crate) fn get(&self, code_point: u32) -> u8 {
        self.0.get(code_point as usize).copied().unwrap_or(0)
    }
}
