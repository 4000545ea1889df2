//! SIGHUP while devices send: no upload is lost, a token that is gone is refused, and a new certificate is served.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests_upload::collector::{Collector, TOKEN};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Failure, Request, Response, Transport};

/// Devices that send at once, and captures of each.
const DEVICES: u64 = 4;
const CAPTURES: u64 = 100;
/// A token that is taken away.
const REVOKED: &str = "fedcba9876543210fedc";

/// Writes a new certificate for localhost and its key, each as a whole. Returns the certificate.
fn certify(directory: &Path, authority: &CertifiedIssuer<'_, KeyPair>) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, authority).unwrap();
    for (name, text) in [("chain.pem", leaf.pem()), ("key.pem", key.serialize_pem())] {
        std::fs::write(directory.join("new"), text).unwrap();
        std::fs::rename(directory.join("new"), directory.join(name)).unwrap();
    }
    leaf.der().to_vec()
}

/// Returns the certificate that the server at a port shows.
fn certificate(port: &str, roots: &Path) -> Vec<u8> {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(roots).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(format!("localhost:{port}")).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

fn send(
    http: &mut Http,
    method: &'static str,
    url: String,
    token: &str,
    body: &[u8],
) -> Result<Response, Failure> {
    let digest = STANDARD.encode(hmac_sha256::Hash::hash(body));
    let mut headers = vec![("Authorization".to_owned(), format!("Bearer {token}"))];
    if method == "PUT" {
        let more = [
            ("Content-Encoding", "zstd".to_owned()),
            ("Content-Digest", format!("sha-256=:{digest}:")),
            ("X-Tracetee-Meta", URL_SAFE_NO_PAD.encode("{\"window\":\"w\"}")),
            ("Content-Length", body.len().to_string()),
        ];
        headers.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    http.send(&Request {
        method,
        url,
        headers,
        body: if method == "PUT" { Body::Bytes(body) } else { Body::None },
        timeout: Duration::from_secs(20),
        max_answer_bytes: 10_000,
        stop: &AtomicBool::new(false),
    })
}

#[test]
fn a_hangup_under_load_loses_no_upload_and_serves_new_tokens_and_a_new_certificate() {
    let directory = TempDir::new().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let (tokens, roots) = (directory.path().join("tokens"), directory.path().join("ca.pem"));
    std::fs::write(&roots, authority.pem()).unwrap();
    std::fs::write(&tokens, format!("com.example {TOKEN}\ncom.example {REVOKED}\n")).unwrap();
    let first = certify(directory.path(), &authority);
    let options = ["--token-file", "tokens", "--tls-cert", "chain.pem", "--tls-key", "key.pem"];
    let collector = Collector::start_in(directory, &options);
    let port = collector.url.rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}");
    let roots = collector.directory.path().join("ca.pem");
    assert_eq!(certificate(port, &roots), first);
    let status = |token: &str| {
        let mut http = Http::new(Some(&roots)).unwrap();
        send(&mut http, "GET", format!("{url}/v1/config"), token, b"").unwrap().status
    };
    assert_eq!(status(REVOKED), 404, "there is no configuration, and it is known");

    let hang_up = || {
        let pid = i32::try_from(collector.process.id()).unwrap();
        // SAFETY: a process of ours.
        unsafe { libc::kill(pid, libc::SIGHUP) };
    };
    let (sent, other) = (AtomicU64::new(0), AtomicU64::new(0));
    let ids = |device: u64| {
        (0..CAPTURES).map(move |number| format!("019a1fd7-2955-7cfa-a44a-{device:04x}{number:08x}"))
    };
    let hangups = std::thread::scope(|scope| {
        let devices: Vec<_> = (0..DEVICES)
            .map(|device| {
                let (roots, url, sent, other) = (&roots, &url, &sent, &other);
                scope.spawn(move || {
                    // Half of the devices keep their connection, half make new ones.
                    let mut http = Http::new(Some(roots)).unwrap();
                    for id in ids(device) {
                        if device % 2 == 1 {
                            http = Http::new(Some(roots)).unwrap();
                        }
                        let body =
                            zstd::bulk::compress(format!("# tracer: nop\n{id}\n").as_bytes(), 1)
                                .unwrap();
                        let url = format!("{url}/v1/captures/{id}");
                        let answer = send(&mut http, "PUT", url, TOKEN, &body);
                        if !answer.is_ok_and(|answer| answer.status == 201) {
                            other.fetch_add(1, Ordering::Relaxed);
                        }
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut hangups = 0;
        while devices.iter().any(|device| !device.is_finished()) {
            hang_up();
            hangups += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        hangups
    });
    assert!(hangups > 5, "{hangups}");
    assert_eq!((sent.into_inner(), other.into_inner()), (DEVICES * CAPTURES, 0));
    let stored: BTreeSet<String> = collector
        .files("raw")
        .iter()
        .filter_map(|path| {
            path.file_name()?.to_str()?.strip_suffix(".ftrace.zst").map(str::to_owned)
        })
        .collect();
    assert_eq!(stored, (0..DEVICES).flat_map(ids).collect());

    std::fs::write(&tokens, format!("com.example {TOKEN}\n")).unwrap();
    let second = certify(collector.directory.path(), &authority);
    hang_up();
    let since = Instant::now();
    // It may take as long as it must; the time is printed.
    assert!((0..1000).any(|_| status(REVOKED) == 401), "the revoked token is still accepted");
    println!(
        "{hangups} hangups; the revoked token was refused after {} ms",
        since.elapsed().as_millis()
    );
    assert_eq!(status(TOKEN), 404, "the other token stays");
    assert!(certificate(port, &roots) == second && first != second);
}
