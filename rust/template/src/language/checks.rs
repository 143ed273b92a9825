//! Checks the arguments of filters and tests when a template is compiled.

use super::filters::Filter;
use super::predicates::Predicate;
use super::tree::{Arguments, Expression, Literal};

impl Filter {
    /// Names the arguments that are not supported.
    pub(crate) fn check(self, arguments: &Arguments) -> Result<(), String> {
        let (mut positional, mut named) = self.signature();
        let applied = match (self, arguments.positional.first()) {
            (Self::Map, Some(Expression::Literal(Literal::String(name)))) => Self::named(name),
            _ => None,
        };
        if let Some(filter) = applied {
            (positional, named) = filter.signature();
            positional = positional.saturating_add(1);
        }
        if arguments.positional.len() > positional || arguments.list.is_some() {
            return Err("a filter with such arguments".to_owned());
        }
        let is_other = |(name, _): &&(Box<str>, Expression)| !named.contains(&&**name);
        if let Some((name, _)) = arguments.named.iter().find(is_other) {
            return Err(format!("the argument `{name}` of this filter"));
        }
        if arguments.dict.is_some() {
            return Err("a filter with such arguments".to_owned());
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
                Err(format!("the filter or test `{name}`"))
            }
            Some(_) => Err("a computed name of a filter or test".to_owned()),
        }
    }
}

impl Predicate {
    /// Names a wrong number of arguments.
    pub(crate) fn check(self, arguments: &Arguments) -> Result<(), String> {
        let Arguments { positional, named, list, dict } = arguments;
        if positional.len() == self.arity() && named.is_empty() && list.is_none() && dict.is_none()
        {
            Ok(())
        } else {
            Err("a test with such arguments".to_owned())
        }
    }
}
