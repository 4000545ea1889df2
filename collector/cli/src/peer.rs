//! Sockets of agents: `@tracetee-PID`, an abstract name that any user of the machine can take. `doctor` and
//! `atrace` speak only with the process that they mean.

use rustix::net::sockopt::socket_peercred;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use tracetee_protocol::control_socket;

/// Connects to the agent of a process.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] when another process listens under its name; otherwise the kernel's error.
pub(crate) fn connect(pid: u32) -> Result<UnixStream> {
    let address = SocketAddr::from_abstract_name(control_socket::name(pid))?;
    let stream = UnixStream::connect_addr(&address)?;
    let listens = socket_peercred(&stream)?;
    // The kernel reports the listener: it must be the process in the name, in this pid namespace.
    let listener = listens.pid.as_raw_nonzero();
    if u32::try_from(listener.get()) == Ok(pid) {
        return Ok(stream);
    }
    Err(Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "process {listener} of user {} listens on its socket name; its answers are ignored",
            listens.uid.as_raw()
        ),
    ))
}

/// Sends a line, and reads the complete answer.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] when the agent refuses this user.
pub(crate) fn ask(mut stream: impl Read + Write, line: &str) -> Result<Vec<u8>> {
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.is_empty() {
        let why = "the agent refuses this user; run as the same user, as root or as the shell";
        return Err(Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_under_the_name_of_another_process_is_not_believed() {
        let listen = |pid: u32| {
            let name = SocketAddr::from_abstract_name(format!("tracetee-{pid}")).unwrap();
            UnixListener::bind_addr(&name).unwrap()
        };
        // A process id that no process has.
        let _other = listen(0x7fff_fff0);
        let error = connect(0x7fff_fff0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("are ignored"), "{error}");
        let _own = listen(std::process::id());
        assert!(connect(std::process::id()).is_ok());
    }
}
