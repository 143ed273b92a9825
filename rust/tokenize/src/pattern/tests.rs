//! Compares random patterns on random texts with the linked regex engine.

use tokenizers::utils::SysRegex;

use super::*;
use crate::loading::catch_panic::contain;

/// The number of random patterns in each test run.
const PATTERNS: usize = 800;

/// The number of random patterns in each of four tests of `make conformance`, which run beside each other: a million
/// together.
const MANY_PATTERNS: usize = 250_000;

/// The number of texts for each pattern.
const TEXTS: usize = 12;

/// A random number generator: xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap_or(0) % limit
    }

    fn choose<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const CLASSES: [&str; 48] = [
    r"\s",
    r"\S",
    r"\p{L}",
    r"\p{N}",
    r"\P{L}",
    r"\p{^N}",
    r"\p{Lu}",
    r"\p{Ll}",
    r"\p{M}",
    r"\d",
    r"\w",
    r"\W",
    ".",
    r"[^\s\p{L}\p{N}]",
    r"[^\r\n\p{L}\p{N}]",
    r"[\p{L}\p{M}]",
    r"[\r\n]",
    "[a-s]",
    "[^a-s]",
    "[a-z&&[^s]]",
    r"[\p{L}&&[^a中]]",
    r"[^\p{L}&&[a-s]]",
    "[一-龥]",
    r"[\u4e00-\u9fa5é]",
    r"[a\-b]",
    "[ab-]",
    "[[:alpha:]]",
    r"[^[:space:]']",
    r"[sdmt]",
    r"\p{Han}",
    r"[\p{Han}]",
    r"\p{P}",
    r"[\p{P}\p{S}]",
    r"\h",
    r"\x41",
    r"\x{4e2d}",
    r"[!-/:-~]",
    r"[\n\t ]",
    "[^a]",
    r"[\d\s]",
    r"[\w]",
    r"[^\w\s]",
    r"[\W]",
    r"[\w&&[^_]]",
    r"\p{Word}",
    r"[\p{Word}]",
    "[[:word:]]",
    "[[:punct:]]",
];

const LITERALS: [&str; 18] = [
    "a", "b", "s", "A", "1", "2", " ", "'", "\n", "\r", r"\n", r"\r", "中", "é", r"\.", "!", "_",
    r"\'",
];

const EDGES: [&str; 16] = [
    r"(?!\S)",
    r"(?=\s)",
    "$",
    r"\b",
    r"\B",
    "^",
    r"\A",
    r"\z",
    r"(?<=a)",
    r"(?<!\s)",
    r"(?=[ab]|$)",
    r"(?!a|b)",
    r"(?=\p{L}+)",
    "(?!'|1)",
    r"(?<!^)",
    r"(?=$)",
];

const WHOLE: [&str; 8] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"'(?i:[sdmt]|ll|ve|re)",
    "(?i:a)",
    "(?i)b|a",
    "(?i:sa|b'k)",
    "(?-i:s)",
    "(?>a+)",
    "(?>[ab]*)",
];

const TIMES: [&str; 22] = [
    "?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{1,2}", "{0,2}", "{1,}", "{,2}",
    "{1,3}+", "{2}?", "{1,2}?", "{1}", "{2}+", "{1,2}*", "+*", "?*",
];

fn part(random: &mut Random, depth: usize, out: &mut String) {
    match random.below(if depth == 0 { 8 } else { 12 }) {
        0..=2 => out.push_str(random.choose(&LITERALS)),
        3..=6 => out.push_str(random.choose(&CLASSES)),
        7 => out.push_str(random.choose(&WHOLE)),
        8 => {
            out.push_str(random.choose(&EDGES));
            return;
        }
        _ => {
            out.push_str(random.choose(&["(?:", "(", "(?:"]));
            choice(random, depth - 1, out);
            out.push(')');
        }
    }
    if random.below(5) < 2 {
        out.push_str(random.choose(&TIMES));
    }
}

