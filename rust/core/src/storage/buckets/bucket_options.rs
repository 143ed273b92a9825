//! [`chosen`]: the options that a store knows, among those of the caller.

use std::collections::BTreeMap;
use std::str::FromStr;

use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use crate::error::{Error, Result};
use crate::storage::address::{Address, StoreKind};

/// Options that are the client's, and no store's.
const OF_THE_CLIENT: [&str; 3] = ["max_retries", "timeout", "connect_timeout"];

/// The option of S3 for copies to a name that must be free.
const COPY: &str = "aws_copy_if_not_exists";

/// The ways in which stores of the protocol of S3 do so: by a condition of the copy, as S3 does since 2025; by a header of
/// Cloudflare's; and as an upload of one part, which is completed on a condition.
const COPIES: [&str; 3] =
    ["header: if-none-match: *", "header: cf-copy-destination-if-none-match: *", "multipart"];

/// The options that open a bucket so that it copies to free names alone, for each of the ways that its store may know; none if the
/// store has one way, or the caller has named it.
pub(in crate::storage) fn copy_options(
    address: &Address,
    options: &BTreeMap<String, String>,
) -> Vec<BTreeMap<String, String>> {
    let is_named = options.keys().any(|name| {
        AmazonS3ConfigKey::from_str(&name.to_ascii_lowercase())
            .is_ok_and(|key| key == AmazonS3ConfigKey::CopyIfNotExists)
    });
    if address.kind != StoreKind::S3 || is_named {
        return Vec::new();
    }
    let with = |way: &str| {
        let own = (COPY.to_owned(), way.to_owned());
        options.clone().into_iter().chain([own]).collect()
    };
    COPIES.into_iter().map(with).collect()
}

/// The options that a store knows. Options of other stores are left out, as one job may read several.
pub(super) fn chosen<K: FromStr>(
    options: &BTreeMap<String, String>,
    own: &str,
) -> Result<Vec<(K, String)>> {
    let mut found = Vec::new();
    for (name, value) in options {
        let lower = name.to_ascii_lowercase();
        if OF_THE_CLIENT.contains(&lower.as_str()) {
            continue;
        }
        match lower.parse() {
            Ok(key) => found.push((key, value.clone())),
            Err(_) if lower.starts_with(own) || !is_known(&lower) => {
                let reason = format!("has `{name}`, which no object store knows");
                return Err(Error::option("storage.options", reason));
            }
            Err(_) => {}
        }
    }
    Ok(found)
}

/// True if any store knows an option.
fn is_known(name: &str) -> bool {
    AmazonS3ConfigKey::from_str(name).is_ok()
        || GoogleConfigKey::from_str(name).is_ok()
        || AzureConfigKey::from_str(name).is_ok()
        || ClientConfigKey::from_str(name).is_ok()
}
