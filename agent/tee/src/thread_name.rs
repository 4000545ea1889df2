//! Notices when a thread gets a name, so that its later records carry the name.
//!
//! `prctl(PR_SET_NAME)` and `pthread_setname_np` are hooked: the thread's next record leases its
//! block anew, with the kernel's current name. A name that is set in another way (a write to
//! `/proc/self/task/TID/comm`) is noticed with the next block, or at the end.
//!
//! The proxy of `prctl` also notices `PR_SET_TSC`, after which no clock can be read, and strict `PR_SET_SECCOMP`, in which
//! the kernel kills a thread for any call but read, write, exit and sigreturn. Recording ends there. (Not noticed: the same
//! by `syscall(SYS_seccomp)`, or by the program's own instructions.)

use crate::chain::{CHAIN, proxies};
use crate::tag_words;
use libc::{c_char, c_int, c_ulong, pthread_t};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tracetee_hooks::{Proxy, foreign_fn};
use tracetee_recorder::clock;
use tracetee_recorder::{session, thread};

/// prctl is variadic; all its arguments are register-sized integers.
type Prctl = foreign_fn!(fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int);
type SetName = foreign_fn!(fn(pthread_t, *const c_char) -> c_int);

static PREVIOUS_PRCTL: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];
static PREVIOUS_SETNAME: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];

pub(crate) static PRCTL: [Proxy; CHAIN] = proxies!(prctl_proxy, PREVIOUS_PRCTL, 0 1 2 3);
pub(crate) static SETNAME: [Proxy; CHAIN] = proxies!(setname_proxy, PREVIOUS_SETNAME, 0 1 2 3);

/// Forbids or allows reading the time stamp counter; and so the vDSO's clocks, which read it.
const PR_SET_TSC: c_int = 26;
/// `PR_SET_SECCOMP`'s mode without a filter.
const SECCOMP_MODE_STRICT: c_ulong = 1;

static IS_STRICT: AtomicBool = AtomicBool::new(false);

/// True if strict seccomp ended a recording.
#[must_use]
pub fn is_strict() -> bool {
    // ORDERING: Relaxed; a flag for the report.
    IS_STRICT.load(Ordering::Relaxed)
}

unsafe extern "C-unwind" fn prctl_proxy<const INDEX: usize>(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    // ORDERING: Relaxed; set before the first slot that leads here, and never to 0 again.
    let address = PREVIOUS_PRCTL[INDEX].load(Ordering::Relaxed);
    // SAFETY: the address of a function with prctl's signature, put there by the registry.
    let previous = unsafe { std::mem::transmute::<usize, Prctl>(address) };
    if option == PR_SET_TSC {
        // Done before reading clocks is forbidden, because it may then raise SIGSEGV.
        clock::forbidden();
        session::switch_off();
        tag_words::give_words_back();
    }
    // SAFETY: the caller's own arguments. Those that it did not give are whatever is in their
    // registers, as they are for the real function.
    let result = unsafe { previous(option, second, third, fourth, fifth) };
    if option == libc::PR_SET_SECCOMP && second == SECCOMP_MODE_STRICT && result == 0 {
        // No system calls from here on.
        session::switch_off();
        tag_words::give_words_back();
        // ORDERING: Relaxed; see `is_strict`.
        IS_STRICT.store(true, Ordering::Relaxed);
    }
    if option == libc::PR_SET_NAME && session::current() != 0 {
        thread::renamed(true);
    }
    result
}

unsafe extern "C-unwind" fn setname_proxy<const INDEX: usize>(
    thread: pthread_t,
    name: *const c_char,
) -> c_int {
    // ORDERING: Relaxed, as above.
    let address = PREVIOUS_SETNAME[INDEX].load(Ordering::Relaxed);
    // SAFETY: as above, with pthread_setname_np's signature.
    let previous = unsafe { std::mem::transmute::<usize, SetName>(address) };
    // SAFETY: the caller's own arguments.
    let result = unsafe { previous(thread, name) };
    if session::current() != 0 {
        // SAFETY: has no arguments, cannot fail.
        let own = unsafe { libc::pthread_self() };
        thread::renamed(thread == own);
    }
    result
}
