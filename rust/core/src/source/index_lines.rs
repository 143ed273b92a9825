//! [`is_index_line`]: tells the index lines in dumps of search indices, which stand before each record and are no records.

/// True if a line is only the index line of the next record, `{"index":{…}}`, as in dumps of search indices.
pub(super) fn is_index_line(line: &[u8]) -> bool {
    let tokens = [b"{".as_slice(), br#""index""#, b":", b"{"];
    let within = tokens.into_iter().try_fold(line.trim_ascii(), |rest, token| {
        rest.strip_prefix(token).map(<[u8]>::trim_ascii_start)
    });
    let Some(inner) = within else { return false };
    let (mut depth, mut quoted, mut escaped) = (1_u32, false, false);
    for (at, byte) in inner.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return inner[at + 1..].trim_ascii() == b"}";
        }
    }
    false
}
