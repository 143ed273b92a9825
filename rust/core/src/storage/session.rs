//! [`Session`]: the remote storage of one call.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;
use object_store::aws::AmazonS3;
use reqwest::header::HeaderMap;

use super::address::{Address, StoreKind};
use super::buckets;
use super::buckets::listing;
use super::cache::BlockCache;
use super::fetching::object::{Object, SharedParts};
use super::fetching::resumed_requests::ObjectBackend;
use super::http::retrying_client::RetryingClient;
use super::http::web_object::{HEAD, WebObject};
use super::object_stat::ObjectStat;
use super::request_threads::RequestThreads;
use crate::config::{FileFacts, FileSystem, ResolvedFile, StorageOptions};
use crate::error::{Error, Result};

/// Requests for first bytes that are under way at a time.
const AT_A_TIME: usize = 16;

/// The objects of a folder, by key, as a bucket was listed.
type ListedFolder = Arc<Vec<(String, ObjectStat)>>;

/// The remote storage of one call: its threads, its client and the buckets that it has opened.
#[derive(Debug)]
pub(crate) struct Session {
    options: StorageOptions,
    shared: Arc<SharedParts>,
    /// The opened buckets, by their root.
    buckets: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
    /// The lists, by root and prefix: a bucket is listed once a call.
    lists: Mutex<BTreeMap<(String, String), ListedFolder>>,
}

impl Session {
    /// Opens remote storage with these options. Once `cancelled` is set, every wait fails.
    pub(crate) fn open(options: &StorageOptions, cancelled: Arc<AtomicBool>) -> Result<Self> {
        let client = Arc::new(RetryingClient::new(&options.options)?);
        let tasks = RequestThreads::start(cancelled).map_err(Error::NoThread)?;
        let cache = options.block_cache.as_ref();
        let cache =
            cache.map(|(dir, most)| BlockCache::open(dir, *most).map(Arc::new)).transpose()?;
        Ok(Self {
            options: options.clone(),
            shared: Arc::new(SharedParts::new(Arc::new(tasks), client, cache)),
            buckets: Mutex::default(),
            lists: Mutex::default(),
        })
    }

    /// The files that the caller gave for a name, if it did.
    pub(super) fn resolved_files(&self, name: &str) -> Option<&[ResolvedFile]> {
        self.options.resolved_files.get(name).map(Vec::as_slice)
    }

    /// The address of an input.
    pub(super) fn address(&self, text: &str) -> Result<Address> {
        match self.options.file_system {
            Some(_) => Ok(Address::on_file_system(text)),
            None => Address::parse(text, "files"),
        }
    }

    /// The threads and the client.
    pub(super) fn parts(&self) -> (Arc<RequestThreads>, Arc<RetryingClient>) {
        (Arc::clone(&self.shared.tasks), Arc::clone(&self.shared.client))
    }

