//! A pattern's tree as instructions, in the order in which Oniguruma would try them.

use std::collections::HashMap;

use super::code_points::CodePoints;
use super::pattern_node::{Edge, PatternNode};

/// The most instructions of a program: a program with more takes too long to run.
const MOST: usize = 4096;

/// One instruction. Numbers of sets and conditions are indices into the program's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Reads a character of a set, and continues with the next step.
    Take(usize),
    /// Continues with the next step if a condition on the character after this position holds.
    Ahead(usize),
    /// Continues with the next step if a condition on the character before this position holds.
    Behind(usize),
    /// Tries the first step, and the second one if the first fails.
    Fork(usize, usize),
    /// Continues with another step.
    Jump(usize),
    /// The pattern has matched.
    Match,
}

/// A program, with the sets and conditions of its steps.
#[derive(Debug, Default)]
pub(super) struct PatternProgram {
    pub(super) steps: Vec<Instruction>,
    pub(super) sets: Vec<CodePoints>,
    pub(super) ahead: Vec<Edge>,
    pub(super) behind: Vec<Edge>,
    /// The index of each set.
    known: HashMap<CodePoints, usize>,
}

impl PatternProgram {
    /// The program of a tree.
    pub(super) fn new(node: &PatternNode) -> Result<Self, String> {
        let mut program = Self::default();
        program.write(node)?;
        program.push(Instruction::Match)?;
        Ok(program)
    }

    fn push(&mut self, step: Instruction) -> Result<usize, String> {
        if self.steps.len() >= MOST {
            return Err("a pattern of too many steps".to_owned());
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn set(&mut self, set: &CodePoints) -> usize {
        if let Some(number) = self.known.get(set) {
            return *number;
        }
        self.sets.push(set.clone());
        self.known.insert(set.clone(), self.sets.len() - 1);
        self.sets.len() - 1
    }

    fn write(&mut self, node: &PatternNode) -> Result<(), String> {
        match node {
            PatternNode::Set(set) => {
                let set = self.set(set);
                self.push(Instruction::Take(set))?;
            }
            PatternNode::Ahead(edge) => {
                let number = number(&mut self.ahead, edge);
                self.push(Instruction::Ahead(number))?;
            }
            PatternNode::Behind(edge) => {
                let number = number(&mut self.behind, edge);
                self.push(Instruction::Behind(number))?;
            }
            PatternNode::Sequence(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            PatternNode::Choice(parts) => self.choice(parts)?,
            PatternNode::Repeat(part, times) => {
                for _ in 0..times.least {
                    self.write(part)?;
                }
                if let Some(most) = times.most {
                    return self.optional(part, most - times.least, times.lazy);
                }
                let fork = self.push(Instruction::Fork(0, 0))?;
                self.write(part)?;
                let end = self.push(Instruction::Jump(fork))? + 1;
                self.steps[fork] = forked(fork + 1, end, times.lazy);
            }
        }
        Ok(())
    }

    fn choice(&mut self, parts: &[PatternNode]) -> Result<(), String> {
        let mut ends = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            if index + 1 == parts.len() {
                self.write(part)?;
                break;
            }
            let fork = self.push(Instruction::Fork(0, 0))?;
            self.write(part)?;
            ends.push(self.push(Instruction::Jump(0))?);
            self.steps[fork] = Instruction::Fork(fork + 1, self.steps.len());
        }
        for end in ends {
            self.steps[end] = Instruction::Jump(self.steps.len());
        }
        Ok(())
    }

    /// Appends up to `most` optional repetitions of a part, each nested in the one before.
    fn optional(&mut self, part: &PatternNode, most: u32, lazy: bool) -> Result<(), String> {
        let mut forks = Vec::new();
        for _ in 0..most {
            forks.push(self.push(Instruction::Fork(0, 0))?);
            self.write(part)?;
        }
        let end = self.steps.len();
        for fork in forks {
            self.steps[fork] = forked(fork + 1, end, lazy);
        }
        Ok(())
    }
}

fn forked(into: usize, past: usize, lazy: bool) -> Instruction {
    if lazy { Instruction::Fork(past, into) } else { Instruction::Fork(into, past) }
}

fn number(edges: &mut Vec<Edge>, edge: &Edge) -> usize {
    edges.iter().position(|it| it == edge).unwrap_or_else(|| {
        edges.push(edge.clone());
        edges.len() - 1
    })
}
