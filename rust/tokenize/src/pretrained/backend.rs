//! `TokenizersBackend.__init__`: adds tokens to an engine, and sets its post-processor.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::{PostProcessorWrapper, PreTokenizerWrapper};

use super::model_folder::ModelFolder;
use super::settings::{NAMED, Settings};
use super::token::{AddedTokenSetting, TokenSetting};
use crate::error::{Error, Result};
use crate::hugging_face::guard;
use crate::loading::load::{FILE, malformed};

/// The vocabulary size up to which a tokenizer never has Mistral's wrong pattern.
const MISTRAL_REGEX_VOCAB: usize = 100_000;

/// The pattern that replaces the wrong one if `fix_mistral_regex` is set.
const MISTRAL_REGEX: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A tokenizer object of `transformers`.
pub(super) struct Backend {
    pub(super) engine: tokenizers::Tokenizer,
    /// `_special_tokens_map`, in the order of `special_tokens_map`.
    named: IndexMap<String, Option<TokenSetting>>,
    extra: Vec<TokenSetting>,
    add_bos: bool,
    add_eos: bool,
    update_post_processor: bool,
}

impl Backend {
    /// Runs the initializer. `post_processor` comes from `tokenizer.json`, if the class builds its own
    /// engine.
    pub(super) fn new(
        folder: &ModelFolder<'_>,
        engine: tokenizers::Tokenizer,
        mut settings: Settings,
        post_processor: Option<&Value>,
        padding: Option<&Value>,
    ) -> Result<Self> {
        if let Some(pad) = padding.and_then(|padding| padding.get("pad_token"))
            && !settings.contains("pad_token")
        {
            settings.set("pad_token", pad.clone());
        }
        let explicit = settings.contains("add_bos_token") || settings.contains("add_eos_token");
        let mut backend = Self {
            engine,
            named: NAMED.iter().map(|name| ((*name).to_owned(), None)).collect(),
            extra: Vec::new(),
            add_bos: settings.flag("add_bos_token", false)?,
            add_eos: settings.flag("add_eos_token", false)?,
            update_post_processor: false,
        };
        if let Some(processor) = post_processor.filter(|processor| !processor.is_null()) {
            backend.set_post_processor(processor)?;
        }
        backend.update_post_processor = explicit || backend.engine.get_post_processor().is_none();
        backend.name_tokens(&mut settings)?;
        backend.engine.set_encode_special_tokens(settings.flag("split_special_tokens", false)?);
        backend.add_listed(&settings)?;
        backend.fix_mistral_regex(folder, &settings)?;
        backend.update_post_processor |= backend.engine.get_post_processor().is_none();
        if backend.update_post_processor {
            backend.rewrite_post_processor()?;
        }
        Ok(backend)
    }

    /// `PreTrainedTokenizerBase.__init__`: sorts the settings into named and extra tokens.
    fn name_tokens(&mut self, settings: &mut Settings) -> Result<()> {
        if settings.contains("additional_special_tokens")
            && !settings.contains("extra_special_tokens")
        {
            let tokens = settings.remove("additional_special_tokens").unwrap_or_default();
            settings.set("extra_special_tokens", tokens);
        }
        let explicit = settings.remove("model_specific_special_tokens").unwrap_or_default();
        let mut specific: IndexMap<String, TokenSetting> = IndexMap::new();
        let keys: Vec<String> = settings.names().map(str::to_owned).collect();
        for key in &keys {
            if NAMED.contains(&key.as_str()) {
                if let Some(token) = settings.token(key)? {
                    self.named.insert(key.clone(), Some(token));
                }
            } else if key == "extra_special_tokens" {
                if let Some(Value::Object(tokens)) = settings.get(key) {
                    for (name, value) in tokens {
                        let token = Self::specific(settings, name, value)?;
                        self.named.insert(name.clone(), Some(token));
                    }
                } else if let Some(tokens) = settings.list(key)? {
                    self.extra = tokens;
                }
            } else if key.ends_with("_token") {
                let value = settings.get(key).unwrap_or(&Value::Null);
                if let Ok(Some(token)) = TokenSetting::from_value(value) {
                    specific.insert(key.clone(), token);
                }
            }
        }
        match &explicit {
            Value::Null => {}
            Value::Object(tokens) => {
                for (name, value) in tokens {
                    specific.insert(name.clone(), Self::specific(settings, name, value)?);
                }
            }
            _ => {
                return Err(
                    settings.malformed("model_specific_special_tokens", "must be an object")
                );
            }
        }
        for (name, token) in specific {
            self.named.insert(name, Some(token));
        }
        Ok(())
    }