fn choice(random: &mut Random, depth: usize, out: &mut String) {
    for index in 0..=random.below(4) {
        if index > 0 {
            out.push('|');
        }
        for _ in 0..=random.below(3) {
            part(random, depth, out);
        }
    }
}

const LETTERS: [&str; 29] = [
    "a", "b", "s", "S", "A", "k", "1", "2", " ", " ", "'", "\n", "\r", "\t", "中", "é", "ſ",
    "\u{301}", "!", "_", "-", "\u{212a}", "\u{3000}", "٣", "²", "¼", "ª", "§", "$",
];

fn text(random: &mut Random) -> String {
    (0..random.below(14)).map(|_| random.choose(&LETTERS)).collect()
}

/// All matches in a text, one after the other.
fn matches(automaton: &Automaton, text: &str) -> Vec<(usize, usize)> {
    let (mut at, mut found, mut tails) = (0, Vec::new(), Tails::default());
    while let Some((start, end)) = automaton.find(text.as_bytes(), 0, at, 0, &mut tails) {
        found.push((start, end));
        at = end;
    }
    found
}

/// Compares `count` random patterns on some texts each.
fn run(count: usize, seed: u64) {
    let mut random = Random(seed);
    let (mut known, mut refused) = (0, std::collections::BTreeMap::<String, usize>::new());
    for _ in 0..count {
        let mut written = String::new();
        choice(&mut random, 2, &mut written);
        let Ok(reference) = SysRegex::new(&written) else { continue };
        let automaton = match Pattern::new(&written).and_then(|pattern| pattern.automaton()) {
            Ok(automaton) => automaton,
            Err(reason) => {
                *refused.entry(reason).or_default() += 1;
                continue;
            }
        };
        known += 1;
        for _ in 0..TEXTS {
            let text = text(&mut random);
            // Oniguruma gives up, with a panic, if it has tried too many alternatives.
            let Ok(expected) = contain(|| reference.find_iter(&text).collect::<Vec<_>>()) else {
                continue;
            };
            assert_eq!(matches(&automaton, &text), expected, "{written:?} on {text:?}");
        }
    }
    let others: usize = refused.values().sum();
    assert!(known * 3 > others, "{known} were understood, {others} were not: {refused:?}");
}

#[test]
fn random_patterns_match_what_the_reference_matches() {
    run(PATTERNS, 0x9E37_79B9_7F4A_7C15);
}

#[test]
#[ignore = "takes minutes"]
fn the_first_quarter_of_a_million_random_patterns_matches_what_the_reference_matches() {
    run(MANY_PATTERNS, 0xD134_2543_DE82_EF95);
}

#[test]
#[ignore = "takes minutes"]
fn the_second_quarter_of_a_million_random_patterns_matches_what_the_reference_matches() {
    run(MANY_PATTERNS, 0xAF25_1AF3_B0F0_25B5);
}

#[test]
#[ignore = "takes minutes"]
fn the_third_quarter_of_a_million_random_patterns_matches_what_the_reference_matches() {
    run(MANY_PATTERNS, 0xB564_EF22_EC7A_ECE5);
}

#[test]
#[ignore = "takes minutes"]
fn the_fourth_quarter_of_a_million_random_patterns_matches_what_the_reference_matches() {
    run(MANY_PATTERNS, 0xF7C2_EBC0_8F67_F2B5);
}

/// GPT-2's pattern.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).expect("a known pattern")
}

#[test]
fn a_pattern_means_the_same_however_it_is_written() {
    let others = [
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?:'[stmd]|'re|'ve|'l{2})|\x20?[\p{L}]{1,}| {0,1}\p{N}\p{N}*|[ ]?[^\p{N}\p{L}\s]+|\s+(?=\s|\z)|\s+",
        r" ?\p{L}+|'s|'t|'re|'ve|'m|'ll|'d| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s+(?!\S)|\s+",
    ];
    for other in others {
        assert!(pattern(GPT2).means(&pattern(other)), "{other}");
    }
    let different = [
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
        r"'s|'t|'re|'ve|'m|'ll| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r" ?[^\s\p{L}\p{N}]+|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|\s+(?!\S)|\s+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ];
    for other in different {
        assert!(!pattern(GPT2).means(&pattern(other)), "{other}");
    }
}

