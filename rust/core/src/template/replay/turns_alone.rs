//! [`AlonePrograms`]: recorded programs of turns that are rendered alone, each behind the messages before it.

use std::ops::Range;

use fastpack_template::{Printed, Program, ProgramBuffers, ReplayInput};

use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::trained::turn_markup::markup::TurnMarkup;
use crate::template::trained::turn_markup::message_spans;
use crate::template::trained::turn_texts::TurnText;

/// The reasons that turns are interpreted.
const REFUSED: &str = "turns that do not render without those that follow";
const DIFFERS: &str = "turns alone whose programs differ from the interpreter";

/// The programs of the turns of one conversation.
#[derive(Debug)]
pub(super) struct AlonePrograms(Vec<AloneProgram>);

/// The program of the messages up to a turn.
#[derive(Debug)]
struct AloneProgram {
    message: usize,
    text: Program,
    /// The generation blocks in its output that are the turn's.
    blocks: Range<usize>,
}

impl AlonePrograms {
    /// Records the programs of the turns at these messages. `record` records the render of the first messages; `input` is the
    /// conversation's. Fails with the reason that the turns are interpreted.
    pub(super) fn record(
        template: &ChatTemplate,
        conversation: &Conversation,
        turns: Vec<usize>,
        input: ReplayInput<'_>,
        buffers: &mut ProgramBuffers<'_>,
        record: impl Fn(usize) -> Option<Result<Program, &'static str>>,
    ) -> Result<Self, &'static str> {
        let mut programs = Vec::with_capacity(turns.len());
        for message in turns {
            let alone = template.turn_alone(conversation, message).map_err(|_| REFUSED)?;
            let text = record(message + 1).unwrap_or(Err(REFUSED))?;
            let mut printed = Printed::default();
            let renders = text.serves(input, buffers)
                && text.print(input.source, buffers, &mut printed).is_ok();
            let blocks = printed.spans.len().saturating_sub(alone.turns.len())..printed.spans.len();
            let own = alone.turns.iter().map(|turn| &turn.span);
            if !renders || printed.text != alone.text || !own.eq(&printed.spans[blocks.clone()]) {
                return Err(DIFFERS);
            }
            programs.push(AloneProgram { message, text, blocks });
        }
        Ok(Self(programs))
    }

    /// All programs, which tests make wrong.
    #[cfg(test)]
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Program> {
        self.0.iter_mut().map(|turn| &mut turn.text)
    }

    /// The number of steps and pieces.
    pub(super) fn size(&self) -> usize {
        self.0.iter().map(|turn| turn.text.size()).sum()
    }

    /// True if the guards of all programs hold.
    pub(super) fn serves(&self, input: ReplayInput<'_>, buffers: &mut ProgramBuffers<'_>) -> bool {
        self.0.iter().all(|turn| turn.text.serves(input, buffers))
    }

    /// The text of each turn of a conversation that the programs serve; `None` at the limits of the meter of `buffers`.
    pub(super) fn print(
        &self,
        template: &ChatTemplate,
        learned: Option<&TurnMarkup>,
        input: ReplayInput<'_>,
        buffers: &mut ProgramBuffers<'_>,
    ) -> Option<Vec<TurnText>> {
        let texts = self.0.iter().map(|AloneProgram { message, text, blocks }| {
            let mut printed = Printed::default();
            let is_printed = text.serves(input, buffers)
                && text.print(input.source, buffers, &mut printed).is_ok();
            let Printed { text, spans, .. } = is_printed.then_some(printed)?;
            let own = spans.get(blocks.clone())?.iter().map(|span| (*message, span.clone()));
            let turns = message_spans::turns(template, learned, &text, own);
            Some(TurnText { text, turns })
        });
        texts.collect()
    }
}