    fn specific(settings: &Settings, name: &str, value: &Value) -> Result<TokenSetting> {
        TokenSetting::from_value(value)
            .and_then(|token| token.ok_or_else(|| "must not be null".to_owned()))
            .map_err(|reason| settings.malformed(name, reason))
    }

    /// Adds the tokens that the folder lists, and the named and extra tokens that are still missing.
    fn add_listed(&mut self, settings: &Settings) -> Result<()> {
        let present = self.engine.get_added_tokens_decoder();
        let mut pending: Vec<TokenSetting> = settings
            .added_tokens
            .values()
            .filter(|token| !present.values().any(|known| *known == token.resolve()))
            .map(|token| TokenSetting::Added(token.clone()))
            .collect();
        let known: Vec<String> = present
            .values()
            .map(|token| token.content.clone())
            .chain(pending.iter().map(|token| token.content().to_owned()))
            .collect();
        let named: Vec<TokenSetting> = self.named.values().flatten().cloned().collect();
        for token in named.iter().chain(&self.extra) {
            let is_known = known.iter().any(|content| content == token.content());
            if !is_known && !pending.iter().any(|earlier| earlier.equals(token)) {
                pending.push(token.clone());
            }
        }
        let tokens: Vec<tokenizers::AddedToken> = pending
            .iter()
            .map(|token| match token {
                TokenSetting::Text(content) => tokenizers::AddedToken::from(content.clone(), true),
                TokenSetting::Added(added) => {
                    let is_named = named.iter().any(|named| named.content() == added.content);
                    AddedTokenSetting { special: added.special || is_named, ..added.clone() }
                        .resolve()
                }
            })
            .collect();
        self.add(tokens)
    }

