//! A server that does to each request what no client should trust.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Behaviour of the server for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Reads, and says nothing.
    Silent,
    /// Closes at once.
    Closes,
    /// Sends a byte of the header a second.
    SlowHead,
    /// Sends a byte of the body a second.
    SlowBody,
    /// Sends headers without end.
    EndlessHead,
    /// Sends a body without end, after this head.
    EndlessBody(&'static str),
    /// Sends `100 Continue` without end.
    EndlessContinue,
    /// Sends this, and closes.
    Says(String),
    /// Answers no handshake of TLS.
    StalledTls,
    /// Has a name that no resolver knows.
    NoSuchName,
}

/// A running hostile server. It ends with the process.
pub struct Hostile {
    /// URL of the server.
    pub url: String,
    requests: Arc<AtomicUsize>,
    heads: Arc<Mutex<String>>,
}

impl Hostile {
    /// Starts a server.
    #[must_use]
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let url = match behaviour {
            Behaviour::StalledTls => format!("https://{address}"),
            Behaviour::NoSuchName => "http://collector.invalid".to_owned(),
            _ => format!("http://{address}"),
        };
        let (requests, heads) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<String>>::default());
        let (counted, kept) = (Arc::clone(&requests), Arc::clone(&heads));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (behaviour, counted, kept) =
                    (behaviour.clone(), Arc::clone(&counted), Arc::clone(&kept));
                std::thread::spawn(move || {
                    let _ = serve(stream, &behaviour, &counted, &kept);
                });
            }
        });
        Self { url, requests, heads }
    }

    /// Number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// The heads of all requests so far.
    #[must_use]
    pub fn heads(&self) -> String {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    mut stream: TcpStream,
    behaviour: &Behaviour,
    requests: &AtomicUsize,
    heads: &Mutex<String>,
) -> std::io::Result<()> {
    if *behaviour == Behaviour::StalledTls {
        return stream.read_to_end(&mut Vec::new()).map(drop);
    }
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    requests.fetch_add(1, Ordering::Relaxed);
    heads.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&head));
    let slowly = |stream: &mut TcpStream| loop {
        stream.write_all(b"x")?;
        // The behaviour itself: a byte a second.
        std::thread::sleep(Duration::from_secs(1));
    };
    match behaviour {
        Behaviour::Silent | Behaviour::StalledTls | Behaviour::NoSuchName => {
            stream.read_to_end(&mut Vec::new()).map(drop)
        }
        Behaviour::Closes => Ok(()),
        Behaviour::SlowHead => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX: ")?;
            slowly(&mut stream)
        }
        Behaviour::SlowBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            slowly(&mut stream)
        }
        Behaviour::EndlessHead => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                stream.write_all(b"X: y\r\n")?;
            }
        }
        Behaviour::EndlessBody(start) => {
            stream.write_all(start.as_bytes())?;
            let chunk = vec![b' '; 1 << 20];
            loop {
                stream.write_all(&chunk)?;
            }
        }
        Behaviour::EndlessContinue => loop {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        },
        Behaviour::Says(text) => stream.write_all(text.as_bytes()),
    }
}
