//! Runs loops, and evaluates the attributes of `loop`.

use std::cell::RefCell;
use std::rc::Rc;

use crate::evaluation::flow::{Flow, LeftBehind};
use crate::evaluation::render::Interpreter;
use crate::failure::{Failure, RenderResult};
use crate::language::tree::ForLoop;
use crate::values::items::length;
use crate::values::make::ITEM_BYTES;
use crate::values::texts::text::Text;
use crate::values::value::{Dict, Items, List, Loop, Peeked, Value};

/// Stands for every character of a text whose loop treats all of them alike.
fn any_character<'r>() -> Value<'r> {
    Value::String(Text::Borrowed("x"))
}

/// Most values that are searched for generators.
const MOST_LOOKED_AT: usize = 10_000;

/// The state before a turn of a loop.
#[derive(Clone, Copy)]
struct BeforeTurn {
    left: LeftBehind,
    printed: usize,
    spans: usize,
    pieces: usize,
}

impl<'r, 'm: 'r> Interpreter<'r, '_, 'm> {
    /// Runs a loop.
    pub(crate) fn run_for(&mut self, statement: &'r ForLoop) -> RenderResult<Flow> {
        let source = self.evaluate(&statement.items)?;
        // A loop over a text that does the same for each of its characters.
        let text = source.as_text().filter(|_| statement.is_uniform).cloned();
        let mut is_uniform = text.is_some() && !self.holds_generators();
        if let Some(trace) = &mut self.trace {
            match &text {
                Some(text) if is_uniform => trace.truth(&source, !text.is_empty()),
                _ => trace.items(&source),
            }
        }
        let Some(items) = Items::of(&source) else {
            return Err(Failure::error(format!("{} cannot be iterated", source.type_name())));
        };
        let state = Rc::new(Loop {
            items,
            source,
            test: statement.test.as_ref(),
            is_uniform,
            state: RefCell::default(),
        });
        let mut completed = false;
        let is_remembered = !is_uniform && self.remembers(statement);
        let object = self.object;
        while let Some(item) = self.advance(&state)? {
            self.meter.step()?;
            if let Some(name) = &statement.looping {
                self.set(name.slot, Value::Loop(Rc::clone(&state)));
            }
            if let Value::Dict(Dict::Data(item)) = &item
                && let Some(number) = self.objects.get(&std::ptr::from_ref(*item))
            {
                self.object = Some(*number);
            }
            let before = is_uniform.then(|| self.before_turn());
            let item = if is_uniform { any_character() } else { item };
            self.assign(&statement.target, item.clone())?;
            let flow = if is_remembered {
                self.run_remembered(statement, &item)?
            } else {
                self.run_scope(&statement.scope)?
            };
            match flow {
                Flow::Next => completed = true,
                Flow::Continue => {}
                Flow::Break => break,
            }
            if let (Some(before), Some(text)) = (before, &text) {
                if self.repeat_turn(before, text)? {
                    break;
                }
                is_uniform = false;
            }
        }
        self.object = object;
        // As in Jinja, `else` runs if no turn of the loop reached its end.
        if completed { Ok(Flow::Next) } else { self.run_scope(&statement.otherwise) }
    }

    /// The state before a turn of a loop.
    fn before_turn(&self) -> BeforeTurn {
        BeforeTurn {
            left: self.left,
            printed: self.output.text.len(),
            spans: self.output.spans.len(),
            pieces: self.trace.as_ref().map_or(0, |trace| trace.pieces_printed()),
        }
    }

    /// Repeats the first turn of a loop for the other characters of a text, if they do the same. Otherwise returns
    /// `false`.
    fn repeat_turn(&mut self, before: BeforeTurn, text: &str) -> RenderResult<bool> {
        let now = self.before_turn();
        let is_alone = now.left == before.left && now.spans == before.spans;
        if is_alone && now.printed == before.printed && now.pieces == before.pieces {
            return Ok(true);
        }
        if let Some(trace) = &mut self.trace {
            trace.stop("the characters of a text");
        }
        if !is_alone || self.sources.is_some() {
            return Ok(false);
        }
        let printed = self.output.text[before.printed..].to_owned();
        for _ in text.chars().skip(1) {
            self.meter.write(&mut self.output.text, &printed)?;
        }
        Ok(true)
    }

