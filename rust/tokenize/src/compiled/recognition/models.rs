//! Builds a compiled model from the `model` of a `tokenizer.json`, or names the part that is not supported.

use std::borrow::Cow;

use super::tokenizer_file::{UNIGRAM, WORD_LEVEL, WORD_PIECE, WrittenModel, WrittenVocabulary};
use crate::compiled::engines::bert_word_piece::WordPieceEngine;
use crate::compiled::engines::byte_level::{ByteLevel, Unknown};
use crate::compiled::engines::general::{Affixes, Characters, Fallback, PieceModel, WordLevel};
use crate::compiled::engines::sentence_piece_bpe;
use crate::compiled::engines::sentence_piece_bpe::{MissingCharacters, SentencePieceBpe};
use crate::compiled::engines::space_prefix::{META_CHARACTER, SpacePrefix};
use crate::compiled::engines::unigram;
use crate::compiled::engines::unigram::Unigram;
use crate::compiled::engines::word_piece;
use crate::compiled::engines::word_piece::WordPiece;
use crate::compiled::normalizers::bert::Bert;
use crate::compiled::pre_tokenizer::MetaspaceSpaces;
use crate::loading::in_parallel::both;
use crate::models::merge::{LARGEST_MERGES, LARGEST_SYMBOLS, Merge};
use crate::models::viterbi::Viterbi;
use crate::pieces::{TokenName, Vocabulary};
use crate::split::Splitter;
use crate::unicode::byte_letters::byte_alphabet;

/// Bytes of the longest token of a compiled model: every token is encoded while the model is loaded.
const LONGEST_TOKEN: usize = 1 << 16;

/// The largest ratio of an id to the number of tokens: some tables have an entry for every id.
const SPARSEST: usize = 16;

/// The vocabulary and merges of a BPE model, in the spelling of its pieces.
struct SpelledModel {
    vocabulary: Vocabulary,
    /// The id of each token.
    ids: Vec<u32>,
    merges: Vec<Merge>,
}

/// Reads a BPE model. `spell` appends a token in the spelling of pieces, and says whether a piece can contain
/// it.
fn bpe(
    model: &WrittenModel<'_>,
    spell: impl Fn(&str, &mut Vec<u8>) -> bool + Sync,
) -> Result<SpelledModel, String> {
    if model.kind != "BPE" {
        return Err(format!("model {}", model.kind));
    }
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err("model BPE with dropout".to_owned());
    }
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or_default();
    let tokens = &model.vocab.0;
    let listed = model.merges.as_ref().map_or(&[][..], |merges| &merges.0);
    if tokens.len() >= LARGEST_SYMBOLS || listed.len() >= LARGEST_MERGES {
        return Err("model BPE of more than two million tokens".to_owned());
    }
    let mut vocabulary = Vocabulary::with_capacity(tokens.len());
    let mut ids = Vec::with_capacity(tokens.len());
    let mut seen = vec![false; tokens.len() * SPARSEST + 1];
    for (token, id) in tokens {
        let Some(place) = seen.get_mut(*id as usize) else {
            return Err("model BPE with sparse ids".to_owned());
        };
        if std::mem::replace(place, true) {
            return Err("model BPE with tokens that share an id".to_owned());
        }
        if token.len() > LONGEST_TOKEN {
            return Err(format!("model BPE with a token of {} bytes", token.len()));
        }
    }
    let (mut bytes, mut spelled, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for together in tokens.chunks(TOGETHER) {
        bytes.clear();
        for (token, id) in together {
            let start = bytes.len();
            if !token.is_empty() && spell(token, &mut bytes) {
                spelled.push((start..bytes.len(), *id));
            }
        }
        bytes.extend_from_slice(&TokenName::BEHIND);
        named.extend(spelled.drain(..).map(|(token, id)| (vocabulary.name(&bytes, token), id)));
        let new = named.drain(..).filter(|(name, _)| vocabulary.push_named(&bytes, name).is_some());
        ids.extend(new.map(|(_, id)| id));
    }
    let merges = if prefix.is_empty() {
        merges(listed, &vocabulary, spell)
    } else {
        continued(listed, &vocabulary, prefix)
    };
    if merges.len() < listed.len() && !model.checked {
        return Err("model BPE with merges of unknown tokens".to_owned());
    }
    Ok(SpelledModel { vocabulary, ids, merges })
}

