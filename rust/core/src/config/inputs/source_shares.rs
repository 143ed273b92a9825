//! [`Shares`]: the shares of the sources of a job that ends.

use serde::{Deserialize, Serialize};

use crate::config::option_words::option_words;
use crate::error::{Error, Result};

option_words! {
    /// The unit of the weights of sources.
    pub enum ShareUnit {
        /// Tokens.
        Tokens = "tokens",
        /// Documents.
        Documents = "documents",
    }
}

option_words! {
    /// The source with which a mixture of sources ends.
    pub enum StoppingStrategy {
        /// The first that has no document left: no document is taken twice.
        FirstExhausted = "first_exhausted",
        /// The last: the others are read again meanwhile.
        AllExhausted = "all_exhausted",
    }
}

/// The shares of the sources of a job that ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The share of each source, in their order.
    pub sources: Vec<SourceShare>,
    /// The unit of shares.
    pub unit: ShareUnit,
    /// The source with which the mixture ends.
    #[serde(rename = "stopping_strategy")]
    pub stopping: StoppingStrategy,
}

/// The share of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceShare {
    /// The name in the report.
    pub name: String,
    /// The weight beside those of the other sources; `None` where all that is drawn of it is taken.
    pub weight: Option<f64>,
    /// The part of the source that is drawn, from 0 to 1.
    pub fraction: f64,
}

// No number is a NaN: `validate` refuses them.
impl Eq for Shares {}

impl Shares {
    pub(crate) fn validate(&self) -> Result<()> {
        for SourceShare { name, weight, fraction } in &self.sources {
            if !(*fraction > 0.0 && *fraction <= 1.0) {
                let reason = format!("of `{name}` must be above 0 and at most 1, not {fraction}");
                return Err(Error::option("fraction", reason));
            }
            if let Some(weight) = weight.filter(|weight| !(weight.is_finite() && *weight >= 0.0)) {
                let reason = format!("of `{name}` must be at least 0 and finite, not {weight}");
                return Err(Error::option("weights", reason));
            }
        }
        let weights = || self.sources.iter().filter_map(|source| source.weight);
        if weights().next().is_some() && weights().sum::<f64>() <= 0.0 {
            return Err(Error::option("weights", "must name a source with a weight above 0"));
        }
        Ok(())
    }

    /// True if sources are read again.
    pub(crate) fn repeats(&self) -> bool {
        self.stopping == StoppingStrategy::AllExhausted
            && self.sources.iter().any(|source| source.weight.is_some())
    }

    /// The option that asks for shares, for messages.
    pub(crate) fn option(&self) -> &'static str {
        let has_weights = self.sources.iter().any(|source| source.weight.is_some());
        if has_weights { "weights" } else { "fraction" }
    }
}
