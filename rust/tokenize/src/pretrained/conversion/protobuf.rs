//! Reads the fields of a protobuf message, which is how `SentencePiece` writes a model.

/// The most groups that are open at once: the reference's reader takes 100.
const DEEPEST: usize = 100;

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Number(u64),
    /// Four bytes, as they stand in the file.
    Four([u8; 4]),
    Bytes(&'a [u8]),
    /// A field of eight bytes, or a group: no field that is read here is one.
    Other,
}

/// Calls `field` with the number and the content of each field of a message; `None` if it is not a message.
pub(super) fn each<'a>(
    mut bytes: &'a [u8],
    mut field: impl FnMut(u64, Field<'a>) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let (number, kind) = tag(&mut bytes)?;
        let content = content(&mut bytes, number, kind, 0)?;
        field(number, content)?;
    }
    Some(())
}

/// The number of a field, and the kind of its content.
fn tag(bytes: &mut &[u8]) -> Option<(u64, u64)> {
    let tag = varint(bytes).filter(|tag| u32::try_from(*tag).is_ok())?;
    (tag >= 8).then_some((tag >> 3, tag & 7))
}

fn content<'a>(bytes: &mut &'a [u8], number: u64, kind: u64, depth: usize) -> Option<Field<'a>> {
    Some(match kind {
        0 => Field::Number(varint(bytes)?),
        1 => {
            take(bytes, 8)?;
            Field::Other
        }
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Field::Bytes(take(bytes, length)?)
        }
        3 if depth < DEEPEST => loop {
            let (inner, kind) = tag(bytes)?;
            if kind == 4 {
                break (inner == number).then_some(Field::Other)?;
            }
            content(bytes, inner, kind, depth + 1)?;
        },
        5 => Field::Four(take(bytes, 4)?.try_into().ok()?),
        _ => return None,
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// A number in groups of seven bits, the lowest first; at most ten bytes.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
        let mut found = Vec::new();
        each(bytes, |number, field| {
            found.push((number, field));
            Some(())
        })
        .map(|()| found)
    }

    #[test]
    fn fields_of_every_kind_are_read() {
        let message =
            [0x08, 0x96, 0x01, 0x12, 1, b'a', 0x1D, 0, 0, 0x80, 0x3F, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let expected = vec![
            (1, Field::Number(150)),
            (2, Field::Bytes(b"a")),
            (3, Field::Four(1.0_f32.to_le_bytes())),
            (4, Field::Other),
        ];
        assert_eq!(fields(&message), Some(expected));
        assert_eq!(fields(&[0x0B, 0x10, 7, 0x0C]), Some(vec![(1, Field::Other)]));
    }

    #[test]
    fn bytes_that_are_no_message_are_noticed() {
        let broken: [&[u8]; 7] =
            [&[0x08], &[0x12, 5, b'a'], &[0x0C], &[0x0B, 0x14], &[0x00, 1], &[0x0F], &[0xFF; 11]];
        for bytes in broken {
            assert_eq!(fields(bytes), None, "{bytes:?}");
        }
        assert_eq!(fields(&[0x0B; 5000]), None);
    }
}
