//! The options of packing: begin at [`PackOptions`]. [`Alignment`] fills documents up to a multiple of tokens, [`Overlong`] says what
//! to do with those longer than a row.

mod alignment;
mod overlong;
mod pack_options;

pub use alignment::Alignment;
pub use overlong::Overlong;
pub use pack_options::{OnRemainder, PackOptions, PadTo, PictureSizes, RowOrder, Side, Strategy};
