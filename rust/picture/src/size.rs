//! [`Size`], the width and height of a picture.

/// The width and height of a picture in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl Size {
    /// The number of pixels.
    pub fn pixels(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// The size of the picture lying on its side.
    pub(crate) fn turned(self) -> Self {
        Self { width: self.height, height: self.width }
    }
}
