//! Encodes many texts on all threads, for callers who pack by themselves.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use fastpack_tokenize::{Encoder, Encoding, LONGEST_COMPARED, SpecialTokens, Tokenizer};

use crate::error::{Error, Result};
use crate::util::control::Control;
use crate::util::threads_in_order::ordered;
use crate::util::verified_places::places_before;

/// Bytes of text that a thread takes at once: some thousand tokens, so that taking costs nothing beside
/// encoding.
const SHARE: usize = 1 << 17;

/// Bytes of text for each token that memory is reserved for: growing the list of ids would copy it.
const BYTES_OF_TOKEN: usize = 4;

/// A tokenizer with encoders that are kept from call to call, caches included.
#[derive(Debug)]
pub struct Encoders {
    tokenizer: Tokenizer,
    idle: Mutex<Vec<Encoder>>,
}

/// The ids of many texts, end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedTexts {
    /// The ids of all texts.
    pub ids: Vec<u32>,
    /// The start of each text's ids, and the end of the last.
    pub offsets: Vec<i64>,
    /// The range of characters of each id in its text, if requested.
    pub characters: Vec<Range<usize>>,
}

/// The options of [`Encoders::encode`].
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// The special tokens that the tokenizer adds.
    pub special: SpecialTokens,
    /// True if the characters of each id are returned. Only the reference engine gives them.
    pub characters: bool,
    /// The number of texts, evenly spread, that the reference engine encodes too.
    pub verify: usize,
    /// The number of threads.
    pub threads: NonZeroUsize,
}

/// The result of one share of the texts.
#[derive(Default)]
struct EncodedShare {
    ids: Vec<u32>,
    lengths: Vec<usize>,
    characters: Vec<Range<usize>>,
}

impl EncodedShare {
    fn into_encoded(self) -> EncodedTexts {
        let mut end = 0;
        let ends = self.lengths.iter().map(|length| {
            end += length;
            i64::try_from(end).unwrap_or(i64::MAX)
        });
        let offsets = std::iter::once(0).chain(ends).collect();
        EncodedTexts { ids: self.ids, offsets, characters: self.characters }
    }
}

impl Encoders {
    /// Keeps encoders for `tokenizer`.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, idle: Mutex::default() }
    }

    /// The tokenizer of the encoders.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Runs `work` with an encoder of its own. The encoder gives up a long text soon after the run is
    /// cancelled.
    pub fn with<T>(
        &self,
        control: &Control,
        work: impl FnOnce(&mut Encoder) -> Result<T>,
    ) -> Result<T> {
        let mut encoder = self.take(control);
        let done = work(&mut encoder);
        self.give_back(encoder);
        control.tick()?;
        done
    }

    fn take(&self, control: &Control) -> Encoder {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| self.tokenizer.encoder()).stopped_by(control.flag())
    }

    fn give_back(&self, encoder: Encoder) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
    }

    /// Encodes `texts`.
    ///
    /// # Errors
    ///
    /// [`Error::Differs`] where the ids of a text that is verified are not those of the reference engine.
    pub fn encode<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        options: BatchOptions,
        control: &Control,
    ) -> Result<EncodedTexts> {
        let held = || BorrowedEncoder { encoders: self, control, encoder: None };
        // A thread without a share would be started for nothing.
        let bytes: usize = texts.iter().map(|text| text.as_ref().len() + 1).sum();
        let shares = NonZeroUsize::new(bytes.div_ceil(SHARE)).unwrap_or(NonZeroUsize::MIN);
        let threads = options.threads.min(shares);
        if threads == NonZeroUsize::MIN {
            let share = self.share(texts, 0..texts.len(), options, control, held().encoder())?;
            return Ok(share.into_encoded());
        }
        let ids = Encoding::with_room(token_capacity(bytes)).ids;
        let mut whole = EncodedShare { ids, ..EncodedShare::default() };
        let mut next = 0;
        let shares = || {
            let start = next;
            let mut bytes = 0;
            while next < texts.len() && bytes < SHARE {
                bytes += texts[next].as_ref().len() + 1;
                next += 1;
            }
            Ok((start < next).then_some(start..next))
        };
        let worker = || {
            let mut held = held();
            move |share: Range<usize>| self.share(texts, share, options, control, held.encoder())
        };
        ordered(threads, shares, worker, |share| {
            whole.ids.extend_from_slice(&share.ids);
            whole.lengths.extend(share.lengths);
            whole.characters.extend(share.characters);
            Ok(())
        })?;
        Ok(whole.into_encoded())
    }

    fn share<T: AsRef<str>>(
        &self,
        texts: &[T],
        share: Range<usize>,
        options: BatchOptions,
        control: &Control,
        encoder: &mut Encoder,
    ) -> Result<EncodedShare> {
        let bytes = texts[share.clone()].iter().map(|text| text.as_ref().len()).sum();
        let mut encoding = Encoding::with_room(token_capacity(bytes));
        let mut characters = Vec::new();
        let mut lengths = Vec::with_capacity(share.len());
        let all = texts.len() as u64;
        let verified = (options.verify as u64).min(all);
        let sampled = |number: usize| {
            let at = number as u64;
            places_before(at, all, verified) < places_before(at + 1, all, verified)
        };
        for number in share {
            control.tick()?;
            let text = texts[number].as_ref();
            let before = encoding.ids.len();
            if options.characters {
                let ids = &mut encoding.ids;
                encoder.encode_with_offsets(text, options.special, ids, &mut characters)?;
            } else {
                let done = encoder.encode(text, &[], options.special, &mut encoding);
                control.tick()?;
                done?;
            }
            if sampled(number) && text.len() <= LONGEST_COMPARED {
                let reference = self.tokenizer.with_reference_engine()?;
                let mut expected = Encoding::default();
                reference.encoder().encode(text, &[], options.special, &mut expected)?;
                if encoding.ids[before..] != expected.ids {
                    return Err(Error::Differs(format!("text {number}")));
                }
            }
            lengths.push(encoding.ids.len() - before);
        }
        Ok(EncodedShare { ids: encoding.ids, lengths, characters })
    }
}

