//! [`PictureMetadata`], what a picture says of its orientation.

use std::io::Cursor;

use memchr::memmem;

use crate::{
    PictureFault,
    reader::HeaderReader,
    tiff_directory::{TagValue, TiffDirectory},
};

/// The EXIF and XMP of a picture, as they stand in the file.
#[derive(Debug, Default)]
pub(crate) struct PictureMetadata {
    pub(crate) exif: Option<Vec<u8>>,
    pub(crate) xmp: Option<Vec<u8>>,
}

impl PictureMetadata {
    /// True if the picture is to be shown on its side. EXIF decides if it has the tag, whatever its value; else XMP.
    pub(crate) fn is_turned(&self) -> Result<bool, PictureFault> {
        let orientation = match &self.exif {
            Some(exif) => exif_orientation(exif)?,
            None => None,
        };
        Ok(is_turned(orientation, self.xmp.as_deref()))
    }
}

/// True if the orientation of EXIF, or, without one, that of XMP, lays the picture on its side.
pub(crate) fn is_turned(exif: Option<TagValue>, xmp: Option<&[u8]>) -> bool {
    let orientation = exif.or_else(|| xmp.and_then(xmp_orientation));
    matches!(orientation, Some(TagValue::Integer(5..=8)))
}

/// The orientation of EXIF. The marks before the TIFF header are left out as Pillow does: some writers put two.
fn exif_orientation(exif: &[u8]) -> Result<Option<TagValue>, PictureFault> {
    const MARK: &[u8] = b"Exif\0\0";
    let tiff = exif.strip_prefix(MARK).unwrap_or(exif);
    let tiff = tiff.strip_prefix(MARK).unwrap_or(tiff);
    if tiff.is_empty() {
        return Ok(None);
    }
    let mut reader = HeaderReader::new(Cursor::new(tiff), "EXIF")?;
    if let [b'I', b'I', 43, 0, ..] = tiff {
        return Err(reader.damaged("64-bit offsets"));
    }
    Ok(TiffDirectory::read(&mut reader)?.orientation)
}

/// The orientation of XMP: one digit, of an attribute or an element. Pillow searches the text, and does not parse it.
fn xmp_orientation(xmp: &[u8]) -> Option<TagValue> {
    const NAME: &[u8] = b"tiff:Orientation";
    memmem::find_iter(xmp, NAME).find_map(|at| match &xmp[at + NAME.len()..] {
        [b'=', b'"', digit @ b'0'..=b'9', ..] | [b'>', digit @ b'0'..=b'9', ..] => {
            Some(TagValue::Integer(i64::from(digit - b'0')))
        }
        _ => None,
    })
}
