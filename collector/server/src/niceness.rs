//! Threads of low priority: what can wait leaves the processors to requests.

/// Niceness of such threads: nice(1)'s default.
pub(crate) const LOW: libc::c_int = 10;

/// Lowers the priority of this thread. It cannot take the old one back.
pub(crate) fn lower() {
    // SAFETY: sets a number of this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOW) };
}

/// Returns the niceness of this thread.
#[cfg(test)]
pub(crate) fn of_thread() -> libc::c_int {
    // SAFETY: reads a number of this thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}
