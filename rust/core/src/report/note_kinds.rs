//! [`Note`]: the facts about kept records that reports count, each with its warning.

use crate::config::option_words;

option_words! {
    /// A fact about a kept record, in the order of the warnings.
    pub enum Note {
        /// A prompt is formatted already, and is wrapped again.
        FormattedPrompts = "formatted_prompts",
        /// An answer ends in an end-of-text token, inside of its turn.
        EndedAnswers = "ended_answers",
        /// Its contents were lists of texts, which were joined because the chat template refuses lists.
        JoinedParts = "joined_parts",
        /// A control token of the tokenizer stands in a text of a user or a tool.
        ControlTokens = "control_tokens",
        /// The texts lack reasoning of the last turn, from a field or from the content.
        LastReasoningLeftOut = "last_reasoning_left_out",
        /// The texts lack reasoning of an earlier turn.
        EarlierReasoningLeftOut = "earlier_reasoning_left_out",
        /// The texts lack a call of a tool.
        CallsLeftOut = "calls_left_out",
        /// The trained text of a turn begins elsewhere than the generation prompt ends.
        OtherOpenings = "other_openings",
        /// A trained turn ends without a token or text that stops generation.
        UnendedTurns = "unended_turns",
        /// Nothing of a turn is trained.
        UntrainedTurns = "untrained_turns",
        /// The arguments of a call are JSON text, which the chat template encodes a second time.
        EncodedArguments = "encoded_arguments",
        /// The chat template prints an object or a list as Python writes it.
        PrintedAsPython = "printed_as_python",
        /// The reasoning of earlier turns was removed, because `train_on` asks for it.
        DroppedReasoning = "dropped_reasoning",
    }
}

/// Some notes of one record, with the first message that each is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteSet {
    held: u16,
    /// The index of the message from 1; 0 for a note of the record as a whole.
    messages: [u16; Note::WORDS.len()],
}

impl NoteSet {
    /// Adds a note of the record as a whole if it holds.
    pub fn set(&mut self, note: Note, holds: bool) {
        self.held |= u16::from(holds) << note as u16;
    }

    /// Adds a note of a message if it holds. That of the first message stays.
    pub fn set_in(&mut self, note: Note, message: usize, holds: bool) {
        if holds {
            let number = u16::try_from(message.saturating_add(1)).unwrap_or(0);
            self.add(note, number);
        }
    }

    fn add(&mut self, note: Note, number: u16) {
        let known = &mut self.messages[note as usize];
        if *known == 0 || (1..*known).contains(&number) {
            *known = number;
        }
        self.set(note, true);
    }

    /// The set of one note if it holds, else of none.
    #[must_use]
    pub fn of(note: Note, holds: bool) -> Self {
        let mut set = Self::default();
        set.set(note, holds);
        set
    }

    /// This note alone.
    #[must_use]
    pub fn only(self, note: Note) -> Self {
        let mut set = Self::default();
        if self.has(note) {
            set.add(note, self.messages[note as usize]);
        }
        set
    }

    /// The notes but for one.
    #[must_use]
    pub fn without(mut self, note: Note) -> Self {
        self.held &= !(1 << note as u16);
        self.messages[note as usize] = 0;
        self
    }

    /// The notes of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for note in other.iter() {
            self.add(note, other.messages[note as usize]);
        }
        self
    }

    /// The notes on messages whose indexes are `numbers`, in the place of those from 0 on.
    #[must_use]
    pub fn moved(self, numbers: &[usize]) -> Self {
        let mut moved = Self { held: self.held, ..Self::default() };
        for note in self.iter() {
            if let Some(number) = self.message(note).and_then(|at| numbers.get(at)) {
                moved.set_in(note, *number, true);
            }
        }
        moved
    }

    /// True if a note holds.
    pub fn has(self, note: Note) -> bool {
        self.held & 1 << note as u16 != 0
    }

    /// The index of the first message that a note is of.
    pub fn message(self, note: Note) -> Option<usize> {
        usize::from(self.messages[note as usize]).checked_sub(1)
    }

    /// Its notes.
    pub fn iter(self) -> impl Iterator<Item = Note> {
        Note::WORDS.iter().map(|(_, note)| *note).filter(move |note| self.has(*note))
    }
}

impl Note {
    /// The warning about `records` with this note, the `first` of them at a place.
    pub(crate) fn warning(self, records: &str, is_one: bool, first: &str) -> String {
        let have = if is_one { "has" } else { "have" };
        match self {
            Self::FormattedPrompts => format!(
                "{records} {have} a prompt that is formatted already, which is wrapped again{first}: it begins with a role \
                 marker, or ends as `### Response:` does; the fields `prompt` and `completion` are joined as they are, \
                 and a `map` can take the markers out"
            ),
            Self::EndedAnswers => format!(
                "{records} {have} an answer that ends in an end-of-text token, and the chat template ends the turn \
                 after it{first}; a `map` can take the token out"
            ),
            Self::JoinedParts => format!(
                "{records} {have} content in lists of texts, which the chat template refuses: the texts are joined{first}; \
                 a `map` can join them in another way"
            ),
            Self::ControlTokens => format!(
                "{records} {have} a control token of the tokenizer in a text of a user or a tool{first}; \
                 SpecialTokens(in_text=\"encode\") makes that token of it, as `transformers` does, \"split\" encodes its \
                 characters as other text, and \"error\" refuses the record"
            ),
            Self::LastReasoningLeftOut => format!(
                "the chat template leaves `reasoning` of the last turn out of the text of {records}{first}; \
                 another `chat_template` may print it"
            ),
            Self::EarlierReasoningLeftOut => format!(
                "the chat template leaves `reasoning` of earlier turns out of the text of {records}{first}; \
                 turns=\"auto\" and \"each\" train it where the template prints that of the last turn, or another \
                 `chat_template` may print it"
            ),
            Self::CallsLeftOut => format!(
                "the chat template leaves `tool_calls`, or calls under another name, out of the text of {records}{first}; \
                 another `chat_template` may print them, or a `map` can write them into the content"
            ),
            Self::OtherOpenings => format!(
                "{records} {have} a turn whose trained text begins elsewhere than the generation prompt ends{first}: the \
                 model never sees that prompt before it; another `chat_template`, or `variables` of it, may \
                 make them alike"
            ),
            Self::UnendedTurns => format!(
                "{records} {have} a trained turn without an end{first}, so that the model does not learn to stop there; \
                 SpecialTokens(eos=True) adds the end-of-text token, and train_on_eos=\"turn\" in it trains an end that the chat \
                 template writes and does not mark"
            ),
            Self::UntrainedTurns => format!(
                "{records} {have} a turn of the assistant of which nothing is trained{first}, because the chat template \
                 writes nothing of it, or leaves out its calls of tools"
            ),
            Self::EncodedArguments => format!(
                "{records} {have} calls of tools with arguments in JSON text{first}, which the chat template encodes a \
                 second time, as `transformers` does; ChatTemplate(decode_arguments=True) decodes them"
            ),
            Self::PrintedAsPython => format!(
                "{records} {have} content or arguments of calls that are objects or lists{first}, which the chat template \
                 prints as Python writes them, such as `{{'city': 'Rome'}}`, as `transformers` does; a `map` can make \
                 texts of them"
            ),
            Self::DroppedReasoning => {
                format!(
                    "{records} {have} reasoning in earlier turns{first}, which is dropped as `train_on` asks"
                )
            }
        }
    }
}
