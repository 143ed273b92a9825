//! [`Automaton`]: a pattern as tables of states over classes of characters.

use std::collections::BTreeSet;
use std::fmt;

use memchr::memmem;

use super::automaton_states::{AutomatonBuilder, CharacterClasses, DEAD};
use super::instructions::PatternProgram;
use super::matchless_tails::{PassedPositions, Tails};
use crate::split::decode;
use crate::unicode::CodePointTable;

/// The bit of a table entry that says that the pattern has matched before the character.
const MATCHED: u16 = 1 << 15;

/// A pattern as transition tables.
pub(crate) struct Automaton {
    /// The class of each ASCII character.
    ascii: Box<[u8; 128]>,
    /// The class of every character.
    wide: CodePointTable,
    /// The letter for the end of the text, which is the last letter.
    end: u8,
    /// The logarithm of the number of table entries of a state.
    shift: u32,
    /// The next state for each state and letter, with [`MATCHED`].
    table: Box<[u16]>,
    /// The first state of a search after each letter; after the end of the text means at its start.
    starts: Box<[u16]>,
    /// The neighbours of a match that the pattern has conditions on.
    looks: LookAround,
    /// True if the pattern matches at every position of every text.
    total: bool,
    /// True if a search can read on without limit after its last match, or without any match.
    wanders: bool,
    /// For each byte, true if a match can begin with it.
    first: Box<[bool; 256]>,
    /// The only byte that a match can begin with, if there is one.
    only: Option<u8>,
    /// For each byte, true if it can be next in a match that begins with an ASCII character.
    second: Box<[bool; 256]>,
    /// Finds the only two bytes that a match can begin with, if there are such.
    pub(super) pair: Option<Box<memmem::Finder<'static>>>,
}

/// The characters beside a match that can matter to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookAround {
    /// None.
    Nowhere,
    /// The one behind it.
    Ahead,
    /// The character before the match, and maybe the one after it.
    Behind,
}

impl Automaton {
    pub(super) fn new(program: &PatternProgram) -> Result<Self, String> {
        let alphabet = CharacterClasses::new(&[program])?;
        let mut follower = AutomatonBuilder::new(program, &alphabet);
        let mut starts = Vec::new();
        for letter in 0..=alphabet.end() {
            starts.push(number(follower.start(letter)?));
        }
        let shift = (alphabet.end() + 1).next_power_of_two().ilog2();
        let mut table = Vec::new();
        let mut state = 0;
        while state < follower.count() {
            table.resize((state + 1) << shift, 0);
            for letter in 0..=alphabet.end() {
                let (next, matched) = follower.step(state, letter)?;
                table[state << shift | letter] = number(next) | if matched { MATCHED } else { 0 };
            }
            state += 1;
        }
        let wide = CodePointTable::from_runs(&alphabet.runs);
        let mut ascii = Box::new([0; 128]);
        for (code_point, class) in (0..).zip(ascii.iter_mut()) {
            *class = wide.get(code_point);
        }
        let end = u8::try_from(alphabet.end()).map_err(|error| error.to_string())?;
        let mut automaton = Self {
            ascii,
            wide,
            end,
            shift,
            table: table.into(),
            starts: starts.into(),
            looks: match (program.behind.is_empty(), program.ahead.is_empty()) {
                (true, true) => LookAround::Nowhere,
                (true, false) => LookAround::Ahead,
                (false, _) => LookAround::Behind,
            },
            total: false,
            wanders: false,
            first: Box::new([true; 256]),
            only: None,
            second: Box::new([true; 256]),
            pair: None,
        };
        automaton.total = automaton.matches_all();
        automaton.wanders = automaton.has_vain_circle();
        for byte in 0..128 {
            let letter = automaton.ascii[byte];
            let leads = |start: &u16| automaton.entry(*start, letter) != number(DEAD);
            automaton.first[byte] = automaton.starts.iter().any(leads);
        }
        let first_wide =
            automaton.leads_wide(&automaton.starts.iter().copied().collect(), &alphabet);
        automaton.first[128..].fill(first_wide);
        let mut beginning = (0..=u8::MAX).filter(|byte| automaton.first[usize::from(*byte)]);
        automaton.only = beginning.next().filter(|_| beginning.next().is_none());
        let starts = automaton.starts.iter();
        let firsts: BTreeSet<u16> = starts
            .flat_map(|start| automaton.ascii.iter().map(|letter| automaton.entry(*start, *letter)))
            .filter(|state| *state != number(DEAD))
            .collect();
        for byte in 0..128 {
            let letter = automaton.ascii[byte];
            let leads = |state: &u16| automaton.entry(state & !MATCHED, letter) != number(DEAD);
            automaton.second[byte] = firsts.iter().any(leads);
        }
        // Bytes outside ASCII may all be second ones, unless no match goes on with such a character.
        let ends =
            firsts.iter().any(|state| automaton.entry(*state & !MATCHED, end) != number(DEAD));
        let mut seconds = (0..128_u8).filter(|byte| automaton.second[usize::from(*byte)]);
        let second = seconds.next().filter(|_| seconds.next().is_none() && !ends);
        if let Some((first, second)) = automaton.only.filter(u8::is_ascii).zip(second)
            && !automaton.leads_wide(&firsts, &alphabet)
        {
            let finder = memmem::Finder::new(&[first, second]).into_owned();
            automaton.pair = Some(Box::new(finder));
        }
        Ok(automaton)
    }

