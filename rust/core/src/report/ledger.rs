//! [`Ledger`]: the counts of documents and tokens read, kept, and dropped by reason. They must balance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{MaxLost, PictureSizes};
use crate::error::{Error, Origin, Result, add_place, add_places};
use crate::util::message::counted;
use crate::util::wording::{message, set};

pub use crate::report::count::Count;
pub use crate::report::note_counts::{
    ConversationDocuments, NotedReport, Notes, RecordNotes, SplitConversations,
};
pub use crate::report::note_kinds::{Note, NoteSet};
pub use crate::report::reason::Reason;

/// The most places of bad records in a report.
const PLACES: usize = 10;

/// The reasons for which documents are left out that are not lost.
const UNCOUNTED: [Reason; 3] = [Reason::Filtered, Reason::Empty, Reason::NotDrawn];

/// A record that was left out: its place, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DroppedRecord {
    /// The file and line.
    pub origin: Origin,
    /// The reason under which it is counted.
    pub reason: Reason,
    /// The message of the fault.
    pub message: String,
}

/// Some pictures and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureCount {
    /// The pictures; one that several documents have counts in each.
    pub pictures: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Their pixels.
    #[serde(default)]
    pub pixels: u64,
    /// The pixels of the largest.
    #[serde(default)]
    pub most_pixels: u64,
}

impl PictureCount {
    /// True if there is no picture.
    pub fn is_empty(&self) -> bool {
        self.pictures == 0
    }

    /// Adds other pictures.
    pub(crate) fn merge(&mut self, others: Self) {
        self.pictures += others.pictures;
        self.tokens += others.tokens;
        self.pixels += others.pixels;
        self.most_pixels = self.most_pixels.max(others.most_pixels);
    }
}

impl From<PictureSizes> for PictureCount {
    fn from(sizes: PictureSizes) -> Self {
        let (pictures, tokens) = (u64::from(sizes.pictures), u64::from(sizes.tokens));
        Self { pictures, tokens, ..Self::default() }
    }
}

/// The counts of documents and tokens read, kept, and dropped by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// All documents and tokens that were read.
    pub read: Count,
    /// The documents and tokens in the rows.
    pub kept: Count,
    /// The dropped documents and tokens, by reason.
    pub dropped: BTreeMap<Reason, Count>,
    /// Tokens cut off documents that were kept in part.
    pub truncated: Count,
    /// Pieces of documents that are in a second row too, and their tokens. They count as kept once.
    pub repeated: Count,
    /// Tokens that straddle the boundary of a trained span. They are trained.
    pub straddling: u64,
    /// The pictures of the documents that were read.
    #[serde(default, skip_serializing_if = "PictureCount::is_empty")]
    pub pictures: PictureCount,
    /// The places of the first records that could not be read.
    pub places: Vec<DroppedRecord>,
    /// The first place of each reason for a loss.
    pub firsts: BTreeMap<Reason, Origin>,
    /// The notes on records that are kept.
    #[serde(default, skip_serializing_if = "Notes::is_empty")]
    pub notes: Notes,
}

impl Ledger {
    /// Counts a record that did not become a document.
    pub fn bad_record(&mut self, place: DroppedRecord) {
        self.read.add(0);
        self.dropped.entry(place.reason).or_default().add(0);
        self.note_first(place.reason, place.origin.clone());
        add_place(&mut self.places, place, PLACES);
    }

    /// Counts records that the caller left out before they were read.
    pub fn filtered(&mut self, records: u64) {
        if records > 0 {
            self.read.documents += records;
            self.dropped.entry(Reason::Filtered).or_default().documents += records;
        }
    }

    /// The records that the caller left out.
    pub(crate) fn left_out(&self) -> u64 {
        self.dropped.get(&Reason::Filtered).map_or(0, |count| count.documents)
    }

    /// Counts a document that was read and is in no row.
    pub fn drop_document(&mut self, reason: Reason, tokens: u64, origin: Origin) {
        self.dropped.entry(reason).or_default().add(tokens);
        self.note_first(reason, origin);
    }

    /// Counts the tokens of a part that is in no row. Its document is counted separately, and its place
    /// [noted](Self::note_first).
    pub fn drop_part(&mut self, reason: Reason, tokens: u64) {
        self.dropped.entry(reason).or_default().tokens += tokens;
    }

