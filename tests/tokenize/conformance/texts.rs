//! Texts that are hard to cut right.

use crate::check::Check;
use crate::random::Random;

/// Characters of every class that a pattern tells from others.
pub(crate) const REPRESENTATIVES: [char; 24] = [
    ' ', '\n', 'a', '\'', 's', 'A', '1', '!', '/', '中', '\u{301}', '\u{a0}', 'ſ', '\r', '\t',
    '\0', '\u{3000}', 'é', 'ǅ', 'ʰ', '٣', '😀', '▁', '<',
];

/// The texts before and behind each code point.
const CONTEXTS: [(&str, &str); 10] = [
    ("", " "),
    ("a", "b"),
    (" ", "b"),
    ("'", "s"),
    ("1", "2"),
    ("\n", "\n"),
    ("!", "!"),
    ("é", "\u{301}"),
    ("  ", "  "),
    ("中A", "a"),
];

/// Every `stride`th code point in several contexts.
pub(crate) fn code_points(check: &mut Check, stride: usize) {
    let scalars: Vec<char> = (0..=0x10_FFFF).filter_map(char::from_u32).step_by(stride).collect();
    for (index, batch) in scalars.chunks(128).enumerate() {
        for (before, after) in CONTEXTS {
            let mut text = String::new();
            for c in batch {
                text.push_str(before);
                text.push(*c);
                text.push_str(after);
            }
            check.ids(&text);
            if index % 16 == 0 {
                check.masks(&text);
            }
        }
    }
}

/// All strings of `length` over the first `count` representatives.
pub(crate) fn exhaustive(check: &mut Check, count: usize, length: u32) {
    let mut text = String::new();
    for mut number in 0..count.pow(length) {
        text.clear();
        for _ in 0..length {
            text.push(REPRESENTATIVES[number % count]);
            number /= count;
        }
        check.ids(&text);
    }
}

/// Fragments whose borders matter.
const FRAGMENTS: [&str; 64] = [
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\n\n ",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "\u{85}",
    "\u{2028}",
    "'s",
    "'S",
    "'ſ",
    "'re",
    "'VE",
    "'ll",
    "'lL",
    "'d",
    "'m",
    "'t",
    "'",
    "''",
    "’s",
    "don't",
    "I'M",
    "the",
    " The",
    "HTTPServer",
    "iPhone",
    "naïve",
    "cafe\u{301}",
    "e\u{301}\u{323}",
    "\u{301}",
    "中文",
    "日本語テキスト",
    "ไทย",
    "हिन्दी",
    "العربية",
    "한국어",
    "1",
    "12",
    "123",
    "1234567",
    "٣٤",
    "½",
    "²",
    "!",
    "?!",
    "...",
    "/",
    "//\n",
    "--",
    "(",
    "\"",
    "😀",
    "👩‍👩‍👧",
    "<",
    "<|",
    "|>",
    "<|im_start|>",
    "<|endoftext|>",
    "\0",
    "▁",
];

/// Letters for words of a given size in bytes.
const WORDS: [&str; 6] = ["a", "Z", "é", "中", "q", "😀"];

/// A random text of fragments, special tokens and their parts, and words that just fit or miss a block.
pub(crate) fn fuzz(random: &mut Random, special: &[String], out: &mut String) {
    out.clear();
    for _ in 0..=random.below(24) {
        match random.below(12) {
            0 if !special.is_empty() => {
                let token = random.choose(special);
                let boundaries: Vec<usize> =
                    (0..=token.len()).filter(|at| token.is_char_boundary(*at)).collect();
                let (start, end) = match random.below(3) {
                    0 => (0, *random.choose(&boundaries)),
                    1 => (*random.choose(&boundaries), token.len()),
                    _ => (0, token.len()),
                };
                out.push_str(&token[start..end]);
            }
            1 => {
                let size =
                    *random.choose(&[7, 8, 9, 14, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 130]);
                let word = *random.choose(&WORDS);
                let target = out.len() + size;
                while out.len() + word.len() <= target {
                    out.push_str(if random.once_in(9) { "b" } else { word });
                }
            }
            2 => {
                if let Some(c) =
                    char::from_u32(u32::try_from(random.below(0x3_0000)).expect("small"))
                {
                    out.push(c);
                }
            }
            3 => out.push(*random.choose(&REPRESENTATIVES)),
            _ => out.push_str(random.choose::<&str>(&FRAGMENTS)),
        }
    }
}
