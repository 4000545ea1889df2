//! The agent's socket: answers tools on the device about this process.
//!
//! An abstract unix socket `@tracetee-PID`, on a thread of its own that waits in `poll`. It answers the
//! same user, root and Android's shell, and hangs up on others. A request is a line: `health`, or
//! `atrace` and JSON (`{"start": {…}}`, `"dump"`, `"stop"`). The answer is JSON; for dump and stop a
//! line of JSON and then the text.

use crate::own_threads::Own;
use std::io::{ErrorKind, Read, Write};
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
use std::os::fd::{AsRawFd, RawFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tracetee_os::guard;
use tracetee_protocol::control_socket::{self, AtraceRequest, Reply};
use tracetee_protocol::json::quoted;

/// Android's shell user.
const SHELL_UID: u32 = 2000;
/// Time limit for a client's line, and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a client could not be accepted.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Bytes of a request.
const MAX_REQUEST_BYTES: usize = 4096;

/// The listening descriptor, −1 for none: a forked child closes it.
static LISTENING: AtomicI32 = AtomicI32::new(-1);

/// The socket while it is open.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: RawFd,
    thread: Option<JoinHandle<()>>,
}

impl Socket {
    /// Opens the socket. A process that gets none goes on without.
    pub(crate) fn open() -> Option<Self> {
        let name = control_socket::name(std::process::id());
        let address = SocketAddr::from_abstract_name(name).ok()?;
        let listener = tracetee_os::above_standard(|| UnixListener::bind_addr(&address)).ok()?;
        // It waits in `poll`, where no descriptor is kept free for a client.
        listener.set_nonblocking(true).ok()?;
        let fd = listener.as_raw_fd();
        // ORDERING: Relaxed; read by a forked child, which has one thread.
        LISTENING.store(fd, Ordering::Relaxed);
        let serve = move || {
            let _own = Own::register();
            tracetee_os::block_write_signals();
            while let Some(stream) = next_client(&listener) {
                // A client that hangs up is no error of ours.
                if let Err(stopped) = guard::run(|| answer(&stream)) {
                    let answer = || answer_after_panic(&stream);
                    if stopped.is_fresh() || guard::catch(answer).is_err() {
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("tracetee-ctl".to_owned()).spawn(serve);
        Some(Self { fd, thread: Some(thread.ok()?) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        LISTENING.store(-1, Ordering::Relaxed);
        // SAFETY: the listener is open until its thread ends, and this shutdown ends it.
        unsafe { libc::shutdown(self.fd, libc::SHUT_RDWR) };
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// In a forked child: closes its copy of the socket, whose name is the parent's.
pub(crate) fn reset_after_fork() {
    let fd = LISTENING.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: the child's copy of the listener, which no thread of the child uses.
        unsafe { libc::close(fd) };
    }
}

/// Counts the clients that could not be accepted, for the health report.
pub(crate) fn refused() -> u64 {
    // ORDERING: Relaxed; a number for the report.
    REFUSED.load(Ordering::Relaxed)
}

static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Waits for a client; `None` when the socket is shut down.
fn next_client(listener: &UnixListener) -> Option<UnixStream> {
    loop {
        let mut wait = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd.
        unsafe { libc::poll(&raw mut wait, 1, -1) };
        let accepted = tracetee_os::above_standard(|| listener.accept());
        match accepted {
            Ok((stream, _)) => return Some(stream),
            // ORDERING: Relaxed; `drop` sets it before it shuts the socket down.
            Err(_) if LISTENING.load(Ordering::Relaxed) < 0 => return None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {
                // The process has no descriptor left, say; the client waits.
                REFUSED.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(BACK_OFF);
            }
        }
    }
}

fn answer(mut stream: &UnixStream) -> std::io::Result<()> {
    if !is_trusted(stream) {
        return Ok(());
    }
    let request = read_request(stream)?;
    guard::planted("socket");
    if let Some(request) = request.strip_prefix(control_socket::ATRACE.as_bytes()) {
        return atrace(stream, request);
    }
    let text = if request == control_socket::HEALTH.as_bytes() {
        match super::stats() {
            Some(report) => report.to_json(),
            None => refuse("nothing is known yet"),
        }
    } else {
        let request = String::from_utf8_lossy(&request);
        refuse(&format!("unknown request {}; known: health, atrace", quoted(&request)))
    };
    stream.write_all(text.as_bytes())
}

fn read_request(mut stream: &UnixStream) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut byte = [0];
    while request.len() < MAX_REQUEST_BYTES && stream.read(&mut byte)? == 1 && byte != *b"\n" {
        request.push(byte[0]);
    }
    Ok(request)
}

/// Answers after a panic on another thread: the health report says why, everything else is refused.
fn answer_after_panic(mut stream: &UnixStream) -> std::io::Result<()> {
    if !is_trusted(stream) {
        return Ok(());
    }
    let request = read_request(stream)?;
    let text = match super::report_after_panic() {
        Some(report) if request == control_socket::HEALTH.as_bytes() => report.to_json(),
        _ => refuse(guard::reason().unwrap_or_default()),
    };
    stream.write_all(text.as_bytes())
}

/// True while a thread answers.
pub(crate) fn is_open() -> bool {
    // ORDERING: Relaxed; a descriptor's number.
    LISTENING.load(Ordering::Relaxed) >= 0
}

/// Ends the thread that answers, after a panic: nobody can drop the [`Socket`] then.
pub(crate) fn shut() {
    let fd = LISTENING.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: the listener is open until its thread ends, and this shutdown ends it.
        unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
    }
}

fn refuse(why: &str) -> String {
    Reply::refuse(why).to_json() + "\n"
}

/// Starts a capture for the client, or sends the text of one.
fn atrace(mut stream: &UnixStream, request: &[u8]) -> std::io::Result<()> {
    let accepted = Reply::default().to_json() + "\n";
    let asked = AtraceRequest::from_json(request).map_err(|wrong| wrong.to_string());
    match asked.and_then(super::capture_on_device) {
        Err(why) => stream.write_all(refuse(&why).as_bytes()),
        Ok(None) => stream.write_all(accepted.as_bytes()),
        Ok(Some(path)) => {
            let text = tracetee_os::open(&path);
            // The client alone reads it: the file goes at once.
            let _ = std::fs::remove_file(&path);
            stream.write_all(accepted.as_bytes())?;
            copy(&mut text?, stream)
        }
    }
}

fn copy(from: &mut std::fs::File, mut to: &UnixStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => to.write_all(buffer.get(..bytes).unwrap_or_default())?,
        }
    }
}

/// Returns true if the client is the same user, root, or the shell.
fn is_trusted(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = libc::socklen_t::try_from(size_of_val(&peer)).unwrap_or(0);
    // SAFETY: a valid socket, and a place of the size given.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    // SAFETY: takes nothing, cannot fail.
    let own = unsafe { libc::getuid() };
    status == 0 && [own, 0, SHELL_UID].contains(&peer.uid)
}
