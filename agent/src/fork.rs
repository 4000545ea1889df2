//! Forks of the process: what the agent resets in the child, and in which order.
//!
//! [`watch`] is called before the first capture and before the agent is installed. The handlers run on the thread that
//! forks; the child has no other thread, and a lock that another thread of the parent held stays held in the child. Children
//! of a raw `clone` run no handlers: see [`session::is_another_process`].

use crate::capture::tag_watch;
use crate::controller::{control_socket, daily_ledger, process_signals};
use crate::{capture, controller, listener, own_threads, section};
use std::sync::Once;
use tracetee_os::guard;
use tracetee_recorder::{errno, session};

/// Registers the handlers, once in a process.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: handlers of the right type. When they cannot be registered (no memory), a forked
        // child of a file recorder shares its parent's blocks until it execs.
        unsafe {
            libc::pthread_atfork(
                Some(tag_watch::before_fork),
                Some(tag_watch::after_fork_in_parent),
                Some(reset_child),
            )
        };
    });
}

extern "C" fn reset_child() {
    // Recording first: the child's own writes must not reach the parent's recorder.
    session::forget_after_fork();
    section::set_ready_quietly(false);
    tag_watch::reset_after_fork();
    let errno = errno::Saved::now();
    let is_installed = controller::is_installed();
    if is_installed {
        tracetee_hooks::ignore_later_libraries();
        process_signals::reset_after_fork();
        daily_ledger::reset_after_fork();
        own_threads::forget_after_fork();
        control_socket::reset_after_fork();
    }
    // After a panic in the parent, there is nothing to continue.
    let _ = guard::run(|| {
        guard::planted("fork");
        if is_installed {
            controller::reset_after_fork();
        }
        capture::reset_after_fork();
        listener::reset_after_fork();
    });
    errno.restore();
}
