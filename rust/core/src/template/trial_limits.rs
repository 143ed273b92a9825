//! The work and memory limits of a chat template: for one render, for all renders of a conversation, and for
//! trials.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use fastpack_template::{Allowance, Meter};

use super::chat::ChatTemplate;
use super::conversation::tools;
use super::replay::wanted_spans::TrialResults;
use crate::record::Conversation;
use fastpack_template::json::{Json, Map};

/// Units of work that all renders of a trial may take: less than a second. Of 109 published templates, the one that takes
/// most takes a tenth of it.
const MOST_TRIAL_WORK: u64 = 1 << 28;

impl ChatTemplate {
    /// A copy of the template with the limits of a trial and empty caches. It counts the work of its renders.
    pub(super) fn for_trial(&self) -> Self {
        self.counted_in(&Arc::default())
    }

    fn counted_in(&self, trial_work: &Arc<AtomicU64>) -> Self {
        let tool_use = self.tool_use.as_ref();
        let tool_use = tool_use.map(|template| Box::new(template.counted_in(trial_work)));
        Self {
            name: self.name.clone(),
            fingerprint: self.fingerprint.clone(),
            program: Arc::clone(&self.program),
            processes: self.processes.clone(),
            allowance: Allowance::TRIAL,
            trial_work: Some(Arc::clone(trial_work)),
            control: self.control.clone(),
            generates: self.generates,
            context: self.context.clone(),
            tool_use,
            source: self.source.clone(),
            mentions_strftime: self.mentions_strftime,
            turn: OnceLock::new(),
            forms: OnceLock::new(),
            thoughts: OnceLock::new(),
            prompt_words: OnceLock::new(),
            paths: TrialResults::default(),
        }
    }

    /// Counts the work of a render if the template is tried.
    pub(super) fn count_trial_work(&self, meter: &Meter<'_>) {
        if let Some(trial_work) = &self.trial_work {
            trial_work.fetch_add(meter.done(), Ordering::Relaxed);
        }
    }

    /// True if the trial of a template has taken all the work that it may.
    pub(super) fn is_trial_spent(&self) -> bool {
        self.trial_work.as_ref().is_some_and(|work| work.load(Ordering::Relaxed) > MOST_TRIAL_WORK)
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
