//! Classes for speech.

use serde_json::Value;

use super::languages::{WHISPER, WHISPER_ALIASES};
use super::unigram::{self, finish_t5, prepare_t5, spaced_words};
use super::{Recipe, as_added, bpe, frame, metaspace, text, tokenizer};
use crate::error::Result;
use crate::pretrained::backend::{Backend, PairTemplate};
use crate::pretrained::settings::Settings;
use crate::pretrained::vocabulary::Vocabulary;

const END_OF_TEXT: Option<&str> = Some("<|endoftext|>");

pub(super) fn recipe(class: &str) -> Option<Recipe> {
    Some(match class {
        "WhisperTokenizer" => Recipe {
            defaults: &[
                ("unk_token", END_OF_TEXT),
                ("bos_token", END_OF_TEXT),
                ("eos_token", END_OF_TEXT),
            ],
            prepare: prepare_whisper,
            build: bpe::byte_level,
            finish: finish_whisper,
        },
        "LasrTokenizer" => Recipe {
            defaults: &[
                ("eos_token", Some("</s>")),
                ("unk_token", Some("<unk>")),
                ("pad_token", Some("<pad>")),
            ],
            prepare: prepare_t5,
            build: lasr,
            finish: finish_t5,
        },
        _ => return None,
    })
}

fn prepare_whisper(settings: &mut Settings) -> Result<()> {
    for name in ["bos_token", "eos_token", "unk_token"] {
        as_added(settings, name, |token| {
            token.normalized = Some(false);
            token.special = true;
        })?;
    }
    Ok(())
}

/// Sets the tokens at the start of a transcript: its language, its task, and whether it has timestamps.
fn finish_whisper(backend: &mut Backend, settings: &Settings) -> Result<()> {
    let start = backend.known_id("<|startoftranscript|>")?;
    let mut before = vec![start];
    if let Some(language) = text(settings, "language")? {
        let language = language.to_lowercase();
        let named = |(code, name): &&(&str, &str)| *code == language || *name == language;
        let alias = WHISPER_ALIASES.iter().find(|(name, _)| *name == language);
        let code = alias
            .map(|(_, code)| *code)
            .or_else(|| WHISPER.iter().find(named).map(|(code, _)| *code));
        let place = WHISPER.iter().zip(1..).find(|((known, _), _)| Some(*known) == code);
        let (_, place) =
            place.ok_or_else(|| settings.malformed("language", "must be a language of Whisper"))?;
        before.push(start + place);
    }
    match text(settings, "task")?.as_deref() {
        None => {}
        Some(task @ ("translate" | "transcribe")) => {
            before.push(backend.known_id(&format!("<|{task}|>"))?);
        }
        Some(_) => return Err(settings.malformed("task", "must be `translate` or `transcribe`")),
    }
    if !settings.flag("predict_timestamps", false)? {
        before.push(backend.known_id("<|notimestamps|>")?);
    }
    let eos = backend.known_id(&backend.required("eos_token")?)?;
    frame(backend, &before, &[eos], PairTemplate::Joined(1))
}

fn lasr(_: &Settings, vocabulary: &Vocabulary<'_>) -> Result<Value> {
    let normalizer = vocabulary.charsmap().unwrap_or_default();
    let model = unigram::model(vocabulary, 3)?;
    Ok(tokenizer(normalizer, spaced_words("always"), metaspace("always", true), model))
}
