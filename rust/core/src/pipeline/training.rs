//! What of a rendered conversation is trained, where messages or options say more than that the assistant is.

use std::ops::Range;
use std::sync::Arc;

use crate::config::{TrainOn, TrainOnEos};
use crate::ledger::Reason;
use crate::record::{Conversation, Fault, is_assistant};
use crate::template::{ChatTemplate, Span, Turn};
use fastpack_template::json::{Map, Value};

/// Weights over a text, as ascending and disjoint spans.
#[derive(Debug, Default)]
struct Canvas {
    spans: Vec<Span>,
}

impl Canvas {
    /// Gives `range` this weight, whatever it had before.
    fn paint(&mut self, range: &Range<usize>, weight: f32) {
        if range.is_empty() {
            return;
        }
        let mut spans = Vec::with_capacity(self.spans.len() + 2);
        for Span { range: old, weight } in self.spans.drain(..) {
            let before = old.start..old.end.min(range.start);
            let after = old.start.max(range.end)..old.end;
            spans.extend([before, after].map(|range| Span { range, weight }));
        }
        spans.push(Span { range: range.clone(), weight });
        spans.retain(|span| !span.range.is_empty() && span.weight > 0.0);
        spans.sort_unstable_by_key(|span| span.range.start);
        self.spans = spans;
    }

    /// The weight at a byte.
    fn at(&self, byte: usize) -> f32 {
        let span = self.spans.iter().find(|span| span.range.contains(&byte));
        span.map_or(0.0, |span| span.weight)
    }
}

/// Renders a conversation, and tells which spans of it are trained: what completes its prompt if it has one, or those
/// that `train_on` chooses; those to which messages give weights of their own, and the ends of turns as `eos` has it.
pub(super) fn conversation(
    template: &ChatTemplate,
    conversation: &Conversation,
    train_on: TrainOn,
    eos: Option<TrainOnEos>,
) -> Result<(String, Vec<Span>), Fault> {
    let completion = conversation.prompt.map(|prompt| {
        template.render_completion(conversation, prompt).map(|(_, completion)| completion)
    });
    let completion = completion.transpose()?;
    let (text, turns) = template.render_turns(conversation)?;
    let speaks = |message: &Arc<Map>| matches!(message.get("role"), Some(Value::String(role)) if is_assistant(role));
    let last = conversation.messages.iter().rposition(speaks);
    let weights = conversation.weights.as_deref();
    let messages = conversation.messages.len();
    let choice = Choice { train_on, eos, weights, last, completion, messages };
    let spans = choice.spans(text.len(), &turns)?;
    Ok((text, spans))
}

/// What chooses among the turns of a conversation.
pub(super) struct Choice<'c> {
    /// Which turns are trained.
    pub(super) train_on: TrainOn,
    /// Which ends of trained turns are.
    pub(super) eos: Option<TrainOnEos>,
    /// The weight that each message gives itself, if any does.
    pub(super) weights: Option<&'c [Option<f32>]>,
    /// The last message of the assistant.
    pub(super) last: Option<usize>,
    /// What completes the prompt, which is trained then.
    pub(super) completion: Option<Range<usize>>,
    /// How many messages there are.
    pub(super) messages: usize,
}

impl Choice<'_> {
    /// What is trained of a text of so many bytes with these turns.
    pub(super) fn spans(&self, length: usize, turns: &[Turn]) -> Result<Vec<Span>, Fault> {
        let mut canvas = Canvas::default();
        if let Some(completion) = &self.completion {
            canvas.paint(completion, 1.0);
        } else if self.train_on == TrainOn::All {
            canvas.paint(&(0..length), 1.0);
        } else {
            for turn in turns {
                if self.train_on != TrainOn::LastAssistant || Some(turn.message) == self.last {
                    canvas.paint(&turn.span, 1.0);
                }
            }
        }
        weigh(&mut canvas, self.weights, turns)?;
        end_turns(&mut canvas, turns, self.eos);
        if let (Some(completion), Some(last)) = (&self.completion, turns.last())
            && self.eos.is_some()
            && last.message + 1 == self.messages
            && canvas.at(last.end.start) == 0.0
        {
            // What a template writes behind the end belongs to it.
            canvas.paint(&(last.end.start..completion.end), 0.0);
        }
        Ok(canvas.spans)
    }
}

/// Gives turns the weights that their messages give themselves.
fn weigh(
    canvas: &mut Canvas,
    weights: Option<&[Option<f32>]>,
    turns: &[Turn],
) -> Result<(), Fault> {
    for (message, weight) in weights.into_iter().flatten().enumerate() {
        let Some(weight) = *weight else { continue };
        let own = turns.iter().filter(|turn| turn.message == message);
        if weight > 0.0 && own.clone().next().is_none() {
            let message = format!(
                "message {message} asks to be trained, but the chat template does not show what it says"
            );
            return Err(Fault::new(Reason::Unmaskable, message));
        }
        for turn in own {
            canvas.paint(&turn.span, weight);
        }
    }
    Ok(())
}

/// Trains the tokens that end trained turns: all, that of the last, or none; as the template has it if not said.
fn end_turns(canvas: &mut Canvas, turns: &[Turn], eos: Option<TrainOnEos>) {
    let Some(eos) = eos else { return };
    let trained: Vec<(&Turn, f32)> = turns
        .iter()
        .map(|turn| (turn, canvas.at(turn.span.start)))
        .filter(|(_, weight)| *weight > 0.0)
        .collect();
    for (at, (turn, weight)) in trained.iter().enumerate() {
        let kept = match eos {
            TrainOnEos::Turn => true,
            TrainOnEos::Last => at + 1 == trained.len(),
            TrainOnEos::None => false,
        };
        canvas.paint(&turn.end, if kept { *weight } else { 0.0 });
    }
}
