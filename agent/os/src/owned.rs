//! Descriptors that stay open for a while, in a process whose program may close any number.
//!
//! A program that closes every descriptor from 3 on closes ours, and the next file that it opens gets one of those
//! numbers. So the object behind a number is compared with the one that was opened, before each use and before
//! the close. (A program that closes it between the comparison and the use cannot be noticed.)

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};

/// A file or socket that is used, and closed at the end, only while its number leads to it.
#[derive(Debug)]
pub struct Owned<T: AsRawFd> {
    value: ManuallyDrop<T>,
    identity: Option<Identity>,
}

impl<T: AsRawFd> Owned<T> {
    /// Takes `value`, which was opened just now.
    pub fn new(value: T) -> Self {
        let identity = identity(value.as_raw_fd());
        Self { value: ManuallyDrop::new(value), identity }
    }

    /// Returns the file or socket.
    ///
    /// # Errors
    /// EBADF if the program has closed it, whatever the number leads to now.
    pub fn get(&self) -> io::Result<&T> {
        self.if_open().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    /// Returns the file or socket unless the program has closed it.
    pub fn if_open(&self) -> Option<&T> {
        self.is_open().then_some(&*self.value)
    }

    /// Returns the file or socket, for a caller that detects from its content whether the program has closed it.
    pub fn unchecked(&self) -> &T {
        &self.value
    }

    /// False once the program has closed it.
    pub fn is_open(&self) -> bool {
        self.identity.is_some() && identity(self.value.as_raw_fd()) == self.identity
    }
}

impl<T: AsRawFd> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.is_open() {
            // SAFETY: the value is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Device and inode, also for a socket.
type Identity = (u64, u64);

/// The object that a number leads to; `None` if it is closed.
#[allow(clippy::useless_conversion, reason = "an inode's number has 32 bits on 32-bit ARM Linux")]
fn identity(fd: RawFd) -> Option<Identity> {
    // SAFETY: an all-zero stat64 is a valid value of a plain C structure.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: any number may be asked about; the kernel writes to our stat.
    let status = unsafe { libc::fstat64(fd, &raw mut stat) };
    (status == 0).then(|| (u64::from(stat.st_dev), u64::from(stat.st_ino)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_number_that_the_program_has_given_to_a_file_of_its_own_is_neither_used_nor_closed() {
        let directory = tempfile::tempdir().unwrap();
        let ours = Owned::new(File::create(directory.path().join("ours")).unwrap());
        let socket = Owned::new(UnixListener::bind(directory.path().join("socket")).unwrap());
        assert!(ours.get().is_ok() && socket.get().is_ok());
        let mut theirs = File::create(directory.path().join("theirs")).unwrap();
        for number in [ours.value.as_raw_fd(), socket.value.as_raw_fd()] {
            // SAFETY: two open descriptors; what the second was is closed.
            assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        }
        let error = ours.get().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        assert!(!socket.is_open());
        let numbers = [ours.value.as_raw_fd(), socket.value.as_raw_fd()];
        drop((ours, socket));
        for number in numbers {
            assert!(identity(number).is_some(), "the program's own descriptor was closed");
            // SAFETY: the copy made above.
            unsafe { libc::close(number) };
        }
        theirs.write_all(b"x").unwrap();
    }

    #[test]
    fn a_descriptor_that_nobody_else_has_closed_is_closed_at_the_end() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        drop(Owned::new(one));
        let error = (&other).write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
}
