//! [`LeaseGuard`]: the lock of an object of a bucket, which is given back when this is dropped.

use std::sync::Arc;

use crate::error::Result;
use crate::sink::store::coordination_files::{HeldLock, explained};
use crate::storage::{BucketFolder, Lease};
use crate::util::control::Control;

/// A lock in a bucket, until this is dropped.
#[derive(Debug)]
pub(crate) struct LeaseGuard {
    target: Arc<BucketFolder>,
    /// There until it is given back.
    lease: Option<Lease>,
}

impl LeaseGuard {
    pub(crate) fn of(target: &Arc<BucketFolder>, lease: Lease) -> Self {
        Self { target: Arc::clone(target), lease: Some(lease) }
    }

    /// Fails if the store does not keep two writers apart.
    pub(crate) fn refuse_unconditional(&self, control: &Control) -> Result<()> {
        self.explained(self.target.refuse_unconditional(self.lease()), control)
    }

    /// The result of work in the bucket, as [`explained`] has it.
    pub(crate) fn explained<T>(&self, result: Result<T>, control: &Control) -> Result<T> {
        explained(self, result, control)
    }

    fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("it is held until this is dropped")
    }
}

impl HeldLock for LeaseGuard {
    fn check(&self, control: &Control) -> Result<()> {
        self.target.check(self.lease(), control)
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.target.unlock(lease);
        }
    }
}
