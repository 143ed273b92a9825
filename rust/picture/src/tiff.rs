//! The size of a TIFF picture.

use std::io::{Read, Seek};

use crate::{
    PictureFault, Size,
    orientation::is_turned,
    reader::HeaderReader,
    tiff_directory::{TagValue, TiffDirectory},
};

/// Reads the size in the first directory.
pub(crate) fn size<R: Read + Seek>(reader: &mut HeaderReader<R>) -> Result<Size, PictureFault> {
    let directory = TiffDirectory::read(reader)?;
    if directory.is_cut {
        return Err(reader.cut());
    }
    let side = |value: Option<TagValue>| u32::try_from(value?.integer()?).ok();
    let (Some(width), Some(height)) = (side(directory.width), side(directory.height)) else {
        return Err(reader.damaged("no width or height"));
    };
    let upright = Size { width, height };
    let is_turned = is_turned(directory.orientation, directory.xmp.as_deref());
    Ok(if is_turned { upright.turned() } else { upright })
}
