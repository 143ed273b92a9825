//! Lists of buckets.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tokio::time::timeout;

use crate::storage::buckets;
use crate::storage::http::retrying_client::RetryingClient;
use crate::storage::object_stat::ObjectStat;
use crate::util::message;

/// The time in which a list must name a further object: more than all tries of a request take, and of thousands of pages
/// without an object.
const PATIENCE: Duration = Duration::from_secs(600);

/// The size, etag and time of an object, as its store tells them.
pub(crate) fn stat_of(meta: &ObjectMeta) -> ObjectStat {
    let modified = meta.last_modified.timestamp_nanos_opt().and_then(|it| u64::try_from(it).ok());
    ObjectStat {
        size: meta.size,
        etag: meta.e_tag.as_deref().map(Arc::from),
        modified: modified.unwrap_or(0),
    }
}

/// All objects of a store whose keys begin with the folder `prefix`, sorted by key.
pub(crate) async fn list(
    store: Arc<dyn ObjectStore>,
    prefix: Option<Path>,
    client: Arc<RetryingClient>,
) -> io::Result<Vec<(String, ObjectStat)>> {
    list_within(PATIENCE, store, prefix, client).await
}

/// [`list`], where each further object is named within `patience`.
async fn list_within(
    longest_wait: Duration,
    store: Arc<dyn ObjectStore>,
    prefix: Option<Path>,
    client: Arc<RetryingClient>,
) -> io::Result<Vec<(String, ObjectStat)>> {
    let list = || async {
        let mut listed = store.list(prefix.as_ref());
        let mut found = Vec::new();
        let mut keys = HashSet::new();
        // Pages may hold no object, and a server may send such pages without end.
        while let Some(meta) =
            timeout(longest_wait, listed.next()).await.map_err(|_| endless(longest_wait))?
        {
            let meta = meta.map_err(|error| buckets::to_io_error(&error, &client))?;
            let key = meta.location.as_ref().to_owned();
            if !keys.insert(blake3::hash(key.as_bytes())) {
                return Err(repeats(&key));
            }
            found.push((key, stat_of(&meta)));
        }
        Ok::<_, io::Error>(found)
    };
    let mut found: Vec<(String, ObjectStat)> = client.repeat(list).await?;
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

fn repeats(key: &str) -> io::Error {
    let key = message::one_line(key);
    io::Error::other(format!("the server lists `{key}` twice, so its list may have no end"))
}

fn endless(longest_wait: Duration) -> io::Error {
    let minutes = longest_wait.as_secs() / 60;
    io::Error::other(format!(
        "the server has sent pages of its list for {minutes} minutes that name no object"
    ))
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::time::Instant;

    use futures_util::stream::{self, BoxStream};
    use object_store::memory::InMemory;
    use object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectStoreExt,
        PutMultipartOptions, PutOptions, PutPayload, PutResult,
    };

    use super::*;
    use crate::storage::request_threads::RequestThreads;

    /// A store whose list names one object and then never another, as a server that sends endless empty pages.
    #[derive(Debug)]
    struct Endless(InMemory);

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "Endless")
        }
    }

    #[async_trait::async_trait]
    impl ObjectStore for Endless {
        async fn put_opts(
            &self,
            location: &Path,
            payload: PutPayload,
            opts: PutOptions,
        ) -> object_store::Result<PutResult> {
            self.0.put_opts(location, payload, opts).await
        }

        async fn put_multipart_opts(
            &self,
            location: &Path,
            opts: PutMultipartOptions,
        ) -> object_store::Result<Box<dyn MultipartUpload>> {
            self.0.put_multipart_opts(location, opts).await
        }

        async fn get_opts(
            &self,
            location: &Path,
            options: GetOptions,
        ) -> object_store::Result<GetResult> {
            self.0.get_opts(location, options).await
        }

        fn delete_stream(
            &self,
            locations: BoxStream<'static, object_store::Result<Path>>,
        ) -> BoxStream<'static, object_store::Result<Path>> {
            self.0.delete_stream(locations)
        }

        fn list(
            &self,
            prefix: Option<&Path>,
        ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
            self.0.list(prefix).chain(stream::pending()).boxed()
        }

        async fn list_with_delimiter(
            &self,
            prefix: Option<&Path>,
        ) -> object_store::Result<ListResult> {
            self.0.list_with_delimiter(prefix).await
        }

        async fn copy_opts(
            &self,
            from: &Path,
            to: &Path,
            options: CopyOptions,
        ) -> object_store::Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }

    #[test]
    fn a_list_that_names_no_further_object_ends_after_its_time() {
        let tasks = RequestThreads::start(Arc::default()).expect("threads");
        let client = Arc::new(RetryingClient::new(&[].into()).expect("a client"));
        let store = Arc::new(Endless(InMemory::new()));
        let bucket = Arc::clone(&store);
        let longest_wait = Duration::from_millis(200);
        let since = Instant::now();
        let listed = tasks.run(async move {
            let written = bucket.put(&Path::from("a"), PutPayload::from_static(b"1")).await;
            written.map_err(io::Error::other)?;
            list_within(longest_wait, store, None, client).await
        });
        let message = listed.expect_err("it has no end").to_string();
        assert!(message.contains("that name no object"), "{message}");
        assert!(since.elapsed() >= longest_wait);
    }

    #[test]
    fn a_list_may_take_longer_than_the_tries_of_a_request() {
        assert_eq!(PATIENCE, Duration::from_secs(600));
        assert!(endless(PATIENCE).to_string().contains("for 10 minutes"));
    }
}
