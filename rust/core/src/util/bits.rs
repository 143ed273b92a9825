//! [`BitWriter`] and [`BitReader`]: small numbers in few bits.

/// Bits of one digit of a number of any size.
const DIGIT: u32 = 4;

/// Writes numbers, most of which are small.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not fill four bytes yet, the first lowest.
    rest: u64,
    /// The number of these bits.
    used: u32,
}

impl BitWriter {
    /// Appends the lowest `bits` bits of a number.
    #[inline]
    pub(crate) fn push_bits(&mut self, number: u64, bits: u32) {
        if bits > 32 {
            self.push_few(number & u64::from(u32::MAX), 32);
            return self.push_few(number >> 32, bits - 32);
        }
        self.push_few(number, bits);
    }

    /// Appends the lowest `bits` bits of a number, at most 32. As few wait, so half of a number fits beside them.
    #[inline]
    fn push_few(&mut self, number: u64, bits: u32) {
        self.rest |= (number & ((1 << bits) - 1)) << self.used;
        self.used += bits;
        if self.used >= 32 {
            self.bytes.extend_from_slice(&self.rest.to_le_bytes()[..4]);
            self.rest >>= 32;
            self.used -= 32;
        }
    }

    /// Appends a number of any size: a small one takes five bits.
    #[inline]
    pub(crate) fn number(&mut self, number: u64) {
        if number < 1 << DIGIT {
            return self.push_few(number, DIGIT + 1);
        }
        self.digits(number);
    }

    /// Appends the digits of a number.
    fn digits(&mut self, number: u64) {
        let (mut rest, mut code, mut bits) = (number, 0, 0);
        loop {
            let digit = rest & ((1 << DIGIT) - 1);
            rest >>= DIGIT;
            code |= (digit | (u64::from(rest > 0) << DIGIT)) << bits;
            bits += DIGIT + 1;
            if rest == 0 {
                return self.push_few(code, bits);
            }
            if bits + DIGIT >= u32::BITS {
                self.push_few(code, bits);
                (code, bits) = (0, 0);
            }
        }
    }

    /// Appends a number below `2^bits` most of the time (Rice's code): `bits` bits, and one for each `2^bits` in it.
    pub(crate) fn rice(&mut self, number: u64, bits: u32) {
        let high = number >> bits;
        // A number that is far too large is written like any other.
        if high < 8 {
            self.push_bits((1 << high) - 1, u32::try_from(high).expect("below 8") + 1);
            self.push_bits(number, bits);
        } else {
            self.push_bits((1 << 8) - 1, 8);
            self.number(number);
        }
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        let last = usize::try_from(self.used.div_ceil(8)).expect("few bytes");
        self.bytes.extend_from_slice(&self.rest.to_le_bytes()[..last]);
        self.bytes
    }
}

/// Reads numbers as [`BitWriter`] wrote them; `None` after the end, or for invalid bits.
#[derive(Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn take(&mut self, bits: u32) -> Option<u64> {
        let mut number = 0;
        for bit in 0..bits {
            let byte = *self.bytes.get(self.at / 8)?;
            number |= u64::from((byte >> (self.at % 8)) & 1) << bit;
            self.at += 1;
        }
        Some(number)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for digit in 0..u64::BITS / DIGIT {
            number |= self.take(DIGIT)? << (digit * DIGIT);
            if self.take(1)? == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn rice(&mut self, bits: u32) -> Option<u64> {
        let mut high = 0;
        while self.take(1)? == 1 {
            high += 1;
            if high == 8 {
                return self.number();
            }
        }
        Some((high << bits) | self.take(bits)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(
            numbers in prop::collection::vec((any::<u64>(), 0_u32..64, 0_u32..12), 0..50),
        ) {
            let mut writer = BitWriter::default();
            for &(number, shift, bits) in &numbers {
                let number = number >> shift;
                writer.number(number);
                writer.rice(number, bits);
                writer.push_bits(number, bits);
            }
            let bytes = writer.into_bytes();
            let mut reader = BitReader::new(&bytes);
            for &(number, shift, bits) in &numbers {
                let number = number >> shift;
                prop_assert_eq!(reader.number(), Some(number));
                prop_assert_eq!(reader.rice(bits), Some(number));
                prop_assert_eq!(reader.take(bits), Some(number & ((1 << bits) - 1)));
            }
            prop_assert_eq!(reader.take(8), None);
        }
    }
}
