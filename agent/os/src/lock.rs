//! Advisory locks on files, with which the processes of an app avoid interfering with each other.
//!
//! `std::fs::File::try_lock` is `Unsupported` on Android before Rust 1.98, although every kernel
//! has flock(2). The kernel drops such a lock when the last copy of the descriptor is closed,
//! however the process ends.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Locks `file` exclusively, without waiting. `false` when another open file holds the lock.
///
/// # Errors
/// The kernel's, for instance where the file system has no locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        // SAFETY: plain system call on an open descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(false),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Locks these bytes of `file`, which need not exist, without waiting. `false` when another process holds the lock; this
/// one may lock them again. The kernel drops such a lock when the process closes any descriptor of the file,
/// however it ends. A forked child does not have it.
///
/// # Errors
/// The kernel's, for instance where the file system has no locks.
pub fn try_lock_bytes(file: &File, bytes: Range<usize>) -> io::Result<bool> {
    match set_lock(file, libc::F_WRLCK, &bytes) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        locked => locked.map(|()| true),
    }
}

/// Frees the lock on these bytes.
pub fn unlock_bytes(file: &File, bytes: Range<usize>) {
    let _ = set_lock(file, libc::F_UNLCK, &bytes);
}

fn set_lock(file: &File, kind: libc::c_int, bytes: &Range<usize>) -> io::Result<()> {
    let number = |value: usize| libc::off_t::try_from(value).map_err(io::Error::other);
    // SAFETY: an all-zero flock is a valid value of a plain C structure.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind.try_into().map_err(io::Error::other)?;
    lock.l_whence = libc::SEEK_SET.try_into().map_err(io::Error::other)?;
    (lock.l_start, lock.l_len) = (number(bytes.start)?, number(bytes.len())?);
    // SAFETY: plain system call on an open descriptor and a lock that is filled in.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_keeps_others_out_until_its_file_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = File::create(&path).unwrap();
        let second = File::open(&path).unwrap();
        assert!(try_lock(&first).unwrap());
        assert!(try_lock(&first).unwrap(), "its holder may ask again");
        assert!(!try_lock(&second).unwrap());
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(!try_lock(&second).unwrap(), "a copy of the descriptor holds it as well");
        drop(copy);
        assert!(try_lock(&second).unwrap());
    }
}
