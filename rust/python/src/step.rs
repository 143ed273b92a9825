//! `fastpack.plan_step`: micro-batches of a training step.

use std::num::NonZeroU32;
use std::sync::Arc;

use fastpack_core::step::{Cost, MicroBatchOrder, MiniBatches, Sequences, StepOptions};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays;
use crate::supervise::{self, Interrupted};

/// What a step is planned by: the most tokens of a micro-batch, the ranks, the multiple of micro-batches, the multiple of tokens of a
/// sequence, the most sequences of a micro-batch, the cost of a token and of a pair of tokens, and whether the costliest
/// micro-batches come first.
type Given = (NonZeroU32, NonZeroU32, NonZeroU32, NonZeroU32, Option<NonZeroU32>, (f64, f64), bool);

/// How sequences are divided among optimizer steps: the number, the seed where at random, and whether by whole groups.
type Divided = (u32, Option<u64>, bool);

/// The offsets of micro-batches in their sequences, the sequences, the cost of each micro-batch, the optimizer step and the kind of
/// each place; and the time of the step, that if all ranks had as much to do, and the least.
type Planned<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    (f64, f64, f64),
);

/// Plans a step of sequences of these lengths, with the group and the kind of each if there are any.
#[pyfunction]
pub(crate) fn plan_step<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArray1<'py, u32>,
    groups: Option<PyReadonlyArray1<'py, u32>>,
    kinds: Option<(PyReadonlyArray1<'py, u32>, u32)>,
    given: Given,
    divided: Divided,
    agree: Option<Py<PyAny>>,
) -> PyResult<Planned<'py>> {
    arrays::ready(py)?;
    let (max_length, ranks, multiple_of, document_multiple_of, max_documents, cost, pyramid) =
        given;
    let options = StepOptions {
        max_length,
        ranks,
        multiple_of,
        document_multiple_of,
        max_documents,
        cost: Cost { linear: cost.0, quadratic: cost.1 },
        order: if pyramid { MicroBatchOrder::Pyramid } else { MicroBatchOrder::Heaviest },
    };
    let mini_batches = match divided {
        (count, Some(seed), _) => MiniBatches::AtRandom(count, seed),
        (count, None, true) => MiniBatches::WholeGroups(count),
        (count, None, false) => MiniBatches::InOrder(count),
    };
    let labels =
        |of: Option<PyReadonlyArray1<'py, u32>>| of.map(|it| it.as_slice().map(<[u32]>::to_vec));
    let groups = labels(groups).transpose()?;
    let kinds = match kinds {
        None => None,
        Some((of_each, count)) => Some((of_each.as_slice()?.to_vec(), count)),
    };
    let lengths = lengths.as_slice()?.to_vec();
    let agree = agree.map(Arc::new);
    let planned = supervise::run(py, None, Interrupted::Abandon, move |control, caller| {
        let sequences = Sequences {
            lengths: &lengths,
            groups: groups.as_deref(),
            kinds: kinds.as_ref().map(|(of_each, count)| (of_each.as_slice(), *count)),
        };
        let greatest = |number: u32| match &agree {
            None => Ok(number),
            Some(agree) => {
                let agree = Arc::clone(agree);
                caller.call(move |py| agree.call1(py, (number,))?.extract(py))
            }
        };
        fastpack_core::step::plan_step(sequences, mini_batches, &options, greatest, control)
    })?;
    let mut offsets = Vec::with_capacity(planned.micro_batches.len() + 1);
    offsets.push(0);
    let mut members = Vec::new();
    for micro_batch in &planned.micro_batches {
        members.extend(micro_batch.iter().map(|&it| i64::from(it)));
        offsets.push(i64::try_from(members.len()).unwrap_or(i64::MAX));
    }
    let numbers = |values: Vec<u32>| -> Vec<i64> { values.into_iter().map(i64::from).collect() };
    Ok((
        offsets.into_pyarray(py),
        members.into_pyarray(py),
        planned.costs.into_pyarray(py),
        numbers(planned.mini_batches).into_pyarray(py),
        numbers(planned.kinds).into_pyarray(py),
        (planned.time, planned.even_time, planned.least_time),
    ))
}
