//! One text through both engines.

use std::ops::Range;

use fastpack_tokenize::{Encoder, Encoding, Engine, SpecialTokens, Tokenizer};

use crate::random::Random;

/// Both engines of one tokenizer, and how many texts they agreed on.
pub(crate) struct Check {
    name: String,
    compiled: Encoder,
    reference: Encoder,
    found: Encoding,
    expected: Encoding,
    random: Random,
    pub(crate) texts: usize,
    pub(crate) bytes: usize,
    /// The number of parts of texts that had ids before the text.
    pub(crate) parts: usize,
}

impl Check {
    /// Panics if no compiled engine takes the tokenizer.
    pub(crate) fn new(name: &str, tokenizer: &Tokenizer) -> Self {
        assert_eq!(tokenizer.engine(), Engine::Compiled, "{name}");
        Self {
            name: name.to_owned(),
            compiled: tokenizer.encoder(),
            reference: tokenizer.with_reference_engine().expect("the reference loads").encoder(),
            found: Encoding::default(),
            expected: Encoding::default(),
            random: Random::new(7),
            texts: 0,
            bytes: 0,
            parts: 0,
        }
    }

    /// Compares the ids of a text.
    pub(crate) fn ids(&mut self, text: &str) {
        self.spans(text, &[], SpecialTokens::Omit);
    }

    /// Compares ids with special tokens, and the tokens that random spans touch.
    pub(crate) fn masks(&mut self, text: &str) {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut from = 0;
        while from < text.len() && spans.len() < 40 {
            let start = from + self.random.below(text.len() - from + 1).min(self.random.below(200));
            let end = (start + self.random.below(30) * self.random.below(12)).min(text.len());
            spans.push(start..end);
            from = end + self.random.below(3);
        }
        // Ends of spans fall within characters now and then.
        if !self.random.once_in(4) {
            let boundary = |mut at: usize| {
                while !text.is_char_boundary(at) {
                    at -= 1;
                }
                at
            };
            for span in &mut spans {
                *span = boundary(span.start)..boundary(span.end);
            }
        }
        self.spans(text, &spans, SpecialTokens::Add);
    }

    /// Compares the spelling of every token.
    pub(crate) fn names(&self, tokenizer: &Tokenizer) {
        let reference = tokenizer.with_reference_engine().expect("the reference loads");
        assert_eq!(tokenizer.vocab_size(), reference.vocab_size(), "{}", self.name);
        for id in 0..=u32::try_from(tokenizer.vocab_size()).expect("ids are small") {
            assert_eq!(tokenizer.id_to_token(id), reference.id_to_token(id), "{}: {id}", self.name);
            let decoded = [tokenizer.decode(&[id]), reference.decode(&[id])].map(Result::ok);
            assert_eq!(decoded[0], decoded[1], "{}: {id}", self.name);
        }
    }

    fn spans(&mut self, text: &str, spans: &[Range<usize>], special: SpecialTokens) {
        self.texts += 1;
        self.bytes += text.len();
        self.found.clear();
        self.expected.clear();
        self.compiled.encode(text, spans, special, &mut self.found).expect("the text is encoded");
        self.reference
            .encode(text, spans, special, &mut self.expected)
            .expect("the text is encoded");
        if self.found != self.expected {
            let text = self.shrink(text, spans, special);
            panic!(
                "{}: {:?} with {:?}\n found {:?}\n expected {:?}",
                self.name, text, spans, self.found, self.expected
            );
        }
        if self.random.once_in(4) {
            self.settled(text, spans, special);
        }
        if self.random.once_in(4) {
            self.offsets(text, special);
        }
    }

    /// Compares the characters that each token comes from.
    fn offsets(&mut self, text: &str, special: SpecialTokens) {
        let of = |encoder: &mut Encoder| {
            let (mut ids, mut offsets) = (Vec::new(), Vec::new());
            encoder
                .encode_with_offsets(text, special, &mut ids, &mut offsets)
                .expect("the text is encoded");
            (ids, offsets)
        };
        let (found, expected) = (of(&mut self.compiled), of(&mut self.reference));
        assert_eq!(found, expected, "{}: {text:?}", self.name);
    }

    /// Compares with the expected encoding if the ids of some parts of the text are made before.
    fn settled(&mut self, text: &str, spans: &[Range<usize>], special: SpecialTokens) {
        let boundaries = |random: &mut Random| {
            let mut at = random.below(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            // Most tokens that are added begin and end so.
            match random.below(3) {
                0 => at,
                1 => text[at..].find(['<', '[']).map_or(at, |further| at + further),
                _ => text[at..].find(['>', ']']).map_or(at, |further| at + further + 1),
            }
        };
        let mut ends: Vec<usize> = (0..6).map(|_| boundaries(&mut self.random)).collect();
        ends.sort_unstable();
        let parts = ends.chunks(2).map(|ends| (ends[0], &text[ends[0]..ends[1]]));
        let settled: Vec<_> = parts
            .filter_map(|(at, part)| Some((at, self.compiled.stable_segment(part)?)))
            .collect();
        self.parts += settled.len();
        self.found.clear();
        let given = settled.iter().map(|(at, part)| (*at, part));
        self.compiled
            .encode_around(text, given, spans, special, &mut self.found)
            .expect("the text is encoded");
        assert_eq!(self.found, self.expected, "{}: {text:?} with {settled:?}", self.name);
    }

    /// Cuts off both ends while the engines still differ; only without spans, which would have to move along.
    fn shrink(&mut self, text: &str, spans: &[Range<usize>], special: SpecialTokens) -> String {
        let mut text = text.to_owned();
        if !spans.is_empty() {
            return text;
        }
        let mut differs = |text: &str| {
            self.found.clear();
            self.expected.clear();
            self.compiled.encode(text, &[], special, &mut self.found).expect("the text is encoded");
            self.reference
                .encode(text, &[], special, &mut self.expected)
                .expect("the text is encoded");
            self.found != self.expected
        };
        let mut step = text.chars().count().max(2) / 2;
        while step > 0 {
            let shorter: String = text.chars().skip(step).collect();
            if differs(&shorter) {
                text = shorter;
                continue;
            }
            let count = text.chars().count().saturating_sub(step);
            let shorter: String = text.chars().take(count).collect();
            if differs(&shorter) {
                text = shorter;
                continue;
            }
            step /= 2;
        }
        differs(&text);
        text
    }
}
