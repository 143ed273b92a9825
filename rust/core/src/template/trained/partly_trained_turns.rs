//! The texts of a conversation whose turns are trained in part: which turns stand in them, and which bytes are context.

use std::borrow::Cow;
use std::ops::Range;

use fastpack_template::json::Map;

use super::dropped_reasoning::{TurnHistory, histories};
use super::part_finder::{PartFinder, PartedTurn, TurnPlace, WantedTurns};
use super::rule::stop_tokens::StopTokens;
use super::rule::turn_documents::{self, TrainedTurn};
use super::rule::{self, FoundTexts};
use super::turn_markup::learn_markup::learned;
use super::turn_markup::message_spans;
use super::turn_markup::message_spans::AssistantTurn;
use super::turn_texts::{TurnText, WholeText};
use crate::config::Turns;
use crate::record::{Conversation, Fault};
use crate::report::ledger::Reason;
use crate::template::chat::ChatTemplate;
use crate::template::conversation::left_out::LeftOut;
use crate::template::conversation::{is_assistant, prepared};

/// A text in which turns stand, with the parts of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartedText {
    /// The text.
    pub text: String,
    /// The turns, and the messages of other roles that are trained; ascending.
    pub turns: Vec<PartedTurn>,
}

/// The texts of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartedTexts {
    /// The texts.
    pub texts: Vec<PartedText>,
    /// The one text of the whole conversation, to compare with.
    pub whole: WholeText,
    /// True if reasoning of earlier turns was removed.
    pub has_dropped: bool,
}

impl ChatTemplate {
    /// The texts in which turns stand, with the parts of turns. They are those of [`turn_texts`](Self::turn_texts),
    /// unless reasoning of earlier turns is dropped. Adds the fields that the text leaves out to `left_out`.
    ///
    /// # Errors
    ///
    /// As [`turn_texts`](Self::turn_texts), and [`Reason::Unmaskable`] if a part cannot be told from others.
    pub fn parted_texts(
        &self,
        conversation: &Conversation,
        wanted: WantedTurns<'_>,
        left_out: Option<&mut LeftOut>,
    ) -> Result<PartedTexts, Fault> {
        let template = self.serving(conversation);
        template.check(conversation)?;
        let drops = wanted.parts.drop_history_reasoning_content;
        let histories = histories(template, conversation, drops)?;
        let has_dropped = histories.iter().any(|history| history.has_dropped);
        let (texts, whole) = if template.generates || wanted.choice == Turns::Whole {
            let bases = bases(template, &histories, wanted);
            texts_of_bases(template, &histories, &bases, wanted, left_out)?
        } else {
            texts_of_turns(template, &histories, wanted, left_out)?
        };
        Ok(PartedTexts { texts, whole, has_dropped })
    }
}

/// The documents of turns that are found one by one.
fn texts_of_turns(
    template: &ChatTemplate,
    histories: &[TurnHistory],
    wanted: WantedTurns<'_>,
    left_out: Option<&mut LeftOut>,
) -> Result<(Vec<PartedText>, WholeText), Fault> {
    let messages: Vec<Vec<Cow<'_, Map>>> =
        histories.iter().map(|history| prepared(&history.conversation)).collect();
    let found = found_turns(template, histories, &messages, wanted)?;
    let last = found.last().map_or(histories.len() - 1, |(number, _)| *number);
    let conversation = &histories[last].conversation;
    let whole = template.run_whole(&messages[last], conversation, left_out)?.text;
    let stops = StopTokens::of(template, conversation);
    let turns: Vec<TrainedTurn> =
        found.iter().map(|(_, turn)| turn.found.in_text(turn.text.clone(), &turn.prompt)).collect();
    let documents = if wanted.choice == Turns::Each {
        turn_documents::each(&turns, &whole, &stops)
    } else {
        turn_documents::merged(&turns, &whole, &stops)
    };
    let learned = learned(template, conversation);
    let mut finder = PartFinder::new(template, wanted, conversation, &messages[last]);
    let mut texts = Vec::with_capacity(documents.len());
    for document in documents {
        let (number, last) = &found[document.last];
        let own =
            message_spans::turns(template, learned.as_deref(), &document.text, document.turns);
        let mut parted = Vec::with_capacity(own.len());
        for turn in own {
            let of_turn = |(_, found): &&(usize, FoundTexts)| found.found.message == turn.message;
            let (number, FoundTexts { found, text, .. }) =
                found.iter().find(of_turn).expect("a document has turns that were found");
            let place = TurnPlace {
                conversation: &histories[*number].conversation,
                messages: &messages[*number][..=found.message],
                text,
                span: found.start..text[..found.end].trim_end().len().max(found.start),
                shift: turn.span.start.wrapping_sub(found.start),
                is_joined: found.first < found.message,
            };
            parted.push(finder.part(turn, &place)?);
        }
        let count = if document.text == whole {
            messages[*number].len()
        } else {
            last.found.message + usize::from(!last.found.is_rewritten)
        };
        let conversation = &histories[*number].conversation;
        let others = finder.others(conversation, &messages[*number][..count], &document.text)?;
        texts.push(with_others(document.text, parted, others));
    }
    let own = turns.iter().filter(|turn| texts.len() > 1 && turn.is_generated());
    let facts = WholeText::of(&whole, own.map(TrainedTurn::text));
    if texts.is_empty() {
        let others = finder.others(conversation, &messages[last], &whole)?;
        texts.push(with_others(whole, Vec::new(), others));
    }
    Ok((texts, facts))
}

