//! Prompts with answers: a chosen and a rejected one, one that is judged, or none.

use std::sync::Arc;

use super::flags;
use super::messages::{self, MessageForms};
use super::text;
use crate::config::Part;
use crate::record::kinds::{Answers, Conversation, Prompted, Record};
use crate::record::parsing::fault::{Fault, wrong_type};
use crate::record::shape::Shape;
use crate::report::ledger::Reason;
use fastpack_template::json::{Json, Map};

/// A prompt, a chosen and a rejected answer. Without a prompt of its own, the prompt is the common beginning of both answers.
pub(crate) fn read_pair(
    record: &Map,
    shape: &Shape,
    takes: MessageForms,
) -> Result<Answers, Fault> {
    let fields = [shape.field(Part::Chosen), shape.field(Part::Rejected)];
    let prompt = shape.field(Part::Prompt);
    let has_prompt = !matches!(record.get(prompt), None | Some(Json::Null));
    let prompted = if is_text(record, fields[0])? {
        let [chosen, rejected] = [string(record, fields[0])?, string(record, fields[1])?];
        let (prompt, answers) = if has_prompt {
            if !is_text(record, prompt)? {
                return Err(mixed(TypedField::list(prompt), TypedField::text(fields[0])));
            }
            (string(record, prompt)?, [chosen, rejected])
        } else {
            split_texts(&chosen, &rejected, fields)?
        };
        Prompted::Texts { prompt, answers: answers.into() }
    } else {
        let own = has_prompt && !is_text(record, prompt)?;
        let context = conversation(record, own.then_some(prompt), fields[0], shape, takes)?;
        let read = |field| messages::read_list(record, field, takes);
        let [mut chosen, mut rejected] = [read(fields[0])?, read(fields[1])?];
        let same = if own { 0 } else { shared_messages(&chosen, &rejected) };
        check_flags(&chosen, fields[0], same)?;
        check_flags(&rejected, fields[1], same)?;
        let mut prompt = context;
        if !own {
            // A prompt that is a text beside messages repeats the beginning of both answers.
            if same == 0 && has_prompt {
                let prompt = shape.field(Part::Prompt);
                return Err(mixed(TypedField::text(prompt), TypedField::list(fields[0])));
            }
            if same == 0 {
                let message = format!(
                    "`{}` and `{}` begin with different messages, so that neither tells the prompt; give it as `prompt`",
                    fields[0], fields[1]
                );
                return Err(Fault::new(Reason::NoContent, message));
            }
            rejected.drain(..same);
            prompt.messages.extend(chosen.drain(..same));
        }
        Prompted::Messages { prompt, answers: vec![chosen, rejected] }
    };
    Ok(Answers { prompted, label: None })
}

/// A prompt, its completion, and whether that is a good one.
pub(crate) fn read_judged(
    record: &Map,
    shape: &Shape,
    takes: MessageForms,
) -> Result<Answers, Fault> {
    let [prompt, completion] = [shape.field(Part::Prompt), shape.field(Part::Completion)];
    let label = match record.get(shape.field(Part::Label)) {
        Some(Json::Bool(label)) => *label,
        Some(Json::Int(label @ (0 | 1))) => *label == 1,
        other => {
            return Err(wrong_type(shape.field(Part::Label), "true or false", other));
        }
    };
    let is_text = [is_text(record, prompt)?, is_text(record, completion)?];
    if is_text[0] != is_text[1] {
        let typed = |name, is_text| {
            if is_text { TypedField::text(name) } else { TypedField::list(name) }
        };
        return Err(mixed(typed(prompt, is_text[0]), typed(completion, is_text[1])));
    }
    let prompted = if is_text[0] {
        let answers = vec![string(record, completion)?];
        Prompted::Texts { prompt: string(record, prompt)?, answers }
    } else {
        let context = conversation(record, Some(prompt), prompt, shape, takes)?;
        let answer = messages::read_list(record, completion, takes)?;
        check_flags(&answer, completion, 0)?;
        Prompted::Messages { prompt: context, answers: vec![answer] }
    };
    Ok(Answers { prompted, label: Some(label) })
}

/// A prompt alone.
pub(crate) fn read_prompt(
    record: &Map,
    shape: &Shape,
    takes: MessageForms,
) -> Result<Record, Fault> {
    let prompt = shape.field(Part::Prompt);
    if is_text(record, prompt)? {
        return text::read(record, prompt).map(Record::Text);
    }
    messages::read(record, prompt, shape, takes).map(Record::Conversation)
}

/// The prompt that is a list of messages in the field `prompt`, or one without messages but those of a system text.
fn conversation(
    record: &Map,
    prompt: Option<&str>,
    answers: &str,
    shape: &Shape,
    takes: MessageForms,
) -> Result<Conversation, Fault> {
    let (mut read, before) =
        messages::read_unmasked(record, prompt.unwrap_or(answers), shape, takes)?;
    let weights = read.weights.take();
    match prompt {
        Some(prompt) => {
            let own = weights.iter().flat_map(|weights| &weights[before..]);
            own.enumerate().try_for_each(|(at, weight)| check_weight(*weight, prompt, at, true))?;
        }
        // Its messages were those of an answer, after those of a system text.
        None => read.messages.truncate(before),
    }
    Ok(read)
}

