//! Which slots of which libraries are ours: install, refresh, report, uninstall.
//!
//! An owner has one [`Registry`]; it calls from whatever thread starts or stops it, never from a
//! proxy. Everything happens under one process-wide lock and inside the `dl_iterate_phdr`
//! callback. A slot that somebody else changed since is left alone and reported.
//!
//! Locks: the dynamic linker's comes first, ours second, for everybody; a library's constructor,
//! which runs under the linker's, may so start a capture. The `dlopen` proxies
//! ([`crate::loader`]) call [`libraries_changed`] on the app's threads; they do not wait for our
//! lock, but leave a note, and its holder looks again.

use crate::error::Error;
use crate::hook::{Filter, Hook};
use crate::loaded::{LoadCounters, ModuleKey, Settled, for_each_module, with_linker_lock};
use crate::loader;
use crate::maps::Maps;
use crate::patch::Unlocked;
use crate::report::{ModuleReport, Outcome, Report};
use crate::slots::{OwnedSlot, hook_module, restore};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Whether libraries that are loaded later are hooked too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// As soon as they are loaded: the loading functions are hooked for it.
    Watch,
    /// When [`Registry::refresh`] is called.
    OnRefresh,
}

/// The hooks of one owner. They are taken out when it is dropped.
#[derive(Debug)]
pub struct Registry {
    id: u64,
}

impl Registry {
    /// Hooks every loaded library that `filter` lets through.
    ///
    /// # Errors
    /// [`Error::SymbolNotFound`] when no hook's symbol is defined anywhere (a hook whose symbol
    /// alone is absent, as `__write_chk` before Android 7, is left out), [`Error::System`] when
    /// the memory map cannot be read. Nothing is patched then.
    pub fn install(hooks: &[Hook], filter: Filter, later: Later) -> Result<(Self, Report), Error> {
        let mut resolved = hooks.to_vec();
        resolved.retain(has_definition);
        if resolved.is_empty() {
            let names: Vec<_> = hooks.iter().map(|hook| hook.symbol).collect();
            return Err(Error::SymbolNotFound {
                symbol: names.join(" or "),
                searched: vec!["dlsym(RTLD_NEXT)".into(), "dlsym(RTLD_DEFAULT)".into()],
            });
        }
        // ORDERING: Relaxed; what a forked child had set for itself.
        IGNORES_LATER.store(false, Ordering::Relaxed);
        // dlsym takes another lock of glibc's linker, which comes before the one that `with` takes.
        let loader_hooks = loader::hooks().to_vec();
        for hook in &loader_hooks {
            // The linker's own `__loader_` functions may be hidden from dlsym: their slots tell.
            has_definition(hook);
        }
        let mut owner = Owner::new(resolved, filter, later);
        let (id, mut report) = State::with(|state, settled| {
            let report = owner.refresh(settled)?;
            state.last_id += 1;
            state.owners.insert(state.last_id, owner);
            state.watch_if_wanted(settled, loader_hooks);
            Ok((state.last_id, report))
        })?;
        let registry = Self { id };
        report.append(registry.refresh()?);
        Ok((registry, report))
    }

    /// Hooks what was loaded since. Nothing is looked at when nothing was.
    ///
    /// # Errors
    /// [`Error::System`] when the memory map cannot be read.
    pub fn refresh(&self) -> Result<Report, Error> {
        let mut all = Report::default();
        for _ in 0..MAX_PASSES {
            let pass = State::with(|state, settled| match state.owners.get_mut(&self.id) {
                Some(owner) => owner.refresh(settled).map(|report| (report, owner.is_complete())),
                None => Ok((Report::default(), true)),
            });
            let (report, complete) = pass?;
            all.append(report);
            if complete {
                break;
            }
        }
        Ok(all)
    }

