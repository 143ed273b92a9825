//! The [documents](TurnDocument) in which trained turns stand as the model sees them.

use std::ops::Range;

use super::stop_tokens::StopTokens;

/// A text in which trained turns stand as the model sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::template) struct TurnDocument {
    /// The text.
    pub(in crate::template) text: String,
    /// The trained turns: the index of the message, and the byte range that is trained. Ascending.
    pub(in crate::template) turns: Vec<(usize, Range<usize>)>,
    /// The indexes of the messages of turns that nothing ends.
    pub(in crate::template) unended: Vec<usize>,
    /// The number of the turn with which it ends.
    pub(in crate::template) last: usize,
}

/// The trained part of one turn, and the text that it stands in.
#[derive(Clone, Debug)]
pub(in crate::template) struct TrainedTurn {
    /// The index of its message.
    pub(super) message: usize,
    /// The text that the model sees before the turn, and the turn.
    pub(super) text: String,
    /// The byte at which the trained part begins. It ends with the text.
    pub(super) start: usize,
    /// True if the trained part ends with a token at which generation stops.
    pub(super) is_stopped: bool,
}

impl TrainedTurn {
    /// The text that the model sees before the turn, and the turn.
    pub(in crate::template) fn text(&self) -> &str {
        &self.text
    }

    /// True if the model generates something in it.
    pub(in crate::template) fn is_generated(&self) -> bool {
        self.text.len() > self.start
    }
}

/// The fewest documents of these turns: a text that another one continues needs no document of its own.
pub(in crate::template) fn merged(
    turns: &[TrainedTurn],
    whole: &str,
    stops: &StopTokens,
) -> Vec<TurnDocument> {
    let is_continued = |at: usize| {
        let text = &turns[at].text;
        turns.iter().enumerate().any(|(other, turn)| {
            other != at
                && turn.text.starts_with(text.as_str())
                && (turn.text != *text || other < at)
        })
    };
    let ends: Vec<usize> = (0..turns.len()).filter(|at| !is_continued(*at)).collect();
    let last = ends.last().copied();
    let mut documents: Vec<TurnDocument> = ends
        .iter()
        .map(|&at| {
            let end = &turns[at].text;
            let ends_whole = Some(at) == last && whole.starts_with(end.as_str());
            let text = if ends_whole { whole.to_owned() } else { end.clone() };
            TurnDocument { text, last: at, ..TurnDocument::default() }
        })
        .collect();
    for turn in turns {
        let first = ends.iter().position(|&end| turns[end].text.starts_with(turn.text.as_str()));
        let document = &mut documents[first.expect("each turn is an end, or continued by one")];
        document.add(turn, stops);
    }
    documents
}

/// A document for each turn with a trained part: the text up to it, and the text of the model between it and the next
/// message.
pub(in crate::template) fn each(
    turns: &[TrainedTurn],
    whole: &str,
    stops: &StopTokens,
) -> Vec<TurnDocument> {
    let last = turns.len().saturating_sub(1);
    let documents = turns.iter().enumerate().map(|(at, turn)| {
        let rest = whole.strip_prefix(turn.text.as_str());
        let text = match rest {
            Some(_) if at == last => whole.to_owned(),
            Some(rest) if !turn.is_stopped => {
                format!("{}{}", turn.text, &rest[..stops.before_next(rest)])
            }
            _ => turn.text.clone(),
        };
        let mut document = TurnDocument { text, last: at, ..TurnDocument::default() };
        document.add(turn, stops);
        document
    });
    documents.filter(|document| !document.turns.is_empty()).collect()
}

impl TurnDocument {
    /// Trains a turn whose text the document continues.
    fn add(&mut self, turn: &TrainedTurn, stops: &StopTokens) {
        let mut end = turn.text.len();
        if end > turn.start && !turn.is_stopped {
            let next = stops.before_next(&self.text[end..]);
            end += next;
            if next == 0 {
                self.unended.push(turn.message);
            }
        }
        if end > turn.start {
            self.turns.push((turn.message, turn.start..end));
        }
    }
}
