//! The transport of our own, beside what the chaos shows: it gives up, it can be stopped, it follows
//! nobody.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Failure, Request, Response, Transport};

/// Serves one connection with `serve`; gives the address.
fn server(serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(listener.accept().unwrap().0));
    format!("http://{address}/v1/captures/x")
}

fn send(url: &str, body: Body<'_>, bytes: u64, stop: &AtomicBool) -> Result<Response, Failure> {
    let request = Request {
        method: "PUT",
        url: url.to_owned(),
        headers: vec![("Content-Length".to_owned(), bytes.to_string())],
        body,
        timeout: Duration::from_millis(500),
        max_answer_bytes: 1000,
        stop,
    };
    Http::new(None).unwrap().send(&request)
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let url = server(|stream| {
        std::thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let answer = send(&url, Body::Bytes(b"abc"), 3, &AtomicBool::new(false));
    assert!(matches!(&answer, Err(Failure::Broken(why)) if why.contains("timeout")), "{answer:?}");
}

#[test]
fn nobody_there_and_no_such_host_are_told_from_what_broke_off() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("http://{free}/x"), "http://no-such-host.invalid/x".to_owned()] {
        let answer = send(&url, Body::Bytes(b"abc"), 3, &AtomicBool::new(false));
        assert!(matches!(answer, Err(Failure::Unreachable(_))), "{url}: {answer:?}");
    }
    let missing = Body::File { path: Path::new("/nonexistent"), bytes: 3 };
    let answer = send(&format!("http://{free}/x"), missing, 3, &AtomicBool::new(false));
    assert!(matches!(&answer, Err(Failure::Unreachable(why)) if why.contains("/nonexistent")));
}

#[test]
fn a_body_on_its_way_is_stopped() {
    // More than sockets hold, to a server that reads a little and then sets the wish.
    static STOP: AtomicBool = AtomicBool::new(false);
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = 64 << 20;
    file.as_file().set_len(bytes).unwrap();
    let url = server(|mut stream| {
        let mut some = [0; 10_000];
        stream.read_exact(&mut some).unwrap();
        STOP.store(true, Ordering::Relaxed);
        while stream.read(&mut some).is_ok_and(|read| read > 0) {}
    });
    let answer = send(&url, Body::File { path: file.path(), bytes }, bytes, &STOP);
    assert!(
        matches!(&answer, Err(Failure::Broken(why)) if why.contains("a stop was requested")),
        "{answer:?}"
    );
}

#[test]
fn a_redirect_is_an_answer_and_nobody_is_asked_there() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let location = elsewhere.local_addr().unwrap();
    for status in [301, 302, 303, 307, 308] {
        let url = server(move |mut stream| {
            let mut some = [0; 4096];
            let _ = stream.read(&mut some).unwrap();
            let head = format!(
                "HTTP/1.1 {status} X\r\nLocation: http://{location}/\r\nContent-Length: 0\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
        });
        let answer = send(&url, Body::Bytes(b"abc"), 3, &AtomicBool::new(false)).unwrap();
        assert_eq!(answer.status, status);
    }
    assert!(elsewhere.accept().is_err(), "somebody came");
}
