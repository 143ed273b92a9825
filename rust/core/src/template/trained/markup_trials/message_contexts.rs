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

/// Most members of a set that is numbered: sets grow message by message.
const LARGEST_SET: usize = 64;

/// Most contexts that are kept.
const MOST_CONTEXTS: usize = 1 << 17;

/// A note on a message of a conversation with made-up words.
pub(crate) type MessageNote = (Note, usize);

/// A message with the messages around it, by the numbers of their kinds. Messages of one kind differ in their words alone. Messages
/// with the same fields have the same role, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageContext {
    /// The tools and variables of the conversation, the kind of its first message, and the roles and fields of all.
    conversation: u32,
    /// The two messages before it, the message, and the one behind it; 0 where there is none.
    kinds: [u32; 4],
    /// The kinds of the messages of users before it, and behind it.
    users: [u32; 2],
    /// The roles and fields of the messages between it and the messages of users that are nearest, before it and behind it.
    block: [u32; 2],
    /// True if there are several users' messages before it.
    is_behind_users: bool,
    /// True if it is the last message of the assistant.
    is_last_answer: bool,
}

/// The result of trials for one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContextFact<T> {
    /// One result in all trials.
    Same(T),
    /// Different results, which decide nothing.
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

/// A message, by the numbers of its kind and its shape.
struct DescribedMessage {
    kind: u32,
    shape: u32,
    is_of_user: bool,
}

/// The messages on one side of a message.
#[derive(Clone, Copy)]
struct SurroundingMessages {
    /// The number of the set of the users' messages, by kind.
    users: u32,
    /// The number of the set of the messages up to the nearest of a user, by shape.
    block: u32,
    /// The number of users' messages.
    count: usize,
}

/// The contexts of conversations that were tried, of one template.
#[derive(Debug, Default)]
pub(crate) struct KnownContexts {
    /// The numbers of kinds, of shapes, and of sets of them, by the hashes of their keys.
    numbers: HashMap<[u8; blake3::OUT_LEN], u32>,
    /// True if the cheaper search finds the turn of a message.
    trusted: HashMap<MessageContext, ContextFact<bool>>,
    /// The notes on a message, one bit each, by the options that they depend on.
    notes: HashMap<(MessageContext, [u8; 2]), ContextFact<u16>>,
}

impl KnownContexts {
    /// The number of a key, from 1; `None` if too many have one.
    fn number(&mut self, key: &[u8]) -> Option<u32> {
        let hash = *blake3::hash(key).as_bytes();
        if let Some(known) = self.numbers.get(&hash) {
            return Some(*known);
        }
        let number = u32::try_from(self.numbers.len() + 1).ok();
        let number = number.filter(|_| self.numbers.len() < MOST_KINDS)?;
        self.numbers.insert(hash, number);
        Some(number)
    }

    /// The number of a set; `None` if it is too large.
    fn number_of_set(&mut self, set: &BTreeSet<u32>) -> Option<u32> {
        if set.len() > LARGEST_SET {
            return None;
        }
        let key = std::iter::once(b's').chain(set.iter().flat_map(|number| number.to_le_bytes()));
        self.number(&key.collect::<Vec<u8>>())
    }

    /// The context of each message of a conversation with made-up words, whose tools and variables have the key `around`. `None` if there
    /// are too many kinds of messages.
    pub(super) fn number_all(
        &mut self,
        around: &[u8],
        messages: &[Arc<Map>],
    ) -> Option<Vec<MessageContext>> {
        let mut described = Vec::with_capacity(messages.len());
        for message in messages {
            described.push(DescribedMessage {
                kind: self.number(&kind(message))?,
                shape: self.number(&shape(message))?,
                is_of_user: is_of_user(message),
            });
        }
        let shapes = described.iter().map(|message| message.shape).collect();
        let mut conversation = around.to_vec();
        conversation.extend(described.first().map_or(0, |first| first.kind).to_le_bytes());
        conversation.extend(self.number_of_set(&shapes)?.to_le_bytes());
        let conversation = self.number(&conversation)?;
        let before = self.surroundings(described.iter())?;
        let mut behind = self.surroundings(described.iter().rev())?;
        behind.reverse();
        let last = messages.iter().rposition(|message| is_assistant(message));
        let kind = |at: Option<usize>| at.and_then(|at| described.get(at)).map_or(0, |it| it.kind);
        let contexts = before.iter().zip(&behind).enumerate().map(|(at, (before, behind))| {
            let near = [at.checked_sub(2), at.checked_sub(1), Some(at), Some(at + 1)];
            MessageContext {
                conversation,
                kinds: near.map(kind),
                users: [before.users, behind.users],
                block: [before.block, behind.block],
                is_behind_users: before.count > 1,
                is_last_answer: last == Some(at),
            }
        });
        Some(contexts.collect())
    }

