//! Notices that libraries are loaded: hooks on the functions that load them.
//!
//! The difficulty is that dynamic linkers look at who calls. glibc's `dlopen` searches the
//! caller's RUNPATH, bionic's takes the caller's namespace: a proxy that calls on in its own name
//! would change what is found, and break the app.
//!
//! - Android 8 and later: libdl's `dlopen` passes its caller on as an argument of `__loader_dlopen`.
//!   Those slots are hooked, the argument is passed through.
//! - Android up to 6: there are no namespaces; `dlopen` itself is hooked.
//! - Android 7: neither holds. Later libraries are found at the next refresh.
//! - glibc, where the proxies are written in assembly (x86-64, AArch64): when the caller's library
//!   has no RPATH or RUNPATH, or the name has a slash, the caller does not matter, and the proxy
//!   calls on. Else it jumps on, leaving the caller in place; then the library is found by the
//!   hook on `dlsym`, without which its code can hardly be reached.
//!
//! All of this runs on the app's threads, inside calls that load libraries: locks and memory are
//! in order there, waiting for our own lock is not (see [`crate::registry`]).

use crate::hook::Hook;

/// The hooks that fit this system.
pub(crate) fn hooks() -> &'static [Hook] {
    system::hooks()
}

#[cfg(target_os = "android")]
mod system {
    use crate::hook::{Hook, Proxy};
    use crate::registry::libraries_changed;
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::{AtomicUsize, Ordering};

    type LoaderDlopen =
        unsafe extern "C-unwind" fn(*const c_char, c_int, *const c_void) -> *mut c_void;
    type LoaderDlopenExt = unsafe extern "C-unwind" fn(
        *const c_char,
        c_int,
        *const c_void,
        *const c_void,
    ) -> *mut c_void;
    type Dlopen = unsafe extern "C-unwind" fn(*const c_char, c_int) -> *mut c_void;
    type DlopenExt =
        unsafe extern "C-unwind" fn(*const c_char, c_int, *const c_void) -> *mut c_void;

    static LOADER_DLOPEN: AtomicUsize = AtomicUsize::new(0);
    static LOADER_DLOPEN_EXT: AtomicUsize = AtomicUsize::new(0);
    static DLOPEN: AtomicUsize = AtomicUsize::new(0);
    static DLOPEN_EXT: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C-unwind" fn loader_dlopen(
        name: *const c_char,
        flags: c_int,
        caller: *const c_void,
    ) -> *mut c_void {
        let address = LOADER_DLOPEN.load(Ordering::Relaxed);
        // SAFETY: what the slot held, a function of this type.
        let previous = unsafe { std::mem::transmute::<usize, LoaderDlopen>(address) };
        // SAFETY: the caller's own arguments.
        let handle = unsafe { previous(name, flags, caller) };
        libraries_changed();
        handle
    }

    unsafe extern "C-unwind" fn loader_dlopen_ext(
        name: *const c_char,
        flags: c_int,
        info: *const c_void,
        caller: *const c_void,
    ) -> *mut c_void {
        let address = LOADER_DLOPEN_EXT.load(Ordering::Relaxed);
        // SAFETY: what the slot held, a function of this type.
        let previous = unsafe { std::mem::transmute::<usize, LoaderDlopenExt>(address) };
        // SAFETY: the caller's own arguments.
        let handle = unsafe { previous(name, flags, info, caller) };
        libraries_changed();
        handle
    }

    unsafe extern "C-unwind" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
        let address = DLOPEN.load(Ordering::Relaxed);
        // SAFETY: what the slot held, a function of this type.
        let previous = unsafe { std::mem::transmute::<usize, Dlopen>(address) };
        // SAFETY: the caller's own arguments.
        let handle = unsafe { previous(name, flags) };
        libraries_changed();
        handle
    }

    unsafe extern "C-unwind" fn dlopen_ext(
        name: *const c_char,
        flags: c_int,
        info: *const c_void,
    ) -> *mut c_void {
        let address = DLOPEN_EXT.load(Ordering::Relaxed);
        // SAFETY: what the slot held, a function of this type.
        let previous = unsafe { std::mem::transmute::<usize, DlopenExt>(address) };
        // SAFETY: the caller's own arguments.
        let handle = unsafe { previous(name, flags, info) };
        libraries_changed();
        handle
    }

    // SAFETY, for all: the function has the symbol's signature and passes on to `previous`.
    static LOADER_DLOPEN_PROXY: [Proxy; 1] =
        // SAFETY: as above.
        [unsafe { Proxy::new(loader_dlopen as LoaderDlopen as *const (), &LOADER_DLOPEN) }];
    static LOADER_DLOPEN_EXT_PROXY: [Proxy; 1] =
        // SAFETY: as above.
        [unsafe {
            Proxy::new(loader_dlopen_ext as LoaderDlopenExt as *const (), &LOADER_DLOPEN_EXT)
        }];
    static DLOPEN_PROXY: [Proxy; 1] =
        // SAFETY: as above.
        [unsafe { Proxy::new(dlopen as Dlopen as *const (), &DLOPEN) }];
    static DLOPEN_EXT_PROXY: [Proxy; 1] =
        // SAFETY: as above.
        [unsafe { Proxy::new(dlopen_ext as DlopenExt as *const (), &DLOPEN_EXT) }];

    static FROM_8: [Hook; 2] = [
        Hook { symbol: "__loader_dlopen", proxies: &LOADER_DLOPEN_PROXY },
        Hook { symbol: "__loader_android_dlopen_ext", proxies: &LOADER_DLOPEN_EXT_PROXY },
    ];
    static UP_TO_6: [Hook; 2] = [
        Hook { symbol: "dlopen", proxies: &DLOPEN_PROXY },
        Hook { symbol: "android_dlopen_ext", proxies: &DLOPEN_EXT_PROXY },
    ];

    pub(super) fn hooks() -> &'static [Hook] {
        match api_level() {
            26.. => &FROM_8,
            24..=25 => &[],
            _ => &UP_TO_6,
        }
    }

    fn api_level() -> u32 {
        let mut value = [0u8; libc::PROP_VALUE_MAX as usize];
        // SAFETY: a C string, and a buffer of the size that the call may fill.
        let len = unsafe {
            libc::__system_property_get(c"ro.build.version.sdk".as_ptr(), value.as_mut_ptr().cast())
        };
        let digits = usize::try_from(len).ok().and_then(|len| value.get(..len)).unwrap_or(&[]);
        // Unknown: the newest rules, which the linker's own symbols follow.
        std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(26)
    }
}

