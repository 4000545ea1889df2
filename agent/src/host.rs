//! The functions of the agent that a recording session needs: see [`Host`].

use crate::android::quirks::SECCOMP_MAY_KILL_MEMBARRIER;
use tracetee_recorder::session::Host;
use tracetee_tee::tag_words;

/// The agent, for every session of this process.
pub(crate) static HOST: Host =
    Host { may_call_membarrier, deadline_passed: tag_words::give_words_back };

fn may_call_membarrier() -> bool {
    !cfg!(target_os = "android") || !SECCOMP_MAY_KILL_MEMBARRIER.applies()
}