    /// Gives every slot back that still holds our pointer.
    ///
    /// # Errors
    /// [`Error::System`] when the memory map cannot be read; the proxies stay in place then, and
    /// pass everything on.
    pub fn uninstall(&self) -> Result<Report, Error> {
        State::with(|state, settled| {
            let Some(mut owner) = state.owners.remove(&self.id) else {
                return Ok(Report::default());
            };
            let report = owner.give_back();
            state.watch_if_wanted(settled, Vec::new());
            report
        })
    }

    /// Every slot that is ours, library by library.
    #[must_use]
    pub fn hooked(&self) -> Vec<ModuleReport> {
        State::with(|state, _| state.owners.get(&self.id).map(Owner::hooked).unwrap_or_default())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // What cannot be given back passes everything on.
        let _ = self.uninstall();
    }
}

/// Whether later libraries are not looked for: see [`ignore_later_libraries`].
static IGNORES_LATER: AtomicBool = AtomicBool::new(false);

/// For a forked child that records nothing: its calls of `dlsym` and `dlopen` look for no new library
/// any more, until something is installed anew. A look takes the dynamic linker's lock, which another
/// thread of the parent may have held when it forked: the child would wait for ever.
pub fn ignore_later_libraries() {
    // ORDERING: Relaxed; the child has one thread.
    IGNORES_LATER.store(true, Ordering::Relaxed);
}

/// A library was loaded or unloaded: hooks what is new. Called by the `dlopen` proxies.
pub(crate) fn libraries_changed() {
    // ORDERING: Relaxed; see above.
    if IGNORES_LATER.load(Ordering::Relaxed) {
        return;
    }
    // Without allocating: `dlsym` is called in odd places, an allocator's own start among them.
    if LoadCounters::now().is_some_and(|counters| counters.are_seen()) {
        return;
    }
    for _ in 0..MAX_PASSES {
        let settled = Settled::now();
        let complete = with_linker_lock(|| {
            let mut state = match STATE.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // ORDERING: SeqCst, with the swap in `State::with`: either the holder sees the
                    // note after it has let go of the lock, or the lock was free when we tried.
                    NOTED.store(true, Ordering::SeqCst);
                    return true;
                }
            };
            let State { owners, loader, .. } = &mut *state;
            let watching = owners.values_mut().filter(|owner| owner.watches());
            let mut complete = true;
            for owner in loader.iter_mut().chain(watching) {
                // When the memory map cannot be read the next load tries again.
                complete &= owner.refresh(&settled).is_err() || owner.is_complete();
            }
            if complete && let Some(counters) = LoadCounters::now() {
                counters.mark_seen();
            }
            complete
        });
        if complete {
            break;
        }
    }
}

/// How often a pass is repeated because libraries were being loaded meanwhile. They are hooked
/// at the end of their own `dlopen` besides.
const MAX_PASSES: u32 = 8;

/// The one lock around patching, and everything that is hooked.
static STATE: Mutex<State> =
    Mutex::new(State { owners: BTreeMap::new(), last_id: 0, loader: None });
/// A library was loaded while the lock was held.
static NOTED: AtomicBool = AtomicBool::new(false);

struct State {
    owners: BTreeMap<u64, Owner>,
    last_id: u64,
    /// The hooks on `dlopen`, while an owner watches.
    loader: Option<Owner>,
}

impl State {
    /// Calls `body` with the state locked, then looks after what was noted meanwhile.
    fn with<T>(body: impl FnOnce(&mut Self, &Settled) -> T) -> T {
        let settled = Settled::now();
        let result = with_linker_lock(|| {
            let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            body(&mut state, &settled)
        });
        // ORDERING: SeqCst, see `libraries_changed`.
        if NOTED.swap(false, Ordering::SeqCst) {
            libraries_changed();
        }
        result
    }

    /// Hooks the loading functions with `hooks` while an owner wants to know of later libraries.
    fn watch_if_wanted(&mut self, settled: &Settled, hooks: Vec<Hook>) {
        let wanted = self.owners.values().any(Owner::watches);
        match &mut self.loader {
            None if wanted => {
                let mut owner = Owner::new(hooks, Box::new(|_| true), Later::Watch);
                let _ = owner.refresh(settled);
                self.loader = Some(owner);
            }
            Some(owner) if !wanted => {
                let _ = owner.give_back();
                self.loader = None;
            }
            _ => {}
        }
    }
}

