//! [`MessageContext`]: the messages around a message that decide how a template writes it.
//!
//! Conversations of many steps have forms of their own, but few contexts. A conversation all of whose contexts stand in
//! conversations that were tried needs no trial of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use fastpack_template::json::{Json, Map};

use crate::record::write_json;
use crate::report::ledger::Note;
use crate::template::conversation::is_assistant;

/// Most kinds of messages, and of sets of them, that are numbered.
const MOST_KINDS: usize = 1 << 15;

/// Most contexts that are kept.
const MOST_CONTEXTS: usize = 1 << 17;

/// A note on a message of a conversation with made-up words.
pub(crate) type MessageNote = (Note, usize);

/// A message with the messages around it, by the numbers of their kinds. Messages of one kind differ in their words alone; those of
/// one shape have the same role and the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageContext {
    /// The tools and variables of the conversation, the kind of its first message, and the shapes of all.
    conversation: u32,
    /// The two messages before it, the message, and the one behind it; 0 where there is none.
    kinds: [u32; 4],
    /// The kinds of the messages of users before it, and behind it.
    users: [u32; 2],
    /// The shapes of the messages between it and the messages of users that are nearest, before it and behind it.
    block: [u32; 2],
    /// True if there are several users' messages before it, and if it is the last of the assistant.
    is_late: [bool; 2],
}

/// What is known of one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextFact<T> {
    /// The same in all conversations that were tried.
    Same(T),
    /// Not the same in all of them, so it decides nothing.
    Differs,
}

impl<T: Copy + PartialEq> ContextFact<T> {
    fn get(self) -> Option<T> {
        match self {
            Self::Same(fact) => Some(fact),
            Self::Differs => None,
        }
    }
}

/// The contexts of conversations that were tried, of one template.
#[derive(Debug, Default)]
pub(crate) struct KnownContexts {
    /// The numbers of kinds, of shapes, and of sets of them.
    numbers: HashMap<Box<[u8]>, u32>,
    /// True if the cheaper search finds the turn of a message.
    trusted: HashMap<MessageContext, ContextFact<bool>>,
    /// The notes on a message, one bit each, by the options that they depend on.
    notes: HashMap<(MessageContext, [u8; 2]), ContextFact<u16>>,
}

impl KnownContexts {
    /// The number of a key, from 1.
    fn number(&mut self, key: Vec<u8>) -> Option<u32> {
        if let Some(known) = self.numbers.get(&*key) {
            return Some(*known);
        }
        let number = u32::try_from(self.numbers.len() + 1).ok();
        let number = number.filter(|_| self.numbers.len() < MOST_KINDS)?;
        self.numbers.insert(key.into(), number);
        Some(number)
    }

    /// The number of a set.
    fn number_of_set(&mut self, set: &BTreeSet<u32>) -> Option<u32> {
        let key = std::iter::once(b's').chain(set.iter().flat_map(|number| number.to_le_bytes()));
        self.number(key.collect())
    }

    /// The context of each message of a conversation with made-up words, whose tools and variables have the key `around`. `None` if there
    /// are too many kinds of messages.
    pub(super) fn number_all(
        &mut self,
        around: &[u8],
        messages: &[Arc<Map>],
    ) -> Option<Vec<MessageContext>> {
        let (mut kinds, mut shapes) = (Vec::new(), Vec::new());
        for message in messages {
            kinds.push(self.number(kind(message))?);
            shapes.push(self.number(shape(message))?);
        }
        let mut conversation = around.to_vec();
        conversation.extend(kinds.first().into_iter().flat_map(|first| first.to_le_bytes()));
        let all = self.number_of_set(&shapes.iter().copied().collect())?;
        conversation.extend(all.to_le_bytes());
        let conversation = self.number(conversation)?;
        let is_user: Vec<bool> = messages.iter().map(|message| is_of_user(message)).collect();
        let last = messages.iter().rposition(|message| is_assistant(message));
        let users = |range: std::ops::Range<usize>| {
            range.filter(|at| is_user[*at]).map(|at| kinds[at]).collect::<BTreeSet<u32>>()
        };
        let mut contexts = Vec::with_capacity(messages.len());
        for at in 0..messages.len() {
            let behind = at + 1..messages.len();
            let before = (0..at).rev().take_while(|other| !is_user[*other]);
            let in_block = behind.clone().take_while(|other| !is_user[*other]);
            let before = before.map(|other| shapes[other]).collect();
            let in_block = in_block.map(|other| shapes[other]).collect();
            let kind = |number: Option<usize>| number.and_then(|at| kinds.get(at)).copied();
            let around = [at.checked_sub(2), at.checked_sub(1), Some(at), Some(at + 1)];
            contexts.push(MessageContext {
                conversation,
                kinds: around.map(|number| kind(number).unwrap_or(0)),
                users: [self.number_of_set(&users(0..at))?, self.number_of_set(&users(behind))?],
                block: [self.number_of_set(&before)?, self.number_of_set(&in_block)?],
                is_late: [(0..at).filter(|at| is_user[*at]).count() > 1, last == Some(at)],
            });
        }
        Some(contexts)
    }

