//! Reads files that list byte-level tokens by rank (tiktoken, tekken) as a `tokenizer.json`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::result;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::converted::{ConvertedTokenizer, TEKKEN, takes_whole};
use crate::error::Result;
use crate::pretrained::classes::tokenizer;
use crate::pretrained::model_folder::ModelFolder;
use crate::pretrained::settings::Settings;
use crate::pretrained::token::TokenSetting;
use crate::unicode::byte_letters::byte_letters;

/// The pattern of every tokenizer that transformers makes of a tiktoken file.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Tokens with their ranks, in the order of the file.
struct Ranks {
    tokens: Vec<Vec<u8>>,
    ranks: HashMap<Vec<u8>, u64>,
}

impl Ranks {
    fn new() -> Self {
        Self { tokens: Vec::new(), ranks: HashMap::new() }
    }

    /// Adds a token; the error says why it cannot be.
    fn add(&mut self, token: Vec<u8>, rank: u64) -> result::Result<(), &'static str> {
        match self.ranks.entry(token) {
            Entry::Occupied(_) => Err("lists a token twice"),
            Entry::Vacant(place) if place.key().is_empty() => Err("lists an empty token"),
            Entry::Vacant(place) => {
                self.tokens.push(place.key().clone());
                place.insert(rank);
                Ok(())
            }
        }
    }

    /// The tokens in the alphabet of bytes, with `first` added to each rank.
    fn vocab(&self, first: u64) -> Map<String, Value> {
        self.tokens.iter().map(|it| (spelled(it), (first + self.ranks[it]).into())).collect()
    }

    /// Every way to cut a token into two others, by the rank of the token and those of its parts.
    fn merges(&self) -> Vec<[String; 2]> {
        let mut merges = Vec::new();
        for token in &self.tokens {
            let cuts = (1..token.len()).map(|at| token.split_at(at));
            let mut known: Vec<_> = cuts
                .filter_map(|(left, right)| {
                    Some(((*self.ranks.get(left)?, *self.ranks.get(right)?), left, right))
                })
                .collect();
            known.sort_by_key(|(ranks, ..)| *ranks);
            let rank = self.ranks[token];
            merges.extend(known.into_iter().map(|(_, left, right)| (rank, left, right)));
        }
        merges.sort_by_key(|(rank, ..)| *rank);
        merges.into_iter().map(|(_, left, right)| [spelled(left), spelled(right)]).collect()
    }
}

fn spelled(token: &[u8]) -> String {
    token.iter().map(|byte| byte_letters()[usize::from(*byte)].as_str()).collect()
}

/// A tokenizer of a vocabulary and merges, with special tokens, whose text is cut by a pattern.
fn whole(
    vocab: &Map<String, Value>,
    merges: &[[String; 2]],
    pattern: &str,
    special: &[String],
) -> ConvertedTokenizer {
    let mut next = vocab.len();
    let mut seen = HashSet::new();
    let mut added = Vec::new();
    for content in special.iter().filter(|content| !content.is_empty() && seen.insert(*content)) {
        let id = vocab.get(content).cloned().unwrap_or_else(|| {
            next += 1;
            (next - 1).into()
        });
        added.push(json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }));
    }
    let model = json!({"type": "BPE", "fuse_unk": false, "ignore_merges": true, "vocab": vocab, "merges": merges});
    let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let bytes = |trim: bool, pattern: bool| json!({"type": "ByteLevel", "add_prefix_space": !pattern && trim, "trim_offsets": trim, "use_regex": pattern});
    let steps = json!({"type": "Sequence", "pretokenizers": [split, bytes(false, false)]});
    let mut whole = tokenizer(Value::Null, steps, bytes(true, true), model);
    whole["added_tokens"] = added.into();
    whole["post_processor"] = bytes(false, true);
    let mut converted = ConvertedTokenizer::new(whole);
    converted.is_whole = true;
    converted
}