/// Fails for a message of the answers in `field` that asks to be trained otherwise than answers are: as a whole, behind
/// a prompt of the first `prompt` messages that is not trained.
fn check_flags(messages: &[Arc<Map>], field: &str, prompt: usize) -> Result<(), Fault> {
    let weights = flags::read(messages, field)?;
    let mut weights = weights.into_iter().flatten().enumerate();
    weights.try_for_each(|(at, weight)| check_weight(weight, field, at, at < prompt))
}

/// Fails for a message that asks for another weight than one of a prompt or an answer has.
fn check_weight(weight: Option<f32>, field: &str, at: usize, is_prompt: bool) -> Result<(), Fault> {
    let (due, reason) = if is_prompt {
        (0.0, "only answers are compared, and it is of the prompt")
    } else {
        (1.0, "answers are compared as a whole")
    };
    match weight.filter(|weight| weight.to_bits() != f32::to_bits(due)) {
        None => Ok(()),
        Some(weight) => Err(Fault::new(
            Reason::Unmaskable,
            format!(
                "`{field}[{at}]` asks to be trained with the weight {weight}, but {reason}; a `map` can take its `{}` out",
                flags::NAMES.join("`, `")
            ),
        )),
    }
}

/// A field, and the kind of its value, as messages name it.
#[derive(Clone, Copy)]
struct TypedField<'a> {
    name: &'a str,
    kind: &'static str,
}

impl<'a> TypedField<'a> {
    fn text(name: &'a str) -> Self {
        Self { name, kind: "a text" }
    }

    fn list(name: &'a str) -> Self {
        Self { name, kind: "a list of messages" }
    }
}

/// The fault of a prompt and an answer, of which one is a text and the other a list of messages.
fn mixed(prompt: TypedField<'_>, answer: TypedField<'_>) -> Fault {
    let message = format!(
        "`{}` is {}, but `{}` is {}; give both as texts, or both as lists of messages: `[{{\"role\": \"user\", \"content\": …}}]`",
        prompt.name, prompt.kind, answer.name, answer.kind
    );
    Fault::new(Reason::WrongType, message)
}

/// True if a field holds a text rather than messages.
fn is_text(record: &Map, field: &str) -> Result<bool, Fault> {
    match record.get(field) {
        Some(Json::String(_)) => Ok(true),
        Some(Json::List(_)) => Ok(false),
        other => Err(wrong_type(field, "a string or a list of messages", other)),
    }
}

fn string(record: &Map, field: &str) -> Result<String, Fault> {
    match record.get(field) {
        Some(Json::String(text)) => Ok(text.to_string()),
        other => Err(wrong_type(field, "a string", other)),
    }
}

/// The number of messages that both answers begin with: the prompt, by `extract_prompt` of TRL.
fn shared_messages(chosen: &[Arc<Map>], rejected: &[Arc<Map>]) -> usize {
    let shortest = chosen.len().min(rejected.len());
    let mut pairs = chosen.iter().zip(rejected);
    pairs.position(|(one, other)| !is_same(one, other)).unwrap_or(shortest - 1)
}

/// True if two messages say the same, whatever their flags.
fn is_same(one: &Map, other: &Map) -> bool {
    let without_flags = |message: &Map| {
        let mut bare = message.clone();
        bare.retain(|name, _| !flags::NAMES.contains(&&**name));
        bare
    };
    one == other
        || (flags::NAMES.iter().any(|flag| one.contains_key(*flag) || other.contains_key(*flag))
            && without_flags(one) == without_flags(other))
}

/// The prompt that both texts begin with, and the rest of each: the rule of `extract_prompt` of TRL.
///
/// A space before the first difference belongs to the answers. If one text begins with the other, the last character of
/// the shorter one belongs to the answers too.
fn split_texts(
    chosen: &str,
    rejected: &str,
    fields: [&str; 2],
) -> Result<(String, [String; 2]), Fault> {
    for (text, field) in [(chosen, fields[0]), (rejected, fields[1])] {
        if text.is_empty() {
            return Err(Fault::new(Reason::Empty, format!("`{field}` is empty")));
        }
    }
    let mut pairs = chosen.char_indices().zip(rejected.chars());
    let differs = pairs.find(|((_, one), other)| one != other).map(|((at, _), _)| at);
    let shorter = if chosen.len() <= rejected.len() { chosen } else { rejected };
    let last = shorter.char_indices().next_back().map_or(0, |(at, _)| at);
    let mut end = differs.unwrap_or(last);
    if differs.is_some() {
        if chosen[..end].ends_with(' ') {
            end -= 1;
        } else if end == 0 && chosen.ends_with(' ') {
            let message = format!(
                "`{}` and `{}` share no prompt, and TRL would lose most of both, as the first ends with a space; give \
                 the prompt as `prompt`",
                fields[0], fields[1]
            );
            return Err(Fault::new(Reason::NoContent, message));
        }
    }
    Ok((chosen[..end].to_owned(), [chosen[end..].to_owned(), rejected[end..].to_owned()]))
}
