//! The [`IpcMessage`]s of an Arrow IPC stream or file. Each is checked against the bytes that exist.

use std::io::{self, Read};

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::ipc::{self, CompressionType, MessageHeader, RecordBatch, root_as_message};

use super::damage::IpcDamage;
use crate::source::formats::row_reader::short_message;

/// The mark before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes that are read of a compressed file before memory is reserved for more: the length in a message may
/// be wrong.
const STEP: usize = 16 << 20;

/// The largest believed ratio of a buffer's length to its compressed bytes. LZ4 reaches no more.
const EXPANSION: usize = 255;

/// Lengths up to this many bytes are always believed: reserving them does no harm.
const BELIEVED: usize = 64 << 20;

/// Bytes of the length before a compressed buffer.
const PREFIX: usize = 8;

/// A message with its body.
pub(super) struct IpcMessage {
    /// The message itself, verified.
    metadata: Vec<u8>,
    pub(super) body: Buffer,
}

/// The next thing in a stream.
pub(super) enum NextMessage {
    Message(IpcMessage),
    /// The end of a stream. Another stream may follow.
    End,
}

/// The messages of a stream.
pub(super) struct MessageReader<R> {
    input: R,
    /// The remaining bytes, where they are known.
    left: Option<u64>,
    /// True if a stream ended and no other followed.
    ended: bool,
    /// The offset of the next byte in the file.
    at: u64,
}

impl<R: Read> MessageReader<R> {
    /// The messages of `input`, from offset `at` of the file on, with `left` bytes if that is known.
    pub(super) fn new(input: R, left: Option<u64>, at: u64) -> Self {
        Self { input, left, ended: false, at }
    }

    pub(super) fn input_mut(&mut self) -> &mut R {
        &mut self.input
    }

    /// The offset of the next byte in the file.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next message; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<NextMessage>, IpcDamage> {
        let behind_end = std::mem::replace(&mut self.ended, false);
        let at = self.at;
        let mut start = Vec::new();
        self.append(&mut start, CONTINUATION.len())?;
        if start.is_empty() {
            return Ok(None);
        }
        if behind_end && start != CONTINUATION {
            return Err(format!("what follows the end of a stream, at byte {at}, is no stream"));
        }
        // Streams written before 2019 have no mark before the length.
        if start == CONTINUATION {
            start.clear();
            self.append(&mut start, CONTINUATION.len())?;
        }
        let length = <[u8; 4]>::try_from(start).map_err(|_| broken_off(at))?;
        let length = usize::try_from(i32::from_le_bytes(length))
            .map_err(|_| format!("the message at byte {at} has a length below zero"))?;
        if length == 0 {
            self.ended = true;
            return Ok(Some(NextMessage::End));
        }
        let mut metadata = Vec::new();
        self.append(&mut metadata, length)?;
        if metadata.len() < length {
            return Err(broken_off(at));
        }
        let header = root_as_message(&metadata).map_err(|error| {
            format!("the message at byte {at} is none: {}", short_message(error))
        })?;
        let length = usize::try_from(header.bodyLength())
            .map_err(|_| format!("the message at byte {at} has a body of a length below zero"))?;
        let body = self.body(length)?.ok_or_else(|| broken_off(at))?;
        let message = IpcMessage { metadata, body };
        message.check().map_err(|reason| format!("the message at byte {at} is wrong: {reason}"))?;
        Ok(Some(NextMessage::Message(message)))
    }

    /// The body of a message; `None` where the file is too short for it.
    fn body(&mut self, length: usize) -> Result<Option<Buffer>, IpcDamage> {
        if self.left.is_some_and(|left| left < length as u64) {
            return Ok(None);
        }
        let step = if self.left.is_some() { length } else { STEP };
        let mut body = MutableBuffer::new(step.min(length));
        while body.len() < length {
            let before = body.len();
            let wanted = step.min(length - before);
            body.resize(before + wanted, 0);
            if self.fill(&mut body.as_slice_mut()[before..])? < wanted {
                return Ok(None);
            }
        }
        Ok(Some(body.into()))
    }

    /// Appends `wanted` bytes; fewer only at the end.
    fn append(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), IpcDamage> {
        let known = self.left.map_or(wanted as u64, |left| left.min(wanted as u64));
        let read = self.input.by_ref().take(known).read_to_end(bytes).map_err(short_message)?;
        self.count(read);
        Ok(())
    }

    /// Fills `bytes`, and returns the number of bytes read.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, IpcDamage> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(short_message(error)),
            }
        }
        self.count(filled);
        Ok(filled)
    }

    fn count(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.left = self.left.map(|left| left.saturating_sub(bytes as u64));
    }
}

