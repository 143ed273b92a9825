//! Converts Python arguments to a training objective. It holds no defaults.

use fastpack_core::config::{
    FimOptions, MeanLength, MlmOptions, Noise, ObjectiveName, ObjectiveOptions, PreferenceForm,
    Probability, SpanOptions,
};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::convert::{refuse, share_given, switches, word, words};
use crate::error;

/// The training objective with its options.
#[pyclass(name = "ObjectiveOptions", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyObjectiveOptions(pub(crate) ObjectiveOptions);

#[pymethods]
impl PyObjectiveOptions {
    #[new]
    #[pyo3(signature = (*, objective, mlm_probability, mask_replace_prob, random_replace_prob, whole_word_mask, noise_density, mean_noise_span_length, mean_gap_length, fim_rate, fim_spm_rate, fim_tokens, preference_form))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    fn new(
        py: Python<'_>,
        objective: PyObjective,
        mlm_probability: PyMlmProbability,
        mask_replace_prob: PyMaskReplace,
        random_replace_prob: PyRandomReplace,
        whole_word_mask: PyWholeWords,
        noise_density: PyNoiseDensity,
        mean_noise_span_length: PySpanLength,
        mean_gap_length: Option<PyGapLength>,
        fim_rate: PyFimRate,
        fim_spm_rate: PyFimSpmRate,
        fim_tokens: Option<PyFimTokens>,
        preference_form: PyPreferenceForm,
    ) -> PyResult<Self> {
        Ok(Self(match objective.0 {
            ObjectiveName::Mlm => ObjectiveOptions::Mlm(MlmOptions {
                probability: mlm_probability.0,
                mask_replace: mask_replace_prob.0,
                random_replace: random_replace_prob.0,
                whole_words: whole_word_mask.0,
            }),
            ObjectiveName::Span => {
                let mixture = mixture(&noise_density.0, &mean_noise_span_length.0, mean_gap_length);
                let reason = "must be one, or as many as there are of `noise_density`";
                let mixture =
                    mixture.ok_or_else(|| error::option(py, "mean_noise_span_length", reason))?;
                ObjectiveOptions::Span(SpanOptions { mixture })
            }
            ObjectiveName::Fim => ObjectiveOptions::Fim(FimOptions {
                rate: fim_rate.0,
                spm_rate: fim_spm_rate.0,
                tokens: fim_tokens.map(|tokens| tokens.0),
            }),
            ObjectiveName::Preference => ObjectiveOptions::Preference { form: preference_form.0 },
            ObjectiveName::Generation => ObjectiveOptions::Generation,
            ObjectiveName::Classification => ObjectiveOptions::Classification,
            ObjectiveName::MultiLabel => ObjectiveOptions::MultiLabel,
            ObjectiveName::Function => ObjectiveOptions::Function,
            _ => ObjectiveOptions::Causal,
        }))
    }
}

/// The ways to draw spans: each density with its length, or one of them with all of the others; `None` if their
/// numbers differ.
fn mixture(
    densities: &[Probability],
    lengths: &[MeanLength],
    gap: Option<PyGapLength>,
) -> Option<Vec<Noise>> {
    if let Some(PyGapLength(gap)) = gap {
        return Some(lengths.iter().map(|&length| Noise::Gaps { gap, length }).collect());
    }
    let most = densities.len().max(lengths.len());
    let fits = |count: usize| count == 1 || count == most;
    if !fits(densities.len()) || !fits(lengths.len()) {
        return None;
    }
    let pairs = densities.iter().cycle().zip(lengths.iter().cycle()).take(most);
    Some(pairs.map(|(&density, &length)| Noise::Density { density, length }).collect())
}

words!(
    /// The name of the objective.
    PyObjective(ObjectiveName), "objective"
);
words!(
    /// The rows of the preference objective.
    PyPreferenceForm(PreferenceForm), "preference_form"
);
switches!(
    /// Whether all tokens of a word are chosen together.
    PyWholeWords, "whole_word_mask"
);

/// Defines a newtype for an option that is a probability.
macro_rules! probabilities {
    ($(#[$doc:meta])* $name:ident, $option:literal) => {
        $(#[$doc])*
        pub(crate) struct $name(Probability);

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let share = share_given(value).and_then(Probability::new);
                share.map(Self).ok_or_else(|| refuse(value, $option, "a probability from 0 to 1"))
            }
        }
    };
}

probabilities!(
    /// The probability of a token to be chosen.
    PyMlmProbability, "mlm_probability"
);
probabilities!(
    /// The probability of a chosen token to become the mask token.
    PyMaskReplace, "mask_replace_prob"
);
probabilities!(
    /// The probability of a chosen token to become a random token.
    PyRandomReplace, "random_replace_prob"
);
probabilities!(
    /// The probability of a document to be cut in three.
    PyFimRate, "fim_rate"
);
probabilities!(
    /// The probability of such a document to have its suffix first.
    PyFimSpmRate, "fim_spm_rate"
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
            share_given(value).filter(inside).and_then(Probability::new)
        };
        several(value, share).map(Self).ok_or_else(|| {
            refuse(value, "noise_density", "a share above 0 and below 1, or a list of such shares")
        })
    }
}

/// The mean lengths of spans.
pub(crate) struct PySpanLength(Vec<MeanLength>);

impl<'py> FromPyObject<'_, 'py> for PySpanLength {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let length = |value: Borrowed<'_, '_, PyAny>| share_given(value).and_then(MeanLength::new);
        several(value, length).map(Self).ok_or_else(|| {
            let wanted = "a number of tokens from 1 to 10000, or a list of such numbers";
            refuse(value, "mean_noise_span_length", wanted)
        })
    }
}

/// The mean length of gaps between spans.
pub(crate) struct PyGapLength(MeanLength);

impl<'py> FromPyObject<'_, 'py> for PyGapLength {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let length = share_given(value).and_then(MeanLength::new);
        length
            .map(Self)
            .ok_or_else(|| refuse(value, "mean_gap_length", "a number of tokens from 1 to 10000"))
    }
}

/// The tokens before prefix, suffix and middle.
pub(crate) struct PyFimTokens([String; 3]);

impl<'py> FromPyObject<'_, 'py> for PyFimTokens {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let tokens = value.extract::<Vec<String>>().ok().and_then(|tokens| tokens.try_into().ok());
        tokens.map(Self).ok_or_else(|| {
            refuse(value, "fim_tokens", "three tokens: those before prefix, suffix and middle")
        })
    }
}
