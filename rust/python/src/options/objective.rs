//! Converts a dataclass of Python to a training objective. It holds no defaults.

use std::num::NonZeroU32;

use fastpack_core::config::{
    Classes, FimOptions, MeanLength, MlmOptions, Noise, ObjectiveName, ObjectiveOptions,
    PreferenceForm, Probability, SpanOptions,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::convert::{counts, field, read_share, refuse, switches, word, words};
use crate::error;

/// A training objective with its options, of a `fastpack.options.objective.Objective`.
#[pyclass(name = "ObjectiveOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyObjectiveOptions {
    pub(crate) objective: ObjectiveOptions,
    /// The copies of the documents, each drawn anew.
    pub(crate) copies: NonZeroU32,
    pub(crate) classes: Classes,
    /// The most tokens of the targets of a row.
    pub(crate) max_target_length: Option<NonZeroU32>,
    /// True if the label at each position is the next token.
    pub(crate) shift_labels: bool,
}

#[pymethods]
impl PyObjectiveOptions {
    /// Reads the dataclass, and refuses what a field cannot be.
    #[new]
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut copies = NonZeroU32::MIN;
        let (mut classes, mut max_target_length) = (Classes::Unknown, None);
        let mut shift_labels = false;
        let objective = match field::<PyObjective>(value, "kind")?.0 {
            ObjectiveName::Mlm => {
                copies = field::<PyCopies>(value, "copies")?.0;
                ObjectiveOptions::Mlm(MlmOptions {
                    probability: field::<PyMlmProbability>(value, "probability")?.0,
                    mask_replace: field::<PyMaskReplace>(value, "mask_replace_prob")?.0,
                    random_replace: field::<PyRandomReplace>(value, "random_replace_prob")?.0,
                    whole_words: field::<PyWholeWords>(value, "whole_words")?.0,
                })
            }
            ObjectiveName::Span => {
                copies = field::<PyCopies>(value, "copies")?.0;
                let most: Option<PyMaxTargets> = field(value, "max_target_length")?;
                max_target_length = most.map(|most| most.0);
                ObjectiveOptions::Span(SpanOptions { mixture: mixture(value)? })
            }
            ObjectiveName::Fim => {
                copies = field::<PyCopies>(value, "copies")?.0;
                shift_labels = field::<PyShiftLabels>(value, "shift_labels")?.0;
                let tokens: Option<PyFimTokens> = field(value, "tokens")?;
                ObjectiveOptions::Fim(FimOptions {
                    rate: field::<PyFimRate>(value, "rate")?.0,
                    spm_rate: field::<PyFimSpmRate>(value, "spm_rate")?.0,
                    tokens: tokens.map(|tokens| tokens.0),
                })
            }
            ObjectiveName::Preference => {
                ObjectiveOptions::Preference { form: field::<PyPreferenceForm>(value, "form")?.0 }
            }
            ObjectiveName::Generation => ObjectiveOptions::Generation,
            name @ (ObjectiveName::Classification | ObjectiveName::MultiLabel) => {
                let configured: Option<PyClasses> = field(value, "classes")?;
                classes = configured.map_or(Classes::Unknown, |classes| classes.0);
                classes.validate().map_err(error::to_py)?;
                match name {
                    ObjectiveName::Classification => ObjectiveOptions::Classification,
                    _ => ObjectiveOptions::MultiLabel,
                }
            }
            ObjectiveName::Function => ObjectiveOptions::Function,
            _ => {
                shift_labels = field::<PyShiftLabels>(value, "shift_labels")?.0;
                ObjectiveOptions::Causal
            }
        };
        objective.validate().map_err(error::to_py)?;
        Ok(Self { objective, copies, classes, max_target_length, shift_labels })
    }
}

/// The ways to draw spans: each density with its length, or one of them with all of the others.
fn mixture(value: &Bound<'_, PyAny>) -> PyResult<Vec<Noise>> {
    let densities = field::<PyNoiseDensity>(value, "noise_density")?.0;
    let lengths = field::<PySpanLength>(value, "mean_noise_span_length")?.0;
    let gap: Option<PyGapLength> = field(value, "mean_gap_length")?;
    if let Some(PyGapLength(gap)) = gap {
        return Ok(lengths.iter().map(|&length| Noise::Gaps { gap, length }).collect());
    }
    let most = densities.len().max(lengths.len());
    let fits = |count: usize| count == 1 || count == most;
    if !fits(densities.len()) || !fits(lengths.len()) {
        let reason = "must be one, or as many as there are of `objective.noise_density`";
        return Err(error::option(value.py(), "objective.mean_noise_span_length", reason));
    }
    let pairs = densities.iter().cycle().zip(lengths.iter().cycle()).take(most);
    Ok(pairs.map(|(&density, &length)| Noise::Density { density, length }).collect())
}

