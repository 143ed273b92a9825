//! Memory for tables of cache lines, mapped by the system: zeroed, and touched only as it is used.

use std::io;
use std::slice;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapMut, MmapOptions};

use crate::hardware::prefetch;

/// A word of memory.
pub(super) type Word = [u8; 8];

/// A cache line of 64 bytes.
pub(super) type Line = [Word; 8];

/// A cache line that several threads read and write.
pub(super) type SharedLine = [AtomicU64; 8];

/// The size of a large page. Memory of fewer bytes uses small pages, which are all populated at once.
pub(super) const LARGE: usize = 1 << 21;

/// An array of lines, each on its own cache line.
pub(super) struct LineMemory(MmapMut);

impl LineMemory {
    /// `count` lines of zeros, at least one.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        let bytes = count.max(1) * size_of::<Line>();
        let mut memory = MmapOptions::new();
        memory.len(bytes);
        if bytes < LARGE {
            // Hashes reach all pages soon, and a page that is read before it is written costs twice.
            memory.populate();
        }
        let memory = memory.map_anon()?;
        // With the usual pages, nearly every look-up would also miss the TLB; these are of 2 MiB.
        #[cfg(target_os = "linux")]
        if bytes >= LARGE {
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        Ok(Self(memory))
    }

    /// The lines.
    #[inline]
    pub(super) fn lines(&self) -> &[Line] {
        self.0.as_chunks().0.as_chunks().0
    }

    /// The lines, mutable.
    #[inline]
    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        self.0.as_chunks_mut().0.as_chunks_mut().0
    }

    /// Prefetches a line into the first-level cache.
    #[inline]
    pub(super) fn prefetch(&self, line: usize) {
        prefetch(self.0.as_ptr().wrapping_add(line * size_of::<Line>()));
    }
}

impl LineMemory {
    /// The same memory for several threads.
    pub(super) fn shared(self) -> SharedLines {
        SharedLines(self.0)
    }
}

/// An array of lines that several threads read and write.
pub(super) struct SharedLines(MmapMut);

impl SharedLines {
    /// The lines.
    #[inline]
    pub(super) fn lines(&self) -> &[SharedLine] {
        let lines = self.0.as_ptr().cast();
        #[expect(unsafe_code, reason = "there is no safe way from mapped memory to atomic words")]
        // SAFETY: the memory lives as long as `self`, begins with a page, and is used through these words alone. Any
        // bits are a word.
        unsafe {
            slice::from_raw_parts(lines, self.0.len() / size_of::<SharedLine>())
        }
    }

    /// Prefetches a line into the first-level cache.
    #[inline]
    pub(super) fn prefetch(&self, line: usize) {
        prefetch(self.0.as_ptr().wrapping_add(line * size_of::<SharedLine>()));
    }
}