struct Owner {
    hooks: Vec<Hook>,
    filter: Filter,
    later: Later,
    known: HashMap<ModuleKey, Vec<OwnedSlot>>,
    counters: Option<LoadCounters>,
}

impl Owner {
    fn new(hooks: Vec<Hook>, filter: Filter, later: Later) -> Self {
        Self { hooks, filter, later, known: HashMap::new(), counters: None }
    }

    fn watches(&self) -> bool {
        self.later == Later::Watch
    }

    /// Whether the last pass saw every library whole.
    fn is_complete(&self) -> bool {
        self.counters.is_some() || !LoadCounters::exist()
    }

    fn refresh(&mut self, settled: &Settled) -> Result<Report, Error> {
        let mut report = Report::default();
        if self.counters.is_some() && self.counters == LoadCounters::now() {
            return Ok(report);
        }
        let mut maps = Maps::read()?;
        let (mut seen, mut counters, mut complete) = (HashMap::new(), None, true);
        let Self { hooks, filter, known, .. } = self;
        for_each_module(|module| {
            counters = module.counters;
            if let Some(slots) = known.remove(&module.key)
                && (slots.is_empty() || !slots.iter().all(OwnedSlot::is_fresh))
            {
                seen.insert(module.key.clone(), slots);
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
            let (one, owned) = hook_module(module, hooks, filter, &maps, &mut report.protect_calls);
            seen.insert(module.key.clone(), owned);
            report.modules.push(one);
            true
        });
        // What is left in `known` was unloaded: its slots are gone with it.
        self.known = seen;
        self.counters = counters.filter(|_| complete);
        Ok(report)
    }

    fn give_back(&mut self) -> Result<Report, Error> {
        let maps = Maps::read()?;
        let mut report = Report::default();
        let known = &mut self.known;
        for_each_module(|module| {
            let Some(slots) = known.remove(&module.key) else { return true };
            let mut unlocked = Unlocked::new(&maps);
            let restored =
                slots.iter().map(|slot| slot.report(restore(&mut unlocked, slot))).collect();
            report.modules.push(ModuleReport {
                path: module.key.path.clone(),
                slots: restored,
                skipped: None,
            });
            report.protect_calls += unlocked.finish();
            true
        });
        known.clear();
        Ok(report)
    }

    fn hooked(&self) -> Vec<ModuleReport> {
        let mut modules: Vec<_> = self
            .known
            .iter()
            .map(|(key, slots)| ModuleReport {
                path: key.path.clone(),
                slots: slots.iter().map(|slot| slot.report(Outcome::Hooked)).collect(),
                skipped: None,
            })
            .collect();
        modules.sort_by(|a, b| a.path.cmp(&b.path));
        modules
    }
}

/// Gives the hook's first proxy the symbol's own definition; false where there is none.
fn has_definition(hook: &Hook) -> bool {
    let (Some(first), Some(definition)) = (hook.proxies.first(), definition_of(hook.symbol)) else {
        return false;
    };
    // ORDERING: Release, pairs with the load in the proxy; the slot that leads callers there is
    // written afterwards.
    first.previous.store(definition, Ordering::Release);
    true
}

/// The symbol's definition behind us in search order.
///
/// RTLD_NEXT first: in a program that is not position independent RTLD_DEFAULT may name the
/// program's own PLT stub, which jumps through a slot that is about to be ours.
fn definition_of(symbol: &str) -> Option<usize> {
    let name = CString::new(symbol).ok()?;
    [libc::RTLD_NEXT, libc::RTLD_DEFAULT].into_iter().find_map(|scope| {
        // SAFETY: a NUL-terminated name and a scope that needs no handle.
        let address = unsafe { libc::dlsym(scope, name.as_ptr()) } as usize;
        (address != 0).then_some(address)
    })
}