/// The number of merges from which on a second thread saves time.
const WORTH_A_THREAD: usize = 1 << 14;

/// The number of tokens or merges that are read together, so that their look-ups in the vocabulary overlap.
const TOGETHER: usize = 32;

/// The merges whose three tokens are in the vocabulary; merges of tokens that no piece contains never happen.
fn merges(
    listed: &[[Cow<'_, str>; 2]],
    vocabulary: &Vocabulary,
    spell: impl Fn(&str, &mut Vec<u8>) -> bool + Sync,
) -> Vec<Merge> {
    if listed.len() > WORTH_A_THREAD {
        let (first, second) = listed.split_at(listed.len() / 2);
        let (mut merges, more) =
            both(|| known(first, vocabulary, &spell), || known(second, vocabulary, &spell));
        merges.extend(more);
        return merges;
    }
    known(listed, vocabulary, spell)
}

/// The merges of a model whose tokens begin with `prefix` within a word; a merge drops the prefix of its
/// right side.
fn continued(listed: &[[Cow<'_, str>; 2]], vocabulary: &Vocabulary, prefix: &str) -> Vec<Merge> {
    let merge = |[left, right]: &[Cow<'_, str>; 2]| {
        let whole = [left, right.get(prefix.len()..)?].concat();
        let token = |name: &str| vocabulary.get(name.as_bytes());
        Some(Merge { left: token(left)?, right: token(right)?, whole: token(&whole)? })
    };
    listed.iter().filter_map(merge).collect()
}

/// Refuses a model with `continuing_subword_prefix` or `end_of_word_suffix`.
fn without_affixes(model: &WrittenModel<'_>) -> Result<(), String> {
    let affixes = [
        ("continuing_subword_prefix", &model.continuing_subword_prefix),
        ("end_of_word_suffix", &model.end_of_word_suffix),
    ];
    for (name, affix) in affixes {
        if affix.as_ref().is_some_and(|affix| !affix.is_empty()) {
            return Err(format!("model BPE with {name}"));
        }
    }
    Ok(())
}

/// The merges in a part of the list whose three tokens are in the vocabulary.
fn known(
    listed: &[[Cow<'_, str>; 2]],
    vocabulary: &Vocabulary,
    spell: impl Fn(&str, &mut Vec<u8>) -> bool,
) -> Vec<Merge> {
    let mut merges = Vec::with_capacity(listed.len());
    let (mut bytes, mut spelled, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for together in listed.chunks(TOGETHER) {
        bytes.clear();
        for [left, right] in together {
            let start = bytes.len();
            if !spell(left, &mut bytes) {
                continue;
            }
            let middle = bytes.len();
            if spell(right, &mut bytes) {
                spelled.push([start..middle, middle..bytes.len(), start..bytes.len()]);
            }
        }
        bytes.extend_from_slice(&TokenName::BEHIND);
        named.extend(spelled.drain(..).map(|of| of.map(|token| vocabulary.name(&bytes, token))));
        merges.extend(named.drain(..).filter_map(|[left, right, whole]| {
            let token = |name| vocabulary.get_named(&bytes, &name);
            Some(Merge { left: token(left)?, right: token(right)?, whole: token(whole)? })
        }));
    }
    merges
}

/// A byte-level model: tokens are written in the alphabet of bytes.
pub(super) fn byte_level(
    model: &WrittenModel<'_>,
    splitter: Splitter,
) -> Result<ByteLevel, String> {
    without_affixes(model)?;
    let alphabet = byte_alphabet();
    let spell = |token: &str, out: &mut Vec<u8>| {
        let start = out.len();
        out.resize(start + token.len(), 0);
        let mut spelled = 0;
        // Other characters never occur in a text whose bytes are spelled, so such a token serves decoding
        // only.
        let possible = token.chars().zip(&mut out[start..]).all(|(character, place)| {
            let byte = alphabet.get(character as usize).copied().flatten();
            *place = byte.unwrap_or_default();
            spelled += 1;
            byte.is_some()
        });
        out.truncate(start + spelled);
        possible
    };
    let SpelledModel { vocabulary, ids, merges } = bpe(model, spell)?;
    let named = model.unk_token.as_ref().map(|unknown| {
        let mut bytes = Vec::new();
        let spelled = spell(unknown, &mut bytes).then(|| vocabulary.get(&bytes)).flatten();
        spelled
            .ok_or_else(|| format!("model BPE whose unk_token `{unknown}` is not spelled in bytes"))
    });
    let lacks =
        (0..=0xF4_u8).any(|byte| !matches!(byte, 0xC0 | 0xC1) && vocabulary.get(&[byte]).is_none());
    if lacks && model.byte_fallback {
        // The letter of such a byte falls back to the tokens of its own bytes.
        return Err("model BPE with byte_fallback that lacks bytes".to_owned());
    }
    let token = if lacks { named.transpose()? } else { None };
    let unknown = Unknown { token, fuse: model.fuse_unk };
    ByteLevel::new(splitter, &vocabulary, &ids, &merges, model.ignore_merges, unknown)
        .ok_or_else(|| "model BPE whose merges take in the unk_token".to_owned())
}

/// A `SentencePiece`-style model: tokens are text with `▁` for the space, and every byte has a token or there is an
/// unknown token.
pub(super) fn sentence(
    model: &WrittenModel<'_>,
    spaces: MetaspaceSpaces,
) -> Result<SentencePieceBpe, String> {
    let spell = |token: &str, out: &mut Vec<u8>| {
        // Every space becomes `▁`, so no text contains a token with a space.
        let possible = !token.contains(' ');
        for (number, part) in token.split(META_CHARACTER).enumerate() {
            out.extend((number > 0).then_some(b' '));
            out.extend_from_slice(part.as_bytes());
        }
        possible
    };
    without_affixes(model)?;
    if model.ignore_merges {
        return Err("model BPE with ignore_merges on whole texts".to_owned());
    }
    let SpelledModel { vocabulary, ids, merges } = bpe(model, spell)?;
    let missing = if model.byte_fallback {
        let mut bytes = Box::new([0; 256]);
        for (byte, token) in (0..=255_u8).zip(bytes.iter_mut()) {
            *token = vocabulary
                .get(format!("<0x{byte:02X}>").as_bytes())
                .ok_or_else(|| "model BPE without a token for every byte".to_owned())?;
        }
        MissingCharacters::Bytes(bytes)
    } else {
        let unknown = model.unk_token.as_deref().unwrap_or_default();
        let mut spelled = Vec::new();
        let token = spell(unknown, &mut spelled).then(|| vocabulary.get(&spelled)).flatten();
        let token =
            token.ok_or_else(|| "model BPE without byte_fallback and unk_token".to_owned())?;
        MissingCharacters::Unknown { token, fuse: model.fuse_unk }
    };
    let MetaspaceSpaces { prefix, split } = spaces;
    SentencePieceBpe::new(sentence_piece_bpe::SentencePieceBpeParts {
        vocabulary,
        ids,
        merges,
        missing,
        prefix,
        split,
    })
    .ok_or_else(|| "model BPE whose merges take in byte tokens or the unk_token".to_owned())
}

/// A BPE model over the characters of pieces.
fn characters(model: &WrittenModel<'_>) -> Result<Characters, String> {
    let spell = |token: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(token.as_bytes());
        true
    };
    let text = |affix: &Option<String>| affix.clone().unwrap_or_default();
    let affixes = Affixes {
        prefix: text(&model.continuing_subword_prefix),
        suffix: text(&model.end_of_word_suffix),
    };
    if affixes != Affixes::default() {
        for (name, is_set) in
            [("byte_fallback", model.byte_fallback), ("ignore_merges", model.ignore_merges)]
        {
            if is_set {
                return Err(format!("model BPE with {name} beside a prefix or suffix of tokens"));
            }
        }
    }
    let SpelledModel { vocabulary, ids, merges } = bpe(model, spell)?;
    let byte = |byte: u8| vocabulary.get(format!("<0x{byte:02X}>").as_bytes());
    let bytes = model.byte_fallback.then(|| {
        let mut bytes = Box::new([None; 256]);
        for (value, token) in (0..=255).zip(bytes.iter_mut()) {
            *token = byte(value);
        }
        bytes
    });
    let complete = bytes.as_ref().is_some_and(|bytes| bytes.iter().all(Option::is_some));
    let unknown = match &model.unk_token {
        Some(unknown) if !complete => {
            let found = vocabulary.get(unknown.as_bytes());
            Some(found.ok_or_else(|| {
                format!("model BPE whose unk_token `{unknown}` is not in its vocab")
            })?)
        }
        _ => None,
    };
    let fallback = Fallback { bytes, unknown, fuse: model.fuse_unk };
    Characters::new(&vocabulary, &ids, &merges, model.ignore_merges, &affixes, &fallback)
}

/// A model of any type, for the engine that encodes one piece at a time.
pub(super) fn any(model: &WrittenModel<'_>) -> Result<PieceModel, String> {
    Ok(match model.kind.as_str() {
        WORD_PIECE => PieceModel::WordPiece(WordPiece::new(word_piece(model)?)),
        WORD_LEVEL => PieceModel::WordLevel(word_level(model)?),
        UNIGRAM => PieceModel::Unigram(Box::new(viterbi(model)?)),
        _ => PieceModel::Characters(Box::new(characters(model)?)),
    })
}

/// Refuses ids that are far larger than the number of tokens, and ids that two tokens share.
fn check_ids(model: &WrittenModel<'_>) -> Result<(), String> {
    let kind = &model.kind;
    let mut seen = vec![false; model.vocab.0.len() * SPARSEST + 1];
    for (_, id) in &model.vocab.0 {
        let Some(place) = seen.get_mut(*id as usize) else {
            return Err(format!("model {kind} with sparse ids"));
        };
        if std::mem::replace(place, true) {
            return Err(format!("model {kind} with tokens that share an id"));
        }
    }
    Ok(())
}

/// A model whose tokens are whole pieces.
fn word_level(model: &WrittenModel<'_>) -> Result<WordLevel, String> {
    check_ids(model)?;
    let tokens = &model.vocab.0;
    let (mut vocabulary, mut ids) = (Vocabulary::with_capacity(tokens.len()), Vec::new());
    for (token, id) in tokens {
        if vocabulary.push(token.as_bytes()).is_some() {
            ids.push(*id);
        }
    }
    let unknown = model.unk_token.as_deref().unwrap_or_default();
    let index = vocabulary.get(unknown.as_bytes()).ok_or_else(|| {
        format!("model WordLevel whose unk_token `{unknown}` is not in its vocab")
    })?;
    let unknown = ids[index as usize];
    Ok(WordLevel { vocabulary, ids, unknown })
}

/// A `WordPiece` model behind BERT's normalizer, which is applied to its pieces.
pub(super) fn words(model: &WrittenModel<'_>, bert: Bert) -> Result<WordPieceEngine, String> {
    Ok(WordPieceEngine::new(bert, word_piece(model)?))
}

/// The parts of a `WordPiece` model.
fn word_piece<'a>(model: &'a WrittenModel<'_>) -> Result<word_piece::WordPieceParts<'a>, String> {
    let (Some(unknown), Some(prefix), Some(most)) =
        (&model.unk_token, &model.continuing_subword_prefix, model.max_input_chars_per_word)
    else {
        return Err("model WordPiece with a field left out".to_owned());
    };
    check_ids(model)?;
    let longest = model.vocab.0.iter().map(|(token, _)| token.len()).max().unwrap_or(0);
    if longest > LONGEST_TOKEN {
        return Err(format!("model WordPiece with a token of {longest} bytes"));
    }
    let known = model.vocab.0.iter().find(|(token, _)| token == unknown);
    let Some((_, unknown)) = known else {
        return Err(format!("model WordPiece whose unk_token `{unknown}` is not in its vocab"));
    };
    let tokens = model.vocab.0.iter().map(|(token, id)| (token.as_bytes(), *id)).collect();
    Ok(word_piece::WordPieceParts { tokens, prefix, unknown: *unknown, most })
}

/// A unigram model: tokens are text with `▁` for the space, and each has a score.
pub(super) fn unigram(
    model: &WrittenModel<'_>,
    cutting: unigram::UnigramCuts,
    prefix: SpacePrefix,
) -> Result<Unigram, String> {
    Ok(Unigram::new(viterbi(model)?, cutting, prefix))
}

/// The tokens and scores of a unigram model.
fn viterbi(model: &WrittenModel<'_>) -> Result<Viterbi, String> {
    let WrittenVocabulary(tokens, scores) = &model.vocab;
    if tokens.is_empty() || scores.len() != tokens.len() {
        return Err("model Unigram without a list of pieces".to_owned());
    }
    let unknown = model.unk_id.and_then(|id| u32::try_from(id).ok());
    let unknown = unknown.ok_or("model Unigram without unk_id")?;
    let pieces = tokens.iter().map(|(token, _)| token.as_bytes());
    Ok(Viterbi::new(&pieces, scores, unknown, model.byte_fallback))
}
