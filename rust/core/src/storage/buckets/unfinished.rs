//! The uploads in parts that stopped runs have left in a bucket. Their parts are paid for, and no list of objects names them.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use serde::Deserialize;

use super::bucket_folder::BucketFolder;
use crate::storage::buckets;
use crate::storage::http::retrying_client::RetryingClient;
use crate::util::disk::removal::{Evidence, prove};

/// The time for which the URL of a list is signed.
const SIGNED: Duration = Duration::from_secs(300);

/// The most pages of a list, of up to 1000 uploads each.
const MOST_PAGES: usize = 100;

/// A page of the list of the unfinished uploads of a bucket.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct UploadListPage {
    #[serde(rename = "Upload")]
    uploads: Vec<UnfinishedUpload>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

/// An unfinished upload in parts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct UnfinishedUpload {
    key: String,
    upload_id: String,
}

impl BucketFolder {
    /// Ends the unfinished uploads in parts to names in `folder` that the evidence claims. Google's and Azure's stores list none:
    /// the latter forgets them by itself.
    ///
    /// Uploads that cannot be listed or ended stay: they only cost.
    pub(crate) fn end_unfinished(&self, folder: &str, evidence: &impl Evidence<Self>) {
        let Some(s3) = &self.s3 else { return };
        let (bucket, client) = (Arc::clone(s3), Arc::clone(&self.client));
        let prefix = format!("{}/", self.key(folder));
        let listed = self.tasks.run(async move { list(&bucket, &client, prefix).await });
        for UnfinishedUpload { key, upload_id } in listed.unwrap_or_default() {
            let name = key.strip_prefix(&*self.prefix).unwrap_or(&key).trim_start_matches('/');
            let Some(proof) = prove(evidence, &name.to_owned()) else { continue };
            let Ok(path) = self.path(proof.name()) else { continue };
            let (bucket, client) = (Arc::clone(s3), Arc::clone(&self.client));
            let ended = self.tasks.run(async move {
                let ended = bucket.abort_multipart(&path, &upload_id).await;
                ended.map_err(|error| buckets::to_io_error(&error, &client))
            });
            match ended {
                Ok(()) => {}
                // Somebody has ended it since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => return,
            }
        }
    }
}

/// The unfinished uploads to keys with this prefix.
async fn list(
    s3: &AmazonS3,
    client: &RetryingClient,
    prefix: String,
) -> io::Result<Vec<UnfinishedUpload>> {
    let mut found = Vec::new();
    let mut behind: Option<(String, String)> = None;
    for _ in 0..MOST_PAGES {
        let mut query = vec![("prefix", prefix.clone()), ("uploads", String::new())];
        if let Some((key, upload)) = &behind {
            query.extend([("key-marker", key.clone()), ("upload-id-marker", upload.clone())]);
        }
        let options = SignedUrlOptions::default().with_query(query);
        // The URL of the bucket itself.
        let url = s3.signed_url_opts(Method::GET, &Path::default(), SIGNED, &options).await;
        let url = url.map_err(|error| buckets::to_io_error(&error, client))?;
        let answer = client.send_signed(reqwest::Request::new(Method::GET, url)).await;
        let answer = answer.map_err(|error| client.failed(&error.without_url()))?;
        if !answer.status().is_success() {
            return Err(RetryingClient::refused(answer.status()));
        }
        let text = answer.text().await.map_err(|error| client.failed(&error.without_url()))?;
        let page: UploadListPage = quick_xml::de::from_str(&text).map_err(io::Error::other)?;
        found.extend(page.uploads);
        let next = (page.next_key_marker, page.next_upload_id_marker);
        if !page.is_truncated || behind.as_ref() == Some(&next) {
            break;
        }
        behind = Some(next);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::storage::buckets::s3_server_for_tests::S3Server;
    use crate::util::disk::removal::{Claim, Medium};

    /// Evidence for all names that end so.
    struct NameEnding(&'static str);

    impl Evidence<BucketFolder> for NameEnding {
        fn claim(&self, name: &String) -> Claim<<BucketFolder as Medium>::Stamp> {
            if name.ends_with(self.0) { Claim::Name } else { Claim::None }
        }
    }

    #[test]
    fn all_unfinished_uploads_that_are_claimed_are_ended() {
        let server = S3Server::start();
        let opened = BucketFolder::open("s3://bucket/packed", &server.options(), Arc::default());
        let target = opened.expect("a server");
        let keys = [
            "packed/uploads/a own",
            "packed/uploads/b own",
            "packed/uploads/b own",
            "packed/uploads/c/d own",
            "packed/uploads/foreign",
            "packed/uploads/z own",
            "packed/uploadss/x own",
            "uploads/y own",
        ];
        for removed in [&[][..], &[1], &[2, 4], &[1, 2, 3, 4, 6]] {
            server.with(|it| {
                it.uploads = (1..)
                    .zip(keys)
                    .map(|(number, key)| (number, (key.to_owned(), BTreeMap::new())))
                    .collect();
                it.uploads_of_a_page = 2;
                // Others end them once they are listed.
                it.removed_once_listed = removed.to_vec();
            });
            target.end_unfinished("uploads", &NameEnding(" own"));
            let left: Vec<usize> = server.with(|it| it.uploads.keys().copied().collect());
            assert_eq!(left, [5, 7, 8], "without {removed:?}");
        }
    }
}
