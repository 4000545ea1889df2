//! Checks that the process has free pthread keys. [`crate::thread::prepare`] calls it on the thread that starts
//! a capture or installs the agent, before the agent needs a key.
//!
//! On a system without native thread-locals (Android), std makes a pthread key for each of its own and of
//! its users' thread-locals when it is first used, and **ends the process when there is none**. bionic has 128
//! keys for all libraries of an app.

/// Number of keys that must be free besides the recorder's own. On bionic, `tracetee_install` with four captures
/// takes 7; the rest is for the app.
const SPARE: usize = 16;

/// Fails with an errno (EAGAIN) if fewer than [`SPARE`] keys are available.
pub(super) fn are_left() -> Result<(), i32> {
    let mut keys: [libc::pthread_key_t; SPARE] = [0; SPARE];
    let mut status = 0;
    let mut made = 0;
    for key in &mut keys {
        // SAFETY: a place for the key; it has no destructor.
        status = unsafe { libc::pthread_key_create(std::ptr::from_mut(key), None) };
        if status != 0 {
            break;
        }
        made += 1;
    }
    for &key in keys.iter().take(made) {
        // SAFETY: a key made above, and not shared.
        unsafe { libc::pthread_key_delete(key) };
    }
    if status == 0 { Ok(()) } else { Err(status) }
}
