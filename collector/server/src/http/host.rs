//! Checks that a request names the machine that it reaches.
//!
//! A collector without tokens takes captures from this machine only. A page elsewhere could have a browser here send to it,
//! under a name of its own that it points at 127.0.0.1: such a request has that name in `Host`.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// Returns the host of an authority, without its port.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// True if an authority, with or without a port, is this machine.
pub(super) fn is_this_machine(authority: &str) -> bool {
    let name = name_of(authority);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// True if an authority is an address, or this machine: nobody can point it elsewhere. An Android emulator asks for
/// 10.0.2.2.
fn is_fixed(authority: &str) -> bool {
    is_this_machine(authority) || name_of(authority).parse::<IpAddr>().is_ok()
}

fn is_allowed(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let origin =
        text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    text(header::HOST).is_some_and(is_fixed) && origin.is_none_or(is_this_machine)
}

/// Refuses a request that a page elsewhere may have had a browser send.
pub(crate) async fn no_foreign_page(request: Request, next: Next) -> Response {
    if is_allowed(request.headers()) {
        return next.run(request).await;
    }
    let why = "this collector has no --token-file and answers to localhost and to addresses only, not to another name\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_elsewhere_and_pages_of_elsewhere_are_refused() {
        let asked = |list: &[(header::HeaderName, &str)]| {
            let headers = list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            is_allowed(&headers.collect())
        };
        for host in ["localhost:8440", "127.0.0.1:8440", "[::1]:8440", "10.0.2.2:8440"] {
            assert!(asked(&[(header::HOST, host)]), "{host}");
            assert!(!asked(&[(header::HOST, host), (header::ORIGIN, "https://evil.example")]));
        }
        assert!(asked(&[(header::HOST, "localhost"), (header::ORIGIN, "http://localhost:8440")]));
        assert!(!asked(&[(header::HOST, "evil.example:8440")]));
        assert!(!asked(&[(header::HOST, "localhost"), (header::ORIGIN, "null")]));
        assert!(!asked(&[]));
    }
}
