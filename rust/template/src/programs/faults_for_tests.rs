//! Makes programs wrong, so that tests can show that trials detect it.

use super::operation::{Operation, OperationFunction};
use super::program::Program;
use super::steps::{ProgramStep, TextRange};

#[doc(hidden)]
impl Program {
    /// Makes the program wrong: it no longer trims texts.
    pub fn trim_no_more(&mut self) {
        for step in &mut self.steps {
            if let ProgramStep::Cut(TextRange::Trim { left, right, .. }) = step {
                (*left, *right) = (false, false);
            }
        }
    }

    /// Makes the program wrong: it prints values instead of applying operations to them.
    pub fn print_alone(&mut self) {
        for step in &mut self.steps {
            if let ProgramStep::Make(operation, _) = step {
                *operation = Operation::bare(OperationFunction::Print);
            }
        }
    }

    /// Makes the program wrong: it has no guards, and serves conversations that it was not recorded for.
    pub fn drop_guards(&mut self) {
        self.steps.retain(|step| !matches!(step, ProgramStep::Check(..)));
    }
}
