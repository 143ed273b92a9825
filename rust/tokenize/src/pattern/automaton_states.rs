//! Runs a program as an automaton: states are ordered lists of steps, letters are classes of characters.

use std::collections::{HashMap, HashSet};

use super::code_points::CodePoints;
use super::instructions::{Instruction, PatternProgram};
use super::pattern_node::Edge;

/// The most states: a pattern with more would take too much memory.
const MOST_STATES: usize = 1 << 12;

/// The most classes of characters: a class is a byte, and one value is left for the end of the text.
const MOST_CLASSES: usize = 250;

/// The classes of characters of some programs: no set of a program has only some of the characters of a
/// class.
#[derive(Debug)]
pub(super) struct CharacterClasses {
    /// The first code point of each run, and the class of the run.
    pub(super) runs: Vec<(u32, u8)>,
    /// One code point of each class.
    examples: Vec<u32>,
}

impl CharacterClasses {
    /// The classes that the sets of `programs` need.
    pub(super) fn new(programs: &[&PatternProgram]) -> Result<Self, String> {
        let edges = |program: &'_ PatternProgram| -> Vec<CodePoints> {
            let edges = program.ahead.iter().chain(&program.behind);
            edges.map(|edge| edge.set.clone()).chain(program.sets.iter().cloned()).collect()
        };
        let sets: Vec<CodePoints> = programs.iter().flat_map(|program| edges(program)).collect();
        // For each code point, the sets that begin there or end before it.
        let mut places: Vec<(u32, usize)> = vec![(0, usize::MAX)];
        for (index, set) in sets.iter().enumerate() {
            for (first, last) in set.ranges() {
                places.extend([(*first, index), (last + 1, index)]);
            }
        }
        places.sort_unstable();
        let mut members = vec![false; sets.len()];
        let mut known: HashMap<Vec<bool>, u8> = HashMap::new();
        let mut alphabet = Self { runs: Vec::new(), examples: Vec::new() };
        for together in places.chunk_by(|a, b| a.0 == b.0) {
            let start = together[0].0;
            for (_, index) in together {
                if let Some(member) = members.get_mut(*index) {
                    *member = !*member;
                }
            }
            if start >= 0x11_0000 {
                break;
            }
            let next = known.len();
            let fresh = u8::try_from(next).ok().filter(|it| usize::from(*it) < MOST_CLASSES);
            let class = if let Some(class) = known.get(&members) {
                *class
            } else {
                let class = fresh.ok_or("a pattern of too many classes of characters")?;
                known.insert(members.clone(), class);
                alphabet.examples.push(start);
                class
            };
            if alphabet.runs.last().is_none_or(|run| run.1 != class) {
                alphabet.runs.push((start, class));
            }
        }
        Ok(alphabet)
    }

    /// The number of classes; this is also the letter for the end of the text.
    pub(super) fn end(&self) -> usize {
        self.examples.len()
    }

    fn members(&self, set: &CodePoints) -> Vec<bool> {
        self.examples.iter().map(|example| set.has(*example)).chain([false]).collect()
    }

    fn edges(&self, edges: &[Edge]) -> Vec<Vec<bool>> {
        let with_end = |edge: &Edge| {
            let mut members = self.members(&edge.set);
            members[self.end()] = edge.end;
            members
        };
        edges.iter().map(with_end).collect()
    }
}

/// The steps to try, in order, and the conditions that the character before fulfils.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AutomatonState {
    steps: Vec<usize>,
    behind: Vec<bool>,
}

/// A program over an alphabet; its states are numbered when they are first reached.
pub(super) struct AutomatonBuilder<'a> {
    program: &'a PatternProgram,
    sets: Vec<Vec<bool>>,
    ahead: Vec<Vec<bool>>,
    behind: Vec<Vec<bool>>,
    states: Vec<AutomatonState>,
    numbers: HashMap<AutomatonState, usize>,
    /// The last search that reached each step.
    seen: Vec<u32>,
    search: u32,
}

/// The state that has no way out.
pub(super) const DEAD: usize = 0;

