//! The natives of the Kotlin library's `dev.tracetee.Native` (android-sample/tracetee).
//!
//! Each native converts its arguments and calls one function of the crate in a guard: no panic
//! reaches the app. A native that can fail returns an error message, or null. Called on the
//! app's threads.

mod env;
mod java;
mod upload;

use crate::android::pinned;
use crate::controller::{self, Install, daily_ledger, process_signals};
use crate::{api, capture, config, event, health_report, listener, section};
use env::{Env, Thrown};
use jni_sys::{
    JNI_VERSION_1_6, JNINativeMethod, JavaVM, jboolean, jbyteArray, jclass, jdouble, jint, jlong,
    jlongArray, jobject, jstring, jvalue,
};
use std::ffi::c_void;
use std::path::Path;
use std::sync::Mutex;
use tracetee_os::guard;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;
use tracetee_recorder::record::Kind;

/// Error message returned to Kotlin.
struct Refusal(String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Registers the natives if the library's class exists. Never fails: the C API works without them.
///
/// # Safety
/// Called by the virtual machine, from `System.loadLibrary`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _: *mut c_void) -> jint {
    // SAFETY: as the caller promises.
    let env = unsafe { env::of_machine(vm) };
    let registered = guard::enter(|| {
        pinned::stay_loaded();
        env.is_some_and(register)
    });
    if registered.unwrap_or(false) {
        java::watch();
    }
    JNI_VERSION_1_6
}

fn register(env: Env) -> bool {
    macro_rules! natives {
        ($($name:literal $signature:literal $function:path,)*) => {
            [$(JNINativeMethod {
                name: $name.as_ptr().cast_mut(),
                signature: $signature.as_ptr().cast_mut(),
                fnPtr: $function as *mut c_void,
            },)*]
        };
    }
    // Each function with its signature. `Native.kt` declares the same functions; the virtual machine refuses to register
    // others.
    let natives = natives![
        c"version" c"()Ljava/lang/String;" version,
        c"install" c"(Ljava/lang/String;)Ljava/lang/String;" install,
        c"uninstall" c"()Ljava/lang/String;" uninstall,
        c"start" c"(Ljava/lang/String;)Ljava/lang/String;" start,
        c"stop" c"()Ljava/lang/String;" stop,
        c"dump" c"(Ljava/lang/String;)Ljava/lang/String;" dump,
        c"listen" c"(Ldev/tracetee/BlockListener;)Ljava/lang/String;" listen,
        c"health" c"()Ljava/lang/String;" health,
        c"offerConfig" c"([B[B)Ljava/lang/String;" offer_config,
        c"trigger" c"(Ljava/lang/String;)Ljava/lang/String;" trigger,
        c"open" c"(Ljava/lang/String;)Ljava/lang/String;" open,
        c"close" c"(Ljava/lang/String;)Ljava/lang/String;" close,
        c"exits" c"(Ljava/lang/String;)Ljava/lang/String;" exits,
        c"lowMemory" c"()Ljava/lang/String;" low_memory,
        c"setConsent" c"(Z)Ljava/lang/String;" set_consent,
        c"setNetwork" c"(Ljava/lang/String;)Ljava/lang/String;" set_network,
        c"setRefreshRate" c"(D)V" set_refresh_rate,
        c"setScreen" c"(Ljava/lang/String;)V" set_screen,
        c"countFrames" c"([JIJ)V" count_frames,
        c"countStart" c"(IJJ)V" count_start,
        c"setVisible" c"(Z)V" set_visible,
        c"watchMain" c"(Ljava/lang/Runnable;)Ljava/lang/String;" watch_main,
        c"mainIsAlive" c"()V" main_is_alive,
        c"isRecording" c"()Z" is_recording,
        c"stacks" c"()I" stacks,
        c"beginSection" c"(Ljava/lang/String;)V" begin_section,
        c"endSection" c"()V" end_section,
        c"beginAsync" c"(Ljava/lang/String;I)V" begin_async,
        c"endAsync" c"(Ljava/lang/String;I)V" end_async,
        c"beginTrack" c"(Ljava/lang/String;Ljava/lang/String;I)V" begin_track,
        c"endTrack" c"(Ljava/lang/String;I)V" end_track,
        c"counter" c"(Ljava/lang/String;J)V" counter,
        c"instant" c"(Ljava/lang/String;)V" instant,
        c"record" c"([BII)V" record_event,
        c"nowNs" c"()J" now_ns,
        c"upload" c"(Ljava/lang/String;Ldev/tracetee/NativeSender;)Ljava/lang/String;" upload::upload,
    ];
    let class = env.class(c"dev/tracetee/Native");
    if class.is_null() || !env.register(class, &natives) {
        return false;
    }
    java::keep(env, class);
    true
}

