//! `GET /v1/openapi.json` and `GET /v1/report.schema.json`: the documents that describe the routes and the reports.
//!
//! Both are files of the repository. Tests compare the server with the first (`tests/upload/tests/openapi.rs`), and reports
//! with the second.

use axum::http::header;
use axum::response::IntoResponse;
use tracetee_fleet::report::SCHEMA;
use tracetee_protocol::http;

/// The OpenAPI document of all routes.
const OPEN_API: &str = include_str!("../../api/openapi.json");
/// Media type of a JSON schema.
const JSON_SCHEMA: &str = "application/schema+json";

pub(super) async fn open_api() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, http::JSON)], OPEN_API)
}

pub(super) async fn report_schema() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, JSON_SCHEMA)], SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_of_this_version() {
        let document: serde_json::Value = serde_json::from_str(OPEN_API).unwrap();
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
