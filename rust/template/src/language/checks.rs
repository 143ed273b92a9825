//! Checks the arguments of filters and tests when a template is compiled.

use super::filters::Filter;
use super::predicates::Predicate;
use super::tree::{Arguments, Expression, Literal};

impl Filter {
    /// Refuses arguments that are not supported.
    pub(crate) fn check(self, arguments: &Arguments) -> Result<(), String> {
        let (positional, named) = self.signature();
        if arguments.positional.len() > positional {
            return Err(format!("so many arguments of the filter `{self:?}` are not supported"));
        }
        if let Some((name, _)) = arguments.named.iter().find(|(name, _)| !named.contains(&&**name))
        {
            return Err(format!("the argument `{name}` of this filter is not supported"));
        }
        let (place, is_known): (usize, fn(&str) -> bool) = match self {
            Self::Map => (0, |name| Self::named(name).is_some_and(|filter| filter != Self::Map)),
            Self::Select | Self::Reject => (0, |name| Predicate::named(name).is_some()),
            Self::SelectAttribute | Self::RejectAttribute => {
                (1, |name| Predicate::named(name).is_some())
            }
            _ => return Ok(()),
        };
        match arguments.positional.get(place) {
            None => Ok(()),
            Some(Expression::Literal(Literal::String(name))) if is_known(name) => Ok(()),
            Some(Expression::Literal(Literal::String(name))) => {
                Err(format!("`{name}` is not supported here"))
            }
            Some(_) => Err("a computed name of a filter or test is not supported".to_owned()),
        }
    }
}

impl Predicate {
    /// Refuses a wrong number of arguments.
    pub(crate) fn check(self, arguments: &Arguments) -> Result<(), String> {
        if arguments.positional.len() == self.arity() && arguments.named.is_empty() {
            Ok(())
        } else {
            Err(format!("this test takes {} arguments", self.arity()))
        }
    }
}
