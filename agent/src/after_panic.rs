//! Switches the agent off after a panic ([`guard`]), and restores the app's state.
//!
//! On the thread that panicked the recording ends, and libcutils' tag words get their former values. A new thread restores
//! the slots, makes libcutils read the system's tags, and refreshes Java's copy of them. If the thread cannot be started,
//! the proxies pass everything on. The recorder's memory stays mapped, since a writer may be inside; a recorder file is
//! recovered at the next start, as after a kill.

use crate::android::quirks::track_end;
use crate::controller::control_socket;
use crate::own_threads::{self, Own};
use crate::section;
use crate::tags;
use std::time::Duration;
use tracetee_os::guard::{self, Ending};
use tracetee_recorder::session;
use tracetee_tee::tag_words;

/// The pause between checks for threads of the process other than ours.
const LOOK: Duration = Duration::from_secs(1);

/// Prepares for a panic. Called before anything is recorded.
pub(crate) fn watch() {
    guard::end_with(Ending { at_once, afterwards });
}

fn at_once() {
    section::set_ready_quietly(false);
    session::switch_off();
    tag_words::give_words_back();
}

fn afterwards() {
    let _own = Own::register();
    // SAFETY: a C string shorter than a thread's name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"tracetee-off".as_ptr()) };
    guard::planted("afterwards");
    // Slots that cannot be restored pass everything on.
    let _ = tracetee_hooks::give_back_after_panic(tracetee_tee::hooks(true, track_end));
    tags::give_back_after_panic();
    // The socket reports the panic for as long as the app runs, and keeps no process alive.
    while control_socket::is_open() {
        std::thread::sleep(LOOK);
        if own_threads::is_all_that_is_left() {
            control_socket::shut();
        }
    }
}
