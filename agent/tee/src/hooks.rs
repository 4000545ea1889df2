//! The list of the agent's hooks. Called at a capture's start.

use crate::fast_path::{self, TrackEnd};
use crate::thread_name;
use crate::write::{WRITE, WRITE_CHK};
use std::sync::OnceLock;
use tracetee_hooks::Hook;

/// Returns the agent's hooks: on functions that write records or name threads, and, if wanted, on those that make records in
/// libcutils. `track_end` is called once in the life of the process.
pub fn hooks(fast_path: bool, track_end: impl FnOnce() -> TrackEnd) -> &'static [Hook] {
    static HOOKS: OnceLock<Vec<Hook>> = OnceLock::new();
    let hooks = HOOKS.get_or_init(|| {
        let mut hooks = vec![
            Hook { symbol: "write", proxies: &WRITE },
            Hook { symbol: "__write_chk", proxies: &WRITE_CHK },
            Hook { symbol: "prctl", proxies: &thread_name::PRCTL },
            Hook { symbol: "pthread_setname_np", proxies: &thread_name::SETNAME },
        ];
        hooks.extend(fast_path::hooks(track_end()));
        hooks
    });
    if fast_path { hooks } else { hooks.get(..WITHOUT_FAST_PATH).unwrap_or(hooks) }
}

/// Number of [`hooks`] without the fast path.
const WITHOUT_FAST_PATH: usize = 4;
