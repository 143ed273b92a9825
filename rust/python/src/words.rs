//! `option_words`: the words that options take, as the core defines them.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::inputs::{PyPart, PyShape};
use crate::objective::{PyObjective, PyPreferenceForm};
use crate::options::{
    PyColumn, PyOnBadRecord, PySpecialInText, PyTrainOnEos, PyTrainOnWord, PyTurns,
};
use crate::output::{PyCompression, PyFormat, PyRowLayout};
use crate::pack_options::{
    PyOnRemainder, PyOrder, PyOverlong, PySide, PyStrategy, PyTruncationSide,
};
use crate::stream::{PyOnEnd, PyOnExhausted, PyWeightUnit};

/// Returns a dict from the name of each option that takes words to those words.
#[pyfunction]
pub(crate) fn option_words(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = [
        PyColumn::words(),
        PyCompression::words(),
        PyFormat::words(),
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
    ];
    let words = PyDict::new(py);
    for (option, known) in all {
        words.set_item(option, known)?;
    }
    Ok(words)
}
