//! The hooks of a capture: put in place, kept between captures, reported.
//!
//! Called under the capture's lock, except [`Hooks::registry`]'s users, which hold none.

use crate::android::pinned;
use crate::android::quirks::track_end;
use crate::error::Error;
use crate::health_report;
use std::sync::Arc;
use tracetee_hooks::{Later, Registry};
use tracetee_protocol::health::Health;

/// Hooks in place.
#[derive(Debug)]
pub(super) struct Hooks {
    registry: Arc<Registry>,
    with_fast_path: bool,
    /// Reason why libraries that were loaded since the last pass are not hooked.
    trouble: Option<String>,
    /// The process in which the hooks were installed. A forked child does not use them: another thread may have held the
    /// linker's lock at the fork, and the child never releases it.
    pid: u32,
}

impl Hooks {
    /// Installs hooks. `kept` are those of an earlier capture: they stay if they are still the right ones, and libraries
    /// that were loaded since are hooked too.
    pub(super) fn install(kept: Option<Self>, with_fast_path: bool) -> Result<Self, Error> {
        if let Some(mut kept) = kept {
            if kept.with_fast_path == with_fast_path {
                kept.trouble = kept.registry.refresh().err().map(|error| error.to_string());
                return Ok(kept);
            }
            kept.registry.uninstall()?;
        }
        pinned::stay_loaded();
        let hooks = tracetee_tee::hooks(with_fast_path, track_end);
        let (registry, _) = Registry::install(hooks, Box::new(|_| true), Later::Watch)?;
        let registry = Arc::new(registry);
        Ok(Self { registry, with_fast_path, trouble: None, pid: std::process::id() })
    }

    /// Removes the hooks. On an error the proxies stay, and pass everything on.
    pub(super) fn uninstall(self, health: &mut Health) {
        if let Err(error) = self.registry.uninstall() {
            health.not_hooked.push(format!("uninstall: {error}"));
        }
    }

    /// The registry, in the process that installed the hooks.
    pub(super) fn registry(&self) -> Option<Arc<Registry>> {
        self.are_own().then(|| Arc::clone(&self.registry))
    }

    /// Notes why later libraries are not hooked.
    pub(super) fn note_trouble(&mut self, trouble: String) {
        self.trouble = Some(trouble);
    }

    /// Writes the currently hooked libraries into `health`.
    pub(super) fn report_to(&self, health: &mut Health) {
        if !self.are_own() {
            return;
        }
        health_report::take_hooks(health, &self.registry.report(), self.with_fast_path);
        if let Some(trouble) = &self.trouble {
            health.not_hooked.push(format!("libraries loaded since the last check: {trouble}"));
        }
    }

    fn are_own(&self) -> bool {
        self.pid == std::process::id()
    }
}