    /// The messages in front of each message, in the order that is given.
    fn surroundings<'m>(
        &mut self,
        messages: impl Iterator<Item = &'m DescribedMessage>,
    ) -> Option<Vec<SurroundingMessages>> {
        let (mut users, mut block) = (BTreeSet::new(), BTreeSet::new());
        let nothing = self.number_of_set(&users)?;
        let mut now = SurroundingMessages { users: nothing, block: nothing, count: 0 };
        let mut all = Vec::new();
        for message in messages {
            all.push(now);
            if message.is_of_user {
                block.clear();
                (now.block, now.count) = (nothing, now.count + 1);
                if users.insert(message.kind) {
                    now.users = self.number_of_set(&users)?;
                }
            } else if block.insert(message.shape) {
                now.block = self.number_of_set(&block)?;
            }
        }
        Some(all)
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

    /// Stores the result of a trial: the cheaper search misses exactly the turns of the messages in `missed`.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(role: &str, key: &str, text: &str) -> Arc<Map> {
        let entries = [("role", role), (key, text)];
        let entries = entries.map(|(key, text)| (Arc::from(key), Json::String(text.into())));
        Arc::new(entries.into_iter().collect())
    }

    /// All that a context tells, looked up for one message alone.
    fn described(messages: &[Arc<Map>], at: usize) -> impl PartialEq + use<> {
        let kinds = |range: &mut dyn Iterator<Item = usize>| -> BTreeSet<Vec<u8>> {
            range.filter(|at| is_of_user(&messages[*at])).map(|at| kind(&messages[at])).collect()
        };
        let block = |range: &mut dyn Iterator<Item = usize>| -> BTreeSet<Vec<u8>> {
            range
                .take_while(|at| !is_of_user(&messages[*at]))
                .map(|at| shape(&messages[at]))
                .collect()
        };
        let near = [at.checked_sub(2), at.checked_sub(1), Some(at), Some(at + 1)];
        let near = near.map(|at| at.and_then(|at| messages.get(at)).map(|it| kind(it)));
        let behind = || at + 1..messages.len();
        let shapes: BTreeSet<Vec<u8>> = messages.iter().map(|it| shape(it)).collect();
        (
            (kind(&messages[0]), shapes, near),
            (kinds(&mut (0..at)), kinds(&mut behind())),
            (block(&mut (0..at).rev()), block(&mut behind())),
            (0..at).filter(|at| is_of_user(&messages[*at])).count() > 1,
            messages.iter().rposition(|it| is_assistant(it)) == Some(at),
        )
    }

    proptest! {
        #[test]
        fn contexts_are_the_same_where_all_that_they_tell_is(
            drawn in prop::collection::vec((0..3_usize, 0..2_usize, 0..2_usize), 1..12)
        ) {
            let messages: Vec<Arc<Map>> = drawn
                .into_iter()
                .map(|(role, key, text)| {
                    message(["user", "assistant", "tool"][role], ["content", "other"][key], ["a", "b"][text])
                })
                .collect();
            let contexts = KnownContexts::default().number_all(b"", &messages);
            let contexts = contexts.expect("few kinds");
            for one in 0..messages.len() {
                for other in 0..messages.len() {
                    let is_same = described(&messages, one) == described(&messages, other);
                    prop_assert_eq!(contexts[one] == contexts[other], is_same, "{} and {}", one, other);
                }
            }
        }
    }

    #[test]
    fn conversations_of_many_kinds_of_questions_have_no_contexts() {
        let all = (0..100_000).map(|number: u32| message("user", "content", &number.to_string()));
        let all: Vec<Arc<Map>> = all.collect();
        assert!(KnownContexts::default().number_all(b"", &all).is_none());
        let alike: Vec<Arc<Map>> = (0..100_000).map(|_| message("tool", "content", "a")).collect();
        assert_eq!(
            KnownContexts::default().number_all(b"", &alike).map(|it| it.len()),
            Some(100_000)
        );
    }
}