words!(
    /// The name of the objective.
    PyObjective(ObjectiveName), "objective"
);
words!(
    /// The rows of the preference objective.
    PyPreferenceForm(PreferenceForm), "objective.form"
);
counts!(
    /// The number of copies of the documents.
    PyCopies(NonZeroU32), "objective.copies", 1 << 16
);
counts!(
    /// The most tokens of a row's targets.
    PyMaxTargets(NonZeroU32), "objective.max_target_length", i32::MAX.cast_unsigned()
);
switches!(
    /// True if all tokens of a word are chosen together.
    PyWholeWords, "objective.whole_words"
);

switches!(
    /// True if labels are shifted: the label at each position is the next token.
    PyShiftLabels, "objective.shift_labels"
);

/// Defines a newtype for an option that is a probability.
macro_rules! probabilities {
    ($(#[$doc:meta])* $name:ident, $option:literal) => {
        $(#[$doc])*
        pub(crate) struct $name(Probability);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let share = read_share(value).and_then(Probability::new);
                share.map(Self).ok_or_else(|| refuse(value, $option, "a probability from 0 to 1"))
            }
        }
    };
}

probabilities!(
    /// The probability of a token to be chosen.
    PyMlmProbability, "objective.probability"
);
probabilities!(
    /// The probability of a chosen token to become the mask token.
    PyMaskReplace, "objective.mask_replace_prob"
);
probabilities!(
    /// The probability of a chosen token to become a random token.
    PyRandomReplace, "objective.random_replace_prob"
);
probabilities!(
    /// The probability of a document to be cut in three.
    PyFimRate, "objective.rate"
);
probabilities!(
    /// The probability of such a document to have its suffix first.
    PyFimSpmRate, "objective.spm_rate"
);

/// The items of a list, or the value itself.
fn several<T>(
    value: Borrowed<'_, '_, PyAny>,
    item: impl Fn(Borrowed<'_, '_, PyAny>) -> Option<T>,
) -> Option<Vec<T>> {
    if let Some(one) = item(value) {
        return Some(vec![one]);
    }
    let items: Vec<Bound<'_, PyAny>> = value.extract().ok()?;
    let all = items.iter().map(|each| item(each.as_borrowed()));
    all.collect::<Option<Vec<T>>>().filter(|all| !all.is_empty())
}

/// The shares of tokens in spans.
pub(crate) struct PyNoiseDensity(Vec<Probability>);

impl<'py> FromPyObject<'_, 'py> for PyNoiseDensity {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let inside = |share: &f64| *share > 0.0 && *share < 1.0;
        let share = |value: Borrowed<'_, '_, PyAny>| {
            read_share(value).filter(inside).and_then(Probability::new)
        };
        several(value, share).map(Self).ok_or_else(|| {
            refuse(
                value,
                "objective.noise_density",
                "a share above 0 and below 1, or a list of such shares",
            )
        })
    }
}

/// The mean lengths of spans.
pub(crate) struct PySpanLength(Vec<MeanLength>);

impl<'py> FromPyObject<'_, 'py> for PySpanLength {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let length = |value: Borrowed<'_, '_, PyAny>| read_share(value).and_then(MeanLength::new);
        several(value, length).map(Self).ok_or_else(|| {
            let wanted = "a number of tokens from 1 to 10000, or a list of such numbers";
            refuse(value, "objective.mean_noise_span_length", wanted)
        })
    }
}

/// The mean length of gaps between spans.
pub(crate) struct PyGapLength(MeanLength);

impl<'py> FromPyObject<'_, 'py> for PyGapLength {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let length = read_share(value).and_then(MeanLength::new);
        length.map(Self).ok_or_else(|| {
            refuse(value, "objective.mean_gap_length", "a number of tokens from 1 to 10000")
        })
    }
}

/// The tokens before prefix, suffix and middle.
pub(crate) struct PyFimTokens([String; 3]);

impl<'py> FromPyObject<'_, 'py> for PyFimTokens {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let tokens = value.extract::<Vec<String>>().ok().and_then(|tokens| tokens.try_into().ok());
        tokens.map(Self).ok_or_else(|| {
            refuse(
                value,
                "objective.tokens",
                "three tokens: those before prefix, suffix and middle",
            )
        })
    }
}

/// The classes of labels: their names, or their number.
struct PyClasses(Classes);

impl<'py> FromPyObject<'_, 'py> for PyClasses {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let count = value.extract::<NonZeroU32>().ok();
        let count =
            count.filter(|it| it.get() <= Classes::MOST && !value.is_instance_of::<PyBool>());
        if let Some(count) = count {
            return Ok(Self(Classes::Count(count)));
        }
        let names = if value.is_instance_of::<PyString>() { None } else { value.extract().ok() };
        names.map(|names| Self(Classes::Names(names))).ok_or_else(|| {
            let wanted = format!(
                "the names of the classes in the order of their numbers, or how many there are, from 1 to {}",
                Classes::MOST
            );
            refuse(value, "objective.classes", &wanted)
        })
    }
}