    /// Counts the tokens that were cut off a document.
    pub fn truncate(&mut self, tokens: u64, origin: Origin) {
        self.truncated.add(tokens);
        self.note_first(Reason::Truncated, origin);
    }

    /// Keeps the first place of a reason.
    pub(crate) fn note_first(&mut self, reason: Reason, origin: Origin) {
        let first = self.firsts.entry(reason).or_insert_with(|| origin.clone());
        if origin < *first {
            *first = origin;
        }
    }

    /// Adds the ledger of another part of the input. Of places, the first by file and line stay.
    pub fn merge(&mut self, later: Self) {
        self.read.merge(later.read);
        self.kept.merge(later.kept);
        self.truncated.merge(later.truncated);
        self.repeated.merge(later.repeated);
        self.straddling += later.straddling;
        self.pictures.merge(later.pictures);
        self.notes.merge(later.notes);
        for (reason, count) in later.dropped {
            self.dropped.entry(reason).or_default().merge(count);
        }
        for (reason, origin) in later.firsts {
            self.note_first(reason, origin);
        }
        add_places(&mut self.places, later.places, PLACES);
    }

    /// Changes every place by `change`, and leaves out those for which it returns false.
    pub(crate) fn origins_mut(&mut self, mut change: impl FnMut(&mut Origin) -> bool) {
        self.firsts.retain(|_, origin| change(origin));
        self.places.retain_mut(|place| change(&mut place.origin));
        let notes = self.notes.all_mut();
        notes.for_each(|noted| noted.places.retain_mut(|place| change(&mut place.origin)));
    }

    /// All dropped documents and tokens.
    pub fn dropped_in_all(&self) -> Count {
        let mut sum = Count::default();
        for count in self.dropped.values() {
            sum.merge(*count);
        }
        sum
    }

    /// Fails with [`Error::Lost`] if more of the documents or of their tokens is lost than `most` allows.
    ///
    /// A record that cannot be read counts among the documents. A token that is cut off a kept document
    /// counts among the tokens. Records that the caller filtered out, empty records, and documents that
    /// no share has drawn do not count.
    /// Without `most`, the run fails only if it reads records and keeps none.
    pub fn check_max_lost(&self, most: Option<MaxLost>) -> Result<()> {
        if most.is_none() && self.kept.documents == 0 && self.read.documents > 0 {
            return Err(self.nothing_kept());
        }
        let dropped = self.dropped.iter().map(|(reason, count)| (reason.name(), *count));
        check_lost(self.read, dropped, self.truncated, most, |reason| self.first(reason))
    }

    /// The reasons for which documents were dropped, with counts and first places.
    fn causes(&self) -> String {
        let causes = self.dropped.iter().map(|(reason, count)| {
            let name = reason.name();
            format!(
                "{name}: {}, {}{}",
                counted(count.documents, "document"),
                counted(count.tokens, "token"),
                self.first(name)
            )
        });
        causes.collect::<Vec<_>>().join("; ")
    }

