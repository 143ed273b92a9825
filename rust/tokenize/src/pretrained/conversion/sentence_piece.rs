//! Reads a `SentencePiece` model as a `tokenizer.json`, as transformers converts it for each class.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::converted::ConvertedTokenizer;
use super::protobuf::{self, Field};
use crate::error::Result;
use crate::pretrained::classes::tokenizer;
use crate::pretrained::model_folder::ModelFolder;
use crate::pretrained::names::BACKEND;
use crate::pretrained::settings::{Settings, truthy};
use crate::pretrained::token::AddedTokenSetting;

/// The kinds of a model that are read: `TrainerSpec.ModelType`.
const UNIGRAM: u64 = 1;

/// The kinds of pieces that are read: `SentencePiece.Type`. The last two become added tokens.
const NORMAL: u64 = 1;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// The file that a class reads if the folder has none of the names that every class reads.
pub(super) fn usual_file(class: &str) -> Option<&'static str> {
    Some(match class {
        "LlamaTokenizer" => "tokenizer.model",
        "T5Tokenizer" => "spiece.model",
        "XLMRobertaTokenizer" => "sentencepiece.bpe.model",
        _ => return None,
    })
}

/// A piece of a model.
struct ModelPiece {
    text: String,
    score: f64,
    kind: u64,
}

/// The parts of a `ModelProto` that decide a tokenizer.
pub(super) struct SentencePieceModel {
    pieces: Vec<ModelPiece>,
    kind: u64,
    byte_fallback: bool,
    unk_id: i64,
    /// The ids and texts of `bos`, `eos` and `unk`, the first two of which decide a token of that name.
    named: [(&'static str, i64, String); 3],
    normalizer: NormalizerSpec,
}

/// The normalization of a text before a model looks for pieces.
struct NormalizerSpec {
    charsmap: Vec<u8>,
    adds_dummy_prefix: bool,
    removes_extra_blanks: bool,
    escapes_blanks: bool,
}

impl SentencePieceModel {
    /// Reads a model; `None` if the file is not one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut model = Self {
            pieces: Vec::new(),
            kind: UNIGRAM,
            byte_fallback: false,
            unk_id: 0,
            named: [
                ("bos_token", 1, "<s>".to_owned()),
                ("eos_token", 2, "</s>".to_owned()),
                ("unk_token", 0, "<unk>".to_owned()),
            ],
            normalizer: NormalizerSpec {
                charsmap: Vec::new(),
                adds_dummy_prefix: true,
                removes_extra_blanks: true,
                escapes_blanks: true,
            },
        };
        protobuf::each(bytes, |number, field| {
            match (number, field) {
                (1, Field::Bytes(piece)) => model.pieces.push(ModelPiece::read(piece)?),
                (2, Field::Bytes(trainer)) => model.read_trainer(trainer)?,
                (3, Field::Bytes(normalizer)) => model.normalizer.read(normalizer)?,
                _ => {}
            }
            Some(())
        })?;
        Some(model)
    }

    fn read_trainer(&mut self, trainer: &[u8]) -> Option<()> {
        protobuf::each(trainer, |number, field| {
            match (number, field) {
                (3, Field::Number(kind)) if (1..=4).contains(&kind) => self.kind = kind,
                (35, Field::Number(flag)) => self.byte_fallback = flag != 0,
                (40, Field::Number(id)) => {
                    self.unk_id = signed(id);
                    self.named[2].1 = signed(id);
                }
                (41, Field::Number(id)) => self.named[0].1 = signed(id),
                (42, Field::Number(id)) => self.named[1].1 = signed(id),
                (45, Field::Bytes(text)) => self.named[2].2 = utf8(text)?,
                (46, Field::Bytes(text)) => self.named[0].2 = utf8(text)?,
                (47, Field::Bytes(text)) => self.named[1].2 = utf8(text)?,
                _ => {}
            }
            Some(())
        })
    }

