//! Watches loads on Android: hooks libdl's call into the linker, which names the caller, or `dlopen`
//! itself on versions without namespaces. Runs on the app's threads, inside their `dlopen`.

use super::changed;
use crate::foreign_fn;
use crate::hook::{Hook, Proxy};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

type LoaderDlopen = foreign_fn!(fn(*const c_char, c_int, *const c_void) -> *mut c_void);
type LoaderDlopenExt =
    foreign_fn!(fn(*const c_char, c_int, *const c_void, *const c_void) -> *mut c_void);
type Dlopen = foreign_fn!(fn(*const c_char, c_int) -> *mut c_void);
type DlopenExt = foreign_fn!(fn(*const c_char, c_int, *const c_void) -> *mut c_void);

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
    // SAFETY: the former content of the slot, a function of this type.
    let previous = unsafe { std::mem::transmute::<usize, LoaderDlopen>(address) };
    // SAFETY: the caller's own arguments.
    let handle = unsafe { previous(name, flags, caller) };
    changed();
    handle
}

unsafe extern "C-unwind" fn loader_dlopen_ext(
    name: *const c_char,
    flags: c_int,
    info: *const c_void,
    caller: *const c_void,
) -> *mut c_void {
    let address = LOADER_DLOPEN_EXT.load(Ordering::Relaxed);
    // SAFETY: the former content of the slot, a function of this type.
    let previous = unsafe { std::mem::transmute::<usize, LoaderDlopenExt>(address) };
    // SAFETY: the caller's own arguments.
    let handle = unsafe { previous(name, flags, info, caller) };
    changed();
    handle
}

unsafe extern "C-unwind" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    let address = DLOPEN.load(Ordering::Relaxed);
    // SAFETY: the former content of the slot, a function of this type.
    let previous = unsafe { std::mem::transmute::<usize, Dlopen>(address) };
    // SAFETY: the caller's own arguments.
    let handle = unsafe { previous(name, flags) };
    changed();
    handle
}

unsafe extern "C-unwind" fn dlopen_ext(
    name: *const c_char,
    flags: c_int,
    info: *const c_void,
) -> *mut c_void {
    let address = DLOPEN_EXT.load(Ordering::Relaxed);
    // SAFETY: the former content of the slot, a function of this type.
    let previous = unsafe { std::mem::transmute::<usize, DlopenExt>(address) };
    // SAFETY: the caller's own arguments.
    let handle = unsafe { previous(name, flags, info) };
    changed();
    handle
}

// SAFETY, for all: the function has the symbol's signature and passes on to `previous`.
static LOADER_DLOPEN_PROXY: [Proxy; 1] =
    // SAFETY: as above.
    [unsafe { Proxy::new(loader_dlopen as *const (), &LOADER_DLOPEN) }];
static LOADER_DLOPEN_EXT_PROXY: [Proxy; 1] =
    // SAFETY: as above.
    [unsafe { Proxy::new(loader_dlopen_ext as *const (), &LOADER_DLOPEN_EXT) }];
static DLOPEN_PROXY: [Proxy; 1] =
    // SAFETY: as above.
    [unsafe { Proxy::new(dlopen as *const (), &DLOPEN) }];
static DLOPEN_EXT_PROXY: [Proxy; 1] =
    // SAFETY: as above.
    [unsafe { Proxy::new(dlopen_ext as *const (), &DLOPEN_EXT) }];

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
