//! [`Value`]: a value that a template computes with, as Python has it. It borrows from the record and the
//! template wherever it can.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;
use num_bigint::BigInt;

use super::key::Key;
use super::texts::text::{Computed, Text};
use crate::json::{Json, Map};
use crate::language::methods::{DictView, Method};
use crate::language::tree::{Literal, LoopTest, Macro};
use crate::render_limits::{HeldMemory, MAX_NESTING};

/// Keys of an object up to which they are compared one after the other.
const FEW: usize = 8;

/// Values within a computed value, how deep they nest, and the memory that they hold.
pub(crate) struct Nested<T> {
    items: T,
    depth: usize,
    _held: HeldMemory,
}

impl<T> Nested<T> {
    fn around(items: T, depth: usize, held: HeldMemory) -> Rc<Self> {
        Rc::new(Self { items, depth: depth + 1, _held: held })
    }
}

impl<T> Deref for Nested<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.items
    }
}

fn deepest<'a, 'r: 'a>(values: impl IntoIterator<Item = &'a Value<'r>>) -> usize {
    values.into_iter().map(Value::depth).max().unwrap_or(0)
}

/// A list, of the record or computed. Templates cannot change it.
#[derive(Clone)]
pub(crate) enum List<'r> {
    /// A list of the record.
    Data(&'r [Json]),
    /// A list that was computed.
    Computed(Rc<Nested<Vec<Value<'r>>>>),
}

impl<'r> List<'r> {
    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data(items) => items.len(),
            Self::Computed(items) => items.len(),
        }
    }

    /// The item at `index`.
    pub(crate) fn get(&self, index: usize) -> Option<Value<'r>> {
        match self {
            Self::Data(items) => items.get(index).map(Value::from_json),
            Self::Computed(items) => items.get(index).cloned(),
        }
    }

    /// All items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'r>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// A dict, of the record or computed. Templates cannot change it.
#[derive(Clone)]
pub(crate) enum Dict<'r> {
    /// An object of the record.
    Data(&'r Map),
    /// A dict that was computed.
    Computed(Rc<Nested<IndexMap<Key<'r>, Value<'r>>>>),
}

impl<'r> Dict<'r> {
    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data(map) => map.len(),
            Self::Computed(map) => map.len(),
        }
    }

    /// The value of the string `key`.
    pub(crate) fn get(&self, key: &str) -> Option<Value<'r>> {
        match self {
            // To look at a few keys takes less than to hash one.
            Self::Data(map) if map.len() <= FEW => {
                let found = map.iter().find(|(known, _)| ***known == *key);
                found.map(|(_, value)| Value::from_json(value))
            }
            Self::Data(map) => map.get(key).map(Value::from_json),
            Self::Computed(map) => map.get(key).cloned(),
        }
    }

    /// The value of `key`. The keys of the record are strings.
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Value<'r>> {
        match (key, self) {
            (Key::Text(text), _) => self.get(text),
            (_, Self::Data(_)) => None,
            (other, Self::Computed(map)) => {
                other.without_text().and_then(|key| map.get(&key).cloned())
            }
        }
    }

    /// The key and value at a place.
    pub(crate) fn entry(&self, index: usize) -> Option<(Key<'r>, Value<'r>)> {
        match self {
            Self::Data(map) => map
                .get_index(index)
                .map(|(key, value)| (Key::Text(Text::Borrowed(key)), Value::from_json(value))),
            Self::Computed(map) => {
                map.get_index(index).map(|(key, value)| (key.clone(), value.clone()))
            }
        }
    }

    /// All keys and values, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key<'r>, Value<'r>)> + '_ {
        (0..self.len()).filter_map(|index| self.entry(index))
    }
}

/// An integer of more than 64 bits.
#[derive(Clone)]
pub(crate) enum BigInteger<'r> {
    /// A number of the record.
    Data(&'r BigInt),
    /// A number that was computed.
    Computed(Rc<Computed<BigInt>>),
}

impl Deref for BigInteger<'_> {
    type Target = BigInt;

    fn deref(&self) -> &BigInt {
        match self {
            Self::Data(number) => number,
            Self::Computed(number) => number,
        }
    }
}

/// A function that every template can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GlobalFunction {
    /// `raise_exception(message)`
    RaiseException,
    /// `strftime_now(format)`
    StrftimeNow,
    /// `namespace(…)`
    Namespace,
    /// `range(…)`
    Range,
    /// `dict(…)`
    Dict,
    /// A function that is not supported.
    Unsupported(&'static str),
}