    /// The model as a `tokenizer.json` for a class.
    pub(super) fn convert(
        &self,
        folder: &ModelFolder<'_>,
        name: &str,
        class: &str,
        settings: &Settings,
    ) -> Result<ConvertedTokenizer> {
        if class == BACKEND {
            return self.convert_whole(settings);
        }
        let scored = matches!(class, "T5Tokenizer" | "XLMRobertaTokenizer");
        if !scored && !matches!(class, "GemmaTokenizer" | "LlamaTokenizer") {
            let reason = format!("transformers makes no `{class}` of such a model");
            return Err(folder.malformed(name, reason));
        }
        let model = if scored {
            json!({"type": "Unigram", "unk_id": null, "vocab": self.scores(class, settings)?})
        } else {
            let vocab = self.ids();
            let merges = json!(merges(&vocab));
            json!({"type": "BPE", "vocab": vocab, "merges": merges})
        };
        let charsmap = self.normalizer.precompiled().unwrap_or_default();
        let mut converted =
            ConvertedTokenizer::new(tokenizer(charsmap, Value::Null, Value::Null, model));
        converted.set("additional_special_tokens", self.added_tokens(|_| true));
        if scored {
            converted.set("unk_id", self.unk_id.into());
        }
        Ok(converted)
    }

    /// The model as the whole tokenizer of a folder without a class, which encodes as `SentencePiece` does.
    fn convert_whole(&self, settings: &Settings) -> Result<ConvertedTokenizer> {
        let mut vocab = self.ids();
        let has_scores = self.kind == UNIGRAM;
        if !has_scores {
            vocab = renamed(vocab, settings);
        }
        let text_of: HashMap<u64, &str> =
            vocab.iter().filter_map(|(text, id)| Some((id.as_u64()?, text.as_str()))).collect();
        let numbered = || (0_u64..).zip(&self.pieces);
        // Several pieces of one text are the last one's, but for a vocabulary with scores.
        let texts = || {
            numbered().filter_map(|(id, it)| {
                let text =
                    if has_scores { Some(it.text.as_str()) } else { text_of.get(&id).copied() };
                Some((id, text?, it))
            })
        };
        let mut user_defined: Vec<&str> =
            texts().filter(|(_, _, it)| it.kind == USER_DEFINED).map(|(_, text, _)| text).collect();
        let mut model = if has_scores {
            json!({"type": "Unigram", "unk_id": self.unk_id, "vocab": self.scores(BACKEND, settings)?})
        } else {
            let normal = texts().filter(|(_, _, it)| it.kind == NORMAL);
            let merges =
                ranked_merges(&normal.map(|(id, text, it)| (text, (it.score, id))).collect());
            json!({
                "type": "BPE", "vocab": vocab, "merges": merges, "unk_token": self.named[2].2, "fuse_unk": true,
                "ignore_merges": !user_defined.is_empty()
            })
        };
        model["byte_fallback"] = self.byte_fallback.into();
        let legacy = settings.get("legacy").is_none_or(|it| truthy(Some(it)));
        let mut pre_tokenizers = Vec::new();
        if self.normalizer.adds_dummy_prefix {
            let scheme = if legacy { "always" } else { "first" };
            pre_tokenizers.push(
                json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}),
            );
        }
        if !user_defined.is_empty() {
            user_defined.sort_by_key(|it| Reverse(it.chars().count()));
            let escaped: Vec<String> = user_defined.iter().map(|it| escaped(it)).collect();
            let pattern = json!({"Regex": escaped.join("|")});
            pre_tokenizers.push(
                json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false}),
            );
        }
        let pre_tokenizer = if pre_tokenizers.is_empty() {
            Value::Null
        } else {
            json!({"type": "Sequence", "pretokenizers": pre_tokenizers})
        };
        let file = tokenizer(
            json!({"type": "Sequence", "normalizers": self.normalizer.steps(legacy)}),
            pre_tokenizer,
            json!({"type": "Sequence", "decoders": self.decoders()}),
            model,
        );
        let mut converted = ConvertedTokenizer::new(file);
        converted.is_whole = true;
        converted.adds_unnormalized = self.normalizer.adds_dummy_prefix;
        // User-defined pieces are whole by the split.
        let pieces: HashSet<&str> = self
            .pieces
            .iter()
            .filter(|it| it.kind == USER_DEFINED)
            .map(|it| it.text.as_str())
            .collect();
        converted
            .set("additional_special_tokens", self.added_tokens(|text| !pieces.contains(text)));
        if has_scores {
            converted.set("unk_id", self.unk_id.into());
        }
        for (name, id, text) in &self.named {
            if *id >= 0 && !settings.contains(name) {
                let default = match *name {
                    "bos_token" => "<s>",
                    "eos_token" => "</s>",
                    _ => "<unk>",
                };
                let text = if text.is_empty() { default } else { text.as_str() };
                converted.set(name, text.into());
            }
        }
        Ok(converted)
    }

    /// The way back from pieces to text.
    fn decoders(&self) -> Vec<Value> {
        let mut decoders =
            vec![json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "})];
        if self.byte_fallback {
            decoders.push(json!({"type": "ByteFallback"}));
        }
        if self.byte_fallback || self.normalizer.adds_dummy_prefix {
            decoders.push(json!({"type": "Fuse"}));
        }
        if self.normalizer.adds_dummy_prefix {
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        decoders
    }

    /// The control and user-defined pieces of `wanted` texts as added tokens, in the order of their ids.
    fn added_tokens(&self, wanted: impl Fn(&str) -> bool) -> Value {
        let added = self
            .pieces
            .iter()
            .filter(|it| matches!(it.kind, CONTROL | USER_DEFINED) && wanted(&it.text));
        let token = |piece: &ModelPiece| {
            let mut token = AddedTokenSetting::new(&piece.text);
            (token.normalized, token.special) = (Some(false), piece.kind == CONTROL);
            token.to_value()
        };
        added.map(token).collect()
    }

    /// The pieces with their scores, in the order of the class.
    fn scores(&self, class: &str, settings: &Settings) -> Result<Vec<(String, f64)>> {
        let own = self.pieces.iter().map(|it| (it.text.clone(), it.score));
        let named = |name: &str, default: &str| Ok((settings.content_or(name, default)?, 0.0));
        Ok(match class {
            "XLMRobertaTokenizer" => {
                let mut all = vec![
                    named("bos_token", "<s>")?,
                    named("pad_token", "<pad>")?,
                    named("eos_token", "</s>")?,
                    named("unk_token", "<unk>")?,
                ];
                all.extend(own.skip(3));
                all.push(named("mask_token", "<mask>")?);
                all
            }
            "T5Tokenizer" => {
                let count = settings.count_or("extra_ids", 100)?;
                let sentinels = (0..count).rev().map(|index| (format!("<extra_id_{index}>"), 0.0));
                own.chain(sentinels).collect()
            }
            _ => own.collect(),
        })
    }

    /// The id of each piece: of equal pieces the last one's.
    fn ids(&self) -> Map<String, Value> {
        (0_usize..).zip(&self.pieces).map(|(id, it)| (it.text.clone(), id.into())).collect()
    }
}

impl NormalizerSpec {
    fn read(&mut self, bytes: &[u8]) -> Option<()> {
        protobuf::each(bytes, |number, field| {
            match (number, field) {
                (2, Field::Bytes(charsmap)) => self.charsmap = charsmap.to_vec(),
                (3, Field::Number(flag)) => self.adds_dummy_prefix = flag != 0,
                (4, Field::Number(flag)) => self.removes_extra_blanks = flag != 0,
                (5, Field::Number(flag)) => self.escapes_blanks = flag != 0,
                _ => {}
            }
            Some(())
        })
    }

    /// The normalizer of its table of characters, if it has one.
    fn precompiled(&self) -> Option<Value> {
        (!self.charsmap.is_empty()).then(|| {
            json!({"type": "Precompiled", "precompiled_charsmap": STANDARD.encode(&self.charsmap)})
        })
    }

    /// All that it does, in its order.
    fn steps(&self, legacy: bool) -> Vec<Value> {
        let replace = |pattern: &str, content: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": content});
        let mut steps: Vec<Value> = self.precompiled().into_iter().collect();
        if self.removes_extra_blanks {
            steps.extend([replace(r"\A +| +\z", ""), replace(" {2,}", " ")]);
        }
        if self.escapes_blanks {
            steps.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}));
        }
        if self.adds_dummy_prefix && legacy {
            // Metaspace adds none before a text that begins with one; the model does.
            steps.push(replace(r"\A▁", "▁▁"));
        }
        steps
    }
}

