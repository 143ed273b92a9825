//! [`Lease`]: the lock of an object of a bucket, which is renewed as long as its process works.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::{DateTime, TimeDelta};
use object_store::{GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::bucket_folder::BucketFolder;
use crate::error::{Error, Result};
use crate::storage::buckets;
use crate::storage::http::retrying_client::RetryingClient;
use crate::storage::request_threads::Pending;
use crate::util::control::Control;
use crate::util::disk::removal::Medium;
use crate::util::unique_hex::unique_hex;
use crate::util::wording::{message, set};

/// The time after which a lock that was not renewed is of a process that has ended.
const LEASE: Duration = Duration::from_secs(LEASE_SECONDS.unsigned_abs());

/// [`LEASE`] in seconds.
const LEASE_SECONDS: i64 = 30;

/// The time between two renewals of a lock.
const RENEWAL: Duration = Duration::from_secs(8);

/// The time between two looks at the lock of another process.
const LOOK: Duration = Duration::from_millis(500);

/// The interval at which a process that was stopped for long asks whether its lock was renewed since.
const POLL: Duration = Duration::from_millis(50);

/// The time that giving a lock back may take after a cancel.
const ENDING: Duration = Duration::from_secs(2);

/// The locks of other processes, as they were last seen: which version, and since when.
#[derive(Debug, Default)]
pub(crate) struct SeenLocks(Mutex<HashMap<String, (Option<String>, Instant)>>);

/// The lock of another process, as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeenLock {
    /// It is seen for the first time, or has not changed for a while.
    Unknown,
    /// It has changed since it was last seen: its process lasts.
    Renewed,
    /// It has not changed for [`LEASE`]: its process has ended.
    Stale,
}

impl SeenLocks {
    /// Notes the version of a lock at the time `now`.
    fn note(&self, name: &str, etag: Option<&str>, now: Instant) -> SeenLock {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(name) {
            Some((before, since)) if before.as_deref() == etag => {
                if now.duration_since(*since) > LEASE { SeenLock::Stale } else { SeenLock::Unknown }
            }
            before => {
                let known = if before.is_some() { SeenLock::Renewed } else { SeenLock::Unknown };
                seen.insert(name.to_owned(), (etag.map(str::to_owned), now));
                known
            }
        }
    }
}

/// The outcome of one try to take a lock.
enum LockAttempt {
    Taken(Lease),
    /// Another process holds it.
    Held(SeenLock),
}

impl BucketFolder {
    /// Takes the lock `name`, and waits for it.
    ///
    /// A lock that is not renewed for [`LEASE`] is of a process that has ended, and so is one with the same `owner`, which
    /// holds a lock of the local disk. With `wait` false a lock that is being renewed is refused.
    pub(crate) fn lock(
        &self,
        name: &str,
        owner: &str,
        wait: bool,
        control: &Control,
    ) -> Result<Lease> {
        let seen = SeenLocks::default();
        loop {
            control.tick()?;
            match self.try_lock(name, owner, &seen)? {
                LockAttempt::Taken(lease) => return Ok(lease),
                LockAttempt::Held(SeenLock::Renewed) if !wait => {
                    let reason = message![
                        "another process packs into it; ",
                        set("exists.wait", true),
                        " waits for it"
                    ];
                    return Err(Error::Busy { path: self.name(), reason });
                }
                LockAttempt::Held(_) => thread::sleep(LOOK),
            }
        }
    }

    /// Takes the lock `name`, unless another process holds it.
    pub(crate) fn lease(&self, name: &str, owner: &str, seen: &SeenLocks) -> Result<Option<Lease>> {
        match self.try_lock(name, owner, seen)? {
            LockAttempt::Taken(lease) => Ok(Some(lease)),
            LockAttempt::Held(_) => Ok(None),
        }
    }

    fn try_lock(&self, name: &str, owner: &str, seen: &SeenLocks) -> Result<LockAttempt> {
        let began = Instant::now();
        if let Some(version) = self.write_lock(name, owner, PutMode::Create)? {
            return Ok(LockAttempt::Taken(self.renewed(name, owner, version, began)));
        }
        let Some((held_by, version)) = self.read_lock(name)? else {
            // It was given back meanwhile.
            return Ok(LockAttempt::Held(SeenLock::Unknown));
        };
        let known = seen.note(name, version.e_tag.as_deref(), Instant::now());
        if held_by != owner && known != SeenLock::Stale {
            return Ok(LockAttempt::Held(known));
        }
        let began = Instant::now();
        let taken = self.write_lock(name, owner, PutMode::Update(version))?;
        Ok(match taken {
            Some(version) => LockAttempt::Taken(self.renewed(name, owner, version, began)),
            None => LockAttempt::Held(SeenLock::Unknown),
        })
    }

