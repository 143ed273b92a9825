//! How a template begins and ends the assistant's turns, learned from what it makes of tiny conversations.

use std::borrow::Cow;

use super::ChatTemplate;
use super::marks::{extents, mark_all, unmark};
use crate::record::Conversation;
use crate::record::value::{Map, Value as Json};

/// The texts around what the assistant writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// What stands before it, longest first: the generation prompt, or what real turns share with it.
    pub(super) headers: Vec<String>,
    /// What stands after it, up to and including the token that ends the turn; empty if there is no such token.
    pub(super) ends: Vec<String>,
    /// Whether the headers are the turn's own though no generation prompt writes them.
    pub(super) unprompted: bool,
}

fn message(role: &str) -> Map {
    [("role", role), ("content", "x")]
        .into_iter()
        .map(|(key, text)| (key.into(), Json::String(text.into())))
        .collect()
}

/// Learns the turns of `template` under a conversation's keyword arguments.
pub(super) fn learn(template: &ChatTemplate, conversation: &Conversation) -> Option<Turn> {
    let bare = Conversation { tools: None, ..conversation.clone() };
    let render = |roles: &[&str], prompt: bool| {
        let messages: Vec<Cow<'_, Map>> =
            roles.iter().map(|role| Cow::Owned(message(role))).collect();
        template.run(&mark_all(&messages)?, &bare, Some(prompt)).ok().map(|output| output.text)
    };
    let before = render(&["user"], false)?;
    let prompted = render(&["user"], true)?;
    // Without a prompt, some templates close the whole conversation instead.
    let before = &before[..shared_length(&before, &prompted)];
    let prompt = &prompted[before.len()..];
    let mut turn = Turn::default();
    for roles in [&["user", "assistant"][..], &["user", "assistant", "user", "assistant"][..]] {
        let text = render(roles, false)?;
        let shared = shared_length(prompt, text.strip_prefix(before)?);
        let mut header = &prompt[..shared];
        if shared < prompt.len() {
            // What differs may share its first characters by chance; a header ends with a line or a token.
            header = &header[..header.rfind(['\n', '>', ']']).map_or(0, |at| at + 1)];
        }
        if prompt.is_empty() {
            let (header, own) = unprompted_header(before, &text, roles.len())?;
            turn.headers.push(header);
            turn.unprompted |= own;
        } else if header.is_empty() {
            return None;
        }
        // A turn may lack the end of the prompt, such as the `<think>` line that a template forces; but what is left
        // has to tell the assistant's turns from others.
        let lines = header
            .match_indices('\n')
            .map(|(at, _)| &header[..=at])
            .filter(|line| !before.contains(*line));
        for header in lines.chain([header]) {
            if !header.is_empty() && !turn.headers.iter().any(|known| known == header) {
                turn.headers.push(header.to_owned());
            }
        }
        let (plain, places) = unmark(&text);
        let found = extents(&places, roles.len());
        let from = found[1].as_ref()?.end;
        let to = found
            .get(2)
            .map_or(plain.len(), |next| next.as_ref().map_or(plain.len(), |next| next.start));
        // A template may print a message before one that comes earlier.
        let tail = plain.get(from..to)?;
        // A turn in the middle may end as the last one does, or in its own way.
        if !turn.ends.iter().any(|end| !end.is_empty() && tail.starts_with(end.as_str())) {
            let end = ending(template, tail, roles.len() == 2);
            if !turn.ends.contains(&end) {
                turn.ends.push(end);
            }
        }
    }
    turn.headers.retain(|header| !header.trim().is_empty());
    turn.headers.dedup();
    if turn.headers.is_empty() {
        return None;
    }
    turn.headers.sort_by_key(|header| std::cmp::Reverse(header.len()));
    Some(turn)
}

/// What stands before the assistant's first text where no prompt tells, and whether it is the turn's own.
///
/// That is the text between the user's turn and the assistant's words; where there is none but blanks, as after a
/// closing `[/INST]`, it is the end of the user's turn, which the assistant's follows at once.
fn unprompted_header(before: &str, text: &str, messages: usize) -> Option<(String, bool)> {
    let (user, places) = unmark(before);
    let tail = &user[extents(&places, 1)[0].as_ref()?.end..];
    let (plain, places) = unmark(text);
    let found = extents(&places, messages);
    let between = plain.get(found[0].as_ref()?.end..found[1].as_ref()?.start)?;
    let own = between.strip_prefix(tail)?;
    Some(if own.trim().is_empty() { (tail.to_owned(), false) } else { (own.to_owned(), true) })
}

/// How many bytes two texts have in common at their beginning.
fn shared_length(left: &str, right: &str) -> usize {
    let differ = left.char_indices().zip(right.chars()).find(|((_, left), right)| left != right);
    differ.map_or(left.len().min(right.len()), |((at, _), _)| at)
}

/// `tail` up to and including a special token: the last one if nothing else follows the turn, else the first.
fn ending(template: &ChatTemplate, tail: &str, last: bool) -> String {
    let ends = template.context.turn_ends.iter().filter(|token| !token.is_empty());
    let places = ends.filter_map(|token| {
        let found = if last { tail.rfind(&**token) } else { tail.find(&**token) };
        found.map(|at| (at, at + token.len()))
    });
    let end = if last {
        places.max_by_key(|place| place.1)
    } else {
        places.min_by_key(|place| (place.0, usize::MAX - place.1))
    };
    end.map_or_else(String::new, |(_, end)| tail[..end].to_owned())
}
