//! [`Picture`]: the file of a picture, or its bytes as a record holds them, decoded on demand.

use std::io::Cursor;
use std::sync::Arc;

use arrow::buffer::Buffer;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fastpack_picture::Size;

use super::parsing::fault::Fault;
use crate::report::ledger::Reason;

/// The longest path or URL. A longer text is bytes in base64.
const LONGEST_PATH: usize = 4096;

/// Characters of base64 that are decoded first: most headers are shorter.
const FIRST_CHARACTERS: usize = 1 << 17;

/// Ends the beginning of a `data:` URL in base64.
const ENCODING: &str = ";base64,";

/// A picture of a conversation, as its record has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Picture {
    /// A file or URL. A relative path begins at the folder of the record's file.
    File(Arc<str>),
    /// Bytes in the record itself.
    Held(HeldPicture),
}

/// A picture whose bytes a record holds.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldPicture {
    bytes: HeldBytes,
    /// The place in the record, for messages.
    place: String,
}

#[derive(Clone, Debug, PartialEq)]
enum HeldBytes {
    /// Base64, or a `data:` URL.
    Base64(Arc<str>),
    Plain(Buffer),
}

impl Picture {
    /// The picture that a text names or is.
    pub(super) fn named_by(text: &Arc<str>, place: &str) -> Self {
        if text.starts_with("data:") || text.len() > LONGEST_PATH {
            Self::encoded(text, place)
        } else {
            Self::File(Arc::clone(text))
        }
    }

    /// A picture in base64.
    pub(super) fn encoded(text: &Arc<str>, place: &str) -> Self {
        Self::held(HeldBytes::Base64(Arc::clone(text)), place)
    }

    /// A picture of these bytes.
    pub(super) fn of_bytes(bytes: Buffer, place: &str) -> Self {
        Self::held(HeldBytes::Plain(bytes), place)
    }

    fn held(bytes: HeldBytes, place: &str) -> Self {
        Self::Held(HeldPicture { bytes, place: place.to_owned() })
    }
}

impl HeldPicture {
    /// The bytes.
    ///
    /// # Errors
    ///
    /// The fault of a text that is no base64.
    pub fn bytes(&self) -> Result<Buffer, Fault> {
        match &self.bytes {
            HeldBytes::Plain(bytes) => Ok(bytes.clone()),
            HeldBytes::Base64(text) => {
                let bytes = decode(self.characters(text)?);
                bytes
                    .map(Buffer::from_vec)
                    .map_err(|error| self.fault(&format!("no base64: {error}")))
            }
        }
    }

    /// The number of the bytes.
    ///
    /// # Errors
    ///
    /// The fault of a text that is no base64.
    pub fn length(&self) -> Result<u64, Fault> {
        match &self.bytes {
            HeldBytes::Plain(bytes) => Ok(bytes.len() as u64),
            HeldBytes::Base64(text) => {
                let characters = self.characters(text)?.trim_end();
                let padding = characters.len() - characters.trim_end_matches('=').len();
                Ok((characters.len() / 4 * 3).saturating_sub(padding) as u64)
            }
        }
    }

    /// The size, by the beginning of the bytes.
    ///
    /// # Errors
    ///
    /// The fault of bytes that are no picture.
    pub fn size(&self) -> Result<Size, Fault> {
        if let HeldBytes::Base64(text) = &self.bytes {
            let characters = self.characters(text)?;
            let first = characters.get(..FIRST_CHARACTERS);
            let size = first.and_then(|first| size_of(&decode(first).ok()?).ok());
            if let Some(size) = size {
                return Ok(size);
            }
        }
        size_of(&self.bytes()?).map_err(|error| self.fault(&error.to_string()))
    }

    /// The characters of a text that are base64.
    fn characters<'t>(&self, text: &'t str) -> Result<&'t str, Fault> {
        if !text.starts_with("data:") {
            return Ok(text);
        }
        let found = text.split_once(ENCODING).map(|(_, characters)| characters);
        found.ok_or_else(|| self.fault("a `data:` URL that is not in base64"))
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::new(Reason::Picture, format!("`{}`: {what}", self.place))
    }
}

fn decode(characters: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(characters.trim_end())
}

fn size_of(bytes: &[u8]) -> Result<Size, fastpack_picture::PictureFault> {
    fastpack_picture::size(Cursor::new(bytes))
}