    /// True if every search matches: none reaches the end of the text, or the dead state, before a match.
    fn matches_all(&self) -> bool {
        // At a start state at least one character follows, so the end of the text is left out there.
        let mut seen = vec![false; self.table.len() >> self.shift];
        let mut waiting: Vec<(u16, bool)> =
            self.starts.iter().map(|start| (*start, true)).collect();
        while let Some((state, first)) = waiting.pop() {
            let letters = if first { 0..self.end } else { 0..self.end + 1 };
            for letter in letters {
                let entry = self.entry(state, letter);
                let next = usize::from(entry);
                if entry & MATCHED != 0 {
                    continue;
                }
                if next == DEAD {
                    return false;
                }
                if !std::mem::replace(&mut seen[next], true) {
                    waiting.push((entry, false));
                }
            }
        }
        true
    }

    /// True if some states form a cycle without a match.
    fn has_vain_circle(&self) -> bool {
        let count = self.table.len() >> self.shift;
        let next = |state: usize| {
            let state = number(state);
            let entries = (0..self.end).map(move |letter| self.entry(state, letter));
            entries.filter(|entry| entry & MATCHED == 0).map(usize::from).filter(|it| *it != DEAD)
        };
        // States without such a transition are removed repeatedly; the states that remain are on a cycle, or
        // lead to one.
        let mut left: Vec<usize> = (0..count).map(|state| next(state).count()).collect();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); count];
        for state in 0..count {
            next(state).for_each(|to| before[to].push(state));
        }
        let mut done: Vec<usize> = (0..count).filter(|state| left[*state] == 0).collect();
        let mut removed = done.len();
        while let Some(state) = done.pop() {
            for from in &before[state] {
                left[*from] -= 1;
                if left[*from] == 0 {
                    removed += 1;
                    done.push(*from);
                }
            }
        }
        removed < count
    }

    /// True if a character outside ASCII leads on from one of `states`.
    fn leads_wide(&self, states: &BTreeSet<u16>, alphabet: &CharacterClasses) -> bool {
        let ends = alphabet.runs.iter().skip(1).map(|(first, _)| *first).chain([u32::MAX]);
        let mut wide = alphabet.runs.iter().zip(ends).filter(|(_, end)| *end > 128);
        wide.any(|((_, class), _)| {
            states.iter().any(|state| self.entry(state & !MATCHED, *class) != number(DEAD))
        })
    }

    #[inline]
    fn entry(&self, state: u16, letter: u8) -> u16 {
        self.table[usize::from(state) << self.shift | usize::from(letter)]
    }

    /// True if the pattern matches at every position of every text.
    pub(crate) fn is_total(&self) -> bool {
        self.total
    }

    /// True if the pattern has no conditions on the characters beside a match.
    pub(crate) fn looks_nowhere(&self) -> bool {
        self.looks == LookAround::Nowhere
    }

    /// True if no match contains the ASCII character `byte`.
    pub(crate) fn never_takes(&self, byte: u8) -> bool {
        let letter = self.ascii[usize::from(byte)];
        self.states().all(|state| self.next(state, letter) == number(DEAD))
    }

    /// True if no match contains two ASCII characters behind each other.
    pub(crate) fn parts(&self, left: u8, right: u8) -> bool {
        let [left, right] = [left, right].map(|byte| self.ascii[usize::from(byte)]);
        self.states().all(|state| {
            let next = self.next(state, left);
            next == number(DEAD) || self.next(next, right) == number(DEAD)
        })
    }

    fn states(&self) -> impl Iterator<Item = u16> {
        (0..self.table.len() >> self.shift).map(number)
    }

    /// The state after a letter.
    fn next(&self, state: u16, letter: u8) -> u16 {
        self.entry(state, letter) & !MATCHED
    }

    /// The letter of the character at `at`, and its length in bytes.
    #[inline]
    fn letter(&self, text: &[u8], at: usize) -> (u8, usize) {
        match text.get(at) {
            None => (self.end, 0),
            Some(byte) => match self.ascii.get(usize::from(*byte)) {
                Some(class) => (*class, 1),
                None => self.letter_wide(text, at),
            },
        }
    }

    #[cold]
    fn letter_wide(&self, text: &[u8], at: usize) -> (u8, usize) {
        let (code_point, length) = decode(text, at);
        (self.wide.get(code_point), length)
    }

    /// The first state of a search at `at`, in the part of a text that begins at `from`.
    #[inline]
    fn start(&self, text: &[u8], from: usize, at: usize) -> u16 {
        if at == from || self.looks != LookAround::Behind {
            return self.starts[usize::from(self.end)];
        }
        let mut before = at - 1;
        while before > from && text[before] & 0xC0 == 0x80 {
            before -= 1;
        }
        self.starts[usize::from(self.letter(text, before).0)]
    }

    /// The end of the match that begins at `at`, if there is one. The search sees nothing before `from` and
    /// after the end of `text`.
    ///
    /// `tails` is shared by all searches of the text; `split` tells apart the searches of different automata.
    #[inline]
    pub(crate) fn match_at(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        split: usize,
        tails: &mut Tails,
    ) -> Option<usize> {
        if self.wanders {
            return self.match_with(text, from, at, PassedPositions::new(tails, split, text.len()));
        }
        let mut state = self.start(text, from, at);
        let (mut at, mut found) = (at, None);
        loop {
            let (letter, length) = self.letter(text, at);
            let entry = self.entry(state, letter);
            if entry & MATCHED != 0 {
                found = Some(at);
            }
            state = entry & !MATCHED;
            if usize::from(state) == DEAD {
                return found;
            }
            at += length;
        }
    }

    /// As [`Self::match_at`], for a pattern whose searches can read on without a match.
    fn match_with(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        mut passed: PassedPositions<'_>,
    ) -> Option<usize> {
        let mut state = self.start(text, from, at);
        let (mut at, mut found) = (at, None);
        loop {
            let (letter, length) = self.letter(text, at);
            let entry = self.entry(state, letter);
            if entry & MATCHED != 0 {
                found = Some(at);
                passed.matched();
            }
            state = entry & !MATCHED;
            if usize::from(state) == DEAD || !passed.step(at, at + length, state) {
                passed.finish();
                return found;
            }
            at += length;
        }
    }

    /// The first match that begins at or after `at`; see [`Self::match_at`].
    pub(crate) fn find(
        &self,
        text: &[u8],
        from: usize,
        at: usize,
        split: usize,
        tails: &mut Tails,
    ) -> Option<(usize, usize)> {
        let mut start = at;
        while start < text.len() {
            if let Some(pair) = &self.pair {
                start += pair.find(&text[start..])?;
            } else if let Some(byte) = self.only {
                start += memchr::memchr(byte, &text[start..])?;
            }
            let second = || text.get(start + 1).is_none_or(|byte| self.second[usize::from(*byte)]);
            if !self.first[usize::from(text[start])] || text[start].is_ascii() && !second() {
                start += 1;
                continue;
            }
            if let Some(end) = self.match_at(text, from, start, split, tails) {
                return Some((start, end));
            }
            start += self.letter(text, start).1;
        }
        None
    }
}

/// A state as it is stored; there are fewer than 2^15.
fn number(state: usize) -> u16 {
    u16::try_from(state).unwrap_or(0)
}

impl fmt::Debug for Automaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Automaton").field("total", &self.total).finish_non_exhaustive()
    }
}
