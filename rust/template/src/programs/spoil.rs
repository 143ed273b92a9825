//! Makes programs wrong, so that tests can show that trials detect it.

use super::operation::{Function, Operation};
use super::program::Program;
use super::steps::{Cut, Step};

#[doc(hidden)]
impl Program {
    /// Makes the program wrong: it no longer trims texts.
    pub fn trim_no_more(&mut self) {
        for step in &mut self.steps {
            if let Step::Cut(Cut::Trim { left, right, .. }) = step {
                (*left, *right) = (false, false);
            }
        }
    }

    /// Makes the program wrong: it prints values instead of applying operations to them.
    pub fn print_alone(&mut self) {
        for step in &mut self.steps {
            if let Step::Make(operation, _) = step {
                *operation = Operation::bare(Function::Print);
            }
        }
    }

    /// Makes the program wrong: it has no guards, and serves conversations that it was not recorded for.
    pub fn ask_no_more(&mut self) {
        self.steps.retain(|step| !matches!(step, Step::Ask(..)));
    }
}
