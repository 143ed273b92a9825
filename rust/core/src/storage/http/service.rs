//! [`Service`]: sends the requests of the crate `object_store` by the client of the call.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderValue;
use http::header::IF_NONE_MATCH;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};

use super::retrying_client::RetryingClient;

/// Sends the requests of an object store.
#[derive(Clone, Debug)]
pub(crate) struct Service(pub(crate) Arc<RetryingClient>);

impl HttpConnector for Service {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let unknown = |error| HttpError::new_boxed(HttpErrorKind::Unknown, error);
        let bytes = body.collect().await?.to_bytes();
        let whole = http::Request::from_parts(parts, bytes);
        let mut request =
            reqwest::Request::try_from(whole).map_err(|error| unknown(error.into()))?;
        // The client has no such condition. The signature of S3 covers the headers that it names alone.
        if self.0.completes_new_only(&request) {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let answer = self.0.send_signed(request).await.map_err(|error| {
            let kind =
                if error.is_timeout() { HttpErrorKind::Timeout } else { HttpErrorKind::Connect };
            HttpError::new(kind, error.without_url())
        })?;
        let (parts, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
        let interrupted =
            |error: reqwest::Error| HttpError::new(HttpErrorKind::Interrupted, error.without_url());
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(interrupted))))
    }
}