fn broken_off(at: u64) -> IpcDamage {
    format!("the file ends within the message at byte {at}")
}

impl IpcMessage {
    pub(super) fn header(&self) -> Result<ipc::Message<'_>, IpcDamage> {
        root_as_message(&self.metadata).map_err(short_message)
    }

    pub(super) fn is_schema(&self) -> bool {
        self.header().is_ok_and(|header| header.header_type() == MessageHeader::Schema)
    }

    /// Checks all lengths and offsets that a decoder relies on.
    fn check(&self) -> Result<(), IpcDamage> {
        let header = self.header()?;
        let rows = match header.header_type() {
            MessageHeader::RecordBatch => header.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                header.header_as_dictionary_batch().and_then(|batch| batch.data())
            }
            _ => return Ok(()),
        };
        self.check_rows(&rows.ok_or("it holds nothing")?)
    }

    fn check_rows(&self, rows: &RecordBatch<'_>) -> Result<(), IpcDamage> {
        if rows.length() < 0 {
            return Err("it has a number of rows below zero".to_owned());
        }
        for node in rows.nodes().into_iter().flatten() {
            if node.length() < 0 || !(0..=node.length()).contains(&node.null_count()) {
                return Err(format!(
                    "a column has {} values, {} of them null",
                    node.length(),
                    node.null_count()
                ));
            }
        }
        let codec = rows.compression().map(|compression| compression.codec());
        for buffer in rows.buffers().into_iter().flatten() {
            let start = usize::try_from(buffer.offset()).ok();
            let length = usize::try_from(buffer.length()).ok();
            let range = start
                .zip(length)
                .and_then(|(start, length)| self.body.get(start..start.checked_add(length)?));
            let Some(bytes) = range else {
                return Err(format!(
                    "a buffer of {} bytes at byte {} is not within the {} bytes of its body",
                    buffer.length(),
                    buffer.offset(),
                    self.body.len()
                ));
            };
            if let Some(codec) = codec.filter(|_| !bytes.is_empty()) {
                check_expansion(bytes, codec)?;
            }
        }
        Ok(())
    }
}

/// Fails if a compressed buffer cannot have the length that it states: a decoder reserves memory for it.
fn check_expansion(bytes: &[u8], codec: CompressionType) -> Result<(), IpcDamage> {
    let Some((prefix, compressed)) = bytes.split_first_chunk::<PREFIX>() else {
        return Err("a compressed buffer has no length before it".to_owned());
    };
    let stated = i64::from_le_bytes(*prefix);
    // A negative length means that the buffer is not compressed.
    let Ok(length) = usize::try_from(stated) else { return Ok(()) };
    let believed = compressed.len().saturating_mul(EXPANSION).max(BELIEVED);
    if length <= believed || codec == CompressionType::ZSTD && expands_to(compressed, length) {
        return Ok(());
    }
    Err(format!("{} compressed bytes say that they are {length}", compressed.len()))
}

/// True if the bytes can decompress to this length.
fn expands_to(compressed: &[u8], length: usize) -> bool {
    let decoded = zstd::stream::read::Decoder::with_buffer(compressed)
        .and_then(|decoder| io::copy(&mut decoder.take(length as u64 + 1), &mut io::sink()));
    decoded.is_ok_and(|decoded| decoded == length as u64)
}
