//! Watches loads on glibc: hooks `dlopen` and `dlsym`, and keeps their caller visible if it matters.
//! Runs on the app's threads, inside their calls. The proxies are assembly, because only a jump keeps
//! the return address.

use super::changed;
use crate::foreign_fn;
use crate::hook::{Hook, Proxy};
use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

type Dlopen = foreign_fn!(fn(*const c_char, c_int) -> *mut c_void);

static DLOPEN: AtomicUsize = AtomicUsize::new(0);
static DLSYM: AtomicUsize = AtomicUsize::new(0);

// SAFETY: `dlopen_proxy` has dlopen's signature and passes on to DLOPEN.
static DLOPEN_PROXY: [Proxy; 1] = [unsafe { Proxy::new(dlopen_proxy as *const (), &DLOPEN) }];
// SAFETY: `dlsym_proxy` has dlsym's signature and passes on to DLSYM.
static DLSYM_PROXY: [Proxy; 1] = [unsafe { Proxy::new(dlsym_proxy as *const (), &DLSYM) }];

static HOOKS: [Hook; 2] = [
    Hook { symbol: "dlopen", proxies: &DLOPEN_PROXY },
    Hook { symbol: "dlsym", proxies: &DLSYM_PROXY },
];

pub(super) fn hooks() -> &'static [Hook] {
    &HOOKS
}

/// dlopen(name, flags): asks [`caller_matters`], then either jumps to the real dlopen as if it had
/// been called directly, or to [`dlopen_and_look`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dlopen_proxy() {
    naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {caller_matters}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test al, al",
        "jz {dlopen_and_look}",
        "jmp [rip + {previous}]",
        caller_matters = sym caller_matters,
        dlopen_and_look = sym dlopen_and_look,
        previous = sym DLOPEN,
    )
}

/// dlsym(handle, name): looks for new libraries, then jumps to the real dlsym.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dlsym_proxy() {
    naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {look}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp [rip + {previous}]",
        look = sym look,
        previous = sym DLSYM,
    )
}

/// As on x86-64; `hint #34` is `bti c`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dlopen_proxy() {
    naked_asm!(
        "hint #34",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {caller_matters}",
        "mov w9, w0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "tst w9, #0xff",
        "b.ne 2f",
        "b {dlopen_and_look}",
        "2:",
        "adrp x16, {previous}",
        "ldr x16, [x16, :lo12:{previous}]",
        "br x16",
        caller_matters = sym caller_matters,
        dlopen_and_look = sym dlopen_and_look,
        previous = sym DLOPEN,
    )
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn dlsym_proxy() {
    naked_asm!(
        "hint #34",
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {look}",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "adrp x16, {previous}",
        "ldr x16, [x16, :lo12:{previous}]",
        "br x16",
        look = sym look,
        previous = sym DLSYM,
    )
}

unsafe extern "C-unwind" fn dlopen_and_look(name: *const c_char, flags: c_int) -> *mut c_void {
    // ORDERING: Relaxed; set before the first slot that leads here.
    let address = DLOPEN.load(Ordering::Relaxed);
    // SAFETY: what dlsym gave, or the slot held: a function of this type.
    let previous = unsafe { std::mem::transmute::<usize, Dlopen>(address) };
    // SAFETY: the caller's own arguments.
    let handle = unsafe { previous(name, flags) };
    look();
    handle
}

/// Hooks new libraries.
extern "C" fn look() {
    changed();
}

/// True if dlopen's result may depend on the library that calls it. Its RPATH and those of its loaders count for a name
/// without a slash, and `$ORIGIN` is its directory.
extern "C" fn caller_matters(name: *const c_char) -> bool {
    // SAFETY: dlopen's argument is null or a C string.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes());
    if name.is_some_and(|name| name.contains(&b'/') && !name.contains(&b'$')) {
        return false;
    }
    look();
    true
}
