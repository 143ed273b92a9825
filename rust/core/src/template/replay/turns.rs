//! [`TurnPrograms`]: recorded programs of the turns that the definition finds one by one.
//!
//! The definition ([`rule`]) renders the messages before and up to each turn. The programs of these renders tell a
//! conversation in which the turns are found at the same places of the output.

use std::borrow::Cow;
use std::ops::Range;

use fastpack_template::json::Map;
use fastpack_template::{Printed, PrintedPlace, Program, ProgramBuffers, ReplayInput};

use crate::record::Conversation;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::is_assistant;
use crate::template::trained::rule::stop_tokens::StopTokens;
use crate::template::trained::rule::turn_documents::TrainedTurn;
use crate::template::trained::rule::{self, FoundTexts, FoundTurn};
use crate::template::trained::turn_markup::spans_by_markup;

/// The reasons that turns are interpreted.
const REFUSED: &str = "turns that do not render without those that follow";
const DIFFERS: &str = "turns whose programs differ from the interpreter";
const INSIDE: &str = "turns that begin or end inside of a text";

/// The programs of the turns of one conversation.
#[derive(Debug)]
pub(super) struct TurnPrograms {
    turns: Vec<TurnProgram>,
    /// Renders of the messages before turns, whose guards have to hold.
    guards: Vec<Program>,
    pub(super) stops: StopTokens,
}

/// The places of the turns of one conversation in the text of the whole, where marks do not show them.
#[derive(Debug)]
pub(super) struct WholeTurns {
    /// The places at which each begins and ends.
    spans: Vec<[PrintedPlace; 2]>,
    /// Renders of the messages before and up to turns, whose guards have to hold.
    pub(super) guards: Vec<Program>,
}

impl WholeTurns {
    /// Records the turns in the output of `whole`. The other arguments are those of [`TurnPrograms::record`]. Fails with the
    /// reason that the turns are interpreted.
    pub(super) fn record(
        template: &ChatTemplate,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        whole: &Program,
        input: ReplayInput<'_>,
        buffers: &mut ProgramBuffers<'_>,
        mut record: impl FnMut(usize, bool) -> Option<Result<Program, &'static str>>,
    ) -> Result<Self, &'static str> {
        let mut printed = Printed::default();
        let renders = whole.serves(input, buffers)
            && whole.print(input.source, buffers, &mut printed).is_ok();
        let text = template.run_whole(messages, conversation, None).map_err(|_| REFUSED)?.text;
        if !renders || printed.text != text {
            return Err(DIFFERS);
        }
        let found = spans_by_markup::defined(template, conversation, messages, &text)
            .map_err(|_| REFUSED)?;
        let place = |at| whole.place_of(input.source, buffers, at).ok_or(INSIDE);
        let both =
            |span: Range<usize>| Ok::<_, &'static str>([place(span.start)?, place(span.end)?]);
        let spans = found.into_iter().map(both).collect::<Result<_, _>>()?;
        let mut guards = Vec::new();
        let spoken = (0..messages.len()).filter(|at| is_assistant(&messages[*at]));
        for at in spoken {
            let mut guard = |count, prompt| record(count, prompt).unwrap_or(Err(REFUSED));
            if at > 0 {
                guards.extend([guard(at, false)?, guard(at, true)?]);
            }
            guards.push(guard(at + 1, false)?);
        }
        Ok(Self { spans, guards })
    }

    /// The number of steps and pieces.
    pub(super) fn size(&self) -> usize {
        self.guards.iter().map(Program::size).sum()
    }

    /// True if the guards of all programs hold.
    pub(super) fn serves(&self, input: ReplayInput<'_>, buffers: &mut ProgramBuffers<'_>) -> bool {
        self.guards.iter().all(|program| program.serves(input, buffers))
    }

    /// The turns in the output that `whole` has just printed.
    pub(super) fn spans(
        &self,
        whole: &Program,
        source: &str,
        buffers: &ProgramBuffers<'_>,
    ) -> Vec<Range<usize>> {
        let byte = |place| whole.byte_at(place, source, buffers);
        self.spans.iter().map(|[start, end]| byte(*start)..byte(*end)).collect()
    }
}

