//! Makes programs wrong, so that tests can show that trials find out.

use super::operation::{Function, Operation};
use super::program::Program;
use super::steps::{Cut, Step};

#[doc(hidden)]
impl Program {
    /// A program that is wrong: it leaves the ends of texts as they are.
    pub fn trim_no_more(&mut self) {
        for step in &mut self.steps {
            if let Step::Cut(Cut::Trim { left, right, .. }) = step {
                (*left, *right) = (false, false);
            }
        }
    }

    /// A program that is wrong: it prints values as they are.
    pub fn print_alone(&mut self) {
        for step in &mut self.steps {
            if let Step::Make(operation, _) = step {
                *operation = Operation::bare(Function::Print);
            }
        }
    }

    /// A program that is wrong: it serves conversations that it was not made for.
    pub fn ask_no_more(&mut self) {
        self.steps.retain(|step| !matches!(step, Step::Ask(..)));
    }
}
