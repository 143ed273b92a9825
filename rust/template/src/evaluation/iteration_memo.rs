//! [`IterationMemo`]: the effects of the iterations of a template's loops over messages, for other renders of the same messages.
//!
//! The messages of a conversation are rendered again and again: up to each turn, with the generation prompt, and with
//! another message in the place of the last one. An iteration of a loop does the same in another render if it is for
//! the same message, and if everything else that it reads has the same value. It reads through its *outer
//! expressions*: expressions that name nothing but variables from outside of the loop, and attributes of `loop`. The
//! values of the record and of such variables never change, and only namespaces can be assigned to from inside of the loop.
//!
//! So an iteration is kept as a path of outer expressions with their values, in the order in which they were evaluated, and
//! its effects: the printed text and the assigned values. To repeat it, the expressions are evaluated along such a path. An
//! iteration that does anything else, such as to use up a generator, is not kept. Calls of macros that no other macro makes are kept
//! in the same way, by their arguments.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use crate::evaluation::flow::{Flow, LeftBehind};
use crate::evaluation::loop_invariants::{LoopInvariants, reads_of};
use crate::json::Map;
use crate::language::tree::{Macro, Slot, Template};
use crate::values::value::{Dict, GlobalFunction, Value};

/// Most bytes of printed texts that are kept for a conversation.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Most objects of a list that is compared.
const MOST_OBJECTS: usize = 256;

/// Iterations that are recorded of a loop, beside some for each object, before any has to be repeated.
const FREE: usize = 64;

/// The iterations of the loops of a template over the messages of one conversation.
#[derive(Debug)]
pub struct IterationMemo<'m> {
    /// The outer expressions of each loop, by its address.
    pub(super) loops: HashMap<LoopSite, LoopInvariants<'m>, RandomState>,
    /// The outer expressions of all macros.
    pub(super) macros: LoopInvariants<'m>,
    /// The messages and other objects of the conversation, which outlive all renders.
    pub(super) objects: HashSet<*const Map, RandomState>,
    pub(super) known: HashMap<MemoKey, MemoNode, RandomState>,
    /// Bytes of the texts that are kept.
    pub(super) bytes: usize,
    /// The iteration that runs.
    pub(super) current: Option<IterationRecording>,
    /// The number of iterations of each loop, or calls of each macro, that were recorded and repeated.
    pub(super) counts: HashMap<LoopSite, IterationCounts, RandomState>,
}

/// The address of a loop or a macro.
pub(super) type LoopSite = usize;

/// The numbers of recorded and of repeated iterations of a loop, or calls of a macro.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IterationCounts {
    pub(super) recorded: usize,
    pub(super) repeated: usize,
}

/// The object of an iteration, or the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum IterationSubject {
    /// The object that a loop is at.
    Object(*const Map),
    /// The arguments of a macro, with the names of those that are given by name.
    Arguments(Box<[(Box<str>, SeenValue)]>),
}

/// The key of the iterations of a loop for an object, or of the calls of a macro with some arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemoKey {
    pub(super) site: LoopSite,
    pub(super) subject: IterationSubject,
}

/// Something from outside of an iteration that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OuterRead {
    /// An outer expression of the loop, by its number.
    Expression(usize),
    /// A variable, when the scope of the iteration or of a macro is entered.
    Slot(Slot),
    /// An input of the template.
    Input(usize),
}

/// The value of a read, or of an assignment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SeenValue {
    Undefined,
    None,
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(Box<str>),
    SafeText(Box<str>),
    /// An object of the conversation.
    Object(*const Map),
    /// A list of such objects.
    Objects(Box<[*const Map]>),
    Macro(*const Macro),
    Function(GlobalFunction),
}

/// The iterations that are known for a message, by what they read.
#[derive(Debug)]
pub(super) enum MemoNode {
    /// Another read, and what follows for each of its values.
    Read(OuterRead, Vec<(SeenValue, MemoNode)>),
    /// The end of an iteration.
    Done(Effects),
}

impl MemoNode {
    /// The path of an iteration.
    fn behind(
        reads: impl DoubleEndedIterator<Item = (OuterRead, SeenValue)>,
        effects: Effects,
    ) -> Self {
        let done = Self::Done(effects);
        reads.rev().fold(done, |node, (read, seen)| Self::Read(read, vec![(seen, node)]))
    }
}

/// The effects of an iteration or a call.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) printed: Box<str>,
    /// The attributes of namespaces that it assigned, with their values at its end.
    pub(super) assigned: Vec<(Slot, Box<str>, SeenValue)>,
    pub(super) flow: Flow,
    pub(super) work: u64,
    pub(super) left: LeftBehind,
}

/// An iteration that runs.
#[derive(Debug)]
pub(super) struct IterationRecording {
    pub(super) key: MemoKey,
    pub(super) reads: Vec<(OuterRead, SeenValue)>,
    pub(super) assigned: Vec<(Slot, Box<str>)>,
    /// The namespaces that it made.
    pub(super) namespaces: Vec<*const ()>,
    /// True if it did something that cannot be repeated.
    pub(super) is_spoiled: bool,
    pub(super) work: u64,
    pub(super) left: LeftBehind,
}

