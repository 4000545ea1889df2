//! The hooks of one owner: the libraries that its passes have examined, and its slots.
//!
//! Called only by [`crate::registry`], under its lock and inside the `dl_iterate_phdr` callback.

use crate::error::Error;
use crate::hook::{Filter, Later};
use crate::loaded::{ListState, ModuleKey, Settled, for_each_module};
use crate::maps::Maps;
use crate::patch::unlocking;
use crate::report::{ModuleReport, Outcome, Report};
use crate::slots::{OwnedSlot, Wanted, hook_module, restore};
use tracetee_os::guard;

/// The hooks of one owner.
pub(crate) struct Owner {
    hooks: Vec<Wanted>,
    filter: Filter,
    later: Later,
    /// In the order of the linker's list.
    known: Vec<(ModuleKey, Known)>,
    /// The linker's list at the last pass that found every library completely loaded.
    complete_list: Option<ListState>,
    /// Reads the list: [`ListState::now`], which a test replaces.
    list: fn() -> ListState,
}

/// A library that a pass has examined.
struct Known {
    slots: Vec<OwnedSlot>,
    report: ModuleReport,
}

impl Known {
    /// True if the library was unloaded and loaded again at the same address.
    fn is_reloaded(&self) -> bool {
        !self.slots.is_empty() && self.slots.iter().all(OwnedSlot::is_fresh)
    }

    /// Notes the slots that another hooker has changed. The library is loaded.
    fn note_changes(&self, report: &mut ModuleReport) {
        for slot in &self.slots {
            if let Some(value) = slot.changed()
                && let Some(one) = report.slots.iter_mut().find(|one| one.address == slot.address())
            {
                one.outcome = Outcome::ChangedByOther(value);
            }
        }
    }
}

impl Owner {
    pub(crate) fn new(hooks: Vec<Wanted>, filter: Filter, later: Later) -> Self {
        let list = ListState::now;
        Self { hooks, filter, later, known: Vec::new(), complete_list: None, list }
    }

    pub(crate) fn watches(&self) -> bool {
        self.later == Later::Watch
    }

    /// True if the last pass found every library completely loaded.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete_list.is_some()
    }

    /// True if the last pass has seen every library of `list`.
    fn has_seen(&self, list: ListState) -> bool {
        self.complete_list == Some(list)
            && match list {
                ListState::Counted(_) => true,
                // The same hash: the libraries of `known` are all there, so their slots are mapped.
                ListState::Hashed(_) => !self.known.iter().any(|(_, one)| one.is_reloaded()),
            }
    }

    pub(crate) fn refresh(&mut self, settled: &Settled) -> Result<Report, Error> {
        let mut report = Report::default();
        let list = (self.list)();
        if self.has_seen(list) {
            return Ok(report);
        }
        let mut maps = Maps::read()?;
        let (mut found, mut complete) = (Vec::new(), true);
        let Self { hooks, filter, known, .. } = self;
        let mut known = Left::new(known);
        for_each_module(|module| {
            if let Some(one) = known.take(&module.key)
                && !one.is_reloaded()
            {
                found.push((module.key.clone(), one));
                return true;
            }
            if !settled.contains(module) {
                complete = false;
                return true;
            }
            // A library that was mapped after the map was read needs a new reading.
            if maps.at(module.key.headers).is_none()
                && let Ok(now) = Maps::read()
            {
                maps = now;
            }
            guard::planted("loader");
            let (one, slots) = hook_module(module, hooks, filter, &maps, &mut report.protect_calls);
            found.push((module.key.clone(), Known { slots, report: one.clone() }));
            report.modules.push(one);
            true
        });
        // Libraries that are left were unloaded, and their slots with them.
        self.known = found;
        self.complete_list = complete.then_some(list);
        Ok(report)
    }

    pub(crate) fn give_back(&mut self) -> Result<Report, Error> {
        let maps = Maps::read()?;
        let mut report = Report::default();
        let mut known = Left::new(&mut self.known);
        for_each_module(|module| {
            let Some(one) = known.take(&module.key) else { return true };
            let (slots, calls) = unlocking(&maps, |unlocked| {
                one.slots.iter().map(|slot| slot.report(restore(unlocked, slot))).collect()
            });
            let path = module.key.path.clone();
            report.modules.push(ModuleReport { path, slots, skipped: None });
            report.protect_calls += calls;
            true
        });
        Ok(report)
    }

    /// Reports on every library. A slot of ours that another hooker has changed since is not reported as hooked.
    pub(crate) fn modules(&self) -> Vec<ModuleReport> {
        let mut modules: Vec<_> = self.known.iter().map(|(_, one)| one.report.clone()).collect();
        // The slots of a library that is no longer listed are unmapped.
        for_each_module(|module| {
            let same = |((key, _), _): &(&(ModuleKey, Known), _)| *key == module.key;
            if let Some(((_, one), report)) = self.known.iter().zip(&mut modules).find(same)
                && !one.is_reloaded()
            {
                one.note_changes(report);
            }
            true
        });
        sorted(modules.into_iter())
    }

    pub(crate) fn hooked(&self) -> Vec<ModuleReport> {
        sorted(self.known.iter().map(|(key, one)| ModuleReport {
            path: key.path.clone(),
            slots: one.slots.iter().map(|slot| slot.report(Outcome::Hooked)).collect(),
            skipped: None,
        }))
    }
}

