//! Renders conversations of whose turns some roles and parts are trained.

use crate::config::TurnParts;
use crate::pipeline::documents::rendering::text_weights::{TextWeights, end_turns};
use crate::pipeline::documents::rendering::train_on::{TrainedPart, check_shown, turn_number};
use crate::record::{Conversation, Fault};
use crate::report::note_kinds::Note;
use crate::template::{
    AssistantTurn, ChatTemplate, LeftOut, PartedText, Rendered, TurnText, WantedTurns,
};

impl TrainedPart<'_> {
    /// Renders a conversation as its documents, of whose turns some roles and parts are trained.
    pub(crate) fn render_parts(
        self,
        template: &ChatTemplate,
        conversation: &Conversation,
        parts: &TurnParts,
    ) -> Result<Vec<Rendered>, Fault> {
        let weights = conversation.weights.as_deref();
        let is_turn: Vec<bool> = conversation.speaking().collect();
        let last = conversation.last_turn();
        let trains = |at: usize| parts.trains(conversation.role(at));
        let weight = |at: usize| match weights.and_then(|weights| weights[at]) {
            _ if !is_turn[at] && !trains(at) => 0.0,
            Some(own) => own,
            None if !is_turn[at] => 1.0,
            None if parts.trains("assistant") => self.weight(weights, last, at),
            None => 0.0,
        };
        let wanted = WantedTurns {
            choice: self.turns(),
            parts,
            is_chosen: &|at| self.weight(weights, last, at) > 0.0,
            is_trained: &|at| weight(at) > 0.0,
        };
        let mut left_out = LeftOut::new();
        let parted = template.parted_texts(conversation, wanted, Some(&mut left_out))?;
        let shown: Vec<TurnText> = parted.texts.iter().map(PartedText::turns).collect();
        check_shown(weights, &shown)?;
        let texts = parted.texts.into_iter().zip(shown);
        let mut rendered: Vec<Rendered> = texts
            .map(|(PartedText { text, turns }, TurnText { turns: whole, .. })| {
                let mut text_weights = TextWeights::default();
                for parted in &turns {
                    text_weights.set(&parted.turn.span, weight(parted.turn.message));
                    text_weights.set(&parted.prompt, weight(parted.turn.message));
                }
                end_turns(&mut text_weights, &whole, self.eos);
                for masked in turns.iter().flat_map(|parted| &parted.masked) {
                    text_weights.set(masked, 0.0);
                }
                let own = whole.iter().filter(|turn| is_turn[turn.message]);
                let turn = own.clone().next_back();
                let number =
                    |turn: &AssistantTurn| turn_number(conversation.speaking(), turn.message);
                let turn = turn.map_or(0, number);
                Rendered { turn, ..self.rendered(text, text_weights, own) }
            })
            .collect();
        if let [_, .., last] = &mut rendered[..] {
            last.whole = Some(parted.whole);
        }
        if let Some(first) = rendered.first_mut() {
            first.left_out = left_out;
            first.notes.set(Note::DroppedReasoning, parted.has_dropped);
        }
        Ok(rendered)
    }
}