extern "system" fn version(env: Env, _: jclass) -> jstring {
    env.new_text(env!("CARGO_PKG_VERSION"))
}

// ---- captures ----

extern "system" fn install(env: Env, _: jclass, json: jstring) -> jstring {
    error_text(env, || Ok(api::install(Install::from_json(&text(env, json)?)?)?))
}

extern "system" fn uninstall(env: Env, _: jclass) -> jstring {
    error_text(env, || Ok(controller::uninstall()?))
}

extern "system" fn start(env: Env, _: jclass, json: jstring) -> jstring {
    error_text(env, || Ok(api::start(&config::read(&text(env, json)?)?)?))
}

extern "system" fn stop(env: Env, _: jclass) -> jstring {
    error_text(env, || Ok(api::stop()?))
}

extern "system" fn dump(env: Env, _: jclass, path: jstring) -> jstring {
    error_text(env, || Ok(api::dump(Path::new(&text(env, path)?)).map(|_| ())?))
}

/// Calls `to.onBlock` with each block of a streamed capture, until it ends or an exception is thrown. Null ends the
/// listening.
extern "system" fn listen(env: Env, _: jclass, to: jobject) -> jstring {
    error_text(env, || {
        if to.is_null() {
            listener::end(true);
            return Ok(());
        }
        capture::prepare_threads()?;
        let mut outcome = Ok(());
        listener::listen(|lost, text| {
            env.in_frame(|| {
                let block = [jvalue { l: env.new_bytes(text) }, jvalue { j: lost.cast_signed() }];
                // Value for an array that could not be allocated.
                env.clear();
                let called = env.call_void(to, c"onBlock", c"([BJ)V", &block);
                if let Err(Thrown(why)) = called {
                    outcome = Err(Refusal(why));
                    listener::end(true);
                }
            });
        })?;
        outcome
    })
}

/// The health report as JSON; null if there was no capture.
extern "system" fn health(env: Env, _: jclass) -> jstring {
    if guard::is_broken() {
        let report = || health_report::after_panic().map(|report| report.to_json());
        let report = guard::catch(report).ok().flatten();
        return report.map_or(std::ptr::null_mut(), |report| env.new_text(&report));
    }
    given(env, || Ok(controller::health().map(|report| report.to_json())))
}

// ---- by configuration ----

extern "system" fn offer_config(
    env: Env,
    _: jclass,
    config: jbyteArray,
    signature: jbyteArray,
) -> jstring {
    error_text(env, || {
        let config = env.bytes(config).ok_or_else(is_null)?;
        Ok(controller::offer_config(&config, &env.bytes(signature).unwrap_or_default())?)
    })
}

extern "system" fn trigger(env: Env, _: jclass, name: jstring) -> jstring {
    error_text(env, || Ok(controller::trigger(&text(env, name)?)?))
}

extern "system" fn open(env: Env, _: jclass, window: jstring) -> jstring {
    error_text(env, || Ok(controller::open_window(&text(env, window)?)?))
}

