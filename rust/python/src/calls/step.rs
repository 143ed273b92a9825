//! `fastpack.plan_step`: micro-batches of a training step.

use std::num::NonZeroU32;
use std::sync::Arc;

use fastpack_core::pack::step::{
    AgreeOnPlaces, Cost, Labels, MicroBatchOrder, MiniBatches, StepOptions,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays;
use crate::interruptible::{self, Interrupted};
use crate::options::packing::PyPackOptions;

/// The trained tokens of each sequence; the offsets of micro-batches in their sequences, and these; the cost of each micro-batch; the
/// optimizer step and the kind of each place; and the time of the step, the even time and the least.
type StepPlanArrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    (f64, f64, f64),
);

/// Plans a step of sequences of these lengths. `kinds` are the kind of each sequence and the number of kinds. `seed` divides
/// sequences among optimizer steps at random.
#[pyfunction]
#[pyo3(signature = (lengths, packing, *, groups, kinds, ranks, multiple_of, cost, pyramid, mini_batches, seed, by_groups, agree))]
#[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn plan_step<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArray1<'py, i64>,
    packing: &PyPackOptions,
    groups: Option<PyReadonlyArray1<'py, u32>>,
    kinds: Option<(PyReadonlyArray1<'py, u32>, u32)>,
    ranks: NonZeroU32,
    multiple_of: NonZeroU32,
    cost: (f64, f64),
    pyramid: bool,
    mini_batches: u32,
    seed: Option<u64>,
    by_groups: bool,
    agree: Option<Py<PyAny>>,
) -> PyResult<StepPlanArrays<'py>> {
    arrays::ready(py)?;
    let options = StepOptions {
        packing: packing.0.clone(),
        ranks,
        multiple_of,
        cost: Cost { linear: cost.0, quadratic: cost.1 },
        order: if pyramid { MicroBatchOrder::Pyramid } else { MicroBatchOrder::Heaviest },
    };
    let mini_batches = match seed {
        Some(seed) => MiniBatches::AtRandom(mini_batches, seed),
        None if by_groups => MiniBatches::WholeGroups(mini_batches),
        None => MiniBatches::InOrder(mini_batches),
    };
    let lengths = lengths.as_slice()?.to_vec();
    let groups = groups.map(|it| it.as_slice().map(<[u32]>::to_vec)).transpose()?;
    let kinds = match kinds {
        None => None,
        Some((of_each, count)) => Some((of_each.as_slice()?.to_vec(), count)),
    };
    let agree = agree.map(Arc::new);
    let planned = interruptible::run(py, None, Interrupted::Abandon, move |control, caller| {
        let kinds = kinds.as_ref().map(|(of_each, count)| (of_each.as_slice(), *count));
        let labels = Labels { groups: groups.as_deref(), kinds };
        let mut greatest = agree.map(|agree| {
            move |number: u32| {
                let agree = Arc::clone(&agree);
                caller.call(move |py| agree.call1(py, (number,))?.extract(py))
            }
        });
        fastpack_core::pack::step::plan_step(
            &lengths,
            labels,
            mini_batches,
            &options,
            greatest.as_mut().map(|it| it as &mut AgreeOnPlaces<'_>),
            control,
        )
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
        numbers(planned.lengths).into_pyarray(py),
        offsets.into_pyarray(py),
        members.into_pyarray(py),
        planned.costs.into_pyarray(py),
        numbers(planned.mini_batches).into_pyarray(py),
        numbers(planned.kinds).into_pyarray(py),
        (planned.time, planned.even_time, planned.least_time),
    ))
}
