//! The size of a PNG picture.

use std::io::{ErrorKind, Read, Seek};

use flate2::{Crc, read::ZlibDecoder};

use crate::{PictureFault, Size, orientation::PictureMetadata, reader::HeaderReader};

/// The most bytes of a compressed text, as Pillow has it (`PngImagePlugin.MAX_TEXT_CHUNK`).
const LONGEST_TEXT: u64 = 1 << 20;

/// Reads all chunks, seeking over the pixels: many writers put EXIF and XMP at the end.
pub(crate) fn size<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Size, PictureFault> {
    let mut picture = PngParts::default();
    let mut offset = 8;
    loop {
        let chunk = PngChunk::read(reader, offset)?;
        if matches!(&chunk.name, b"IDAT" | b"fdAT" | b"IEND") {
            break;
        }
        picture.take(reader, chunk)?;
        offset = chunk.end;
    }
    let size = picture.size.ok_or_else(|| reader.damaged("no header"))?;
    picture.has_default_frame = picture.frames > 0 && !picture.has_frame_control;
    picture.is_past_pixels = true;
    // Past the start of the pixels, the header is whole: a cut there is no fault of it.
    match picture.take_trailing(reader, offset) {
        Ok(()) | Err(PictureFault::Cut { .. }) => {}
        Err(fault) => return Err(fault),
    }
    Ok(if picture.into_metadata(reader)?.is_turned()? { size.turned() } else { size })
}

/// The parts of the chunks that tell size and turn.
#[derive(Debug, Default)]
struct PngParts {
    size: Option<Size>,
    metadata: PictureMetadata,
    /// EXIF in hexadecimal digits, as `ImageMagick` writes it.
    profile: Option<Vec<u8>>,
    /// The announced frames of an animation.
    frames: u32,
    has_frame_control: bool,
    /// True if the pixels come before the first frame of an animation.
    has_default_frame: bool,
    /// True after the first pixels. Pillow examines no checksums there.
    is_past_pixels: bool,
}

impl PngParts {
    /// Reads a chunk, with its checksum if it comes before the pixels.
    fn take<R: Read + Seek>(
        &mut self,
        reader: &mut HeaderReader<R>,
        chunk: PngChunk,
    ) -> Result<(), PictureFault> {
        let content = if self.is_past_pixels {
            reader.bytes(chunk.start, chunk.length)?
        } else {
            chunk.checked(reader)?
        };
        let found = match &chunk.name {
            b"IHDR" => header_size(content).map(|size| self.size = Some(size)),
            b"eXIf" => {
                self.metadata.exif = Some(content.to_vec());
                Ok(())
            }
            b"tEXt" | b"zTXt" | b"iTXt" => self.take_text(chunk.name, content),
            b"acTL" => {
                let frames = content.first_chunk().map_or(0, |&count| u32::from_be_bytes(count));
                self.frames = if self.frames > 0 { 0 } else { frames };
                Ok(())
            }
            b"fcTL" => {
                self.has_frame_control = true;
                Ok(())
            }
            _ => Ok(()),
        };
        found.map_err(|found| reader.damaged(found))
    }

    /// Reads the chunks from the first pixels at `offset` on, up to the second frame of an animation.
    fn take_trailing<R: Read + Seek>(
        &mut self,
        reader: &mut HeaderReader<R>,
        mut offset: u64,
    ) -> Result<(), PictureFault> {
        let is_animated = u64::from(self.frames) + u64::from(self.has_default_frame) > 1;
        loop {
            let chunk = match PngChunk::read(reader, offset) {
                // Pillow ends here without a word.
                Err(PictureFault::Damaged { .. }) => return Ok(()),
                chunk => chunk?,
            };
            match &chunk.name {
                b"IEND" => return Ok(()),
                b"fcTL" if is_animated => return Ok(()),
                b"eXIf" | b"tEXt" | b"zTXt" | b"iTXt" => self.take(reader, chunk)?,
                _ => {}
            }
            offset = chunk.end;
        }
    }

    /// Takes EXIF or XMP from the content of a text chunk.
    fn take_text(&mut self, name: [u8; 4], content: &[u8]) -> Result<(), String> {
        let Some(end) = memchr::memchr(0, content) else { return Ok(()) };
        let slot = match &content[..end] {
            b"XML:com.adobe.xmp" => &mut self.metadata.xmp,
            b"Raw profile type exif" => &mut self.profile,
            b"exif" if &name == b"tEXt" => &mut self.metadata.exif,
            _ => return Ok(()),
        };
        if let Some(text) = text(name, &content[end + 1..])? {
            *slot = Some(text);
        }
        Ok(())
    }