impl<'m> IterationMemo<'m> {
    /// Knows no iteration yet. Only iterations for one of `objects` will be kept. To find the outer expressions of a published
    /// template takes about 1 % of the work for a conversation with tools (callgrind, 2026-11-30).
    pub fn new(template: &'m Template, objects: impl Iterator<Item = &'m Map>) -> Self {
        let (loops, macros) = reads_of(template);
        Self {
            loops,
            macros,
            objects: objects.map(std::ptr::from_ref).collect(),
            known: HashMap::default(),
            bytes: 0,
            current: None,
            counts: HashMap::default(),
        }
    }

    /// The outer expressions of a loop, or of all macros.
    pub(super) fn reads(&self, site: LoopSite) -> &LoopInvariants<'m> {
        self.loops.get(&site).unwrap_or(&self.macros)
    }

    /// True if to record more of a loop or macro would be in vain: what was recorded has rarely been repeated.
    pub(super) fn is_vain(&self, site: LoopSite) -> bool {
        let IterationCounts { recorded, repeated } =
            self.counts.get(&site).copied().unwrap_or_default();
        recorded > FREE + 4 * self.objects.len() && repeated < recorded
    }

    /// A copy of a value, to compare with another render's; `None` for a kind of value that cannot be compared.
    pub(super) fn seen(&self, value: &Value<'_>) -> Option<SeenValue> {
        let known =
            |object: &Map| Some(std::ptr::from_ref(object)).filter(|it| self.objects.contains(it));
        Some(match value {
            Value::Undefined => SeenValue::Undefined,
            Value::None => SeenValue::None,
            Value::Bool(value) => SeenValue::Bool(*value),
            Value::Int(value) => SeenValue::Int(*value),
            Value::Float(value) => SeenValue::Float(value.to_bits()),
            Value::String(text) => SeenValue::Text((**text).into()),
            Value::Safe(text) => SeenValue::SafeText((**text).into()),
            Value::Dict(Dict::Data(object)) => SeenValue::Object(known(object)?),
            Value::List(items) if items.len() <= MOST_OBJECTS => {
                let objects = items.iter().map(|item| match item {
                    Value::Dict(Dict::Data(object)) => known(object),
                    _ => None,
                });
                SeenValue::Objects(objects.collect::<Option<_>>()?)
            }
            Value::Macro(definition) => SeenValue::Macro(std::ptr::from_ref(*definition)),
            Value::Function(function) => SeenValue::Function(*function),
            _ => return None,
        })
    }

    /// True if a value is as one that was seen. Copies no text, unlike [`seen`](Self::seen).
    pub(super) fn is_as(seen: &SeenValue, value: &Value<'_>) -> bool {
        match (seen, value) {
            (SeenValue::Undefined, Value::Undefined) | (SeenValue::None, Value::None) => true,
            (SeenValue::Bool(seen), Value::Bool(value)) => seen == value,
            (SeenValue::Int(seen), Value::Int(value)) => seen == value,
            (SeenValue::Float(seen), Value::Float(value)) => *seen == value.to_bits(),
            (SeenValue::Text(seen), Value::String(text))
            | (SeenValue::SafeText(seen), Value::Safe(text)) => **seen == **text,
            (SeenValue::Object(seen), Value::Dict(Dict::Data(object))) => {
                std::ptr::eq(*seen, *object)
            }
            (SeenValue::Objects(seen), Value::List(items)) => {
                let is_same = |(seen, item): (&*const Map, Value<'_>)| match item {
                    Value::Dict(Dict::Data(object)) => std::ptr::eq(*seen, object),
                    _ => false,
                };
                seen.len() == items.len() && seen.iter().zip(items.iter()).all(is_same)
            }
            (SeenValue::Macro(seen), Value::Macro(definition)) => std::ptr::eq(*seen, *definition),
            (SeenValue::Function(seen), Value::Function(function)) => seen == function,
            _ => false,
        }
    }

    /// Keeps an iteration.
    pub(super) fn keep(&mut self, recording: IterationRecording, effects: Effects) {
        self.bytes += effects.printed.len();
        let mut reads = recording.reads.into_iter();
        let Some(mut node) = self.known.get_mut(&recording.key) else {
            self.known.insert(recording.key, MemoNode::behind(reads, effects));
            return;
        };
        // Iterations that have seen the same so far read the same next.
        while let (MemoNode::Read(known, branches), Some((read, seen))) = (node, reads.next()) {
            if *known != read {
                return;
            }
            let Some(at) = branches.iter().position(|(known, _)| *known == seen) else {
                branches.push((seen, MemoNode::behind(reads, effects)));
                return;
            };
            node = &mut branches[at].1;
        }
    }
}