    /// Calls `add_tokens` of the engine.
    pub(super) fn add(&mut self, tokens: Vec<tokenizers::AddedToken>) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        guard(|| self.engine.add_tokens(tokens))
            .map_err(|reason| malformed("added_tokens", reason))?;
        Ok(())
    }

    /// `_post_init`: adds the named and extra tokens again, as special ones.
    pub(super) fn add_specials_again(&mut self) -> Result<()> {
        let tokens = self
            .named
            .values()
            .flatten()
            .chain(&self.extra)
            .map(|token| match token {
                TokenSetting::Text(content) => {
                    tokenizers::AddedToken::from(content.clone(), true).normalized(false)
                }
                TokenSetting::Added(added) => {
                    AddedTokenSetting { special: true, ..added.clone() }.resolve()
                }
            })
            .collect();
        self.add(tokens)?;
        if self.update_post_processor || self.engine.get_post_processor().is_none() {
            self.rewrite_post_processor()?;
        }
        Ok(())
    }

    /// `all_special_tokens`: the contents of the named and extra tokens, each once.
    pub(super) fn all_special(&self) -> Vec<String> {
        let mut contents: Vec<String> = Vec::new();
        for token in self.named.values().flatten().chain(&self.extra) {
            if !contents.iter().any(|content| content == token.content()) {
                contents.push(token.content().to_owned());
            }
        }
        contents
    }

    /// `special_tokens_map`.
    pub(super) fn special_tokens_map(&self) -> Vec<(String, String)> {
        self.named
            .iter()
            .filter_map(|(name, token)| Some((name.clone(), token.as_ref()?.content().to_owned())))
            .collect()
    }

    /// The content of a named token.
    pub(super) fn content(&self, name: &str) -> Option<&str> {
        self.named.get(name)?.as_ref().map(TokenSetting::content)
    }

    /// `convert_tokens_to_ids`: the id of a token, or of the unknown token if the vocabulary lacks it.
    pub(super) fn id_of(&self, content: &str) -> Option<u32> {
        self.engine
            .token_to_id(content)
            .or_else(|| self.engine.token_to_id(self.content("unk_token")?))
    }

    /// `update_post_processor`: sets the start and end tokens that `add_bos_token` and `add_eos_token` ask
    /// for.
    pub(super) fn rewrite_post_processor(&mut self) -> Result<()> {
        let token = |name: &str, is_wanted: bool| -> Result<Option<(String, u32)>> {
            let content = self.content(name).filter(|_| is_wanted).map(str::to_owned);
            content.map(|content| Ok((content.clone(), self.known_id(&content)?))).transpose()
        };
        let (bos, eos) = (token("bos_token", self.add_bos)?, token("eos_token", self.add_eos)?);
        let around = |text: TemplatePiece<'static>, kind: u32| {
            let [bos, eos] = [&bos, &eos].map(|token| {
                token
                    .as_ref()
                    .map(|(content, id)| (TemplatePiece::Token(content.as_str(), *id), kind))
            });
            bos.into_iter()
                .chain([(text, kind)])
                .chain(eos)
                .collect::<Vec<(TemplatePiece<'_>, u32)>>()
        };
        let single = around(TemplatePiece::Text, 0);
        let pair: Vec<_> = single.iter().copied().chain(around(TemplatePiece::Second, 1)).collect();
        self.set_parts(&single, &pair)
    }

    /// Sets a post-processor that puts one token before a text and one after it.
    pub(super) fn set_template(
        &mut self,
        before: &str,
        behind: &str,
        pair: PairTemplate,
    ) -> Result<()> {
        let (first, last) = (self.known_id(before)?, self.known_id(behind)?);
        let pieces = [
            TemplatePiece::Token(before, first),
            TemplatePiece::Text,
            TemplatePiece::Token(behind, last),
        ];
        self.set_pieces(&pieces, pair)
    }

    /// The id of a token that a template needs.
    pub(super) fn known_id(&self, content: &str) -> Result<u32> {
        self.id_of(content).ok_or_else(|| {
            malformed("post_processor", format!("`{content}` is not in the vocabulary"))
        })
    }

    /// The content of a named token that a template needs.
    pub(super) fn required(&self, name: &str) -> Result<String> {
        self.content(name).map(str::to_owned).ok_or_else(|| {
            malformed("post_processor", format!("needs `{name}`, which the folder sets to null"))
        })
    }

    /// Sets a post-processor with this template for a single text, and one for two texts by a rule.
    pub(super) fn set_pieces(
        &mut self,
        pieces: &[TemplatePiece<'_>],
        pair: PairTemplate,
    ) -> Result<()> {
        let at = pieces
            .iter()
            .position(|piece| matches!(piece, TemplatePiece::Text))
            .unwrap_or_default();
        let (before, after) = (&pieces[..at], pieces.get(at + 1..).unwrap_or_default());
        let parts: [Vec<(TemplatePiece<'_>, u32)>; 4] = match pair {
            PairTemplate::Followed(kind) => {
                [of(before, 0), of(after, 0), vec![(TemplatePiece::Second, kind)], of(after, kind)]
            }
            PairTemplate::Doubled => {
                let twice = of(&[after, after].concat(), 0);
                [of(before, 0), twice, vec![(TemplatePiece::Second, 0)], of(after, 0)]
            }
        };
        let [front, rest @ ..] = parts;
        let pair: Vec<_> = front
            .into_iter()
            .chain([(TemplatePiece::Text, 0)])
            .chain(rest.into_iter().flatten())
            .collect();
        self.set_parts(&of(pieces, 0), &pair)
    }

    /// Sets a post-processor with these templates for one text and for two; each piece with its type.
    pub(super) fn set_parts(
        &mut self,
        single: &[(TemplatePiece<'_>, u32)],
        pair: &[(TemplatePiece<'_>, u32)],
    ) -> Result<()> {
        let mut special = serde_json::Map::new();
        let mut write = |pieces: &[(TemplatePiece<'_>, u32)]| -> Result<Vec<Value>> {
            let mut template = Vec::new();
            for (piece, kind) in pieces {
                template.push(match piece {
                    TemplatePiece::Text => json!({"Sequence": {"id": "A", "type_id": kind}}),
                    TemplatePiece::Second => json!({"Sequence": {"id": "B", "type_id": kind}}),
                    TemplatePiece::Token(content, id) => {
                        if content.is_empty()
                            || content.starts_with('$')
                            || content.contains([' ', ':', '\t', '\n'])
                        {
                            return Err(malformed(
                                "post_processor",
                                format!("`{content}` cannot stand in a template"),
                            ));
                        }
                        let token = json!({"id": content, "ids": [id], "tokens": [content]});
                        special.insert((*content).to_owned(), token);
                        json!({"SpecialToken": {"id": content, "type_id": kind}})
                    }
                });
            }
            Ok(template)
        };
        let (single, pair) = (write(single)?, write(pair)?);
        self.set_post_processor(&json!({
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": special,
        }))
    }

    pub(super) fn set_post_processor(&mut self, processor: &Value) -> Result<()> {
        let processor = guard(|| PostProcessorWrapper::deserialize(processor))
            .map_err(|reason| malformed("post_processor", reason))?;
        self.engine.with_post_processor(Some(processor));
        Ok(())
    }

    /// Replaces the pattern of an affected Mistral tokenizer that asks for it and was saved before
    /// transformers 5.
    fn fix_mistral_regex(&mut self, folder: &ModelFolder<'_>, settings: &Settings) -> Result<()> {
        let is_requested = settings.optional_flag("fix_mistral_regex")? == Some(true);
        if !is_requested || self.engine.get_vocab_size(true) <= MISTRAL_REGEX_VOCAB {
            return Ok(());
        }
        let (Some(current), Some(config)) =
            (self.engine.get_pre_tokenizer(), folder.object("config.json")?)
        else {
            return Ok(());
        };
        let mended = match config.get("transformers_version") {
            Some(Value::String(version)) if !version.is_empty() => is_five(version),
            _ => false,
        };
        let affected = config.get("model_type").and_then(Value::as_str).is_none_or(|model_type| {
            ["mistral", "mistral3", "voxtral", "ministral", "pixtral"].contains(&model_type)
        });
        if mended || !affected {
            return Ok(());
        }
        let split = json!({"type": "Split", "pattern": {"Regex": MISTRAL_REGEX}, "behavior": "Isolated", "invert": false});
        let current = serde_json::to_value(current).map_err(|error| Error::Malformed {
            file: FILE.to_owned(),
            reason: error.to_string(),
        })?;
        let steps = match current.get("pretokenizers").and_then(Value::as_array) {
            Some(steps) => std::iter::once(split).chain(steps.iter().skip(1).cloned()).collect(),
            None if current["type"] == "Metaspace" => {
                vec![
                    split,
                    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
                ]
            }
            None => vec![split, current],
        };
        let mended =
            PreTokenizerWrapper::deserialize(&json!({"type": "Sequence", "pretokenizers": steps}))
                .map_err(|error| malformed("pre_tokenizer", error))?;
        self.engine.with_pre_tokenizer(Some(mended));
        Ok(())
    }
}

/// A part of a post-processor's template.
#[derive(Clone, Copy, Debug)]
pub(super) enum TemplatePiece<'a> {
    /// The text itself; of two texts, the first.
    Text,
    /// The second of two texts.
    Second,
    /// A token before or after the text, with its id.
    Token(&'a str, u32),
}

/// Pieces of one type.
fn of<'p>(pieces: &[TemplatePiece<'p>], kind: u32) -> Vec<(TemplatePiece<'p>, u32)> {
    pieces.iter().map(|piece| (*piece, kind)).collect()
}

/// The template for two texts, as the template for one text gives it.
#[derive(Clone, Copy, Debug)]
pub(super) enum PairTemplate {
    /// `[CLS] A [SEP] B [SEP]`, with this type for the second text and its tokens.
    Followed(u32),
    /// `<s> A </s> </s> B </s>`.
    Doubled,
}

/// True if a version of transformers is 5.0.0 or later, without its pre-releases.
fn is_five(version: &str) -> bool {
    let mut parts = version.split('.');
    let major: u32 = parts.next().and_then(|major| major.parse().ok()).unwrap_or(0);
    let pre_release = major == 5 && version.starts_with("5.0.0") && version != "5.0.0";
    major >= 5 && !pre_release
}
