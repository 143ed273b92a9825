//! [`held_picture`]: finds the bytes of a picture in a record again, as the record is read when it is packed.

use std::collections::BTreeMap;

use crate::config::{DocumentKind, Fields, Part, Reading};
use crate::pipeline::documents::shape_recogniser::expectation;
use crate::record::{Fault, MessageForms, Picture, Record, find_shape, object_of, read};
use crate::report::ledger::Reason;
use crate::source::RawContent;
use crate::util::redaction::without_secrets;

/// The bytes of the picture of this `number` in a record's conversation, from 0.
///
/// The record is read by the first of these `readings`, in the JSON of its job's manifest, that finds a conversation; or by the
/// names that conversations usually have; or else by the only field that holds one.
///
/// # Errors
///
/// The fault of a record in which there is no such picture, or no such bytes.
pub fn held_picture(
    raw: RawContent<'_>,
    readings: &[String],
    number: usize,
) -> Result<Vec<u8>, Fault> {
    let parsed = readings.iter().map(|reading| serde_json::from_str(reading));
    let mut known = parsed
        .collect::<Result<Vec<Reading>, _>>()
        .map_err(|error| fault(format!("the manifest has no options of reading: {error}")))?;
    known.push(Reading::default());
    let mut tried = known.iter().filter_map(|reading| pictures(raw, reading));
    let pictures = match tried.next() {
        Some(pictures) => pictures?,
        None => pictures_of_only_field(raw)?,
    };
    match pictures.get(number) {
        Some(Picture::Held(picture)) => picture.bytes().map(|bytes| bytes.to_vec()),
        Some(Picture::File(name)) => {
            Err(fault(format!("its picture {number} is the file `{}`", without_secrets(name))))
        }
        None => Err(fault(format!("it has no picture {number}"))),
    }
}

/// The pictures of a record's conversation; `None` if it has none by this reading.
fn pictures(raw: RawContent<'_>, reading: &Reading) -> Option<Result<Vec<Picture>, Fault>> {
    let expected = expectation(reading, DocumentKind::Texts);
    let shape = find_shape([raw], expected)?.shape;
    let takes = MessageForms { pictures: true, ..MessageForms::ALL };
    match read(raw, Some(&shape), expected, takes) {
        Ok(Record::Conversation(conversation)) => Some(Ok(conversation.pictures)),
        Ok(Record::Pair(pair)) => pair.pictures.map(Ok),
        Ok(_) => None,
        Err(fault) => Some(Err(fault)),
    }
}

/// The pictures of the conversation in the only field that holds one.
fn pictures_of_only_field(raw: RawContent<'_>) -> Result<Vec<Picture>, Fault> {
    let names: Vec<String> = match raw {
        RawContent::Row { batch, .. } => {
            batch.schema_ref().fields().iter().map(|it| it.name().clone()).collect()
        }
        raw => object_of(raw, |_| false)?.keys().map(ToString::to_string).collect(),
    };
    let found = names.into_iter().filter_map(|field| {
        let fields = Fields(BTreeMap::from([(Part::Messages, field)]));
        pictures(raw, &Reading { fields, ..Reading::default() })?.ok()
    });
    let found: Vec<_> = found.collect();
    match <[_; 1]>::try_from(found) {
        Ok([pictures]) => Ok(pictures),
        Err(found) => Err(fault(format!(
            "{} of its fields hold messages; name the packed folder of the row, whose manifest says which field it was",
            found.len()
        ))),
    }
}

fn fault(message: String) -> Fault {
    Fault::new(Reason::Picture, message)
}
