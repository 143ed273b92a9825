//! [`MayDiffer`]: marks the options of a stream that decide no rows, each with the reason.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::ops::Deref;

use serde::{Serialize, Serializer};

/// An option that may differ between a run and one that goes on from its state, for the reason `W`. An identity leaves it
/// out; it holds every other option of a run.
pub struct MayDiffer<T, W>(T, PhantomData<W>);

/// Rows are made in one order, and these options share them out to tables and ranks.
#[derive(Debug)]
pub enum SharesRows {}

/// The run ends earlier or later, with the same rows up to there.
#[derive(Debug)]
pub enum EndsRun {}

/// It says how numbers come about that are the same by every way.
#[derive(Debug)]
pub enum FindsCounts {}

/// A state holds it itself, and another value is refused with the value that fits.
#[derive(Debug)]
pub enum InState {}

/// It says how a state is read.
#[derive(Debug)]
pub enum ReadsState {}

impl<T, W> From<T> for MayDiffer<T, W> {
    fn from(value: T) -> Self {
        Self(value, PhantomData)
    }
}

impl<T, W> Deref for MayDiffer<T, W> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone, W> Clone for MayDiffer<T, W> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T: Debug, W> Debug for MayDiffer<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, W> Serialize for MayDiffer<T, W> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}
