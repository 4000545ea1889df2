//! Calls from the agent's threads into Java: they update copies of the agent's state that Kotlin and Android read as fields,
//! and announce captures that begin. Each call attaches its thread to the virtual machine for as long as it takes.

use super::env::{self, Env};
use crate::android::quirks::JAVA_CACHES_TAGS;
use crate::controller;
use crate::{section, tags};
use jni_sys::{_jobject, jclass, jvalue};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};
use tracetee_os::guard;

/// The class `dev.tracetee.Native`, a global reference: the agent's own threads cannot find classes of the app.
static NATIVE: AtomicPtr<_jobject> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps a reference to the class whose natives are registered.
pub(super) fn keep(env: Env, class: jclass) {
    // ORDERING: Release, pairs with the Acquire in `with_native`.
    NATIVE.store(env.keep(class), Ordering::Release);
}

/// Requests that changes and captures are reported to Java.
pub(super) fn watch() {
    tags::on_change(refresh_java_tags);
    section::on_change(set_java_flag);
    let _ = controller::ON_CAPTURE.set(capture_begun);
}

/// Calls `call` with the class, if there is one, on an attached thread.
fn with_native(call: impl FnOnce(Env, jclass)) {
    // ORDERING: Acquire, pairs with the Release in `keep`.
    let class = NATIVE.load(Ordering::Acquire);
    if !class.is_null() {
        env::attached(|env| call(env, class));
    }
}

/// Gives the field of `android.os.Trace` that caches the tags the value that libcutils' word has now.
fn refresh_java_tags(tags: u64) {
    if !JAVA_CACHES_TAGS.applies() {
        return;
    }
    env::attached(|env| {
        env.in_frame(|| {
            guard::planted("java tags");
            let class = env.class(c"android/os/Trace");
            if !class.is_null() {
                env.set_static_long(class, c"sEnabledTags", tags.cast_signed());
            }
        });
    });
}

/// Sets a flag of `Native`: `recording`, so that a Kotlin caller reads a field while nothing is recorded, or `coroutines`.
fn set_java_flag(name: &'static CStr, value: bool) {
    with_native(|env, class| env.set_static_boolean(class, name, value));
}

/// Calls `Native.captureBegun` with the window and the id of a capture, on the agent's thread.
fn capture_begun(window: &str, id: &str) {
    with_native(|env, class| {
        env.in_frame(|| {
            let arguments = [window, id].map(|text| jvalue { l: env.new_text(text) });
            let signature = c"(Ljava/lang/String;Ljava/lang/String;)V";
            env.call_static(class, c"captureBegun", signature, &arguments);
        });
    });
}
