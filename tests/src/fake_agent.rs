//! A fake agent: listens on the control socket of the test's own process, gives every request the same
//! answer, and remembers the requests.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Arc, Mutex};

/// Answers of agents of other versions: fields renamed, fields that nobody knows, another or no
/// protocol version, no report at all.
pub const OTHER_VERSIONS: &[(&str, &str)] = &[
    (
        r#"{"headline":null,"recording":true,"colour":"red","summary":{"lines":{"B":7}},"health":
            {"version":"9.0","process":1,"libcutils":[],"hooked":{"slots":12,"libraries":3}}}"#,
        "\"9.0\", no protocol version",
    ),
    (
        r#"{"version":"9.0","protocol":900,"recording":true,"health":{"pid":1,"hooked_slots":0}}"#,
        "\"9.0\", protocol version 900",
    ),
    (r#"{"protocol":"1","error":"the user does not consent"}"#, "unknown, no protocol version"),
    ("null", "unknown, no protocol version"),
    ("tracetee 9.0\n", "unknown, no protocol version"),
];

/// The fake agent of this process; there is room for one.
#[derive(Debug)]
pub struct FakeAgent {
    answer: Arc<Mutex<String>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeAgent {
    /// Listens until the process ends.
    #[must_use]
    pub fn listen() -> Self {
        let name = format!("tracetee-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let fake = Self { answer: Arc::default(), requests: Arc::default() };
        let (answer, requests) = (Arc::clone(&fake.answer), Arc::clone(&fake.requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = String::new();
                BufReader::new(&stream).read_line(&mut request).unwrap();
                requests.lock().unwrap().push(request);
                let answer = answer.lock().unwrap().clone();
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        fake
    }

    /// Answers so from now on.
    pub fn answer(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().unwrap());
    }

    /// Returns the requests since the last call.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}