    /// The bucket of an address.
    pub(super) fn bucket(&self, address: &Address) -> Result<Arc<dyn ObjectStore>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get(&address.root) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = buckets::open(address, &self.options.options, &self.shared.client)?;
        buckets.insert(address.root.clone(), Arc::clone(&bucket));
        Ok(bucket)
    }

    /// The stores that copy an object of the bucket to a name that must be free, each by another request.
    pub(super) fn copiers(&self, address: &Address) -> Result<Vec<Arc<dyn ObjectStore>>> {
        let ways = buckets::copy_options(address, &self.options.options);
        if ways.is_empty() {
            return Ok(vec![self.bucket(address)?]);
        }
        let open = |options: &BTreeMap<String, String>| {
            buckets::open(address, options, &self.shared.client)
        };
        ways.iter().map(open).collect()
    }

    /// The bucket of an address, if it is one of the protocol of S3.
    pub(super) fn s3(&self, address: &Address) -> Result<Option<Arc<AmazonS3>>> {
        if address.kind != StoreKind::S3 {
            return Ok(None);
        }
        let opened = buckets::open_s3(address, &self.options.options, &self.shared.client)?;
        Ok(Some(Arc::new(opened)))
    }

    /// The object at an address; `None` if there is none.
    pub(super) fn find(&self, address: &Address) -> Result<Option<Object>> {
        let found = match (&address.url, &self.options.file_system) {
            (_, Some(files)) => return self.on_file_system(address, files),
            (Some(url), None) => {
                self.web(&address.name, WebObject::new(url.clone(), HeaderMap::new()))
            }
            (None, None) => self.in_bucket(address),
        };
        match found {
            Ok(object) => Ok(Some(object)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn in_bucket(&self, address: &Address) -> Result<Object> {
        let about = || Error::io(Path::new(&address.name));
        let store = self.bucket(address)?;
        let path = buckets::path_of(&address.key).map_err(about())?;
        let (bucket, key) = (Arc::clone(&store), path.clone());
        let client = Arc::clone(&self.shared.client);
        let stat = self.shared.tasks.run(async move {
            let options = object_store::GetOptions { head: true, ..Default::default() };
            let got = bucket.get_opts(&key, options).await;
            got.map(|got| listing::stat_of(&got.meta))
                .map_err(|error| buckets::to_io_error(&error, &client))
        });
        let place = ObjectBackend::Bucket(store, path);
        Ok(Object::new(&address.name, place, stat.map_err(about())?, None, &self.shared))
    }

    /// The file at an address of the caller's file system; `None` if there is none, or a folder.
    fn on_file_system(
        &self,
        address: &Address,
        files: &Arc<dyn FileSystem>,
    ) -> Result<Option<Object>> {
        let found = files.file(&address.key).map_err(Error::io(Path::new(&address.name)))?;
        Ok(found.map(|facts| {
            let stat = stat_of(&facts);
            let place = ObjectBackend::FileSystem(Arc::clone(files), facts);
            Object::new(&address.name, place, stat, None, &self.shared)
        }))
    }

    /// The object of a web server that is called `name`.
    fn web(&self, name: &str, web: WebObject) -> Result<Object> {
        let client = Arc::clone(&self.shared.client);
        let found = self.shared.tasks.run(async move {
            let (stat, head) = web.stat(&client).await?;
            Ok((web, stat, head))
        });
        let (web, stat, head) = found.map_err(Error::io(Path::new(name)))?;
        Ok(Object::new(name, ObjectBackend::Web(Box::new(web)), stat, Some(head), &self.shared))
    }

    /// The object of a file that the caller gave.
    pub(super) fn resolved_object(&self, file: &ResolvedFile) -> Result<Object> {
        let refuse = || {
            let reason = "is not a URL with headers that can be read";
            Error::io(Path::new(&file.name))(io::Error::new(io::ErrorKind::InvalidInput, reason))
        };
        let address = Address::parse(&file.url, "files").map_err(|_| refuse())?;
        let headers = WebObject::headers(&file.headers).ok_or_else(refuse)?;
        match address.url {
            Some(url) => self.web(&file.name, WebObject::new(url, headers)),
            None => Err(refuse()),
        }
    }

    /// All objects below a folder of a bucket, sorted by key.
    pub(super) fn list(&self, address: &Address, prefix: &str) -> Result<ListedFolder> {
        let name = (address.root.clone(), prefix.to_owned());
        let known = self.lists.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let about = || Error::io(Path::new(&address.name_of(prefix)).to_owned());
        let listed = match &self.options.file_system {
            Some(files) => {
                let found = files.files(prefix).map_err(about())?;
                let named = found.into_iter().map(|facts| (facts.path.clone(), stat_of(&facts)));
                let mut listed: Vec<_> = named.collect();
                listed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                Arc::new(listed)
            }
            None => self.list_bucket(address, prefix)?,
        };
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::clone(&listed));
        Ok(listed)
    }

    fn list_bucket(&self, address: &Address, prefix: &str) -> Result<ListedFolder> {
        let about = || Error::io(Path::new(&address.name_of(prefix)).to_owned());
        let store = self.bucket(address)?;
        let folder =
            if prefix.is_empty() { None } else { Some(buckets::path_of(prefix).map_err(about())?) };
        let client = Arc::clone(&self.shared.client);
        let listed = self.shared.tasks.run(listing::list(store, folder, client));
        listed.map(Arc::new).map_err(about())
    }

    /// The object of an entry of a list.
    pub(super) fn listed_object(
        &self,
        address: &Address,
        key: &str,
        stat: &ObjectStat,
    ) -> Result<Object> {
        let name = address.name_of(key);
        if let Some(files) = &self.options.file_system {
            let etag = stat.etag.as_deref().map(str::to_owned);
            let (size, modified) = (stat.size, stat.modified);
            let facts = FileFacts { path: key.to_owned(), size, etag, modified };
            let place = ObjectBackend::FileSystem(Arc::clone(files), facts);
            return Ok(Object::new(&name, place, stat.clone(), None, &self.shared));
        }
        let store = self.bucket(address)?;
        let path = buckets::path_of(key).map_err(Error::io(Path::new(&name)))?;
        Ok(Object::new(&name, ObjectBackend::Bucket(store, path), stat.clone(), None, &self.shared))
    }

    /// Fetches the first bytes of many objects, some at a time. Those that fail are asked again when they are read.
    pub(super) fn fetch_starts(objects: &[&Object]) -> Result<()> {
        for some in objects.chunks(AT_A_TIME) {
            let begun: Vec<_> =
                some.iter().map(|object| object.begin(0..HEAD.min(object.stat().size))).collect();
            for (object, begun) in some.iter().zip(begun) {
                let bytes = begun.wait().map_err(Error::io(&**object.name()))?;
                object.keep_start(bytes);
            }
        }
        Ok(())
    }

    /// The name of the kind of an address, for messages.
    pub(super) fn is_bucket(address: &Address) -> bool {
        !matches!(address.kind, StoreKind::Web | StoreKind::Given)
    }
}

/// The facts of a file of a file system as those of an object.
fn stat_of(facts: &FileFacts) -> ObjectStat {
    let etag = facts.etag.as_deref().map(Arc::from);
    ObjectStat { size: facts.size, etag, modified: facts.modified }
}
