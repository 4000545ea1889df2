//! Requests between a device and the collector: routes, header names and media types.
//!
//! The uploader sends them, the collector serves them. Header names are case-insensitive.

/// Route of a capture, `PUT`; its id follows.
pub const CAPTURES: &str = "/v1/captures/";
/// Route of a loss report, `PUT`; its id follows.
pub const LOSSES: &str = "/v1/losses/";
/// Route of a part of the ledger, `PUT`; its id follows, a UUID. The body is the part, in zstd.
///
/// A part that was stored under another id is the same part if installation, day, version code and number are.
pub const LEDGERS: &str = "/v1/ledgers/";
/// Route of a mapping, `PUT`; app and version follow, each percent-encoded. Devices do not use it.
pub const MAPPINGS: &str = "/v1/mappings/";
/// Route of the remote configuration, `GET`.
pub const CONFIG: &str = "/v1/config";

/// Header with a capture's metadata: JSON in URL-safe base64 without padding.
pub const META: &str = "X-Tracetee-Meta";
/// Header with the Ed25519 signature of a configuration, hexadecimal.
pub const SIGNATURE: &str = "X-Tracetee-Signature";
/// Header with the windows that the collector requests, [`crate::remote_config::Asks`] as JSON, in each configuration
/// response. It is not signed, so `on_demand` of the document limits it.
pub const ASKS: &str = "X-Tracetee-Asks";
/// Header with the SHA-256 of the body, by RFC 9530.
pub const CONTENT_DIGEST: &str = "Content-Digest";
/// Header with the media type of the body.
pub const CONTENT_TYPE: &str = "Content-Type";
/// Header with the compression of the body.
pub const CONTENT_ENCODING: &str = "Content-Encoding";
/// Header with the length of the body.
pub const CONTENT_LENGTH: &str = "Content-Length";
/// Header with the media types that the client takes.
pub const ACCEPT: &str = "Accept";
/// Header with the token of the app.
pub const AUTHORIZATION: &str = "Authorization";
/// Header that names a version of an answer.
pub const ETAG: &str = "ETag";
/// Header of a request that applies only if the stored version differs.
pub const IF_NONE_MATCH: &str = "If-None-Match";
/// Header of a response that says when to retry.
pub const RETRY_AFTER: &str = "Retry-After";

/// Value of [`IF_NONE_MATCH`] that stores only if nothing is stored yet.
pub const IF_NOTHING_STORED: &str = "*";
/// Prefix of the token in [`AUTHORIZATION`].
pub const BEARER: &str = "Bearer ";
/// Prefix of the base64 in [`CONTENT_DIGEST`].
pub const SHA_256_PREFIX: &str = "sha-256=:";
/// Suffix of the base64 in [`CONTENT_DIGEST`].
pub const SHA_256_SUFFIX: &str = ":";

/// Media type of a capture: ftrace text.
pub const FTRACE_TEXT: &str = "text/x-ftrace";
/// Media type of a part of the ledger: the bytes of `tracetee_ledger::Part`.
pub const LEDGER: &str = "application/x-tracetee-ledger";
/// Media type of all other bodies.
pub const JSON: &str = "application/json";
/// Compression of a capture: independent zstd frames.
pub const ZSTD: &str = "zstd";

/// Name of the metadata of an object in a bucket, with the same value as [`META`].
pub const OBJECT_META: &str = "tracetee";