/// A value that a template computes with, as Python has it.
///
/// Its tag takes a whole word, so that values are moved word by word. With a tag of one byte, values were put
/// together from parts of words, which the processor waits for: phi3 took 1.9 µs a conversation instead of
/// 1.6, llama3 3.3 instead of 2.6 (2026-11-21, `benches/python/templates/templates.py --only phi3 llama3`).
#[derive(Clone)]
#[repr(u64)]
pub(crate) enum Value<'r> {
    /// A name or attribute that does not exist. Prints as nothing, is false, has no attributes.
    Undefined,
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// Any other integer.
    Big(BigInteger<'r>),
    /// A float.
    Float(f64),
    /// A string.
    String(Text<'r>),
    /// A string that went through `safe`: prints the same, but Python adds it to others in another way.
    Safe(Text<'r>),
    /// A list.
    List(List<'r>),
    /// A tuple.
    Tuple(Rc<Nested<Vec<Value<'r>>>>),
    /// A dict.
    Dict(Dict<'r>),
    /// `range(start, stop, step)`
    Range(Rc<[i64; 3]>),
    /// A view of a dict.
    View(DictView, Dict<'r>),
    /// A generator that a filter yields. It can be iterated once.
    Generator(Rc<Nested<RefCell<std::vec::IntoIter<Value<'r>>>>>),
    /// A namespace.
    Namespace(Rc<RefCell<IndexMap<Box<str>, Value<'r>>>>),
    /// A method and its value.
    Method(Method, Rc<Value<'r>>),
    /// A method that exists in Python but is not supported.
    UnknownMethod(&'r str),
    /// A function.
    Function(GlobalFunction),
    /// A macro.
    Macro(&'r Macro),
    /// `caller`, in a macro that a `call` block runs.
    Caller(Rc<CallBody<'r>>),
    /// The `loop` of a loop.
    Loop(Rc<Loop<'r>>),
}

/// The body of a `call` block, and where its variables are.
pub(crate) struct CallBody<'r> {
    pub(crate) body: &'r Macro,
    /// Index of the first variable of the macro that the block is in.
    pub(crate) base: usize,
    /// The call of that macro, if the block is in one.
    pub(crate) frame: Option<usize>,
}

/// An iteration over a value, and its position.
pub(crate) struct Items<'r> {
    pub(crate) source: Value<'r>,
    pub(crate) at: Cell<usize>,
}

/// The state of a loop, as `loop` shows it.
pub(crate) struct Loop<'r> {
    pub(crate) items: Items<'r>,
    pub(crate) source: Value<'r>,
    pub(crate) test: Option<&'r LoopTest>,
    /// True if it treats all characters of its source text alike.
    pub(crate) is_uniform: bool,
    pub(crate) state: RefCell<Iteration<'r>>,
}

/// The item after the current one, if the loop has looked at it.
#[derive(Clone, Default)]
pub(crate) enum Peeked<'r> {
    #[default]
    No,
    End,
    Item(Value<'r>),
}

/// The current turn of a loop.
#[derive(Default)]
pub(crate) struct Iteration<'r> {
    pub(crate) index: usize,
    pub(crate) length: Option<usize>,
    pub(crate) before: Option<Value<'r>>,
    pub(crate) current: Option<Value<'r>>,
    /// The item after the current one.
    pub(crate) after: Peeked<'r>,
    /// Items that were fetched to count them.
    pub(crate) ahead: VecDeque<Value<'r>>,
    /// The memory that these hold.
    pub(crate) held: HeldMemory,
}

impl<'r> Value<'r> {
    /// A value of the record.
    pub(crate) fn from_json(value: &'r Json) -> Self {
        match value {
            Json::Null => Self::None,
            Json::Bool(value) => Self::Bool(*value),
            Json::Int(value) => Self::Int(*value),
            Json::BigInt(value) => Self::Big(BigInteger::Data(value)),
            Json::Float(value) => Self::Float(*value),
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::List(items) => Self::List(List::Data(items)),
            Json::Map(map) => Self::Dict(Dict::Data(map)),
        }
    }

    /// A literal of the template.
    pub(crate) fn from_literal(literal: &'r Literal) -> Self {
        match literal {
            Literal::None => Self::None,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Float(value) => Self::Float(*value),
            Literal::String(text) => Self::String(Text::Borrowed(text)),
        }
    }

    /// The value as JSON. `None` for values that are not JSON, for safe strings, and for integers of more
    /// than 64 bits.
    pub(crate) fn to_json(&self) -> Option<Json> {
        Some(match self {
            Self::None => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::Int(*value),
            Self::Float(value) => Json::Float(*value),
            Self::String(text) => Json::String(Arc::from(&**text)),
            Self::List(items) => {
                let items = items.iter().map(|item| item.to_json());
                Json::List(Arc::new(items.collect::<Option<_>>()?))
            }
            Self::Dict(dict) => {
                let entries = dict
                    .iter()
                    .map(|(key, value)| Some((Arc::from(&**key.as_text()?), value.to_json()?)));
                Json::Map(Arc::new(entries.collect::<Option<_>>()?))
            }
            _ => return None,
        })
    }

    /// An integer of any size, which holds this memory.
    pub(crate) fn big(value: BigInt, held: HeldMemory) -> Self {
        match i64::try_from(&value) {
            Ok(value) => Self::Int(value),
            Err(_) => Self::Big(BigInteger::Computed(Computed::new(value, held))),
        }
    }

    /// A computed list.
    pub(crate) fn list(items: Vec<Self>, held: HeldMemory) -> Self {
        let depth = deepest(&items);
        Self::List(List::Computed(Nested::around(items, depth, held)))
    }

    /// A computed tuple.
    pub(crate) fn tuple(items: Vec<Self>, held: HeldMemory) -> Self {
        let depth = deepest(&items);
        Self::Tuple(Nested::around(items, depth, held))
    }

    /// A computed dict.
    pub(crate) fn dict(items: IndexMap<Key<'r>, Self>, held: HeldMemory) -> Self {
        let depth = deepest(items.values());
        Self::Dict(Dict::Computed(Nested::around(items, depth, held)))
    }

    /// A generator.
    pub(crate) fn generator(items: Vec<Self>, held: HeldMemory) -> Self {
        let depth = deepest(&items);
        Self::Generator(Nested::around(RefCell::new(items.into_iter()), depth, held))
    }

    /// The value, or the remaining items of a generator as a list.
    pub(crate) fn unspent(&self) -> Self {
        match self {
            Self::Generator(items) => {
                Self::list(items.borrow().as_slice().to_vec(), HeldMemory::default())
            }
            other => other.clone(),
        }
    }

    /// The text of a string, marked safe or not.
    pub(crate) fn as_text(&self) -> Option<&Text<'r>> {
        match self {
            Self::String(text) | Self::Safe(text) => Some(text),
            _ => None,
        }
    }

    /// The number of levels of computed values; [`MAX_NESTING`] for a value that could come to contain
    /// itself.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::List(List::Computed(items)) | Self::Tuple(items) => items.depth,
            Self::Dict(Dict::Computed(items)) | Self::View(_, Dict::Computed(items)) => items.depth,
            Self::Generator(items) => items.depth,
            Self::Method(_, receiver) => receiver.depth(),
            Self::Namespace(_) | Self::Loop(_) => MAX_NESTING,
            _ => 0,
        }
    }

    /// An integer or boolean as an integer of 64 bits.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// Python's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Big(_) => "int",
            Self::Float(_) => "float",
            Self::String(_) => "str",
            Self::Safe(_) => "Markup",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Range(_) => "range",
            Self::View(DictView::Keys, _) => "dict_keys",
            Self::View(DictView::Values, _) => "dict_values",
            Self::View(DictView::Items, _) => "dict_items",
            Self::Generator(_) => "generator",
            Self::Namespace(_) => "Namespace",
            Self::Method(..) | Self::UnknownMethod(_) => "method",
            Self::Function(_) => "function",
            Self::Macro(_) | Self::Caller(_) => "Macro",
            Self::Loop(_) => "LoopContext",
        }
    }

    /// True if Python takes it for true.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Undefined | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::String(text) | Self::Safe(text) => !text.is_empty(),
            Self::List(items) => items.len() > 0,
            Self::Tuple(items) => !items.is_empty(),
            Self::Dict(dict) | Self::View(_, dict) => dict.len() > 0,
            Self::Range(range) => range_length(range) > 0,
            Self::Big(_)
            | Self::Generator(_)
            | Self::Namespace(_)
            | Self::Method(..)
            | Self::UnknownMethod(_)
            | Self::Function(_)
            | Self::Macro(_)
            | Self::Caller(_)
            | Self::Loop(_) => true,
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

/// The number of integers in a range.
pub(crate) fn range_length([first, end, step]: &[i64; 3]) -> i64 {
    let span = if *step > 0 { end.saturating_sub(*first) } else { first.saturating_sub(*end) };
    let stride = step.saturating_abs();
    if span <= 0 { 0 } else { (span - 1) / stride + 1 }
}