    /// True if a variable may hold a generator, which a turn of a loop could use up.
    pub(super) fn holds_generators(&self) -> bool {
        let mut open: Vec<Value<'r>> = Vec::new();
        if self.left.generators > 0 {
            open.extend(self.root.iter().chain(&self.local).cloned());
        }
        let mut looked_at = 0;
        while let Some(value) = open.pop() {
            looked_at += 1;
            match value {
                Value::Generator(_) => return true,
                Value::Tuple(items) | Value::List(List::Computed(items)) => {
                    open.extend(items.iter().cloned());
                }
                Value::Dict(Dict::Computed(items)) => open.extend(items.values().cloned()),
                Value::Namespace(attributes) => open.extend(attributes.borrow().values().cloned()),
                _ => {}
            }
            if looked_at > MOST_LOOKED_AT {
                return true;
            }
        }
        false
    }

    /// Fetches the next item that passes the loop's test, without advancing to it.
    fn fetch(&mut self, state: &Loop<'r>) -> RenderResult<Option<Value<'r>>> {
        if let Some(item) = state.state.borrow_mut().ahead.pop_front() {
            return Ok(Some(item));
        }
        while let Some(item) = state.items.next(self.meter)? {
            self.derive(&item, &[&state.source]);
            let Some((target, enter, test)) = state.test else { return Ok(Some(item)) };
            self.meter.step()?;
            self.enter(enter)?;
            let before = self.left;
            let tried = if state.is_uniform { any_character() } else { item.clone() };
            self.assign(target, tried)?;
            if self.holds(test)? {
                return Ok(Some(item));
            }
            if state.is_uniform && self.left == before {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Advances to the next item.
    fn advance(&mut self, state: &Loop<'r>) -> RenderResult<Option<Value<'r>>> {
        let peeked = std::mem::take(&mut state.state.borrow_mut().after);
        let item = match peeked {
            Peeked::Item(item) => Some(item),
            Peeked::End => None,
            Peeked::No => self.fetch(state)?,
        };
        if let Some(item) = &item {
            let mut turn = state.state.borrow_mut();
            if turn.current.is_some() {
                turn.index += 1;
            }
            turn.before = turn.current.replace(item.clone());
        }
        Ok(item)
    }

    /// The next item, without advancing to it.
    fn peek(&mut self, state: &Loop<'r>) -> RenderResult<Option<Value<'r>>> {
        match &state.state.borrow().after {
            Peeked::Item(item) => return Ok(Some(item.clone())),
            Peeked::End => return Ok(None),
            Peeked::No => {}
        }
        let item = self.fetch(state)?;
        state.state.borrow_mut().after = item.clone().map_or(Peeked::End, Peeked::Item);
        Ok(item)
    }

    fn loop_length(&mut self, state: &Loop<'r>) -> RenderResult<usize> {
        if let Some(length) = state.state.borrow().length {
            return Ok(length);
        }
        let counted = match state.test {
            None => length(&state.source, self.meter)?,
            Some(_) => None,
        };
        let length = if let Some(length) = counted {
            length
        } else {
            let mut rest = Vec::new();
            while let Some(item) = self.fetch(state)? {
                self.meter.hold(ITEM_BYTES)?;
                rest.push(item);
            }
            let mut turn = state.state.borrow_mut();
            turn.held = self.meter.held(rest.len() * ITEM_BYTES);
            let length =
                turn.index + 1 + usize::from(matches!(turn.after, Peeked::Item(_))) + rest.len();
            turn.ahead.extend(rest);
            length
        };
        state.state.borrow_mut().length = Some(length);
        Ok(length)
    }

    /// The value of an attribute of `loop`.
    pub(crate) fn loop_attribute(
        &mut self,
        state: &Loop<'r>,
        name: &str,
    ) -> RenderResult<Value<'r>> {
        let count = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let index = state.state.borrow().index;
        self.left.looked += 1;
        Ok(match name {
            "index" => count(index + 1),
            "index0" => count(index),
            "first" => Value::Bool(index == 0),
            "last" => Value::Bool(self.peek(state)?.is_none()),
            "length" => count(self.loop_length(state)?),
            "revindex" => count(self.loop_length(state)?.saturating_sub(index)),
            "revindex0" => count(self.loop_length(state)?.saturating_sub(index + 1)),
            "previtem" => state.state.borrow().before.clone().unwrap_or(Value::Undefined),
            "nextitem" => self.peek(state)?.unwrap_or(Value::Undefined),
            other => return Err(Failure::unsupported(format_args!("`loop.{other}`"))),
        })
    }
}