/// The turns of all histories, each with the number of its history.
///
/// Fails with the words of the template if it refuses all turns.
fn found_turns(
    template: &ChatTemplate,
    histories: &[TurnHistory],
    messages: &[Vec<Cow<'_, Map>>],
    wanted: WantedTurns<'_>,
) -> Result<Vec<(usize, FoundTexts)>, Fault> {
    let mut found: Vec<(usize, FoundTexts)> = Vec::new();
    let mut refusal = None;
    for (number, TurnHistory { conversation, turns, .. }) in histories.iter().enumerate() {
        let is_own = |at: usize| turns.contains(&at) && (wanted.is_chosen)(at);
        match rule::turns(template, conversation, &messages[number], is_own) {
            Ok(turns) => found.extend(turns.into_iter().map(|turn| (number, turn))),
            Err(fault) if fault.reason == Reason::Template => refusal = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    match refusal {
        Some(refusal) if found.is_empty() => Err(refusal),
        _ => Ok(found),
    }
}

/// A text that is rendered as a whole: the first messages of a history, and those whose turns are trained in it.
struct RenderedHistory {
    history: usize,
    count: usize,
    turns: Range<usize>,
}

/// The texts of a template that marks its turns, or of [`Turns::Whole`].
fn bases(
    template: &ChatTemplate,
    histories: &[TurnHistory],
    wanted: WantedTurns<'_>,
) -> Vec<RenderedHistory> {
    let last = histories.len() - 1;
    let conversation = &histories[last].conversation;
    let count = conversation.messages.len();
    let is_turn = |at: &usize| is_assistant(&conversation.messages[*at]) && (wanted.is_chosen)(*at);
    let whole = RenderedHistory { history: last, count, turns: 0..count };
    let needs_alone = |history: &TurnHistory| {
        let messages = prepared(&history.conversation);
        template.needs_turns_alone(wanted.choice, &history.conversation, &messages)
    };
    let are_alone = template.generates && histories.iter().any(needs_alone);
    let mut bases = Vec::new();
    for (history, own) in histories.iter().enumerate() {
        let mut turns = own.turns.clone().filter(is_turn);
        match wanted.choice {
            Turns::Each => {
                bases.extend(turns.map(|at| RenderedHistory {
                    history,
                    count: at + 1,
                    turns: at..at + 1,
                }));
            }
            Turns::Auto if are_alone => {
                bases.extend(turns.map(|at| RenderedHistory {
                    history,
                    count: at + 1,
                    turns: at..at + 1,
                }));
            }
            Turns::Auto => bases.extend(turns.next_back().map(|at| RenderedHistory {
                history,
                count: at + 1,
                turns: own.turns.clone(),
            })),
            Turns::Last | Turns::Whole => {}
        }
    }
    let is_split = match wanted.choice {
        Turns::Each => template.generates,
        Turns::Auto => are_alone || histories.iter().any(|history| history.has_dropped),
        Turns::Last | Turns::Whole => false,
    };
    if !is_split || bases.is_empty() {
        return vec![whole];
    }
    if let Some(base) = bases.last_mut().filter(|_| wanted.choice == Turns::Auto) {
        base.count = histories[base.history].conversation.messages.len();
    }
    bases
}

/// The documents of texts that are rendered as a whole.
fn texts_of_bases(
    template: &ChatTemplate,
    histories: &[TurnHistory],
    bases: &[RenderedHistory],
    wanted: WantedTurns<'_>,
    mut left_out: Option<&mut LeftOut>,
) -> Result<(Vec<PartedText>, WholeText), Fault> {
    let mut whole_text = String::new();
    let mut finder = None;
    let mut texts: Vec<PartedText> = Vec::new();
    for (number, base) in bases.iter().enumerate() {
        let whole = &histories[base.history].conversation;
        let messages = whole.messages[..base.count].to_vec();
        let conversation = Conversation { messages, weights: None, ..whole.clone() };
        let messages = prepared(&conversation);
        if number + 1 == bases.len() && base.count < whole.messages.len() {
            whole_text = template.run_whole(&prepared(whole), whole, left_out.take())?.text;
        }
        let noted = if number + 1 == bases.len() { left_out.take() } else { None };
        let (text, mut turns) = template.render_turns(&conversation, noted)?;
        let owners: Vec<usize> = turns.iter().map(|turn| turn.message).collect();
        let is_context = |at: usize| {
            template.generates
                && wanted.choice != Turns::Whole
                && template.hides_calls(&conversation, &messages, at)
        };
        turns.retain(|turn| {
            base.turns.contains(&turn.message)
                && (wanted.is_chosen)(turn.message)
                && !is_context(turn.message)
        });
        let finder = finder
            .get_or_insert_with(|| PartFinder::new(template, wanted, &conversation, &messages));
        let mut parted = Vec::with_capacity(turns.len());
        for turn in turns {
            let is_joined =
                turn.message.checked_sub(1).is_some_and(|before| !owners.contains(&before));
            let span = turn.span.clone();
            let place = TurnPlace {
                conversation: &conversation,
                messages: &messages,
                text: &text,
                span: span.start..text[..span.end].trim_end().len().max(span.start),
                shift: 0,
                is_joined,
            };
            let is_begun = parted
                .last()
                .is_some_and(|before: &PartedTurn| before.turn.message == turn.message);
            let mut part = finder.part(turn, &place)?;
            if is_begun {
                // The generation prompt stands before the first stretch of a message.
                part.prompt = part.turn.span.start..part.turn.span.start;
            }
            parted.push(part);
        }
        let others = finder.others(&conversation, &messages, &text)?;
        let mut parted_text = with_others(text, parted, others);
        // A text that the next one continues needs no document of its own.
        if let Some(before) = texts.pop_if(|before| {
            wanted.choice != Turns::Each && parted_text.text.starts_with(before.text.as_str())
        }) {
            parted_text.turns.splice(0..0, before.turns);
        }
        texts.push(parted_text);
    }
    if let Some(last) = texts.last().filter(|_| whole_text.is_empty()) {
        whole_text.clone_from(&last.text);
    }
    let own = texts.iter().filter_map(|text| Some(&text.text[..text.turns.last()?.turn.span.end]));
    let facts = WholeText::of(&whole_text, own);
    Ok((texts, facts))
}

/// A text with its turns and the messages of other roles.
fn with_others(text: String, mut turns: Vec<PartedTurn>, others: Vec<AssistantTurn>) -> PartedText {
    turns.extend(others.into_iter().map(|turn| {
        let prompt = turn.span.start..turn.span.start;
        PartedTurn { turn, masked: Vec::new(), prompt }
    }));
    turns.sort_by_key(|parted| parted.turn.span.start);
    PartedText { text, turns }
}

impl PartedText {
    /// The text with its turns alone.
    pub fn turns(&self) -> TurnText {
        let turns = self.turns.iter().map(|parted| parted.turn.clone()).collect();
        TurnText { text: self.text.clone(), turns }
    }
}
