//! The client of an object store, which trusts the other side with nothing: it follows no redirect (which would carry
//! the session's token to another host), and each answer has a time and a size.

use crate::store::objects::MAX_OBJECT_BYTES;
use async_trait::async_trait;
use http_body_util::{BodyExt, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Result};
use std::io;
use std::time::Duration;

/// Time limit of each other answer.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Time limit of a connection, with its TLS.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Values that object_store treats as true.
const YES: [&str; 5] = ["1", "true", "on", "yes", "y"];
/// Maximum bytes of a response that is not an object: a list of 5,000 paths, an error.
const MAX_ANSWER_BYTES: u64 = 16 << 20;
/// Objects of a list.
pub(crate) const MOST_LISTED: usize = 5_000_000;

/// Makes clients.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let allows_http = options
            .get_config_value(&ClientConfigKey::AllowHttp)
            .is_some_and(|said| YES.iter().any(|yes| said.eq_ignore_ascii_case(yes)));
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!allows_http)
            .connect_timeout(CONNECT_TIME)
            .timeout(ANSWER_TIME)
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "client",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(Client(client)))
    }
}

#[derive(Debug)]
struct Client(reqwest::Client);

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let query = request.uri().query();
        let is_object =
            request.method() == "GET" && query.is_none_or(|query| query.contains("alt=media"));
        let (head, body) = self.0.call(request).await?.into_parts();
        let is_object = is_object && head.status.is_success();
        let limit = if is_object { MAX_OBJECT_BYTES } else { MAX_ANSWER_BYTES };
        let body = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
        let body =
            body.map_err(|error| HttpError::new(HttpErrorKind::Decode, io::Error::other(error)));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}
