//! Objects give the same bytes in any order of requests.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "places are drawn as shares of a size"
)]

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use proptest::prelude::*;

use super::buckets::listing;
use super::cancelled_or_changed::CancelledOrChanged;
use super::fetching::object::{Object, SharedParts};
use super::fetching::resumed_requests::ObjectBackend;
use super::http::retrying_client::RetryingClient;
use super::location::{Location, RangeFile};
use super::request_threads::RequestThreads;

/// An object of `size` bytes, its bytes and its store.
fn object(size: usize) -> (Location, Vec<u8>, Arc<InMemory>) {
    let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + at / 251) as u8).collect();
    let tasks = Arc::new(RequestThreads::start(Arc::default()).expect("threads"));
    let client = Arc::new(
        RetryingClient::new(&[("max_retries".to_owned(), "0".to_owned())].into())
            .expect("a client"),
    );
    let shared = Arc::new(SharedParts::new(Arc::clone(&tasks), Arc::clone(&client), None));
    let store = Arc::new(InMemory::new());
    let path = object_store::path::Path::from("a");
    let (bucket, payload) = (Arc::clone(&store), PutPayload::from(bytes.clone()));
    let listed = tasks.run(async move {
        bucket.put(&path, payload).await.map_err(std::io::Error::other)?;
        listing::list(bucket, None, client).await
    });
    let (key, stat) = listed.expect("a list").remove(0);
    let backend = ObjectBackend::Bucket(Arc::clone(&store) as Arc<dyn ObjectStore>, key.into());
    (Arc::new(Object::new("s3://b/a", backend, stat, None, &shared)).into(), bytes, store)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_reader_gives_the_bytes_of_any_place(
        size in prop_oneof![0_usize..3000, 200_000_usize..12_000_000],
        reads in prop::collection::vec((0.0_f64..1.1, 1_usize..600_000), 1..8),
        kind in 0..3,
    ) {
        let (location, bytes, _store) = object(size);
        let opened = match kind {
            0 => location.open(),
            1 => location.open_range(size as u64 / 3..size as u64 / 2),
            _ => location.open_scattered(reads.iter().map(|(at, _)| (at * size as f64) as u64)),
        };
        let mut opened = opened.expect("it is there");
        for (at, length) in reads {
            let at = (at * size as f64) as usize;
            opened.seek(SeekFrom::Start(at as u64)).expect("a place");
            let mut read = Vec::new();
            opened.by_ref().take(length as u64).read_to_end(&mut read).expect("bytes");
            prop_assert_eq!(&read[..], &bytes[at.min(size)..(at + length).min(size)]);
        }
    }

    #[test]
    fn planned_and_other_ranges_give_their_bytes(
        groups in prop::collection::vec(prop::collection::vec((0_u64..9_000_000, 1_u64..900_000), 1..4), 0..5),
        wanted in prop::collection::vec((0.0_f64..1.0, 1_usize..300_000), 1..12),
        size in prop_oneof![1_usize..3000, 1_500_000_usize..12_000_000],
    ) {
        let (location, bytes, _store) = object(size);
        let file = location.open_parts().expect("it is there");
        let ranges = |group: &Vec<(u64, u64)>| -> Vec<Range<u64>> {
            group.iter().map(|(start, length)| *start..start + length).collect()
        };
        let start = |group: &Vec<(u64, u64)>| group.iter().map(|it| it.0).min().unwrap_or(0);
        file.plan(|| groups.iter().map(|group| (start(group), ranges(group))).collect());
        for (at, length) in wanted {
            let at = (at * size as f64) as usize;
            let end = (at + length).min(size);
            prop_assert_eq!(&file.bytes(at as u64, end - at).expect("bytes")[..], &bytes[at..end]);
            let mut read = Vec::new();
            let mut reader = file.reader(at as u64).expect("a reader");
            reader.by_ref().take(length as u64).read_to_end(&mut read).expect("bytes");
            prop_assert_eq!(&read[..], &bytes[at..end]);
        }
    }
}

#[test]
fn an_object_that_has_changed_is_told_and_stays_told() {
    let (location, _, store) = object(9_000_000);
    let mut opened = location.open().expect("it is there");
    let mut some = vec![0; 1000];
    opened.read_exact(&mut some).expect("bytes");
    let Location::Remote(object, _) = &location else { panic!("it is an object") };
    let path = object_store::path::Path::from("a");
    let overwriting = async move { store.put(&path, PutPayload::from(vec![1; 9_000_000])).await };
    futures_util::future::FutureExt::now_or_never(overwriting).expect("memory").expect("room");
    let fetched = object.fetch(8_500_000..9_000_000).expect_err("it has changed");
    assert_eq!(CancelledOrChanged::of(&fetched), Some(CancelledOrChanged::Changed));
    assert_eq!(
        location.check().err().as_ref().and_then(CancelledOrChanged::of),
        Some(CancelledOrChanged::Changed)
    );
}

#[test]
fn a_small_file_of_tables_takes_one_request_at_most() {
    let (location, bytes, store) = object(500_000);
    location.prefetch(true);
    let RangeFile::Remote(ranged) = location.open_parts().expect("it is there") else {
        panic!("it is an object")
    };
    assert_eq!(&ranged.bytes(499_000..500_000).expect("bytes")[..], &bytes[499_000..]);
    let path = object_store::path::Path::from("a");
    let deletion = async move { store.delete(&path).await };
    futures_util::future::FutureExt::now_or_never(deletion).expect("memory").expect("it was there");
    assert_eq!(&ranged.bytes(0..1000).expect("what was fetched")[..], &bytes[..1000]);
}
