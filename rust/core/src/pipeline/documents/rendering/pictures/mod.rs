//! The pictures of conversations: [`picture_texts`] puts the processor's texts in their places, [`picture_paths`] finds their files.

mod picture_paths;
mod picture_texts;

pub(crate) use picture_texts::PictureTexts;