/// Libraries of an earlier pass that this pass has not reached.
struct Left {
    libraries: Vec<Option<(ModuleKey, Known)>>,
    /// The position after the last one taken: the next one is there if the list has not changed.
    next: usize,
}

impl Left {
    /// Takes all.
    fn new(known: &mut Vec<(ModuleKey, Known)>) -> Self {
        Self { libraries: std::mem::take(known).into_iter().map(Some).collect(), next: 0 }
    }

    fn take(&mut self, key: &ModuleKey) -> Option<Known> {
        let is_it =
            |one: &Option<(ModuleKey, Known)>| one.as_ref().is_some_and(|one| one.0 == *key);
        let (before, after) = self.libraries.split_at(self.next);
        let at = match after.iter().position(is_it) {
            Some(at) => self.next + at,
            None => before.iter().position(is_it)?,
        };
        self.next = at + 1;
        self.libraries.get_mut(at)?.take().map(|(_, known)| known)
    }
}

fn sorted(modules: impl Iterator<Item = ModuleReport>) -> Vec<ModuleReport> {
    let mut modules: Vec<_> = modules.collect();
    modules.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{Hook, Proxy};
    use std::ffi::CString;
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: `proxy` has the signature of `getenv` and passes on to `PREVIOUS`.
    static PROXIES: [Proxy; 1] = [unsafe { Proxy::new(proxy as *const (), &PREVIOUS) }];

    type Function = unsafe extern "C" fn(*const libc::c_char) -> *mut libc::c_char;

    unsafe extern "C" fn proxy(name: *const libc::c_char) -> *mut libc::c_char {
        let previous = PREVIOUS.load(Ordering::Relaxed);
        // SAFETY: what the slot held: `getenv`.
        let previous = unsafe { std::mem::transmute::<usize, Function>(previous) };
        // SAFETY: the caller's own argument.
        unsafe { previous(name) }
    }

    fn load(path: &Path) -> *mut libc::c_void {
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a library of the test's own, without constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        handle
    }

    /// As on Android before 11, whose linker has no counters.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "unloads a library of the test's own")]
    fn without_counters_each_load_is_found_also_in_the_same_place_and_nothing_else_is_looked_at() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("liblate.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/library.c");
        let status = Command::new("cc")
            .args(["-w", "-shared", "-fPIC", "-Wl,-z,now", "-o"])
            .args([&path, &source])
            .status();
        assert!(status.unwrap().success());
        let wanted_path = path.to_str().unwrap().to_owned();
        let filter: Filter = Box::new(move |path| path == wanted_path);
        let hook = Hook { symbol: "getenv", proxies: &PROXIES };
        let mut owner =
            Owner::new(vec![Wanted { hook, is_global: false }], filter, Later::OnRefresh);
        owner.list = ListState::hash;
        let mut refresh = || owner.refresh(&Settled::now()).unwrap();

        assert!(!refresh().modules.is_empty());
        assert!(refresh().modules.is_empty(), "nothing was loaded");
        let (mut address, mut same_place) = (0, 0);
        for _ in 0..20 {
            let handle = load(&path);
            let report = refresh();
            assert_eq!(report.count(Outcome::Hooked), 1);
            let now = report.slots().next().unwrap().1.address;
            same_place += u32::from(now == address);
            address = now;
            assert!(refresh().modules.is_empty(), "nothing was loaded since");
            // SAFETY: our own handle, no longer used.
            unsafe { libc::dlclose(handle) };
        }
        assert!(same_place > 0, "the linker never reused the place");
    }
}
