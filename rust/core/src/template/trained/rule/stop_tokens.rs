//! [`StopTokens`]: the tokens at which generation stops.

use std::ops::Range;

use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::trained::turn_markup::learn_markup::learned;

/// The tokens at which generation stops.
#[derive(Clone, Debug)]
pub(in crate::template) struct StopTokens {
    /// The tokens that end a turn.
    own: Vec<String>,
    /// The tokens that end a turn where a template writes them only before the next message.
    next: Vec<String>,
    /// The special tokens with which no turn begins.
    closing: Vec<String>,
}

impl StopTokens {
    /// The stop tokens of the folder's generation config. A folder without one has the end-of-text token, and the end
    /// of turns in the template.
    pub(in crate::template) fn of(template: &ChatTemplate, conversation: &Conversation) -> Self {
        let context = &template.context;
        let turn = learned(template, conversation);
        let headers = turn.iter().flat_map(|turn| &turn.headers);
        let headers: Vec<&String> = headers.collect();
        let is_in_header =
            |token: &&String| headers.iter().any(|header| header.contains(token.as_str()));
        let tokens = context
            .special_contents
            .iter()
            .filter(|token| !token.is_empty() && !is_in_header(token));
        let closing = tokens.cloned().collect();
        if !context.stops.is_empty() {
            return Self { own: context.stops.clone(), next: context.stops.clone(), closing };
        }
        let mut own: Vec<String> = context.special_token("eos_token").into_iter().collect();
        own.extend(turn.iter().flat_map(|turn| turn.ends.stops(context)));
        let next = turn.iter().flat_map(|turn| turn.ends.next_speakers());
        let next = own.iter().chain(next).cloned().collect();
        Self { own, next, closing }
    }

    /// The first of them in a text.
    pub(in crate::template) fn first_in(&self, text: &str) -> Option<Range<usize>> {
        let stops = self.own.iter().filter(|stop| !stop.is_empty());
        let found = stops.filter_map(|stop| text.find(stop.as_str()).map(|at| at..at + stop.len()));
        found.min_by_key(|place| (place.start, usize::MAX - place.end))
    }

    /// Bytes of the token at which generation stops with which a text ends; 0 if it ends with none.
    pub(in crate::template) fn at_end(&self, text: &str) -> usize {
        let stops = self.next.iter().filter(|stop| text.ends_with(stop.as_str()));
        stops.map(String::len).max().unwrap_or(0)
    }

    /// Bytes of the blanks and the token at which generation stops with which the text behind a turn begins; 0 if it
    /// begins with none.
    pub(in crate::template) fn before_next(&self, rest: &str) -> usize {
        token_at_start(&self.next, rest)
    }

    /// True if a text ends with one of them, or with a special token with which no turn begins.
    pub(in crate::template) fn end(&self, text: &str) -> bool {
        let text = text.trim_end();
        let mut stops = [&self.own, &self.next, &self.closing].into_iter().flatten();
        stops.any(|stop| !stop.is_empty() && text.ends_with(stop.as_str()))
    }

    /// The special tokens with which no turn begins.
    pub(in crate::template) fn written_in(&self, rest: &str) -> usize {
        token_at_start(&self.closing, rest)
    }
}

/// Bytes of the blanks and the longest of `tokens` with which a text begins; 0 if it begins with none.
fn token_at_start(tokens: &[String], text: &str) -> usize {
    let begun = text.trim_start();
    let tokens = tokens.iter().filter(|token| !token.is_empty());
    let token = tokens.filter(|token| begun.starts_with(token.as_str())).map(String::len).max();
    token.map_or(0, |length| text.len() - begun.len() + length)
}