    /// True if the cheaper search finds the turns of messages in these contexts, or false if it misses one; `None` if that is not known.
    pub(super) fn trusts(&self, contexts: &[MessageContext]) -> Option<bool> {
        let facts = contexts.iter().map(|context| self.trusted.get(context)?.get());
        let mut are_all = true;
        for fact in facts {
            match fact {
                Some(true) => {}
                Some(false) => return Some(false),
                None => are_all = false,
            }
        }
        are_all.then_some(true)
    }

    /// Keeps the result of a trial: the cheaper search misses the turns of the messages in `missed`, and no others.
    pub(super) fn keep_trust(&mut self, contexts: &[MessageContext], missed: &[usize]) {
        for (at, context) in contexts.iter().enumerate() {
            // A trial that misses a turn says nothing of the turns that it does not miss.
            if missed.is_empty() || missed.contains(&at) {
                keep(&mut self.trusted, *context, missed.is_empty());
            }
        }
    }

    /// The notes on messages in these contexts; `None` if one of them has to be tried.
    pub(super) fn notes(
        &self,
        contexts: &[MessageContext],
        options: [u8; 2],
    ) -> Option<Vec<MessageNote>> {
        let mut notes = Vec::new();
        for (at, context) in contexts.iter().enumerate() {
            let held = self.notes.get(&(*context, options))?.get()?;
            let held = Note::WORDS.iter().filter(|(_, note)| held & 1 << *note as u16 != 0);
            notes.extend(held.map(|(_, note)| (*note, at)));
        }
        Some(notes)
    }

    /// Keeps the notes on a conversation that was tried.
    pub(super) fn keep_notes(
        &mut self,
        contexts: &[MessageContext],
        options: [u8; 2],
        notes: &[MessageNote],
    ) {
        for (at, context) in contexts.iter().enumerate() {
            let own = notes.iter().filter(|(_, message)| *message == at);
            let held = own.fold(0, |held, (note, _)| held | 1 << *note as u16);
            keep(&mut self.notes, (*context, options), held);
        }
    }
}

/// Keeps a fact, unless another trial told something else.
fn keep<K: Eq + std::hash::Hash, T: Copy + PartialEq>(
    facts: &mut HashMap<K, ContextFact<T>>,
    key: K,
    fact: T,
) {
    if facts.len() < MOST_CONTEXTS {
        let known = facts.entry(key).or_insert(ContextFact::Same(fact));
        if *known != ContextFact::Same(fact) {
            *known = ContextFact::Differs;
        }
    }
}

fn is_of_user(message: &Map) -> bool {
    matches!(message.get("role"), Some(Json::String(role)) if **role == *"user")
}

/// The key of a message with made-up words.
fn kind(message: &Map) -> Vec<u8> {
    let mut key = vec![b'k'];
    for (name, value) in message {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
        write_json(value, &mut key);
    }
    key
}

/// The key of the role and the fields of a message.
fn shape(message: &Map) -> Vec<u8> {
    let mut key = vec![b'f'];
    for (name, value) in message {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
        match value {
            Json::String(role) if **name == *"role" => key.extend_from_slice(role.as_bytes()),
            Json::Null => key.push(b'n'),
            Json::String(_) => key.push(b't'),
            Json::List(items) if items.is_empty() => key.push(b'0'),
            Json::List(_) => key.push(b'l'),
            Json::Map(_) => key.push(b'm'),
            other => write_json(other, &mut key),
        }
        key.push(0);
    }
    key
}
