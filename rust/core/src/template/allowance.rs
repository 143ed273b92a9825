//! The work and memory limits of a chat template: for one render, for all renders of a conversation, and for
//! trials.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use fastpack_template::{Allowance, Meter};

use super::chat::ChatTemplate;
use super::conversation::tools;
use super::replay::wanted::TrialResults;
use crate::record::Conversation;
use fastpack_template::json::{Json, Map};

impl ChatTemplate {
    /// A copy of the template with the limits of a trial and empty caches.
    pub(super) fn for_trial(&self) -> Self {
        let tool_use = self.tool_use.as_ref().map(|template| Box::new(template.for_trial()));
        Self {
            name: self.name.clone(),
            fingerprint: self.fingerprint.clone(),
            program: Arc::clone(&self.program),
            processes: self.processes.clone(),
            allowance: Allowance::TRIAL,
            control: self.control.clone(),
            generates: self.generates,
            context: self.context.clone(),
            tool_use,
            source: self.source.clone(),
            tells_time: self.tells_time,
            turn: OnceLock::new(),
            forms: OnceLock::new(),
            thoughts: OnceLock::new(),
            paths: TrialResults::default(),
        }
    }

    /// True if the run was cancelled. Results found after that are not reliable.
    pub(super) fn is_cancelled(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.is_cancelled())
    }

    /// A meter for one conversation. `measure` gives the bytes of the conversation and the template.
    pub(super) fn meter<'m>(&'m self, measure: &'m dyn Fn() -> usize) -> Meter<'m> {
        Meter::new(
            self.allowance,
            measure,
            self.control.as_ref().map(|control| control.cancelled()),
        )
    }

    /// The work that one render of a conversation may take.
    pub(super) fn most_work(&self, prepared: &[Cow<'_, Map>], conversation: &Conversation) -> u64 {
        self.allowance.for_size(self.size(prepared, conversation)).work
    }

    /// The size that the limits depend on: bytes of the template, the messages, the keyword arguments and the
    /// tools.
    pub(super) fn size(&self, prepared: &[Cow<'_, Map>], conversation: &Conversation) -> usize {
        let map =
            |map: &Map| map.iter().map(|(key, value)| key.len() + value.size()).sum::<usize>();
        let messages: usize = prepared.iter().map(|message| map(message)).sum();
        let kwargs = map(&self.context.kwargs) + map(&conversation.template_kwargs);
        let tools = tools(conversation).map_or(0, Json::size);
        self.source.len() + messages + kwargs + tools
    }
}
