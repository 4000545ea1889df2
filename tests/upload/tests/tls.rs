//! TLS against a real server: who is not who it says is refused, and the error says why.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracetee_protocol::CaptureMeta;
use tracetee_tests_upload::{Numbers, at_ms, write_capture};
use tracetee_uploader::http::Http;
use tracetee_uploader::{
    Conditions, Endpoint, Error, NetState, Pass, Quota, Spool, UploadStatus, Uploader,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "the trial's authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server that answers 201 to whatever it can decrypt. Gives its address on `host`.
fn serve(host: &str, certificate: CertificateDer<'static>, key: &KeyPair) -> String {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                // All of a small request; a client that does not trust us hangs up here.
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(bytes) if bytes > 0 => request.extend_from_slice(&buffer[..bytes]),
                        _ => return,
                    }
                }
                let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
                let len = head.split("content-length: ").nth(1).unwrap();
                let len: usize = len.split("\r\n").next().unwrap().parse().unwrap();
                let begin = request.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
                let mut rest = vec![0; len - (request.len() - begin)];
                stream.read_exact(&mut rest).unwrap();
                stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").unwrap();
                stream.flush().unwrap();
            });
        }
    });
    format!("https://{host}:{port}")
}

fn leaf(
    issuer: &Authority,
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> (CertificateDer<'static>, KeyPair) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().der().clone(), key)
}

/// One capture to that server, with those roots.
fn send(url: &str, ca_file: Option<&Path>) -> (Pass, UploadStatus) {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(directory.path()).unwrap();
    let recording = spool.begin("w", 0, at_ms(0)).unwrap();
    write_capture(recording.path(), 1, &mut Numbers(1));
    spool.seal(recording, &Quota::default(), at_ms(0)).unwrap();
    let endpoint = Endpoint::new(url, Some("t0ken"), false).unwrap();
    let mut uploader = Uploader::new(spool, endpoint, CaptureMeta::default());
    let conditions = Conditions { net: NetState::MAINS, poll: None, ..Conditions::default() };
    let mut http = Http::new(ca_file).unwrap();
    let pass = uploader.pass(&mut http, &conditions, &|| at_ms(0), &AtomicBool::new(false));
    (pass, uploader.status(at_ms(0)))
}

#[test]
fn only_the_server_that_is_meant_gets_a_capture() {
    let authority = authority();
    let directory = tempfile::tempdir().unwrap();
    let roots = directory.path().join("ca.pem");
    std::fs::write(&roots, authority.pem()).unwrap();

    let (good, key) = leaf(&authority, "localhost", |_| {});
    let url = serve("localhost", good, &key);
    let (pass, status) = send(&url, Some(&roots));
    assert_eq!((pass.held, status.delivered), (None, 1));

    let refused = |url: &str, ca_file: Option<&Path>, why: &str| {
        let (pass, status) = send(url, ca_file);
        let held = pass.held.unwrap();
        assert!(held.starts_with(url) && held.contains(why), "{held}");
        // It waits, and it is not its fault.
        assert_eq!((status.waiting, status.failures), (1, 1));
    };
    refused(&url, None, "UnknownIssuer");
    let (wrong, key) = leaf(&authority, "elsewhere.example", |_| {});
    refused(&serve("localhost", wrong, &key), Some(&roots), "not valid for name");
    let (expired, key) = leaf(&authority, "localhost", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    refused(&serve("localhost", expired, &key), Some(&roots), "expired");
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    refused(&serve("localhost", own.der().clone(), &key), Some(&roots), "UnknownIssuer");
}

#[test]
fn roots_that_are_none_are_refused_before_anything_is_sent() {
    let missing = Http::new(Some(Path::new("/nonexistent/ca.pem"))).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read /nonexistent/ca.pem"), "{missing}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no certificate").unwrap();
    let error = Http::new(Some(file.path())).unwrap_err();
    assert!(matches!(error, Error::Config { field: "ca_file", .. }), "{error}");
}