extern "system" fn close(env: Env, _: jclass, window: jstring) -> jstring {
    error_text(env, || Ok(controller::close_window(&text(env, window)?)?))
}

extern "system" fn low_memory(env: Env, _: jclass) -> jstring {
    error_text(env, || Ok(controller::low_memory()?))
}

/// Returns the ids of the captures that say how processes ended, as JSON; null if it fails.
extern "system" fn exits(env: Env, _: jclass, json: jstring) -> jstring {
    given(env, || Ok(Some(record::to_json(&controller::report_exits(&text(env, json)?)?))))
}

extern "system" fn set_consent(env: Env, _: jclass, given: jboolean) -> jstring {
    error_text(env, || Ok(controller::set_consent(given)?))
}

extern "system" fn set_network(env: Env, _: jclass, json: jstring) -> jstring {
    error_text(env, || {
        Ok(controller::set_network(record::parse(text(env, json)?.as_bytes(), Limits::DEFAULT)?)?)
    })
}

extern "system" fn set_refresh_rate(_: Env, _: jclass, hz: jdouble) {
    process_signals::set_refresh_rate(hz);
}

extern "system" fn set_screen(env: Env, _: jclass, name: jstring) {
    let _ = caught(|| {
        process_signals::set_screen(&text(env, name)?);
        Ok(())
    });
}

// ---- the ledger ----

/// Maximum number of frames in a call: one second of a 240 Hz display.
const MAX_FRAMES: usize = 256;

/// Counts `count` frames, two words each, at this value of `System.nanoTime`.
extern "system" fn count_frames(
    env: Env,
    _: jclass,
    words: jlongArray,
    count: jint,
    now_ns: jlong,
) {
    let mut room = [0; 2 * MAX_FRAMES];
    let length = usize::try_from(count).unwrap_or(0).min(MAX_FRAMES) * 2;
    let _ = caught(|| {
        if env.copy_longs(words, &mut room[..length]) {
            daily_ledger::count_frames(&room[..length], now_ns.cast_unsigned());
        }
        Ok(())
    });
}

extern "system" fn count_start(_: Env, _: jclass, kind: jint, ttid_ms: jlong, ttfd_ms: jlong) {
    let _ = caught(|| {
        daily_ledger::count_start(usize::try_from(kind).unwrap_or(usize::MAX), ttid_ms, ttfd_ms);
        Ok(())
    });
}

extern "system" fn set_visible(_: Env, _: jclass, is_visible: jboolean) {
    let _ = caught(|| {
        daily_ledger::set_visible(is_visible);
        Ok(())
    });
}

// ---- the main loop ----

/// Object that posts a task to the main loop: a global reference, or null.
static PING: Mutex<usize> = Mutex::new(0);

/// `ping.run()` is called once a second, on the agent's thread.
extern "system" fn watch_main(env: Env, _: jclass, ping: jobject) -> jstring {
    error_text(env, || {
        let kept = env.keep(ping);
        let function: process_signals::Ping = ping_main;
        let before = {
            let mut ping = guard::lock(&PING);
            std::mem::replace(&mut *ping, kept.expose_provenance())
        };
        process_signals::watch_main((!kept.is_null()).then_some(function), std::ptr::null_mut());
        env.give_back(std::ptr::with_exposed_provenance_mut(before));
        Ok(())
    })
}

unsafe extern "C" fn ping_main(_: *mut c_void) {
    let _ = caught(|| {
        env::attached(|env| {
            // Held while it runs, so it is not released meanwhile.
            let ping = guard::lock(&PING);
            if *ping != 0 {
                let _ = env.call_void(
                    std::ptr::with_exposed_provenance_mut(*ping),
                    c"run",
                    c"()V",
                    &[],
                );
            }
        });
        Ok(())
    });
}

extern "system" fn main_is_alive(_: Env, _: jclass) {
    process_signals::main_is_alive();
}

// ---- markers ----