/// The initial capacity, in tokens, for texts of `bytes` bytes: the capacity that growing would end with.
fn token_capacity(bytes: usize) -> usize {
    (bytes / BYTES_OF_TOKEN).next_power_of_two()
}

/// A borrowed encoder. It is returned on drop, unless its thread panics: its state is unfinished then.
struct BorrowedEncoder<'a> {
    encoders: &'a Encoders,
    control: &'a Control,
    encoder: Option<Encoder>,
}

impl BorrowedEncoder<'_> {
    fn encoder(&mut self) -> &mut Encoder {
        self.encoder.get_or_insert_with(|| self.encoders.take(self.control))
    }
}

impl Drop for BorrowedEncoder<'_> {
    fn drop(&mut self) {
        if let Some(encoder) = self.encoder.take()
            && !std::thread::panicking()
        {
            self.encoders.give_back(encoder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = r#"{"version": "1.0", "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"?": 0, "river": 1, "boat": 2}, "unk_token": "?"}}"#;

    #[test]
    fn as_many_threads_start_as_there_are_shares() {
        let tokenizer = Tokenizer::from_json(WORDS).expect("a tokenizer of words");
        for (times, most) in [(1, 1), (10, 1), (SHARE / 4, 2)] {
            let encoders = Encoders::new(tokenizer.clone());
            let options = BatchOptions {
                special: SpecialTokens::Omit,
                characters: false,
                verify: 0,
                threads: NonZeroUsize::new(8).expect("not zero"),
            };
            let texts = vec!["boat"; times];
            let batch = encoders.encode(&texts, options, &Control::default()).expect("no limits");
            assert_eq!(batch.ids, vec![2; times]);
            assert_eq!(batch.offsets.len(), times + 1);
            let encoder_count = encoders.idle.lock().expect("nobody panicked").len();
            assert!(
                (1..=most).contains(&encoder_count),
                "{encoder_count} encoders for {times} texts"
            );
        }
    }

    #[test]
    fn the_encoder_of_a_thread_that_panics_is_not_given_back() {
        let tokenizer = Tokenizer::from_json(WORDS).expect("a tokenizer of words");
        for (panics, left) in [(true, 0), (false, 1)] {
            let encoders = Encoders::new(tokenizer.clone());
            let joined = std::thread::scope(|scope| {
                let work = || {
                    let control = &Control::default();
                    let mut held = BorrowedEncoder { encoders: &encoders, control, encoder: None };
                    held.encoder();
                    assert!(!panics, "on purpose");
                };
                scope.spawn(work).join()
            });
            assert_eq!(joined.is_err(), panics);
            assert_eq!(encoders.idle.lock().expect("nobody holds it").len(), left);
        }
    }
}
