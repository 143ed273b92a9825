//! [`RecordedPrograms`]: the recorded programs of conversations of one outline.

use std::sync::Arc;

use fastpack_template::{Program, ProgramBuffers, ReplayInput};

use super::turns::{TurnPrograms, WholeTurns};
use super::turns_alone::AlonePrograms;
use super::unprinted_values::Unprinted;
use crate::report::ledger::NoteSet;

/// The programs that render one conversation.
#[derive(Debug)]
pub(in crate::template) struct RecordedPrograms {
    /// Renders all messages.
    pub(super) whole: Program,
    /// Renders the messages before the assistant's last turn, or the prompt, if one of them is needed.
    pub(super) before: Option<Program>,
    /// Render the turns that are found one by one.
    pub(super) turns: Option<TurnPrograms>,
    /// Render the turns alone, if they are not in the render of all messages.
    pub(super) alone: Option<AlonePrograms>,
    /// The turns in the text of all messages, if marks do not show them.
    pub(super) in_whole: Option<WholeTurns>,
    /// The texts and values that are not printed, and the names of their fields; of parts, the roles.
    pub(super) unprinted: Vec<(Unprinted, Arc<str>)>,
    /// The notes on the turns of conversations that they render.
    pub(super) notes: NoteSet,
}

impl RecordedPrograms {
    /// The program of the whole alone, with facts of the conversation.
    pub(super) fn of(
        whole: Program,
        unprinted: Vec<(Unprinted, Arc<str>)>,
        notes: NoteSet,
    ) -> Self {
        let (before, turns, alone, in_whole) = (None, None, None, None);
        Self { whole, before, turns, alone, in_whole, unprinted, notes }
    }

    /// True if turns stand in texts of their own, or by the definition.
    pub(super) fn are_separate(&self) -> bool {
        self.turns.is_some() || self.alone.is_some()
    }

    /// The number of steps and pieces.
    pub(super) fn size(&self) -> usize {
        self.whole.size()
            + self.before.as_ref().map_or(0, Program::size)
            + self.turns.as_ref().map_or(0, TurnPrograms::size)
            + self.alone.as_ref().map_or(0, AlonePrograms::size)
            + self.in_whole.as_ref().map_or(0, WholeTurns::size)
    }

    /// True if the guards of all programs hold. The guard of the whole conversation is asked last: the buffers are its own then.
    pub(super) fn serves(&self, input: ReplayInput<'_>, buffers: &mut ProgramBuffers<'_>) -> bool {
        self.before.as_ref().is_none_or(|before| before.serves(input, buffers))
            && self.turns.as_ref().is_none_or(|turns| turns.serves(input, buffers))
            && self.alone.as_ref().is_none_or(|turns| turns.serves(input, buffers))
            && self.in_whole.as_ref().is_none_or(|turns| turns.serves(input, buffers))
            && self.whole.serves(input, buffers)
    }

    /// All programs, which tests make wrong.
    #[cfg(test)]
    pub(in crate::template) fn all(&mut self) -> impl Iterator<Item = &mut Program> {
        let turns = self.turns.iter_mut().flat_map(TurnPrograms::all);
        let alone = self.alone.iter_mut().flat_map(AlonePrograms::all);
        let in_whole = self.in_whole.iter_mut().flat_map(|turns| &mut turns.guards);
        let all = std::iter::once(&mut self.whole).chain(&mut self.before);
        all.chain(turns).chain(alone).chain(in_whole)
    }
}
