//! The agent's socket: answers tools on the device about this process.
//!
//! An abstract unix socket `@tracetee-PID`, on its own thread that waits in `poll`. It answers the
//! same user, root and Android's shell, and hangs up on others. A request is a line: `health`, or
//! `atrace` and JSON (`{"start": {…}}`, `"dump"`, `"stop"`). The answer is JSON; for dump and stop a
//! line of JSON and then the text.
//!
//! The program may close our descriptors and reuse their numbers. The kernel then keeps a socket that is polled, and
//! nothing ends the poll, so the thread looks after its socket from time to time.

use crate::health_report;
use crate::own_threads::Own;
use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use tracetee_os::{OwnThread, Owned, guard};
use tracetee_protocol::control_socket::{self, AtraceRequest, Reply};
use tracetee_protocol::json::quoted;

/// Android's shell user.
const SHELL_UID: u32 = 2000;
/// Time limit for a client's line, and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a client could not be accepted.
const BACK_OFF: Duration = Duration::from_millis(100);
/// The longest wait in `poll`, ms.
const MAX_POLL_MS: i32 = 10_000;
/// Bytes of a request.
const MAX_REQUEST_BYTES: usize = 4096;

/// The listening descriptor, −1 for none: a forked child closes it, and a panic shuts it down.
static LISTENING: AtomicI32 = AtomicI32::new(-1);

/// The socket while it is open.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: Arc<Owned<UnixListener>>,
    thread: Option<OwnThread>,
}