    /// True if the process that wrote a lock at a time is alive, as far as the clock of the store tells.
    pub(crate) fn is_held(&self, written: u64) -> bool {
        let written = DateTime::from_timestamp_nanos(i64::try_from(written).unwrap_or(0));
        self.client.now().signed_duration_since(written) < TimeDelta::seconds(LEASE_SECONDS)
    }

    /// Fails if the store writes over the lock that this process holds, although it was told not to: then it keeps no two
    /// processes apart.
    pub(crate) fn refuse_unconditional(&self, lease: &Lease) -> Result<()> {
        if self.write_lock(&lease.name, "", PutMode::Create)?.is_none() {
            return Ok(());
        }
        self.unlink(std::slice::from_ref(&lease.name))?;
        let reason = "its store does not refuse to write over an object (conditional put), so that two runs \
                      could write here at a time; write to a folder, and copy it";
        Err(Error::output(self.name(), reason))
    }

    /// Writes a lock; `None` if the mode does not allow it.
    fn write_lock(&self, name: &str, owner: &str, mode: PutMode) -> Result<Option<UpdateVersion>> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        let (client, text) = (self.client.clone(), lock_text(owner));
        let written =
            self.tasks.run(async move { write_lock(&*store, &path, &text, mode, &client).await });
        written.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::output(
                self.name(),
                "lies in a bucket that is not there; make the bucket first",
            ),
            _ => Error::io(self.name_of(name))(error),
        })
    }

    /// The owner of a lock, and its version; `None` if there is no lock.
    fn read_lock(&self, name: &str) -> Result<Option<(String, UpdateVersion)>> {
        let owner = |bytes: Bytes| {
            String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()
        };
        Ok(self.read_update(name)?.map(|(bytes, version)| (owner(bytes), version)))
    }

    /// A lock that is renewed until it is dropped. It was last written after `began`.
    fn renewed(&self, name: &str, owner: &str, version: UpdateVersion, began: Instant) -> Lease {
        let state = Arc::new(Mutex::new(Some(began)));
        let (store, path) = (self.store.clone(), self.path(name).expect("it was just written"));
        let (client, owner) = (self.client.clone(), owner.to_owned());
        let shared = Arc::clone(&state);
        let renewal = self.tasks.begin(async move {
            let (mut version, mut since) = (version, began);
            loop {
                tokio::time::sleep(RENEWAL).await;
                let began = Instant::now();
                let mode = PutMode::Update(version.clone());
                let written = write_lock(&*store, &path, &lock_text(&owner), mode, &client).await;
                let renewed = match written {
                    Ok(Some(new)) => {
                        (version, since) = (new, began);
                        Some(began)
                    }
                    Err(_) if since.elapsed() < LEASE => continue,
                    Ok(None) | Err(_) => None,
                };
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
                if renewed.is_none() {
                    return;
                }
            }
        });
        Lease { name: name.to_owned(), state, _renewal: Mutex::new(renewal) }
    }

    /// Fails with [`Error::Busy`] if another process has taken the lock.
    ///
    /// A process that was stopped for as long as a lock lasts waits for the renewal that tells it.
    pub(crate) fn check(&self, lease: &Lease, control: &Control) -> Result<()> {
        loop {
            control.tick()?;
            match *lease.state.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(renewed) if renewed.elapsed() < LEASE => return Ok(()),
                Some(_) => {}
                None => {
                    let reason = "another process has taken its lock, which could not be renewed in time; run again";
                    return Err(Error::Busy {
                        path: self.name_of(&lease.name),
                        reason: reason.into(),
                    });
                }
            }
            thread::sleep(POLL);
        }
    }

    /// Gives a lock back, unless another process has taken it. Where that fails, it ends by itself.
    pub(crate) fn unlock(&self, lease: Lease) {
        let name = lease.name.clone();
        let is_lost = lease.state.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        drop(lease);
        let Ok(path) = self.path(&name) else { return };
        if is_lost {
            return;
        }
        // Also after a cancel, so that the next run need not wait.
        let _ = self.begin_unlink(vec![path]).wait_for(ENDING);
    }
}

/// A lock that is being renewed.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The object.
    name: String,
    /// When it was last renewed; `None` once another process has taken it.
    state: Arc<Mutex<Option<Instant>>>,
    /// It is ended with the lease. Several threads may ask for the state meanwhile.
    _renewal: Mutex<Pending<()>>,
}

/// The content of a lock: its owner, and a line that no other content has.
fn lock_text(owner: &str) -> String {
    format!("{owner}\n{}\n", unique_hex())
}

