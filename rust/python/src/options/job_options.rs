//! [`PyOptions`]: all options of a job, and those about its work: threads, caches, losses and bad records.

use std::num::{NonZeroU64, NonZeroUsize};

use chrono::Local;
use fastpack_core::config::{
    MOST_THREADS, MaxLost, OnBadRecord, Options, PackOptions, PadTo, RowOptions, TokenOptions,
    TrainOn, TrainedTokens, WorkOptions,
};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::chat_template::PyRendering;
use super::columns::PyColumns;
use super::images::PyImages;
use super::objective::PyObjectiveOptions;
use super::packing::{PyPackOptions, PyPadding};
use super::source_shares::{PyShares, PySourceShare};
use super::special_tokens::PySpecialTokens;
use super::train_on::{PyTrainOn, PyTurns};
use crate::byte_sizes::read_byte_size;
use crate::calls::pictures::PictureParts;
use crate::convert::{counts, read_share, refuse, word, words};
use crate::error;

/// The options that decide the content of the output, and those for losses, verification and threads.
#[pyclass(name = "Options", module = "fastpack._fastpack", frozen)]
#[derive(Debug)]
pub(crate) struct PyOptions(pub(crate) Options, pub(crate) Option<PictureParts>);

#[pymethods]
impl PyOptions {
    #[new]
    #[pyo3(signature = (*, packing, objective, padding, train_on, turns, special_tokens, chat_template, on_bad_record, max_lost, columns, verify, threads, images, shares))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python functions")]
    fn new(
        packing: &PyPackOptions,
        objective: &PyObjectiveOptions,
        padding: PyPadding,
        train_on: PyTrainOn,
        turns: PyTurns,
        special_tokens: PySpecialTokens,
        chat_template: PyRendering,
        on_bad_record: PyOnBadRecord,
        max_lost: Option<PyMaxLost>,
        columns: Option<PyColumns>,
        verify: PyVerify,
        threads: PyThreads,
        images: Option<PyImages>,
        shares: Option<(PyShares, Vec<PySourceShare>)>,
    ) -> PyResult<Self> {
        let padded = padding.to != PadTo::Nothing;
        let mut columns =
            columns.map_or_else(|| objective.objective.columns(padded), |columns| columns.0);
        if let Some(images) = &images {
            images.options.add_columns(&mut columns);
        }
        let pictures = images.as_ref().and_then(|images| images.remote.clone());
        let (most_images, most_image_tokens) = images
            .as_ref()
            .map_or((None, None), |images| (images.most_images, images.most_image_tokens));
        let options = Options {
            tokens: TokenOptions {
                train_on: if objective.objective.takes_all() {
                    TrainedTokens::Named(TrainOn::All)
                } else {
                    train_on.0
                },
                turns: turns.0,
                train_on_eos: special_tokens.train_on_eos,
                eos: special_tokens.eos,
                bos: special_tokens.bos,
                special_in_text: special_tokens.in_text,
                decode_arguments: chat_template.decode_arguments,
                on_bad_record: on_bad_record.0,
                now: chat_template.now,
                documents: objective.objective.documents(),
                classes: objective.classes.clone(),
                images: images.map(|images| images.options),
            },
            rows: RowOptions {
                packing: PackOptions {
                    max_target_length: objective.max_target_length,
                    max_images_per_pack: most_images,
                    max_image_tokens_per_pack: most_image_tokens,
                    ..packing.0.clone()
                },
                pad_to: padding.to,
                padding_side: padding.side,
                pad_token_id: padding.token_id,
                shift_labels: objective.shift_labels,
                columns,
                objective: objective.objective.clone(),
                copies: objective.copies,
                shares: shares.map(|(shares, sources)| shares.of(sources)),
            },
            work: WorkOptions {
                max_lost: max_lost.map(|most| most.0),
                verify: verify.0,
                threads: threads.0,
                started: Local::now().naive_local(),
            },
        };
        options.validate().map_err(error::to_py)?;
        Ok(Self(options, pictures))
    }
}

words!(
    /// The handling of records that cannot be read.
    PyOnBadRecord(OnBadRecord), "on_bad_record"
);

counts!(
    /// The number of worker threads.
    PyThreads(NonZeroUsize), "threads", MOST_THREADS
);

counts!(
    /// The approximate number of records that a scan samples.
    PySample(NonZeroU64), "sample", u64::MAX
);

counts!(
    /// The number of rows in a batch.
    PyBatchSize(NonZeroUsize), "batch_size", usize::MAX
);

/// The largest share of documents or tokens that may be lost: a number, or a text such as `0.1%`.
pub(crate) struct PyMaxLost(MaxLost);

impl<'py> FromPyObject<'_, 'py> for PyMaxLost {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        read_share(value)
            .and_then(MaxLost::new)
            .map(Self)
            .ok_or_else(|| refuse(value, "max_lost", "a share such as \"0.1%\" or 0.001"))
    }
}

/// The number of documents that the reference engine encodes again, as a check.
pub(crate) struct PyVerify(pub(crate) u32);

impl<'py> FromPyObject<'_, 'py> for PyVerify {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
        number
            .map(Self)
            .ok_or_else(|| refuse(value, "verify", "a whole number of documents, 0 for none"))
    }
}

/// The largest caches, in bytes: more than all distinct words of an input need.
const LARGEST_CACHE: u64 = 1 << 30;

/// The size of the word caches in bytes, as [`read_byte_size`] reads it.
pub(crate) struct PyCacheSize(pub(crate) usize);

impl<'py> FromPyObject<'_, 'py> for PyCacheSize {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let bytes = read_byte_size(value).filter(|bytes| *bytes <= LARGEST_CACHE);
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).map(Self).ok_or_else(|| {
            let wanted = "a number of bytes or a text such as \"64MB\", up to \"1GiB\"";
            refuse(value, "cache_size", wanted)
        })
    }
}