impl Socket {
    /// Opens the socket. A process that gets none continues without it.
    pub(crate) fn open() -> Option<Self> {
        let name = control_socket::name(std::process::id());
        let address = SocketAddr::from_abstract_name(name).ok()?;
        let listener = tracetee_os::above_standard(|| UnixListener::bind_addr(&address)).ok()?;
        // It waits in `poll`, where no descriptor is kept free for a client.
        listener.set_nonblocking(true).ok()?;
        // ORDERING: Relaxed; read by a forked child, which has one thread.
        let number = listener.as_raw_fd();
        LISTENING.store(number, Ordering::Relaxed);
        let listener = Arc::new(Owned::new(listener));
        let served = Arc::clone(&listener);
        let serve = move || {
            let _own = Own::register();
            tracetee_os::block_write_signals();
            while let Some(stream) = next_client(&served) {
                // A client that disconnects is not our error.
                if let Err(stopped) = guard::run(|| answer(&stream)) {
                    let answer = || answer_after_panic(&stream);
                    if stopped.is_fresh() || guard::catch(answer).is_err() {
                        return;
                    }
                }
            }
            // ORDERING: Relaxed; the number no longer belongs to the agent, except to another socket.
            let _ = LISTENING.compare_exchange(number, -1, Ordering::Relaxed, Ordering::Relaxed);
        };
        // Without the dynamic linker's lock, as the agent's thread.
        let thread = tracetee_os::spawn(c"tracetee-ctl", serve);
        Some(Self { listener, thread: Some(thread.ok()?) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        LISTENING.store(-1, Ordering::Relaxed);
        // If the program has closed the socket, the thread ends after its poll.
        if let Ok(listener) = self.listener.get() {
            shut_down(listener.as_raw_fd());
            self.thread.take().into_iter().for_each(OwnThread::join);
        }
    }
}

/// Ends the thread's wait for clients.
fn shut_down(socket: RawFd) {
    // SAFETY: plain system call; the callers have seen that it is our socket.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Takes the number of the socket, if it is open, and still ours: the program may have closed it, and opened
/// something else there.
fn take_listening() -> Option<RawFd> {
    let fd = LISTENING.swap(-1, Ordering::Relaxed);
    if fd < 0 {
        return None;
    }
    // SAFETY: it is only inspected, not closed.
    let listener = ManuallyDrop::new(unsafe { UnixListener::from_raw_fd(fd) });
    let is_ours = |name: &[u8]| name.starts_with(control_socket::NAME_PREFIX.as_bytes());
    listener.local_addr().is_ok_and(|own| own.as_abstract_name().is_some_and(is_ours)).then_some(fd)
}

/// In a forked child: closes its copy of the socket, whose name belongs to the parent.
pub(crate) fn reset_after_fork() {
    if let Some(fd) = take_listening() {
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

/// Waits for a client; `None` when the socket is shut down, or the program has closed it.
fn next_client(listener: &Owned<UnixListener>) -> Option<Owned<UnixStream>> {
    loop {
        let open = listener.get().ok()?;
        let mut wait = libc::pollfd { fd: open.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd.
        unsafe { libc::poll(&raw mut wait, 1, MAX_POLL_MS) };
        // ORDERING: Relaxed; the thread that shuts the socket down has set it before.
        if LISTENING.load(Ordering::Relaxed) != wait.fd || !listener.is_open() {
            return None;
        }
        match tracetee_os::above_standard(|| open.accept()) {
            Ok((stream, _)) => return Some(Owned::new(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {
                // The process has no descriptor left, say; the client waits.
                REFUSED.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(BACK_OFF);
            }
        }
    }
}

fn answer(stream: &Owned<UnixStream>) -> std::io::Result<()> {
    if !is_trusted(stream.get()?) {
        return Ok(());
    }
    let request = read_request(stream.get()?)?;
    guard::planted("socket");
    if let Some(request) = request.strip_prefix(control_socket::ATRACE.as_bytes()) {
        return atrace(stream, request);
    }
    let text = if request == control_socket::HEALTH.as_bytes() {
        match super::health() {
            Some(report) => report.to_json(),
            None => refuse("nothing is known yet"),
        }
    } else {
        let request = String::from_utf8_lossy(&request);
        refuse(&format!("unknown request {}; known: health, atrace", quoted(&request)))
    };
    send(stream, text.as_bytes())
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
fn answer_after_panic(stream: &Owned<UnixStream>) -> std::io::Result<()> {
    if !is_trusted(stream.get()?) {
        return Ok(());
    }
    let request = read_request(stream.get()?)?;
    let text = match health_report::after_panic() {
        Some(report) if request == control_socket::HEALTH.as_bytes() => report.to_json(),
        _ => refuse(guard::reason().unwrap_or_default()),
    };
    send(stream, text.as_bytes())
}

/// True while a thread answers.
pub(crate) fn is_open() -> bool {
    // ORDERING: Relaxed; a descriptor's number.
    LISTENING.load(Ordering::Relaxed) >= 0
}

/// Ends the answering thread after a panic, because then nobody can drop the [`Socket`].
pub(crate) fn shut() {
    if let Some(fd) = take_listening() {
        shut_down(fd);
    }
}

fn refuse(why: &str) -> String {
    Reply::refuse(why).to_json() + "\n"
}

/// Starts a capture for the client, or sends the text of one.
fn atrace(stream: &Owned<UnixStream>, request: &[u8]) -> std::io::Result<()> {
    let accepted = Reply::default().to_json() + "\n";
    let asked = AtraceRequest::from_json(request).map_err(|wrong| wrong.to_string());
    match asked.and_then(super::capture_on_device) {
        Err(why) => send(stream, refuse(&why).as_bytes()),
        Ok(None) => send(stream, accepted.as_bytes()),
        Ok(Some(path)) => {
            let text = tracetee_os::open(&path);
            // Only the client reads it, so the file is deleted at once.
            let _ = std::fs::remove_file(&path);
            send(stream, accepted.as_bytes())?;
            copy(&mut text?, stream)
        }
    }
}

fn send(to: &Owned<UnixStream>, bytes: &[u8]) -> std::io::Result<()> {
    to.get()?.write_all(bytes)
}

fn copy(from: &mut std::fs::File, to: &Owned<UnixStream>) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => send(to, buffer.get(..bytes).unwrap_or_default())?,
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
    // SAFETY: has no arguments, cannot fail.
    let own = unsafe { libc::getuid() };
    status == 0 && [own, 0, SHELL_UID].contains(&peer.uid)
}
