//! [`Trace::look`] and [`Trace::pin`]: the values of a record that are no texts: lookups in them, and guards on them.

use std::rc::Rc;

use super::addresses::{address_of, walk};
use super::run_trace::{LONGEST_WORD, Leaf, Trace};
use crate::json::Json;
use crate::programs::steps::{Guard, KeyOrIndex, ProgramStep, ValueKind};
use crate::values::value::Value;

impl<'r> Trace<'r> {
    /// The number of a list or an object of the record.
    pub(super) fn node(&self, value: &Value<'r>) -> Option<usize> {
        self.containers.get(&address_of(value)?).copied()
    }

    /// Records the lookup of a place in a value of the record.
    pub(super) fn look(&mut self, of: usize, at: KeyOrIndex) {
        let there = match (self.nodes[of], &at) {
            (Json::Map(map), KeyOrIndex::Key(key)) => map.get(&**key),
            (Json::List(items), KeyOrIndex::Index(index)) => items.get(*index),
            _ => None,
        };
        let found = ValueKind::of(there);
        let is_node = found.is_node();
        let step = ProgramStep::Look { of, at, found };
        self.looks_at(self.steps.len());
        if self.steps.contains(&step) {
            return;
        }
        self.steps.push(step);
        if let Some(value) = there.filter(|_| is_node) {
            self.push_node(value);
        }
    }

    /// Adds a guard on the keys, or the number of items, of a value of the record. With `values`, also
    /// records the lookup of each of them.
    pub(super) fn look_at_all(&mut self, of: usize, values: bool) {
        match self.nodes[of] {
            Json::List(items) => {
                self.add_guard(Guard::Items(of, items.len()), true);
                if values {
                    (0..items.len()).for_each(|index| self.look(of, KeyOrIndex::Index(index)));
                }
            }
            Json::Map(map) => {
                let keys: Rc<[Rc<str>]> = map.keys().map(|key| Rc::from(&**key)).collect();
                self.add_guard(Guard::Keys(of, Rc::clone(&keys)), true);
                if values {
                    keys.iter().for_each(|key| self.look(of, KeyOrIndex::Key(Rc::clone(key))));
                }
            }
            _ => {}
        }
    }

    /// Adds a guard that a value of the record is the same, so that every use of it has the same outcome.
    pub(super) fn pin(&mut self, node: usize) {
        let value = self.nodes[node];
        self.add_guard(Guard::Same(node, value.clone()), true);
        walk(value, &mut |address| {
            self.inside.remove(&address);
            self.containers.remove(&address);
        });
        let inside = &self.inside;
        self.texts
            .retain(|(address, _), leaf| matches!(leaf, Leaf::Text(_)) || inside.contains(address));
    }

    /// Adds a guard that a value is the same, if it is a list or an object of the record, or a word.
    /// Otherwise the trace stops.
    pub(super) fn plain(&mut self, value: &Value<'r>, reason: &'static str) {
        if !self.holds(value) {
            return;
        }
        if let Some(node) = self.node(value) {
            self.pin(node);
        } else if let (Some(text), Some(cut)) = (value.as_text().cloned(), self.register(value))
            && text.len() <= LONGEST_WORD
        {
            self.add_guard(Guard::Equals(cut, Rc::from(&*text)), true);
        } else {
            self.stop(reason);
        }
    }
}