    /// The metadata. The digits count if there is no other EXIF.
    fn into_metadata<R: Read + Seek>(
        self,
        reader: &HeaderReader<R>,
    ) -> Result<PictureMetadata, PictureFault> {
        let Self { mut metadata, profile, .. } = self;
        if metadata.exif.is_none()
            && let Some(profile) = profile
        {
            let exif = hexadecimal(&profile);
            metadata.exif =
                Some(exif.ok_or_else(|| reader.damaged("EXIF not of hexadecimal digits"))?);
        }
        Ok(metadata)
    }
}

/// The size in the header, which must also tell a known kind of pixels.
fn header_size(header: &[u8]) -> Result<Size, String> {
    let [w0, w1, w2, w3, h0, h1, h2, h3, bits, color, _, filter, _, ..] = *header else {
        return Err(format!("a header of {} bytes", header.len()));
    };
    let is_known = matches!((color, bits), (0 | 3, 1 | 2 | 4 | 8) | (0 | 2 | 4 | 6, 8 | 16));
    if !is_known || filter != 0 {
        return Err(format!("colours of kind {color} with {bits} bits, filter {filter}"));
    }
    let side = u32::from_be_bytes;
    Ok(Size { width: side([w0, w1, w2, w3]), height: side([h0, h1, h2, h3]) })
}

/// The text after the keyword of a chunk, unpacked. `None` if Pillow passes over it.
fn text(name: [u8; 4], rest: &[u8]) -> Result<Option<Vec<u8>>, String> {
    match (&name, rest) {
        (b"tEXt", text) => Ok(Some(text.to_vec())),
        (b"zTXt", [0, packed @ ..]) => Ok(Some(unpack(packed)?.unwrap_or_default())),
        (b"zTXt", [method, ..]) => Err(format!("text of compression {method}")),
        (b"iTXt", [is_packed, method, rest @ ..]) => {
            // The language and the translated keyword come before the text.
            match (rest.splitn(3, |&byte| byte == 0).nth(2), is_packed, method) {
                (Some(text), 0, _) => Ok(Some(text.to_vec())),
                (Some(packed), _, 0) => unpack(packed),
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Unpacks a text. `None` if it is damaged; if it is cut, the part before.
fn unpack(packed: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut text = Vec::new();
    match ZlibDecoder::new(packed).take(LONGEST_TEXT + 1).read_to_end(&mut text) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Ok(None),
        _ => {}
    }
    if text.len() as u64 > LONGEST_TEXT {
        return Err("more than 1 MiB of compressed text".to_owned());
    }
    Ok(Some(text))
}

/// The bytes that a profile gives in digits. Its first three lines are a blank one, a name and a length.
fn hexadecimal(profile: &[u8]) -> Option<Vec<u8>> {
    let lines = profile.split(|&byte| byte == b'\n').skip(3);
    let digits: Vec<u8> =
        lines.flatten().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let value =
        |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_chunks();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(value(high)? << 4 | value(low)?)).collect()
}

/// A named part of the file.
#[derive(Clone, Copy, Debug)]
struct PngChunk {
    name: [u8; 4],
    start: u64,
    length: u64,
    /// The offset of the next chunk, after the checksum.
    end: u64,
}

impl PngChunk {
    /// Reads the header of the chunk at `offset`.
    fn read<R: Read + Seek>(
        reader: &mut HeaderReader<R>,
        offset: u64,
    ) -> Result<Self, PictureFault> {
        let [l0, l1, l2, l3, name @ ..]: [u8; 8] = reader.array(offset)?;
        if !name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(reader.damaged(format!("a chunk named `{}`", name.escape_ascii())));
        }
        let length = u64::from(u32::from_be_bytes([l0, l1, l2, l3]));
        let start = offset + 8;
        Ok(Self { name, start, length, end: start + length + 4 })
    }

    /// The content, after its checksum was verified.
    fn checked<R: Read + Seek>(self, reader: &mut HeaderReader<R>) -> Result<&[u8], PictureFault> {
        let stated = reader.array(self.start.saturating_add(self.length))?;
        let mut crc = Crc::new();
        crc.update(&self.name);
        crc.update(reader.bytes(self.start, self.length)?);
        if crc.sum() != u32::from_be_bytes(stated) {
            let name = self.name.escape_ascii();
            return Err(reader.damaged(format!("a wrong checksum of the chunk `{name}`")));
        }
        reader.bytes(self.start, self.length)
    }
}
