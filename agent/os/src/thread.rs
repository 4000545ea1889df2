//! The number by which the kernel knows a thread.

/// Returns the kernel's id of the calling thread, as in the records of a trace.
#[cfg(target_env = "gnu")]
#[allow(clippy::cast_possible_truncation, reason = "a pid_t, which the kernel keeps below 2^22")]
pub fn thread_id() -> i32 {
    // glibc has gettid() since 2.30; a release runs on 2.17.
    // SAFETY: has no arguments, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Returns the kernel's id of the calling thread, as in the records of a trace.
#[cfg(not(target_env = "gnu"))]
#[allow(
    clippy::disallowed_methods,
    reason = "every bionic and musl has it; bionic remembers the number"
)]
pub fn thread_id() -> i32 {
    // SAFETY: has no arguments, cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the kernel has under /proc/thread-self: PROCESS/task/THREAD.
    fn from_proc() -> String {
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        own.file_name().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn each_thread_has_the_number_that_proc_has() {
        assert_eq!(thread_id().to_string(), from_proc());
        std::thread::spawn(|| assert_eq!(thread_id().to_string(), from_proc())).join().unwrap();
    }
}