impl ModelPiece {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut piece = Self { text: String::new(), score: 0.0, kind: 1 };
        protobuf::each(bytes, |number, field| {
            match (number, field) {
                (1, Field::Bytes(text)) => piece.text = utf8(text)?,
                (2, Field::Four(score)) => piece.score = f32::from_le_bytes(score).into(),
                (3, Field::Number(kind)) if (1..=6).contains(&kind) => piece.kind = kind,
                _ => {}
            }
            Some(())
        })?;
        Some(piece)
    }
}

fn utf8(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// A number of 32 bits with a sign, as a message writes it.
#[expect(clippy::cast_possible_truncation, reason = "the format keeps the lowest 32 bits")]
fn signed(number: u64) -> i64 {
    i64::from((number as u32).cast_signed())
}

/// The merges that make up the pieces: every way to cut a piece into two others, in the order of the pieces'
/// ids and, for one piece, of the length of the first part.
fn merges(vocab: &Map<String, Value>) -> Vec<[&str; 2]> {
    let mut merges = Vec::new();
    for (piece, id) in vocab {
        let cuts = piece.char_indices().skip(1).map(|(at, _)| piece.split_at(at));
        let known =
            cuts.filter(|(left, right)| vocab.contains_key(*left) && vocab.contains_key(*right));
        merges.extend(known.map(|(left, right)| (id.as_u64(), [left, right])));
    }
    // Of one piece, the cuts are in order already.
    merges.sort_by_key(|(id, _)| *id);
    merges.into_iter().map(|(_, merge)| merge).collect()
}

/// The merges of pieces with their score and id: every way to cut one into two others, those of the best score first, then by id
/// and by the length of the first part.
fn ranked_merges<'a>(pieces: &HashMap<&'a str, (f64, u64)>) -> Vec<[&'a str; 2]> {
    let mut merges = Vec::new();
    for (piece, &(score, id)) in pieces {
        let cuts = piece.char_indices().skip(1).map(|(at, _)| piece.split_at(at));
        let known =
            cuts.filter(|(left, right)| pieces.contains_key(left) && pieces.contains_key(right));
        merges.extend(known.map(|(left, right)| (score, id, [left, right])));
    }
    merges.sort_by(|(score, id, [left, _]), (other_score, other_id, [other, _])| {
        let by_score = other_score.partial_cmp(score).unwrap_or(Ordering::Equal);
        by_score.then(id.cmp(other_id)).then(left.len().cmp(&other.len()))
    });
    merges.into_iter().map(|(_, _, merge)| merge).collect()
}

/// A text as a pattern that matches it alone, as Python's `re.escape` writes it.
fn escaped(text: &str) -> String {
    let special = |it: char| "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(it);
    text.chars().flat_map(|it| special(it).then_some('\\').into_iter().chain([it])).collect()
}

/// The ids with the names that `added_tokens_decoder` gives them, but for those of a piece that keeps its own.
fn renamed(vocab: Map<String, Value>, settings: &Settings) -> Map<String, Value> {
    let name_of = |id: &Value| {
        let token = id.as_i64().and_then(|id| settings.added_tokens.get(&id));
        token.map(|it| it.content.clone())
    };
    let kept: HashSet<String> = vocab
        .iter()
        .filter(|(_, id)| name_of(id).is_none())
        .map(|(text, _)| text.clone())
        .collect();
    let renamed = |(text, id): (String, Value)| {
        let name = name_of(&id).filter(|it| !kept.contains(it));
        (name.unwrap_or(text), id)
    };
    vocab.into_iter().map(renamed).collect()
}
