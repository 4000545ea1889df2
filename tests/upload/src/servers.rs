//! Servers of others, from Debian's packages, that `tests/upload/servers` has unpacked into the cache. They run under bubblewrap, with
//! the packages' `/usr/share` in place of the machine's, because their files have fixed places there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tracetee_tests::{cache, skip};

/// Path of a server's program; `None`, with the reason printed, if it is not there.
#[must_use]
pub fn server(path: &str) -> Option<PathBuf> {
    let program = cache("servers").join("root").join(path);
    if program.exists() {
        return Some(program);
    }
    skip(&format!("{} is missing; run tests/upload/servers", program.display()));
    None
}

/// A running server, ended when it is dropped.
pub struct Server(pub Child);

impl Server {
    /// Starts a program in a directory, with its output in `server.log` there.
    pub fn start(program: &Path, arguments: &[&str], directory: &Path) -> Self {
        let log = std::fs::File::create(directory.join("server.log")).unwrap();
        let share = cache("servers").join("root/usr/share");
        let child = Command::new("bwrap")
            .args(["--die-with-parent", "--dev-bind", "/", "/", "--ro-bind"])
            .args([&*share, Path::new("/usr/share"), program])
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of this machine that nobody listens on.
#[must_use]
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
