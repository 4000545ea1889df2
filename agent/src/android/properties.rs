//! Android's system properties, if there are any.
//!
//! Looked up by dlsym, so that the same code runs on Linux (where the function is absent, or provided by a test's stand-in
//! library). Never called from a proxy.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// PROP_VALUE_MAX.
const VALUE_BYTES: usize = 92;

type PropertyGet = unsafe extern "C" fn(*const c_char, *mut c_char) -> c_int;

/// The function once it was found: the dynamic linker's lock, which `dlsym` takes, may be held for long.
static FUNCTION: OnceLock<PropertyGet> = OnceLock::new();

fn look_up() -> Option<PropertyGet> {
    // SAFETY: a NUL-terminated name, searched in the default scope.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__system_property_get".as_ptr()) };
    if function.is_null() {
        return None;
    }
    // SAFETY: bionic declares it with this signature since API 1.
    Some(unsafe { std::mem::transmute::<*mut libc::c_void, PropertyGet>(function) })
}

/// The property's value; `None` if it is unset or there are no properties.
pub(crate) fn get(name: &CStr) -> Option<String> {
    let function = FUNCTION.get().copied().or_else(look_up)?;
    let _ = FUNCTION.set(function);
    let mut value = [0 as c_char; VALUE_BYTES];
    // SAFETY: it writes at most PROP_VALUE_MAX bytes, NUL included.
    let len = unsafe { function(name.as_ptr(), value.as_mut_ptr()) };
    if len <= 0 {
        return None;
    }
    // SAFETY: NUL-terminated by the call.
    unsafe { CStr::from_ptr(value.as_ptr()) }.to_str().ok().map(str::to_owned)
}

/// Android's release as a number; `None` elsewhere.
pub(crate) fn api_level() -> Option<u32> {
    get(c"ro.build.version.sdk")?.trim().parse().ok()
}

/// The tags that a system trace has asked for: `debug.atrace.tags.enableflags`.
pub(crate) fn system_tags() -> Option<u64> {
    let text = get(c"debug.atrace.tags.enableflags")?;
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
