//! Lists of buckets.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::buckets;
use super::requests::Requests;
use super::stat::Stat;

/// The size, etag and time of an object, as its store tells them.
pub(super) fn stat_of(meta: &ObjectMeta) -> Stat {
    let modified = meta.last_modified.timestamp_nanos_opt().and_then(|it| u64::try_from(it).ok());
    Stat {
        size: meta.size,
        etag: meta.e_tag.as_deref().map(Arc::from),
        modified: modified.unwrap_or(0),
    }
}

/// All objects of a store whose keys begin with the folder `prefix`, sorted by key.
pub(super) async fn list(
    store: Arc<dyn ObjectStore>,
    prefix: Option<Path>,
    requests: Arc<Requests>,
) -> io::Result<Vec<(String, Stat)>> {
    let list = || async {
        let mut listed = store.list(prefix.as_ref());
        let mut found = Vec::new();
        while let Some(meta) = listed.next().await {
            let meta = meta.map_err(|error| buckets::said(&error, &requests))?;
            found.push((meta.location.as_ref().to_owned(), stat_of(&meta)));
        }
        Ok::<_, io::Error>(found)
    };
    let mut found: Vec<(String, Stat)> = requests.repeat(list).await?;
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