extern "system" fn is_recording(_: Env, _: jclass) -> jboolean {
    section::is_recording()
}

extern "system" fn stacks(_: Env, _: jclass) -> jint {
    if section::is_recording() { process_signals::stacks().cast_signed() } else { 0 }
}

extern "system" fn begin_section(env: Env, _: jclass, name: jstring) {
    mark(env, Kind::Begin, name, None);
}

extern "system" fn end_section(_: Env, _: jclass) {
    section::end_section();
}

extern "system" fn begin_async(env: Env, _: jclass, name: jstring, cookie: jint) {
    mark(env, Kind::AsyncBegin, name, Some(cookie.into()));
}

extern "system" fn end_async(env: Env, _: jclass, name: jstring, cookie: jint) {
    mark(env, Kind::AsyncEnd, name, Some(cookie.into()));
}

extern "system" fn begin_track(env: Env, _: jclass, track: jstring, name: jstring, cookie: jint) {
    if section::is_recording() {
        let _ = caught(|| {
            section::begin_track(&text(env, track)?, &text(env, name)?, cookie);
            Ok(())
        });
    }
}

extern "system" fn end_track(env: Env, _: jclass, track: jstring, cookie: jint) {
    if section::is_recording() {
        let _ = caught(|| {
            section::end_track(&text(env, track)?, cookie);
            Ok(())
        });
    }
}

extern "system" fn counter(env: Env, _: jclass, name: jstring, value: jlong) {
    mark(env, Kind::Counter, name, Some(value));
}

extern "system" fn instant(env: Env, _: jclass, name: jstring) {
    mark(env, Kind::Instant, name, None);
}

/// Records what `Event.kt` has laid out. Allocates nothing, so it needs no guard.
extern "system" fn record_event(
    env: Env,
    _: jclass,
    bytes: jbyteArray,
    offset: jint,
    length: jint,
) {
    if !section::is_recording() {
        return;
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let take = |room: &mut [u8]| {
        if let Some(room) = room.get_mut(..length)
            && env.copy_bytes(bytes, offset, room)
        {
            event::record_laid_out(room);
        }
    };
    // Most are small, and a larger buffer must be zeroed first.
    if length <= SMALL_BYTES {
        take(&mut [0; SMALL_BYTES]);
    } else {
        take(&mut [0; event::MAX_LAID_OUT_BYTES]);
    }
}

/// Size of records that need little room.
const SMALL_BYTES: usize = 256;

extern "system" fn now_ns(_: Env, _: jclass) -> jlong {
    event::now_ns().cast_signed()
}

fn mark(env: Env, kind: Kind, name: jstring, number: Option<i64>) {
    if section::is_recording() {
        let _ = caught(|| {
            section::record(kind, text(env, name)?.as_bytes(), number);
            Ok(())
        });
    }
}

// ---- between here and there ----

fn is_null() -> Refusal {
    Refusal("an argument is null".to_owned())
}

fn text(env: Env, string: jstring) -> Result<String, Refusal> {
    env.text(string).ok_or_else(is_null)
}

/// Calls `call`; a panic becomes an error.
fn caught<T>(call: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    let call = || {
        guard::planted("jni");
        call()
    };
    guard::enter(call).unwrap_or_else(|stopped| Err(Refusal(stopped.to_string())))
}

/// Returns the error's message, or null.
fn error_text(env: Env, call: impl FnOnce() -> Result<(), Refusal>) -> jstring {
    match caught(call) {
        Ok(()) => std::ptr::null_mut(),
        Err(Refusal(why)) => env.new_text(&why),
    }
}

/// Returns the result of `call` as a string; null if it has no result, or fails.
fn given(env: Env, call: impl FnOnce() -> Result<Option<String>, Refusal>) -> jstring {
    match caught(call) {
        Ok(Some(text)) => env.new_text(&text),
        Ok(None) | Err(_) => std::ptr::null_mut(),
    }
}
