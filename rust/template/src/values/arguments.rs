//! The arguments of a call, and their binding to parameters by Python's rules.

use crate::failure::{Failure, RenderResult};
use crate::values::value::Value;

/// Evaluated arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallArguments<'r> {
    /// By position.
    pub(crate) positional: Vec<Value<'r>>,
    /// By name.
    pub(crate) named: Vec<(&'r str, Value<'r>)>,
}

impl<'r> CallArguments<'r> {
    /// A copy with lists in place of generators.
    pub(crate) fn unspent(&self) -> Self {
        let named = self.named.iter().map(|(name, value)| (*name, value.unspent()));
        Self {
            positional: self.positional.iter().map(Value::unspent).collect(),
            named: named.collect(),
        }
    }

    /// The values of the parameters `names`, in this order; an argument that fits none of them is an error, as in Python.
    pub(crate) fn bind<const N: usize>(
        self,
        names: [&str; N],
    ) -> RenderResult<[Option<Value<'r>>; N]> {
        if self.positional.len() > N {
            return Err(Failure::error(format!(
                "at most {N} arguments are taken, not {}",
                self.positional.len()
            )));
        }
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            match names.iter().position(|known| *known == name) {
                Some(at) if bound[at].is_none() => bound[at] = Some(value),
                Some(_) => {
                    return Err(Failure::error(format!("the argument `{name}` is given twice")));
                }
                None => return Err(Failure::error(format!("there is no argument `{name}`"))),
            }
        }
        Ok(bound)
    }

    /// The values of parameters that are taken by position alone.
    pub(crate) fn positional<const N: usize>(self) -> RenderResult<[Option<Value<'r>>; N]> {
        if let Some((name, _)) = self.named.first() {
            return Err(Failure::error(format!("there is no argument `{name}`")));
        }
        self.bind([""; N])
    }
}
