//! Fuzzes input that the uploader reads: names in its spool, frames of a capture, headers of an
//! answer. The bytes are a small spool: lines are names of files in its directories, the rest is
//! the content of the first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tracetee_protocol::CaptureMeta;
use tracetee_uploader::{
    Conditions, Endpoint, NetState, Now, Quota, Request, Response, Spool, Uploader, policy,
};

const NOW: Now = Now { boot: 1, boot_ms: 1_000_000, real_ms: 1_700_000_000_000 };

fuzz_target!(|bytes: &[u8]| {
    let (head, content) = match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &bytes[..0]),
    };
    let text = String::from_utf8_lossy(head);
    let _ = policy::retry_after(&text);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut spool = Spool::open(directory.path()).expect("a spool");
    for (line, directory_of_it) in
        text.lines().zip(["ready", "rec", "state", "sending", "lost"].iter().cycle())
    {
        let name: String =
            line.chars().filter(|&char| char != '/' && char != '\0').take(80).collect();
        if !name.is_empty() && name != "." && name != ".." {
            let _ = std::fs::write(directory.path().join(directory_of_it).join(name), content);
        }
    }
    // A capture of our own, whatever its bytes are.
    let recording = spool.begin("w", 0, NOW).expect("a name");
    std::fs::write(recording.path(), content).expect("a file");
    let quota = Quota { capture_bytes: 300, ..Quota::default() };
    let _ = spool.seal(recording, &quota, NOW);
    if let Some(recovery) = spool.lock_recovery() {
        for taken in spool.recover(&recovery, &quota, NOW) {
            let _ = taken;
        }
    }
    let endpoint = Endpoint::new("https://c.example", None, false).expect("an address");
    let mut uploader = Uploader::new(spool, endpoint, CaptureMeta::default());
    let conditions =
        Conditions { net: NetState::MAINS, quota, urgent: true, ..Conditions::default() };
    let headers = text.lines().filter_map(|line| line.split_once(':'));
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut transport = |_: &Request<'_>| {
        let status = u16::from(*content.first().unwrap_or(&200)) * 4;
        Ok(Response { status, headers: headers.clone(), body: content.to_vec() })
    };
    let pass = uploader.pass(&mut transport, &conditions, &|| NOW, &AtomicBool::new(false));
    assert!(pass.again <= Duration::from_secs(24 * 3600));
    let _ = uploader.status(NOW);
});