impl<'a> AutomatonBuilder<'a> {
    pub(super) fn new(program: &'a PatternProgram, alphabet: &CharacterClasses) -> Self {
        let mut follower = Self {
            program,
            sets: program.sets.iter().map(|set| alphabet.members(set)).collect(),
            ahead: alphabet.edges(&program.ahead),
            behind: alphabet.edges(&program.behind),
            states: Vec::new(),
            numbers: HashMap::new(),
            seen: vec![0; program.steps.len()],
            search: 0,
        };
        let dead = follower.number(AutomatonState { steps: Vec::new(), behind: Vec::new() });
        debug_assert_eq!(dead, Ok(DEAD), "the first state is the dead one");
        follower
    }

    fn number(&mut self, state: AutomatonState) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(&state) {
            return Ok(*number);
        }
        if self.states.len() >= MOST_STATES {
            return Err("a pattern of too many states".to_owned());
        }
        self.numbers.insert(state.clone(), self.states.len());
        self.states.push(state);
        Ok(self.states.len() - 1)
    }

    /// The number of states so far.
    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// The state at the start of a search, after a character or at the start of the text.
    pub(super) fn start(&mut self, letter: usize) -> Result<usize, String> {
        let behind = self.behind.iter().map(|members| members[letter]).collect();
        self.number(AutomatonState { steps: vec![0], behind })
    }

    /// The state that a letter leads to, and whether the pattern has matched before the letter.
    pub(super) fn step(&mut self, state: usize, letter: usize) -> Result<(usize, bool), String> {
        let AutomatonState { steps, behind } = self.states[state].clone();
        self.search += 1;
        let (mut next, mut matched) = (Vec::new(), false);
        let mut stack: Vec<usize> = steps.into_iter().rev().collect();
        while let Some(at) = stack.pop() {
            if std::mem::replace(&mut self.seen[at], self.search) == self.search {
                continue;
            }
            match self.program.steps[at] {
                Instruction::Take(set) => {
                    if self.sets[set][letter] {
                        next.push(at + 1);
                    }
                }
                Instruction::Ahead(edge) => {
                    stack.extend(self.ahead[edge][letter].then_some(at + 1));
                }
                Instruction::Behind(edge) => stack.extend(behind[edge].then_some(at + 1)),
                Instruction::Fork(first, second) => stack.extend([second, first]),
                Instruction::Jump(to) => stack.push(to),
                Instruction::Match => {
                    matched = true;
                    break;
                }
            }
        }
        if next.is_empty() {
            return Ok((DEAD, matched));
        }
        let behind = self.behind.iter().map(|members| members[letter]).collect();
        Ok((self.number(AutomatonState { steps: next, behind })?, matched))
    }
}

/// True if two programs have the same matches in every text.
///
/// Both run over the same letters, and it is tracked whether their last matches are the same. A match on the
/// way counts only if no longer one follows.
pub(super) fn are_equal(left: &PatternProgram, right: &PatternProgram) -> bool {
    let compare = || -> Result<bool, String> {
        let alphabet = CharacterClasses::new(&[left, right])?;
        let (mut one, mut other) =
            (AutomatonBuilder::new(left, &alphabet), AutomatonBuilder::new(right, &alphabet));
        let mut waiting = Vec::new();
        for letter in 0..=alphabet.end() {
            waiting.push((one.start(letter)?, other.start(letter)?, true));
        }
        let mut seen: HashSet<_> = waiting.iter().copied().collect();
        while let Some((a, b, same)) = waiting.pop() {
            for letter in 0..=alphabet.end() {
                let ((a, first), (b, second)) = (one.step(a, letter)?, other.step(b, letter)?);
                let same = if first == second { first || same } else { false };
                if a == DEAD && b == DEAD {
                    if !same {
                        return Ok(false);
                    }
                } else if seen.insert((a, b, same)) {
                    waiting.push((a, b, same));
                }
            }
        }
        Ok(true)
    };
    compare().unwrap_or(false)
}