#[cfg(all(not(target_os = "android"), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system {
    use crate::hook::{Hook, Proxy};
    use crate::loaded::for_each_module;
    use crate::maps::Maps;
    use crate::registry::libraries_changed;
    use std::arch::naked_asm;
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Dlopen = unsafe extern "C-unwind" fn(*const c_char, c_int) -> *mut c_void;

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

    /// dlopen(name, flags): asks [`caller_matters`] with the return address, then either jumps to
    /// the real dlopen as if it had been called directly, or to [`dlopen_and_look`].
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    unsafe extern "C-unwind" fn dlopen_proxy() {
        naked_asm!(
            "endbr64",
            "mov rdx, [rsp]",
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
            "mov x2, x30",
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

    /// Hooks what is new; never unwinds into the app.
    extern "C" fn look() {
        let _ = std::panic::catch_unwind(libraries_changed);
    }

    /// Whether dlopen's result may depend on the library that `caller` lies in.
    extern "C" fn caller_matters(name: *const c_char, _flags: c_int, caller: usize) -> bool {
        if name.is_null() {
            return false;
        }
        // SAFETY: dlopen's argument is a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        // `$ORIGIN` in a name is the caller's directory.
        if name.contains(&b'/') && !name.contains(&b'$') {
            return false;
        }
        std::panic::catch_unwind(|| has_run_path(caller)).unwrap_or(true)
    }

    /// Whether the library at `address` has an RPATH or RUNPATH; yes for an address in none that
    /// is listed, such as code of another link-map namespace.
    fn has_run_path(address: usize) -> bool {
        let Ok(maps) = Maps::read() else { return true };
        let mut answer = true;
        for_each_module(|module| {
            if !module.contains(address) {
                return true;
            }
            if let Ok(Some(image)) = module.image(&maps) {
                answer = image.dynamic().has_run_path;
            }
            false
        });
        answer
    }
}

#[cfg(all(not(target_os = "android"), not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod system {
    use crate::hook::Hook;

    /// No assembly for this machine: later libraries are found at the next refresh.
    pub(super) const fn hooks() -> &'static [Hook] {
        &[]
    }
}