    /// The remedies for the reasons for which documents were dropped.
    fn remedies(&self) -> Vec<&'static str> {
        let is_length = |it: &Reason| {
            matches!(
                it,
                Reason::TooLong | Reason::Tail | Reason::Truncated | Reason::NoTrainedToken
            )
        };
        let is_choice = |it: &Reason| matches!(it, Reason::Filtered | Reason::NotDrawn);
        let is_of_pictures = |it: &Reason| *it == Reason::TooManyPictures;
        let is_of_record = |it: &Reason| !is_length(it) && !is_choice(it) && !is_of_pictures(it);
        let any = |is: &dyn Fn(&Reason) -> bool| self.dropped.keys().any(is);
        let remedies = [
            (any(&is_length), "take a larger `max_length`"),
            (any(&is_choice), "let `filter` and `select` keep more"),
            (any(&is_of_pictures), "allow more pictures in a row"),
            (any(&is_of_record), "mend the records"),
        ];
        remedies.into_iter().filter(|(helps, _)| *helps).map(|(_, remedy)| remedy).collect()
    }

    /// The error of a source of the caller of which a lane, of so many, has kept none of this many documents in a row.
    pub(crate) fn nothing_of_source(&self, documents: u64, lane: u64, lanes: u64) -> Error {
        let message = format!(
            "none of the last {} that the source gave lane {lane} of {lanes} is kept, and the source may have no end: {}; {}",
            counted(documents, "document"),
            self.causes(),
            self.remedies().join(", or "),
        );
        Error::Lost { lost: self.dropped_in_all(), message: message.into() }
    }

    /// The error of a rank whose lanes, so many, give no row. Others may have documents unless these are `all` lanes.
    pub(crate) fn nothing_in(&self, lanes: usize, all: bool) -> Error {
        let lost = self.dropped_in_all();
        let lanes = counted(lanes as u64, "lane");
        let message = if lost.documents == 0 {
            format!(
                "there is no document in the {lanes} of this rank; take fewer `ranks.lanes`, or name files with records"
            )
        } else {
            let mut remedies = self.remedies();
            remedies.extend((!all).then_some("take fewer `ranks.lanes`"));
            format!(
                "none of {} in the {lanes} of this rank is kept: {}; {}",
                counted(lost.documents, "document"),
                self.causes(),
                remedies.join(", or "),
            )
        };
        Error::Lost { lost, message: message.into() }
    }

    /// The error of a run that keeps no document.
    fn nothing_kept(&self) -> Error {
        let message = message![
            format!(
                "none of {} is kept: {}; ",
                counted(self.read.documents, "document"),
                self.causes(),
            ),
            set("max_lost", "100%"),
            " allows it",
        ];
        Error::Lost { lost: self.dropped_in_all(), message }
    }

    /// The first place of a reason, for the message about a loss.
    fn first(&self, reason: &str) -> String {
        let found = self.firsts.iter().find(|(it, _)| it.name() == reason);
        found.map_or_else(String::new, |(_, origin)| format!(", first at {origin}"))
    }

    /// Fails with [`Error::Unbalanced`] unless the documents and tokens read are those kept and dropped.
    pub fn balance(&self) -> Result<()> {
        let dropped = self.dropped_in_all();
        let documents = self.kept.documents + dropped.documents;
        let tokens = self.kept.tokens + dropped.tokens + self.truncated.tokens;
        if documents == self.read.documents && tokens == self.read.tokens {
            return Ok(());
        }
        Err(Error::Unbalanced(format!(
            "{} documents and {} tokens were read, {documents} and {tokens} are accounted for",
            self.read.documents, self.read.tokens,
        )))
    }
}

/// Fails with [`Error::Lost`] if more of what was `read` is dropped or cut off than `most` allows.
///
/// `first` gives the first place of a reason, for the message.
pub fn check_lost<'a>(
    mut read: Count,
    dropped: impl Iterator<Item = (&'a str, Count)>,
    truncated: Count,
    most: Option<MaxLost>,
    first: impl Fn(&str) -> String,
) -> Result<()> {
    let Some(most) = most else { return Ok(()) };
    let mut lost = Count { documents: 0, tokens: truncated.tokens };
    let mut causes = Vec::new();
    for (reason, count) in dropped {
        if UNCOUNTED.iter().any(|it| it.name() == reason) {
            read.documents -= count.documents;
            read.tokens -= count.tokens;
        } else {
            lost.merge(count);
            causes.push((reason, count));
        }
    }
    let parts = [(lost.documents, read.documents), (lost.tokens, read.tokens)];
    if !parts.iter().any(|&(lost, read)| most.is_exceeded(lost, read)) {
        return Ok(());
    }
    causes.extend(Some((Reason::Truncated.name(), truncated)).filter(|(_, cut)| cut.tokens > 0));
    let causes = causes.into_iter().map(|(reason, Count { documents, tokens })| {
        let (documents, tokens) = (counted(documents, "document"), counted(tokens, "token"));
        format!("{reason}: {documents}, {tokens}{}", first(reason))
    });
    let message = message![
        format!(
            "{} of {} and {} of {} are lost, more than ",
            lost.documents,
            counted(read.documents, "document"),
            lost.tokens,
            counted(read.tokens, "token"),
        ),
        set("max_lost", most.to_string()),
        format!(": {}", causes.collect::<Vec<_>>().join("; ")),
    ];
    Err(Error::Lost { lost, message })
}