/// The program of the messages up to a turn, and the places of the turn in its output.
#[derive(Debug)]
struct TurnProgram {
    found: FoundTurn,
    text: Program,
    /// The messages before it with the generation prompt, if the turn is printed behind them.
    prompt: Option<Program>,
    start: PrintedPlace,
    end: PrintedPlace,
}

impl TurnPrograms {
    /// Records the programs of the turns that `is_trained`. `record` records the render of the first messages, with or
    /// without a generation prompt; `input` is the conversation's. Fails with the reason that the turns are interpreted.
    pub(super) fn record(
        template: &ChatTemplate,
        conversation: &Conversation,
        messages: &[Cow<'_, Map>],
        is_trained: impl Fn(usize) -> bool,
        input: ReplayInput<'_>,
        buffers: &mut ProgramBuffers<'_>,
        mut record: impl FnMut(usize, bool) -> Option<Result<Program, &'static str>>,
    ) -> Result<Self, &'static str> {
        let mut record = |count, prompt| record(count, prompt).unwrap_or(Err(REFUSED));
        let found =
            rule::turns(template, conversation, messages, is_trained).map_err(|_| REFUSED)?;
        let stops = StopTokens::of(template, conversation);
        let mut programs =
            Self { turns: Vec::with_capacity(found.len()), guards: Vec::new(), stops };
        for FoundTexts { found, text, .. } in found {
            let up_to = record(found.message + 1, false)?;
            let mut printed = Printed::default();
            let renders = up_to.serves(input, buffers)
                && up_to.print(input.source, buffers, &mut printed).is_ok();
            if !renders || printed.text != text {
                return Err(DIFFERS);
            }
            let place = |at| up_to.place_of(input.source, buffers, at).ok_or(INSIDE);
            let (start, end) = (place(found.start)?, place(found.end)?);
            let mut prompt = None;
            if found.message > 0 {
                programs.guards.push(record(found.message, false)?);
                let prompted = record(found.message, true)?;
                if found.is_rewritten {
                    prompt = Some(prompted);
                } else {
                    programs.guards.push(prompted);
                }
            }
            programs.turns.push(TurnProgram { found, text: up_to, prompt, start, end });
        }
        Ok(programs)
    }

    /// All programs, which tests make wrong.
    #[cfg(test)]
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Program> {
        let turns = self.turns.iter_mut();
        let turns = turns.flat_map(|turn| turn.prompt.iter_mut().chain([&mut turn.text]));
        turns.chain(&mut self.guards)
    }

    /// The number of steps and pieces.
    pub(super) fn size(&self) -> usize {
        let turns = self.turns.iter().flat_map(|turn| turn.prompt.iter().chain([&turn.text]));
        turns.chain(&self.guards).map(Program::size).sum()
    }

    /// True if the guards of all programs hold but for those that [`print`](Self::print) runs.
    pub(super) fn serves(&self, input: ReplayInput<'_>, buffers: &mut ProgramBuffers<'_>) -> bool {
        let turns = self.turns.iter().flat_map(|turn| turn.prompt.iter().chain([&turn.text]));
        turns.chain(&self.guards).all(|program| program.serves(input, buffers))
    }

    /// The turns of a conversation that the programs serve; `None` at the limits of the meter of `buffers`.
    pub(super) fn print(
        &self,
        input: ReplayInput<'_>,
        buffers: &mut ProgramBuffers<'_>,
    ) -> Option<Vec<TrainedTurn>> {
        let mut print = |program: &Program, places: &mut dyn FnMut(&ProgramBuffers<'_>)| {
            let mut printed = Printed::default();
            let is_printed = program.serves(input, buffers)
                && program.print(input.source, buffers, &mut printed).is_ok();
            places(buffers);
            is_printed.then_some(printed.text)
        };
        let mut turns = Vec::with_capacity(self.turns.len());
        for turn in &self.turns {
            let mut found = turn.found;
            let text = print(&turn.text, &mut |buffers| {
                found.start = turn.text.byte_at(turn.start, input.source, buffers);
                found.end = turn.text.byte_at(turn.end, input.source, buffers);
            })?;
            let prompt = match &turn.prompt {
                Some(prompt) => print(prompt, &mut |_| {})?,
                None => String::new(),
            };
            turns.push(found.in_text(text, &prompt));
        }
        Some(turns)
    }
}
