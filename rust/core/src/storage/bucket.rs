//! Lists of buckets.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tokio::time::timeout;

use super::buckets;
use super::requests::Requests;
use super::stat::Stat;
use crate::message;

/// The time in which a list must name a further object: more than all tries of a request take, and of thousands of pages
/// without an object.
const PATIENCE: Duration = Duration::from_secs(600);

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
        let mut keys = HashSet::new();
        // Pages may hold no object, and a server may send such pages without end.
        while let Some(meta) = timeout(PATIENCE, listed.next()).await.map_err(|_| endless())? {
            let meta = meta.map_err(|error| buckets::said(&error, &requests))?;
            let key = meta.location.as_ref().to_owned();
            if !keys.insert(blake3::hash(key.as_bytes())) {
                return Err(repeats(&key));
            }
            found.push((key, stat_of(&meta)));
        }
        Ok::<_, io::Error>(found)
    };
    let mut found: Vec<(String, Stat)> = requests.repeat(list).await?;
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

fn repeats(key: &str) -> io::Error {
    let key = message::one_line(key);
    io::Error::other(format!("the server lists `{key}` twice, so its list may have no end"))
}

fn endless() -> io::Error {
    let minutes = PATIENCE.as_secs() / 60;
    io::Error::other(format!(
        "the server has sent pages of its list for {minutes} minutes that name no object"
    ))
}