#[test]
fn a_pattern_that_matches_everywhere_is_known() {
    let total = |text: &str| pattern(text).automaton().expect("it is small").is_total();
    assert!(total(GPT2));
    assert!(total(r"\s|\S"));
    assert!(!total(r"\s+"));
    assert!(!total(r"\p{N}{1,3}"));
    assert!(!total(r"\s|\S(?=a)"));
}

#[test]
fn a_search_in_vain_takes_time_in_proportion() {
    let letters = "a".repeat(2_000_000);
    let pairs = "ab".repeat(1_000_000);
    for (text, written, count) in [
        (&letters, "a+b", 0),
        (&letters, "(?:aa)+b|aaa", 666_666),
        (&letters, "a+b|a", 2_000_000),
        (&pairs, "[ab]+c|b", 1_000_000),
    ] {
        let automaton = pattern(written).automaton().expect("it is small");
        // Reading two million letters again from each of them would take hours.
        assert_eq!(matches(&automaton, text).len(), count, "{written}");
    }
}

#[test]
fn searches_in_vain_match_what_the_reference_matches() {
    let mut random = Random(7);
    for written in
        ["a+b", "(?:aa)+b|aaa", "[ab]+c|b", "(?:a|bb)*c|ab?", "a[^c]*c|[ab]{3}", r"\s*x|\s\S+z|a"]
    {
        let reference = SysRegex::new(written).expect("a sound pattern");
        let automaton = pattern(written).automaton().expect("it is small");
        for _ in 0..300 {
            let letters = ["a", "a", "a", "b", "b", "c", "x", " ", "é"];
            let kinds = 1 + random.below(letters.len());
            let text: String =
                (0..random.below(900)).map(|_| letters[random.below(kinds)]).collect();
            let expected: Vec<_> = reference.find_iter(&text).collect();
            assert_eq!(matches(&automaton, &text), expected, "{written:?} on {text:?}");
        }
    }
}

#[test]
fn a_pattern_outside_the_language_is_named() {
    for (text, named) in [
        (r"(a)\1", r"`\1`"),
        (r"a(?!bc)", "look-around"),
        (r"(?:ab)++", "possessive"),
        (r"(?i:ss)", "`ss`"),
        (r"(?i:é)", "`é`"),
        (r"\X", r"`\X`"),
        (r"a*", "matches nothing"),
        (r"(?<name>a)", "`(?<n`"),
        (r"[a", "without an end"),
        (r"a)", "unmatched"),
    ] {
        let reason = Pattern::new(text).err().unwrap_or_default();
        assert!(reason.contains(named), "{text}: {reason}");
    }
}

#[test]
fn a_search_for_two_known_bytes_finds_what_a_search_at_every_place_finds() {
    let with_pair = [" {2,}", "  ", "ab+", "ab"];
    let without = [" (?:$| )", "a(?:b|é)", "a(?!b)", "ab?", "a[bé]c", "é{2,}"];
    let letters = ["a", "b", " ", "é", "c"];
    for text in with_pair.into_iter().chain(without) {
        let automaton = pattern(text).automaton().expect("it can be compiled");
        assert_eq!(automaton.pair.is_some(), with_pair.contains(&text), "{text}");
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            let longer = |text: &String| letters.map(|letter| format!("{text}{letter}"));
            texts = texts.iter().flat_map(longer).collect();
            for within in &texts {
                let bytes = within.as_bytes();
                let at = |(at, _): (usize, char)| {
                    let end = automaton.match_at(bytes, 0, at, 0, &mut Tails::default())?;
                    Some((at, end))
                };
                let expected = within.char_indices().find_map(at);
                let found = automaton.find(bytes, 0, 0, 0, &mut Tails::default());
                assert_eq!(found, expected, "{text} in {within:?}");
            }
        }
    }
}
