//! `option_words`, `required_fields` and `strategy_rules`: the words that options take, the fields of shapes, and the rules about
//! strategies, as the core defines them.

use fastpack_core::config::{ContentForm, ShapeName, Strategy};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::options::columns::PyColumn;
use crate::options::inputs::{PyPart, PyShape};
use crate::options::job_options::PyOnBadRecord;
use crate::options::objective::{PyObjective, PyPreferenceForm};
use crate::options::output::{PyCompression, PyFormatName, PyRowLayout};
use crate::options::packing::{
    PyOnRemainder, PyOrder, PyOverlong, PySide, PyStrategy, PyTruncationSide,
};
use crate::options::source_shares::PyStoppingStrategy;
use crate::options::special_tokens::{PySpecialInText, PyTrainOnEos};
use crate::options::stream::{PyOnEnd, PyOnExhausted, PyWeightUnit};
use crate::options::train_on::{PyTrainOnWord, PyTurns};

/// Returns a dict from the name of each option that takes words to those words.
#[pyfunction]
pub(crate) fn option_words(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = [
        PyColumn::words(),
        PyCompression::words(),
        PyFormatName::words(),
        PyObjective::words(),
        PyOnBadRecord::words(),
        PyOnEnd::words(),
        PyOnExhausted::words(),
        PyOnRemainder::words(),
        PyOrder::words(),
        PyOverlong::words(),
        PyPart::words(),
        PyPreferenceForm::words(),
        PyRowLayout::words(),
        PyShape::words(),
        PySide::words(),
        PySpecialInText::words(),
        PyStrategy::words(),
        PyTrainOnWord::words(),
        PyTrainOnEos::words(),
        PyTruncationSide::words(),
        PyTurns::words(),
        PyWeightUnit::words(),
        PyStoppingStrategy::words(),
    ];
    let words = PyDict::new(py);
    for (option, known) in all {
        words.set_item(option, known)?;
    }
    Ok(words)
}

/// Returns a dict from each shape of records to the usual names of each field that it needs; the first names the part.
#[pyfunction]
pub(crate) fn required_fields(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let shapes = PyDict::new(py);
    for (word, shape) in ShapeName::WORDS {
        let entry = shape.entry();
        // Ids have names that nobody gives to other fields.
        let parts = entry.required.iter().filter(|_| entry.form != ContentForm::Ids);
        let parts = parts.map(|it| it.fields.to_vec());
        shapes.set_item(word, parts.collect::<Vec<_>>())?;
    }
    Ok(shapes)
}

/// Returns a dict from each rule about packing strategies to the strategies for which it holds.
#[pyfunction]
pub(crate) fn strategy_rules(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let holding = |holds: fn(Strategy) -> bool| {
        let strategies = Strategy::WORDS.iter().filter(|(_, strategy)| holds(*strategy));
        strategies.map(|(word, _)| *word).collect::<Vec<_>>()
    };
    let rules = PyDict::new(py);
    rules.set_item("cuts_at_row_end", holding(Strategy::cuts_at_row_end))?;
    rules.set_item("one_document_a_row", holding(Strategy::one_document_a_row))?;
    Ok(rules)
}
