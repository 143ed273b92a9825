//! [`open`]: opens the bucket of an address in its store.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::bucket_options::chosen;
use crate::error::{Error, Result};
use crate::storage::address::{Address, StoreKind};
use crate::storage::http::retrying_client::{RetryingClient, deepest};
use crate::storage::http::service::Service;

/// Opens the bucket of an address, with the variables of the environment and with `options` above them.
pub(in crate::storage) fn open(
    address: &Address,
    options: &BTreeMap<String, String>,
    client: &Arc<RetryingClient>,
) -> Result<Arc<dyn ObjectStore>> {
    let service = Service(Arc::clone(client));
    let retry = retry();
    let url = format!("{}/", address.root);
    let failed = |error: object_store::Error| refuse(address, client, &error);
    Ok(match address.kind {
        StoreKind::S3 => Arc::new(open_s3(address, options, client)?),
        StoreKind::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(url);
            for (key, value) in chosen::<GoogleConfigKey>(options, "google")? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_retry(retry).with_http_connector(service);
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(url);
            for (key, value) in chosen::<AzureConfigKey>(options, "azure")? {
                builder = builder.with_config(key, value);
            }
            let builder = builder.with_retry(retry).with_http_connector(service);
            Arc::new(builder.build().map_err(failed)?)
        }
        StoreKind::Web | StoreKind::Given | StoreKind::FileSystem => {
            unreachable!("it has no buckets")
        }
    })
}

/// Opens the bucket of an address of the protocol of S3.
pub(in crate::storage) fn open_s3(
    address: &Address,
    options: &BTreeMap<String, String>,
    client: &Arc<RetryingClient>,
) -> Result<AmazonS3> {
    let mut builder = AmazonS3Builder::from_env().with_url(format!("{}/", address.root));
    for (key, value) in chosen::<AmazonS3ConfigKey>(options, "aws")? {
        builder = builder.with_config(key, value);
    }
    let builder = builder.with_retry(retry()).with_http_connector(Service(Arc::clone(client)));
    builder.build().map_err(|error| refuse(address, client, &error))
}

/// No retries: the client repeats requests, and looks at `Retry-After`.
fn retry() -> RetryConfig {
    RetryConfig { max_retries: 0, backoff: BackoffConfig::default(), ..RetryConfig::default() }
}

fn refuse(address: &Address, client: &RetryingClient, error: &object_store::Error) -> Error {
    let detail = client.shown(&deepest(error));
    Error::option("storage.options", format!("do not open `{}`: {detail}", address.root))
}
