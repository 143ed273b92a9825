//! The scores of a unigram model, as the published Hugging Face library reads them from a file.
//!
//! That library is built with a reader of numbers that can miss the nearest double by some units in the last place. Sums
//! that would be equal then differ, and the model prefers another of two ways to cut a text. The crate that is linked here
//! reads the nearest double, so a file's scores are written anew: as the doubles that the library has.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The largest exponent of a power of ten that is a double.
const LARGEST_POWER: i32 = 308;

/// The text of a `tokenizer.json` with the scores that the library reads; `None` if it has them already.
pub(crate) fn as_published(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct File<'a> {
        #[serde(borrow)]
        model: Model<'a>,
    }
    #[derive(Deserialize)]
    struct Model<'a> {
        #[serde(borrow)]
        vocab: Vec<(&'a RawValue, &'a RawValue)>,
    }
    if has_merges(json) {
        return None;
    }
    let File { model: Model { vocab } } = serde_json::from_str(json).ok()?;
    let (mut out, mut from) = (String::new(), 0);
    for (_, score) in vocab {
        let score = score.get();
        let Some(read) = read(score) else { continue };
        if score.parse() == Ok(read) {
            continue;
        }
        // The score lies in `json`, from which it is borrowed.
        let start = score.as_ptr() as usize - json.as_ptr() as usize;
        out.push_str(&json[from..start]);
        let _ = write!(out, "{read:?}");
        from = start + score.len();
    }
    (from > 0).then(|| {
        out.push_str(&json[from..]);
        out
    })
}

/// True if a field of the file is named `merges`: no unigram model has one, and most large files do.
fn has_merges(json: &str) -> bool {
    const NAME: &str = "\"merges\"";
    json.match_indices(NAME).any(|(at, _)| json[at + NAME.len()..].trim_start().starts_with(':'))
}

/// The double that the library reads from a JSON number; `None` if it reads none, or an infinite one.
///
/// Its reader takes as many digits as 64 bits hold, and multiplies or divides by a power of ten.
fn read(number: &str) -> Option<f64> {
    let (number, sign) = number.strip_prefix('-').map_or((number, 1.0), |rest| (rest, -1.0));
    let (mantissa, written) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (mut digits, mut exponent) = (0_u64, 0_i32);
    let append = |digits: u64, digit: u8| {
        digits.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')))
    };
    let mut is_full = false;
    for digit in whole.bytes() {
        if let Some(more) = append(digits, digit).filter(|_| !is_full) {
            digits = more;
        } else {
            is_full = true;
            exponent = exponent.checked_add(1)?;
        }
    }
    for digit in fraction.bytes() {
        let Some(more) = append(digits, digit) else { break };
        digits = more;
        exponent = exponent.checked_sub(1)?;
    }
    exponent = exponent.saturating_add(written);
    #[expect(clippy::cast_precision_loss, reason = "as the library does")]
    let mut value = digits as f64;
    while exponent < -LARGEST_POWER && value != 0.0 {
        value /= power(LARGEST_POWER);
        exponent += LARGEST_POWER;
    }
    if exponent >= 0 {
        value *= power(exponent);
    } else if value != 0.0 {
        value /= power(-exponent);
    }
    Some(sign * value).filter(|value| value.is_finite())
}

/// The double that is nearest to a power of ten.
fn power(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in a file, and the numbers that `tokenizers` 0.23.3 for Python writes after it has read them as scores.
    const READ: [(&str, f64); 16] = [
        ("-9.894116537779711", -9.894_116_537_779_713),
        ("-0.9854101798924351", -0.985_410_179_892_435_2),
        ("-3.4639415740966797", -3.463_941_574_096_679_7),
        ("0.1", 0.1),
        ("-1.7976931348623157e308", f64::MIN),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("-2.2250738585072014e-308", -f64::MIN_POSITIVE),
        ("123456789012345678901234567890.125", 1.234_567_890_123_456_8e29),
        ("18446744073709551616", 18_446_744_073_709_552_000.0),
        ("1844674407370955161.65", 1_844_674_407_370_955_300.0),
        ("0.00000000000000000000000000001234567890123456789", 1.234_567_890_123_456_7e-29),
        ("-12.345678901234567890123456789", -12.345_678_901_234_567),
        ("1E+5", 100_000.0),
        ("1e23", 1e23),
        ("-8.500000000000000000000000000000000001e10", -85_000_000_000.0),
    ];

    #[test]
    fn numbers_are_read_as_the_library_reads_them() {
        for (number, expected) in READ {
            assert_eq!(read(number), Some(expected), "{number}");
        }
    }

    #[test]
    fn only_scores_of_a_list_are_written_anew() {
        let piece = r#"["-9.894116537779711",-9.894116537779711]"#;
        let file = |vocab: &str| format!(r#"{{"model":{{"unk_id": 0,"vocab":{vocab}}},"x":0.1}}"#);
        let list = file(&format!(r#"[["<unk>", 0], {piece}, ["merges",-1.5]]"#));
        let expected = list.replacen(",-9.894116537779711", ",-9.894116537779713", 1);
        assert_eq!(as_published(&list), Some(expected));
        for other in [file(r#"{"a":1}"#), file("[[]]"), file(r#"[["a",-0.5]]"#), "x".to_owned()] {
            assert_eq!(as_published(&other), None);
        }
    }
}
