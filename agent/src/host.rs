//! What a recording session needs of the agent around it: see [`Host`].

use crate::android::properties;
use crate::libcutils::tag_words;
use tracetee_recorder::session::Host;

/// The agent, for every session of this process.
pub(crate) static HOST: Host =
    Host { may_call_membarrier, deadline_passed: tag_words::give_words_back };

/// Up to Android 10 an app's seccomp filter may end the process for a call it does not list; ART
/// itself uses membarrier from Android 11 (API 30) on.
fn may_call_membarrier() -> bool {
    !cfg!(target_os = "android") || properties::api_level().is_some_and(|api| api >= 30)
}