/// Reads a tiktoken file: lines of a token, in base64, and its rank.
pub(super) fn tiktoken(
    folder: &ModelFolder<'_>,
    name: &str,
    class: &str,
    bytes: &[u8],
    settings: &Settings,
) -> Result<ConvertedTokenizer> {
    let mut ranks = Ranks::new();
    let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    for (index, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
        let malformed = |reason: &str| {
            let place = format!("line {} {reason}", index + 1);
            folder.malformed(
                name,
                format!("is neither a SentencePiece model nor a tiktoken file: {place}"),
            )
        };
        let (token, rank) = std::str::from_utf8(line)
            .ok()
            .and_then(|line| {
                let mut words = line.split_ascii_whitespace();
                let (token, rank) = (words.next()?, words.next()?.parse::<u32>().ok()?);
                words.next().is_none().then_some((STANDARD.decode(token).ok()?, u64::from(rank)))
            })
            .ok_or_else(|| malformed("must be a token in base64 and its rank"))?;
        ranks.add(token, rank).map_err(malformed)?;
    }
    if !takes_whole(class) {
        return Err(folder.foreign(class));
    }
    let mut special = Vec::new();
    for token in settings.list("extra_special_tokens")?.unwrap_or_default() {
        let TokenSetting::Text(content) = token else {
            let reason = "transformers takes texts alone beside a tiktoken file";
            return Err(settings.malformed("extra_special_tokens", reason));
        };
        special.push(content);
    }
    let count = i64::try_from(ranks.tokens.len()).unwrap_or(i64::MAX);
    let last = settings.added_tokens.keys().last().copied().unwrap_or_default();
    if last >= count {
        if last - count > MOST_RESERVED {
            let reason = format!("names the id {last}, far above the {count} tokens of `{name}`");
            return Err(settings.malformed("added_tokens_decoder", reason));
        }
        let listed: Vec<String> = (count..=last)
            .map(|id| match settings.added_tokens.get(&id) {
                Some(token) => token.content.clone(),
                None => format!("<|reserved_token_{id}|>"),
            })
            .collect();
        special.retain(|content| !listed.contains(content));
        special.splice(..0, listed);
    }
    Ok(whole(&ranks.vocab(0), &ranks.merges(), PATTERN, &special))
}

/// The most ids after the vocabulary of a tiktoken file for which reserved tokens are made.
const MOST_RESERVED: i64 = 1 << 20;

/// Reads a tekken file: JSON with a pattern, tokens in the order of their ranks, and special tokens before them.
pub(super) fn tekken(
    folder: &ModelFolder<'_>,
    class: &str,
    bytes: &[u8],
) -> Result<ConvertedTokenizer> {
    let malformed = |reason: &str| folder.malformed(TEKKEN, reason);
    let tekken: Value =
        serde_json::from_slice(bytes).map_err(|error| folder.malformed(TEKKEN, error))?;
    if !takes_whole(class) {
        return Err(folder.foreign(class));
    }
    let config = &tekken["config"];
    let pattern =
        config["pattern"].as_str().ok_or_else(|| malformed("`config.pattern` must be a text"))?;
    let special = tekken_special(&tekken).map_err(|reason| malformed(&reason))?;
    let tokens =
        tekken["vocab"].as_array().ok_or_else(|| malformed("`vocab` must be a list of tokens"))?;
    let count = match &config["default_vocab_size"] {
        Value::Null => tokens.len(),
        size => size
            .as_u64()
            .and_then(|size| usize::try_from(size).ok()?.checked_sub(special.len()))
            .ok_or_else(|| {
                malformed("`config.default_vocab_size` is less than the special tokens")
            })?,
    };
    let mut ranks = Ranks::new();
    for (rank, token) in (0..).zip(tokens.iter().take(count)) {
        let decoded = token["token_bytes"].as_str().and_then(|token| STANDARD.decode(token).ok());
        let token = decoded.ok_or_else(|| {
            folder.malformed(TEKKEN, format!("`vocab[{rank}].token_bytes` must be base64"))
        })?;
        let twice = |reason| folder.malformed(TEKKEN, format!("`vocab[{rank}]` {reason}"));
        ranks.add(token, rank).map_err(twice)?;
    }
    let first = special.len();
    let mut vocab = ranks.vocab(first.try_into().unwrap_or(u64::MAX));
    for (id, content) in special.iter().enumerate() {
        vocab.insert(content.clone(), id.into());
    }
    Ok(whole(&vocab, &ranks.merges(), pattern, &special))
}

/// The special tokens of a tekken file, by rank, with names for those that have none.
fn tekken_special(tekken: &Value) -> result::Result<Vec<String>, String> {
    let Some(listed) = tekken["special_tokens"].as_array() else {
        return Err("has no `special_tokens`: transformers needs mistral-common for it".to_owned());
    };
    let mut special = Vec::new();
    for token in listed {
        let rank = token["rank"].as_u64().ok_or("`special_tokens` must have ranks")?;
        let content =
            token["token_str"].as_str().ok_or("`special_tokens` must have a text each")?;
        special.push((rank, content.to_owned()));
    }
    special.sort();
    if (0..).zip(&special).any(|(rank, (listed_rank, _))| rank != *listed_rank) {
        return Err("the ranks of `special_tokens` must be 0, 1 and so on".to_owned());
    }
    let mut special: Vec<String> = special.into_iter().map(|(_, content)| content).collect();
    let count = match &tekken["config"]["default_num_special_tokens"] {
        Value::Null => special.len(),
        count => count
            .as_u64()
            .and_then(|count| usize::try_from(count).ok())
            .filter(|count| special.len() <= *count && *count <= MOST_SPECIAL)
            .ok_or("`config.default_num_special_tokens` must be a count, not less than `special_tokens`")?,
    };
    special.extend((special.len()..count).map(|id| format!("<SPECIAL_{id}>")));
    Ok(special)
}

/// The most special tokens of a tekken file.
const MOST_SPECIAL: usize = 1 << 20;
