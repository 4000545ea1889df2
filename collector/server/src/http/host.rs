//! Checks that a request names the machine that it reaches.
//!
//! A collector without tokens accepts captures only from this machine. A foreign page could make a local browser send to it,
//! under a host name that resolves to 127.0.0.1: such a request has that name in `Host`.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Version, header};
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

/// True if an authority is an address, or this machine: nobody can redirect it. An Android emulator uses 10.0.2.2.
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

/// Refuses a write that a page of another site may have made a browser send: its `Origin` is not the requested host.
pub(crate) async fn no_foreign_write(request: Request, next: Next) -> Response {
    if request.method().is_safe() || !has_foreign_origin(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "a page of another site may not write here\n").into_response()
}

fn has_foreign_origin(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        origin.is_none_or(|(_, from)| Some(from) != host)
    })
}

/// Answer to clients on other machines, if there are no tokens.
pub(super) const ELSEWHERE: &str = "reports and metrics are for programs on this machine only; for others, pass --token-file with a line APP TOKEN read, or * TOKEN metrics\n";

/// Headers that proxies add.
const OF_PROXIES: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// True if the request comes from a browser on this machine, as far as can be detected. A proxy that forwards a request with
/// its own Host (nginx's plain `proxy_pass`) is recognized by HTTP/1.0, by closing each connection, and by the page that the
/// browser comes from.
pub(super) fn is_asked_here(version: Version, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_proxied = OF_PROXIES.iter().any(|name| headers.contains_key(*name))
        || version < Version::HTTP_11
        || text("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let comes_from = |name: &str| match headers.get(name) {
        None => true,
        Some(_) => {
            let host = text(name).and_then(|url| url.split_once("://")?.1.split('/').next());
            host.is_some_and(is_this_machine)
        }
    };
    !is_proxied
        && is_this_machine(text("host").unwrap_or_default())
        && comes_from("origin")
        && comes_from("referer")
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

    #[test]
    fn an_origin_is_foreign_unless_it_is_the_host_that_is_asked() {
        let asked = |list: &[(header::HeaderName, &str)]| {
            let headers = list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            has_foreign_origin(&headers.collect())
        };
        let host = (header::HOST, "a.example:8440");
        let origin = |text| (header::ORIGIN, text);
        assert!(
            !asked(std::slice::from_ref(&host))
                && !asked(&[host.clone(), origin("http://a.example:8440")])
        );
        for foreign in ["http://a.example", "https://evil.example", "null", ""] {
            assert!(asked(&[host.clone(), origin(foreign)]), "{foreign}");
        }
        assert!(asked(&[origin("https://a.example:8440")]));
    }

    #[test]
    fn a_browser_here_is_answered_and_a_proxy_is_not() {
        let asked = |version, list: &[(&'static str, &str)]| {
            let headers = list.iter().map(|(name, value)| {
                (header::HeaderName::from_static(name), value.parse().unwrap())
            });
            is_asked_here(version, &headers.collect())
        };
        let http = Version::HTTP_11;
        let host = ("host", "127.0.0.1:8440");
        assert!(asked(http, &[host]));
        assert!(asked(http, &[("host", "[::1]:8440"), ("connection", "keep-alive")]));
        assert!(asked(http, &[("host", "localhost"), ("referer", "http://localhost:8440/?a=b")]));
        assert!(!asked(http, &[("host", "evil.example")]));
        assert!(!asked(http, &[host, ("x-forwarded-for", "10.0.0.1")]));
        // nginx's plain proxy_pass: Host is its upstream's.
        assert!(!asked(Version::HTTP_10, &[host, ("connection", "close")]));
        assert!(!asked(http, &[host, ("connection", "close")]));
        assert!(!asked(http, &[host, ("referer", "https://reports.example/")]));
        assert!(!asked(http, &[host, ("origin", "null")]));
    }
}
