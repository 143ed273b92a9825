//! The options of packing: begin at [`PackOptions`]. [`Alignment`] fills documents up to a multiple of tokens.

mod alignment;
mod pack_options;

pub use alignment::Alignment;
pub use pack_options::{
    OnRemainder, Order, Overlong, PackOptions, PadTo, PictureSizes, Side, Strategy,
};