/// Writes a lock; `None` if the mode does not allow it.
async fn write_lock(
    store: &dyn ObjectStore,
    path: &object_store::path::Path,
    text: &str,
    mode: PutMode,
    client: &RetryingClient,
) -> io::Result<Option<UpdateVersion>> {
    let write = || async {
        let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
        match store.put_opts(path, PutPayload::from(text.to_owned()), options).await {
            Ok(written) => return Ok(Some(written.into())),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => {}
            // A lock to be renewed is gone. To one that is to be made, it says that there is no bucket.
            Err(object_store::Error::NotFound { .. }) if matches!(mode, PutMode::Update(_)) => {}
            Err(error) => return Err(buckets::to_io_error(&error, client)),
        }
        // The answer to a first try may have been lost.
        let Ok(got) = store.get_opts(path, GetOptions::default()).await else { return Ok(None) };
        let (e_tag, version) = (got.meta.e_tag.clone(), got.meta.version.clone());
        let bytes = got.bytes().await.map_err(|error| buckets::to_io_error(&error, client))?;
        Ok((*bytes == *text.as_bytes()).then_some(UpdateVersion { e_tag, version }))
    };
    client.repeat(write).await
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn target(store: &Arc<InMemory>) -> BucketFolder {
        BucketFolder::over(Arc::clone(store) as Arc<dyn ObjectStore>)
    }

    #[test]
    fn one_of_two_processes_holds_a_lock() {
        let store = Arc::new(InMemory::new());
        let (one, other) = (target(&store), target(&store));
        let (seen, control) = (SeenLocks::default(), Control::default());
        let lease = one.lease("a", "one", &seen).expect("a store").expect("nobody holds it");
        assert!(other.lease("a", "other", &seen).expect("a store").is_none());
        assert!(other.lease("b", "other", &seen).expect("a store").is_some());
        one.check(&lease, &control).expect("it holds it");
        one.unlock(lease);
        assert!(other.lease("a", "other", &seen).expect("a store").is_some());
    }

    #[test]
    fn many_processes_at_once_take_each_lock_once() {
        let store = Arc::new(InMemory::new());
        let taken = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..8 {
                let (store, taken) = (&store, &taken);
                scope.spawn(move || {
                    let (target, seen) = (target(store), SeenLocks::default());
                    for lock in 0..20 {
                        let lock = format!("lock-{lock}");
                        let owner = format!("owner-{number}");
                        let lease = target.lease(&lock, &owner, &seen).expect("a store");
                        taken.lock().expect("no panic").extend(lease.map(|_| lock));
                    }
                });
            }
        });
        let mut taken = taken.into_inner().expect("no panic");
        taken.sort_unstable();
        let each = taken.len();
        taken.dedup();
        assert_eq!((taken.len(), each), (20, 20));
    }

    #[test]
    fn the_same_owner_takes_its_lock_again_and_the_former_holder_is_told() {
        let store = Arc::new(InMemory::new());
        let (killed, again) = (target(&store), target(&store));
        let seen = SeenLocks::default();
        let lost = killed.lease("a", "one", &seen).expect("a store").expect("nobody holds it");
        let lease = again.lease("a", "one", &seen).expect("a store").expect("it is its own");
        *lost.state.lock().expect("no panic") = None;
        let control = Control::default();
        assert!(matches!(killed.check(&lost, &control), Err(Error::Busy { .. })));
        killed.unlock(lost);
        again.check(&lease, &control).expect("it holds it");
        assert!(killed.lease("a", "other", &seen).expect("a store").is_none());
    }

    #[test]
    fn a_lock_is_stale_once_it_was_not_renewed_for_the_time_of_a_lease() {
        let (seen, start) = (SeenLocks::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(seen.note("a", Some("1"), start), SeenLock::Unknown);
        assert_eq!(seen.note("a", Some("1"), after(29)), SeenLock::Unknown);
        assert_eq!(seen.note("a", Some("2"), after(31)), SeenLock::Renewed);
        assert_eq!(seen.note("a", Some("2"), after(60)), SeenLock::Unknown);
        assert_eq!(seen.note("b", Some("2"), after(99)), SeenLock::Unknown);
        assert_eq!(seen.note("a", Some("2"), after(62)), SeenLock::Stale);
    }

    #[test]
    fn a_stale_lock_is_taken_over_by_one_process() {
        let store = Arc::new(InMemory::new());
        let (ended, one, other) = (target(&store), target(&store), target(&store));
        let seen = SeenLocks::default();
        drop(ended.lease("a", "ended", &seen).expect("a store").expect("nobody holds it"));
        let (_, version) = one.read_lock("a").expect("a store").expect("it was not given back");
        let long_ago = Instant::now().checked_sub(2 * LEASE).expect("the machine runs longer");
        let leases = [(&one, "one"), (&other, "other")].map(|(process, owner)| {
            let seen = SeenLocks::default();
            seen.note("a", version.e_tag.as_deref(), long_ago);
            process.lease("a", owner, &seen).expect("a store")
        });
        assert!(matches!(leases, [Some(_), None]));
    }

    #[test]
    fn a_store_that_ignores_conditions_is_told_apart() {
        let store = Arc::new(InMemory::new());
        let target = target(&store);
        let seen = SeenLocks::default();
        let lease = target.lease("a", "one", &seen).expect("a store").expect("free");
        target.refuse_unconditional(&lease).expect("this store knows conditions");
        target.check(&lease, &Control::default()).expect("it holds it");
    }
}
